//! What about a machine makes times doubtful: battery, temperature, clock frequencies, a phone's
//! build.
//!
//! The list is that of androidx.benchmark's checks (`Errors.kt`: battery, locked clocks, emulator,
//! debuggable), and of what a Raspberry Pi's firmware tells of its supply. What a machine does not
//! tell is left out: nothing here is a failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_workload::sample::WarningKind;

use super::programs::Programs;
use super::state;
use crate::machine_state::MachineState;
use crate::store::Warning;

/// Below this a phone begins to save power (androidx.benchmark: 25 %).
const BATTERY_LOW: u64 = 25;
/// A zone at or above this is hot enough for governors to slow the clock down, millidegrees
/// Celsius.
const HOT: i64 = 80_000;
/// Names the directory of Android's system in the environment of its shells; elsewhere none of its
/// programs is asked.
const ANDROID_ROOT: &str = "ANDROID_ROOT";
/// That directory, where nobody names it.
const ANDROID: &str = "/system";

/// Of what a machine keeps to itself.
const NOT_TOLD: &str = "not told";

/// Where a Raspberry Pi has `vcgencmd`, which asks its firmware; a Pi 5 has no file of the kernel's
/// that says the same.
const BOARD_PROGRAMS: &str = "/usr/bin";

/// Bits of a Raspberry Pi's `get_throttled`, and what they mean now (raspberrypi.com,
/// `vcgencmd get_throttled`).
const THROTTLED: [(u64, &str); 4] = [
    (0, "the supply's voltage is too low"),
    (1, "the clock is capped"),
    (2, "the clock is throttled"),
    (3, "the temperature limit is reached"),
];

/// What was found; what is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    /// What each run keeps.
    pub state: MachineState,
    /// Android's properties and settings, by the key under which results carry them.
    pub android: BTreeMap<String, String>,
    /// What the system's programs were asked and did not answer in time.
    pub unanswered: Vec<String>,
}

impl Condition {
    /// This machine's.
    pub fn here() -> Condition {
        let root = std::env::var_os(ANDROID_ROOT).filter(|root| !root.is_empty());
        let android = root.map_or_else(|| PathBuf::from(ANDROID), PathBuf::from).join("bin");
        let (android, board) = (android.is_dir().then_some(&*android), Path::new(BOARD_PROGRAMS));
        Condition::of(Path::new("/sys"), android, board, Programs::new())
    }

    /// As `sys` and the programs in `android` and `board` tell it.
    fn of(sys: &Path, android: Option<&Path>, board: &Path, mut asked: Programs) -> Condition {
        // First: the programs that are asked take seconds, in which a machine cools.
        let mut state = state::of(sys);
        if state.throttled.is_none() {
            let said = asked.said(board, "vcgencmd", &["get_throttled"]);
            state.throttled = said.and_then(|word| state::throttled(&word));
        }
        let mut found = Condition { state, ..Condition::default() };
        if let Some(programs) = android {
            found.ask_android(&mut |name, words| asked.said(programs, name, words));
        }
        found.unanswered = asked.unanswered();
        found
    }

