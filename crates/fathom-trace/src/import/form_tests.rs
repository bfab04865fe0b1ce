//! Random scripts in every form that recordings have: with and without semicolons, one statement a
//! line or several lines each, comments, literals with line ends, triggers. Import must give
//! exactly the statements that were generated; where one of them is bad, it must name its file and
//! line, and leave out that one alone.
//!
//! More cases: `FATHOM_IMPORT_CASES=10000`, from `FATHOM_IMPORT_FROM`.

use std::path::Path;

use fathom_random::Random;

use super::*;
use crate::Reader;
use crate::model::{Action, Event, Record};
use crate::sql::{TokenKind, tokens};

/// What stands between two pieces of a statement.
const BETWEEN: [&str; 6] = ["\n", "\n    ", " /* ; 'no text */ ", "\n-- it's; no end\n", "\r\n", "\n\n"];

const LITERALS: [&str; 10] = [
    "'plain'",
    "'it''s'",
    "'one; two'",
    "'-- no comment'",
    "'/* nor this'",
    "'first\nSELECT second; \nthird'",
    "''",
    "'größe 비'",
    "x'00ff'",
    "'CREATE TRIGGER r BEGIN'",
];

struct Script {
    random: Random,
    /// Tables and triggers so far, whose numbers are their names.
    made: u64,
    is_open: bool,
}

impl Script {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn literal(&mut self) -> String {
        LITERALS[self.below(LITERALS.len() as u64) as usize].to_owned()
    }

    /// A statement in pieces, between which there may be anything blank.
    fn statement(&mut self) -> Vec<String> {
        let (one, two) = (self.literal(), self.literal());
        self.made += 1;
        let made = self.made;
        let text = match self.below(16) {
            0 => format!("SELECT a|, b|FROM t|WHERE a =|{one}|OR b IN (|{two}|)|ORDER BY a"),
            1 => format!("INSERT INTO t|VALUES (|{one}|,|{two}|)"),
            2 => format!("INSERT OR|REPLACE INTO t(a, b)|SELECT|{one}|, b|FROM t|WHERE a <|{two}"),
            3 => format!("UPDATE t|SET b =|CASE|WHEN a =|{one}|THEN|{two}|ELSE b|END|WHERE a > 3"),
            4 => format!("DELETE FROM t|WHERE a =|{one}"),
            5 => format!("CREATE TABLE n{made}(a TEXT|DEFAULT|{one}|, \"b;\" INT)"),
            6 => format!(
                "CREATE TRIGGER r{made}|AFTER INSERT ON t|BEGIN|UPDATE t SET b =|{one}|WHERE a = new.a|;|\
                 DELETE FROM t|WHERE b =|CASE a|WHEN 1|THEN|{two}|END|;|END"
            ),
            7 => format!("WITH w(x) AS (|SELECT|{one}|)|SELECT x|FROM w|UNION ALL|SELECT|{two}"),
            8 => format!("SELECT|replace(a,|{one}|, b)|AS 'name; of'|FROM t|LIMIT 3"),
            9 => "PRAGMA user_version = 3".into(),
            10 if !self.is_open => {
                self.is_open = true;
                "BEGIN|IMMEDIATE".into()
            }
            10 => {
                self.is_open = false;
                "COMMIT".into()
            }
            11 => format!("INSERT INTO k VALUES (1,|{one}|)|ON CONFLICT(a) DO|UPDATE SET b =|{two}"),
            12 => format!("VALUES (|{one}|), (|{two}|)"),
            13 => format!("EXPLAIN|SELECT a FROM t WHERE b =|{one}"),
            14 => format!("CREATE VIEW v{made} AS|SELECT a AS [end;]|FROM t WHERE b <>|{one}"),
            _ => format!("REPLACE INTO t|SELECT a,|{one}|FROM t|WHERE 0"),
        };
        text.split('|').map(str::to_owned).collect()
    }

    /// The pieces as a text, on one line or on several.
    fn laid_out(&mut self, pieces: &[String], on_lines: bool) -> String {
        let mut text = String::new();
        for piece in pieces {
            if !text.is_empty() {
                let between = if on_lines && self.below(3) == 0 {
                    BETWEEN[self.below(BETWEEN.len() as u64) as usize]
                } else {
                    " "
                };
                text.push_str(between);
            }
            text.push_str(piece);
        }
        text
    }
}

/// What SQLite sees of a statement.
fn seen(sql: &str) -> Vec<String> {
    let all = tokens(sql).filter(|token| !token.is_blank());
    let mut all: Vec<(TokenKind, String)> = all.map(|token| (token.kind, token.text.to_owned())).collect();
    all.pop_if(|(kind, _)| *kind == TokenKind::Semicolon);
    all.into_iter().map(|(_, text)| text).collect()
}

