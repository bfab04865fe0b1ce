//! What the documentation says of itself holds: every public item has an example that runs, every
//! rule of recovery has its test.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The Rust files below a directory of this crate.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let files = entries.flat_map(|p| if p.is_dir() { sources(&p) } else { vec![p] });
    files.filter(|p| p.extension().is_some_and(|e| e == "rs")).collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

/// Names of what the crate makes public: all that `pub use` lists and does not hide.
fn exported() -> Vec<String> {
    let text = read("src/lib.rs") + &read("src/medium/mod.rs");
    let shown = text.replace("#[doc(hidden)]\npub use ", "");
    let lists = shown.split("pub use ").skip(1).filter_map(|s| s.split(';').next());
    lists.flat_map(words).map(str::to_owned).collect()
}

/// Public items of a file that have no runnable example. Rustfmt keeps one item a line and the
/// crate writes `pub` only on what is public, so reading lines is enough. A trait's example may
/// show its methods, a type's its fields and variants.
fn without_example(text: &str, exported: &[String]) -> Vec<String> {
    let is_public = |name: &str| exported.iter().any(|e| e == name);
    let (mut missing, mut doc, mut hidden) = (Vec::new(), String::new(), false);
    // The example of the trait, and whether the type is public, in whose block the line stands.
    let (mut of_trait, mut of_type): (Option<String>, bool) = (None, false);
    for line in text.lines().take_while(|l| *l != "#[cfg(test)]") {
        if line.trim_start().starts_with("///") {
            doc += line;
            continue;
        }
        if line.trim_start().starts_with("#[") {
            hidden |= line.contains("doc(hidden)");
            continue;
        }
        let before_name = ["pub", "const", "fn", "struct", "enum", "trait", "type"];
        let name = words(line).find(|w| !before_name.contains(w)).unwrap_or("");
        let runs = doc.contains("/// ```") && !doc.contains("```ignore") && !doc.contains("```no_run");
        let needed = match &of_trait {
            Some(example) if line.starts_with("    fn ") => !example.contains(&format!(".{name}(")),
            _ if line.starts_with("    pub fn ") => of_type,
            _ => line.starts_with("pub ") && is_public(name),
        };
        if needed && !hidden && !runs {
            missing.push(line.trim().to_owned());
        }
        if line.starts_with("pub trait ") {
            of_trait = Some(doc.clone());
        } else if line.starts_with("impl") {
            of_type = words(line).any(is_public);
        } else if line == "}" {
            (of_trait, of_type) = (None, false);
        }
        (doc, hidden) = (String::new(), false);
    }
    missing
}

#[test]
fn every_public_item_has_an_example_that_runs() {
    let exported = exported();
    let mut missing = Vec::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        missing.extend(
            without_example(&text, &exported).into_iter().map(|m| format!("{}: {m}", file.display())),
        );
    }
    assert!(missing.is_empty(), "no runnable example:\n{}", missing.join("\n"));
}

#[test]
fn the_check_for_examples_sees_each_kind_of_gap() {
    let text = "/// A.\npub struct A;\nimpl A {\n    /// M.\n    pub fn m() {}\n    /// ```\n    pub fn n() {}\n    \
        /// ```\n    #[doc(hidden)]\n    pub fn h() {}\n}\n/// `t.x()` ```\npub trait T {\n    fn x();\n    fn y();\n}\n\
        /// C.\npub const C: u8 = 1;\nstruct P;\nimpl P {\n    pub fn q() {}\n}\n/// F.\npub fn f() {}\n";
    let names = ["A", "T", "C", "f"].map(str::to_owned);
    let gaps = without_example(text, &names);
    assert_eq!(
        gaps,
        [
            "pub struct A;",
            "pub fn m() {}",
            "pub trait T {",
            "fn y();",
            "pub const C: u8 = 1;",
            "pub fn f() {}"
        ]
    );
}

