//! CSV and JSON: every cell, phase and size with means and intervals; raw samples on request
//! (JSON).
//!
//! # Columns of the CSV
//! `experiment`, `cell` (number in the plan), `label`, one column per axis (its key), `durability`,
//! `phase`, `x` (the abscissa, empty without one), `unit`, `runs`, `executions` (over all runs);
//! `rate_per_s`, `rate_low`, `rate_high` (geometric mean over runs with its 95 % interval; of model
//! time where `clock` says `model`, else of wall time); `time_ns`, `time_low_ns`, `time_high_ns`
//! (mean time of one execution, likewise); `clock`; `wall_rate_per_s`, `wall_rate_low`,
//! `wall_rate_high`, `wall_time_ns` (as measured, always of wall time); `interval_coverage` (how
//! often such an interval holds the true mean of runs that scatter log-normally; 0 of one run);
//! `min_ns`, `p50_ns`, `p90_ns`, `p99_ns`, `p999_ns`, `max_ns` (of single executions; percentiles
//! are medians over runs, the extremes over all runs); `p99_low_ns`, `p99_high_ns`, `p99_coverage`
//! (the interval of p99's median over three runs or more, and how often such a one holds the true
//! median: 0.95 or more of six runs, less of fewer; empty of one run or two); `trimmed_mean_ns`
//! (highest and lowest execution dropped; empty without samples); `cpu_ns`, `read_ns`, `write_ns`,
//! `sync_ns`, `other_ns`, `read_bytes`, `write_bytes`, `read_calls`, `write_calls`, `sync_calls`,
//! `other_calls` (means of one execution); `model_ns`, `model_cpu_ns`, `model_device_ns`,
//! `model_other_ns`, `model_held_ns` (model time of the phase for each execution, its three parts,
//! and what of wall time is not in it), `model_p50_ns`, `model_p99_ns`, `model_p99_low_ns`,
//! `model_p99_high_ns` (its interval, as above), `device_flushes`, `device_written_bytes`,
//! `device_read_bytes` (that came to the devices in the phase, for each execution): geometric means
//! over runs (arithmetic ones where a run has none), so that the three parts add up in each run and
//! only about so here; empty where there is no model time; `lock_waits`, `lock_wait_ns` (sums over
//! all runs); of cells on a modelled device, over whole runs (medians): `device_late_share`,
//! `device_late_p50_ns`, `device_late_p99_ns` (how late answers came after the model's time),
//! `device_ns` and `device_model_ns` (how long the device had something to do, as measured and by
//! the model), `elapsed_ns` and `elapsed_model_ns` (the whole worker, likewise),
//! `device_marked_runs` (runs in which the model's times were not kept). Where the file system's
//! log is on a device of its own, these are of the file system's device.
//!
//! Where the machine tells of its battery, temperature or clocks, these follow, of a cell's good
//! runs: `battery_percent` (lowest charge), `battery_runs` (runs from the battery),
//! `temperature_c` (of the hottest zone, highest), `thermal_status` (Android's, highest),
//! `clock_limit_low_khz` and `clock_limit_high_khz` (the highest clock that was allowed: lowest and
//! highest before and after the runs), `clock_low_khz` and `clock_high_khz` (of a processor then),
//! `governor`, `fixed_performance` (1: on in every run that tells). The JSON has them run
//! by run in `conditions`, before the run (`begin`) and after it (`end`), with `number`, its place
//! among all runs.
//!
//! Where power cuts are known to take databases on a cell's file system with its journal mode,
//! `power_cut_known_loss` stands behind `unit`: the name of the file system, empty for cells of
//! which nothing of the kind is known. `durability` stays what the settings promise. The JSON has
//! it of each cell, null where nothing is known.
//!
//! Where power cuts were tried, `power_cut_worst` (class of the worst state), `power_cut_states`
//! (judged), `power_cut_not_kept` and `power_cut_breaks_promise` (0 or 1) stand behind that; the
//! JSON has all that was found in `power_cut`.
//!
//! The JSON has the same names, nested: experiment, environment, findings, cautions, cells with
//! their measures; `log_device` beside `device` is the external log's.

use std::io::{self, Write};

use fathom_lab::advise::losing_filesystem;
use fathom_lab::analysis::{DeviceRole, DeviceStudy, Measure, ModelShare};
use fathom_lab::stats::{Interval, significant};
use fathom_lab::store::StoreError;
use serde_json::{Value, json};

use crate::ReportError;
use crate::conditions;
use crate::csv::line;
use crate::document::Document;
use crate::figure::parts_ns;
use crate::palette;
use crate::power_cut;

