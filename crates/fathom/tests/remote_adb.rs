//! Runs over a real adbd, which is in a network namespace of its own with adb's server. Skipped
//! where `FATHOM_TEST_ADBD` does not name the directory that `scripts/adbd.sh` fills, and without
//! root.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod adbd;

use adbd::Phone;
use fathom_random::Random;

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

/// Whose queries begin with cold caches.
const COLD: &str = r#"name = "cold"
title = "Cold"
repeats = 2
[workload]
name = "chat"
rows = 500
queries = 1
phases = ["select"]
[engine]
name = "sqlite"
"#;

const DONE: &str = "SELECT count(*) FROM run WHERE status = 'done'";

#[test]
fn a_run_over_adb_is_as_at_home() {
    let Some(phone) = Phone::new(true) else { return };
    std::fs::write(phone.path("mine.toml"), MINE).unwrap();
    let said = phone.run(
        r#"
step "$fathom" doctor --on "$machine"
step "$fathom" run mine.toml --on "$machine" --out r.db --quiet
step "$fathom" run mine.toml --on local --on "$machine" --repeat 1 --out two.db
step "$fathom" trace synthesise gmail --scale 2 --out app.trace
step "$fathom" trace replay app.trace --on "$machine"
clean
"#,
    );
    assert_eq!(said.matches("== exit 0").count(), 5, "{said}");
    assert!(said.contains("== clean"), "{said}");
    assert_eq!(phone.asked("r.db", DONE), "2", "{said}");
    assert_eq!(phone.asked("two.db", DONE), "2", "{said}");
    let machine = "SELECT count(*) FROM environment WHERE key = 'machine' AND value LIKE 'adb:%'";
    assert_eq!(phone.asked("r.db", machine), "1");
}

/// What a phone says of itself, as its programs say it.
fn speaking(phone: &Phone) {
    phone.program(
        "getprop",
        "case $1 in ro.build.version.release) echo 14;; ro.product.model) echo Phone;; ro.build.type) echo userdebug;; \
         ro.boot.qemu) echo 1;; *) echo;; esac",
    );
    phone.program("settings", "[ \"$*\" = 'get global low_power' ] && echo 1");
    phone.program(
        "dumpsys",
        "case $1 in battery) printf 'Current Battery Service state:\\n  AC powered: false\\n  USB powered: false\\n  \
         level: 17\\n';; thermalservice) printf 'IsStatusOverride: false\\nThermal Status: 3\\n';; esac",
    );
}

