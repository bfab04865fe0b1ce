//! Errors in an experiment file or a `--set`, shown where they are.

use std::fmt;
use std::ops::Range;

/// A text that can be wrong somewhere: an experiment file, or the argument of one `--set`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    /// `mine.toml`, or `--set`.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// Whether lines are numbered (a file) or not (an argument).
    pub numbered: bool,
}

/// A place in one of the sources of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Index into the experiment's sources; 0 is the file.
    pub source: usize,
    /// Bytes.
    pub range: Range<usize>,
}

/// What is wrong at a place, before the place is looked up.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub span: Span,
    pub message: String,
    pub hint: String,
}

impl Problem {
    pub fn new(span: &Span, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { span: span.clone(), message: message.into(), hint: hint.into() }
    }

    /// Looks the place up.
    pub fn locate(self, sources: &[Source]) -> Diagnostic {
        let Problem { span, message, hint } = self;
        let Some(source) = sources.get(span.source) else {
            return Diagnostic {
                source: String::new(),
                line: 0,
                column: 0,
                text: String::new(),
                width: 0,
                message,
                hint,
            };
        };
        // Spans come from the parser and lie on character borders; `get` keeps a mistake there from being a panic.
        let start = span.range.start.min(source.text.len());
        let before = source.text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |it| it + 1);
        let text = source.text.get(line_start..).unwrap_or_default().lines().next().unwrap_or_default();
        let column = source.text.get(line_start..start).unwrap_or_default().chars().count() + 1;
        let marked = source.text.get(start..span.range.end).unwrap_or_default();
        // A place over several lines is marked to the end of its first.
        let width = marked.lines().next().unwrap_or_default().trim_end().chars().count().max(1);
        Diagnostic {
            source: source.name.clone(),
            line: if source.numbered { before.matches('\n').count() + 1 } else { 0 },
            column,
            text: text.replace('\t', " "),
            width,
            message,
            hint,
        }
    }
}

/// An error in an experiment file or a `--set` with its place. Its text has the form
///
/// ```text
/// mine.toml:14: unknown file system "ext5"
///    14 | filesystem = ["ext4", "ext5"]
///       |                       ^^^^^^ did you mean "ext4"?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as it was given, or `--set`.
    pub source: String,
    /// Line, from 1; 0 in an argument.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line of the source.
    pub text: String,
    /// Characters marked.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right, or empty.
    pub hint: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = if self.line == 0 { String::new() } else { self.line.to_string() };
        let colon = if self.line == 0 { "" } else { ":" };
        writeln!(f, "{}{colon}{number}: {}", self.source, self.message)?;
        writeln!(f, "{number:>5} | {}", self.text)?;
        let space = " ".repeat(self.column.saturating_sub(1));
        let line = format!("{:>5} | {space}{} {}", "", "^".repeat(self.width), self.hint);
        f.write_str(line.trim_end())
    }
}

impl std::error::Error for Diagnostic {}
