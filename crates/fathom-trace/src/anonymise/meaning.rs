//! Texts that are more than words: what is made a number or a date of, what SQLite's functions are
//! told, questions to full-text tables.
//!
//! A text of which a number is made must stay one that equals the same numbers, and numbers stay;
//! so it stays, wherever it occurs, and so do dates that date functions read, and words such as
//! `text` that `typeof` says. Questions and patterns are rewritten word by word, their own signs
//! left.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::Connection;

use super::flow::{Source, StatementFlow, Use};

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
    /// Texts without letters whose digits are looked at one by one.
    spelt: HashSet<Vec<u8>>,
    /// Pieces of words that are looked for within words, lower case.
    pub pieces: BTreeSet<String>,
    /// Names of the schema, lower case.
    pub names: HashSet<String>,
    /// Whether the trace has dates that are read as such: then all texts that are dates stay, as
    /// numbers do.
    pub keep_dates: bool,
    /// Digits of whole numbers that stay as texts, however they are used: so few that they hide
    /// nothing, and would meet those that stay.
    pub short_digits: usize,
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
    /// Digit by digit, each by the same one everywhere.
    Spelt,
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
            Use::Within | Use::Needle | Use::Glob | Use::Sum | Use::Spelt => false,
        };
        if stays {
            self.kept.insert(text.to_vec());
            return;
        }
        match use_ {
            Use::Match => drop(self.matches.insert(text.to_vec())),
            Use::Date | Use::Word if words.contains('%') => drop(self.formats.insert(text.to_vec())),
            Use::Glob => {
                self.globs.insert(text.to_vec());
                self.add_pieces(words, "*?]");
            }
            Use::Within => self.add_pieces(words, "%_"),
            Use::Needle => self.add_pieces(&format!("%{words}"), "%_"),
            Use::Spelt if !has_letters && words.bytes().any(|byte| byte.is_ascii_digit()) => {
                self.spelt.insert(text.to_vec());
            }
            _ => {}
        }
    }

    /// Words of a pattern that may be the middle or end of others: those behind a sign for any
    /// letters.
    fn add_pieces(&mut self, pattern: &str, any: &str) {
        let mut rest = pattern;
        while let Some(at) = rest.find(|letter| any.contains(letter)) {
            rest = &rest[at + 1..];
            let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
            if end > 0 {
                self.pieces.insert(rest[..end].to_ascii_lowercase());
            }
        }
    }

    /// All texts of a statement that look like numbers stay: where the statement finds something
    /// else without them.
    pub fn keep_number(&mut self, text: &[u8]) {
        if std::str::from_utf8(text).is_ok_and(is_number) {
            self.kept.insert(text.to_vec());
        }
    }

    /// All texts without letters of a statement stay: where it finds something else without them.
    pub fn keep_digits(&mut self, text: &[u8]) {
        self.add(text, Use::Digits);
    }

    /// How a text is rewritten, the same wherever it occurs.
    pub fn form(&self, text: &str) -> Form {
        let bytes = text.as_bytes();
        if self.kept.contains(bytes) {
            Form::Kept
        } else if self.matches.contains(bytes) {
            // Also where a table is called so: it is a word of the texts that are looked for.
            Form::Match
        } else if self.spelt.contains(bytes) {
            Form::Spelt
        } else if self.is_name(text) || self.is_short(text) || (self.keep_dates && is_calendar(text)) {
            Form::Kept
        } else if self.formats.contains(bytes) {
            Form::Format
        } else if self.globs.contains(bytes) {
            Form::Glob
        } else {
            Form::Words
        }
    }

    fn is_short(&self, text: &str) -> bool {
        !text.is_empty() && text.len() <= self.short_digits && text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The numbers that texts which stay are.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        self.kept.iter().filter_map(|text| std::str::from_utf8(text).ok()).filter(|text| is_number(text))
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

/// A column: its table, and its name; none for the rowids.
type Place = (String, Option<String>);

/// What is known of a column.
#[derive(Debug, Default)]
struct Column {
    /// What is done with what it holds.
    uses: BTreeSet<Use>,
    /// What statements write into it.
    written: BTreeSet<Source>,
}

/// What is learnt of the statements as they are prepared.
///
/// What is done with a column is done with all that it holds while that is so: with what it holds
/// when the statement is prepared, and with what is written into it from then on, by whatever
/// statement.
#[derive(Debug, Default)]
pub struct StatementUses {
    /// What is known of texts.
    pub meanings: Meanings,
    /// What is done with the parameters of statements.
    parameters: HashMap<u32, Vec<(u32, Use)>>,
    /// Columns that parameters of statements are written into.
    parameters_written: HashMap<u32, Vec<(u32, Place)>>,
    /// Columns of which numbers or dates are made, and what is written into any.
    columns: BTreeMap<Place, Column>,
    /// Whole numbers that something is calculated from, where they are asked for.
    pub staying: Option<BTreeSet<i64>>,
}

impl StatementUses {
    /// Nothing yet; whether it is asked which numbers something is calculated from.
    pub fn new(with_numbers: bool) -> StatementUses {
        StatementUses { staying: with_numbers.then(BTreeSet::new), ..StatementUses::default() }
    }

    /// What a statement does. Columns whose texts stay are read on the connection.
    pub fn add(&mut self, connection: &Connection, statement: u32, found: StatementFlow) {
        let mut parameters = Vec::new();
        let mut written = Vec::new();
        for (source, column) in found.writes {
            let Some(place) = place_of(&column) else { continue };
            if let Source::Parameter(index) = source {
                written.push((index, place));
                continue;
            }
            let column = self.columns.entry(place).or_default();
            if column.written.insert(source.clone()) {
                for use_ in column.uses.clone() {
                    self.use_source(connection, &source, use_);
                }
            }
        }
        for (source, use_) in found.uses {
            let is_read = matches!(
                source,
                Source::Column(..) | Source::Any(..) | Source::Numbers(..) | Source::Parameter(_)
            );
            self.meanings.keep_dates |= use_ == Use::Date && is_read;
            match source {
                Source::Parameter(index) => parameters.push((index, use_)),
                source => self.use_source(connection, &source, use_),
            }
        }
        replace_at(&mut self.parameters, statement, parameters);
        replace_at(&mut self.parameters_written, statement, written);
    }

    /// Something is done with a value, and with what it comes from.
    fn use_source(&mut self, connection: &Connection, source: &Source, use_: Use) {
        let mut waiting = vec![source.clone()];
        while let Some(source) = waiting.pop() {
            match &source {
                Source::Literal(text) => {
                    self.meanings.add(text.as_bytes(), use_);
                    self.stays_as_text(text.as_bytes(), use_);
                }
                Source::Constant(number) if is_sum(use_) => self.stay(*number),
                _ => {}
            }
            let Some(place) = place_of(&source) else { continue };
            if !of_column(&source, use_) {
                continue;
            }
            let column = self.columns.entry(place.clone()).or_default();
            if column.uses.insert(use_) {
                waiting.extend(column.written.iter().cloned());
                self.read(connection, &place, use_);
            }
        }
    }

    /// What is done with a parameter: by its statement, and with the columns that it is written
    /// into.
    fn uses_of(&self, statement: u32, index: u32) -> BTreeSet<Use> {
        let uses = self.parameters.get(&statement).map_or(&[][..], Vec::as_slice);
        let written = self.parameters_written.get(&statement).map_or(&[][..], Vec::as_slice);
        let columns = written
            .iter()
            .filter(|(number, _)| *number == index)
            .filter_map(|(_, place)| self.columns.get(place))
            .flat_map(|column| column.uses.iter().copied());
        uses.iter().filter(|(number, _)| *number == index).map(|(_, use_)| *use_).chain(columns).collect()
    }

    /// A value that is bound to a parameter.
    pub fn bound(&mut self, statement: u32, index: u32, text: &[u8]) {
        for use_ in self.uses_of(statement, index) {
            self.meanings.add(text, use_);
            self.stays_as_text(text, use_);
        }
    }

    /// A number that is bound to a parameter.
    pub fn bound_number(&mut self, statement: u32, index: u32, number: i64) {
        if self.staying.is_some() && self.uses_of(statement, index).into_iter().any(is_sum) {
            self.stay(number);
        }
    }

    fn stay(&mut self, number: i64) {
        if let Some(staying) = &mut self.staying {
            staying.insert(number);
        }
    }

    /// A text of which a number is made that something is calculated from.
    fn stays_as_text(&mut self, text: &[u8], use_: Use) {
        if let Some(staying) = &mut self.staying
            && is_sum(use_)
            && let Ok(text) = std::str::from_utf8(text)
            && let Ok(number) = text[..length_of_number(text)].parse::<f64>()
        {
            staying.insert(number as i64);
        }
    }

    /// Reads what the columns hold at the end.
    pub fn read_again(&mut self, connection: &Connection) {
        let used = self
            .columns
            .iter()
            .flat_map(|(place, column)| column.uses.iter().map(|use_| (place.clone(), *use_)));
        for (place, use_) in used.collect::<Vec<_>>() {
            self.read(connection, &place, use_);
        }
        // What AUTOINCREMENT goes on from.
        self.read_numbers(connection, "sqlite_sequence", "seq");
    }

    fn read(&mut self, connection: &Connection, (table, column): &Place, use_: Use) {
        let (table, column) = (quoted(table), column.as_deref().map_or("rowid".to_owned(), quoted));
        if is_sum(use_) {
            self.read_numbers(connection, &table, &column);
        }
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text'");
        // A column that is gone, or is in a schema that hides it, has nothing to say here.
        let Ok(mut select) = connection.prepare(&sql) else { return };
        let Ok(mut rows) = select.query([]) else { return };
        while let Ok(Some(row)) = rows.next() {
            if let Ok(rusqlite::types::ValueRef::Text(text)) = row.get_ref(0) {
                self.meanings.add(text, use_);
                self.stays_as_text(text, use_);
            }
        }
    }

    fn read_numbers(&mut self, connection: &Connection, table: &str, column: &str) {
        let Some(staying) = &mut self.staying else { return };
        let sql = format!("SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'integer'");
        let Ok(mut select) = connection.prepare(&sql) else { return };
        let Ok(rows) = select.query_map([], |row| row.get::<_, i64>(0)) else { return };
        staying.extend(rows.flatten());
    }
}

/// Puts what is known of a statement in the place of what was; nothing takes no memory.
fn replace_at<T>(of: &mut HashMap<u32, Vec<T>>, statement: u32, all: Vec<T>) {
    if all.is_empty() {
        of.remove(&statement);
    } else {
        of.insert(statement, all);
    }
}

/// The column that a source is.
fn place_of(source: &Source) -> Option<Place> {
    match source {
        Source::Column(table, column) | Source::Any(table, column) | Source::Numbers(table, column) => {
            Some((table.to_string(), Some(column.to_string())))
        }
        Source::Rowids(table) => Some((table.to_string(), None)),
        _ => None,
    }
}

/// Whether what is done with a column is done with what it holds in a way that says something of
/// each value.
fn of_column(column: &Source, use_: Use) -> bool {
    match use_ {
        Use::Calculated | Use::Date | Use::Sum | Use::Spelt | Use::Digits => true,
        // What is a number in a column of numbers is none of texts.
        Use::Number => matches!(column, Source::Column(..) | Source::Any(..)),
        Use::Word | Use::Match | Use::Within | Use::Needle | Use::Glob => false,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Whether something is made of a number there.
fn is_sum(use_: Use) -> bool {
    matches!(use_, Use::Calculated | Use::Date | Use::Sum)
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
        bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
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
            && text.to_lowercase().split([' ', '+', '-', '.']).filter(|part| !part.is_empty()).all(|word| {
                WORDS.contains(&word)
                    || MORE.contains(&word)
                    || word.bytes().all(|byte| byte.is_ascii_digit())
            }))
}

/// Whether it is a date or a time of day as SQLite writes them, or the beginning of one: of a year
/// and a month at least, or a year of our time.
fn is_calendar(text: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u32>().ok()
    };
    let rest_is_date = |from: usize| {
        bytes[from..].iter().all(|byte| byte.is_ascii_digit() || b"-:. TZ+%_".contains(byte))
            && text.len() <= DATE_MAX
    };
    let is_month =
        bytes.get(4) == Some(&b'-') && number(0, 4).is_some() && matches!(number(5, 7), Some(1..=12));
    let is_hour = bytes.get(2) == Some(&b':')
        && matches!(number(0, 2), Some(0..=24))
        && matches!(number(3, 5), Some(0..=59));
    let is_year = text.len() == 4 && matches!(number(0, 4), Some(1900..=2099));
    let ends = |at: usize, by: &[u8]| bytes.get(at).is_none_or(|byte| by.contains(byte));
    is_year
        || (is_month && ends(7, b"-%_") && rest_is_date(7))
        || (is_hour && ends(5, b":.%_Z") && rest_is_date(5))
}

/// The longest date: `2015-03-22T12:05:29.123456789+01:00`.
const DATE_MAX: usize = 36;

/// Whether it is a command to a full-text table, as `INSERT INTO t(t) VALUES ('optimize')` gives
/// it.
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
        for date in [
            "2015-03-22",
            "2015-03-22 12:05:29",
            "2015-03",
            "2015-03%",
            "12:05",
            "12:05:29.1",
            "2015",
            "2015-03-22T12:05Z",
        ] {
            assert!(is_calendar(date), "{date}");
        }
        for text in [
            "0301-234567",
            "2015-13",
            "2015-03 Ada",
            "030-1234567",
            "01234",
            "0123",
            "12:99",
            "2015-0312345678",
        ] {
            assert!(!is_calendar(text), "{text}");
        }
        assert!(is_command("optimize") && is_command("merge=8,4") && !is_command("rebuilt houses"));
    }
}
