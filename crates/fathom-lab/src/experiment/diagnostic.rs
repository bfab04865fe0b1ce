//! Errors in an experiment file or a `--set`, shown where they are.

use std::ops::Range;

use fathom_diagnostic::Diagnostic;

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
            return Diagnostic { hint, ..Diagnostic::of("", message) };
        };
        let mut diagnostic = Diagnostic::at(&source.name, &source.text, span.range, message, hint);
        if !source.numbered {
            diagnostic.line = 0;
        }
        diagnostic
    }
}
