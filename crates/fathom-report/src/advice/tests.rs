use fathom_lab::advise::Sensitivity;
use fathom_lab::stats::mean_interval;

use super::*;
use crate::style::Style;

fn tried(journal: &str, synchronous: &str, promise: Durability, ms: f64) -> Trial {
    let candidate = Candidate::new(journal, synchronous);
    let ns = [ms * 1e6, ms * 1.001e6, ms * 0.999e6];
    Trial {
        label: candidate.key(),
        candidate,
        filesystem: "ext4".into(),
        durability: Some(promise),
        runs: (0..).zip(ns).collect(),
        time_ns: mean_interval(&ns).unwrap(),
        cpu_ns: 0.1e6,
        count: 1000,
        p99_ns: Some(ms * 5e6),
        flushes: ms / 4.0,
        written_bytes: ms * 4096.0,
    }
}

fn advised(device: &str, slowness: f64) -> DeviceAdvice {
    let all = vec![
        tried("delete", "full", Durability::PowerCutAllButLast, 10.0 * slowness),
        tried("wal", "full", Durability::PowerCut, 4.0 * slowness),
        tried("wal", "normal", Durability::PowerCutPrefix, 2.0 * slowness),
    ];
    let must = Durability::PowerCutAllButLast;
    let mut found = DeviceAdvice::of(Some(device.into()), "a card".into(), all, &Candidate::default(), must);
    found.sways = vec![
        Sensitivity { what: "flushes x0.5".into(), best: 1, behind: 1.0, stands: true },
        Sensitivity { what: "flushes x2".into(), best: 0, behind: 1.31, stands: device != "sd-b" },
    ];
    found.assumptions = vec!["flush 4 ms: not published.".into()];
    found
}

fn advice(devices: Vec<DeviceAdvice>) -> Advice {
    Advice {
        title: "mail & <script>alert(1)</script>\u{1b}[2J".into(),
        must: Durability::PowerCutAllButLast,
        baseline: Candidate::default(),
        baseline_source: "SQLite's defaults".into(),
        devices,
        hints: vec!["group them".into()],
        notes: Vec::new(),
        missing: vec!["f2fs: not here".into()],
        partial: None,
        command: "fathom advise mail".into(),
    }
}

