//! Ratios that no results hold: of a table of counts (CSV), and such as a document states.

use std::path::Path;

use fathom_lab::stats::{Comparison, paired_ratio, range_ratio};
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
    /// Whether the lines of both are of the same blocks, in the same order, and say what was
    /// measured rather than counted: then it is their paired ratio, as of measures.
    #[serde(default)]
    pub paired: bool,
}

impl Counts {
    /// The quotient of the means, from the least to the largest that any two lines make; of paired
    /// ones the geometric mean of the quotients, with its interval.
    pub fn ratio(&self, directory: &Path) -> Result<Comparison, String> {
        let sheet = Sheet::read(&self.file, directory)?;
        let (of, over) = (sheet.numbers(&self.of.0, &self.of.1)?, sheet.numbers(&self.over.0, &self.over.1)?);
        if self.paired && of.len() != over.len() {
            return Err(format!("{}: {} lines cannot be paired with {}", self.file, of.len(), over.len()));
        }
        let ratio = match self.paired {
            true => paired_ratio(&of.into_iter().zip(over).collect::<Vec<(f64, f64)>>()),
            false => range_ratio(&of, &over),
        };
        ratio.ok_or_else(|| format!("{}: nothing was counted", self.file))
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
        let (of, over) = (side("ntfs"), side("ext2"));
        let counts = Counts { file: "a.csv".into(), of, over, paired: false };
        let ratio = counts.ratio(directory.path()).unwrap();
        assert_eq!((ratio.low, ratio.high), (0.2, 0.25));
        let none = Counts { of: side("xfs"), ..counts.clone() };
        assert!(none.ratio(directory.path()).unwrap_err().contains("no line"));
        let other = Counts { of: (Choice::default(), "mib".into()), ..counts };
        assert!(other.ratio(directory.path()).unwrap_err().contains("no column"));
    }

    /// WAL against the mean of the rollback modes had the range of any two blocks in the place of
    /// an interval, by which it was in its band, and was called reproduced: rates are no counts.
    #[test]
    fn what_was_measured_in_the_same_blocks_is_paired() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.csv"), "block,wal,mean\n0,20,10\n1,60,20\n2,160,40\n")
            .unwrap();
        let all = |column: &str| (Choice::default(), column.to_owned());
        let counts = Counts { file: "a.csv".into(), of: all("wal"), over: all("mean"), paired: true };
        let blocks = [(20.0, 10.0), (60.0, 20.0), (160.0, 40.0)];
        assert_eq!(counts.ratio(directory.path()).unwrap(), paired_ratio(&blocks).unwrap());
        let range = Counts { paired: false, ..counts.clone() }.ratio(directory.path()).unwrap();
        assert_eq!((range.low, range.high), (0.5, 16.0));
        let first = (Choice::parse("block:0").unwrap(), "wal".to_owned());
        let uneven = Counts { of: first, ..counts };
        assert!(uneven.ratio(directory.path()).unwrap_err().contains("cannot be paired"));
    }

    #[test]
    fn a_document_states_a_ratio_with_its_bracket() {
        let (name, ratio) = quoted("mmdb, sent 14x [11, 21]").unwrap();
        assert_eq!((name.as_str(), ratio.ratio, ratio.low, ratio.high), ("mmdb, sent", 14.0, 11.0, 21.0));
        assert_eq!(quoted("0.7 [0.66, 0.82]").unwrap().0, "");
        assert!(quoted("14x").is_err() && quoted("14x [11]").is_err());
    }
}
