//! What `fathom stack up` costs where a guest has the file system: each operation through the mount
//! on this machine, beside the same in the guest itself, in turns. Needs root and a guest kernel:
//! `cargo bench -p fathom --bench relay [-- FILESYSTEM DEVICE]`.

#![allow(clippy::unwrap_used, reason = "a measurement that fails is to end")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_stack::{Stack, StackSpec, Stacks};
use rusqlite::Connection;

const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
const ROUNDS: usize = 15;
/// Operations in one measurement: a look at the clock costs a guest as much as they do.
const OPERATIONS: u64 = 40;
const LIMIT: Duration = Duration::from_secs(60);

fn timed(mut operation: impl FnMut(u64)) -> f64 {
    let begin = Instant::now();
    (0..OPERATIONS).for_each(&mut operation);
    begin.elapsed().as_secs_f64() * 1e6 / OPERATIONS as f64
}

fn commits(directory: &Path, mode: &str) -> f64 {
    let path = directory.join(format!("{mode}.db"));
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full")).unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, text)").unwrap();
    timed(|_| {
        connection.execute("INSERT INTO t(text) VALUES(hex(randomblob(50)))", []).unwrap();
    })
}

/// Each operation's time in this directory, µs.
fn measured(directory: &Path) -> Vec<(&'static str, f64)> {
    let at = |name: &str| directory.join(name);
    let file = File::options().create(true).truncate(false).read(true).write(true).open(at("file")).unwrap();
    file.set_len(4096 * OPERATIONS).unwrap();
    let block = [1; 4096];
    let write = timed(|i| file.write_all_at(&block, i * 4096).unwrap());
    file.sync_all().unwrap();
    let synced = timed(|i| {
        file.write_all_at(&block, i * 4096).unwrap();
        file.sync_data().unwrap();
    });
    let mut room = [0; 4096];
    let read = timed(|i| file.read_exact_at(&mut room, i * 4096).unwrap());
    vec![
        ("open and close", timed(|_| drop(File::open(at("file")).unwrap()))),
        ("make and remove a file", {
            timed(|_| {
                File::create(at("new")).unwrap();
                fs::remove_file(at("new")).unwrap();
            })
        }),
        ("read 4 KiB that was read before", read),
        ("write 4 KiB", write),
        ("write 4 KiB and fdatasync", synced),
        ("SQLite commit, DELETE", commits(directory, "delete")),
        ("SQLite commit, WAL", commits(directory, "wal")),
    ]
}

fn in_guest(stack: &mut Stack, directory: &Path) -> Vec<f64> {
    let this = std::env::current_exe().unwrap();
    let words = ["inside".into(), directory.as_os_str().to_owned()];
    let (said, complaints) = stack.run_in_guest(&this, words, LIMIT).unwrap();
    let times: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(!times.is_empty(), "{said} {complaints}");
    times
}

fn median(mut all: Vec<f64>) -> (f64, f64, f64) {
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize];
    (at(0.5), at(0.1), at(0.9))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [word, directory] = &words[..]
        && word == "inside"
    {
        measured(Path::new(directory)).iter().for_each(|(_, us)| println!("{us:.2}"));
        return;
    }
    let filesystem = words.first().map_or("f2fs", String::as_str);
    let device = words.get(1).map_or("none", String::as_str);
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = place.path().display().to_string();
    let name = format!("relay-bench-{}", std::process::id());
    let up =
        ["stack", "up", "--guest", "--fs", filesystem, "--device", device, "--size", "192", "--name", &name];
    let up = Command::new(FATHOM).args(up).args(["--dir", &directory]).output().unwrap();
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    let work = PathBuf::from(String::from_utf8_lossy(&up.stdout).trim());
    let spec = StackSpec {
        place: filesystem.into(),
        device: Some(device.into()),
        size_mib: 192,
        directory: Some(place.path().into()),
        guest: true,
        ..StackSpec::default()
    };
    let mut stack = Stacks::here().with_program(FATHOM.into()).up(&spec, "relay-bench").unwrap();
    let inside = stack.path().to_path_buf();
    let names: Vec<_> = measured(&work).into_iter().map(|measured| measured.0).collect();
    in_guest(&mut stack, &inside);
    let (mut outer, mut inner) = (vec![Vec::new(); names.len()], vec![Vec::new(); names.len()]);
    for _ in 0..ROUNDS {
        let (here, there) = (measured(&work), in_guest(&mut stack, &inside));
        for (place, ((_, here), there)) in here.into_iter().zip(there).enumerate() {
            outer[place].push(here);
            inner[place].push(there);
        }
    }
    println!(
        "{filesystem} on {device}, {ROUNDS} rounds of {OPERATIONS} in turns: median [10th, 90th percentile], us"
    );
    for ((name, outer), inner) in names.into_iter().zip(outer).zip(inner) {
        let more = median(outer.iter().zip(&inner).map(|(outer, inner)| outer - inner).collect());
        let ((outer, ..), (inner, ..)) = (median(outer), median(inner));
        println!(
            "{name:34} mount {outer:8.1}   guest {inner:8.1}   more {:8.1} [{:.1}, {:.1}]",
            more.0, more.1, more.2
        );
    }
    stack.down().unwrap();
    assert!(Command::new(FATHOM).args(["stack", "down", &name]).status().unwrap().success());
}
