//! What the machine was like, run by run: battery, temperature, clocks; in the page behind a fold,
//! in JSON as it was kept, and in CSV for each cell.

use std::collections::BTreeSet;

use fathom_lab::machine_state::{Conditions, MachineState};
use fathom_lab::stats::significant;
use fathom_lab::store::{Results, RunRow};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::page::{cell_name, column, label, scrolled};

/// What of a state stands in a column; none where the machine does not tell it.
type Shown = fn(&MachineState) -> Option<String>;

const SHOWN: [(&str, Shown); 8] = [
    ("battery", battery),
    ("hottest zone", temperature),
    ("thermal status", thermal_status),
    ("firmware", firmware),
    ("highest clock allowed", limits),
    ("clock", clock),
    ("governor", governor),
    ("fixed performance", fixed_performance),
];

const NOTE: &str = "Before a run and after it, where both are told and differ; runs in the order in which they were made. The \
    clock is that of a moment in which nothing is to be done; the highest one that is allowed tells what the machine might do.";

/// What CSV says of a cell's good runs; see [`crate::export`].
pub const COLUMNS: [&str; 10] = [
    "battery_percent",
    "battery_runs",
    "temperature_c",
    "thermal_status",
    "clock_limit_low_khz",
    "clock_limit_high_khz",
    "clock_low_khz",
    "clock_high_khz",
    "governor",
    "fixed_performance",
];

/// Whether the machine of any run tells anything.
pub fn are_known(results: &Results) -> bool {
    results.runs.iter().any(|run| run.conditions.is_known())
}

/// The table of all runs, behind a fold; nothing where no machine tells anything.
pub fn table(results: &Results) -> Markup {
    let runs: Vec<(usize, &RunRow)> =
        (1..).zip(&results.runs).filter(|numbered| numbered.1.conditions.is_known()).collect();
    let is_told = |of: Shown| {
        let is_of = |run: &RunRow| of(&run.conditions.begin).or_else(|| of(&run.conditions.end)).is_some();
        runs.iter().any(|numbered| is_of(numbered.1))
    };
    let shown: Vec<(&str, Shown)> = SHOWN.into_iter().filter(|named| is_told(named.1)).collect();
    html! {
        @if !runs.is_empty() {
            details.more {
                summary { "Battery, temperature and clocks, run by run" }
                p.note { (NOTE) }
                (scrolled("Battery, temperature and clocks", &html! {
                    table.sortable.close id="conditions" {
                        thead {
                            tr {
                                (column("cell", false))
                                (column("run", true))
                                (column("repeat", true))
                                @for (name, _) in &shown { (column(name, false)) }
                            }
                        }
                        tbody { @for (number, run) in &runs { (row(results, *number, run, &shown)) } }
                    }
                }))
            }
        }
    }
}

fn row(results: &Results, number: usize, run: &RunRow, shown: &[(&str, Shown)]) -> Markup {
    html! {
        tr data-cell=(run.cell) {
            th scope="row" { (cell_name(results, run.cell)) }
            td.n { (number) }
            td.n { (run.block.saturating_add(1)) }
            @for (_, of) in shown { td { (label(&moved(&run.conditions, *of))) } }
        }
    }
}

/// What was before the run and after it, each once.
fn moved(conditions: &Conditions, of: Shown) -> String {
    match (of(&conditions.begin), of(&conditions.end)) {
        (Some(begin), Some(end)) if begin != end => format!("{begin} → {end}"),
        (begin, end) => end.or(begin).unwrap_or_default(),
    }
}

fn battery(state: &MachineState) -> Option<String> {
    let use_of = |is_used: bool| if is_used { ", discharging" } else { ", charging or full" };
    let percent = state.battery_percent?;
    Some(format!("{percent} %{}", state.is_on_battery.map_or("", use_of)))
}

fn temperature(state: &MachineState) -> Option<String> {
    let milli = state.temperature_mc?;
    let zone = state.zone.as_ref().map_or_else(String::new, |zone| format!(" ({zone})"));
    Some(format!("{:.1} °C{zone}", milli as f64 / 1000.0))
}

