//! A log of expanded SQL, as callbacks of `sqlite3_trace` and `sqlite3_trace_v2` write it:
//! statements with their values filled in, each on a line of its own or on several, with anything
//! before it (a time, a thread, `SQL: `) or nothing.
//!
//! A statement begins where a line, after a beginning of the same shape as the first one's, goes on
//! with a statement's first word, or with a comment, while no text of the statement before is open;
//! digits are alike in a shape. The beginning may have a line of its own, with the statement below.
//! What a trigger does is logged as a comment (`-- `), and left out: its statement does it. Other
//! lines belong to the statement before them up to its semicolon, and to none behind it, nor where
//! they begin as no SQL does but a log's lines do: with a time, or with the same name and a colon.
//! Nor does a line of Sequelize's log with which no statement can go on. In double quotes behind
//! the name of a field (`"msg":"…"`, logfmt's `msg="…"`) a statement stands as JSON writes it. A
//! log whose statements Python's `repr` wrote has them in quotes of either kind, each on one line.
//!
//! All of it is one connection, so it is executed as a script is: what fails is expected to fail.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use super::bad::BadOnes;
use super::ends::Ends;
use super::inner::is_time;
use super::lines::{COLOUR, Lines, can_be_read_twice, without_colours};
use super::play::Player;
use super::private::{Compilation, Fault, compile};
use super::repr::{Quoted, quoted};
use super::script::is_open;
use super::statements::begins_statement;
use super::{ImportReport, Starts};
use crate::assemble::Assembler;
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::sql::{TokenKind, Verb, pragma, tokens};

/// What the first version of GORM writes on a line of its own below each statement, behind a
/// number.
const COUNT_OF_ROWS: &str = " rows affected or returned ]";

/// What its second version writes before a statement that has not told how many rows it has, in the
/// place of their number: `[0.031ms] [rows:-] SELECT …`.
const NO_COUNT: &str = "[rows:-]";

/// What GORM writes in the place of every blob.
const BLOBS: [&str; 2] = ["\"<binary>\"", "'<binary>'"];

/// Libraries that begin and end transactions without a word of that in their logs; as in a shape, a
/// letter once for a run of it.
const SILENT: [&str; 6] =
    ["[rows:", "Hibernate:", "org.hibernate.SQL", "o.h.SQL", "DEBUG Exposed -", "sea_orm:"];

/// What Sequelize writes before the connection of each statement.
const SEQUELIZE: [&str; 2] = ["Executing (", "Executed ("];

/// Bytes of a statement up to which each further line is tried.
const TRIED_BYTES: usize = 8 << 10;

/// Lines that are looked at for what stands before the statements.
const SHAPE_LINES: usize = 1000;

/// What is wrong with a statement that does not begin as the others do: whose it is, and whether it
/// is one of theirs that something else logs as well, is not known.
const OTHERWISE: &str = "stands without what the log has before its first statement";

/// What is wrong with a statement of Sequelize's that is none of the transaction which is open.
pub const OF_ANOTHER: &str = "stands within a transaction of another connection";

/// What is wrong with a statement in quotes that may or may not be JSON's.
const ESCAPED: &str =
    "stands in quotes, and what a backslash stands for there is not known: log the statement as it is";

/// What is wrong with a statement of a log of Python's `repr` that has values beside it, if at all.
const WITH_PARAMETERS: &str = "has parameters, whose values are not in it: log what set_trace_callback of Python or sqlite3_expanded_sql \
    gives, or capture the program (`fathom trace capture`)";

/// What is wrong with a line that may be a clause of a statement which something else has ended.
const PARTED: &str = "may go on with the statement above, from which another line of the log parts it";

