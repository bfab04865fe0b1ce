use fathom_lab::advise::{LiveTrial, Sensitivity};
use fathom_lab::stats::mean_interval;
use fathom_lab::store::CutFinding;

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
        p99_ns: mean_interval(&[ms * 4.9e6, ms * 5e6, ms * 5.1e6]),
        flushes: ms / 4.0,
        written_bytes: ms * 4096.0,
        writing: Some(500),
        loss: None,
        is_log_felt: None,
        is_apart: false,
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
        over_files: false,
        baseline: Candidate::default(),
        baseline_source: "SQLite's defaults".into(),
        pace_s: None,
        devices,
        hints: vec!["group them".into()],
        notes: Vec::new(),
        missing: vec!["f2fs: not here".into()],
        partial: None,
        live: Vec::new(),
        cuts: Vec::new(),
        command: "fathom advise mail".into(),
    }
}

/// A live trial of what was tried: how fast it is simulated and live, beside what they have now.
fn live_trial(of: &Trial, simulated: f64, live: f64) -> LiveTrial {
    let gain = |ratio: f64| Gain { ratio, low: ratio * 0.99, high: ratio * 1.01, proven: true, n: 5 };
    let is_now = of.candidate == Candidate::default();
    LiveTrial {
        candidate: of.candidate.clone(),
        filesystem: of.filesystem.clone(),
        simulated_ns: of.ns(),
        live_ns: Some(of.time_ns),
        simulated: (!is_now).then(|| gain(simulated)),
        live: (!is_now).then(|| gain(live)),
        live_wall: None,
    }
}

fn live(device: &DeviceAdvice, gains: [(f64, f64); 3]) -> LiveAdvice {
    let trials =
        device.tried.iter().zip(gains).map(|(tried, (simulated, live))| live_trial(tried, simulated, live));
    LiveAdvice::judged("sd-a".into(), 5, trials.collect(), device.best)
}

/// What happened: where what the application has now breaks it, and was never recorded, the table
/// said "as it is" of settings that are others.
#[test]
fn without_a_recording_of_what_they_have_now_no_gain_is_told() {
    let mut device = advised("sd-a", 1.0);
    (device.baseline, device.gain) = (None, None);
    let told = advice(vec![device]);
    let text = told.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("not known") && !text.contains("as it is"), "{text}");
    // "On sd-a use WAL/FULL" alone, where no rollback journal could be simulated, was taken for the
    // best of all.
    assert!(text.contains("use WAL/FULL. How that compares with DELETE/FULL, which the appl"), "{text}");
    // Nor did anybody learn what the advised setting costs the device.
    assert!(text.contains("WAL/FULL: 32 KiB written and 2.00 flushes a transaction that writes."), "{text}");
    let page = told.html();
    assert!(page.contains("<td class=\"n\">not known</td>") && !page.contains(">as it is<"), "{page}");
}

