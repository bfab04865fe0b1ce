//! Logs and traces that are known and not read, and what to do instead.

/// What is wrong with the log of statements that this line is of, where that is known. It may be a
/// line of a log that is read, too: what that has of its own counts first.
pub fn problem_of_log(line: &str) -> Option<&'static str> {
    let line = line.trim_end();
    let is_timed_by_rails = line.contains("ms)") && line.contains("[[\"");
    Some(if line.contains("\"logcatMessages\"") {
        "is what Android Studio's Logcat exports (JSON), which is not read: copy its lines into a file, \
         or record them with `adb logcat -v threadtime`"
    } else if line.contains("ms - ") && line.contains(", sql=\"") {
        "has single operations as Android tells them (SQLiteConnection, `dumpsys dbinfo`), and not all \
         that was asked: `adb shell setprop log.tag.SQLiteStatements VERBOSE`, restart the application, \
         and record `adb logcat -v threadtime`"
    } else if line.starts_with("== dumpstate: ") {
        "is a bug report of Android: `--format android` reads what its log has with the tag \
         SQLiteStatements"
    } else if line.contains("SQL Args: [") {
        "has the values of statements beside them (a callback of Room), and is not read: `adb shell \
         setprop log.tag.SQLiteStatements VERBOSE`, restart the application, and record `adb logcat -v \
         threadtime`"
    } else if is_without_tag(line) {
        "is Android's log without tags and times (`-v raw`, `process` or `thread`), which is not read: \
         record it with `adb logcat -v threadtime`"
    } else if is_error(line) {
        "is SQLite's error log (`.log`), which has what failed alone: record all with `.trace FILE`, or \
         capture the program (`fathom trace capture`)"
    } else if line.contains("sqlalchemy.engine") {
        "is SQLAlchemy's log, which has the values of a statement on a line of their own, as Python \
         writes them, and is not read: capture the program (`fathom trace capture -- python3 …`)"
    } else if line.contains("Executed DbCommand (")
        || line.contains("Executing DbCommand [")
        || (line.starts_with("-- ") && line.contains("' (Type = "))
    {
        "is Entity Framework's log, which has the values of a statement beside it, if at all, and is not \
         read: capture the program (`fathom trace capture -- dotnet …`)"
    } else if is_timed_by_rails && line.trim_end_matches("\u{1b}[0m").ends_with("]]") {
        "is ActiveRecord's log, which has the values of a statement behind it, as Ruby writes them, and \
         is not read: capture the program (`fathom trace capture -- ruby …`)"
    } else if has_values_in_a_comment(line) {
        "is the log of TypeORM or Drizzle, which has the values of a statement in a comment behind it, and \
         is not read: capture the program (`fathom trace capture -- node …`), or log what `verbose` of \
         better-sqlite3 or the event `trace` of node-sqlite3 gives, which has them filled in"
    } else if line.contains(": Sent ") && line.contains(" with args [") {
        "is the log of Drift (`logStatements`), which has the values of a statement behind it, as Dart \
         writes them, and is not read: capture the program (`fathom trace capture -- dart …`)"
    } else if line.contains("peewee:(") || line.contains("peewee: (") {
        "is Peewee's log, which has the values of a statement behind it, as Python writes them, and is not \
         read: capture the program (`fathom trace capture -- python3 …`)"
    } else if line.contains(BINDS) {
        "is the log of Diesel (`debug_query`), which has the values of a statement in a comment behind it, as \
         Rust writes them, and is not read: capture the program with the shared libsqlite3 (`fathom trace \
         capture`)"
    } else if line.contains("sqlx::query") {
        "is the log of sqlx, which has no values, and of long statements the beginning alone, and is not read: \
         capture the program with the shared libsqlite3 (`fathom trace capture`)"
    } else if ["knex:query ", "knex:bindings ", "__knexQueryUid"].iter().any(|word| line.contains(word)) {
        "is the log of knex (`debug: true`, `DEBUG=knex:*`), which has the values of a statement on a line of their own, as \
         JavaScript writes them, and is not read: log what `verbose` of better-sqlite3 or the event `trace` of \
         node-sqlite3 gives, which has them filled in"
    } else if line.contains("==>  Preparing: ") || line.contains("==> Parameters: ") {
        "is the log of MyBatis, which has the values of a statement on a line of their own, as Java writes \
         them, and is not read: let the program load the extension that FATHOM_TRACE_EXTENSION names \
         (sqlite-jdbc: `enableLoadExtension`), and capture it (`fathom trace capture -- java …`)"
    } else if is_of_jdbc(line) {
        "is the log of jOOQ, datasource-proxy or Ebean, which has the values of a statement beside it or once \
         more below it, and is not read: let the program load the extension that FATHOM_TRACE_EXTENSION names \
         (sqlite-jdbc: `enableLoadExtension`), and capture it (`fathom trace capture -- java …`)"
    } else if line.contains(";@p0 = ") || line.contains("[Debug#SQL] ") {
        "is the log of NHibernate or of Haskell's persistent, which has the values of a statement behind it, and \
         is not read: capture the program (`fathom trace capture`; one with an SQLite of its own loads the \
         extension that FATHOM_TRACE_EXTENSION names)"
    } else if line.contains("=HASH(0x") && (line.contains("DBI::") || line.contains("DBD::")) {
        "is a trace of Perl's DBI, which has the values of a statement where it is executed, and of several the \
         first alone, and is not read: capture the program (`fathom trace capture -- perl …`)"
    } else if line.contains("pony.orm:") || line.contains("pony.orm.sql") {
        "is the log of Pony, which has the values of a statement on a line of their own, as Python writes them, \
         and is not read: capture the program (`fathom trace capture -- python3 …`)"
    } else if line.contains("tortoise.db_client") || line.contains("aiosqlite:executing ") {
        "is the log of Tortoise or aiosqlite, which has the values of a statement behind it, as Python writes \
         them, and is not read: capture the program (`fathom trace capture -- python3 …`)"
    } else if is_of_postgresql(line) {
        "is PostgreSQL's log, which has the statements of all sessions one behind the other, and values on lines \
         of their own, and is not read: write the statements of each session, with their values, to a .sql file \
         of its own, and import their folder (`--format expanded` reads a log of one session without `execute`)"
    } else if line.contains("QUERY OK ") && line.contains(" db=") {
        "is the log of Ecto, which has the values of a statement behind it, as Elixir writes them, and is not \
         read: write the statements with their values to a .sql file, those of each connection to one of its \
         own, and import their folder"
    } else if line.contains(" | statement | connection ") || line.contains("|statement|connection ") {
        "is the log of p6spy, which has each statement twice, and is not read: capture the program (`fathom trace \
         capture -- java …`), which loads the extension that FATHOM_TRACE_EXTENSION names (sqlite-jdbc: \
         `enableLoadExtension`); or write the second one of each, where values are filled in, to a .sql file, \
         those of each connection to one of its own, with a BEGIN before what a line `commit` or `rollback` \
         ends and that word behind it, and blobs, which are texts there, as x'…', and import their folder"
    } else if ["jdbc.sqlonly", "jdbc.sqltiming", "jdbc.audit"].iter().any(|logger| line.contains(logger)) {
        "is the log of log4jdbc, which has statements twice (jdbc.sqlonly, jdbc.sqltiming), no BEGIN, and dates and \
         blobs otherwise than they are bound, and is not read: let the program load the extension that \
         FATHOM_TRACE_EXTENSION names (sqlite-jdbc: `enableLoadExtension`), and capture it (`fathom trace capture -- \
         java …`)"
    } else if line.contains("TRACE_STMT on ") {
        "is Firefox's log (mozStorage) in a form that is not read (MOZ_LOG=timestamp,mozStorage:5 writes one \
         that is): a statement of it stands in quotes behind the address of its connection (`TRACE_STMT on \
         ADDRESS: `); write those of each connection to one database to a .sql file of its own, and import \
         their folder"
    } else {
        return None;
    })
}