/// What the statements of a log become.
struct Log<'a> {
    path: &'a Path,
    connection: ConfinedConnection,
    /// The trace's connection.
    number: u32,
    player: Player<'a>,
    /// Whether each statement stands there with its time, too, behind its semicolon.
    has_times: bool,
    /// The connection that Sequelize names before the statement that is read, and before the BEGIN
    /// of the transaction that is open.
    named: String,
    begun_by: Option<String>,
    /// What is before the statement that is read, and was before the one outside of a transaction
    /// that came last, of a thread or connection.
    thread: String,
    begun_on: String,
    /// Statements of another thread than their transaction's, and the first one's line.
    of_others: u64,
    first_of_others: u64,
    /// Statements with text behind their semicolon.
    with_more: u64,
    /// Those whose blobs are not told.
    without_blobs: u64,
    /// Those that change rows, and whether one begins a transaction.
    changing: u64,
    has_transactions: bool,
}

/// Reads the log at `path`.
pub fn import(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    let (mut player, connection, number, _) =
        Player::of_one_connection(path, "log.db", (assembler, starts, bad), steps_max)?;
    let has_times = player.look_for_profile(path)?;
    let mut log = Log {
        path,
        connection,
        number,
        player,
        has_times,
        named: String::new(),
        begun_by: None,
        thread: String::new(),
        begun_on: String::new(),
        of_others: 0,
        first_of_others: 0,
        with_more: 0,
        without_blobs: 0,
        changing: 0,
        has_transactions: false,
    };
    if let Some(shape) = log.shape_of_quoted()? {
        return log.import_quoted(&shape);
    }
    let (mut shape, has_colours) = log.shape()?;
    let mut lines = Lines::open(path)?;
    if has_colours {
        lines = lines.without_colours();
    }
    let (mut open, mut begin) = (String::new(), 0);
    let (mut ends, mut is_whole, mut is_parted) = (Ends::default(), false, false);
    let (mut line_number, mut skipped, mut has_line_end) = (0, 0_u64, true);
    let mut is_silent = false;
    // The statement that was announced last, with its line, and how many came.
    let (mut announced, mut announcements): (Option<(u64, String)>, u64) = (None, 0);
    while let Some(line) = lines.next_line()? {
        line_number += 1;
        has_line_end = line.ends_with('\n');
        is_silent |= line.contains(COUNT_OF_ROWS);
        let is_within = !is_whole && ends.is_quote();
        let at = if is_within { None } else { begin_of(line, shape.as_deref()) };
        match at {
            Some(at) => {
                shape.get_or_insert_with(|| shape_of(&line[..at]));
                if let Some((told_in, sql)) = announced.take() {
                    if line[at..].starts_with(&sql) {
                        announcements += 1;
                    } else {
                        log.player.bad.add(path, told_in, &sql, OTHERWISE);
                    }
                }
                log.add(&open, begin)?;
                log.named =
                    connection_of(&line[..at]).map_or_else(String::new, |named| line[named].to_owned());
                log.thread.clear();
                log.thread.push_str(thread_of(&line[..at]));
                open.clear();
                let sql = statement_in(line, at);
                let is_decoded = matches!(sql, Cow::Owned(_));
                let is_unknown = !is_decoded && is_quoted(line, at) && sql.contains('\\');
                if is_unknown {
                    log.player.bad.add(path, line_number, &sql, ESCAPED);
                } else {
                    open.push_str(&sql);
                }
                ends = Ends::default();
                is_whole = ends.feed(&open).is_some() || is_decoded || is_unknown;
                is_parted = false;
                begin = line_number;
            }
            None => {
                let is_other = !is_whole && !is_within && is_of_the_log(line, shape.as_deref());
                if is_other && (!may_go_on(line) || log.statement_of_another(line).is_some()) {
                    (is_whole, is_parted) = (true, !open.is_empty());
                }
                let is_plain = !is_whole && !is_within && shape.as_deref().is_some_and(is_of_sequelize);
                if is_plain && !may_go_on(line) && log.cannot_go_on(&open, line) {
                    (is_whole, is_parted) = (true, true);
                }
                if !open.is_empty() && !is_whole {
                    open.push_str(line);
                    is_whole = ends.feed(line).is_some();
                    continue;
                }
                match log.statement_of_another(line) {
                    Some(sql) if announced.is_none() && is_announced(line) => {
                        announced = Some((line_number, sql.to_owned()));
                    }
                    Some(sql) => log.player.bad.add(path, line_number, sql, OTHERWISE),
                    None if is_parted
                        && line.split_whitespace().next().is_some_and(begins_clause)
                        && !log.cannot_go_on(&open, line) =>
                    {
                        log.player.bad.add(path, line_number, line, PARTED);
                    }
                    None => {
                        let is_comment = line.trim_start().starts_with("--");
                        skipped += u64::from(!line.trim().is_empty() && !is_comment);
                    }
                }
            }
        }
    }
    if let Some((told_in, sql)) = announced {
        log.player.bad.add(path, told_in, &sql, OTHERWISE);
    }
    log.add(&open, begin)?;
    is_silent |= shape.is_some_and(|shape| SILENT.iter().any(|word| shape.contains(word)));
    let is_told = !is_silent || log.has_transactions || log.changing < 2;
    let Log { player, with_more, changing, without_blobs, of_others, first_of_others, .. } = log;
    player.assembler.close(number, 0)?;
    let mut imported = ImportReport::default();
    player.finish(&mut imported);
    if !is_told {
        imported.warnings.push(format!(
            "the library that wrote this log tells no BEGIN and no COMMIT (GORM, Hibernate, Exposed, SeaORM): each of the {changing} statements that \
             change rows is a transaction by itself here, also where the application had several in one; a capture has them"
        ));
    }
    imported.warnings.extend(told_of_others(of_others, first_of_others));
    if !(open.is_empty() || is_whole || has_line_end) {
        imported.warnings.push(super::cut_off(path, begin));
    }
    imported.warnings.extend(told_skipped(skipped));
    if announcements > 0 {
        imported.warnings.push(format!(
            "{announcements} lines are of Django's logger `django.db.backends.schema`, which tells a statement before \
             `django.db.backends` does; they are left out"
        ));
    }
    if without_blobs > 0 && is_silent {
        imported.warnings.push(format!(
            "{without_blobs} statements have `<binary>` in the place of a blob, as GORM writes all of them: its bytes are not \
             in the log, and so in no number; a capture has them"
        ));
    }
    imported.warnings.extend(told_with_more(with_more));
    Ok(imported)
}

