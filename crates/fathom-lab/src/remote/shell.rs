//! How a command is started on another machine: `ssh` or `adb`, as the user has them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::command::shell_line;
use fathom_ground::pipe;

use super::processor::processor_of;
use super::target::{ADB_DIRECTORY, Target};
use crate::schedule::Interrupt;

/// Names a configuration for `ssh` in the place of `~/.ssh/config`.
const SSH_CONFIG: &str = "FATHOM_SSH_CONFIG";

/// Names the directory of Fathom's files on machines behind ssh, where it is not that user's
/// `~/.cache/fathom`.
const CACHE: &str = "FATHOM_REMOTE_CACHE";

/// Options of every ssh: nothing is asked at a terminal (keys and agents answer), nothing is
/// forwarded, and a connection over which nothing comes for 45 s is at its end. One that is shared
/// already (ControlPath) is used, but none of these is made to be shared (`ControlMaster auto`): an
/// ssh whose connection others use does not end before they do, and whoever ended it ended theirs.
/// What is wrong is said, whatever the user's configuration has for other uses (`LogLevel QUIET`),
/// and a command is started, reads what is written to it and ends with its ssh (`SessionType none`,
/// `StdinNull` and `ForkAfterAuthentication` are for tunnels). These ssh knows from 8.7 on, and
/// before that ends at a name that it does not know: such ones are ignored, and with them those of
/// the user's configuration, for which that may ask for the same and would not be heard.
const SSH_OPTIONS: [&str; 16] = [
    "IgnoreUnknown=*",
    "SessionType=default",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "RequestTTY=no",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ControlMaster=no",
    "LogLevel=INFO",
];

/// The command that runs `script` in a POSIX shell on the machine; none for this one.
pub(super) fn command(target: &Target, script: &str) -> Option<Command> {
    let mut command = match target {
        Target::Local => return None,
        Target::Ssh { destination, .. } => {
            let mut command = Command::new("ssh");
            command.args(["-T", "-e", "none"]);
            if let Some(file) = std::env::var_os(SSH_CONFIG).filter(|name| !name.is_empty()) {
                command.args([OsString::from("-F"), file]);
            }
            for option in SSH_OPTIONS {
                command.args(["-o", option]);
            }
            // Options are not handed on to the ssh that goes to a jump host (ProxyJump), variables
            // are: what that one would ask at the terminal a program answers that says nothing.
            command.env("SSH_ASKPASS", "false").env("SSH_ASKPASS_REQUIRE", "force");
            // Whatever shell the user has there hands this one word on.
            command.args(["--", destination]).arg(in_a_shell(script));
            command
        }
        Target::Adb { serial, .. } => {
            let mut command = Command::new("adb");
            command.args(["-s", serial, "shell", "-T"]).arg(in_a_shell(script));
            command
        }
    };
    // Ctrl-C reaches this program, which decides what ends and how.
    command.process_group(0);
    Some(command)
}

/// The command that hands a script to a POSIX shell, for whatever shell the user has there. In
/// single quotes, where their end alone means anything, and to csh `!`: within double quotes csh
/// knows no `\$`, and fish no escaped backtick.
fn in_a_shell(script: &str) -> String {
    format!("exec sh -c '{}'", script.replace('\'', r"'\''").replace('!', r"'\!'"))
}

/// What is wrong with the directory that [`CACHE`] names.
///
/// # Errors
/// In words.
pub(super) fn check_cache() -> Result<(), String> {
    match std::env::var_os(CACHE).map(|base| base.into_string()) {
        Some(Ok(base)) if !base.is_empty() && (!base.starts_with('/') || base.contains(char::is_control)) => {
            Err(format!("{CACHE}={base:?}: give an absolute directory of the other machine"))
        }
        Some(Err(_)) => Err(format!("{CACHE} is not UTF-8")),
        _ => Ok(()),
    }
}

/// What is started lies below `files`: another user's would be that user's program, under the name of
/// its content or not.
const OWN: &str = "[ -O \"$base/files\" ] || { echo \"$base/files belongs to another user\" >&2; exit 1; }; ";

/// The directory of Fathom's files of whoever logs in. One that is relative is ignored, as the XDG
/// Base Directory Specification asks: there is no directory that each command begins in.
const OWN_CACHE: &str = "case ${XDG_CACHE_HOME-} in /*) base=$XDG_CACHE_HOME;; \
                         *) base=${HOME:?}/.cache;; esac; base=$base/fathom";

