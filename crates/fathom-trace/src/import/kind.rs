//! What an input is, by its name, its first bytes and its first lines.

use std::io::Read;
use std::path::Path;

use super::{Format, android, expanded, firefox, hibernate, lines, not_read, pocketdata, repr};
use crate::error::TraceError;
use crate::file_calls;

/// Lines that are looked at for SQL, and for calls of any kind.
const LINES: usize = 1000;

/// Lines that are looked at for what nothing but one format has: what a phone's log holds begins
/// long before the application does.
const LINES_OF_LOGS: usize = 100_000;

/// Refuses what is no recording of anything, by its first bytes.
fn refuse_other_kinds(path: &Path) -> Result<(), TraceError> {
    const LOOKED_AT: u64 = 4096;
    let file = std::fs::File::open(path).map_err(TraceError::io(path))?;
    let mut head = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut head).map_err(TraceError::io(path))?;
    let problem = if head.starts_with(&crate::format::MAGIC) {
        "is a trace already: see `fathom trace info`"
    } else if head.starts_with(file_calls::MAGIC.as_bytes()) {
        "is a recording of file calls already: it is work of the workload mobibench-file (`calls = …`)"
    } else if head.starts_with(b"SQLite format 3\0") {
        "is a database, and says nothing of what is done with it: give it with --start, beside a log or script"
    } else if head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        "is compressed: unpack it first (gunzip, unzstd)"
    } else if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        "is text in UTF-16, as `>` of PowerShell writes it: make it UTF-8 first (`iconv -f UTF-16 -t UTF-8`)"
    } else if head.contains(&0) {
        "is no text in UTF-8, but some other kind of file"
    } else {
        return Ok(());
    };
    Err(TraceError::refused(path.display(), problem))
}

/// Whose a log with its values filled in is.
pub enum Logger {
    Firefox,
    /// Hibernate, with what its log has.
    Hibernate(hibernate::Survey),
    /// One that writes statements, and all else of the reader of these.
    Other,
}

/// Whose a log is, by all of its lines.
///
/// # Errors
/// It cannot be read.
pub fn logger_of(path: &Path) -> Result<Logger, TraceError> {
    if !lines::can_be_read_twice(path)? {
        return Ok(Logger::Other);
    }
    let mut survey = hibernate::Survey::default();
    let mut lines = lines::Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        if firefox::is_statement(line) {
            return Ok(Logger::Firefox);
        }
        if line.contains(lines::COLOUR) {
            survey.take(&lines::without_colours(line));
        } else {
            survey.take(line);
        }
    }
    Ok(if survey.has_values() { Logger::Hibernate(survey) } else { Logger::Other })
}