/// adb's shell is no root on the phones that people have: it mounts nothing, drops no caches and
/// traces no blocks, and each is said where it is missed.
#[test]
fn a_phone_without_root_is_measured_and_what_is_missing_is_said() {
    let Some(phone) = Phone::new(false) else { return };
    speaking(&phone);
    std::fs::write(phone.path("mine.toml"), MINE).unwrap();
    std::fs::write(phone.path("cold.toml"), COLD).unwrap();
    let said = phone.run(
        r#"
step "$fathom" doctor --on "$machine"
step "$fathom" run cold.toml --on "$machine" --out r.db
step "$fathom" run mine.toml --on "$machine" --out b.db --set blocks=true
step "$fathom" run mine.toml --on "$machine" --out e.db --set filesystem=dir,ext4 --set size_mib=64
clean
"#,
    );
    println!("{said}");
    assert_eq!(said.matches("== exit 0").count(), 4, "{said}");
    assert!(said.contains("== clean"), "{said}");
    for part in ["files are evicted one by one instead", "no device could be traced", "ext4 was not measured"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for results in ["r.db", "b.db", "e.db"] {
        assert_eq!(phone.asked(results, DONE), "2", "{results}: {said}");
    }
    let warned = |words: &str| {
        let sql = format!("SELECT count(*) > 0 FROM warning WHERE text LIKE '%{words}%'");
        assert_eq!(phone.asked("r.db", &sql), "1", "{words}: {said}");
    };
    for words in
        ["17 \\% and discharging", "status is 3 of 6", "an emulator", "debug build", "battery saver is on"]
    {
        warned(&words.replace("\\%", "_"));
    }
    // Each run has its own, also where the kernel's files tell nothing.
    let kept = "SELECT count(*) FROM run WHERE conditions ->> '$.end.thermal_status' = 3 \
                AND conditions ->> '$.end.battery_percent' = 17 AND conditions ->> '$.end.is_on_battery' = 1";
    assert_eq!(phone.asked("r.db", kept), "2", "{said}");
    for (key, value) in [
        ("android", "14"),
        ("device", "Phone"),
        ("battery", "17 %, discharging"),
        ("battery_at_end", "17 %, discharging"),
        ("user", "not root"),
    ] {
        let sql = format!("SELECT value FROM environment WHERE key = '{key}'");
        assert_eq!(phone.asked("r.db", &sql), value);
    }
}

/// A `dumpsys` that hung was waited for without an end, here and after each run.
#[test]
fn a_phone_whose_services_hang_is_measured_and_what_is_not_known_is_said() {
    let Some(phone) = Phone::new(false) else { return };
    speaking(&phone);
    phone.program("dumpsys", "sleep 600");
    std::fs::write(phone.path("mine.toml"), MINE).unwrap();
    let said = phone.run("step \"$fathom\" run mine.toml --on \"$machine\" --out r.db\nclean\n");
    println!("{said}");
    assert!(said.contains("== exit 0") && said.contains("== clean"), "{said}");
    assert_eq!(phone.asked("r.db", DONE), "2", "{said}");
    let warned =
        "SELECT count(*) FROM warning WHERE run IS NOT NULL AND text LIKE '%did not answer in time%'";
    assert_eq!(phone.asked("r.db", warned), "2", "{said}");
    let known = "SELECT value FROM environment WHERE key = 'android'";
    assert_eq!(phone.asked("r.db", known), "14", "{said}");
}

/// With root the phone records for other devices; without, its own storage is measured, and that is
/// said.
#[test]
fn advice_is_recorded_on_a_phone_and_names_it() {
    for (is_rooted, device, what) in [
        (true, "--device ufs-fresh", "recordings on adb:"),
        (false, "", "Recording for other devices needs root there"),
    ] {
        let Some(phone) = Phone::new(is_rooted) else { return };
        let advise = format!("\"$fathom\" advise app.trace --on \"$machine\" {device} --repeat 1 --out r.db");
        let said = phone.run(&format!(
            "step \"$fathom\" trace synthesise androbench --scale 1 --out app.trace\nstep {advise}\nclean\n"
        ));
        println!("{said}");
        assert_eq!(said.matches("== exit 0").count(), 2, "{said}");
        assert!(said.contains("== clean") && said.contains(what) && said.contains("PRAGMA"), "{said}");
        let machine = "SELECT count(*) FROM environment WHERE key = 'machine' AND value LIKE 'adb:%'";
        assert_eq!(phone.asked("r.db", machine), "1");
    }
}

/// A killed adb left the worker on the phone for good.
#[test]
fn a_client_that_is_killed_at_any_moment_leaves_nothing_on_the_phone() {
    let Some(phone) = Phone::new(true) else { return };
    let stack = "[stack]\nfilesystem = \"ext4\"\nsize_mib = 64\ndevice = \"sd-slow\"\n";
    std::fs::write(phone.path("mine.toml"), format!("{MINE}{stack}")).unwrap();
    let moments: u32 = std::env::var("FATHOM_KILLS").ok().and_then(|word| word.parse().ok()).unwrap_or(3);
    let seed = std::env::var("FATHOM_KILL_SEED").ok().and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let kill = |moment| {
        format!(
            "\"$fathom\" run mine.toml --on \"$machine\" --set workload.transactions=2000 --out k{moment}.db --quiet &\n\
             sleep {:.3}; kill -9 $!; wait $! 2>/dev/null; begin=$SECONDS; clean; echo \"== within $((SECONDS - begin)) s\"\n",
            random.below(6000) as f64 / 1000.0
        )
    };
    let said = phone.run(&(0..moments).map(kill).collect::<String>());
    println!("{said}");
    assert_eq!(said.matches("== clean").count(), moments as usize, "{said}");
}

#[test]
fn a_phone_that_is_unplugged_fails_the_run_with_its_reason_and_the_rest_goes_on() {
    let Some(phone) = Phone::new(true) else { return };
    std::fs::write(phone.path("mine.toml"), MINE).unwrap();
    let said = phone.run(
        r#"
"$fathom" run mine.toml --on "$machine" --set workload.transactions=1500 --out r.db --quiet &
client=$!
waits_for_worker
down
up
wait $client
echo "== ended $?"
clean
step "$fathom" run mine.toml --on "$machine" --set workload.transactions=1500 --out r.db --quiet --resume
clean
"#,
    );
    assert!(said.contains("== ended 1"), "{said}");
    assert!(said.contains("the connection to adb:127.0.0.1:5555"), "{said}");
    assert!(said.contains("== exit 0"), "{said}");
    assert_eq!(said.matches("== clean").count(), 2, "{said}");
    assert_eq!(phone.asked("r.db", DONE), "2", "{said}");
}
