//! Verdicts: whether what was measured bears out what a paper found.
//!
//! The author of a finding states, before the number is known, the band of ratios that would bear
//! out the paper's words. The finding is *reproduced* if the whole 95 % interval of every ratio
//! lies in the band; a point within it is not enough. Otherwise it is *not reproduced*, and says
//! whether the cause was measured. What a model was fitted to is *by construction*, whatever the
//! ratio says, what needs a machine that is not here *cannot be tested here*, and what could be
//! measured and was not is *not measured*.

use std::fmt;

use fathom_lab::stats::Comparison;
use serde::Deserialize;

/// What is said of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every ratio's interval lies within the band.
    Reproduced,
    /// One does not, and a measurement shows why.
    CauseMeasured,
    /// One does not, and it is not known why.
    CauseUnknown,
    /// The model or the assumption says so: measuring it proves nothing.
    ByConstruction,
    /// It needs what this laboratory has not.
    CannotBeTested,
    /// It could be measured here, and was not.
    NotMeasured,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Reproduced => "reproduced",
            Verdict::CauseMeasured => "not reproduced, cause measured",
            Verdict::CauseUnknown => "not reproduced, cause unknown",
            Verdict::ByConstruction => "by construction",
            Verdict::CannotBeTested => "cannot be tested here",
            Verdict::NotMeasured => "not measured",
        })
    }
}

/// What the author may say instead of what the ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AuthorVerdict {
    ByConstruction,
    CannotBeTested,
    NotMeasured,
}

impl AuthorVerdict {
    pub fn verdict(self) -> Verdict {
        match self {
            AuthorVerdict::ByConstruction => Verdict::ByConstruction,
            AuthorVerdict::CannotBeTested => Verdict::CannotBeTested,
            AuthorVerdict::NotMeasured => Verdict::NotMeasured,
        }
    }
}

/// Whether the whole interval lies in the band. Who is *ahead* is not level: an edge that is 1 is
/// not of the band, every other one is.
fn is_within(ratio: &Comparison, [low, high]: [f64; 2]) -> bool {
    let is_above = if low == 1.0 { low < ratio.low } else { low <= ratio.low };
    let is_below = if high == 1.0 { ratio.high < high } else { ratio.high <= high };
    is_above && is_below
}

/// The verdict of ratios against the band; a band that nothing states holds nothing.
pub(super) fn of(ratios: &[Comparison], band: Option<[f64; 2]>, has_cause: bool) -> Verdict {
    let is_in_band = |ratio: &Comparison| band.is_some_and(|band| is_within(ratio, band));
    if !ratios.is_empty() && ratios.iter().all(is_in_band) {
        Verdict::Reproduced
    } else if has_cause {
        Verdict::CauseMeasured
    } else {
        Verdict::CauseUnknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_lab::stats::paired_ratio;

    fn ratio(pairs: &[(f64, f64)]) -> Comparison {
        paired_ratio(pairs).unwrap()
    }

    /// A point within the band is not enough: the whole interval has to lie there, of every ratio.
    #[test]
    fn only_whole_intervals_within_the_band_reproduce() {
        let tight = ratio(&[(2.0, 1.0), (2.02, 1.0), (1.98, 1.0), (2.01, 1.0), (1.99, 1.0)]);
        let wide = ratio(&[(2.0, 1.0), (3.0, 1.0), (1.2, 1.0), (2.5, 1.0), (1.6, 1.0)]);
        let band = Some([1.5, 2.5]);
        assert_eq!(of(&[tight], band, false), Verdict::Reproduced);
        assert!(1.5 < wide.ratio && wide.ratio < 2.5);
        assert_eq!(of(&[wide], band, false), Verdict::CauseUnknown);
        assert_eq!(of(&[tight, wide], band, true), Verdict::CauseMeasured);
        assert_eq!(of(&[], band, false), Verdict::CauseUnknown);
        assert_eq!(of(&[tight], None, false), Verdict::CauseUnknown);
        // What is equal is not cheaper.
        let equal = ratio(&[(2.0, 2.0), (3.0, 3.0), (1.5, 1.5)]);
        assert_eq!(of(&[equal], Some([0.8, 1.0]), false), Verdict::CauseUnknown);
        assert_eq!(of(&[equal], Some([0.9, 1.11]), false), Verdict::Reproduced);
        // Two runs have no interval.
        assert_eq!(of(&[ratio(&[(2.0, 1.0), (2.0, 1.0)])], band, false), Verdict::CauseUnknown);
    }
}
