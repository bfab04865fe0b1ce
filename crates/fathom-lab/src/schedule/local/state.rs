//! What the kernel's files tell of battery, temperature and clocks: a few hundred reads at most,
//! and no program is asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::sysfs::{entries, text};
use crate::machine_state::{MachineState, ProcessorClocks};

/// Of so many processors the current clock is read. Some kernels wake a processor for it and take
/// 20 ms; of more than these a phone has none.
const CLOCKS_READ: usize = 16;

/// This machine's, now.
pub(super) fn here() -> MachineState {
    of(Path::new("/sys"))
}

/// As `sys` tells it.
pub(super) fn of(sys: &Path) -> MachineState {
    let battery = battery(&sys.join("class/power_supply"));
    let hottest = hottest(&sys.join("class/thermal"));
    MachineState {
        battery_percent: battery.map(|(percent, _)| percent),
        is_on_battery: battery.map(|(_, is_used)| is_used),
        temperature_mc: hottest.as_ref().map(|(_, milli)| *milli),
        zone: hottest.map(|(zone, _)| zone),
        thermal_status: None,
        throttled: text(sys.join("devices/platform/soc/soc:firmware/get_throttled"))
            .and_then(|word| throttled(&word)),
        fixed_performance: None,
        clocks: clocks(&sys.join("devices/system/cpu")),
    }
}

/// The number in what a Raspberry Pi's firmware says, by the kernel or by `vcgencmd`.
pub(super) fn throttled(word: &str) -> Option<u64> {
    let digits = word.trim_start_matches("throttled=").trim_start_matches("0x");
    u64::from_str_radix(digits, 16).ok()
}

/// The first battery that belongs to the machine itself, and not to a mouse: its charge in percent,
/// and whether it is being discharged.
fn battery(supplies: &Path) -> Option<(u64, bool)> {
    entries(supplies).iter().find_map(|supply| {
        let is_battery = text(supply.join("type"))? == "Battery";
        let is_own = text(supply.join("scope")).is_none_or(|scope| scope != "Device");
        let percent = text(supply.join("capacity"))?.parse().ok()?;
        let is_used = text(supply.join("status"))? == "Discharging";
        (is_battery && is_own).then_some((percent, is_used))
    })
}

/// The hottest zone: its type and millidegrees.
fn hottest(zones: &Path) -> Option<(String, i64)> {
    let of = |zone: &PathBuf| Some((text(zone.join("type"))?, text(zone.join("temp"))?.parse().ok()?));
    // A sensor that is off says 0 or less, or something impossible.
    entries(zones)
        .iter()
        .filter_map(of)
        .filter(|(_, milli)| (1..150_000).contains(milli))
        .max_by_key(|zone| zone.1)
}

/// The processors that have a clock which the kernel chooses, by governor and limit.
fn clocks(cpus: &Path) -> Vec<ProcessorClocks> {
    let number = |cpu: &PathBuf| cpu.file_name()?.to_str()?.strip_prefix("cpu")?.parse::<u32>().ok();
    let mut numbered: Vec<(u32, PathBuf)> =
        entries(cpus).into_iter().filter_map(|cpu| Some((number(&cpu)?, cpu.join("cpufreq")))).collect();
    numbered.sort_unstable();
    let mut groups: BTreeMap<(Option<String>, Option<u64>), ProcessorClocks> = BTreeMap::new();
    for (place, (cpu, clock)) in numbered.into_iter().enumerate() {
        let khz = |name: &str| text(clock.join(name))?.parse::<u64>().ok();
        let (governor, limit_khz) = (text(clock.join("scaling_governor")), khz("scaling_max_freq"));
        let now_khz = (place < CLOCKS_READ).then(|| khz("scaling_cur_freq")).flatten();
        if governor.is_none() && limit_khz.is_none() && now_khz.is_none() {
            continue;
        }
        let group = groups.entry((governor.clone(), limit_khz)).or_default();
        (group.governor, group.limit_khz) = (governor, limit_khz);
        group.cpus.push(cpu);
        if let Some(now) = now_khz {
            let (low, high) = group.now_khz.unwrap_or((now, now));
            group.now_khz = Some((low.min(now), high.max(now)));
        }
    }
    groups.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::put;
    use super::*;

    #[test]
    fn processors_are_gathered_by_what_chooses_and_limits_their_clock() {
        let sys = tempfile::tempdir().unwrap();
        let cpu = |number: u32, name: &str, content: &str| {
            put(sys.path(), &format!("devices/system/cpu/cpu{number}/cpufreq/{name}"), content);
        };
        for (number, now, limit) in
            [(0, "300000\n", "1800000\n"), (1, "600000\n", "1800000\n"), (10, "1\n", "2841600\n")]
        {
            cpu(number, "scaling_cur_freq", now);
            cpu(number, "scaling_max_freq", limit);
            cpu(number, "scaling_governor", "schedutil\n");
        }
        // Off, and no processors.
        put(sys.path(), "devices/system/cpu/cpu2/online", "0\n");
        put(sys.path(), "devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1\n");
        put(sys.path(), "devices/system/cpu/cpuidle/current_driver", "psci\n");
        let group = |cpus: &[u32], limit_khz, now_khz| ProcessorClocks {
            cpus: cpus.to_vec(),
            governor: Some("schedutil".into()),
            limit_khz: Some(limit_khz),
            now_khz: Some(now_khz),
        };
        let expected = [group(&[0, 1], 1_800_000, (300_000, 600_000)), group(&[10], 2_841_600, (1, 1))];
        assert_eq!(of(sys.path()).clocks, expected);
        assert_eq!(of(sys.path()).governors(), ["schedutil"]);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_known() {
        assert!(!of(Path::new("/nonexistent")).is_known());
        for (word, bits) in [("50005", Some(0x50005)), ("throttled=0x0", Some(0)), ("no", None), ("", None)] {
            assert_eq!(throttled(word), bits, "{word:?}");
        }
    }
}
