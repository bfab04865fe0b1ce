//! How busy the machine is.

use serde::{Deserialize, Serialize};

/// What the machine is doing. CPU times count from boot, over all CPUs, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// 1-minute load average.
    pub load: Option<f64>,
    /// CPUs that can be used.
    pub cpus: usize,
    /// CPU time that the hypervisor gave to others.
    pub steal_ticks: u64,
    /// All CPU time.
    pub total_ticks: u64,
}
