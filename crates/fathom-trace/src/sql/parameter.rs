//! Parameters: their numbers, and their values where a log shows the statement with values filled
//! in.

use std::collections::HashMap;

use super::literal::value_of;
use super::token::{Token, TokenKind, tokens};
use crate::model::Value;

/// Numbers parameters as SQLite does: `?` is one more than the largest so far, `?N` is N, and a
/// name keeps its number.
#[derive(Debug, Default)]
pub struct Parameters<'a> {
    largest: u32,
    named: HashMap<&'a str, u32>,
}

impl<'a> Parameters<'a> {
    /// The number of a parameter token.
    pub fn number(&mut self, token: &Token<'a>) -> u32 {
        let number = match token.text.strip_prefix('?') {
            Some("") => self.largest.saturating_add(1),
            Some(digits) => digits.parse().unwrap_or(u32::MAX),
            None => *self.named.entry(token.text).or_insert(self.largest.saturating_add(1)),
        };
        self.largest = self.largest.max(number);
        number
    }
}

/// The values that stand in `expanded` (`sqlite3_expanded_sql`) where `template` has parameters;
/// none where the two do not belong together. SQLite writes reals with 15 digits there, so those
/// can differ in the last place.
#[must_use]
pub fn values_from_expanded(template: &str, expanded: &str) -> Option<Vec<(u32, Value)>> {
    let mut values = Vec::new();
    let mut parameters = Parameters::default();
    let mut filled = tokens(expanded).filter(|token| !token.is_blank());
    for token in tokens(template).filter(|token| !token.is_blank()) {
        if token.kind == TokenKind::Parameter {
            values.push((parameters.number(&token), filled_in(&mut filled)?));
        } else if filled.next()?.text != token.text {
            return None;
        }
    }
    Some(values)
}

/// The value that the next tokens are.
fn filled_in<'a>(from: &mut impl Iterator<Item = Token<'a>>) -> Option<Value> {
    let first = from.next()?;
    if first.text == "-" {
        return match from.next()? {
            token if token.is("Inf") => Some(Value::Real(f64::NEG_INFINITY)),
            token if token.text == "9223372036854775808" => Some(Value::Integer(i64::MIN)),
            token => match value_of(&token)? {
                Value::Integer(number) => Some(Value::Integer(-number)),
                Value::Real(number) => Some(Value::Real(-number)),
                _ => None,
            },
        };
    }
    if first.is("Inf") {
        return Some(Value::Real(f64::INFINITY));
    }
    if first.is("zeroblob") {
        from.next().filter(|token| token.text == "(")?;
        let Value::Integer(bytes) = value_of(&from.next()?)? else { return None };
        from.next().filter(|token| token.text == ")")?;
        return u64::try_from(bytes).ok().map(Value::ZeroBlob);
    }
    value_of(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_sqlites_numbers() {
        let mut parameters = Parameters::default();
        let numbers: Vec<u32> = tokens("? ?5 ? :a @a :a ?2 $a")
            .filter(|token| token.kind == TokenKind::Parameter)
            .map(|token| parameters.number(&token))
            .collect();
        assert_eq!(numbers, [1, 5, 6, 7, 8, 7, 2, 9]);
        // What happened: after a number that SQLite refuses the next one overflowed.
        let mut parameters = Parameters::default();
        let all = tokens("?4294967295 ? :a").filter(|token| token.kind == TokenKind::Parameter);
        assert!(all.map(|token| parameters.number(&token)).all(|number| number == u32::MAX));
    }

    #[test]
    fn values_come_back_out_of_what_sqlite_itself_expands() {
        let db = rusqlite::Connection::open_in_memory().expect("opens");
        let sql = "SELECT ?, :b, ?, ?2 /* ? */ -- ?\n, 'a?', ?, ?, ?";
        let mut statement = db.prepare(sql).expect("prepares");
        let given: [&dyn rusqlite::ToSql; 6] =
            [&-7_i64, &"it's ? ünd", &rusqlite::types::Null, &vec![1_u8, 2], &-1.5e300, &i64::MIN];
        let values = [
            Value::Integer(-7),
            Value::Text("it's ? ünd".into()),
            Value::Null,
            Value::Blob(vec![1, 2]),
            Value::Real(-1.5e300),
            Value::Integer(i64::MIN),
        ];
        for (index, value) in (1..).zip(given) {
            statement.raw_bind_parameter(index, value).expect("bound");
        }
        let expanded = statement.expanded_sql().expect("expanded");
        let found = values_from_expanded(sql, &expanded).expect("belong together");
        for (number, value) in found {
            assert_eq!(value, values[number as usize - 1], "{number}: {expanded}");
        }
        assert_eq!(values_from_expanded("SELECT ?", "SELECT 1, 2").map(|values| values.len()), Some(1));
        assert_eq!(values_from_expanded("SELECT ?", "INSERT 1"), None);
        assert_eq!(
            values_from_expanded("SELECT zeroblob(?)", "SELECT zeroblob(zeroblob(5))"),
            Some(vec![(1, Value::ZeroBlob(5))])
        );
    }
}
