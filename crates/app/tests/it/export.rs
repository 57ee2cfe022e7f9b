//! An export without a row says why.

use crate::{iowhy, labs};

#[test]
fn an_empty_export_says_why() {
    let lab = labs().remove(0);
    for (format, more, why) in [
        ("iolog", &["-f", "/nosuch"][..], "nothing was exported: --file /nosuch keeps none of "),
        ("iolog-v2", &["--flags", "Z"][..], "nothing was exported: --flags Z keeps none of "),
        (
            "perfetto",
            &["-p", "nobody"][..],
            "nothing was exported: --process nobody keeps none of ",
        ),
        ("csv", &["--table", "events"][..], "note: there are no events"),
        ("csv", &["--table", "waits", "-p", "nobody"][..], "the table waits has no matching rows"),
    ] {
        let mut arguments = vec!["export", lab.to_str().unwrap(), "--format", format];
        arguments.extend(more);
        let output = iowhy(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && message.contains(why), "{format}: {message}");
    }
}
