//! `fathom advise` through the binary: what is refused, what is promised and printed, and what
//! stays of it. What is recorded needs root, mkfs.ext4 and /dev/fuse. With `FATHOM_LONG=1` the
//! advice is compared with a full grid that is measured live (`FATHOM_TRACES`, `FATHOM_PRESETS`,
//! `FATHOM_SCALE`: others than the usual).

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use place::{Place, can_serve};
use serde_json::Value;

/// A trace that is short: some seconds of recordings.
fn small(place: &Place, profile: &str, file: &str) {
    place.fathom(&["trace", "synthesise", profile, "--scale", "3", "--out", file]).exits(0);
}

/// A trace of SQL statements.
fn imported(place: &Place, name: &str, sql: &str) {
    place.write(&format!("{name}.sql"), sql);
    let file = format!("{name}.trace");
    place.fathom(&["trace", "import", &format!("{name}.sql"), "--out", &file]).exits(0);
}

fn json(end: &place::End) -> Value {
    serde_json::from_str(&end.exits(0).stdout).unwrap_or_else(|error| panic!("{error}: {end}"))
}

const INSERTS: &str =
    "INSERT INTO t VALUES (1, 'a');\nINSERT INTO t VALUES (2, 'b');\nUPDATE t SET b = 'c' WHERE a = 1;\n";

#[test]
fn what_cannot_be_advised_is_said_and_nothing_is_made() {
    let place = Place::new();
    small(&place, "gmail", "app.trace");
    place.write("text.db", "this is no database, and no trace either");
    imported(&place, "reads", "SELECT 1;\nSELECT 2;\n");
    let quick = ["run", "first-look", "--quick", "--repeat", "1", "--set", "variants=wal/full"];
    let small_run = ["--set", "workload.transactions=5", "--out", "plain.db", "--dir", "."];
    place.fathom(&[&quick[..], &small_run].concat()).exits(0);
    let before = place.files();
    for (words, says) in [
        (&["advise"][..], "TRACE|PROFILE|RESULTS.db"),
        (&["advise", "gmial"], "gmail"),
        (&["advise", "no-such.trace"], "no-such.trace"),
        (&["advise", "text.db"], "text.db"),
        (&["advise", "reads.trace"], "no transaction that writes"),
        (&["advise", "app.trace", "--must", "keep=everything"], "keep=all-but-last"),
        (&["advise", "app.trace", "--must", ""], "keep=all"),
        (&["advise", "app.trace", "--device", "sd-slwo"], "did you mean"),
        (&["advise", "app.trace", "--device", "sd-slow,sd-slow"], "sd-slow is given twice"),
        (&["advise", "app.trace", "--device", "./no.toml"], "no.toml"),
        (&["advise", "app.trace", "--fs", "ext5"], "did you mean `ext4`"),
        (&["advise", "app.trace", "--fs", "ext4,ext4"], "ext4 is given twice"),
        (&["advise", "app.trace", "--fs", "dir"], "no file system"),
        (&["advise", "app.trace", "--dir", "no-such"], "no-such"),
        (&["advise", "app.trace", "--html", "app.trace"], "app.trace"),
        (&["advise", "app.trace", "--html", "plain.db"], "plain.db"),
        (&["advise", "app.trace", "--out", "plain.db"], "name another file"),
        (&["advise", "app.trace", "--json", "--html", "-"], "both would go to standard output"),
        (&["advise", "plain.db", "--fs", "ext4"], "--fs is for traces"),
        (&["advise", "plain.db"], "phases"),
    ] {
        place.fathom(words).exits(2).says(says);
    }
    assert_eq!(place.files(), before);
}

#[test]
fn the_answer_for_a_trace_can_be_pasted_and_a_kept_recording_gives_it_again() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "gmail", "mail.trace");
    let words = ["advise", "mail.trace", "--device", "sd-slow,emmc-51", "--out", "kept.db", "--repeat", "2"];
    let end = place.fathom(&[&words[..], &["--html", "."]].concat());
    end.exits(0);
    for says in [
        "mail: which settings",
        "PRAGMA journal_mode = WAL;",
        "every commit",
        "2 threads",
        "flushes a transaction",
    ] {
        assert!(end.stdout.contains(says), "{says}: {end}");
    }
    let page = String::from_utf8(place.read("mail-advice.html")).unwrap();
    assert!(page.contains("<h1>mail: which settings</h1>") && page.contains("sd-slow"), "{page}");
    // The same from the recording, on other devices too, as often as it is asked.
    let again = ["advise", "kept.db", "--device", "sd-slow,nvme", "--json"];
    let first = place.fathom(&again);
    let advised = json(&first)["advised"].as_array().unwrap().clone();
    assert_eq!(place.fathom(&again).stdout, first.stdout, "the same recording gives the same advice");
    assert_eq!(advised.len(), 2);
    assert_eq!(advised[0]["advised"].as_str().unwrap().split('/').next(), Some("wal"), "{}", advised[0]);
    assert!(
        advised[0]["pragmas"].as_array().unwrap().iter().any(|pragma| pragma == "PRAGMA journal_mode = WAL;")
    );
    // A promise that must not be broken, whatever is faster.
    for (must, allowed) in [
        ("keep=all", &["power-cut"][..]),
        ("keep=all-but-last", &["power-cut", "power-cut-all-but-last"]),
        ("keep=prefix", &["power-cut", "power-cut-all-but-last", "power-cut-prefix"]),
    ] {
        let all = json(&place.fathom(&["advise", "kept.db", "--must", must, "--json"]));
        let advised = all["advised"].as_array().unwrap();
        // Nobody named a device: all presets.
        assert!(advised.len() > 10, "{advised:?}");
        for one in advised {
            let keeps = one["keeps"].as_str().unwrap();
            assert!(allowed.contains(&keeps), "{must}: {one}");
        }
    }
}

