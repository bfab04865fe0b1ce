//! Names that a statement gives to its columns and tables: `count(*) AS 'How many'`, and the same
//! without AS.

use std::collections::HashSet;

use crate::sql::{Token, TokenKind, tokens};

/// The names of one statement.
#[derive(Debug, Default)]
pub struct Aliases {
    /// Without quotes, in lower case.
    given: HashSet<String>,
}

impl Aliases {
    /// Those that a statement gives.
    pub fn of(sql: &str) -> Aliases {
        let mut aliases = Aliases::default();
        // Most statements hold neither.
        if !sql.contains(['\'', '"', '`', '[']) {
            return aliases;
        }
        let mut before: Option<Token<'_>> = None;
        for token in tokens(sql).filter(|token| !token.is_blank()) {
            if is_quoted(&token) && before.is_some_and(|before| gives_name(&before)) {
                aliases.given.insert(unquoted(token.text).to_lowercase());
            }
            before = Some(token);
        }
        aliases
    }

    /// Whether a token, after the one before it, is a name however it is quoted.
    pub fn is_name(&self, before: Option<&Token<'_>>, token: &Token<'_>) -> bool {
        let is_given = token.kind == TokenKind::Quoted
            && !self.given.is_empty()
            && self.given.contains(&unquoted(token.text).to_lowercase());
        is_quoted(token) && (is_given || before.is_some_and(gives_name))
    }
}

fn is_quoted(token: &Token<'_>) -> bool {
    matches!(token.kind, TokenKind::Text | TokenKind::Quoted)
}

/// Whether a quoted word behind this token is a name: behind a point, AS and COLLATE, and behind
/// what ends an expression or is the name of a table, because two values never stand side by side.
fn gives_name(before: &Token<'_>) -> bool {
    match before.kind {
        TokenKind::Word => !EXPECTS_VALUE.iter().any(|word| before.is(word)),
        TokenKind::Quoted | TokenKind::Text | TokenKind::Blob | TokenKind::Number | TokenKind::Parameter => {
            true
        }
        TokenKind::Other => before.text == ")" || before.text == ".",
        TokenKind::Space | TokenKind::Comment | TokenKind::Semicolon => false,
    }
}

/// Keywords behind which a value stands, or a name that the schema knows.
const EXPECTS_VALUE: [&str; 53] = [
    "ABORT",
    "ADD",
    "AFTER",
    "ALL",
    "AND",
    "BEFORE",
    "BETWEEN",
    "BY",
    "CASE",
    "CHECK",
    "COLUMN",
    "DEFAULT",
    "DELETE",
    "DISTINCT",
    "DO",
    "ELSE",
    "ESCAPE",
    "EXCEPT",
    "EXISTS",
    "FAIL",
    "FROM",
    "GLOB",
    "HAVING",
    "IGNORE",
    "IN",
    "INDEX",
    "INTERSECT",
    "INTO",
    "IS",
    "JOIN",
    "LIKE",
    "LIMIT",
    "MATCH",
    "NOT",
    "OFFSET",
    "ON",
    "OR",
    "REGEXP",
    "REPLACE",
    "RETURNING",
    "SELECT",
    "SET",
    "TABLE",
    "THEN",
    "TO",
    "UNION",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "KEY",
];

/// A quoted name without its quotes.
pub fn unquoted(name: &str) -> &str {
    let mut letters = name.chars();
    letters.next();
    letters.next_back();
    letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Vec<&str> {
        let aliases = Aliases::of(sql);
        let mut before = None;
        let mut names = Vec::new();
        for token in tokens(sql).filter(|token| !token.is_blank()) {
            names.extend(aliases.is_name(before.as_ref(), &token).then_some(token.text));
            before = Some(token);
        }
        names
    }

    /// What happened: a column's name in single quotes without AS was taken for a text and
    /// replaced, and so was each place where a statement uses a name that it gives.
    #[test]
    fn a_name_is_known_however_it_is_quoted_and_a_value_is_none() {
        for (sql, expected) in [
            ("SELECT a 'x', count(*) 'y', 1 'z' FROM t", &["'x'", "'y'", "'z'"][..]),
            ("SELECT a AS 'x y' FROM t ORDER BY \"x y\"", &["'x y'", "\"x y\""]),
            ("SELECT s.'x' FROM (SELECT a \"x\" FROM t) 's'", &["'x'", "\"x\"", "'s'"]),
            ("SELECT CASE a WHEN 'b' THEN 'c' ELSE 'd' END 'e' FROM t", &["'e'"]),
            ("SELECT 'a' FROM t WHERE b LIKE 'c' OR b IN ('d', 'e') AND NOT 'f'", &[]),
            ("SELECT DISTINCT 'a', 'b' || 'c' FROM t WHERE x BETWEEN 'd' AND 'e' LIMIT '3'", &[]),
            ("INSERT INTO t VALUES ('a', NULL), ('b', ?) RETURNING 'c'", &[]),
            ("SELECT a LIKE 'x' ESCAPE '!' 'is' FROM t GROUP BY 'b' HAVING 'c'", &["'is'"]),
            ("SELECT a COLLATE 'nocase', ?1 'p', x'00' 'q' FROM t", &["'nocase'", "'p'", "'q'"]),
            ("UPDATE OR REPLACE t SET a = 'b' WHERE c IS 'd' OR c IS NOT 'e' OR c -> 'f'", &[]),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
    }
}
