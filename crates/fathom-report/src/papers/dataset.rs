//! A data set: published results, the command that measured them, and how good they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathom_lab::analysis::{Analysis, DeviceRole, DeviceStudy, device_studies};
use fathom_lab::stats::median;
use fathom_lab::store::{Results, StoreError};
use fathom_workload::engine::EngineInfo;
use serde::Deserialize;

use super::PapersError;
use crate::number;
use crate::words::{distinct, joined};

/// A data set as a source describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// The excerpt, beside the source.
    pub file: String,
    /// What of the command is not in the results: who stood beside it, what was built first.
    #[serde(default)]
    pub remark: String,
    /// The commit of this repository that published the file, which is a bound of the one that
    /// measured it where the results do not name that.
    pub published: Option<String>,
}

/// Published results.
#[derive(Debug)]
pub struct Dataset {
    name: String,
    /// The file's name, beside the page's sources.
    pub file: String,
    /// What of the command is not in the results.
    pub remark: String,
    /// The commit that published the file.
    published: Option<String>,
    /// The results.
    pub results: Results,
    /// Their measures.
    pub(super) analysis: Analysis,
    devices: Vec<DeviceStudy>,
    /// Whether they are others than the published.
    is_replaced: bool,
}

/// Data sets by name.
#[derive(Debug, Default)]
pub(super) struct Datasets(BTreeMap<String, Dataset>);

impl Datasets {
    /// Adds one; whether its name was free.
    pub fn add(&mut self, dataset: Dataset) -> bool {
        self.0.insert(dataset.name.clone(), dataset).is_none()
    }

    pub fn all(&self) -> &BTreeMap<String, Dataset> {
        &self.0
    }

    pub fn get(&self, name: &str) -> Result<&Dataset, PapersError> {
        self.0.get(name).ok_or_else(|| self.no_such(name))
    }

    /// Puts other results in the place of a data set's.
    pub fn replace(&mut self, name: &str, results: &Path) -> Result<(), PapersError> {
        let problem = self.no_such(name);
        self.0.get_mut(name).ok_or(problem)?.replace(results)
    }

    /// What all of them together say of the machine and of their runs.
    pub fn of_all(&self, what: &str) -> Result<String, String> {
        let each = || self.0.values();
        let loads = || each().map(Dataset::loads).filter(|loads| !loads.is_empty());
        let range = |values: Vec<f64>| {
            let (low, high) = ends(&values);
            format!("{} to {}", shown_load(low), shown_load(high))
        };
        let days = || each().map(Dataset::day).collect::<BTreeSet<String>>();
        match what {
            "cpu" => {
                let cpus = each().filter_map(|set| set.results.environment.get("cpu").cloned());
                Ok(joined(&distinct(cpus)))
            }
            "load" => Ok(range(loads().flatten().collect())),
            "load-medians" => Ok(range(loads().filter_map(|loads| median(&loads)).collect())),
            "late" => {
                let (runs, late) = each()
                    .map(Dataset::marked)
                    .fold((0, 0), |(runs, late), (more, of_them)| (runs + more, late + of_them));
                Ok(format!("{} of {}", number::plain(late as f64), number::plain(runs as f64)))
            }
            "days" => {
                let days = days();
                let ends = [days.first(), days.last()].map(|day| day.cloned().unwrap_or_default());
                Ok(ends.join(" to "))
            }
            other => Err(format!("{other:?}: of all there are cpu, load, load-medians, late, days")),
        }
    }

    fn no_such(&self, name: &str) -> PapersError {
        PapersError::NoSuchData { name: name.into(), known: self.0.keys().cloned().collect() }
    }
}

impl Dataset {
    pub(super) fn load(name: &str, source: Source, directory: &Path) -> Result<Dataset, PapersError> {
        let path = directory.join(&source.file);
        let (results, analysis, devices) = read(name, &path)?;
        let Source { file, remark, published } = source;
        let name = name.into();
        Ok(Dataset { name, file, remark, published, results, analysis, devices, is_replaced: false })
    }

    pub(super) fn replace(&mut self, path: &Path) -> Result<(), PapersError> {
        (self.results, self.analysis, self.devices) = read(&self.name, path)?;
        self.published = None;
        self.is_replaced = true;
        Ok(())
    }

