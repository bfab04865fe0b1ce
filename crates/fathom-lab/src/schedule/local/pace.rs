//! What a run did to the machine's clock: a phone or a board that gets warm lowers the highest
//! clock that it allows, and goes on all the same.
//!
//! The clock of a moment says little, for a governor lowers it whenever there is nothing to do. The
//! limit (`scaling_max_freq`) is lowered by what cools (cpufreq cooling of the kernel, Android's
//! thermal engines) and by the user, who does not do so in the middle of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::condition::hottest;
use super::sysfs::{entries, text};

/// What the processors may do at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pace {
    /// The highest clock that each processor may have, kHz, by its name.
    limits_khz: BTreeMap<String, u64>,
    /// The hottest zone's temperature, millidegrees.
    hottest: Option<i64>,
}

impl Pace {
    /// This machine's, now.
    pub fn here() -> Pace {
        Pace::of(Path::new("/sys"))
    }

    fn of(sys: &Path) -> Pace {
        let cpus = entries(&sys.join("devices/system/cpu"));
        let limit = |cpu: &PathBuf| {
            let khz = text(cpu.join("cpufreq/scaling_max_freq"))?.parse::<u64>().ok()?;
            Some((cpu.file_name()?.to_string_lossy().into_owned(), khz))
        };
        Pace {
            limits_khz: cpus.iter().filter_map(limit).collect(),
            hottest: hottest(&sys.join("class/thermal")).map(|(_, milli)| milli),
        }
    }

    /// That a processor may do less than it might at `before`, in words; none where none does.
    pub fn slower_since(&self, before: &Pace) -> Option<String> {
        let fallen = before.limits_khz.iter().filter_map(|(cpu, was)| {
            let is = self.limits_khz.get(cpu)?;
            (is < was).then_some((cpu, *was, *is))
        });
        // The one that lost most of its clock stands for all.
        let (cpu, was, is) = fallen.min_by_key(|(_, was, is)| is.saturating_mul(1000) / (*was).max(1))?;
        let warmer = match (before.hottest, self.hottest) {
            (Some(was), Some(is)) => {
                format!(", while the hottest zone went from {} to {} °C", was / 1000, is / 1000)
            }
            _ => String::new(),
        };
        Some(format!(
            "the machine lowered its highest clock during the run ({cpu} from {} to {} MHz{warmer}): the times of its end \
             are not those of its begin; let it cool, and make runs shorter",
            was / 1000,
            is / 1000
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::put;
    use super::*;

    fn machine(sys: &Path, big_khz: &str, milli: &str) -> Pace {
        put(sys, "devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "1800000\n");
        put(sys, "devices/system/cpu/cpu7/cpufreq/scaling_max_freq", big_khz);
        put(sys, "class/thermal/thermal_zone0/type", "soc\n");
        put(sys, "class/thermal/thermal_zone0/temp", milli);
        Pace::of(sys)
    }

    /// A phone below every temperature that is warned of, which had slowed its clock down in a run
    /// of minutes, was told of by nothing: only what holds after a run was looked at.
    #[test]
    fn a_machine_that_slows_down_in_a_run_is_told_with_what_it_was_and_is() {
        let sys = tempfile::tempdir().unwrap();
        let before = machine(sys.path(), "2841600\n", "38500\n");
        let warm = machine(sys.path(), "1900800\n", "61200\n");
        let told = warm.slower_since(&before).unwrap();
        for part in ["cpu7 from 2841 to 1900 MHz", "from 38 to 61 °C"] {
            assert!(told.contains(part), "{part} in {told}");
        }
        assert_eq!(before.slower_since(&warm), None, "what has cooled is no slower");
        assert_eq!(warm.slower_since(&warm), None);
    }

    #[test]
    fn a_machine_that_tells_nothing_is_not_told_of() {
        let nothing = Pace::of(Path::new("/nonexistent"));
        assert_eq!(nothing, Pace::default());
        let sys = tempfile::tempdir().unwrap();
        let known = machine(sys.path(), "100\n", "20000\n");
        assert_eq!((nothing.slower_since(&known), known.slower_since(&nothing)), (None, None));
    }
}
