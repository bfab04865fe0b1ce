//! Runs on another machine, which is this one behind a real OpenSSH server on loopback. Skipped
//! where there is no sshd.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;
mod sshd;

use std::time::{Duration, Instant};

use fathom_random::Random;
use place::{End, Place, lives};
use sshd::Server;

const MINE: &str = r#"name = "mine"
title = "Mine"
repeats = 2

[workload]
name = "mobibench-sql"
transactions = 200
tables = 1

[engine]
name = "sqlite"

[matrix]
"engine.journal_mode" = ["delete", "wal"]

[[figure]]
id = "F1"
kind = "bars"
title = "Rates"
see = "which machine is faster"
phases = ["insert"]
by = "engine.journal_mode"
"#;

/// How long a killed client's runs may take to be gone, on a busy machine.
const CLEAN: Duration = Duration::from_secs(90);

fn fathom(place: &Place, server: &Server, words: &[&str]) -> End {
    place.fathom_with(words, &[("FATHOM_SSH_CONFIG", &server.config())])
}

#[test]
fn a_run_over_ssh_is_as_at_home_and_leaves_the_pushed_program_only() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    let first = fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"]);
    first.exits(0).says("pushing fathom");
    assert!(first.stderr.contains("on ssh:board"), "{first}");
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "4");
    assert_eq!(place.rows("r.db", "SELECT value FROM environment WHERE key = 'machine'"), "ssh:board");
    server.is_clean_within(CLEAN);
    // Without --on it would go on at home, in the same table.
    fathom(&place, &server, &["run", "mine.toml", "--out", "r.db", "--resume"]).exits(2).says("differ");
    let again = fathom(&place, &server, &["doctor", "--on", "ssh:board", "--json"]);
    again.exits(0);
    assert!(!again.stderr.contains("pushing"), "by its content it is there already: {again}");
    assert!(again.stdout.contains("\"drop-caches\""), "{again}");
}

/// What stood behind "Next:" ran at home.
#[test]
fn what_to_run_next_is_for_the_same_machines() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let work = server.path("a card");
    std::fs::create_dir(&work).unwrap();
    let there = format!("ssh:board:{}", work.display());
    let quoted = format!("'local,{there}'");
    let both = format!("local,{there}");
    for (out, machines, again) in
        [("r.db", "ssh:board", " --on ssh:board "), ("b.db", &*both, &*format!(" --on {quoted} "))]
    {
        let words = [
            "run",
            "first-look",
            "--repeat",
            "1",
            "--set",
            "variants=wal/off",
            "--on",
            machines,
            "--out",
            out,
        ];
        let end = fathom(&place, &server, &words);
        end.exits(0);
        let next = end.stdout.lines().find(|line| line.starts_with("Next:"));
        let next = next.unwrap_or_else(|| panic!("it names nothing next: {end}"));
        assert!(next.contains(&format!("fathom run journal-modes --quick{again}")), "{next}");
    }
    let words = ["run", "first-look", "--repeat", "1", "--set", "variants=wal/off", "--on", "local"];
    let end = fathom(&place, &server, &words);
    assert!(!end.exits(0).stdout.contains("--quick --on"), "{end}");
    server.is_clean_within(CLEAN);
}

#[test]
fn two_machines_are_compared_in_one_table_and_one_figure() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    let work = server.path("it's a $(touch card)");
    std::fs::create_dir(&work).unwrap();
    let machine = format!("ssh:board:{}", work.display());
    let words = ["run", "mine.toml", "--on", "local", "--on", &machine, "--out", "r.db"];
    let end = fathom(&place, &server, &words);
    end.exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "8");
    let has = |mode: &str, machine: &str| {
        end.stdout.lines().any(|line| line.trim_start().starts_with(mode) && line.contains(machine))
    };
    assert!(has("WAL", " local ") && has("WAL", " ssh:board:") && has("DELETE", " ssh:board:"), "{end}");
    // Of noisy runs other comparisons may be said first; the report has all.
    let page = String::from_utf8(place.read("r.html")).unwrap();
    assert!(page.contains("against local"), "{end}");
    let figure = fathom(&place, &server, &["report", "r.db", "--figure", "F1", "--svg", "f.svg"]);
    figure.exits(0);
    let svg = String::from_utf8(place.read("f.svg")).unwrap();
    assert!(svg.contains("ssh:board") && svg.contains("local"), "{svg}");
    assert!(!place.path("card").exists());
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "nothing stays in the directory under test");
    server.is_clean_within(CLEAN);
}

