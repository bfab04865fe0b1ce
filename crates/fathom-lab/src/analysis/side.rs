//! One side of a comparison of two measurements: a results file, or a baseline that was made of
//! one.
//!
//! Both are reduced to the same thing, the runs' values of each cell and phase, so that a baseline
//! in a repository and the results file it was made from compare alike.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_ground::fnv::{EMPTY, fnv1a};
use fathom_stack::StackRecord;
use fathom_workload::engine::engine_named;
use fathom_workload::params::Parameter;
use fathom_workload::registry::workload_named;
use fathom_workload::spec::Durability;
use fathom_workload::workload::CONTENT;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{Analysis, Clock, Measure, ModelShare};
use crate::cell::Cell;
use crate::experiment::{MACHINE_AXIS, spelled_label};
use crate::naming::{engines_of, joined};
use crate::remote::LOCAL;
use crate::stats::significant;
use crate::store::{CellRow, Results, RunRow};

/// The key of a side's environment that has the engines of its runs with their versions.
const ENGINE: &str = "engine";

/// What two measurements are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Model time of the phase for each execution, ns ([`crate::model_time`]).
    Model,
    /// Executions per second: of model time where both have it, else of wall time.
    Rate,
    /// Mean time of one execution, ns: likewise.
    Time,
    /// Flushes that came to the modelled devices for each execution.
    Flushes,
    /// Bytes written to the modelled devices for each execution.
    Bytes,
}

impl Quantity {
    /// All, in the order in which they are shown.
    pub const ALL: [Quantity; 5] =
        [Quantity::Model, Quantity::Rate, Quantity::Time, Quantity::Flushes, Quantity::Bytes];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Model => "model",
            Quantity::Rate => "rate",
            Quantity::Time => "time",
            Quantity::Flushes => "flushes",
            Quantity::Bytes => "bytes",
        }
    }

    /// In a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Quantity::Model => "model time",
            Quantity::Rate => "rate",
            Quantity::Time => "time of an execution",
            Quantity::Flushes => "count of flushes",
            Quantity::Bytes => "count of written bytes",
        }
    }

    /// Whether it counts what the program asked of the device, which takes no luck where every
    /// execution flushes: a single run tells it there.
    #[must_use]
    pub fn is_count(self) -> bool {
        matches!(self, Quantity::Flushes | Quantity::Bytes)
    }
}

/// The values of all good runs of a cell in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseValues {
    /// As in the samples.
    pub name: String,
    /// The abscissa, where the phase has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// `transaction`, `query`, `operation` or `message`.
    pub unit: String,
    /// Executions per second of wall time.
    pub wall_rate_per_s: Vec<f64>,
    /// Mean wall time of one execution.
    pub wall_time_ns: Vec<f64>,
    /// Executions per second of model time; empty where there is none, as are those below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_rate_per_s: Vec<f64>,
    /// Mean model time of one execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_time_ns: Vec<f64>,
    /// Model time of the phase for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_ns: Vec<f64>,
    /// Flushes for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flushes: Vec<f64>,
    /// Bytes written to the devices for each execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written_bytes: Vec<f64>,
}

impl PhaseValues {
    fn of(measure: &Measure) -> PhaseValues {
        let wall =
            |pick: fn(&super::WallOfRun) -> f64| measure.runs.iter().map(|run| pick(&run.wall)).collect();
        let is_model = measure.clock == Clock::Model;
        let model = |pick: fn(&ModelShare) -> f64| -> Vec<f64> {
            measure.runs.iter().filter(|_| is_model).filter_map(|run| run.model.as_ref().map(pick)).collect()
        };
        let primary =
            |pick: fn(&super::OfRun) -> f64| measure.runs.iter().filter(|_| is_model).map(pick).collect();
        PhaseValues {
            name: measure.phase.clone(),
            x: measure.x,
            unit: measure.unit.clone(),
            wall_rate_per_s: wall(|run| run.rate),
            wall_time_ns: wall(|run| run.time_ns),
            model_rate_per_s: primary(|run| run.rate),
            model_time_ns: primary(|run| run.time_ns),
            model_ns: model(|model| model.model_ns),
            flushes: model(|model| model.flushes),
            written_bytes: model(|model| model.written_bytes),
        }
    }

