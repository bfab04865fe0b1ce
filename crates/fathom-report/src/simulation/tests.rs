use fathom_lab::stats::mean_interval;

use super::*;

fn row(label: &str, device: &str, ms: f64) -> Row {
    let of = |value: f64| mean_interval(&[value]).unwrap();
    Row {
        cell: 1,
        label: label.into(),
        title: label.into(),
        durability: Some(fathom_workload::spec::Durability::PowerCutPrefix),
        phase: "replay".into(),
        x: None,
        unit: "transaction".into(),
        device: device.into(),
        by_the_device: false,
        count: 10,
        runs: 1,
        draws: 1,
        rate: of(1000.0 / ms),
        model_ns: of(ms * 1e6),
        cpu_ns: 0.1e6,
        device_ns: (ms - 0.1) * 1e6,
        other_ns: 0.0,
        p50_ns: Some(ms * 0.9e6),
        p99_ns: None,
        p99_interval: None,
        p999_ns: None,
        flushes: 1.25,
        written_bytes: 8192.0,
        read_bytes: 0.0,
        of_runs: Vec::new(),
        each_run: Vec::new(),
    }
}

fn simulation(rows: Vec<Row>) -> Simulation {
    let note = vec!["2 threads: <meet>".to_owned()];
    let study = Study {
        rows,
        notes: vec![("wal".into(), note.clone()), ("delete".into(), note)],
        without: vec![("off".into(), "it holds no phase".into())],
        ..Study::default()
    };
    Simulation { title: "mail & <script>".into(), study }
}

/// What happened: the page ranked WAL on FAT among what keeps every commit at a power cut, and said
/// nothing of the databases that were lost there.
#[test]
fn a_file_system_that_breaks_promises_is_told_with_all_that_is_of_it() {
    let mut found = simulation(vec![row("wal", "nvme", 0.5)]);
    found.study.losing = [("wal", "vfat"), ("delete", "vfat"), ("wal 2", "ntfs3")]
        .map(|(label, filesystem)| (label.to_owned(), filesystem.to_owned()))
        .into();
    let text = found.terminal(&Style { width: 400, ..Style::PLAIN });
    for words in ["wal; delete: explored power cuts on vfat left", "wal 2: explored power cuts on ntfs3 left"]
    {
        assert!(text.contains(words), "{words}: {text}");
        assert!(found.html().contains(words), "{words}");
    }
}

/// What happened: "A power cut keeps every commit: WAL/FULL is fastest" was the page's answer on
/// FAT, and that this loses databases there stood at its end.
#[test]
fn what_loses_databases_is_not_fastest_of_what_keeps_every_commit() {
    use fathom_workload::spec::Durability::PowerCut;
    let of = |label: &str, ms| Row { durability: Some(PowerCut), ..row(label, "sd-slow", ms) };
    let mut found = simulation(vec![of("WAL/FULL", 1.0), of("PERSIST/FULL", 4.0)]);
    found.study.losing = vec![("WAL/FULL".into(), "vfat".into())];
    let html = found.html();
    assert!(html.contains("A power cut keeps every commit: PERSIST/FULL is fastest on sd-slow"), "{html}");
    let group = html.split("A power cut may take the database").nth(1).unwrap();
    assert!(group.split("</section>").next().unwrap().contains("WAL/FULL"), "{group}");
    assert!(html.contains("<td class=\"words\">process crash only</td>"), "{html}");
    assert!(found.csv().lines().skip(1).all(|line| line.contains(",power-cut,")), "the settings' promise");
}

#[test]
fn what_has_no_cpu_time_is_not_said_to_have_some() {
    let alone = Row { by_the_device: true, ..row("guest", "nvme", 0.5) };
    let said = |rows: &[Row]| simulation(rows.to_vec()).terminal(&Style::PLAIN).replace("\n  ", " ");
    let (all, none) = (said(&[row("wal", "nvme", 0.5)]), said(std::slice::from_ref(&alone)));
    assert!(all.contains("with the CPU time of the recording") && !all.contains("alone"), "{all}");
    assert!(
        none.contains("of the device alone, without CPU time") && !none.contains("with the CPU"),
        "{none}"
    );
    let both = said(&[row("wal", "nvme", 0.5), alone]);
    assert!(both.contains("with the CPU time of the recording, but for what"), "{both}");
}