/// The best three were simulated alone, and nobody was told where a live run says another thing.
#[test]
fn live_gains_stand_beside_simulated_ones_and_where_they_disagree_is_said_plainly() {
    let device = advised("sd-a", 1.0);
    let same = live(&device, [(1.0, 1.0), (2.5, 2.45), (5.0, 5.1)]);
    let agreeing = Advice { live: vec![same], ..advice(vec![advised("sd-a", 1.0)]) };
    let text = agreeing.terminal(&Style { width: 400, ..Style::PLAIN });
    for words in [
        "WAL/FULL is 2.45x [2.43, 2.47] as fast as DELETE/FULL live, 2.50x [2.48, 2.52] simulated: live is 2.0 % slower \
         than simulated, too little to matter",
        "WAL/NORMAL is 5.1x [5.0, 5.2] as fast as DELETE/FULL live, 5.0x [5.0, 5.0] simulated: they agree",
        "5 paired blocks",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // What promises less is faster, and nobody asked for that.
    assert!(!text.contains("they disagree") && text.contains("WAL/NORMAL is 5.1x"), "{text}");
    let other = live(&device, [(1.0, 1.0), (2.5, 0.8), (5.0, 0.7)]);
    let disagreeing = Advice { live: vec![other], ..advice(vec![advised("sd-a", 1.0)]) };
    let text = disagreeing.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(
        text.contains("But live runs on sd-a disagree: there DELETE/FULL is faster than WAL/FULL."),
        "{text}"
    );
    assert!(text.contains("simulated: they disagree, live is 68 % slower"), "{text}");
    let json = serde_json::to_value(disagreeing.json()).unwrap();
    assert_eq!(json["advice"]["live"][0]["verdict"], "other-setting", "{json}");
    assert!(disagreeing.html().contains("But live runs on sd-a disagree"));
    let less = live(&device, [(1.0, 1.0), (2.5, 1.5), (5.0, 1.5)]);
    let weaker = Advice { live: vec![less], ..advice(vec![advised("sd-a", 1.0)]) };
    let text = weaker.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("disagree on how much WAL/FULL brings"), "{text}");
    let json = serde_json::to_value(weaker.json()).unwrap();
    assert_eq!(json["advice"]["live"][0]["trials"][1]["live"]["ratio"], 1.5, "{json}");
    assert_eq!(json["advice"]["live"][0]["verdict"], "other-gain", "{json}");
    // "34x [34, 35] live, 33x [32, 34] simulated: THEY DISAGREE" showed nothing of that.
    let near = live(&device, [(1.0, 1.0), (33.3, 34.5), (33.0, 34.0)]);
    let near = Advice { live: vec![near], ..advice(vec![advised("sd-a", 1.0)]) };
    let text = near.terminal(&Style { width: 400, ..Style::PLAIN });
    for words in [
        "34.5x [34.2, 34.8] as fast as DELETE/FULL live",
        "33.3x [33.0, 33.6] simulated: live is 3.6 % faster than simulated, too little to matter",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = serde_json::to_value(near.json()).unwrap();
    assert_eq!(json["advice"]["live"][0]["verdict"], "confirmed", "{json}");
}

/// What happened: of several file systems the answer said "as fast as DELETE/FULL", and not on
/// which; what they have now was "used" where it was to be kept; and a setting for which nothing of
/// what they have now had been run live was itself called "now".
#[test]
fn of_several_file_systems_each_setting_is_named_with_its_own() {
    let on_both = |slowness_of_xfs: f64| {
        let mut all = advised("sd-a", 1.0).tried;
        let on_xfs = advised("sd-a", slowness_of_xfs).tried.into_iter();
        all.extend(on_xfs.map(|trial| Trial { filesystem: "xfs".into(), ..trial }));
        let must = Durability::PowerCutAllButLast;
        DeviceAdvice::of(Some("sd-a".into()), "a card".into(), all, &Candidate::default(), must)
    };
    let device = on_both(0.5);
    let trial = |place: usize| {
        let (of, base) = (&device.tried[place], &device.tried[0]);
        live_trial(of, base.ns() / of.ns(), base.ns() / of.ns())
    };
    let trials = vec![trial(0), trial(4)];
    let live = LiveAdvice::judged("sd-a".into(), 5, trials, Some(1));
    let all = Advice { live: vec![live], ..advice(vec![device.clone()]) };
    let text = all.terminal(&Style { width: 400, ..Style::PLAIN });
    for words in [
        "On sd-a use WAL/FULL on xfs: 5.0x [5.0, 5.0] as fast as DELETE/FULL on ext4",
        "Now: DELETE/FULL on ext4",
        "sd-a, xfs: WAL/FULL is 5.0x",
        "as fast as DELETE/FULL on ext4 live",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let mut alone = trial(4);
    alone.live = None;
    let live = LiveAdvice::judged("sd-a".into(), 5, vec![alone], Some(0));
    let text = Advice { live: vec![live], ..advice(vec![on_both(0.5)]) };
    let text = text.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("sd-a, xfs: WAL/FULL: one transaction"), "{text}");
    let mut kept = on_both(3.0);
    kept.tried.retain(|trial| trial.candidate == Candidate::default());
    let must = Durability::PowerCutAllButLast;
    let kept = DeviceAdvice::of(kept.device, kept.title, kept.tried, &Candidate::default(), must);
    let text = advice(vec![kept]).terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("On sd-a keep DELETE/FULL on ext4"), "{text}");
}

