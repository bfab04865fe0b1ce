//! Tables of the report: sorted, and whole on a wide screen.

use std::path::Path;

use fathom_lab::store::Results;

use crate::chromium::Page;
use crate::{assert_sound, browser, directory, fixture, page};

#[test]
fn a_heading_sorts_its_table_by_the_numbers() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("sort");
    let path = page(&directory, "sort", fixture::first_look);
    let mut page = chromium.open(&path, "", 1400, false);
    const RATES: &str =
        "[...document.querySelectorAll('#cells tbody tr')].map(r => Number(r.cells[2].dataset.v))";
    let own = page.text(&format!("{RATES}.join()"));
    let click = |page: &mut Page<'_>| page.run("document.querySelectorAll('#cells thead button')[2].click()");
    let is_sorted = |page: &mut Page<'_>, order: &str| {
        page.eval(&format!("{RATES}.every((v, i, all) => i === 0 || all[i - 1] {order} v)")) == true
    };
    assert!(!is_sorted(&mut page, ">=") && !is_sorted(&mut page, "<="), "{own}");
    click(&mut page);
    assert!(is_sorted(&mut page, ">="), "the largest first");
    assert_eq!(
        page.text("document.querySelectorAll('#cells thead th')[2].getAttribute('aria-sort')"),
        "descending"
    );
    click(&mut page);
    assert!(is_sorted(&mut page, "<="));
    assert_sound(&mut page, "sorted");
}

/// What happened: a click sorts numbers from the largest, and what has none (a p99 that was not
/// told, a setting that nothing keeps) stood above them.
#[test]
fn what_has_no_number_comes_last_whichever_way_a_table_is_sorted() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("unsorted");
    let path = page(&directory, "unsorted", fixture::first_look);
    let mut page = chromium.open(&path, "", 1400, false);
    page.run(
        "(() => { const cell = document.querySelectorAll('#cells tbody tr')[3].cells[2]; \
         cell.removeAttribute('data-v'); cell.textContent = 'not known'; })()",
    );
    for order in ["descending", "ascending"] {
        page.run("document.querySelectorAll('#cells thead button')[2].click()");
        let place = page.number(
            "(() => { const all = [...document.querySelectorAll('#cells tbody tr')]; \
             return all.length - all.findIndex(row => row.cells[2].textContent === 'not known'); })()",
        );
        assert_eq!(place, 1.0, "{order}");
    }
    assert_sound(&mut page, "unsorted");
}

/// Results that were published, as they lie in the repository.
fn published(path: &Path, name: &str) {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results");
    std::fs::copy(all.join(format!("{name}.db.zst")), path).unwrap();
}

/// What happened: with a modelled device 140 pixels and more of `#cells`, and 600 and more of
/// `#devices`, were out of sight at 1400 pixels, "kept at" among them. Of a guest's results with a
/// column of rows it was 31 and 52 pixels: intervals such as [0.0203, 0.0838] were not broken.
#[test]
fn every_table_is_whole_on_a_wide_screen() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("whole");
    type Make = fn(&Path);
    let all: [(&str, Make); 7] = [
        ("first-look", fixture::first_look),
        ("modelled", |path| fixture::modelled(path, 1.0, 2.0)),
        ("wide", fixture::modelled_wide),
        ("blocks", |path| fixture::blocks(path, 1000)),
        ("update-cost", |path| fixture::update_cost(path, 100)),
        ("p1-full", |path| published(path, "p1-full")),
        ("p1-server", |path| published(path, "p1-server")),
    ];
    for (name, make) in all {
        let db = directory.join(format!("{name}.db"));
        make(&db);
        let mut results = Results::load(&db).unwrap();
        // Waits add a column; they are not in the files that the fixtures write.
        for phase in results.phases.iter_mut().filter(|_| name == "wide") {
            (phase.summary.lock_waits, phase.summary.lock_wait_ns) = (Some(1234), Some(12_345_678_901));
        }
        let path = directory.join(format!("{name}.html"));
        fathom_report::write_whole(&path, &[], |out| fathom_report::html(&results, out)).unwrap();
        let mut page = chromium.open(&path, "", 1400, false);
        page.run("document.querySelectorAll('details').forEach(fold => { fold.open = true; })");
        let cut = page.eval(
            "[...document.querySelectorAll('.scroll')].filter(s => s.querySelector('table') && s.scrollWidth > s.clientWidth) \
             .map(s => (s.querySelector('table').id || s.getAttribute('aria-label')) + ': ' + (s.scrollWidth - s.clientWidth) + ' px')",
        );
        assert_eq!(cut, serde_json::json!([]), "{name}: out of sight at 1400 px");
        page.screenshot(&directory.join(format!("{name}.png")));
    }
}

/// Every table whose rows can be compared is sorted by a click, and by its numbers, not by the
/// letters of "9.8 KiB" and "10 KiB".
#[test]
fn other_tables_are_sorted_too() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("sorted");
    let modelled = page(&directory, "wide", fixture::modelled_wide);
    let blocks = page(&directory, "blocks", |path| fixture::blocks(path, 1000));
    for (path, tables) in [
        (modelled, &["#devices", "#self-tests", "#cells"][..]),
        (blocks, &["#blocks-ladder", "#blocks-volume", "#blocks-pattern"][..]),
    ] {
        let mut page = chromium.open(&path, "", 1400, false);
        for table in tables {
            let of_table = format!(
                "(document.querySelector('{table}').closest('table') || document.querySelector('{table} table'))"
            );
            let heads = page.number(&format!("{of_table}.querySelectorAll('thead th button.sort').length"));
            assert!(heads > 2.0, "{table}");
            let unnamed = page.number(&format!(
                "[...{of_table}.querySelectorAll('button.sort')].filter(b => !b.textContent.trim()).length"
            ));
            assert_eq!(unnamed, 0.0, "{table}");
            let unsorted = page.text(&format!(
                "(() => {{ const table = {of_table}, bad = []; [...table.tHead.rows[0].cells].forEach((head, i) => {{ \
                 if (!head.classList.contains('n')) return; head.querySelector('button').click(); \
                 const values = [...table.tBodies[0].rows].map(r => r.cells[i].dataset.v).filter(v => v !== undefined).map(Number); \
                 if (values.some((v, k) => k > 0 && values[k - 1] < v)) bad.push(head.textContent); \
                 if (!values.length && [...table.tBodies[0].rows].some(r => /[0-9]/.test(r.cells[i].textContent))) bad.push(head.textContent + ' has no numbers'); \
                 }}); return bad.join(', '); }})()"
            ));
            assert_eq!(unsorted, "", "{table}");
        }
        assert_sound(&mut page, "sorted");
    }
}
