//! The floors of this crate: a file takes from its own floor and from those below it, and no files
//! take from each other in a circle; in the other crates no circles but those that are known.
//! `cargo test -p fathom-stack --test floors -- --nocapture` prints the counts of all crates; with
//! `FATHOM_FLOORS_OF=DIR` also those of another `src`, with the arrows of its circles. Its floors
//! are the folders named in `FATHOM_FLOORS=ground,middle=spec+check,top`, lowest first.
//!
//! What happened: claims, stacks, leftovers, guests and the file systems' table took from each
//! other, 22 files in one circle, so that nothing could be read, tested or moved by itself. The
//! harm is every later change. The mend: floors, and this test.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of `src`, lowest first. `lib.rs` stands above all.
const FLOORS: [&str; 7] = ["ground", "blocks", "attribution", "instruments", "guest", "spec", "stacks"];

/// Crates in which files still take from each other in circles, and in how many. A circle less is
/// to be written down here; there is none more.
const CIRCLES_LEFT: [(&str, usize); 2] = [("mmdb", 1), ("smsc", 2)];

/// A crate's files by module path, and which takes from which.
struct House {
    files: BTreeMap<String, PathBuf>,
    arrows: BTreeSet<(String, String)>,
}

impl House {
    fn read(source: &Path) -> House {
        let mut files = BTreeMap::new();
        collect(source, "", &mut files);
        let texts: BTreeMap<&String, String> = files
            .iter()
            .map(|(module, path)| (module, without_tests(&fs::read_to_string(path).unwrap())))
            .collect();
        // What a face (`lib.rs`, `mod.rs`) hands on is its files' own: `pub use entry::Entry`.
        let mut faces = BTreeMap::new();
        for (module, text) in &texts {
            let inside = if *module == ROOT { "" } else { module };
            for taken in handed_on(text, inside) {
                let name = taken.rsplit("::").next().unwrap_or_default();
                let seen_as = if inside.is_empty() { name.to_owned() } else { format!("{inside}::{name}") };
                faces.insert(seen_as, taken);
            }
        }
        let mut arrows = BTreeSet::new();
        for (module, path) in &files {
            let named = paths_in(&texts[module], module);
            for taken in named.into_iter().chain(children_in(&texts[module], module, is_face(path))) {
                let mut taken = taken;
                // A face may hand on what another one hands on.
                for _ in 0..4 {
                    let Some(own) = beginnings(&taken).find_map(|start| faces.get(&start)) else { break };
                    taken.clone_from(own);
                }
                let target = beginnings(&taken).find(|start| files.contains_key(start));
                let target = target.unwrap_or_else(|| ROOT.to_owned());
                if target != *module && *module != ROOT {
                    arrows.insert((module.clone(), target));
                }
            }
        }
        House { files, arrows }
    }

