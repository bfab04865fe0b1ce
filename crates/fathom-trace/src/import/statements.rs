//! Statements out of a file of SQL, whichever form it has: a script, whose statements end with
//! semicolons and may be on several lines, or a recording with one statement a line and no
//! semicolons; or both mixed, as recordings are, whose transaction statements have one.
//!
//! **Where a statement ends.** At its semicolon, as `sqlite3_complete` knows it; or else before a
//! line that begins with the first word of a statement, if the text up to there compiles. What no
//! statement can begin with goes on with the line before (`WHERE …`), and so does what follows the
//! beginning of a statement (`INSERT INTO t`, then `SELECT …`), about which SQLite says `incomplete
//! input`; a trigger goes on up to the END after its last semicolon. That decides every case but
//! one that no grammar can: two lines that are statements each are never taken for one.
//!
//! A text that does not compile is no statement. It is handed out with what SQLite says, as short
//! as it can be, and the next line is looked at for itself: one bad line never takes the good ones
//! after it along.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::ends::Ends;
use super::inner::{is_time, without_time};
use super::lines::Lines;
use super::private::{Compilation, Fault, compile};
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::model::Value;
use crate::sql::{TokenKind, Verb, literal, tokens};

/// Lines of one text or comment; what is longer was never closed.
const OPEN_LINES_MAX: usize = 10_000;

/// The same where many were found to be never closed: an input must not be read again and again.
const OPEN_LINES_MIN: usize = 50;

/// Texts that were never closed after which there is less patience.
const PATIENCE: u32 = 20;

/// Bytes of comments that are kept before a statement.
const COMMENTS_MAX: usize = 4096;

/// A line: its number, its text without the line end, and whether it holds bytes that are no UTF-8
/// ([`FIRST_BYTE`]).
#[derive(Clone, Debug)]
struct Line {
    number: u64,
    text: String,
    has_bytes: bool,
}

/// Bytes that are no UTF-8 stand in a text as private characters from here on, until it is known
/// whether they are in a literal.
const FIRST_BYTE: u32 = 0x10_FE00;

/// Statements of a file.
pub struct Statements {
    path: PathBuf,
    lines: Lines,
    ahead: VecDeque<Line>,
    /// Texts and comments that were never closed.
    unclosed: u32,
    /// Comments before the next statement.
    comments: String,
    /// Literals whose bytes are no UTF-8.
    pub byte_literals: u64,
    /// Whether each statement stands in the file with its time, too, behind its semicolon: only
    /// those are taken.
    pub has_times: bool,
    /// The others.
    pub begins: u64,
    end: FileEnd,
}

/// How a file ends, as far as it was read.
#[derive(Debug, Default)]
struct FileEnd {
    /// Statements that have a semicolon, and those that have none.
    with_semicolon: u64,
    without: u64,
    /// Line of the last one, where that has none.
    open_line: Option<u64>,
    /// Whether the last line has its line end.
    has_line_end: bool,
}

impl FileEnd {
    fn take(&mut self, line: u64, end: End) {
        if end == End::Semicolon {
            (self.with_semicolon, self.open_line) = (self.with_semicolon + 1, None);
        } else {
            (self.without, self.open_line) = (self.without + 1, Some(line));
        }
    }
}

/// A statement, or what is none.
pub struct Piece<'c> {
    /// Line of the file on which it begins, from 1.
    pub line: u64,
    /// Its text, without semicolon.
    pub sql: String,
    /// The compiled statement, or why there is none.
    pub compiled: Result<Compilation<'c>, String>,
}

