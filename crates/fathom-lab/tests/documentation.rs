//! What the documentation and the built-in experiments say is true.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use fathom_lab::experiment::{Experiment, Selection, Vocabulary, builtin};

fn check(name: &str, source: &str) -> usize {
    let vocabulary = Vocabulary::here();
    let experiment = Experiment::parse(name, source).unwrap_or_else(|error| panic!("{error}"));
    let cells = |quick| {
        let selection = Selection { quick, ..Selection::default() };
        experiment.cells(&selection, &vocabulary).unwrap_or_else(|error| panic!("{error}"))
    };
    let (full, quick) = (cells(false), cells(true));
    // A look may have fewer variants, which `[quick]` names.
    assert!(!quick.cells.is_empty() && quick.cells.len() <= full.cells.len(), "{name}");
    let fewer = source.contains("[quick]") && source.contains("\nvariants = [");
    let counts = (full.cells.len(), quick.cells.len());
    assert!(fewer || counts.0 == counts.1, "{name}: cells in full and with [quick]: {counts:?}");
    assert_eq!(full.warnings, Vec::<String>::new(), "{name}");
    full.cells.len()
}

#[test]
fn every_builtin_experiment_is_right() {
    assert!(builtin().len() >= 5);
    for builtin in builtin() {
        let cells = check(builtin.name, builtin.source);
        println!("{}: {cells} cells", builtin.name);
        let experiment = Experiment::parse(builtin.name, builtin.source).unwrap();
        assert_eq!(experiment.name, builtin.name);
        let shows = !experiment.headlines.is_empty() && !experiment.figures.is_empty();
        assert!(shows, "{} has no [[headline]], or no [[figure]]", builtin.name);
        assert!(experiment.repeats >= 5, "{} has fewer than 5 `repeats`", builtin.name);
        assert_eq!(builtin.title(), experiment.title);
    }
}

#[test]
fn every_example_of_the_documentation_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiment-files.md");
    let text = std::fs::read_to_string(path).unwrap();
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert_eq!(examples.len(), 2);
    assert_eq!(check("first example", examples[0]), 5);
    assert_eq!(check("second example", examples[1]), 2);
}

#[test]
fn every_key_is_documented() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiment-files.md"))
            .unwrap();
    for key in fathom_stack::STACK_KEYS {
        assert!(text.contains(&format!("| `{}` |", key.name)), "`{}` of [stack] is not documented", key.name);
    }
    // The lists of known keys are what the errors of an experiment with a strange key print.
    for (table, strange) in [
        ("", "zzzzzzzzz = 1\nname = \"a\""),
        ("headline", "name = \"a\"\nworkload = { name = \"update\" }\n[[headline]]\nzzzzzzzzz = 1"),
        ("figure", "name = \"a\"\nworkload = { name = \"update\" }\n[[figure]]\nzzzzzzzzz = 1"),
    ] {
        let error = Experiment::parse("a.toml", strange).unwrap_err();
        let known = error.hint.strip_prefix("known here: ").unwrap();
        for key in known.split(", ") {
            let spellings = [format!("`{key}`"), format!("`[{key}]`"), format!("`[[{key}]]`")];
            assert!(
                spellings.iter().any(|spelling| text.contains(spelling.as_str())),
                "`{key}` of [{table}] is not documented"
            );
        }
    }
}