/// The numbers of one measure, in the order of the CSV's columns.
fn numbers(measure: &Measure) -> Vec<(&'static str, Value)> {
    let number = |value: f64| json!(significant(value));
    let mut all = vec![
        ("runs", json!(measure.runs.len())),
        ("executions", json!(measure.count)),
        ("rate_per_s", number(measure.rate.mid)),
        ("rate_low", number(measure.rate.low)),
        ("rate_high", number(measure.rate.high)),
        ("time_ns", number(measure.time_ns.mid)),
        ("time_low_ns", number(measure.time_ns.low)),
        ("time_high_ns", number(measure.time_ns.high)),
        ("clock", json!(measure.clock)),
        ("wall_rate_per_s", number(measure.wall_rate.mid)),
        ("wall_rate_low", number(measure.wall_rate.low)),
        ("wall_rate_high", number(measure.wall_rate.high)),
        ("wall_time_ns", number(measure.wall_time_ns.mid)),
        ("interval_coverage", json!(measure.rate.coverage)),
    ];
    let names = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    all.extend(names.into_iter().zip(measure.latency_ns.map(number)));
    let bound = |of: Option<Interval>, pick: fn(&Interval) -> f64| {
        of.as_ref().map_or(Value::Null, |interval| number(pick(interval)))
    };
    all.extend([
        ("p99_low_ns", bound(measure.p99, |p99| p99.low)),
        ("p99_high_ns", bound(measure.p99, |p99| p99.high)),
        ("p99_coverage", bound(measure.p99, |p99| p99.coverage)),
    ]);
    all.push(("trimmed_mean_ns", measure.trimmed_mean_ns.map_or(Value::Null, number)));
    let names = ["cpu_ns", "read_ns", "write_ns", "sync_ns", "other_ns"];
    all.extend(names.into_iter().zip(parts_ns(measure).map(number)));
    let model = |pick: fn(&ModelShare) -> f64| {
        measure.model_interval(pick).map_or(Value::Null, |interval| number(interval.mid))
    };
    let latency =
        |place: usize| measure.model_latency_ns.map_or(Value::Null, |quantiles| number(quantiles[place]));
    all.extend([
        ("model_ns", model(|model| model.model_ns)),
        ("model_cpu_ns", model(|model| model.cpu_ns)),
        ("model_device_ns", model(|model| model.device_ns)),
        ("model_other_ns", model(|model| model.other_ns)),
        ("model_held_ns", model(|model| model.held_ns)),
        ("model_p50_ns", latency(1)),
        ("model_p99_ns", latency(3)),
        ("model_p99_low_ns", bound(measure.model_p99, |p99| p99.low)),
        ("model_p99_high_ns", bound(measure.model_p99, |p99| p99.high)),
        ("device_flushes", model(|model| model.flushes)),
        ("device_written_bytes", model(|model| model.written_bytes)),
        ("device_read_bytes", model(|model| model.read_bytes)),
    ]);
    all.extend([
        ("read_bytes", number(measure.each_ns(|s| s.read_bytes))),
        ("write_bytes", number(measure.each_ns(|s| s.write_bytes))),
        ("read_calls", number(measure.each_ns(|s| s.read_calls))),
        ("write_calls", number(measure.each_ns(|s| s.write_calls))),
        ("sync_calls", number(measure.each_ns(|s| s.sync_calls))),
        ("other_calls", number(measure.each_ns(|s| s.other_calls))),
        ("lock_waits", json!(measure.lock_waits)),
        ("lock_wait_ns", json!(measure.lock_wait_ns)),
    ]);
    all
}

