//! What SQLite's own virtual tables (full text, R-tree) do within another statement, as `.trace
//! FILE --profile` of the `sqlite3` shell writes it: on lines like those of the application's own
//! statements, and above the one that they belong to.
//!
//! SQLITE_TRACE_STMT tells each as a comment. SQLITE_TRACE_PROFILE comes when a statement has
//! ended (`sqlite3Step` in vdbeapi.c), while the outer one still runs. By then the inner one is
//! none of those that run (`nVdbeExec`), so `sqlite3VdbeExpandSql` makes no comment of it.
//!
//! FTS3, FTS5 and R-tree name their tables with the schema, both in single quotes (`%Q.'%q_data'`),
//! which is the form of names that nobody is told to write; R-tree's first tables are in double
//! quotes, and told by their columns.

use std::collections::HashSet;
use std::path::Path;

use super::lines::{Lines, can_be_read_twice};
use crate::error::TraceError;
use crate::sql::{TokenKind, tokens};

/// Lines that are looked at for the time behind a statement.
const LINES: usize = 1000;

/// How R-tree makes its tables, without spaces, in lower case: behind the name's beginning.
const OF_RTREE: [&str; 4] = [
    "_rowid\"(rowidintegerprimarykey,nodeno",
    "_node\"(nodenointegerprimarykey,data",
    "_parent\"(nodenointegerprimarykey,parentnode",
    "_node\"values(1,zeroblob(",
];

/// What the shell's own trace tells of each statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// It is none, or tells no times.
    None,
    /// That it has ended, with its time (`--profile`).
    Ends,
    /// That, and before it that it begins or has a row (`--stmt`, `--row`): all of that stands
    /// there once more.
    BeginsAndEnds,
}

/// Whether a file is what `.trace FILE --profile` wrote.
///
/// # Errors
/// It cannot be read.
pub fn profile(path: &Path) -> Result<Profile, TraceError> {
    if !can_be_read_twice(path)? {
        return Ok(Profile::None);
    }
    let mut lines = Lines::open(path)?;
    let mut begun: HashSet<String> = HashSet::new();
    let mut profile = Profile::None;
    for _ in 0..LINES {
        let Some(line) = lines.next_line()? else { break };
        let line = line.trim_end();
        match without_time(line) {
            // Such a line may be one of a text, too: then nothing stands there without its time.
            Some(sql) if begun.contains(sql) => return Ok(Profile::BeginsAndEnds),
            Some(_) => profile = Profile::Ends,
            None if line.ends_with(';') => {
                begun.insert(line.to_owned());
            }
            None => {}
        }
    }
    Ok(profile)
}

/// What stands before the time: `…;` of `…; -- 1000000 ns`.
#[must_use]
pub fn without_time(line: &str) -> Option<&str> {
    let (before, _) = line.trim_end().rsplit_once("; -- ")?;
    is_time(&line[before.len() + 1..]).then(|| &line[..=before.len()])
}

