//! Runs of one machine that were not made under the same conditions: its clock was limited in some,
//! it ran from its battery in others, it got warm.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine_state::ClockLoss;
use crate::naming::joined;
use crate::remote::LOCAL;
use crate::store::{Results, RunRow};

/// The hottest zone's temperature may move by so much from run to run, millidegrees, before it is
/// worth a word.
const WARMER: i64 = 15_000;
/// Bits of a Raspberry Pi's `get_throttled` that hold now. Those that have held since its boot
/// stand [`SINCE_BOOT`] places above them.
const NOW: u64 = 0xf;
const SINCE_BOOT: u32 = 16;
/// So many stretches of runs are named.
const NAMED: usize = 5;

/// What differs between the runs of a machine, in words that say in which.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Differences {
    /// What makes their times differ.
    pub noise: Vec<String>,
    /// What only may.
    pub notes: Vec<String>,
}

/// A run, and its number in the order in which all of them were made, from 1.
type Numbered<'a> = (usize, &'a RunRow);

/// The runs of one machine.
struct Series<'a> {
    runs: Vec<Numbered<'a>>,
    results: &'a Results,
}

/// What differs between the runs, machine by machine.
pub(super) fn differences(results: &Results) -> Differences {
    let mut machines: BTreeMap<&str, Vec<Numbered<'_>>> = BTreeMap::new();
    for (number, run) in (1..).zip(&results.runs) {
        if let Some(cell) = results.cell(run.cell).filter(|_| run.conditions.is_known()) {
            let name = if cell.spec.on.is_empty() { LOCAL } else { cell.spec.on.as_str() };
            machines.entry(name).or_default().push((number, run));
        }
    }
    let is_one = machines.len() == 1;
    let mut all = Differences::default();
    for (name, runs) in machines {
        let machine = if is_one { String::new() } else { format!("on {name}: ") };
        let series = Series { runs, results };
        let noise = [
            series.clock(),
            series.firmware(),
            series.thermal_status(),
            series.battery(),
            series.governor(),
            series.mode(),
        ];
        all.noise.extend(noise.into_iter().flatten().map(|text| format!("{machine}{text}")));
        all.notes.extend(series.warmer().map(|text| format!("{machine}{text}")));
    }
    all
}

