//! What operations return, held against the page that says so.
//!
//! `docs/errors.md` says of each operation which errors it returns. In the tests of this crate
//! whatever passes through [`documented`] is looked up there, and an error that the page does not
//! have is a failure: so each crash, interleaving and full disk that any test makes is a test of
//! the page. All operations pass through it, or through another one that does, which
//! `tests/documentation.rs` looks for. Without the feature `sabotage` it is nothing.

use crate::error::Result;

/// Does what the operation of this name does, and gives its result back.
#[inline(always)]
pub(crate) fn documented<T>(operation: &'static str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = f();
    #[cfg(feature = "sabotage")]
    if let Err(e) = &done {
        page::require(operation, e);
    }
    #[cfg(not(feature = "sabotage"))]
    let _ = operation;
    done
}

#[cfg(feature = "sabotage")]
mod page {
    use crate::error::Error;
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::OnceLock;

    type Names = BTreeSet<&'static str>;

    const PAGE: &str = include_str!("../docs/errors.md");
    /// They can come from anywhere.
    const EVERYWHERE: [&str; 2] = ["Internal", "Interrupted"];
    /// In the place of others.
    const INSTEAD: [&str; 2] = ["Poisoned", "Indeterminate"];

    fn quoted(text: &'static str) -> impl Iterator<Item = &'static str> {
        text.split('`').skip(1).step_by(2)
    }

    fn is_error(name: &str) -> bool {
        name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic)
    }

    /// Of each operation the errors of its row, and the operations that it refers to.
    fn rows() -> BTreeMap<&'static str, (Names, Names)> {
        let mut rows: BTreeMap<_, (Names, Names)> = BTreeMap::new();
        for section in PAGE.split("\n## ").skip(1) {
            let (head, table) = section.split_once("| --- |").unwrap_or((section, ""));
            let general: Names = quoted(head).filter(|name| is_error(name)).collect();
            for line in table.lines().filter(|line| line.starts_with("| `")) {
                let mut cells = line.split('|').skip(1);
                let (operations, errors) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
                for operation in quoted(operations) {
                    let row = rows.entry(operation).or_default();
                    row.0.extend(general.iter().copied().chain(quoted(errors).filter(|name| is_error(name))));
                    row.1.extend(quoted(errors).filter(|name| name.contains("::")));
                }
            }
        }
        rows
    }

    /// Of each operation all errors that it returns.
    fn all() -> &'static BTreeMap<&'static str, Names> {
        static ALL: OnceLock<BTreeMap<&'static str, Names>> = OnceLock::new();
        ALL.get_or_init(|| {
            let rows = rows();
            let of = |operation: &&'static str| {
                let (mut errors, mut seen, mut next) = (Names::new(), Names::new(), vec![*operation]);
                while let Some(name) = next.pop() {
                    if let Some((own, others)) = rows.get(name).filter(|_| seen.insert(name)) {
                        errors.extend(own);
                        next.extend(others);
                    }
                }
                if INSTEAD.iter().any(|name| errors.contains(name)) {
                    errors.insert("Deposed");
                    errors.insert("Forked");
                }
                errors.extend(EVERYWHERE);
                (*operation, errors)
            };
            rows.keys().map(of).collect()
        })
    }

    /// The name of an error's variant.
    fn name_of(e: &Error) -> String {
        let whole = format!("{e:?}");
        whole.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_owned()
    }

    /// Fails if the page does not say that the operation returns this.
    pub(super) fn require(operation: &str, e: &Error) {
        let name = name_of(e);
        // Tests on one thread have refused at once what is waited for elsewhere. What is run again
        // until it comes to something never returns this.
        let is_refused = name == "Deadlock" && !operation.starts_with("Database::run");
        let others = if is_refused { [&*name, "LockTimeout"] } else { [&*name; 2] };
        let errors = all().get(operation);
        let is_there = errors.is_some_and(|errors| others.iter().any(|name| errors.contains(name)));
        assert!(is_there, "docs/errors.md does not say that {operation} returns {name}: {e}");
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_page_is_read_as_it_is_written() {
            let of = |operation: &str| &all()[operation];
            assert!(of("Transaction::update").contains("NoSuchColumn"));
            assert!(of("Transaction::update").contains("DuplicateKey"), "as an insert");
            assert!(of("Transaction::update").contains("Conflict"), "as everything in a transaction");
            assert!(!of("Transaction::insert").contains("LogFull"));
            assert!(!of("Database::get").contains("Conflict"));
            assert!(of("Database::begin").contains("Deposed"), "in the place of another");
            assert!(!of("Fill::finish").contains("Deposed"));
            assert!(of("Standby::apply").is_superset(&["FramesGap", "LogFull"].into()), "both of its rows");
        }

        #[test]
        #[should_panic(expected = "does not say that Transaction::insert returns LogFull")]
        fn an_error_that_is_not_on_the_page_is_a_failure() {
            let e = Error::LogFull { dir: "/log".into(), cause: String::new() };
            require("Transaction::insert", &e);
        }

        #[test]
        #[should_panic(expected = "does not say that Database::run returns Deadlock")]
        fn a_run_never_returns_what_is_retried() {
            require("Database::run", &Error::Deadlock { table: "t".into(), key: "(1)".into() });
        }
    }
}