    /// Rounds all to six significant digits, as a baseline has them.
    pub(super) fn round(&mut self) {
        let all = [
            &mut self.wall_rate_per_s,
            &mut self.wall_time_ns,
            &mut self.model_rate_per_s,
            &mut self.model_time_ns,
            &mut self.model_ns,
            &mut self.flushes,
            &mut self.written_bytes,
        ];
        all.into_iter().flatten().for_each(|value| *value = significant(*value));
    }

    /// All lists by their names in a baseline, each with whether a run may have a zero: what none
    /// of its executions flushed or wrote, and model time of one that only computes within a tick.
    pub(super) fn lists(&self) -> [(&'static str, &[f64], bool); 7] {
        [
            ("wall_rate_per_s", &self.wall_rate_per_s, false),
            ("wall_time_ns", &self.wall_time_ns, false),
            ("model_rate_per_s", &self.model_rate_per_s, true),
            ("model_time_ns", &self.model_time_ns, true),
            ("model_ns", &self.model_ns, true),
            ("flushes", &self.flushes, true),
            ("written_bytes", &self.written_bytes, true),
        ]
    }

    /// Whether it has model time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        if self.model_ns.is_empty() { Clock::Wall } else { Clock::Model }
    }

    /// The runs' values of a quantity, of a clock that it has; empty where it has none.
    #[must_use]
    pub fn values(&self, quantity: Quantity, clock: Clock) -> &[f64] {
        match (quantity, clock) {
            (Quantity::Model, _) => &self.model_ns,
            (Quantity::Flushes, _) => &self.flushes,
            (Quantity::Bytes, _) => &self.written_bytes,
            (Quantity::Rate, Clock::Model) => &self.model_rate_per_s,
            (Quantity::Time, Clock::Model) => &self.model_time_ns,
            (Quantity::Rate, Clock::Wall) => &self.wall_rate_per_s,
            (Quantity::Time, Clock::Wall) => &self.wall_time_ns,
        }
    }
}

/// A cell with its phases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellValues {
    /// The cell's label.
    pub label: String,
    /// The same as people read it; not in a baseline.
    #[serde(skip)]
    pub title: String,
    /// What its settings promise; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Hash of the cell, without what is another one on another machine: whether two of the same
    /// place on every axis have the same settings.
    pub settings: String,
    /// The same of all of the cell, as earlier versions made it; of a baseline there is none.
    #[serde(skip)]
    pub(super) whole: String,
    /// The same as `settings` as a file has it that has several machines where this one has one, or
    /// one where this one has several; of a baseline there is none.
    #[serde(skip)]
    pub(super) elsewhere: String,
    /// Hash of the trace, or of the recording of file calls, that its runs did again; none where
    /// there is none, or they are of a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<String>,
    /// Hash of the models of the devices that its runs were made on, as far as times follow from
    /// them; none where there are none, or they are of a version that does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<String>,
    /// What tells the disk, file system and image that its runs lay on from others of the same
    /// path, by names; what is not told there is not compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ran_on: BTreeMap<String, String>,
    /// The machine that it ran on, as `--on` names it; empty where it is this one, and where an
    /// axis tells it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on: String,
    /// Its value on each axis of the experiment.
    pub axes: BTreeMap<String, String>,
    /// Runs that failed beside the good ones, of which nothing is compared; not in a baseline.
    #[serde(skip)]
    pub failed: usize,
    /// The phases in which it has good runs.
    pub phase: Vec<PhaseValues>,
}

