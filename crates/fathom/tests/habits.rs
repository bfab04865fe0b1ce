//! What makes the command line pleasant: it takes what its own tables print, ends when it knows
//! enough or the time is over, tells how long it will take, and tells shells and `man` about
//! itself.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use place::{End, Place};

/// What a command prints, wherever.
trait Shows {
    fn shows(&self, words: &str) -> &Self;
}

impl Shows for End {
    #[track_caller]
    fn shows(&self, words: &str) -> &End {
        assert!(self.stdout.contains(words) || self.stderr.contains(words), "shows {words:?}: {self}");
        self
    }
}

const LOOK: [&str; 3] = ["run", "first-look", "--quick"];

fn look(place: &Place, words: &[&str]) -> End {
    let all: Vec<&str> = LOOK.iter().chain(words).copied().collect();
    place.fathom(&all)
}

/// A table shows `WAL/FULL` and `DELETE` for what the file calls `wal/full` and `delete`; both were
/// refused.
#[test]
fn what_a_table_prints_is_taken_and_is_the_same_cell() {
    let place = Place::new();
    look(&place, &["--plan", "--set", "variants=WAL/FULL,Delete/Extra"])
        .exits(0)
        .shows("1  WAL/FULL")
        .shows("2  DELETE/EXTRA")
        .shows("6 runs in all");
    let plan = |set: &str| place.fathom(&["run", "journal-modes", "--plan", "--set", set]);
    plan("journal_mode=WAL,DELETE").exits(0).shows("ext4 WAL").shows("ext4 DELETE");
    plan("engine=SQLite").exits(0);
    look(&place, &["--plan", "--set", "variants=WALL/FULL"])
        .exits(2)
        .shows("unknown variant \"WALL/FULL\"")
        .shows("did you mean \"wal/full\"?");
}

