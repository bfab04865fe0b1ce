//! Encoded keys as text, for messages.

use crate::column::{Column, ColumnType};
use crate::decimal::Decimal;
use crate::table::TableInner;
use crate::value::Value;

const SIGN: u64 = 1 << 63;

impl TableInner {
    /// The values of a key as index `ix` has it, as text. The place that is behind the key in an
    /// entry is not shown.
    pub(crate) fn shown_key(&self, ix: usize, key: &[u8]) -> String {
        let columns = self.indexes[ix].def.columns.iter().filter_map(|&c| self.schema.columns.get(c));
        shown(key, columns)
    }
}

/// Bytes that are no key of these columns are shown as they are.
fn shown<'c>(key: &[u8], columns: impl Iterator<Item = &'c Column>) -> String {
    let (mut parts, mut rest) = (Vec::new(), key);
    for column in columns {
        let Some((part, behind)) = shown_part(column, rest) else { return format!("{key:02x?}") };
        parts.push(part);
        rest = behind;
    }
    format!("({})", parts.join(", "))
}

/// What `Layout::key_part` made of one value, as text, and what is behind it.
fn shown_part<'k>(column: &Column, mut key: &'k [u8]) -> Option<(String, &'k [u8])> {
    if column.nullable {
        let (is_given, behind) = key.split_first()?;
        if *is_given == 0 {
            return Some((Value::Null.to_string(), behind));
        }
        key = behind;
    }
    let (value, behind) = match column.kind {
        ColumnType::Int16 => {
            let (b, behind) = key.split_first_chunk::<2>()?;
            (Value::Int(((u16::from_be_bytes(*b) ^ 0x8000) as i16).into()), behind)
        }
        ColumnType::Int32 => {
            let (b, behind) = key.split_first_chunk::<4>()?;
            (Value::Int(((u32::from_be_bytes(*b) ^ 0x8000_0000) as i32).into()), behind)
        }
        ColumnType::UInt32 => {
            let (b, behind) = key.split_first_chunk::<4>()?;
            (Value::UInt(u32::from_be_bytes(*b).into()), behind)
        }
        ColumnType::Bool => {
            let (b, behind) = key.split_first()?;
            (Value::Bool(*b != 0), behind)
        }
        ColumnType::FixedBytes(n) => {
            let (b, behind) = key.split_at_checked(n.into())?;
            (Value::Bytes(b), behind)
        }
        ColumnType::VarBytes(_) => {
            let (b, behind) = unescaped(key)?;
            return Some((Value::Bytes(&b).to_string(), behind));
        }
        ColumnType::FixedText(_) | ColumnType::VarText(_) => {
            let (b, behind) = unescaped(key)?;
            return Some((Value::Text(std::str::from_utf8(&b).ok()?).to_string(), behind));
        }
        kind => {
            let (b, behind) = key.split_first_chunk::<8>()?;
            let x = u64::from_be_bytes(*b);
            let value = match kind {
                ColumnType::UInt64 => Value::UInt(x),
                ColumnType::Float64 => {
                    Value::Float(f64::from_bits(if x & SIGN == 0 { !x } else { x ^ SIGN }))
                }
                ColumnType::Decimal(scale) => Value::Decimal(Decimal::new((x ^ SIGN) as i64, scale)?),
                _ => Value::Int((x ^ SIGN) as i64),
            };
            (value, behind)
        }
    };
    Some((value.to_string(), behind))
}

/// The bytes up to the end that is marked by two zeros, in which a zero has 0xff behind it.
fn unescaped(key: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut bytes, mut rest) = (Vec::new(), key);
    loop {
        let (&x, behind) = rest.split_first()?;
        rest = behind;
        if x == 0 {
            let (&mark, behind) = rest.split_first()?;
            rest = behind;
            if mark == 0 {
                return Some((bytes, rest));
            }
        }
        bytes.push(x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Layout, values_text};
    use crate::schema::Schema;

    /// Who waited for a lock in vain was told the bytes of the encoded key, and of a key in a
    /// unique index the values.
    #[test]
    fn a_key_is_shown_as_its_values() {
        let schema = Schema::new("t")
            .column("a", ColumnType::Int16)
            .nullable("b", ColumnType::VarText(30))
            .nullable("c", ColumnType::Int64)
            .column("d", ColumnType::FixedText(9))
            .column("e", ColumnType::VarBytes(30))
            .column("f", ColumnType::FixedBytes(3))
            .column("g", ColumnType::Int32)
            .column("h", ColumnType::UInt32)
            .nullable("i", ColumnType::UInt64)
            .column("j", ColumnType::Float64)
            .column("k", ColumnType::Bool)
            .column("l", ColumnType::Decimal(3))
            .column("m", ColumnType::Time);
        let layout = Layout::new(&schema);
        let all: Vec<usize> = (0..13).collect();
        let rest = |text, bytes, number: i64, float| {
            [
                Value::Text(text),
                Value::Bytes(bytes),
                Value::Bytes(b"\0\xff1"),
                Value::Int(number >> 32),
                Value::UInt((number as u32).into()),
                Value::UInt(number as u64),
                Value::Float(float),
                Value::Bool(number > 0),
                Value::Decimal(Decimal::new(number, 3).unwrap()),
                Value::Time(number),
            ]
        };
        let short = rest("", b"", i64::MIN, -1.5);
        let long = rest("a\0b\"", b"\0\0\xff", i64::MAX, f64::INFINITY);
        for (first, rest) in [
            ([Value::Int(-7), Value::Null, Value::Null], short),
            ([Value::Int(7), Value::Text("\0\u{ff}\0"), Value::Int(-1)], long),
        ] {
            let values: Vec<Value<'_>> = first.into_iter().chain(rest).collect();
            let mut key = Vec::new();
            layout.user_key(&values, &all, false, &mut key).unwrap();
            assert_eq!(shown(&key, schema.columns.iter()), values_text(&values));
            // A place is behind it.
            key.extend_from_slice(&[1; 8]);
            assert_eq!(shown(&key, schema.columns.iter()), values_text(&values));
            assert!(shown(&key[..20], schema.columns.iter()).starts_with('['), "it is no key");
        }
    }
}
