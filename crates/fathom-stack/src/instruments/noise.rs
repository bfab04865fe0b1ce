//! Noise: what else the machine did while something was measured.

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Steal above this share of all CPU time is warned of.
const STEAL_LIMIT: f64 = 0.01;
/// CPU time of other processes above this share of all is warned of.
const OTHERS_LIMIT: f64 = 0.10;

/// Ticks of all CPUs since boot, from the first line of `/proc/stat` (see proc_stat(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
    steal: u64,
}

/// Measures noise from [`NoiseMeter::start`] to [`NoiseMeter::read`].
#[derive(Clone, Debug)]
pub struct NoiseMeter {
    ticks: Option<Ticks>,
    own: u64,
    started: Instant,
}

/// What else the machine did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Length of the measured time, s.
    pub seconds: f64,
    /// Share of all CPU time that the hypervisor gave to other guests, 0 to 1.
    pub steal_share: f64,
    /// Share of all CPU time that went to other processes than this one and the children it has
    /// waited for, 0 to 1. The kernel's own work (flushing, interrupts) and FUSE drivers are among
    /// it.
    pub others_share: f64,
    /// Load average over one minute at the end.
    pub load_1min: f64,
    /// CPUs of the machine.
    pub cpus: usize,
}

impl NoiseMeter {
    /// Begins a measurement.
    #[must_use]
    pub fn start() -> NoiseMeter {
        NoiseMeter { ticks: ticks(), own: own_ticks(), started: Instant::now() }
    }

    /// What happened since the start. The kernel counts in ticks of 10 ms, so shares mean little
    /// below a second.
    #[must_use]
    pub fn read(&self) -> Noise {
        let cpus = fathom_ground::system::online_cpus();
        let mut noise = Noise { seconds: self.started.elapsed().as_secs_f64(), cpus, ..Noise::default() };
        noise.load_1min = load_1min().unwrap_or(0.0);
        if let (Some(from), Some(to)) = (self.ticks, ticks()) {
            // iowait and steal may run backwards a little.
            let [busy, idle, steal] = [(to.busy, from.busy), (to.idle, from.idle), (to.steal, from.steal)]
                .map(|(to, from)| to.saturating_sub(from));
            let all = (busy + idle + steal).max(1) as f64;
            let own = own_ticks().saturating_sub(self.own);
            noise.steal_share = steal as f64 / all;
            noise.others_share = busy.saturating_sub(own) as f64 / all;
        }
        noise
    }
}

impl Noise {
    /// What a reader must know, in words to act on; empty on a quiet machine.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.steal_share > STEAL_LIMIT {
            all.push(format!(
                "the hypervisor took {:.1} % of the CPU time for other guests: latencies include it; repeat on a quieter host",
                self.steal_share * 100.0
            ));
        }
        if self.others_share > OTHERS_LIMIT {
            all.push(format!(
                "other processes used {:.0} % of the CPU time: end them and repeat, or trust only large differences",
                self.others_share * 100.0
            ));
        }
        all
    }
}

/// A warning when the machine is loaded before anything is measured, else none: more runnable tasks
/// than half the CPUs over the last minute.
#[must_use]
pub fn load_warning() -> Option<String> {
    let cpus = fathom_ground::system::online_cpus();
    let load = load_1min()?;
    (load > cpus as f64 / 2.0).then(|| {
        format!("load average is {load:.1} on {cpus} CPUs before the measurement began: end other work first, results will be noisy")
    })
}

fn load_1min() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn ticks() -> Option<Ticks> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; guest time is part of
/// user time.
fn parse(stat: &str) -> Option<Ticks> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = numbers.map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = fields.get(..8)?.try_into().ok()?;
    Some(Ticks { busy: user + nice + system + irq + softirq, idle: idle + iowait, steal })
}

/// CPU time of this process and its waited-for children in ticks: utime, stime, cutime, cstime of
/// `/proc/self/stat`.
fn own_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(')') else { return 0 };
    // Field 3 is the first after the name; 14 to 17 are the times.
    rest.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_line_of_stat_is_understood() {
        let ticks = parse("cpu  100 20 30 400 50 6 7 8 9 10\ncpu0 1 2\n").unwrap();
        assert_eq!(ticks, Ticks { busy: 163, idle: 450, steal: 8 });
        assert_eq!(parse("cpu  1 2 3"), None);
    }

    #[test]
    fn own_work_is_not_noise() {
        // By this thread's own clock: on a busy machine it gets less than the time that passes.
        let worked_ms = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec * 1000 + time.tv_nsec / 1_000_000
        };
        let meter = NoiseMeter::start();
        let (start_ms, mut x) = (worked_ms(), 1u64);
        // Of the first millisecond only a part is counted.
        while worked_ms() - start_ms <= 300 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(own_ticks() - meter.own >= 25, "300 ms of work are counted as our own");
        let noise = meter.read();
        assert!(noise.seconds >= 0.3 && (0.0..=1.0).contains(&noise.others_share), "{noise:?}");
    }

    #[test]
    fn only_a_noisy_machine_is_warned_of() {
        assert_eq!(Noise::default().warnings(), Vec::<String>::new());
        let noisy = Noise { steal_share: 0.05, others_share: 0.4, ..Noise::default() }.warnings();
        assert!(noisy[0].contains("5.0 %") && noisy[1].contains("40 %"), "{noisy:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
