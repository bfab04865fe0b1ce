//! What is wrong in a text that a user wrote: the place, the line, and what would be right.
//!
//! Experiment files, `--set` arguments, device models, networks and scripts of SQL are refused with
//! one type, [`Diagnostic`], so that every such message has the same form. [`suggest`] finds the
//! word that was probably meant.

pub mod suggest;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Characters of a user's line that are shown: a few lines of a terminal.
const SHOWN: usize = 240;

/// Characters of a message's line: it may repeat a word of the user's.
const SHOWN_OF_MESSAGE: usize = 2000;

/// A text that repeats what somebody wrote, as it is shown: of a line that is longer than a message
/// should be only the beginning. A file may be one line of megabytes.
#[must_use]
pub fn abridged(text: &str) -> Cow<'_, str> {
    let begin = |line: &str| line.char_indices().nth(SHOWN_OF_MESSAGE).map(|(end, _)| end);
    if text.lines().all(|line| begin(line).is_none()) {
        return Cow::Borrowed(text);
    }
    let short = |line: &str| match begin(line) {
        Some(end) => format!("{} …", &line[..end]),
        None => line.to_owned(),
    };
    Cow::Owned(text.lines().map(short).collect::<Vec<_>>().join("\n"))
}

/// What is wrong in a text, and where. As text:
///
/// ```text
/// mine.toml:14: unknown file system "ext5"
///    14 | filesystem = ["ext4", "ext5"]
///       |                       ^^^^^^ did you mean "ext4"?
/// ```
///
/// The second line is left out where the line is not known or empty, the third where nothing in it
/// is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as it was given, or what else the text is: `--set`.
    pub source: String,
    /// Line, from 1; 0 where the text has no lines or cannot be read.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line of the source.
    pub text: String,
    /// Characters marked; 0 where the whole line is meant.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, or empty.
    pub hint: String,
}

impl Diagnostic {
    /// At a place of a text, bytes. A place over several lines is marked to the end of its first.
    #[must_use]
    pub fn at(source: &str, text: &str, place: Range<usize>, message: String, hint: String) -> Diagnostic {
        // Places come from parsers and lie on character borders; `get` keeps a mistake there from
        // being a panic.
        let start = place.start.min(text.len());
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = text.get(line_start..start).unwrap_or_default().chars().count() + 1;
        let marked = text.get(start..place.end).unwrap_or_default();
        let width = marked.lines().next().unwrap_or_default().trim_end().chars().count().max(1);
        Diagnostic {
            source: source.to_owned(),
            line: before.matches('\n').count() + 1,
            column,
            text: line.replace('\t', " "),
            width,
            message,
            hint,
        }
    }

    /// In a line as a whole, from 1.
    #[must_use]
    pub fn in_line(source: &str, line: usize, text: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { line, text: text.to_owned(), ..Diagnostic::of(source, message) }
    }

    /// In the line of a text that holds this byte, as a whole.
    #[must_use]
    pub fn in_line_of(source: &str, text: &str, byte: usize, message: impl Into<String>) -> Diagnostic {
        let before = text.get(..byte).unwrap_or_default();
        let line = before.matches('\n').count();
        Diagnostic::in_line(source, line + 1, text.lines().nth(line).unwrap_or_default(), message)
    }

