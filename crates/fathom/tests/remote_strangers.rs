//! Machines over ssh on which something is not as it should be: each is an error that says what to
//! do, or no error at all. Skipped where there is no sshd.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;
mod sshd;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use place::{End, Place};
use sshd::Server;

const MINE: &str = r#"name = "mine"
title = "Mine"
repeats = 1

[workload]
name = "mobibench-sql"
transactions = 20
tables = 1

[engine]
name = "sqlite"
"#;

const CLEAN: Duration = Duration::from_secs(90);

fn fathom(place: &Place, server: &Server, words: &[&str]) -> End {
    place.fathom_with(words, &[("FATHOM_SSH_CONFIG", &server.config())])
}

/// Other lines in front of the client's configuration; of two values ssh takes the first.
fn configured(server: &Server, lines: &str) {
    let old = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), format!("{lines}\n{old}")).unwrap();
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A small file system; none without root.
struct Small(std::path::PathBuf);

impl Small {
    fn mounted(at: &Path, options: &str) -> Option<Small> {
        std::fs::create_dir_all(at).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Small(at.to_owned()));
        }
        println!("SKIP: mounting needs root");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_machine_that_is_unknown_or_another_than_it_was_is_said_with_what_to_do() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    configured(&server, "Host board\n  StrictHostKeyChecking ask");
    let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
    end.exits(1).says(&format!("connect once by hand (`ssh -F {} board`)", server.config()));
    // Its key was another.
    let known = server.path("known");
    key(&server.path("another"));
    let other = std::fs::read_to_string(server.path("another.pub")).unwrap();
    std::fs::write(&known, format!("[127.0.0.1]:{} {other}", server.port())).unwrap();
    let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
    end.exits(1).says(&format!("-R '[127.0.0.1]:{}'` forgets the old one", server.port()));
    std::fs::remove_file(&known).unwrap();
    // A key that opens nothing.
    configured(
        &server,
        &format!(
            "Host board\n  StrictHostKeyChecking accept-new\n  IdentityFile {}\n  IdentitiesOnly yes\nHost other",
            server.path("another").display()
        ),
    );
    let config = std::fs::read_to_string(server.config())
        .unwrap()
        .replace(&format!("IdentityFile {}\n", server.path("user").display()), "");
    std::fs::write(server.config(), config).unwrap();
    let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
    end.exits(1).says(&format!("`ssh-copy-id -F {} board`", server.config()));
    // Nobody is there.
    fathom(&place, &server, &["doctor", "--on", "ssh:no-such-host.invalid"])
        .exits(1)
        .says("no-such-host.invalid");
}

#[test]
fn names_of_the_configuration_and_a_jump_host_lead_to_the_machine() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let config = server.config();
    configured(
        &server,
        &format!("Host behind\n  HostName 127.0.0.1\n  ProxyCommand ssh -F {config} -W %h:%p board"),
    );
    configured(
        &server,
        &format!(
            "Host behind\n  Port {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n  StrictHostKeyChecking accept-new",
            server.port(),
            server.path("user").display(),
            server.path("known").display()
        ),
    );
    place.write("mine.toml", MINE);
    fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:behind", "--out", "r.db"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1");
    server.is_clean_within(CLEAN);
}

