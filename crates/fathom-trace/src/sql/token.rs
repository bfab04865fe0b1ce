//! Tokens, after <https://sqlite.org/lang.html> and `tokenize.c`: what is no token of SQL is passed
//! on as [`TokenKind::Other`].

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Spaces and line ends.
    Space,
    /// A comment.
    Comment,
    /// A keyword or an identifier.
    Word,
    /// An identifier in `"…"`, `` `…` `` or `[…]`.
    Quoted,
    /// A text in `'…'`.
    Text,
    /// A blob, `x'…'`.
    Blob,
    /// A number.
    Number,
    /// `?`, `?3`, `:name`, `@name`, `$name`.
    Parameter,
    /// `;`
    Semicolon,
    /// Operators, brackets, and what SQL does not know.
    Other,
}

/// A token and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// As it is written.
    pub text: &'a str,
}

impl Token<'_> {
    /// Whether it is this keyword.
    #[must_use]
    pub fn is(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it says nothing to SQLite.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        matches!(self.kind, TokenKind::Space | TokenKind::Comment)
    }
}

/// The tokens of a text; put together again they are the text.
pub fn tokens(sql: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (kind, length) = first(rest);
        let (text, after) = rest.split_at(length);
        rest = after;
        Some(Token { kind, text })
    })
}

/// Kind and length of the first token. Lengths end between characters: all marks that end a token
/// are ASCII, and letters beyond ASCII belong to words.
fn first(sql: &str) -> (TokenKind, usize) {
    let bytes = sql.as_bytes();
    let run = |from: usize, belongs: fn(u8) -> bool| {
        bytes[from..].iter().position(|byte| !belongs(*byte)).map_or(bytes.len(), |length| from + length)
    };
    let next = bytes.get(1).copied();
    match bytes[0] {
        b' ' | b'\t' | b'\n' | 0x0c | b'\r' => {
            (TokenKind::Space, run(0, |byte| matches!(byte, b' ' | b'\t' | b'\n' | 0x0c | b'\r')))
        }
        b'-' if next == Some(b'-') => (TokenKind::Comment, run(0, |byte| byte != b'\n')),
        b'/' if next == Some(b'*') => {
            (TokenKind::Comment, sql[2..].find("*/").map_or(bytes.len(), |at| at + 4))
        }
        b'\'' => (TokenKind::Text, quoted(bytes, 0)),
        b'"' | b'`' => (TokenKind::Quoted, quoted(bytes, 0)),
        b'[' => (TokenKind::Quoted, sql.find(']').map_or(bytes.len(), |at| at + 1)),
        b'x' | b'X' if next == Some(b'\'') => (TokenKind::Blob, quoted(bytes, 1)),
        b'0'..=b'9' => (TokenKind::Number, number(bytes)),
        b'.' if next.is_some_and(|byte| byte.is_ascii_digit()) => (TokenKind::Number, number(bytes)),
        b'?' => (TokenKind::Parameter, run(1, |byte| byte.is_ascii_digit())),
        b':' | b'@' | b'$' | b'#' if next.is_some_and(in_word) => {
            (TokenKind::Parameter, named_parameter(bytes))
        }
        b';' => (TokenKind::Semicolon, 1),
        byte if in_word(byte) => (TokenKind::Word, run(0, in_word)),
        _ => (TokenKind::Other, 1),
    }
}

/// Letters, digits, `_`, `$` and everything beyond ASCII.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Length up to and with the quote that ends what begins with the quote at `from`; a doubled quote
/// is part of it.
fn quoted(bytes: &[u8], from: usize) -> usize {
    let quote = bytes[from];
    let mut at = from + 1;
    while at < bytes.len() {
        if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    bytes.len()
}

fn number(bytes: &[u8]) -> usize {
    let digits = |mut at: usize, belongs: fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|byte| belongs(*byte)) {
            at += 1;
        }
        at
    };
    let decimal: fn(u8) -> bool = |byte| byte.is_ascii_digit() || byte == b'_';
    if bytes[0] == b'0'
        && matches!(bytes.get(1), Some(b'x' | b'X'))
        && bytes.get(2).is_some_and(u8::is_ascii_hexdigit)
    {
        return digits(2, |byte| byte.is_ascii_hexdigit() || byte == b'_');
    }
    let mut at = digits(0, decimal);
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1, decimal);
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if bytes.get(at + 1 + sign).is_some_and(u8::is_ascii_digit) {
            at = digits(at + 1 + sign, decimal);
        }
    }
    at
}

/// `$name`, also as Tcl writes it: `$a::b(c)`.
fn named_parameter(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        if in_word(byte) {
            at += 1;
        } else if byte == b':' && bytes.get(at + 1) == Some(&b':') {
            at += 2;
        } else if byte == b'(' && bytes[0] == b'$' {
            return bytes[at..]
                .iter()
                .position(|byte| *byte == b')')
                .map_or(bytes.len(), |length| at + length + 1);
        } else {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_tokens_of_any_text_are_the_text(sql in "[ -~é\n]{0,60}|.{0,40}") {
            prop_assert_eq!(tokens(&sql).map(|token| token.text).collect::<String>(), sql);
        }
    }

    #[test]
    fn tokens_are_what_sqlite_takes_them_for() {
        use TokenKind::*;
        let sql = "SELECT a.\"b\"\"c\",[d e],'it''s',X'00ff',1.5e-3,.5,0x1F,?,?12,:n,@n,$a::b(c) -- x\n/* y */FROM größe;";
        let seen: Vec<_> = tokens(sql)
            .filter(|token| token.kind != Other && token.kind != Space)
            .map(|token| (token.kind, token.text))
            .collect();
        assert_eq!(
            seen,
            [
                (Word, "SELECT"),
                (Word, "a"),
                (Quoted, "\"b\"\"c\""),
                (Quoted, "[d e]"),
                (Text, "'it''s'"),
                (Blob, "X'00ff'"),
                (Number, "1.5e-3"),
                (Number, ".5"),
                (Number, "0x1F"),
                (Parameter, "?"),
                (Parameter, "?12"),
                (Parameter, ":n"),
                (Parameter, "@n"),
                (Parameter, "$a::b(c)"),
                (Comment, "-- x"),
                (Comment, "/* y */"),
                (Word, "FROM"),
                (Word, "größe"),
                (Semicolon, ";"),
            ]
        );
    }
}
