//! Differences of the environment that can explain times that differ.
//!
//! What does not belong here: finding either (see [`super::environment`], [`super::times`]).

use super::environment::Difference;
use super::times::TimeGroup;
use iowhy_model::compact_sort::CompactSort;

/// Marks differences that can explain a part that differs, moves them to the front, and gives each
/// such part its differences.
pub(super) fn link(differences: &mut [Difference], groups: &mut [TimeGroup]) {
    let moved = |what: &[&'static str]| {
        let parts = groups.iter().filter(|group| group.moved).flat_map(|group| &group.parts);
        parts.filter(|part| part.moved).any(|part| what.contains(&part.what))
    };
    let any = groups.iter().any(|group| group.moved);
    for difference in differences.iter_mut() {
        difference.explains = moved(&difference.can_explain) || (difference.explains_all && any);
    }
    // A difference that explains one stage comes before one that may explain any.
    differences.compact_sort_by_key(|difference| (!difference.explains, difference.explains_all));
    link_parts(groups, differences);
}

/// Assigns to each part that differs the differences of the environment that can explain it.
fn link_parts(groups: &mut [TimeGroup], differences: &[Difference]) {
    for part in groups.iter_mut().flat_map(|group| &mut group.parts).filter(|part| part.moved) {
        let explains = |difference: &Difference| {
            difference.can_explain.contains(&part.what) || difference.explains_all
        };
        let indices = differences.iter().enumerate().filter(|(_, difference)| explains(difference));
        part.beside = indices.map(|(index, _)| index).collect();
    }
}
