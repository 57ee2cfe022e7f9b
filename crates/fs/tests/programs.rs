//! Programs that root starts are those of the system.

use iowhy_fs::programs;
use std::path::Path;

#[test]
fn a_program_is_found_where_the_system_has_it() {
    let found = programs::find("sh").unwrap();
    let places = ["/usr", "/bin", "/sbin"];
    assert!(places.iter().any(|place| found.starts_with(place)), "{}", found.display());
    assert_eq!(programs::find("no-such-program"), None);
    // Files of the caller's own directory, where cargo runs tests, are not among them.
    assert!(Path::new("Cargo.toml").exists());
    assert_eq!(programs::find("Cargo.toml"), None);
}