#[test]
fn a_plan_tells_its_time_once_the_cells_were_measured_here() {
    let place = Place::new();
    let set = ["--set", "variants=wal/full,wal/off"];
    let words = |more: &[&'static str]| [&set[..], more].concat();
    look(&place, &words(&["--plan"])).exits(0).shows("Time: not known").shows("--budget");
    look(&place, &words(&["--out", "r.db"])).exits(0);
    let plan = |more: &[&'static str]| look(&place, &words(&[&["--plan"], more].concat()));
    plan(&["--repeat", "400", "--out", "r.db", "--resume"]).exits(2).shows("not 400");
    plan(&["--out", "r.db", "--resume"])
        .exits(0)
        .shows("0 runs to make of 6")
        .shows("Time: about 0:00 as in r.db");
    // In its usual place they are found without being named.
    look(&place, &set).exits(0);
    let told = plan(&["--repeat", "400"]);
    told.exits(0).shows("800 runs in all").shows("Time: about ").shows("fathom-out/first-look/results.db");
    plan(&["--repeat", "400", "--until", "5%"]).exits(0).shows("at most").shows("Time: at most about ");
    let other = look(&place, &["--plan", "--set", "variants=delete/full"]);
    other.exits(0).shows("Time: not known");
}

#[test]
fn a_run_ends_when_its_values_are_known_or_says_that_they_are_not() {
    let place = Place::new();
    let set = ["--set", "variants=wal/off", "--set", "workload.transactions=5"];
    let words = |more: &[&'static str]| [&set[..], more].concat();
    // Wide enough to be reached by any five runs, or nearly: the least is made in any case.
    look(&place, &words(&["--until", "100%", "--repeat", "40", "--out", "wide.db"]))
        .exits(0)
        .shows("known to within");
    let repeats = |file: &str| place.rows(file, "SELECT repeats FROM experiment").parse::<u32>().unwrap();
    let runs = |file: &str| place.rows(file, "SELECT count(*) FROM run").parse::<u32>().unwrap();
    assert!((3..40).contains(&repeats("wide.db")), "{}", repeats("wide.db"));
    assert_eq!(runs("wide.db"), repeats("wide.db"));
    look(&place, &words(&["--until", "0.01%", "--repeat", "4", "--out", "narrow.db"]))
        .exits(0)
        .shows("Not as precise as asked: after 4 runs");
    // What was ended is gone on with, for more precision.
    look(&place, &words(&["--until", "0.01%", "--repeat", "5", "--out", "narrow.db", "--resume"]))
        .exits(0)
        .shows("after 5 runs");
    assert_eq!((runs("narrow.db"), repeats("narrow.db")), (5, 5));
    for (option, value) in [
        ("--until", "0%"),
        ("--until", "101%"),
        ("--until", "x"),
        ("--budget", "0s"),
        ("--budget", "2 weeks"),
    ] {
        look(&place, &[option, value]).exits(2).shows(option).shows("give ");
    }
}

#[test]
fn a_budget_ends_a_run_that_would_take_hours() {
    let place = Place::new();
    look(&place, &["--set", "variants=wal/full", "--budget", "2s", "--repeat", "1000", "--out", "b.db"])
        .shows("--budget");
    let count = place.rows("b.db", "SELECT count(*) FROM run").parse::<u32>().unwrap();
    assert!((1..1000).contains(&count), "{count}");
    assert_eq!(place.rows("b.db", "SELECT repeats FROM experiment"), count.to_string());
    assert!(place.leftover_work().is_empty(), "{:?}", place.leftover_work());
}

#[test]
fn sqlite_libraries_are_compared_by_their_paths() {
    let place = Place::new();
    let plan = |libraries: &str| look(&place, &["--plan", "--sqlite", libraries]);
    plan("bundled,bundled").exits(2).shows("given twice");
    plan("bundled,").exits(2).shows("no name");
    plan("./no-such.so,bundled").exits(2).shows("no-such.so").shows("No such file");
    let directory = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0";
    if !std::path::Path::new(directory).exists() {
        println!("SKIP: no second SQLite here: sudo apt-get install libsqlite3-0");
        return;
    }
    // A path with a comma and a bracket is one path.
    std::fs::create_dir(place.path("a,[b]")).unwrap();
    std::fs::copy(directory, place.path("a,[b]/libsqlite3.so")).unwrap();
    let both = format!("{directory},bundled");
    // One sentence of the two, faster, slower or not proven.
    let end = look(&place, &["--sqlite", &both, "--set", "variants=wal/off", "--out", "s.db"]);
    end.exits(0);
    let flat = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let between = [format!("than {directory}"), format!("and {directory} show no")];
    assert!(between.iter().any(|between| flat.contains(between)), "{end}");
    let versions = place.rows("s.db", "SELECT count(DISTINCT engine ->> 'version') FROM run");
    assert_eq!(versions, "2");
    plan("./a,[b]/libsqlite3.so").exits(2);
}

/// Every command is told of, and none that is only for Fathom itself.
#[test]
fn shells_and_man_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let end = place.fathom(&["completions", shell]);
        end.exits(0).shows("calibrate").shows("budget");
        assert!(!end.stdout.contains("guest-agent"), "{shell} completes what is not for people");
        // What happened: `trace replay` was completed with the option that Fathom alone gives.
        let holds = |words: &str| end.stdout.contains(words);
        assert!(holds("keep") && !holds("--within") && !holds("-l within"), "{shell}");
    }
    if let Ok(end) = std::process::Command::new("bash").arg("-n").stdin(std::process::Stdio::null()).status()
    {
        assert!(end.success());
        let text = place.fathom(&["completions", "bash"]).stdout.clone();
        place.write("fathom.bash", &text);
        let script = "source ./fathom.bash && COMP_WORDS=(fathom ru) && COMP_CWORD=1 && _fathom fathom ru fathom && \
                      echo \"${COMPREPLY[@]}\"";
        let shell = std::process::Command::new("bash")
            .args(["--norc", "-c", script])
            .current_dir(place.path("."))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&shell.stdout).trim(), "run", "{shell:?}");
    }
    place.fathom(&["completions", "tcsh"]).exits(2);
    place.fathom(&["man"]).exits(0).shows(".TH fathom 1").shows("fathom\\-run(1)");
    // They were one paragraph, in which "fathom doctor Settings for your own application" stood.
    place.fathom(&["man"]).shows("\n Settings for your own application?").shows("\n Exit codes: 0");
    place.fathom(&["man"]).shows(".SH ENVIRONMENT\n.TP\n\\fBFATHOM_STATE_DIR\\fR\n");
    place.fathom(&["man", "--out", "pages"]).exits(2).shows("make it first");
    std::fs::create_dir(place.path("pages")).unwrap();
    std::fs::write(place.path("pages/fathom-run.1"), "mine").unwrap();
    place.fathom(&["man", "--out", "pages"]).exits(2).shows("was not made by Fathom");
    assert_eq!(std::fs::read_dir(place.path("pages")).unwrap().count(), 1, "none or all");
    std::fs::remove_file(place.path("pages/fathom-run.1")).unwrap();
    for _ in 0..2 {
        place.fathom(&["man", "--out", "pages"]).exits(0);
    }
    let page = String::from_utf8(place.read("pages/fathom-stack-up.1")).unwrap();
    assert!(page.contains(".TH fathom-stack-up") && page.contains("\\-\\-device"), "{page}");
    // The pages of subcommands had their name in the place of the date, and no release.
    let title = format!(".TH fathom-stack-up 1 \" \" \"fathom {}\" Fathom", env!("CARGO_PKG_VERSION"));
    assert!(page.contains(&title), "{page}");
    let hidden = place.path("pages/fathom-worker.1");
    assert!(!hidden.exists() && place.path("pages/fathom-trace-capture.1").exists());
}

