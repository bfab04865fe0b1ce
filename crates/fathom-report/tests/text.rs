//! What the report says in the terminal and in files, from synthetic results.

#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::results;

use fathom_lab::store::Results;
use fathom_report::{ReportError, Style};

/// What happened: of runs that were done, and had executed nothing, it was said that none was
/// completed.
#[test]
fn runs_that_executed_nothing_were_completed() {
    let (_directory, mut results) = results(fixture::first_look);
    results.phases.clear();
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    assert!(text.contains("executed nothing") && !text.contains("No run was completed"), "{text}");
    results.runs.clear();
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    assert!(text.contains("No run was completed"), "{text}");
}

#[test]
fn the_first_look_answers_in_a_table_and_three_sentences() {
    let (_directory, results) = results(fixture::first_look);
    let style = Style { width: 112, unicode: true, colour: false };
    let text = fathom_report::terminal(&results, &style).unwrap();
    println!("{text}");
    let heads: Vec<&str> =
        text.lines().nth(1).unwrap().split("  ").map(str::trim).filter(|w| !w.is_empty()).collect();
    assert_eq!(
        heads,
        [
            "journal",
            "sync",
            "per s",
            "[95 %]",
            "p99",
            "where the time goes",
            "power cut keeps",
            "crash keeps"
        ]
    );
    let line = |start: &str| text.lines().find(|l| l.trim_start().starts_with(start)).unwrap().to_string();
    let delete = line("DELETE    FULL");
    assert!(delete.contains("▇▇▇▇▇▇▇▇░░ 80 % fsync") && delete.contains("all but 1*"), "{delete}");
    assert!(line("WAL       NORMAL").contains("a prefix"));
    assert!(line("MEMORY    OFF").contains("nothing sure"));
    assert!(text.contains("Use WAL with FULL. Here it commits 3."), "{text}");
    // Where lines break is the width's business.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("and may lose the last commits at a power cut, never the database."), "{text}");
    assert!(words.contains("* DELETE with FULL does not sync the directory"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 112), "{text}");
    // On a narrow terminal the table leaves out detail, and no line of it wraps.
    for (width, kept, left_out) in [(100, "p99", "▇"), (80, "[95 %]", "p99")] {
        let narrow = fathom_report::terminal(&results, &Style { width, ..style }).unwrap();
        println!("{narrow}");
        assert!(narrow.lines().all(|l| l.chars().count() <= width), "{narrow}");
        let table = narrow.split("\n\n").next().unwrap();
        assert!(table.contains(kept) && !table.contains(left_out), "{narrow}");
    }
    // In a pipe: no bars of blocks, no colours.
    let plain = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    assert!(plain.contains("########.. 80 % fsync") && !plain.contains(['▇', '\x1b']));
}

#[test]
fn a_difference_that_is_not_there_is_not_claimed() {
    // Two measurements of the same thing, and one in which syncs cost a third more.
    let (_a, a) = results(|p| fixture::journal_modes(p, 1.0));
    let (_b, b) = results(|p| fixture::journal_modes(p, 1.33));
    let same = fathom_report::compare_terminal(&a, &a, &Style::PLAIN).unwrap();
    assert!(same.contains("0 faster, 0 slower, 57 not proven different (~), of 57."), "{same}");
    assert!(same.lines().filter(|l| l.contains("~ 1.00x [")).count() == 57, "{same}");
    let slower = fathom_report::compare_terminal(&a, &b, &Style::PLAIN).unwrap();
    println!("{slower}");
    assert!(slower.contains("0 faster, 57 slower, 0 not proven"), "{slower}");
}

