//! Which machine something was made on, where several have the same disk.

use std::fs;

use fathom_ground::fnv::{EMPTY, fnv1a};
use serde::{Deserialize, Serialize};

/// A machine, by numbers that say nothing of it (machine-id(5) asks for that); none where nobody
/// tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineMark {
    /// Of its kernel since that was started.
    kernel: Option<u64>,
    /// Of its system, which stays when it is started anew.
    system: Option<u64>,
}

impl MachineMark {
    /// This one.
    pub fn here() -> MachineMark {
        MachineMark { kernel: of("/proc/sys/kernel/random/boot_id"), system: of("/etc/machine-id") }
    }

    /// Whether it is another machine than `here` for certain: another kernel, which a container does
    /// not have, and another system, which a machine that was started anew does not have.
    pub fn is_elsewhere(self, here: MachineMark) -> bool {
        let differ = |own: Option<u64>, other: Option<u64>| own.zip(other).is_some_and(|(a, b)| a != b);
        differ(self.kernel, here.kernel) && differ(self.system, here.system)
    }
}

/// FNV-1a (64 bits) of the word in a file.
fn of(path: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let word = Some(text.trim()).filter(|word| !word.is_empty() && *word != "uninitialized")?;
    Some(fnv1a(EMPTY, word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_has_another_kernel_and_another_system() {
        let here = MachineMark { kernel: Some(1), system: Some(2) };
        let is_elsewhere = |kernel, system| MachineMark { kernel, system }.is_elsewhere(here);
        assert!(is_elsewhere(Some(3), Some(4)));
        assert!(!is_elsewhere(Some(1), Some(4)), "a container");
        assert!(!is_elsewhere(Some(3), Some(2)), "started anew");
        assert!(!is_elsewhere(Some(3), None) && !is_elsewhere(None, None), "nobody tells");
        assert!(!MachineMark::here().is_elsewhere(MachineMark::here()));
        assert_eq!(MachineMark::here(), MachineMark::here());
    }
}
