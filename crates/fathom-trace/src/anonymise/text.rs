//! Texts, blobs and SQL statements with their words replaced.

use std::borrow::Cow;
use std::collections::HashSet;

use fathom_random::Random;

use super::alias::{Aliases, unquoted};
use super::meaning::{Form, Meanings};
use super::numbers::Numbers;
use super::words::{Blobs, Words};
use crate::dump::VirtualTable;
use crate::model::Value;
use crate::sql::{TokenKind, Verb, literal, pragma, tokens, value_of};

/// All words, blobs and names of a trace: collected in a first reading, used in a second.
#[derive(Debug)]
pub struct Vocabulary {
    words: Words,
    blobs: Blobs,
    /// Names of tables, columns and so on, lower case: they stay.
    names: HashSet<String>,
    /// What is known of texts that are more than words.
    pub meanings: Meanings,
    /// Whole numbers, where they are replaced.
    pub numbers: Option<Numbers>,
    /// What each digit becomes in texts whose digits are looked at one by one.
    spelling: [char; 10],
}

/// Words that are no text of a user although they stand in texts: values of JSON, and of date
/// functions.
const KEPT: [&str; 6] = ["true", "false", "null", "now", "localtime", "utc"];

const DIGITS: [char; 10] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'];

impl Vocabulary {
    /// Nothing yet; whether numbers are replaced as well.
    pub fn new(with_numbers: bool) -> Vocabulary {
        Vocabulary {
            numbers: with_numbers.then(Numbers::default),
            words: Words::new(),
            blobs: Blobs::new(),
            names: HashSet::new(),
            meanings: Meanings::default(),
            spelling: DIGITS,
        }
    }

    /// Collects a text.
    pub fn add_text(&mut self, text: &[u8]) {
        match std::str::from_utf8(text) {
            Ok(text) => {
                if self.numbers.is_some() && is_json(text) {
                    let digits = text.split(|letter: char| !letter.is_ascii_digit());
                    digits
                        .filter_map(|digit| digit.parse().ok())
                        .for_each(|number| self.add_number(number, false));
                }
                for (word, is_kept) in pieces(text) {
                    if !is_kept {
                        self.words.add(word);
                    }
                }
            }
            Err(_) => self.blobs.add(text),
        }
    }

    /// Collects a blob.
    pub fn add_blob(&mut self, blob: &[u8]) {
        self.blobs.add(blob);
    }

    /// Collects a value.
    pub fn add_value(&mut self, value: &Value) {
        match value {
            Value::Text(text) => self.add_text(text),
            Value::Blob(blob) => self.add_blob(blob),
            Value::Integer(number) => self.add_number(*number, false),
            // One of a fraction stays, and so does the whole number that it may be equal to.
            Value::Real(number) => self.add_number(*number as i64, true),
            _ => {}
        }
    }

    /// Collects a whole number, and whether it stays.
    pub fn add_number(&mut self, number: i64, stays: bool) {
        if let Some(numbers) = &mut self.numbers {
            numbers.add(number);
            if stays {
                numbers.keep(number);
            }
        }
    }

    /// Collects a statement's literals, and of a CREATE or ALTER statement the names.
    pub fn add_sql(&mut self, sql: &str) {
        let is_schema = crate::sql::Verb::of(sql) == crate::sql::Verb::Schema;
        for token in tokens(sql) {
            match token.kind {
                TokenKind::Text | TokenKind::Blob => {
                    if let Some(value) = value_of(&token) {
                        self.add_value(&value);
                    }
                }
                TokenKind::Quoted => {
                    if is_schema {
                        self.names.insert(unquoted(token.text).to_lowercase());
                    } else {
                        // Perhaps a text: SQLite takes "…" for one where no name fits.
                        self.add_text(unquoted(token.text).as_bytes());
                    }
                }
                TokenKind::Word => {
                    self.names.insert(token.text.to_lowercase());
                }
                TokenKind::Number => match token.text.parse::<i64>() {
                    Ok(number) => self.add_number(number, number.to_string() != token.text),
                    // Hexadecimal, or with a fraction or an exponent.
                    Err(_) => match value_of(&token) {
                        Some(Value::Integer(number)) => self.add_number(number, true),
                        Some(Value::Real(number)) => self.add_number(number as i64, true),
                        _ => {}
                    },
                },
                _ => {}
            }
        }
    }

