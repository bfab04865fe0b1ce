//! Which tables a statement names.

use crate::sql::{Token, TokenKind, tokens};

/// The tables of a statement, lower case, each once; the one that it changes first. Read from the
/// words around names (FROM, JOIN, INTO, UPDATE, and commas after FROM), so views count as tables,
/// and names of common table expressions are left out. What a trigger or a view does is not done
/// where it is made.
pub fn of(sql: &str) -> Vec<String> {
    let all: Vec<Token<'_>> = tokens(sql).filter(|token| !token.is_blank()).collect();
    if all.first().is_some_and(|token| token.is("create")) {
        let is_temporary = all.get(1).is_some_and(|token| token.is("temp") || token.is("temporary"));
        let made = all.get(if is_temporary { 2 } else { 1 });
        if made.is_some_and(|token| token.is("trigger") || token.is("view")) {
            return Vec::new();
        }
    }
    let mut tables: Vec<String> = Vec::new();
    let mut expressions: Vec<String> = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let token = &all[at];
        if all.get(at + 1).is_some_and(|next| next.is("as"))
            && (all.get(at + 2).is_some_and(|next| next.text == "("))
            && all.get(at + 3).is_some_and(|next| next.is("select") || next.is("values"))
            && let Some(name) = name_of(token)
        {
            expressions.push(name);
        }
        let is_update = token.is("update")
            && !all.get(at.wrapping_sub(1)).is_some_and(|before| before.is("do") || before.is("on"));
        if token.is("from") || token.is("join") || token.is("into") || is_update {
            at = names(&all, at + 1, token.is("from"), &mut tables);
        } else {
            at += 1;
        }
    }
    let mut seen = Vec::new();
    for table in tables {
        if !seen.contains(&table) && !expressions.contains(&table) {
            seen.push(table);
        }
    }
    seen
}

/// The names from `at` on: one, or after FROM several with commas between. Gives where they end.
fn names(all: &[Token<'_>], mut at: usize, is_list: bool, tables: &mut Vec<String>) -> usize {
    loop {
        // UPDATE OR IGNORE t
        if all.get(at).is_some_and(|token| token.is("or")) {
            at += 2;
        }
        let Some(mut name) = all.get(at).and_then(name_of) else { return at };
        at += 1;
        while all.get(at).is_some_and(|token| token.text == ".") {
            let Some(inner) = all.get(at + 1).and_then(name_of) else { return at };
            name = inner;
            at += 2;
        }
        // A function that returns rows (`json_each(…)`) is no table; a list of columns after INTO t
        // is.
        if !(is_list && all.get(at).is_some_and(|token| token.text == "(")) {
            tables.push(name);
        }
        if !is_list {
            return at;
        }
        if all.get(at).is_some_and(|token| token.is("as")) {
            at += 1;
        }
        let is_alias = all.get(at).is_some_and(|token| name_of(token).is_some() && !is_keyword(token));
        at += usize::from(is_alias);
        if all.get(at).is_none_or(|token| token.text != ",") {
            return at;
        }
        at += 1;
    }
}

fn name_of(token: &Token<'_>) -> Option<String> {
    match token.kind {
        TokenKind::Word if !token.is("select") && !token.is("values") => Some(token.text.to_lowercase()),
        // The last one of a text that ends within has no closing quote.
        TokenKind::Quoted => {
            let inner = token.text.get(1..)?;
            Some(inner.strip_suffix(['"', '`', ']', '\'']).unwrap_or(inner).to_lowercase())
        }
        _ => None,
    }
}

/// Words that follow a table's name in FROM and are no alias.
fn is_keyword(token: &Token<'_>) -> bool {
    const WORDS: [&str; 18] = [
        "where",
        "group",
        "order",
        "having",
        "limit",
        "on",
        "using",
        "join",
        "inner",
        "left",
        "right",
        "full",
        "cross",
        "natural",
        "union",
        "except",
        "intersect",
        "indexed",
    ];
    WORDS.iter().any(|word| token.is(word)) || token.is("not") || token.is("window") || token.is("returning")
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn tables_are_found_where_statements_name_them() {
        for (sql, tables) in [
            (
                "SELECT * FROM a, main.\"B c\" AS x, d y JOIN e ON 1 WHERE b IN (SELECT 1 FROM f)",
                &["a", "b c", "d", "e", "f"][..],
            ),
            ("INSERT OR REPLACE INTO t(a) SELECT a FROM u", &["t", "u"]),
            ("UPDATE OR IGNORE t SET a = 1 WHERE b = (SELECT max(c) FROM u)", &["t", "u"]),
            ("DELETE FROM t WHERE a = 1", &["t"]),
            ("WITH x AS (SELECT 1 FROM a) SELECT * FROM x, b", &["a", "b"]),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = 1", &["t"]),
            ("SELECT value FROM json_each('[]')", &[]),
            ("SELECT 1", &[]),
            ("BEGIN", &[]),
            // What happened: `on` was a table, and the trigger's own were read.
            ("CREATE TRIGGER g AFTER UPDATE ON t BEGIN INSERT INTO u SELECT a FROM t; END", &[]),
            ("CREATE TEMP VIEW v AS SELECT * FROM t", &[]),
            ("CREATE TABLE view AS SELECT * FROM t", &["t"]),
            // The fuzzer's case 1,081,879 of 10,000,000: a name without its end, whose last
            // character has more than one octet.
            ("SELECT * FROM [a\u{fffd}", &["a\u{fffd}"]),
            ("SELECT * FROM \"", &[""]),
        ] {
            assert_eq!(of(sql), tables, "{sql}");
        }
    }
}