#[test]
fn what_an_application_sets_itself_is_what_its_gain_is_told_of() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let own = "PRAGMA journal_mode=WAL;\nPRAGMA synchronous=NORMAL;\nCREATE TABLE t(a, b);\n";
    imported(&place, "own", &format!("{own}{}", INSERTS.repeat(20)));
    let words = ["advise", "own.trace", "--device", "sd-slow", "--repeat", "1", "--json"];
    let all = json(&place.fathom(&words));
    let (baseline, must) = (&all["advice"]["baseline"], &all["advice"]["must"]);
    assert_eq!(
        (&baseline["journal_mode"], &baseline["synchronous"]),
        (&"wal".into(), &"normal".into()),
        "{all}"
    );
    // What it has promises no more than that, and so no more is asked.
    assert_eq!(must, "power-cut-prefix");
    assert!(all["advice"]["baseline_source"].as_str().unwrap().contains("journal_mode"));
    assert!(
        all["advice"]["hints"][0].as_str().unwrap().contains("single statements"),
        "{}",
        all["advice"]["hints"]
    );
    // Nobody else opens it: it may keep the file to itself, which is tried.
    let stronger = json(&place.fathom(&[&words[..], &["--must", "keep=all"]].concat()));
    assert_eq!(stronger["advised"][0]["keeps"], "power-cut", "{stronger}");
}

#[test]
fn several_databases_and_threads_are_said() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "facebook", "news.trace");
    let end = place.fathom(&["advise", "news.trace", "--device", "ufs-fresh", "--repeat", "1"]);
    end.exits(0);
    assert!(end.stdout.contains("several databases") && end.stdout.contains("threads: they meet"), "{end}");
}

/// Without root no device can be modelled: the answer is for the disk, and says what is missing.
#[test]
fn without_root_this_disk_is_answered_and_the_rest_is_said() {
    let place = Place::new();
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP: becomes another user, which needs root");
        return;
    }
    imported(&place, "app", &format!("CREATE TABLE t(a, b);\n{}", INSERTS.repeat(5)));
    std::fs::copy(env!("CARGO_BIN_EXE_fathom"), place.path("fathom")).unwrap();
    let given =
        std::process::Command::new("chown").args(["-R", "65534", "."]).current_dir(place.path("")).status();
    assert!(given.unwrap().success());
    let output = place.as_nobody("TMPDIR=. ./fathom advise app.trace --repeat 1 --json");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["advised"].as_array().unwrap().len(), 1, "{all}");
    assert!(
        all["advised"][0]["device"].is_null() && all["advised"][0]["keeps"] != "power-cut-prefix",
        "{all}"
    );
    let missing = all["advice"]["missing"].to_string();
    assert!(missing.contains("root") && missing.contains("devices"), "{missing}");
    // Who names a device gets no answer for it, and the end says so.
    let named = place.as_nobody("TMPDIR=. ./fathom advise app.trace --repeat 1 --device sd-slow");
    let text = String::from_utf8_lossy(&named.stdout);
    assert_eq!(named.status.code(), Some(1), "{text}");
    assert!(text.contains("Not answered") && text.contains("sd-slow") && text.contains("PRAGMA"), "{text}");
}

#[test]
fn a_signal_leaves_nothing_and_what_a_kill_leaves_is_found() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "gmail", "mail.trace");
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let variable = [("TMPDIR", temporary.to_str().unwrap())];
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    let before = place.files();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let running = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
        running.wait_until(|| left() > 0 && running.listens());
        running.signal(signal);
        let end = running.end();
        assert_ne!(end.code, Some(0), "{end}");
        assert_eq!(left(), 0, "{end}");
        assert_eq!(place.files(), before);
    }
    let killed = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
    killed.wait_until(|| left() > 0);
    let alive = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
    alive.wait_until(|| left() > 1 && alive.listens());
    killed.kill();
    killed.end();
    assert_eq!(left(), 2);
    let end = place.fathom_with(&["stack", "down", "--leftovers"], &variable);
    assert!(end.stdout.contains("a recording"), "{end}");
    assert_eq!(left(), 1, "that of a process which lives stays");
    alive.interrupt();
    alive.end();
    assert_eq!(left(), 0);
}