/// What must be known of statements of another thread than their transaction's.
fn told_of_others(count: u64, first: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} statements (the first on line {first}) stand within a transaction that another thread or connection began, \
             by what is before them; all of a log is read as one connection, so they are committed or rolled back with it. Where they are \
             another connection's, write the statements of each to a .sql file of its own, and import their folder, or capture the program"
        )
    })
}

/// What must be known of lines that are left out.
fn told_skipped(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{count} lines before the first statement, or between statements, are no SQL and are left out"
        )
    })
}

/// What must be known of statements with text behind their semicolon.
fn told_with_more(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!("behind the semicolon of {count} statements stands text that is no SQL; it is left out")
    })
}

impl Log<'_> {
    /// The shape of what stands before the statements, where the first lines tell; none where the
    /// first statement will. With the first statement on a line of its own, what is above it is its
    /// beginning where others begin so, too: Django writes `(0.001) ` before SQL that begins with a
    /// line end. And whether the log is coloured, as for a terminal: then what stands before the
    /// first statement is, where a colour within one may be of a value.
    fn shape(&self) -> Result<(Option<String>, bool), TraceError> {
        if !can_be_read_twice(self.path)? {
            return Ok((None, false));
        }
        let mut lines = Lines::open(self.path)?;
        let (mut above, mut known): (String, Option<String>) = (String::new(), None);
        let mut has_colours = false;
        for _ in 0..SHAPE_LINES {
            let Some(coloured) = lines.next_line()? else { break };
            let plain = without_colours(coloured);
            let line = plain.as_str();
            // Not `changes with` of a message.
            let is_first = |at: &usize| self.is_sql(&statement_in(line, *at)) && !is_announced(line);
            let at = begin_of(line, None).filter(is_first);
            has_colours |= at.is_some_and(|at| coloured.find(COLOUR).is_some_and(|colour| colour <= at));
            let shape = shape_of(at.map_or(line, |at| &line[..at]));
            match &known {
                Some(known) if shape == *known => return Ok((Some(shape), has_colours)),
                None if at.is_some() && (above.is_empty() || !shape.is_empty()) => {
                    return Ok((Some(shape), has_colours));
                }
                None if at.is_some() => known = Some(std::mem::take(&mut above)),
                None => above = shape,
                Some(_) => {}
            }
        }
        Ok((known.map(|_| String::new()), has_colours))
    }

    /// The shape of what stands before the statements of a log of Python's `repr`; none of another
    /// one. Its first statement may be in double quotes, as JSON's are, but not all of them: what
    /// has no quote of its own is in single ones.
    fn shape_of_quoted(&self) -> Result<Option<String>, TraceError> {
        if !can_be_read_twice(self.path)? {
            return Ok(None);
        }
        let mut lines = Lines::open(self.path)?.without_colours();
        let mut in_other_quotes: Option<String> = None;
        for _ in 0..SHAPE_LINES {
            let Some(line) = lines.next_line()? else { break };
            let at = statement_at(line);
            let first = quoted(line).filter(|quoted| at.is_none_or(|at| at > quoted.before.len()));
            // Not `commit` of a message.
            let is_long = |sql: &str| sql.split_whitespace().nth(1).is_some();
            let is_whole = |sql: &str| is_long(sql) && self.is_whole_sql(sql);
            let whole = first.as_ref().filter(|quoted| quoted.sql.as_deref().is_some_and(is_whole));
            match (whole, at) {
                (Some(quoted), _) => {
                    let shape = shape_of(quoted.before);
                    let is_one = in_other_quotes.as_ref().is_none_or(|known| *known == shape);
                    if quoted.quote == '\'' && is_one {
                        return Ok(Some(shape));
                    }
                    in_other_quotes.get_or_insert(shape);
                }
                (None, Some(at)) if self.is_sql(&statement_in(line, at)) => return Ok(None),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    /// Whether a text compiles, or does but for what is not there.
    fn is_whole_sql(&self, sql: &str) -> bool {
        // Many a PRAGMA is done where it is compiled.
        pragma(sql).is_some()
            || match compile(&self.connection, sql) {
                Ok(compiled) => !matches!(compiled, Compilation::Nothing),
                Err(Fault::Incomplete) => false,
                Err(Fault::Wrong(message)) => !is_of_grammar(&message),
            }
    }

    /// Reads a log of Python's `repr`, with this before its statements.
    fn import_quoted(mut self, shape: &str) -> Result<ImportReport, TraceError> {
        let mut lines = Lines::open(self.path)?.without_colours();
        let (mut number, mut skipped) = (0, 0);
        while let Some(line) = lines.next_line()? {
            number += 1;
            let at = statement_at(line);
            let first = quoted(line).filter(|quoted| at.is_none_or(|at| at > quoted.before.len()));
            match first {
                Some(quoted) if shape_of(quoted.before) == shape => match quoted.sql {
                    None => self.player.bad.add(self.path, number, &line[quoted.before.len()..], ESCAPED),
                    Some(sql) if tokens(&sql).any(|token| token.kind == TokenKind::Parameter) => {
                        self.player.bad.add(self.path, number, &sql, WITH_PARAMETERS);
                    }
                    Some(sql) => {
                        self.thread.clear();
                        self.thread.push_str(thread_of(quoted.before));
                        self.add(sql.trim_start(), number)?;
                    }
                },
                Some(Quoted { sql: Some(sql), .. }) if self.is_whole_sql(&sql) => {
                    self.player.bad.add(self.path, number, &sql, OTHERWISE);
                }
                _ => match self.statement_of_another(line) {
                    Some(sql) => self.player.bad.add(self.path, number, sql, OTHERWISE),
                    None => skipped += u64::from(!line.trim().is_empty()),
                },
            }
        }
        let Log { player, number, with_more, of_others, first_of_others, .. } = self;
        player.assembler.close(number, 0)?;
        let mut imported = ImportReport::default();
        player.finish(&mut imported);
        imported.warnings.extend(told_of_others(of_others, first_of_others));
        imported.warnings.extend(told_skipped(skipped));
        imported.warnings.extend(told_with_more(with_more));
        Ok(imported)
    }

    /// The statement in a line between statements, where there is one behind another beginning:
    /// another thread's, or what something else logs.
    fn statement_of_another<'l>(&self, line: &'l str) -> Option<&'l str> {
        let sql = &line[statement_at(line).filter(|_| !line.trim_start().starts_with("--"))?..];
        let sql = Ends::default().feed(sql).map_or(sql, |end| &sql[..end]).trim();
        self.is_sql(sql).then_some(sql)
    }

    /// Whether a line is SQL up to its semicolon: also where it ends within a text, goes on, or
    /// names what is not there.
    fn is_sql(&self, line: &str) -> bool {
        let line = without_time_behind(line.trim_end());
        let sql = Ends::default().feed(line).map_or(line, |end| &line[..end]);
        let is_known = Verb::of(sql) != Verb::Other;
        // Many a PRAGMA is done where it is compiled.
        if pragma(sql).is_some() || (is_known && is_open(sql)) {
            return true;
        }
        match compile(&self.connection, sql) {
            Ok(compiled) => !matches!(compiled, Compilation::Nothing),
            // `with` is a word of many messages.
            Err(Fault::Incomplete) => is_known || tokens(sql).any(|token| token.is("as")),
            Err(Fault::Wrong(message)) => !is_of_grammar(&message),
        }
    }

    /// Whether the statement that is open is a whole one, and none that goes on with this line: the
    /// grammar has none that begins so, whatever follows.
    fn cannot_go_on(&self, open: &str, line: &str) -> bool {
        if open.is_empty() || open.len() + line.len() > TRIED_BYTES {
            return false;
        }
        let mut text = format!("{open}{line}");
        let mut ends = Ends::default();
        match ends.feed(&text) {
            Some(end) => text.truncate(end),
            // What the line opens ends below it. What it is is known: `Can't connect`.
            None if ends.is_quote() => {
                let is_end = |end: &&str| {
                    let mut ends = Ends::default();
                    ends.feed(&format!("{text}{end}"));
                    !ends.is_quote()
                };
                let end = ["'", "\"", "`", "]", "*/"].into_iter().find(is_end).unwrap_or_default();
                text.push_str(end);
            }
            None => {}
        }
        let is_wrong = |sql: &str| match compile(&self.connection, sql) {
            Ok(compiled) => matches!(compiled, Compilation::Nothing),
            Err(Fault::Incomplete) => false,
            Err(Fault::Wrong(message)) => is_of_grammar(&message),
        };
        let is_open = |sql: &str| matches!(compile(&self.connection, sql), Err(Fault::Incomplete));
        // Many a PRAGMA is done where it is compiled.
        is_wrong(&text) && (pragma(open).is_some() || !(is_wrong(open) || is_open(open)))
    }

    /// Writes the statement in what was read from this line on, where there is one.
    fn add(&mut self, text: &str, line: u64) -> Result<(), TraceError> {
        // What another statement does within itself is logged behind `-- ` alone.
        if text.starts_with("--") && !begins_statement(text) {
            return Ok(());
        }
        if self.has_times
            && let Some(end) = Ends::default().feed(text)
            && !is_time(&text[end..])
        {
            self.player.begins += 1;
            return Ok(());
        }
        let mut sql = without_time_behind(without_comments_behind(text).trim());
        // Django, for one, writes `; args=(…); alias=default` there.
        if let Some(end) = Ends::default().feed(sql)
            && has_words(&sql[end..])
            && !begins_statement(&sql[end..])
        {
            self.with_more += 1;
            sql = &sql[..end];
        }
        let sql = sql.trim_end_matches(';').trim_end();
        if sql.is_empty() || self.player.leaves_out(sql) {
            return Ok(());
        }
        let compiled = match compile(&self.connection, sql) {
            Ok(compiled) => compiled,
            Err(fault) => {
                self.player.bad.add(self.path, line, sql, &fault.problem());
                return Ok(());
            }
        };
        let of_another = self.begun_by.as_ref().is_some_and(|named| *named != self.named);
        let problem = of_another.then_some(OF_ANOTHER);
        if let Some(problem) = problem.or_else(|| out_of_place(sql, self.connection.is_autocommit())) {
            self.player.bad.add(self.path, line, sql, problem);
            return Ok(());
        }
        if self.connection.is_autocommit() {
            self.begun_on.clone_from(&self.thread);
        } else if !(self.thread.is_empty() || self.begun_on.is_empty() || self.thread == self.begun_on) {
            self.of_others += 1;
            self.first_of_others = if self.of_others == 1 { line } else { self.first_of_others };
        }
        self.changing += u64::from(Verb::of(sql).changes_rows());
        self.without_blobs += u64::from(BLOBS.iter().any(|blob| sql.contains(blob)));
        self.has_transactions |= !self.connection.is_autocommit();
        self.player.execute(&self.connection, self.number, sql, compiled, (self.path, line))?;
        if self.connection.is_autocommit() {
            self.begun_by = None;
        } else if self.begun_by.is_none() {
            self.begun_by = Some(self.named.clone());
        }
        Ok(())
    }
}

