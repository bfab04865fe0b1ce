//! `fathom stack status`: what the modelled devices under named stacks are doing.

use fathom_output::{say, tell};
use std::io::Write;
use std::time::{Duration, Instant};

use fathom_device::Statistics;
use fathom_report::number;
use fathom_stack::named_stack::{self, NamedStack};
use serde_json::{Value, json};

use crate::cli::Status;
use crate::outcome::{Error, Outcome};

const KINDS: [&str; 3] = ["read", "write", "flush"];
/// Lines between two headings.
const HEADING_EVERY: u64 = 20;
/// Least and most of an interval, s.
const INTERVAL_S: (f64, f64) = (0.05, 86_400.0);

/// Does what was asked.
pub fn run(asked: &Status) -> super::Result {
    let all = named_stack::list();
    let chosen: Vec<&NamedStack> = match &asked.name {
        // The error of a wrong name lists those that are up.
        Some(name) => {
            let statistics = named_stack::device_statistics(name).map_err(Error::of_stack)?;
            if statistics.is_none() {
                return Err(Error::usage(format!(
                    "{name} lies on the disk that is there, which Fathom does not watch: `fathom stack up --device NAME` makes a modelled device"
                )));
            }
            all.iter().filter(|stack| stack.name == *name).collect()
        }
        None => all.iter().filter(|stack| stack.spec.device.is_some()).collect(),
    };
    if let (Some(seconds), Some(stack)) = (asked.watch, chosen.first()) {
        return watch(stack, seconds, asked.count.unwrap_or(u64::MAX), asked.json);
    }
    if chosen.is_empty() && !asked.json {
        say!(
            "No stack on a modelled device is up.  fathom stack up --fs ext4 --device sd-sandisk-extreme --name card"
        );
    }
    let mut outcome = Outcome::Good;
    for stack in chosen {
        match named_stack::device_statistics(&stack.name) {
            Ok(Some(statistics)) => {
                show(stack, &statistics, asked.json);
                // What an external log takes is told as a device of its own.
                if let Ok(Some(log)) = named_stack::log_statistics(&stack.name) {
                    show(&its_log(stack), &log, asked.json);
                }
            }
            Ok(None) => {}
            Err(error) => {
                tell!("error: {}: {error}", stack.name);
                outcome = Outcome::Failed;
            }
        }
    }
    Ok(outcome)
}

fn show(stack: &NamedStack, statistics: &Statistics, json: bool) {
    match json {
        true => fathom_output::raw(&format!("{}\n", as_json(stack, statistics))),
        false => fathom_output::raw(&fathom_output::lines(&as_text(stack, statistics))),
    }
}

/// A stack's external log, as if it were one.
fn its_log(stack: &NamedStack) -> NamedStack {
    let mut log = stack.clone();
    log.name = format!("{} (log)", stack.name);
    if stack.spec.log_device.is_some() {
        log.spec.device = stack.spec.log_device.clone();
    }
    log.record.device = format!("modelled {}", log.spec.device.as_deref().unwrap_or_default());
    log
}

/// How long the entry of a stack whose device does not answer is waited for to go.
const GOES: Duration = Duration::from_secs(2);
/// The same where nothing is mounted any more, so that whoever takes it down is at it: how long
/// that takes on a busy machine.
const GOES_UNMOUNTED: Duration = Duration::from_secs(60);

