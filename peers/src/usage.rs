//! What a process and its children cost, from `/proc`.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Sums over one or more processes since they began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Usage {
    /// Processor time, user and system, µs.
    pub cpu_us: u64,
}

impl Usage {
    /// Of this process and, where there is one, the server with its children.
    pub fn now(server: Option<u32>) -> Result<Usage> {
        let mut usage = of("self")?;
        for pid in server.iter().flat_map(|&pid| family(pid)) {
            // A child of the server may have ended since it was listed.
            if let Ok(more) = of(&pid.to_string()) {
                usage.cpu_us += more.cpu_us;
            }
        }
        Ok(usage)
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage { cpu_us: self.cpu_us.saturating_sub(earlier.cpu_us) }
    }
}

/// Bytes that this process has passed to `write(2)` and its kin (`wchar`).
pub fn written_by_calls() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/io").context("/proc/self/io")?;
    text.lines()
        .find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok())
        .context("/proc/self/io has no field wchar")
}

fn of(pid: &str) -> Result<Usage> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    // Fields are counted after the name, which may hold spaces: state is 3, utime 14, stime 15, and
    // the same of children that have ended 16 and 17 (proc_pid_stat(5)); a server's sessions end
    // with their clients.
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at - 3).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    // SAFETY: sysconf has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    Ok(Usage { cpu_us: (14..=17).map(ticks).sum::<u64>() * 1_000_000 / per_second })
}

/// Bytes that the device under `path` has written since it was attached; `None` where it has no
/// such counter.
///
/// The counter is the device's: whatever else writes to it meanwhile is counted too. (`write_bytes`
/// of the process would not do: where the page cache holds large folios, it charges a whole folio
/// for one page.)
pub fn device_written(path: &Path) -> Option<u64> {
    let device = fs::metadata(path).ok()?.dev();
    let stat = format!("/sys/dev/block/{}:{}/stat", libc::major(device), libc::minor(device));
    let sectors: u64 = fs::read_to_string(stat).ok()?.split_ascii_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let path = format!("/proc/{pid}/task/{pid}/children");
    if let Ok(children) = fs::read_to_string(path) {
        family.extend(children.split_ascii_whitespace().filter_map(|c| c.parse::<u32>().ok()));
    }
    family
}
