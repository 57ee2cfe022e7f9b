//! Collapsed stacks.

use super::exported::exported;
use iowhy_analysis::formats::collapsed::{Collapsed, FrameWeight};
use iowhy_model::script::Script;

#[test]
fn stacks_are_outermost_first_and_weighed() {
    let mut script = Script::new(1);
    let kernel = ["submit_bio", "vfs_read"];
    script.read("sda", 10).bio(2_000).by(1, "a b;c").stacks(&kernel, &["read", "main"], 3).add();
    script.read("sda", 10).bio(2_001).by(1, "a b;c").stacks(&kernel, &["read", "main"], 1).add();
    script.read("sda", 99).bio(5_000).by(1, "a b;c").add();
    script.read("sda", 7).bio(9_000).stacks(&["kworker\nx"], &[], 0).add();
    for (weight, first, second) in
        [(FrameWeight::Requests, 4, 1), (FrameWeight::Bytes, 40, 7), (FrameWeight::Time, 9, 9)]
    {
        let (bytes, exported) = exported(&script, &mut Collapsed::new(weight));
        let expected =
            format!("[kernel];kworker_x {second}\na_b_c;main;read;vfs_read;submit_bio {first}\n");
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        assert_eq!((exported.rows, exported.notes.len()), (3, 0));
    }
    let (bytes, exported) = exported(&Script::new(1), &mut Collapsed::new(FrameWeight::Time));
    assert_eq!((bytes.len(), exported.notes.len()), (0, 1));
}
