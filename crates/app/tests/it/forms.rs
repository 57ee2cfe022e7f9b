//! `-o FORM` is another way to write `--json`.

use crate::{answer, iowhy, labs};

#[test]
fn a_form_is_what_its_flag_prints() {
    let lab = labs().remove(0);
    let source = lab.to_str().unwrap();
    let printed = |flags: &[&str]| answer([&["report"], flags, &[source]].concat());
    assert_eq!(printed(&["-o", "json"]), printed(&["--json"]));
    assert_eq!(printed(&["-o", "brief"]), printed(&["--json=brief"]));
    assert_eq!(printed(&["--output=text"]), printed(&[]));
    for wrong in [&["-o", "yaml"][..], &["-o", "json", "--json"]] {
        let output = iowhy([&["report"], wrong, &[source]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
