//! How the sources are written, where that can be counted: comments and documentation end at 100
//! columns, what a closure or a loop takes has a name that says what it is, public types are nouns,
//! and the glossary stays short.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};

/// Columns of a line of comments or documentation.
const COLUMNS: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a directory with this ending, but what is built.
fn files(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
}

fn all(ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root(), ending, &mut found);
    assert!(!found.is_empty());
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The columns of a line when what cannot be broken counts as nothing: code, links and addresses
/// stay whole.
fn breakable_columns(line: &str) -> usize {
    let mut columns = 0;
    let mut in_code = false;
    for word in line.split(' ') {
        let ticks = word.matches('`').count();
        let is_whole = in_code || ticks > 0 || word.contains("](") || word.contains("://");
        in_code ^= ticks % 2 == 1;
        columns += if is_whole { 1 } else { word.chars().count() + 1 };
    }
    columns
}

/// Lines of text that are too long and could be broken, with their numbers.
fn too_long<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<(usize, &'a str)> {
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (number, line) in lines {
        let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        if text.starts_with("```") || text.starts_with("~~~") {
            is_fenced = !is_fenced;
        }
        // A picture is one link, and so may be all of an entry of a list.
        let is_table = ["{{", "|", "<", "#"].iter().any(|begin| text.starts_with(begin));
        let is_link = text.contains("](");
        let is_long = line.chars().count() > COLUMNS && breakable_columns(line) > COLUMNS;
        if !is_fenced && !is_table && !is_link && is_long {
            found.push((number, line));
        }
    }
    found
}

fn named(path: &Path, found: &[(usize, &str)]) -> Vec<String> {
    let path = path.strip_prefix(root()).unwrap().display();
    found.iter().map(|(number, line)| format!("{path}:{number}: {line}")).collect()
}

#[test]
fn comments_and_documentation_end_at_a_hundred_columns() {
    let mut wide = Vec::new();
    for (path, text) in all("rs") {
        let comments = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("//"));
        wide.extend(named(&path, &too_long(comments)));
    }
    // What is printed is as wide as its tables.
    let written = |text: &str| !text.starts_with("<!-- Printed by `fathom papers`");
    for (path, text) in all("md").into_iter().filter(|(_, text)| written(text)) {
        wide.extend(named(&path, &too_long((1..).zip(text.lines()))));
    }
    assert!(wide.is_empty(), "{} lines are too wide:\n{}", wide.len(), wide.join("\n"));
}

/// Lines of code for which `is_found` holds, in all sources.
fn lines_of_code(is_found: impl Fn(&str) -> bool) -> Vec<String> {
    let is_code = |line: &str| !line.trim_start().starts_with("//");
    all("rs")
        .iter()
        .flat_map(|(path, text)| {
            let lines: Vec<(usize, &str)> =
                (1..).zip(text.lines()).filter(|(_, line)| is_code(line) && is_found(line)).collect();
            named(path, &lines)
        })
        .collect()
}

#[test]
fn what_a_closure_or_a_loop_takes_has_a_name() {
    // Put together here, so that these lines are not found.
    let nameless: Vec<String> = ["it", "one"]
        .iter()
        .flat_map(|name| {
            ["|NAME|", "|&NAME|", "|&&NAME|", "for NAME in ", "for &NAME in "].map(|form| (form, *name))
        })
        .map(|(form, name)| form.replace("NAME", name))
        .collect();
    let found = lines_of_code(|line| nameless.iter().any(|form| line.contains(form)));
    assert!(found.is_empty(), "{} closures and loops:\n{}", found.len(), found.join("\n"));
}

/// Words that say nothing of a type: pronouns, and participles of what was done with it.
const NO_NOUNS: [&str; 38] = [
    "Accepted",
    "Accessed",
    "Aged",
    "Asked",
    "Believed",
    "Captured",
    "Compiled",
    "Completed",
    "Damaged",
    "Described",
    "Done",
    "Expected",
    "Explored",
    "Found",
    "Given",
    "Held",
    "Imported",
    "Installed",
    "It",
    "Judged",
    "Kept",
    "Known",
    "Laid",
    "Learnt",
    "Loaded",
    "Made",
    "Measured",
    "Merged",
    "Mounted",
    "One",
    "Past",
    "Prepared",
    "Recorded",
    "Said",
    "Stated",
    "Told",
    "Watched",
    "What",
];

/// The name of a type or trait that this line declares for others.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest =
        rest.strip_prefix('(').map_or(rest, |inside| inside.split_once(')').map_or(rest, |both| both.1));
    let words = ["struct ", "enum ", "trait ", "type "];
    let name = words.iter().find_map(|word| rest.trim_start().strip_prefix(word))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

#[test]
fn public_types_are_nouns() {
    let found = lines_of_code(|line| declared(line).is_some_and(|name| NO_NOUNS.contains(&name)));
    assert!(found.is_empty(), "{} types:\n{}", found.len(), found.join("\n"));
    assert_eq!(declared("    pub(crate) struct Held<'a>(u8);"), Some("Held"));
    assert_eq!(declared("pub enum Direction {"), Some("Direction"));
    assert_eq!(declared("struct Private;"), None);
}

#[test]
fn the_glossary_has_at_most_forty_terms() {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let terms = text.lines().filter(|line| line.starts_with("| **")).count();
    assert!((20..=40).contains(&terms), "{terms} terms");
}

#[test]
fn long_lines_are_found_and_what_cannot_be_broken_is_not() {
    let words = "word ".repeat(21);
    let code = format!("short `{}` text", "x".repeat(120));
    let link = format!("see [this]({}) there", "x".repeat(120));
    let table = format!("| {words} |");
    let lines = [words.as_str(), &code, &link, &table, "```", &words, "```", &words];
    let found: Vec<usize> = too_long((1..).zip(lines)).into_iter().map(|(number, _)| number).collect();
    assert_eq!(found, [1, 8]);
}
