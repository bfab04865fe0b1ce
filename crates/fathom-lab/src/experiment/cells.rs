//! Makes and checks the cells of an experiment's matrix.

use std::collections::{BTreeMap, BTreeSet};

use fathom_stack::suggest::{did_you_mean_hint, nearest};
use fathom_stack::{SpecProblem, StackSpec};
use fathom_workload::params::{Kind, Parameter, Params};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::workload::WorkloadError;
use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, Problem, Source, Span};
use super::node::{Node, Value};
use super::parse::{label_of, points};
use super::{Axis, Experiment, Point, Setting, Vocabulary, overrides, units};
use crate::cell::{Cell, Instruments};

/// Keys of `[stack]`.
pub(super) const STACK_KEYS: [&str; 11] = [
    "filesystem",
    "mkfs",
    "mount",
    "size_mib",
    "log_mib",
    "image",
    "directory",
    "device",
    "log_device",
    "faults",
    "guest",
];

/// Keys of `[instruments]`.
pub(super) const INSTRUMENT_KEYS: [&str; 2] = ["blocks", "operations"];

/// What the command line asks beyond the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// `--quick`: the file's `[quick]` table holds.
    pub quick: bool,
    /// `--repeat N`: runs of each cell, whatever the file says.
    pub repeat: Option<u32>,
    /// `--set key=value`, in order; later ones win.
    pub sets: Vec<String>,
    /// `--trace`: these are replayed instead of the file's workloads.
    pub traces: Vec<TraceChoice>,
}

/// A trace to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceChoice {
    /// What it is called in tables and figures.
    pub label: String,
    /// The workload's parameter that names it: `file` or `profile`.
    pub parameter: &'static str,
    /// Its value.
    pub value: String,
}

/// The axis of `--trace` where the file's variants are about something else than workloads.
const TRACE_AXIS: &str = "trace";

/// The cells of an experiment under a [`Selection`].
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Each with its label, unique among them: the values of the axes.
    pub cells: Vec<(String, Cell)>,
    /// Runs of each cell.
    pub repeats: u32,
    /// What a reader must know about the combination of settings.
    pub warnings: Vec<String>,
}

/// Most cells of an experiment.
const CELLS_MAX: u64 = 10_000;
/// Most runs of a plan: at a second each, more than a day.
const RUNS_MAX: u64 = 100_000;

/// The settings of one cell, by path.
type Assembled<'a> = BTreeMap<&'a str, &'a Setting>;

impl Experiment {
    /// Makes the cells: every combination of the axes' values but the excluded ones, in the order of the file.
    ///
    /// # Errors
    /// A name that no workload, engine or stack knows, a value of the wrong type, unit or range, and combinations that
    /// cannot be: each at its place in the file or in the `--set`.
    pub fn cells(&self, selection: &Selection, vocabulary: &Vocabulary) -> Result<Cells, Diagnostic> {
        let mut sources = self.sources.clone();
        sources.extend(selection.sets.iter().map(|text| Source {
            name: "--set".into(),
            text: text.clone(),
            numbered: false,
        }));
        sources.extend(selection.traces.iter().map(|trace| Source {
            name: "--trace".into(),
            text: trace.value.clone(),
            numbered: false,
        }));
        self.make(selection, vocabulary).map_err(|problem| problem.locate(&sources))
    }

