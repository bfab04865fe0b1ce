//! What this machine is and what it is doing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fathom_ground::mountinfo::mount_of;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::condition::Condition;
use crate::schedule::MachineLoad;

/// CPUs that this process may use.
pub(super) fn usable_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Lets this thread run on `cpus` only; empty = leave it. That it cannot is no error: it is a
/// courtesy to the worker.
pub(super) fn keep_to(cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    let _ = sched_setaffinity(None, &set);
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Load and CPU times, from /proc/loadavg and the first line of /proc/stat (proc_loadavg(5),
/// proc_stat(5)).
pub(super) fn machine_load(cpus: usize) -> MachineLoad {
    let load = read("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok());
    let stat = read("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest times are in user already.
    MachineLoad {
        load,
        cpus,
        steal_ticks: ticks.get(7).copied().unwrap_or(0),
        total_ticks: ticks.iter().take(8).sum(),
    }
}

/// What the results must carry to be understood elsewhere: kernel, CPU, memory, clock, governor,
/// SQLite; and of `directory` its file system, device and I/O scheduler.
#[must_use]
pub fn environment(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            found.insert(key.to_owned(), value);
        }
    };
    let name = rustix::system::uname();
    put("kernel", Some(name.release().to_string_lossy().into_owned()));
    put("kernel_version", Some(name.version().to_string_lossy().into_owned()));
    put("system", distribution());
    put("architecture", Some(std::env::consts::ARCH.to_owned()));
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    put("cpu", field("model name").or_else(|| field("Model")));
    put("cpus", Some(usable_cpus().len().to_string()));
    let virtual_machine =
        field("flags").is_some_and(|flags| flags.split(' ').any(|part| part == "hypervisor"));
    let told = (!cpuinfo.is_empty()).then(|| if virtual_machine { "yes" } else { "no" }.to_owned());
    put("virtual_machine", told);
    put("memory_mib", memory_mib().map(|mib| mib.to_string()));
    put("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("governor", governors(Path::new("/sys/devices/system/cpu")));
    put("turbo", turbo());
    put("transparent_huge_pages", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    put("disk", disk_of(directory));
    put("io_scheduler", io_scheduler(directory));
    put("user", Some(if fathom_ground::system::is_root() { "root" } else { "not root" }.to_owned()));
    put("fathom", Some(crate::version::version()));
    put("sqlite", Some(rusqlite::version().to_owned()));
    put("sqlite_options", sqlite_options());
    found.extend(Condition::here().environment());
    found
}

/// The governors of all processors, each once: a phone has one for the big and one for the small.
fn governors(cpus: &Path) -> Option<String> {
    let entries = fs::read_dir(cpus).ok()?.flatten();
    let all: BTreeSet<String> =
        entries.filter_map(|cpu| read(cpu.path().join("cpufreq/scaling_governor"))).collect();
    (!all.is_empty()).then(|| Vec::from_iter(all).join(", "))
}

fn distribution() -> Option<String> {
    let text = read("/etc/os-release")?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

fn memory_mib() -> Option<u64> {
    let text = read("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let told = rustix::system::sysinfo();
    kib.map(|kib| kib / 1024).or_else(|| mib(told.totalram, told.mem_unit))
}

/// MiB of so many units, which the system counts in words of its processor.
fn mib(units: impl Into<u64>, unit: u32) -> Option<u64> {
    Some(units.into().checked_mul(unit.into())? >> 20)
}

fn turbo() -> Option<String> {
    let intel = read("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text == "0");
    let boost = || read("/sys/devices/system/cpu/cpufreq/boost").map(|text| text == "1");
    intel.or_else(boost).map(|on| if on { "on" } else { "off" }.to_owned())
}

/// The file system that a directory lies on, and what that is on: `ext4 on /dev/mmcblk0p1`; none
/// where there is no such directory, or the system does not tell.
#[must_use]
pub fn disk_of(directory: &Path) -> Option<String> {
    let mount = mount_of(directory).ok()?;
    Some(format!("{} on {}", mount.filesystem, mount.source))
}

/// The scheduler in brackets of the block device under `directory`, or of the disk that its
/// partition is on.
fn io_scheduler(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let base = format!("/sys/dev/block/{major}:{minor}");
    let text =
        read(format!("{base}/queue/scheduler")).or_else(|| read(format!("{base}/../queue/scheduler")))?;
    let chosen =
        text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name.to_owned());
    Some(chosen.unwrap_or(text))
}

fn sqlite_options() -> Option<String> {
    let db = rusqlite::Connection::open_in_memory().ok()?;
    let mut select = db.prepare("PRAGMA compile_options").ok()?;
    let options = select.query_map([], |row| row.get::<_, String>(0)).ok()?;
    Some(options.filter_map(Result::ok).collect::<Vec<_>>().join(" "))
}