/// The same of a trace that has no statements. A text within a statement may be such a line.
pub fn problem_of_trace(line: &str) -> Option<&'static str> {
    let line = line.trim_end();
    Some(if is_of_the_kernel(line) {
        "holds events of the kernel (ftrace, `perf trace`), which are not read: record the calls on files \
         with `strace -f -ttt -y -o FILE`"
    } else if is_of_a_device(line) {
        "is a trace of a block device's requests, which is not read: what is replayed are statements, and \
         calls on files (`strace -f -ttt -y -o FILE`)"
    } else {
        return None;
    })
}

/// A statement in PostgreSQL's log, whatever stands before it (`log_line_prefix`), with its time
/// (`log_min_duration_statement`) or without: `LOG:  execute s1/p1: …`, `LOG:  duration: 0.1 ms
/// statement: …` (with two spaces).
fn is_of_postgresql(line: &str) -> bool {
    let Some((_, told)) = line.split_once("LOG:  ") else { return false };
    let told = match told.strip_prefix("duration: ") {
        Some(timed) => timed.split_once(" ms  ").map_or("", |(_, told)| told),
        None => told,
    };
    told.starts_with("statement: ") || (told.starts_with("execute ") && told.contains(": "))
}

/// A statement in jOOQ's log once more, with its values; or one of datasource-proxy's, as text or
/// JSON, or of Ebean's, with values beside it.
fn is_of_jdbc(line: &str) -> bool {
    const WORDS: [&str; 5] = ["-> with bind values", ", QuerySize:", "\"querySize\":", "--bind(", "-- bind("];
    WORDS.iter().any(|word| line.contains(word))
}