    /// Asks Android's own programs; `said` gives what one of that name says to these words.
    fn ask_android(&mut self, said: &mut dyn FnMut(&str, &[&str]) -> Option<String>) {
        // What moves is asked first.
        if let Some(dump) = said("dumpsys", &["thermalservice"]) {
            let status = dump.lines().find_map(|line| line.trim().strip_prefix("Thermal Status:"));
            self.state.thermal_status = status.and_then(|word| word.trim().parse().ok());
        }
        if self.state.battery_percent.is_none()
            && let Some(dump) = said("dumpsys", &["battery"])
        {
            let field =
                |name: &str| dump.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
            let level = field("level:").and_then(|word| word.parse().ok());
            let is_powered = ["AC powered:", "USB powered:", "Wireless powered:", "Dock powered:"]
                .iter()
                .any(|name| field(name) == Some("true"));
            self.state.battery_percent = level;
            self.state.is_on_battery = level.map(|_| !is_powered);
        }
        let properties = [
            ("android", "ro.build.version.release"),
            ("device", "ro.product.model"),
            ("soc", "ro.soc.model"),
            ("build", "ro.build.type"),
            ("debuggable", "ro.debuggable"),
            // Of emulators up to Android 11 and since.
            ("emulator", "ro.kernel.qemu"),
            ("emulator", "ro.boot.qemu"),
        ];
        for (key, property) in properties {
            if let Some(value) = said("getprop", &[property]) {
                self.android.insert(key.into(), value);
            }
        }
        let mode = ["get", "global", "low_power"];
        if let Some(value) = said("settings", &mode).filter(|value| value != "null") {
            self.android.insert("power_save".into(), value);
        }
        // Android's `cmd power` sets the fixed performance mode and tells it to nobody
        // (PowerManagerShellCommand.java); a maker's release may.
        if !self.android.is_empty() {
            let dump = said("dumpsys", &["power"]).unwrap_or_default();
            let fixed =
                dump.lines().find_map(|line| line.trim().strip_prefix("mFixedPerformanceModeEnabled="));
            self.state.fixed_performance = fixed.and_then(|word| word.parse().ok());
            self.android.insert("fixed_performance".into(), fixed.unwrap_or(NOT_TOLD).to_owned());
        }
    }

    /// Charge in percent, and whether it is being discharged.
    fn battery(&self) -> Option<(u64, bool)> {
        self.state.battery_percent.zip(self.state.is_on_battery)
    }

    /// The hottest zone: its type and millidegrees.
    fn hottest(&self) -> Option<(&str, i64)> {
        self.state.zone.as_deref().zip(self.state.temperature_mc)
    }

    /// What results carry of it.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut all = self.android.clone();
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                all.insert(key.to_owned(), value);
            }
        };
        put(
            "battery",
            self.battery().map(|(percent, is_used)| {
                format!("{percent} %, {}", if is_used { "discharging" } else { "charging or full" })
            }),
        );
        put(
            "temperature",
            self.hottest()
                .map(|(zone, milli)| format!("{}.{} °C ({zone})", milli / 1000, (milli % 1000).abs() / 100)),
        );
        put(
            "frequencies",
            self.state.now_khz().map(|(low, high)| format!("{} to {} MHz", low / 1000, high / 1000)),
        );
        put("throttled", self.state.throttled.map(|bits| format!("{bits:#x}")));
        put("thermal_status", self.state.thermal_status.map(|status| status.to_string()));
        put("not_answered", (!self.unanswered.is_empty()).then(|| self.unanswered.join(", ")));
        all
    }

    /// What a reader must know, each a sentence.
    pub fn remarks(&self) -> Vec<Warning> {
        let is = |key: &str, value: &str| self.has(key, value);
        let mut remarks = warnings(WarningKind::Noise, self.what_slows());
        if is("emulator", "1") {
            let text = "this is an emulator: its times are those of the host, and of no phone".to_owned();
            remarks.push(Warning { kind: WarningKind::NoDevice, text });
        }
        let mut notes = Vec::new();
        if is("fixed_performance", "false") {
            notes.push(
                "the clock is not held: where the phone has it, `adb shell cmd power set-fixed-performance-mode-enabled true` \
                 holds it"
                    .to_owned(),
            );
        }
        if is("debuggable", "1") || ["eng", "userdebug"].iter().any(|build| is("build", build)) {
            notes.push("the system is a debug build: it may be slower than the one that people have".into());
        }
        if !self.unanswered.is_empty() {
            notes.push(format!(
                "not known, for the system did not answer in time: what `{}` tells",
                self.unanswered.join("`, `")
            ));
        }
        remarks.extend(warnings(WarningKind::Other, notes));
        remarks
    }

    /// Whether Android tells this of a key.
    fn has(&self, key: &str, value: &str) -> bool {
        self.android.get(key).is_some_and(|found| found == value)
    }

    /// What makes the machine slower than it is at other times.
    fn what_slows(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        match self.battery() {
            Some((percent, true)) if percent < BATTERY_LOW => remarks.push(format!(
                "the battery is at {percent} % and discharging: the machine saves power; charge it above {BATTERY_LOW} %"
            )),
            Some((_, true)) => remarks.push(
                "the machine runs from its battery: its clock may be slower than at a charger".to_owned(),
            ),
            _ => {}
        }
        if let Some((zone, milli)) = self.hottest().filter(|(_, milli)| *milli >= HOT) {
            remarks.push(format!(
                "it is hot ({zone}: {} °C): the clock is slowed down; let it cool",
                milli / 1000
            ));
        }
        for (bit, words) in THROTTLED {
            if self.state.throttled.is_some_and(|bits| bits >> bit & 1 == 1) {
                remarks.push(format!("the board's firmware says: {words}"));
            }
        }
        if let Some(status) = self.state.thermal_status.filter(|status| *status > 0) {
            remarks.push(format!(
                "Android's thermal status is {status} of 6: the clock is slowed down; let it cool"
            ));
        }
        if self.has("power_save", "1") {
            remarks.push("battery saver is on: switch it off".into());
        }
        remarks
    }
}

