//! Texts that are more than words: what is made a number or a date of, what SQLite's functions are told, questions to full-text tables.
//!
//! A text of which a number is made must stay one that equals the same numbers, and numbers stay; so it stays, wherever it occurs, and so do dates that
//! date functions read, and words such as `text` that `typeof` says. Questions and patterns are rewritten word by word, their own signs left.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::Connection;

use super::flow::{Finding, Source, Use};

/// What is known of the texts of a trace.
#[derive(Debug, Default)]
pub struct Meanings {
    /// Texts that stay as they are.
    kept: HashSet<Vec<u8>>,
    /// Questions to full-text tables.
    matches: HashSet<Vec<u8>>,
    /// Texts with `%` directives.
    formats: HashSet<Vec<u8>>,
    /// Patterns of GLOB.
    globs: HashSet<Vec<u8>>,
    /// Texts that are looked for within others.
    pub within: BTreeSet<Vec<u8>>,
    /// Names of the schema, lower case.
    pub names: HashSet<String>,
}

/// How a text is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Not at all.
    Kept,
    /// All but the operators of a full-text question.
    Match,
    /// All but `%` directives.
    Format,
    /// All but `[…]`.
    Glob,
    /// Word by word.
    Words,
}

impl Meanings {
    /// A text and what is done with it.
    pub fn add(&mut self, text: &[u8], use_: Use) {
        let Ok(words) = std::str::from_utf8(text) else { return };
        let has_letters = words.chars().any(char::is_alphabetic);
        let stays = match use_ {
            Use::Number => is_number(words),
            Use::Calculated => begins_number(words),
            Use::Date => is_date(words),
            Use::Digits => !has_letters,
            Use::Word => SAID.contains(&words) || !has_letters,
            Use::Match => is_command(words),
            Use::Within | Use::Glob => false,
        };
        if stays {
            self.kept.insert(text.to_vec());
            return;
        }
        match use_ {
            Use::Match => drop(self.matches.insert(text.to_vec())),
            Use::Date | Use::Word if words.contains('%') => drop(self.formats.insert(text.to_vec())),
            Use::Glob => drop(self.globs.insert(text.to_vec())),
            Use::Within => drop(self.within.insert(text.to_vec())),
            _ => {}
        }
    }

    /// All texts of a statement that look like numbers stay: where the statement finds something else without them.
    pub fn keep_number(&mut self, text: &[u8]) {
        if std::str::from_utf8(text).is_ok_and(is_number) {
            self.kept.insert(text.to_vec());
        }
    }

    /// How a text is rewritten, the same wherever it occurs.
    pub fn form(&self, text: &str) -> Form {
        let bytes = text.as_bytes();
        if self.kept.contains(bytes) || self.is_name(text) {
            Form::Kept
        } else if self.matches.contains(bytes) {
            Form::Match
        } else if self.formats.contains(bytes) {
            Form::Format
        } else if self.globs.contains(bytes) {
            Form::Glob
        } else {
            Form::Words
        }
    }

    /// Whether something of the schema is called so.
    pub fn is_name(&self, text: &str) -> bool {
        !self.names.is_empty() && text.len() <= NAME_MAX && self.names.contains(&text.to_lowercase())
    }
}

/// Longer texts are no names, bytes.
const NAME_MAX: usize = 200;

/// What `typeof` and `json_type` say.
const SAID: [&str; 9] = ["text", "integer", "real", "blob", "null", "true", "false", "object", "array"];

/// What is learnt of the statements as they are prepared.
#[derive(Debug, Default)]
pub struct Learnt {
    /// What is known of texts.
    pub meanings: Meanings,
    /// What is done with the parameters of statements.
    parameters: HashMap<u32, Vec<(u32, Use)>>,
    /// Columns of which numbers or dates are made.
    columns: BTreeSet<(String, String, Use)>,
}

impl Learnt {
    /// What a statement does. Columns whose texts stay are read on the connection.
    pub fn add(&mut self, connection: &Connection, statement: u32, found: BTreeSet<Finding>) {
        let mut parameters = Vec::new();
        for (source, use_) in found {
            match source {
                Source::Literal(text) => self.meanings.add(text.as_bytes(), use_),
                Source::Parameter(index) => parameters.push((index, use_)),
                Source::Column(table, column)
                    if matches!(use_, Use::Number | Use::Calculated | Use::Date) =>
                {
                    let (table, column) = (table.to_string(), column.to_string());
                    if self.columns.insert((table.clone(), column.clone(), use_)) {
                        self.read(connection, &table, &column, use_);
                    }
                }
                _ => {}
            }
        }
        self.parameters.insert(statement, parameters);
    }

