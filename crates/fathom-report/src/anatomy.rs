//! The anatomy of one commit: as text, as a picture, and as trace-event JSON, which
//! [Perfetto](https://ui.perfetto.dev) and `chrome://tracing` open.

mod svg;

use std::fmt::Write as _;

use fathom_lab::anatomy::{Anatomy, CallSpan, RequestSpan, StatementSpan};
use fathom_stack::blocks::BlockOp;
use serde_json::{Value, json};

use crate::blocks::cause_name;
use crate::number;
use crate::style::{Align, Style, Table, tame};

pub use svg::{anatomy_svg, in_page};

/// What a request is: `WAL 8.00 KiB`, `flush`.
fn told(request: &RequestSpan) -> String {
    let bytes = number::bytes(request.bytes as f64);
    match (request.op, request.owner) {
        (BlockOp::Flush, _) => "flush".into(),
        (BlockOp::Write, Some(owner)) => format!("{} {bytes}", cause_name(owner)),
        (op, Some(owner)) => format!("{} of {} {bytes}", op.name(), cause_name(owner)),
        (op, None) => format!("{} {bytes}", op.name()),
    }
}

/// `0.8 ms` also of what began before.
fn at(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", number::time(ns.unsigned_abs() as f64))
}

/// Spans on as few rows as they need without lying over each other: the row of each.
fn rows(spans: impl Iterator<Item = (i64, i64)>) -> Vec<usize> {
    let mut ends: Vec<i64> = Vec::new();
    spans
        .map(|(start, end)| match ends.iter().position(|end| *end <= start) {
            Some(row) => {
                ends[row] = end;
                row
            }
            None => {
                ends.push(end);
                ends.len() - 1
            }
        })
        .collect()
}

/// What a call was: as it was recorded, or as far as the device tells where it was not: one in
/// which it was flushed is a sync.
fn op(anatomy: &Anatomy, call: &CallSpan) -> &'static str {
    if let Some(kind) = call.kind {
        return kind.op;
    }
    let has = |op: BlockOp| call.requests.iter().any(|request| anatomy.requests[*request].op == op);
    match () {
        () if has(BlockOp::Flush) => "sync",
        () if has(BlockOp::Write) => "write",
        () if has(BlockOp::Read) => "read",
        () => "call",
    }
}

/// What a call was, and on what: `sync WAL`.
fn kind(anatomy: &Anatomy, call: &CallSpan) -> String {
    let op = op(anatomy, call);
    match call.kind.map(|kind| kind.file) {
        None => op.to_owned(),
        Some("wal") => format!("{op} WAL"),
        Some("wal-index") => format!("{op} WAL index"),
        Some(file) => format!("{op} {}", file.replace('-', " ")),
    }
}

/// One line on what the device did in a call: `WAL 8.00 KiB, file system journal 16.0 KiB, flush`.
fn work(anatomy: &Anatomy, call: &CallSpan) -> String {
    let all: Vec<String> = call.requests.iter().map(|request| told(&anatomy.requests[*request])).collect();
    all.join(", ")
}

/// How long a call took, ns: by the model where there is one.
fn took_of_call(call: &CallSpan) -> i64 {
    took(call.model_ns, call.end_ns - call.start_ns)
}

fn took(model_ns: Option<u64>, measured_ns: i64) -> i64 {
    model_ns.map_or(measured_ns, |ns| i64::try_from(ns).unwrap_or(measured_ns))
}

/// How long all of it took.
fn whole(anatomy: &Anatomy) -> String {
    let measured = number::time(anatomy.wall_ns as f64);
    match anatomy.model_ns {
        Some(ns) => format!("{} in model time ({measured} as measured)", number::time(ns as f64)),
        None => measured,
    }
}

fn title(anatomy: &Anatomy) -> String {
    format!("Anatomy of one {}: {}, {}", anatomy.unit, anatomy.title, anatomy.phase)
}

