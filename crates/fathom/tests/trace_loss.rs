//! A capture that could not record all.
//!
//! What happened: on a full disk the recording ended and the application went on, as it should.
//! Only the capture said so, with exit code 0: `trace info` showed the trace as any other, and a
//! replay checked that all executions "returned and changed the rows that were captured". The trace
//! itself says now that calls are missing, and so does whatever reads it.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use place::Place;

const LOST: &str = "calls are missing in this trace";

/// Writes five rows and reads as often as it is told, which only the recording needs room for.
const PROGRAM: &str = "
import sqlite3, sys
c = sqlite3.connect('app.db', isolation_level=None)
c.execute('CREATE TABLE IF NOT EXISTS t(a)')
for i in range(5): c.execute('INSERT INTO t VALUES (?)', (i,))
for i in range(int(sys.argv[1])): c.execute('SELECT a FROM t WHERE a = ?', (i,)).fetchall()
print('done')
";

/// Captures the program under a limit on the size of files, which takes room from the recording as
/// a full disk does: Python is deaf to its signal.
fn captured(script: &str) -> Place {
    let place = Place::new();
    place.write("app.py", PROGRAM);
    let words = ["trace", "capture", "--out", "a.trace", "--", "sh", "-c", script];
    let end = place.fathom(&words);
    end.exits(1).says(LOST);
    assert!(end.stdout.contains("done"), "the application goes on: {end}");
    place
}

fn is_told(place: &Place, trace: &str) {
    let info = place.fathom(&["trace", "info", trace]);
    assert!(info.exits(0).stdout.contains(LOST), "{info}");
    let json = place.fathom(&["trace", "info", trace, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
    assert_eq!(json["lost"], 1);
    let replay = place.fathom(&["trace", "replay", "--dir", ".", trace]);
    replay.exits(1).says(LOST);
    let replay = place.fathom(&["trace", "replay", "--dir", ".", trace, "--json"]);
    replay.exits(1);
    let json: serde_json::Value = serde_json::from_str(&replay.stdout).unwrap();
    assert!(json["warnings"].to_string().contains(LOST), "{json}");
}

#[test]
fn a_recording_that_a_full_disk_has_ended_is_told_by_all_that_read_it() {
    let place = captured("ulimit -f 4096; exec python3 app.py 40000");
    is_told(&place, "a.trace");
    place.fathom(&["trace", "anonymise", "a.trace", "--out", "b.trace"]).exits(0);
    is_told(&place, "b.trace");
    // In results, too, and so in all that is made of them.
    place.write(
        "x.toml",
        "name = \"x\"\nrepeats = 1\n[workload]\nname = \"trace\"\n[engine]\nname = \"sqlite\"\n",
    );
    place.fathom(&["run", "x.toml", "--trace", "a.trace", "--quiet", "--out", "r.db"]).exits(0);
    let json = place.fathom(&["report", "r.db", "--json"]);
    assert!(json.exits(0).stdout.contains("alls are missing in this trace"), "{json}");
}

/// Of a process that could not even begin its recording there was no sign at all.
#[test]
fn a_process_of_which_nothing_is_recorded_is_told() {
    let place = captured("python3 app.py 1; trap '' XFSZ; ulimit -f 0; exec python3 app.py 0");
    is_told(&place, "a.trace");
}

/// What happened: who had to be deaf to the signal of too large a file was Python alone. Any other
/// program was ended by the room that its recording took.
#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_and_not_the_program() {
    let place = Place::new();
    let hears = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)";
    place.write("app.py", &format!("{hears}\n{PROGRAM}"));
    let script = "ulimit -f 4096; exec python3 app.py 40000";
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "sh", "-c", script]);
    end.exits(1).says(LOST);
    assert!(end.stdout.contains("done"), "the application goes on: {end}");
}

/// Closes all that it has open, as daemons do, and opens files of its own.
const CLOSING: &str = "
import sqlite3, os
def work(rows):
    c = sqlite3.connect('app.db')
    c.execute('CREATE TABLE IF NOT EXISTS t(a)')
    for i in range(rows): c.execute('INSERT INTO t VALUES (?)', ('x' * 4000,))
    c.commit()
    c.close()
work(1)
os.closerange(3, 64)
own = [os.open('own%d' % i, os.O_RDWR | os.O_CREAT) for i in range(4)]
for descriptor in own: os.write(descriptor, b'begin')
work(300)
print([os.fstat(descriptor).st_size for descriptor in own])
";

/// What happened: the file that the program then had under the recording's number was made as long
/// as the recording, and what was recorded was written over what it held.
#[test]
fn a_program_that_closes_the_recordings_file_keeps_its_own() {
    let place = Place::new();
    place.write("app.py", CLOSING);
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py"]);
    assert!(end.exits(0).stdout.contains("[5, 5, 5, 5]"), "{end}");
    place.fathom(&["trace", "replay", "--dir", ".", "a.trace"]).exits(0);
}

/// What happened: two captures had the same `--out`. The one that ended later was refused the place
/// of the other's trace, and all that it had recorded was removed.
#[test]
fn a_recording_whose_place_was_taken_meanwhile_is_kept() {
    let place = Place::new();
    place.write("app.py", PROGRAM);
    place.fathom(&["trace", "capture", "--out", "first.trace", "--", "python3", "app.py", "1"]).exits(0);
    let script = "python3 app.py 7; mv first.trace a.trace";
    let end = place.fathom(&["trace", "capture", "--out", "a.trace", "--", "sh", "-c", script]);
    end.fails().says("is a capture").says("what was captured is kept");
    let spool = place.files().into_iter().find(|name| name.starts_with(".fathom-spool-")).unwrap();
    place.fathom(&["trace", "import", &spool, "--out", "b.trace"]).exits(0);
    place.fathom(&["trace", "replay", "--dir", ".", "b.trace"]).exits(0);
    place.fathom(&["trace", "info", "a.trace"]).exits(0);
}

#[test]
fn a_whole_recording_says_nothing_of_the_kind() {
    let place = Place::new();
    place.write("app.py", PROGRAM);
    place.fathom(&["trace", "capture", "--out", "a.trace", "--", "python3", "app.py", "1"]).exits(0);
    let info = place.fathom(&["trace", "info", "a.trace"]);
    assert!(!info.exits(0).stdout.contains(LOST), "{info}");
    place.fathom(&["trace", "replay", "--dir", ".", "a.trace"]).exits(0);
}
