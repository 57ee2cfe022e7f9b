//! The table in `docs/findings.md` of causes whose impact is an upper bound.

use iowhy_diagnosis::rules::ALL;

#[test]
fn the_table_of_bounds_is_current() {
    let mut table = "| cause | the impact is | why an upper bound |\n|---|---|---|\n".to_owned();
    for rule in ALL {
        if let Some([what, why]) = rule.bound {
            table += &format!("| `{}` | {what} | {why} |\n", rule.cause);
        }
    }
    crate::table_is_current("findings.md", "bounds", &table);
}