/// What Diesel writes behind a statement, before its values.
const BINDS: &str = "-- binds: [";

/// What is wrong with a statement that nothing stands before, and a comment with its values behind.
pub fn problem_of_statement(line: &str) -> Option<&'static str> {
    (line.contains(BINDS) || has_values_in_a_comment(line)).then(|| problem_of_log(line)).flatten()
}

/// Values behind a statement: `-- PARAMETERS: ["Timber",7]`, `-- params: [7]`.
fn has_values_in_a_comment(line: &str) -> bool {
    const WORDS: [&str; 4] = ["-- PARAMETERS: [", "-- Parameters: [", "-- parameters: [", "-- params: ["];
    WORDS.iter().any(|words| line.contains(words))
}

/// A message of the tag SQLiteStatements where only a process and a level, or nothing, stands
/// before it: `V( 1234) /data/a.db: "SELECT 1"`.
fn is_without_tag(line: &str) -> bool {
    let message = match line.split_once(") ") {
        Some((head, message)) if head.len() < 20 && head.get(1..2) == Some("(") => message,
        _ => line,
    };
    message.starts_with("/data/") && message.contains(": \"")
}

/// An error of SQLite with its code: `(1) no such table: t in "SELECT a FROM t"`.
fn is_error(line: &str) -> bool {
    let is_told = |words: &str| [" in \"", "abort at ", "aborts at "].iter().any(|told| words.contains(told));
    let rest = line.strip_prefix('(').and_then(|rest| rest.split_once(") "));
    rest.is_some_and(|(code, words)| is_number(code) && is_told(words))
}

/// The head of the kernel's own text, or a call as `perf trace` shows it: `0.000 ( 0.012 ms):
/// app/100 fsync(fd: 3) = 0`.
fn is_of_the_kernel(line: &str) -> bool {
    line.starts_with("# tracer: ") || (line.contains(" ms): ") && line.contains("(fd: "))
}

