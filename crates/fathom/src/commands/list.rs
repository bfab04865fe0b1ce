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
    let experiments = experiment::builtin().iter().map(|builtin| builtin.name.to_owned());
    let devices = fathom_device::presets().iter().map(|preset| preset.name.clone());
    let applications = profiles().iter().map(|profile| profile.name.clone()).collect::<Vec<_>>();
    let names: Vec<String> = experiments.chain(devices).chain(applications).collect();
    let hint = did_you_mean(nearest(name, names.iter().map(String::as_str)));
    Error::usage(format!(
        "no built-in experiment, modelled device or profile is called \"{name}\"{hint}\n\
         `fathom list` shows them"
    ))
}

/// The built-in files are read by a test of the lab, so what cannot be read here is only shown
/// without a title.
fn title_and_paper(builtin: &Builtin) -> (String, Option<String>) {
    Experiment::parse(builtin.name, builtin.source)
        .map_or_else(|_| (String::new(), None), |number| (number.title, number.paper))
}

fn print_kind(kind: Kind, detail: bool) {
    match kind {
        Kind::Experiments => {
            say!("Experiments  (fathom run NAME)");
            print_rows(experiment::builtin().iter().map(|builtin: &Builtin| {
                let (title, paper) = title_and_paper(builtin);
                let paper = paper.map_or_else(String::new, |paper| format!(" [{paper}]"));
                (builtin.name.to_owned(), format!("{title}{paper}"))
            }));
        }
        Kind::Workloads => {
            say!("Workloads  ([workload] of an experiment file)");
            for workload in fathom_workload::registry::workloads() {
                print_rows([(workload.name.to_owned(), workload.summary.to_owned())]);
                if detail {
                    print_parameters(workload.parameters);
                }
            }
        }
        Kind::Engines => {
            say!("Engines  ([engine] of an experiment file)");
            for engine in fathom_workload::engine::engines() {
                print_rows([(engine.name.to_owned(), engine.summary.to_owned())]);
                if detail {
                    print_parameters(engine.settings);
                }
            }
        }
        Kind::Filesystems => {
            say!("File systems  ([stack] of an experiment file)");
            print_rows(fathom_stack::available_filesystems().into_iter().map(|filesystem| {
                let text = match (filesystem.present, filesystem.remedy.is_empty()) {
                    (true, _) => filesystem.detail,
                    (false, true) => format!("not here: {}", filesystem.detail),
                    (false, false) => {
                        format!("not here: {}; to get it: {}", filesystem.detail, filesystem.remedy)
                    }
                };
                (filesystem.filesystem, text)
            }));
        }
        Kind::Profiles => {
            say!(
                "Made-up traces  (profile of the workload trace; fathom trace synthesise PROFILE; fathom run … --trace PROFILE)"
            );
            for profile in profiles() {
                print_rows([(profile.name.clone(), profile.title.clone())]);
                if detail {
                    say!("      stands for {}", profile.stands_for);
                    for source in &profile.sources {
                        say!("      from: {source}");
                    }
                    for assumption in &profile.assumed {
                        say!("      assumed: {assumption}");
                    }
                }
            }
        }
        Kind::Devices => {
            say!("Modelled devices  (`device` of [stack]; fathom stack up --device NAME)");
            for preset in fathom_device::presets() {
                print_rows([(preset.name.clone(), preset.title.clone())]);
                if detail {
                    print_device(preset);
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
    for parameter in parameters {
        let default = parameter.default.json().map_or_else(String::new, |value| format!("; default {value}"));
        let unit = if parameter.unit.is_empty() { String::new() } else { format!(" {}", parameter.unit) };
        say!("      {:22}  {}{unit}{default}", parameter.name, parameter.kind.describe());
        say!("      {:22}  {}", "", parameter.description);
    }
}

fn parameters_json(parameters: &[Parameter]) -> Value {
    parameters
        .iter()
        .map(|parameter| {
            json!({ "name": parameter.name, "accepts": parameter.kind.describe(), "allowed": parameter.kind.allowed(), "unit": parameter.unit,
                    "default": parameter.default.json(), "description": parameter.description })
        })
        .collect()
}

fn as_json(kind: Kind) -> (&'static str, Value) {
    match kind {
        Kind::Experiments => (
            "experiments",
            experiment::builtin()
                .iter()
                .map(|builtin| {
                    let (title, paper) = title_and_paper(builtin);
                    json!({ "name": builtin.name, "title": title, "paper": paper })
                })
                .collect(),
        ),
        Kind::Workloads => (
            "workloads",
            fathom_workload::registry::workloads()
                .iter()
                .map(|workload| {
                    json!({ "name": workload.name, "summary": workload.summary, "needs_engine": workload.needs_engine,
                            "parameters": parameters_json(workload.parameters) })
                })
                .collect(),
        ),
        Kind::Engines => (
            "engines",
            fathom_workload::engine::engines()
                .iter()
                .map(|engine| json!({ "name": engine.name, "summary": engine.summary, "settings": parameters_json(engine.settings) }))
                .collect(),
        ),
        Kind::Filesystems => ("filesystems", json!(fathom_stack::available_filesystems())),
        Kind::Profiles => (
            "profiles",
            profiles()
                .iter()
                .map(|filesystem| {
                    json!({ "name": filesystem.name, "version": filesystem.version, "title": filesystem.title, "stands_for": filesystem.stands_for,
                            "sources": filesystem.sources, "assumed": filesystem.assumed,
                            "profile": fathom_trace::synthesise::text_of(&filesystem.name) })
                })
                .collect(),
        ),
        Kind::Devices => (
            "devices",
            fathom_device::presets()
                .iter()
                .map(|profile| {
                    json!({ "name": profile.name, "title": profile.title, "sources": profile.sources, "assumptions": profile.assumptions,
                            "model": fathom_device::text_of(&profile.name) })
                })
                .collect(),
        ),
    }
}
