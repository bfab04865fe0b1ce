//! The report in a real headless Chromium. Without one the tests say so and pass.

#![allow(clippy::unwrap_used)]

mod chromium;
mod drawings;
#[path = "../fixture/mod.rs"]
mod fixture;
mod lent;
mod paper;
mod tables;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chromium::Page;
use fathom_lab::store::Results;
use lent::Lent;

/// Where pages and PDFs of the last test run are left to be looked at, and pictures where they are
/// asked for ([`Page::screenshot`]).
fn directory(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(test);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Makes results and their page; gives the page's path.
fn page(directory: &Path, name: &str, make: impl Fn(&Path)) -> PathBuf {
    let db = directory.join(format!("{name}.db"));
    make(&db);
    let results = Results::load(&db).unwrap();
    let path = directory.join(format!("{name}.html"));
    fathom_report::write_whole(&path, &[], |out| fathom_report::html(&results, out)).unwrap();
    path
}

fn browser() -> Option<Lent> {
    let found = Lent::new();
    if let Err(reason) = &found {
        println!("skipped: {reason}");
    }
    found.ok()
}

/// No sideways scrolling, nothing on the console, nothing asked of the network.
fn assert_sound(page: &mut Page<'_>, what: &str) {
    let overflow = page.number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    let widest = page.text(
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > \
         document.documentElement.clientWidth + 1).map(e => e.tagName + '.' + e.className).slice(0, 5).join(' ')",
    );
    assert!(overflow <= 0.0, "{what}: {overflow} px too wide: {widest}");
    assert_eq!(page.complaints(), Vec::<String>::new(), "{what}");
}

#[test]
fn every_figure_is_drawn_and_described_in_light_dark_and_on_a_phone() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("drawn");
    type Make = fn(&Path);
    let all: [(&str, Make, &[&str]); 4] = [
        ("first-look", fixture::first_look, &["rate", "split", "series", "latencies"]),
        ("journal-modes", |p| fixture::journal_modes(p, 1.0), &["P4-T3", "P4-split"]),
        (
            "update-cost",
            |p| fixture::update_cost(p, 100),
            &["P1-F1", "P1-F2", "P1-F3", "P1-F4", "P1-F5", "P1-F6", "P1-F7", "split", "latencies"],
        ),
        ("time-split", fixture::time_split, &["P2-F2-scan", "P2-F2-columns", "P2-F3", "P2-F4", "latencies"]),
    ];
    for (name, make, ids) in all {
        let path = page(&directory, name, make);
        for (look, width, dark) in [("light", 1200, false), ("dark", 1200, true), ("phone", 390, false)] {
            let mut page = chromium.open(&path, "", width, dark);
            let drawn: serde_json::Value = page.eval(
                "fathomReport.figures.map((f, i) => { const el = document.getElementById('chart-' + i); \
                 const c = echarts.getInstanceByDom(el); return { id: f.id, nodes: el.querySelectorAll('svg path, svg text').length, \
                 series: c.getOption().series.length, role: el.getAttribute('role'), says: el.getAttribute('aria-label').length, \
                 rows: document.querySelectorAll('#figure-' + i + ' tbody tr').length }; })",
            );
            let drawn = drawn.as_array().unwrap();
            assert_eq!(drawn.iter().map(|f| f["id"].as_str().unwrap()).collect::<Vec<_>>(), ids, "{name}");
            for figure in drawn {
                assert!(figure["nodes"].as_u64() > Some(20), "{name} {look}: {figure}");
                assert!(figure["series"].as_u64() > Some(1), "{name} {look}: {figure}");
                assert!(
                    figure["says"].as_u64() > Some(60) && figure["role"] == "img",
                    "{name} {look}: {figure}"
                );
                assert!(figure["rows"].as_u64() > Some(4), "{name} {look}: {figure}");
            }
            let ground = page.text("getComputedStyle(document.body).backgroundColor");
            assert_eq!(ground == "rgb(20, 23, 27)", dark, "{name} {look}: {ground}");
            assert_sound(&mut page, &format!("{name} {look}"));
            page.screenshot(&directory.join(format!("{name}-{look}.png")));
        }
    }
}