impl Statements {
    /// From the start of a file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn open(path: &Path) -> Result<Statements, TraceError> {
        Ok(Statements {
            path: path.to_owned(),
            lines: Lines::open(path)?,
            ahead: VecDeque::new(),
            unclosed: 0,
            comments: String::new(),
            byte_literals: 0,
            has_times: false,
            begins: 0,
            end: FileEnd::default(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What must be known at the end of a file that may have been cut off within its last
    /// statement, the beginning of which is a statement, too: it has no semicolon, where all others
    /// have one, or the file has no line end.
    #[must_use]
    pub fn cut_off(&self) -> Option<String> {
        let FileEnd { with_semicolon, without, open_line, has_line_end } = self.end;
        let is_only_one = without == 1 && with_semicolon > 0;
        let line = open_line.filter(|_| is_only_one || !has_line_end)?;
        Some(super::cut_off(&self.path, line))
    }

    /// Bytes that were read.
    pub fn read_bytes(&self) -> u64 {
        self.lines.read_bytes()
    }

    /// The next statement, compiled on the connection; none at the end.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn next<'c>(&mut self, connection: &'c ConfinedConnection) -> Result<Option<Piece<'c>>, TraceError> {
        loop {
            let Some(first) = self.pull()? else { return Ok(None) };
            if let Some(piece) = self.statement(first, connection)? {
                return Ok(Some(piece));
            }
        }
    }

    /// The statement that begins with this line; none where there is none but spaces and comments.
    fn statement<'c>(
        &mut self,
        first: Line,
        connection: &'c ConfinedConnection,
    ) -> Result<Option<Piece<'c>>, TraceError> {
        if is_blank(&first.text) {
            // A comment belongs to the statement after it.
            let is_kept = begins_comment(&first.text) && !is_traced_within(&first.text);
            if is_kept && self.comments.len() < COMMENTS_MAX {
                self.comments.push_str(first.text.trim());
                self.comments.push('\n');
            }
            return Ok(None);
        }
        if first.text.trim_start().starts_with('.') {
            let command = first.text.trim();
            let problem =
                format!("`{command}` is a command of the sqlite3 shell and no SQL; remove the line");
            return Ok(Some(bad(&first, "", problem)));
        }
        let mut is_statement = false;
        let mut ends = Ends::default();
        let mut taken: Vec<Line> = Vec::new();
        let mut text = String::new();
        let mut next = first;
        loop {
            let before = text.len();
            if !taken.is_empty() {
                text.push('\n');
            }
            text.push_str(&next.text);
            let end = ends.feed(&text[before..]);
            taken.push(next);
            is_statement = is_statement || (!ends.is_quote() && begins_statement(&text));
            if let Some(length) = end {
                let rest = text.split_off(before + length);
                if self.has_times && is_blank(&rest) && !is_time(&rest) {
                    self.begins += 1;
                    return Ok(None);
                }
                if let Some(last) = taken.last_mut().filter(|_| !is_blank(&rest)) {
                    last.text.truncate(last.text.len() - rest.len());
                    self.ahead.push_front(Line { text: rest, ..last.clone() });
                }
                return self.judge(connection, taken, &text, &ends, End::Semicolon).map(Judged::piece);
            }
            let following = self.pull()?;
            let max = if self.unclosed > PATIENCE { OPEN_LINES_MIN } else { OPEN_LINES_MAX };
            let goes_on = match &following {
                None => false,
                Some(_) if ends.is_quote() => taken.len() < max,
                Some(line) if ends.is_trigger() => !(ends.is_whole_trigger() && begins_statement(&line.text)),
                Some(line) => is_statement && !begins_statement(&line.text),
            };
            if goes_on && let Some(line) = following {
                next = line;
                continue;
            }
            let is_last = following.is_none();
            if let Some(line) = following {
                self.ahead.push_front(line);
            }
            let end = if is_last || !is_statement { End::Last } else { End::Boundary };
            match self.judge(connection, taken, &text, &ends, end)? {
                Judged::Piece(piece) => return Ok(piece),
                Judged::Incomplete(again) => {
                    taken = again;
                    match self.pull()? {
                        Some(line) => next = line,
                        // Judged as the last one, it would not have been incomplete.
                        None => return Ok(None),
                    }
                }
            }
        }
    }

