//! What a run did to the machine's clock: a phone or a board that gets warm lowers the highest
//! clock that it allows, and goes on all the same.
//!
//! The clock of a moment says little, for a governor lowers it whenever there is nothing to do. The
//! limit (`scaling_max_freq`) is lowered by what cools (cpufreq cooling of the kernel, Android's
//! thermal engines) and by the user, who does not do so in the middle of a run.

use crate::machine_state::{ClockLoss, MachineState};

/// That a processor may do less at the `end` of a run than at its `begin`, in words; none where
/// none does.
pub(super) fn slower(begin: &MachineState, end: &MachineState) -> Option<String> {
    // The one that lost most of its clock stands for all.
    let ClockLoss { cpu, was_khz, is_khz } = ClockLoss::between(&begin.limits_khz(), &end.limits_khz())?;
    let warmer = match (begin.temperature_mc, end.temperature_mc) {
        (Some(was), Some(is)) => {
            format!(", while the hottest zone went from {} to {} °C", was / 1000, is / 1000)
        }
        _ => String::new(),
    };
    Some(format!(
        "the machine lowered its highest clock during the run (cpu{cpu} from {} to {} MHz{warmer}): the times of its end \
         are not those of its begin; let it cool, and make runs shorter",
        was_khz / 1000,
        is_khz / 1000
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::state;
    use super::super::sysfs::put;
    use super::*;

    fn machine(sys: &Path, big_khz: &str, milli: &str) -> MachineState {
        put(sys, "devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1800000\n");
        put(sys, "devices/system/cpu/cpu7/cpufreq/scaling_max_freq", big_khz);
        put(sys, "class/thermal/thermal_zone0/type", "soc\n");
        put(sys, "class/thermal/thermal_zone0/temp", milli);
        state::of(sys)
    }

    /// A phone below every temperature that is warned of, which had slowed its clock down in a run
    /// of minutes, was told of by nothing: only what holds after a run was looked at.
    #[test]
    fn a_machine_that_slows_down_in_a_run_is_told_with_what_it_was_and_is() {
        let sys = tempfile::tempdir().unwrap();
        let before = machine(sys.path(), "2841600\n", "38500\n");
        let warm = machine(sys.path(), "1900800\n", "61200\n");
        let told = slower(&before, &warm).unwrap();
        for part in ["cpu7 from 2841 to 1900 MHz", "from 38 to 61 °C"] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert_eq!(slower(&warm, &before), None, "what has cooled is no slower");
        assert_eq!(slower(&warm, &warm), None);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_told_of() {
        let nothing = MachineState::default();
        let sys = tempfile::tempdir().unwrap();
        let known = machine(sys.path(), "100\n", "20000\n");
        assert_eq!((slower(&known, &nothing), slower(&nothing, &known)), (None, None));
    }
}
