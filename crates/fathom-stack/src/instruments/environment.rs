//! What the results were measured on: the machine, and the device under a directory. Keys are
//! stable; a key whose value this machine does not tell is left out.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fathom_ground::mountinfo::host_of;

/// The machine: `kernel`, `kernel_build`, `os`, `architecture`, `cpu_model`, `cpus`,
/// `cpu_governor`, `cpu_boost`, `cpu_vulnerabilities_mitigated`, `memory_bytes`, `swap_bytes`,
/// `transparent_hugepages`, `clocksource`, `virtualisation`, `container`, `load_average` (over 1, 5
/// and 15 minutes), `uptime_s`, `root`.
#[must_use]
pub fn environment() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            all.insert(key.to_owned(), value);
        }
    };
    let name = rustix::system::uname();
    put("kernel", Some(name.release().to_string_lossy().into_owned()));
    put("kernel_build", Some(name.version().to_string_lossy().into_owned()));
    put("architecture", Some(name.machine().to_string_lossy().into_owned()));
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    put("os", os.lines().find_map(|l| Some(l.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned())));
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 names the model; Arm names only numbers of implementer and part.
    let model = field(&cpus, "model name", ':').or_else(|| field(&cpus, "Hardware", ':'));
    put("cpu_model", model.or_else(|| Some(format!("CPU part {}", field(&cpus, "CPU part", ':')?))));
    put("cpus", Some(fathom_ground::system::online_cpus().to_string()));
    let cpu = Path::new("/sys/devices/system/cpu");
    put("cpu_governor", line_of(&cpu.join("cpu0/cpufreq/scaling_governor")));
    put("cpu_boost", boost(cpu));
    put("cpu_vulnerabilities_mitigated", mitigated(&cpu.join("vulnerabilities")));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let told = rustix::system::sysinfo();
    put("memory_bytes", kib(&memory, "MemTotal").or_else(|| bytes(told.totalram, told.mem_unit)));
    put("swap_bytes", kib(&memory, "SwapTotal").or_else(|| bytes(told.totalswap, told.mem_unit)));
    put(
        "transparent_hugepages",
        line_of(Path::new("/sys/kernel/mm/transparent_hugepage/enabled")).map(chosen),
    );
    put(
        "clocksource",
        line_of(Path::new("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
    );
    put("virtualisation", virtualisation(&cpus));
    put("container", container());
    let load = line_of(Path::new("/proc/loadavg"));
    put("load_average", load.map(|l| l.split(' ').take(3).collect::<Vec<_>>().join(" ")));
    let uptime = line_of(Path::new("/proc/uptime"));
    put("uptime_s", uptime.and_then(|l| l.split(' ').next().map(str::to_owned)));
    put("root", Some(fathom_ground::system::is_root().to_string()));
    all
}

/// The place: `filesystem`, `mount_point`, `mount_options`, `source`, `free_bytes`, and of its
/// block device, where there is one: `device`, `device_model`, `scheduler`, `rotational`,
/// `write_cache`, `logical_block_bytes`, `physical_block_bytes`, `discard`, `queue_depth`,
/// `backing_file` (of a loop device).
#[must_use]
pub fn directory_environment(directory: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            all.insert(key.to_owned(), value);
        }
    };
    if !directory.exists() {
        return all;
    }
    let mount = host_of(directory);
    put("filesystem", Some(mount.filesystem));
    put("mount_point", Some(mount.point.display().to_string()));
    put("mount_options", Some(mount.options));
    let free = rustix::fs::statvfs(directory).ok().map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    put("free_bytes", free.map(|f| f.to_string()));
    // Btrfs and others show an anonymous device number; the source's own is the real one.
    let of_source = || {
        let device = fs::metadata(&mount.source).ok()?.rdev();
        Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
    };
    let block = block_device(&mount.device).or_else(|| block_device(&of_source()?));
    put("source", Some(mount.source));
    let Some(block) = block else { return all };
    put("device", block.file_name().map(|n| n.to_string_lossy().into_owned()));
    let model = line_of(&block.join("device/model")).or_else(|| line_of(&block.join("device/name")));
    put("device_model", model);
    let queue = |name: &str| line_of(&block.join("queue").join(name));
    put("scheduler", queue("scheduler").map(chosen));
    put("rotational", queue("rotational").map(|r| (r == "1").to_string()));
    put("write_cache", queue("write_cache"));
    put("logical_block_bytes", queue("logical_block_size"));
    put("physical_block_bytes", queue("physical_block_size"));
    put("discard", queue("discard_max_bytes").map(|b| if b == "0" { "no" } else { "yes" }.to_owned()));
    put("queue_depth", queue("nr_requests"));
    put("backing_file", line_of(&block.join("loop/backing_file")));
    all
}