/// What happened: "(too few runs for an interval)" stood behind every gain of every device, some
/// twenty times in one answer.
#[test]
fn that_there_is_no_interval_is_said_once() {
    let with_one_run = |device: &str| {
        let mut device = advised(device, 1.0);
        let bare = |gain: &mut Gain| (gain.low, gain.high, gain.proven) = (0.0, f64::INFINITY, false);
        device.gain.iter_mut().for_each(bare);
        device.weaker.iter_mut().for_each(|weaker| bare(&mut weaker.1));
        device
    };
    let all = advice(vec![with_one_run("sd-a"), with_one_run("sd-b")]);
    let text = all.terminal(&Style { width: 400, ..Style::PLAIN });
    assert_eq!(text.matches("too few runs").count(), 1, "{text}");
    assert!(text.contains("2.5x") && !text.contains("unbounded"), "{text}");
    assert_eq!(all.html().matches("too few runs").count(), 1);
    let told = advice(vec![advised("sd-a", 1.0)]).terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(!told.contains("too few runs"), "{told}");
}

fn cut(journal: &str, lost: bool) -> MeasuredCut {
    let verdict = if lost { fathom_cut::Verdict::Lost(2) } else { fathom_cut::Verdict::Kept };
    let mut tally = fathom_cut::Tally::default();
    tally.add(7, verdict);
    let outcome = fathom_cut::Outcome {
        acknowledged: 150,
        moments: 1,
        in_flight_max: 1,
        exhaustive: 1,
        states_possible: 9,
        states_are_all: Some(false),
        tally,
        mounted: 1,
        wall_ns: 1,
        explanation: None,
        breaks_promise: lost,
        interrupted: false,
    };
    let finding = CutFinding {
        filesystem: "ext4".into(),
        device: "keeps what was flushed, tears at 512 bytes".into(),
        promise: Durability::PowerCut,
        outcome,
    };
    let candidate = Candidate::new(journal, "full");
    MeasuredCut { candidate, filesystem: "ext4".into(), finding: Ok(finding) }
}

/// "What a power cut takes" was the promise alone.
#[test]
fn what_power_cuts_left_stands_beside_the_promise_and_contradicts_it() {
    let with = |cuts: Vec<MeasuredCut>| {
        let all = Advice { cuts, ..advice(vec![advised("sd-a", 1.0)]) };
        all.terminal(&Style { width: 400, ..Style::PLAIN })
    };
    let problem = MeasuredCut { finding: Err("no root".into()), ..cut("delete", false) };
    let text = with(vec![cut("wal", false), problem]);
    for words in [
        "At a power cut, measured",
        "WAL/FULL: in 1 of 9 states after 150 commits on ext4, on a device that keeps what was flushed",
        "none of them breaks the promise",
        "DELETE/FULL: could not be tried, so what stands above is the promise: no root.",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("But WAL"), "{text}");
    let broken = with(vec![cut("wal", true)]);
    assert!(broken.contains("But WAL/FULL takes more at a measured power cut than it promises"), "{broken}");
    assert!(broken.contains("1 of them break the promise (!)"), "{broken}");
    // What they have now is not what is advised.
    assert!(!with(vec![cut("delete", true)]).contains("But DELETE"), "only said below");
}

/// What happened: with `--cut` the command ended as if all were well where a setting had not been
/// tried, and where what the application has now broke its promise.
#[test]
fn power_cuts_that_were_not_tried_or_broke_a_promise_are_a_problem() {
    let of = |cuts: Vec<MeasuredCut>| Advice { cuts, ..advice(vec![advised("sd-a", 1.0)]) }.cut_problem();
    assert_eq!(of(Vec::new()), None, "nobody asked");
    assert_eq!(of(vec![cut("wal", false), cut("delete", false)]), None);
    let untried = || MeasuredCut { finding: Err("no root".into()), ..cut("delete", false) };
    let none_judged = || {
        let mut cut = cut("wal", false);
        if let Ok(found) = &mut cut.finding {
            found.outcome.tally = fathom_cut::Tally::default();
        }
        cut
    };
    let said = of(vec![cut("wal", false), untried()]).unwrap();
    assert_eq!(said, "the power cuts of DELETE/FULL could not be tried");
    assert!(of(vec![none_judged(), untried()]).unwrap().contains("of WAL/FULL and DELETE/FULL could not"));
    // What the application has now, too, and before what could not be tried.
    let said = of(vec![none_judged(), cut("delete", true)]).unwrap();
    assert_eq!(said, "a power cut takes more than the settings promise (!): DELETE/FULL");
}

