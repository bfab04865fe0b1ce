//! Values that go into and come out of columns.

use crate::decimal::Decimal;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// One value, borrowed from the caller or from a [`crate::Row`].
///
/// ```
/// use mmdb::Value;
/// assert_eq!(Value::from(7), Value::Int(7));
/// assert_eq!(Value::from("seven"), Value::Text("seven"));
/// assert_eq!(Value::from(None::<i64>), Value::Null);
/// ```
///
/// Values are ordered as keys of an ordered index are. Of floating-point numbers NaN is the
/// greatest and equals itself, and -0 equals 0. Integers are equal whether they are signed or not.
///
/// ```
/// use mmdb::Value;
/// assert_eq!(Value::Int(7), Value::UInt(7));
/// assert!(Value::Int(-1) < Value::UInt(u64::MAX));
/// assert!(Value::Float(f64::INFINITY) < Value::Float(f64::NAN) && Value::Float(-0.0) == Value::Float(0.0));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// An integer of any width.
    Int(i64),
    /// An integer that is not negative: what columns of unsigned integers give.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// A decimal number.
    Decimal(Decimal),
    /// A moment, microseconds since 1970-01-01 00:00 UTC.
    Time(i64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// UTF-8 text.
    Text(&'a str),
}

impl Value<'_> {
    /// The integer or the time in microseconds; `None` for the other kinds, and for an integer that
    /// is too great.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Int(7).as_int(), Value::Time(8).as_int(), Value::Null.as_int()), (Some(7), Some(8), None));
    /// assert_eq!((Value::UInt(7).as_int(), Value::UInt(u64::MAX).as_int()), (Some(7), None));
    /// ```
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(v) | Value::Time(v) => Some(*v),
            Value::UInt(v) => i64::try_from(*v).ok(),
            _ => None,
        }
    }

    /// The integer; `None` for the other kinds, and for a negative one.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::UInt(7).as_uint(), Value::Int(7).as_uint(), Value::Int(-7).as_uint()), (Some(7), Some(7), None));
    /// ```
    #[must_use]
    pub fn as_uint(&self) -> Option<u64> {
        match self {
            Value::UInt(v) => Some(*v),
            Value::Int(v) => u64::try_from(*v).ok(),
            _ => None,
        }
    }

    /// The floating-point number; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Float(0.5).as_float(), Value::Int(1).as_float()), (Some(0.5), None));
    /// ```
    #[must_use]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(v) => Some(*v),
            _ => None,
        }
    }

    /// The truth value; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Bool(true).as_bool(), Value::Int(1).as_bool()), (Some(true), None));
    /// ```
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(v) => Some(*v),
            _ => None,
        }
    }

    /// The decimal number; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::{Decimal, Value};
    /// let half: Decimal = "0.5".parse()?;
    /// assert_eq!((Value::Decimal(half).as_decimal(), Value::Int(1).as_decimal()), (Some(half), None));
    /// # Ok::<(), mmdb::ParseDecimalError>(())
    /// ```
    #[must_use]
    pub fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Value::Decimal(v) => Some(*v),
            _ => None,
        }
    }

    /// True for [`Value::Null`].
    ///
    /// ```
    /// use mmdb::Value;
    /// assert!(Value::from(None::<i64>).is_null() && !Value::Int(0).is_null());
    /// ```
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Bool(_) => "a truth value",
            Value::Int(_) | Value::UInt(_) => "an integer",
            Value::Float(_) => "a floating-point number",
            Value::Decimal(_) => "a decimal number",
            Value::Time(_) => "a time",
            Value::Bytes(_) => "bytes",
            Value::Text(_) => "text",
        }
    }

    /// Kinds of values come in this order.
    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) | Value::UInt(_) => 2,
            Value::Decimal(_) => 3,
            Value::Float(_) => 4,
            Value::Time(_) => 5,
            Value::Bytes(_) => 6,
            Value::Text(_) => 7,
        }
    }

    /// An integer of either kind.
    fn integer(&self) -> Option<i128> {
        match self {
            Value::Int(v) => Some((*v).into()),
            Value::UInt(v) => Some((*v).into()),
            _ => None,
        }
    }
}

/// A number that is ordered as floating-point numbers are in an index: as in PostgreSQL, NaN is the
/// greatest and equals every NaN, and -0 equals 0. IEEE 754 lays numbers out such that the bits of
/// positive ones are in order; those of negative ones are in the reverse order.
#[inline]
pub(crate) fn float_order(v: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // -0 plus 0 is 0.
    let bits = if v.is_nan() { f64::NAN.to_bits() & !SIGN } else { (v + 0.0).to_bits() };
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

impl Ord for Value<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => float_order(*a).cmp(&float_order(*b)),
            (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
            (Value::Time(a), Value::Time(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()).then_with(|| a.integer().cmp(&b.integer())),
        }
    }
}

impl PartialOrd for Value<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value<'_> {}

impl Hash for Value<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Null => {}
            Value::Bool(v) => v.hash(state),
            Value::Int(_) | Value::UInt(_) => self.integer().hash(state),
            Value::Float(v) => float_order(*v).hash(state),
            Value::Decimal(v) => v.hash(state),
            Value::Time(v) => v.hash(state),
            Value::Bytes(v) => v.hash(state),
            Value::Text(v) => v.hash(state),
        }
    }
}

