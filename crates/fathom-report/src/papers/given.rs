//! Where a number is from that no data print: between `{{given SOURCE}}` and `{{end}}`.
//!
//! A file is named with the place in it, since digits stand somewhere in any long file: before,
//! ratios of a run that nobody kept went through because other measurements of the same document
//! had their digits. A file of TOML is given by its key, any other by words that one line or
//! paragraph of it has, and a CSV not at all: what it counts is printed ([`super::sheet`]).

use std::collections::BTreeMap;
use std::path::Path;

use super::directive::Directive;
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

/// Words whose numbers somebody gives.
pub(super) struct GivenWords {
    source: GivenBy,
    /// What stands at the place of the file that is named.
    passage: Option<String>,
}

impl GivenWords {
    /// Reads who says it; a file's path is one from the directory of the page's sources.
    pub fn open(directive: &Directive, directory: &Path) -> Result<GivenWords, String> {
        directive.knows(&["key", "at"])?;
        let option = |key: &str| directive.options.get(key).map(String::as_str);
        let source = match directive.argument()? {
            "paper" => GivenBy::Paper,
            "rule" => GivenBy::Rule,
            "author" => GivenBy::Author,
            "withdrawn" => GivenBy::Withdrawn,
            path if path.contains(['/', '.']) => {
                return GivenWords::of_file(path, option("key"), option("at"), directory);
            }
            other => {
                return Err(format!(
                    "{other:?} says no number; there are: paper, rule, author, withdrawn, and the path of a \
                     file that holds it"
                ));
            }
        };
        match directive.options.keys().next() {
            Some(option) => Err(format!("{option}= is a place of a file")),
            None => Ok(GivenWords { source, passage: None }),
        }
    }

    /// Reads the place of a file: the values of keys of TOML, with commas between them, or the one
    /// line or paragraph that has certain words.
    pub fn of_file(
        path: &str,
        key: Option<&str>,
        at: Option<&str>,
        directory: &Path,
    ) -> Result<GivenWords, String> {
        if path.ends_with(".csv") {
            return Err(format!(
                "{path}: numbers of a CSV are printed: {{{{counted {path} column=NAME …}}}}"
            ));
        }
        let text = std::fs::read_to_string(directory.join(path));
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        let passage = match (key, at) {
            (Some(keys), None) => {
                let found: toml::Value = toml::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
                let of = |key: &str| value_of(&found, key).ok_or_else(|| format!("{path}: no key {key}"));
                keys.split(',').map(of).collect::<Result<Vec<_>, _>>()?.join("\n")
            }
            (None, Some(words)) => passage(&text, words).map_err(|problem| format!("{path}: {problem}"))?,
            _ => {
                return Err(format!(
                    "say where in {path} it stands: key=NAME.NAME of a file of TOML, or at=WORDS that one \
                     line or paragraph of it has"
                ));
            }
        };
        Ok(GivenWords { source: GivenBy::File(path.to_owned()), passage: Some(passage) })
    }

    /// Counts the numbers of what it says; one that does not stand at its place is refused.
    pub fn count(&self, words: &str, counts: &mut GivenCounts) -> Result<(), String> {
        let numbers = prose::numbers(words);
        let quantities = prose::quantities(words);
        if let (GivenBy::File(path), Some(passage)) = (&self.source, &self.passage) {
            let mut places = numbers.iter().map(|place| &words[place.clone()]);
            let mut spoken = quantities.iter().map(|place| &words[place.clone()]);
            let strange = places.find(|number| !prose::holds(passage, number));
            let strange = strange.or_else(|| spoken.find(|word| !prose::has_word(passage, word)));
            if let Some(number) = strange {
                return Err(format!("{number} does not stand in {path}, there where it says"));
            }
        }
        *counts.numbers.entry(self.source.clone()).or_default() += numbers.len() + quantities.len();
        Ok(())
    }
}

/// The value of a key `a.b.c` as TOML has it.
fn value_of(found: &toml::Value, key: &str) -> Option<String> {
    key.split('.').try_fold(found, |value, part| value.get(part)).map(toml::Value::to_string)
}

/// The one line of a table or of code, or paragraph or entry of a list, that has certain words,
/// however its lines are broken.
fn passage(text: &str, words: &str) -> Result<String, String> {
    let mut passages: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines().map(str::trim) {
        let is_by_itself = line.is_empty() || ["|", "//", "#"].iter().any(|begin| line.starts_with(begin));
        match (is_open && !is_by_itself && !line.starts_with("- "), passages.last_mut()) {
            (true, Some(last)) => {
                last.push(' ');
                last.push_str(line);
            }
            _ => passages.push(line.to_owned()),
        }
        is_open = !is_by_itself;
    }
    let mut found = passages.into_iter().filter(|passage| passage.contains(words));
    match (found.next(), found.count()) {
        (Some(passage), 0) => Ok(passage),
        (None, _) => Err(format!("no line or paragraph has the words {words:?}")),
        (Some(_), more) => Err(format!("{} lines or paragraphs have the words {words:?}", more + 1)),
    }
}