#[test]
fn a_directory_that_starts_no_program_and_a_disk_that_is_full_are_said() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    let cache = server.path("cache dir");
    {
        let Some(_small) = Small::mounted(&cache, "size=2m") else { return };
        let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
        end.exits(1).says("No space left on device");
        // Nothing of it stays to fill the disk.
        let left = std::fs::read_dir(cache.join("fathom/files")).unwrap();
        for entry in left.flatten() {
            assert_eq!(std::fs::read_dir(entry.path()).unwrap().count(), 0);
        }
    }
    {
        let _small = Small::mounted(&cache, "noexec,size=1g").unwrap();
        let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
        end.exits(1).says("lets no program start").says("FATHOM_REMOTE_CACHE");
        let elsewhere = server.path("else where");
        let variables =
            [("FATHOM_SSH_CONFIG", &*server.config()), ("FATHOM_REMOTE_CACHE", elsewhere.to_str().unwrap())];
        place.fathom_with(&["doctor", "--on", "ssh:board"], &variables).exits(0);
    }
    {
        let _small = Small::mounted(&cache, "ro,size=1m").unwrap();
        let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
        end.exits(1).says("ead-only file system").says("FATHOM_REMOTE_CACHE");
    }
    // The disk under test.
    let card = server.path("a 'card'");
    {
        let _small = Small::mounted(&card, "size=200k").unwrap();
        let machine = format!("ssh:board:{}", card.display());
        let words = ["run", "mine.toml", "--on", &machine, "--out", "r.db", "--quiet"];
        fathom(&place, &server, &words).exits(1).says("No space left on device");
        assert_eq!(std::fs::read_dir(&card).unwrap().count(), 0);
    }
    server.is_clean_within(CLEAN);
}

/// What happened: whatever lay by the right name in a directory that others may write to was
/// started, with the rights of whoever measures there; and a program of which a power cut had left
/// the beginning was started again and again. Now both directories and the program are that user's
/// own, and the program is all there.
#[test]
fn a_program_that_another_user_has_laid_there_is_not_started_and_half_of_one_is_pushed_again() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let shared = server.path("shared");
    let config = server.config();
    let variables = [("FATHOM_SSH_CONFIG", &*config), ("FATHOM_REMOTE_CACHE", shared.to_str().unwrap())];
    let doctor = || place.fathom_with(&["doctor", "--on", "ssh:board"], &variables);
    doctor().exits(0);
    let files = shared.join("files");
    let pushed = || {
        let mut all = std::fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().path());
        (all.next().unwrap(), all.next())
    };
    let (own, None) = pushed() else { panic!("one program is pushed") };
    let program = own.join("fathom");
    let whole = std::fs::metadata(&program).unwrap().len();
    let half = std::fs::File::options().write(true).open(&program).unwrap();
    half.set_len(whole / 2).unwrap();
    drop(half);
    doctor().exits(0);
    assert_eq!(std::fs::metadata(&program).unwrap().len(), whole);
    // Another user's, which says that it was started.
    script(&program, &format!("touch {}", server.path("ran").display()));
    for (theirs, is_refused) in [(&program, false), (&own, true), (&files, true)] {
        if chown(theirs, Some(65534), None).is_err() {
            println!("SKIP: giving a file away needs root");
            return;
        }
        let end = doctor();
        if is_refused {
            end.exits(1).says("belongs to another user").says("FATHOM_REMOTE_CACHE");
        } else {
            end.exits(0);
        }
        assert!(!server.path("ran").exists(), "{}: {end}", theirs.display());
    }
    server.is_clean_within(CLEAN);
}

/// What happened: a `printf` without an end of its line in the file that the shell there begins with
/// stood before the machine's first word, which was then none.
#[test]
fn a_greeting_without_an_end_of_its_line_hides_nothing() {
    let greeting = |here: &str| {
        format!(
            "SetEnv XDG_CACHE_HOME=\"{here}/cache dir\" FATHOM_STATE_DIR={here}/state\n\
             ForceCommand printf hi; exec sh -c \"$SSH_ORIGINAL_COMMAND\""
        )
    };
    let Some(server) = Server::start_with(greeting) else { return };
    let place = Place::new();
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
    server.is_clean_within(CLEAN);
}

