//! Keys of encrypted databases in statements, which no trace may hold.

use super::token::{TokenKind, tokens};
use super::verb::is_key_pragma;

/// What stands in the place of a `PRAGMA key`.
pub const LEFT_OUT: &str = "PRAGMA key = '(left out)'";

/// The statement without the key that it gives, where it gives one: as `PRAGMA key` and its like
/// do, and the KEY of an ATTACH. A parameter is no key yet.
#[must_use]
pub fn without_key(sql: &str) -> Option<String> {
    if is_key_pragma(sql) {
        return Some(LEFT_OUT.to_owned());
    }
    let at = key_of_attach(sql)?;
    let mut key = tokens(&sql[at..]).filter(|token| !token.is_blank());
    let is_parameter = key.next().is_some_and(|token| token.kind == TokenKind::Parameter)
        && key.all(|token| token.kind == TokenKind::Semicolon);
    (!is_parameter).then(|| format!("{} '(left out)'", &sql[..at]))
}

/// Byte behind the KEY of an ATTACH.
#[must_use]
pub fn key_of_attach(sql: &str) -> Option<usize> {
    let mut at = 0;
    let mut words = tokens(sql)
        .map(|token| {
            at += token.text.len();
            (at, token)
        })
        .filter(|(_, token)| !token.is_blank());
    words.next().filter(|(_, token)| token.is("attach"))?;
    words.find(|(_, token)| token.is("as"))?;
    // The schema's name, which may be this word.
    words.next()?;
    words.find(|(_, token)| token.is("key")).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the key of an ATTACH was kept.
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
            ("ATTACH 'key.db' AS key", None),
            ("SELECT a AS b, key FROM t", None),
            ("PRAGMA foreign_keys = ON", None),
        ] {
            assert_eq!(without_key(sql).as_deref(), plain, "{sql}");
        }
        assert_eq!(key_of_attach("ATTACH ? AS a KEY ?"), Some("ATTACH ? AS a KEY".len()));
    }
}
