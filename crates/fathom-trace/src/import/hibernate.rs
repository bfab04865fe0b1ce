//! Hibernate's log, where it has all that is needed: statements (`org.hibernate.SQL`, or what
//! `show_sql` prints), their values (`org.hibernate.orm.jdbc.bind`, before version 6
//! `….type.descriptor.sql.BasicBinder`), and transactions
//! (`org.hibernate.engine.transaction.internal.TransactionImpl`).
//!
//! ```text
//! 10:00:00.1 [main] DEBUG org.hibernate.engine.transaction.internal.TransactionImpl - begin
//! 10:00:00.2 [main] DEBUG org.hibernate.SQL - insert into t (a,id) values (?,?)
//! 10:00:00.2 [main] TRACE org.hibernate.orm.jdbc.bind - binding parameter (1:VARCHAR) <- [x]
//! 10:00:00.2 [main] TRACE org.hibernate.orm.jdbc.bind - binding parameter (2:BIGINT) <- [7]
//! 10:00:00.3 [main] DEBUG org.hibernate.engine.transaction.internal.TransactionImpl - committing
//! ```
//!
//! `committing` is told before what is still to be written is: what the same thread does below it
//! is of the transaction, up to the next one's `begin`, or to what the connection says of the
//! commit (`Transaction committed via …`), where that is logged. The values are those that
//! sqlite-jdbc makes of Java's: what it makes of a date depends on its settings, and bytes are not
//! in the log, so a statement with either is none that could be done again.

use std::collections::BTreeMap;
use std::path::Path;

use super::bad::BadOnes;
use super::expanded::{OF_ANOTHER, out_of_place};
use super::lines::Lines;
use super::play::Player;
use super::private::compile;
use super::{ImportReport, Starts};
use crate::assemble::Assembler;
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::model::Value;
use crate::sql::{TokenKind, literal, tokens};

/// Names of the logger of statements.
const LOGGERS_OF_SQL: [&str; 3] = ["org.hibernate.SQL", "o.h.SQL", "SqlStatementLogger"];

/// What `show_sql` prints before a statement.
const SHOWN: &str = "Hibernate: ";

/// What is wrong with a value that has no statement.
const WITHOUT_STATEMENT: &str =
    "is a value without its statement: log org.hibernate.SQL at DEBUG, of all threads into one file";

/// What is wrong with a statement that is told once, and executed for several rows.
const BATCH: &str = "is executed for several rows, which the log does not tell from those of another statement: \
    leave out hibernate.jdbc.batch_size";

/// What is wrong with a statement with a value of several lines.
const LINES: &str = "has a value of several lines, whose end the log does not tell";

/// What is wrong with a statement whose values another thread tells.
const MIXED: &str = "stands between lines of another thread, so that its values are not known";

/// What a log has.
#[derive(Debug, Default)]
pub struct Survey {
    has_values: bool,
    has_logger: bool,
    has_transactions: bool,
    has_ends: bool,
    /// The first thread with values, and whether there is another one.
    thread: Option<String>,
    has_threads: bool,
}

/// What a line tells.
#[derive(Clone, Debug, PartialEq)]
enum Told<'l> {
    Shown(&'l str),
    Sql(&'l str),
    Value { index: u32, kind: &'l str, text: Option<&'l str> },
    Begin,
    Committing,
    Committed,
    RollingBack,
    Failed,
}

/// A statement whose values are read.
struct Pending {
    sql: String,
    line: u64,
    thread: String,
    values: BTreeMap<u32, Value>,
    problem: Option<String>,
}

/// A transaction.
struct Open {
    thread: String,
    /// The line that says that it is committed.
    committing: Option<u64>,
    has_failed: bool,
}

/// What the lines become.
struct Log<'a> {
    path: &'a Path,
    connection: ConfinedConnection,
    number: u32,
    player: Player<'a>,
    pending: Option<Pending>,
    open: Option<Open>,
    /// Texts `null`, which may be one.
    nulls: u64,
    /// Statements below `committing`.
    late: u64,
}

