//! Ratios that no results hold: of a table of counts (CSV), and such as a document states.

use std::path::Path;

use fathom_lab::stats::{Comparison, range_ratio};
use serde::Deserialize;

use super::select::Choice;
use super::sheet::Sheet;

/// A quotient of two counts of one CSV.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    /// The CSV, beside the page's sources.
    pub file: String,
    /// The lines that are counted, `column:value`, and the column …
    pub of: (Choice, String),
    /// … and those that they are compared with.
    pub over: (Choice, String),
}

impl Counts {
    /// The quotient of the means, from the least to the largest that any two lines make.
    pub fn ratio(&self, directory: &Path) -> Result<Comparison, String> {
        let sheet = Sheet::read(&self.file, directory)?;
        let (of, over) = (sheet.numbers(&self.of.0, &self.of.1)?, sheet.numbers(&self.over.0, &self.over.1)?);
        range_ratio(&of, &over).ok_or_else(|| format!("{}: nothing was counted", self.file))
    }
}

/// Reads `received 10.7 [7.6, 16.3]`: a name, which may be missing, a ratio and its bracket.
pub(super) fn quoted(text: &str) -> Result<(String, Comparison), String> {
    let strange = || format!("{text:?} is no `name ratio [low, high]`");
    let (before, bracket) = text.trim_end_matches(']').split_once('[').ok_or_else(strange)?;
    let (name, ratio) = before.trim().rsplit_once(' ').unwrap_or(("", before.trim()));
    let (low, high) = bracket.split_once(", ").ok_or_else(strange)?;
    let number = |word: &str| word.trim_end_matches('x').parse::<f64>().map_err(|_| strange());
    let [ratio, low, high] = [number(ratio)?, number(low)?, number(high)?];
    Ok((name.to_owned(), Comparison { ratio, low, high, proven: low > 1.0 || high < 1.0, n: 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_divided() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.csv"), "fs,kib\nntfs,10\next2,40\nntfs,10\next2,50\n")
            .unwrap();
        let side = |fs: &str| (Choice::parse(&format!("fs:{fs}")).unwrap(), "kib".to_owned());
        let counts = Counts { file: "a.csv".into(), of: side("ntfs"), over: side("ext2") };
        let ratio = counts.ratio(directory.path()).unwrap();
        assert_eq!((ratio.low, ratio.high), (0.2, 0.25));
        let none = Counts { of: side("xfs"), ..counts.clone() };
        assert!(none.ratio(directory.path()).unwrap_err().contains("no line"));
        let other = Counts { of: (Choice::default(), "mib".into()), ..counts };
        assert!(other.ratio(directory.path()).unwrap_err().contains("no column"));
    }

    #[test]
    fn a_document_states_a_ratio_with_its_bracket() {
        let (name, ratio) = quoted("mmdb, sent 14x [11, 21]").unwrap();
        assert_eq!((name.as_str(), ratio.ratio, ratio.low, ratio.high), ("mmdb, sent", 14.0, 11.0, 21.0));
        assert_eq!(quoted("0.7 [0.66, 0.82]").unwrap().0, "");
        assert!(quoted("14x").is_err() && quoted("14x [11]").is_err());
    }
}