#[test]
fn csv_and_json_hold_every_cell_and_agree() {
    let (_directory, results) = results(|p| fixture::journal_modes(p, 1.0));
    let mut csv = Vec::new();
    fathom_report::csv(&results, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let rows: Vec<Vec<&str>> =
        csv.split("\r\n").filter(|l| !l.is_empty()).map(|l| l.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + 19 * 3);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let mut json = Vec::new();
    fathom_report::json(&results, false, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["cells"].as_array().unwrap().len(), 20);
    let measure = &json["cells"][0]["measures"][0];
    let rate: f64 = rows[1][column("rate_per_s")].parse().unwrap();
    assert_eq!(measure["rate_per_s"].as_f64(), Some(rate));
    // The parts add up to the time.
    let parts: f64 = ["cpu_ns", "read_ns", "write_ns", "sync_ns", "other_ns"]
        .iter()
        .map(|name| rows[1][column(name)].parse::<f64>().unwrap())
        .sum();
    let time: f64 = rows[1][column("time_ns")].parse().unwrap();
    assert!((parts / time - 1.0).abs() < 0.05, "{parts} {time}");
    assert!(json["cells"].as_array().unwrap().iter().any(|c| c["skipped"].is_string()));
}

/// A phone that was slowed down in one run: only the begin and the end of the whole experiment were
/// kept, and no report said which runs to doubt.
#[test]
fn the_runs_in_which_a_machine_was_slowed_down_are_named_with_how_much() {
    use fathom_lab::machine_state::{MachineState, ProcessorClocks};
    let (_directory, mut results) = results(fixture::first_look);
    let cell = results.runs[6].cell;
    let (total, label) = (results.runs.len(), results.cell(cell).unwrap().label.clone());
    let state = |temperature_mc, limit_khz, is_on_battery| MachineState {
        battery_percent: Some(80),
        is_on_battery: Some(is_on_battery),
        temperature_mc: Some(temperature_mc),
        clocks: vec![ProcessorClocks {
            cpus: vec![6, 7],
            limit_khz: Some(limit_khz),
            ..ProcessorClocks::default()
        }],
        ..MachineState::default()
    };
    for run in &mut results.runs {
        run.conditions.begin = state(38_000, 2_841_600, false);
        run.conditions.end = state(41_000, 2_841_600, false);
    }
    results.runs[6].conditions.end = state(61_000, 1_900_800, true);
    let page = fixture::page(&results);
    for part in [
        format!("was lower in run 7 of {total} than in others: lowest in run 7 ({label}, repeat "),
        "where cpu6 might have 1900 of 2841 MHz, at 61 °C".into(),
        format!("ran from its battery in run 7 of {total}, down to 80 %"),
        format!("and at 61 °C after run 7 ({label}"),
        "<td><bdi>2841 MHz → 1900 MHz</bdi></td>".into(),
    ] {
        assert!(page.contains(&part), "{part}");
    }
    let (mut csv, mut json) = (Vec::new(), Vec::new());
    fathom_report::csv(&results, &mut csv).unwrap();
    fathom_report::json(&results, false, &mut json).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",clock_high_khz,governor,fixed_performance"), "{csv}");
    let ends = |limit: &str| format!("80,{limit},,,,");
    let slowed = csv.lines().filter(|line| line.ends_with(&ends("1,61,,1900800,2841600"))).count();
    let others = csv.lines().filter(|line| line.ends_with(&ends("0,41,,2841600,2841600"))).count();
    assert!(slowed > 0 && slowed + others + 1 == csv.lines().count(), "{csv}");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let runs = json["conditions"].as_array().unwrap();
    assert_eq!(runs.len(), total);
    assert_eq!(runs[6]["number"], 7);
    assert_eq!(runs[6]["cell"], cell);
    assert_eq!(runs[6]["end"]["clocks"][0]["limit_khz"], 1_900_800);
    // Who tells nothing has no table, and no columns.
    results.runs.iter_mut().for_each(|run| run.conditions = Default::default());
    assert!(!fixture::page(&results).contains("id=\"conditions\""));
    let mut csv = Vec::new();
    fathom_report::csv(&results, &mut csv).unwrap();
    assert!(!String::from_utf8(csv).unwrap().contains("battery_percent"));
}