    fn make(&self, selection: &Selection, vocabulary: &Vocabulary) -> Result<Cells, Problem> {
        let mut base = self.base.clone();
        let mut axes = self.axes.clone();
        let first_trace = self.sources.len() + selection.sets.len();
        put_traces(&selection.traces, first_trace, &mut axes);
        if selection.quick {
            // Who names variants wants those, and a trace may stand in their place.
            let are_chosen = selection.sets.iter().any(|it| overrides::chooses_variants(it))
                || axes.iter().any(|axis| {
                    axis.name == "variants" && axis.points.iter().any(|it| it.span.source >= first_trace)
                });
            for setting in &self.quick.settings {
                if setting.path == "variants" {
                    if !are_chosen {
                        keep_variants(setting, &mut axes)?;
                    }
                    continue;
                }
                make_quick(setting, &mut axes);
                if axes.iter().any(|axis| axis.name == "variants" && axis.sets(&setting.path)) {
                    set(setting.clone(), &mut base);
                    continue;
                }
                overlay(setting.clone(), &mut base, &mut axes)?;
            }
        }
        // Variants are chosen first, wherever that stands: which are left decides what else may be set.
        let mut sets: Vec<(usize, &String)> = selection.sets.iter().enumerate().collect();
        sets.sort_by_key(|(_, argument)| !overrides::chooses_variants(argument));
        for (number, argument) in sets {
            let setting = overrides::read(argument, self.sources.len() + number, &base, &axes, vocabulary)?;
            let listed = matches!(setting.node.value, Value::List(_));
            let is_new_axis = listed
                && setting.path != "variants"
                && !axes.iter().any(|axis| axis.sets(&setting.path))
                && !overrides::accepts_list(&setting.path, &base, &axes, vocabulary);
            if is_new_axis {
                axes.push(Axis {
                    points: points(&setting.path, &setting.key_span, &setting.node)?,
                    span: setting.key_span.clone(),
                    name: setting.path,
                });
            } else {
                overlay(setting, &mut base, &mut axes)?;
            }
        }
        let without_optional = drop_optional(&mut axes);
        let from_file = if selection.quick { self.quick.repeats } else { None };
        let mut made = Cells {
            cells: Vec::new(),
            repeats: selection.repeat.or(from_file).unwrap_or(self.repeats).max(1),
            warnings: Vec::new(),
        };
        bounded(&axes, made.repeats)?;
        let combinations = combinations(&axes);
        let workloads: BTreeSet<String> = combinations.iter().map(|it| workload_name(&base, it)).collect();
        for combination in combinations {
            let labels: BTreeMap<String, String> = axes
                .iter()
                .zip(&combination)
                .map(|(axis, point)| (axis.name.clone(), point.label.clone()))
                .collect();
            let excluded = self.exclude.iter().any(|exclusion| {
                exclusion
                    .values
                    .iter()
                    .all(|(axis, values)| labels.get(axis).is_some_and(|label| values.contains(label)))
            });
            if excluded {
                continue;
            }
            let mut assembled = assemble(&base, &axes, &combination);
            let own = workload_name(&base, &combination);
            assembled.retain(|path, setting| {
                let is_set = (self.sources.len()..first_trace).contains(&setting.key_span.source);
                !is_set || !is_of_another_workload(path, &own, &workloads, vocabulary)
            });
            let cell = check(&assembled, labels, vocabulary, &mut made.warnings)?;
            // The only variant that is not optional goes without saying.
            let is_said =
                |axis: &Axis| !(without_optional && axis.name == "variants" && axis.points.len() == 1);
            let said = axes.iter().zip(&combination).filter(|(axis, _)| is_said(axis));
            let words: Vec<&str> = said.map(|(_, point)| point.label.as_str()).collect();
            let label = if words.is_empty() { cell.workload.name.clone() } else { words.join(" ") };
            made.cells.push((label, cell));
        }
        if made.cells.is_empty()
            && let Some(exclusion) = self.exclude.first()
        {
            return Err(Problem::new(&exclusion.span, "nothing is left: every cell is excluded", ""));
        }
        make_unique(&mut made.cells);
        made.warnings.sort();
        made.warnings.dedup();
        Ok(made)
    }
}