#[test]
fn what_a_cell_names_of_files_here_is_pushed_once() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "5", "--out", "my trace.trace"]).exits(0);
    for _ in 0..2 {
        let words = ["trace", "replay", "my trace.trace", "--on", "ssh:board", "--set", "journal_mode=wal"];
        let end = fathom(&place, &server, &words);
        end.exits(0);
        assert!(end.stdout.contains("a second"), "{end}");
    }
    let here = fathom(
        &place,
        &server,
        &["trace", "replay", "my trace.trace", "--dir", ".", "--set", "journal_mode=wal"],
    );
    let checked = |end: &End| {
        end.stdout.lines().filter(|line| line.starts_with("checked")).map(str::to_owned).collect::<Vec<_>>()
    };
    let there = fathom(
        &place,
        &server,
        &["trace", "replay", "my trace.trace", "--on", "ssh:board", "--set", "journal_mode=wal"],
    );
    assert_eq!(checked(&here), checked(&there), "the same databases");
    place.write("mine.toml", MINE);
    let mut words = vec![
        "run",
        "mine.toml",
        "--on",
        "ssh:board",
        "--repeat",
        "1",
        "--trace",
        "my trace.trace",
        "--out",
        "t.db",
    ];
    let library = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
    let there_too = format!("remote:{library},bundled");
    let libraries = std::path::Path::new(library).exists();
    if libraries {
        words.extend(["--sqlite", &there_too]);
    }
    fathom(&place, &server, &words).exits(0);
    let files = std::fs::read_dir(server.path("cache dir/fathom/files")).unwrap().count();
    assert_eq!(files, 2, "the program and the trace, each once");
    // A replay's was looked for there, where another one, or none, lay by its name.
    if libraries {
        for (setting, pushed) in
            [(format!("library=remote:{library}"), 2), (format!("engine.library={library}"), 3)]
        {
            let words = ["trace", "replay", "my trace.trace", "--on", "ssh:board", "--set", &setting];
            fathom(&place, &server, &words).exits(0);
            let files = std::fs::read_dir(server.path("cache dir/fathom/files")).unwrap().count();
            assert_eq!(files, pushed, "{setting}");
        }
    }
    if libraries {
        let both = format!("{library},bundled");
        let words =
            ["run", "mine.toml", "--on", "ssh:board", "--repeat", "1", "--sqlite", &both, "--out", "l.db"];
        fathom(&place, &server, &words).exits(0);
        let files = std::fs::read_dir(server.path("cache dir/fathom/files")).unwrap().count();
        assert_eq!(files, 3, "and the library");
    }
    server.is_clean_within(CLEAN);
}

#[test]
fn advice_is_recorded_on_another_machine_and_names_it() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "androbench", "--scale", "1", "--out", "app.trace"]).exits(0);
    let mut words = vec!["advise", "app.trace", "--on", "ssh:board", "--repeat", "1", "--out", "r.db"];
    if mounted(&place) {
        words.extend(["--device", "ufs-fresh"]);
    }
    let end = fathom(&place, &server, &words);
    end.exits(0);
    let is_named =
        ["recordings on ssh:board", "the disk of ssh:board"].iter().any(|words| end.stdout.contains(words));
    assert!(is_named && end.stdout.contains("PRAGMA"), "{end}");
    assert_eq!(place.rows("r.db", "SELECT value FROM environment WHERE key = 'machine'"), "ssh:board");
    server.is_clean_within(CLEAN);
}