impl Survey {
    /// Looks at a line.
    pub fn take(&mut self, line: &str) {
        let Some((told, head)) = told(line) else { return };
        match told {
            Told::Value { .. } => self.has_values = true,
            Told::Sql(_) => self.has_logger = true,
            Told::Begin => self.has_transactions = true,
            Told::Committed => self.has_ends = true,
            _ => {}
        }
        if !matches!(told, Told::Shown(_)) {
            let thread = thread_of(head);
            self.has_threads |= self.thread.as_ref().is_some_and(|known| *known != thread);
            self.thread.get_or_insert(thread);
        }
    }

    /// Whether it is Hibernate's log with values.
    pub fn has_values(&self) -> bool {
        self.has_values
    }
}

/// Reads the log at `path`, which has this.
pub fn import(
    path: &Path,
    survey: &Survey,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    if !survey.has_transactions {
        return Err(TraceError::refused(
            path.display(),
            "is Hibernate's log with its values and without its transactions: log \
             org.hibernate.engine.transaction.internal.TransactionImpl at DEBUG, too, or capture the program (`fathom \
             trace capture -- java …`; it loads the extension that FATHOM_TRACE_EXTENSION names)",
        ));
    }
    if survey.has_threads && !survey.has_logger {
        return Err(TraceError::refused(
            path.display(),
            "is Hibernate's log of several threads, whose statements (show_sql) do not tell which thread's they are: \
             log org.hibernate.SQL at DEBUG",
        ));
    }
    let (player, connection, number, _) =
        Player::of_one_connection(path, "log.db", (assembler, starts, bad), steps_max)?;
    let mut log = Log { path, connection, number, player, pending: None, open: None, nulls: 0, late: 0 };
    let mut lines = Lines::open(path)?.without_colours();
    let (mut line_number, mut shown) = (0, 0_u64);
    // Whether the next line may be one more of a statement, and whether of one that is left out.
    let (mut is_sql, mut is_left_out) = (false, false);
    while let Some(line) = lines.next_line()? {
        line_number += 1;
        let Some((told, head)) = told(line) else {
            if line.trim().is_empty() || (is_left_out && !is_headed(line)) {
                continue;
            }
            is_left_out = false;
            if is_headed(line) {
                is_sql = false;
            } else if let Some(pending) = &mut log.pending {
                let is_text = pending.values.last_key_value().is_some_and(|(_, value)| is_text(value));
                if is_sql {
                    pending.sql.push_str(line);
                } else if is_text {
                    pending.problem.get_or_insert_with(|| LINES.to_owned());
                }
            }
            continue;
        };
        is_left_out = matches!(told, Told::Shown(_)) && survey.has_logger;
        if is_left_out {
            shown += 1;
            continue;
        }
        is_sql = matches!(told, Told::Shown(_) | Told::Sql(_));
        log.line(&told, thread_of(head), line_number)?;
    }
    log.add()?;
    log.end()?;
    let Log { player, nulls, late, .. } = log;
    player.assembler.close(number, 0)?;
    let mut imported = ImportReport::default();
    player.finish(&mut imported);
    imported.warnings.push(
        "this is Hibernate's log: all of it is read as one connection, each transaction begins with BEGIN and values are those that sqlite-jdbc \
         makes of Java's, as it does if nothing else is set; texts are as Java's toString writes them (of an enum, which may have its own). What is \
         asked without Hibernate is not in it"
            .into(),
    );
    if shown > 0 {
        imported.warnings.push(format!(
            "{shown} statements stand in the log twice (org.hibernate.SQL and show_sql); what show_sql prints is left out"
        ));
    }
    if nulls > 0 {
        imported.warnings.push(format!(
            "{nulls} values of texts are `null`, as Hibernate writes both NULL and the text of that word: they are NULL"
        ));
    }
    if late > 0 && !survey.has_ends {
        imported.warnings.push(format!(
            "{late} statements stand below `committing` and above the next `begin`: they are taken for what the transaction writes when it is \
             committed, and not for statements behind it (org.hibernate.resource.jdbc.internal at TRACE tells its end)"
        ));
    }
    Ok(imported)
}