/// Puts the traces of the command line in the place of the file's workloads: its variants where those choose workloads, else a new axis.
fn put_traces(traces: &[TraceChoice], first_source: usize, axes: &mut Vec<Axis>) {
    if traces.is_empty() {
        return;
    }
    let mut points: Vec<Point> = Vec::new();
    for (number, trace) in traces.iter().enumerate() {
        let span = Span { source: first_source + number, range: 0..trace.value.len() };
        let text = |path: &str, value: &str| Setting {
            path: path.to_owned(),
            key_span: span.clone(),
            node: Node { span: span.clone(), value: Value::Text(value.to_owned()) },
        };
        let settings = vec![
            text("workload.name", "trace"),
            text(&format!("workload.{}", trace.parameter), &trace.value),
        ];
        let alike = points.iter().filter(|it| it.label == trace.label).count();
        let label = if alike == 0 { trace.label.clone() } else { format!("{} ({})", trace.label, alike + 1) };
        points.push(Point { label, span: span.clone(), settings, optional: false });
    }
    let chooses_workloads = |axis: &&mut Axis| {
        axis.name == "workload.name" || axis.name == "variants" && axis.sets("workload.name")
    };
    match axes.iter_mut().find(chooses_workloads) {
        Some(axis) => axis.points = points,
        None => {
            let span = points[0].span.clone();
            axes.insert(0, Axis { name: TRACE_AXIS.into(), points, span });
        }
    }
}

/// Drops the optional variants that nobody has asked for; gives whether there were any.
fn drop_optional(axes: &mut [Axis]) -> bool {
    let mut any = false;
    for axis in axes {
        let before = axis.points.len();
        axis.points.retain(|point| !point.optional);
        any |= axis.points.len() < before;
    }
    any
}

