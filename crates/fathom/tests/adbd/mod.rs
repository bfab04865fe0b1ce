//! A real adbd for one test, in a network namespace of its own together with adb's server, so that
//! no port of this machine is opened.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user that adb's shell is on a phone without root; here one that owns nothing.
const NOBODY: u32 = 65534;

/// What runs in the namespace before a test's own commands: `up` starts adbd and connects adb's
/// server to it, `down` kills it, `step` runs a command and says how it ended, `clean` waits until
/// nothing of a connection is left.
const PROLOGUE: &str = r#"
set -u
ip link set lo up
root=$1 fathom=$2 place=$3 user=$4
library=$root/usr/lib/x86_64-linux-gnu
export HOME=$place ANDROID_ADB_SERVER_PORT=5938 FATHOM_STATE_DIR=$place/state
phone="$place/a phone"
machine="adb:127.0.0.1:5555:$phone"
cd "$place"
up() {
  ADB_PORT=5555 ANDROID_ROOT=$place/system PATH=$place/system/bin:$PATH HOME=/ \
    setpriv --reuid "$user" --regid "$user" --clear-groups -- \
    "$library/ld-linux-x86-64.so.2" --library-path "$library:$library/android" \
    "$root/usr/lib/android-sdk/platform-tools/adbd" >>"$place/adbd.log" 2>&1 &
  adbd=$!
  for try in $(seq 600); do adb connect 127.0.0.1:5555 | grep -q connected && return; sleep 0.2; done
  echo "== adbd did not come up"
}
down() { kill -9 "$adbd"; wait "$adbd" 2>/dev/null; adb disconnect >/dev/null; }
trap 'adb kill-server; kill "$adbd"; wait' EXIT
step() { echo "== $*"; "$@"; echo "== exit $?"; }
left() { for process in /proc/[0-9]*; do readlink "$process/exe"; done 2>/dev/null | grep -c "^$phone"; }
waits_for_worker() {
  for try in $(seq 600); do
    for process in /proc/[0-9]*; do
      case $(readlink "$process/exe") in "$phone"*) ;; *) continue ;; esac
      tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q ' worker' && return
    done
    sleep 0.1
  done
  echo "== no worker came"
}
clean() {
  for try in $(seq 900); do
    if [ "$(left)" = 0 ] && [ -z "$(ls "$phone/work" 2>/dev/null)" ] && ! grep -qF "$place" /proc/mounts; then
      echo "== clean"; return
    fi
    sleep 0.1
  done
  echo "== left $(left), work $(ls "$phone/work")"
}
up
"#;

/// A phone, which is a directory, and its adbd.
pub struct Phone {
    place: tempfile::TempDir,
    packages: OsString,
    user: u32,
}

impl Phone {
    /// None where there is no adbd or no root; says what brings it. With `is_rooted` adb's shell is
    /// root.
    pub fn new(is_rooted: bool) -> Option<Phone> {
        let Some(packages) = std::env::var_os("FATHOM_TEST_ADBD") else {
            println!(
                "SKIP: no adbd; to get it: scripts/adbd.sh DIR, then FATHOM_TEST_ADBD=DIR (and sudo apt-get install adb)"
            );
            return None;
        };
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 || !Path::new("/usr/bin/adb").exists() {
            println!("SKIP: a network namespace needs root, and the client adb: sudo apt-get install adb");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o711)).unwrap();
        let user = if is_rooted { 0 } else { NOBODY };
        let phone = Phone { place, packages, user };
        std::fs::create_dir(phone.path("a phone")).unwrap();
        chown(phone.path("a phone"), Some(user), Some(user)).unwrap();
        Some(phone)
    }

    /// A path here.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A program of the phone's system.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.path("system/bin").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Runs bash commands beside adbd; all that they wrote.
    pub fn run(&self, commands: &str) -> String {
        let output = Command::new("unshare")
            .args(["--net", "--", "bash", "-c", &format!("{PROLOGUE}{commands}"), "bash"])
            .arg(&self.packages)
            .arg(env!("CARGO_BIN_EXE_fathom"))
            .arg(self.place.path())
            .arg(self.user.to_string())
            .output()
            .unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        format!("{}\n-- stderr\n{}", text(&output.stdout), text(&output.stderr))
    }

    /// The first column of the first row, as text.
    pub fn asked(&self, results: &str, sql: &str) -> String {
        let connection = rusqlite::Connection::open(self.path(results)).unwrap();
        connection
            .query_row(sql, [], |row| {
                row.get_ref(0).map(|value| match value {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str().unwrap_or_default().to_owned(),
                })
            })
            .unwrap()
    }
}