/// How many numbers of sentences each has said.
#[derive(Debug, Default)]
pub(super) struct GivenCounts {
    numbers: BTreeMap<GivenBy, usize>,
    /// Words of quantity that are of nothing that was measured.
    plain: usize,
}

impl GivenCounts {
    /// Prints words of quantity that are of nothing that was measured, and counts them. Digits are
    /// none: they say who gives them.
    pub fn plain(&mut self, directive: &Directive) -> Result<String, String> {
        directive.knows(&[])?;
        let words = directive.arguments.join(" ");
        let quantities = prose::quantities(&words).len();
        if quantities == 0 || words.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(format!(
                "plain is for words of quantity, such as two or half, and not for {words:?}"
            ));
        }
        self.plain += quantities;
        Ok(words)
    }

    /// In words: `9 the papers', 12 of this page's rule`.
    pub fn words(&self) -> String {
        let of_files = self.numbers.iter().filter(|(source, _)| matches!(source, GivenBy::File(_)));
        let of_files: usize = of_files.map(|(_, count)| count).sum();
        let of = |source: &GivenBy| self.numbers.get(source).copied().unwrap_or(0);
        let parts = [
            (of(&GivenBy::Paper), "of a paper"),
            (of_files, "of an experiment, a model or a document of this repository, where they stand"),
            (of(&GivenBy::Rule), "of the rule above"),
            (of(&GivenBy::Author), "of the machine, as told by whoever measured"),
            (of(&GivenBy::Withdrawn), "of what is withdrawn"),
            (self.plain, "in words that are of nothing measured"),
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

    fn open(words: &str, directory: &Path) -> Result<GivenWords, String> {
        GivenWords::open(&Directive::parse(&format!("given {words}")).unwrap(), directory)
    }

    #[test]
    fn a_file_has_to_hold_what_it_is_said_to_give() {
        let directory = tempfile::tempdir().unwrap();
        let toml = "title = \"12 of them\"\n[workload]\nrows = 1_000\nranges = [10, 20]\n";
        std::fs::write(directory.path().join("a.toml"), toml).unwrap();
        std::fs::write(directory.path().join("a.csv"), "mode,calls\nwal,100,303\n").unwrap();
        let mut counts = GivenCounts::default();
        let given = open("./a.toml key=workload.rows,workload.ranges", directory.path()).unwrap();
        given.count("of 1,000 rows and 20", &mut counts).unwrap();
        // The digits stand in the file, and elsewhere.
        assert!(given.count("12 rows", &mut counts).unwrap_err().contains("12 does not stand in ./a.toml"));
        assert!(given.count("half", &mut counts).unwrap_err().contains("half does not stand"));
        open("paper", directory.path()).unwrap().count("0.16 s, 7, twice", &mut counts).unwrap();
        assert!(counts.words().starts_with("3 of a paper · 2 of an experiment"), "{}", counts.words());
        let refused = |words: &str| open(words, directory.path()).err().unwrap();
        assert!(refused("nobody").contains("there are: paper"));
        assert!(refused("paper key=a").contains("a place of a file"));
        assert!(refused("./b.toml key=a").starts_with("./b.toml: "));
        assert!(refused("./a.toml").contains("say where in ./a.toml"));
        assert!(refused("./a.toml key=workload.columns").contains("no key workload.columns"));
        assert!(refused("./a.csv at=wal").contains("are printed: {{counted ./a.csv"));
    }

    #[test]
    fn plain_words_are_words_of_quantity() {
        let mut counts = GivenCounts::default();
        let mut plain = |words: &str| counts.plain(&Directive::parse(&format!("plain {words}")).unwrap());
        assert_eq!(plain("two of three").unwrap(), "two of three");
        assert!(plain("many").unwrap_err().contains("words of quantity") && plain("two 7").is_err());
        assert_eq!(counts.words(), "2 in words that are of nothing measured");
    }

    /// Two ratios of a run that nobody kept stood in the page as those of a document that has their
    /// digits in other measurements.
    #[test]
    fn a_document_gives_what_one_of_its_passages_has() {
        let text =
            "Kept: 5.7x, and\n6.1x in all.\n\n| mmdb | 0.76 |\n| sqlite | 0.71 |\n\n- It is 3.\n- Or 4.\n";
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.md"), text).unwrap();
        let given = |at: &str, words: &str| {
            let given = open(&format!("./a.md 'at={at}'"), directory.path())?;
            given.count(words, &mut GivenCounts::default())
        };
        given("Kept", "5.7x and 6.1x").unwrap();
        given("| mmdb |", "0.76").unwrap();
        given("It is", "3").unwrap();
        assert!(given("| mmdb |", "0.71").is_err() && given("It is", "4").is_err());
        assert!(given("| ", "0.71").unwrap_err().contains("2 lines or paragraphs have the words"));
        assert!(given("moon", "0.71").unwrap_err().contains("no line or paragraph has"));
    }
}
