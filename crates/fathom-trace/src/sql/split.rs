//! A script cut into statements, as `sqlite3_complete` sees them: a trigger's own semicolons do not
//! end it.

use super::token::{Token, TokenKind, tokens};

/// Takes a script line by line and gives statements as they become whole. Memory: one statement.
#[derive(Debug, Default)]
pub struct Splitter {
    text: String,
    /// Line on which the present statement began, from 1.
    begin: u64,
    line: u64,
}

impl Splitter {
    /// Takes one more line (with its line end) and gives the statements that it completes, each
    /// with the number of its first line.
    pub fn line(&mut self, line: &str) -> Vec<(u64, String)> {
        self.line += 1;
        if self.text.trim().is_empty() {
            self.text.clear();
            self.begin = self.line;
        }
        self.text.push_str(line);
        // Only a semicolon can end a statement; most lines of a long text have none.
        if line.contains(';') { self.take_whole() } else { Vec::new() }
    }

    /// Whether no statement has begun.
    #[must_use]
    pub fn is_between(&self) -> bool {
        !tokens(&self.text).any(|token| !token.is_blank()) && !self.text.ends_with("/*")
    }

    /// What is left at the end of the script, where it is more than spaces and comments: a
    /// statement without its semicolon.
    pub fn rest(&mut self) -> Option<(u64, String)> {
        let rest = std::mem::take(&mut self.text);
        tokens(&rest).any(|token| !token.is_blank()).then(|| (self.begin, rest.trim().to_owned()))
    }

    fn take_whole(&mut self) -> Vec<(u64, String)> {
        let mut whole = Vec::new();
        let mut begin = 0; // byte at which the present statement begins
        let mut at = 0;
        let mut scan = Scan::default();
        for token in tokens(&self.text) {
            at += token.text.len();
            if scan.ends(&token) {
                let statement = self.text[begin..at].trim();
                if tokens(statement).any(|token| !token.is_blank() && token.kind != TokenKind::Semicolon) {
                    let skipped = self.text[begin..].len() - self.text[begin..].trim_start().len();
                    let lines = self.text[..begin + skipped].matches('\n').count() as u64;
                    whole.push((self.begin + lines, statement.to_owned()));
                }
                begin = at;
                scan = Scan::default();
            }
        }
        let lines = self.text[..begin].matches('\n').count() as u64;
        self.text.drain(..begin);
        self.begin += lines;
        whole
    }
}

/// Where in a statement a token stands.
#[derive(Debug, Default)]
struct Scan {
    words: u32,
    is_create: bool,
    is_trigger: bool,
    after_semicolon: bool,
    after_end: bool,
}

impl Scan {
    /// Whether this token ends the statement.
    fn ends(&mut self, token: &Token<'_>) -> bool {
        if token.is_blank() {
            return false;
        }
        if token.kind == TokenKind::Semicolon {
            let ends = !self.is_trigger || self.after_end;
            (self.after_semicolon, self.after_end) = (true, false);
            return ends;
        }
        if token.kind == TokenKind::Word {
            self.words += 1;
            match self.words {
                1 => self.is_create = token.is("create"),
                2 | 3 if self.is_create && token.is("trigger") => self.is_trigger = true,
                _ => {}
            }
        }
        // A trigger ends with `; END ;`. The END of a CASE never follows a semicolon.
        self.after_end = self.after_semicolon && token.is("end");
        self.after_semicolon = false;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(script: &str) -> Vec<(u64, String)> {
        let mut splitter = Splitter::default();
        let mut all: Vec<_> = script.split_inclusive('\n').flat_map(|line| splitter.line(line)).collect();
        all.extend(splitter.rest());
        all
    }

    #[test]
    fn statements_are_cut_where_sqlite_ends_them() {
        let script = "-- first; not one\nCREATE TABLE t(a, 'x;y');INSERT INTO t\nVALUES (';\n'); ;\n\n\
                      CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN\n SELECT CASE WHEN 1 THEN 2 END; SELECT 2;\nEND;\nSELECT 3";
        let expected = [
            (1, "-- first; not one\nCREATE TABLE t(a, 'x;y');"),
            (2, "INSERT INTO t\nVALUES (';\n');"),
            (
                6,
                "CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN\n SELECT CASE WHEN 1 THEN 2 END; SELECT 2;\nEND;",
            ),
            (9, "SELECT 3"),
        ];
        let expected: Vec<_> = expected.iter().map(|(line, sql)| (*line, (*sql).to_owned())).collect();
        assert_eq!(split(script), expected);
        assert_eq!(split("-- only a comment\n;;\n"), []);
    }
}
