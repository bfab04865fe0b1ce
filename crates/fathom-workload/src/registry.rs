//! The workloads by name: what each one is, what it accepts, and how it is made from a cell.

use crate::params::Params;
use crate::spec::WorkloadSpec;
use crate::workload::{Workload, WorkloadError, WorkloadKind};
use fathom_diagnostic::suggest::nearest;

/// All workloads, in the order in which they are shown.
static WORKLOADS: &[&WorkloadKind] = &[
    &crate::update::KIND,
    &crate::chat::KIND,
    &crate::mobibench_sql::KIND,
    &crate::mobibench_file::KIND,
    &crate::sms::KIND,
    &crate::trace::KIND,
];

/// All workloads, in the order in which they are shown.
#[must_use]
pub fn workloads() -> &'static [&'static WorkloadKind] {
    WORKLOADS
}

/// The workload called `name`.
#[must_use]
pub fn workload_named(name: &str) -> Option<&'static WorkloadKind> {
    WORKLOADS.iter().find(|kind| kind.name == name).copied()
}

/// Whether one thread does all the work of a cell's workload ([`WorkloadKind::one_thread`]); not of
/// one that is unknown or wrong.
#[must_use]
pub fn is_one_thread(spec: &WorkloadSpec) -> bool {
    workload_named(&spec.name).is_some_and(|kind| {
        Params::read(kind.parameters, &spec.params).is_ok_and(|params| (kind.one_thread)(&params))
    })
}

/// At most so many executions of a cell's workload become samples ([`WorkloadKind::samples`]); none
/// of one that is unknown or wrong.
#[must_use]
pub fn most_samples(spec: &WorkloadSpec) -> u64 {
    let of = |kind: &WorkloadKind| Some((kind.samples)(&Params::read(kind.parameters, &spec.params).ok()?));
    workload_named(&spec.name).and_then(of).unwrap_or(0)
}

/// Makes the workload of a cell, its parameters checked.
///
/// # Errors
/// [`WorkloadError::Unknown`] for a name that is none; [`WorkloadError::Parameter`] for a parameter
/// that is unknown, of the wrong type, out of range or at odds with another.
pub fn create(spec: &WorkloadSpec) -> Result<Box<dyn Workload>, WorkloadError> {
    let Some(kind) = workload_named(&spec.name) else {
        let names = WORKLOADS.iter().map(|kind| kind.name);
        return Err(WorkloadError::Unknown {
            name: spec.name.clone(),
            known: names.clone().collect::<Vec<_>>().join(", "),
            suggestion: nearest(&spec.name, names).map(str::to_owned),
        });
    };
    let params = Params::read(kind.parameters, &spec.params).map_err(|error| WorkloadError::Parameter {
        workload: spec.name.clone(),
        parameter: error.key,
        problem: error.problem,
        suggestion: error.suggestion,
    })?;
    (kind.create)(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_default_is_what_its_own_parameter_accepts() {
        let lists = WORKLOADS.iter().map(|kind| (kind.name, kind.parameters));
        let engines = crate::engines().iter().map(|kind| (kind.name, kind.settings));
        for (name, list) in lists.chain(engines) {
            let defaults = Params::read(list, &BTreeMap::new()).unwrap();
            let again = Params::read(list, defaults.all()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again, defaults, "{name}");
            for parameter in list {
                assert!(!parameter.description.is_empty(), "{name}: {} has no description", parameter.name);
            }
        }
    }

    #[test]
    fn every_workload_can_be_made_with_its_defaults() {
        for kind in WORKLOADS {
            // There is no trace that everybody would want.
            let mut params = BTreeMap::new();
            if kind.name == "trace" {
                params.insert("profile".to_string(), serde_json::Value::from("gmail"));
            }
            let given = params.clone();
            let made = create(&WorkloadSpec { name: kind.name.into(), params });
            let made = made.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
            for parameter in kind.parameters {
                let expected =
                    parameter.default != crate::params::Preset::Unset || given.contains_key(parameter.name);
                assert_eq!(made.parameters().contains_key(parameter.name), expected, "{}", parameter.name);
            }
        }
    }

    #[test]
    fn a_workload_says_how_many_samples_it_makes_at_most() {
        let most = |name: &str, params: serde_json::Value| {
            let params = serde_json::from_value(params).unwrap();
            most_samples(&WorkloadSpec { name: name.into(), params })
        };
        let none = serde_json::json!({});
        assert_eq!(most("mobibench-sql", serde_json::json!({"transactions": 7})), 21);
        assert_eq!(most("mobibench-file", serde_json::json!({"file_kib": 40, "accesses": ["read"]})), 10);
        assert_eq!(most("update", none.clone()), 3 * 100 + 2 * 11);
        let selects = crate::chat::message::COLUMN_NAMES.len() as u64 + 2;
        assert_eq!(most("chat", serde_json::json!({"queries": 1, "writes": 5})), selects + 20);
        assert_eq!((most("sms", none.clone()), most("no-such", none)), (0, 0));
    }

    #[test]
    fn an_unknown_workload_is_an_error_that_lists_the_known() {
        let error = create(&WorkloadSpec { name: "no-such".into(), params: BTreeMap::new() }).err().unwrap();
        assert!(error.to_string().starts_with("there is no workload called no-such"));
    }
}