/// The same of what Android, a board's firmware and governors tell. What a firmware has held since
/// a run before was no matter of the runs that followed.
#[test]
fn runs_under_other_conditions_are_named_by_what_differed() {
    use fathom_lab::machine_state::{Conditions, MachineState, ProcessorClocks};
    let (_directory, mut results) = results(fixture::first_look);
    let total = results.runs.len();
    let mut page = |of: &dyn Fn(usize) -> MachineState| {
        for (number, run) in (1..).zip(&mut results.runs) {
            run.conditions = Conditions { begin: MachineState::default(), end: of(number) };
        }
        fixture::page(&results)
    };
    let hot = page(&|number| MachineState {
        thermal_status: Some(u64::from(number > 10)),
        ..MachineState::default()
    });
    let said = format!("was 0 in runs 1 to 10 of {total} and up to 1 in runs 11 to {total} of {total}");
    assert!(hot.contains(&said), "{said}");
    for bits in [0x50005, 0x10000] {
        let board = page(&|number| MachineState {
            throttled: Some(if number < 3 {
                0
            } else {
                bits & (0xffff_0000 | (u64::from(number == 3) * 0xf))
            }),
            ..MachineState::default()
        });
        let said = format!("voltage too low, in run 3 of {total} and not in others");
        assert!(board.contains(&said), "{bits:#x}: {said}");
    }
    let governors = page(&|number| {
        let governor = Some(if number == 2 { "performance" } else { "schedutil" }.to_owned());
        let clocks = vec![ProcessorClocks { cpus: vec![0], governor, ..ProcessorClocks::default() }];
        MachineState { clocks, ..MachineState::default() }
    });
    let said = format!("performance in run 2 of {total} and schedutil in runs 1 and 3 to {total} of {total}");
    assert!(governors.contains(&said), "{said}");
    let steady = page(&|_| MachineState { temperature_mc: Some(40_000), ..MachineState::default() });
    for words in ["was another from run", "hottest zone was at", "was lower in run", "from its battery in"] {
        assert!(!steady.contains(words), "{words}");
    }
}

#[test]
fn json_brings_single_executions_when_asked() {
    let (_directory, results) = results(|p| fixture::update_cost(p, 20));
    let mut json = Vec::new();
    fathom_report::json(&results, true, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let samples: usize =
        json["cells"].as_array().unwrap().iter().map(|c| c["samples"].as_array().unwrap().len()).sum();
    assert_eq!(samples as u64, results.sample_count().unwrap());
    assert_eq!(
        json["cells"][0]["samples"][0].as_array().unwrap().len(),
        json["sample_columns"].as_array().unwrap().len()
    );
}

#[test]
fn every_figure_has_a_static_svg_in_the_colours_of_the_page() {
    let (_directory, results) = results(fixture::time_split);
    let figures = fathom_report::figures(&results).unwrap();
    assert_eq!(figures.len(), 6, "four of the experiment, the ranking and the latencies");
    for (id, title) in &figures {
        let svg = fathom_report::figure_svg(&results, id).unwrap();
        assert!(svg.starts_with("<svg xmlns") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains(title.as_str()) && !svg.contains("NaN") && !svg.contains("inf"), "{id}: {svg}");
    }
    let split = fathom_report::figure_svg(&results, "P2-F4").unwrap();
    assert!(split.contains("#0b5a9c") && split.contains("% fsync"));
    let unknown = fathom_report::figure_svg(&results, "P9").unwrap_err();
    assert!(matches!(unknown, ReportError::NoSuchFigure { .. }));
    assert!(unknown.to_string().contains("P2-F3"), "{unknown}");
}

/// What happened: of runs that scatter a bar was 13.1 ms long where the tables had 9.92 ms: the one
/// was an arithmetic mean, and all others are geometric ones.
#[test]
fn a_bar_of_a_split_is_as_long_as_the_tables_say() {
    let (_directory, mut results) = results(fixture::first_look);
    for phase in results.phases.iter_mut().filter(|phase| phase.run % 3 == 0) {
        let split = &mut phase.summary.split;
        let calls = [&mut split.read_ns, &mut split.write_ns, &mut split.sync_ns, &mut split.other_ns];
        calls.into_iter().chain([&mut split.wall_ns, &mut split.cpu_ns]).for_each(|ns| *ns *= 4);
    }
    let page = fixture::page(&results);
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let figures = data["figures"].as_array().unwrap();
    let split = figures.iter().find(|figure| figure["kind"] == "split").unwrap();
    for mark in split["marks"].as_array().unwrap() {
        let parts: f64 = mark["parts"].as_array().unwrap().iter().map(|ns| ns.as_f64().unwrap()).sum();
        let told = mark["mid"].as_f64().unwrap();
        assert!((parts / told - 1.0).abs() < 1e-4, "{parts} ns, and {told} in the tables");
    }
}

/// What happened: the page cut such an interval, and the drawn figure did not.
#[test]
fn a_drawn_figure_says_that_an_interval_is_cut_as_the_page_does() {
    const SAID: &str = "an interval without a bar at its end reaches beyond what is drawn";
    let (_directory, mut results) = results(fixture::first_look);
    let of = |results: &Results| fathom_report::figure_svg(results, "rate").unwrap().contains(SAID);
    assert!(!of(&results));
    results.phases[0].summary.wall_ns *= 1000;
    assert!(of(&results), "one run of five took a thousand times as long");
}

/// The experiment also describes figures of replayed traces; these results replayed none.
#[test]
fn a_figure_of_phases_that_nobody_ran_is_left_out() {
    let (_directory, results) = results(|path| fixture::journal_modes(path, 1.0));
    let ids: Vec<String> = fathom_report::figures(&results).unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["P4-T3", "P4-split", "ranking"]);
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let (_directory, results) = results(fixture::hostile);
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    assert!(!text.contains(['\u{202e}', '\x1b']), "{text}");
    let mut csv = Vec::new();
    fathom_report::csv(&results, &mut csv).unwrap();
    assert!(String::from_utf8(csv).unwrap().contains("\"\"\"><img src=x onerror=window.broken=6>"));
}

