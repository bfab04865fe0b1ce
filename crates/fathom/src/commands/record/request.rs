//! What is recorded, and the experiment that says it.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use fathom_lab::conduct::Request;
use fathom_lab::experiment::{Selection, TraceChoice};
use fathom_lab::store::Results;

use super::place::{IMAGE_MIB, Place};

/// What runs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be replayed on other models.
    Recording,
    /// For their own times.
    Live,
    /// For what power cuts leave; so many seconds for each cell.
    PowerCuts(u64),
}

/// What is recorded.
#[derive(Clone, Debug)]
pub struct RecordingRequest {
    /// What for.
    pub purpose: Purpose,
    /// The trace.
    pub trace: TraceChoice,
    /// File systems; none where each variant has its own.
    pub filesystems: Vec<String>,
    /// Devices: the recorder, or others for runs that are measured as they are; none for runs in a
    /// directory.
    pub devices: Vec<String>,
    /// Variants: a name, and settings; those of the engine by their own name.
    pub variants: Vec<(String, Vec<(String, String)>)>,
    /// Runs of each cell.
    pub repeat: u32,
    /// Where these are more: until every value is known to within so much of it.
    pub more: Option<MoreRuns>,
    /// More `--set`s.
    pub sets: Vec<String>,
    /// Title of the results.
    pub title: String,
    /// Seed of order and data.
    pub seed: u64,
    /// The machine that it is recorded on, as `--on` names it; none = this one.
    pub machines: Vec<String>,
    /// SHA-256 of the trace's file, by which it is known again ([`trace_hash`]).
    pub hash: Option<String>,
}

/// Before the SHA-256 of the trace, in the experiment that results keep.
const TRACE_HASH: &str = "# SHA-256 of the trace: ";

/// The SHA-256 of the trace that results are recordings of, where they say it.
pub fn trace_hash(results: &Results) -> Option<&str> {
    results.experiment.source.lines().find_map(|line| line.strip_prefix(TRACE_HASH))
}

/// Runs beyond those that are made in any case.
#[derive(Clone, Copy, Debug)]
pub struct MoreRuns {
    /// The most of each cell.
    pub most: u32,
    /// Every value is known well enough to within this share of it.
    pub until: f64,
    /// No block beyond those that are made in any case ends later than this.
    pub budget: Duration,
}

impl RecordingRequest {
    /// The most runs of each cell.
    pub(super) fn most(&self) -> u32 {
        self.more.map_or(self.repeat, |more| more.most)
    }

    /// The experiment, as a file would say it.
    pub fn source(&self) -> String {
        let mut text = format!(
            "name = \"recorded\"\ntitle = {:?}\nrepeats = {}\n\n[workload]\nname = \"trace\"\n\n[engine]\nname = \"sqlite\"\n\n",
            self.title, self.repeat
        );
        if let Some(hash) = &self.hash {
            text.insert_str(0, &format!("{TRACE_HASH}{hash}\n"));
        }
        let is_modelled = !self.devices.is_empty();
        if is_modelled {
            // Writing to a String cannot fail.
            let _ = write!(text, "[stack]\nsize_mib = {IMAGE_MIB}\n\n");
        }
        text += &match self.purpose {
            Purpose::Recording if is_modelled => "[instruments]\noperations = true\n\n".to_owned(),
            Purpose::Recording | Purpose::Live => String::new(),
            Purpose::PowerCuts(seconds) => {
                format!("[instruments]\npower_cut = true\npower_cut_seconds = {seconds}\n\n")
            }
        };
        text += "[matrix]\n";
        if !self.filesystems.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\"stack.filesystem\" = {:?}", self.filesystems);
        }
        if is_modelled {
            let _ = writeln!(text, "\"stack.device\" = {:?}", self.devices);
        }
        for (name, settings) in &self.variants {
            let _ = writeln!(text, "\n[[matrix.variants]]\nname = {name:?}");
            for (key, value) in settings {
                let value = match value.parse::<i64>() {
                    Ok(number) => number.to_string(),
                    Err(_) => format!("{value:?}"),
                };
                let table = if key.contains('.') { "" } else { "engine." };
                let _ = writeln!(text, "\"{table}{key}\" = {value}");
            }
        }
        text
    }

    /// As `fathom run` would be asked it.
    pub(super) fn request(&self, out: &Path, place: &Place<'_>) -> Request {
        Request {
            source_name: "the recording".into(),
            source: self.source(),
            selection: Selection {
                quick: false,
                repeat: self.more.map(|more| more.most),
                sets: self.sets.clone(),
                traces: vec![self.trace.clone()],
                machines: self.machines.clone(),
            },
            seed: Some(self.seed),
            directory: place.directory.to_owned(),
            out: out.to_owned(),
            resume: false,
            time_limit: None,
            until: self.more.map(|more| more.until),
            budget: self.more.map(|more| more.budget),
            firm: self.repeat,
            command: place.command.to_owned(),
        }
    }
}
