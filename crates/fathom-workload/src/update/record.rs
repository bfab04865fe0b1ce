//! The records of the `update` workload: eight fields, 88 bytes, typical business data.
//!
//! **How the 88 bytes are counted.** As the record's declared width, the way a table's author
//! counts: eight bytes for each number and one byte for each character of a fixed-length string.
//!
//! | field | type | bytes | values |
//! |---|---|---|---|
//! | `id` | integer, primary key | 8 | 1, 2, 3 … |
//! | `name` | string | 20 | random letters, two words |
//! | `department` | string | 10 | one of ten, each in a tenth of the rows |
//! | `account` | string | 12 | `KR` and ten random digits |
//! | `phone` | string | 14 | `+82-10-` and seven random digits |
//! | `hired` | integer | 8 | a day of 1990 to 2019 as `YYYYMMDD` |
//! | `salary` | real | 8 | 20,000.25 to 200,000.25 in steps of 1 |
//! | `bonus` | integer | 8 | 0 to 99,999 |
//!
//! What an engine stores differs: SQLite writes small integers in fewer bytes and adds a header of
//! about ten bytes to each record; PostgreSQL adds 24 to 28. The strings are ASCII, so that
//! characters are bytes in both.
//!
//! **No value of a non-key field is in more than 20 % of the rows.** Departments, the only field
//! with few values, are dealt and not drawn: each ten consecutive ids hold each department once, in
//! random order, so a table of n rows holds each at most ⌈n/10⌉ times. All other fields are drawn
//! evenly from at least 10,000 values.
//!
//! **Salaries** are a whole number and a quarter. Adding whole raises keeps the quarter, so SQLite
//! never shortens the number to an integer and an UPDATE never changes a record's length; and such
//! sums are exact in a double.

use crate::engine::Value;
use fathom_random::Random;

/// Width of a record, as counted above.
pub const RECORD_BYTES: usize = 88;

/// Number of fields.
pub const FIELDS: usize = 8;

/// The departments, each of ten letters.
const DEPARTMENTS: [&str; 10] = [
    "accounting",
    "compliance",
    "consulting",
    "facilities",
    "healthcare",
    "management",
    "operations",
    "production",
    "purchasing",
    "technology",
];

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Key, from 1.
    pub id: i64,
    /// 20 letters with one space.
    pub name: String,
    /// One of ten words of ten letters.
    pub department: &'static str,
    /// 12 characters.
    pub account: String,
    /// 14 characters.
    pub phone: String,
    /// `YYYYMMDD`.
    pub hired: i64,
    /// A whole number and a quarter.
    pub salary: f64,
    /// 0 to 99,999.
    pub bonus: i64,
}

impl Record {
    /// The record with this key under this seed: the same on every call, whatever was made before.
    #[must_use]
    pub fn of(seed: u64, id: i64) -> Self {
        let mut random = Random::stream(seed, "update record", id as u64);
        Record {
            id,
            name: name(&mut random),
            department: department(seed, id),
            account: digits("KR", 10, &mut random),
            phone: digits("+82-10-", 7, &mut random),
            hired: day(&mut random),
            salary: random.between(20_000, 200_000) as f64 + 0.25,
            bonus: random.between(0, 99_999),
        }
    }

    /// The fields in the table's order, as values to bind.
    #[must_use]
    pub fn values(self) -> [Value; FIELDS] {
        [
            Value::Integer(self.id),
            Value::Text(self.name),
            Value::Text(self.department.into()),
            Value::Text(self.account),
            Value::Text(self.phone),
            Value::Integer(self.hired),
            Value::Real(self.salary),
            Value::Integer(self.bonus),
        ]
    }
}

/// 9 letters, a space, 10 letters; both words with a capital.
fn name(random: &mut Random) -> String {
    let mut text = String::with_capacity(20);
    for position in 0..20 {
        if position == 9 {
            text.push(' ');
            continue;
        }
        let first = if position == 0 || position == 10 { b'A' } else { b'a' };
        text.push(char::from(first + random.below(26) as u8));
    }
    text
}

/// The department dealt to this id.
fn department(seed: u64, id: i64) -> &'static str {
    let (hand, place) = ((id - 1).div_euclid(10), (id - 1).rem_euclid(10));
    let mut dealt = DEPARTMENTS;
    Random::stream(seed, "update department", hand as u64).shuffle(&mut dealt);
    dealt[place as usize]
}

fn digits(prefix: &str, count: usize, random: &mut Random) -> String {
    let mut text = String::with_capacity(prefix.len() + count);
    text.push_str(prefix);
    for _ in 0..count {
        text.push(char::from(b'0' + random.below(10) as u8));
    }
    text
}

/// A day of 1990 to 2019; months have 28 days here, so that every number is a date.
fn day(random: &mut Random) -> i64 {
    random.between(1990, 2019) * 10_000 + random.between(1, 12) * 100 + random.between(1, 28)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Bytes as counted in this file's header.
    fn width(value: &Value) -> usize {
        match value {
            Value::Integer(_) | Value::Real(_) => 8,
            Value::Text(text) => text.len(),
            other => panic!("{other:?} is not a field of a record"),
        }
    }

    proptest! {
        #[test]
        fn every_record_is_88_bytes_of_8_fields(seed: u64, id in 1_i64..i64::MAX) {
            let values = Record::of(seed, id).values();
            prop_assert_eq!(values.len(), 8);
            prop_assert_eq!(values.iter().map(width).sum::<usize>(), RECORD_BYTES);
        }

        #[test]
        fn no_value_is_in_more_than_a_fifth_of_the_rows(seed: u64, rows in 100_i64..3_000) {
            let mut counts: HashMap<(usize, String), usize> = HashMap::new();
            for id in 1..=rows {
                for (field, value) in Record::of(seed, id).values().into_iter().enumerate().skip(1) {
                    *counts.entry((field, format!("{value:?}"))).or_default() += 1;
                }
            }
            for ((field, value), count) in counts {
                prop_assert!(count * 5 <= rows as usize, "field {}: {} in {} of {} rows", field, value, count, rows);
            }
        }

        #[test]
        fn a_raise_never_makes_a_salary_whole(seed: u64, id in 1_i64..1_000_000, raises in 0_u32..100) {
            let salary = Record::of(seed, id).salary + f64::from(raises);
            prop_assert_eq!(salary.fract(), 0.25);
        }
    }

    #[test]
    fn ten_departments_share_the_rows_evenly() {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for id in 1..=1000 {
            *counts.entry(Record::of(7, id).department).or_default() += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|&count| count == 100), "{counts:?}");
    }

    #[test]
    fn same_seed_same_record_other_seed_other_record() {
        assert_eq!(Record::of(1, 5), Record::of(1, 5));
        assert_ne!(Record::of(1, 5), Record::of(2, 5));
        assert_ne!(Record::of(1, 5).name, Record::of(1, 6).name);
    }
}