/// The variants of `Error`, in its order.
fn variants() -> Vec<String> {
    let text = read("src/error.rs");
    let body = text.split("pub enum Error {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let names = body.lines().filter_map(|l| l.strip_prefix("    ")?.split([' ', ',']).next());
    names.filter(|n| n.starts_with(char::is_uppercase)).map(str::to_owned).collect()
}

/// Public functions of a file that return a `Result` of this crate and do not say which errors.
fn without_errors(text: &str) -> Vec<String> {
    let (mut missing, mut doc, mut hidden, mut head) = (Vec::new(), String::new(), false, None::<String>);
    for line in text.lines().take_while(|l| *l != "#[cfg(test)]") {
        let trimmed = line.trim_start();
        if trimmed.starts_with("///") {
            doc += line;
            continue;
        }
        if trimmed.starts_with("#[") {
            hidden |= line.contains("doc(hidden)");
            continue;
        }
        if trimmed.starts_with("pub fn ") || head.is_some() {
            let whole = head.take().unwrap_or_default() + trimmed;
            if !whole.contains('{') && !whole.contains(';') {
                head = Some(whole);
                continue;
            }
            let returns = whole.rsplit_once("->").is_some_and(|(_, kind)| kind.contains("Result<"));
            if returns && !hidden && !whole.contains("io::Result") && !doc.contains("# Errors") {
                missing.push(whole.split('(').next().unwrap_or_default().to_owned());
            }
        }
        (doc, hidden) = (String::new(), false);
    }
    missing
}

#[test]
fn every_operation_says_which_errors_it_returns() {
    let mut missing = Vec::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = std::fs::read_to_string(&file).unwrap();
        // Steps of a checkpoint, for tests.
        let functions = without_errors(&text).into_iter().filter(|_| !file.ends_with("checkpoint.rs"));
        missing.extend(functions.map(|m| format!("{}: {m}", file.display())));
    }
    assert!(missing.is_empty(), "no section \"# Errors\":\n{}", missing.join("\n"));
    let gap = "/// A.\npub fn a(\n    b: u8,\n) -> Result<u8> {\n/// # Errors\npub fn c() -> Result<()> {}\n";
    assert_eq!(without_errors(gap), ["pub fn a"]);
}

#[test]
fn the_page_of_errors_has_every_error_and_no_other() {
    let (page, variants) = (read("docs/errors.md"), variants());
    assert!(variants.len() > 30, "{variants:?}");
    let quoted: Vec<&str> = page.split('`').skip(1).step_by(2).collect();
    let absent: Vec<&String> = variants.iter().filter(|v| !quoted.contains(&v.as_str())).collect();
    assert!(absent.is_empty(), "docs/errors.md does not say what returns {absent:?}");
    let is_name = |q: &&&str| q.starts_with(char::is_uppercase) && q.chars().all(char::is_alphabetic);
    let unknown: Vec<_> =
        quoted.iter().filter(is_name).filter(|q| !variants.iter().any(|v| v == **q)).collect();
    assert!(unknown.is_empty(), "docs/errors.md names errors that there are not: {unknown:?}");
}

/// What an operation returns, by its name: errors, and operations whose errors it returns too.
type Returns = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>;

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_error(name: &str) -> bool {
    name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic)
}

/// What the page of errors says of each operation, and which errors it says of all in its section.
fn page_of_errors() -> (Returns, BTreeMap<String, BTreeSet<String>>) {
    let (mut returns, mut general) = (Returns::new(), BTreeMap::new());
    for section in read("docs/errors.md").split("\n## ").skip(1) {
        let (head, table) = section.split_once("| --- |").unwrap_or((section, ""));
        let of_all: BTreeSet<String> = quoted(head).filter(|n| is_error(n)).map(str::to_owned).collect();
        for line in table.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split('|').collect();
            for operation in quoted(cells[1]) {
                let row = returns.entry(operation.to_owned()).or_default();
                row.0.extend(quoted(cells[2]).filter(|n| is_error(n)).map(str::to_owned));
                row.1.extend(quoted(cells[2]).filter(|n| n.contains("::")).map(str::to_owned));
                general.insert(operation.to_owned(), of_all.clone());
            }
        }
    }
    (returns, general)
}

/// The names behind each "as", in links: "As [`A::b`], [`A::c`] and [`A::d`]".
fn referred(errors: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in errors.match_indices("s [`") {
        let mut before = errors[..at].chars().rev();
        // "has" is another word.
        if !matches!(before.next(), Some('a' | 'A')) || before.next().is_some_and(char::is_alphanumeric) {
            continue;
        }
        let mut rest = &errors[at + 2..];
        while let Some(link) = rest.strip_prefix("[`") {
            let Some((name, behind)) = link.split_once("`]") else { break };
            names.insert(name.trim_start_matches("crate::").to_owned());
            let next = [", and ", " and ", ", "].iter().find_map(|word| behind.strip_prefix(word));
            rest = next.unwrap_or("");
        }
    }
    names
}

