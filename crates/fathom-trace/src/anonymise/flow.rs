//! What a statement does with its texts, read off SQLite's own program for it.
//!
//! Whether `corpus = '14'` compares numbers or texts is decided by the column's affinity, through
//! views, triggers, subqueries and indexes alike. SQLite has decided it when it has compiled the
//! statement: `EXPLAIN` lists the program, whose registers are followed here from where a text
//! comes from (a literal, a parameter, a column) to what is done with it. Each instruction is
//! <https://sqlite.org/opcode.html>.
//!
//! The walk takes every path once it brings something new. It knows nothing of sorters and
//! co-routines' callers beyond what is said at `Walk`; what it misses is found when the anonymous
//! trace is compared with the original.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use rusqlite::Connection;

use super::rows::in_parts;
use crate::sql::{TokenKind, tokens};

/// What a register may hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A literal of the statement.
    Literal(Rc<str>),
    /// A parameter, from 1.
    Parameter(u32),
    /// A column of texts: table and name.
    Column(Rc<str>, Rc<str>),
    /// A column without affinity, which holds texts and numbers alike: table and name.
    Any(Rc<str>, Rc<str>),
    /// A number.
    Number,
    /// A whole number that the statement or SQLite itself writes.
    Constant(i64),
    /// A column of numbers: table and name.
    Numbers(Rc<str>, Rc<str>),
    /// The rowids of a table.
    Rowids(Rc<str>),
    /// What a function said that does not follow from the words of a text: `typeof`, `strftime` …
    Said,
    /// What was calculated from numbers.
    Calculated,
    /// A text that was put together of others, or from which something was taken out: what are
    /// words there are none in its sources.
    Joined,
}

/// What is done with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// A number is made of it where all of it looks like one.
    Number,
    /// A number is made of its beginning.
    Calculated,
    /// It is read as a date, or as a word of date functions.
    Date,
    /// It is compared with what a function says, or says how something is to be written.
    Word,
    /// It is a question to a full-text table, or a word to a virtual table.
    Match,
    /// It is a pattern for what may be a number.
    Digits,
    /// Its digits are looked at one by one, whatever stands between them.
    Spelt,
    /// It is looked for within texts.
    Within,
    /// It is looked for within texts, as a part of a pattern that is put together.
    Needle,
    /// It is a pattern of GLOB.
    Glob,
    /// Something is calculated from it where it is a number.
    Sum,
}

/// A text and what is done with it.
pub type Finding = (Source, Use);

/// What a statement does.
#[derive(Debug, Default)]
pub struct StatementFlow {
    /// With its texts and numbers.
    pub uses: BTreeSet<Finding>,
    /// Which values it writes into which columns: a source, and the column or rowids.
    pub writes: BTreeSet<(Source, Source)>,
    /// The columns that it reads.
    pub reads: BTreeSet<Source>,
}

/// Where a cursor reads.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// The table.
    pub table: Rc<str>,
    /// What each of its columns is, by place.
    pub sources: Vec<Option<Source>>,
}

/// Tables and indexes by schema number and root page.
pub type Roots = HashMap<(i64, i64), Rc<Columns>>;

/// An instruction.
#[derive(Clone, Debug)]
struct Op {
    code: String,
    p1: i64,
    p2: i64,
    p3: i64,
    p4: String,
    p5: i64,
}

type Labels = BTreeSet<Source>;

/// What is known at one place of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    registers: HashMap<i64, Labels>,
    /// Registers of records: what their columns are.
    records: HashMap<i64, Vec<Labels>>,
}

impl State {
    fn get(&self, register: i64) -> Labels {
        self.registers.get(&register).cloned().unwrap_or_default()
    }

    fn set(&mut self, register: i64, labels: Labels) {
        if labels.is_empty() {
            self.registers.remove(&register);
        } else {
            self.registers.insert(register, labels);
        }
    }

    /// Adds what another way here knows; whether that is new.
    fn join(&mut self, other: &State) -> bool {
        let mut is_new = false;
        for (register, labels) in &other.registers {
            let known = self.registers.entry(*register).or_default();
            let before = known.len();
            known.extend(labels.iter().cloned());
            is_new |= known.len() > before;
        }
        for (register, columns) in &other.records {
            is_new |= add_columns(self.records.entry(*register).or_default(), columns);
        }
        is_new
    }
}

fn add_columns(known: &mut Vec<Labels>, columns: &[Labels]) -> bool {
    let mut is_new = known.len() < columns.len();
    known.resize_with(known.len().max(columns.len()), Labels::new);
    for (known, labels) in known.iter_mut().zip(columns) {
        let before = known.len();
        known.extend(labels.iter().cloned());
        is_new |= known.len() > before;
    }
    is_new
}

/// What a statement does with its texts. Nothing where it does not compile.
pub fn findings(connection: &Connection, sql: &str, roots: &Roots) -> StatementFlow {
    let mut found = StatementFlow::default();
    match in_parts(sql) {
        None => find(connection, sql, roots, &mut found),
        Some(parts) => parts.iter().for_each(|part| find(connection, part, roots, &mut found)),
    }
    found
}

