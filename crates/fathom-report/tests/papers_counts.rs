//! The page of the papers prints what other programs counted, of published tables.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use fathom_report::Papers;

/// What another program counted is printed of its table, a number or all of it.
#[test]
fn counts_are_printed_of_their_table() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("calls.csv"), "mode,calls\nwal,3\ndelete,1204\n").unwrap();
    let print = |text: &str| {
        std::fs::write(directory.path().join("page.md"), text).unwrap();
        let papers = Papers::load(directory.path()).map_err(|error| error.to_string())?;
        papers.print().map(|printed| printed.page).map_err(|error| error.to_string())
    };
    let printed =
        print("{{counted calls.csv where=mode:wal column=calls}} of {{counted calls.csv column=calls}}\n")
            .unwrap();
    assert!(printed.ends_with("\n3 of 3 to 1,204\n"), "{printed}");
    let printed = print("{{counted calls.csv rows=mode values=calls}}\n").unwrap();
    assert!(printed.ends_with("| mode | calls |\n|---|---|\n| wal | 3 |\n| delete | 1,204 |\n"), "{printed}");
    assert!(print("{{counted calls.csv column=call}}\n").expect_err("refused").contains("page.md:1: "));
    assert!(print("{{given ./calls.csv}}3{{end}}\n").expect_err("refused").contains("{{counted ./calls.csv"));
}
