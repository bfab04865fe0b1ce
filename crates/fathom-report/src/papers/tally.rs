//! How many findings have which verdict.

use std::collections::BTreeMap;

use super::printed::PrintedFinding;
use super::verdict::Verdict;

/// Every verdict, in the order of a table.
const ALL: [Verdict; 6] = [
    Verdict::Reproduced,
    Verdict::CauseMeasured,
    Verdict::CauseUnknown,
    Verdict::ByConstruction,
    Verdict::CannotBeTested,
    Verdict::NotMeasured,
];

/// Findings by their tables, and what was said of them.
#[derive(Debug, Default)]
pub(super) struct Tally(pub Vec<PrintedFinding>);

impl Tally {
    /// In a sentence.
    pub fn words(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for printed in &self.0 {
            *counts.entry(printed.verdict.to_string()).or_default() += 1;
        }
        let parts: Vec<String> = counts.iter().map(|(verdict, count)| format!("{count} {verdict}")).collect();
        format!("{} findings: {}", self.0.len(), parts.join(" · "))
    }

    /// A row for each paper, which the name of a table begins with, and one for all of them.
    pub fn table(&self) -> String {
        let mut papers: BTreeMap<&str, Vec<Verdict>> = BTreeMap::new();
        for printed in &self.0 {
            let paper = printed.table.split('-').next().unwrap_or(&printed.table);
            papers.entry(paper).or_default().push(printed.verdict);
        }
        let row = |name: &str, verdicts: &[Verdict]| {
            let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
            let counts: Vec<String> = ALL.into_iter().map(|verdict| count(verdict).to_string()).collect();
            format!("\n| {name} | {} | {} |", verdicts.len(), counts.join(" | "))
        };
        let heads: Vec<String> = ALL.iter().map(Verdict::to_string).collect();
        let mut text =
            format!("| paper | findings | {} |\n|---|---|{}", heads.join(" | "), "---|".repeat(ALL.len()));
        for (paper, verdicts) in &papers {
            text += &row(paper, verdicts);
        }
        let all: Vec<Verdict> = self.0.iter().map(|printed| printed.verdict).collect();
        text + &row("all", &all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paper_has_a_row() {
        let of = |table: &str, verdict| PrintedFinding {
            table: table.to_owned(),
            finding: String::new(),
            data: None,
            measured: String::new(),
            ratios: Vec::new(),
            verdict,
        };
        let tally = Tally(vec![
            of("P2-select", Verdict::Reproduced),
            of("P1-points", Verdict::CauseUnknown),
            of("P2-writes", Verdict::ByConstruction),
        ]);
        assert!(tally.words().starts_with("3 findings: 1 by construction · "), "{}", tally.words());
        let table = tally.table();
        assert!(
            table.starts_with("| paper | findings | reproduced | not reproduced, cause measured |"),
            "{table}"
        );
        assert!(
            table.contains("\n| P1 | 1 | 0 | 0 | 1 | 0 | 0 | 0 |\n| P2 | 2 | 1 | 0 | 0 | 1 | 0 | 0 |"),
            "{table}"
        );
        assert!(table.ends_with("\n| all | 3 | 1 | 0 | 1 | 1 | 0 | 0 |"), "{table}");
    }
}
