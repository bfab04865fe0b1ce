//! The block traces as data for people's own plots.

use std::io::{self, Write};

use fathom_lab::analysis::BlockStudy;
use fathom_lab::stats::significant;
use fathom_lab::store::Results;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use serde_json::{Value, json};

use crate::ReportError;
use crate::csv::line;
use crate::document::Document;

/// The numbers of a study by name, in the order of the CSV's columns.
fn numbers(study: &BlockStudy) -> Vec<(String, Option<f64>)> {
    let mut all: Vec<(String, Option<f64>)> = Vec::new();
    let mut put = |name: &str, value: Option<f64>| all.push((name.to_owned(), value));
    put("executions", Some(study.executions));
    put("changed_bytes", study.ladder.changed);
    put("sqlite_bytes", study.ladder.pages);
    put("file_bytes", study.ladder.files);
    put("unattributed_bytes", study.ladder.unattributed);
    put("device_bytes", study.ladder.device);
    for cause in Cause::ALL.into_iter().filter(|cause| *cause != Cause::Flush) {
        let name = format!("written_{}_bytes", cause.name().replace('-', "_"));
        put(&name, Some(study.written[cause.number() as usize]));
    }
    put("attributed_share", study.attributed());
    put("read_bytes", Some(study.read_bytes));
    for (op, count) in BlockOp::ALL.into_iter().zip(study.requests) {
        put(&format!("{}_requests", op.name()), Some(count));
    }
    put("unattributed_write_requests", Some(study.unattributed_writes));
    put("flushes_per_execution", study.flushes_each);
    put("sequential_share", study.sequential);
    put("seek_p50_bytes", study.seek_bytes);
    for (name, pair) in [
        (["write_p50_bytes", "write_p99_bytes"], study.size_bytes),
        (["queue_depth_mean", "queue_depth_max"], study.depth),
        (["write_p50_ns", "write_p99_ns"], study.write_ns),
        (["flush_p50_ns", "flush_p99_ns"], study.flush_ns),
    ] {
        put(name[0], pair.map(|pair| pair[0]));
        put(name[1], pair.map(|pair| pair[1]));
    }
    all
}

/// Every study as CSV: cell, axes, phase, and [`numbers`], medians over the runs.
pub fn studies_csv(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut head: Vec<String> = vec!["experiment".into(), "cell".into(), "label".into()];
    head.extend(document.axes.iter().map(|axis| axis.key.clone()));
    head.extend(["phase", "source", "runs"].map(String::from));
    if let Some(first) = document.blocks.first() {
        head.extend(numbers(first).into_iter().map(|(name, _)| name));
    }
    line(&head, out)?;
    for study in &document.blocks {
        let cell = document.results.cell(study.cell);
        let mut fields = vec![document.results.experiment.name.clone(), study.cell.to_string()];
        fields.push(cell.map_or_else(String::new, |cell| cell.label.clone()));
        let axis = |key: &str| cell.and_then(|cell| cell.axes.get(key)).cloned().unwrap_or_default();
        fields.extend(document.axes.iter().map(|other| axis(&other.key)));
        fields.push(study.phase.clone());
        fields.push(json!(study.source).as_str().unwrap_or_default().to_owned());
        fields.push(study.runs.to_string());
        let text =
            |value: Option<f64>| value.map_or_else(String::new, |value| significant(value).to_string());
        fields.extend(numbers(study).into_iter().map(|(_, value)| text(value)));
        line(&fields, out)?;
    }
    Ok(())
}

/// The studies of a cell for the JSON export.
pub fn studies_json(document: &Document<'_>, cell: i64) -> Value {
    let studies = document.blocks.iter().filter(|block| block.cell == cell).map(|study| {
        let mut object = serde_json::Map::new();
        object.insert("phase".into(), json!(study.phase));
        object.insert("source".into(), json!(study.source));
        object.insert("runs".into(), json!(study.runs));
        object.extend(numbers(study).into_iter().map(|(name, value)| (name, json!(value.map(significant)))));
        Value::Object(object)
    });
    Value::Array(studies.collect())
}

