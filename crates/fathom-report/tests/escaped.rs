//! No text from outside becomes markup: names of devices, experiments, files, settings and messages
//! are whatever somebody wrote.

#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::{page, results};

use std::collections::BTreeSet;

use fathom_lab::analysis::{Analysis, Question, Side, changes};
use fathom_lab::store::Results;

fn comparison(results: &Results) -> fathom_report::Comparison {
    let side = || Side::of(results, &Analysis::of(results).unwrap());
    let sides = [side(), side()];
    let changes = changes(&sides[0], &sides[1], &Question::default()).unwrap();
    let names = ["a\"'&<script>window.broken=8</script>.db".to_owned(), "b.db".to_owned()];
    fathom_report::Comparison { names, sides, changes, allowed: Some(0.1) }
}

/// Every element of a page with the names of its attributes, and the texts of its scripts, which no
/// parser looks into.
fn elements(page: &str) -> (BTreeSet<String>, Vec<&str>) {
    let (mut elements, mut scripts) = (BTreeSet::new(), Vec::new());
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let name_end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '!' | '-')).unwrap();
        let name = &rest[..name_end];
        let mut words = vec![name.to_owned()];
        rest = &rest[name_end..];
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = rest.find(['=', '>', ' ', '/']).unwrap();
            words.push(rest[..end].to_owned());
            rest = rest[end..].trim_start_matches('/');
            if let Some(value) = rest.strip_prefix("=\"") {
                rest = &value[value.find('"').unwrap() + 1..];
            }
        }
        if matches!(name, "script" | "style") {
            let end = rest.find(&format!("</{name}")).unwrap();
            scripts.push(&rest[..end]);
            rest = &rest[end..];
        }
        words[1..].sort();
        elements.insert(words.join(" "));
    }
    (elements, scripts)
}

#[test]
fn elements_are_told_from_text() {
    let (elements, scripts) =
        elements("<p class=\"a<b\" hidden>x &lt;i&gt;<br><script>if (a<b) {}</script></p>");
    assert_eq!(elements.into_iter().collect::<Vec<_>>(), ["/p", "/script", "br", "p class hidden", "script"]);
    assert_eq!(scripts, ["if (a<b) {}"]);
}

#[test]
fn hostile_names_add_no_element_and_no_attribute_to_any_page() {
    let (_harmless, harmless) = results(fixture::first_look);
    let (_hostile, hostile) = results(fixture::hostile);
    let known: BTreeSet<String> = [page(&harmless), comparison(&harmless).html()]
        .iter()
        .flat_map(|page| elements(page).0)
        // Where cells are skipped or failed the page says so with what it says other things with.
        .collect();
    for page in [page(&hostile), comparison(&hostile).html()] {
        let (found, scripts) = elements(&page);
        let new: Vec<&String> = found.difference(&known).collect();
        let is_harmless = |element: &&&String| {
            let words: Vec<&str> = element.split(' ').collect();
            let attributes = ["class", "id", "style", "data-cell", "aria-hidden", "title"];
            !["script", "img", "iframe", "b onerror"].contains(&words[0])
                && words[1..].iter().all(|word| attributes.contains(word))
        };
        assert!(new.iter().all(|element| is_harmless(&element)), "{new:?}");
        let own = |script: &&&str| !script.trim_start().starts_with('{');
        assert!(
            scripts.iter().filter(own).all(|script| !script.contains("window.broken")),
            "a script of theirs"
        );
        // The names are there, as text.
        assert!(page.contains("&lt;script&gt;window.broken=5&lt;/script&gt;"), "the name is not shown");
        let json = scripts.iter().filter(|script| script.trim_start().starts_with('{'));
        assert!(json.clone().all(|script| !script.contains('<')), "JSON that can end its script");
    }
}

#[test]
fn hostile_names_add_nothing_to_a_figure() {
    let (_harmless, harmless) = results(fixture::first_look);
    let (_hostile, hostile) = results(fixture::hostile);
    let svgs = |results: &Results| -> Vec<String> {
        let figures = fathom_report::figures(results).unwrap();
        figures.iter().map(|(id, _)| fathom_report::figure_svg(results, id).unwrap()).collect()
    };
    let known: BTreeSet<String> = svgs(&harmless).iter().flat_map(|svg| elements(svg).0).collect();
    let shapes = ["circle", "path", "line", "rect", "text", "polyline", "/text"];
    for svg in svgs(&hostile) {
        for element in elements(&svg).0.difference(&known) {
            let name = element.split(' ').next().unwrap();
            assert!(shapes.contains(&name) && !element.contains(" on"), "{element}");
        }
    }
}

/// What happened: behind a processor's name with a mark that turns text around, the numbers of the
/// sentence were read from the right: "2.51 ms [1.73, 3.64]" was "[46.3 ,37.1] sm 15.2".
#[test]
fn no_mark_of_direction_turns_what_a_page_or_a_figure_says() {
    let (_directory, hostile) = results(fixture::hostile);
    let figures = fathom_report::figures(&hostile).unwrap();
    let svgs = figures.iter().map(|(id, _)| fathom_report::figure_svg(&hostile, id).unwrap());
    for text in [page(&hostile), comparison(&hostile).html()].into_iter().chain(svgs) {
        assert!(!text.contains('\u{202e}'), "{text}");
    }
}

/// What happened: the button Copy of a report of somebody else's results copied what stood in them,
/// with line breaks and the sequence that ends a terminal's paste: pasted, a second line was
/// executed at once.
#[test]
fn what_is_copied_into_a_shell_is_one_line_and_all_of_it_is_shown() {
    let (_directory, mut results) = results(fixture::first_look);
    results.experiment.command = "fathom run x\u{1b}[201~\ntouch pwned\n".into();
    let page = page(&results);
    let (_, after) = page.split_once("id=\"command\">").unwrap();
    let (command, _) = after.split_once("</pre>").unwrap();
    assert_eq!(command, "fathom run x?[201~?touch pwned?");
}

/// Escape sequences in what a results file holds are shown, not obeyed, whichever column has them.
/// The fuzzer found the unit of a phase, in one of 20,000 damaged files: every text had been looked
/// at but that one.
#[test]
fn no_column_brings_an_escape_to_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.db");
    fixture::blocks(&good, 30);
    let db = rusqlite::Connection::open(&good).unwrap();
    db.execute_batch("PRAGMA journal_mode = DELETE").unwrap();
    let sql =
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'";
    let columns: Vec<(String, String)> = db
        .prepare(sql)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    drop(db);
    let bad = dir.path().join("bad.db");
    let mut shown = 0;
    for (table, column) in columns {
        std::fs::copy(&good, &bad).unwrap();
        let db = rusqlite::Connection::open(&bad).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").unwrap();
        let set =
            format!("UPDATE OR IGNORE \"{table}\" SET \"{column}\" = \"{column}\" || char(27) || '[2J'");
        let set = format!("{set} WHERE typeof(\"{column}\") = 'text'");
        let changed = db.execute(&set, []).unwrap_or(0);
        drop(db);
        let Ok(results) = Results::load(&bad) else { continue };
        if changed == 0 {
            continue;
        }
        let style = fathom_report::Style::PLAIN;
        let texts = [
            fathom_report::terminal(&results, &style),
            fathom_report::compare_terminal(&results, &results, &style),
        ];
        for text in texts.into_iter().flatten() {
            shown += 1;
            let line = text.lines().find(|line| line.contains('\u{1b}'));
            assert_eq!(line, None, "{table}.{column}");
        }
    }
    assert!(shown > 20, "{shown} texts only");
}