#[test]
fn requests_are_the_same_in_csv_and_json() {
    let (_directory, results) = results(|p| fixture::blocks(p, 500));
    let (mut csv, mut json) = (Vec::new(), Vec::new());
    fathom_report::requests_csv(&results, &mut csv).unwrap();
    fathom_report::requests_json(&results, &mut json).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let whole: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::Bool(flag) => u8::from(*flag).to_string(),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (mut lines, mut rows) = (csv.lines(), 0);
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(
        head[3..].join(","),
        whole["columns"].as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(",")
    );
    for run in whole["runs"].as_array().unwrap() {
        for request in run["requests"].as_array().unwrap() {
            let fields: Vec<String> = request.as_array().unwrap().iter().map(text).collect();
            let line = lines.next().unwrap();
            let start = format!("{},", run["cell"]);
            assert!(
                line.starts_with(&start) && line.ends_with(&format!(",{}", fields.join(","))),
                "{line} {fields:?}"
            );
            rows += 1;
        }
    }
    assert_eq!((rows, lines.next()), (503, None));
    assert_eq!(whole["runs"][0]["phases"][1]["phase"], "update");
    assert_eq!(whole["runs"][0]["remarks"][0], "a <b>remark</b>");
    assert_eq!(String::from_utf8(json).unwrap().lines().count(), 503 + 3, "one request a line");
}

#[test]
fn address_over_time_can_be_printed() {
    let (_directory, results) = results(|p| fixture::blocks(p, 50_000));
    let figures = fathom_report::figures(&results).unwrap();
    let addresses: Vec<&str> =
        figures.iter().map(|(id, _)| id.as_str()).filter(|id| id.starts_with("address-")).collect();
    assert_eq!(addresses.len(), 2, "{figures:?}");
    let svg = fathom_report::figure_svg(&results, addresses[0]).unwrap();
    assert!(svg.len() < 2_000_000 && svg.matches("<rect").count() <= 12_000 + 30, "{}", svg.len());
    for words in [
        "50,000 requests, drawn as",
        "rollback journal",
        "file system journal",
        "flushes",
        "MiB",
        ">insert<",
        ">update<",
    ] {
        assert!(svg.contains(words), "{words}: {}", &svg[..3000]);
    }
    assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    let files = fathom_report::figure_svg(&results, addresses[1]).unwrap();
    assert!(files.contains("3 requests; address within the files") && files.contains("syncs"), "{files}");
    let error = fathom_report::figure_svg(&results, "address-99").unwrap_err().to_string();
    assert!(error.contains(addresses[0]), "{error}");
}

