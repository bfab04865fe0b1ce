//! Keys of encrypted databases in statements, which no trace may hold.

use super::token::{Token, TokenKind, tokens};
use super::verb::is_key_pragma;

/// What stands in the place of a `PRAGMA key`.
pub const LEFT_OUT: &str = "PRAGMA key = '(left out)'";

/// Parameters of a URI that give a key to SQLite's encryption extensions.
const URI_KEYS: [&str; 3] = ["key", "hexkey", "textkey"];

/// The statement without the key that it gives, where it gives one: as `PRAGMA key` and its like
/// do, the KEY of an ATTACH, and the URI of an ATTACH or VACUUM INTO. A parameter is no key yet.
#[must_use]
pub fn without_key(sql: &str) -> Option<String> {
    if is_key_pragma(sql) {
        return Some(LEFT_OUT.to_owned());
    }
    let plain = without_key_of_attach(sql);
    without_key_of_uri(plain.as_deref().unwrap_or(sql)).or(plain)
}

/// The tokens but blanks, each with the byte behind it.
fn words(sql: &str) -> impl Iterator<Item = (usize, Token<'_>)> {
    let mut at = 0;
    tokens(sql)
        .map(move |token| {
            at += token.text.len();
            (at, token)
        })
        .filter(|(_, token)| !token.is_blank())
}

fn without_key_of_uri(sql: &str) -> Option<String> {
    let mut words = words(sql);
    words.next().filter(|(_, token)| token.is("attach") || token.is("vacuum"))?;
    let is_quoted = |kind| matches!(kind, TokenKind::Text | TokenKind::Quoted);
    words.filter(|(_, token)| is_quoted(token.kind)).find_map(|(end, token)| {
        let inner = token.text.get(1..token.text.len().checked_sub(1)?)?;
        let from = end - token.text.len() + 1;
        Some(format!("{}{}{}", &sql[..from], uri_without_key(inner)?, &sql[end - 1..]))
    })
}

/// The name of a database without the key that it gives as a URI; none where it gives none.
fn uri_without_key(name: &str) -> Option<String> {
    let (path, rest) = name.strip_prefix("file:")?.split_once('?')?;
    let (query, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
    let mut gives_key = false;
    let parts: Vec<String> = query
        .split('&')
        .map(|part| match part.split_once('=') {
            Some((name, _)) if URI_KEYS.contains(&name) => {
                gives_key = true;
                format!("{name}=(left out)")
            }
            _ => part.to_owned(),
        })
        .collect();
    gives_key.then(|| format!("file:{path}?{}{fragment}", parts.join("&")))
}

fn without_key_of_attach(sql: &str) -> Option<String> {
    let at = key_of_attach(sql)?;
    let mut key = tokens(&sql[at..]).filter(|token| !token.is_blank());
    let is_parameter = key.next().is_some_and(|token| token.kind == TokenKind::Parameter)
        && key.all(|token| token.kind == TokenKind::Semicolon);
    (!is_parameter).then(|| format!("{} '(left out)'", &sql[..at]))
}

/// Byte behind the KEY of an ATTACH.
#[must_use]
pub fn key_of_attach(sql: &str) -> Option<usize> {
    let mut words = words(sql);
    words.next().filter(|(_, token)| token.is("attach"))?;
    words.find(|(_, token)| token.is("as"))?;
    // The schema's name, which may be this word.
    words.next()?;
    words.find(|(_, token)| token.is("key")).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the key of an ATTACH was kept, and later that of its URI.
    #[test]
    fn keys_are_left_out() {
        for (sql, plain) in [
            ("PRAGMA key = 'secret'", Some(LEFT_OUT)),
            ("pragma main.rekey('secret')", Some(LEFT_OUT)),
            ("ATTACH 'a.db' AS a KEY 'secret'", Some("ATTACH 'a.db' AS a KEY '(left out)'")),
            (
                "attach database ? as key key x'00' || 'secret';",
                Some("attach database ? as key key '(left out)'"),
            ),
            ("ATTACH ? AS a KEY ?;", None),
            (
                "ATTACH 'file:a.db?mode=rwc&hexkey=00ff&cache=private#x' AS a",
                Some("ATTACH 'file:a.db?mode=rwc&hexkey=(left out)&cache=private#x' AS a"),
            ),
            (
                "attach database \"file:a.db?key=it's\" as a key 'secret'",
                Some("attach database \"file:a.db?key=(left out)\" as a key '(left out)'"),
            ),
            (
                "VACUUM main INTO 'file:a.db?textkey=it''s';",
                Some("VACUUM main INTO 'file:a.db?textkey=(left out)';"),
            ),
            ("ATTACH 'file:a.db?mode=ro' AS key", None),
            ("ATTACH 'a.db?key=1' AS a", None),
            ("INSERT INTO t VALUES ('file:a.db?key=1')", None),
            ("ATTACH 'key.db' AS key", None),
            ("SELECT a AS b, key FROM t", None),
            ("PRAGMA foreign_keys = ON", None),
        ] {
            assert_eq!(without_key(sql).as_deref(), plain, "{sql}");
        }
        assert_eq!(key_of_attach("ATTACH ? AS a KEY ?"), Some("ATTACH ? AS a KEY".len()));
    }
}