    /// Whether other results stand in the place of the published.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command that measures it again. Where its stacks lay and its results went is not of it.
    #[must_use]
    pub fn command(&self) -> String {
        let command = &self.results.experiment.command;
        let Some(words) = shlex::split(command) else { return command.clone() };
        let mut kept: Vec<String> = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--dir" | "--out" => drop(words.next()),
                _ => kept.push(word),
            }
        }
        // A word with a NUL has no quotes, and no command line has one.
        shlex::try_join(kept.iter().map(String::as_str)).unwrap_or_else(|_| command.clone())
    }

    /// `sqlite 3.54.1 with fdatasync`, of every engine that ran.
    fn engines(&self) -> String {
        let named = |engine: &EngineInfo| {
            let call = engine.settings.get("sync_call");
            let sync_call = call.map_or(String::new(), |call| format!(" with {call}"));
            format!("{} {}{sync_call}", engine.name, engine.version)
        };
        let engines: BTreeSet<String> =
            self.results.runs.iter().filter_map(|run| run.engine.as_ref()).map(named).collect();
        engines.into_iter().collect::<Vec<_>>().join(" and ")
    }

    /// The devices that its cells lay on: `sd-sandisk-8 and emmc-51`.
    fn stacks(&self) -> String {
        let cells = self.results.cells.iter().filter(|cell| cell.skipped.is_none());
        let word = |device: Option<&str>| match device {
            None => "this machine's disk".to_owned(),
            Some(device) => format!("`{}`", device.trim_start_matches("./").trim_end_matches(".toml")),
        };
        joined(&distinct(cells.map(|cell| word(cell.spec.stack.device.as_deref()))))
    }

    /// The day on which it was begun, UTC.
    fn day(&self) -> String {
        let moment = number::moment(self.results.experiment.started_ms);
        moment.split(' ').next().unwrap_or_default().to_owned()
    }

    /// One-minute load averages before its runs.
    pub(super) fn loads(&self) -> Vec<f64> {
        self.results.runs.iter().filter_map(|run| run.load).collect()
    }

    /// What else the machine was at. Nothing where nobody knows.
    fn load_words(&self) -> String {
        let loads = self.loads();
        let Some(median) = median(&loads) else { return String::new() };
        let (low, high) = ends(&loads);
        let [low, median, high] = [low, median, high].map(shown_load);
        format!(" at a load of {low} to {high}, median {median}")
    }

    /// Good runs on modelled devices, and how many of them are marked because answers came late.
    pub(super) fn marked(&self) -> (usize, usize) {
        let of_file_systems = self.devices.iter().filter(|study| study.carries == DeviceRole::FileSystem);
        of_file_systems
            .fold((0, 0), |(runs, marked), study| (runs + study.runs.len(), marked + study.marked()))
    }

    /// A sentence on how it was measured and how good that is: disclosed at each table. `remark` is
    /// its remark, printed.
    pub(super) fn about(&self, remark: &str) -> String {
        let results = &self.results;
        let cells = results.cells.iter().filter(|cell| cell.skipped.is_none()).count();
        let blocks = results.runs.iter().map(|run| run.block).max().map_or(0, |last| last + 1);
        let failed = results.failed_runs().count();
        let good = results.runs.len() - failed;
        let mut text = format!(
            "`{}` · {blocks} interleaved blocks of {cells} cells, {good} good runs, {}.",
            self.command(),
            match failed {
                0 => "none failed".to_owned(),
                failed => format!("{failed} failed"),
            }
        );
        let (on_devices, marked) = self.marked();
        if on_devices > 0 {
            text += &format!(" In {marked} of {on_devices} runs the modelled device answered late.");
        }
        // A store that names no engine, and a recording of file calls, have none.
        let mut made_by = vec![self.engines()];
        made_by.retain(|engines| !engines.is_empty());
        if let Some(kernel) = results.environment.get("kernel") {
            made_by.push(format!("kernel {kernel}"));
        }
        made_by.push(self.fathom());
        made_by.push(format!("on {}", self.stacks()));
        let day = self.day();
        text += &format!(" {}; measured {day}{}.", made_by.join(", "), self.load_words());
        if !remark.is_empty() {
            text += &format!(" {remark}");
        }
        text + &format!(" Data: [results/{0}](results/{0}).", self.file_name())
    }

    /// The version that measured, with its commit where the results have it behind a `+`; else the
    /// commit that published them, before which it was.
    fn fathom(&self) -> String {
        let version = &self.results.experiment.fathom_version;
        let published = self.published.as_ref().map(|commit| format!("; published in `{commit}`"));
        match version.contains('+') {
            true => format!("Fathom {version}"),
            false => format!("Fathom {version} (commit not recorded{})", published.unwrap_or_default()),
        }
    }

    fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// The smallest and the largest.
pub(super) fn ends(values: &[f64]) -> (f64, f64) {
    let wider = |(low, high): (f64, f64), value: &f64| (low.min(*value), high.max(*value));
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), wider)
}

/// A load average, below ten with a tenth.
pub(super) fn shown_load(load: f64) -> String {
    if load < 10.0 { format!("{load:.1}") } else { format!("{load:.0}") }
}

fn read(name: &str, path: &Path) -> Result<(Results, Analysis, Vec<DeviceStudy>), PapersError> {
    let fail = |source: StoreError| PapersError::Data { name: name.into(), source };
    let results = Results::load(path).map_err(fail)?;
    let analysis = Analysis::of(&results).map_err(fail)?;
    let devices = device_studies(&results);
    Ok((results, analysis, devices))
}