/// The head of fio's log, a line of blkparse (`8,0 1 7 0.000012 697 Q WS 4096 + 8 [app]`), or of
/// the tables that are published (`128160000000000001,host,0,Write,8192,4096,1331`).
fn is_of_a_device(line: &str) -> bool {
    if line.starts_with("fio version ") && line.ends_with(" iolog") {
        return true;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [device, cpu, sequence, time, process, action, _, ..] = words[..] {
        let is_device =
            device.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
        let is_time = time.contains('.') && time.parse::<f64>().is_ok();
        return is_device
            && [cpu, sequence, process].into_iter().all(is_number)
            && is_time
            && action.len() == 1;
    }
    let fields: Vec<&str> = line.split(',').collect();
    (5..=7).contains(&fields.len())
        && is_number(fields[0])
        && fields.iter().filter(|field| is_operation(field)).count() == 1
        && fields.iter().filter(|field| is_number(field)).count() >= 3
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_operation(word: &str) -> bool {
    matches!(word, "R" | "W" | "r" | "w" | "Read" | "Write")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_and_not_read_is_told_with_what_to_do() {
        for (line, words) in [
            ("  \"logcatMessages\": [\r\n", "adb logcat -v threadtime"),
            ("0: [11-21 16:26:38.123] execute took 3ms - succeeded, sql=\"COMMIT;\"", "SQLiteStatements"),
            ("== dumpstate: 2026-11-21 16:26:38", "--format android"),
            ("D/Db: SQL Query: BEGIN DEFERRED TRANSACTION SQL Args: []", "SQLiteStatements"),
            ("/data/user/0/app/a.db: \"BEGIN EXCLUSIVE;\"", "-v threadtime"),
            ("V( 1234: 1240) /data/a.db: \"BEGIN EXCLUSIVE;\"", "-v threadtime"),
            ("(1) no such table: t in \"SELECT a FROM t\"", ".trace FILE"),
            ("(5) statement aborts at 2: [BEGIN IMMEDIATE] database is locked", ".trace FILE"),
            ("2026-11-21 16:26:38,123 INFO sqlalchemy.engine.Engine [raw sql] ()", "capture -- python3"),
            ("      Executed DbCommand (2ms) [Parameters=[@p0='?']]", "capture -- dotnet"),
            ("      Executing DbCommand [Parameters=[@p0='?'], CommandType='Text']", "capture -- dotnet"),
            ("  Note Load (0.1ms)  SELECT * FROM notes WHERE id = ?  [[\"id\", 7]]", "capture -- ruby"),
            ("[Parent 10: Main]: D/mozStorage TRACE_STMT on 7f01: 'SELECT 1'", "MOZ_LOG=timestamp"),
            ("10:00:01.1 [main] INFO  jdbc.sqltiming - insert into t (a) values ('x')", "of log4jdbc"),
            ("INFO : jdbc.sqlonly - insert into t (a) values ('x')", "-- java …"),
            ("query: SELECT 1 WHERE a = ? -- PARAMETERS: [\"Timber\"]", "better-sqlite3"),
            ("Query: insert into \"users\" values (null, ?) -- params: [\"Dan\"]", "capture -- node"),
            ("flutter: Drift: Sent SELECT * FROM t WHERE a = ?; with args [1]", "capture -- dart"),
            ("DEBUG:peewee:('INSERT INTO \"t\" VALUES (?)', ['Charlie'])", "capture -- python3"),
            ("#1613479474529 | took 1ms | statement | connection 0| url jdbc:sqlite:a.db", "second one"),
            ("12:06:13|3|statement|connection 0|url jdbc:sqlite:a.db|select ?|select 1", "second one"),
            ("SELECT `a`.`id` FROM `a` WHERE (`a`.`id` = ?) -- binds: [1]", "of Diesel"),
            ("2024-06-26T16:10:21.8Z INFO sqlx::query: summary=\"SELECT 1\" db.statement=\"\"", "of sqlx"),
            ("  knex:query insert into \"t\" (\"a\") values (?) trx2 +10ms", "of knex"),
            ("  __knexQueryUid: 'HO_ifX6Qx3WwGksEBmiNz',", "of knex"),
            (
                "DEBUG o.jooq.tools.LoggerListener -- -> with bind values      : insert into t (a) values (1)",
                "java …",
            ),
            ("Type:Prepared, Batch:False, QuerySize:1, BatchSize:0", "datasource-proxy"),
            ("io.ebean.SQL - txn[1001] update t set a=? where id=?; -- bind(z, 1)", "FATHOM_TRACE_EXTENSION"),
            (
                "NHibernate: UPDATE t SET a = @p0 WHERE id = @p1;@p0 = 'z' [Type: String (0:0:0)]",
                "NHibernate",
            ),
            ("[Debug#SQL] INSERT INTO \"t\"(\"a\") VALUES(?); [PersistText \"John\"]", "persistent"),
            ("    <- prepare('insert into t(a) values(?)')= ( DBI::st=HASH(0x55f815) ) [1 items]", "-- perl"),
            ("DEBUG: ==>  Preparing: UPDATE t SET a=? WHERE (b = ?)", "of MyBatis"),
            ("==> Parameters: one(String), 2(Integer)", "of MyBatis"),
            ("10:00:01.5 [debug] QUERY OK source=\"t\" db=0.5ms queue=0.1ms", "of Ecto"),
            ("INFO:pony.orm.sql:INSERT INTO \"P\" (\"name\") VALUES (?)", "of Pony"),
            ("DEBUG:tortoise.db_client:INSERT INTO \"p\" VALUES (?): ['x']", "of Tortoise"),
            ("2024-04-30 07:52:01.099 UTC [45] LOG:  statement: BEGIN", "of each session"),
            ("10.0.3.147(57382):postgres@db:[7]:LOG:  execute s1/p1: SELECT $1", "of each session"),
            ("LOG:  duration: 0.075 ms  statement: SELECT 1", "of each session"),
            ("-- p0: 'Bob' (Type = String, Size = -1)", "capture -- dotnet"),
            ("# tracer: nop", "strace -f"),
            ("  0.104 ( 0.012 ms): app/100 fsync(fd: 3</tmp/a.db>)   = 0", "strace -f"),
            ("fio version 3 iolog", "block device"),
            ("  8,16   1       12     0.000041250   697  Q  WS 4096 + 8 [app]", "block device"),
            ("128160000000000001,host,1,Write,8192,4096,1331\r\n", "block device"),
            ("0,W,8192,4096,1577000000000000", "block device"),
            ("1,8192,4096,W,0.125", "block device"),
        ] {
            let problem = problem_of_log(line).or_else(|| problem_of_trace(line));
            assert!(problem.is_some_and(|problem| problem.contains(words)), "{line}");
        }
        for line in [
            "INSERT INTO t VALUES (1, 'W', 2, 3, 4)",
            "1,2,W,x,y",
            "(0.001) SELECT a FROM t WHERE b in \"c\"",
            "(0.3ms) SELECT '[[\"id\", 7]]' FROM t",
            "Executing (default): SELECT 1; -- a comment",
            "prisma:query SELECT `main`.`T`.`id` FROM `main`.`T` WHERE 1=1 LIMIT ? OFFSET ?",
            "[0.250ms] [rows:1] UPDATE `t` SET `a`=\"QUERY OK\" WHERE `id` = 1",
            "11-21 16:26:38.100  100  101 V SQLiteTime: /data/a.db: \"SELECT 1\" took 0.250 ms",
            "8,0 1 7 x 697 Q WS 1 + 8",
            "SQL: INSERT INTO t VALUES ('LOG:  duration: 1 ms')",
            "",
        ] {
            assert_eq!(problem_of_log(line).or_else(|| problem_of_trace(line)), None, "{line}");
        }
    }
}
