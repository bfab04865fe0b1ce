//! How a command is started on another machine: `ssh` or `adb`, as the user has them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fathom_ground::command::shell_line;

use super::target::{ADB_DIRECTORY, Target};

/// Names a configuration for `ssh` in the place of `~/.ssh/config`.
const SSH_CONFIG: &str = "FATHOM_SSH_CONFIG";

/// Options of every ssh: nothing is asked at a terminal (keys and agents answer), nothing is
/// forwarded, and a connection over which nothing comes for 45 s is at its end.
const SSH_OPTIONS: [&str; 10] = [
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
            // Whatever shell the user has there hands this one word on.
            command.args(["--", destination]).arg(shell_line(["exec", "sh", "-c", script]));
            command
        }
        Target::Adb { serial, .. } => {
            let mut command = Command::new("adb");
            command.args(["-s", serial, "shell", "-T"]).arg(shell_line(["exec", "sh", "-c", script]));
            command
        }
    };
    // Ctrl-C reaches this program, which decides what ends and how.
    command.process_group(0);
    Some(command)
}

/// The beginning of every script: `base` is where Fathom's files are there, and `work` the
/// directory under test.
pub(super) fn places(target: &Target) -> String {
    let quoted = |text: &str| shell_line([text]);
    match target {
        Target::Local => String::new(),
        Target::Ssh { directory, .. } => {
            let work = match directory {
                Some(directory) => format!("work={}", quoted(directory)),
                None => "work=$base/work; mkdir -p \"$work\"".to_owned(),
            };
            format!(
                "umask 077; base=${{XDG_CACHE_HOME:-${{HOME:?}}/.cache}}/fathom; mkdir -p \"$base/files\" || exit 1; {work} || exit 1; "
            )
        }
        Target::Adb { directory, .. } => {
            // A phone's shell has no home, and no /tmp.
            let base = quoted(directory.as_deref().unwrap_or(ADB_DIRECTORY));
            format!(
                "umask 077; base={base}; mkdir -p \"$base/files\" \"$base/work\" \"$base/state\" \"$base/tmp\" || exit 1; \
                 work=$base/work; export HOME=\"$base\" TMPDIR=\"$base/tmp\" FATHOM_STATE_DIR=\"$base/state\"; "
            )
        }
    }
}

/// Runs a script to its end; what it wrote to stdout. With `input`, that is its standard input.
///
/// # Errors
/// In words: it cannot be started, or what it said.
pub(super) fn run(target: &Target, script: &str, input: Option<std::fs::File>) -> Result<String, String> {
    let script = format!("{}{script}", places(target));
    let Some(mut command) = command(target, &script) else { return Ok(String::new()) };
    let stdin = input.map_or_else(Stdio::null, Stdio::from);
    let output = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| not_started(target, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(if said.is_empty() {
        format!("{target}: the command there ended with {}", output.status)
    } else {
        format!("{target}: {}", fathom_output::lines(said))
    })
}

/// Why neither program could be started.
pub(super) fn not_started(target: &Target, error: &std::io::Error) -> String {
    let (program, package) = match target {
        Target::Adb { .. } => ("adb", "adb"),
        _ => ("ssh", "openssh-client"),
    };
    if error.kind() == std::io::ErrorKind::NotFound {
        return format!("{target}: {program} is not installed here; sudo apt-get install {package}");
    }
    format!("{target}: {program} cannot be started: {error}")
}

#[cfg(test)]
mod tests {
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