/// The settings of a cell. A variant that names its workload begins with none of the file's parameters, which are another workload's;
/// those of a `--set` hold for every cell.
fn assemble<'a>(base: &'a [Setting], axes: &[Axis], combination: &[&'a Point]) -> Assembled<'a> {
    let begins_anew = axes.iter().zip(combination).any(|(axis, point)| names_workload(axis, point));
    let mut assembled: Assembled<'a> = base
        .iter()
        .filter(|it| !(begins_anew && it.key_span.source == 0 && it.path.starts_with("workload.")))
        .map(|it| (it.path.as_str(), it))
        .collect();
    for setting in combination.iter().flat_map(|point| &point.settings) {
        assembled.insert(&setting.path, setting);
    }
    assembled
}

fn names_workload(axis: &Axis, point: &Point) -> bool {
    (axis.name == "variants" || axis.name == TRACE_AXIS)
        && point.settings.iter().any(|it| it.path == "workload.name")
}

/// The workload of a cell, where it is named as text.
fn workload_name(base: &[Setting], combination: &[&Point]) -> String {
    let named = combination.iter().flat_map(|point| &point.settings).chain(base.iter().rev());
    let mut names = named.filter(|it| it.path == "workload.name").filter_map(|it| it.node.text("name").ok());
    names.next().unwrap_or_default()
}

/// Whether a `--set` parameter is not for this cell's workload but for that of another cell.
fn is_of_another_workload(path: &str, own: &str, all: &BTreeSet<String>, vocabulary: &Vocabulary) -> bool {
    let Some(parameter) = path.strip_prefix("workload.").filter(|it| *it != "name") else { return false };
    let takes = |name: &str| {
        vocabulary.workload(name).is_some_and(|kind| kind.parameters.iter().any(|it| it.name == parameter))
    };
    !takes(own) && all.iter().any(|name| takes(name))
}

/// Labels name cells in tables and in results.db: two axes with words such as "a b" and "b" must not make two alike.
fn make_unique(cells: &mut [(String, Cell)]) {
    let mut seen = BTreeSet::new();
    for (label, _) in cells {
        let mut number = 2;
        let plain = label.clone();
        while !seen.insert(label.clone()) {
            *label = format!("{plain} ({number})");
            number += 1;
        }
    }
}

/// Puts one setting over the file's.
fn overlay(setting: Setting, base: &mut Vec<Setting>, axes: &mut [Axis]) -> Result<(), Problem> {
    if setting.path == "variants" {
        return keep_variants(&setting, axes);
    }
    if let Some(axis) = axes.iter_mut().find(|axis| axis.name == setting.path) {
        let mut node = setting.node.clone();
        if !matches!(node.value, Value::List(_)) {
            node.value = Value::List(vec![setting.node.clone()]);
        }
        axis.points = points(&setting.path, &setting.key_span, &node)?;
        return Ok(());
    }
    if axes.iter().any(|axis| axis.sets(&setting.path)) {
        return Err(Problem::new(
            &setting.key_span,
            format!("the experiment's variants set `{}` themselves", setting.path),
            "choose among them instead: --set variants=NAME",
        ));
    }
    set(setting, base);
    Ok(())
}

/// Sets a line of the file, or adds it.
fn set(setting: Setting, base: &mut Vec<Setting>) {
    match base.iter_mut().find(|it| it.path == setting.path) {
        Some(line) => *line = setting,
        None => base.push(setting),
    }
}

/// What `[quick]` sets holds for the variants that set it themselves, too.
fn make_quick(setting: &Setting, axes: &mut [Axis]) {
    for axis in axes.iter_mut().filter(|axis| axis.name == "variants") {
        let of_points = axis.points.iter_mut().flat_map(|point| &mut point.settings);
        of_points.filter(|it| it.path == setting.path).for_each(|it| *it = setting.clone());
    }
}

fn keep_variants(setting: &Setting, axes: &mut [Axis]) -> Result<(), Problem> {
    let Some(axis) = axes.iter_mut().find(|axis| axis.name == "variants") else {
        return Err(Problem::new(&setting.key_span, "this experiment has no variants", ""));
    };
    let mut kept = Vec::new();
    for item in setting.node.items() {
        let label = label_of(&item.json()?);
        // As a table prints it, too: `WAL/FULL` of `wal/full`.
        let alike = |it: &&Point| it.label.eq_ignore_ascii_case(&label);
        let exact = axis.points.iter().find(|it| it.label == label);
        let Some(point) = exact.or_else(|| axis.points.iter().find(alike)) else {
            let hint = match nearest(&label, axis.values()) {
                Some(near) => did_you_mean_hint(Some(near)),
                None => format!("there are: {}", axis.values().collect::<Vec<_>>().join(", ")),
            };
            return Err(Problem::new(&item.span, format!("unknown variant \"{label}\""), hint));
        };
        kept.push(Point { optional: false, ..point.clone() });
    }
    axis.points = kept;
    Ok(())
}

/// Every combination of one value per axis; the last axis moves fastest.
/// Refuses more cells or runs than anybody waits for, before memory is taken for each.
fn bounded(axes: &[Axis], repeats: u32) -> Result<(), Problem> {
    let cells = axes.iter().fold(1_u64, |all, axis| all.saturating_mul(axis.points.len() as u64));
    let runs = cells.saturating_mul(repeats.into());
    // The whole file where it has no axes.
    let span = axes.last().map_or(Span { source: 0, range: 0..0 }, |axis| axis.span.clone());
    if cells > CELLS_MAX {
        return Err(Problem::new(
            &span,
            format!("the matrix has {} cells", grouped(cells)),
            format!("{} is the most", grouped(CELLS_MAX)),
        ));
    }
    if runs > RUNS_MAX {
        let hint = format!(
            "{} is the most: fewer `repeats` (--repeat), or a smaller matrix (--set)",
            grouped(RUNS_MAX)
        );
        let what = format!("{} runs of each of {} cells", grouped(repeats.into()), grouped(cells));
        return Err(Problem::new(&span, format!("{what} are {} runs", grouped(runs)), hint));
    }
    Ok(())
}

/// A number with a comma after each thousand.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn combinations(axes: &[Axis]) -> Vec<Vec<&Point>> {
    let mut all: Vec<Vec<&Point>> = vec![Vec::new()];
    for axis in axes {
        all = all
            .into_iter()
            .flat_map(|start| {
                axis.points.iter().map(move |point| {
                    let mut longer = start.clone();
                    longer.push(point);
                    longer
                })
            })
            .collect();
    }
    all
}