    /// Of a text as a whole: a file that cannot be read.
    #[must_use]
    pub fn of(source: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            source: source.to_owned(),
            line: 0,
            column: 0,
            text: String::new(),
            width: 0,
            message: message.into(),
            hint: String::new(),
        }
    }

    /// What of the line is shown, and where the mark is in that, columns from 0.
    fn shown(&self) -> (Cow<'_, str>, Range<usize>) {
        let marked = self.column.saturating_sub(1);
        let count = self.text.chars().count();
        if count <= SHOWN {
            return (Cow::Borrowed(self.text.as_str()), marked..marked.saturating_add(self.width));
        }
        // The mark with some of what stands before it.
        let begin = marked.saturating_sub(SHOWN / 4).min(count - SHOWN);
        let end = begin + SHOWN;
        let part: String = self.text.chars().skip(begin).take(SHOWN).collect();
        let (before, after) = (if begin > 0 { "… " } else { "" }, if end < count { " …" } else { "" });
        let place = |column: usize| column.clamp(begin, end) - begin + before.chars().count();
        let mark = place(marked)..place(marked.saturating_add(self.width));
        (Cow::Owned(format!("{before}{part}{after}")), mark)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = if self.line == 0 { String::new() } else { self.line.to_string() };
        let colon = if self.line == 0 { "" } else { ":" };
        write!(f, "{}{colon}{number}: {}", self.source, abridged(&self.message))?;
        let (text, mark) = self.shown();
        if self.width > 0 || !self.text.trim().is_empty() {
            write!(f, "\n{number:>5} | {text}")?;
        }
        if self.width > 0 {
            let (space, width) = (" ".repeat(mark.start), mark.len().max(1));
            let line = format!("{:>5} | {space}{} {}", "", "^".repeat(width), abridged(&self.hint));
            write!(f, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"é\"\n\tfs = [\"ext4\",\n\"ext5\"]\n";

    #[test]
    fn a_place_is_marked_in_its_line() {
        let start = TEXT.find("[").unwrap();
        let end = TEXT.find("]").unwrap();
        let error = Diagnostic::at("mine.toml", TEXT, start..end, "no".into(), "did you mean \"x\"?".into());
        let expected =
            "mine.toml:2: no\n    2 |  fs = [\"ext4\",\n      |       ^^^^^^^^ did you mean \"x\"?";
        assert_eq!(error.to_string(), expected);
        let argument =
            Diagnostic { line: 0, ..Diagnostic::at("--set", "a=b", 2..3, "no".into(), String::new()) };
        assert_eq!(argument.to_string(), "--set: no\n      | a=b\n      |   ^");
    }

    #[test]
    fn a_line_and_a_file_need_no_place_in_it() {
        let byte = TEXT.find("ext5").unwrap();
        assert_eq!(Diagnostic::in_line_of("a", TEXT, byte, "no").to_string(), "a:3: no\n    3 | \"ext5\"]");
        assert_eq!(Diagnostic::in_line("a.sql", 7, "", "no").to_string(), "a.sql:7: no");
        assert_eq!(Diagnostic::of("a.sql", "cannot be read").to_string(), "a.sql: cannot be read");
    }

    /// What happened: a mistake in a file that is one line of 400 KB printed all of it.
    #[test]
    fn of_a_long_line_what_is_around_the_mark_is_shown() {
        let text = format!("{}é = 1{}", "a".repeat(100_000), "b".repeat(300_000));
        for place in [0..400_000, 100_000..100_002, 399_999..400_000, 400_006..400_006] {
            let told = Diagnostic::at("a", &text, place.clone(), text.clone(), text.clone()).to_string();
            assert!(told.len() < 3 * SHOWN_OF_MESSAGE, "{place:?}: {}", told.len());
            assert!(told.lines().nth(1).is_some_and(|line| line.chars().count() < SHOWN + 20), "{told}");
        }
        let told = Diagnostic::at("a", &text, 100_000..100_002, "no".into(), "yes".into()).to_string();
        let lines: Vec<&str> = told.lines().collect();
        let column = |line: &str, what: char| line.chars().position(|letter| letter == what);
        assert_eq!(column(lines[1], 'é'), column(lines[2], '^'), "{told}");
        assert!(
            lines[1].contains("| … a") && lines[1].ends_with("b …") && lines[2].ends_with("^ yes"),
            "{told}"
        );
        assert_eq!(abridged("short\n"), "short\n");
    }

    #[test]
    fn places_that_no_text_has_are_no_panic() {
        let reversed = std::ops::Range { start: 9, end: 8 };
        for place in [0..0, 8..9, reversed, 1000..2000, 0..1000] {
            let error = Diagnostic::at("a", TEXT, place.clone(), "no".into(), String::new());
            assert!(error.to_string().starts_with("a:"), "{place:?}");
            assert!(Diagnostic::in_line_of("a", TEXT, place.start, "no").line >= 1);
        }
        assert!(Diagnostic::at("", "", 0..0, String::new(), String::new()).width == 1);
    }
}