/// Traces × presets: the setting that is named, against the best of a full grid of journal modes,
/// synchronous settings and page sizes, each measured live on the device, in model time.
#[test]
fn what_is_named_is_what_a_full_live_grid_finds() {
    let place = Place::new();
    if std::env::var_os("FATHOM_LONG").is_none() || !can_serve(&place) {
        println!("SKIP: takes an hour (FATHOM_LONG=1), root, mkfs.ext4 and /dev/fuse");
        return;
    }
    let wanted = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let traces = wanted("FATHOM_TRACES", "androbench,gmail,facebook,kakaotalk,browser,media-scan");
    let presets = wanted(
        "FATHOM_PRESETS",
        "emmc-51,nvme,nvme-protected,sd-sandisk-extreme,sd-samsung-32,sd-slow,ufs-fresh,ufs-fragmented",
    );
    let scale = wanted("FATHOM_SCALE", "25");
    let must = ["power-cut", "power-cut-all-but-last"];
    let mut behind: Vec<(f64, String)> = Vec::new();
    for trace in traces.split(',') {
        let file = format!("{trace}.trace");
        place.fathom(&["trace", "synthesise", trace, "--scale", &scale, "--out", &file]).exits(0);
        let started = std::time::Instant::now();
        let advised = json(&place.fathom(&["advise", &file, "--device", &presets, "--json"]));
        println!("{trace}: advised in {:.0} s", started.elapsed().as_secs_f64());
        for one in advised["advised"].as_array().unwrap() {
            let (device, named) = (one["device"].as_str().unwrap(), one["advised"].as_str().unwrap());
            let words: Vec<&str> = named.split('/').collect();
            let mut grid: Vec<(String, f64)> = Vec::new();
            let mut settings: Vec<[&str; 3]> = Vec::new();
            for journal in ["delete", "truncate", "persist", "wal"] {
                for synchronous in ["full", "extra"] {
                    // EXTRA is another promise with DELETE only.
                    if synchronous == "full" || journal == "delete" {
                        settings.extend(
                            ["1024", "4096", "8192", "16384"].map(|page| [journal, synchronous, page]),
                        );
                    }
                }
            }
            let live = |journal: &str, synchronous: &str, page: &str, more: &[&str]| {
                let out = format!("{trace}-{device}-{journal}-{synchronous}-{page}-{}.db", more.len());
                let sets = [
                    format!("device={device}"),
                    format!("journal_mode={journal}"),
                    format!("synchronous={synchronous}"),
                    format!("page_size={page}"),
                    "filesystem=ext4".into(),
                ];
                let sets = sets.iter().map(String::as_str).chain(more.iter().copied());
                let sets: Vec<&str> = sets.flat_map(|set| ["--set", set]).collect();
                let run = [
                    "run",
                    "journal-modes",
                    "--trace",
                    &file,
                    "--repeat",
                    "2",
                    "--out",
                    &out,
                    "--dir",
                    ".",
                    "--quiet",
                ];
                place.fathom(&[&run[..], &sets].concat()).exits(0);
                let report: Value =
                    serde_json::from_str(&place.fathom(&["report", &out, "--json"]).exits(0).stdout).unwrap();
                let cell = &report["cells"][0];
                assert!(must.contains(&cell["durability"].as_str().unwrap()), "{cell}");
                cell["measures"][0]["model_ns"].as_f64().unwrap()
            };
            for [journal, synchronous, page] in settings {
                let key = format!("{journal}/{synchronous}/{page}");
                grid.push((key, live(journal, synchronous, page, &[])));
            }
            let best = grid.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            // What is named may have settings that the grid has not.
            let of_grid = grid.iter().find(|grid| grid.0 == named).map(|grid| grid.1);
            let ours = of_grid.unwrap_or_else(|| live(words[0], words[1], words[2], &words[3..]));
            let ratio = ours / best.1;
            println!("{trace} {device}: {named}, {ratio:.3} of the best of {}, {}", grid.len(), best.0);
            behind.push((ratio, format!("{trace} {device}")));
        }
    }
    let within = behind.iter().filter(|behind| behind.0 <= 1.05).count();
    println!("{within} of {} cells named the best of the live grid, or one within 5 %", behind.len());
    assert!(within * 100 >= behind.len() * 95, "{behind:?}");
}
