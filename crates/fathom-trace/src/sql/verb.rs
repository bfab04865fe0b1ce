//! What kind of statement a text is.

use serde::{Deserialize, Serialize};

use super::token::{Token, TokenKind, tokens};

/// Kinds of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// SELECT, VALUES, and WITH … SELECT.
    Select,
    /// INSERT and REPLACE.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// BEGIN and SAVEPOINT.
    Begin,
    /// COMMIT, END and RELEASE.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// CREATE, DROP, ALTER, REINDEX, ANALYZE, VACUUM.
    Schema,
    /// PRAGMA.
    Pragma,
    /// ATTACH and DETACH.
    Attach,
    /// EXPLAIN and what is none of these.
    Other,
}

impl Verb {
    /// All, in the order in which they are shown.
    pub const ALL: [Verb; 11] = [
        Verb::Select,
        Verb::Insert,
        Verb::Update,
        Verb::Delete,
        Verb::Begin,
        Verb::Commit,
        Verb::Rollback,
        Verb::Schema,
        Verb::Pragma,
        Verb::Attach,
        Verb::Other,
    ];

    /// The kind of `sql`, by its first word; behind WITH, by the first word after its tables.
    #[must_use]
    pub fn of(sql: &str) -> Verb {
        let mut depth = 0_i32;
        let mut is_with = false;
        for token in tokens(sql).filter(|token| !token.is_blank()) {
            match token.text {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            if token.kind != TokenKind::Word {
                continue;
            }
            if is_with {
                match Verb::of_word(&token) {
                    verb @ (Verb::Select | Verb::Insert | Verb::Update | Verb::Delete) if depth == 0 => {
                        return verb;
                    }
                    _ => continue,
                }
            }
            if token.is("with") {
                is_with = true;
                continue;
            }
            return Verb::of_word(&token);
        }
        Verb::Other
    }

    fn of_word(token: &Token<'_>) -> Verb {
        Verb::of_first_word(token.text)
    }

    /// The kind of statement that begins with this word; [`Verb::Other`] also for WITH and EXPLAIN.
    #[must_use]
    pub fn of_first_word(word: &str) -> Verb {
        match word.to_ascii_lowercase().as_str() {
            "select" | "values" => Verb::Select,
            "insert" | "replace" => Verb::Insert,
            "update" => Verb::Update,
            "delete" => Verb::Delete,
            "begin" | "savepoint" => Verb::Begin,
            "commit" | "end" | "release" => Verb::Commit,
            "rollback" => Verb::Rollback,
            "create" | "drop" | "alter" | "reindex" | "analyze" | "vacuum" => Verb::Schema,
            "pragma" => Verb::Pragma,
            "attach" | "detach" => Verb::Attach,
            _ => Verb::Other,
        }
    }

    /// Its name: `select`, `insert` …
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verb::Select => "select",
            Verb::Insert => "insert",
            Verb::Update => "update",
            Verb::Delete => "delete",
            Verb::Begin => "begin",
            Verb::Commit => "commit",
            Verb::Rollback => "rollback",
            Verb::Schema => "schema",
            Verb::Pragma => "pragma",
            Verb::Attach => "attach",
            Verb::Other => "other",
        }
    }

    /// Whether it is INSERT, UPDATE or DELETE.
    #[must_use]
    pub fn changes_rows(self) -> bool {
        matches!(self, Verb::Insert | Verb::Update | Verb::Delete)
    }
}

/// Name (lower case, without schema) and value of a PRAGMA statement; none for another statement.
#[must_use]
pub fn pragma(sql: &str) -> Option<(String, Option<String>)> {
    let mut words = tokens(sql).filter(|token| !token.is_blank() && token.kind != TokenKind::Semicolon);
    words.next().filter(|token| token.is("pragma"))?;
    let mut name = words.next()?;
    let mut next = words.next();
    if next.is_some_and(|token| token.text == ".") {
        name = words.next()?;
        next = words.next();
    }
    let value = next
        .is_some_and(|token| matches!(token.text, "=" | "("))
        .then(|| words.take_while(|token| token.text != ")").map(|token| token.text).collect::<String>());
    Some((name.text.trim_matches(['"', '\'', '`', '[', ']']).to_ascii_lowercase(), value))
}