    /// Draws the replacements, when all is collected. Gives how many words gave up their order.
    pub fn draw(&mut self, seed: u64) -> u64 {
        if let Some(numbers) = &mut self.numbers {
            for text in self.meanings.numbers() {
                match text.parse::<i64>() {
                    Ok(number) if number.to_string() == text => numbers.add(number),
                    Ok(number) => numbers.keep(number),
                    Err(_) => numbers.keep(text.trim().parse::<f64>().unwrap_or_default() as i64),
                }
            }
            numbers.draw(seed);
        }
        self.draw_spelling(seed);
        self.blobs.draw(seed);
        self.words.look_for(&self.meanings.pieces);
        self.words.draw(seed)
    }

    /// One circle through all digits (Sattolo's algorithm), so that none stays what it is.
    fn draw_spelling(&mut self, seed: u64) {
        let mut random = Random::new(seed ^ 0x7370_656c_7400);
        let mut circle = DIGITS;
        for last in (1..circle.len()).rev() {
            circle.swap(last, random.below(last as u64) as usize);
        }
        self.spelling = circle;
    }

    fn spelt(&self, letter: char) -> char {
        letter.to_digit(10).and_then(|digit| self.spelling.get(digit as usize)).copied().unwrap_or(letter)
    }

    /// The replacement of a text.
    pub fn text(&self, text: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(text) {
            Ok(text) => self.string(text).into_bytes(),
            Err(_) => self.blob(text),
        }
    }

    /// The replacement of a text in UTF-8.
    pub fn string(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        match self.meanings.form(text) {
            Form::Kept => out.push_str(&self.digits(text)),
            Form::Match => self.question(text, &mut out),
            Form::Format => self.format(text, &mut out),
            Form::Glob => self.glob(text, &mut out),
            Form::Spelt => out.extend(text.chars().map(|letter| self.spelt(letter))),
            Form::Words if is_json(text) => self.json(text, &mut out),
            Form::Words if text.starts_with("$.") || text.starts_with("$[") => self.path(text, &mut out),
            Form::Words => self.plain(text, &mut out),
        }
        out
    }

    /// A number as it is written, replaced where numbers are.
    fn digits<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let replaced = self.numbers.as_ref().and_then(|numbers| numbers.of_digits(text));
        replaced.map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The replacement of a whole number.
    pub fn number(&self, number: i64) -> i64 {
        self.numbers.as_ref().map_or(number, |numbers| numbers.of(number))
    }

    /// Word by word.
    fn plain(&self, text: &str, out: &mut String) {
        for (piece, is_kept) in pieces(text) {
            if is_kept { out.push_str(piece) } else { self.words.replace(piece, out) }
        }
    }

    /// A question to a full-text table: its operators and names of columns stay.
    fn question(&self, text: &str, out: &mut String) {
        let near = text.contains("NEAR");
        let mut at = 0;
        for (piece, is_kept) in pieces(text) {
            at += piece.len();
            let is_operator = ["AND", "OR", "NOT", "NEAR"].contains(&piece);
            let is_column = text[at..].trim_start().starts_with([':', '}']) && self.meanings.is_name(piece);
            let is_distance = near && piece.bytes().all(|byte| byte.is_ascii_digit());
            if is_kept || is_operator || is_column || is_distance {
                out.push_str(piece);
            } else {
                self.words.replace(piece, out);
            }
        }
    }

