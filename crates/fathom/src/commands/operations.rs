//! `fathom stack operations FILE`: what reached a modelled device.

use fathom_output::{say, shown_path, tell};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use fathom_device::{BLKTRACE_END, End, Log, Mark, Record, data_of, read_log, write_blktrace};
use serde_json::json;

use crate::outcome::{Error, Outcome};

/// Prints the log, oldest answer first.
pub fn run(file: &Path, json: bool) -> super::Result {
    let log = read(file)?;
    super::open_stdout()?;
    let printed = print(&log, json, BufWriter::new(io::stdout().lock()));
    match printed {
        // Whoever read has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Outcome::Good),
        Err(error) => Err(Error::failed(format!("standard output: {error}"))),
        Ok(()) => Ok(told(file, &log.end)),
    }
}

/// Writes the log as blktrace does: the file of processor 0 of that name.
pub fn as_blktrace(file: &Path, name: &Path) -> super::Result {
    const OPTION: &str = "--blktrace";
    if fathom_output::is_standard_output(name) {
        return Err(Error::usage(format!("{OPTION}: blkparse finds a file by its name: give one")));
    }
    let mut out = name.as_os_str().to_owned();
    out.push(BLKTRACE_END);
    let out = PathBuf::from(out);
    let data = data_of(file);
    let inputs = [file, data.as_path()];
    super::check_output(OPTION, &out, &inputs)?;
    let log = read(file)?;
    super::write_filled(OPTION, &out, &inputs, |to| write_blktrace(&log, to))?;
    let of_log = log.records.len();
    say!("{of_log} operations are in {}: blkparse -i {}", shown_path(&out), shown_path(name));
    Ok(told(file, &log.end))
}

fn read(file: &Path) -> Result<Log, Error> {
    read_log(file).map_err(|error| match error.kind() {
        // It says where by itself.
        ErrorKind::InvalidData => Error::usage(error),
        _ => Error::usage(format!("{}: {error}", shown_path(file))),
    })
}

/// Says on stderr what is not in the log. One that is not closed may be of a device that is still
/// up.
fn told(file: &Path, end: &End) -> Outcome {
    let outcome = match end {
        End::Complete => return Outcome::Good,
        End::Open => Outcome::Good,
        End::OperationsLost(_) | End::DataLost(_) => Outcome::Failed,
    };
    tell!("warning: {} is not all: {end}", shown_path(file));
    outcome
}

/// A line of the log.
enum Line<'a> {
    Operation(&'a Record),
    Mark(&'a Mark),
}

/// Operations and marks in their common order.
fn lines(log: &Log) -> impl Iterator<Item = Line<'_>> {
    let mut marks = log.marks.iter().peekable();
    let mut records = log.places.iter().zip(&log.records).peekable();
    std::iter::from_fn(move || {
        let next = records.peek().map_or(u64::MAX, |record| *record.0);
        if let Some(mark) = marks.next_if(|mark| mark.after <= next) {
            return Some(Line::Mark(mark));
        }
        records.next().map(|record| Line::Operation(record.1))
    })
}

fn print(log: &Log, as_json: bool, mut out: impl Write) -> io::Result<()> {
    if !as_json {
        writeln!(
            out,
            "arrival_us,asked_us,given_us,operation,offset,bytes,outcome,sequential,stalled,data_at"
        )?;
    }
    for line in lines(log) {
        let record = match line {
            Line::Operation(record) => record,
            Line::Mark(Mark { number, at_ns, .. }) => {
                let at = *at_ns as f64 / 1e3;
                if as_json {
                    writeln!(out, "{}", json!({ "arrival_us": at, "operation": "mark", "number": number }))?;
                } else {
                    writeln!(out, "{at:.3},{at:.3},{at:.3},mark,{number},0,done,0,0,")?;
                }
                continue;
            }
        };
        let [arrival, asked, given] =
            [record.arrival_ns, record.asked_ns, record.given_ns].map(|ns| ns as f64 / 1e3);
        let (operation, outcome) = (record.operation_name(), record.outcome_name());
        if as_json {
            let line = json!({ "arrival_us": arrival, "asked_us": asked, "given_us": given, "operation": operation, "offset": record.offset,
                "bytes": record.bytes, "outcome": outcome, "sequential": record.sequential, "stalled": record.stalled, "data_at": record.data_at });
            writeln!(out, "{line}")?;
        } else {
            let (offset, bytes) = (record.offset, record.bytes);
            let [sequential, stalled] = [record.sequential, record.stalled].map(u8::from);
            let data_at = record.data_at.map_or_else(String::new, |at| at.to_string());
            writeln!(
                out,
                "{arrival:.3},{asked:.3},{given:.3},{operation},{offset},{bytes},{outcome},{sequential},{stalled},{data_at}"
            )?;
        }
    }
    out.flush()
}
