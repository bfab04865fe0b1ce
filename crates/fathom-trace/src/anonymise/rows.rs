//! The rows of an INSERT in parts. SQLite's program for a statement with a thousand rows of VALUES
//! has a thousand places from which it goes on at the same one, and the walk through it (`flow.rs`)
//! takes the square of their number; what is done with a value does not depend on the other rows.

use crate::sql::{TokenKind, Verb, tokens};

/// Rows that stay in one statement.
const ROWS_MAX: usize = 16;

/// Statements that together insert the rows of this one; none where it has few rows, or is of
/// another kind. One with parameters stays whole, because a `?` is numbered by its place.
pub fn in_parts(sql: &str) -> Option<Vec<String>> {
    // Shorter ones have no so many rows.
    if sql.len() < 4 * ROWS_MAX || Verb::of(sql) != Verb::Insert {
        return None;
    }
    let (mut at, mut depth) = (0, 0_u32);
    let mut first: Option<usize> = None;
    let mut rows: Vec<(usize, usize)> = Vec::new();
    let mut begin = 0;
    let mut end = sql.len();
    for token in tokens(sql) {
        let after = at + token.text.len();
        match token.text {
            _ if token.kind == TokenKind::Parameter => return None,
            "(" => {
                if depth == 0 {
                    begin = at;
                }
                depth += 1;
            }
            ")" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 && first.is_some() {
                    rows.push((begin, after));
                }
            }
            _ if depth > 0 || token.is_blank() || token.text == "," => {}
            // Rows that another query gives, or nothing that is known.
            _ if first.is_none() && (token.is("select") || token.is("with")) => return None,
            _ if token.is("values") && first.is_none() => first = Some(at),
            // ON CONFLICT, RETURNING, a semicolon.
            _ if first.is_some() => {
                end = at;
                break;
            }
            _ => {}
        }
        at = after;
    }
    let (first, last) = (first? + "values".len(), *rows.last()?);
    if rows.len() <= ROWS_MAX || last.1 > end {
        return None;
    }
    let (before, behind) = (&sql[..first], &sql[last.1..]);
    let part = |rows: &[(usize, usize)]| {
        let rows: Vec<&str> = rows.iter().map(|(from, to)| &sql[*from..*to]).collect();
        format!("{before} {}{behind}", rows.join(", "))
    };
    Some(rows.chunks(ROWS_MAX).map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_insert_the_same_rows() {
        let rows: Vec<String> =
            (0..40).map(|row| format!("({row}, 'it''s (a), text', abs(-{row}))")).collect();
        for (before, behind) in [
            ("INSERT INTO t VALUES ", ""),
            (
                "INSERT OR REPLACE INTO t(a, b, c) VALUES",
                " ON CONFLICT(a) DO UPDATE SET b = 'x' RETURNING a;",
            ),
            ("REPLACE INTO \"values\" AS v (a, b, c) values ", ";"),
        ] {
            let parts = in_parts(&format!("{before}{}{behind}", rows.join(",\n"))).expect("in parts");
            assert_eq!(parts.len(), 3, "{before}");
            let again: Vec<String> = parts
                .iter()
                .flat_map(|part| {
                    let inner = part.strip_prefix(before).expect("begins so").strip_suffix(behind);
                    let inner = inner.expect("ends so").trim_start().to_owned();
                    inner.split("), (").map(|row| row.trim_matches(['(', ')']).to_owned()).collect::<Vec<_>>()
                })
                .collect();
            let expected: Vec<&str> = rows.iter().map(|row| row.trim_matches(['(', ')'])).collect();
            assert_eq!(again, expected);
        }
        let many = rows.join(", ");
        for whole in [
            format!("INSERT INTO t VALUES {}", rows[..16].join(", ")),
            format!("INSERT INTO t VALUES {many}, (?, 1, 2)"),
            format!("INSERT INTO t SELECT * FROM (VALUES {many})"),
            format!("WITH w AS (VALUES {many}) INSERT INTO t SELECT * FROM w"),
            format!("SELECT * FROM (VALUES {many})"),
            "INSERT INTO t VALUES (1, 2), (3".into(),
        ] {
            assert_eq!(in_parts(&whole), None, "{whole}");
        }
    }

    /// What happened: a statement with a thousand rows took minutes to look at (what a dump or an
    /// example database inserts).
    #[test]
    fn what_is_found_of_many_rows_is_what_is_found_of_few() {
        let connection = rusqlite::Connection::open_in_memory().expect("opens");
        connection.execute_batch("CREATE TABLE t(a INTEGER, b TEXT, c)").expect("made");
        let known = super::super::names::Schema::of(&connection).expect("read");
        let rows: Vec<String> =
            (0..2000).map(|row| format!("('{row}', 'b{row}', date('2015-01-01'))")).collect();
        let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
        let found = super::super::flow::findings(&connection, &sql, &known.roots);
        let of = |text: &str| {
            found
                .uses
                .iter()
                .filter(|(source, _)| format!("{source:?}") == format!("Literal({text:?})"))
                .count()
        };
        assert_eq!((of("0"), of("1999"), of("b1999"), of("2015-01-01")), (1, 1, 0, 1));
    }
}