    /// A format of `printf` or `strftime`: its directives stay.
    fn format(&self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            self.plain(&rest[..at], out);
            let directive = &rest[at + 1..];
            let flags = directive
                .find(|letter: char| !"-+ 0123456789.#!,lh*".contains(letter))
                .unwrap_or(directive.len());
            let length = directive[flags..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[at..at + 1 + flags + length]);
            rest = &directive[flags + length..];
        }
        self.plain(rest, out);
    }

    /// A pattern of GLOB: its sets of letters stay.
    fn glob(&self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(at) = rest.find('[') {
            self.plain(&rest[..at], out);
            // A bracket that comes first is a letter of the set.
            let set = &rest[at..];
            let first = 1 + usize::from(set[1..].starts_with('^'));
            let first = first + usize::from(set[first..].starts_with(']'));
            let end = set[first..].find(']').map_or(set.len(), |offset| first + offset + 1);
            out.push_str(&set[..end]);
            rest = &set[end..];
        }
        self.plain(rest, out);
    }

    /// JSON: its texts and keys are replaced each for itself, and its numbers stay, as numbers do.
    fn json(&self, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(at) = rest.find('"') {
            self.json_numbers(&rest[..at], out);
            out.push('"');
            let inner = &rest[at + 1..];
            let mut is_escaped = false;
            let end = inner.find(|letter: char| {
                let ends = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                ends
            });
            let end = end.unwrap_or(inner.len());
            out.push_str(&self.string(&inner[..end]));
            rest = &inner[end..];
            if rest.starts_with('"') {
                out.push('"');
                rest = &rest[1..];
            }
        }
        self.json_numbers(rest, out);
    }

    /// What stands between the texts of JSON.
    fn json_numbers(&self, text: &str, out: &mut String) {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_number = is_part(first);
            let length = rest.find(|letter| is_part(letter) != is_number).unwrap_or(rest.len());
            out.push_str(&self.digits(&rest[..length]));
            rest = &rest[length..];
        }
    }

    /// A path into JSON: its keys are replaced, and its numbers of elements stay.
    fn path(&self, text: &str, out: &mut String) {
        let mut is_number = false;
        for part in text.split_inclusive(['.', '[', ']', '"']) {
            let key = part.trim_end_matches(['.', '[', ']', '"']);
            if is_number {
                out.push_str(key)
            } else {
                out.push_str(&self.string(key))
            }
            out.push_str(&part[key.len()..]);
            is_number = part.ends_with('[');
        }
    }

    /// The replacement of a blob.
    pub fn blob(&self, blob: &[u8]) -> Vec<u8> {
        let mut out = blob.to_vec();
        self.blobs.replace(&mut out);
        out
    }

    /// The replacement of a value.
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::Text(text) => Value::Text(self.text(&text)),
            Value::Blob(blob) => Value::Blob(self.blob(&blob)),
            Value::Integer(number) => Value::Integer(self.number(number)),
            other => other,
        }
    }

    /// Whether a value in a statement about the schema is a name or type of something there, or a
    /// statistic of it, which stays.
    pub fn is_name(&self, value: &Value) -> bool {
        let Value::Text(text) = value else { return false };
        let text = String::from_utf8_lossy(text).to_lowercase();
        ["table", "index", "view", "trigger"].contains(&text.as_str())
            || text.starts_with("sqlite_")
            || self.names.contains(&text)
            || self.is_of_names(&text)
            // What the planner knows of a table that an application sets itself: `8000 20 1`.
            || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '))
    }

    /// Whether a pattern for names (`LIKE 'stor%'`), in lower case, is made of what stands in
    /// names.
    fn is_of_names(&self, pattern: &str) -> bool {
        let mut words = pattern
            .split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .peekable();
        pattern.contains(['%', '_', '*', '?'])
            && words.peek().is_some()
            && words.all(|word| self.names.iter().any(|name| name.contains(word)))
    }

    /// A statement with its literals and comments replaced; as long as before. A PRAGMA stays as it
    /// is, and so does what makes a virtual table: its module's words are no texts.
    pub fn sql(&self, sql: &str) -> String {
        if pragma(sql).is_some() || VirtualTable::of(sql).is_some() {
            return sql.to_owned();
        }
        let is_about_schema = is_about_schema(sql);
        let names_only = has_names_only(sql);
        let names = Aliases::of(sql);
        let mut before = None;
        let mut out = String::with_capacity(sql.len());
        for token in tokens(sql) {
            // The name that a column gets, and a collation's, are names however they are quoted.
            let is_name = names_only || names.is_name(before.as_ref(), &token);
            match token.kind {
                TokenKind::Text | TokenKind::Blob if !is_name => match value_of(&token) {
                    Some(value) if is_about_schema && self.is_name(&value) => out.push_str(token.text),
                    Some(value) => out.push_str(&literal(&self.value(value))),
                    None => out.push_str(&self.string(token.text)),
                },
                TokenKind::Quoted if !is_name && !self.is_known(unquoted(token.text)) => {
                    out.push_str(&self.string(token.text));
                }
                TokenKind::Number => out.push_str(&self.digits(token.text)),
                TokenKind::Comment => out.extend(
                    token.text.chars().map(|letter| if letter.is_alphanumeric() { 'x' } else { letter }),
                ),
                _ => out.push_str(token.text),
            }
            if !token.is_blank() {
                before = Some(token);
            }
        }
        out
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.contains(&name.to_lowercase()) || self.meanings.is_name(name)
    }
}