/// A board with busybox has no bash, no sha256sum that says more than it must, and a small ps.
#[test]
fn a_machine_with_busybox_alone_is_enough_and_one_with_another_processor_is_told_what_it_lacks() {
    if !Path::new("/bin/busybox").exists() {
        println!("SKIP: no busybox; to get it: sudo apt-get install busybox");
        return;
    }
    let programs = |here: &str| {
        format!("SetEnv XDG_CACHE_HOME=\"{here}/cache dir\" FATHOM_STATE_DIR={here}/state PATH={here}/bin")
    };
    let Some(server) = Server::start_with(programs) else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    let bin = server.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in ["sh", "cat", "mkdir", "mv", "chmod", "rm", "wc", "uname", "sha256sum"] {
        std::os::unix::fs::symlink("/bin/busybox", bin.join(name)).unwrap();
    }
    fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"]).exits(0);
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
    std::fs::remove_file(bin.join("uname")).unwrap();
    script(&bin.join("uname"), "case $1 in -s) echo Linux;; *) echo riscv64;; esac");
    let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
    end.exits(1).says("a Linux on riscv64").says("fathom-riscv64");
    script(&bin.join("uname"), "echo FreeBSD");
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(1).says("Fathom runs on Linux");
    server.is_clean_within(CLEAN);
}

/// sshd hands the whole command to the user's own shell, whatever that is. What was quoted for sh
/// was no command to csh: "Illegal variable name".
#[test]
fn whatever_shell_a_user_has_hands_the_command_on() {
    let shell = |here: &str| {
        format!(
            "SetEnv XDG_CACHE_HOME=\"{here}/cache dir\" FATHOM_STATE_DIR={here}/state PATH={here}/bin:/usr/bin:/bin\n\
             ForceCommand \"$(cat {here}/shell)\" -c \"$SSH_ORIGINAL_COMMAND\""
        )
    };
    let Some(server) = Server::start_with(shell) else { return };
    let place = Place::new();
    let bin = server.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let work = server.path("it's a $(touch card) `touch card` !x");
    std::fs::create_dir(&work).unwrap();
    let machine = format!("ssh:board:{}", work.display());
    let mut tried = 0;
    for name in ["bash", "dash", "mksh", "ksh", "zsh", "yash", "tcsh", "fish"] {
        let path = Path::new("/usr/bin").join(name);
        if !path.exists() {
            println!("SKIP: no {name}; to get it: sudo apt-get install {name}");
            continue;
        }
        tried += 1;
        std::fs::write(server.path("shell"), path.to_str().unwrap()).unwrap();
        fathom(&place, &server, &["doctor", "--on", &machine]).exits(0);
        // And as the system's own: Android's is mksh.
        if !["tcsh", "fish"].contains(&name) {
            let _ = std::fs::remove_file(bin.join("sh"));
            std::os::unix::fs::symlink(&path, bin.join("sh")).unwrap();
            fathom(&place, &server, &["doctor", "--on", &machine]).exits(0);
        }
    }
    assert!(tried > 0);
    assert!(!server.path("card").exists() && !place.path("card").exists());
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
    server.is_clean_within(CLEAN);
}

/// A client that is killed while its worker is at work there leaves nothing.
fn is_clean_after_a_kill(place: &Place, server: &Server, variables: &[(&str, &str)]) {
    place.write("long.toml", &MINE.replace("transactions = 20", "transactions = 20000"));
    let words = ["run", "long.toml", "--on", "ssh:board", "--out", "l.db", "--quiet"];
    let running = place.start_with(&words, variables);
    running.wait_until(|| server.processes().iter().any(|words| words.contains(" worker")));
    running.kill();
    server.is_clean_within(CLEAN);
}

