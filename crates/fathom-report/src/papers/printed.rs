//! What the page says of a finding.

use fathom_lab::stats::Comparison;

use super::verdict::Verdict;

/// What was said of a finding.
#[derive(Clone, Debug)]
pub struct PrintedFinding {
    /// The name of its table.
    pub table: String,
    /// The finding.
    pub finding: String,
    /// The data set that it is of, where it is of one.
    pub data: Option<String>,
    /// What was measured.
    pub measured: String,
    /// The same, as ratios or shares in their order; none where nothing was measured.
    pub ratios: Vec<Comparison>,
    /// The verdict.
    pub verdict: Verdict,
}

impl PrintedFinding {
    /// Whether a number is another than the published one, whatever the verdict: their intervals
    /// share nothing, or one leaves out 1 where the other does not.
    #[must_use]
    pub fn is_another_number(&self, published: &PrintedFinding) -> bool {
        let is_another = |(now, before): (&Comparison, &Comparison)| {
            now.low > before.high || now.high < before.low || now.proven != before.proven
        };
        self.ratios.len() != published.ratios.len()
            || self.ratios.iter().zip(&published.ratios).any(is_another)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: six verdicts that the author states "were the same" with new data, as they
    /// would have been with any; of two of them the new intervals held 1, where the published
    /// ones did not.
    #[test]
    fn a_stated_verdict_does_not_hide_another_number() {
        let of = |ratios: &[(f64, f64)]| PrintedFinding {
            table: "P3-logdev".to_owned(),
            finding: String::new(),
            data: None,
            measured: String::new(),
            ratios: ratios
                .iter()
                .map(|&(low, high)| Comparison {
                    ratio: f64::midpoint(low, high),
                    low,
                    high,
                    proven: low > 1.0 || high < 1.0,
                    n: 5,
                })
                .collect(),
            verdict: Verdict::ByConstruction,
        };
        let published = of(&[(1.1, 1.2), (1.02, 1.08)]);
        assert!(!of(&[(1.15, 1.3), (1.01, 1.03)]).is_another_number(&published));
        assert!(of(&[(1.21, 1.3), (1.02, 1.08)]).is_another_number(&published), "above");
        assert!(of(&[(1.1, 1.2), (0.9, 1.01)]).is_another_number(&published), "below");
        assert!(of(&[(1.1, 1.2), (0.99, 1.08)]).is_another_number(&published), "holds 1");
        assert!(of(&[(1.1, 1.2)]).is_another_number(&published), "one is missing");
    }
}