fn limits(state: &MachineState) -> Option<String> {
    let all: BTreeSet<u64> = state.clocks.iter().filter_map(|some| some.limit_khz).collect();
    let all: Vec<String> = all.into_iter().map(|khz| (khz / 1000).to_string()).collect();
    (!all.is_empty()).then(|| format!("{} MHz", all.join(", ")))
}

fn clock(state: &MachineState) -> Option<String> {
    let (low, high) = state.now_khz()?;
    Some(match low == high {
        true => format!("{} MHz", low / 1000),
        false => format!("{} to {} MHz", low / 1000, high / 1000),
    })
}

fn governor(state: &MachineState) -> Option<String> {
    Some(state.governors().join(", ")).filter(|names| !names.is_empty())
}

fn thermal_status(state: &MachineState) -> Option<String> {
    state.thermal_status.map(|status| status.to_string())
}

fn firmware(state: &MachineState) -> Option<String> {
    state.throttled.map(|bits| format!("{bits:#x}"))
}

fn fixed_performance(state: &MachineState) -> Option<String> {
    state.fixed_performance.map(|is_on| if is_on { "on" } else { "off" }.to_owned())
}

/// Every run whose machine tells something, as it was kept.
pub fn runs_json(results: &Results) -> Value {
    let known = (1..).zip(&results.runs).filter(|numbered| numbered.1.conditions.is_known());
    let of = |numbered: (u64, &RunRow)| {
        let (number, run) = numbered;
        json!({
            "number": number,
            "run": run.id,
            "cell": run.cell,
            "block": run.block,
            "begin": run.conditions.begin,
            "end": run.conditions.end,
        })
    };
    Value::Array(known.map(of).collect())
}

/// The fields of a cell for [`COLUMNS`]; of what is not told there is none.
pub fn fields(results: &Results, cell: i64) -> [String; 10] {
    let runs: Vec<&RunRow> = results.good_runs(cell).collect();
    let states = || runs.iter().flat_map(|run| [&run.conditions.begin, &run.conditions.end]);
    let text = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let batteries: Vec<bool> =
        runs.iter().filter_map(|run| run.conditions.last(|state| state.is_on_battery)).collect();
    let used = batteries.iter().filter(|is_used| **is_used).count();
    let hottest = states().filter_map(|state| state.temperature_mc).max();
    let limits = || states().filter_map(MachineState::limit_khz);
    let clocks = || states().filter_map(MachineState::now_khz);
    let governors: BTreeSet<&str> = states().flat_map(MachineState::governors).collect();
    let fixed = states().filter_map(|state| state.fixed_performance).min();
    [
        text(states().filter_map(|state| state.battery_percent).min()),
        if batteries.is_empty() { String::new() } else { used.to_string() },
        hottest.map_or_else(String::new, |milli| significant(milli as f64 / 1000.0).to_string()),
        text(states().filter_map(|state| state.thermal_status).max()),
        text(limits().min()),
        text(limits().max()),
        text(clocks().map(|pair| pair.0).min()),
        text(clocks().map(|pair| pair.1).max()),
        governors.into_iter().collect::<Vec<_>>().join(" "),
        fixed.map_or_else(String::new, |is_on| u8::from(is_on).to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_in_a_run_is_shown_with_both_and_what_is_not_told_with_nothing() {
        let at = |temperature_mc| MachineState {
            temperature_mc: Some(temperature_mc),
            zone: Some("soc".into()),
            battery_percent: Some(80),
            ..MachineState::default()
        };
        let conditions = Conditions { begin: at(38_460), end: at(61_200) };
        assert_eq!(moved(&conditions, temperature), "38.5 °C (soc) → 61.2 °C (soc)");
        assert_eq!(moved(&conditions, battery), "80 %");
        assert_eq!(moved(&conditions, clock), "");
        assert_eq!(moved(&Conditions { end: MachineState::default(), ..conditions }, battery), "80 %");
    }
}