/// The terminal's table, the sentences, CSV and JSON of results on a modelled device: model time
/// first, wall time beside it.
#[test]
fn model_time_comes_first_and_wall_time_stands_beside_it() {
    let (_directory, results) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let style = Style { width: 120, unicode: true, colour: false };
    let text = fathom_report::terminal(&results, &style).unwrap();
    println!("{text}");
    let head = text.lines().nth(1).unwrap();
    assert!(head.contains("per s, model") && head.contains(" wall "), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("in model time ("), "{text}");
    assert!(words.contains("Model time leaves that out"), "{text}");
    let (mut csv, mut json) = (Vec::new(), Vec::new());
    fathom_report::csv(&results, &mut csv).unwrap();
    fathom_report::json(&results, false, &mut json).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.trim_end().split(',').collect()).collect();
    let field = |row: usize, name: &str| {
        let column = rows[0].iter().position(|row| *row == name).unwrap_or_else(|| panic!("{name}"));
        rows[row][column]
    };
    let number = |row, name| field(row, name).parse::<f64>().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    for row in 1..rows.len() {
        assert_eq!((field(row, "clock"), field(row, "device_flushes")), ("model", "2.0"));
        // The model has half of what was measured, and none of the machine's days.
        let share = number(row, "wall_rate_per_s") / number(row, "rate_per_s");
        assert!((share - 0.5).abs() < 0.02, "{share}");
        let parts: f64 =
            ["model_cpu_ns", "model_device_ns", "model_other_ns"].map(|name| number(row, name)).iter().sum();
        assert!((parts / number(row, "model_ns") - 1.0).abs() < 1e-4);
        assert!((number(row, "model_p99_ns") / number(row, "p99_ns") - 0.5).abs() < 0.05);
    }
    let measure = &json["cells"][0]["measures"][0];
    assert_eq!(
        (measure["clock"].as_str(), measure["rate_per_s"].as_f64()),
        (Some("model"), Some(number(1, "rate_per_s")))
    );
    assert_eq!(
        json["findings"].as_array().unwrap().len(),
        rows.len().min(json["findings"].as_array().unwrap().len())
    );
    let mut page = Vec::new();
    fathom_report::html(&results, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("per second, model time</th><th scope=\"col\" class=\"n\">wall time</th>"));
    assert!(page.contains("transactions per second, model time"), "the figure says what it shows");
    assert!(page.contains("time of one transaction, model time"), "and so do a split and a series");
    assert!(!page.contains("time of one transaction, wall time"));
    // All three showed wall times on a modelled device; an ECDF and a series of single executions.
    for (id, _) in fathom_report::figures(&results).unwrap() {
        let svg = fathom_report::figure_svg(&results, &id).unwrap();
        assert!(svg.contains("model time") && !svg.contains("wall time"), "{id}: {svg}");
    }
    let svg = fathom_report::figure_svg(&results, &fathom_report::figures(&results).unwrap()[0].0).unwrap();
    assert!(svg.contains("model time"), "{svg}");
}

fn compared(a: &Results, b: &Results, allowed: f64) -> fathom_report::Comparison {
    use fathom_lab::analysis::{Analysis, Question, Side, changes};
    let sides = [a, b].map(|results| Side::of(results, &Analysis::of(results).unwrap()));
    let changes = changes(&sides[0], &sides[1], &Question::default()).unwrap();
    let names = ["a.db".to_owned(), "b<script>&.db".to_owned()];
    fathom_report::Comparison { names, sides, changes, allowed: Some(allowed) }
}

