//! Runs over a real adbd, which is in a network namespace of its own with adb's server. Skipped
//! where `FATHOM_TEST_ADBD` does not name the directory that `scripts/adbd.sh` fills, and without
//! root.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::Path;
use std::process::Command;

/// What runs in the namespace: adbd, adb's server on a port of its own, and the commands of the
/// test; then both end.
const SCRIPT: &str = r#"
set -u
ip link set lo up
root=$1 fathom=$2 place=$3
library=$root/usr/lib/x86_64-linux-gnu
export HOME=$place ANDROID_ADB_SERVER_PORT=5938 FATHOM_STATE_DIR=$place/state
ADB_PORT=5555 "$library/ld-linux-x86-64.so.2" --library-path "$library:$library/android" \
  "$root/usr/lib/android-sdk/platform-tools/adbd" >"$place/adbd.log" 2>&1 &
adbd=$!
trap 'adb kill-server; kill $adbd; wait' EXIT
for try in $(seq 100); do adb connect 127.0.0.1:5555 | grep -q connected && break; sleep 0.2; done
machine="adb:127.0.0.1:5555:$place/a phone"
cd "$place"
step() { echo "== $*"; "$@"; echo "== exit $?"; }
step "$fathom" doctor --on "$machine"
step "$fathom" run mine.toml --on "$machine" --out r.db --quiet
step "$fathom" run mine.toml --on local --on "$machine" --repeat 1 --out two.db
"$fathom" run mine.toml --on "$machine" --set workload.transactions=100000 --out k.db --quiet &
client=$!
for try in $(seq 300); do pgrep -f "$place/a phone/.*worker|fathom worker" >/dev/null && break; sleep 0.1; done
sleep 1
kill -9 $client
for try in $(seq 600); do
  left=$(for process in /proc/[0-9]*; do readlink "$process/exe"; done 2>/dev/null | grep -c "^$place/a phone")
  [ "$left" = 0 ] && break
  sleep 0.1
done
echo "== left $left"
echo "== work $(ls "$place/a phone/work" | wc -l)"
"#;

const MINE: &str = r#"name = "mine"
title = "Mine"
repeats = 2
[workload]
name = "mobibench-sql"
transactions = 50
tables = 1
[engine]
name = "sqlite"
"#;

#[test]
fn a_run_over_adb_is_as_at_home_and_a_client_that_is_killed_leaves_nothing() {
    let Some(root) = std::env::var_os("FATHOM_TEST_ADBD") else {
        println!(
            "SKIP: no adbd; to get it: scripts/adbd.sh DIR, then FATHOM_TEST_ADBD=DIR (and sudo apt-get install adb)"
        );
        return;
    };
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 || !Path::new("/usr/bin/adb").exists() {
        println!("SKIP: a network namespace needs root, and the client adb: sudo apt-get install adb");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("mine.toml"), MINE).unwrap();
    let output = Command::new("unshare")
        .args(["--net", "--", "bash", "-c", SCRIPT, "bash"])
        .arg(root)
        .arg(env!("CARGO_BIN_EXE_fathom"))
        .arg(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("== exit 0").count(), 3, "{all}");
    assert!(said.contains("== left 0") && said.contains("== work 0"), "{all}");
    let rows = |file: &str, sql: &str| {
        let connection = rusqlite::Connection::open(place.path().join(file)).unwrap();
        connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), 2, "{all}");
    assert_eq!(rows("two.db", "SELECT count(*) FROM run WHERE status = 'done'"), 2, "{all}");
    assert_eq!(
        rows("r.db", "SELECT count(*) FROM environment WHERE key = 'machine' AND value LIKE 'adb:%'"),
        1
    );
}
