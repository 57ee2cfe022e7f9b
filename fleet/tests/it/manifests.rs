//! The manifests for Kubernetes pass options that the program has. Their schemas are checked by
//! `scripts/test-kubernetes`.

use crate::support::program;

const MANIFEST: &str = include_str!("../../../packaging/kubernetes/fleet.yaml");

fn help(command: &str) -> String {
    let output = program().args([command, "--help"]).output().unwrap();
    assert!(output.status.success(), "there is no command {command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn options_of_the_manifests_exist() {
    let lines = MANIFEST.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = lines.flat_map(|line| line.split([' ', '"', ',', '[', ']']));
    let (mut command, mut found) = (String::new(), 0);
    for word in words {
        if ["push", "compact", "scheduler", "executor"].contains(&word) {
            word.clone_into(&mut command);
        } else if word.starts_with("--") && word.len() > 3 {
            assert!(help(&command).contains(&format!("{word} ")), "{command} {word}");
            found += 1;
        }
    }
    assert!(found >= 9, "only {found} options are read");
}

#[test]
fn variables_of_the_manifests_are_read() {
    let text = help("push");
    for line in MANIFEST.lines().map(str::trim).filter(|line| line.starts_with("IOWHY_")) {
        let name = line.split(':').next().unwrap();
        assert!(text.contains(name), "{name}");
    }
}
