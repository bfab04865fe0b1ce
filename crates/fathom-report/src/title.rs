//! The report's title: what the user brought, not what the experiment is called.

use fathom_lab::naming::axis_label;
use fathom_lab::store::Results;

use crate::axis::Axis;
use crate::chosen::ChosenAxis;
use crate::recommend;
use crate::words::{distinct, joined};

/// The workload that replays traces.
const TRACE: &str = "trace";

/// Names that a title spells out before it only counts them.
const NAMED: usize = 3;

/// `gmail on sd-slow: journal mode and synchronous setting`, where a trace was replayed, a device
/// modelled or an axis set; the experiment's own title elsewhere.
pub fn title(results: &Results, axes: &[Axis], chosen: &[ChosenAxis]) -> String {
    let own = &results.experiment.title;
    let traces = traces(results);
    let devices = distinct(results.cells.iter().map(|cell| {
        let device = cell.spec.stack.device.as_deref().unwrap_or_default();
        let file = device.rsplit('/').next().unwrap_or_default();
        file.strip_suffix(".toml").unwrap_or(file).to_owned()
    }));
    let is_own_file = results.experiment.source_name != "built-in";
    if traces.is_empty() && chosen.is_empty() && (devices.is_empty() || is_own_file) {
        return own.clone();
    }
    let places = if devices.is_empty() {
        let running = results.cells.iter().flat_map(|cell| results.good_runs(cell.id));
        distinct(running.map(|run| results.filesystem(run).to_owned()))
    } else {
        devices
    };
    let on =
        if places.is_empty() { String::new() } else { format!(" on {}", counted(&places, "file systems")) };
    if traces.is_empty() {
        let subject = subject_of(own);
        let label = |key: &str| label(results, key, axis_label(key));
        return format!("{subject}{on}{}", by(subject, chosen.iter().map(|chosen| label(&chosen.key))));
    }
    let asked = if recommend::groups(results).is_empty() {
        let varying = axes.iter().filter(|axis| axis.values.len() > 1 && axis.key != "trace");
        joined(&varying.map(|axis| label(results, &axis.key, axis.label.clone())).collect::<Vec<_>>())
    } else {
        "journal mode and synchronous setting".into()
    };
    let asked = if asked.is_empty() { String::new() } else { format!(": {asked}") };
    format!("{}{on}{asked}", counted(&traces, "traces"))
}

/// What a simulation of these runs is of: the traces that they replayed, else the experiment's
/// subject.
#[must_use]
pub fn subject(results: &Results) -> String {
    let traces = traces(results);
    let own = &results.experiment.title;
    if traces.is_empty() { subject_of(own).to_owned() } else { counted(&traces, "traces") }
}

/// A title without what follows its subject.
fn subject_of(title: &str) -> &str {
    title.split(':').next().unwrap_or(title)
}

/// The traces that the user brought.
fn traces(results: &Results) -> Vec<String> {
    distinct(results.cells.iter().filter_map(|cell| {
        // A file that names its trace itself has the title that its author gave it.
        let label = cell.axes.get("trace").or_else(|| cell.axes.get("variants"))?;
        (cell.spec.workload.name == TRACE && results.experiment.command.contains("--trace"))
            .then(|| label.clone())
    }))
}

/// `, by file system`: the axes that the user set, but for one that is the subject itself.
fn by(subject: &str, labels: impl Iterator<Item = String>) -> String {
    let labels: Vec<String> =
        labels.filter(|label| label.to_lowercase() != subject.trim().to_lowercase()).collect();
    if labels.is_empty() { String::new() } else { format!(", by {}", joined(&labels)) }
}

/// The name of an axis; "variant" says nothing of what varies.
fn label(results: &Results, key: &str, own: String) -> String {
    let of_variants = (key == "variants").then(|| recommend::differing(results)).flatten();
    of_variants.unwrap_or(own)
}

fn counted(names: &[String], what: &str) -> String {
    if names.len() <= NAMED { joined(names) } else { format!("{} {what}", names.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: "Journal mode and synchronous setting on emmc-51, by file system and journal
    /// mode and synchronous setting".
    #[test]
    fn the_subject_is_not_said_again() {
        let labels =
            |all: &[&str]| all.iter().map(|label| (*label).to_owned()).collect::<Vec<_>>().into_iter();
        let subject = "Journal mode and synchronous setting";
        assert_eq!(
            by(subject, labels(&["file system", "journal mode and synchronous setting"])),
            ", by file system"
        );
        assert_eq!(by(subject, labels(&["journal mode and synchronous setting"])), "");
        // Of both only one was set: that is told.
        assert_eq!(by(subject, labels(&["journal mode"])), ", by journal mode");
        assert_eq!(by("Commits", labels(&[])), "");
    }
}