fn check(
    assembled: &Assembled<'_>,
    axes: BTreeMap<String, String>,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Cell, Problem> {
    let workload = check_workload(assembled, vocabulary)?;
    let engine = check_engine(assembled, &workload, vocabulary, warnings)?;
    let stack = check_stack(assembled, vocabulary)?;
    let instruments = check_instruments(assembled)?;
    Ok(Cell { workload, engine, stack, instruments, axes })
}

/// The settings of a room, without `name`.
fn room<'a>(
    assembled: &'a Assembled<'a>,
    room: &'static str,
) -> impl Iterator<Item = (&'a str, &'a Setting)> {
    assembled.values().filter_map(move |setting| {
        let name = setting.path.strip_prefix(room)?.strip_prefix('.')?;
        (name != "name").then_some((name, *setting))
    })
}

/// Reads the parameters of a room, amounts with units turned into the parameter's own unit.
fn read_parameters(
    owner: &str,
    what: &str,
    accepted: &[Parameter],
    settings: &BTreeMap<&str, &Setting>,
) -> Result<(BTreeMap<String, Json>, Params), Problem> {
    let mut given = BTreeMap::new();
    for (&name, &setting) in settings {
        let Some(parameter) = accepted.iter().find(|it| it.name == name) else {
            let names = || accepted.iter().map(|it| it.name);
            let hint = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
            };
            return Err(Problem::new(&setting.key_span, format!("{owner} has no {what} `{name}`"), hint));
        };
        let mut json = setting.node.json()?;
        let is_number =
            matches!(parameter.kind, Kind::Integer { .. } | Kind::IntegerOf(_) | Kind::Number { .. });
        if is_number
            && let Some(text) = json.as_str()
            && let Some(converted) = units::convert(text, parameter.unit)
        {
            json = converted
                .map_err(|(message, hint)| {
                    Problem::new(&setting.node.span, format!("`{name}`: {message}"), hint)
                })?
                .into();
        }
        // One at a time, so that the error is at its own line.
        let one = BTreeMap::from([(name.to_owned(), json.clone())]);
        Params::read(accepted, &one).map_err(|error| {
            let hint = did_you_mean_hint(error.suggestion.as_deref());
            Problem::new(wrong_item(setting, accepted), format!("`{name}`: {}", error.problem), hint)
        })?;
        given.insert(name.to_owned(), json);
    }
    let params = Params::read(accepted, &given).map_err(|error| {
        let span = settings.get(error.key.as_str()).map_or_else(
            || settings.values().next().map(|it| it.key_span.clone()),
            |it| Some(it.node.span.clone()),
        );
        let span = span.unwrap_or(super::diagnostic::Span { source: 0, range: 0..0 });
        Problem::new(
            &span,
            format!("`{}`: {}", error.key, error.problem),
            did_you_mean_hint(error.suggestion.as_deref()),
        )
    })?;
    Ok((given, params))
}

/// The place of the first item of a list that is wrong by itself, or of the whole value.
fn wrong_item<'a>(setting: &'a Setting, accepted: &[Parameter]) -> &'a super::diagnostic::Span {
    let name = setting.path.split_once('.').map_or("", |(_, name)| name);
    setting
        .node
        .items()
        .iter()
        .find(|item| {
            item.json()
                .is_ok_and(|json| Params::read(accepted, &BTreeMap::from([(name.to_owned(), json)])).is_err())
        })
        .map_or(&setting.node.span, |item| &item.span)
}

