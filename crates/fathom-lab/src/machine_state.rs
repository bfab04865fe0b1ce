//! What a machine's speed depends on and what moves while runs are made: battery, temperature,
//! clocks.
//!
//! Kept of each run, for a phone that has got warm by its seventh is another machine than it was.
//! What a machine does not tell is absent, and never an error.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What was found at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineState {
    /// The battery's charge, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub battery_percent: Option<u64>,
    /// Whether it runs from its battery, and is not at a charger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_on_battery: Option<bool>,
    /// Name of the hottest zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its temperature, millidegrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_mc: Option<i64>,
    /// Android's thermal status, 0 none to 6 shutdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thermal_status: Option<u64>,
    /// A Raspberry Pi's word on its supply and clock (`get_throttled`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Whether Android's fixed performance mode is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_performance: Option<bool>,
    /// The processors' clocks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ProcessorClocks>,
}

/// Processors with one governor and one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessorClocks {
    /// Their numbers.
    pub cpus: Vec<u32>,
    /// What chooses their clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// The highest clock that each of them may have, kHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_khz: Option<u64>,
    /// The lowest and the highest clock that one of them has, kHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now_khz: Option<(u64, u64)>,
}

/// A processor that may do less than it might.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLoss {
    /// Its number.
    pub cpu: u32,
    /// The highest clock that it might have, kHz.
    pub was_khz: u64,
    /// And may have, kHz.
    pub is_khz: u64,
}

impl ClockLoss {
    /// Of two sets of limits by processor: the loss of the one that lost most; none where none did.
    #[must_use]
    pub fn between(was: &BTreeMap<u32, u64>, is: &BTreeMap<u32, u64>) -> Option<ClockLoss> {
        let lost = was.iter().filter_map(|(cpu, was_khz)| {
            let is_khz = *is.get(cpu)?;
            (is_khz < *was_khz).then_some(ClockLoss { cpu: *cpu, was_khz: *was_khz, is_khz })
        });
        lost.min_by_key(ClockLoss::permille_left)
    }

    /// What is left of its clock, in thousandths.
    #[must_use]
    pub fn permille_left(&self) -> u64 {
        self.is_khz.saturating_mul(1000) / self.was_khz.max(1)
    }
}

impl MachineState {
    /// Whether the machine tells anything.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != MachineState::default()
    }

    /// The highest clock that each processor may have, kHz, by its number.
    #[must_use]
    pub fn limits_khz(&self) -> BTreeMap<u32, u64> {
        let of = |some: &ProcessorClocks| {
            let limit_khz = some.limit_khz;
            some.cpus.iter().filter_map(|cpu| Some((*cpu, limit_khz?))).collect::<Vec<_>>()
        };
        self.clocks.iter().flat_map(of).collect()
    }

    /// The highest clock that any processor may have, kHz.
    #[must_use]
    pub fn limit_khz(&self) -> Option<u64> {
        self.clocks.iter().filter_map(|some| some.limit_khz).max()
    }

    /// The lowest and the highest clock that a processor has, kHz.
    #[must_use]
    pub fn now_khz(&self) -> Option<(u64, u64)> {
        let all = || self.clocks.iter().filter_map(|some| some.now_khz);
        Some((all().map(|pair| pair.0).min()?, all().map(|pair| pair.1).max()?))
    }

    /// The governors, each once; empty where none is told.
    #[must_use]
    pub fn governors(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.clocks.iter().filter_map(|some| some.governor.as_deref()).collect();
        all.into_iter().collect()
    }
}

/// What a machine was like when a run began and when it was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Just before its worker was started: what the kernel's files tell.
    pub begin: MachineState,
    /// After it had ended: what the system's programs tell as well. Of a run that failed nothing.
    pub end: MachineState,
}

impl Conditions {
    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.begin.is_known() || self.end.is_known()
    }

    /// What is told of the run's end; of its begin where nothing is told of its end.
    pub fn last<T>(&self, of: impl Fn(&MachineState) -> Option<T>) -> Option<T> {
        of(&self.end).or_else(|| of(&self.begin))
    }

    /// The lowest of the limits that each processor had at its begin and its end, kHz.
    #[must_use]
    pub fn limits_khz(&self) -> BTreeMap<u32, u64> {
        let mut all = self.begin.limits_khz();
        for (cpu, khz) in self.end.limits_khz() {
            all.entry(cpu).and_modify(|known| *known = khz.min(*known)).or_insert(khz);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(cpus: &[u32], limit_khz: u64) -> ProcessorClocks {
        ProcessorClocks { cpus: cpus.to_vec(), limit_khz: Some(limit_khz), ..ProcessorClocks::default() }
    }

    #[test]
    fn a_state_comes_back_from_its_text_and_one_that_tells_nothing_is_short() {
        let mut some = clocks(&[0, 1], 1_800_000);
        (some.governor, some.now_khz) = (Some("schedutil".into()), Some((300_000, 1_800_000)));
        let state = MachineState {
            battery_percent: Some(80),
            is_on_battery: Some(false),
            temperature_mc: Some(-500),
            clocks: vec![some],
            ..MachineState::default()
        };
        let conditions = Conditions { begin: MachineState::default(), end: state };
        let text = serde_json::to_string(&conditions).unwrap();
        assert!(text.starts_with("{\"begin\":{},\"end\":{\"battery_percent\":80,"), "{text}");
        assert_eq!(serde_json::from_str::<Conditions>(&text).unwrap(), conditions);
        // Of a later Fathom, which knows more.
        let later: Conditions = serde_json::from_str("{\"end\":{\"fan\":7}}").unwrap();
        assert!(!later.is_known() && conditions.is_known());
    }

    #[test]
    fn the_processor_that_lost_most_of_its_clock_stands_for_all() {
        let before = MachineState {
            clocks: vec![clocks(&[0, 1], 1_800_000), clocks(&[7], 2_841_600)],
            ..MachineState::default()
        };
        let after = MachineState {
            clocks: vec![clocks(&[1], 1_800_000), clocks(&[0], 1_700_000), clocks(&[7], 1_900_800)],
            ..MachineState::default()
        };
        let (was, is) = (before.limits_khz(), after.limits_khz());
        let loss = ClockLoss::between(&was, &is).unwrap();
        assert_eq!(loss, ClockLoss { cpu: 7, was_khz: 2_841_600, is_khz: 1_900_800 });
        assert_eq!(ClockLoss::between(&is, &was), None, "what has cooled lost nothing");
        assert_eq!(ClockLoss::between(&was, &BTreeMap::new()), None, "what is not told is no loss");
        let run = Conditions { begin: after.clone(), end: before.clone() };
        assert_eq!(run.limits_khz(), is, "the lower of both");
        assert_eq!((before.limit_khz(), before.now_khz()), (Some(2_841_600), None));
    }
}
