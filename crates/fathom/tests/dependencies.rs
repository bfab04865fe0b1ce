//! What is linked into Fathom is what `deny.toml` allows, every dependency is used, and every crate
//! says what it is. cargo-deny would take longer to build than all tests take; this reads the same
//! file and needs only cargo.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What cargo knows of the workspace on this platform.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"];
    let output = Command::new(cargo)
        .args(args)
        .arg("x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn deny() -> toml::Table {
    std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn texts(value: &toml::Value) -> Vec<&str> {
    value.as_array().unwrap().iter().filter_map(toml::Value::as_str).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> Vec<&'a Value> {
    value[key].as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

/// The packages that are built on this platform.
fn built(metadata: &Value) -> Vec<&Value> {
    let nodes: BTreeSet<&str> =
        list(&metadata["resolve"], "nodes").iter().filter_map(|node| node["id"].as_str()).collect();
    let is_built = |package: &&Value| nodes.contains(package["id"].as_str().unwrap());
    list(metadata, "packages").into_iter().filter(is_built).collect()
}

/// Whether an SPDX expression can be met with the allowed licences: `/` is an old `OR`, an
/// exception adds rights and takes none.
fn is_met(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    assert!(words.next().is_none(), "{expression:?} is no SPDX expression");
    met
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = term(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= term(words, allowed);
    }
    met
}

fn term(words: &mut Words<'_>, allowed: &dyn Fn(&str) -> bool) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allowed);
        assert_eq!(words.next(), Some(")"), "a bracket is not closed");
        return met;
    }
    let met = allowed(words.next().expect("a licence"));
    if words.next_if_eq(&"WITH").is_some() {
        words.next().expect("an exception");
    }
    met
}

#[test]
fn expressions_of_licences_are_understood() {
    let allowed = |name: &str| matches!(name, "MIT" | "BSD-3-Clause");
    for (expression, expected) in [
        ("MIT", true),
        ("MPL-2.0", false),
        ("Apache-2.0/MIT", true),
        ("MIT AND MPL-2.0", false),
        ("(Apache-2.0 OR MIT) AND BSD-3-Clause", true),
        ("Apache-2.0 OR MPL-2.0 AND MIT", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn everything_that_is_linked_is_what_deny_toml_allows() {
    let (metadata, deny) = (metadata(), deny());
    let licenses = &deny["licenses"];
    let allow = texts(&licenses["allow"]);
    let exceptions = licenses["exceptions"].as_array().unwrap();
    let registries = texts(&deny["sources"]["allow-registry"]);
    let banned: Vec<&str> =
        deny["bans"]["deny"].as_array().unwrap().iter().filter_map(|ban| ban["crate"].as_str()).collect();
    let mut wrong = Vec::new();
    let packages = built(&metadata);
    for package in &packages {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let exception = exceptions.iter().find(|exception| exception["crate"].as_str() == Some(name));
        let also = exception.map(|exception| texts(&exception["allow"])).unwrap_or_default();
        let allowed = |licence: &str| allow.contains(&licence) || also.contains(&licence);
        match package["license"].as_str() {
            None => wrong.push(format!("{name} {version} has no licence")),
            Some(licence) if !is_met(licence, &allowed) => {
                wrong.push(format!("{name} {version} is under {licence}"));
            }
            Some(_) => {}
        }
        let source = package["source"].as_str();
        let is_known = |source: &str| registries.iter().any(|known| source == format!("registry+{known}"));
        if source.is_some_and(|source| !is_known(source)) {
            wrong.push(format!("{name} {version} is from {source:?}"));
        }
        if banned.contains(&name) {
            wrong.push(format!("{name} {version} is banned"));
        }
        if source.is_none() {
            let any = list(package, "dependencies").into_iter();
            let wild = any
                .filter(|dependency| dependency["req"] == "*" && dependency["path"].is_null())
                .filter_map(|dependency| dependency["name"].as_str());
            wrong.extend(wild.map(|other| format!("{name} takes any version of {other}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(packages.len() > 100, "{} packages", packages.len());
    for exception in exceptions {
        let name = exception["crate"].as_str().unwrap();
        assert!(
            packages.iter().any(|package| package["name"] == name),
            "the exception for {name} is of nothing"
        );
    }
}

/// All Rust text under a directory, with the modules of other crates that it takes by their path.
fn sources(directory: &Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = std::fs::read_to_string(&path).unwrap();
            let elsewhere = own.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next());
            for module in elsewhere {
                text.push_str(&std::fs::read_to_string(path.parent().unwrap().join(module)).unwrap());
            }
            text.push_str(&own);
        }
    }
}

fn members(metadata: &Value) -> Vec<&Value> {
    let ids = list(metadata, "workspace_members");
    list(metadata, "packages").into_iter().filter(|package| ids.contains(&&package["id"])).collect()
}

/// `fathom-lab` once had `rand` among its dependencies and used it nowhere, so every build waited
/// for it.
#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let mut unused = Vec::new();
    for package in members(&metadata) {
        let directory = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let mut text = String::new();
        sources(directory, &mut text);
        for dependency in list(package, "dependencies") {
            let name = dependency["rename"].as_str().or(dependency["name"].as_str()).unwrap();
            let word = name.replace('-', "_");
            let is_whole = |at: usize| {
                let letter = |c: char| c.is_alphanumeric() || c == '_';
                !text[..at].ends_with(letter) && !text[at + word.len()..].starts_with(letter)
            };
            // The report's charts are found by the name of the package.
            let is_used = text.match_indices(&word).any(|(at, _)| is_whole(at));
            if !is_used {
                unused.push(format!("{}: {name}", package["name"]));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn every_crate_says_what_it_is() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in members(&metadata) {
        let name = package["name"].as_str().unwrap();
        let mut check = |is_right: bool, what: &str| {
            if !is_right {
                wrong.push(format!("{name}: {what}"));
            }
        };
        check(package["description"].as_str().is_some_and(|text| text.ends_with('.')), "no description");
        let keywords = list(package, "keywords");
        check((1..=5).contains(&keywords.len()), "one to five keywords");
        check(
            keywords.iter().all(|keyword| keyword.as_str().is_some_and(|text| text.len() <= 20)),
            "a long keyword",
        );
        check((1..=5).contains(&list(package, "categories").len()), "one to five categories");
        let directory = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let readme = package["readme"].as_str().map(|text| directory.join(text));
        check(readme.is_some_and(|readme| readme.is_file()), "no readme");
        check(package["repository"].is_null(), "there is no repository to name yet");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
