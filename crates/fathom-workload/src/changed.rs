//! Bytes changed by SQL: the first step of the write ladder.
//!
//! Counted are the values of statements that change rows, bound to them or literal in their text,
//! as long as SQLite's record format stores them
//! (<https://www.sqlite.org/fileformat2.html#record_format>): NULL, 0 and 1 take none, other
//! integers 1, 2, 3, 4, 6 or 8, reals 8, texts and blobs their length. So a key that an UPDATE or
//! DELETE only looks for counts, too, and what an expression or a trigger makes of the values does
//! not.
//!
//! Nothing is counted unless [`count_changes`] says so: reading literals takes time. A replay
//! counts while its trace is read (see `trace/changes.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fathom_trace::model::Value as Literal;
use fathom_trace::sql::{Verb, tokens, value_of};

use crate::engine::Value;

static CHANGED: AtomicU64 = AtomicU64::new(0);

static COUNTING: AtomicBool = AtomicBool::new(false);

/// Counts from now on.
pub fn count_changes() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Whether anything is counted.
pub(crate) fn is_counting() -> bool {
    COUNTING.load(Ordering::Relaxed)
}

/// Adds bytes that were counted elsewhere.
pub(crate) fn add_bytes(bytes: u64) {
    CHANGED.fetch_add(bytes, Ordering::Relaxed);
}

/// Adds the values bound to a statement that changed rows.
#[inline]
pub(crate) fn add(values: &[Value]) {
    if is_counting() {
        add_bytes(values.iter().map(stored_bytes).sum());
    }
}

/// Adds the literals of a statement's text, if it is one that changes rows.
#[inline]
pub(crate) fn add_text(sql: &str) {
    if is_counting() && changes_rows(sql) {
        add_bytes(literal_bytes(sql));
    }
}

/// Whether a statement is an INSERT, UPDATE or DELETE, behind a comment or WITH too.
pub(crate) fn changes_rows(sql: &str) -> bool {
    Verb::of(sql).changes_rows()
}

/// The stored length of all literals of a statement.
pub(crate) fn literal_bytes(sql: &str) -> u64 {
    let mut sum = 0;
    let mut is_behind_minus = false;
    for token in tokens(sql) {
        sum += match value_of(&token) {
            Some(Literal::Integer(number)) if is_behind_minus => integer_bytes(number.wrapping_neg()),
            Some(Literal::Integer(number)) => integer_bytes(number),
            Some(Literal::Real(_)) => 8,
            Some(Literal::Text(bytes) | Literal::Blob(bytes)) => bytes.len() as u64,
            Some(Literal::Null | Literal::ZeroBlob(_)) | None => 0,
        };
        is_behind_minus = token.text == "-";
    }
    sum
}

/// What all connections of the process have changed so far, bytes.
pub(crate) fn changed_bytes() -> u64 {
    CHANGED.load(Ordering::Relaxed)
}

fn stored_bytes(value: &Value) -> u64 {
    match value {
        Value::Null => 0,
        Value::Integer(number) => integer_bytes(*number),
        Value::Real(_) => 8,
        Value::Text(text) => text.len() as u64,
        Value::Blob(bytes) => bytes.len() as u64,
    }
}

/// The stored length of an integer.
pub(crate) fn integer_bytes(number: i64) -> u64 {
    match number {
        0 | 1 => 0,
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        -0x8000_0000_0000..=0x7fff_ffff_ffff => 6,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a real with a sign in its exponent counted as a real and an integer, `.5` as
    /// an integer, an integer in hexadecimal as a real; what stands in a comment counted too, an
    /// apostrophe there up to the next; and an INSERT behind a comment did not.
    #[test]
    fn literals_count_as_bound_values_do() {
        for (sql, bytes) in [
            ("INSERT INTO tbl1(a, b) VALUES (12, 'twelve chars')", 1 + 12),
            ("UPDATE \"t 22\" SET a2 = 'it''s', b = -1.5e3 WHERE id = 300", 4 + 8 + 2),
            ("INSERT INTO t VALUES (x'010203', NULL, 1, -129, ?1, :p2)", 3 + 2),
            ("DELETE FROM t WHERE id=70000", 3),
            ("INSERT INTO t VALUES (1.5e-3, .5, 0x10, 2e+5)", 8 + 8 + 1 + 8),
            ("INSERT INTO t VALUES (1, 'four') -- it's 300\n /* 'twelve' 70000 */", 4),
            ("UPDATE [t 300] SET \"a 300\" = 5", 1),
            ("", 0),
        ] {
            assert_eq!(literal_bytes(sql), bytes, "{sql}");
        }
        assert!(
            changes_rows("  insert into t values (1)")
                && changes_rows("/* why */ INSERT INTO t VALUES (1)")
                && changes_rows("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a")
                && !changes_rows("WITH a AS (SELECT 'four') SELECT * FROM a")
                && !changes_rows("SELECT 'insert'")
                && !changes_rows("")
        );
    }

    #[test]
    fn values_are_as_long_as_the_record_format_says() {
        for (value, bytes) in [
            (Value::Null, 0),
            (Value::Integer(1), 0),
            (Value::Integer(-1), 1),
            (Value::Integer(128), 2),
            (Value::Integer(-32769), 3),
            (Value::Integer(8_388_607), 3),
            (Value::Integer(2_147_483_648), 6),
            (Value::Integer(140_737_488_355_328), 8),
            (Value::Real(1.5), 8),
            (Value::Text("twelve chars".into()), 12),
            (Value::Blob(vec![1, 2, 3]), 3),
        ] {
            assert_eq!(stored_bytes(&value), bytes, "{value:?}");
        }
    }
}