impl Log<'_> {
    fn line(&mut self, told: &Told<'_>, thread: String, line: u64) -> Result<(), TraceError> {
        match *told {
            Told::Shown(sql) | Told::Sql(sql) => {
                self.add()?;
                let (sql, values) = (format!("{}\n", sql.trim_end()), BTreeMap::new());
                self.pending = Some(Pending { sql, line, thread, values, problem: None });
            }
            Told::Value { index, kind, text } => self.value(index, kind, text, &thread, line),
            Told::Begin => {
                self.add()?;
                if self.open.as_ref().is_some_and(|open| open.committing.is_some()) {
                    self.end()?;
                }
                self.execute("BEGIN", line)?;
                if !self.connection.is_autocommit() && self.open.is_none() {
                    self.open = Some(Open { thread, committing: None, has_failed: false });
                }
            }
            Told::Committing => {
                self.add()?;
                match &mut self.open {
                    Some(open) if open.thread == thread => open.committing = Some(line),
                    Some(_) => self.player.bad.add(self.path, line, "committing", OF_ANOTHER),
                    None => self.execute("COMMIT", line)?,
                }
            }
            Told::Committed => {
                self.add()?;
                self.end()?;
            }
            Told::RollingBack => {
                self.add()?;
                match self.open.take_if(|open| open.thread == thread) {
                    None if self.open.is_some() => {
                        self.player.bad.add(self.path, line, "rolling back", OF_ANOTHER);
                    }
                    _ => self.execute("ROLLBACK", line)?,
                }
            }
            Told::Failed => {
                self.add()?;
                if let Some(open) = self.open.as_mut().filter(|open| open.thread == thread) {
                    open.has_failed = true;
                }
            }
        }
        Ok(())
    }

    /// A value of the statement that is read.
    fn value(&mut self, index: u32, kind: &str, text: Option<&str>, thread: &str, line: u64) {
        let Some(pending) = &mut self.pending else {
            self.player.bad.add(self.path, line, "", WITHOUT_STATEMENT);
            return;
        };
        let is_of_another = !(thread.is_empty() || pending.thread.is_empty() || pending.thread == thread);
        let value = match text {
            None => Err(LINES.to_owned()),
            Some(_) if is_of_another => Err(MIXED.to_owned()),
            Some(text) => value_of(kind, text),
        };
        self.nulls += u64::from(is_kind_of_text(kind) && value == Ok(Value::Null));
        match value {
            Err(problem) => {
                pending.problem.get_or_insert(problem);
            }
            Ok(value) => {
                if pending.values.insert(index, value).is_some() {
                    pending.problem.get_or_insert_with(|| BATCH.to_owned());
                }
            }
        }
    }

    /// Does the statement that was read, with its values in it.
    fn add(&mut self) -> Result<(), TraceError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let Pending { sql, line, thread, values, problem } = pending;
        let sql = sql.trim().trim_end_matches(';').trim_end();
        let is_other = |open: &Open| !thread.is_empty() && open.thread != thread;
        let is_of_another = self.open.as_ref().is_some_and(is_other);
        if is_of_another && self.open.as_ref().is_some_and(|open| open.committing.is_some()) {
            self.end()?;
        } else if is_of_another {
            self.player.bad.add(self.path, line, sql, OF_ANOTHER);
            return Ok(());
        }
        self.late += u64::from(self.open.as_ref().is_some_and(|open| open.committing.is_some()));
        let filled = match problem {
            Some(problem) => Err(problem),
            None => filled(sql, &values),
        };
        match filled {
            Ok(sql) => self.execute(&sql, line),
            Err(problem) => {
                self.player.bad.add(self.path, line, sql, &problem);
                Ok(())
            }
        }
    }

    /// Ends the transaction that is being committed: Hibernate rolls one back that fails then.
    fn end(&mut self) -> Result<(), TraceError> {
        let Some(Open { committing: Some(line), has_failed, .. }) =
            self.open.take_if(|open| open.committing.is_some())
        else {
            return Ok(());
        };
        self.execute(if has_failed { "ROLLBACK" } else { "COMMIT" }, line)
    }

    fn execute(&mut self, sql: &str, line: u64) -> Result<(), TraceError> {
        let compiled = match compile(&self.connection, sql) {
            Ok(compiled) => compiled,
            Err(fault) => {
                self.player.bad.add(self.path, line, sql, &fault.problem());
                return Ok(());
            }
        };
        if let Some(problem) = out_of_place(sql, self.connection.is_autocommit()) {
            self.player.bad.add(self.path, line, sql, problem);
            return Ok(());
        }
        self.player.execute(&self.connection, self.number, sql, compiled, (self.path, line))
    }
}