/// What stands behind the semicolon of a statement that has ended: ` -- 1000000 ns`.
#[must_use]
pub fn is_time(behind: &str) -> bool {
    let time = behind.trim().strip_prefix("-- ").and_then(|time| time.strip_suffix(" ns"));
    time.is_some_and(|time| !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a statement of such a file is one of a virtual table.
#[must_use]
pub fn is_inner(sql: &str) -> bool {
    names_in_single_quotes(sql) || makes_rtree(sql)
}

/// `'main'.'f_data'`, and `PRAGMA 'main'.data_version`.
fn names_in_single_quotes(sql: &str) -> bool {
    let words: Vec<_> = tokens(sql).filter(|token| !token.is_blank()).collect();
    let is_text = |at: usize| words.get(at).is_some_and(|word| word.kind == TokenKind::Text);
    if words.first().is_some_and(|word| word.is("pragma")) && is_text(1) {
        return words.get(2).is_some_and(|word| word.text == ".");
    }
    (0..words.len()).any(|at| words[at].text == "." && at > 0 && is_text(at - 1) && is_text(at + 1))
}

/// `CREATE TABLE "main"."r_node"(nodeno INTEGER PRIMARY KEY,data)`
fn makes_rtree(sql: &str) -> bool {
    const WORDS: usize = 24;
    let words = tokens(sql).filter(|token| !token.is_blank()).take(WORDS);
    let compact: String = words.map(|word| word.text.to_ascii_lowercase()).collect();
    let is_named = compact.starts_with("createtable\"") || compact.starts_with("insertinto\"");
    is_named && compact.contains("\".\"") && OF_RTREE.iter().any(|form| compact.contains(form))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Place, texts};
    use super::*;

    /// What happened: the shell's own trace of an application with full text or an R-tree was
    /// refused ("no such table: f"). The tables that each makes within its CREATE VIRTUAL TABLE
    /// stand above that, so that they were there already. As SQLite 3.40 writes it.
    #[test]
    fn what_virtual_tables_do_within_a_statement_is_left_out_of_a_profile() {
        let place = Place::new();
        let log = "CREATE TABLE 'main'.'f_data'(id INTEGER PRIMARY KEY, block BLOB); -- 0 ns\n\
            REPLACE INTO 'main'.'f_data'(id, block) VALUES(?,?); -- 0 ns\n\
            CREATE TABLE 'main'.'f_content'(id INTEGER PRIMARY KEY, c0); -- 1000000 ns\n\
            PRAGMA 'main'.data_version; -- 0 ns\n\
            SELECT k, v FROM 'main'.'f_config'; -- 0 ns\n\
            CREATE VIRTUAL TABLE f USING fts5(a); -- 14000000 ns\n\
            INSERT INTO 'main'.'f_content' VALUES(?,?); -- 0 ns\n\
            INSERT INTO f VALUES('it''s'); -- 13000000 ns\n\
            PRAGMA 'main'.page_size; -- 0 ns\n\
            CREATE TABLE \"main\".\"r_rowid\"(rowid INTEGER PRIMARY KEY,nodeno); -- 0 ns\n\
            CREATE TABLE \"main\".\"r_node\"(nodeno INTEGER PRIMARY KEY,data); -- 0 ns\n\
            CREATE TABLE \"main\".\"r_parent\"(nodeno INTEGER PRIMARY KEY,parentnode); -- 0 ns\n\
            INSERT INTO \"main\".\"r_node\"VALUES(1,zeroblob(820)); -- 0 ns\n\
            CREATE VIRTUAL TABLE r USING rtree(id,x0,x1); -- 20000000 ns\n\
            INSERT OR REPLACE INTO 'main'.'r_node' VALUES(?1, ?2); -- 0 ns\n\
            INSERT INTO r VALUES(1,2,3); -- 19000000 ns\n\
            -- PRAGMA 'main'.data_version; -- 0 ns\n\
            SELECT T.'rowid', T.c0 FROM 'main'.'f_content' T WHERE T.'rowid'=1; -- 0 ns\n\
            SELECT count(*) FROM f; -- 0 ns\n";
        let (imported, records) = place.import(&place.write("prof.log", log)).expect("imported");
        let expected = [
            "CREATE VIRTUAL TABLE f USING fts5(a)",
            "INSERT INTO f VALUES('it''s')",
            "CREATE VIRTUAL TABLE r USING rtree(id,x0,x1)",
            "INSERT INTO r VALUES(1,2,3)",
            "SELECT count(*) FROM f",
        ];
        assert_eq!(texts(&records), expected);
        assert_eq!(imported.warnings.len(), 1, "{:?}", imported.warnings);
        assert!(imported.warnings[0].starts_with("13 statements are what"), "{:?}", imported.warnings);
    }

    /// What happened: `.trace FILE --stmt --profile` writes each statement when it begins and when
    /// it has ended, and with `--row` once more for each row. All of that was executed, and nothing
    /// said so: rows stood there twice, and `SET b = b + 1` was done twice.
    #[test]
    fn a_statement_that_is_told_at_its_begin_and_at_its_end_is_one() {
        let place = Place::new();
        let log = "CREATE TABLE t(a, b);\nCREATE TABLE t(a, b); -- 9000 ns\n\
            CREATE TRIGGER g AFTER UPDATE ON t BEGIN SELECT 1; END;\n\
            CREATE TRIGGER g AFTER UPDATE ON t BEGIN SELECT 1; END; -- 0 ns\n\
            INSERT INTO t VALUES('x;\n', 1),('y', 2) RETURNING b;\n\
            INSERT INTO t VALUES('x;\n', 1),('y', 2) RETURNING b;\n\
            INSERT INTO t VALUES('x;\n', 1),('y', 2) RETURNING b;\n\
            INSERT INTO t VALUES('x;\n', 1),('y', 2) RETURNING b; -- 1000 ns\n\
            UPDATE t SET b = b + 1;\n-- SELECT 1;\n-- SELECT 1; -- 0 ns\nUPDATE t SET b = b + 1; -- 0 ns\n\
            CREATE VIRTUAL TABLE f USING fts5(a);\n\
            -- CREATE TABLE 'main'.'f_data'(id INTEGER PRIMARY KEY, block BLOB);\n\
            CREATE TABLE 'main'.'f_data'(id INTEGER PRIMARY KEY, block BLOB); -- 0 ns\n\
            CREATE VIRTUAL TABLE f USING fts5(a); -- 4000 ns\n";
        let expected = [
            "CREATE TABLE t(a, b)",
            "CREATE TRIGGER g AFTER UPDATE ON t BEGIN SELECT 1; END",
            "INSERT INTO t VALUES('x;\n', 1),('y', 2) RETURNING b",
            "UPDATE t SET b = b + 1",
            "CREATE VIRTUAL TABLE f USING fts5(a)",
        ];
        let path = place.write("prof.log", log);
        assert_eq!(profile(&path).expect("read"), Profile::BeginsAndEnds);
        let (imported, records) = place.import(&path).expect("imported");
        assert_eq!(texts(&records), expected);
        let told = |warning: &String| warning.starts_with("7 lines of `.trace` tell");
        assert!(imported.warnings.iter().any(told), "{:?}", imported.warnings);
        // One that ends alone, whose statements may well be alike.
        let path = place.write("prof.log", "SELECT 1; -- 0 ns\nSELECT 1; -- 0 ns\nSELECT 2; -- 0 ns\n");
        let (imported, records) = place.import(&path).expect("imported");
        assert_eq!(texts(&records).len(), 3);
        assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
    }

    #[test]
    fn an_applications_own_statements_are_none_of_a_virtual_table() {
        for sql in [
            "CREATE TABLE \"main\".\"f_data\"(id INTEGER PRIMARY KEY, block BLOB)",
            "CREATE TABLE tree_node(nodeno INTEGER PRIMARY KEY,data)",
            "INSERT INTO t VALUES ('main''.''f', 1.5, 'x')",
            "SELECT main.t.a, 'b' FROM main.t",
            "PRAGMA main.data_version",
            "PRAGMA journal_mode = 'wal'",
        ] {
            assert!(!is_inner(sql), "{sql}");
        }
        assert!(is_inner("SELECT rowid, rank FROM 'main'.'f' ORDER BY bm25(\"f\") ASC"));
        assert!(is_inner("ALTER TABLE 'main'.'f_data' RENAME TO 'g_data'"));
        for (line, is_timed) in [
            ("SELECT 1; -- 0 ns\n", true),
            ("SELECT 1; -- 12000000 ns", true),
            ("SELECT 1; -- some ns", false),
            ("SELECT 1; --  ns", false),
            ("SELECT 1;", false),
        ] {
            assert_eq!(without_time(line).is_some(), is_timed, "{line}");
        }
    }
}
