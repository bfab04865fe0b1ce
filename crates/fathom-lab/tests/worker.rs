//! Real worker processes: good ones, killed ones, and ones that talk nonsense.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_lab::conduct::{Request, RunError, prepare, run};
use fathom_lab::experiment::Selection;
use fathom_lab::schedule::{Interrupt, Local, Summary};
use fathom_lab::store::{Results, RunStatus};

const WORKER: &str = env!("CARGO_BIN_EXE_fathom-worker");

const SOURCE: &str = r#"
name = "small"
repeats = 3

[workload]
name = "update"
rows = 1000
points = 5
ranges = [100]

[engine]
name = "sqlite"

[matrix]
"engine.journal_mode" = ["delete", "wal"]

[[headline]]
phase = "insert"
axis = "engine.journal_mode"
baseline = "delete"
"#;

struct Bench {
    directory: tempfile::TempDir,
    request: Request,
    interrupt: Interrupt,
}

fn bench(source: &str) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("disk")).unwrap();
    let request = Request {
        source_name: "small.toml".into(),
        source: source.into(),
        selection: Selection::default(),
        directory: directory.path().join("disk"),
        out: directory.path().join("results.db"),
        command: "fathom run small.toml".into(),
        ..Request::default()
    };
    Bench { directory, request, interrupt: Interrupt::new() }
}

impl Bench {
    fn run(&self, worker: &[&str]) -> Result<Summary, RunError> {
        let worker = worker.iter().map(OsString::from).collect();
        let mut world = Local::with_worker(self.request.directory.clone(), self.interrupt.clone(), worker);
        run(&self.request, prepare(&self.request)?, &mut world, &mut |_| {})
    }