impl Series<'_> {
    /// The runs for which it holds: `runs 7 to 9 and 12 of 12`.
    fn named(&self, is: impl Fn(&RunRow) -> bool) -> String {
        let numbers: Vec<usize> =
            self.runs.iter().filter(|numbered| is(numbered.1)).map(|numbered| numbered.0).collect();
        format!("{} of {}", stretches(&numbers), self.results.runs.len())
    }

    /// A run with its cell and repeat.
    fn title(&self, number: usize, run: &RunRow) -> String {
        let label = self.results.cell(run.cell).map_or("?", |cell| cell.label.as_str());
        format!("run {number} ({label}, repeat {})", run.block.saturating_add(1))
    }

    /// In some runs a processor might do less than in others.
    fn clock(&self) -> Option<String> {
        let mut most: BTreeMap<u32, u64> = BTreeMap::new();
        for (cpu, khz) in self.runs.iter().flat_map(|numbered| numbered.1.conditions.limits_khz()) {
            most.entry(cpu).and_modify(|known| *known = khz.max(*known)).or_insert(khz);
        }
        let loss = |run: &RunRow| ClockLoss::between(&most, &run.conditions.limits_khz());
        let all = self.runs.iter().filter_map(|numbered| Some((numbered.0, numbered.1, loss(numbered.1)?)));
        let (number, run, worst) = all.min_by_key(|found| found.2.permille_left())?;
        let at = run.conditions.last(|state| state.temperature_mc);
        let at = at.map_or_else(String::new, |milli| format!(", at {} °C", milli / 1000));
        Some(format!(
            "the highest clock that the machine allows was lower in {} than in others: lowest in {}, where cpu{} might have \
             {} of {} MHz{at}. Let it cool, leave it at a charger, and repeat",
            self.named(|run| loss(run).is_some()),
            self.title(number, run),
            worst.cpu,
            worst.is_khz / 1000,
            worst.was_khz / 1000
        ))
    }

    /// In some runs a board's firmware held the clock back, or its supply was too weak.
    fn firmware(&self) -> Option<String> {
        let since_boot = |bits: u64| bits >> SINCE_BOOT & NOW;
        let mut before: Option<u64> = None;
        let mut held = BTreeSet::new();
        let mut is_told_of_others = false;
        for (number, run) in &self.runs {
            let (begin, end) = (run.conditions.begin.throttled, run.conditions.end.throttled);
            // A Pi 5 is not asked before a run: it is as it was after the run before.
            let known = begin.or(before).map_or(NOW, since_boot);
            match end {
                Some(bits) if bits & NOW != 0 || since_boot(bits) & !known != 0 => {
                    held.insert(*number);
                }
                Some(_) => is_told_of_others = true,
                None => {}
            }
            before = end.or(before);
        }
        (is_told_of_others && !held.is_empty()).then(|| {
            let numbers: Vec<usize> = held.into_iter().collect();
            format!(
                "the board's firmware held the clock back, or found the supply's voltage too low, in {} of {} and not in others. \
                 Let it cool, give it a better supply, and repeat",
                stretches(&numbers),
                self.results.runs.len()
            )
        })
    }

    /// Android called the phone hot in some runs.
    fn thermal_status(&self) -> Option<String> {
        let of = |run: &RunRow| run.conditions.last(|state| state.thermal_status);
        let least = self.runs.iter().filter_map(|numbered| of(numbered.1)).min()?;
        let most = self.runs.iter().filter_map(|numbered| of(numbered.1)).max()?;
        (least < most).then(|| {
            format!(
                "Android's thermal status was {least} in {} and up to {most} in {}. Let it cool, and repeat",
                self.named(|run| of(run) == Some(least)),
                self.named(|run| of(run).is_some_and(|status| status > least))
            )
        })
    }

    /// Some runs were made at a charger and others were not.
    fn battery(&self) -> Option<String> {
        let of = |run: &RunRow| run.conditions.last(|state| state.is_on_battery);
        let is = |wanted: bool| self.runs.iter().any(|numbered| of(numbered.1) == Some(wanted));
        (is(true) && is(false)).then(|| {
            let charge = |run: &RunRow| run.conditions.last(|state| state.battery_percent);
            let least = self.runs.iter().filter_map(|numbered| charge(numbered.1)).min();
            let least = least.map_or_else(String::new, |percent| format!(", down to {percent} %"));
            format!(
                "the machine ran from its battery in {}{least}, and was at a charger in {}. Leave it there, and repeat",
                self.named(|run| of(run) == Some(true)),
                self.named(|run| of(run) == Some(false))
            )
        })
    }

    /// The governor was another in some runs.
    fn governor(&self) -> Option<String> {
        let told = self.alternating(|run| {
            run.conditions.last(|state| Some(state.governors().join(", ")).filter(|names| !names.is_empty()))
        })?;
        Some(format!("the CPU governor was another from run to run: {told}. Repeat with one"))
    }

    /// Android's fixed performance mode was on in some runs.
    fn mode(&self) -> Option<String> {
        let told = self.alternating(|run| {
            let is_on = run.conditions.last(|state| state.fixed_performance)?;
            Some(if is_on { "on" } else { "off" }.to_owned())
        })?;
        Some(format!("the fixed performance mode was {told}. Repeat with it on"))
    }

    /// Each of several words with the runs of which it is told; none where there are not several.
    fn alternating(&self, of: impl Fn(&RunRow) -> Option<String>) -> Option<String> {
        let all: BTreeSet<String> = self.runs.iter().filter_map(|numbered| of(numbered.1)).collect();
        let each: Vec<String> = all
            .iter()
            .map(|word| format!("{word} in {}", self.named(|run| of(run).as_ref() == Some(word))))
            .collect();
        (each.len() > 1).then(|| each.join(" and "))
    }

    /// It got warm, whatever its clock says.
    fn warmer(&self) -> Option<String> {
        let of = |run: &RunRow| run.conditions.last(|state| state.temperature_mc);
        let all: Vec<(i64, Numbered<'_>)> =
            self.runs.iter().filter_map(|numbered| Some((of(numbered.1)?, *numbered))).collect();
        let (least, (first, cold)) = all.iter().min_by_key(|found| found.0)?;
        let (most, (last, hot)) = all.iter().max_by_key(|found| found.0)?;
        (most.saturating_sub(*least) >= WARMER).then(|| {
            format!(
                "the machine's hottest zone was at {} °C after {} and at {} °C after {}",
                least / 1000,
                self.title(*first, cold),
                most / 1000,
                self.title(*last, hot)
            )
        })
    }
}

/// Numbers in rising order as a sentence has them: `run 7`, `runs 7 to 9 and 12`.
fn stretches(numbers: &[usize]) -> String {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match all.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => all.push((*number, *number)),
        }
    }
    let words = |(first, last): &(usize, usize)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    };
    let mut shown: Vec<String> = all.iter().take(NAMED).flat_map(words).collect();
    let left: usize = all.iter().skip(NAMED).map(|(first, last)| last - first + 1).sum();
    if left > 0 {
        shown.push(format!("{left} more"));
    }
    format!("{} {}", if numbers.len() == 1 { "run" } else { "runs" }, joined(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_their_numbers() {
        for (numbers, said) in [
            (&[7][..], "run 7"),
            (&[3, 4][..], "runs 3 and 4"),
            (&[1, 7, 8, 9, 12][..], "runs 1, 7 to 9 and 12"),
            (&[1, 3, 5, 7, 9, 11, 12, 13][..], "runs 1, 3, 5, 7, 9 and 3 more"),
        ] {
            assert_eq!(stretches(numbers), said);
        }
    }
}