/// What the documentation of each public function says under "Errors".
fn documented_errors(text: &str, returns: &mut Returns) {
    let (mut doc, mut of_type, mut hidden) = (String::new(), None, false);
    for line in text.lines().take_while(|l| *l != "#[cfg(test)]") {
        let trimmed = line.trim_start();
        if let Some(words) = trimmed.strip_prefix("///") {
            doc = doc + words.trim() + " ";
            continue;
        }
        if trimmed.starts_with("#[") {
            hidden |= line.contains("doc(hidden)");
            continue;
        }
        if line.starts_with("impl") {
            let head = line.strip_prefix("impl<").and_then(|l| l.split_once("> ")).map_or(line, |(_, of)| of);
            let head = head.split_once(" for ").map_or(head, |(_, of)| of);
            let mut names = head.split(|c: char| !c.is_alphanumeric());
            of_type = names.find(|w| w.starts_with(char::is_uppercase)).map(str::to_owned);
        } else if line == "}" {
            of_type = None;
        }
        let function = trimmed.strip_prefix("pub fn ").and_then(|f| f.split(['(', '<']).next());
        if let (Some(function), Some((_, errors)), false) = (function, doc.split_once("# Errors"), hidden) {
            let name = match &of_type {
                Some(of) if line.starts_with("    ") => format!("{of}::{function}"),
                _ => function.to_owned(),
            };
            let named =
                errors.split("Error::").skip(1).filter_map(|e| e.split('`').next()).map(str::to_owned);
            returns.insert(name, (named.collect(), referred(errors)));
        }
        (doc, hidden) = (String::new(), false);
    }
}

/// All that an operation returns, with what it refers to.
fn whole(returns: &Returns, operation: &str) -> BTreeSet<String> {
    let (mut errors, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![operation.to_owned()]);
    while let Some(name) = next.pop() {
        if let Some((own, others)) = returns.get(&name).filter(|_| seen.insert(name.clone())) {
            errors.extend(own.iter().cloned());
            next.extend(others.iter().cloned());
        }
    }
    errors
}

