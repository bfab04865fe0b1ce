//! Metrics that are looked up when they are asked for: queues, the store's flushes, the process.

use super::front::Front;
use super::queues::Depth;
use std::fmt::Write;

/// Prometheus escapes backslash, quote and line feed in labels.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

fn single(out: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    head(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}

/// In the text format of Prometheus.
pub(super) fn text(front: &Front) -> String {
    let out = &mut String::new();
    let depths = front.queues.depths();
    let accounts = front.all_accounts();
    head(
        out,
        "smsc_queue_messages",
        "gauge",
        "Messages queued, by who gets them; see smsc_queue_age_seconds",
    );
    for account in &accounts {
        let depth = depths.accounts.get(&account.number).copied().unwrap_or_default();
        let name = label(&account.config().system_id);
        let _ = writeln!(out, "smsc_queue_messages{{account=\"{name}\"}} {}", depth.messages);
    }
    for (route, depth) in &depths.routes {
        let _ = writeln!(out, "smsc_queue_messages{{route=\"{}\"}} {}", label(route), depth.messages);
    }
    head(out, "smsc_queue_stations", "gauge", "Stations of a route that something waits for, by state");
    for (route, Depth { ready, busy, waiting, .. }) in &depths.routes {
        for (state, count) in [("ready", ready), ("busy", busy), ("waiting", waiting)] {
            let _ =
                writeln!(out, "smsc_queue_stations{{route=\"{}\",state=\"{state}\"}} {count}", label(route));
        }
    }
    if let Some(counted) = depths.counted {
        let age = counted.elapsed().as_secs_f64();
        single(out, "smsc_queue_age_seconds", "gauge", "Since the queues of routes were counted", age);
    }
    head(out, "smsc_account_throttled_total", "counter", "Messages refused for an account's rate");
    for account in &accounts {
        let name = label(&account.config().system_id);
        let _ =
            writeln!(out, "smsc_account_throttled_total{{account=\"{name}\"}} {}", account.throttled.get());
    }
    let silence = front.silence().unwrap_or_default().as_secs_f64();
    single(out, "smsc_store_silence_seconds", "gauge", "How long the store has not answered", silence);
    let store = front.store.store();
    if let Some((flushes, ns)) = store.flushes() {
        single(out, "smsc_flushes_total", "counter", "Times that the store's log was synced", flushes);
        let seconds = ns as f64 / 1e9;
        single(out, "smsc_flush_seconds_total", "counter", "Time that took, over all log streams", seconds);
    }
    if let Some(octets) = store.log_bytes() {
        single(out, "smsc_log_bytes_total", "counter", "Octets that the store's log has taken", octets);
    }
    if let Some(octets) = store.memory_bytes() {
        single(out, "smsc_store_memory_bytes", "gauge", "Memory of the store's rows and indexes", octets);
    }
    let begin_s = front.begin_us as f64 / 1e6;
    single(out, "process_start_time_seconds", "gauge", "When the centre was started", begin_s);
    let Process { resident, descriptors } = Process::now();
    if let Some(resident) = resident {
        single(out, "process_resident_memory_bytes", "gauge", "Resident memory", resident);
    }
    if let Some(descriptors) = descriptors {
        single(out, "process_open_fds", "gauge", "Open descriptors", descriptors);
    }
    head(out, "smsc_info", "gauge", "The centre's version and its store's engine");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(out, "smsc_info{{version=\"{version}\",engine=\"{}\"}} 1", front.engine);
    std::mem::take(out)
}

/// What the kernel says of this process; none where there is no /proc.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    /// Resident octets.
    pub resident: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<usize>,
}

impl Process {
    pub fn now() -> Process {
        let resident_kib = || -> Option<u64> {
            let status = std::fs::read_to_string("/proc/self/status").ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.split_whitespace().next()?.parse().ok()
        };
        // One of them is the directory that is being read.
        let descriptors =
            std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1));
        Process { resident: resident_kib().map(|kib| kib << 10), descriptors }
    }
}
