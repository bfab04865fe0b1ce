//! A statement without the values that stand in it, to be shown.

use super::{Token, TokenKind, is_key_pragma, pragma, tokens};

/// Words after which a quoted word is a name. Elsewhere SQLite takes `"…"` for a text where no
/// column is called so, and then it is one.
const BEFORE_NAMES: [&str; 13] = [
    "from",
    "into",
    "update",
    "join",
    "table",
    "index",
    "view",
    "trigger",
    "on",
    "as",
    "savepoint",
    "to",
    "exists",
];

/// The statement in one line: keywords, names of tables and columns, and parameters as they are;
/// literals as `?`; comments, and what is quoted and may be a text, left out. At most `most`
/// letters, then `…`.
#[must_use]
pub fn shape(sql: &str, most: usize) -> String {
    let is_key = is_key_pragma(sql);
    let is_pragma = pragma(sql).is_some();
    let mut out = String::new();
    let mut before: Option<Token<'_>> = None;
    let mut is_apart = false;
    let mut length = 0;
    for token in tokens(sql) {
        if token.is_blank() {
            is_apart = true;
            continue;
        }
        if token.kind == TokenKind::Semicolon {
            continue;
        }
        let names = |before: Token<'_>| before.text == "." || BEFORE_NAMES.iter().any(|word| before.is(word));
        let text = match token.kind {
            TokenKind::Text | TokenKind::Blob => "?",
            // The sizes that a PRAGMA sets are no data.
            TokenKind::Number if !is_pragma => "?",
            TokenKind::Quoted if !before.is_some_and(names) => "?",
            _ => token.text,
        };
        if is_apart && !out.is_empty() {
            out.push(' ');
            length += 1;
        }
        is_apart = false;
        let letters = text.chars().count();
        if length + letters > most {
            out.extend(text.chars().take(most.saturating_sub(length)));
            out.push('…');
            return out;
        }
        out.push_str(text);
        length += letters;
        if is_key && (token.text == "=" || token.text == "(") {
            out.push_str(" ?");
            return out;
        }
        before = Some(token);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_names_and_parameters_and_no_value() {
        for (sql, shown) in [
            (
                "INSERT INTO mails(id, body) VALUES (12, 'dear John')",
                "INSERT INTO mails(id, body) VALUES (?, ?)",
            ),
            (
                "UPDATE \"mails\"  SET\n seen=1 -- of John\n WHERE id = ?1;",
                "UPDATE \"mails\" SET seen=? WHERE id = ?1",
            ),
            (
                "SELECT x FROM t WHERE name = \"John\" OR b = x'4a6f'",
                "SELECT x FROM t WHERE name = ? OR b = ?",
            ),
            ("SELECT a.\"b\" FROM a /* John */", "SELECT a.\"b\" FROM a"),
            ("BEGIN IMMEDIATE;", "BEGIN IMMEDIATE"),
            ("PRAGMA journal_mode=WAL", "PRAGMA journal_mode=WAL"),
            ("PRAGMA cache_size = -2000", "PRAGMA cache_size = -2000"),
            ("PRAGMA key = secret", "PRAGMA key = ?"),
            ("PRAGMA main.rekey(secret)", "PRAGMA main.rekey( ?"),
            ("ATTACH '/home/john/a.db' AS other", "ATTACH ? AS other"),
            ("INSERT INTO t VALUES ('John", "INSERT INTO t VALUES (?"),
            ("", ""),
        ] {
            assert_eq!(shape(sql, 100), shown, "{sql}");
        }
        assert_eq!(shape("SELECT größe FROM t", 10), "SELECT grö…");
        assert_eq!(shape("SELECT 1", 8), "SELECT ?");
    }
}