/// A stack with a mount and a modelled device, so that there is much to clean up.
fn mounted(place: &Place) -> bool {
    let list = place.fathom(&["list", "filesystems", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let all = listed["filesystems"].as_array().unwrap();
    all.iter().any(|as_array| {
        as_array["filesystem"] == "ext4" && as_array["present"] == true && as_array["in_guest"] != true
    })
}

/// The same of a test that is nothing without it: it is told why.
fn can_mount(place: &Place) -> bool {
    let can = mounted(place);
    if !can {
        println!("SKIP: no ext4 to mount here (root, mkfs.ext4)");
    }
    can
}

fn experiment(place: &Place) -> String {
    let stack = if mounted(place) {
        "\n[stack]\nfilesystem = \"ext4\"\nsize_mib = 64\ndevice = \"sd-slow\"\n"
    } else {
        ""
    };
    let table = "\n[matrix]";
    MINE.replace("transactions = 200", "transactions = 20").replacen(table, &format!("{stack}{table}"), 1)
}

/// Floor, strain, load and every request that reaches the device are told of the other machine as
/// of this one.
#[test]
fn what_reaches_the_device_there_is_traced_as_here() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    if !can_mount(&place) {
        return;
    }
    place.write("mine.toml", &experiment(&place));
    let words = ["run", "mine.toml", "--on", "local,ssh:board", "--repeat", "1", "--set", "blocks=true"];
    fathom(&place, &server, &[&words[..], &["--out", "r.db"]].concat()).exits(0);
    let known = "SELECT count(*) FROM run WHERE floor_ns > 0 AND load IS NOT NULL AND device IS NOT NULL \
                 AND involuntary_switches IS NOT NULL AND status = 'done'";
    assert_eq!(place.rows("r.db", known), "4");
    // What a commit writes and flushes is the same wherever it runs, up to what a timer writes.
    let of = |machine: &str, what: &str| -> f64 {
        let query = format!(
            "SELECT {what} FROM block JOIN run ON run.id = block.run JOIN cell ON cell.id = run.cell \
             WHERE phase = 'insert' AND cell.label LIKE '%{machine}%'"
        );
        place.rows("r.db", &query).parse().unwrap_or_else(|_| panic!("{machine}: {what} is not known"))
    };
    // Where a log lies that grows is looked at meanwhile, on a busy machine later: what came before
    // has no cause.
    for (what, most) in [
        ("sum(op = 'flush')", 0.1),
        ("sum(bytes * (cause = 'wal'))", 0.5),
        ("sum(bytes * (cause = 'rollback-journal'))", 0.1),
        ("sum(bytes * (cause = 'file-system-journal'))", 0.1),
    ] {
        let (here, there) = (of("local", what), of("ssh:board", what));
        assert!(here > 0.0 && (there / here - 1.0).abs() < most, "{what}: {here} here, {there} there");
    }
    server.is_clean_within(CLEAN);
}

/// With `--on` nothing was tried, not even of the cells of this machine, and nothing said so.
#[test]
fn what_a_power_cut_leaves_is_tried_of_this_machines_cells_and_told_of_the_others() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    let words = ["run", "mine.toml", "--on", "local,ssh:board", "--repeat", "1", "--out", "r.db"];
    let cut = [
        "--set",
        "engine.journal_mode=wal",
        "--set",
        "instruments.power_cut=true",
        "--set",
        "instruments.power_cut_states=20",
    ];
    fathom(&place, &server, &[&words[..], &cut].concat()).exits(0);
    let of = |machine: &str, what: &str| {
        let query = format!(
            "SELECT {what} FROM power_cut JOIN cell ON cell.id = power_cut.cell WHERE label LIKE '%{machine}%'"
        );
        place.rows("r.db", &query)
    };
    assert_eq!(of("ssh:board", "count(*)"), "1");
    assert!(of("ssh:board", "problem").contains("not on ssh:board"), "{}", of("ssh:board", "problem"));
    assert_eq!(of("local", "count(*)"), "1");
    assert!(!of("local", "problem").contains("--on"), "{}", of("local", "problem"));
    server.is_clean_within(CLEAN);
}

#[test]
fn a_lost_connection_fails_the_run_with_its_reason_and_the_rest_goes_on() {
    let Some(mut server) = Server::start() else { return };
    let place = Place::new();
    place.write(
        "mine.toml",
        &MINE.replace("transactions = 200", "transactions = 4000").replace("repeats = 2", "repeats = 1"),
    );
    let config = server.config();
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "r.db", "--quiet"];
    let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
    running.wait_until(|| server.processes().iter().any(|words| words.contains("worker")));
    server.cut();
    let end = running.end();
    end.exits(1).says("the connection to ssh:board was lost");
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1", "{end}");
    server.is_clean_within(CLEAN);
    fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db", "--resume"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "2");
    // A machine that does not come back ends the whole, in words, and what is there is kept.
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "s.db", "--quiet"];
    let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
    running.wait_until(|| server.processes().iter().any(|words| words.contains("worker")));
    server.stop();
    server.cut_all();
    running.end().exits(1).says("--resume");
}

/// What happened: a network that was gone for a minute was noticed here by ssh after 45 s, and by
/// the agent there only after 90: until then its worker went on beside that of the next run.
#[test]
fn an_agent_that_has_not_noticed_its_lost_connection_ends_before_the_next_run_begins() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let long = MINE.replace("transactions = 200", "transactions = 1000000");
    place.write("mine.toml", &long.replace("repeats = 2", "repeats = 1"));
    let config = server.config();
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "r.db", "--quiet"];
    let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
    let workers = || -> Vec<i32> {
        let all = server.processes().into_iter().filter(|words| words.contains(" worker"));
        all.map(|words| words.split(':').next().unwrap().parse().unwrap()).collect()
    };
    running.wait_until(|| !workers().is_empty());
    let first = workers();
    // Whoever hands the connection on stands still, so that nobody there learns of its end.
    server.signal_sessions(libc::SIGSTOP);
    let ssh = running.wait_for_child("-T");
    // SAFETY: kill takes no pointers; it is a child of a child that has not been waited for.
    unsafe { libc::kill(ssh, libc::SIGKILL) };
    running.wait_until(|| workers().iter().any(|worker| !first.contains(worker)));
    assert!(first.iter().all(|worker| !lives(*worker)), "{:?}", server.processes());
    running.interrupt();
    running.end().ends_by(libc::SIGINT);
    server.signal_sessions(libc::SIGKILL);
    server.is_clean_within(CLEAN);
}

