//! Where a number is from that no data print: between `{{given SOURCE}}` and `{{end}}`.

use std::collections::BTreeMap;
use std::path::Path;

use super::prose;

/// Who says a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GivenBy {
    /// The paper, which is quoted.
    Paper,
    /// The rule at the head of the page.
    Rule,
    /// Whoever measured, of the machine and of how it was done.
    Author,
    /// The page of before: what is said to be withdrawn.
    Withdrawn,
    /// A file of the repository, in which it stands.
    File(String),
}

/// The words of one file.
pub(super) struct GivenWords {
    source: GivenBy,
    /// What stands in the file.
    text: Option<String>,
}

impl GivenWords {
    /// Reads who says it; a file's path is one from the directory of the page's sources.
    pub fn open(source: &str, directory: &Path) -> Result<GivenWords, String> {
        let source = match source {
            "paper" => GivenBy::Paper,
            "rule" => GivenBy::Rule,
            "author" => GivenBy::Author,
            "withdrawn" => GivenBy::Withdrawn,
            path if path.contains(['/', '.']) => GivenBy::File(path.to_owned()),
            other => {
                return Err(format!(
                    "{other:?} says no number; there are: paper, rule, author, withdrawn, and the path of a \
                     file that holds it"
                ));
            }
        };
        let text = match &source {
            GivenBy::File(path) => {
                let text = std::fs::read_to_string(directory.join(path));
                let text = text.map_err(|error| format!("{path}: {error}"))?;
                // There a comma ends a number, and groups no digits.
                Some(if path.ends_with(".csv") { text.replace(',', " ") } else { text })
            }
            _ => None,
        };
        Ok(GivenWords { source, text })
    }

    /// Counts the numbers of what it says; one that does not stand in its file is refused.
    pub fn count(&self, words: &str, counts: &mut GivenCounts) -> Result<(), String> {
        let numbers = prose::numbers(words);
        if let (GivenBy::File(path), Some(text)) = (&self.source, &self.text) {
            let strange = numbers.iter().map(|place| &words[place.clone()]);
            if let Some(number) = strange.into_iter().find(|number| !prose::holds(text, number)) {
                return Err(format!("{number} does not stand in {path}"));
            }
        }
        *counts.0.entry(self.source.clone()).or_default() += numbers.len();
        Ok(())
    }
}

/// How many numbers of sentences each has said.
#[derive(Debug, Default)]
pub(super) struct GivenCounts(BTreeMap<GivenBy, usize>);

impl GivenCounts {
    /// In words: `9 the papers', 12 of this page's rule`.
    pub fn words(&self) -> String {
        let of_files = self.0.iter().filter(|(source, _)| matches!(source, GivenBy::File(_)));
        let of_files: usize = of_files.map(|(_, count)| count).sum();
        let of = |source: &GivenBy| self.0.get(source).copied().unwrap_or(0);
        let parts = [
            (of(&GivenBy::Paper), "of a paper"),
            (of_files, "of an experiment, a model or a document of this repository, where they stand"),
            (of(&GivenBy::Rule), "of the rule above"),
            (of(&GivenBy::Author), "of the machine, as told by whoever measured"),
            (of(&GivenBy::Withdrawn), "of what is withdrawn"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("{count} {words}"))
            .collect();
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_to_hold_what_it_is_said_to_give() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.toml"), "rows = 1_000\nturn_us = 11000\n").unwrap();
        std::fs::write(directory.path().join("a.csv"), "mode,calls\nwal,100,303\n").unwrap();
        let mut counts = GivenCounts::default();
        let table = GivenWords::open("./a.csv", directory.path()).unwrap();
        table.count("303 of 100", &mut GivenCounts::default()).unwrap();
        assert!(table.count("100,303", &mut GivenCounts::default()).is_err());
        let given = GivenWords::open("./a.toml", directory.path()).unwrap();
        given.count("of 1,000 rows", &mut counts).unwrap();
        assert!(given.count("12 rows", &mut counts).unwrap_err().contains("12 does not stand in ./a.toml"));
        GivenWords::open("paper", directory.path()).unwrap().count("0.16 s, 7", &mut counts).unwrap();
        assert!(counts.words().starts_with("2 of a paper · 1 of an experiment"), "{}", counts.words());
        assert!(
            GivenWords::open("nobody", directory.path())
                .is_err_and(|error| error.contains("there are: paper"))
        );
        assert!(
            GivenWords::open("./b.toml", directory.path())
                .is_err_and(|error| error.starts_with("./b.toml: "))
        );
    }
}