fn check_workload(assembled: &Assembled<'_>, vocabulary: &Vocabulary) -> Result<WorkloadSpec, Problem> {
    let settings: BTreeMap<&str, &Setting> = room(assembled, "workload").collect();
    let Some(&name_line) = assembled.get("workload.name") else {
        let span = settings
            .values()
            .next()
            .map_or_else(|| super::diagnostic::Span { source: 0, range: 0..0 }, |it| it.key_span.clone());
        return Err(Problem::new(
            &span,
            "the workload has no name",
            "add a line such as: name = \"update\"  (`fathom list workloads` shows all)",
        ));
    };
    let name = name_line.node.text("name")?;
    let Some(kind) = vocabulary.workload(&name) else {
        let known = || vocabulary.workloads.iter().map(|it| it.name);
        let near = did_you_mean_hint(nearest(&name, known()));
        let hint = format!("{near}  `fathom list workloads` shows all");
        return Err(Problem::new(
            &name_line.node.span,
            format!("unknown workload \"{name}\""),
            hint.trim_start(),
        ));
    };
    let owner = format!("the workload {name}");
    let (given, params) = read_parameters(&owner, "parameter", kind.parameters, &settings)?;
    // Values that are right by themselves may not go together.
    if let Err(error) = (kind.create)(params) {
        return Err(match error {
            WorkloadError::Parameter { parameter, problem, suggestion, .. } => {
                let line = settings.get(parameter.as_str()).copied().unwrap_or(name_line);
                let hint = did_you_mean_hint(suggestion.as_deref());
                Problem::new(&line.node.span, format!("`{parameter}`: {problem}"), hint)
            }
            other => Problem::new(&name_line.node.span, other.to_string(), ""),
        });
    }
    Ok(WorkloadSpec { name, params: given })
}

