//! What capture costs an application: commits of one row each by a C program with the system's
//! libsqlite3, alone and captured, in pairs of alternating order.
//!
//! `cargo bench -p fathom-trace --bench capture_overhead -- [DIRECTORY [PAIRS [SPOOL_DIRECTORY]]]`;
//! the directory is on the disk under test. `synchronous=off` is shown as the worst case: what
//! capture costs where nothing waits for a device.

use std::path::{Path, PathBuf};
use std::process::Command;

use fathom_trace::capture::{Request, capture};

/// Journal mode, synchronous, commits of one run: short, so that a device whose speed drifts is the
/// same for both of a pair.
const CELLS: [(&str, &str, u32); 4] =
    [("wal", "full", 400), ("delete", "full", 200), ("wal", "off", 10_000), ("delete", "off", 2_000)];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let directory = tempfile::tempdir_in(words.first().map_or(".", String::as_str)).expect("a directory");
    let pairs: u32 = words.get(1).map_or(41, |word| word.parse().expect("a number of pairs"));
    let spool = words.get(2).map(PathBuf::from);
    let Some(program) = build(directory.path()) else { return };
    println!("journal  sync  commits   alone µs  captured µs   ratio, median of {pairs} pairs [95 %]");
    for (journal, synchronous, commits) in CELLS {
        let mut ratios = Vec::new();
        let (mut alone_ns, mut captured_ns) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let run = |is_captured: bool| {
                one(&program, directory.path(), journal, synchronous, commits, is_captured.then_some(&spool))
            };
            let (alone, captured) = if pair % 2 == 0 {
                let alone = run(false);
                (alone, run(true))
            } else {
                let captured = run(true);
                (run(false), captured)
            };
            ratios.push(captured / alone);
            alone_ns.push(alone / f64::from(commits));
            captured_ns.push(captured / f64::from(commits));
        }
        // The interval of the median by order statistics: binomial, p = 1/2, which asks nothing of
        // the distribution.
        let beyond = (f64::from(pairs) / 2.0 - 0.98 * f64::from(pairs).sqrt()).max(0.0) as usize;
        let ratio = median(&mut ratios);
        println!(
            "{journal:7}  {synchronous:4}  {commits:7}  {:9.2}  {:11.2}   {:.4} [{:.4}, {:.4}]",
            median(&mut alone_ns) / 1e3,
            median(&mut captured_ns) / 1e3,
            ratio,
            ratios[beyond],
            ratios[ratios.len() - 1 - beyond]
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One run; gives ns.
fn one(
    program: &Path,
    directory: &Path,
    journal: &str,
    synchronous: &str,
    commits: u32,
    captured: Option<&Option<PathBuf>>,
) -> f64 {
    let (database, result, trace) = (directory.join("a.db"), directory.join("ns"), directory.join("a.trace"));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(directory.join(format!("a.db{suffix}")));
    }
    let commits_word = commits.to_string();
    let words = [
        database.as_os_str(),
        journal.as_ref(),
        synchronous.as_ref(),
        commits_word.as_ref(),
        result.as_os_str(),
    ];
    match captured {
        None => assert!(Command::new(program).args(words).status().expect("runs").success()),
        Some(spool) => {
            let command = std::iter::once(program.as_os_str()).chain(words).map(Into::into).collect();
            let captured = capture(&Request { command, out: trace, spool: spool.clone() }, &mut |_| ())
                .expect("captured");
            assert!(captured.status.success());
            // Of each commit three binds, a step and a reset.
            assert!(captured.merged.events > u64::from(commits) * 5, "{:?}", captured.merged);
        }
    }
    std::fs::read_to_string(result).expect("a result").trim().parse().expect("a number")
}

/// Compiles the program; none, with the reason, where there is no shared libsqlite3.
fn build(directory: &Path) -> Option<PathBuf> {
    let program = directory.join("durable_commits");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/durable_commits.c");
    let status = Command::new("cc")
        .args(["-O2", "-I", env!("FATHOM_SQLITE_INCLUDE"), "-o"])
        .arg(&program)
        .arg(source)
        .arg("-l:libsqlite3.so.0")
        .status();
    match status {
        Ok(status) if status.success() => Some(program),
        other => {
            println!(
                "skipped: the program could not be linked with libsqlite3.so.0 ({other:?}); apt-get install libsqlite3-0 gcc"
            );
            None
        }
    }
}
