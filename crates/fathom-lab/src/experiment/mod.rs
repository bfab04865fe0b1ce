//! Experiment files: what is measured, in which combinations, and what a reader should see in it.
//!
//! An experiment is a TOML file; `docs/experiment-files.md` documents every key. Reading one goes
//! in two steps, and both say file, line and what would be right: [`Experiment::parse`] reads the
//! file; [`Experiment::cells`] makes the cells of its matrix, with `--quick` and `--set` applied,
//! and checks each of them against what workloads, engines and stacks accept. The built-in
//! experiments are such files, embedded ([`builtin`]).

mod alike;
mod axes;
mod builtin;
mod cells;
mod diagnostic;
mod node;
mod overrides;
mod parse;
mod units;
mod values;
mod vocabulary;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use axes::MACHINE_AXIS;
pub use builtin::{Builtin, builtin, builtin_named};
pub use cells::{Cells, Selection, TraceChoice};
pub use fathom_diagnostic::Diagnostic;
pub use parse::{REPEATS_MAX, is_name};
pub use vocabulary::Vocabulary;

pub(crate) use axes::{TRACE_AXIS, VARIANTS_AXIS};
pub(crate) use values::spelled_label;

use diagnostic::{Source, Span};
use node::Node;

/// An experiment, read and checked in itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its name, as in `fathom run NAME`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The paper it reproduces: `P1` …
    pub paper: Option<String>,
    /// What it answers.
    pub question: Option<String>,
    /// Runs of each cell.
    pub repeats: u32,
    /// Seed of order and data, where the file gives one.
    pub seed: Option<u64>,
    /// Longest time of one run, seconds; the run fails after it.
    pub timeout_s: u64,
    /// The axes of the matrix, in the order of the file.
    pub axes: Vec<Axis>,
    /// What to say in words.
    pub headlines: Vec<Headline>,
    /// What to draw.
    pub figures: Vec<Figure>,
    /// The name of the file, or `built-in`.
    pub source_name: String,
    /// The file, whole.
    pub source: String,
    /// Settings that hold for every cell, by dotted path.
    base: Vec<Setting>,
    exclude: Vec<Exclusion>,
    quick: Quick,
    sources: Vec<Source>,
}

/// One axis of the matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// A dotted path, or `variants`.
    pub name: String,
    /// Its values.
    points: Vec<Point>,
    span: Span,
}

impl Axis {
    /// The names of its values, in order.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.points.iter().map(|point| point.label.as_str())
    }

    /// Of variants some of which are only made on wish: the name of the other, where there is one
    /// other.
    pub(crate) fn only_required(&self) -> Option<&str> {
        let mut required = self.points.iter().filter(|point| !point.optional);
        let (only, another) = (required.next()?, required.next());
        (another.is_none() && self.points.len() > 1).then_some(only.label.as_str())
    }

    /// Whether it is the axis of a path, or its variants set that path.
    fn sets(&self, path: &str) -> bool {
        self.name == path
            || self.points.iter().any(|point| point.settings.iter().any(|setting| setting.path == path))
    }
}

/// One value of an axis: what it is called and what it sets.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    label: String,
    span: Span,
    settings: Vec<Setting>,
    /// Left out unless it is asked for by name.
    optional: bool,
}

/// One parameter or setting, with where it was written.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    /// `workload.rows`, `engine.journal_mode`, `stack.filesystem` …
    path: String,
    key_span: Span,
    node: Node,
}

/// Cells left out: those whose value on every named axis is one of those listed.
#[derive(Clone, Debug, PartialEq)]
struct Exclusion {
    span: Span,
    values: Vec<(String, Vec<String>)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Quick {
    repeats: Option<u32>,
    settings: Vec<Setting>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Executions per second: more is better.
    #[default]
    Rate,
    /// Time of one execution, ns: less is better.
    Time,
    /// Bytes that one execution writes to its modelled devices: less is better. Of comparisons and
    /// the opening picture alone, which tell [`Metric::of_unit`] where no device is modelled.
    Bytes,
}

impl Metric {
    /// What is told of an execution of this unit: how many transactions or messages a second, how
    /// long a query.
    #[must_use]
    pub fn of_unit(unit: &str) -> Metric {
        if matches!(unit, "transaction" | "message") { Metric::Rate } else { Metric::Time }
    }
}

/// Values that an axis must have; an axis that is not named may have any.
pub type AxisFilter = BTreeMap<String, Vec<String>>;

/// A comparison to say in words. Either two values of `axis` in one phase, or two phases in one
/// cell (`against_phase`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Headline {
    /// The phase that is compared.
    pub phase: String,
    /// Compare `phase` with this phase of the same cell.
    pub against_phase: Option<String>,
    /// Only executions with this abscissa.
    pub x: Option<f64>,
    /// What is compared.
    pub metric: Metric,
    /// The axis whose values are compared.
    pub axis: Option<String>,
    /// The value of `axis` that the others are compared with.
    pub baseline: Option<String>,
    /// The values of `axis` that are compared with the baseline; empty = all others.
    pub against: Vec<String>,
    /// One sentence or clause per value of this axis.
    pub each: Option<String>,
    /// Only these cells.
    #[serde(rename = "where")]
    pub filter: AxisFilter,
}

/// The kinds of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A bar with interval per value.
    Bars,
    /// Each execution in time order.
    Series,
    /// Stacked: CPU, read, write, sync, other of one execution.
    Split,
    /// Curves over the abscissa.
    Range,
    /// The share of executions that took at most so long.
    Ecdf,
}

/// A figure of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name in commands and links: `P4-T3`.
    pub id: String,
    /// How it is drawn.
    pub kind: FigureKind,
    /// Its title.
    pub title: String,
    /// What to see in it.
    pub see: String,
    /// The phases shown.
    pub phases: Vec<String>,
    /// What is shown; [`FigureKind::Split`] shows times always.
    pub metric: Metric,
    /// One bar or line per value of this axis; none where the experiment has one cell.
    pub by: Option<String>,
    /// One panel per value of this axis.
    pub facet: Option<String>,
    /// Only these cells.
    #[serde(rename = "where")]
    pub filter: AxisFilter,
    /// Whether axes are logarithmic; none = as the kind does (`range` is).
    pub log: Option<bool>,
}
