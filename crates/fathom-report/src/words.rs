//! Words that all forms of a report share: durability classes, and lists as a sentence has them.

use fathom_lab::analysis::Analysis;
use fathom_lab::naming;
pub use fathom_lab::naming::joined;
use fathom_lab::store::Results;
use fathom_workload::spec::Durability;

/// What a durability class promises, in the words of all tables.
pub fn durability_text(durability: Option<Durability>) -> &'static str {
    match durability {
        None => "not known",
        Some(Durability::None) => "nothing",
        Some(Durability::ProcessCrash) => "process crash only",
        Some(Durability::PowerCutPrefix) => "power cut, a prefix",
        Some(Durability::PowerCutAllButLast) => "power cut, all but the last",
        Some(Durability::PowerCut) => "power cut, all",
        Some(Durability::OneNode) => "survives one node",
    }
}

/// What all of these count; where they count several things it is executions, which each of them
/// is.
pub fn common_unit<'a>(mut units: impl Iterator<Item = &'a str>) -> &'a str {
    let first = units.next();
    first.filter(|first| units.all(|other| other == *first)).unwrap_or("execution")
}

/// Whether what all cells count as transactions of a phase are commits: those of a trace may only
/// read.
pub fn are_commits(results: &Results, analysis: &Analysis, phase: &str) -> bool {
    let of_phase = analysis.measures.iter().filter(|measure| measure.phase == phase);
    of_phase.filter_map(|measure| results.cell(measure.cell)).all(naming::are_commits)
}

/// How many comparisons there are besides those that are shown.
pub fn more_comparisons(number: usize) -> String {
    format!("{number} more {}", if number == 1 { "comparison" } else { "comparisons" })
}

/// What is excepted of *every journal mode* or *no journal mode*: ` but PERSIST`, or nothing.
pub fn but(modes: &[&str]) -> String {
    let modes: Vec<String> = modes.iter().map(|mode| mode.to_uppercase()).collect();
    if modes.is_empty() { String::new() } else { format!(" but {}", joined(&modes)) }
}

/// The words without repetitions and empty ones, in order.
pub fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for word in words {
        if !word.is_empty() && !all.contains(&word) {
            all.push(word);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the axis of a figure of a chat's updates and queries said "queries per
    /// second", for the last phase gave all of them its unit; and operations on files stood among
    /// "Commits per second", where a cell with commits came first.
    #[test]
    fn what_counts_several_things_counts_executions() {
        let of = |units: &[&'static str]| common_unit(units.iter().copied());
        assert_eq!(of(&["transaction", "transaction"]), "transaction");
        assert_eq!(of(&["transaction", "query"]), "execution");
        assert_eq!(of(&[]), "execution");
    }

    #[test]
    fn one_comparison_more_is_no_plural() {
        assert_eq!([1, 2].map(more_comparisons), ["1 more comparison", "2 more comparisons"]);
    }

    #[test]
    fn where_nothing_is_excepted_no_exception_is_told() {
        assert_eq!(but(&[]), "");
        assert_eq!(but(&["persist"]), " but PERSIST");
        assert_eq!(but(&["delete", "truncate", "persist"]), " but DELETE, TRUNCATE and PERSIST");
    }
}