/// Answer and picture are what is seen first, on a screen and on a phone, without scrolling
/// sideways.
#[test]
fn the_first_screen_has_the_answer_and_the_ranked_bars() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("opening");
    type Make = fn(&Path);
    let all: [(&str, Make); 3] = [
        ("traced", fixture::traced),
        ("file-systems", fixture::with_file_systems),
        ("modelled", |path| fixture::modelled(path, 1.0, 2.0)),
    ];
    for (name, make) in all {
        let path = page(&directory, name, make);
        for (look, width, dark) in [("light", 1400, false), ("dark", 1400, true), ("phone", 390, false)] {
            let mut page = chromium.open(&path, "", width, dark);
            assert_sound(&mut page, &format!("{name} {look}"));
            let top = |what: &str| {
                format!("document.querySelector('{what}').getBoundingClientRect().top + scrollY")
            };
            let (answer, ranking) = (page.number(&top("#answer")), page.number(&top("#ranking")));
            assert!(answer < 400.0, "{name} {look}: {answer}");
            assert!(
                if width > 1000 { ranking < 400.0 } else { ranking > answer },
                "{name} {look}: {ranking}"
            );
            assert!(ranking < page.number(&top("#h-figures")), "{name} {look}");
            // A bar is as long as its number: one scale for all, whatever stands beside them.
            let off = page.number(
                "(() => { const all = [...document.querySelectorAll('#ranking li')].filter(li => !li.querySelector('.open')) \
                 .map(li => parseFloat(li.querySelector('.value').textContent.replace(/,/g, '')) / \
                 li.querySelector('i').getBoundingClientRect().width); return Math.max(...all) / Math.min(...all); })()",
            );
            assert!((1.0..1.01).contains(&off), "{name} {look}: bars of different scales, {off}");
            page.screenshot(&directory.join(format!("{name}-{look}.png")));
        }
        let mut page = chromium.open(&path, "", 1400, false);
        std::fs::write(directory.join(format!("{name}.pdf")), page.pdf()).unwrap();
    }
    let path = directory.join("traced.html");
    let mut page = chromium.open(&path, "", 1400, false);
    const BARS: &str = "[...document.querySelectorAll('#ranking li')].filter(e => e.offsetParent).length";
    const GROUPS: &str =
        "[...document.querySelectorAll('#ranking .promise-group')].filter(e => e.offsetParent).length";
    assert_eq!((page.number(BARS), page.number(GROUPS)), (4.0, 3.0));
    page.run("document.querySelector('.filters [data-value=\"wal/full\"]').click()");
    assert_eq!((page.number(BARS), page.number(GROUPS)), (1.0, 1.0), "the bars go with the filters");
}