/// Whether all that is quoted in a statement are names: of savepoints, and of a virtual table and
/// what its module is told.
fn has_names_only(sql: &str) -> bool {
    let mut words = tokens(sql).filter(|token| !token.is_blank());
    match Verb::of(sql) {
        Verb::Begin | Verb::Commit | Verb::Rollback => true,
        Verb::Schema => {
            words.next().is_some_and(|token| token.is("create"))
                && words.next().is_some_and(|token| token.is("virtual"))
        }
        _ => false,
    }
}

/// Whether a text is an object or array of JSON.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether a statement asks for tables and columns, or sets statistics of them: their names stay
/// and stand in its texts.
pub fn is_about_schema(sql: &str) -> bool {
    const TABLES: [&str; 7] = [
        "sqlite_master",
        "sqlite_schema",
        "sqlite_temp_master",
        "sqlite_temp_schema",
        "sqlite_stat1",
        "sqlite_stat3",
        "sqlite_stat4",
    ];
    tokens(sql).any(|token| {
        token.kind == TokenKind::Word
            && (TABLES.iter().any(|table| token.is(table))
                || token.text.to_ascii_lowercase().starts_with("pragma_"))
    })
}

/// A text as words to be replaced, and what stays (true): all that is no letter and no digit, and
/// what is no text of a user.
fn pieces(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        // An escape of JSON stays: `\n`, `\u00e4`.
        let escape = match rest.as_bytes() {
            [b'\\', b'u', ..] => rest.char_indices().nth(6).map_or(rest.len(), |(at, _)| at),
            [b'\\', b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            _ => 0,
        };
        let is_word = first.is_alphanumeric();
        let length = if escape > 0 {
            escape
        } else {
            rest.find(|letter: char| letter.is_alphanumeric() != is_word || (!is_word && letter == '\\'))
                .map_or(rest.len(), |at| at.max(first.len_utf8()))
        };
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some((piece, escape > 0 || !is_word || KEPT.contains(&piece)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_text(text in "[a-c0-2 \\\\nu'äé]{0,20}|.{0,20}") {
            prop_assert_eq!(pieces(&text).map(|(piece, _)| piece).collect::<String>(), text);
        }
    }

    #[test]
    fn statements_keep_their_names_and_lengths_and_lose_their_texts() {
        let mut vocabulary = Vocabulary::new(false);
        let sqls = [
            "CREATE TABLE \"my people\"(name TEXT DEFAULT 'nobody', a BLOB)",
            "SELECT \"name\" FROM \"my people\" WHERE name LIKE 'Schneid%' AND a = x'00112233445566778899' -- only Schneider\n",
            "INSERT INTO \"my people\" VALUES (\"Schneider\", 'it''s {\"Schneider\": true}', 'now')",
            "PRAGMA journal_mode = 'wal'",
            "SELECT 'Schneider' FROM sqlite_master WHERE type = 'table' AND name = 'my people'",
            "INSERT INTO sqlite_stat1 VALUES ('my people', 'sqlite_autoindex_my people_1', '8000 20 1')",
        ];
        sqls.iter().for_each(|sql| vocabulary.add_sql(sql));
        vocabulary.add_text(b"Schneider & Schneidewind");
        vocabulary.draw(7);
        let out: Vec<String> = sqls.iter().map(|sql| vocabulary.sql(sql)).collect();
        for (before, after) in sqls.iter().zip(&out) {
            assert_eq!(before.len(), after.len(), "{after}");
            assert!(
                !after.contains("Schneid") && !after.contains("nobody") && !after.contains("001122"),
                "{after}"
            );
        }
        assert!(out[1].starts_with("SELECT \"name\" FROM \"my people\" WHERE name LIKE '"));
        assert!(out[2].contains("true") && out[2].contains("'now'") && out[2].contains("''"), "{}", out[2]);
        assert_eq!(out[3], sqls[3]);
        assert_eq!(out[5], sqls[5], "the planner's statistics stay");
        assert!(
            out[4].ends_with("FROM sqlite_master WHERE type = 'table' AND name = 'my people'"),
            "{}",
            out[4]
        );
        let names = vocabulary.string("Schneider & Schneidewind");
        let pattern = out[1].split('\'').nth(1).expect("the pattern").trim_end_matches('%');
        assert_eq!(names.matches(pattern).count(), 2, "{names} {pattern}");
    }
}