fn find(connection: &Connection, sql: &str, roots: &Roots, found: &mut StatementFlow) {
    let Ok(ops) = listing(connection, sql) else { return };
    let written = arguments_written(sql);
    // What rows are given to triggers, by its place among what is given. SQLite's listing does not
    // say which trigger a `Program` calls, so each gets what any of them is given.
    let mut given: HashMap<i64, Labels> = HashMap::new();
    // The programs of triggers stand behind the statement's own; each begins with address 0.
    let mut rest = &ops[..];
    while let Some(length) = rest
        .iter()
        .skip(1)
        .position(|(at, _)| *at == 0)
        .map(|at| at + 1)
        .or((!rest.is_empty()).then_some(rest.len()))
    {
        let (program, after) = rest.split_at(length);
        let program: Vec<&Op> = program.iter().map(|(_, op)| op).collect();
        Walk {
            program: &program,
            found,
            given: &mut given,
            cursors: cursors(&program, roots),
            held: HashMap::new(),
            written: &written,
        }
        .run();
        rest = after;
    }
}

/// What the cursors of a program read. Each number is one cursor throughout a program, and the walk
/// may come to what a cursor does before it comes to where it is opened.
fn cursors(program: &[&Op], roots: &Roots) -> HashMap<i64, Rc<Columns>> {
    program
        .iter()
        .filter(|op| ["OpenRead", "OpenWrite", "ReopenIdx"].contains(&op.code.as_str()))
        .map(|op| (op.p1, roots.get(&(op.p3, op.p2)).cloned().unwrap_or_default()))
        .collect()
}

fn listing(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<(i64, Op)>> {
    let mut explain = connection.prepare(&format!("EXPLAIN {sql}"))?;
    let number =
        |row: &rusqlite::Row<'_>, at: usize| row.get::<_, Option<i64>>(at).map(Option::unwrap_or_default);
    let rows = explain.raw_query().mapped(|row| {
        // The fourth operand is what it is: a text, a number, or the bytes of a text.
        let p4 = match row.get_ref(5)? {
            rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            _ => String::new(),
        };
        let code = row.get(1)?;
        Ok((
            number(row, 0)?,
            Op {
                code,
                p1: number(row, 2)?,
                p2: number(row, 3)?,
                p3: number(row, 4)?,
                p4,
                p5: number(row, 6)?,
            },
        ))
    });
    rows.collect()
}

/// Arguments of a function that are looked at where nobody says how many it has.
const ARGUMENTS_MAX: i64 = 16;

/// The most arguments that a statement gives to each function that it calls, by name in lower case.
fn arguments_written(sql: &str) -> HashMap<String, i64> {
    let mut most: HashMap<String, i64> = HashMap::new();
    // Of each open bracket: whose it is, and its arguments so far.
    let mut open: Vec<(Option<String>, i64)> = Vec::new();
    let mut before: Option<String> = None;
    for token in tokens(sql).filter(|token| !token.is_blank()) {
        let is_end = token.text == ")";
        if let Some((_, count)) = open.last_mut() {
            *count += i64::from(token.text == "," || (*count == 0 && !is_end));
        }
        match token.text {
            "(" => open.push((before.take(), 0)),
            ")" => {
                if let Some((Some(name), count)) = open.pop() {
                    let known = most.entry(name).or_default();
                    *known = count.max(*known);
                }
            }
            _ => {}
        }
        before = (token.kind == TokenKind::Word).then(|| token.text.to_ascii_lowercase());
    }
    most
}

/// The walk through one program. Of a co-routine the registers are seen where it yields, because
/// its caller runs on from there.
struct Walk<'a> {
    program: &'a [&'a Op],
    found: &'a mut StatementFlow,
    /// What triggers are given.
    given: &'a mut HashMap<i64, Labels>,
    /// What each cursor reads.
    cursors: HashMap<i64, Rc<Columns>>,
    /// What was written into the temporary table of a cursor.
    held: HashMap<i64, Vec<Labels>>,
    /// How many arguments the statement gives to functions.
    written: &'a HashMap<String, i64>,
}

/// States that a walk looks at, at most, as a multiple of the program's length: labels are few, so
/// it ends long before.
const LOOKS_MAX: usize = 40;