#[test]
fn show_prints_experiments_devices_and_profiles() {
    let place = Place::new();
    for (name, line) in [
        ("journal-modes", "name = \"journal-modes\""),
        ("sd-slow", "name = \"sd-slow\""),
        ("gmail", "name = \"gmail\""),
    ] {
        place.fathom(&["list", "--show", name]).exits(0).shows(line);
    }
    // What is shown is a file: it can be changed and used.
    let text = place.fathom(&["list", "--show", "sd-slow"]).stdout.clone();
    place.write("mine.toml", &text);
    place
        .fathom(&["run", "first-look", "--plan", "--set", "filesystem=ext4", "--set", "device=./mine.toml"])
        .exits(0);
    place.fathom(&["list", "--show", "gmial"]).exits(2).shows("did you mean `gmail`?");
}

#[test]
fn the_path_of_a_stack_is_all_that_is_printed() {
    let place = Place::new();
    place.fathom(&["stack", "up", "--fs", "dir", "--name", "lab", "--dir", "."]).exits(0);
    let told = place.fathom(&["stack", "path", "lab"]).stdout.clone();
    let path = std::path::Path::new(told.strip_suffix('\n').unwrap());
    assert!(path.is_absolute() && path.is_dir(), "{told:?}");
    place.fathom(&["stack", "path", "lba"]).exits(2).shows("lab");
    place.fathom(&["stack", "down", "lab"]).exits(0);
    place.fathom(&["stack", "path", "lab"]).exits(2);
}

/// A log of a build was silent for as long as a run took.
#[test]
fn a_pipe_gets_lines_and_no_control_characters() {
    let place = Place::new();
    let end = look(&place, &["--set", "variants=wal/off", "--out", "r.db"]);
    end.exits(0);
    assert!(!end.stderr.contains('\r') && !end.stderr.contains('\u{1b}'), "{}", end.stderr);
}

/// Makes a `./run` that stands in the directory `here`, and what it calls; calls it as `$2` says.
const FIRST_RUN: &str = r#"set -e
mkdir -p here/scripts bin
cp "$1/run" "$1/rust-toolchain.toml" here/
cp "$1/scripts/setup.sh" here/scripts/
printf '#!/bin/sh\nexit 0\n' >bin/rustup
cp bin/rustup bin/cc
cat >bin/cargo <<'END'
#!/bin/sh
built=${CARGO_TARGET_DIR:-target}/release/fathom
mkdir -p "${built%/*}"
printf '#!/bin/sh\necho called "$@"\n' >"$built"
chmod +x "$built"
END
chmod +x bin/*
export PATH="$PWD/bin:$PATH" HOME="$PWD"
eval "$2""#;

/// What happened: with `CARGO_TARGET_DIR` set, as `./test` advises whoever has little room, `./run`
/// built there and called what lay in `target`: nothing, or a program of before.
#[test]
fn the_first_run_calls_what_it_has_built() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for call in [
        "env -u CARGO_TARGET_DIR here/run --quick",
        "CARGO_TARGET_DIR=elsewhere here/run --quick",
        "CARGO_TARGET_DIR=$PWD/else\\ where here/run --quick",
    ] {
        let place = tempfile::tempdir().unwrap();
        // A shell makes the programs: what this process writes may be open in what another test
        // starts, and is not executed meanwhile.
        let mut command = std::process::Command::new("bash");
        command.args(["-c", FIRST_RUN, "bash"]).arg(&sources).arg(call).current_dir(&place);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.ends_with("called run first-look --quick\n"), "{call}: {output:?}");
    }
}
