//! Every command in README.md and docs/*.md is run, in page order, as a reader would type it.
//!
//! A fenced block tagged `console` is run: each line that starts with `$ ` is a command, the lines
//! below it are an illustration of its output and are not compared, except that a line `exit N`
//! after a command states its exit code, and that a command with `<<'END'` goes on to the line
//! `END`. `console root` blocks run only as root. Every page gets a fresh directory and a list of
//! stacks of its own; `fathom` and `smsc` are on the PATH.
//!
//! The `run` steps of a workflow (a block tagged `yaml`) are run at their place, as root alone and
//! without `sudo`, but for what installs Fathom.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Step {
    line: usize,
    command: String,
    exit: i32,
    root: bool,
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut fence: Option<bool> = None; // Some(root) inside a console block
    let mut continues = false;
    let mut is_here_document = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None if info.split_whitespace().next() == Some("console") => Some(info.contains("root")),
                None => None,
            };
            continues = false;
            continue;
        }
        let Some(root) = fence else { continue };
        if is_here_document {
            let last = steps.last_mut().expect("a here-document follows a command");
            last.command.push('\n');
            last.command.push_str(line);
            is_here_document = line != "END";
        } else if continues {
            let last = steps.last_mut().expect("a continued line follows a command");
            last.command.push('\n');
            last.command.push_str(line);
            continues = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ") {
            continues = command.ends_with('\\');
            is_here_document = command.ends_with("<<'END'");
            steps.push(Step { line: number + 1, command: command.into(), exit: 0, root });
        } else if let (Some(code), Some(last)) = (line.strip_prefix("exit "), steps.last_mut()) {
            last.exit = code.trim().parse().expect("exit code");
        }
    }
    steps
}

/// The `run` steps of workflows, each on one line, as `>` folds them.
///
/// What happened: the guide's workflow was run by nobody. It installed no Fathom, and measured
/// something else than the baseline beside it.
fn workflow_steps(page: &str) -> Vec<Step> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut steps: Vec<Step> = Vec::new();
    let (mut is_workflow, mut is_fenced) = (false, false);
    // Of a step whose command goes on: how far its lines are indented at the least.
    let mut folded: Option<usize> = None;
    for (number, line) in page.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            is_workflow = !is_fenced && info.trim() == "yaml";
            is_fenced = !is_fenced;
            folded = None;
        } else if is_workflow {
            if let (Some(least), Some(last)) = (folded, steps.last_mut())
                && indent(line) >= least
            {
                last.command = format!("{} {}", last.command, line.trim()).trim_start().to_owned();
                continue;
            }
            folded = None;
            if let Some(command) = line.trim_start().strip_prefix("- run: ") {
                let goes_on = command.trim() == ">";
                folded = goes_on.then(|| indent(line) + 4);
                let command = if goes_on { String::new() } else { command.to_owned() };
                steps.push(Step { line: number + 1, command, exit: 0, root: true });
            }
        }
    }
    for step in &mut steps {
        step.command = format!("set -o pipefail; {}", step.command.replace("sudo ", ""));
    }
    steps.retain(|step| !step.command.contains("apt-get install"));
    steps
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Debian's client of SMPP, with which the guide to the SMS centre sends a message.
fn has_net_smpp() -> bool {
    Command::new("perl").args(["-MNet::SMPP", "-e", "1"]).output().is_ok_and(|output| output.status.success())
}