fn check_engine(
    assembled: &Assembled<'_>,
    workload: &WorkloadSpec,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Option<EngineSpec>, Problem> {
    let settings: BTreeMap<&str, &Setting> = room(assembled, "engine").collect();
    let name_line = assembled.get("engine.name").copied();
    let needs_engine = vocabulary.workload(&workload.name).is_none_or(|kind| kind.needs_engine);
    let Some(first) = name_line.or_else(|| settings.values().next().copied()) else {
        if needs_engine && let Some(line) = assembled.get("workload.name") {
            return Err(Problem::new(
                &line.node.span,
                format!("the workload {} needs an engine", workload.name),
                "add a table: [engine] with name = \"sqlite\"",
            ));
        }
        return Ok(None);
    };
    if !needs_engine {
        return Err(Problem::new(
            &first.key_span,
            format!("the workload {} works on plain files and takes no engine", workload.name),
            "leave the engine out",
        ));
    }
    let Some(name_line) = name_line else {
        return Err(Problem::new(
            &first.key_span,
            "there are engine settings but no engine",
            "add a line such as: name = \"sqlite\" to [engine]",
        ));
    };
    let name = name_line.node.text("name")?;
    let Some(kind) = vocabulary.engine(&name) else {
        let near = did_you_mean_hint(nearest(&name, vocabulary.engines.iter().map(|it| it.name)));
        let hint = format!("{near}  `fathom list engines` shows all");
        return Err(Problem::new(
            &name_line.node.span,
            format!("unknown engine \"{name}\""),
            hint.trim_start(),
        ));
    };
    let (given, params) =
        read_parameters(&format!("the engine {name}"), "setting", kind.settings, &settings)?;
    if let Err(error) = (kind.files)(&params) {
        let line = settings.get(error.key.as_str()).copied().unwrap_or(name_line);
        // A library that nobody named is this machine's, and whether it is there is the plan's question.
        if settings.contains_key(error.key.as_str()) {
            let hint = did_you_mean_hint(error.suggestion.as_deref());
            let problem = format!("`{}`: {}", error.key, error.problem);
            return Err(Problem::new(wrong_item(line, kind.settings), problem, hint));
        }
    }
    warnings.extend((kind.remarks)(&given, &params));
    Ok(Some(EngineSpec { name, settings: given }))
}

/// The stack of a cell, as the judge of stacks lets it pass ([`StackSpec::check`]).
fn check_stack(assembled: &Assembled<'_>, vocabulary: &Vocabulary) -> Result<StackSpec, Problem> {
    let mut stack = StackSpec::default();
    for (name, setting) in room(assembled, "stack") {
        let node = &setting.node;
        match name {
            "filesystem" => stack.filesystem = node.text(name)?,
            "mkfs" => stack.mkfs = node.texts(name)?.into_iter().map(|(word, _)| word).collect(),
            "mount" => {
                stack.mount = match &node.value {
                    Value::Text(text) => text.trim().to_owned(),
                    _ => node.text(name)?,
                };
            }
            "size_mib" => stack.size_mib = mebibytes(name, setting)?,
            "log_mib" => stack.log_mib = Some(mebibytes(name, setting)?),
            "image" => stack.image = Some(node.text(name)?.into()),
            "directory" => stack.directory = node.text(name)?.into(),
            "device" => stack.device = node.text(name)?,
            "log_device" => stack.log_device = node.text(name)?,
            "guest" => stack.guest = node.boolean(name)?,
            "faults" => stack.faults = node.texts(name)?.into_iter().map(|(fault, _)| fault).collect(),
            _ => {
                let hint = match nearest(name, STACK_KEYS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it has: {}", STACK_KEYS.join(", ")),
                };
                return Err(Problem::new(&setting.key_span, format!("the stack has no key `{name}`"), hint));
            }
        }
    }
    match stack.check(&vocabulary.filesystems).into_iter().next() {
        Some(problem) => Err(at_its_place(assembled, problem)),
        None => Ok(stack),
    }
}

fn check_instruments(assembled: &Assembled<'_>) -> Result<Instruments, Problem> {
    let mut instruments = Instruments::default();
    for (name, setting) in room(assembled, "instruments") {
        match name {
            "blocks" => instruments.blocks = setting.node.boolean(name)?,
            "operations" => instruments.operations = setting.node.boolean(name)?,
            _ => {
                let hint = match nearest(name, INSTRUMENT_KEYS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are: {}", INSTRUMENT_KEYS.join(", ")),
                };
                return Err(Problem::new(
                    &setting.key_span,
                    format!("there is no instrument `{name}`"),
                    hint,
                ));
            }
        }
    }
    Ok(instruments)
}

/// The judge's problem at the line that it is about.
fn at_its_place(assembled: &Assembled<'_>, wrong: SpecProblem) -> Problem {
    // What is wrong and stands nowhere goes by default with what does stand there.
    let key = format!("stack.{}", wrong.field);
    let written = assembled.get(key.as_str()).or_else(|| assembled.get("stack.filesystem")).copied();
    let Some(setting) = written.or_else(|| room(assembled, "stack").map(|(_, setting)| setting).next())
    else {
        // A stack that the file says nothing about is a directory, and a directory is right.
        return Problem::new(&Span { source: 0, range: 0..0 }, wrong.problem, wrong.hint);
    };
    let span = match wrong.item.and_then(|item| setting.node.items().get(item)) {
        Some(item) => &item.span,
        None => &setting.node.span,
    };
    // A sentence that begins with its verb is about the key.
    let problem = match wrong.problem.split_once(' ') {
        Some(("has" | "is" | "holds", _)) => format!("`{}` {}", wrong.field, wrong.problem),
        _ => wrong.problem,
    };
    Problem::new(span, problem, wrong.hint)
}

fn mebibytes(name: &str, setting: &Setting) -> Result<u64, Problem> {
    let number = match &setting.node.value {
        Value::Text(text) => match units::convert(text, "MiB") {
            Some(Ok(number)) => number,
            Some(Err((message, hint))) => {
                return Err(Problem::new(&setting.node.span, format!("`{name}`: {message}"), hint));
            }
            None => return Err(Problem::new(&setting.node.span, format!("`{name}` is a size in MiB"), "")),
        },
        _ => setting.node.whole(name, 1, 16 << 20)?,
    };
    u64::try_from(number).ok().filter(|it| (1..=16 << 20).contains(it)).ok_or_else(|| {
        Problem::new(&setting.node.span, format!("`{name}` is out of range"), "1 MiB to 16 TiB")
    })
}