/// What the page says of an operation, the documentation of the operation says too, and the other
/// way round. That the page has all that is returned is seen by every test (`src/documented.rs`).
#[test]
fn operations_document_the_errors_that_the_page_lists() {
    let (page, general) = page_of_errors();
    let mut docs = Returns::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        documented_errors(&std::fs::read_to_string(&file).unwrap(), &mut docs);
    }
    assert!(docs.len() > 100, "{} operations", docs.len());
    let mut wrong = Vec::new();
    for operation in docs.keys() {
        let Some(of_all) = general.get(operation) else {
            wrong.push(format!("{operation} is not on the page"));
            continue;
        };
        let rest = |all: BTreeSet<String>| -> BTreeSet<String> {
            all.into_iter().filter(|e| e != "Deposed" && !of_all.contains(e)).collect()
        };
        let (there, here) = (rest(whole(&page, operation)), rest(whole(&docs, operation)));
        if there != here {
            let (page, doc): (Vec<_>, Vec<_>) =
                (there.difference(&here).collect(), here.difference(&there).collect());
            wrong.push(format!("{operation}: the page alone has {page:?}, its documentation alone {doc:?}"));
        }
    }
    let gone = page.keys().filter(|o| o.contains("::") && !docs.contains_key(*o));
    wrong.extend(gone.map(|o| format!("{o} is on the page, and says nothing of errors itself")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Operations that do nothing but call another one, whose errors are theirs.
const CALLS: [(&str, &str); 19] = [
    ("Transaction::get", "Transaction::get_with"),
    ("Transaction::get_many", "Transaction::get_many_with"),
    ("Transaction::commit", "Transaction::commit_with"),
    ("Records::insert", "Transaction::insert"),
    ("Records::upsert", "Transaction::upsert"),
    ("Records::update", "Transaction::update_at"),
    ("Records::delete", "Transaction::delete"),
    ("Records::range", "Transaction::range"),
    ("Records::scan", "Transaction::scan"),
    ("Records::all", "Transaction::range"),
    ("Database::get", "Database::get_with"),
    ("Database::get_many", "Database::get_many_with"),
    ("Snapshot::get", "Snapshot::get_with"),
    ("Snapshot::get_many", "Snapshot::get_many_with"),
    ("Standby::table", "Database::table"),
    ("Standby::snapshot", "Database::snapshot"),
    ("Standby::checkpoint", "Database::checkpoint"),
    ("Standby::close", "Database::close"),
    ("Ticket::wait", "Ticket::wait_durable"),
];

/// As those, but in a way of its own each time round.
const LOOPS: [(&str, &str); 3] = [
    (".await", "Ticket::poll"),
    ("Tail::next_within", "Tail::try_next"),
    ("Tail::poll_next", "Tail::try_next"),
];

/// What no test has provoked is still seen when it comes: each operation passes through
/// `documented`, or calls one that does and is on the page with the same errors.
#[test]
fn every_operation_is_held_against_the_page() {
    let (page, _) = page_of_errors();
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let passes = text.split("documented(").skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let held: BTreeSet<&str> = passes.filter_map(|rest| rest.split('"').next()).collect();
    let unknown: Vec<_> = held.iter().filter(|name| !page.contains_key(**name)).collect();
    assert!(unknown.is_empty(), "not on the page: {unknown:?}");
    let callers: BTreeMap<&str, &str> = CALLS.into_iter().chain(LOOPS).collect();
    let free = |name: &&str| !held.contains(*name) && !callers.contains_key(*name);
    let free: Vec<&str> = page.keys().map(String::as_str).filter(free).collect();
    assert!(free.is_empty(), "these pass through nothing: {free:?}");
    for (caller, called) in callers {
        assert!(held.contains(called), "{called}, which {caller} calls, passes through nothing");
        assert!(!held.contains(caller), "{caller} is held against the page itself");
        let (theirs, its) = (whole(&page, called), whole(&page, caller));
        assert!(its.is_superset(&theirs), "{caller} returns {theirs:?} of {called}, and has {its:?}");
    }
}

/// Names in backquotes that have the form `file::test`, `file::…::test` or `path/of/file.rs`.
fn cited(page: &str) -> Vec<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted
        .filter(|q| !q.contains(' ') && (q.contains("::") || q.ends_with(".rs")))
        .map(str::to_owned)
        .collect()
}

/// Tests and files that a page names and that do not exist.
fn missing(page: &str) -> Vec<String> {
    let mut gone = Vec::new();
    for name in cited(page) {
        let parts: Vec<&str> = name.split("::").collect();
        let there = match parts[..] {
            [file] => Path::new(env!("CARGO_MANIFEST_DIR")).join(file).exists(),
            ["mmdb", item] => exported().iter().any(|e| e == item),
            [first, .., test] => {
                let module = parts[..parts.len() - 1].iter().filter(|p| **p != "tests").copied();
                let path = module.collect::<Vec<_>>().join("/");
                let candidates = [
                    format!("tests/{first}.rs"),
                    format!("tests/{first}/main.rs"),
                    format!("src/{path}.rs"),
                    format!("src/{path}/mod.rs"),
                ];
                let texts = candidates.iter().map(|c| Path::new(env!("CARGO_MANIFEST_DIR")).join(c));
                texts.filter_map(|p| std::fs::read_to_string(p).ok()).any(|t| {
                    t.split_once(&format!("fn {test}(")).is_some_and(|(before, _)| {
                        // An attribute of its own, or a property test's; a macro may make the test
                        // of a list.
                        before.trim_end().ends_with("#[test]")
                    })
                })
            }
            [] => false,
        };
        if !there {
            gone.push(name);
        }
    }
    gone
}

#[test]
fn every_test_that_the_guarantees_of_standbys_name_exists() {
    let page = read("docs/standby.md");
    let tests: String = page.lines().filter(|l| !l.contains("](../")).map(|l| format!("{l}\n")).collect();
    // Code is quoted in it, too.
    let gone: Vec<String> = missing(&tests).into_iter().filter(|name| name.starts_with("standby")).collect();
    assert!(gone.is_empty(), "docs/standby.md names what does not exist: {gone:?}");
    let guarantees: Vec<&str> = page.split("\n- **G").skip(1).collect();
    assert_eq!(guarantees.len(), 5);
    assert!(guarantees.iter().all(|g| g.contains("`standby")), "each guarantee names its test");
}

#[test]
fn every_test_that_the_rules_of_recovery_name_exists() {
    let page = read("docs/recovery.md");
    let gone = missing(&page);
    assert!(gone.is_empty(), "docs/recovery.md names what does not exist: {gone:?}");
    let rules = page.lines().filter(|l| l.starts_with("- **R")).count();
    let tested = page.split("\n- **R").skip(1).filter(|r| !cited(r).is_empty()).count();
    assert!(rules >= 16, "{rules} rules");
    assert_eq!(rules, tested, "each rule names its test");
}