fn run_page(path: &Path) {
    let page = std::fs::read_to_string(path).unwrap();
    let mut steps = steps(&page);
    if steps.is_empty() {
        return;
    }
    steps.extend(workflow_steps(&page));
    steps.sort_by_key(|step| step.line);
    let place = tempfile::tempdir().unwrap();
    // A list of stacks of its own: a page takes down all that are up, and whoever else uses this
    // machine has some, too.
    let state = tempfile::tempdir().unwrap();
    let tools = Path::new(env!("CARGO_BIN_EXE_fathom")).parent().unwrap();
    let path_variable = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    // SAFETY: geteuid has no preconditions and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    for step in steps {
        let shown = format!("{}:{}: {}", path.display(), step.line, step.command);
        if step.command.starts_with("./test") || step.command.starts_with("git clone") {
            continue; // this test is part of ./test
        }
        if step.root && !root {
            println!("skipped (needs root): {shown}");
            continue;
        }
        if step.command.starts_with("perl ") && !has_net_smpp() {
            println!("SKIP: Net::SMPP is not installed (apt-get install libnet-smpp-perl): {shown}");
            continue;
        }
        // `./run` builds the release binary; here the binary under test stands in for what it would
        // run.
        let command = match step.command.strip_prefix("./run") {
            Some(rest) if rest.trim().is_empty() => "fathom run first-look --quick".to_owned(),
            Some(rest) => format!("fathom run{rest}"),
            None => step.command.clone(),
        };
        let output = Command::new("bash")
            .args(["-c", &command])
            .current_dir(place.path())
            .env("PATH", &path_variable)
            .env("FATHOM_STATE_DIR", state.path())
            .env("GITHUB_STEP_SUMMARY", place.path().join("summary.md"))
            .env("FATHOM_PROBE_SO", tools.join("deps/libfathom_probe.so"))
            .output()
            .unwrap();
        println!("{shown}\n{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(
            output.status.code(),
            Some(step.exit),
            "{shown}\nstdout: {}\nstderr: {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_commands_of_the_readme_work() {
    run_page(&workspace().join("README.md"));
}

#[test]
fn the_commands_of_every_page_of_the_guide_work() {
    let mut pages: Vec<_> = std::fs::read_dir(workspace().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    assert!(!pages.is_empty(), "docs/ holds the guide");
    // Two at a time: most of a page's time is that of modelled devices, which compute nothing.
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            run_page(page);
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work();
        other.join().expect("the commands of each page work");
    });
}

/// The commands of a page as they are run: what stands behind ` # ` is for the reader.
fn commands(page: &Path) -> Vec<(String, i32, bool)> {
    let text = std::fs::read_to_string(page).unwrap();
    let bare = |command: &str| command.split(" # ").next().unwrap_or_default().trim_end().to_owned();
    steps(&text).iter().map(|step| (bare(&step.command), step.exit, step.root)).collect()
}

/// The English pages' commands are run above; a Korean page with others would tell what nobody has
/// tried.
#[test]
fn the_korean_pages_have_the_commands_of_the_english_ones() {
    let root = workspace();
    assert_eq!(commands(&root.join("README.ko.md")), commands(&root.join("README.md")));
    let mut pages = 0;
    for entry in std::fs::read_dir(root.join("docs/ko")).unwrap() {
        let korean = entry.unwrap().path();
        let english = root.join("docs").join(korean.file_name().unwrap());
        let found = commands(&korean);
        assert!(!found.is_empty(), "{}", korean.display());
        assert_eq!(found, commands(&english), "{}", korean.display());
        pages += 1;
    }
    assert!(pages >= 3, "{pages} pages");
}

#[test]
fn a_workflow_is_read_as_written() {
    let steps = workflow_steps(
        "```sh\n- run: no\n```\n```yaml\n  - uses: x\n  - run: sudo apt-get install -y a\n  - run: >\n      sudo a\n      --b 10%\n    shell: bash\n  - run: c\n```\n  - run: no\n",
    );
    let seen: Vec<_> = steps.iter().map(|step| (step.line, step.command.as_str(), step.root)).collect();
    assert_eq!(seen, [(7, "set -o pipefail; a --b 10%", true), (11, "set -o pipefail; c", true)]);
    let gate = std::fs::read_to_string(workspace().join("docs/gate.md")).unwrap();
    let of_gate = workflow_steps(&gate);
    assert_eq!(of_gate.len(), 2, "the gate's workflow measures and compares");
    assert!(of_gate[1].command.contains("fathom compare fathom-baseline.toml gate.db"));
}

#[test]
fn a_block_is_read_as_written() {
    let steps = steps(
        "```console\n$ fathom list\nout\n$ false\nexit 1\n$ cat <<'END'\n$ x\n\nEND\nout\n```\n```sh\n$ not run\n```\n```console root\n$ a \\\n  b\n```\n",
    );
    let seen: Vec<_> = steps.iter().map(|s| (s.command.as_str(), s.exit, s.root)).collect();
    let here = ("cat <<'END'\n$ x\n\nEND", 0, false);
    assert_eq!(seen, [("fathom list", 0, false), ("false", 1, false), here, ("a \\\n  b", 0, true)]);
}