/// A root below the server's place, with a shell and the libraries of `fathom`, without /proc.
fn root(server: &Server) -> bool {
    let root = server.path("root");
    for directory in ["bin", "srv", "tmp", "dev"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let mut files = vec![std::path::PathBuf::from("/bin/busybox")];
    for program in [env!("CARGO_BIN_EXE_fathom"), "/bin/busybox"] {
        let Ok(listed) = Command::new("ldd").arg(program).output() else { return false };
        let listed = String::from_utf8(listed.stdout).unwrap();
        files.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(Into::into));
    }
    for file in files {
        let copy = root.join(file.strip_prefix("/").unwrap());
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        // By a process of its own: what this one has open for writing is, for a moment, open in
        // what another test starts, and is not executed meanwhile ("Text file busy").
        assert!(Command::new("cp").arg("--").args([file, copy]).status().unwrap().success());
    }
    for name in ["sh", "cat", "mkdir", "mv", "chmod", "rm", "wc", "uname"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    std::fs::write(root.join("dev/null"), "").unwrap();
    true
}

/// A container, or a chroot such as a phone's: what /proc tells is unknown, and a client that is
/// killed leaves nothing all the same.
#[test]
fn a_machine_without_proc_is_measured_and_cleaned() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/bin/busybox").exists() {
        println!("SKIP: a chroot needs root, and busybox: sudo apt-get install busybox");
        return;
    }
    let within = |here: &str| {
        format!(
            "SetEnv HOME=/srv XDG_CACHE_HOME=/srv/cache FATHOM_STATE_DIR=/state PATH=/bin:/usr/sbin:/usr/bin\n\
             ForceCommand chroot {here}/root /bin/sh -c \"$SSH_ORIGINAL_COMMAND\""
        )
    };
    let Some(server) = Server::start_with(within) else { return };
    if !root(&server) {
        println!("SKIP: no ldd");
        return;
    }
    let place = Place::new();
    place.write("mine.toml", MINE);
    fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1");
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
    server.is_clean_within(CLEAN);
    is_clean_after_a_kill(&place, &server, &[("FATHOM_SSH_CONFIG", &server.config())]);
    assert_eq!(std::fs::read_dir(server.path("root/srv/cache/fathom/work")).unwrap().count(), 0);
}

/// What happened: on every phone the agent refused to begin, for the list of stacks lies below
/// `/data`, which is the user `system`'s there. A directory in /tmp stood for the phone, and so no
/// test saw it.
#[test]
fn where_a_phones_shell_may_write_its_list_of_stacks_is_believed() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/bin/busybox").exists() {
        println!("SKIP: a chroot needs root, and busybox: sudo apt-get install busybox");
        return;
    }
    // adb's shell on the phones that people have, and with `adb root`.
    for (user, cache) in [("--userspec=2000:2000", "fathom"), ("--userspec=0:0", "rooted")] {
        let within = |here: &str| {
            format!(
                "SetEnv HOME=/data/local/tmp TMPDIR=/data/local/tmp PATH=/bin:/usr/sbin:/usr/bin FATHOM_STATE_DIR=/data/local/tmp/{cache}/fathom/state \
                 XDG_CACHE_HOME=/data/local/tmp/{cache}\n\
                 ForceCommand chroot {user} {here}/root /bin/sh -c \"$SSH_ORIGINAL_COMMAND\""
            )
        };
        let Some(server) = Server::start_with(within) else { return };
        if !root(&server) {
            println!("SKIP: no ldd");
            return;
        }
        let at = |name: &str| server.path("root").join(name);
        std::fs::set_permissions(at("dev/null"), PermissionsExt::from_mode(0o666)).unwrap();
        std::fs::create_dir_all(at("data/local/tmp")).unwrap();
        std::fs::create_dir_all(at("system")).unwrap();
        // As its init makes them (init.rc).
        for (name, user, mode) in
            [("data", 1000, 0o771), ("data/local", 0, 0o751), ("data/local/tmp", 2000, 0o771)]
        {
            chown(at(name), Some(user), Some(user)).unwrap();
            std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        let place = Place::new();
        // Another machine's `/data` may be anybody's.
        let end = fathom(&place, &server, &["doctor", "--on", "ssh:board"]);
        end.exits(1).says("is not trusted with the list of stacks");
        std::fs::write(at("system/build.prop"), "ro.build.type=user\n").unwrap();
        place.write("mine.toml", MINE);
        fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
        fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"]).exits(0);
        assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1");
        server.is_clean_within(CLEAN);
    }
}

/// The user of a login that is not root's; one that owns nothing.
const NOBODY: u32 = 65534;

