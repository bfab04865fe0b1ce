//! What is no statement, by file and line.

use std::fmt;
use std::path::Path;

use crate::error::{TraceError, in_line};

/// How many are listed; all are counted.
const LISTED_MAX: usize = 1000;

/// Characters of a text that are shown.
const SHOWN_MAX: usize = 80;

/// Characters of SQLite's message that are shown: of a text that is never closed it quotes all that
/// follows, to the end of the input.
const MESSAGE_MAX: usize = 400;

/// A text that is no statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadText {
    /// The file.
    pub file: String,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// What SQLite says.
    pub problem: String,
    /// Its beginning.
    pub text: String,
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.text.is_empty() { String::new() } else { format!(": `{}`", self.text) };
        in_line(&self.file, self.line, format!("{}{text}", self.problem)).fmt(f)
    }
}

/// All of an input.
#[derive(Debug, Default)]
pub struct BadOnes {
    /// The first of them.
    pub listed: Vec<BadText>,
    /// How many there are.
    pub count: u64,
}

impl BadOnes {
    /// One more.
    pub fn add(&mut self, file: &Path, line: u64, sql: &str, problem: &str) {
        self.count += 1;
        if self.listed.len() < LISTED_MAX {
            // One line of the list each; SQLite's message may quote a text of several.
            let in_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (mut text, mut message) = (in_line(sql), in_line(problem));
            abridge(&mut text, SHOWN_MAX);
            abridge(&mut message, MESSAGE_MAX);
            let problem = format!("{message}{}", super::private::hint(problem));
            self.listed.push(BadText { file: file.display().to_string(), line, problem, text });
        }
    }

    /// The list, with how many are not on it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let more = self.count - self.listed.len() as u64;
        let listed = self.listed.iter().map(BadText::to_string);
        listed.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }

    /// Refuses an input that holds any, with what to do about all of them, where that is known.
    ///
    /// # Errors
    /// With the list, where there are any.
    pub fn refuse(&self, path: &Path, remedy: Option<&str>) -> Result<(), TraceError> {
        match self.count {
            0 => Ok(()),
            count => Err(TraceError::Parts {
                what: path.display().to_string(),
                problem: format!(
                    "{count} {} no statement that could be done again (--skip-bad leaves {} out and counts {})",
                    if count == 1 { "text is" } else { "texts are" },
                    if count == 1 { "it" } else { "them" },
                    if count == 1 { "it" } else { "them" },
                ),
                lines: self.lines().into_iter().chain(remedy.map(str::to_owned)).collect(),
            }),
        }
    }
}

/// Leaves so many characters.
fn abridge(text: &mut String, characters: usize) {
    if let Some((at, _)) = text.char_indices().nth(characters) {
        text.truncate(at);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the text of one line that was cut off was never closed, and the refusal of a
    /// log of 3 MB was a message of 3 MB.
    #[test]
    fn a_message_that_quotes_the_rest_of_the_input_is_abridged() {
        let mut bad = BadOnes::default();
        let rest = "no such table: x\n".repeat(100_000);
        bad.add(Path::new("a.log"), 7, &rest, &format!("unrecognized token: \"'{rest}\""));
        let lines = bad.lines();
        assert!(lines[0].len() < 1000 && lines[0].starts_with("a.log:7: unrecognized token"), "{lines:?}");
        assert!(lines[0].contains("--start"), "what the hint is of counts whole: {lines:?}");
    }
}