#[test]
fn filters_act_on_everything_and_live_in_the_address() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("filters");
    let path = page(&directory, "journal-modes", |p| fixture::journal_modes(p, 1.0));
    let mut page = chromium.open(&path, "", 1200, false);
    const SERIES: &str = "new Set(echarts.getInstanceByDom(document.getElementById('chart-0')).getOption().series.map(s => s.name)).size";
    const PANELS: &str =
        "echarts.getInstanceByDom(document.getElementById('chart-0')).getOption().grid.length";
    const ROWS: &str = "document.querySelectorAll('#cells tbody tr:not([hidden])').length";
    assert_eq!((page.number(SERIES), page.number(PANELS), page.number(ROWS)), (4.0, 5.0, 57.0));

    page.run("document.querySelector('.filters [data-value=wal]').click()");
    page.run("document.querySelector('.filters [data-value=ext4]').click()");
    assert_eq!((page.number(SERIES), page.number(PANELS), page.number(ROWS)), (1.0, 1.0, 3.0));
    assert_eq!(page.text("document.getElementById('status').textContent"), "Showing 1 of 19 cells");
    assert_eq!(page.text("location.hash"), "#engine.journal_mode=wal&stack.filesystem=ext4");
    assert_eq!(page.number("document.querySelectorAll('.filters [aria-pressed=true]').length"), 2.0);
    page.screenshot(&directory.join("filtered.png"));
    page.run("document.getElementById('reset').click()");
    assert_eq!((page.number(SERIES), page.text("location.hash").as_str()), (4.0, ""));

    // A click on a bar does what a click on its name does.
    let tip = page.click_on(
        "(() => { const el = document.getElementById('chart-0'); el.scrollIntoView({ block: 'center', behavior: 'instant' }); \
         const chart = echarts.getInstanceByDom(el); const s = chart.getOption().series.findIndex(s => s.name === 'WAL'); \
         const p = chart.getZr().storage.getDisplayList().filter(d => d.shape && d.shape.height > 20 && d.style.fill === '#12a07f')[0]; \
         const r = p.getBoundingRect().clone(); r.applyTransform(p.getComputedTransform()); const box = el.getBoundingClientRect(); \
         return [box.left + r.x + r.width / 2, box.top + r.y + r.height / 2]; })()",
    );
    assert_eq!(page.text("location.hash"), "#engine.journal_mode=wal");
    assert!(
        tip.contains("WAL") && tip.contains("per second [") && tip.contains("95 % interval of 5 runs"),
        "{tip}"
    );
    drop(page);

    let mut page =
        chromium.open(&path, "#engine.journal_mode=delete,wal&nonsense=1&stack.filesystem=%zz", 1200, false);
    assert_eq!((page.number(SERIES), page.number(PANELS), page.number(ROWS)), (2.0, 5.0, 30.0));
    page.run("location.hash = '#stack.filesystem=btrfs'");
    page.wait("document.querySelectorAll('#cells tbody tr:not([hidden])').length === 12");
    assert_eq!(page.number(PANELS), 1.0);
    assert_sound(&mut page, "filters");
}

#[test]
fn the_keyboard_reaches_filters_and_data() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("keyboard");
    let path = page(&directory, "first-look", fixture::first_look);
    let mut page = chromium.open(&path, "", 1200, false);
    page.key("Tab", 9);
    assert_eq!(page.text("document.activeElement.className"), "skip");
    let mut seen = Vec::new();
    for _ in 0..80 {
        page.key("Tab", 9);
        seen.push(page.text("document.activeElement.dataset.value || document.activeElement.textContent"));
        if seen.last().is_some_and(|s| s == "Show data") {
            break;
        }
        if seen.last().is_some_and(|s| s == "wal/full") && page.text("location.hash").is_empty() {
            page.key(" ", 32);
            assert_eq!(page.text("location.hash"), "#variants=wal%2Ffull");
            assert_eq!(page.text("document.activeElement.getAttribute('aria-pressed')"), "true");
            page.key(" ", 32);
        }
    }
    assert!(seen.iter().any(|s| s == "wal/full") && seen.iter().any(|s| s == "Download SVG"), "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("Show data"));
    const SHOWN: &str =
        "String(document.querySelector('#figure-0 table').checkVisibility({ contentVisibilityAuto: true }))";
    assert_eq!(page.text(SHOWN), "false");
    page.key("Enter", 13);
    assert_eq!(page.text(SHOWN), "true");
    let first = page.text("document.querySelector('#figure-0 tbody tr').innerText.replace(/\\s+/g, ' ')");
    assert!(first.starts_with("DELETE/FULL insert") && first.contains("per second ["), "{first}");
    assert_sound(&mut page, "keyboard");
}