/// Ctrl-C while a file system was being made there ended the connection, and the run was written
/// down as one that had failed: "stopped by a signal".
#[test]
fn ctrl_c_while_a_stack_is_made_there_leaves_nothing_and_no_failed_run() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    if !can_mount(&place) {
        return;
    }
    place.write("mine.toml", &experiment(&place));
    // The program is there, so that what is under way is the stack.
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
    let config = server.config();
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"];
    let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
    // Whoever looks too late stops the first run: that is no failed one, either.
    running.wait_until_soon(|| {
        server.processes().iter().any(|words| words.contains("mke2fs") || words.contains(" worker"))
    });
    running.interrupt();
    let end = running.end();
    end.ends_by(libc::SIGINT).says("Stopping: ");
    assert!(!end.stderr.contains("failed") && !end.stdout.contains("failed"), "{end}");
    server.is_clean_within(CLEAN);
    // Who looked later still stopped the next one.
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status <> 'done'"), "0", "{end}");
    fathom(&place, &server, &[&words[..], &["--resume"]].concat()).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "4");
    server.is_clean_within(CLEAN);
}

/// A killed ssh client left the worker, its mounts and its device's server on the board for good:
/// nobody there noticed.
#[test]
fn a_client_that_is_killed_at_any_moment_leaves_nothing() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", &experiment(&place));
    let config = server.config();
    // The first brings the program; killed while that is under way it leaves no half of it.
    let moments: u32 = std::env::var("FATHOM_KILLS").ok().and_then(|word| word.parse().ok()).unwrap_or(4);
    let seed = std::env::var("FATHOM_KILL_SEED").ok().and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    for moment in 0..moments {
        let after = Duration::from_millis(random.below(6000));
        let out = format!("k{moment}.db");
        let words = ["run", "mine.toml", "--on", "ssh:board", "--out", &out, "--quiet"];
        let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
        std::thread::sleep(after);
        // SAFETY: kill takes no pointers; the child has not been waited for.
        unsafe { libc::kill(running.process(), libc::SIGKILL) };
        let killed = Instant::now();
        server.is_clean_within(CLEAN);
        println!("killed after {after:?}: clean after {:?}", killed.elapsed());
        let parts = std::fs::read_dir(server.path("cache dir/fathom/files")).into_iter().flatten().flatten();
        for entry in parts {
            let names: Vec<String> = std::fs::read_dir(entry.path())
                .unwrap()
                .map(|file| file.unwrap().file_name().into_string().unwrap())
                .collect();
            assert!(names.iter().all(|name| !name.starts_with(".part")), "{names:?}");
        }
    }
}

#[test]
fn names_and_configurations_that_would_run_something_run_nothing() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    for name in [
        "ssh:-oProxyCommand=touch ran",
        "ssh:x@-oProxyCommand=touch ran",
        "ssh:$(touch ran)",
        "ssh:a;touch ran",
        "adb:-H",
    ] {
        fathom(&place, &server, &["doctor", "--on", name]).exits(2);
        fathom(&place, &server, &["run", "first-look", "--on", name]).exits(2);
    }
    assert!(!place.path("ran").exists());
    let directory = server.path("a b;touch ran`touch ran`$(touch ran)'\"");
    std::fs::create_dir(&directory).unwrap();
    let machine = format!("ssh:board:{}", directory.display());
    fathom(&place, &server, &["doctor", "--on", &machine]).exits(0);
    let missing = format!("ssh:board:{}", server.path("no such").display());
    fathom(&place, &server, &["doctor", "--on", &missing]).exits(1).says("must be a directory");
    for at in [place.path("ran"), server.path("ran"), directory.join("ran")] {
        assert!(!at.exists(), "{}", at.display());
    }
    // Who waits for a password would wait for ever in a script.
    let nobody = fathom(&place, &server, &["doctor", "--on", "ssh:nobody-here@board"]);
    nobody.exits(1).says("Permission denied");
    fathom(&place, &server, &["run", "first-look", "--on", "ssh:board", "--dir", "."]).exits(2).says("--dir");
    fathom(&place, &server, &["run", "first-look", "--on", "ssh:board,ssh:board"]).exits(2).says("twice");
}
