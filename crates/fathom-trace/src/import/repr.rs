//! A statement in quotes as Python's `repr` writes it (`%r`, `{sql!r}`, a tuple that is printed),
//! and `console.log` of Node one in an object: on one line, with `\n` for a line end, in single
//! quotes where it has none itself, else in double quotes (or Node's backticks), else in single
//! ones with `\'`.

use super::statements::begins_statement;

/// Bytes of a line in which the quote is looked for.
const BEFORE_MAX: usize = 200;

/// A statement in quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted<'l> {
    /// What stands before its quote.
    pub before: &'l str,
    /// The quote.
    pub quote: char,
    /// The statement; none where it is not written as `repr` writes it.
    pub sql: Option<String>,
}

/// The first text in quotes of a line that is a statement, by its first word, or a comment, as what
/// a trigger does is told.
pub fn quoted(line: &str) -> Option<Quoted<'_>> {
    let mut from = 0;
    loop {
        let at = from + line[from..].find(['\'', '"', '`'])?;
        if at > BEFORE_MAX {
            return None;
        }
        let (before, rest) = line.split_at(at);
        let quote = rest.chars().next()?;
        let decoded = text(rest);
        let begins = |sql: &str| begins_statement(sql) || sql.trim_start().starts_with("-- ");
        let is_statement = match &decoded {
            Some((sql, _)) => begins(sql),
            None => begins(&rest[1..]),
        };
        if is_statement {
            let is_whole = is_begin(before)
                && decoded.as_ref().is_some_and(|(_, length)| is_end(&rest[*length..], quote));
            let sql = decoded.filter(|_| is_whole).map(|(sql, _)| sql);
            return Some(Quoted { before, quote, sql });
        }
        from = at + decoded.map_or(1, |(_, length)| length);
    }
}

/// Whether a quote behind this begins a text, and none of SQL's own or the apostrophe of a word.
fn is_begin(before: &str) -> bool {
    before.is_empty() || before.ends_with([' ', '\t', ':', '=', '(', '[', '{', ',', '|', '>'])
}

/// Whether a quote before this ends the text: with another one behind it, or what glues it to one
/// below, it is not known where it ends.
fn is_end(behind: &str, quote: char) -> bool {
    let behind = behind.trim_end();
    let is_end = behind.is_empty() || behind.starts_with([' ', '\t', ',', ')', ']', '}', ';']);
    is_end && !behind.contains(quote) && !behind.trim_start().starts_with('+')
}

/// The text in the quotes with which this begins, and how many bytes it has with them; none where
/// it has no end on its line, or something that is not written so.
fn text(quoted: &str) -> Option<(String, usize)> {
    let mut letters = quoted.char_indices();
    let (_, quote) = letters.next()?;
    let mut text = String::new();
    while let Some((at, letter)) = letters.next() {
        if letter == quote {
            return Some((text, at + 1));
        }
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let (at, escape) = letters.next()?;
        let digits = match escape {
            '\\' | '\'' | '"' => {
                text.push(escape);
                continue;
            }
            'n' | 'r' | 't' | 'b' | 'f' => {
                text.push(match escape {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'b' => '\u{8}',
                    _ => '\u{c}',
                });
                continue;
            }
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return None,
        };
        let digits = quoted.get(at + 1..at + 1 + digits)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_number.then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
        text.push(char::from_u32(number)?);
        letters.nth(digits.len() - 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sql(line: &str) -> Option<String> {
        quoted(line).and_then(|quoted| quoted.sql)
    }

    #[test]
    fn a_text_is_what_python_had() {
        for (line, expected) in [
            (r"DEBUG:root:'SELECT 1'", "SELECT 1"),
            (r#"sql="INSERT INTO t VALUES ('a\nb\\')""#, "INSERT INTO t VALUES ('a\nb\\')"),
            (r#"('\n  UPDATE "t" SET a = \'x\'\n',)"#, "\n  UPDATE \"t\" SET a = 'x'\n"),
            (r"'SELECT \x01\xe9\u20ac\U0001f600'", "SELECT \u{1}é€😀"),
            (r"app 'db' took 1ms: 'COMMIT'", "COMMIT"),
            ("{ sql: `SELECT \"a\", 'b'` }", "SELECT \"a\", 'b'"),
            (r"'-- UPDATE t'", "-- UPDATE t"),
        ] {
            assert_eq!(sql(line).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn what_is_not_written_so_is_no_text_of_python() {
        for line in [
            "'INSERT INTO t VALUES ('x')'",
            r"'SELECT \u{1b}'",
            r"'SELECT \ud800'",
            r"'SELECT \x0'",
            r"b'SELECT 1'",
            "'SELECT a",
            "'SELECT a ' + ",
            "'SELECT ' x''",
        ] {
            assert_eq!(quoted(line).map(|quoted| quoted.sql), Some(None), "{line}");
        }
        for line in ["", "it's nothing", "'name' updated", "SELECT 'a', 'b'"] {
            assert_eq!(quoted(line), None, "{line}");
        }
    }
}
