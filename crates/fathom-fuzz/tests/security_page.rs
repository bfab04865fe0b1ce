//! `docs/security.md` names the test that shows each thing; a test that was renamed or removed
//! would leave the page claiming what nobody shows.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::Path;

fn sources(directory: &Path, all: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_page_on_security_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    let mut all = String::new();
    sources(&root.join("crates"), &mut all);
    // The tables of what shows it; the one of words has none of that.
    let shown = page
        .lines()
        .scan(false, |shows, line| {
            *shows = line.starts_with('|') && (*shows || line.contains("| shown by |"));
            Some((*shows, line))
        })
        .filter_map(|(shows, line)| shows.then_some(line))
        .filter_map(|line| line.trim_end_matches('|').rsplit('|').next());
    let mut named = 0;
    for cell in shown {
        for name in cell.split('`').skip(1).step_by(2).filter(|word| word.contains('_')) {
            assert!(
                all.contains(&format!("fn {name}(")),
                "docs/security.md names `{name}`, and there is no such test"
            );
            named += 1;
        }
    }
    assert!(named > 30, "{named} tests are named");
}