impl Walk<'_> {
    fn run(&mut self) {
        let mut states: HashMap<usize, State> = HashMap::new();
        let mut waiting = vec![(0_usize, State::default())];
        let mut looks = self.program.len() * LOOKS_MAX + 1000;
        while let Some((mut at, mut state)) = waiting.pop() {
            loop {
                looks = looks.saturating_sub(1);
                let Some(op) = self.program.get(at).copied() else { break };
                if looks == 0 {
                    return;
                }
                // Where nothing new comes, all behind is known.
                let known = states.entry(at);
                match known {
                    std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(state.clone())),
                    std::collections::hash_map::Entry::Occupied(mut place) => {
                        if !place.get_mut().join(&state) {
                            break;
                        }
                        state = place.get().clone();
                    }
                }
                self.step(op, &mut state);
                let mut next: Vec<usize> = self.next(at, op);
                let Some(first) = next.pop() else { break };
                waiting.extend(next.into_iter().map(|at| (at, state.clone())));
                at = first;
            }
        }
    }

    /// Where the program may go on.
    fn next(&self, at: usize, op: &Op) -> Vec<usize> {
        let jump = usize::try_from(op.p2).unwrap_or(usize::MAX);
        let all = |code: &'static str, p1: i64| {
            self.program.iter().enumerate().filter(move |(_, other)| other.code == code && other.p1 == p1)
        };
        match op.code.as_str() {
            "Goto" | "Init" => vec![jump],
            "Halt" => Vec::new(),
            "Gosub" | "InitCoroutine" | "BeginSubrtn" => vec![jump, at + 1],
            "EndCoroutine" => all("Yield", op.p1).map(|(at, _)| at + 1).collect(),
            "Yield" => {
                let entries = all("InitCoroutine", op.p1)
                    .map(|(_, other)| usize::try_from(other.p3).unwrap_or(usize::MAX));
                let mut next: Vec<usize> = all("Yield", op.p1).map(|(at, _)| at + 1).chain(entries).collect();
                next.extend((op.p2 > 0).then_some(jump));
                next
            }
            "Return" => {
                let mut next: Vec<usize> = all("Gosub", op.p1).map(|(at, _)| at + 1).collect();
                next.push(at + 1);
                next
            }
            "Jump" => [op.p1, op.p2, op.p3].iter().filter_map(|to| usize::try_from(*to).ok()).collect(),
            _ if is_jump(&op.code) && jump != at + 1 => vec![jump, at + 1],
            _ => vec![at + 1],
        }
    }

    fn find(&mut self, labels: &Labels, use_: Use) {
        let texts = labels.iter().filter(|source| is_text(source));
        self.found.uses.extend(texts.map(|source| (source.clone(), use_)));
    }

    /// Numbers that something is made of.
    fn find_numbers(&mut self, labels: &Labels) {
        let numbers = labels.iter().filter(|source| {
            matches!(
                source,
                Source::Constant(_)
                    | Source::Numbers(..)
                    | Source::Any(..)
                    | Source::Rowids(_)
                    | Source::Parameter(_)
            )
        });
        self.found.uses.extend(numbers.map(|source| (source.clone(), Use::Sum)));
    }

    /// Values that are written into a column, or become rowids.
    fn write(&mut self, labels: &Labels, column: &Source) {
        let values = labels.iter().filter(|source| *source != column && (is_text(source)));
        self.found.writes.extend(values.map(|source| (source.clone(), column.clone())));
    }

    /// An index's columns by which a row is looked up are read, though none of them goes into a
    /// register.
    fn look_up(&mut self, op: &Op) {
        const BY_KEY: [&str; 11] = [
            "SeekGE",
            "SeekGT",
            "SeekLE",
            "SeekLT",
            "IdxGE",
            "IdxGT",
            "IdxLE",
            "IdxLT",
            "Found",
            "NotFound",
            "NoConflict",
        ];
        if BY_KEY.contains(&op.code.as_str())
            && let Ok(count) = op.p4.parse::<usize>()
            && let Some(columns) = self.cursors.get(&op.p1)
        {
            self.found.reads.extend(columns.sources.iter().take(count).flatten().cloned());
        }
    }

    fn step(&mut self, op: &Op, state: &mut State) {
        let Op { code, p1, p2, p3, p4, p5 } = op;
        let (p1, p2, p3) = (*p1, *p2, *p3);
        self.look_up(op);
        match code.as_str() {
            "String8" | "String" => state.set(p2, Labels::from([Source::Literal(p4.as_str().into())])),
            "Variable" => {
                state.set(p2, Labels::from([Source::Parameter(u32::try_from(p1).unwrap_or(0))]));
            }
            "Integer" => state.set(p2, Labels::from([Source::Number, Source::Constant(p1)])),
            "Int64" => {
                let number = p4.parse().ok().map(Source::Constant);
                state.set(p2, number.into_iter().chain([Source::Number]).collect());
            }
            "Rowid" | "IdxRowid" | "NewRowid" => {
                let rowids = self.cursors.get(&p1).map(|columns| Source::Rowids(Rc::clone(&columns.table)));
                if code != "NewRowid" {
                    self.found.reads.extend(rowids.clone());
                }
                let labels: Labels = rowids.into_iter().chain([Source::Number]).collect();
                // What SQLite gives follows from what it gave before. Where the statement names
                // one, it gives one for NULL only.
                let is_given = state
                    .get(p2)
                    .iter()
                    .any(|source| is_text(source) && !matches!(source, Source::Rowids(_)));
                if code == "NewRowid" && !is_given {
                    self.find(&labels, Use::Calculated);
                }
                state.set(p2, labels);
            }
            "Real" => state.set(p2, Labels::from([Source::Number])),
            "Count" | "Sequence" => state.set(p2, Labels::from([Source::Number, Source::Calculated])),
            "Null" | "SoftNull" | "Blob" | "Once" => {}
            "Column" => {
                let place = usize::try_from(p2).unwrap_or(usize::MAX);
                let labels = match self.cursors.get(&p1) {
                    Some(columns) => {
                        let source = columns.sources.get(place).cloned().flatten();
                        self.found.reads.extend(source.clone());
                        let is_number = matches!(source, Some(Source::Numbers(..)));
                        source.into_iter().chain(is_number.then_some(Source::Number)).collect()
                    }
                    None => self.held.get(&p1).and_then(|held| held.get(place)).cloned().unwrap_or_default(),
                };
                state.set(p3, labels);
            }
            "Copy" => {
                for more in 0..=p3 {
                    state.set(p2 + more, state.get(p1 + more));
                }
            }
            "SCopy" | "IntCopy" => state.set(p2, state.get(p1)),
            "Move" => {
                for more in 0..p3.max(1) {
                    state.set(p2 + more, state.get(p1 + more));
                }
            }
            "MakeRecord" => {
                let columns: Vec<Labels> = (0..p2).map(|more| state.get(p1 + more)).collect();
                self.affinities(p4, p1, state);
                state.records.insert(p3, columns);
            }
            "IdxInsert" | "Insert" => {
                let record = state.records.get(&p2).map_or(&[][..], Vec::as_slice);
                match self.cursors.get(&p1).cloned() {
                    None => drop(add_columns(self.held.entry(p1).or_default(), record)),
                    Some(columns) => {
                        for (labels, column) in record.iter().zip(&columns.sources) {
                            column.iter().for_each(|column| self.write(labels, column));
                        }
                        if code == "Insert" {
                            self.write(&state.get(p3), &Source::Rowids(Rc::clone(&columns.table)));
                        }
                    }
                }
            }
            "Affinity" => self.affinities(p4, p1, state),
            "Eq" | "Ne" | "Lt" | "Le" | "Gt" | "Ge" => {
                let (left, right) = (state.get(p1), state.get(p3));
                // SQLITE_AFF_MASK, and from SQLITE_AFF_NUMERIC on.
                if p5 & 0x47 >= 0x43 {
                    self.find(&left, Use::Number);
                    self.find(&right, Use::Number);
                }
                self.meet(&left, &right);
            }
            "Found" | "NotFound" | "NoConflict" => {
                if let Some(held) = self.held.get(&p1).cloned() {
                    for (labels, register) in held.iter().zip(p3..) {
                        self.meet(&state.get(register), labels);
                    }
                }
            }
            // A table is looked up by a number; an index's key has its affinities already.
            "SeekRowid" | "NotExists" | "SeekGE" | "SeekGT" | "SeekLE" | "SeekLT"
                if p4.is_empty() || p4 == "0" =>
            {
                self.find(&state.get(p3), Use::Number);
            }
            "MustBeInt" => self.find(&state.get(p1), Use::Number),
            "DecrJumpZero" | "IfPos" | "IfNotZero" | "OffsetLimit" | "AddImm" => {
                self.find(&state.get(p1), Use::Calculated);
            }
            // SQLITE_AFF_NUMERIC and what follows it.
            "Cast" if p2 >= 0x43 => {
                self.find(&state.get(p1), Use::Calculated);
                state.set(p1, Labels::from([Source::Number]));
            }
            "Add" | "Subtract" | "Multiply" | "Divide" | "Remainder" | "BitAnd" | "BitOr" | "ShiftLeft"
            | "ShiftRight" => {
                self.find(&state.get(p1), Use::Calculated);
                self.find(&state.get(p2), Use::Calculated);
                state.set(p3, Labels::from([Source::Number, Source::Calculated]));
            }
            "Concat" => {
                // `'k' || 42` is a word of which neither side is one.
                let (left, right) = (state.get(p1), state.get(p2));
                let says =
                    |labels: &Labels| labels.contains(&Source::Number) || labels.contains(&Source::Said);
                self.find_numbers(&left);
                self.find_numbers(&right);
                if says(&left) || says(&right) {
                    self.find(&only_written(&left), Use::Word);
                    self.find(&only_written(&right), Use::Word);
                    state.set(p3, Labels::from([Source::Said]));
                } else {
                    let mut joined: Labels = left.union(&right).cloned().collect();
                    if is_words(&left) && is_words(&right) {
                        joined.insert(Source::Joined);
                    }
                    state.set(p3, joined);
                }
            }
            "Function" | "PureFunc" => self.function(p4, p2, p3, state),
            "AggFinal" | "AggValue" => {
                let is_chosen = p4.starts_with("min(") || p4.starts_with("max(");
                let labels =
                    [Source::Number, Source::Calculated].into_iter().filter(|_| !is_chosen).collect();
                state.set(if code == "AggFinal" { p1 } else { p3 }, labels);
            }
            "AggStep" | "AggStep1" | "AggInverse"
                if ["sum(", "avg(", "total("].iter().any(|name| p4.starts_with(name)) =>
            {
                self.find(&state.get(p2), Use::Calculated);
            }
            "VFilter" => {
                // Two registers, the plan and the number of arguments, then the arguments.
                for register in self.arguments_of_filter(p3, state) {
                    self.find_numbers(&state.get(register));
                    self.find(&state.get(register), Use::Match);
                }
            }
            "VUpdate" => {
                for more in 0..p2 {
                    self.find_numbers(&state.get(p3 + more));
                    self.find(&only_written(&state.get(p3 + more)), Use::Match);
                }
            }
            // A trigger reads what stands from its caller's register on.
            "Program" => {
                for (register, labels) in state.registers.iter().filter(|(register, _)| **register >= p1) {
                    self.given.entry(register - p1).or_default().extend(labels.iter().cloned());
                }
            }
            "Param" => state.set(p2, self.given.get(&p1).cloned().unwrap_or_default()),
            "VColumn" | "SorterData" | "RowData" => {
                state.set(if code == "VColumn" { p3 } else { p2 }, Labels::new());
            }
            _ => {}
        }
    }

    /// Registers of a virtual table's arguments: those set before it, for their number stands in a
    /// register.
    fn arguments_of_filter(&self, first: i64, state: &State) -> Vec<i64> {
        (2..2 + ARGUMENTS_MAX)
            .map(|more| first + more)
            .take_while(|register| state.registers.contains_key(register))
            .collect()
    }

    /// An affinity string for the registers from `first` on.
    fn affinities(&mut self, affinities: &str, first: i64, state: &State) {
        for (affinity, register) in affinities.bytes().zip(first..) {
            if (b'C'..=b'F').contains(&affinity) {
                self.find(&state.get(register), Use::Number);
            }
        }
    }

    /// A comparison.
    fn meet(&mut self, left: &Labels, right: &Labels) {
        self.meet_joined(left, right);
        for (one, other) in [(left, right), (right, left)] {
            if one.contains(&Source::Said) {
                self.find(&only_written(other), Use::Word);
            }
            if one.contains(&Source::Said) || one.contains(&Source::Calculated) {
                self.find_numbers(other);
            }
        }
    }

    /// What is looked for in a text that was put together, or the other way round.
    fn meet_joined(&mut self, left: &Labels, right: &Labels) {
        if left.contains(&Source::Joined) || right.contains(&Source::Joined) {
            self.find(left, Use::Spelt);
            self.find(right, Use::Spelt);
        }
    }

    fn function(&mut self, name: &str, first: i64, out: i64, state: &mut State) {
        const DATES: [&str; 7] =
            ["date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"];
        const SAYS: [&str; 12] = [
            "typeof",
            "json_type",
            "hex",
            "quote",
            "unicode",
            "char",
            "soundex",
            "sqlite_version",
            "printf",
            "format",
            "sqlite_source_id",
            "json_quote",
        ];
        const PASSES: [&str; 16] = [
            "upper",
            "lower",
            "trim",
            "ltrim",
            "rtrim",
            "coalesce",
            "ifnull",
            "nullif",
            "iif",
            "max",
            "min",
            "likely",
            "unlikely",
            "likelihood",
            "substr",
            "substring",
        ];
        const NUMBERS: [&str; 9] = [
            "length",
            "octet_length",
            "instr",
            "json_valid",
            "json_array_length",
            "abs",
            "round",
            "sign",
            "random",
        ];
        let (name, count) = name.split_once('(').unwrap_or((name, "0"));
        let count: i64 = count.trim_end_matches(')').parse().unwrap_or(-1);
        // Of a function with any number of arguments the number is not listed: those that are set,
        // as many as the statement gives it, where it is the statement and no view or trigger that
        // calls it.
        let registers: Vec<i64> = match count {
            0.. => (first..first + count).collect(),
            _ => {
                let most = self.written.get(name).copied().unwrap_or(ARGUMENTS_MAX);
                (first..first + most).take_while(|register| state.registers.contains_key(register)).collect()
            }
        };
        let arguments: Vec<Labels> = registers.iter().map(|register| state.get(*register)).collect();
        let mut result = Labels::new();
        if !PASSES.contains(&name) || name.starts_with("substr") {
            // Whatever it says of a number, it would say another thing of another one.
            arguments.iter().for_each(|labels| self.find_numbers(labels));
        }
        if DATES.contains(&name) {
            // Behind the arguments stand registers of others: only the first ones can be columns of
            // dates.
            let dates = if name == "strftime" { 2 } else { 1 };
            for (at, argument) in arguments.iter().enumerate() {
                self.find(&if at < dates { argument.clone() } else { only_written(argument) }, Use::Date);
            }
            result.insert(Source::Said);
        } else if SAYS.contains(&name) {
            if ["printf", "format"].contains(&name) {
                arguments.iter().take(1).for_each(|labels| self.find(&only_written(labels), Use::Word));
                arguments.iter().skip(1).for_each(|labels| self.find(&only_written(labels), Use::Number));
            }
            result.insert(Source::Said);
        } else if PASSES.contains(&name) {
            let texts = if name.starts_with("substr") { 1 } else { arguments.len() };
            arguments.iter().skip(texts).for_each(|labels| self.find(labels, Use::Calculated));
            result = arguments.iter().take(texts).flatten().cloned().collect();
        } else if ["like", "glob"].contains(&name) {
            if let [pattern, text, ..] = &arguments[..] {
                let may_be_number = |source: &Source| {
                    matches!(source, Source::Number | Source::Numbers(..) | Source::Any(..))
                };
                if text.iter().any(may_be_number) {
                    self.find(&only_written(pattern), Use::Digits);
                    // Where it is a text all the same, it has to stay as the pattern does.
                    let columns = text.iter().filter(|source| may_be_number(source)).cloned().collect();
                    self.find(&columns, Use::Digits);
                }
                self.meet_joined(pattern, text);
                if text.contains(&Source::Said) {
                    self.find(&only_written(pattern), Use::Word);
                }
                let use_ = match (name, pattern.len()) {
                    ("glob", _) => Use::Glob,
                    (_, 1) => Use::Within,
                    _ => Use::Needle,
                };
                self.find(&only_written(pattern), use_);
            }
            result.insert(Source::Number);
        } else if ["instr", "replace"].contains(&name) {
            arguments.iter().skip(1).take(1).for_each(|labels| self.find(&only_written(labels), Use::Needle));
            if name == "instr" {
                if let [text, piece] = &arguments[..] {
                    self.meet_joined(text, piece);
                }
                result.insert(Source::Number);
            } else {
                result = arguments.iter().take(1).flatten().cloned().chain([Source::Joined]).collect();
            }
        } else if NUMBERS.contains(&name) {
            if ["abs", "round", "sign"].contains(&name) {
                arguments.iter().for_each(|labels| self.find(labels, Use::Calculated));
            }
            result.extend([Source::Number, Source::Calculated]);
        }
        state.set(out, result);
    }
}

