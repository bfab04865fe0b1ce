//! Makes and checks the cells of an experiment's matrix.

use std::collections::{BTreeMap, BTreeSet};

use fathom_diagnostic::Diagnostic;
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};
use fathom_stack::{STACK_KEYS, StackSpec};
use fathom_workload::params::{Kind, Parameter, Params};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::workload::{WorkloadError, WorkloadKind};
use serde_json::Value as Json;

use super::alike::{name_as_the_file, refuse_alike, work_of};
use super::axes::{MACHINE_AXIS, TRACE_AXIS};
use super::diagnostic::{Problem, Source, Span};
use super::node::{Node, Value};
use super::parse::{label_of, points};
use super::{Axis, Experiment, Point, Setting, Vocabulary, overrides, units, values};
use crate::cell::{Cell, INSTRUMENT_KEYS, Instruments};
use crate::naming::{joined_values, make_unique};

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
    /// `--on`: the machines that every cell runs on; none = this one. A file names none: who writes
    /// it does not say where others connect to.
    pub machines: Vec<String>,
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
    /// Makes the cells: every combination of the axes' values but the excluded ones, in the order
    /// of the file.
    ///
    /// # Errors
    /// A name that no workload, engine or stack knows, a value of the wrong type, unit or range,
    /// and combinations that cannot be: each at its place in the file or in the `--set`.
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
        sources.extend(selection.machines.iter().map(|machine| Source {
            name: "--on".into(),
            text: machine.clone(),
            numbered: false,
        }));
        self.make(selection, vocabulary).map_err(|problem| problem.locate(&sources))
    }

    fn make(&self, selection: &Selection, vocabulary: &Vocabulary) -> Result<Cells, Problem> {
        let mut base = self.base.clone();
        let mut axes = self.axes.clone();
        let first_trace = self.sources.len() + selection.sets.len();
        put_traces(&selection.traces, first_trace, &mut axes)?;
        if selection.quick {
            // Who names variants wants those, and a trace may stand in their place.
            let are_chosen = selection.sets.iter().any(|set| overrides::chooses_variants(set))
                || axes.iter().any(|axis| {
                    axis.name == "variants"
                        && axis.points.iter().any(|point| point.span.source >= first_trace)
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
        // Variants are chosen first, wherever that stands: which are left decides what else may be
        // set.
        let mut sets: Vec<(usize, &String)> = selection.sets.iter().enumerate().collect();
        sets.sort_by_key(|(_, argument)| !overrides::chooses_variants(argument));
        let (mut set_before, mut warnings) = (BTreeSet::new(), Vec::new());
        for (number, argument) in sets {
            let setting = overrides::read(argument, self.sources.len() + number, &base, &axes, vocabulary)?;
            if !set_before.insert(setting.path.clone()) {
                warnings.push(format!(
                    "--set {}: given more than once, and the last one holds; several values have commas between them",
                    setting.path
                ));
            }
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
        name_as_the_file(&self.axes, &base, &mut axes, vocabulary)?;
        let without_optional = drop_optional(&mut axes);
        put_machines(&selection.machines, first_trace + selection.traces.len(), &mut base, &mut axes);
        let from_file = if selection.quick { self.quick.repeats } else { None };
        let mut made = Cells {
            cells: Vec::new(),
            repeats: selection.repeat.or(from_file).unwrap_or(self.repeats).max(1),
            warnings,
        };
        bounded(&axes, made.repeats)?;
        let combinations = combinations(&axes);
        let workloads: BTreeSet<String> =
            combinations.iter().map(|combination| workload_name(&base, combination)).collect();
        // Each kind of work, and the first cell of it.
        let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
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
            // One value is for those that have it; of several each would make the others again.
            let idle = axes.iter().zip(&combination).find(|(axis, _)| {
                axis.points.len() > 1
                    && axis.name.contains('.')
                    && !assembled.contains_key(axis.name.as_str())
            });
            if let Some((axis, point)) = idle {
                return Err(Problem::new(
                    &point.span,
                    format!(
                        "the workload {own} has no `{}`, and each value would make its cells again",
                        axis.name
                    ),
                    "give one value, or choose the variants that have it: --set variants=NAME",
                ));
            }
            let chosen: BTreeSet<&str> = combination
                .iter()
                .flat_map(|point| &point.settings)
                .map(|setting| setting.path.as_str())
                .collect();
            let cell = check(&assembled, &chosen, labels, vocabulary, &mut made.warnings)?;
            if let Some(work) = work_of(&cell, vocabulary) {
                let first = *first_of.entry(work).or_insert(made.cells.len());
                if let Some((_, earlier)) = made.cells.get(first) {
                    // Variants of different names may do the same.
                    let used = axes
                        .iter()
                        .zip(&combination)
                        .filter(|(axis, _)| assembled.contains_key(axis.name.as_str()));
                    refuse_alike(used, &cell, earlier)?;
                }
            }
            // The only variant that is not optional goes without saying.
            let is_said =
                |axis: &Axis| !(without_optional && axis.name == "variants" && axis.points.len() == 1);
            let said = axes.iter().zip(&combination).filter(|(axis, _)| is_said(axis));
            let values = said.map(|(_, point)| point.label.as_str());
            let label = joined_values(values, &cell.workload.name);
            made.cells.push((label, cell));
        }
        if made.cells.is_empty()
            && let Some(exclusion) = self.exclude.first()
        {
            return Err(Problem::new(&exclusion.span, "nothing is left: every cell is excluded", ""));
        }
        make_unique(made.cells.iter_mut().map(|(label, _)| label));
        made.warnings.sort();
        made.warnings.dedup();
        Ok(made)
    }
}

/// Puts the traces of the command line in the place of the file's workloads: its variants where
/// those choose workloads, else a new axis.
///
/// # Errors
/// A trace that is given twice: it would be compared with itself.
fn put_traces(traces: &[TraceChoice], first_source: usize, axes: &mut Vec<Axis>) -> Result<(), Problem> {
    if traces.is_empty() {
        return Ok(());
    }
    // Another path may lead to the same file.
    let real = |trace: &TraceChoice| {
        let file = if trace.parameter == "file" { std::fs::canonicalize(&trace.value).ok() } else { None };
        (trace.parameter, file.unwrap_or_else(|| trace.value.clone().into()))
    };
    let mut points: Vec<Point> = Vec::new();
    for (number, trace) in traces.iter().enumerate() {
        let span = Span { source: first_source + number, range: 0..trace.value.len() };
        if traces[..number].iter().any(|other| real(other) == real(trace)) {
            return Err(Problem::new(&span, "this trace is given twice", "leave one of them out"));
        }
        let text = |path: &str, value: &str| Setting {
            path: path.to_owned(),
            key_span: span.clone(),
            node: Node { span: span.clone(), value: Value::Text(value.to_owned()) },
        };
        let settings = vec![
            text("workload.name", "trace"),
            text(&format!("workload.{}", trace.parameter), &trace.value),
        ];
        let mut label = trace.label.clone();
        let mut alike = 1;
        while points.iter().any(|point| point.label == label) {
            alike += 1;
            label = format!("{} ({alike})", trace.label);
        }
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
    Ok(())
}

/// Puts the machines of the command line behind the file's axes, where there are several: their
/// rows stand together in a table.
fn put_machines(machines: &[String], first_source: usize, base: &mut Vec<Setting>, axes: &mut Vec<Axis>) {
    let setting = |number: usize, machine: &String| {
        let span = Span { source: first_source + number, range: 0..machine.len() };
        Setting {
            path: MACHINE_AXIS.to_owned(),
            key_span: span.clone(),
            node: Node { span, value: Value::Text(machine.clone()) },
        }
    };
    let mut settings: Vec<Setting> =
        machines.iter().enumerate().map(|(number, machine)| setting(number, machine)).collect();
    if settings.len() < 2 {
        base.append(&mut settings);
        return;
    }
    let Some(span) = settings.first().map(|setting| setting.key_span.clone()) else { return };
    let point = |setting: Setting| Point {
        label: setting.node.text(MACHINE_AXIS).unwrap_or_default(),
        span: setting.key_span.clone(),
        settings: vec![setting],
        optional: false,
    };
    let points = settings.into_iter().map(point).collect();
    axes.push(Axis { name: MACHINE_AXIS.into(), points, span });
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

/// The settings of a cell. A variant that names its workload begins with none of the file's
/// parameters, which are another workload's; those of a `--set` hold for every cell.
fn assemble<'a>(base: &'a [Setting], axes: &[Axis], combination: &[&'a Point]) -> Assembled<'a> {
    let begins_anew = axes.iter().zip(combination).any(|(axis, point)| names_workload(axis, point));
    let mut assembled: Assembled<'a> = base
        .iter()
        .filter(|setting| {
            !(begins_anew && setting.key_span.source == 0 && setting.path.starts_with("workload."))
        })
        .map(|setting| (setting.path.as_str(), setting))
        .collect();
    for setting in combination.iter().flat_map(|point| &point.settings) {
        assembled.insert(&setting.path, setting);
    }
    assembled
}

/// A value of the axis `workload.name` sets nothing but that, unless it is a trace that has taken
/// its place.
fn names_workload(axis: &Axis, point: &Point) -> bool {
    (axis.name == "variants" || axis.name == TRACE_AXIS || point.settings.len() > 1)
        && point.settings.iter().any(|setting| setting.path == "workload.name")
}

/// The workload of a cell, where it is named as text.
fn workload_name(base: &[Setting], combination: &[&Point]) -> String {
    let named = combination.iter().flat_map(|point| &point.settings).chain(base.iter().rev());
    let mut names = named
        .filter(|setting| setting.path == "workload.name")
        .filter_map(|entry| entry.node.text("name").ok());
    names.next().unwrap_or_default()
}

/// Whether a `--set` parameter is not for this cell's workload but for that of another cell.
fn is_of_another_workload(path: &str, own: &str, all: &BTreeSet<String>, vocabulary: &Vocabulary) -> bool {
    let Some(parameter) = path.strip_prefix("workload.").filter(|name| *name != "name") else { return false };
    let takes = |name: &str| {
        vocabulary
            .workload(name)
            .is_some_and(|kind| kind.parameters.iter().any(|other| other.name == parameter))
    };
    !takes(own) && all.iter().any(|name| takes(name))
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
    match base.iter_mut().find(|line| line.path == setting.path) {
        Some(line) => *line = setting,
        None => base.push(setting),
    }
}

/// What `[quick]` sets holds for the variants that set it themselves, too.
fn make_quick(setting: &Setting, axes: &mut [Axis]) {
    for axis in axes.iter_mut().filter(|axis| axis.name == "variants") {
        let of_points = axis.points.iter_mut().flat_map(|point| &mut point.settings);
        of_points.filter(|value| value.path == setting.path).for_each(|value| *value = setting.clone());
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
        let alike = |point: &&Point| point.label.eq_ignore_ascii_case(&label);
        let exact = axis.points.iter().find(|point| point.label == label);
        let Some(point) = exact.or_else(|| axis.points.iter().find(alike)) else {
            let hint = match nearest(&label, axis.values()) {
                Some(near) => did_you_mean_hint(Some(near)),
                None => format!("there are: {}", axis.values().collect::<Vec<_>>().join(", ")),
            };
            return Err(Problem::new(&item.span, format!("unknown variant \"{label}\""), hint));
        };
        if kept.iter().any(|known: &Point| known.label == point.label) {
            return Err(Problem::new(&item.span, format!("\"{label}\" is listed twice"), ""));
        }
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

/// `chosen` are the paths that an axis sets in this cell.
fn check(
    assembled: &Assembled<'_>,
    chosen: &BTreeSet<&str>,
    axes: BTreeMap<String, String>,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Cell, Problem> {
    let workload = check_workload(assembled, chosen, vocabulary, warnings)?;
    let engine = check_engine(assembled, &workload, vocabulary, warnings)?;
    let stack = check_stack(assembled, vocabulary, warnings)?;
    let instruments = check_instruments(assembled, warnings)?;
    let on =
        assembled.get(MACHINE_AXIS).map_or(Ok(String::new()), |setting| setting.node.text(MACHINE_AXIS))?;
    Ok(Cell { workload, engine, stack, instruments, on, axes })
}

/// The settings of a section, without `name`.
fn section<'a>(
    assembled: &'a Assembled<'a>,
    section: &'static str,
) -> impl Iterator<Item = (&'a str, &'a Setting)> {
    assembled.values().filter_map(move |setting| {
        let name = setting.path.strip_prefix(section)?.strip_prefix('.')?;
        (name != "name").then_some((name, *setting))
    })
}

/// Reads the parameters of a section, amounts with units turned into the parameter's own unit.
fn read_parameters(
    owner: &str,
    what: &str,
    accepted: &[Parameter],
    settings: &BTreeMap<&str, &Setting>,
) -> Result<(BTreeMap<String, Json>, Params), Problem> {
    let mut given = BTreeMap::new();
    for (&name, &setting) in settings {
        let Some(parameter) = accepted.iter().find(|parameter| parameter.name == name) else {
            let names = || accepted.iter().map(|parameter| parameter.name);
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
            || settings.values().next().map(|setting| setting.key_span.clone()),
            |setting| Some(setting.node.span.clone()),
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

fn check_workload(
    assembled: &Assembled<'_>,
    chosen: &BTreeSet<&str>,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<WorkloadSpec, Problem> {
    let settings: BTreeMap<&str, &Setting> = section(assembled, "workload").collect();
    let Some(&name_line) = assembled.get("workload.name") else {
        let span = settings.values().next().map_or_else(
            || super::diagnostic::Span { source: 0, range: 0..0 },
            |setting| setting.key_span.clone(),
        );
        return Err(Problem::new(
            &span,
            "the workload has no name",
            "add a line such as: name = \"update\"  (`fathom list workloads` shows all)",
        ));
    };
    let name = name_line.node.text("name")?;
    let Some(kind) = vocabulary.workload(&name) else {
        let known = || vocabulary.workloads.iter().map(|workload| workload.name);
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
    refuse_idle(kind, &params, &settings, chosen, warnings)?;
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

/// Refuses what an axis says of a parameter that changes nothing in this cell, unless it is the
/// parameter's default: the cell would have the name of something that it does not do. What holds
/// for all cells is for those in which it has an effect, and is only told.
fn refuse_idle(
    kind: &WorkloadKind,
    params: &Params,
    settings: &BTreeMap<&str, &Setting>,
    chosen: &BTreeSet<&str>,
    warnings: &mut Vec<String>,
) -> Result<(), Problem> {
    let Some(idle) = (kind.idle)(params) else { return Ok(()) };
    for parameter in kind.parameters.iter().filter(|parameter| idle.parameters.contains(&parameter.name)) {
        let (name, why) = (parameter.name, idle.why);
        let Some(setting) = settings.get(name) else { continue };
        // 1 and 1.0 are one default.
        let plain = |value: &Json| values::in_one_spelling(parameter, value);
        if params.all().get(name).map(plain) == parameter.default.json().as_ref().map(plain) {
            continue;
        }
        if chosen.contains(setting.path.as_str()) {
            let problem = format!("`{name}` changes nothing in this cell: it {why}");
            return Err(Problem::new(&setting.node.span, problem, "leave it out there ([[exclude]])"));
        }
        warnings.push(format!("{name} changes nothing in some cells: it {why}"));
    }
    Ok(())
}

fn check_engine(
    assembled: &Assembled<'_>,
    workload: &WorkloadSpec,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<Option<EngineSpec>, Problem> {
    let settings: BTreeMap<&str, &Setting> = section(assembled, "engine").collect();
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
        let near = did_you_mean_hint(nearest(&name, vocabulary.engines.iter().map(|engine| engine.name)));
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
        // A library that nobody named is this machine's, and whether it is there is the plan's
        // question.
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
fn check_stack(
    assembled: &Assembled<'_>,
    vocabulary: &Vocabulary,
    warnings: &mut Vec<String>,
) -> Result<StackSpec, Problem> {
    let settings: BTreeMap<&str, &Setting> = section(assembled, "stack").collect();
    for (name, setting) in &settings {
        // No mount options are the file system's own; any other key says nothing when it is empty.
        let is_blank = |node: &Node| matches!(&node.value, Value::Text(text) if text.trim().is_empty());
        if let Some(item) = setting.node.items().iter().find(|item| *name != "mount" && is_blank(item)) {
            return Err(Problem::new(&item.span, format!("`{name}` is empty"), ""));
        }
    }
    let (_, keys) = read_parameters("the stack", "key", STACK_KEYS, &settings)?;
    let stack = StackSpec::of_keys(&keys);
    // A file may give it for those of its cells that have an image.
    let is_asked = settings.get("size_mib").is_some_and(|setting| setting.key_span.source != 0);
    if is_asked && stack.place.is_directory() {
        warnings.push("size_mib changes nothing in cells with filesystem=dir: they have no image".into());
    }
    match stack.check(&vocabulary.machine).into_iter().next() {
        Some(problem) => Err(at_its_place(assembled, problem)),
        None => Ok(stack),
    }
}

fn check_instruments(assembled: &Assembled<'_>, warnings: &mut Vec<String>) -> Result<Instruments, Problem> {
    let mut instruments = Instruments::default();
    // Switched off in so many words, as by `quick` of an experiment that tries them, they were not
    // forgotten.
    let mut is_told = false;
    for (name, setting) in section(assembled, "instruments") {
        is_told |= name == "power_cut";
        match name {
            "blocks" => instruments.blocks = setting.node.boolean(name)?,
            "operations" => instruments.operations = setting.node.boolean(name)?,
            "power_cut" => instruments.power_cut = setting.node.boolean(name)?,
            "power_cut_states" => {
                instruments.power_cut_states = u64::try_from(setting.node.whole(name, 1, 1 << 40)?).ok();
            }
            "power_cut_seconds" => {
                instruments.power_cut_seconds = u64::try_from(setting.node.whole(name, 1, 86_400)?).ok();
            }
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
    let of_cuts = instruments.power_cut_states.or(instruments.power_cut_seconds);
    if of_cuts.is_some() && !is_told {
        warnings.push(
            "power_cut_states and power_cut_seconds change nothing in cells without power_cut = true".into(),
        );
    }
    Ok(instruments)
}

/// The judge's problem at the line that it is about.
fn at_its_place(assembled: &Assembled<'_>, wrong: fathom_stack::Problem) -> Problem {
    // What is wrong and stands nowhere goes by default with what does stand there.
    let key = format!("stack.{}", wrong.field);
    let written = assembled.get(key.as_str()).or_else(|| assembled.get("stack.filesystem")).copied();
    let Some(setting) = written.or_else(|| section(assembled, "stack").map(|(_, setting)| setting).next())
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