/// What is seen at a glance: how many calls waited, how many flushes, what was written for whom.
pub fn sentence(anatomy: &Anatomy) -> String {
    let waited: Vec<&CallSpan> = anatomy.calls.iter().filter(|call| !call.requests.is_empty()).collect();
    let waited_ns: i64 = waited.iter().map(|call| took_of_call(call)).sum();
    let count = |op: BlockOp| anatomy.requests.iter().filter(|request| request.op == op).count();
    let bytes = |op: BlockOp| {
        let of_op = anatomy.requests.iter().filter(|request| request.op == op);
        of_op.map(|request| request.bytes).sum::<u64>() as f64
    };
    let plural = |n: usize, word: &str, many: &str| {
        format!("{n} {}", if n == 1 { word.to_owned() } else { format!("{word}{many}") })
    };
    let mut ops: Vec<(&str, usize)> =
        ["sync", "write", "read", "call"].into_iter().map(|name| (name, 0)).collect();
    for name in waited.iter().map(|call| op(anatomy, call)) {
        match ops.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1 += 1,
            None => ops.push((name, 1)),
        }
    }
    let kinds: Vec<String> = ops
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| plural(count, name, "s"))
        .collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let calls = match anatomy.calls.len() {
        0 => format!("It took {}", whole(anatomy)),
        all => format!(
            "{} of {} on files waited for the device{kinds}, {} of {}",
            waited.len(),
            plural(all, "call", "s"),
            number::time(waited_ns.max(0) as f64),
            whole(anatomy)
        ),
    };
    let mut served = vec![
        format!("{} ({})", plural(count(BlockOp::Write), "write", "s"), number::bytes(bytes(BlockOp::Write))),
        plural(count(BlockOp::Flush), "flush", "es"),
    ];
    let reads = count(BlockOp::Read);
    if reads > 0 {
        served.insert(0, format!("{} ({})", plural(reads, "read", "s"), number::bytes(bytes(BlockOp::Read))));
    }
    let last = served.pop().unwrap_or_default();
    let device = if anatomy.calls.is_empty() { "the device" } else { "it" };
    format!("{calls}; {device} served {} and {last}.", served.join(", "))
}

fn notes(anatomy: &Anatomy) -> Vec<String> {
    let places = match anatomy.model_ns {
        Some(_) => {
            "How long it, its statements and its calls took is model time; when they began, and all of the device, is as measured."
        }
        None => "Times are as measured, from its begin.",
    };
    let mut notes = vec![format!(
        "{} {} of {}, run {}. {places}",
        anatomy.unit, anatomy.execution, anatomy.executions, anatomy.run
    )];
    if !anatomy.knows_owners {
        notes.push(
            "Whose blocks these are is not known: the run has no block trace of its device (--set instruments.blocks=true).".into(),
        );
    }
    if !anatomy.knows_calls {
        notes.push("Its calls on files are not known: the threads that worked for it were not seen.".into());
    } else if anatomy.calls.is_empty() {
        notes.push("It made no call on a file that may have waited for the device.".into());
    }
    if anatomy.knows_calls && anatomy.calls.iter().any(|call| call.kind.is_none()) {
        notes.push(
            "Which calls they were is not recorded: they are called by what the device did in them.".into(),
        );
    }
    if anatomy.requests.iter().any(|request| request.start_ns < 0) {
        notes.push("What began before it (below 0) was asked for earlier, or by somebody else.".into());
    }
    notes
}

/// A line for each call that waited, and for what came to the device outside of any.
#[must_use]
pub fn anatomy_terminal(anatomy: &Anatomy, style: &Style) -> String {
    let mut out = format!("\n  {}\n", style.bold(&tame(&title(anatomy))));
    out += &style.paragraph("  ", &sentence(anatomy));
    let mut table = Table::default();
    table.column("call", Align::Right);
    table.column("is", Align::Left);
    table.column("from", Align::Right);
    table.column("took", Align::Right);
    table.column("what the device did meanwhile", Align::Left);
    let (mut quick, mut quick_ns) = (0, 0);
    let mut statements = shown_statements(anatomy).into_iter().peekable();
    let statement_row = |statement: &StatementSpan| {
        let took = took(statement.model_ns, statement.end_ns - statement.start_ns);
        let text = tame(&statement.text);
        vec![String::new(), "statement".into(), at(statement.start_ns), at(took), text]
    };
    for (number, call) in (1..).zip(&anatomy.calls) {
        let took = took_of_call(call);
        if call.requests.is_empty() {
            (quick, quick_ns) = (quick + 1, quick_ns + took);
            continue;
        }
        while let Some(statement) = statements.next_if(|statement| statement.start_ns <= call.start_ns) {
            table.row(statement_row(statement));
        }
        let kind = kind(anatomy, call);
        table.row(vec![number.to_string(), kind, at(call.start_ns), at(took), work(anatomy, call)]);
    }
    for statement in statements {
        table.row(statement_row(statement));
    }
    let in_calls = |place: usize| anatomy.calls.iter().any(|call| call.requests.contains(&place));
    for (_, request) in anatomy.requests.iter().enumerate().filter(|(place, _)| !in_calls(*place)) {
        table.row(vec![
            String::new(),
            String::new(),
            at(request.start_ns),
            at(request.end_ns - request.start_ns),
            told(request),
        ]);
    }
    out += &table.text(style);
    if quick > 0 {
        let calls = if quick == 1 { "call" } else { "calls" };
        let told = format!("{quick} {calls} did not wait for the device: {} together.", at(quick_ns));
        out += &style.paragraph("  ", &told);
    }
    let hidden = anatomy.statements.len() - shown_statements(anatomy).len();
    if hidden > 0 {
        let told = format!("{hidden} other statements made no call that waited for the device.");
        out += &style.paragraph("  ", &told);
    }
    for note in notes(anatomy) {
        out += &style.paragraph("  ", &note);
    }
    out
}

