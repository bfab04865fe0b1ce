//! How the sources are written, where that can be counted: comments and documentation end at 100
//! columns, and what a closure takes has a name that says what it is.

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

#[test]
fn what_a_closure_takes_has_a_name() {
    // Put together here, so that this line is not found.
    let nameless = ["|", "it|"].concat();
    let found: Vec<String> = all("rs")
        .iter()
        .flat_map(|(path, text)| {
            let lines: Vec<(usize, &str)> =
                (1..).zip(text.lines()).filter(|(_, line)| line.contains(&nameless)).collect();
            named(path, &lines)
        })
        .collect();
    assert!(found.is_empty(), "{} closures:\n{}", found.len(), found.join("\n"));
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
