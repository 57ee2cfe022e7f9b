//! What holds for every rule.

use super::*;
use crate::script::Script;
use std::collections::BTreeSet;

#[test]
fn nothing_is_found_in_nothing() {
    for script in [Script::new(10), Script::new(0)] {
        let diagnosis = diagnose(&script.summary());
        assert_eq!(diagnosis.findings, []);
        assert_eq!(diagnosis.clear + diagnosis.not_judged.len(), rules::ALL.len());
    }
}

#[test]
fn causes_are_told_apart() {
    let names: BTreeSet<&str> = rules::ALL.iter().map(|rule| rule.cause).collect();
    assert_eq!(names.len(), rules::ALL.len());
    for rule in rules::ALL {
        assert!(rule.mechanism.ends_with('.') && rule.changes.ends_with('.'), "{}", rule.cause);
        assert!(!rule.title.ends_with('.'), "{}", rule.cause);
    }
}

#[test]
fn no_symptom_explains_its_cause() {
    assert_eq!(rank::cycles(), Vec::<&str>::new());
    for cause in rank::known() {
        assert!(rules::rule_of(cause).is_some(), "{cause} is no cause");
    }
}