/// The whole disk's directory in sysfs of a device number `major:minor`, a partition's disk for a
/// partition.
fn block_device(number: &str) -> Option<PathBuf> {
    let path = fs::canonicalize(Path::new("/sys/dev/block").join(number)).ok()?;
    if path.join("partition").exists() { path.parent().map(Path::to_path_buf) } else { Some(path) }
}

/// The first line of a file, trimmed.
fn line_of(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The value of the first line `key : value`.
fn field(text: &str, key: &str, separator: char) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Octets of so many units, which the system counts in words of its processor.
fn bytes(units: impl Into<u64>, unit: u32) -> Option<String> {
    Some(units.into().checked_mul(unit.into())?.to_string())
}

/// A line of `/proc/meminfo` in bytes.
fn kib(memory: &str, key: &str) -> Option<String> {
    let value: u64 = field(memory, key, ':')?.strip_suffix(" kB")?.trim().parse().ok()?;
    Some((value * 1024).to_string())
}

/// The choice in brackets: `none [mq-deadline] kyber` is `mq-deadline`.
fn chosen(line: String) -> String {
    match line.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((choice, _)) => choice.to_owned(),
        None => line,
    }
}

fn boost(cpu: &Path) -> Option<String> {
    let on = line_of(&cpu.join("cpufreq/boost")).map(|b| b == "1");
    let on = on.or_else(|| line_of(&cpu.join("intel_pstate/no_turbo")).map(|n| n == "0"));
    on.map(|on| if on { "on" } else { "off" }.to_owned())
}

/// How many of the known vulnerabilities cost time for a mitigation here; system calls pay for
/// them.
fn mitigated(directory: &Path) -> Option<String> {
    let states: Vec<String> =
        fs::read_dir(directory).ok()?.flatten().filter_map(|e| line_of(&e.path())).collect();
    let count = states.iter().filter(|s| s.starts_with("Mitigation")).count();
    Some(format!("{count} of {}", states.len()))
}

/// `none`, or the hypervisor as far as it shows itself; nothing where nobody tells whether there is
/// one.
fn virtualisation(cpuinfo: &str) -> Option<String> {
    let flags = field(cpuinfo, "flags", ':').unwrap_or_default();
    let dmi = Path::new("/sys/class/dmi/id");
    let product = [line_of(&dmi.join("sys_vendor")), line_of(&dmi.join("product_name"))];
    let product = product.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let hypervisor = line_of(Path::new("/sys/hypervisor/type")).or_else(cpuid_hypervisor);
    if flags.split(' ').any(|f| f == "hypervisor") || hypervisor.is_some() {
        let names = [hypervisor.unwrap_or_else(|| "virtual machine".into()), product];
        Some(names.into_iter().filter(|n| !n.is_empty()).collect::<Vec<_>>().join(", "))
    } else {
        (!cpuinfo.is_empty() || cfg!(target_arch = "x86_64")).then(|| "none".into())
    }
}

/// The signature in CPUID leaf 0x4000_0000: `KVMKVMKVM`, `Microsoft Hv`, `VMwareVMware`,
/// `XenVMMXenVMM` …
#[cfg(target_arch = "x86_64")]
fn cpuid_hypervisor() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    // Leaf 1, ECX bit 31: a hypervisor is there, so the leaf below is defined.
    if __cpuid(1).ecx >> 31 == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    let text: String =
        bytes.iter().filter(|b| b.is_ascii_graphic() || **b == b' ').map(|b| *b as char).collect();
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid_hypervisor() -> Option<String> {
    None
}

fn container() -> Option<String> {
    if let Some(name) = line_of(Path::new("/run/systemd/container")) {
        return Some(name);
    }
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    marks.iter().find(|(path, _)| Path::new(path).exists()).map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let all = environment();
        println!("{all:#?}");
        for key in ["kernel", "cpus", "memory_bytes", "load_average", "virtualisation", "architecture"] {
            assert!(all.contains_key(key), "{key}");
        }
        assert!(all["memory_bytes"].parse::<u64>().unwrap() > 1 << 26);
        assert!(all.values().all(|v| !v.is_empty() && !v.contains('\n')));
    }

    #[test]
    fn a_directory_names_its_file_system_and_a_missing_one_nothing() {
        let here = directory_environment(Path::new(env!("CARGO_MANIFEST_DIR")));
        println!("{here:#?}");
        assert!(here.contains_key("filesystem") && here.contains_key("mount_options"), "{here:?}");
        assert_eq!(directory_environment(Path::new("/proc"))["filesystem"], "proc");
        assert!(directory_environment(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn kernel_texts_are_understood() {
        assert_eq!(chosen("none [mq-deadline] kyber".into()), "mq-deadline");
        assert_eq!(chosen("write back".into()), "write back");
        assert_eq!(kib("MemTotal:  1024 kB\n", "MemTotal"), Some("1048576".into()));
        assert_eq!(field("model name\t: AMD EPYC\n", "model name", ':'), Some("AMD EPYC".into()));
    }
}