/// Whether a stack whose device does not answer any more is being taken down: its entry is the last
/// thing that goes.
fn goes(name: &str) -> bool {
    let begin = Instant::now();
    loop {
        let Some(stack) = named_stack::list().into_iter().find(|stack| stack.name == name) else {
            return true;
        };
        // One whose server was killed stays mounted.
        let is_unmounted = !stack.up && stack.problem.is_none();
        let limit = if is_unmounted { GOES_UNMOUNTED } else { GOES };
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What happens in each interval, until the stack is taken down, the reader goes, or enough has
/// been told.
fn watch(stack: &NamedStack, seconds: f64, count: u64, json: bool) -> super::Result {
    if !(INTERVAL_S.0..=INTERVAL_S.1).contains(&seconds) {
        return Err(Error::usage(format!(
            "--watch {seconds}: give {} to {} seconds",
            INTERVAL_S.0, INTERVAL_S.1
        )));
    }
    let mut before =
        named_stack::device_statistics(&stack.name).map_err(Error::of_stack)?.unwrap_or_default();
    let mut out = std::io::stdout();
    for line in 0..count {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let now = match named_stack::device_statistics(&stack.name) {
            Ok(now) => now.unwrap_or_default(),
            // Taken down meanwhile, as it should be.
            Err(_) if goes(&stack.name) => {
                tell!("{} is down.", stack.name);
                return Ok(Outcome::Good);
            }
            Err(error) => return Err(Error::of_stack(error)),
        };
        let part = now.since(&before);
        before = now;
        let text = match json {
            true => format!("{}\n", as_json(stack, &part)),
            false if line % HEADING_EVERY == 0 => format!("{}{}", heading(), row(&part)),
            false => row(&part),
        };
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::failed)?;
    }
    Ok(Outcome::Good)
}

fn per_s(number: u64, statistics: &Statistics) -> f64 {
    let span_s = statistics.span_ns as f64 / 1e9;
    if span_s > 0.0 { number as f64 / span_s } else { 0.0 }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn depth(statistics: &Statistics) -> f64 {
    if statistics.span_ns == 0 { 0.0 } else { statistics.measured_ns as f64 / statistics.span_ns as f64 }
}

/// Everything, with names that say their units.
fn as_json(stack: &NamedStack, statistics: &Statistics) -> Value {
    let mut kinds = serde_json::Map::new();
    for (kind, name) in KINDS.iter().enumerate() {
        kinds.insert(
            (*name).to_owned(),
            json!({
                "operations": statistics.operations[kind],
                "operations_per_s": per_s(statistics.operations[kind], statistics),
                "bytes": statistics.bytes[kind],
                "bytes_per_s": per_s(statistics.bytes[kind], statistics),
                "sequential_share": statistics.sequential.get(kind).and_then(|&part| share(part, statistics.operations[kind])),
                "p50_ns": statistics.latency[kind].quantile_ns(0.5),
                "p99_ns": statistics.latency[kind].quantile_ns(0.99),
            }),
        );
    }
    let used = statistics.use_of();
    json!({
        "name": stack.name,
        "device": stack.spec.device,
        "span_s": statistics.span_ns as f64 / 1e9,
        "kinds": kinds,
        "discards": statistics.operations[3],
        "failed": statistics.failed,
        "under_way": statistics.under_way,
        "queue_depth": depth(statistics),
        "busy_share": share(statistics.measured_busy_ns, statistics.span_ns),
        "timed": statistics.timed,
        "late_share": used.late_share(),
        "late_p50_ns": used.late_p50_ns,
        "late_p99_ns": used.late_p99_ns,
        "device_ns": used.measured_ns,
        "device_model_ns": used.model_ns,
        "kept": used.is_on_time(),
        "self_test": statistics.self_test,
        "log_problem": statistics.log_problem,
    })
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| number::time(ns as f64))
}

fn as_text(stack: &NamedStack, statistics: &Statistics) -> String {
    let used = statistics.use_of();
    let mut text = format!(
        "{}: {} on {}, {} for {}, mkfs and mount included\n",
        stack.name,
        stack.spec.place.name(),
        stack.record.device,
        stack.path.display(),
        number::time(statistics.span_ns as f64)
    );
    text += &format!(
        "  {:8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
        "", "operations", "per s", "bytes", "in sequence", "p50", "p99"
    );
    for (kind, name) in KINDS.iter().enumerate() {
        let sequential =
            statistics.sequential.get(kind).and_then(|&part| share(part, statistics.operations[kind]));
        text += &format!(
            "  {name:8}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n",
            number::plain(statistics.operations[kind] as f64),
            number::plain(per_s(statistics.operations[kind], statistics)),
            number::bytes(statistics.bytes[kind] as f64),
            sequential.map_or_else(|| "-".into(), number::percent),
            time(statistics.latency[kind].quantile_ns(0.5)),
            time(statistics.latency[kind].quantile_ns(0.99)),
        );
    }
    text += &format!(
        "  {} under way, {:.2} on average; busy {} of the time; {} failed, {} discards\n",
        statistics.under_way,
        depth(statistics),
        share(statistics.measured_busy_ns, statistics.span_ns).map_or_else(|| "-".into(), number::percent),
        statistics.failed,
        statistics.operations[3],
    );
    let tested = match used.self_test_error() {
        Some(error) => format!("self-test off by {}", number::percent(error)),
        None => "no self-test".into(),
    };
    text += &format!(
        "  answers late: {} (p50 {}, p99 {}); device time {}, by the model {}; {tested}{}\n",
        number::percent(used.late_share()),
        number::time(used.late_p50_ns as f64),
        number::time(used.late_p99_ns as f64),
        number::time(used.measured_ns as f64),
        number::time(used.model_ns as f64),
        if used.is_on_time() { "" } else { ": this machine is too busy to keep the model's times" },
    );
    if let Some(problem) = &statistics.log_problem {
        text += &format!("  ! the log of operations is not complete: {problem}\n");
    }
    text
}

fn heading() -> String {
    format!(
        "{:>9}{:>9}{:>9}{:>11}{:>11}{:>7}{:>10}{:>10}{:>10}{:>10}{:>7}{:>7}\n",
        "reads/s",
        "writes/s",
        "flush/s",
        "read/s",
        "written/s",
        "queue",
        "read p50",
        "write p50",
        "p99",
        "flush p50",
        "seq",
        "late"
    )
}

fn row(statistics: &Statistics) -> String {
    let sequential = share(
        statistics.sequential[0] + statistics.sequential[1],
        statistics.operations[0] + statistics.operations[1],
    );
    let p50 = |kind: usize| time(statistics.latency[kind].quantile_ns(0.5));
    format!(
        "{:>9}{:>9}{:>9}{:>11}{:>11}{:>7.2}{:>10}{:>10}{:>10}{:>10}{:>7}{:>7}\n",
        number::plain(per_s(statistics.operations[0], statistics).round()),
        number::plain(per_s(statistics.operations[1], statistics).round()),
        number::plain(per_s(statistics.operations[2], statistics).round()),
        number::bytes(per_s(statistics.bytes[0], statistics).round()),
        number::bytes(per_s(statistics.bytes[1], statistics).round()),
        depth(statistics),
        p50(0),
        p50(1),
        time(statistics.latency[1].quantile_ns(0.99)),
        p50(2),
        sequential.map_or_else(|| "-".into(), number::percent),
        share(statistics.late, statistics.timed).map_or_else(|| "-".into(), number::percent),
    )
}