#[test]
fn downloads_hold_what_is_shown() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("downloads");
    let path = page(&directory, "update-cost", |p| fixture::update_cost(p, 100));
    let mut page = chromium.open(&path, "#stack.filesystem=ext4,xfs", 1200, false);
    page.run(
        "window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob); return 'blob:null/x'; }; \
         HTMLAnchorElement.prototype.click = function () { window.names = (window.names || []).concat(this.download); }",
    );
    page.run("document.querySelectorAll('[data-tool=svg], [data-tool=csv]').forEach(b => b.click())");
    let names = page.text("window.names.join(' ')");
    assert!(
        names.starts_with("update-cost-P1-F1.svg update-cost-P1-F1.csv update-cost-P1-F2.svg"),
        "{names}"
    );
    for (i, (figure, lines)) in
        [("P1-F1", 1 + 2 * 100), ("P1-F2", 1 + 2 * 100), ("P1-F3", 1 + 2 * 10)].into_iter().enumerate()
    {
        page.run(&format!("window.saved[{}].text().then(t => window.svg = t); window.saved[{}].text().then(t => window.csv = t)", 2 * i, 2 * i + 1));
        page.wait("window.svg && window.csv");
        let problem = page.text("new DOMParser().parseFromString(window.svg, 'image/svg+xml').querySelector('parsererror')?.textContent || ''");
        assert_eq!(problem, "", "{figure}");
        let svg = page.text("window.svg");
        assert!(
            svg.contains("<svg") && svg.contains("ext4") && svg.contains("xfs") && !svg.contains("btrfs"),
            "{figure}: {svg}"
        );
        std::fs::write(directory.join(format!("{figure}.svg")), &svg).unwrap();
        let csv = page.text("window.csv");
        assert_eq!(csv.lines().count(), lines, "{figure}: {csv}");
        assert!(csv.starts_with("cell,stack.filesystem,"), "{csv}");
        page.run("window.svg = window.csv = undefined");
    }
    // Every switch of every figure both ways, and no complaint.
    for _ in 0..2 {
        page.run("document.querySelectorAll('[data-tool=log], [data-tool=share]').forEach(b => b.click())");
        assert_sound(&mut page, "switches");
    }
}

#[test]
fn hostile_text_stays_text() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("hostile");
    let path = page(&directory, "hostile", fixture::hostile);
    for width in [1200, 390] {
        let mut page = chromium.open(&path, "", width, false);
        page.run(
            "document.querySelectorAll('[data-tool=log], [data-tool=share], .chip').forEach(b => b.click())",
        );
        page.run("document.querySelectorAll('details').forEach(d => { d.open = true; })");
        page.run("document.getElementById('reset').click()");
        for problem in ["svg", "csv"] {
            page.run(&format!("fathomReport.figures.forEach(f => fathomReport.{problem}Of(f))"));
        }
        let parsed = page.text(
            "fathomReport.figures.map(f => new DOMParser().parseFromString(fathomReport.svgOf(f), 'image/svg+xml')\
             .querySelector('parsererror, script, img')?.outerHTML || '').join('')",
        );
        assert_eq!(parsed, "");
        assert_eq!(page.text("String(window.broken)"), "undefined");
        assert_eq!(page.number("document.querySelectorAll('img, main script, main b b').length"), 0.0);
        assert!(page.text("document.querySelector('h1').textContent").starts_with("</title></script>"));
        assert_sound(&mut page, "hostile");
        page.screenshot(&directory.join(format!("hostile-{width}.png")));
    }
    // The static SVG is XML that a strict parser takes, with the same hostile text.
    let results = Results::load(&directory.join("hostile.db")).unwrap();
    let mut page = chromium.open(&path, "", 1200, false);
    for (id, _) in fathom_report::figures(&results).unwrap() {
        let svg = fathom_report::figure_svg(&results, &id).unwrap();
        let literal = serde_json::to_string(&svg).unwrap();
        let problem = page.text(&format!(
            "new DOMParser().parseFromString({literal}, 'image/svg+xml').querySelector('parsererror, script')?.textContent || ''"
        ));
        assert_eq!(problem, "", "{id}");
    }
}

