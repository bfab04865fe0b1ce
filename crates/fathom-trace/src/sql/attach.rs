//! What an ATTACH statement attaches.

use super::token::{Token, TokenKind, tokens};

/// An ATTACH statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// What is attached.
    pub target: Target,
    /// The schema's name; empty where it is not written as a name or text.
    pub schema: String,
}

/// What is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, by the path in the statement; of a URI its path.
    File(String),
    /// A database in memory, or a temporary one.
    Memory,
    /// A parameter, or an expression that has to be computed.
    Expression,
}

impl Attach {
    /// Takes a statement apart; none where it is no ATTACH.
    #[must_use]
    pub fn of(sql: &str) -> Option<Attach> {
        let mut words = tokens(sql).filter(|token| !token.is_blank()).peekable();
        words.next().filter(|token| token.is("attach"))?;
        words.next_if(|token| token.is("database"));
        let mut expression = Vec::new();
        while let Some(token) = words.next_if(|token| !token.is("as") && token.kind != TokenKind::Semicolon) {
            expression.push(token);
        }
        words.next();
        let schema = words.next().and_then(|token| text_of(&token)).unwrap_or_default();
        let name = match expression[..] {
            [only] => text_of(&only),
            _ => None,
        };
        let target = name.map_or(Target::Expression, |name| Target::of(&name));
        Some(Attach { target, schema })
    }
}

/// The schema that a DETACH names; none where it is no DETACH, or names it by a parameter.
#[must_use]
pub fn detached(sql: &str) -> Option<String> {
    let mut words = tokens(sql).filter(|token| !token.is_blank()).peekable();
    words.next().filter(|token| token.is("detach"))?;
    words.next_if(|token| token.is("database"));
    text_of(&words.next()?)
}

impl Target {
    fn of(name: &str) -> Target {
        let Some(uri) = name.strip_prefix("file:") else {
            return match name {
                "" | ":memory:" => Target::Memory,
                name => Target::File(name.to_owned()),
            };
        };
        // <https://sqlite.org/uri.html>
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let path = path.split('#').next().unwrap_or_default();
        let query = query.split('#').next().unwrap_or_default();
        // `//host/path`, of which SQLite allows no host but this one.
        let path = path.strip_prefix("//").map_or(path, |rest| rest.find('/').map_or("", |at| &rest[at..]));
        if matches!(path, "" | ":memory:") || query.split('&').any(|part| part == "mode=memory") {
            return Target::Memory;
        }
        Target::File(unescaped(path))
    }
}

/// A text, or a name that SQLite takes for one here.
fn text_of(token: &Token<'_>) -> Option<String> {
    let quote = token.text.chars().next()?;
    let inner = || token.text.get(1..token.text.len().checked_sub(1)?);
    match token.kind {
        TokenKind::Word => Some(token.text.to_owned()),
        TokenKind::Text => Some(inner()?.replace("''", "'")),
        TokenKind::Quoted if quote == '[' => Some(inner()?.to_owned()),
        TokenKind::Quoted => Some(inner()?.replace(&format!("{quote}{quote}"), &quote.to_string())),
        _ => None,
    }
}

/// `%20` and the like as the bytes that they stand for.
fn unescaped(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            // Two digits of four bits each.
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_detached_is_found_in_the_statement() {
        for (sql, schema) in [
            ("DETACH a", Some("a")),
            ("/* x */ detach DATABASE 'it''s';", Some("it's")),
            ("DETACH [x y]", Some("x y")),
            ("DETACH ?", None),
            ("DETACH", None),
            ("ATTACH 'a' AS b", None),
        ] {
            assert_eq!(detached(sql).as_deref(), schema, "{sql}");
        }
    }

    #[test]
    fn what_is_attached_is_found_in_the_statement() {
        let file = |path: &str, schema: &str| {
            Some(Attach { target: Target::File(path.into()), schema: schema.into() })
        };
        let other = |target, schema: &str| Some(Attach { target, schema: schema.into() });
        for (sql, attach) in [
            ("ATTACH '/a/it''s.db' AS b", file("/a/it's.db", "b")),
            ("/* x */attach DATABASE\"/a.db\"AS \"my \"\"b\"", file("/a.db", "my \"b")),
            ("ATTACH live AS [x y];", file("live", "x y")),
            ("ATTACH 'file:/a%20b.db?mode=ro&vfs=unix#x' AS 'q'", file("/a b.db", "q")),
            ("ATTACH 'file://localhost/a.db' AS q", file("/a.db", "q")),
            ("ATTACH 'file:shared?mode=memory&cache=shared' AS q", other(Target::Memory, "q")),
            ("ATTACH ':memory:' AS q", other(Target::Memory, "q")),
            ("ATTACH '' AS q", other(Target::Memory, "q")),
            ("ATTACH ? AS q", other(Target::Expression, "q")),
            ("ATTACH 'a' || 'b' AS q", other(Target::Expression, "q")),
            ("ATTACH 'a' AS ?", file("a", "")),
            ("ATTACH", other(Target::Expression, "")),
            ("DETACH q", None),
            ("SELECT 1", None),
        ] {
            assert_eq!(Attach::of(sql), attach, "{sql}");
        }
    }
}