    /// Files that take from each other, by circle.
    fn circles(&self) -> Vec<Vec<&str>> {
        let below = |from: &str| {
            let mut seen = BTreeSet::new();
            let mut todo = vec![from];
            while let Some(module) = todo.pop() {
                for (_, to) in self.arrows.iter().filter(|(taker, _)| taker == module) {
                    if seen.insert(to.as_str()) {
                        todo.push(to);
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.files.keys().map(|module| (module.as_str(), below(module))).collect();
        let mut circles: Vec<Vec<&str>> = Vec::new();
        for (module, taken) in &reach {
            let known = circles.iter().any(|circle| circle.contains(module));
            if taken.contains(module) && !known {
                let together = taken.iter().filter(|other| reach[*other].contains(module));
                circles.push(together.copied().collect());
            }
        }
        circles
    }

    /// Arrows from a floor to one above it.
    fn upward(&self, floor: impl Fn(&str) -> usize) -> Vec<String> {
        let up = self.arrows.iter().filter(|(from, to)| floor(from) < floor(to));
        up.map(|(from, to)| format!("{from} -> {to}")).collect()
    }
}

/// The file at the root.
const ROOT: &str = "lib";

fn is_face(path: &Path) -> bool {
    path.ends_with("mod.rs") || path.ends_with("lib.rs")
}

/// `a::b::c`, `a::b`, `a`.
fn beginnings(path: &str) -> impl Iterator<Item = String> {
    let parts: Vec<String> = path.split("::").map(str::to_owned).collect();
    (1..=parts.len()).rev().map(move |count| parts[..count].join("::"))
}

/// What a face hands on, by its place: the leaves of `pub use …` and `pub(crate) use …`.
fn handed_on(text: &str, inside: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.split(';').map(str::trim) {
        let Some((public, taken)) = line.split_once("use ") else { continue };
        if !public.trim_end().rsplit('\n').next().is_some_and(|word| word.starts_with("pub")) {
            continue;
        }
        let (taken, base) = match taken.strip_prefix("crate::") {
            Some(whole) => (whole, ""),
            None => (taken.strip_prefix("self::").unwrap_or(taken), inside),
        };
        leaves(taken, base, &mut found);
    }
    found
}

/// What a face takes from the files that it declares, by their names alone.
fn children_in(text: &str, module: &str, is_face: bool) -> Vec<String> {
    let mut found = Vec::new();
    let inside = if module == ROOT { "" } else { module };
    for line in text.lines().filter(|_| is_face) {
        let Some((_, name)) = line.trim_end_matches(';').split_once("mod ") else { continue };
        for (at, _) in text.match_indices(&format!("{name}::")) {
            let line = text[..at].rsplit('\n').next().unwrap_or_default();
            let before = text[..at].chars().next_back();
            let is_longer = before.is_some_and(|letter| letter.is_alphanumeric() || "_:".contains(letter));
            if !is_longer && !line.trim_start().starts_with("pub") {
                leaves(&text[at..], inside, &mut found);
            }
        }
    }
    found
}

fn collect(directory: &Path, module: &str, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let name = if module.is_empty() { stem.clone() } else { format!("{module}::{stem}") };
        if path.is_dir() {
            if stem != "bin" {
                collect(&path, &name, files);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            match stem.as_str() {
                "mod" => files.insert(module.to_owned(), path),
                "main" => None,
                _ => files.insert(name, path),
            };
        }
    }
}

/// The text up to its unit tests, without comments.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Every path of this crate's that a file names, from its root: `crate::a::b`, `super::b`, and each
/// leaf of a `use` of several.
fn paths_in(text: &str, module: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, up) in [("crate::", None), ("super::", Some(1)), ("self::", Some(0))] {
        for (at, _) in text.match_indices(word) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':') {
                continue;
            }
            let mut base: Vec<String> = Vec::new();
            let mut rest = &text[at + word.len()..];
            if let Some(mut up) = up {
                base = module.split("::").map(str::to_owned).collect();
                while let Some(shorter) = rest.strip_prefix("super::") {
                    (rest, up) = (shorter, up + 1);
                }
                base.truncate(base.len().saturating_sub(up));
            }
            leaves(rest, &base.join("::"), &mut found);
        }
    }
    found
}

/// The paths that begin here: `a::b`, or `a::{b, c::d}`.
fn leaves(text: &str, base: &str, found: &mut Vec<String>) -> usize {
    let join = |name: &str| if base.is_empty() { name.to_owned() } else { format!("{base}::{name}") };
    let text_start = text.len() - text.trim_start().len();
    let text = &text[text_start..];
    if let Some(inner) = text.strip_prefix('{') {
        let mut at = 1;
        let mut inner = inner;
        loop {
            let used = leaves(inner, base, found);
            at += used;
            inner = &inner[used..];
            let skipped = inner.len() - inner.trim_start_matches([',', ' ', '\n']).len();
            at += skipped;
            inner = &inner[skipped..];
            if inner.starts_with('}') || used + skipped == 0 {
                return text_start + at + 1;
            }
        }
    }
    let end = text.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(text.len());
    if end == 0 {
        return text_start;
    }
    let name = join(&text[..end]);
    match text[end..].strip_prefix("::") {
        Some(rest) => text_start + end + 2 + leaves(rest, &name, found),
        None => {
            found.push(name);
            text_start + end
        }
    }
}

#[test]
fn every_file_takes_from_its_floor_and_from_those_below() {
    let of = std::env::var_os("FATHOM_FLOORS_OF").map(PathBuf::from);
    let source = of.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let house = House::read(&source);
    let floors: Vec<Vec<String>> = match std::env::var("FATHOM_FLOORS") {
        Ok(text) => text
            .split(',')
            .map(|floor| floor.split_once('=').unwrap_or((floor, floor)).1)
            .map(|folders| folders.split('+').map(str::to_owned).collect())
            .collect(),
        Err(_) => FLOORS.iter().map(|folder| vec![(*folder).to_owned()]).collect(),
    };
    let floor = |module: &str| {
        let holds = |folder: &String| module == folder || module.starts_with(&format!("{folder}::"));
        floors.iter().position(|folders| folders.iter().any(holds)).unwrap_or(floors.len())
    };
    let (upward, circles) = (house.upward(floor), house.circles());
    println!(
        "{}: {} files, {} arrows, {} upward, {} circles{}",
        source.display(),
        house.files.len(),
        house.arrows.len(),
        upward.len(),
        circles.len(),
        circles.iter().map(|circle| format!(" of {} files", circle.len())).collect::<String>()
    );
    for line in &upward {
        println!("  upward: {line}");
    }
    for circle in &circles {
        println!("  circle: {}", circle.join(", "));
        let is_in = |module: &String| circle.contains(&module.as_str());
        for (from, to) in house.arrows.iter().filter(|(from, to)| is_in(from) && is_in(to)) {
            println!("    {from} -> {to}");
        }
    }
    if of.is_none() {
        assert!(house.files.len() > 50 && house.arrows.len() > 100, "the reader of `use` reads something");
        assert_eq!((upward, circles), (Vec::<String>::new(), Vec::<Vec<&str>>::new()));
    }
}

#[test]
fn files_of_other_crates_take_from_each_other_in_no_new_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !path.join("src").is_dir() {
            continue;
        }
        let house = House::read(&path.join("src"));
        let circles = house.circles();
        let sizes: String = circles.iter().map(|circle| format!(" of {} files", circle.len())).collect();
        let (files, arrows) = (house.files.len(), house.arrows.len());
        println!("{name}: {files} files, {arrows} arrows, {} circles{sizes}", circles.len());
        let left = CIRCLES_LEFT.iter().find(|(of, _)| *of == name).map_or(0, |(_, left)| *left);
        if circles.len() != left {
            let circles: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
            wrong.push(format!("{name} has {} circles, not {left}: {}", circles.len(), circles.join("; ")));
        }
        count += 1;
    }
    assert!(count > 10, "{count} crates were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