    /// Compiles what was taken. Where it does not compile: as little of it as can be is bad, and
    /// the rest is read again.
    fn judge<'c>(
        &mut self,
        connection: &'c ConfinedConnection,
        taken: Vec<Line>,
        text: &str,
        ends: &Ends,
        end: End,
    ) -> Result<Judged<'c>, TraceError> {
        let has_bytes = taken.iter().any(|line| line.has_bytes);
        let whole = if ends.is_quote() {
            Err(Fault::Wrong(
                "the statement that begins here has a text or comment that is never closed".into(),
            ))
        } else {
            self.compiled(connection, text, has_bytes)
        };
        let problem = match whole {
            Ok((_, Compilation::Nothing)) => return Ok(Judged::Piece(None)),
            Ok((sql, compiled)) => {
                let line = begin_of(&taken);
                self.end.take(line, end);
                return Ok(Judged::Piece(Some(Piece { line, sql, compiled: Ok(compiled) })));
            }
            Err(Fault::Incomplete) if end == End::Boundary => return Ok(Judged::Incomplete(taken)),
            Err(Fault::Incomplete) => "is the beginning of a statement (incomplete input)".to_owned(),
            Err(Fault::Wrong(message)) => message,
        };
        let mut taken = taken;
        if taken.len() > 1 {
            // A whole trigger is bad, not only its beginning: what it holds are no statements of
            // the file.
            if ends.is_quote() {
                self.unclosed += 1;
            }
            let first_alone = {
                let mut alone = Ends::default();
                let end = alone.feed(&taken[0].text);
                end.is_none() && !alone.is_open()
            };
            if first_alone
                && let Ok((sql, compiled)) = self.compiled(connection, &taken[0].text, taken[0].has_bytes)
                && !matches!(compiled, Compilation::Nothing)
            {
                let line = taken[0].number;
                self.end.take(line, End::Boundary);
                self.push_back(taken.split_off(1));
                return Ok(Judged::Piece(Some(Piece { line, sql, compiled: Ok(compiled) })));
            }
            let bad_lines = if ends.is_quote() {
                1
            } else if ends.is_trigger() && (end == End::Semicolon || ends.is_whole_trigger()) {
                taken.len()
            } else {
                let inner = taken.iter().skip(1).position(|line| begins_statement(&line.text));
                inner.map_or(taken.len(), |at| at + 1)
            };
            let rest = taken.split_off(bad_lines);
            self.push_back(rest);
        }
        self.comments.clear();
        let text: Vec<&str> = taken.iter().map(|line| line.text.as_str()).collect();
        Ok(Judged::Piece(Some(bad(&taken[0], &text.join("\n"), problem))))
    }

    fn push_back(&mut self, lines: Vec<Line>) {
        for line in lines.into_iter().rev() {
            self.ahead.push_front(line);
        }
    }

    /// The statement's text as it is imported, and compiled.
    fn compiled<'c>(
        &mut self,
        connection: &'c ConfinedConnection,
        text: &str,
        has_bytes: bool,
    ) -> Result<(String, Compilation<'c>), Fault> {
        let mut sql = text.trim().trim_end_matches(';').trim_end().to_owned();
        if has_bytes {
            let (plain, literals) = without_bytes(&sql).map_err(Fault::Wrong)?;
            sql = plain;
            self.byte_literals += literals;
        }
        let compiled = compile(connection, &sql)?;
        if !self.comments.is_empty() {
            sql.insert_str(0, &std::mem::take(&mut self.comments));
        }
        Ok((sql, compiled))
    }

    /// The next line.
    fn pull(&mut self) -> Result<Option<Line>, TraceError> {
        if let Some(line) = self.ahead.pop_front() {
            return Ok(Some(line));
        }
        let Some(text) = self.lines.next_line()? else { return Ok(None) };
        self.end.has_line_end = text.ends_with('\n');
        let mut text = text.strip_suffix('\n').unwrap_or(text).to_owned();
        // U+FFFD may be in the file itself.
        let has_bytes = text.contains('\u{fffd}') && std::str::from_utf8(self.lines.bytes()).is_err();
        if has_bytes {
            text = with_bytes(self.lines.bytes());
        }
        Ok(Some(Line { number: self.lines.number(), text, has_bytes }))
    }
}

/// Why the text ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has its semicolon.
    Semicolon,
    /// The next line could begin a statement.
    Boundary,
    /// Nothing can follow.
    Last,
}