/// Whether a line is one of Django's logger `django.db.backends.schema`, which tells what the other
/// one tells as soon as it is done: `CREATE TABLE …; (params None)`.
fn is_announced(line: &str) -> bool {
    let Some(sql) = statement_at(line).map(|at| &line[at..]) else { return false };
    let behind = Ends::default().feed(sql).map_or("", |end| sql[end..].trim());
    behind.starts_with("(params ") && behind.ends_with(')')
}

/// Why a statement that begins or ends a transaction is none of the one connection.
pub fn out_of_place(sql: &str, is_autocommit: bool) -> Option<&'static str> {
    let mut words = tokens(sql).filter(|token| !token.is_blank());
    let first = words.next()?;
    if first.is("begin") {
        return (!is_autocommit).then_some("cannot start a transaction within a transaction");
    }
    let rolls_back = first.is("rollback") && !words.any(|word| word.is("to"));
    let ends = first.is("commit") || first.is("end") || rolls_back;
    (ends && is_autocommit).then_some("no transaction is active")
}

/// Byte at which a statement, or a comment before it, begins; none where the line goes on with the
/// statement before.
fn begin_of(line: &str, shape: Option<&str>) -> Option<usize> {
    let statement = statement_at(line).filter(|at| {
        let before = &line[..*at];
        !before.trim_start().starts_with("--") && shape.is_none_or(|known| known == shape_of(before))
    });
    // With nothing before it, a comment may as well be within a statement.
    let known = shape.filter(|known| !known.is_empty());
    let comment = || {
        let known = known?;
        let mut comments = line.match_indices("-- ").map(|(at, _)| at);
        comments.find(|at| known == shape_of(&line[..*at]))
    };
    // The statement is below. Its line end is left, so that something is open.
    let below = || known.filter(|known| *known == shape_of(line)).map(|_| line.trim_end().len());
    statement.or_else(comment).or_else(below)
}