/// A statement with its values in the place of its parameters.
fn filled(sql: &str, values: &BTreeMap<u32, Value>) -> Result<String, String> {
    let parameters = tokens(sql).filter(|token| token.kind == TokenKind::Parameter);
    let (mut count, mut are_plain) = (0_u32, true);
    for parameter in parameters {
        count += 1;
        are_plain &= parameter.text == "?";
    }
    let are_all = values.len() == count as usize && values.keys().copied().eq(1..=count);
    if !(are_plain && are_all) {
        return Err(format!(
            "has {count} parameters, and the log tells {} values of it: log org.hibernate.orm.jdbc.bind (before version 6 \
             org.hibernate.type.descriptor.sql) at TRACE",
            values.len()
        ));
    }
    let mut values = values.values();
    let mut text = String::with_capacity(sql.len());
    for token in tokens(sql) {
        if token.kind == TokenKind::Parameter {
            text.extend(values.next().map(literal));
        } else {
            text.push_str(token.text);
        }
    }
    Ok(text)
}

/// What a line tells, with what stands before that.
fn told(line: &str) -> Option<(Told<'_>, &str)> {
    let line = line.trim_end_matches('\n');
    if let Some(sql) = line.strip_prefix(SHOWN).or_else(|| line.strip_prefix(SHOWN.trim_end())) {
        return Some((Told::Shown(sql), ""));
    }
    if let Some((head, value)) = line.split_once("binding parameter ")
        && !head.contains('\'')
        && let Some(value) = value_in(value)
    {
        return Some((value, head));
    }
    if let Some((head, message)) = line.split_once("TransactionImpl") {
        let message = message.trim_start_matches([' ', ']', ':', '-', '\t']).trim_end();
        let told = match message {
            "begin" => Told::Begin,
            "committing" => Told::Committing,
            "rolling back" => Told::RollingBack,
            _ => return None,
        };
        return Some((told, head));
    }
    if let Some((head, _)) = line.split_once("Transaction committed via JDBC Connection.commit()") {
        return Some((Told::Committed, head));
    }
    if let Some((head, _)) =
        line.split_once("SQL Error: ").filter(|(head, _)| head.contains("SqlExceptionHelper"))
    {
        return Some((Told::Failed, head));
    }
    let (at, name) = LOGGERS_OF_SQL.iter().find_map(|name| line.find(*name).map(|at| (at, name)))?;
    let (head, message) = (&line[..at], &line[at + name.len()..]);
    let is_name = !message.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    let is_first = !head.contains('\'');
    (is_name && is_first).then(|| (Told::Sql(message.trim_start_matches([' ', ']', ':', '-', '\t'])), head))
}

/// `(1:VARCHAR) <- [x]`, or before version 6 `[1] as [VARCHAR] - [x]`. No text where its end is
/// not on the line.
fn value_in(words: &str) -> Option<Told<'_>> {
    let (index, kind, text) = match words.strip_prefix('(') {
        Some(words) => {
            let (index, words) = words.split_once(':')?;
            let (kind, text) = words.split_once(") <- [")?;
            (index, kind, text)
        }
        None => {
            let (index, words) = words.strip_prefix('[')?.split_once("] as [")?;
            let (kind, text) = words.split_once("] - [")?;
            (index, kind, text)
        }
    };
    Some(Told::Value { index: index.parse().ok()?, kind, text: text.strip_suffix(']') })
}

