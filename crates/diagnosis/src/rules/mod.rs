//! The causes, one file each: a file in this folder is a cause.
//!
//! A threshold is a constant with its source; "chosen" means chosen here and checked by the labs'
//! near misses and controls.

use super::claims::Claims;
use super::facts::{self, Facts, health};
use super::finding::{Confidence, Finding, ImpactOf, Severity};
use super::missing::Missing;
use super::rule::RuleVerdict::Clear;
use super::rule::{Judged, LeastData, Rule, RuleVerdict, clear_if, rule};
use super::subject::Subject;
use super::words;
use iowhy_analysis::summary::patterns::WaitGroup;
use iowhy_analysis::summary::{DeviceSummary, Direction, Interval};
use iowhy_model::{Origin, WaitClass};

// The modules and `ALL`, made by build.rs.
include!(concat!(env!("OUT_DIR"), "/rules.rs"));

/// The rule of a cause.
pub fn rule_of(cause: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.cause == cause)
}
