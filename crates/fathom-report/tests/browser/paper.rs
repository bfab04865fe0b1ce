//! The report on paper.

use std::path::Path;

use fathom_lab::store::Results;

use crate::{assert_sound, browser, directory, fixture, page};

/// Whether everything behind folds is seen, but for the tables under figures, whose values are in
/// the table of every cell.
const HIDDEN: &str = "[...document.querySelectorAll('main details > *:not(summary)')].filter(e => !e.closest('.tools') && \
    !e.checkVisibility({ contentVisibilityAuto: true })).map(e => e.textContent.trim().slice(0, 60))";

/// Results of which the answer may change for more reasons than stand beside it.
fn doubted(path: &Path) -> Results {
    fixture::first_look(path);
    let mut few = Results::load(path).unwrap();
    few.runs[0].steal_share = Some(0.1);
    few.runs[0].load = Some(9.0);
    few.runs.retain(|run| run.block < 2);
    few.phases.retain(|phase| few.runs.iter().any(|run| run.id == phase.run));
    few.experiment.quick = true;
    few
}

#[test]
fn it_prints_on_a4_in_light_colours() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("print");
    let path = page(&directory, "journal-modes", |p| fixture::journal_modes(p, 1.0));
    let mut page = chromium.open(&path, "", 1200, true);
    let pdf = page.pdf();
    assert!(pdf.starts_with(b"%PDF"));
    std::fs::write(directory.join("journal-modes.pdf"), &pdf).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    let pages = text.matches("/Type /Page\n").count() + text.matches("/Type /Page ").count();
    // With everything that is folded on a screen: settings of 19 cells, the experiment's file.
    assert!((1..=12).contains(&pages), "{pages} pages");
    // After printing the page is as it was.
    assert_eq!(page.number("Math.round(document.querySelector('#chart-0 svg').getBoundingClientRect().width - document.querySelector('#chart-0').clientWidth)"), 0.0);
    assert_sound(&mut page, "print");
}

/// What happened: folds stayed closed and their headings were left out, so that paper said "may
/// change for 4 reasons" and showed two.
#[test]
fn what_is_folded_is_printed_and_folded_again() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("folds");
    let results = doubted(&directory.join("doubted.db"));
    let path = directory.join("doubted.html");
    fathom_report::write_whole(&path, &[], |out| fathom_report::html(&results, out)).unwrap();
    let mut page = chromium.open(&path, "", 1200, false);
    const OPEN: &str = "document.querySelectorAll('details[open]').length";
    assert!(page.number("document.querySelectorAll('main details.rest').length") > 0.0);
    let closed = page.number(&format!("{HIDDEN}.length"));
    assert!(closed > 2.0, "{closed}");
    // One that the reader has opened stays open.
    page.run("document.querySelector('.careful details').open = true");
    page.run("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(page.eval(HIDDEN).as_array().unwrap().len(), 0, "{}", page.eval(HIDDEN));
    page.run("dispatchEvent(new Event('afterprint'))");
    assert_eq!(page.number(OPEN), 1.0);
    assert_eq!(page.number(&format!("{HIDDEN}.length")), closed - 1.0);
    // Without the script: what the style sheet alone makes of it.
    // The style of another medium is there with the next frame.
    page.media("print");
    page.wait(&format!("{HIDDEN}.length === 0"));
    let reasons = page.number("document.querySelectorAll('.verdict li').length");
    let told = page.text("document.querySelector('.verdict p').textContent");
    assert!(told.contains(&format!("for {reasons} reasons")), "{told}");
    const SEEN: &str = "[...document.querySelectorAll('.verdict li')].filter(e => e.getBoundingClientRect().height > 0 && \
        e.checkVisibility({ contentVisibilityAuto: true })).length";
    assert_eq!(page.number(SEEN), reasons);
    page.media("screen");
    std::fs::write(directory.join("doubted.pdf"), page.pdf()).unwrap();
    assert_eq!(page.number(OPEN), 1.0, "as it was before it was printed");
    assert_sound(&mut page, "folds");
}