/// The schema that a PRAGMA statement names, in lower case; none of one that names none, and of
/// another statement.
#[must_use]
pub fn pragma_schema(sql: &str) -> Option<String> {
    let mut words = tokens(sql).filter(|token| !token.is_blank() && token.kind != TokenKind::Semicolon);
    words.next().filter(|token| token.is("pragma"))?;
    let schema = words.next()?;
    words.next().filter(|token| token.text == ".")?;
    Some(schema.text.trim_matches(['"', '\'', '`', '[', ']']).to_ascii_lowercase())
}

/// A PRAGMA statement with this name in the place of its own; none for another statement.
#[must_use]
pub fn with_pragma_name(sql: &str, name: &str) -> Option<String> {
    let mut at = 0;
    let words: Vec<(usize, Token<'_>)> = tokens(sql)
        .map(|token| {
            at += token.text.len();
            (at - token.text.len(), token)
        })
        .filter(|(_, token)| !token.is_blank() && token.kind != TokenKind::Semicolon)
        .collect();
    words.first().filter(|(_, token)| token.is("pragma"))?;
    let has_schema = words.get(2).is_some_and(|(_, token)| token.text == ".");
    let (from, own) = words.get(if has_schema { 3 } else { 1 })?;
    Some(format!("{}{name}{}", &sql[..*from], &sql[*from + own.text.len()..]))
}

/// Whether it is a PRAGMA that gives an encryption key (SQLCipher, SEE, sqlite3mc).
#[must_use]
pub fn is_key_pragma(sql: &str) -> bool {
    pragma(sql).is_some_and(|(name, _)| {
        matches!(name.as_str(), "key" | "rekey" | "hexkey" | "hexrekey" | "textkey" | "textrekey")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_known_by_their_words() {
        for (sql, verb) in [
            ("/* x */ select 1", Verb::Select),
            ("WITH a(b) AS (SELECT 1), c AS (DELETE x) INSERT INTO t SELECT * FROM a", Verb::Insert),
            ("with recursive a as (values(1)) select * from a", Verb::Select),
            ("REPLACE INTO t VALUES (1)", Verb::Insert),
            ("end transaction", Verb::Commit),
            ("SAVEPOINT s", Verb::Begin),
            ("create index i on t(a)", Verb::Schema),
            ("EXPLAIN QUERY PLAN SELECT 1", Verb::Other),
            ("", Verb::Other),
        ] {
            assert_eq!(Verb::of(sql), verb, "{sql}");
        }
        for verb in Verb::ALL {
            assert_eq!(serde_json::to_string(&verb).expect("a name"), format!("\"{}\"", verb.name()));
        }
    }

    #[test]
    fn pragmas_are_taken_apart() {
        let of = |sql| pragma(sql).map(|(name, value)| (name, value.unwrap_or_default()));
        assert_eq!(of("PRAGMA main.Journal_Mode = WAL;"), Some(("journal_mode".into(), "WAL".into())));
        assert_eq!(of("pragma cache_size(-2000)"), Some(("cache_size".into(), "-2000".into())));
        assert_eq!(of("pragma page_size"), Some(("page_size".into(), String::new())));
        assert_eq!(pragma_schema("PRAGMA \"Main\" . journal_mode = WAL;").as_deref(), Some("main"));
        for sql in ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode", "SELECT a.b", "PRAGMA", ""] {
            assert_eq!(pragma_schema(sql), None, "{sql}");
        }
        assert_eq!(of("select 1"), None);
        assert!(is_key_pragma("PRAGMA key = 'secret'") && is_key_pragma("pragma main.HEXKEY='00'"));
        assert!(!is_key_pragma("PRAGMA foreign_key_list(t)"));
    }

    #[test]
    fn a_pragma_gets_another_name() {
        for (sql, renamed) in [
            ("PRAGMA journal_mode = WAL", Some("PRAGMA x = WAL")),
            ("/* a */ pragma main . \"page_size\"(4096);", Some("/* a */ pragma main . x(4096);")),
            ("PRAGMA synchronous", Some("PRAGMA x")),
            ("PRAGMA", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(with_pragma_name(sql, "x").as_deref(), renamed, "{sql}");
        }
    }
}