/// A script, the statements in it, and the lines on which bad ones stand.
fn made(number: u64) -> (String, Vec<Vec<String>>, Vec<u64>) {
    let mut script = Script { random: Random::stream(19, "forms", number), made: 0, is_open: false };
    // All with semicolons, none, or each as chance has it; on one line each, or on several.
    let (semicolons, lines) = (script.below(3), script.below(2) == 0);
    let is_bad = script.below(3) == 0;
    let mut text = String::from("CREATE TABLE t(a, b);\nCREATE TABLE k(a PRIMARY KEY, b);\n");
    let mut all: Vec<Vec<String>> = text.lines().map(seen).collect();
    let mut bad = Vec::new();
    for _ in 0..1 + script.below(20) {
        if script.below(4) == 0 {
            text.push_str(
                ["-- it's; a comment\n", "\n", "/* SELECT 1;\n*/\n", ";\n"][script.below(4) as usize],
            );
        }
        if is_bad && script.below(8) == 0 {
            bad.push(1 + text.matches('\n').count() as u64);
            text.push_str(
                ["SELECT nothing FROM nowhere", "UPDATE t SET", "INSERT INTO t VALUES (1, 2, 3)"]
                    [script.below(3) as usize],
            );
            text.push_str(if semicolons == 1 { "\n" } else { ";\n" });
            continue;
        }
        let pieces = script.statement();
        let one = script.laid_out(&pieces, lines);
        all.push(seen(&one));
        text.push_str(&one);
        let has_semicolon = match semicolons {
            0 => true,
            1 => false,
            _ => script.below(2) == 0,
        };
        text.push_str(match (has_semicolon, script.below(6)) {
            // The next one on the same line.
            (true, 0) => "; ",
            (true, 1) => " ;\r\n",
            (true, 2) => "; -- it's; done\n",
            (true, _) => ";\n",
            (false, 1) => " -- it's; done\n",
            (false, 2) => "\r\n",
            (false, _) => "\n",
        });
    }
    (text, all, bad)
}

fn statements(trace: &Path) -> Vec<Vec<String>> {
    let (mut texts, mut prepared) = (std::collections::HashMap::new(), std::collections::HashMap::new());
    let mut all = Vec::new();
    for record in Reader::open(trace).expect("opens") {
        match record.expect("read") {
            Record::Statement(statement) => drop(texts.insert(statement.id, statement.sql)),
            Record::Event(Event { action: Action::Prepare { handle, statement, .. }, .. }) => {
                prepared.insert(handle, statement);
            }
            Record::Event(Event { action: Action::Step(step), .. }) => {
                all.push(seen(&texts[&prepared[&step.handle]]));
            }
            _ => {}
        }
    }
    all
}

fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn every_form_gives_its_statements_or_names_the_lines_of_the_bad_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, out) = (directory.path().join("forms.sql"), directory.path().join("out.trace"));
    let from = asked("FATHOM_IMPORT_FROM", 0);
    let mut wrong = Vec::new();
    for number in from..from + asked("FATHOM_IMPORT_CASES", 300) {
        let (text, expected, bad) = made(number);
        std::fs::write(&path, &text).expect("written");
        let request =
            |skip_bad| Request { path: path.clone(), out: out.clone(), skip_bad, ..Request::default() };
        let mut problem = None;
        match import(&request(false)) {
            Ok(_) if !bad.is_empty() => problem = Some("no bad statement was found".to_owned()),
            Ok(_) => {}
            Err(error) if bad.is_empty() => problem = Some(error.to_string()),
            Err(error) => {
                let error = error.to_string();
                let named = bad.iter().filter(|line| error.contains(&format!("forms.sql:{line}: "))).count();
                if named < bad.len() || error.lines().count() != bad.len() + 1 {
                    problem = Some(format!("bad are the lines {bad:?}: {error}"));
                }
            }
        }
        if problem.is_none() {
            match import(&request(true)) {
                Ok(_) => {
                    let is = statements(&out);
                    let at = is.iter().zip(&expected).position(|(is, expected)| is != expected);
                    if at.is_some() || is.len() != expected.len() {
                        let at = at.unwrap_or(is.len().min(expected.len()));
                        problem = Some(format!("{:?} instead of {:?}", is.get(at), expected.get(at)));
                    }
                }
                Err(error) => problem = Some(error.to_string()),
            }
        }
        wrong.extend(problem.map(|problem| format!("case {number}: {problem}\n{text}")));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(3)].join("\n"));
}