/// What happened: `lifetime` asked how many bytes each application writes, and its report answered
/// with transactions per second, in the sentences and in the opening picture.
#[test]
fn who_asks_for_bytes_is_answered_in_bytes() {
    let (_directory, mut results) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let asked = "[[headline]]\nphase = \"update\"\nmetric = \"bytes\"\naxis = \"variants\"\n\
                 baseline = \"delete/full\"\nagainst = [\"wal/full\"]\n\n[[headline]]";
    results.experiment.source = results.experiment.source.replacen("[[headline]]", asked, 1);
    let wal = results.cells.iter().find(|cell| cell.label == "wal/full").unwrap().id;
    let runs: Vec<i64> = results.good_runs(wal).map(|run| run.id).collect();
    for of_run in results.models.iter_mut().filter(|of_run| runs.contains(&of_run.run)) {
        of_run.model.bytes[1] /= 2;
    }
    let text = |results: &Results| {
        let text = fathom_report::terminal(results, &Style::PLAIN).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = text(&results);
    let half = "WAL/FULL writes 0.50x [0.50, 0.50] of the bytes that DELETE/FULL writes (update).";
    assert!(told.contains(half), "{told}");
    let picture = fathom_report::figure_svg(&results, "ranking").unwrap();
    let title = "Bytes that one transaction writes to the device (update), less is better";
    assert!(picture.contains(title), "{picture}");
    assert!(picture.contains(" KiB"), "{picture}");
    // The same bytes are no difference, and where none were counted the speed is told.
    for of_run in &mut results.models {
        of_run.model.bytes[1] = 8192 * of_run.model.operations[1] / 2;
    }
    let same =
        "WAL/FULL and DELETE/FULL show no proven difference of the bytes that they write (update): ~ 1.00x";
    assert!(text(&results).contains(same));
    results.models.clear();
    let told = text(&results);
    assert!(told.contains("faster than DELETE/FULL (update") && !told.contains("of the bytes"), "{told}");
    let picture = fathom_report::figure_svg(&results, "ranking").unwrap();
    assert!(!picture.contains("Bytes that"), "{picture}");
}

/// What happened: a comparison of results with a library of the machine and of the one that is
/// built in named neither's version, and a report of both on an axis did not say which is which.
#[test]
fn the_engines_versions_are_told_where_libraries_are_compared() {
    let (_a, mut a) = results(fixture::first_look);
    let (_b, b) = results(fixture::first_look);
    let own = b.runs.iter().find_map(|run| run.engine.clone()).unwrap().version;
    let engines = a.runs.iter_mut().filter_map(|run| run.engine.as_mut());
    engines.for_each(|engine| engine.version = "3.40.1".into());
    let told = compared(&a, &b, 0.1).terminal(&Style::PLAIN);
    let one_line = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(&format!("engine differs: SQLite 3.40.1 in A, SQLite {own} in B")), "{told}");
    for of_side in [", SQLite 3.40.1)".to_owned(), format!(", SQLite {own})")] {
        assert!(one_line.contains(&of_side), "{told}");
    }
    assert!(!compared(&b, &b, 0.1).terminal(&Style::PLAIN).contains("engine differs"));
    // On an axis each library has its version.
    let (first, rest) = a.cells.split_first_mut().unwrap();
    first.axes.insert("engine.library".into(), "/usr/lib/old.so".into());
    for cell in rest {
        cell.axes.insert("engine.library".into(), "bundled".into());
        let of_cell = a.runs.iter_mut().filter(|run| run.cell == cell.id);
        of_cell.filter_map(|run| run.engine.as_mut()).for_each(|engine| engine.version.clone_from(&own));
    }
    let both = format!("SQLite 3.40.1 (/usr/lib/old.so) and SQLite {own} (bundled)");
    let text = fathom_report::terminal(&a, &Style::PLAIN).unwrap();
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&both), "{text}");
}