/// Whether SQLite says that a text is no statement of its grammar.
fn is_of_grammar(message: &str) -> bool {
    message.contains("syntax error") || message.contains("unrecognized token")
}

/// Whether what stands before the statements is Sequelize's, which writes most without a semicolon
/// and without line ends of its own, among whatever the application prints: `Executing (default):`.
fn is_of_sequelize(shape: &str) -> bool {
    SEQUELIZE.iter().any(|word| shape.contains(word))
}

/// Whether a line is another one of the log's own, and no further line of a statement: it begins as
/// those with statements do, up to the first word that no SQL begins with, or with a time, or tells
/// the statement's rows. Where it begins as they do up to the statement, it may be a further line
/// of one that has the beginning, too.
fn is_of_the_log(line: &str, shape: Option<&str>) -> bool {
    if line.contains(COUNT_OF_ROWS) {
        return true;
    }
    let Some(shape) = shape else { return false };
    let begins = shape_of(line);
    let is_alike = head_of(shape).is_some_and(|head| begins.starts_with(head));
    let is_timed = begins.split(' ').take(2).any(|word| word.contains("9:9:9"));
    (is_alike || is_timed) && !begins.starts_with(shape)
}

/// Whether a clause of a statement may stand in a line: what writes down a log may give each of its
/// lines the same beginning, and a statement without its WHERE would do another thing.
fn may_go_on(line: &str) -> bool {
    let words: Vec<&str> = line.trim_end().split([' ', '\t']).collect();
    words.windows(2).any(|pair| {
        // Not within a message: `read from cache`.
        let is_first = !pair[0].ends_with(|letter: char| letter.is_alphabetic());
        let is_capital = pair[1].bytes().all(|byte| byte.is_ascii_uppercase());
        begins_clause(pair[1]) && (is_first || is_capital || pair[1].starts_with(','))
    })
}