    /// A worker that is a shell script; `$n` counts the runs from 1.
    fn script(&self, script: &str) -> PathBuf {
        let path = self.directory.path().join("worker.sh");
        let count = self.directory.path().join("count");
        let text = format!(
            "n=$(($(cat {count} 2>/dev/null || echo 0) + 1)); echo $n > {count}\n{script}\n",
            count = count.display()
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs with a script as worker, which in turn may run the real one.
    fn run_script(&self, script: &str) -> Summary {
        let path = self.script(script);
        // Read by a shell, not executed: a child that another test forks just now may have the
        // script open for writing.
        self.run(&["/bin/sh", path.to_str().unwrap()]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn results(&self) -> Results {
        Results::load(&self.request.out).unwrap()
    }

    fn nothing_left(&self) {
        let left: Vec<_> = std::fs::read_dir(&self.request.directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// A script that breaks its second run in some way and does the others well.
fn second(breaking: &str) -> String {
    format!("if [ $n = 2 ]; then {breaking}; fi\nexec {WORKER}")
}

fn one_failed(summary: &Summary, bench: &Bench) -> String {
    assert_eq!((summary.done, summary.failed.len(), summary.missing), (5, 1, 0), "{summary:?}");
    let results = bench.results();
    assert_eq!(results.failed_runs().count(), 1);
    assert!(results.experiment.finished_ms.is_some());
    bench.nothing_left();
    summary.failed[0].1.clone()
}

#[test]
fn good_workers_fill_the_results() {
    let bench = bench(SOURCE);
    let summary = bench.run(&[WORKER]).unwrap();
    assert_eq!((summary.done, summary.failed.len()), (6, 0), "{summary:?}");
    bench.nothing_left();
    let results = bench.results();
    assert_eq!(results.runs.len(), 6);
    for row in &results.runs {
        assert_eq!(row.status, RunStatus::Done);
        assert!(row.floor_ns.is_some_and(|ns| ns > 0));
        assert!(row.max_rss_bytes.is_some_and(|byte| byte > 1 << 20));
        assert!(row.elapsed_ns > 0 && row.engine.is_some() && !row.parameters.is_empty());
    }
    assert!(results.cells.iter().all(|cell| cell.durability.is_some()));
    assert!(results.environment.contains_key("kernel") && results.environment.contains_key("sqlite_options"));
    assert!(!results.verified.is_empty() && !results.io.is_empty());
    // Runs of one block work on the same data.
    let seeds = |cell| results.good_runs(cell).map(|run| run.seed).collect::<Vec<_>>();
    assert_eq!(seeds(1), seeds(2));
    // Without --resume they are not touched again, and with it there is nothing to do.
    let again = bench.run(&[WORKER]).unwrap_err();
    assert!(again.asked_wrongly() && again.to_string().contains("does not overwrite"), "{again}");
}

#[test]
fn a_killed_worker_is_a_failed_run_and_resume_repeats_it() {
    let mut bench = bench(SOURCE);
    let message = one_failed(&bench.run_script(&second("kill -9 $$")), &bench);
    assert!(message.starts_with("the worker was killed (signal 9)"), "{message}");
    bench.request.resume = true;
    let summary = bench.run(&[WORKER]).unwrap();
    assert_eq!((summary.done, summary.failed.len()), (1, 0));
    assert_eq!(bench.results().failed_runs().count(), 0);
    assert_eq!(bench.results().runs.len(), 6);
}

#[test]
fn a_crash_garbage_silence_and_an_exit_code_are_told_in_words() {
    for (breaking, expected) in [
        ("kill -11 $$", "the worker crashed (signal 11, segmentation fault)"),
        ("echo 'Segmentation fault'", "the worker wrote what is no event: \"Segmentation fault\""),
        ("printf '\\000\\377\\n'", "the worker wrote what is no event: \"\\0\u{fffd}\""),
        ("echo oh no >&2; exit 7", "the worker ended with exit code 7; it said: oh no"),
        ("exit 0", "the worker ended without saying that it was done"),
        ("echo '{\"event\":\"failed\",\"message\":\"disk on fire\"}'; exit 1", "disk on fire"),
    ] {
        let bench = bench(SOURCE);
        let message = one_failed(&bench.run_script(&second(breaking)), &bench);
        assert_eq!(message, expected, "{breaking}");
    }
}

#[test]
fn a_worker_that_hangs_is_ended_at_its_time_limit() {
    let source = SOURCE.replace("repeats = 3", "repeats = 1");
    // The limit is for the run that hangs. A machine that is busy with other things may bring the
    // other one to it, too: then a longer one is tried.
    let mut tried = [4, 20, 80].into_iter().map(|limit_s| {
        let mut bench = bench(&source);
        bench.request.time_limit = Some(Duration::from_secs(limit_s));
        let summary = bench.run_script(&second("sleep 600"));
        (limit_s, bench, summary)
    });
    let (limit_s, bench, summary) =
        tried.find(|(limit_s, _, summary)| summary.failed.len() < 2 || *limit_s == 80).unwrap();
    assert_eq!((summary.done, summary.failed.len()), (1, 1), "{summary:?}");
    let told = format!("longer than its time limit of {limit_s} s");
    assert!(summary.failed[0].1.contains(&told), "{}", summary.failed[0].1);
    bench.nothing_left();
}

#[test]
fn what_a_dead_worker_started_does_not_hold_the_lab_up() {
    let bench = bench(SOURCE);
    let begin = Instant::now();
    let message = one_failed(&bench.run_script(&second("sleep 600 & kill -9 $$")), &bench);
    assert!(message.starts_with("the worker was killed"), "{message}");
    assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", begin.elapsed());
}

#[test]
fn a_worker_that_cannot_be_started_is_told() {
    let bench = bench(&SOURCE.replace("repeats = 3", "repeats = 1"));
    let summary = bench.run(&["/nonexistent/fathom", "worker"]).unwrap();
    assert_eq!(summary.failed.len(), 2);
    assert!(
        summary.failed[0].1.starts_with("the worker /nonexistent/fathom cannot be started: "),
        "{summary:?}"
    );
}

#[test]
fn stopping_ends_the_worker_cleans_up_and_keeps_what_is_finished() {
    let mut bench = bench(SOURCE);
    let flag = bench.interrupt.clone();
    let count = bench.directory.path().join("count");
    // Ctrl-C while the third run is going on.
    let user = std::thread::spawn(move || {
        let begin = Instant::now();
        while std::fs::read_to_string(&count).unwrap_or_default().trim() != "3" {
            assert!(begin.elapsed() < Duration::from_secs(300));
            std::thread::sleep(Duration::from_millis(5));
        }
        flag.raise();
    });
    let summary = bench.run_script(&format!("if [ $n = 3 ]; then sleep 600; fi\nexec {WORKER}"));
    user.join().unwrap();
    assert_eq!((summary.done, summary.missing, summary.interrupted), (2, 4, true));
    bench.nothing_left();
    assert_eq!(bench.results().experiment.finished_ms, None);
    bench.interrupt = Interrupt::new();
    bench.request.resume = true;
    let summary = bench.run(&[WORKER]).unwrap();
    assert_eq!((summary.done, summary.missing, summary.interrupted), (4, 0, false));
    assert_eq!(bench.results().runs.len(), 6);
    assert!(bench.results().experiment.finished_ms.is_some());
}

#[test]
fn resuming_without_results_or_with_another_plan_is_refused() {
    let mut bench = bench(SOURCE);
    bench.request.resume = true;
    let error = bench.run(&[WORKER]).unwrap_err();
    assert!(error.asked_wrongly() && error.to_string().contains("leave out `--resume`"), "{error}");
    bench.request.resume = false;
    bench.run(&["/bin/false"]).unwrap();
    bench.request.resume = true;
    bench.request.seed = Some(77);
    let error = bench.run(&[WORKER]).unwrap_err();
    assert!(error.asked_wrongly() && error.to_string().contains("--seed 1, not 77"), "{error}");
}

#[test]
fn an_order_that_is_none_is_refused() {
    let ask = |text: &str| {
        use std::io::Write;
        let mut worker = std::process::Command::new(WORKER)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        worker.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = worker.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ask("").starts_with(r#"{"event":"failed","message":"the order on stdin is not one"#));
    let order = r#"{"protocol":99,"cell":{"workload":{"name":"update"},"stack":{},"axes":{}},"seed":1,"directory":"/"}"#;
    assert!(ask(order).contains("protocol 99"), "{}", ask(order));
    // What happened: one that this worker cannot read was "not one", and not of another version.
    assert!(ask(r#"{"protocol":99,"cells":[]}"#).contains("it was asked in protocol 99"));
    let order = order
        .replace("99", &fathom_lab::event::PROTOCOL.to_string())
        .replace("\"seed\"", "\"cpus\":[1000],\"seed\"");
    assert!(ask(&order).contains("cannot be pinned"), "{}", ask(&order));
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_runs() {
    let mut bench = bench(SOURCE);
    bench.request.out = Path::new("/proc/nowhere/results.db").into();
    let error = bench.run(&[WORKER]).unwrap_err();
    assert!(!error.asked_wrongly() && error.to_string().contains("cannot be written"), "{error}");
    bench.nothing_left();
}