/// What it complains of is known by its words ([`is_without_place`]), and ssh hands the language of
/// this machine's user on.
const MKDIR: &str = "LC_ALL=C mkdir -p";

/// The beginning of every script: `base` is where Fathom's files are there, and `work` the
/// directory under test.
pub(super) fn places(target: &Target) -> String {
    let quoted = |text: &str| shell_line([text]);
    match target {
        Target::Local => String::new(),
        Target::Ssh { directory, .. } => {
            let work = match directory {
                Some(directory) => format!("work={}", quoted(directory)),
                None => format!("work=$base/work; {MKDIR} \"$work\""),
            };
            let base = match std::env::var(CACHE) {
                Ok(base) if !base.is_empty() => format!("base={}", quoted(&base)),
                _ => OWN_CACHE.to_owned(),
            };
            format!("umask 077; {base}; {MKDIR} \"$base/files\" || exit 1; {OWN}{work} || exit 1; ")
        }
        Target::Adb { directory, .. } => {
            // A phone's shell has no home, and no /tmp.
            let base = quoted(directory.as_deref().unwrap_or(ADB_DIRECTORY));
            format!(
                "umask 077; base={base}; {MKDIR} \"$base/files\" \"$base/work\" \"$base/state\" \"$base/tmp\" || exit 1; {OWN}\
                 work=$base/work; export HOME=\"$base\" TMPDIR=\"$base/tmp\" FATHOM_STATE_DIR=\"$base/state\"; "
            )
        }
    }
}

/// How long a command may stand still: nothing of its input is taken, it says nothing, and it does
/// not end.
const STALL: Duration = Duration::from_secs(90);
/// Most that a command may say, octets: an answer has a line.
const SAID_MAX: u64 = 16 << 20;
/// What a script begins with that may take longer: as long as it runs it says an empty line every
/// five seconds. adb takes all of a file at once and the phone writes it at leisure, and a sum of
/// 200 MB takes a busy board minutes: of neither is anything seen here but that it goes on.
/// The script ends it (`kill $beat`), or its own death does, also where nobody has asked yet how it
/// died: a zombie has no `exe`. The one that sleeps holds no pipe, for whose end ssh would wait.
pub(super) const BEAT: &str =
    "(while sleep 5 </dev/null >/dev/null 2>&1 && [ -e /proc/$$/exe ] && echo; do :; done) & beat=$!; ";
/// How often is looked.
const GLANCE: Duration = Duration::from_millis(5);

/// Runs a script to its end; what it wrote to stdout. With `input`, that is its standard input.
///
/// # Errors
/// In words: it cannot be started, what it said, it stands still, or the user wants to stop.
pub(super) fn run(
    target: &Target,
    script: &str,
    input: Option<File>,
    interrupt: &Interrupt,
) -> Result<String, String> {
    let script = format!("{}{script}", places(target));
    let Some(mut command) = command(target, &script) else { return Ok(String::new()) };
    let cannot = |error: io::Error| not_started(target, &error);
    // Files, for whoever waits for the end of a pipe waits for all that has it as well: the server
    // that adb starts stays, and so may what a ProxyCommand has started.
    let (mut stdout, mut stderr) =
        (tempfile::tempfile().map_err(cannot)?, tempfile::tempfile().map_err(cannot)?);
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(stdout.try_clone().map_err(cannot)?)
        .stderr(stderr.try_clone().map_err(cannot)?)
        .spawn()
        .map_err(cannot)?;
    let taken = Arc::new(AtomicU64::new(0));
    if let (Some(file), Some(pipe)) = (input, child.stdin.take()) {
        let taken = Arc::clone(&taken);
        thread::spawn(move || copy(file, pipe, &taken));
    }
    let length = |file: &File| file.metadata().map_or(0, |about| about.len());
    let moved = || (taken.load(Ordering::Relaxed) + length(&stdout), length(&stdout) + length(&stderr));
    let status = end(&mut child, moved, STALL, interrupt).map_err(|why| format!("{target}: {why}"))?;
    let said = fathom_output::lines(text(&mut stderr).trim());
    match status.success() {
        true => Ok(text(&mut stdout)),
        false => Err(format!("{target}: {}", why(target, &said, status))),
    }
}