/// Whether a further clause of a statement, or a further value, may begin with this word.
fn begins_clause(word: &str) -> bool {
    const WORDS: &str = "and cross except from group having inner intersect join left limit natural offset \
        on or order returning set union using values where";
    word.starts_with(',') || WORDS.split(' ').any(|clause| word.eq_ignore_ascii_case(clause))
}

/// A shape up to and with its first time (`9:9`) or name with a colon (`CoreData:`).
fn head_of(shape: &str) -> Option<&str> {
    let mut end = 0;
    for word in shape.split_inclusive(' ') {
        end += word.len();
        let word = word.trim_end();
        if word.contains("9:9") || word.ends_with(':') {
            return Some(&shape[..end]);
        }
    }
    None
}

/// A statement without the comments at its end.
fn without_comments_behind(sql: &str) -> &str {
    let (mut at, mut end) = (0, 0);
    for token in tokens(sql) {
        at += token.text.len();
        if !token.is_blank() {
            end = at;
        }
    }
    &sql[..end]
}

/// A statement without what MikroORM writes behind it: `[took 2 ms]`, or `[took 1 ms, 1 row
/// affected]`.
fn without_time_behind(sql: &str) -> &str {
    const TOOK: &str = "[took ";
    let Some(at) = sql.rfind(TOOK).filter(|_| sql.ends_with(']')) else { return sql };
    let time = sql[at + TOOK.len()..].trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_time = time.len() < sql.len() - at - TOOK.len() && time.starts_with(" ms");
    // Another bracket would be one of SQL's own names.
    if is_time && time.find(']') == Some(time.len() - 1) { sql[..at].trim_end() } else { sql }
}

