//! Cells that would be counted as several and are one, and values that are the file's own.

use std::collections::{BTreeMap, BTreeSet};

use fathom_workload::params::Params;

use super::diagnostic::Problem;
use super::{Axis, Point, Setting, Vocabulary, overrides, values};
use crate::cell::Cell;

/// What a cell does, in words that are the same however its values are spelled: `wal` and `WAL`, 1
/// and 1.0, 8192 and 8 KiB, and without what changes nothing.
pub(super) fn work_of(cell: &Cell, vocabulary: &Vocabulary) -> Option<String> {
    let mut work = Cell { axes: BTreeMap::new(), ..cell.clone() };
    let parameters = vocabulary.workload(&work.workload.name)?.parameters;
    let params = Params::read(parameters, &work.workload.params).ok()?;
    work.workload.params = values::spelled(parameters, &params);
    if let Some(engine) = &mut work.engine {
        let settings = vocabulary.engine(&engine.name)?.settings;
        engine.settings = values::spelled(settings, &Params::read(settings, &engine.settings).ok()?);
    }
    work.stack = work.stack.plain(&vocabulary.machine);
    if !work.instruments.power_cut {
        (work.instruments.power_cut_states, work.instruments.power_cut_seconds) = (None, None);
    }
    serde_json::to_string(&work).ok()
}

/// Whether the value at a path changes nothing in a cell, whichever it is.
fn is_idle(path: &str, cell: &Cell) -> bool {
    match path {
        "stack.size_mib" => cell.stack.place.is_directory() || cell.stack.image.is_some(),
        "instruments.power_cut_states" | "instruments.power_cut_seconds" => !cell.instruments.power_cut,
        _ => false,
    }
}

/// Refuses a cell that does what an earlier one does and differs from it in the name of one value
/// only: the two would be compared as if they were something else.
pub(super) fn refuse_alike<'a, 'b: 'a>(
    mut axes: impl Iterator<Item = (&'a Axis, &'a &'b Point)>,
    cell: &Cell,
    earlier: &Cell,
) -> Result<(), Problem> {
    let differs = |name: &String| cell.axes.get(name) != earlier.axes.get(name);
    if cell.axes.keys().filter(|name| differs(name)).count() != 1 {
        return Ok(());
    }
    match axes.find(|(axis, _)| differs(&axis.name)) {
        Some((axis, point)) => {
            let other = earlier.axes.get(&axis.name).map_or("", String::as_str);
            let (problem, hint) = if is_idle(&axis.name, cell) {
                let problem = format!(
                    "`{}` changes nothing in this cell, so that {} and {other} are the same one",
                    axis.name, point.label
                );
                (problem, "leave all but one of them out there ([[exclude]])")
            } else {
                (format!("{} and {other} are the same value", point.label), "leave one of them out")
            };
            Err(Problem::new(&point.span, problem, hint))
        }
        None => Ok(()),
    }
}

/// Gives values of the command line, and of `[quick]`, the spelling of the file's own values that
/// they are: exclusions, headlines and figures know those by their names.
pub(super) fn name_as_the_file(
    of_file: &[Axis],
    base: &[Setting],
    axes: &mut [Axis],
    vocabulary: &Vocabulary,
) -> Result<(), Problem> {
    let others = axes.to_vec();
    for axis in axes {
        let Some(own) = of_file.iter().find(|own| own.name == axis.name) else { continue };
        let mut taken: BTreeSet<String> = axis.points.iter().map(|point| point.label.clone()).collect();
        for point in &mut axis.points {
            // A variant has a name that its author gave it.
            let [setting] = point.settings.as_mut_slice() else { continue };
            if setting.path != axis.name || own.values().any(|label| label == point.label) {
                continue;
            }
            let value = setting.node.json()?;
            for known in &own.points {
                let [written] = known.settings.as_slice() else { continue };
                let parameters = overrides::parameters(base, &others, vocabulary);
                let both = (&value, &written.node.json()?);
                // One that stands there already is told as one value twice.
                if values::are_same(&axis.name, both, parameters, &vocabulary.machine)
                    && taken.insert(known.label.clone())
                {
                    point.label.clone_from(&known.label);
                    setting.node.value = written.node.value.clone();
                    break;
                }
            }
        }
    }
    Ok(())
}
