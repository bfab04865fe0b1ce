//! Values that go into and come out of columns.

use std::fmt;

/// One value, borrowed from the caller or from a [`crate::Row`].
///
/// ```
/// use mmdb::Value;
/// assert_eq!(Value::from(7), Value::Int(7));
/// assert_eq!(Value::from("seven"), Value::Text("seven"));
/// assert_eq!(Value::from(None::<i64>), Value::Null);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// An integer of any width.
    Int(i64),
    /// A moment, microseconds since 1970-01-01 00:00 UTC.
    Time(i64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// UTF-8 text.
    Text(&'a str),
}

impl Value<'_> {
    /// The integer or the time in microseconds; `None` for the other kinds.
    ///
    /// ```
    /// use mmdb::Value;
    /// assert_eq!((Value::Int(7).as_int(), Value::Time(8).as_int(), Value::Null.as_int()), (Some(7), Some(8), None));
    /// ```
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(v) | Value::Time(v) => Some(*v),
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
            Value::Int(_) => "an integer",
            Value::Time(_) => "a time",
            Value::Bytes(_) => "bytes",
            Value::Text(_) => "text",
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

/// As in JSON: numbers bare, text quoted, bytes as a quoted `x` and hexadecimal digits.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Int(v) | Value::Time(v) => write!(f, "{v}"),
            Value::Bytes(b) => {
                f.write_str("\"x")?;
                b.iter().try_for_each(|x| write!(f, "{x:02x}"))?;
                f.write_str("\"")
            }
            Value::Text(t) => write_json_text(f, t),
        }
    }
}

/// Writes `t` as a JSON string.
pub(crate) fn write_json_text(f: &mut impl fmt::Write, t: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in t.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
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