/// A server that lets nobody but [`NOBODY`] in, who may write to the directory `cache dir` alone and
/// sees no processes but their own (proc(5), `hidepid=2`).
fn without_root(variables: &str) -> Option<Server> {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP: a login of another user needs root");
        return None;
    }
    let within = |here: &str| {
        format!(
            "SetEnv {}\nForceCommand unshare --mount --propagation private sh -c 'mount -t proc -o hidepid=2 proc /proc && \
             exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups sh -c \"$SSH_ORIGINAL_COMMAND\"'",
            variables.replace("HERE", here)
        )
    };
    let server = Server::start_with(within)?;
    std::fs::set_permissions(server.path(""), PermissionsExt::from_mode(0o711)).unwrap();
    std::fs::create_dir(server.path("cache dir")).unwrap();
    chown(server.path("cache dir"), Some(NOBODY), Some(NOBODY)).unwrap();
    let seen = "test \"$(id -u)\" != 0 && test -d /proc/self && test ! -e /proc/1";
    let seen = Command::new("ssh").args(["-F", &server.config(), "board", seen]).output().unwrap();
    if !seen.status.success() {
        println!("SKIP: no login as another user: {}", String::from_utf8_lossy(&seen.stderr));
        return None;
    }
    Some(server)
}

#[test]
fn a_user_who_is_not_root_and_sees_no_other_processes_is_served() {
    let Some(server) = without_root("HOME=\"HERE/cache dir\" XDG_CACHE_HOME=\"HERE/cache dir\"") else {
        return;
    };
    let place = Place::new();
    place.write("mine.toml", MINE);
    fathom(&place, &server, &["doctor", "--on", "ssh:board"]).exits(0);
    fathom(&place, &server, &["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1");
    assert_eq!(place.rows("r.db", "SELECT value FROM environment WHERE key = 'user'"), "not root");
    server.is_clean_within(CLEAN);
    is_clean_after_a_kill(&place, &server, &[("FATHOM_SSH_CONFIG", &server.config())]);
}

/// What the run has to undo there is then written beside what was pushed.
#[test]
fn a_user_whose_home_is_read_only_needs_another_directory_and_nothing_else() {
    let Some(server) = without_root("HOME=HERE/home") else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    std::fs::create_dir(server.path("home")).unwrap();
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "r.db"];
    fathom(&place, &server, &words).exits(1).says("FATHOM_REMOTE_CACHE");
    let cache = server.path("cache dir/fathom");
    let config = server.config();
    let variables = [("FATHOM_SSH_CONFIG", &*config), ("FATHOM_REMOTE_CACHE", cache.to_str().unwrap())];
    place.fathom_with(&words, &variables).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1");
    server.is_clean_within(CLEAN);
    is_clean_after_a_kill(&place, &server, &variables);
    assert!(cache.join("state").is_dir());
    assert_eq!(std::fs::read_dir(server.path("home")).unwrap().count(), 0);
}

#[test]
fn two_clients_at_once_do_not_disturb_each_other() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", &MINE.replace("transactions = 20", "transactions = 500"));
    let config = server.config();
    let start = |out: &str| {
        let words = ["run", "mine.toml", "--on", "ssh:board", "--out", out, "--quiet"];
        place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)])
    };
    let (one, two) = (start("1.db"), start("2.db"));
    one.end().exits(0);
    two.end().exits(0);
    server.is_clean_within(CLEAN);
}

