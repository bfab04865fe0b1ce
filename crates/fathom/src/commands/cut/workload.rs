//! What is done instead of the built-in script: a workload, or a trace.

use std::collections::BTreeMap;

use fathom_cut::has_own_work;
use fathom_workload::spec::WorkloadSpec;
use serde_json::Value as Json;

use super::super::trace_choice::trace;
use super::cells::typed;
use crate::cli::CutArgs;
use crate::outcome::Error;

/// What is done instead of the built-in script.
pub(super) fn workload(asked: &CutArgs) -> Result<Option<WorkloadSpec>, Error> {
    let mut params = BTreeMap::new();
    for (key, value) in asked.set.iter().filter_map(|word| word.strip_prefix("workload.")?.split_once('=')) {
        if params.insert(key.trim().to_owned(), typed(value.trim())).is_some() {
            return Err(Error::usage(format!("--set workload.{key}: it is given twice")));
        }
    }
    if has_own_work(&asked.engine) && (asked.trace.is_some() || asked.workload.is_some()) {
        return Err(Error::usage(format!(
            "--engine {} has work of its own: leave out --trace and --workload",
            asked.engine
        )));
    }
    let name = match (&asked.trace, &asked.workload) {
        (Some(word), _) => {
            let trace = trace(word)?;
            params.insert(trace.parameter.to_owned(), Json::from(trace.value));
            "trace"
        }
        (None, Some(name)) => name,
        (None, None) if params.is_empty() => return Ok(None),
        (None, None) => {
            return Err(Error::usage("--set workload.NAME=VALUE is for --workload or --trace: say which"));
        }
    };
    let spec = WorkloadSpec { name: name.to_owned(), params };
    fathom_workload::create(&spec).map_err(Error::usage)?;
    if fathom_workload::workload_named(name).is_some_and(|kind| !kind.needs_engine) {
        return Err(Error::usage(format!(
            "--workload {name}: it asks no engine, and power cuts are tried of SQLite"
        )));
    }
    Ok(Some(spec))
}