/// The words in brackets before what is told, that are no time, level or logger: the thread.
fn thread_of(head: &str) -> String {
    let is_thread = |word: &&str| {
        let is_time = word.contains(':') && word.starts_with(|letter: char| letter.is_ascii_digit());
        let is_logger = word.contains("hibernate") || word.starts_with("o.h.");
        !(is_time || is_logger || is_level(word))
    };
    let words: Vec<&str> = head
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']').map(|(word, _)| word.trim()))
        .filter(is_thread)
        .collect();
    words.join("][")
}

fn is_level(word: &str) -> bool {
    matches!(word.trim().trim_end_matches(':'), "TRACE" | "DEBUG" | "INFO" | "WARN" | "ERROR")
}

/// Whether a line begins as a log's own do, and no further line of a statement.
fn is_headed(line: &str) -> bool {
    line.starts_with(|letter: char| letter.is_ascii_digit() || letter == '[')
        || line.split_whitespace().next().is_some_and(is_level)
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::Text(_))
}

fn is_kind_of_text(kind: &str) -> bool {
    matches!(kind, "VARCHAR" | "NVARCHAR" | "CHAR" | "NCHAR" | "LONGVARCHAR" | "LONGNVARCHAR")
        || matches!(kind, "LONG32VARCHAR" | "LONG32NVARCHAR")
}

