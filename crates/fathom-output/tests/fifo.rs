//! What happened: `--html FIFO` without a reader waited in `open`, and the first Ctrl-C and the
//! first SIGTERM did nothing, for a handler had caught them. A test of its own: the wish to stop is
//! the whole process's.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_output::{Access, Output, OutputError, stop_waiting, write};

fn fifo(path: &Path) -> PathBuf {
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path.to_owned()
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    write(path, &[], Access::Public, |out| {
        out.write_all(bytes).map_err(|source| OutputError::Io { path: path.to_owned(), source })
    })
}

#[test]
fn a_fifos_reader_is_waited_for_until_the_wish_to_stop() {
    let place = tempfile::tempdir().unwrap();
    // More than a FIFO holds, to a reader that comes late and takes its time.
    let late = fifo(&place.path().join("late"));
    let all = vec![7; 300_000];
    let reader = std::thread::spawn({
        let late = late.clone();
        move || {
            std::thread::sleep(Duration::from_millis(200));
            let mut file = std::fs::File::open(late).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let mut read = Vec::new();
            file.read_to_end(&mut read).map(|_| read).unwrap()
        }
    });
    put(&late, &all).unwrap();
    assert!(reader.join().unwrap() == all);
    // One reader never comes, and one takes nothing.
    let (never, idle) = (fifo(&place.path().join("never")), fifo(&place.path().join("idle")));
    let open_at_both_ends = std::fs::OpenOptions::new().read(true).write(true).open(&idle).unwrap();
    let mut full = Output::create(&idle, &[], Access::Public).unwrap();
    let waiting = std::thread::spawn({
        let never = never.clone();
        move || put(&never, b"x")
    });
    let filling = std::thread::spawn(move || full.write_all(&[0; 300_000]));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!waiting.is_finished() && !filling.is_finished());
    let begin = Instant::now();
    stop_waiting();
    assert!(waiting.join().unwrap().unwrap_err().to_string().contains("before anybody read it"));
    assert!(filling.join().unwrap().unwrap_err().to_string().contains("stopped by a signal"));
    assert!(begin.elapsed() < Duration::from_secs(60));
    drop(open_at_both_ends);
}