/// What happened: of two clients that pushed the same program for the first time, the second put
/// its file in the place of the one that the first one's agent ran, whose replay could then not be
/// started: "No such file or directory".
#[test]
fn an_agent_replays_although_its_program_was_replaced() {
    let place = Place::new();
    place.fathom(&["trace", "synthesise", "androbench", "--scale", "5", "--out", "app.trace"]).exits(0);
    place.copy_program("program");
    std::fs::create_dir(place.path("work")).unwrap();
    let mut agent = Command::new(place.path("program"))
        .args(["agent", "--dir"])
        .arg(place.path("work"))
        .env("FATHOM_STATE_DIR", place.path("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines().map(Result::unwrap);
    let hello = lines.next().unwrap();
    assert!(hello.contains("\"hello\""), "{hello}");
    std::fs::remove_file(place.path("program")).unwrap();
    let mut input = agent.stdin.take().unwrap();
    let question = serde_json::json!({"replay": {"words": ["--", place.path("app.trace")]}});
    writeln!(input, "{question}").unwrap();
    let is_end = |line: &String| line.contains("\"replayed\"") || line.contains("\"refused\"");
    let answer: serde_json::Value = serde_json::from_str(&lines.find(is_end).unwrap()).unwrap();
    assert_eq!(answer["replayed"]["code"], 0, "{answer}");
    drop(input);
    assert!(agent.wait().unwrap().success());
}

/// What happened: an agent whose file had been pushed once more meanwhile was not known for one
/// after its connection was lost, and its worker was at work beside the next run.
#[test]
fn an_agent_whose_program_was_replaced_ends_before_the_next_one() {
    let place = Place::new();
    std::fs::create_dir(place.path("work")).unwrap();
    let start = |more: &[&str]| {
        place.copy_program("program");
        let mut agent = Command::new(place.path("program"))
            .args(["agent", "--dir"])
            .arg(place.path("work"))
            .args(more)
            .env("FATHOM_STATE_DIR", place.path("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(agent.stdout.take().unwrap());
        let mut hello = String::new();
        said.read_line(&mut hello).unwrap();
        assert!(hello.contains("\"hello\""), "{hello}");
        std::fs::remove_file(place.path("program")).unwrap();
        (agent, said)
    };
    // Their inputs stay open.
    let (mut lost, _lost_said) = start(&[]);
    let (mut next, _next_said) = start(&["--after", &lost.id().to_string()]);
    let begin = std::time::Instant::now();
    while lost.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(next.stdin.take());
    assert!(next.wait().unwrap().success());
}

/// ssh gives a network up after 45 s, so only in the long tests.
#[test]
fn a_machine_that_stands_still_is_given_up_and_ctrl_c_does_not_wait_for_it() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", &MINE.replace("transactions = 20", "transactions = 20000"));
    let config = server.config();
    let words = ["run", "mine.toml", "--on", "ssh:board", "--out", "r.db", "--quiet"];
    if std::env::var_os("FATHOM_LONG").is_some() {
        let running = place.start_with(&words, &[("FATHOM_SSH_CONFIG", &config)]);
        running.wait_until(|| server.processes().iter().any(|words| words.contains("worker")));
        server.signal_sessions(libc::SIGSTOP);
        running.end().exits(1).says("the connection to ssh:board was lost");
        server.signal_sessions(libc::SIGKILL);
        server.is_clean_within(CLEAN);
    }
    // The server answers nobody.
    server.signal(libc::SIGSTOP);
    let running = place.start_with(&["doctor", "--on", "ssh:board"], &[("FATHOM_SSH_CONFIG", &config)]);
    // Before that a signal ends it as it ends any program.
    running.wait_until(|| running.listens());
    std::thread::sleep(Duration::from_millis(500));
    running.interrupt();
    running.end().ends_by(libc::SIGINT).says("stopped by a signal");
    server.signal(libc::SIGCONT);
}

#[test]
fn options_that_make_no_sense_there_are_refused() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    place.write("mine.toml", MINE);
    for words in [
        &["run", "mine.toml", "--on", "ssh:board", "--dir", "."][..],
        &["run", "mine.toml", "--on", "board"],
        &["run", "mine.toml", "--on", "ssh:board:relative"],
        &["run", "mine.toml", "--on", "ssh:board:/a,/b"],
        &["doctor", "--on", "ssh:board,local"],
        &["trace", "replay", "gmail", "--on", "ssh:board", "--dir", "."],
        &["trace", "replay", "gmail", "--on", "ssh:board", "--keep"],
        &["advise", "gmail", "--on", "ssh:board", "--dir", "."],
    ] {
        fathom(&place, &server, words).exits(2);
    }
}