    /// A value that is bound to a parameter.
    pub fn bound(&mut self, statement: u32, index: u32, text: &[u8]) {
        let uses = self.parameters.get(&statement).map_or(&[][..], Vec::as_slice);
        for (_, use_) in uses.iter().filter(|(it, _)| *it == index) {
            self.meanings.add(text, *use_);
        }
    }

    /// Reads what the columns hold at the end.
    pub fn read_again(&mut self, connection: &Connection) {
        for (table, column, use_) in self.columns.clone() {
            self.read(connection, &table, &column, use_);
        }
    }

    fn read(&mut self, connection: &Connection, table: &str, column: &str, use_: Use) {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (table, column) = (quoted(table), quoted(column));
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text'");
        // A column that is gone, or is in a schema that hides it, has nothing to say here.
        let Ok(mut select) = connection.prepare(&sql) else { return };
        let Ok(mut rows) = select.query([]) else { return };
        while let Ok(Some(row)) = rows.next() {
            if let Ok(rusqlite::types::ValueRef::Text(text)) = row.get_ref(0) {
                self.meanings.add(text, use_);
            }
        }
    }
}

/// Whether SQLite makes a number of all of it.
pub fn is_number(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']);
    !text.is_empty() && length_of_number(text) == text.len()
}

/// Whether SQLite makes a number of its beginning.
fn begins_number(text: &str) -> bool {
    length_of_number(text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])) > 0
}

/// Bytes of the number that a text begins with.
fn length_of_number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|it| it.is_ascii_digit()).count())
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = sign + whole;
    if bytes.get(end) == Some(&b'.') {
        let part = digits(end + 1);
        if whole + part > 0 {
            end += 1 + part;
        }
    }
    if end == sign {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Whether date functions read it: a date, a time, a number of days, or one of their words.
fn is_date(text: &str) -> bool {
    const WORDS: [&str; 20] = [
        "now",
        "utc",
        "localtime",
        "auto",
        "unixepoch",
        "julianday",
        "subsec",
        "subsecond",
        "ceiling",
        "floor",
        "weekday",
        "start",
        "of",
        "day",
        "days",
        "month",
        "months",
        "year",
        "years",
        "hour",
    ];
    const MORE: [&str; 5] = ["hours", "minute", "minutes", "second", "seconds"];
    let is_digits = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b" -+:.TZ".contains(&byte));
    is_digits
        || (!text.is_empty()
            && text.to_lowercase().split([' ', '+', '-', '.']).filter(|it| !it.is_empty()).all(|word| {
                WORDS.contains(&word)
                    || MORE.contains(&word)
                    || word.bytes().all(|byte| byte.is_ascii_digit())
            }))
}

/// Whether it is a command to a full-text table, as `INSERT INTO t(t) VALUES ('optimize')` gives it.
fn is_command(text: &str) -> bool {
    const COMMANDS: [&str; 22] = [
        "optimize",
        "rebuild",
        "integrity-check",
        "delete-all",
        "delete",
        "merge",
        "automerge",
        "crisismerge",
        "usermerge",
        "pgsz",
        "rank",
        "flush",
        "hashsize",
        "secure-delete",
        "deletemerge",
        "nodesize",
        "maxpending",
        "test-no-incr-doclist",
        "contentless-delete",
        "insttoken",
        "fullscan",
        "prefix-index",
    ];
    COMMANDS.contains(&text.split(['=', ' ']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_dates_and_commands_are_known() {
        let db = Connection::open_in_memory().expect("opens");
        for text in [
            "14",
            " 14 ",
            "-1.5e3",
            ".5",
            "5.",
            "+7",
            "1e5",
            "0x10",
            "12abc",
            "",
            "-",
            ".",
            "e5",
            "1e",
            "01712345678",
            "1 2",
            "٣",
        ] {
            db.execute_batch("DROP TABLE IF EXISTS n; CREATE TABLE n(a NUMERIC)").expect("made");
            db.execute("INSERT INTO n VALUES (?)", [text]).expect("inserted");
            let kind: String = db.query_row("SELECT typeof(a) FROM n", [], |row| row.get(0)).expect("there");
            assert_eq!(is_number(text), kind != "text", "{text:?}");
        }
        for date in [
            "2015-03-22 12:05:29.324",
            "now",
            "+1 day",
            "start of month",
            "-3.5 hours",
            "12:00",
            "2455000.5",
            "2015-03-22T12:00Z",
        ] {
            assert!(is_date(date), "{date}");
        }
        for text in ["Schneider", "now or never", "", "3 Musketiere", "2015-03-22 Ada"] {
            assert!(!is_date(text), "{text}");
        }
        assert!(is_command("optimize") && is_command("merge=8,4") && !is_command("rebuilt houses"));
    }
}