/// What happened: of WAL for an application with attached databases the promise said that a power
/// cut keeps every commit, and that WAL keeps each file by itself stood at the end alone.
#[test]
fn the_promise_of_wal_says_what_becomes_of_a_transaction_over_several_files() {
    let over = Advice { over_files: true, ..advice(vec![advised("sd-a", 1.0)]) };
    let text = over.terminal(&Style::PLAIN).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("WAL/FULL: a power cut keeps every commit; but one over several files"), "{text}");
    assert!(text.contains("power cut, all, of each file by itself"), "{text}");
    assert!(over.html().contains("power cut, all, of each file by itself"));
    let text = advice(vec![advised("sd-a", 1.0)]).terminal(&Style::PLAIN);
    assert!(!text.contains("several files") && !text.contains("each file"), "{text}");
}

/// What happened: 1.04 times as fast, with an interval of one percent, was named like a gain of ten
/// times; live it was none.
#[test]
fn what_a_simulation_may_be_off_by_is_no_gain_without_a_word() {
    let of = |ms: f64, pages: u32| {
        let mut other = tried("wal", "full", Durability::PowerCut, ms);
        other.candidate.page_size = pages;
        let all = vec![tried("delete", "full", Durability::PowerCutAllButLast, 10.0), other];
        let must = Durability::PowerCutAllButLast;
        let device = DeviceAdvice::of(Some("sd-a".into()), "a card".into(), all, &Candidate::default(), must);
        assert_eq!(device.best, Some(1), "{ms}");
        let text = advice(vec![device]).terminal(&Style::PLAIN);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = of(9.6, 4096);
    assert!(text.contains("What WAL/FULL brings on sd-a is less than the 10 % by which"), "{text}");
    assert!(!text.contains("take a VACUUM:"), "{text}");
    assert!(of(9.5, 1024).contains("and other pages take a VACUUM: `fathom advise TRACE --live`"));
    assert!(!of(5.0, 4096).contains("is less than the"));
}

/// What happened: `--live` that was stopped after its first device took the word on what a
/// simulation may be off by from all of them, and nothing said which were not run.
#[test]
fn what_was_run_live_on_one_device_says_nothing_of_the_others() {
    let of = |name: &str| {
        let slow = tried("delete", "full", Durability::PowerCutAllButLast, 10.0);
        let all = vec![slow, tried("wal", "full", Durability::PowerCut, 9.6)];
        let must = Durability::PowerCutAllButLast;
        DeviceAdvice::of(Some(name.into()), "a card".into(), all, &Candidate::default(), must)
    };
    let told = |live_gain: Option<Gain>| {
        let devices = vec![of("sd-a"), of("sd-b")];
        let mut trials: Vec<LiveTrial> =
            devices[0].tried.iter().map(|trial| live_trial(trial, 1.04, 1.04)).collect();
        trials[1].live = live_gain;
        let live = LiveAdvice::judged("sd-a".into(), 5, trials, devices[0].best);
        plain(&Advice { live: vec![live], ..advice(devices) }.terminal(&Style::PLAIN))
    };
    let gain = Gain { ratio: 1.04, low: 1.03, high: 1.05, proven: true, n: 5 };
    let text = told(Some(gain));
    assert!(text.contains("Simulated, and not run live on sd-b; what a power cut takes"), "{text}");
    assert!(text.contains("brings on sd-b is less than the 10 % by which"), "{text}");
    // Nor do runs that tell nothing.
    for nothing in [None, Some(Gain { low: 0.0, high: f64::INFINITY, proven: false, ..gain })] {
        let text = told(nothing);
        assert!(text.contains("brings on sd-a and sd-b is less than the 10 % by which"), "{text}");
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
        "File system: ext4.",
        "32 KiB written and 2.00 flushes a transaction that writes; DELETE/FULL: 80 KiB and 5.00",
        "per second: transactions, of which 500 of 1000 write",
        "On sd-a the advice stays within 5 % of the best of what was recorded last with flushes x0.5, flushes x2.",
        "On sd-b with flushes x2, DELETE/FULL would be best: 1.31 times",
        "is of one run of each setting, without an interval",
        "Assumed of sd-a and sd-b",
        "not with flushes x2",
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
    assert!(!html.contains("<script>alert") && html.contains("mail &amp; &lt;script&gt;"), "{html}");
    assert_eq!(
        html.matches("<table class=\"sortable close\"").count(),
        2,
        "both tables are sorted by a click"
    );
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
    assert!(!plain(&text).contains("of the best of"), "{text}");
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
    assert!(text.contains("Unsure on sd-b") && text.contains("unsure: not with flushes x2"), "{text}");
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
    // "Nothing is gained" was said of 4 %, proven, and of what nothing is known of.
    let told = |of_plain: &[f64]| {
        let mut small = tried("delete", "full", Durability::PowerCutAllButLast, 2.0);
        small.candidate.page_size = 1024;
        let mut plain = tried("truncate", "full", Durability::PowerCut, 9.6);
        plain.runs = (0..).zip(of_plain.iter().map(|ms| ms * 1e6)).collect();
        let all = vec![tried("delete", "full", Durability::PowerCutAllButLast, 10.0), small, plain];
        let mut device =
            DeviceAdvice::of(Some("sd-a".into()), String::new(), all, &Candidate::default(), must);
        let gain = fathom_lab::advise::gain(&device.tried[2], &device.tried[0]).unwrap();
        device.same_pages = Some((2, gain));
        self::plain(&advice(vec![device]).terminal(&Style::PLAIN))
    };
    assert!(told(&[9.6, 9.61, 9.59]).contains("exists: TRUNCATE/FULL brings less than 5 % on sd-a"));
    // As was of what is a quarter as fast, where what they have now does not keep what must be
    // kept.
    let slower = told(&[40.0, 40.1, 39.9]);
    assert!(
        slower.contains("exists: TRUNCATE/FULL is 0.25") && !slower.contains("less than 5 %"),
        "{slower}"
    );
    let wide = told(&[9.6, 14.0, 7.0]);
    assert!(wide.contains("exists: TRUNCATE/FULL is 1.0") && wide.contains("as fast on sd-a"), "{wide}");
}

/// What happened: "WAL/NORMAL would be 1.5x [0.8, 2.9] as fast as that", with no word that nothing
/// of it is proven; and in the table it stood as if it were.
#[test]
fn what_a_gain_is_not_proven_is_said_wherever_it_stands() {
    let mut device = advised("sd-a", 1.0);
    let wide = Gain { ratio: 1.5, low: 0.8, high: 2.9, proven: false, n: 3 };
    device.weaker.iter_mut().for_each(|weaker| weaker.1 = wide);
    device.gain = Some(wide);
    let shown = advice(vec![device]);
    let text = plain(&shown.terminal(&Style { width: 400, ..Style::PLAIN }));
    assert!(text.contains("as fast as that on sd-a, not proven, but then:"), "{text}");
    assert!(text.contains("~ 1.5x [0.8, 2.9]") && shown.html().contains("~ 1.5x [0.8, 2.9]"), "{text}");
    let proven = Gain { proven: true, low: 1.2, ..wide };
    assert_eq!(unproven(&[proven, proven]), "");
    assert_eq!(unproven(&[wide, wide]), ", not proven");
    assert_eq!(unproven(&[wide, proven]), ", not proven everywhere");
    assert_eq!(unproven(&[]), "");
}

/// What happened: with `--fs vfat --must keep=all` the answer was "use WAL/FULL: a power cut keeps
/// every commit", where explored power cuts left databases that cannot be opened; then it was the
/// same with a word behind it.
#[test]
fn on_a_file_system_that_breaks_promises_only_what_kept_everything_is_named() {
    let on = |filesystem: &str, journal: &str| {
        let mut all = vec![
            tried("delete", "full", Durability::PowerCutAllButLast, 10.0),
            tried(journal, "full", Durability::PowerCut, 4.0),
        ];
        all.iter_mut().for_each(|trial| trial.filesystem = filesystem.into());
        let must = Durability::PowerCut;
        let device = DeviceAdvice::of(Some("sd-a".into()), String::new(), all, &Candidate::default(), must);
        let shown = Advice { must, ..advice(vec![device]) };
        (plain(&shown.terminal(&Style { width: 400, ..Style::PLAIN })), shown.html())
    };
    for (filesystem, journal, is_named) in [
        ("vfat", "wal", false),
        ("vfat", "persist", false),
        ("exfat", "truncate", false),
        ("ntfs3", "truncate", false),
        ("ntfs3", "wal", false),
        ("ext2", "wal", false),
        ("ext2", "persist", true),
        ("jfs", "persist", false),
        ("ext4", "wal", true),
    ] {
        let (text, page) = on(filesystem, journal);
        let place = format!("{filesystem} {journal}: {text}");
        let name = format!("On sd-a use {}/FULL", journal.to_uppercase());
        assert_eq!(text.contains(&name), is_named, "{place}");
        assert_eq!(text.contains("nothing that was tried keeps"), !is_named, "{place}");
        let excepted = match filesystem {
            "ext2" => " but DELETE, TRUNCATE and PERSIST is named",
            _ => " is named",
        };
        let told = format!("On {filesystem} no journal mode{excepted}");
        assert_eq!(text.contains(&told), filesystem != "ext4", "{place}");
        // And not "but at most the last", which DELETE is on ext2.
        let heading =
            "<h5 aria-level=\"4\"><span class=\"swatch\"></span>A power cut keeps every commit</h5>";
        assert_eq!(page.contains(heading), is_named, "{place}");
    }
}

/// What happened: `--must prefix` named settings by their speed, and nobody was told how much of the
/// session each of them may lose.
#[test]
fn how_many_commits_may_be_lost_stands_in_the_promise_the_table_and_the_json() {
    let mut device = advised("sd-a", 1.0);
    let loss = fathom_lab::advise::Loss { commits: 187, is_all: false, is_least: false };
    device.tried[2].loss = Some(loss);
    device.best = Some(2);
    let mut shown = Advice { must: Durability::PowerCutPrefix, ..advice(vec![device]) };
    shown.pace_s = Some(0.5);
    let text = shown.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(
        text.contains("never the database: up to 187 commits (93.5 s at the trace's own pace)"),
        "{text}"
    );
    assert!(text.contains("may lose") && text.contains("187 commits"), "{text}");
    assert!(shown.html().contains("may lose"));
    let json = serde_json::to_value(shown.json()).unwrap();
    assert_eq!(json["advised"][0]["may_lose"]["commits"], 187, "{json}");
    let all = fathom_lab::advise::Loss { commits: 900, is_all: true, is_least: false };
    shown.devices[0].tried[2].loss = Some(all);
    let text = shown.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("all 500 commits of the trace, up to 900 of a longer one"), "{text}");
    // Of two databases one was checkpointed, and "up to 187 commits" was told of both.
    shown.devices[0].tried[2].loss = Some(fathom_lab::advise::Loss { is_least: true, ..loss });
    let text = shown.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(text.contains("at least 187 commits") && text.contains("has several databases"), "{text}");
    assert!(text.contains("187 or more commits") && !text.contains("up to 187"), "{text}");
}

/// What happened: three devices had three settings and three blocks to paste, and no word on which
/// one to ship.
#[test]
fn one_setting_for_all_devices_stands_first_with_its_own_block() {
    let mut other = advised("sd-b", 1.0);
    // There the rollback journal is best.
    for (place, ms) in [(0, 3.9), (1, 4.0)] {
        let again = tried("x", "full", Durability::PowerCut, ms);
        (other.tried[place].runs, other.tried[place].time_ns) = (again.runs, again.time_ns);
    }
    other.best = Some(0);
    let shown = advice(vec![advised("sd-a", 1.0), other]);
    let text = shown.terminal(&Style { width: 400, ..Style::PLAIN });
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    let first = place(
        "One setting for all of them: WAL/FULL. It is within 3 % of the best on each (sd-a as fast; sd-b 3 % longer)",
    );
    assert!(first < place("On sd-a use WAL/FULL"), "{text}");
    assert!(place("Paste, for all of them:") < place("may take"), "{text}");
    assert!(place("Paste, for sd-a alone:") > place("per second: transactions"), "{text}");
    let json = serde_json::to_value(shown.json()).unwrap();
    assert_eq!(json["one_setting"]["advised"], "wal/full/4096", "{json}");
    assert!(shown.html().contains("One setting for all of them"));
}

#[test]
fn a_short_trace_and_longer_waits_are_told() {
    let mut device = advised("sd-a", 1.0);
    device.tried.iter_mut().for_each(|trial| (trial.count, trial.writing) = (30, Some(23)));
    device.tried[1].p99_ns = mean_interval(&[39e6]);
    device.tried[0].p99_ns = mean_interval(&[16e6]);
    let told =
        |device: DeviceAdvice| plain(&advice(vec![device]).terminal(&Style { width: 400, ..Style::PLAIN }));
    let text = told(device.clone());
    assert!(
        text.contains("short for advice: 23 of its transactions write") && text.contains("200 that"),
        "{text}"
    );
    assert!(text.contains("39 ms against 16 ms with DELETE/FULL (now), not proven."), "{text}");
    // One p99 of each was told as a fact, however much it differs from run to run.
    device.tried[1].p99_ns = mean_interval(&[38e6, 39e6, 40e6]);
    device.tried[0].p99_ns = mean_interval(&[15e6, 16e6, 17e6]);
    let text = told(device.clone());
    assert!(text.contains("39.0 ms [36.6, 41.6] against"), "{text}");
    assert!(text.contains(" with DELETE/FULL (now).") && !text.contains("not proven"), "{text}");
    device.tried[0].p99_ns = mean_interval(&[5e6, 16e6, 40e6]);
    assert!(told(device).contains("with DELETE/FULL (now), not proven."));
}

/// What happened: `mkfs -t ntfs3` was told, and there is no mkfs.ntfs3.
#[test]
fn a_file_system_is_made_by_the_program_that_there_is() {
    assert_eq!(on_filesystem("f2fs"), "-- on f2fs: mkfs -t f2fs DEVICE; mount -t f2fs DEVICE DIRECTORY");
    for (name, made) in [("ntfs3", "mkfs -t ntfs "), ("exfat-fuse", "mkfs -t exfat ")] {
        let told = on_filesystem(name);
        assert!(told.contains(made) && told.contains(&format!("mount -t {name} ")), "{told}");
    }
}

/// What happened: without root, where everything is measured on the disk, the answer was
/// "Simulated, and not run live (--live)".
#[test]
fn what_was_measured_here_is_not_called_simulated() {
    let told = |device: DeviceAdvice| plain(&advice(vec![device]).terminal(&Style::PLAIN));
    let here = told(DeviceAdvice { device: None, title: "this disk".into(), ..advised("sd-a", 1.0) });
    assert!(here.contains("Measured on this disk, in wall time. What a power cut takes"), "{here}");
    assert!(!here.contains("Simulated"), "{here}");
    let simulated = told(advised("sd-a", 1.0));
    assert!(simulated.contains("Simulated, and not run live"), "{simulated}");
    assert!(!simulated.contains("Measured on"), "{simulated}");
}

/// What happened: how many transactions there are a second was told without how sure that is.
#[test]
fn a_rate_has_its_interval_where_there_is_room() {
    let shown = advice(vec![advised("sd-a", 1.0)]);
    let wide = shown.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(plain(&wide).contains("sd-a WAL/FULL 250 [249, 251] 2.5x"), "{wide}");
    // What the longest waits are was told without one.
    assert!(plain(&wide).contains("20.0 ms [19.0, 21.0]"), "{wide}");
    let narrow = shown.terminal(&Style { width: 80, ..Style::PLAIN });
    assert!(!narrow.contains("[249, 251]") && narrow.contains("[19.0, 21.0]"), "{narrow}");
    assert!(shown.html().contains("[249, 251]"));
}