/// Every request of every traced run as CSV; times are ns since the run's trace began.
pub fn requests_csv(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    let head = "cell,label,run,request,piece,device,op,cause,phase,submit_ns,issue_ns,complete_ns,offset,bytes,fua,sync,meta";
    write!(out, "{head}\r\n")?;
    for trace in &results.traces {
        let Some(run) = results.runs.iter().find(|run| run.id == trace.run) else { continue };
        let label = results.cell(run.cell).map_or("", |cell| cell.label.as_str());
        let mut start = Vec::new();
        line(&[run.cell.to_string(), label.to_owned(), (run.block + 1).to_string()], &mut start)?;
        // A line's end is the last two bytes.
        let start = String::from_utf8_lossy(&start).trim_end().to_owned();
        let phases: Vec<String> = trace
            .windows
            .iter()
            .map(|window| {
                let mut field = Vec::new();
                line(std::slice::from_ref(&window.phase), &mut field)
                    .map(|()| String::from_utf8_lossy(&field).trim_end().to_owned())
            })
            .collect::<io::Result<_>>()?;
        let mut failed = None;
        results.blocks(trace.run, |row| {
            let phase = row.window.and_then(|window| phases.get(window as usize)).map_or("", String::as_str);
            let [fua, sync, meta] = [row.fua, row.sync, row.meta].map(u8::from);
            let written = write!(
                out,
                "{start},{},{},{},{},{},{phase},{},{},{},{},{},{fua},{sync},{meta}\r\n",
                row.request,
                row.piece,
                row.device,
                row.op.name(),
                row.cause.name(),
                row.submit_ns,
                row.issue_ns,
                row.complete_ns,
                row.offset,
                row.bytes,
            );
            if let (Err(error), None) = (written, &failed) {
                failed = Some(error);
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    Ok(())
}

/// What stands in an array of [`requests_json`].
const REQUEST_COLUMNS: [&str; 14] = [
    "request",
    "piece",
    "device",
    "op",
    "cause",
    "phase",
    "submit_ns",
    "issue_ns",
    "complete_ns",
    "offset",
    "bytes",
    "fua",
    "sync",
    "meta",
];

/// The same as [`requests_csv`] as JSON: runs, each with its requests as arrays in the order of
/// `columns`. It is written while it is read, one request a line, so that a million need no memory.
pub fn requests_json(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    let columns = json!(REQUEST_COLUMNS);
    write!(out, "{{\"format\": \"fathom-requests\", \"version\": 1, \"columns\": {columns}, \"runs\": [")?;
    let mut is_first_run = true;
    for trace in &results.traces {
        let Some(run) = results.runs.iter().find(|run| run.id == trace.run) else { continue };
        let windows: Vec<Value> = trace
            .windows
            .iter()
            .map(|window| json!({"phase": window.phase, "x": window.x, "start_ns": window.start_ns, "end_ns": window.end_ns}))
            .collect();
        let head = json!({
            "cell": run.cell,
            "label": results.cell(run.cell).map(|cell| cell.label.as_str()),
            "run": run.block + 1,
            "source": trace.source,
            "span_ns": trace.span_ns,
            "lost_events": trace.lost_events,
            "remarks": trace.remarks,
            "phases": windows,
        })
        .to_string();
        // The object stays open for its requests.
        let comma = if is_first_run { "" } else { "," };
        write!(out, "{comma}\n{}, \"requests\": [", head.strip_suffix('}').unwrap_or(&head))?;
        is_first_run = false;
        let (mut failed, mut is_first) = (None, true);
        results.blocks(trace.run, |row| {
            let phase = row
                .window
                .and_then(|window| trace.windows.get(window as usize))
                .map(|phase| phase.phase.as_str());
            let array = json!([
                row.request,
                row.piece,
                row.device,
                row.op.name(),
                row.cause.name(),
                phase,
                row.submit_ns,
                row.issue_ns,
                row.complete_ns,
                row.offset,
                row.bytes,
                row.fua,
                row.sync,
                row.meta,
            ]);
            let written = write!(out, "{}\n{array}", if is_first { "" } else { "," });
            is_first = false;
            if let (Err(error), None) = (written, &failed) {
                failed = Some(error);
            }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        write!(out, "]}}")?;
    }
    writeln!(out, "]}}")?;
    Ok(())
}