/// Statements of the table: all if they are few, else those that made a call that waited.
fn shown_statements(anatomy: &Anatomy) -> Vec<&StatementSpan> {
    const FEW: usize = 12;
    let has_waited = |statement: &&StatementSpan| {
        anatomy.calls.iter().any(|call| {
            let is_within = statement.start_ns <= call.start_ns && call.start_ns < statement.end_ns;
            is_within && call.thread == statement.thread && !call.requests.is_empty()
        })
    };
    let is_few = anatomy.statements.len() <= FEW;
    anatomy.statements.iter().filter(|statement| is_few || has_waited(statement)).collect()
}

/// As trace events: complete events (`X`), µs, in a process for the application and one for each
/// device; what lies over each other is on tracks of its own. Processes and tracks have their
/// names, and their places below each other, by metadata events (`M`).
#[must_use]
pub fn anatomy_trace_events(anatomy: &Anatomy) -> Value {
    const APPLICATION: u32 = 1;
    const DEVICE: u32 = 2;
    // Viewers want times that are not negative.
    let starts = anatomy
        .requests
        .iter()
        .map(|request| request.start_ns)
        .chain(anatomy.calls.iter().map(|call| call.start_ns))
        .chain(anatomy.statements.iter().map(|statement| statement.start_ns));
    let zero = starts.min().unwrap_or(0).min(0);
    let micros = |ns: i64| (ns - zero) as f64 / 1e3;
    let mut events = Vec::new();
    let name = |kind: &str, process: u32, track: u64, name: &str| json!({ "name": kind, "ph": "M", "pid": process, "tid": track, "args": { "name": name } });
    let placed = |kind: &str, process: u32, track: u64, place: u64| json!({ "name": kind, "ph": "M", "pid": process, "tid": track, "args": { "sort_index": place } });
    events.push(name("process_name", APPLICATION, 0, &anatomy.title));
    events.push(placed("process_sort_index", APPLICATION, 0, APPLICATION.into()));
    events.push(name("thread_name", APPLICATION, 0, &anatomy.phase));
    let span = |name: &str, category: &str, process: u32, track: u64, span: (i64, i64), args: Value| {
        json!({ "name": name, "cat": category, "ph": "X", "pid": process, "tid": track, "ts": micros(span.0),
                "dur": (span.1 - span.0).max(0) as f64 / 1e3, "args": args })
    };
    let whole = (0, i64::try_from(anatomy.wall_ns).unwrap_or(i64::MAX));
    let args = json!({ "execution": anatomy.execution, "of": anatomy.executions, "run": anatomy.run, "model_ns": anatomy.model_ns });
    events.push(span(&anatomy.unit, "execution", APPLICATION, 0, whole, args));
    // The statements of a thread are above its calls.
    let statements_track = |thread: u32| u64::from(thread) * 2 + 1;
    let calls_track = |thread: u32| u64::from(thread) * 2 + 2;
    let mut named: Vec<(u64, String)> = Vec::new();
    for statement in &anatomy.statements {
        let thread = statement.thread;
        named.push((statements_track(thread), format!("statements of thread {thread}")));
    }
    for call in &anatomy.calls {
        named.push((calls_track(call.thread), format!("calls of thread {}", call.thread)));
    }
    named.sort_unstable();
    named.dedup();
    for (track, words) in named {
        events.push(name("thread_name", APPLICATION, track, &words));
        events.push(placed("thread_sort_index", APPLICATION, track, track));
    }
    for statement in &anatomy.statements {
        let track = statements_track(statement.thread);
        let args = json!({ "sql": statement.text, "model_ns": statement.model_ns });
        let times = (statement.start_ns, statement.end_ns);
        events.push(span(&statement.text, "statement", APPLICATION, track, times, args));
    }
    for (number, call) in (1..).zip(&anatomy.calls) {
        let words = match call.requests.is_empty() {
            true => kind(anatomy, call),
            false => format!("{} {number}, waits", kind(anatomy, call)),
        };
        let args = json!({ "device": work(anatomy, call), "call": call.kind, "model_ns": call.model_ns });
        let track = calls_track(call.thread);
        events.push(span(&words, "call", APPLICATION, track, (call.start_ns, call.end_ns), args));
    }
    for device in [0_u8, 1] {
        let own: Vec<&RequestSpan> =
            anatomy.requests.iter().filter(|request| request.device == device).collect();
        if own.is_empty() {
            continue;
        }
        let process = DEVICE + u32::from(device);
        events.push(name("process_name", process, 0, if device == 0 { "device" } else { "external log" }));
        events.push(placed("process_sort_index", process, 0, process.into()));
        let rows = rows(own.iter().map(|span| (span.start_ns, span.end_ns)));
        let count = rows.iter().max().map_or(0, |last| *last as u64 + 1);
        for track in 1..=count {
            let words = if track == 1 { "requests".to_owned() } else { format!("requests beside, {track}") };
            events.push(name("thread_name", process, track, &words));
            events.push(placed("thread_sort_index", process, track, track));
        }
        for (request, row) in own.iter().zip(rows) {
            let args = json!({ "owner": request.owner.map(cause_name), "offset": request.offset, "bytes": request.bytes });
            let track = row as u64 + 1;
            events.push(span(
                &told(request),
                request.op.name(),
                process,
                track,
                (request.start_ns, request.end_ns),
                args,
            ));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

/// All of it as a value to be written as JSON.
#[must_use]
pub fn anatomy_json(anatomy: &Anatomy) -> Value {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(out, "{}", sentence(anatomy));
    json!({ "says": out, "anatomy": anatomy })
}

#[cfg(test)]
mod tests {
    use fathom_lab::anatomy::CallName;
    use fathom_stack::attribution::Cause;

    use super::*;
    use crate::blocks::CAUSE_COLOURS;

    fn request(op: BlockOp, owner: Option<Cause>, start_ns: i64, end_ns: i64) -> RequestSpan {
        RequestSpan { device: 0, op, owner, offset: 4096, bytes: 8192, start_ns, end_ns }
    }

    fn call(op: &'static str, start_ns: i64, end_ns: i64, requests: Vec<usize>) -> CallSpan {
        let kind = Some(CallName { op, file: "wal" });
        CallSpan { thread: 0, kind, start_ns, end_ns, model_ns: None, requests }
    }

    fn statement(text: &str, start_ns: i64, end_ns: i64) -> StatementSpan {
        StatementSpan { thread: 0, text: text.into(), start_ns, end_ns, model_ns: None }
    }

    /// As it is of a recording that does not know which calls there were.
    fn of_before() -> Anatomy {
        let mut before = commit();
        before.statements.clear();
        before.calls.iter_mut().for_each(|call| call.kind = None);
        before
    }

    fn commit() -> Anatomy {
        Anatomy {
            cell: 1,
            label: "wal/full <i>".into(),
            title: "WAL/FULL <i>".into(),
            run: 3,
            phase: "insert".into(),
            unit: "transaction".into(),
            execution: 2,
            executions: 50,
            wall_ns: 5_000_000,
            model_ns: None,
            calls: vec![
                call("write", 10_000, 20_000, vec![]),
                call("sync", 30_000, 4_900_000, vec![1, 2, 3]),
            ],
            statements: vec![
                statement("BEGIN", 1_000, 2_000),
                statement("INSERT INTO <t> VALUES (?)", 3_000, 9_000),
                statement("COMMIT", 9_500, 4_950_000),
            ],
            requests: vec![
                request(BlockOp::Write, Some(Cause::Metadata), -200_000, 100_000),
                request(BlockOp::Write, Some(Cause::Wal), 40_000, 1_000_000),
                request(BlockOp::Write, Some(Cause::FileSystemJournal), 50_000, 1_200_000),
                request(BlockOp::Flush, Some(Cause::Flush), 1_200_000, 4_800_000),
            ],
            knows_owners: true,
            knows_calls: true,
        }
    }

    #[test]
    fn the_text_says_what_each_call_waited_for() {
        let text = anatomy_terminal(&commit(), &Style::PLAIN);
        for words in [
            "1 of 2 calls on files waited for the device (1 sync), 4.87 ms of 5 ms",
            // "What are these three fsyncs?", and each of them was called a call.
            "2  sync WAL",
            "3 writes (24 KiB) and 1 flush.",
            "WAL 8 KiB, file system journal 8 KiB, flush",
            "1 call did not wait for the device: 10 µs",
            "-200 µs",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // In the order of time: the statement, and what it waited for.
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        let order = ["BEGIN", "INSERT INTO <t> VALUES (?)", "COMMIT", "2  sync WAL"].map(at);
        assert!(order.is_sorted(), "{order:?}: {text}");
        assert!(!text.contains("not recorded"), "{text}");
        let unknown = Anatomy { knows_owners: false, ..commit() };
        assert!(anatomy_terminal(&unknown, &Style::PLAIN).contains("instruments.blocks=true"));
    }

    /// What happened: "sync rollback journal 6.65 ms" of a commit that takes 3.0 by the model: the
    /// rest was this machine's.
    #[test]
    fn what_a_machine_held_up_is_beside_the_model_time() {
        let mut late = Anatomy { model_ns: Some(3_000_000), ..commit() };
        late.calls[1].model_ns = Some(2_900_000);
        let text = anatomy_terminal(&late, &Style::PLAIN);
        assert!(text.contains("2.90 ms of 3 ms in model time (5 ms as measured)"), "{text}");
        assert!(text.contains("2.90 ms  ") && !text.contains("4.87 ms"), "{text}");
        assert!(text.contains("as measured.") && !text.contains("Times are as measured"), "{text}");
        // The picture's first bar had "5 ms", and the words above it that it is model time.
        let picture = anatomy_svg(&late);
        assert!(picture.contains(">3 ms in model time (5 ms as measured)<"), "{picture}");
    }

    /// Of many statements those are shown that waited.
    #[test]
    fn statements_that_waited_for_nothing_are_counted() {
        let mut many = commit();
        let between = (0..20).map(|number| statement("SELECT 1", 9_000 + number, 9_001 + number));
        many.statements.splice(2..2, between);
        let text = anatomy_terminal(&many, &Style::PLAIN);
        assert!(text.contains("COMMIT") && !text.contains("SELECT 1"), "{text}");
        assert!(text.contains("22 other statements made no call that waited"), "{text}");
    }

    /// Results of before hold neither statements nor which calls there were.
    #[test]
    fn of_an_older_recording_calls_are_named_by_what_the_device_did() {
        let text = anatomy_terminal(&of_before(), &Style::PLAIN);
        for words in ["(1 sync)", "2  sync  ", "Which calls they were is not recorded"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!anatomy_svg(&of_before()).contains("statements"));
        assert!(!anatomy_trace_events(&of_before()).to_string().contains("\"sql\""));
    }

    /// What happened: of a read that memory served the first line was "0 of 0 calls on files waited
    /// for the device, 0 ns of 1.26 µs; it served 0 writes (0 B) and 0 flushes", above two reads of
    /// the device, and the last one that its thread was not seen.
    #[test]
    fn of_a_read_the_text_says_what_was_read_and_not_that_nothing_is_known() {
        let requests = vec![request(BlockOp::Read, None, -200_000, 100_000)];
        let read =
            Anatomy { calls: Vec::new(), statements: Vec::new(), requests, unit: "query".into(), ..commit() };
        let text = anatomy_terminal(&read, &Style::PLAIN);
        for words in [
            "It took 5 ms; the device served 1 read (8 KiB), 0 writes (0 B) and 0 flushes.",
            "no call on a file that may have waited",
            "(below 0)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("not seen"), "{text}");
        let unseen = Anatomy { knows_calls: false, ..read };
        assert!(anatomy_terminal(&unseen, &Style::PLAIN).contains("were not seen"));
    }

    /// As Perfetto reads it: each event has its fields, no time is negative, and no two spans of a
    /// track lie over each other.
    #[test]
    fn trace_events_are_such_and_tracks_do_not_overlap() {
        let text = anatomy_trace_events(&commit()).to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        let spans: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!(spans.len(), 1 + 3 + 2 + 4);
        let mut tracks: std::collections::BTreeMap<(u64, u64), Vec<(f64, f64)>> = Default::default();
        for span in &spans {
            let number = |key: &str| span[key].as_f64().unwrap_or_else(|| panic!("{key}: {span}"));
            assert!(number("ts") >= 0.0 && number("dur") >= 0.0 && span["name"].is_string(), "{span}");
            let track = (span["pid"].as_u64().unwrap(), span["tid"].as_u64().unwrap());
            tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
        }
        for (track, mut spans) in tracks {
            spans.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{track:?}: {spans:?}");
        }
        // The write that began before the transaction is 200 µs earlier than it.
        let ts = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap()["ts"].as_f64().unwrap();
        assert_eq!((ts("file system metadata 8 KiB"), ts("transaction")), (0.0, 200.0));
        assert!(events.iter().any(|event| event["ph"] == "M" && event["args"]["name"] == "device"));
        let sql = |event: &&Value| event["args"]["sql"] == "INSERT INTO <t> VALUES (?)";
        assert!(spans.iter().any(|span| sql(span) && span["tid"] == 1), "{spans:?}");
        let sync = spans.iter().find(|span| span["name"] == "sync WAL 2, waits").unwrap();
        assert_eq!((&sync["tid"], &sync["args"]["call"]["file"]), (&json!(2), &json!("wal")));
    }

    /// What happened: Perfetto showed the tracks of a device as "Thread 1", "Thread 2" …: the
    /// application's alone had names.
    #[test]
    fn every_track_with_spans_has_the_names_of_its_process_and_its_own() {
        let mut two = commit();
        two.requests.push(RequestSpan { device: 1, ..request(BlockOp::Write, None, 60_000, 70_000) });
        let read: Value = serde_json::from_str(&anatomy_trace_events(&two).to_string()).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        let named = |kind: &str, process: &Value, track: Option<&Value>| -> Vec<String> {
            let is_it = |event: &&Value| {
                event["ph"] == "M"
                    && event["name"] == kind
                    && event["pid"] == *process
                    && track.is_none_or(|track| event["tid"] == *track)
            };
            let names = events.iter().filter(is_it).map(|event| event["args"]["name"].as_str().unwrap());
            names.map(str::to_owned).collect()
        };
        let mut of_device = std::collections::BTreeSet::new();
        for span in events.iter().filter(|event| event["ph"] == "X") {
            let (process, track) = (&span["pid"], &span["tid"]);
            let (own, all) =
                (named("thread_name", process, Some(track)), named("thread_name", process, None));
            assert_eq!((named("process_name", process, None).len(), own.len()), (1, 1), "{span}");
            assert_eq!(all.iter().filter(|name| **name == own[0]).count(), 1, "{own:?} in {all:?}");
            of_device.insert((named("process_name", process, None)[0].clone(), own[0].clone()));
        }
        for (process, track) in
            [("device", "requests"), ("device", "requests beside, 2"), ("external log", "requests")]
        {
            assert!(of_device.contains(&(process.to_owned(), track.to_owned())), "{of_device:?}");
        }
    }

    #[test]
    fn the_picture_has_a_row_for_each_owner_and_escapes_labels() {
        let svg = anatomy_svg(&commit());
        assert!(svg.starts_with("<svg ") && svg.contains(crate::SVG_MARK), "{svg}");
        assert!(!svg.contains("<i>") && !svg.contains("<t>"), "{svg}");
        for words in [
            ">WAL<",
            ">fs journal<",
            ">fs metadata<",
            ">flush<",
            "sync WAL 2: 4.87 ms",
            ">statements<",
            ">COMMIT<",
        ] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        // The flush is three times as long as the write of the WAL and more: 3.6 ms of 0.96 ms.
        let width = |colour: &str| {
            let bar = svg.lines().find(|line| line.starts_with("<rect") && line.contains(colour)).unwrap();
            let text = bar.split("width=\"").nth(1).unwrap();
            text.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        let (flush, wal) = (width(CAUSE_COLOURS[7].light), width(CAUSE_COLOURS[2].light));
        assert!((flush / wal / 3.75 - 1.0).abs() < 0.02, "{flush} {wal}");
    }

    /// What happened: it was a white block in a dark page.
    #[test]
    fn within_a_page_every_colour_of_the_picture_has_a_dark_one() {
        let svg = in_page(&commit());
        let (style, drawing) = svg.split_once("</style>").unwrap();
        for attribute in ["fill", "stroke"] {
            for part in drawing.split(&format!("{attribute}=\"")).skip(1) {
                let colour = part.split('"').next().unwrap();
                assert!(
                    style.contains(&format!("{attribute}=\"{colour}\"]{{{attribute}:#")),
                    "{colour}: {style}"
                );
            }
        }
    }
}
