//! Which file a VACUUM INTO names.

use super::token::{TokenKind, tokens};

/// Byte at which the expression of `VACUUM … INTO` begins, which names the file; none of any other
/// statement.
#[must_use]
pub fn target_of_vacuum(sql: &str) -> Option<usize> {
    let mut at = 0;
    let mut words = tokens(sql).filter_map(|token| {
        at += token.text.len();
        (!token.is_blank()).then_some((token, at))
    });
    words.next().filter(|(token, _)| token.is("vacuum"))?;
    let (next, end) = words.next()?;
    if next.is("into") {
        return Some(end);
    }
    // The name of the schema.
    let is_name = matches!(next.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Text);
    let (into, end) = words.next().filter(|_| is_name)?;
    into.is("into").then_some(end)
}

/// The same VACUUM INTO with another file; `at` as [`target_of_vacuum`] gives it. The expression
/// stays where it was, so that its parameters keep their numbers and what is wrong with it stays
/// wrong.
#[must_use]
pub fn vacuum_into(sql: &str, at: usize, file: &str) -> String {
    let literal = file.replace('\'', "''");
    let expression = sql[at..].trim_end().trim_end_matches(';');
    format!("{} CASE WHEN 1 THEN '{literal}' ELSE ({expression}\n) END", &sql[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_of_a_vacuum_is_found() {
        for (sql, rest) in [
            ("VACUUM INTO '/a.db'", Some(" '/a.db'")),
            ("/* x */ vacuum \"main\" /* y */ into ?1", Some(" ?1")),
            ("VACUUM 'main'INTO('a'||'b');", Some("('a'||'b');")),
            ("VACUUM", None),
            ("VACUUM main", None),
            ("INSERT INTO t VALUES (1)", None),
            ("SELECT 'VACUUM INTO x'", None),
        ] {
            assert_eq!(target_of_vacuum(sql).map(|at| &sql[at..]), rest, "{sql}");
        }
        let sql = "VACUUM main INTO 'a'||? -- x\n;";
        let at = target_of_vacuum(sql).expect("it is one");
        let other = "VACUUM main INTO CASE WHEN 1 THEN '/o''k' ELSE ( 'a'||? -- x\n\n) END";
        assert_eq!(vacuum_into(sql, at, "/o'k"), other);
    }
}
