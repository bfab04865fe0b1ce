//! Texts, blobs and SQL statements with their words replaced.

use std::collections::HashSet;

use super::words::{Blobs, Words};
use crate::model::Value;
use crate::sql::{TokenKind, literal, pragma, tokens, value_of};

/// All words, blobs and names of a trace: collected in a first reading, used in a second.
#[derive(Debug)]
pub struct Vocabulary {
    words: Words,
    blobs: Blobs,
    /// Names of tables, columns and so on, lower case: they stay.
    names: HashSet<String>,
}

/// Words that are no text of a user although they stand in texts: values of JSON, and of date functions.
const KEPT: [&str; 6] = ["true", "false", "null", "now", "localtime", "utc"];

impl Vocabulary {
    /// Nothing yet.
    pub fn new(seed: u64) -> Vocabulary {
        Vocabulary { words: Words::new(seed), blobs: Blobs::new(seed), names: HashSet::new() }
    }

    /// Collects a text.
    pub fn add_text(&mut self, text: &[u8]) {
        match std::str::from_utf8(text) {
            Ok(text) => {
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
            _ => {}
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
                _ => {}
            }
        }
    }

    /// Draws the replacements, when all is collected. Gives how many words gave up their order.
    pub fn draw(&mut self) -> u64 {
        self.blobs.draw();
        self.words.draw()
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
        for (piece, is_kept) in pieces(text) {
            if is_kept { out.push_str(piece) } else { self.words.replace(piece, &mut out) }
        }
        out
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
            other => other,
        }
    }

    /// Whether a value in a statement about the schema is a name or type of something there, or a statistic of it, which stays.
    pub fn is_name(&self, value: &Value) -> bool {
        let Value::Text(text) = value else { return false };
        let text = String::from_utf8_lossy(text).to_lowercase();
        ["table", "index", "view", "trigger"].contains(&text.as_str())
            || text.starts_with("sqlite_")
            || self.names.contains(&text)
            // What the planner knows of a table that an application sets itself: `8000 20 1`.
            || (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '))
    }

    /// A statement with its literals and comments replaced; as long as before. A PRAGMA stays as it is.
    pub fn sql(&self, sql: &str) -> String {
        if pragma(sql).is_some() {
            return sql.to_owned();
        }
        let is_about_schema = is_about_schema(sql);
        let mut out = String::with_capacity(sql.len());
        for token in tokens(sql) {
            match token.kind {
                TokenKind::Text | TokenKind::Blob => match value_of(&token) {
                    Some(value) if is_about_schema && self.is_name(&value) => out.push_str(token.text),
                    Some(value) => out.push_str(&literal(&self.value(value))),
                    None => out.push_str(&self.string(token.text)),
                },
                TokenKind::Quoted if !self.names.contains(&unquoted(token.text).to_lowercase()) => {
                    out.push_str(&self.string(token.text));
                }
                TokenKind::Comment => out.extend(
                    token.text.chars().map(|letter| if letter.is_alphanumeric() { 'x' } else { letter }),
                ),
                _ => out.push_str(token.text),
            }
        }
        out
    }
}

/// Whether a statement asks for tables and columns, or sets statistics of them: their names stay and stand in its texts.
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

/// A quoted name without its quotes.
fn unquoted(name: &str) -> &str {
    let mut letters = name.chars();
    letters.next();
    letters.next_back();
    letters.as_str()
}

/// A text as words to be replaced, and what stays (true): all that is no letter and no digit, and what is no text of a user.
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
        let mut vocabulary = Vocabulary::new(7);
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
        vocabulary.draw();
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
