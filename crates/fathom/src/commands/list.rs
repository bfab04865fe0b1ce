//! `fathom list`: experiments, workloads, engines, file systems, modelled devices and profiles of
//! applications.

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_lab::experiment::{self, Builtin, Experiment};
use fathom_output::say;
use fathom_trace::synthesise::profiles;
use fathom_workload::params::Parameter;
use serde_json::{Value, json};

use crate::cli::{Kind, List};
use crate::outcome::{Error, Outcome};

/// Prints what was asked for; without a kind, an overview of all.
pub fn run(asked: &List) -> super::Result {
    if let Some(name) = &asked.show {
        fathom_output::raw(source_of(name).ok_or_else(|| unknown(name))?);
        return Ok(Outcome::Good);
    }
    let kinds = match asked.kind {
        Some(kind) => vec![kind],
        None => vec![
            Kind::Experiments,
            Kind::Workloads,
            Kind::Engines,
            Kind::Filesystems,
            Kind::Devices,
            Kind::Profiles,
        ],
    };
    if asked.json {
        let mut all = serde_json::Map::new();
        for kind in kinds {
            let (key, value) = as_json(kind);
            all.insert(key.into(), value);
        }
        return super::print_json(&all);
    }
    let detail = asked.kind.is_some();
    for (place, kind) in kinds.into_iter().enumerate() {
        if place > 0 {
            say!();
        }
        print_kind(kind, detail);
    }
    if !detail {
        say!();
        say!(
            "More:  fathom list workloads | engines | filesystems | devices | profiles      fathom list --show NAME"
        );
    }
    Ok(Outcome::Good)
}

/// The file of a built-in experiment, of a modelled device, or of a profile of an application.
fn source_of(name: &str) -> Option<&'static str> {
    experiment::builtin_named(name)
        .map(|builtin| builtin.source)
        .or_else(|| fathom_device::text_of(name))
        .or_else(|| fathom_trace::synthesise::text_of(name))
}

fn unknown(name: &str) -> Error {
    let experiments = experiment::builtin().iter().map(|one| one.name.to_owned());
    let devices = fathom_device::presets().iter().map(|one| one.name.clone());
    let applications = profiles().iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    let names: Vec<String> = experiments.chain(devices).chain(applications).collect();
    let hint = did_you_mean(nearest(name, names.iter().map(String::as_str)));
    Error::usage(format!(
        "no built-in experiment, modelled device or profile is called \"{name}\"{hint}\n\
         `fathom list` shows them"
    ))
}

/// The built-in files are read by a test of the lab, so what cannot be read here is only shown
/// without a title.
fn title_and_paper(one: &Builtin) -> (String, Option<String>) {
    Experiment::parse(one.name, one.source)
        .map_or_else(|_| (String::new(), None), |number| (number.title, number.paper))
}

fn print_kind(kind: Kind, detail: bool) {
    match kind {
        Kind::Experiments => {
            say!("Experiments  (fathom run NAME)");
            print_rows(experiment::builtin().iter().map(|one: &Builtin| {
                let (title, paper) = title_and_paper(one);
                let paper = paper.map_or_else(String::new, |paper| format!(" [{paper}]"));
                (one.name.to_owned(), format!("{title}{paper}"))
            }));
        }
        Kind::Workloads => {
            say!("Workloads  ([workload] of an experiment file)");
            for one in fathom_workload::registry::workloads() {
                print_rows([(one.name.to_owned(), one.summary.to_owned())]);
                if detail {
                    print_parameters(one.parameters);
                }
            }
        }
        Kind::Engines => {
            say!("Engines  ([engine] of an experiment file)");
            for one in fathom_workload::engine::engines() {
                print_rows([(one.name.to_owned(), one.summary.to_owned())]);
                if detail {
                    print_parameters(one.settings);
                }
            }
        }
        Kind::Filesystems => {
            say!("File systems  ([stack] of an experiment file)");
            print_rows(fathom_stack::available_filesystems().into_iter().map(|one| {
                let text = match (one.present, one.remedy.is_empty()) {
                    (true, _) => one.detail,
                    (false, true) => format!("not here: {}", one.detail),
                    (false, false) => format!("not here: {}; to get it: {}", one.detail, one.remedy),
                };
                (one.filesystem, text)
            }));
        }
        Kind::Profiles => {
            say!(
                "Made-up traces  (profile of the workload trace; fathom trace synthesise PROFILE; fathom run … --trace PROFILE)"
            );
            for one in profiles() {
                print_rows([(one.name.clone(), one.title.clone())]);
                if detail {
                    say!("      stands for {}", one.stands_for);
                    for source in &one.sources {
                        say!("      from: {source}");
                    }
                    for assumption in &one.assumed {
                        say!("      assumed: {assumption}");
                    }
                }
            }
        }
        Kind::Devices => {
            say!("Modelled devices  (`device` of [stack]; fathom stack up --device NAME)");
            for one in fathom_device::presets() {
                print_rows([(one.name.clone(), one.title.clone())]);
                if detail {
                    print_device(one);
                }
            }
        }
    }
}