#[test]
fn a_gate_says_the_same_on_the_terminal_as_markdown_as_junit_and_as_json() {
    use fathom_lab::analysis::Judgement;
    let (_a, a) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let (_b, b) = results(|path| fixture::modelled(path, 1.0, 2.5));
    let fine = compared(&a, &a, 0.5);
    assert_eq!(fine.judged(), Judgement::Fine);
    assert_eq!(fine.decision(), ["Fine: none of 18 is slower by more than 50 %."]);
    let slower = compared(&a, &b, 0.2);
    assert_eq!(slower.judged(), Judgement::Slower);
    let decision = slower.decision();
    assert_eq!(decision.len(), 6, "two cells in three phases: {decision:#?}");
    assert_eq!(
        decision[0],
        "Slower: DELETE/FULL, insert: flushes of one transaction are 1.25x [1.25, 1.25] of A's (2.00 → 2.50), more than the 20 % allowed."
    );
    let table = slower.terminal(&Style::PLAIN);
    println!("{table}");
    assert!(table.contains("0 better, 6 worse") && table.contains("1.25x [1.25, 1.25] more"), "{table}");
    let markdown = slower.markdown();
    assert!(markdown.starts_with(&format!("**{}**\n", decision[0])), "{markdown}");
    assert!(markdown.contains("b&lt;script&gt;&.db") && !markdown.contains("<script"), "{markdown}");
    let columns: Vec<usize> =
        markdown.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    assert!(columns.len() == 2 + 18 && columns.iter().all(|column| *column == columns[0]), "{markdown}");
    let junit = slower.junit();
    assert!(junit.contains("tests=\"18\" failures=\"6\" errors=\"0\""), "{junit}");
    assert_eq!(junit.matches("<failure ").count(), 6);
    assert!(junit.contains("name=\"DELETE/FULL, insert, flushes\">"), "{junit}");
    let json = slower.json();
    assert_eq!(json["gate"]["judgement"], "slower");
    assert_eq!(json["gate"]["decision"][0], decision[0].as_str());
    assert_eq!(json["changes"].as_array().unwrap().len(), 18);
    // What the table shows is what JSON has: the same quantity, the same numbers.
    assert_eq!(json["changes"][1]["quantity"], "flushes");
    assert_eq!(
        (json["changes"][1]["a"]["mid"].as_f64(), json["changes"][1]["b"]["mid"].as_f64()),
        (Some(2.0), Some(2.5))
    );
    // "No cell with a good run in common" stood over cells that were there and lacked a quantity.
    let (_d, wall) = results(fixture::first_look);
    let mut lacking = compared(&wall, &wall, 0.1);
    lacking.changes.changes.clear();
    lacking.changes.lacking = vec!["WAL/FULL, insert: A has no model time".into()];
    let text = lacking.terminal(&Style::PLAIN);
    assert!(text.contains("has not what is asked for") && !text.contains("no cell"), "{text}");
    // What happened: all test cases of what is lacking had one name, of which readers show one.
    let flushes = "WAL/FULL, insert: A has no count of flushes, which takes a modelled device";
    lacking.changes.lacking.push(flushes.into());
    let junit = lacking.junit();
    for name in ["WAL/FULL, insert: A has no model time", "WAL/FULL, insert: A has no count of flushes"] {
        assert_eq!(junit.matches(&format!("name=\"{name}\">")).count(), 1, "{junit}");
    }
    lacking.changes.lacking.clear();
    assert!(lacking.terminal(&Style::PLAIN).contains("no cell with a good run"));
    // What promises less was counted as faster.
    let mut weaker = compared(&a, &b, 0.2);
    weaker.changes.changes[1].same_durability = false;
    let text = weaker.terminal(&Style { width: 400, ..Style::PLAIN });
    assert!(
        text.contains("0 better, 5 worse, 12 not proven different (~), of 17. Not counted: 1 of"),
        "{text}"
    );
    // The picture of the page called it worse, and said nothing of the promise.
    assert_eq!(weaker.html().matches("(not the same promise)").count(), 2);
    // Where nothing is known of what B promises, that was called less.
    weaker.changes.changes[1].promise_unknown = true;
    let said = &weaker.verdicts()[1];
    assert_eq!(said.judgement, Judgement::Unknown);
    assert!(said.sentence.contains("is not known, and may be less than what A does"), "{said:?}");
    assert_eq!(weaker.html().matches("(B's promise is not known)").count(), 2);
    // A file's name became a link, and what stood between two of its stars was bold.
    let mut odd = compared(&a, &a, 0.5);
    odd.names = ["*a* `b` ~c~.db".into(), "[here](http://x).db".into()];
    let markdown = odd.markdown();
    assert!(markdown.contains("A: \\*a\\* \\`b\\` \\~c\\~.db"), "{markdown}");
    assert!(markdown.contains("[here]\\(http://x).db") && markdown.contains("| ~ "), "{markdown}");
    // Markup in names goes into no format as such.
    let (_c, hostile) = results(fixture::hostile);
    let hostile = compared(&hostile, &hostile, 0.1);
    for text in [hostile.markdown(), hostile.junit()] {
        assert!(!text.contains("<img") && !text.contains(['\x1b', '\u{202e}']), "{text}");
    }
}