#[test]
fn the_answer_can_be_pasted_and_says_what_it_promises_gains_and_rests_on() {
    let text = advice(vec![advised("sd-a", 1.0), advised("sd-b", 2.0)]).terminal(&Style::PLAIN);
    for words in [
        "On sd-a and sd-b use WAL/FULL: 2.5x",
        "PRAGMA journal_mode = WAL;",
        "PRAGMA synchronous = FULL;",
        "WAL/FULL: a power cut keeps every commit.",
        "WAL/NORMAL would be 2.0x",
        "a power cut may take the last commits",
        "16 KiB written and 1.00 flushes a transaction; DELETE/FULL: 40 KiB and 2.50",
        "On sd-a the advice stays within 5 % of the best with flushes x0.5, flushes x2.",
        "On sd-b with flushes x2, DELETE/FULL would be best: 1.31 times",
        "Assumed of sd-a and sd-b",
        "1 of 2",
        "group them",
        "f2fs: not here",
    ] {
        assert!(text.replace("\n  ", " ").replace("  ", " ").contains(words), "{words:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains("page_size"), "{text}");
}

#[test]
fn the_page_obeys_nothing_that_a_trace_is_called_and_has_everything() {
    let html = advice(vec![advised("sd-a", 1.0)]).html();
    assert!(html[..4096].contains(crate::HTML_MARK), "a later one may replace it");
    assert!(!html.contains("<script>") && html.contains("mail &amp; &lt;script&gt;"), "{html}");
    assert!(html.contains("WAL/FULL ◀") && html.contains("DELETE/FULL (now)"), "{html}");
    assert!(html.contains("default-src 'none'") && html.contains("fathom advise mail"));
    assert!(html.contains("<td class=\"words\">"), "what it rests on wraps, so that the table is whole");
    let bars = html.matches("data-cell=").count();
    assert_eq!(bars, 3, "a bar for each that was tried");
}

#[test]
fn what_stays_and_what_cannot_be_kept_is_said() {
    let must = Durability::PowerCut;
    let all = vec![
        tried("persist", "full", Durability::PowerCut, 4.0),
        tried("wal", "full", Durability::PowerCut, 4.1),
    ];
    let own = Candidate::new("persist", "full");
    let mut shown =
        advice(vec![DeviceAdvice::of(Some("sd-a".into()), String::new(), all.clone(), &own, must)]);
    shown.baseline = own.clone();
    let text = shown.terminal(&Style::PLAIN);
    assert!(text.contains("On sd-a keep PERSIST/FULL") && text.contains("as it is"), "{text}");
    let weak = vec![tried("wal", "normal", Durability::PowerCutPrefix, 1.0)];
    shown.devices = vec![DeviceAdvice::of(Some("sd-a".into()), String::new(), weak, &own, must)];
    shown.must = must;
    let text = shown.terminal(&Style::PLAIN);
    assert!(text.contains("nothing that was tried keeps") && !text.contains("PRAGMA"), "{text}");
    assert!(shown.html().contains("nothing that was tried keeps"));
}

/// Without its lines.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_best_of_a_few_is_not_called_the_best() {
    let mut shown = advice(vec![advised("sd-a", 1.0)]);
    shown.partial = Some("Compared are only the 3 settings that it holds".into());
    let text = shown.terminal(&Style::PLAIN);
    for words in
        ["On sd-a, of what was recorded, use WAL/FULL", "Compared are only the 3", "fastest of these"]
    {
        assert!(plain(&text).contains(words), "{words:?} in\n{text}");
    }
    assert!(!plain(&text).contains("of the best with"), "{text}");
    assert!(shown.html().contains("Compared are only the 3"));
}

/// What happened: with five devices and more the lines that begin with "Assumed of" went.
#[test]
fn what_is_assumed_is_told_of_many_devices_in_short() {
    let name = |number: u32| format!("sd-{number}");
    let many: Vec<DeviceAdvice> = (0..6)
        .map(|number| {
            let mut device = advised(&name(number), 1.0);
            device.assumptions =
                vec![format!("flush {number} ms: not published, and why"), "4 streams".into()];
            device
        })
        .collect();
    let text = advice(many).terminal(&Style::PLAIN);
    let text = plain(&text);
    assert!(
        text.contains("Assumed, for nobody has published it") && text.contains("sd-5: flush 5 ms; 4 streams"),
        "{text}"
    );
    assert!(!text.contains("and why"), "{text}");
    let same = (0..6).map(|number| advised(&name(number), 1.0)).collect();
    let text = advice(same).terminal(&Style::PLAIN);
    let text = plain(&text);
    assert!(text.contains("Assumed of sd-0, sd-1"), "{text}");
}

#[test]
fn advice_that_falls_with_most_assumptions_says_so_in_the_answer() {
    let mut device = advised("sd-b", 2.0);
    let falls = |what: &str| Sensitivity { what: what.into(), best: 0, behind: 1.31, stands: false };
    device.sways.extend([falls("writes x0.5"), falls("writes x2")]);
    let shown = advice(vec![device]);
    let text = shown.terminal(&Style::PLAIN);
    assert!(text.contains("Unsure on sd-b") && text.contains("1 of 4, unsure"), "{text}");
    assert!(text.contains("calibrate") && shown.html().contains("unsure: not with"), "{text}");
}

#[test]
fn what_can_be_had_without_other_pages_stands_below_what_has_them() {
    let mut small = tried("wal", "full", Durability::PowerCut, 2.0);
    small.candidate.page_size = 1024;
    let all = vec![
        tried("delete", "full", Durability::PowerCutAllButLast, 10.0),
        small,
        tried("wal", "full", Durability::PowerCut, 4.0),
    ];
    let must = Durability::PowerCutAllButLast;
    let device = DeviceAdvice::of(Some("sd-a".into()), String::new(), all, &Candidate::default(), must);
    let text = advice(vec![device]).terminal(&Style::PLAIN);
    let text = plain(&text);
    assert!(text.contains("use WAL/FULL, 1 KiB pages: 5.0x"), "{text}");
    assert!(text.contains("VACUUM of a database that exists: WAL/FULL is 2.5x"), "{text}");
}