impl CellValues {
    /// Whether a user who writes this means it: its label or its title, in whichever case.
    pub(super) fn is_called(&self, name: &str) -> bool {
        [&self.label, &self.title].iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The machine that it ran on.
    pub(super) fn machine(&self) -> &str {
        let own = if self.on.is_empty() { LOCAL } else { self.on.as_str() };
        self.axes.get(MACHINE_AXIS).map_or(own, String::as_str)
    }

    /// Whether two cells have the same settings; either may be of a baseline of an earlier version,
    /// and of a file with several machines.
    pub(super) fn has_settings_of(&self, other: &CellValues) -> bool {
        self.settings == other.settings
            || self.elsewhere == other.settings
            || self.settings == other.elsewhere
            || self.whole == other.settings
            || self.settings == other.whole
            || (!self.whole.is_empty() && self.whole == other.whole)
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The experiment's name.
    pub experiment: String,
    /// When it was measured, ms since 1970 UTC.
    pub started_ms: i64,
    /// Kernel, CPU, the engines' versions …
    pub environment: BTreeMap<String, String>,
    /// The cells that have good runs.
    pub cells: Vec<CellValues>,
    /// Labels of cells that were to run and have no good run.
    pub empty: Vec<String>,
    /// Whether its numbers have the six digits of a baseline, and no more.
    pub is_rounded: bool,
}

impl Side {
    /// The engines of its runs with their versions, in words; none of several machines, and of a
    /// baseline that an earlier version made.
    #[must_use]
    pub fn engines(&self) -> Option<&str> {
        self.environment.get(ENGINE).map(String::as_str)
    }

    /// Whether its cells are told apart by their machines.
    pub(super) fn has_several_machines(&self) -> bool {
        self.cells.iter().any(|cell| cell.axes.contains_key(MACHINE_AXIS))
    }

    /// The machine, where it has one.
    pub(super) fn machine(&self) -> &str {
        self.cells.first().map_or(LOCAL, CellValues::machine)
    }

    /// What is told of the machine. Beside a file of several machines its keys name the one, as
    /// that file's do.
    pub(super) fn environment_beside(&self, other: &Side) -> BTreeMap<String, String> {
        if self.has_several_machines() || !other.has_several_machines() {
            return self.environment.clone();
        }
        let machine = self.machine();
        let named = |(key, value): (&String, &String)| (format!("{key} ({machine})"), value.clone());
        self.environment.iter().map(named).collect()
    }

    /// The same with numbers of six digits, as a baseline has them.
    pub(super) fn rounded(&self) -> Side {
        let mut side = Side { is_rounded: true, ..self.clone() };
        side.cells.iter_mut().flat_map(|cell| &mut cell.phase).for_each(PhaseValues::round);
        side
    }

    /// Of a results file.
    #[must_use]
    pub fn of(results: &Results, analysis: &Analysis) -> Side {
        let (mut cells, mut empty) = (Vec::new(), Vec::new());
        for cell in &results.cells {
            let own = analysis.measures.iter().filter(|measure| measure.cell == cell.id);
            let phase: Vec<PhaseValues> = own.map(PhaseValues::of).collect();
            if phase.is_empty() {
                empty.push(cell.label.clone());
                continue;
            }
            let is_told = |name: &str| {
                let content = format!("{name}{CONTENT}");
                results.good_runs(cell.id).any(|run| run.parameters.contains_key(&content))
            };
            let plain = portable(&cell.spec, &is_told);
            let is_plain = cell.spec.on == LOCAL || cell.axes.contains_key(MACHINE_AXIS);
            let on = if is_plain { String::new() } else { cell.spec.on.clone() };
            cells.push(CellValues {
                label: cell.label.clone(),
                title: cell.title.clone(),
                durability: cell.durability,
                settings: hash_of(&plain),
                whole: hash_of(&cell.spec),
                elsewhere: hash_of(&elsewhere(&plain, if on.is_empty() { LOCAL } else { &on })),
                replayed: results.good_runs(cell.id).find_map(content_of),
                models: results.good_runs(cell.id).find_map(|run| models_of(&run.stack.models)),
                ran_on: results.good_runs(cell.id).next().map(|run| place_of(&run.stack)).unwrap_or_default(),
                on,
                axes: cell.axes.clone(),
                failed: results.failed_runs().filter(|run| run.cell == cell.id).count(),
                phase,
            });
        }
        // What a library on the machine is called at is no version, and the experiment may not name
        // it at all.
        let mut environment = results.environment.clone();
        let mut on_machines: BTreeMap<Option<&String>, Vec<&CellRow>> = BTreeMap::new();
        for cell in &results.cells {
            on_machines.entry(cell.axes.get(MACHINE_AXIS)).or_default().push(cell);
        }
        for (machine, of_machine) in on_machines {
            let engines = engines_of(results, of_machine);
            if !engines.is_empty() {
                let key = machine.map_or_else(|| ENGINE.to_owned(), |name| format!("{ENGINE} ({name})"));
                environment.insert(key, joined(&engines));
            }
        }
        Side {
            experiment: results.experiment.name.clone(),
            started_ms: results.experiment.started_ms,
            environment,
            cells,
            empty,
            is_rounded: false,
        }
    }
}

/// The hash of the file that a run did again.
fn content_of(run: &RunRow) -> Option<String> {
    let mut told = run.parameters.iter().filter(|(name, _)| name.ends_with(CONTENT));
    told.find_map(|(_, hash)| hash.as_str().map(str::to_owned))
}

/// The hash of the models of a run's devices, by their texts. What they say for their readers may
/// be said in other words, and a name is the cell's affair.
fn models_of(texts: &[String]) -> Option<String> {
    let plain = |text: &String| {
        let Ok(mut model) = text.parse::<toml::Table>() else { return text.clone() };
        for key in ["name", "title", "sources", "assumptions"] {
            model.remove(key);
        }
        model.to_string()
    };
    let all: Vec<String> = texts.iter().map(plain).collect();
    (!all.is_empty()).then(|| hash_of_text(&all.join("\n")))
}

/// What a run lay on, as far as two runs may differ in it: what was recorded for that, and of every
/// version the driver, what made the file system, how it was mounted, and whether a loop device's
/// cache was between.
fn place_of(record: &StackRecord) -> BTreeMap<String, String> {
    let mut all = record.ran_on.clone();
    // Those with a path name directories, which differ from run to run in a container.
    let mut options: Vec<&str> = record.mount.split(',').filter(|option| !option.contains('/')).collect();
    options.sort_unstable();
    let options = options.join(",");
    let attached = record.device.rsplit_once(" on ").map_or("", |(attached, _)| attached);
    let attached = if attached.starts_with("loop ") { attached } else { "" };
    for (name, text) in [
        ("file system", record.filesystem.as_str()),
        ("made by", record.mkfs_version.as_str()),
        ("mount options", options.as_str()),
        ("attached as", attached),
    ] {
        if !text.is_empty() {
            all.insert(name.to_owned(), text.to_owned());
        }
    }
    all
}

/// A cell without what is another one on another machine although the experiment is the same: the
/// machine's name, where files lie, what a file is called of whose content runs tell, and how
/// values are spelled.
fn portable(cell: &Cell, is_told: &dyn Fn(&str) -> bool) -> Cell {
    let mut cell = Cell { on: String::new(), ..cell.clone() };
    for (axis, label) in &mut cell.axes {
        *label = spelled_label(axis, label);
    }
    let parameters = workload_named(&cell.workload.name).map_or(&[][..], |kind| kind.parameters);
    for (name, value) in &mut cell.workload.params {
        make_portable("workload", parameters, (name, value), is_told(name));
    }
    if let Some(engine) = &mut cell.engine {
        let settings = engine_named(&engine.name).map_or(&[][..], |kind| kind.settings);
        for (name, value) in &mut engine.settings {
            make_portable("engine", settings, (name, value), false);
        }
    }
    // A preset of Fathom's own is no file, and is called what it is.
    for device in [&mut cell.stack.device, &mut cell.stack.log_device].into_iter().flatten() {
        *device = file_name(device);
    }
    if let Some(image) = &mut cell.stack.image {
        *image = image.file_name().map(Into::into).unwrap_or_default();
    }
    cell
}

/// A portable cell as a file has it that has several machines where this one has one, or one where
/// this one has several.
fn elsewhere(cell: &Cell, machine: &str) -> Cell {
    let mut cell = cell.clone();
    if cell.axes.remove(MACHINE_AXIS).is_none() {
        cell.axes.insert(MACHINE_AXIS.to_owned(), machine.to_owned());
    }
    cell
}

/// A value that is a text: of a path the file's name, and not even that where its content is told.
fn make_portable(section: &str, accepted: &[Parameter], (name, value): (&String, &mut Json), is_told: bool) {
    let Json::String(text) = value else { return };
    let is_path = accepted.iter().any(|own| own.name == name.as_str() && own.unit == "path");
    *text = match (is_path, is_told) {
        (true, true) => String::new(),
        (true, false) => file_name(text),
        (false, _) => spelled_label(&format!("{section}.{name}"), text),
    };
}

fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// FNV-1a (64 bits) of the cell's JSON, hexadecimal. Its maps are sorted, so the same cell has the
/// same text.
fn hash_of(cell: &Cell) -> String {
    hash_of_text(&serde_json::to_string(cell).unwrap_or_default())
}

fn hash_of_text(text: &str) -> String {
    format!("{:016x}", fnv1a(EMPTY, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(file: &str, on: &str, page: &str, is_told: bool) -> String {
        let cell = json!({
            "workload": {"name": "trace", "file": file},
            "engine": {"name": "sqlite", "page_size": 4096, "journal_mode": "wal"},
            "stack": fathom_stack::StackSpec::default(),
            "axes": {"engine.page_size": page},
            "on": on
        });
        let cell: Cell = serde_json::from_value(cell).unwrap();
        hash_of(&portable(&cell, &|_| is_told))
    }

    /// What happened: the settings' hash had the path of the trace and the machine of `--on`, so
    /// that of the same experiment on two machines it was said that what changed may be the
    /// settings.
    #[test]
    fn the_same_experiment_on_another_machine_has_the_same_settings() {
        let one = hash("/home/a/app.trace", "ssh:a", "4KiB", true);
        assert_eq!(one, hash("/data/b.trace", "", "4096", true), "its content is compared");
        let untold = hash("/home/a/app.trace", "", "4096", false);
        assert_eq!(untold, hash("/data/app.trace", "adb:x", "4096", false));
        assert_ne!(untold, hash("/data/b.trace", "", "4096", false));
        assert_ne!(untold, hash("/home/a/app.trace", "", "8192", false));
    }

    /// Results of before have no `ran_on`, and tell what they do.
    #[test]
    fn what_a_run_lay_on_is_told_as_far_as_it_was_recorded() {
        let before = r#"{"filesystem": "ext4", "mkfs": "", "mkfs_version": "mke2fs 1.47.0",
            "mount": "rw,lowerdir=/a:/b,noatime", "device": "loop (direct I/O, log on another) on xfs (/dev/sda1)", "warnings": []}"#;
        let mut record: StackRecord = serde_json::from_str(before).unwrap();
        let told = |record: &StackRecord| -> Vec<String> {
            place_of(record).iter().map(|(name, text)| format!("{name}={text}")).collect()
        };
        let of_before = [
            "attached as=loop (direct I/O, log on another)",
            "file system=ext4",
            "made by=mke2fs 1.47.0",
            "mount options=noatime,rw",
        ];
        assert_eq!(told(&record), of_before);
        record.ran_on.insert("disk serial".into(), "7".into());
        assert!(told(&record).contains(&"disk serial=7".to_owned()));
    }

    #[test]
    fn a_model_is_another_one_when_its_times_are() {
        let of = |text: &str| models_of(&[text.to_owned()]);
        let card = of("# mine\nname = \"card\"\ntitle = \"Card\"\n[flush]\nbase_us = 1000\n");
        assert_eq!(card, of("title = \"A card\"\nname = \"my-card\"\n[flush]\nbase_us = 1000 # us"));
        assert_ne!(card, of("name = \"card\"\ntitle = \"Card\"\n[flush]\nbase_us = 9000\n"));
        assert_eq!(models_of(&[]), None);
    }

    /// Beside a file of several machines one of a single machine has the same settings without that
    /// axis.
    #[test]
    fn a_machine_among_several_is_no_other_setting() {
        let cell = |on: &str, axes: Json| -> Cell {
            let cell = json!({
                "workload": {"name": "update"},
                "stack": fathom_stack::StackSpec::default(),
                "axes": axes,
                "on": on
            });
            portable(&serde_json::from_value(cell).unwrap(), &|_| false)
        };
        let of_one = cell("ssh:a", json!({"variants": "wal"}));
        let of_several = cell("ssh:a", json!({"variants": "wal", "on": "ssh:a"}));
        assert_eq!(elsewhere(&of_one, "ssh:a"), of_several);
        assert_eq!(elsewhere(&of_several, "ssh:a"), of_one);
        assert_ne!(elsewhere(&of_one, LOCAL), of_several);
    }
}