/// Warnings of one kind.
fn warnings(kind: WarningKind, texts: Vec<String>) -> Vec<Warning> {
    texts.into_iter().map(|text| Warning { kind, text }).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::super::sysfs::put;
    use super::*;

    /// As [`Condition::of`], of a machine whose programs answer, however long they take for it.
    fn of(sys: &Path, android: Option<&Path>, board: &Path) -> Condition {
        let limit = Duration::from_secs(120);
        Condition::of(sys, android, board, Programs::within(limit, limit * 5))
    }

    /// All that is remarked of kind, in lines.
    fn remarked(found: &Condition, kind: WarningKind) -> String {
        let all = found.remarks().into_iter().filter(|remark| remark.kind == kind);
        all.map(|remark| remark.text + "\n").collect()
    }

    /// A program, written by a process of its own: a descriptor of this one that writes may be in
    /// what another test starts just now, and a file that is written cannot be executed.
    fn put_program(root: &Path, path: &str, script: &str) {
        put(root, &format!("{path}.text"), &format!("#!/bin/sh\n{script}\n"));
        let made = Command::new("sh")
            .args(["-c", "cat \"$1.text\" >\"$1\" && chmod 755 \"$1\"", "sh"])
            .arg(root.join(path))
            .status();
        assert!(made.unwrap().success());
    }

    #[test]
    fn a_board_with_a_bad_supply_and_a_hot_zone_is_warned_of() {
        let sys = tempfile::tempdir().unwrap();
        put(sys.path(), "class/thermal/thermal_zone0/type", "cpu-thermal\n");
        put(sys.path(), "class/thermal/thermal_zone0/temp", "84700\n");
        put(sys.path(), "class/thermal/thermal_zone1/type", "off\n");
        put(sys.path(), "class/thermal/thermal_zone1/temp", "-273000\n");
        put(sys.path(), "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "600000\n");
        put(sys.path(), "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1800000\n");
        put(sys.path(), "devices/platform/soc/soc:firmware/get_throttled", "50005\n");
        // A wireless mouse's, which says nothing of the machine.
        put(sys.path(), "class/power_supply/mouse/type", "Battery\n");
        put(sys.path(), "class/power_supply/mouse/scope", "Device\n");
        put(sys.path(), "class/power_supply/mouse/capacity", "5\n");
        put(sys.path(), "class/power_supply/mouse/status", "Discharging\n");
        let nowhere = Path::new("/nonexistent");
        let found = of(sys.path(), None, nowhere);
        let environment = found.environment();
        assert_eq!(environment["temperature"], "84.7 °C (cpu-thermal)");
        assert_eq!(environment["frequencies"], "600 to 1800 MHz");
        assert_eq!(environment["throttled"], "0x50005");
        assert!(!environment.contains_key("battery"));
        // A report called its answer one that nothing makes doubtful.
        let remarks = remarked(&found, WarningKind::Noise);
        for part in ["it is hot (cpu-thermal: 84 °C)", "voltage is too low", "the clock is throttled"] {
            assert!(remarks.contains(part), "{part} in {remarks}");
        }
        assert!(!remarks.contains("capped"), "{remarks}");
        // A Pi 5 has no such file, and a program that says it.
        std::fs::remove_dir_all(sys.path().join("devices/platform")).unwrap();
        assert_eq!(of(sys.path(), None, nowhere).state.throttled, None);
        put_program(sys.path(), "bin/vcgencmd", "[ \"$*\" = get_throttled ] && echo throttled=0x50005");
        let five = of(sys.path(), None, &sys.path().join("bin"));
        assert_eq!(five.state.throttled, Some(0x50005));
    }

    #[test]
    fn a_phone_is_asked_by_its_own_programs_and_each_that_is_missing_is_left_out() {
        let nowhere = Path::new("/nonexistent");
        let place = tempfile::tempdir().unwrap();
        let program = |name: &str, script: &str| put_program(place.path(), name, script);
        program(
            "getprop",
            "case $1 in ro.build.type) echo userdebug;; ro.kernel.qemu) echo 1;; *) echo;; esac",
        );
        program(
            "dumpsys",
            "case $1 in battery) printf 'Current Battery Service state:\\n  AC powered: false\\n  USB powered: false\\n  \
             level: 17\\n';; power) echo '  mFixedPerformanceModeEnabled=false';; thermalservice) \
             printf 'IsStatusOverride: false\\nThermal Status: 3\\n';; esac",
        );
        let found = of(nowhere, Some(place.path()), nowhere);
        assert_eq!(found.battery(), Some((17, true)));
        assert_eq!((found.state.thermal_status, found.state.fixed_performance), (Some(3), Some(false)));
        for (kind, part) in [
            (WarningKind::Noise, "17 % and discharging"),
            (WarningKind::Noise, "status is 3"),
            (WarningKind::NoDevice, "emulator"),
            (WarningKind::Other, "set-fixed-performance-mode"),
            (WarningKind::Other, "debug build"),
        ] {
            let remarks = remarked(&found, kind);
            assert!(remarks.contains(part), "{part} in {remarks}");
        }
        assert_eq!(found.environment()["build"], "userdebug");
        program("dumpsys", "exit 1");
        program("getprop", "case $1 in ro.boot.qemu|ro.debuggable) echo 1;; *) echo;; esac");
        let quiet = of(nowhere, Some(place.path()), nowhere);
        assert_eq!(quiet.environment()["fixed_performance"], "not told");
        assert!(remarked(&quiet, WarningKind::NoDevice).contains("emulator"));
        assert!(remarked(&quiet, WarningKind::Other).contains("debug build"));
        assert!(!found.environment().contains_key("power_save"));
        let nothing = of(nowhere, Some(nowhere), nowhere);
        assert_eq!((nothing.remarks(), nothing.environment()), (Vec::new(), BTreeMap::new()));
    }

    /// A phone whose `dumpsys` hung was waited for without an end, and with it the experiment.
    #[test]
    fn a_phone_that_hangs_is_measured_and_what_is_not_known_is_said() {
        let nowhere = Path::new("/nonexistent");
        let place = tempfile::tempdir().unwrap();
        put_program(place.path(), "getprop", "case $1 in ro.build.version.release) echo 14;; *) echo;; esac");
        put_program(place.path(), "dumpsys", "sleep 600");
        let within = |seconds: u64| {
            let limit = Duration::from_secs(seconds);
            Condition::of(nowhere, Some(place.path()), nowhere, Programs::within(limit, limit * 10))
        };
        // Where the machine is so busy that a shell that answers is late, too, with more time.
        let answers = |found: &Condition| {
            found.environment().get("not_answered").is_some_and(|told| !told.contains("getprop"))
        };
        let found = [4, 16, 64].into_iter().map(within).find(answers).unwrap();
        assert_eq!((found.state.thermal_status, found.battery()), (None, None));
        let environment = found.environment();
        assert_eq!((&*environment["android"], &*environment["fixed_performance"]), ("14", "not told"));
        assert_eq!(environment["not_answered"], "dumpsys thermalservice, dumpsys battery, dumpsys power");
        let remarks = found.remarks();
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        let said = &remarks[0].text;
        assert!(said.contains("not known") && said.contains("`dumpsys battery`"), "{said}");
    }
}