/// Byte at which a statement's first word stands, after a beginning without letters that could be
/// SQL's own.
pub fn statement_at(line: &str) -> Option<usize> {
    const PREFIX_MAX: usize = 200;
    let mut at = 0;
    let mut before = "";
    for word in line.split_inclusive(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')) {
        let bare = word.trim_end_matches(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        let is_verb = !bare.is_empty() && Verb::of(bare) != Verb::Other || bare.eq_ignore_ascii_case("with");
        // Not in the middle of a word or path, and not a lone word such as "end" in a message.
        if is_verb && (before.is_empty() || before.ends_with([' ', '\t', '"', ':', '|', ']', '>'])) {
            return Some(behind_its_time(line, at));
        }
        before = word;
        at += word.len();
        if at > PREFIX_MAX {
            break;
        }
    }
    None
}

/// Where a statement begins before which its first words and how long it took stand, as Go's bun
/// writes them: `CREATE TABLE          17.71ms  CREATE TABLE t(a)`.
fn behind_its_time(line: &str, at: usize) -> usize {
    const WORDS_MAX: usize = 3;
    let (mut next, mut words) = (at, 0);
    for word in line[at..].split_inclusive(' ') {
        next += word.len();
        let bare = word.trim_end();
        if words > 0 && is_duration(bare) {
            let behind = &line[next..];
            return next + behind.len() - behind.trim_start_matches(' ').len();
        }
        words += usize::from(!bare.is_empty());
        if words > WORDS_MAX || !bare.bytes().all(|byte| byte.is_ascii_uppercase()) {
            break;
        }
    }
    at
}

/// Whether a word is a time as Go writes it: `17.71ms`. SQL has no such word.
fn is_duration(word: &str) -> bool {
    let unit = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    unit.len() < word.len() && matches!(unit, "ns" | "µs" | "μs" | "us" | "ms" | "s")
}

/// Whether the statement that begins there stands in double quotes.
fn is_quoted(line: &str, at: usize) -> bool {
    line[..at].ends_with('"')
}

/// What a line has of the statement that begins there: all of it where it stands in quotes, with
/// its line ends and quotes in the place of what JSON writes for them.
fn statement_in(line: &str, at: usize) -> Cow<'_, str> {
    match unquoted(line, at) {
        // Behind a comment, too, it has its end.
        Some(sql) => Cow::Owned(format!("{}\n;\n", sql.trim_end().trim_end_matches(';'))),
        None => Cow::Borrowed(&line[at..]),
    }
}