/// Without columns: what stands in a column is not written by the statement.
fn only_written(labels: &Labels) -> Labels {
    labels
        .iter()
        .filter(|label| matches!(label, Source::Literal(_) | Source::Parameter(_)))
        .cloned()
        .collect()
}

/// Whether it is a text that goes on as a word where another one is put to it: one with a sign of
/// its own (`'-'`, `'%'`) parts what it is put between.
fn is_words(labels: &Labels) -> bool {
    let is_sign =
        |source: &Source| matches!(source, Source::Literal(text) if !text.contains(char::is_alphanumeric));
    labels.iter().any(is_text) && !labels.iter().any(is_sign)
}

fn is_text(source: &Source) -> bool {
    !matches!(source, Source::Number | Source::Said | Source::Calculated | Source::Joined)
}

/// Instructions that may go on at their second operand.
fn is_jump(code: &str) -> bool {
    const JUMPS: [&str; 53] = [
        "If",
        "IfNot",
        "IsNull",
        "NotNull",
        "IsTrue",
        "IsType",
        "IfNullRow",
        "Once",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "ElseEq",
        "IfSmaller",
        "IfNoHope",
        "IfNotOpen",
        "IfSizeBetween",
        "SeekLT",
        "SeekLE",
        "SeekGE",
        "SeekGT",
        "SeekRowid",
        "SeekScan",
        "SeekHit",
        "NotExists",
        "NotFound",
        "Found",
        "NoConflict",
        "Last",
        "SorterSort",
        "Sort",
        "Rewind",
        "Next",
        "Prev",
        "SorterNext",
        "IdxLE",
        "IdxGT",
        "IdxLT",
        "IdxGE",
        "RowSetRead",
        "RowSetTest",
        "Program",
        "FkIfZero",
        "IfPos",
        "IfNotZero",
        "DecrJumpZero",
        "VFilter",
        "VNext",
        "Filter",
        "MustBeInt",
        "IfEmpty",
    ];
    JUMPS.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::super::names::Schema;
    use super::*;

    fn all(schema: &str, sql: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().expect("opens");
        connection.execute_batch(schema).expect("made");
        let known = Schema::of(&connection).expect("read");
        let found = findings(&connection, sql, &known.roots);
        found
            .uses
            .into_iter()
            .map(|(source, use_)| match source {
                Source::Literal(text) => format!("'{text}' {use_:?}"),
                Source::Parameter(number) => format!("?{number} {use_:?}"),
                Source::Column(table, column) | Source::Any(table, column) => {
                    format!("{table}.{column} {use_:?}")
                }
                other => format!("{other:?} {use_:?}"),
            })
            // Of numbers: see below.
            .filter(|line| {
                let begins = |start| line.starts_with(start);
                (begins("'") || begins("s.") || begins("c.") || begins("?")) && !line.ends_with("Sum")
            })
            .collect()
    }

    const SCHEMA: &str = "CREATE TABLE s(_id INTEGER PRIMARY KEY, corpus INTEGER, body TEXT, ts INT, any, real REAL);
        CREATE INDEX sc ON s(corpus, ts DESC); CREATE INDEX sb ON s(body);
        CREATE TABLE c(name TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
        CREATE VIEW v AS SELECT corpus AS k, body AS b FROM s WHERE ts > '5';
        CREATE TRIGGER tr AFTER INSERT ON s BEGIN UPDATE c SET n = n + 1 WHERE name = 'stories' AND n <> '7'; END;
        CREATE VIRTUAL TABLE f USING fts4(title, body);";

    /// What happened: texts that are compared with numbers were replaced while the numbers stayed:
    /// on four of five real applications statements found other rows. Android binds arguments as
    /// texts, so `corpus = '14'` is the usual case.
    #[test]
    fn a_text_that_meets_a_number_is_found_on_either_side_and_by_whatever_way() {
        let mut wrong = Vec::new();
        for (sql, expected) in [
            ("SELECT 1 FROM s WHERE corpus = '14'", &["'14' Number"][..]),
            ("SELECT 1 FROM s WHERE '14' = ts AND body = '15'", &["'14' Number"]),
            ("SELECT 1 FROM s WHERE '14' = +ts", &[]),
            ("SELECT 1 FROM s WHERE body = '14' OR any = '15'", &[]),
            ("SELECT 1 FROM s WHERE _id = '14'", &["'14' Number"]),
            (
                "SELECT 1 FROM s WHERE _id > '14' ORDER BY body LIMIT '3'",
                &["'14' Number", "'3' Number", "'3' Calculated"],
            ),
            ("SELECT 1 FROM s WHERE corpus = ?2 AND body = ?1", &["?2 Number"]),
            ("SELECT 1 FROM s WHERE ts BETWEEN '1' AND ?", &["'1' Number", "?1 Number"]),
            (
                "SELECT 1 FROM s WHERE corpus IN ('1', '2', '3', '4') AND body IN ('5', '6', '7')",
                &["'1' Number", "'2' Number", "'3' Number", "'4' Number"],
            ),
            ("SELECT b FROM v WHERE k = '14' AND b = '9'", &["'14' Number", "'5' Number"]),
            ("UPDATE s SET corpus = '1', body = '2' WHERE any = '3'", &["'1' Number"]),
            (
                "INSERT INTO s(body, corpus) VALUES ('1', '2'), ('3', '4')",
                &["'2' Number", "'4' Number", "'7' Number"],
            ),
            ("INSERT INTO s(body, corpus) VALUES ('1', ?)", &["'7' Number", "?1 Number"]),
            ("DELETE FROM s WHERE ts + '1' > 5 OR corpus < '8'", &["'1' Calculated", "'8' Number"]),
            (
                "SELECT 1 FROM s WHERE CAST('12x' AS INTEGER) = corpus OR real = '2.5'",
                &["'12x' Calculated", "'2.5' Number"],
            ),
            ("SELECT 1 FROM s JOIN c ON s.corpus = c.name", &["c.name Number"]),
            ("SELECT 1 FROM s WHERE (SELECT max(corpus) FROM s) = '1'", &[]),
            (
                "SELECT CASE WHEN corpus THEN '1' ELSE '2' END + 1 FROM s",
                &["'1' Calculated", "'2' Calculated"],
            ),
            ("SELECT sum(body), abs('3') FROM s", &["'3' Calculated", "s.body Calculated"]),
        ] {
            wrong.extend((all(SCHEMA, sql) != expected).then(|| (sql, all(SCHEMA, sql))));
        }
        assert_eq!(wrong, []);
    }

    #[test]
    fn arguments_are_counted() {
        let counts = arguments_written(
            "SELECT f(), F(1, (2), g(3, 4, h(5))), x IN (1, 2) FROM t WHERE f ('a,b', \"c(\")",
        );
        let of = |name: &str| counts.get(name).copied();
        assert_eq!(
            (of("f"), of("g"), of("h"), of("in"), of("t")),
            (Some(3), Some(3), Some(1), Some(2), None)
        );
    }

    /// What happened: what a statement writes was not looked at, so a value that was there only
    /// between two statements was not treated as its column's are.
    #[test]
    fn what_is_written_into_which_column_is_found_through_triggers_and_queries() {
        let connection = Connection::open_in_memory().expect("opens");
        let more = "CREATE TABLE e(a INTEGER, b TEXT); CREATE TRIGGER copies AFTER UPDATE ON c BEGIN
                INSERT INTO s(corpus, body) VALUES (new.n, old.name); END;";
        connection.execute_batch(&format!("{SCHEMA} {more}")).expect("made");
        let known = Schema::of(&connection).expect("read");
        let of = |sql: &str| -> Vec<String> {
            let name = |source: &Source| match source {
                Source::Literal(text) => format!("'{text}'"),
                Source::Parameter(number) => format!("?{number}"),
                Source::Constant(number) => number.to_string(),
                Source::Column(table, column)
                | Source::Any(table, column)
                | Source::Numbers(table, column) => format!("{table}.{column}"),
                Source::Rowids(table) => format!("{table}.rowid"),
                other => format!("{other:?}"),
            };
            let found = findings(&connection, sql, &known.roots);
            found
                .writes
                .iter()
                .map(|(value, column)| format!("{} to {}", name(value), name(column)))
                .collect()
        };
        let mut wrong = Vec::new();
        for (sql, expected) in [
            ("UPDATE s SET corpus = 5000, body = ?2", &["?2 to s.body", "5000 to s.corpus"][..]),
            // The trigger of `s` updates `c`, whose trigger writes into `s`.
            (
                "INSERT INTO s(_id, corpus) VALUES (5000, '6000'), (?1, 7000)",
                &[
                    "'6000' to s.corpus",
                    "?1 to s.rowid",
                    "c.name to s.body",
                    "5000 to s.rowid",
                    "7000 to s.corpus",
                ],
            ),
            ("INSERT INTO s(body, any) SELECT name, n FROM c", &["c.name to s.body", "c.n to s.any"]),
            // The walk came to the insertion before it came to where the table is opened.
            ("INSERT INTO e(a) VALUES (5000), ('6000')", &["'6000' to e.a", "5000 to e.a"]),
            ("UPDATE c SET n = ?1", &["?1 to c.n", "?1 to s.corpus", "c.name to s.body"]),
        ] {
            wrong.extend((of(sql) != expected).then(|| (sql, of(sql))));
        }
        assert_eq!(wrong, []);
    }

    #[test]
    fn numbers_that_something_is_made_of_are_found() {
        let connection = Connection::open_in_memory().expect("opens");
        connection.execute_batch(SCHEMA).expect("made");
        let known = Schema::of(&connection).expect("read");
        let mut wrong = Vec::new();
        for (sql, expected) in [
            ("SELECT 1 FROM s WHERE corpus = 5000 AND ts > ?1 ORDER BY ts", &[][..]),
            ("SELECT 1 FROM s WHERE ts + 5000 > ?1", &["5000", "?1", "s.ts"]),
            ("SELECT 1 FROM s LIMIT 5000", &["5000"]),
            ("UPDATE s SET ts = 7000 WHERE ts - corpus > 5000", &["5000", "s.corpus", "s.ts"]),
            ("SELECT 1 FROM s GROUP BY body HAVING sum(ts) > 5000 AND max(ts) > 6000", &["5000", "s.ts"]),
            ("SELECT 1 FROM s WHERE length(body) < 5000 AND corpus < 7000", &["5000"]),
            ("SELECT 1 FROM s WHERE date(ts, 'unixepoch') > '2015-01-01'", &["s.ts"]),
            ("INSERT INTO s(corpus) VALUES (5000)", &["c.n", "rowid of s"]),
            ("INSERT INTO s(_id, corpus) VALUES (5000, ?)", &["c.n"]),
        ] {
            let uses = [Use::Calculated, Use::Sum, Use::Date];
            let of = |(source, use_): Finding| match source {
                _ if !uses.contains(&use_) => None,
                // What SQLite itself writes into its programs is small.
                Source::Constant(number) if number >= 1000 => Some(number.to_string()),
                Source::Numbers(table, column) => Some(format!("{table}.{column}")),
                Source::Rowids(table) => Some(format!("rowid of {table}")),
                Source::Parameter(number) => Some(format!("?{number}")),
                _ => None,
            };
            let found: BTreeSet<String> =
                findings(&connection, sql, &known.roots).uses.into_iter().filter_map(of).collect();
            let found: Vec<String> = found.into_iter().collect();
            wrong.extend((found != expected).then_some((sql, found)));
        }
        assert_eq!(wrong, []);
    }

    #[test]
    fn what_functions_make_of_a_text_is_found() {
        let mut wrong = Vec::new();
        for (sql, expected) in [
            ("SELECT 1 FROM s WHERE typeof(any) = 'text' AND body = 'text2'", &["'text' Word"][..]),
            (
                "SELECT 1 FROM s WHERE typeof(any) IN ('text', 'blob', 'real') AND body = 'x'",
                &["'blob' Word", "'real' Word", "'text' Word"],
            ),
            (
                "SELECT 1 FROM s WHERE strftime('%Y', body) = '2015'",
                &["'%Y' Date", "'2015' Word", "s.body Date"],
            ),
            ("SELECT 1 FROM s WHERE body > date('now', '-1 day')", &["'-1 day' Date", "'now' Date"]),
            ("SELECT printf('%05d', '7'), body || 'x' FROM s", &["'%05d' Word", "'7' Number"]),
            (
                "SELECT 1 FROM s WHERE corpus LIKE '1%' AND body LIKE '%mid%'",
                &["'%mid%' Within", "'1%' Digits", "'1%' Within"],
            ),
            ("SELECT rowid FROM f WHERE f MATCH 'tea AND ro*'", &["'tea AND ro*' Match"]),
            ("INSERT INTO f(f) VALUES ('optimize')", &["'optimize' Match"]),
            ("SELECT 1 FROM s WHERE instr(body, 'mid') > 0", &["'mid' Needle"]),
            ("SELECT 1 FROM s WHERE body LIKE '%' || ?1 || '%'", &["'%' Needle", "?1 Needle"]),
            (
                "SELECT 1 FROM s WHERE replace(body, '-', '') LIKE ?1 || '%'",
                &["'%' Spelt", "'%' Needle", "'-' Needle", "?1 Spelt", "?1 Needle", "s.body Spelt"],
            ),
            ("SELECT 1 FROM s WHERE ?1 || body = ?2", &["?1 Spelt", "?2 Spelt", "s.body Spelt"]),
            ("SELECT 1 FROM s WHERE ?1 || '-' || body = '1-2'", &[]),
            ("SELECT 1 FROM s WHERE any LIKE '1%'", &["'1%' Digits", "'1%' Within", "s.any Digits"]),
            ("SELECT 1 FROM s WHERE lower(body) = 'x' AND coalesce(any, 'y') = 'z'", &[]),
        ] {
            wrong.extend((all(SCHEMA, sql) != expected).then(|| (sql, all(SCHEMA, sql))));
        }
        assert_eq!(wrong, []);
    }
}
