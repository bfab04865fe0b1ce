//! The page of the papers is printed from published data: excerpts say what the results said, and a
//! page that names what is not there, hides a finding, or holds another number is refused.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod fixture;

use std::path::Path;

use fathom_lab::store::{Results, Writer};
use fathom_report::{FindingVerdict, Papers, PrintedPage};

fn excerpt(of: &Path, to: &Path) {
    let mut out = Vec::new();
    Results::load(of).unwrap().excerpt(&mut out).unwrap();
    std::fs::write(to, out).unwrap();
}

/// Every mean, interval and count of an excerpt is that of the results; only the trimmed mean of
/// single executions is not there.
#[test]
fn an_excerpt_says_what_the_results_say() {
    let directory = tempfile::tempdir().unwrap();
    let [whole, small] = ["results.db", "results.db.zst"].map(|name| directory.path().join(name));
    fixture::journal_modes(&whole, 1.0);
    excerpt(&whole, &small);
    let sizes = [&whole, &small].map(|file| std::fs::metadata(file).unwrap().len());
    assert!(sizes[1] * 5 < sizes[0], "{sizes:?}");
    let csv = |path: &Path| {
        let mut out = Vec::new();
        fathom_report::csv(&Results::load(path).unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (of_whole, of_small) = (csv(&whole), csv(&small));
    let head: Vec<&str> = of_whole.lines().next().unwrap().split(',').collect();
    let trimmed = head.iter().position(|name| *name == "trimmed_mean_ns").unwrap();
    let mut compared = 0;
    for (whole, small) in of_whole.lines().zip(of_small.lines()) {
        let columns = whole.split(',').zip(small.split(',')).enumerate();
        for (column, (whole, small)) in columns.filter(|(column, _)| *column != trimmed) {
            assert_eq!(whole, small, "{}", head[column]);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
    assert_eq!(of_whole.lines().count(), of_small.lines().count());
    let results = Results::load(&small).unwrap();
    assert!(results.is_excerpt() && !Results::load(&whole).unwrap().is_excerpt());
    // A published file names no directory of its author's, and not who that is.
    let places = results.runs.iter().filter_map(|run| run.engine.as_ref());
    assert!(places.flat_map(|engine| engine.settings.values()).all(|value| !value.starts_with('/')));
    assert!(!results.environment.contains_key("user"));
    // The page, and what it cannot show, are made of it without an error.
    fathom_report::html(&results, &mut Vec::new()).unwrap();
    // Nothing goes on with an excerpt: the cells would lose what their first runs had.
    let refused = Writer::resume(results).unwrap_err().to_string();
    assert!(refused.contains("excerpt"), "{refused}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing was unpacked beside it");
}

/// One flipped bit of an excerpt is told.
#[test]
fn a_damaged_excerpt_is_refused_or_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let [whole, small] = ["results.db", "results.db.zst"].map(|name| directory.path().join(name));
    fixture::first_look(&whole);
    excerpt(&whole, &small);
    let good = std::fs::read(&small).unwrap();
    let csv = |path: &Path| {
        let mut out = Vec::new();
        fathom_report::csv(&Results::load(path)?, &mut out)?;
        Ok::<_, fathom_report::ReportError>(out)
    };
    let expected = csv(&small).unwrap();
    let mut refused = 0;
    for case in 0..200 {
        let at = ((f64::from(case) * 0.618_033_988_749_895).fract() * good.len() as f64) as usize;
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (case % 8);
        std::fs::write(&small, &bytes).unwrap();
        match csv(&small) {
            Ok(found) => assert!(found == expected, "byte {at}: an export changed silently"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 150, "{refused}");
}

const FINDINGS: &str = r#"
[data.modes]
file = "modes.db.zst"
remark = "Made up."

[[finding]]
table = "T3"
figure = "T3"
finding = "WAL is faster than DELETE"
paper = "about 2x"
holds = [1.0, inf]
data = "modes"
phase = "insert"
of = "journal_mode:wal"
over = "journal_mode:delete"
each = "filesystem"

[[finding]]
table = "T3"
figure = "T3"
finding = "WAL is slower than DELETE"
paper = "nobody says so"
holds = [0.0, 0.9]
data = "modes"
phase = "insert"
of = "journal_mode:wal"
over = "journal_mode:delete"
where = "filesystem:ext4"

[[finding]]
table = "T3"
figure = "F9"
finding = "On the moon"
paper = "1x"
verdict = "cannot-be-tested"
remark = "There is no moon here."
"#;

const PAGE: &str = "# Papers\n\n{{verdicts}}\n\n{{about modes}}\n\n{{findings T3}}\n\n\
{{table modes phase=insert rows=filesystem columns=journal_mode where=filesystem:ext4}}\n\n\
WAL {{ratio modes phase=insert of=journal_mode:wal over=journal_mode:delete where=filesystem:ext4}} at \
{{value modes phase=insert where=journal_mode:wal,filesystem:ext4}} a second.\n\n{{figure modes P4-T3 file=t3.svg}}\n";

fn print(findings: &str, page: &str) -> Result<PrintedPage, String> {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("results.db");
    fixture::journal_modes(&whole, 1.0);
    excerpt(&whole, &directory.path().join("modes.db.zst"));
    std::fs::write(directory.path().join("p4.toml"), findings).unwrap();
    std::fs::write(directory.path().join("page.md"), page).unwrap();
    let papers = Papers::load(directory.path()).map_err(|error| error.to_string())?;
    papers.print().map_err(|error| error.to_string())
}

#[test]
fn a_page_is_printed_with_its_verdicts() {
    let printed = print(FINDINGS, PAGE).unwrap();
    use FindingVerdict::{CannotBeTested, CauseUnknown, Reproduced};
    let verdicts: Vec<FindingVerdict> = printed.findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(verdicts, [Reproduced, CauseUnknown, CannotBeTested]);
    let page = &printed.page;
    assert!(
        page.contains("3 findings: 1 cannot be tested here · 1 not reproduced, cause unknown · 1 reproduced")
    );
    assert!(page.contains("interleaved blocks of 19 cells") && page.contains("Made up."), "{page}");
    assert!(page.contains("| WAL is faster than DELETE | about 2x | 1 to inf | ext2 "), "{page}");
    assert!(page.contains("**cannot be tested here**: There is no moon here."), "{page}");
    assert!(page.contains("| filesystem | delete | truncate | persist | wal |"), "{page}");
    assert!(page.contains("(figures/t3.svg)") && !page.contains("{{") && !page.contains('\0'), "{page}");
    assert_eq!(printed.figures.len(), 1);
    assert!(printed.figures[0].1.starts_with("<svg") || printed.figures[0].1.contains("<svg"));
    // The same data print the same page.
    assert_eq!(print(FINDINGS, PAGE).unwrap().page, *page);
}

/// What happened: with new results a finding whose cause had been measured came out in its band,
/// and all of them were refused, as published ones are that a page explains for no reason.
#[test]
fn new_results_may_bring_out_what_the_published_did_not() {
    let directory = tempfile::tempdir().unwrap();
    let [whole, other] = ["results.db", "other.db"].map(|name| directory.path().join(name));
    fixture::journal_modes(&whole, 1.0);
    // Where a sync takes next to nothing WAL's gain is 2.5, and 3.6 where it takes what it does.
    fixture::journal_modes(&other, 0.001);
    excerpt(&whole, &directory.path().join("modes.db.zst"));
    let band = "holds = [1.5, 3.0]\ncause = \"a sync takes long.\"";
    let findings = FINDINGS.replacen("holds = [0.0, 0.9]", band, 1);
    std::fs::write(directory.path().join("p4.toml"), findings).unwrap();
    std::fs::write(directory.path().join("page.md"), PAGE).unwrap();
    let mut papers = Papers::load(directory.path()).unwrap();
    let verdict = |papers: &Papers| papers.print().unwrap().findings[1].verdict;
    assert_eq!(verdict(&papers), FindingVerdict::CauseMeasured);
    assert_eq!(papers.judged_by("modes"), 2);
    papers.replace("modes", &other).unwrap();
    assert_eq!(verdict(&papers), FindingVerdict::Reproduced);
}

/// What is wrong is told with its file and line, and what is published is not hidden.
#[test]
fn pages_that_cannot_be_printed_are_refused() {
    let refused = |findings: &str, page: &str| print(findings, page).expect_err("refused");
    let wrong_page = |from: &str, to: &str| {
        assert!(PAGE.contains(from));
        refused(FINDINGS, &PAGE.replace(from, to))
    };
    assert!(wrong_page("{{verdicts}}", "{{verdict}}").contains("page.md:3: "));
    assert!(wrong_page("{{verdicts}}", "{{verdicts").contains("not closed"));
    assert!(wrong_page("{{findings T3}}", "").contains("is in no table of the page"));
    assert!(wrong_page("{{findings T3}}", "{{findings T4}}").contains("there are: T3"));
    assert!(wrong_page("phase=insert rows", "phase=upsert rows").contains("was not measured in phase"));
    assert!(
        wrong_page("where=filesystem:ext4}} at", "where=filesystem:ext9}} at").contains("chooses no cell")
    );
    assert!(wrong_page(",filesystem:ext4}} a", "}} a").contains("chooses 5 cells"));
    assert!(wrong_page("file=t3.svg", "file=../t3.svg").contains("no plain name"));
    assert!(wrong_page("P4-T3 file", "P4-T9 file").contains("no figure"));
    assert!(wrong_page("{{about modes}}", "{{about model}}").contains("no data set"));
    let wrong_findings = |from: &str, to: &str| {
        assert!(FINDINGS.contains(from));
        refused(&FINDINGS.replacen(from, to, 1), PAGE)
    };
    assert!(wrong_findings("figure = \"T3\"", "figur = \"T3\"").contains("p4.toml:"));
    assert!(wrong_findings("holds = [1.0, inf]", "").contains("states what would bear it out"));
    assert!(wrong_findings("remark = \"There is no moon here.\"", "").contains("says why"));
    assert!(
        wrong_findings("holds = [1.0, inf]", "holds = [1.0, inf]\ncause = \"x\"")
            .contains("needs no `cause`")
    );
    assert!(wrong_findings("modes.db.zst", "other.db.zst").contains("no such results file"));
    let without_data = FINDINGS.replace("data = \"modes\"\nphase = \"insert\"\nof = \"journal_mode:wal\"\nover = \"journal_mode:delete\"\nwhere", "where");
    assert!(refused(&without_data, PAGE).contains("without `data`"));
}

/// A number that somebody writes into a sentence outlives its data: it is refused where it stands,
/// in the page and in remarks. Before, sixty of them stood in the page of the papers.
#[test]
fn numbers_are_printed_or_say_who_gives_them() {
    let page = |more: &str| print(FINDINGS, &format!("{PAGE}\n{more}\n{{{{numbers}}}}\n"));
    let refused = page("It takes 3.7 ms.").expect_err("refused");
    assert!(refused.contains("page.md:15: the number 3.7 is written by hand"), "{refused}");
    assert!(refused.contains("{{given SOURCE}}3.7{{end}}"), "{refused}");
    let printed = page("The paper has {{given paper}}48 against 21{{end}}, SQLite 3.8 has not.").unwrap();
    assert!(printed.page.contains("The paper has 48 against 21, SQLite"), "{}", printed.page);
    assert!(printed.page.ends_with("\n2 of a paper\n"), "{}", printed.page);
    // A file has to hold what it is said to give, where it is said to.
    let given =
        |place: &str, number: &str| page(&format!("Its {{{{given ./p4.toml {place}}}}}{number}{{{{end}}}}."));
    given("key=finding", "0.9").unwrap();
    assert!(given("key=finding", "0.8").expect_err("refused").contains("0.8 does not stand in ./p4.toml"));
    assert!(given("key=data", "0.9").expect_err("refused").contains("0.9 does not stand in ./p4.toml"));
    assert!(given("", "0.9").expect_err("refused").contains("say where in ./p4.toml"));
    assert!(page("{{given paper}}5").expect_err("refused").contains("without {{end}}"));
    assert!(page("5{{end}}").is_err() && page("{{end}}").expect_err("refused").contains("`end` of what"));
    assert!(page("{{given paper}}{{given rule}}5{{end}}{{end}}").expect_err("refused").contains("within"));
    assert!(page("{{given moon}}5{{end}}").expect_err("refused").contains("there are: paper"));

    let remark = |words: &str| print(&FINDINGS.replace("There is no moon here.", words), PAGE);
    let refused = remark("It is 384,400 km away.").expect_err("refused");
    assert!(refused.contains("\"On the moon\"") && refused.contains("384,400"), "{refused}");
    let value = "{{value modes phase=insert where=journal_mode:wal,filesystem:ext4}} a second.";
    let printed = remark(value).unwrap().page;
    assert!(printed.contains("tested here**: ") && printed.contains(" a second. |"), "{printed}");
    let refused = print(&FINDINGS.replace("Made up.", "In 7 minutes."), PAGE).expect_err("refused");
    assert!(refused.contains("data set \"modes\"") && refused.contains("number 7 "), "{refused}");
}

/// "Less than half of what ext4 does" stood in the page where it was more: a quantity in words went
/// through where one in digits was refused.
#[test]
fn quantities_in_words_are_printed_or_marked() {
    let page = |more: &str| print(FINDINGS, &format!("{PAGE}\n{more}\n{{{{numbers}}}}\n"));
    let refused = page("It takes half of the time.").expect_err("refused");
    assert!(refused.contains("page.md:15: the number half is written by hand"), "{refused}");
    assert!(refused.contains("{{plain half}}"), "{refused}");
    let printed = page("Of {{plain two}} modes, {{given paper}}twice{{end}}.").unwrap().page;
    assert!(
        printed.contains("Of two modes, twice.") && printed.contains("1 of a paper · 1 in words"),
        "{printed}"
    );
    assert!(page("{{plain 7}}").expect_err("refused").contains("words of quantity"));
    let remark = |words: &str| print(&FINDINGS.replace("There is no moon here.", words), PAGE);
    assert!(remark("It is twice as far.").expect_err("refused").contains("\"On the moon\""));
    assert!(remark("It is {{plain twice}} as far.").is_ok());
}

/// What a reader sees first: how many findings of a paper come out; and of data, what measured
/// them.
#[test]
fn verdicts_are_counted_by_paper_and_commits_are_told() {
    let page = format!("{{{{papers}}}}\n\n{PAGE}");
    let printed = print(FINDINGS, &page).unwrap().page;
    assert!(printed.contains("\n| T3 | 3 | 1 | 0 | 1 | 0 | 1 | 0 |\n| all | 3 |"), "{printed}");
    assert!(printed.contains("Fathom 0.1.0 (commit not recorded)"), "{printed}");
    let published =
        FINDINGS.replace("remark = \"Made up.\"", "remark = \"Made up.\"\npublished = \"b6ff0ea1\"");
    let printed = print(&published, &page).unwrap().page;
    assert!(printed.contains("(commit not recorded; published in `b6ff0ea1`)"), "{printed}");
}

const CHATS: &str = r#"
[data.chats]
file = "chats.db.zst"

[data.look]
file = "look.db.zst"

[[finding]]
table = "F2"
figure = "F2"
finding = "Reading backwards is slower"
paper = "slower"
holds = [1.0, inf]
data = "chats"
phase = "select-desc"
over_phase = "select-asc"
show = "slower"
where = "filesystem:ext4,variants:select"

[[finding]]
table = "F2"
figure = "F2"
finding = "Twelve columns against one"
paper = "slower"
holds = [1.0, inf]
data = "chats"
phase = "select-columns"
x = 12
over_x = 1
show = "slower"
where = "filesystem:ext4,variants:select"

[[finding]]
table = "F2"
figure = "F2"
finding = "The processor's part, were it ten times as slow"
paper = "most of it"
holds = [0.8, 1.0]
data = "look"
phase = "insert"
show = "cpu-share"
slowed = 10
of = "variants:wal/full"
"#;

const CHATS_PAGE: &str = "{{about chats}}{{about look}}\n\n{{findings F2}}\n\n\
{{table chats phase=select-columns show=slower rows=x columns=filesystem where=variants:select}}\n\n\
{{table chats phases=select-asc,select-desc show=slower rows=filesystem columns=phase where=variants:select}}\n\n\
{{table look phase=insert show=cpu-share slowed=10 rows=variants columns=phase}}\n\n\
{{value look phase=insert show=slower where=variants:wal/full}} {{value look phase=insert show=slower slowed=10 where=variants:wal/full}} \
{{value look phase=insert show=elapsed where=variants:wal/full}} {{value look phase=insert show=device where=variants:wal/full}}\n\n\
From {{spread look phase=insert show=device where=variants:wal/full}}, {{spread look phase=insert show=processor where=variants:wal/full}}\n";

fn print_chats(findings: &str, page: &str) -> Result<PrintedPage, String> {
    let directory = tempfile::tempdir().unwrap();
    let whole = directory.path().join("results.db");
    fixture::time_split(&whole);
    excerpt(&whole, &directory.path().join("chats.db.zst"));
    std::fs::remove_file(&whole).unwrap();
    fixture::modelled(&whole, 1.0, 1.0);
    excerpt(&whole, &directory.path().join("look.db.zst"));
    std::fs::write(directory.path().join("p2.toml"), findings).unwrap();
    std::fs::write(directory.path().join("page.md"), page).unwrap();
    let papers = Papers::load(directory.path()).map_err(|error| error.to_string())?;
    papers.print().map_err(|error| error.to_string())
}

/// Papers compare one phase with another and one abscissa with another, and say what part of the
/// time something takes. Before, a finding had one phase without abscissa, and P1, P2 and P5 could
/// not be judged.
#[test]
fn phases_abscissas_and_shares_are_judged() {
    let printed = print_chats(CHATS, CHATS_PAGE).unwrap();
    use FindingVerdict::{CauseUnknown, Reproduced};
    let verdicts = |printed: &PrintedPage| -> Vec<FindingVerdict> {
        printed.findings.iter().map(|finding| finding.verdict).collect()
    };
    assert_eq!(verdicts(&printed)[..2], [Reproduced, Reproduced], "{}", printed.page);
    let page = &printed.page;
    assert!(page.contains("| x | ext2 | ext4 | xfs | btrfs | ntfs |"), "{page}");
    assert!(page.contains("| filesystem | select-asc | select-desc |"), "{page}");
    // A share is a percentage; a slower processor makes the time longer and its own part larger.
    let row = page.lines().find(|line| line.contains("The processor's part")).unwrap();
    assert!(row.contains(" % ["), "{row}");
    let share = |findings: &str| -> f64 {
        let page = print_chats(findings, CHATS_PAGE).unwrap().page;
        let row = page.lines().find(|line| line.contains("The processor's part")).unwrap().to_owned();
        row.split(" % [").next().unwrap().rsplit("| ").next().unwrap().parse().unwrap()
    };
    let (slow, fast) = (share(CHATS), share(&CHATS.replace("slowed = 10", "slowed = 1")));
    // Of the same parts: k c / (k c + d), with c / (c + d) known.
    let expected = 100.0 * 10.0 * fast / (10.0 * fast + (100.0 - fast));
    assert!((slow - expected).abs() < 1.0 && slow > fast, "{fast} {slow} {expected}");
    // What the interval does not lie in does not reproduce.
    let narrow = print_chats(&CHATS.replace("holds = [0.8, 1.0]", "holds = [0.0, 0.001]"), CHATS_PAGE);
    assert_eq!(verdicts(&narrow.unwrap())[2], CauseUnknown);
}

/// What a document states is judged as well, with the digits that it has there; what could be
/// measured and was not says so; a table can be drawn.
#[test]
fn quoted_ratios_and_what_was_not_measured_have_rows() {
    let more = r#"
[[finding]]
table = "F3"
figure = "F3"
finding = "quoted"
paper = "22x"
holds = [10.0, 30.0]
quoted = ["sent 14.4x [11.2, 21.3]"]
quoted_from = "./said.md"
quoted_at = ['paper = "22x"']

[[finding]]
table = "F3"
figure = "F4"
finding = "later"
paper = "falls"
verdict = "not-measured"
remark = "`fathom run` would."
"#;
    let page = format!(
        "{CHATS_PAGE}\n{{{{findings F3}}}}\n\n{{{{chart look phase=insert show=device rows=variants \
         columns=phase file=look.svg title=Look about=device}}}}\n\nLate: {{{{all late}}}}, {{{{all days}}}}.\n"
    );
    let refused = print_chats(&format!("{CHATS}{more}"), &page).expect_err("refused");
    assert!(refused.contains("said.md"), "{refused}");
    let here = more.replace("./said.md", "./p2.toml");
    let printed = print_chats(&format!("{CHATS}{here}"), &page).unwrap();
    let text = &printed.page;
    assert!(text.contains("| 10 to 30 | sent 14.4x [11.2, 21.3] | **reproduced** |"), "{text}");
    assert!(text.contains("**not measured**: `fathom run` would."), "{text}");
    assert!(text.contains("![Look](figures/look.svg)") && text.contains("Late: "), "{text}");
    assert!(printed.figures.iter().any(|(name, svg)| name == "look.svg" && svg.contains("insert")));
    // The words that say where stand in two findings.
    let twice = here.replace("['paper = \"22x\"']", "['paper = \"falls\"']");
    assert!(
        print_chats(&format!("{CHATS}{twice}"), &page)
            .expect_err("refused")
            .contains("2 lines or paragraphs")
    );
    let nowhere = here.replace("quoted_at = ['paper = \"22x\"']\n", "");
    assert!(print_chats(&format!("{CHATS}{nowhere}"), &page).expect_err("refused").contains("`quoted_at`"));
    let both = here.replace("quoted_from = \"./p2.toml\"", "quoted_from = \"./p2.toml\"\ndata = \"look\"");
    assert!(print_chats(&format!("{CHATS}{both}"), &page).expect_err("refused").contains("and no two"));
}

/// A phase with abscissas needs one, and one that was measured; a share of which single runs do not
/// tell has no interval, and judges nothing.
#[test]
fn abscissas_and_shares_that_are_not_there_are_refused() {
    let refused = |from: &str, to: &str| {
        assert!(CHATS.contains(from));
        print_chats(&CHATS.replace(from, to), CHATS_PAGE).expect_err("refused")
    };
    assert!(refused("x = 12\nover_x = 1\n", "").contains("by abscissa; name one: x=1, x=2"));
    assert!(refused("x = 12\n", "x = 13\n").contains("at x=13; there are: x=1"));
    assert!(
        refused("over_phase = \"select-asc\"", "over_phase = \"select\"")
            .contains("was not measured in phase")
    );
    assert!(refused("slowed = 10", "slowed = 0.5").contains("1 or more"));
    assert!(refused("show = \"cpu-share\"", "show = \"cpu\"").contains("device-share or cpu-share"));
    let wrong = CHATS_PAGE.replace("rows=x", "rows=y");
    assert!(print_chats(CHATS, &wrong).unwrap_err().contains("no cell has a value on the axis \"y\""));
    let wrong = CHATS_PAGE.replace("slowed=10 where", "slowed=ten where");
    assert!(print_chats(CHATS, &wrong).unwrap_err().contains("slowed=ten is no number"));
}