/// What sqlite-jdbc binds for a value of this type of JDBC.
fn value_of(kind: &str, text: &str) -> Result<Value, String> {
    let is = |value: Option<Value>| {
        value.ok_or_else(|| format!("has a value of type {kind} that the log does not tell exactly"))
    };
    if text == "null" {
        return Ok(Value::Null);
    }
    if is_kind_of_text(kind) {
        return Ok(Value::Text(text.as_bytes().to_vec()));
    }
    match kind {
        // A decimal is bound as its text.
        "NUMERIC" | "DECIMAL" => is(text.parse::<f64>().ok().map(|_| Value::Text(text.as_bytes().to_vec()))),
        "INTEGER" | "BIGINT" | "SMALLINT" | "TINYINT" => is(text.parse().ok().map(Value::Integer)),
        "BOOLEAN" | "BIT" => is(match text {
            "true" => Some(Value::Integer(1)),
            "false" => Some(Value::Integer(0)),
            _ => None,
        }),
        "DOUBLE" => is(text.parse().ok().map(Value::Real)),
        // Java's float or double: most numbers differ by that.
        "FLOAT" | "REAL" => {
            let (double, float) = (text.parse::<f64>().ok(), text.parse::<f32>().ok().map(f64::from));
            is(double.filter(|_| double == float).map(Value::Real))
        }
        _ => Err(format!(
            "has a value of type {kind}, which sqlite-jdbc stores otherwise than the log tells it: capture the program \
             (`fathom trace capture -- java …`), which loads the extension that FATHOM_TRACE_EXTENSION names"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Place, texts};

    const HEAD: &str = "CREATE TABLE t (a VARCHAR, b DOUBLE, c BOOLEAN, id INTEGER PRIMARY KEY)";

    fn line(thread: &str, words: &str) -> String {
        format!("2023-08-10 10:00:00.125 [{thread}] DEBUG {words}\n")
    }

    fn log(lines: &[(&str, &str)]) -> String {
        let head = line("main", &format!("org.hibernate.SQL - {HEAD}"));
        lines.iter().fold(head, |log, (thread, words)| log + &line(thread, words))
    }

    const BEGIN: &str = "org.hibernate.engine.transaction.internal.TransactionImpl - begin";
    const COMMIT: &str = "o.h.e.t.internal.TransactionImpl : committing";
    const BACK: &str = "o.h.e.t.internal.TransactionImpl : rolling back";
    const INSERT: &str = "org.hibernate.SQL - \n    insert \n    into\n        t\n        (a, b, c, id) \n    \
        values\n        (?, ?, ?, ?)";

    /// What happened: of such a log all values were NULL, and all transactions were lost, though
    /// both are in it.
    #[test]
    fn a_log_with_values_and_transactions_is_read() {
        let place = Place::new();
        let lines = [
            ("main", BEGIN),
            ("main", INSERT),
            ("main", "org.hibernate.orm.jdbc.bind - binding parameter (1:VARCHAR) <- [it's [x] <- [?]]"),
            ("main", "org.hibernate.orm.jdbc.bind - binding parameter (2:DOUBLE) <- [1.5E10]"),
            ("main", "org.hibernate.orm.jdbc.bind - binding parameter (3:BOOLEAN) <- [true]"),
            ("main", "org.hibernate.orm.jdbc.bind - binding parameter (4:BIGINT) <- [7]"),
            ("main", COMMIT),
            ("main", "org.hibernate.SQL - update t set a=? where id=?"),
            ("main", "o.h.type.descriptor.sql.BasicBinder - binding parameter [1] as [VARCHAR] - [null]"),
            ("main", "o.h.type.descriptor.sql.BasicBinder - binding parameter [2] as [BIGINT] - [7]"),
            ("main", "org.app.Service - saved"),
            ("pool-2", BEGIN),
            ("pool-2", "org.hibernate.SQL - delete from t"),
            ("pool-2", BACK),
        ];
        let (imported, records) = place.import(&place.write("app.log", &log(&lines))).expect("imported");
        let seen: Vec<String> = texts(&records)
            .into_iter()
            .map(|sql| sql.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            HEAD,
            "BEGIN",
            "insert into t (a, b, c, id) values ('it''s [x] <- [?]', 1.5000000000000000e10, 1, 7)",
            "update t set a=NULL where id=7",
            "COMMIT",
            "BEGIN",
            "delete from t",
            "ROLLBACK",
        ];
        assert_eq!(seen, expected);
        let warnings = imported.warnings.join("\n");
        for words in ["this is Hibernate's log", "1 values of texts are `null`", "1 statements stand below"] {
            assert!(warnings.contains(words), "{words}: {warnings}");
        }
        assert_eq!(imported.warnings.len(), 3, "{warnings}");
    }

    #[test]
    fn what_is_not_told_is_refused_with_what_to_do() {
        let place = Place::new();
        let bind = |words: &str| format!("org.hibernate.orm.jdbc.bind - binding parameter {words}");
        let one = bind("(1:BIGINT) <- [7]");
        let find = "org.hibernate.SQL - select a from t where id=?";
        let refused = |lines: &[(&str, &str)]| {
            place.import(&place.write("app.log", &log(lines))).expect_err("refused").to_string()
        };
        let error = refused(&[("main", find), ("main", &*one)]);
        assert!(error.contains("TransactionImpl at DEBUG"), "{error}");
        let (two, date, text) = (
            bind("(2:BIGINT) <- [8]"),
            bind("(1:TIMESTAMP) <- [2023-08-10T10:00]"),
            bind("(1:VARCHAR) <- [a"),
        );
        let float = bind("(1:FLOAT) <- [0.1]");
        for (lines, words) in [
            (vec![("main", find), ("main", &*one), ("main", &*one)], "batch_size"),
            (vec![("main", find)], "has 1 parameters, and the log tells 0"),
            (vec![("main", find), ("main", &*one), ("main", &*two)], "the log tells 2 values"),
            (vec![("main", find), ("main", &*date)], "of type TIMESTAMP"),
            (vec![("main", find), ("main", &*float)], "of type FLOAT"),
            (vec![("main", find), ("main", &*text)], "of several lines"),
            (vec![("main", find), ("other", &*one)], "lines of another thread"),
            (vec![("main", BEGIN), ("other", find), ("other", &*one)], "of another connection"),
        ] {
            let mut all = vec![("main", find), ("main", &*one)];
            all.extend(lines);
            all.push(("main", BEGIN));
            let error = refused(&all);
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