#[test]
fn the_fastest_device_comes_first_and_every_bar_has_its_number() {
    let shown = simulation(vec![row("wal", "sd-slow", 20.0), row("wal", "nvme", 0.5)]);
    let text = shown.terminal(&Style::PLAIN);
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} in {text}"));
    assert!(place("nvme") < place("sd-slow") && text.contains("2,000") && text.contains("20 ms"), "{text}");
    assert!(text.contains("wal; delete: 2 threads") && text.contains("off: not simulated"), "{text}");
    let svg = shown.svg();
    assert!(svg.contains(crate::SVG_MARK) && svg.contains("mail &amp; &lt;script&gt; on 2 devices"), "{svg}");
    assert!(svg.find("nvme").unwrap() < svg.find("sd-slow").unwrap() && svg.contains(">2,000 <"), "{svg}");
    let near = simulation(vec![row("wal", "a", 2.0), row("wal", "b", 4.0)]).svg();
    let lengths: Vec<f64> = near
        .lines()
        .filter(|line| line.starts_with("<rect") && line.contains("height=\"12.0\""))
        .map(|line| line.split(" width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(lengths.len(), 2);
    assert!((lengths[0] / lengths[1] - 2.0).abs() < 0.01, "from zero: {lengths:?}");
    let html = shown.html();
    assert!(html[..4096.min(html.len())].contains(crate::HTML_MARK), "it may be replaced by a later one");
    assert!(!html.contains("mail & <script>") && html.contains("mail &amp; &lt;script&gt; on 2"), "{html}");
    assert!(html.contains("2 threads: &lt;meet&gt;"), "{html}");
    assert!(
        html.contains("wal: 50 (sd-slow) to 2,000 (nvme) transactions per second of model time."),
        "{html}"
    );
}

/// What happened: the page had a style of its own, a title that ended in the middle of a word, and
/// bars in the order of the plan, whatever they promised.
#[test]
fn the_page_ranks_settings_of_each_device_by_promise() {
    use fathom_workload::spec::Durability::{PowerCut, PowerCutPrefix};
    let of = |label: &str, durability, ms| Row { durability: Some(durability), ..row(label, "sd-slow", ms) };
    let rows = vec![
        of("WAL/NORMAL", PowerCutPrefix, 1.0),
        of("DELETE/EXTRA", PowerCut, 20.0),
        of("WAL/FULL", PowerCut, 5.0),
        Row { durability: Some(PowerCut), ..row("WAL/FULL", "nvme", 0.5) },
    ];
    let html = simulation(rows).html();
    let opening =
        html.split("<section class=\"opening\">").nth(1).unwrap().split("id=\"h-values\"").next().unwrap();
    let says = "A power cut keeps every commit: WAL/FULL is fastest on sd-slow and nvme: 200 (sd-slow) to 2,000 (nvme) \
                transactions per second of model time.";
    assert!(opening.contains(says), "{opening}");
    let panels: Vec<&str> = opening.split("<h4>").skip(1).collect();
    assert_eq!(panels.len(), 2, "one for each device");
    let place = |words: &str| panels[0].find(words).unwrap_or_else(|| panic!("{words}: {}", panels[0]));
    let order = ["keeps every commit", "WAL/FULL", "DELETE/EXTRA", "may take the last commits", "WAL/NORMAL"]
        .map(place);
    assert!(order.is_sorted(), "{order:?}");
    assert!(
        html.contains("table class=\"sortable close\"") && html.contains("aria-sort"),
        "it is sorted by a click"
    );
    // What is as good as equal is not ranked in the sentence, and the trace's name, which is the
    // title, not repeated.
    let near = vec![
        of("mail & <script> WAL/FULL ext4", PowerCut, 5.0),
        of("mail & <script> WAL/FULL xfs", PowerCut, 5.1),
    ];
    let near = simulation(near).html();
    let says = "WAL/FULL ext4 and WAL/FULL xfs are fastest, within 5 % of each other, on sd-slow: 196 to 200 transactions";
    assert!(near.contains(&format!("<p class=\"finding\">A power cut keeps every commit: {says}")), "{near}");
    assert!(near.contains("<bdi>WAL/FULL xfs</bdi>"), "{near}");
    // What happened: the faster by 10 % "is fastest", although their intervals are wider than that.
    let wide = |label: &str, rates: [f64; 3]| {
        let rate = mean_interval(&rates).unwrap();
        Row { rate, ..of(label, PowerCut, 1000.0 / rate.mid) }
    };
    let unproven = vec![wide("WAL/FULL", [150.0, 200.0, 250.0]), wide("DELETE/EXTRA", [140.0, 180.0, 220.0])];
    let unproven = simulation(unproven).html();
    let says = "WAL/FULL and DELETE/EXTRA are fastest, and their order is not proven, on sd-slow:";
    assert!(unproven.contains(says), "{unproven}");
    // Of one recording each "is fastest" was told as if it were proven.
    let bare = "<p class=\"finding\">Which is fastest is told by the means of fewer than three recordings";
    assert!(html.contains(bare), "{html}");
    let proven = ["WAL/FULL", "DELETE/EXTRA"].map(|label| Row { runs: 3, ..of(label, PowerCut, 5.0) });
    assert!(!simulation(proven.to_vec()).html().contains(bare));
    // The report's style, not another one.
    assert!(html.contains(".ranking .track") && html.contains("prefers-color-scheme: dark"));
}

/// What happened: a server's cell, which is replayed without CPU time, was "fastest" beside cells
/// that have theirs, and nothing in the CSV told them apart.
#[test]
fn what_has_no_cpu_time_is_no_rival_of_what_has_some() {
    let alone = Row { by_the_device: true, ..row("server", "nvme", 0.5) };
    let both = simulation(vec![row("wal", "nvme", 1.0), row("delete", "nvme", 4.0), alone.clone()]);
    let html = both.html();
    assert!(html.contains("wal is fastest on nvme: 1,000 transactions"), "{html}");
    assert!(html.contains("<p class=\"finding\">Not compared with these"), "{html}");
    assert!(html.contains("nvme, by the device alone"), "{html}");
    let ends: Vec<String> =
        both.csv().lines().map(|line| line.rsplit(',').next().unwrap().to_owned()).collect();
    assert_eq!(ends, ["by_the_device", "0", "0", "1"]);
    // Where all are alike, they are compared.
    let of_devices = simulation(vec![alone.clone(), Row { title: "other".into(), ..alone }]).html();
    assert!(!of_devices.contains("Not compared") && of_devices.contains("server"), "{of_devices}");
}

#[test]
fn a_long_title_is_whole_in_the_picture() {
    let mut shown = simulation(vec![row("wal", "sd-slow", 20.0), row("wal", "nvme", 0.5)]);
    shown.title = "Journal mode and synchronous setting: one-row commits where you are".into();
    let svg = shown.svg();
    let body = svg.split("</desc>").nth(1).unwrap();
    let texts: Vec<&str> =
        body.split("</text>").filter_map(|part| part.rsplit_once('>')).map(|pair| pair.1).collect();
    assert!(
        texts.iter().all(|text| crate::canvas::text_width(text, 10.0) <= crate::canvas::WIDTH),
        "{texts:?}"
    );
    assert!(
        texts.join(" ").contains(&format!("{} on 2 devices: Transactions per second", shown.title)),
        "{texts:?}"
    );
}

#[test]
fn csv_has_a_line_for_each_device_with_as_many_fields_as_its_head() {
    let csv = simulation(vec![row("wal, full", "sd-slow", 20.0), row("wal", "nvme", 0.5)]).csv();
    let mut lines = csv.lines();
    let heads = lines.next().unwrap().split(',').count();
    assert_eq!(lines.next().unwrap().replace("\"wal, full\"", "wal").split(',').count(), heads);
    assert_eq!(lines.next().unwrap().split(',').count(), heads);
    let hostile = simulation(vec![row("=cmd", "nvme", 0.5)]).csv();
    assert!(hostile.contains("'=cmd") && !hostile.contains(",=cmd"), "{hostile}");
    assert!(csv.contains("power-cut-prefix") && lines.next().is_none(), "{csv}");
}

/// p99 had no interval, however many runs were recorded.
#[test]
fn p99_has_its_interval_beside_it() {
    let p99_interval = mean_interval(&[2e6, 4e6, 8e6]);
    let told = Row { p99_ns: Some(4e6), p99_interval, runs: 3, ..row("wal", "nvme", 0.5) };
    let simulation = simulation(vec![told.clone()]);
    let interval = number::time_interval_of(&p99_interval.unwrap());
    assert!(simulation.terminal(&Style::PLAIN).contains(&format!("ms {interval}")));
    assert!(!simulation.terminal(&Style { width: 80, ..Style::PLAIN }).contains(&interval));
    let csv = simulation.csv();
    let (head, line) = csv.split_once("\r\n").unwrap();
    assert!(head.contains(",p99_ns,p99_low_ns,p99_high_ns,p999_ns,"), "{head}");
    assert_eq!(head.split(',').count(), line.trim_end().split(',').count(), "{csv}");
    let one = Row { p99_interval: None, ..told };
    assert_eq!((p99(&one, true), p99(&row("wal", "nvme", 0.5), true)), (number::time(4e6), String::new()));
}

/// Cells of two workloads may have a phase of one name: operations on files were ranked among
/// transactions, and were the fastest of them.
#[test]
fn what_is_counted_in_another_unit_is_no_rival() {
    let file = Row { unit: "operation".into(), ..row("files", "nvme", 0.1) };
    let html = simulation(vec![row("wal", "nvme", 1.0), row("delete", "nvme", 2.0), file]).html();
    assert!(html.contains("wal is fastest on nvme: 1,000 transactions"), "{html}");
    assert!(html.contains("nvme, transactions") && html.contains("nvme, operations"), "{html}");
}