#[test]
fn half_a_million_executions_stay_usable() {
    let directory = directory("large");
    let db = directory.join("large.db");
    // 7 cells × 5 runs × 14,500 inserts.
    fixture::update_cost(&db, 14_500);
    let results = Results::load(&db).unwrap();
    assert!(results.sample_count().unwrap() > 500_000);
    let path = directory.join("large.html");
    let start = Instant::now();
    fathom_report::write_whole(&path, &[], |out| fathom_report::html(&results, out)).unwrap();
    let made = start.elapsed();
    let size = std::fs::metadata(&path).unwrap().len();
    println!("{} samples: {made:.2?}, {size} bytes", results.sample_count().unwrap());
    assert!(size < 3_000_000, "{size} bytes");
    // Seconds on a quiet machine; what would compare each with each took hours.
    assert!(made < Duration::from_secs(300), "{made:?}");
    let html = std::fs::read_to_string(&path).unwrap();
    assert!(html.contains("Drawn with 23,") && html.contains("of 101,500 executions"));
    let Some(mut chromium) = browser() else { return };
    let start = Instant::now();
    let mut page = chromium.open(&path, "", 1200, false);
    println!("ready in {:.2?}", start.elapsed());
    assert_sound(&mut page, "large");
    page.screenshot(&directory.join("large.png"));
}

#[test]
fn the_page_writes_numbers_as_the_program_does() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("numbers");
    let path = page(&directory, "first-look", fixture::first_look);
    let mut page = chromium.open(&path, "", 1200, false);
    // The same table as in `number.rs`.
    for (value, text) in [
        ("0", "0"),
        ("7", "7"),
        ("1716.4", "1,716"),
        ("78400", "78,400"),
        ("1234567.8", "1,234,568"),
        ("0.9", "0.900"),
        ("4.215", "4.21"),
        ("42.15", "42.1"),
        ("0.01234", "0.0123"),
        ("-1716", "-1,716"),
        ("99.96", "100"),
    ] {
        assert_eq!(page.text(&format!("fathomReport.plain({value})")), text);
    }
    assert_eq!(page.text("fathomReport.time(81300)"), "81.3 µs");
    assert_eq!(page.text("fathomReport.time(999600)"), "1.00 ms");
}