/// What a file or folder is, by its name and first lines.
pub fn find_out(path: &Path) -> Result<Format, TraceError> {
    let metadata = std::fs::metadata(path).map_err(TraceError::io(path))?;
    if metadata.is_file() {
        refuse_other_kinds(path)?;
    }
    let ends_with = |path: &Path, end: &str| {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
    };
    if metadata.is_dir() {
        let mut names =
            std::fs::read_dir(path).map_err(TraceError::io(path))?.flatten().map(|entry| entry.path());
        return Ok(if names.any(|name| ends_with(&name, "spool")) { Format::Spool } else { Format::Folder });
    }
    if !metadata.is_file() {
        return Err(TraceError::refused(
            path.display(),
            "is no file: what is looked at to find out its format is gone from a pipe; say it with --format, or write it to a file",
        ));
    }
    if ends_with(path, "sql") {
        return Ok(Format::Script);
    }
    let mut lines = lines::Lines::open(path)?.without_colours();
    let mut beginning = String::new();
    let mut is_first = true;
    // Words of SQL stand in messages of every kind (`update done with 3 results`): a line that
    // nothing else has says more, wherever it stands.
    let mut may_be_expanded = false;
    let mut problem = None;
    for number in 0..LINES_OF_LOGS {
        let Some(line) = lines.next_line()? else { break };
        if beginning.len() < 100 {
            beginning.push_str(line);
            if pocketdata::is_workload(&beginning) {
                return Ok(Format::PocketWorkload);
            }
        }
        let is_looked_at = number < LINES && !may_be_expanded;
        let is_file_call = if is_looked_at {
            file_calls::is_mobigen_line(line) || file_calls::is_strace_line(line)
        } else {
            file_calls::is_strace_file_call(line)
        };
        if is_file_call {
            return Ok(Format::FileCalls);
        }
        if is_looked_at && pocketdata::is_log_line(line) {
            return Ok(Format::PocketData);
        }
        if android::is_log_line(line) {
            return Ok(Format::Android);
        }
        if firefox::is_statement(line) {
            return Ok(Format::Expanded);
        }
        if android::is_long_head(line) {
            return Err(TraceError::refused(
                path.display(),
                "is Android's log in the format `long`, which is not read; record it with `adb logcat -v threadtime`",
            ));
        }
        if number < LINES && problem.is_none() {
            let of_trace = || is_looked_at.then(|| not_read::problem_of_trace(line)).flatten();
            problem = not_read::problem_of_log(line).or_else(of_trace);
        }
        // A comment before the first statement, with nothing before itself.
        if !is_looked_at || line.trim_start().starts_with("--") {
            continue;
        }
        if let Some(at) = expanded::statement_at(line) {
            // With nothing before the statements it is a script without semicolons, and where each
            // ends is decided by compiling.
            if is_first && line[..at].trim().is_empty() {
                return match not_read::problem_of_statement(line) {
                    Some(problem) => Err(TraceError::refused(path.display(), problem)),
                    None => Ok(Format::Script),
                };
            }
            may_be_expanded = true;
        } else if repr::quoted(line).is_some_and(|quoted| quoted.sql.is_some()) {
            may_be_expanded = true;
        }
        is_first &= line.trim().is_empty();
    }
    match problem {
        None if may_be_expanded => Ok(Format::Expanded),
        None => Err(TraceError::refused(
            path.display(),
            format!(
                "its first {LINES} lines hold no SQL, no SQLiteStatements output and no call that strace or \
                 mobigen recorded; say what it is with --format android, sql, expanded, pocketdata or file-calls"
            ),
        )),
        Some(problem) => Err(TraceError::refused(path.display(), problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Place, texts};
    use super::super::{Request, import};

    /// What happened: the first word of SQL in any line made a log one of expanded SQL. A phone's
    /// log without a filter was refused, and with `--skip-bad` all of its statements were lost,
    /// because of what another process had told before (`update`, `with`, `end`). Also where the
    /// application begins more than a thousand lines below.
    #[test]
    fn words_in_a_phones_log_make_it_none_of_expanded_sql() {
        let place = Place::new();
        let app = "11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"CREATE TABLE t(a)\"\n";
        for before in [
            "11-21 16:26:37.900   600   612 I Wifi: update of networks done with 3 results\n".to_owned(),
            "--------- beginning of main\n11-21 16:26:37.900   60   61 I Radio: select(1) = 0\n".repeat(600),
            "11-21 16:26:37.900   600   612 I Radio: nothing\n".repeat(1500),
        ] {
            let log = place.write("log.txt", &(before + app));
            let (imported, records) = place.import(&log).expect("imported");
            assert_eq!(texts(&records), ["CREATE TABLE t(a)"]);
            assert!(imported.warnings.is_empty(), "{:?}", imported.warnings);
        }
    }

    /// What happened: the same of strace, which says with `-p` how many threads it is attached
    /// with, and whose calls that go on then begin in the middle.
    #[test]
    fn a_recording_of_strace_may_begin_with_words() {
        let place = Place::new();
        let log = "strace: Process 100 attached with 2 threads\n\
            [pid   101] restart_syscall(<... resuming interrupted futex ...> <unfinished ...>\n\
            [pid   100] openat(AT_FDCWD, \"/tmp/a.db\", O_RDWR) = 3\n[pid   101] fsync(3) = 0\n";
        let path = place.write("calls.txt", log);
        let out = place.0.path().join("out.calls");
        let imported = import(&Request { path, out: out.clone(), ..Request::default() }).expect("imported");
        assert_eq!((imported.totals.events, imported.warnings.len()), (2, 0), "{:?}", imported.warnings);
        // A line of a statement is no call.
        let log = "SQL: SELECT a\nFROM (SELECT 1 AS a) GROUP BY a HAVING\ncount(a) = 1\n";
        let (_, records) = place.import(&place.write("app.log", log)).expect("imported");
        assert_eq!(texts(&records).len(), 1);
    }

    /// What happened: what is known and not read was refused statement by statement, or as what
    /// holds no SQL, and nothing said what to do instead. `>` of PowerShell was some other kind of
    /// file.
    #[test]
    fn what_is_not_read_is_refused_with_what_to_do() {
        let place = Place::new();
        let alchemy = "2026-11-21 16:26:38,123 INFO sqlalchemy.engine.Engine BEGIN (implicit)\n\
            2026-11-21 16:26:38,123 INFO sqlalchemy.engine.Engine SELECT a FROM t WHERE a = ?\n";
        let error = place.import(&place.write("app.log", alchemy)).expect_err("SQLAlchemy").to_string();
        assert!(error.contains("capture -- python3"), "{error}");
        let log = place.write("app.log", "fio version 2 iolog\n");
        let error = place.import(&log).expect_err("fio").to_string();
        assert!(error.contains("block device"), "{error}");
        // With nothing before it, it was a script, whose parameters are NULL.
        let diesel = "INSERT INTO `t` (`a`) VALUES (?) -- binds: [\"x\"]\nSELECT 1 -- binds: []\n";
        let error = place.import(&place.write("app.log", diesel)).expect_err("Diesel").to_string();
        assert!(error.contains("of Diesel"), "{error}");
        let error = place.import(&place.write("app.log", "hello\n")).expect_err("nothing").to_string();
        assert!(error.contains("file-calls"), "{error}");
        let log = "11-21 16:26:38.100  100  101 D SQLiteConnection: run took 9ms - failed, sql=\"COMMIT;\"\n\
            11-21 16:26:38.100  100  101 V SQLiteStatements: /data/a.db: \"SELECT 1\"\n";
        let (_, records) = place.import(&place.write("log.txt", log)).expect("imported");
        assert_eq!(texts(&records), ["SELECT 1"]);
        let log = place.write("calls/log.788", "12:00:01.000001 fsync(3) = 0\n");
        let error = place.import(log.parent().expect("a folder")).expect_err("-ff").to_string();
        assert!(error.contains("strace-log-merge"), "{error}");
        let path = place.write("log.txt", "");
        let wide: Vec<u8> = "\u{feff}SELECT 1".encode_utf16().flat_map(u16::to_le_bytes).collect();
        std::fs::write(&path, wide).expect("written");
        let error = place.import(&path).expect_err("UTF-16").to_string();
        assert!(error.contains("iconv"), "{error}");
    }
}