/// The numbers of a cell's modelled device, in the order of the CSV's columns; nothing without one.
fn device_numbers(study: Option<&DeviceStudy>) -> [(&'static str, Value); 8] {
    let median = |of: fn(&fathom_lab::analysis::DeviceRun) -> f64| {
        study.map_or(Value::Null, |study| json!(significant(study.median(of))))
    };
    [
        ("device_late_share", median(|run| run.late_share)),
        ("device_late_p50_ns", median(|run| run.used.late_p50_ns as f64)),
        ("device_late_p99_ns", median(|run| run.used.late_p99_ns as f64)),
        ("device_ns", median(|run| run.used.measured_ns as f64)),
        ("device_model_ns", median(|run| run.used.model_ns as f64)),
        ("elapsed_ns", median(|run| run.elapsed_ns as f64)),
        ("elapsed_model_ns", median(|run| run.elapsed_model_ns as f64)),
        ("device_marked_runs", study.map_or(Value::Null, |study| json!(study.marked()))),
    ]
}

fn durability(cell: Option<&fathom_lab::store::CellRow>) -> Value {
    cell.and_then(|c| c.durability).map_or(Value::Null, |d| json!(d))
}

/// Writes the CSV (RFC 4180). A text that a spreadsheet would run as a formula gets an apostrophe
/// before it.
pub fn csv(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut head = vec!["experiment".to_string(), "cell".into(), "label".into()];
    head.extend(document.axes.iter().map(|axis| axis.key.clone()));
    head.extend(["durability", "phase", "x", "unit"].map(String::from));
    let known_loss = |cell| losing_filesystem(document.results, cell);
    let has_losses = document.results.cells.iter().any(|cell| known_loss(cell).is_some());
    if has_losses {
        head.push("power_cut_known_loss".into());
    }
    let cuts = !document.results.cuts.is_empty();
    if cuts {
        head.extend(power_cut::COLUMNS.map(String::from));
    }
    if let Some(first) = document.analysis.measures.first() {
        head.extend(numbers(first).iter().map(|(name, _)| name.to_string()));
        head.extend(device_numbers(None).map(|(name, _)| name.to_string()));
    }
    let has_conditions = conditions::are_known(document.results);
    if has_conditions {
        head.extend(conditions::COLUMNS.map(String::from));
    }
    line(&head, out)?;
    for measure in &document.analysis.measures {
        let cell = document.results.cell(measure.cell);
        let mut fields = vec![
            document.results.experiment.name.clone(),
            measure.cell.to_string(),
            cell.map_or_else(String::new, |c| c.label.clone()),
        ];
        fields.extend(
            document
                .axes
                .iter()
                .map(|axis| cell.and_then(|c| c.axes.get(&axis.key)).cloned().unwrap_or_default()),
        );
        fields.push(durability(cell).as_str().unwrap_or_default().to_string());
        fields.push(measure.phase.clone());
        fields.push(measure.x.map_or_else(String::new, |x| x.to_string()));
        fields.push(measure.unit.clone());
        if has_losses {
            fields.push(cell.and_then(known_loss).unwrap_or_default().to_owned());
        }
        if cuts {
            fields.extend(power_cut::fields(document.results, measure.cell));
        }
        let device = device_numbers(document.device(measure.cell, DeviceRole::FileSystem));
        fields.extend(numbers(measure).into_iter().chain(device).map(|(_, value)| match value {
            Value::Null => String::new(),
            Value::String(word) => word,
            other => other.to_string(),
        }));
        if has_conditions {
            fields.extend(conditions::fields(document.results, measure.cell));
        }
        line(&fields, out)?;
    }
    Ok(())
}

/// Writes the JSON; with `samples` every single execution too, as arrays in the order of
/// `sample_columns`.
pub fn json(document: &Document<'_>, samples: bool, out: &mut dyn Write) -> Result<(), ReportError> {
    let results = document.results;
    let cells = results.cells.iter().map(|cell| {
        let measures = document.analysis.measures.iter().filter(|m| m.cell == cell.id).map(|m| {
            let mut object = serde_json::Map::new();
            object.insert("phase".into(), json!(m.phase));
            object.insert("x".into(), json!(m.x));
            object.insert("unit".into(), json!(m.unit));
            object.extend(numbers(m).into_iter().map(|(name, value)| (name.to_string(), value)));
            Value::Object(object)
        });
        let mut object = json!({
            "cell": cell.id,
            "label": cell.label,
            "axes": cell.axes,
            "durability": durability(Some(cell)),
            "power_cut": power_cut::json(results, cell.id),
            "power_cut_known_loss": losing_filesystem(results, cell),
            "skipped": cell.skipped,
            "spec": cell.spec,
            "measures": measures.collect::<Vec<Value>>(),
            "blocks": crate::blocks::studies_json(document, cell.id),
            "device": document.device(cell.id, DeviceRole::FileSystem),
            "log_device": document.device(cell.id, DeviceRole::ExternalLog),
        });
        if samples {
            object["samples"] = samples_of(document, cell.id)?;
        }
        Ok::<Value, StoreError>(object)
    });
    let cells = cells.collect::<Result<Vec<Value>, StoreError>>()?;
    let whole = json!({
        "format": "fathom-results",
        "version": 1,
        "experiment": results.experiment,
        "environment": results.environment,
        "findings": document.findings,
        "cautions": document.cautions.iter()
            .map(|c| format!("{} {}", c.about, c.text).trim().to_string()).collect::<Vec<_>>(),
        "parts": palette::PARTS,
        "sample_columns": if samples { json!(["run", "phase", "x", "seq", "thread", "rows", "wall_ns", "cpu_ns", "read_ns", "write_ns", "sync_ns", "other_ns"]) } else { Value::Null },
        "conditions": conditions::runs_json(results),
        "cells": cells,
    });
    serde_json::to_writer_pretty(&mut *out, &whole).map_err(io::Error::from)?;
    Ok(writeln!(out)?)
}

fn samples_of(document: &Document<'_>, cell: i64) -> Result<Value, StoreError> {
    let mut phases: Vec<&str> =
        document.analysis.measures.iter().filter(|m| m.cell == cell).map(|m| m.phase.as_str()).collect();
    phases.dedup();
    phases.sort_unstable();
    phases.dedup();
    let mut all = Vec::new();
    for run in document.results.good_runs(cell) {
        for phase in &phases {
            for s in document.results.samples(run.id, phase)? {
                let p = &s.split;
                all.push(json!([
                    run.id, s.phase, s.x, s.seq, s.thread, s.rows, p.wall_ns, p.cpu_ns, p.read_ns,
                    p.write_ns, p.sync_ns, p.other_ns
                ]));
            }
        }
    }
    Ok(Value::Array(all))
}