enum Judged<'c> {
    Piece(Option<Piece<'c>>),
    Incomplete(Vec<Line>),
}

impl<'c> Judged<'c> {
    fn piece(self) -> Option<Piece<'c>> {
        match self {
            Judged::Piece(piece) => piece,
            // What ends with its semicolon is never judged to go on.
            Judged::Incomplete(_) => None,
        }
    }
}

/// Line on which the first token stands that is no comment.
fn begin_of(taken: &[Line]) -> u64 {
    let first = taken.iter().find(|line| !is_blank(&line.text)).or(taken.first());
    first.map_or(0, |line| line.number)
}

fn bad<'c>(first: &Line, text: &str, problem: String) -> Piece<'c> {
    let text: String = text.chars().map(|letter| if is_byte(letter) { '\u{fffd}' } else { letter }).collect();
    Piece { line: first.number, sql: text.trim().to_owned(), compiled: Err(problem) }
}

/// Whether there is nothing but spaces, semicolons and whole comments.
fn is_blank(text: &str) -> bool {
    // Most lines begin with a letter.
    !text.trim_start().starts_with(|letter: char| letter.is_ascii_alphabetic())
        && tokens(text).all(|token| {
            (token.is_blank() && (!token.text.starts_with("/*") || token.text.ends_with("*/")))
                || token.kind == TokenKind::Semicolon
        })
}

/// Whether a comment stands before whatever it is.
fn begins_comment(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("--") || text.starts_with("/*")
}

/// Whether a line is what `.trace FILE` of the `sqlite3` shell tells of a statement's triggers and
/// virtual tables, below it: `-- TRIGGER t_ai;`, `-- UPDATE counts SET n = 1;`, and that once more
/// with its time. Nothing of the next one: with it each text would be another one, and be compiled
/// with all that.
fn is_traced_within(text: &str) -> bool {
    let plain = without_time(text).unwrap_or(text);
    let within = plain.strip_prefix("-- ").and_then(|text| text.trim_end().strip_suffix(';'));
    within.is_some_and(|within| within.starts_with("TRIGGER ") || begins_statement(within))
}

/// Whether the first token that is no comment is the first word of a statement.
pub fn begins_statement(text: &str) -> bool {
    let Some(word) = tokens(text).find(|token| !token.is_blank()) else { return false };
    word.kind == TokenKind::Word
        && (Verb::of_first_word(word.text) != Verb::Other || word.is("with") || word.is("explain"))
}

fn is_byte(letter: char) -> bool {
    (FIRST_BYTE..FIRST_BYTE + 0x100).contains(&u32::from(letter))
}

/// The line with private characters for the bytes that are no UTF-8.
fn with_bytes(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let marks = chunk.invalid().iter().filter_map(|byte| char::from_u32(FIRST_BYTE + u32::from(*byte)));
        text.extend(marks);
    }
    text
}

/// The statement without private characters: a text with such bytes becomes a cast blob, which
/// SQLite takes for the same text. Gives how many, too.
fn without_bytes(sql: &str) -> Result<(String, u64), String> {
    let mut plain = String::with_capacity(sql.len());
    let mut literals = 0;
    for token in tokens(sql) {
        if !token.text.contains(is_byte) {
            plain.push_str(token.text);
        } else if token.kind == TokenKind::Text {
            let mut bytes = Vec::new();
            // A text that is not closed was found before.
            let inner = token.text.get(1..token.text.len().saturating_sub(1)).unwrap_or_default();
            for letter in inner.replace("''", "'").chars() {
                match u8::try_from(u32::from(letter).wrapping_sub(FIRST_BYTE)) {
                    Ok(byte) if is_byte(letter) => bytes.push(byte),
                    _ => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            plain.push_str(&literal(&Value::Text(bytes)));
            literals += 1;
        } else if token.kind == TokenKind::Comment {
            plain.extend(token.text.chars().map(|letter| if is_byte(letter) { '\u{fffd}' } else { letter }));
        } else {
            return Err("holds bytes that are no UTF-8 outside of a text".into());
        }
    }
    Ok((plain, literals))
}