/// Waits for the end of a command, which is killed where the first of `moved` stays the same for
/// `limit`, the second, which is what it has said, comes to [`SAID_MAX`], or the user wants to stop.
fn end(
    child: &mut Child,
    moved: impl Fn() -> (u64, u64),
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<ExitStatus, String> {
    let mut before = (moved().0, Instant::now());
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(format!("it cannot be waited for: {error}")),
        }
        let (now, said) = moved();
        if now != before.0 {
            before = (now, Instant::now());
        }
        let why = if said > SAID_MAX {
            "it does not stop talking: look at what the files say that its shell begins with".to_owned()
        } else if before.1.elapsed() > limit {
            format!("it has not moved for {} s", limit.as_secs())
        } else if interrupt.is_raised() {
            "stopped by a signal".to_owned()
        } else {
            thread::sleep(GLANCE);
            continue;
        };
        // An error means that it has ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(why);
    }
}

/// Hands a file on; whoever has ended does not read, and says why himself.
fn copy(mut file: File, mut pipe: impl Write, taken: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = file.read(&mut buffer) {
        if pipe::write_all(&mut pipe, buffer.get(..read).unwrap_or_default()).is_err() {
            return;
        }
        taken.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// What was written to a file, as far as anybody would read it.
fn text(file: &mut File) -> String {
    let mut octets = Vec::new();
    // What cannot be read is only missing from what is shown.
    let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(1 << 20).read_to_end(&mut octets));
    String::from_utf8_lossy(&octets).into_owned()
}

/// Why a command there failed: what was said, and what to do about it where that is known.
pub(super) fn why(target: &Target, said: &str, status: ExitStatus) -> String {
    let said = if said.is_empty() { format!("the command there ended with {status}") } else { said.into() };
    let holds = |words: &str| said.contains(words);
    let name = match target {
        Target::Ssh { destination, .. } => destination.as_str(),
        Target::Adb { serial, .. } => serial.as_str(),
        Target::Local => "",
    };
    let elsewhere = match target {
        Target::Adb { .. } => "name another directory behind the serial number",
        _ => "FATHOM_REMOTE_CACHE=/DIRECTORY here names another",
    };
    let is_adb = matches!(target, Target::Adb { .. });
    // Keys are known by the host's name, whoever the user is.
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    // With the configuration by which the name is known.
    let with = match std::env::var(SSH_CONFIG) {
        Ok(file) if !file.is_empty() => format!("-F {} ", shell_line([&file])),
        _ => String::new(),
    };
    let hint = if holds("IDENTIFICATION HAS CHANGED") {
        format!(
            "it has another key than it had: if it was set up anew, `{}` forgets the old one; if not, somebody else answers \
             in its place",
            forgetting(&said, host)
        )
    } else if holds("Host key verification failed") || holds("host key is known") {
        format!("it is not known here: connect once by hand (`ssh {with}{name}`) and compare its key")
    } else if holds("Permission denied (") {
        format!(
            "no key of yours opens it, and nothing is asked for in a script: `ssh-copy-id {with}{name}` puts one there, and \
             `ssh-add` opens one with a passphrase"
        )
    } else if is_adb && holds("unauthorized") {
        "allow this computer on the phone's screen, and start again".to_owned()
    } else if is_adb && holds("device offline") {
        "`adb reconnect`, or unplug it and plug it in again".to_owned()
    } else if is_adb && holds("device '") && holds("not found") {
        "`adb devices` shows what there is; one behind a network needs `adb connect ADDRESS:PORT` first"
            .to_owned()
    } else if is_adb && holds("PTY args") {
        "its adbd keeps no program's output apart from its complaints, nor tells how it ended: it is that of Android 6 or \
         earlier, and 7 is needed"
            .to_owned()
    } else if status.code() == Some(NOT_STARTED) || holds("xec format error") {
        format!("the directory of Fathom's files there lets no program start, or not this one; {elsewhere}")
    } else if is_without_place(&said) {
        format!("Fathom's files cannot be put there; {elsewhere}")
    } else if holds("belongs to another user") {
        format!("nothing is started from there; {elsewhere}")
    } else if is_unlinked(&said, status) {
        format!(
            "this program is linked to a C library that is not there, or is older there: a static one needs none; it comes \
             with the release, or `scripts/static.sh {}` makes it",
            processor_of(std::env::consts::ARCH)
        )
    } else {
        return said;
    };
    format!("{said}\n  {hint}")
}

/// The command that forgets a key: by the name that ssh knows it by, which is none of its
/// configuration's and may be a jump host's, and in the file in which it found it. Where it tells
/// neither, by the host's own name.
fn forgetting(said: &str, host: &str) -> String {
    let known = said.lines().find_map(|line| {
        let (before, _) = line.split_once(" has changed and you have requested")?;
        Some(before.rsplit_once("ost key for ")?.1)
    });
    let file = said.lines().find_map(|line| {
        let (_, place) = line.strip_prefix("Offending ")?.split_once(" key in ")?;
        Some(place.rsplit_once(':')?.0)
    });
    let in_file = file.map_or_else(Vec::new, |file| vec!["-f", file]);
    shell_line(["ssh-keygen"].into_iter().chain(in_file).chain(["-R", known.unwrap_or(host)]))
}

/// What a shell ends with when a program that is there cannot be started (POSIX, 2.8.2).
const NOT_STARTED: i32 = 126;

/// The same where its file, or the loader that its head names, is not there.
const NOT_FOUND: i32 = 127;

/// Whether the program lies there and its C library does not: a shell says of both that there is no
/// such file, and names the program; the loader of glibc (`version GLIBC_2.36 not found`) and that
/// of musl (`symbol not found`) speak themselves.
fn is_unlinked(said: &str, status: ExitStatus) -> bool {
    let is_said = |words: &str| said.contains(words);
    (status.code() == Some(NOT_FOUND) && is_said("/fathom"))
        || (is_said("version `GLIBC") && is_said("not found"))
        || (is_said("Error relocating") && is_said("symbol not found"))
        || is_said("error while loading shared libraries")
}

/// Whether the directory of Fathom's files could not be made: the home is read-only or another's,
/// or the user has none.
fn is_without_place(said: &str) -> bool {
    let is_said = |words: &str| said.contains(words);
    (is_said("mkdir") && (is_said("ead-only file system") || is_said("ermission denied")))
        || (is_said("HOME") && is_said("not set"))
}

/// Why neither program could be started.
pub(super) fn not_started(target: &Target, error: &io::Error) -> String {
    let (program, package) = match target {
        Target::Adb { .. } => ("adb", "adb"),
        _ => ("ssh", "openssh-client"),
    };
    if error.kind() == io::ErrorKind::NotFound {
        return format!("{target}: {program} is not installed here; sudo apt-get install {package}");
    }
    format!("{target}: {program} cannot be started: {error}")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn words(target: &str, script: &str) -> Vec<String> {
        let command = command(&target.parse().unwrap(), script).unwrap();
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_machine_stands_behind_the_options_and_the_script_is_one_word() {
        let words = words("ssh:pi@board", "echo 'it is' $HOME");
        let end = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(words[end + 1], "pi@board");
        assert_eq!(words.len(), end + 3);
        // As a shell there reads it.
        let read = format!("set -- {}; printf '%s|' \"$@\"", words[end + 2]);
        let output = Command::new("sh").args(["-c", &read]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "exec|sh|-c|echo 'it is' $HOME|");
        assert!(words.contains(&"BatchMode=yes".to_owned()));
    }

    /// What happened: a jump host that asked for a password, or whose key was not known, asked at
    /// the terminal, for ssh hands `BatchMode` on to no jump host. It was stopped there, since this
    /// program's group has the terminal, and after 90 s "it has not moved" was all that was said.
    #[test]
    fn a_jump_host_asks_nothing_either() {
        let of = |target: &str| {
            let command = command(&target.parse().unwrap(), "true").unwrap();
            let asks = |(name, value): (&OsStr, Option<&OsStr>)| {
                let name = name.to_str()?.strip_prefix("SSH_ASKPASS")?;
                Some(format!("{name}={}", value?.to_str()?))
            };
            let mut all: Vec<String> = command.get_envs().filter_map(asks).collect();
            all.sort();
            all
        };
        assert_eq!(of("ssh:board"), ["=false", "_REQUIRE=force"]);
        assert!(of("adb:1").is_empty());
    }

    /// What happened: with `ControlMaster auto` in the user's configuration the agent's ssh was the
    /// one whose connection `ssh board` in another terminal, or a second fathom, used as well. At
    /// the end of the run it waited for them for a minute, and was killed then, and with it theirs.
    #[test]
    fn no_connection_of_ours_is_shared_with_others() {
        let words = words("ssh:board", "true");
        let at = words.iter().position(|word| word == "ControlMaster=no").unwrap();
        assert_eq!(words[at - 1], "-o");
    }

    /// What happened: with `SessionType none`, `StdinNull yes` or `ForkAfterAuthentication yes`, which
    /// a configuration has for hosts that tunnels lead to, no command was started there, or none
    /// heard what was asked.
    #[test]
    fn a_command_is_started_and_heard_whatever_the_configuration_has_for_tunnels() {
        let place = tempfile::tempdir().unwrap();
        let config = place.path().join("config");
        let of_tunnels = "SessionType none\nStdinNull yes\nForkAfterAuthentication yes\n";
        // Of another system's ssh, as a configuration has it that is used on both.
        let words = format!("IgnoreUnknown UseKeychain\n{of_tunnels}UseKeychain yes\n");
        std::fs::write(&config, words).unwrap();
        let mut ssh = Command::new("ssh");
        ssh.args(["-G", "-F"]).arg(&config);
        for option in SSH_OPTIONS {
            ssh.args(["-o", option]);
        }
        let Ok(output) = ssh.args(["--", "board"]).output() else {
            println!("SKIP: needs ssh (apt-get install openssh-client)");
            return;
        };
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("batchmode yes"), "{said}");
        for wrong in ["sessiontype none", "stdinnull yes", "forkafterauthentication yes"] {
            assert!(!said.lines().any(|line| line == wrong), "{said}");
        }
    }

    /// What happened: with `LogLevel QUIET`, which people have for boards that they set up often,
    /// ssh said nothing of a key that was refused or a host that was not there, and "the command
    /// there ended with exit status: 255" was all that was told.
    #[test]
    fn ssh_says_what_is_wrong_whatever_its_configuration_keeps_quiet() {
        let words = words("ssh:board", "true");
        let at = words.iter().position(|word| word == "LogLevel=INFO").unwrap();
        assert_eq!(words[at - 1], "-o");
    }

    /// A push to a busy machine was told to be a dead connection: adb had taken all of the file,
    /// and for 90 s nothing more was seen of what was written and added up there.
    #[test]
    fn a_command_that_says_it_goes_on_is_waited_for_and_one_that_stands_still_is_not() {
        let run = |script: &str, seconds: u64| {
            let limit = Duration::from_secs(seconds);
            let mut said = tempfile::tempfile().unwrap();
            let began = Instant::now();
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::null())
                .stdout(said.try_clone().unwrap())
                .spawn()
                .unwrap();
            let moved = || (said.metadata().unwrap().len(), said.metadata().unwrap().len());
            let status = end(&mut child, moved, limit, &Interrupt::default());
            (status.map(|status| status.success()), text(&mut said), began.elapsed())
        };
        let often = BEAT.replace("sleep 5", "sleep 0.2");
        assert_ne!(often, BEAT);
        // A machine may be so busy that a beat of 0.2 s takes seconds: then with a longer limit.
        let limits = [3, 12, 48];
        let beating = |seconds: u64| {
            (seconds, run(&format!("{often} sleep {}; kill $beat; echo whole", seconds + 2), seconds))
        };
        let heard = limits.into_iter().map(beating).find(|(_, (status, ..))| status.is_ok());
        let (seconds, (status, said, took)) = heard.expect("it says that it goes on");
        assert_eq!(status, Ok(true));
        assert!(took > Duration::from_secs(seconds) && said.ends_with("\nwhole\n"), "{took:?} {said:?}");
        let standing = |seconds: u64| (seconds, run("echo begun; exec sleep 600", seconds));
        let heard = limits.into_iter().map(standing).find(|(_, (_, said, _))| !said.is_empty());
        let (seconds, (status, said, _)) = heard.expect("it begins");
        assert_eq!(status, Err(format!("it has not moved for {seconds} s")));
        assert_eq!(said, "begun\n");
        // A `.bashrc` that printed without an end filled the disk here: it moved.
        let (status, _, took) = run("exec yes", 60);
        let why = status.unwrap_err();
        assert!(why.contains("does not stop talking") && took < Duration::from_secs(300), "{why} {took:?}");
    }

    /// Killed from outside, a script leaves nobody behind who goes on to say that it runs.
    #[test]
    fn nobody_says_that_a_killed_script_goes_on() {
        let often = BEAT.replace("sleep 5", "sleep 0.1");
        let child = Command::new("sh")
            .args(["-c", &format!("{often} kill -9 $$")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It ends where all that hold the pipe have ended.
        let output = child.wait_with_output().unwrap();
        assert!(!output.status.success());
    }

    /// `ssh-keygen -R pi@board` finds nothing: no key is known by a user's name.
    #[test]
    fn a_key_that_has_changed_is_forgotten_by_the_hosts_name() {
        let said = "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!";
        for target in ["ssh:pi@board:/mnt/card", "ssh:board"] {
            let why = why(&target.parse().unwrap(), said, ExitStatus::from_raw(255 << 8));
            assert!(why.contains("`ssh-keygen -R board`"), "{why}");
        }
    }

    /// What happened: a board that `~/.ssh/config` gives a name has its key under its address, and
    /// with a port of its own under both: `ssh-keygen -R board` found nothing to forget. Where the
    /// key of a jump host had changed, another machine was named.
    #[test]
    fn a_key_that_has_changed_is_forgotten_where_ssh_has_it() {
        let of = |middle: &str| {
            let said = format!(
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n\
                 Offending ED25519 key in /home/me/my keys:7\r\n{middle} for [10.0.0.9]:2222 has changed and you have \
                 requested strict checking.\r\nHost key verification failed."
            );
            why(&"ssh:pi@board".parse().unwrap(), &said, ExitStatus::from_raw(255 << 8))
        };
        for middle in ["Host key", "ED25519 host key"] {
            let why = of(middle);
            assert!(why.contains("`ssh-keygen -f '/home/me/my keys' -R '[10.0.0.9]:2222'`"), "{why}");
        }
    }

    /// What adb says of a phone with Android 6 names an option that nobody has given.
    #[test]
    fn a_phone_that_is_too_old_is_told_as_that() {
        let said = "error: target doesn't support PTY args -Tt";
        let failed = ExitStatus::from_raw(1 << 8);
        assert!(why(&"adb:1".parse().unwrap(), said, failed).contains("Android 6"));
        assert_eq!(why(&"ssh:board".parse().unwrap(), said, failed), said);
    }

    /// What happened: before whoever logs in many a server says that "unauthorized access is
    /// prohibited" (`Banner` of sshd), and whatever failed then, a full disk for one, was to be
    /// allowed "on the phone's screen".
    #[test]
    fn what_a_server_says_to_everybody_is_no_word_of_a_phone() {
        let said = "All unauthorized access is prohibited.\ncat: write error: No space left on device";
        let failed = ExitStatus::from_raw(1 << 8);
        assert_eq!(why(&"ssh:board".parse().unwrap(), said, failed), said);
        let phone = "error: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set";
        assert!(why(&"adb:1".parse().unwrap(), phone, failed).contains("on the phone's screen"));
    }

    /// A home that is read-only, or none: what was said named no way out.
    #[test]
    fn a_home_that_takes_nothing_is_said_with_what_names_another_directory() {
        let board: Target = "ssh:board".parse().unwrap();
        let failed = ExitStatus::from_raw(1 << 8);
        for said in [
            "mkdir: cannot create directory '/home/pi/.cache': Read-only file system",
            "mkdir: can't create directory '/nonexistent': Permission denied",
            "sh: 1: HOME: parameter not set or null",
        ] {
            assert!(why(&board, said, failed).contains(CACHE), "{said}");
        }
        let phone: Target = "adb:1".parse().unwrap();
        let said = why(&phone, "mkdir: '/data/x': Read-only file system", failed);
        assert!(said.contains("serial number"), "{said}");
        let card = "fathom agent: /mnt/card: Read-only file system";
        assert_eq!(why(&board, card, failed), card, "the directory under test is none of Fathom's own");
    }

    /// What happened: to whoever has Korean here and on the board ssh hands it on, and what mkdir
    /// said of a read-only home there was not known, and no way out was named.
    #[test]
    fn what_mkdir_says_is_said_in_words_that_are_known() {
        let place = tempfile::tempdir().unwrap();
        let mkdir = place.path().join("mkdir");
        let write =
            "printf '#!/bin/sh\\necho \"language $LC_ALL\" >&2; exit 1\\n' >\"$1\" && chmod 755 \"$1\"";
        assert!(Command::new("sh").args(["-c", write, "sh"]).arg(&mkdir).status().unwrap().success());
        let path = format!("{}:/usr/bin:/bin", place.path().display());
        for target in ["ssh:board", "adb:x:/data/local/tmp/x"] {
            let output = Command::new("sh")
                .args(["-c", &places(&target.parse().unwrap())])
                .env("PATH", &path)
                .env("HOME", place.path())
                .env("LC_ALL", "ko_KR.UTF-8")
                .output()
                .unwrap();
            // A shell may complain of that language itself.
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.ends_with("language C\n"), "{said}");
        }
    }

    /// A program that is linked to a loader which the machine has not: as a shell says it, the
    /// program itself, which lies there, was not found.
    #[test]
    fn a_program_whose_loader_is_absent_is_told_from_one_that_is_absent() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("fathom");
        // By a process of its own: what this one writes may be open in what another test starts
        // just now, and a file that is written cannot be executed ("Text file busy").
        let write = "echo '#!/lib/no-such-loader.so' >\"$1\" && chmod 755 \"$1\"";
        let made = Command::new("sh").args(["-c", write, "sh"]).arg(&program).status();
        assert!(made.unwrap().success());
        let board: Target = "ssh:board".parse().unwrap();
        let mut tried = 0;
        for shell in [&["sh"][..], &["bash"], &["busybox", "sh"]] {
            let script = format!("exec '{}' agent", program.display());
            let Ok(end) = Command::new(shell[0]).args(&shell[1..]).args(["-c", &script]).output() else {
                continue;
            };
            tried += 1;
            let said = String::from_utf8_lossy(&end.stderr);
            let said = why(&board, said.trim(), end.status);
            assert!(said.contains("scripts/static.sh"), "{shell:?}: {said}");
        }
        assert!(tried > 0);
        let failed = ExitStatus::from_raw(1 << 8);
        let old = "./files/x/fathom: /lib/libc.so.6: version `GLIBC_2.39' not found (required by ./fathom)";
        assert!(why(&board, old, failed).contains("older there"));
        let musl = "Error relocating ./files/x/fathom: __res_init: symbol not found";
        assert!(why(&board, musl, ExitStatus::from_raw(127 << 8)).contains("scripts/static.sh"));
        // What a machine without the commands that are needed says is no matter of libraries.
        let other = why(&board, "sh: uname: not found", ExitStatus::from_raw(127 << 8));
        assert!(!other.contains("static"), "{other}");
    }

    /// What happened: with `XDG_CACHE_HOME=cache` on a board the program was pushed below `cache`,
    /// and the agent, which starts in it, was told of a directory `cache/fathom/work` there.
    #[test]
    fn a_relative_cache_there_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("a home");
        for (named, below) in [
            ("cache", "a home/.cache/fathom"),
            ("", "a home/.cache/fathom"),
            (place.path().join("c d").to_str().unwrap(), "c d/fathom"),
        ] {
            let script = format!("{}printf '%s' \"$work\"", places(&"ssh:board".parse().unwrap()));
            let output = Command::new("sh")
                .args(["-c", &script])
                .current_dir(place.path())
                .env("HOME", &home)
                .env("XDG_CACHE_HOME", named)
                .output()
                .unwrap();
            let work = String::from_utf8(output.stdout).unwrap();
            assert_eq!(work, place.path().join(below).join("work").to_str().unwrap(), "{named:?}");
        }
        assert!(!place.path().join("cache").exists());
    }

    #[test]
    fn a_directory_with_what_a_shell_obeys_stays_a_directory() {
        let directory = "/a b'$(touch ran)\"`touch ran`;touch ran";
        let place = tempfile::tempdir().unwrap();
        for kind in ["ssh:board", "adb:x"] {
            let target: Target = format!("{kind}:{}{directory}", place.path().display()).parse().unwrap();
            let script = format!("{}printf %s \"$work\"", places(&target));
            let output = Command::new("sh")
                .args(["-c", &script])
                .current_dir(place.path())
                .env("HOME", place.path())
                .output()
                .unwrap();
            let work = String::from_utf8(output.stdout).unwrap();
            assert!(work.contains("touch ran"), "{work:?} {}", String::from_utf8_lossy(&output.stderr));
            assert!(!place.path().join("ran").exists());
        }
    }
}