/// The text in quotes that begins there; none where they are no JSON's, which has one of its marks
/// or a space behind them: `"SELECT "a" FROM t"` is no such text. Behind the name of no field
/// (`SQL: "…"`) it may stand as it is, so one with backslashes is none either.
fn unquoted(line: &str, at: usize) -> Option<String> {
    let before = line[..at].strip_suffix('"')?;
    let quoted = &line[before.len()..];
    let mut texts = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
    let text = texts.next()?.ok()?;
    let (quoted, behind) = quoted.split_at(texts.byte_offset());
    let is_field = before.ends_with('=') || before.trim_end().ends_with("\":");
    if !is_field && quoted.contains('\\') {
        return None;
    }
    let behind = behind.trim_end();
    (behind.is_empty() || behind.starts_with([',', '}', ']', ')', ' ', '\t'])).then_some(text)
}

/// What names a thread or connection before a statement: `http-nio-8080-exec-3`, `Thread-2`, or the
/// number behind such a word (`tid=7`, `ThreadId(01)`, `conn 0x7f12`); empty where nothing does.
fn thread_of(prefix: &str) -> &str {
    const WORDS: [&str; 5] = ["thread", "-exec-", "worker", "conn", "session"];
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    // Not a time: `12ms`.
    let is_number =
        |word: &str| has_digit(word) && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x');
    let mut is_named = false;
    for word in prefix.split(|letter: char| letter.is_whitespace() || "[](){}<>=:,|\"#".contains(letter)) {
        if word.is_empty() {
            continue;
        }
        if is_named && is_number(word) {
            return word;
        }
        let lower = word.to_ascii_lowercase();
        is_named = lower == "tid" || WORDS.iter().any(|name| lower.contains(name));
        if is_named && has_digit(word) {
            return word;
        }
    }
    ""
}

/// Where Sequelize names the connection: `default`, or the UUID of a transaction, which has one of
/// its own.
fn connection_of(prefix: &str) -> Option<Range<usize>> {
    let begin = SEQUELIZE.iter().find_map(|word| prefix.find(word).map(|at| at + word.len()))?;
    let length = prefix[begin..].find("):")?;
    let is_id = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    prefix[begin..begin + length].chars().all(is_id).then_some(begin..begin + length)
}

/// A beginning with its digits alike and runs of the same letter as one, so that times and numbers
/// of other lengths are the same; without the spaces with which a statement itself may begin.
fn shape_of(prefix: &str) -> String {
    const BUN: &str = "[bun]";
    let prefix = prefix.trim_end();
    // The kind of the statement and its time, in as many columns as they take, are in none.
    if prefix.starts_with(BUN) && prefix.rsplit(' ').next().is_some_and(is_duration) {
        return BUN.to_owned();
    }
    let mut prefix = prefix.replace(NO_COUNT, "[rows:9]");
    if let Some(named) = connection_of(&prefix) {
        prefix.replace_range(named, "default");
    }
    let mut shape: Vec<char> =
        prefix.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    shape.dedup();
    shape.into_iter().collect()
}

/// Whether there is more than spaces, comments and semicolons.
fn has_words(sql: &str) -> bool {
    tokens(sql).any(|token| !token.is_blank() && token.kind != TokenKind::Semicolon)
}
