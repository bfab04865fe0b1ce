//! Literals: values in SQL text, both ways.

use super::token::{Token, TokenKind};
use crate::model::Value;

/// The value of a literal token (`NULL`, number, text, blob); none for any other token.
#[must_use]
pub fn value_of(token: &Token<'_>) -> Option<Value> {
    match token.kind {
        TokenKind::Word if token.is("null") => Some(Value::Null),
        TokenKind::Text => {
            let inner = token.text.get(1..token.text.len().checked_sub(1)?)?;
            Some(Value::Text(inner.replace("''", "'").into_bytes()))
        }
        TokenKind::Blob => {
            let digits = token.text.get(2..token.text.len().checked_sub(1)?)?.as_bytes();
            let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
            let pairs = digits.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
            (digits.len() % 2 == 0).then(|| pairs.collect::<Option<Vec<u8>>>()).flatten().map(Value::Blob)
        }
        TokenKind::Number => number(&token.text.replace('_', "")),
        _ => None,
    }
}

/// As SQLite reads a number: 64-bit integer where it fits, hexadecimal as its bits, else double.
fn number(text: &str) -> Option<Value> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|bits| Value::Integer(bits as i64));
    }
    match text.parse::<i64>() {
        Ok(integer) => Some(Value::Integer(integer)),
        Err(_) => text.parse::<f64>().ok().map(Value::Real),
    }
}

/// A value as a literal that SQLite reads as the same value. Text that no literal can hold (a NUL,
/// no UTF-8) becomes a cast blob.
#[must_use]
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i64::MIN) => "(-9223372036854775807 - 1)".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) if number.is_nan() => "NULL".into(),
        Value::Real(number) if number.is_infinite() => if *number > 0.0 { "9e999" } else { "-9e999" }.into(),
        // 17 significant digits bring every double back.
        Value::Real(number) => format!("{number:.16e}"),
        Value::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => format!("'{}'", text.replace('\'', "''")),
            _ => format!("CAST({} AS TEXT)", blob(bytes)),
        },
        Value::Blob(bytes) => blob(bytes),
        Value::ZeroBlob(bytes) => format!("zeroblob({bytes})"),
    }
}

fn blob(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2 + 3);
    out.push_str("x'");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.extend(char::from_digit(digit.into(), 16));
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// SQLite itself reads every literal as the value that it was made of.
        #[test]
        fn sqlite_reads_a_literal_as_its_value(integer: i64, real: f64, text in ".{0,20}", blob: Vec<u8>) {
            use rusqlite::types::Value as Sql;
            let db = rusqlite::Connection::open_in_memory().expect("opens");
            let ask = |value: Value| -> Sql {
                db.query_row(&format!("SELECT {}", literal(&value)), [], |row| row.get(0)).expect("a value")
            };
            prop_assert_eq!(ask(Value::Integer(integer)), Sql::Integer(integer));
            prop_assert_eq!(ask(Value::Text(text.clone().into_bytes())), Sql::Text(text));
            prop_assert_eq!(ask(Value::Blob(blob.clone())), Sql::Blob(blob));
            prop_assert_eq!(ask(Value::Integer(i64::MIN)), Sql::Integer(i64::MIN));
            if !real.is_nan() {
                prop_assert_eq!(ask(Value::Real(real)), Sql::Real(real));
            }
        }
    }

    #[test]
    fn literals_are_read() {
        let value = |text: &str| super::super::tokens(text).next().and_then(|token| value_of(&token));
        assert_eq!(value("'it''s'"), Some(Value::Text(b"it's".to_vec())));
        assert_eq!(value("x'0aFF'"), Some(Value::Blob(vec![10, 255])));
        assert_eq!(value("x'0'"), None);
        assert_eq!(
            value("'open"),
            Some(Value::Text(b"ope".to_vec())),
            "an open text is the shell's trouble, not a panic"
        );
        assert_eq!(value("'"), None);
        assert_eq!(value("9223372036854775808"), Some(Value::Real(9_223_372_036_854_775_808.0)));
        assert_eq!(value("0xffffffffffffffff"), Some(Value::Integer(-1)));
        assert_eq!(value("null"), Some(Value::Null));
        assert_eq!(value("abc"), None);
    }
}