impl<'a> Value<'a> {
    /// The text; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Text("a").as_text(), Value::Bytes(b"a").as_text()), (Some("a"), None));
    /// ```
    #[must_use]
    pub fn as_text(&self) -> Option<&'a str> {
        match self {
            Value::Text(v) => Some(v),
            _ => None,
        }
    }

    /// The bytes, of text too; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Text("a").as_bytes(), Value::Int(1).as_bytes()), (Some(&b"a"[..]), None));
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(v) => Some(v),
            Value::Text(v) => Some(v.as_bytes()),
            _ => None,
        }
    }
}

/// As in JSON: numbers bare, text quoted, bytes as a quoted `x` and hexadecimal digits. JSON has no
/// number for NaN and the infinities: they are quoted, as PostgreSQL does.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) | Value::Time(v) => write!(f, "{v}"),
            Value::UInt(v) => write!(f, "{v}"),
            Value::Decimal(v) => write!(f, "{v}"),
            Value::Float(v) if v.is_nan() => f.write_str("\"NaN\""),
            Value::Float(f64::INFINITY) => f.write_str("\"Infinity\""),
            Value::Float(f64::NEG_INFINITY) => f.write_str("\"-Infinity\""),
            // The shortest digits that give the same number again, with a power of ten where it is
            // far from 1.
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Bytes(b) => {
                f.write_str("\"x")?;
                b.iter().try_for_each(|x| write!(f, "{x:02x}"))?;
                f.write_str("\"")
            }
            Value::Text(t) => write_json_text(f, t),
        }
    }
}

/// What changes the order of what a terminal shows, without being seen itself.
fn is_mark_of_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes `t` as a JSON string; what a terminal would obey by its code, which is the same to who
/// reads JSON.
pub(crate) fn write_json_text(f: &mut impl fmt::Write, t: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in t.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if c.is_control() || is_mark_of_direction(c) => write!(f, "\\u{:04x}", c as u32)?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

impl From<i64> for Value<'_> {
    fn from(v: i64) -> Self {
        Value::Int(v)
    }
}

impl From<i32> for Value<'_> {
    fn from(v: i32) -> Self {
        Value::Int(v.into())
    }
}

impl From<u32> for Value<'_> {
    fn from(v: u32) -> Self {
        Value::Int(v.into())
    }
}

impl From<i16> for Value<'_> {
    fn from(v: i16) -> Self {
        Value::Int(v.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(v: u64) -> Self {
        Value::UInt(v)
    }
}

impl From<f64> for Value<'_> {
    fn from(v: f64) -> Self {
        Value::Float(v)
    }
}

impl From<bool> for Value<'_> {
    fn from(v: bool) -> Self {
        Value::Bool(v)
    }
}

impl From<Decimal> for Value<'_> {
    fn from(v: Decimal) -> Self {
        Value::Decimal(v)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(v: &'a str) -> Self {
        Value::Text(v)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(v: &'a String) -> Self {
        Value::Text(v)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(v: &'a [u8]) -> Self {
        Value::Bytes(v)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(v: &'a [u8; N]) -> Self {
        Value::Bytes(v)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(v: Option<T>) -> Self {
        v.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_value_stays_as_small_as_a_text() {
        assert_eq!(size_of::<Value<'_>>(), 24);
    }

    /// What happened: `mmdb dump` sent U+009B, which begins a command to a terminal as ESC [ does,
    /// and marks of direction as they were.
    #[test]
    fn what_a_terminal_obeys_is_written_by_its_code() {
        let mut text = String::new();
        write_json_text(&mut text, "a\u{9b}31m\u{7f}\u{202e}é\u{200d}\n\"").unwrap();
        assert_eq!(text, "\"a\\u009b31m\\u007f\\u202eé\\u200d\\u000a\\\"\"");
    }

    #[test]
    fn floats_are_ordered_as_in_postgresql() {
        let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(u64::MAX)];
        let rising =
            [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE, -5e-324, 0.0, 5e-324, 1.0, f64::MAX];
        let rising: Vec<f64> = rising.into_iter().chain([f64::INFINITY, f64::NAN]).collect();
        assert!(rising.windows(2).all(|w| Value::Float(w[0]) < Value::Float(w[1])), "{rising:?}");
        assert!(nans.iter().all(|n| Value::Float(*n) == Value::Float(f64::NAN)));
        assert_eq!(Value::Float(-0.0), Value::Float(0.0));
        let equal: HashSet<_> = nans.iter().map(|n| Value::Float(*n)).collect();
        assert_eq!(equal.len(), 1, "what is equal has one hash");
    }

    #[test]
    fn numbers_are_written_as_json() {
        let text = |v: f64| Value::Float(v).to_string();
        assert_eq!([text(1.0), text(-0.0), text(1e300), text(0.1)], ["1.0", "-0.0", "1e300", "0.1"]);
        let none = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(text);
        assert_eq!(none, ["\"NaN\"", "\"Infinity\"", "\"-Infinity\""]);
        let all: [Value<'_>; 3] = [u64::MAX.into(), true.into(), Decimal::from(-3).into()];
        assert_eq!(all.map(|v| v.to_string()), ["18446744073709551615", "true", "-3"]);
    }
}