#[test]
fn a_million_requests_are_drawn_zoomed_and_told() {
    let directory = directory("blocks");
    let db = directory.join("blocks.db");
    fixture::blocks(&db, 1_000_000);
    let results = Results::load(&db).unwrap();
    let path = directory.join("blocks.html");
    let start = Instant::now();
    fathom_report::write_whole(&path, &[], |out| fathom_report::html(&results, out)).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    println!("a million requests: {:.2?}, {size} bytes", start.elapsed());
    assert!(size < 4_000_000, "{size} bytes");
    let html = std::fs::read_to_string(&path).unwrap();
    assert!(html.contains("1,000,000 requests in ") && html.contains("a &lt;b&gt;remark"));
    let Some(mut chromium) = browser() else { return };
    for (look, width, dark) in [("light", 1200, false), ("dark", 1200, true), ("phone", 390, false)] {
        let mut page = chromium.open(&path, "", width, dark);
        page.run("document.getElementById('blocks-address').scrollIntoView({ behavior: 'instant' })");
        page.wait("document.getElementById('address-0').dataset.drawn > 0");
        // Every colour of the causes that were drawn is on the canvas.
        let colours = page.number(
            "(() => { const c = document.getElementById('address-0'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
             const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); \
             const data = JSON.parse(document.getElementById('blocks').textContent); \
             return [0, 1, 4, 5, 7].filter(n => seen.has(parseInt(data.causes[n][matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'].slice(1), 16))).length; })()",
        );
        assert_eq!(colours, 5.0, "{look}: causes on the canvas");
        // A frame of all dots is fast enough to drag in: measured, not promised; far from the bound
        // on a quiet machine.
        let ms = page.number("(() => { const v = fathomBlocks.views[0]; const t = performance.now(); for (let i = 0; i < 5; i++) fathomBlocks.draw(v); return (performance.now() - t) / 5; })()");
        println!("{look}: {ms:.1} ms a frame");
        page.screenshot(&directory.join(format!("blocks-{look}.png")));
        let all = page.number("Number(document.getElementById('address-0').dataset.drawn)");
        page.run("document.getElementById('address-0').focus()");
        for _ in 0..4 {
            page.key("+", 187);
        }
        page.wait(&format!("document.getElementById('address-0').dataset.drawn < {all} / 8"));
        assert!(
            page.number("Number(document.getElementById('address-0').dataset.drawn)") > 0.0,
            "{look}: zoomed into nothing"
        );
        page.key("0", 48);
        page.wait(&format!("document.getElementById('address-0').dataset.drawn == {all}"));
        // A cause that is switched off is off the canvas.
        page.run("document.querySelector('[data-cause=\"0\"]').click()");
        assert_eq!(
            page.text("document.querySelector('[data-cause=\"0\"]').getAttribute('aria-pressed')"),
            "false"
        );
        // The filters hide what belongs to other cells.
        page.run("location.hash = '#engine.journal_mode=wal'");
        page.wait("document.querySelector('.address').hidden");
        assert_sound(&mut page, &format!("blocks {look}"));
    }
}

#[test]
fn dots_are_where_the_requests_were() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("dots");
    let path = page(&directory, "dots", |p| fixture::blocks(p, 1000));
    let mut page = chromium.open(&path, "", 1200, false);
    page.run("fathomBlocks.views.forEach(fathomBlocks.draw)");
    // Number 6 of a thousand: the database, as the fixture computes it.
    let told = page.text(
        "(() => { const d = fathomBlocks.views[0].dots; return [d.n, d.kind[6], d.from[6], d.length[6], Math.round(d.at[6] / 1e6)].join(' '); })()",
    );
    assert_eq!(
        told,
        format!("1000 {} {} 4096 {}", 16, 268_435_456_u64 + 6 * 7919 % 15000 * 4096, 100 + 6 * 18)
    );
    // The pattern within files keeps odd lengths.
    let told = page.text(
        "(() => { const d = fathomBlocks.views[1].dots; return [d.n, d.from[1], d.length[1]].join(' '); })()",
    );
    assert_eq!(told, "3 512 24");
}

/// Two panels show the same moments, whichever is zoomed into, and how.
#[test]
fn panels_of_addresses_zoom_in_time_together() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("zoom");
    let path = page(&directory, "zoom", |p| fixture::blocks(p, 1000));
    let mut page = chromium.open(&path, "", 1200, false);
    page.run("fathomBlocks.views.forEach(fathomBlocks.draw)");
    const RANGES: &str = "fathomBlocks.views.map(v => v.view.x0 + ' ' + v.view.x1)";
    let alike = |page: &mut Page<'_>| page.number(&format!("new Set({RANGES}).size"));
    assert!(page.number("fathomBlocks.views.length") > 1.0);
    assert_eq!(alike(&mut page), 1.0, "one time axis from the begin");
    let wheel = |target: u32, control: bool| {
        format!(
            "(() => {{ const c = document.getElementById('address-{target}'), b = c.getBoundingClientRect(); \
             c.dispatchEvent(new WheelEvent('wheel', {{ deltaY: -60, ctrlKey: {control}, cancelable: true, \
             clientX: b.left + b.width / 2, clientY: b.top + 40 }})); }})()"
        )
    };
    let width =
        |page: &mut Page<'_>| page.number("fathomBlocks.views[0].view.x1 - fathomBlocks.views[0].view.x0");
    let whole = width(&mut page);
    page.run(&wheel(0, false));
    assert_eq!(width(&mut page), whole, "a wheel over a panel without the focus scrolls the page");
    page.run(&wheel(1, true));
    let half = width(&mut page);
    assert!((half / whole - 0.5).abs() < 0.01, "{half} of {whole}");
    assert_eq!(alike(&mut page), 1.0);
    page.run("document.getElementById('address-1').focus({ preventScroll: true })");
    page.run(&wheel(1, false));
    assert!(width(&mut page) < half, "with the focus it zooms");
    // What lay under the pointer stays there.
    let middle = page.number("(fathomBlocks.views[0].view.x1 + fathomBlocks.views[0].view.x0) / 2");
    assert!((middle / whole - 0.5).abs() < 0.1, "{middle} of {whole}");
    page.key("0", 48);
    page.wait(&format!("fathomBlocks.views[0].view.x1 - fathomBlocks.views[0].view.x0 === {whole}"));
    assert_eq!(alike(&mut page), 1.0);
    // What happened: a touch that turned into scrolling left its drag, and the frame of it.
    page.run(
        "(() => { const v = fathomBlocks.views[0]; v.drag = { from: { x: 90, y: 40 }, to: { x: 120, y: 90 } }; \
         v.canvas.dispatchEvent(new PointerEvent('pointercancel')); })()",
    );
    assert_eq!(page.number("fathomBlocks.views[0].drag === null ? 1 : 0"), 1.0);
    assert_sound(&mut page, "zoom");
}

#[test]
fn a_comparison_is_read_on_a_screen_a_phone_in_the_dark_and_on_paper() {
    use fathom_lab::analysis::{Analysis, Question, Side, changes};
    let Some(mut chromium) = browser() else { return };
    let directory = directory("compare");
    let side = |name: &str, drift: f64, flushes: f64| {
        let db = directory.join(name);
        fixture::modelled(&db, drift, flushes);
        let results = Results::load(&db).unwrap();
        Side::of(&results, &Analysis::of(&results).unwrap())
    };
    let sides = [side("a.db", 1.0, 2.0), side("b.db", 1.3, 2.5)];
    let changes = changes(&sides[0], &sides[1], &Question::default()).unwrap();
    let names = ["a.db".to_owned(), "b.db".to_owned()];
    let compared = fathom_report::Comparison { names, sides, changes, allowed: Some(0.1) };
    let path = directory.join("compare.html");
    std::fs::write(&path, compared.html()).unwrap();
    for (look, width, dark) in [("light", 1400, false), ("dark", 1400, true), ("phone", 390, false)] {
        let mut page = chromium.open(&path, "", width, dark);
        assert_sound(&mut page, look);
        // No value is over its name or its picture.
        let crossing = page.number(
            "[...document.querySelectorAll('.ratios li')].filter(li => { const [n, t, v] = ['.name', '.track', '.value'].map(s => \
             li.querySelector(s).getBoundingClientRect()); const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && \
             a.top < b.bottom - 1 && b.top < a.bottom - 1; return over(n, t) || over(t, v) || over(n, v); }).length",
        );
        assert_eq!(crossing, 0.0, "{look}");
        page.screenshot(&directory.join(format!("compare-{look}.png")));
        // What happened: the last number of the axis was broken within itself: "1,00 0x".
        let heights = page.number(
            "(() => { const ticks = [...document.querySelectorAll('.ratios .scale span span')]; \
             ticks.forEach(tick => { tick.textContent = '1,000x'; }); \
             return new Set(ticks.map(tick => tick.getBoundingClientRect().height)).size; })()",
        );
        assert_eq!(heights, 1.0, "{look}");
    }
    let mut page = chromium.open(&path, "", 1400, false);
    std::fs::write(directory.join("compare.pdf"), page.pdf()).unwrap();
}