/// What happened: of an experiment with hundreds of rows the Markdown was longer than a comment may
/// be, and who posted it had an error and no comment.
#[test]
fn markdown_has_room_in_a_comment_however_much_is_compared() {
    let (_a, a) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let (_b, b) = results(|path| fixture::modelled(path, 1.0, 2.5));
    let mut many = compared(&a, &b, 0.2);
    let changes = many.changes.changes.clone();
    many.changes.changes = (0..60).flat_map(|_| changes.clone()).collect();
    let markdown = many.markdown();
    assert!(markdown.len() < 65_536, "{}", markdown.len());
    assert!(markdown.contains("And 340 more like these."), "{markdown}");
    // Without the head and the line below it.
    let rows = markdown.lines().filter(|line| line.starts_with("| ")).count() - 2;
    assert!(
        rows >= 360 && markdown.contains(&format!("\n{} of 1080 rows are left out", 1080 - rows)),
        "{rows}"
    );
    // The gate itself is about all of them.
    assert_eq!(many.decision().len(), 360);
}

/// What happened: where no device can be modelled, advice is of runs on this disk, whose
/// transactions were counted over all of them and those that write in one: of five runs a
/// transaction that writes had five times its calls of fsync and its bytes, and "300 of 1,500
/// write".
#[test]
fn what_is_advised_of_this_disk_is_counted_in_one_run() {
    let (_directory, results) = results(fixture::first_look);
    let analysis = fathom_lab::analysis::Analysis::of(&results).unwrap();
    let all = fathom_lab::advise::trials_here(&results, &analysis, "insert").unwrap();
    assert_eq!(all.len(), 8);
    for trial in all {
        assert_eq!((trial.runs.len(), trial.count, trial.writing), (5, 300, Some(300)), "{trial:?}");
        assert!((trial.of_writing(trial.flushes) - trial.flushes).abs() < 1e-9, "{trial:?}");
    }
}

#[test]
fn a_comparison_is_a_page_with_every_ratio_and_the_same_words() {
    let (_a, a) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let (_b, b) = results(|path| fixture::modelled(path, 1.0, 2.5));
    let slower = compared(&a, &b, 0.2);
    let page = slower.html();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains(fathom_report::HTML_MARK), "it may be replaced by the next one");
    let count = |what: &str| page.matches(what).count();
    assert_eq!((count("<li class=\"worse\">"), count("<li class=\"better\">")), (6, 0));
    assert_eq!(count("class=\"limit\""), 18, "the gate's limit stands in each row");
    assert_eq!(count("<tr><th scope=\"row\">"), 18);
    for sentence in slower.decision() {
        assert!(page.contains(&sentence), "{sentence}");
    }
    assert!(page.contains("1.25x [1.25, 1.25] more") && page.contains("b&lt;script&gt;&amp;.db"));
    // The place of a ratio: 2.5 for 2 is 0.8 as good, left of the middle, the same for all six.
    let place = |class: &str| {
        let at = page.find(&format!("<li class=\"{class}\">")).unwrap();
        let row = &page[at..at + page[at..].find("</li>").unwrap()];
        let left = row.split("<i style=\"left:").nth(1).unwrap();
        left.split('%').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(place("worse") < 49.0 && (place("same") - 50.0).abs() < 3.0, "{}", place("worse"));
    let (_c, hostile) = results(fixture::hostile);
    let hostile = compared(&hostile, &hostile, 0.1).html();
    assert!(!hostile.contains("<img") && !hostile.contains(['\x1b', '\u{202e}']));
}