/// What the model says in one line, where it is from, and what is assumed.
fn print_device(model: &fathom_device::Model) {
    say!("      {}", model.in_short());
    for source in &model.sources {
        say!("      from: {source}");
    }
    for assumption in &model.assumptions {
        say!("      assumed: {assumption}");
    }
}

fn print_rows(rows: impl IntoIterator<Item = (String, String)>) {
    for (name, text) in rows {
        say!("  {name:20}  {text}");
    }
}

fn print_parameters(parameters: &[Parameter]) {
    for one in parameters {
        let default = one.default.json().map_or_else(String::new, |value| format!("; default {value}"));
        let unit = if one.unit.is_empty() { String::new() } else { format!(" {}", one.unit) };
        say!("      {:22}  {}{unit}{default}", one.name, one.kind.describe());
        say!("      {:22}  {}", "", one.description);
    }
}

fn parameters_json(parameters: &[Parameter]) -> Value {
    parameters
        .iter()
        .map(|one| {
            json!({ "name": one.name, "accepts": one.kind.describe(), "allowed": one.kind.allowed(), "unit": one.unit,
                    "default": one.default.json(), "description": one.description })
        })
        .collect()
}

fn as_json(kind: Kind) -> (&'static str, Value) {
    match kind {
        Kind::Experiments => (
            "experiments",
            experiment::builtin()
                .iter()
                .map(|one| {
                    let (title, paper) = title_and_paper(one);
                    json!({ "name": one.name, "title": title, "paper": paper })
                })
                .collect(),
        ),
        Kind::Workloads => (
            "workloads",
            fathom_workload::registry::workloads()
                .iter()
                .map(|one| {
                    json!({ "name": one.name, "summary": one.summary, "needs_engine": one.needs_engine,
                            "parameters": parameters_json(one.parameters) })
                })
                .collect(),
        ),
        Kind::Engines => (
            "engines",
            fathom_workload::engine::engines()
                .iter()
                .map(|one| json!({ "name": one.name, "summary": one.summary, "settings": parameters_json(one.settings) }))
                .collect(),
        ),
        Kind::Filesystems => ("filesystems", json!(fathom_stack::available_filesystems())),
        Kind::Profiles => (
            "profiles",
            profiles()
                .iter()
                .map(|one| {
                    json!({ "name": one.name, "version": one.version, "title": one.title, "stands_for": one.stands_for,
                            "sources": one.sources, "assumed": one.assumed,
                            "profile": fathom_trace::synthesise::text_of(&one.name) })
                })
                .collect(),
        ),
        Kind::Devices => (
            "devices",
            fathom_device::presets()
                .iter()
                .map(|one| {
                    json!({ "name": one.name, "title": one.title, "sources": one.sources, "assumptions": one.assumptions,
                            "model": fathom_device::text_of(&one.name) })
                })
                .collect(),
        ),
    }
}
