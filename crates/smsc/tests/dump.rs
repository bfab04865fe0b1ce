//! No core dump has what the centre must not tell: passwords, keys, messages.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Another user, who has nothing.
const NOBODY: u32 = 65_534;

/// Whose files in /proc a centre has that runs as somebody else: root's, if it is left out of
/// dumps (proc(5)).
fn owner(dir: &Path, options: &[&str]) -> u32 {
    let mut command = Command::new(dir.join("smsc"));
    command.args(["serve", "--segment-mib", "1", "--config"]).arg(dir.join("smsc.toml")).args(options);
    command.arg("--store").arg(dir.join(format!("store{}", options.len())));
    let mut child = command.uid(NOBODY).gid(NOBODY).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.starts_with("listening")));
    let owner = std::fs::metadata(format!("/proc/{}/mem", child.id())).unwrap().uid();
    child.kill().unwrap();
    child.wait().unwrap();
    owner
}

#[test]
fn a_centre_is_left_out_of_core_dumps() {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("SKIP: only root runs a program as somebody else");
    }
    // The program is where the tests were built, which may be root's alone.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_smsc"), dir.path().join("smsc")).unwrap();
    std::fs::write(dir.path().join("smsc.toml"), smpp_client::config("")).unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(owner(dir.path(), &[]), 0);
    assert_eq!(owner(dir.path(), &["--core-dumps"]), NOBODY);
}
