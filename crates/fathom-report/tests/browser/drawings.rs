//! What is drawn: that nothing is cut off or lies over something else, and that what is different
//! looks so.

use std::path::Path;

use crate::chromium::Page;
use crate::{assert_sound, browser, directory, fixture, page};

/// Texts of a chart that lie over each other, or outside of it. Slanted ones are compared along
/// their own direction.
const CROSSING: &str = "(() => { \
    const bad = []; \
    for (const svg of document.querySelectorAll('.chart svg')) { \
      const frame = svg.getBoundingClientRect(); \
      const boxes = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => { \
        const b = t.getBBox(), m = t.getScreenCTM(), angle = Math.atan2(m.b, m.a); \
        const corners = [[b.x, b.y], [b.x + b.width, b.y], [b.x, b.y + b.height], [b.x + b.width, b.y + b.height]].map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]); \
        const turned = corners.map(([x, y]) => [x * Math.cos(-angle) - y * Math.sin(-angle), x * Math.sin(-angle) + y * Math.cos(-angle)]); \
        const xs = turned.map(p => p[0]), ys = turned.map(p => p[1]); \
        const out = corners.some(([x, y]) => x < frame.left - 1.5 || x > frame.right + 1.5 || y < frame.top - 1.5 || y > frame.bottom + 1.5); \
        if (out) bad.push('outside: ' + t.textContent); \
        return { text: t.textContent, angle: Math.round(angle * 100), left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) }; }); \
      boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => { \
        if (a.angle === b.angle && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) bad.push(a.text + ' over ' + b.text); })); \
    } return bad; })()";

fn assert_apart(page: &mut Page<'_>, what: &str) {
    let crossing = page.eval(CROSSING);
    assert_eq!(crossing, serde_json::json!([]), "{what}");
}

/// What happened: on a phone names under bars were broken within words and lay over each other
/// ("DEL/ETE/FULL"), on paper "DELETE/" lay over "FULL"; the title of the axis of an ECDF ended in
/// the middle of a word ("logarithmic axi").
#[test]
fn no_text_of_a_chart_is_cut_or_over_another() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("texts");
    type Make = fn(&Path);
    let all: [(&str, Make); 4] = [
        ("traced", fixture::traced),
        ("first-look", fixture::first_look),
        ("wide", fixture::modelled_wide),
        ("file-systems", fixture::with_file_systems),
    ];
    for (name, make) in all {
        let path = page(&directory, name, make);
        for width in [1400, 390] {
            let mut page = chromium.open(&path, "", width, false);
            assert_apart(&mut page, &format!("{name} at {width}"));
            page.screenshot(&directory.join(format!("{name}-{width}.png")));
            // As the charts are drawn for paper.
            page.run("dispatchEvent(new Event('beforeprint'))");
            assert_apart(&mut page, &format!("{name} on paper"));
            page.run("dispatchEvent(new Event('afterprint'))");
        }
        let mut page = chromium.open(&path, "", 1400, false);
        std::fs::write(directory.join(format!("{name}.pdf")), page.pdf()).unwrap();
    }
}

/// What happened: on a phone the words behind the longest bar ended outside of the picture, where
/// the axis ended with it: "99.9 ms, 98 % fsync".
#[test]
fn the_words_behind_a_bar_have_the_room_that_they_need() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("words");
    let path = page(&directory, "words", fixture::first_look);
    let mut page = chromium.open(&path, "", 390, false);
    page.run(
        "fathomReport.figures.filter(f => f.kind === 'split').forEach(f => f.marks.forEach(mark => { \
         mark.parts = [9e5, 4e5, 4e5, 98e6, 2e5]; })); dispatchEvent(new Event('afterprint'))",
    );
    assert_apart(&mut page, "long words");
}

/// What happened: on a phone a variant's name of 61 letters without a place to break it made the
/// page 573 pixels wide.
#[test]
fn a_long_name_in_a_legend_makes_no_page_wider_than_a_phone() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("long-name");
    let path = page(&directory, "long-name", fixture::first_look);
    let mut page = chromium.open(&path, "", 390, false);
    page.run(
        "document.querySelectorAll('.legend li bdi').forEach(name => { name.textContent = 'with_a_page_of_'.repeat(5); })",
    );
    assert_sound(&mut page, "long-name");
    page.screenshot(&directory.join("long-name.png"));
}

/// What happened: a label of 300 letters stood under its bar in its whole length, and the figure
/// was thousands of pixels high.
#[test]
fn a_long_name_under_a_bar_leaves_the_bars_what_is_seen() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("long-names");
    let path = page(&directory, "long-names", fixture::first_look);
    for width in [1400, 390] {
        let mut page = chromium.open(&path, "", width, false);
        for name in ["'x'.repeat(300)", "'of many words '.repeat(30)"] {
            page.run(&format!(
                "const figure = fathomReport.figures.find(f => f.kind === 'bars'); \
                 figure.series.forEach((s, at) => {{ s.name = {name} + at; }}); \
                 figure.groups = figure.groups.map((_, at) => {name} + at); \
                 dispatchEvent(new Event('afterprint'))"
            ));
            let height = page.number(
                "document.getElementById('chart-' + fathomReport.figures.findIndex(f => f.kind === 'bars'))\
                 .getBoundingClientRect().height",
            );
            assert!(height < 1000.0, "{name} at {width}: {height}");
            assert_apart(&mut page, &format!("{name} at {width}"));
        }
        page.screenshot(&directory.join(format!("{width}.png")));
    }
}

/// What happened: an interval that reaches further than three times the largest value was cut there
/// with a bar across its end, as if it ended there: [5.44 s, 157 s] was drawn up to 90 s.
#[test]
fn an_interval_that_is_cut_has_no_end_and_the_figure_says_so() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("cut-interval");
    let path = page(&directory, "cut-interval", fixture::first_look);
    let mut page = chromium.open(&path, "", 1400, false);
    const SAID: &str = "fathomReport.svgOf(fathomReport.figures[0]).includes('reaches beyond what is drawn')";
    // Whether the interval of the first bar is cut below and above.
    const CUT: &str = "(() => { const bars = echarts.getInstanceByDom(document.getElementById('chart-0')).getOption().series; \
         return bars[0].data[0].value.slice(4); })()";
    assert_eq!(page.eval(CUT), serde_json::json!([0, 0]));
    assert_eq!(page.eval(SAID), false);
    page.run(
        "const figure = fathomReport.figures[0]; \
         figure.marks.find(mark => mark.series === 0).high = 1000 * Math.max(...figure.marks.map(mark => mark.mid)); \
         dispatchEvent(new Event('afterprint'))",
    );
    assert_eq!(page.eval(CUT), serde_json::json!([0, 1]));
    assert_eq!(page.eval(SAID), true);
    assert_sound(&mut page, "cut-interval");
}

/// What happened: of eight curves the tip told the share of that one whose step was next to the
/// pointer.
#[test]
fn the_tip_of_a_distribution_tells_the_share_of_every_curve() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("shares");
    let path = page(&directory, "shares", fixture::first_look);
    let mut page = chromium.open(&path, "", 1400, false);
    let tip = page.click_on(
        "(() => { const el = document.getElementById('chart-' + fathomReport.figures.findIndex(f => f.kind === 'ecdf')); \
         el.scrollIntoView({ block: 'center', behavior: 'instant' }); const box = el.getBoundingClientRect(); \
         return [box.left + box.width * 0.6, box.top + box.height / 2]; })()",
    );
    assert!(tip.contains("at most ") && tip.matches(" %").count() == 8, "{tip}");
}

/// What happened: of two file systems each setting had two bars and two lines of one colour, and
/// one swatch; the dashes of the ECDF were not in its legend.
#[test]
fn series_of_one_colour_are_told_apart_in_the_figure_and_its_legend() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("marks");
    let path = page(&directory, "wide", fixture::modelled_wide);
    for (look, dark) in [("light", false), ("dark", true)] {
        let mut page = chromium.open(&path, "", 1400, dark);
        let marks = |page: &mut Page<'_>, figure: &str| {
            page.eval(&format!(
                "(() => {{ const i = fathomReport.figures.findIndex(f => f.id === '{figure}'); \
                 return [...document.querySelectorAll('#figure-' + i + ' .legend li')].map(li => {{ \
                 const swatch = li.querySelector('.swatch'), line = li.querySelector('.line-swatch line'); \
                 const style = getComputedStyle(swatch || line); \
                 return swatch ? style.backgroundColor + style.backgroundImage + style.borderColor + style.borderWidth \
                   : style.stroke + line.getAttribute('stroke-dasharray'); }}); }})()"
            ))
        };
        for figure in ["rate", "latencies"] {
            let all = marks(&mut page, figure);
            let all: Vec<&str> = all.as_array().unwrap().iter().map(|mark| mark.as_str().unwrap()).collect();
            assert_eq!(all.len(), 6, "{figure}");
            let mut distinct = all.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 6, "{look} {figure}: {all:?}");
        }
        // The dashes of the lines are those of the legend.
        let drawn = page.eval(
            "(() => { const i = fathomReport.figures.findIndex(f => f.id === 'latencies'), figure = fathomReport.figures[i]; \
             const lines = echarts.getInstanceByDom(document.getElementById('chart-' + i)).getOption().series; \
             return [...document.querySelectorAll('#figure-' + i + ' .legend li')].filter(li => { \
             const line = lines.find(s => s.name === li.textContent.trim()); const type = line && line.lineStyle.type; \
             return !line || (type === 'solid' ? null : type.join(' ')) !== li.querySelector('line').getAttribute('stroke-dasharray'); }) \
             .map(li => li.textContent); })()",
        );
        assert_eq!(drawn, serde_json::json!([]), "{look}");
        page.screenshot(&directory.join(format!("wide-{look}.png")));
    }
}

/// What happened: eight settings of a trace in one panel were a mass of lines in which nothing
/// could be read.
#[test]
fn many_series_of_executions_stand_in_panels_of_their_own_with_the_same_axes() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("multiples");
    let path = page(&directory, "first-look", fixture::first_look);
    for width in [1400, 390] {
        let mut page = chromium.open(&path, "", width, false);
        let panels = page.eval(
            "(() => { const i = fathomReport.figures.findIndex(f => f.id === 'series'); \
             const o = echarts.getInstanceByDom(document.getElementById('chart-' + i)).getOption(); \
             const one = (all) => new Set(all.map(a => [a.type, a.min, a.max].join())).size; \
             return [o.grid.length, o.series.length, one(o.xAxis), one(o.yAxis)]; })()",
        );
        assert_eq!(panels, serde_json::json!([8, 8, 1, 1]), "{width}");
        assert_sound(&mut page, "multiples");
    }
    // Few are compared in one.
    let path = page(&directory, "traced", fixture::traced);
    let mut page = chromium.open(&path, "", 1400, false);
    let grids = page.number(
        "(() => { const i = fathomReport.figures.findIndex(f => f.id === 'series'); \
         return echarts.getInstanceByDom(document.getElementById('chart-' + i)).getOption().grid.length; })()",
    );
    assert_eq!(grids, 1.0);
}

/// What happened: single executions in model time stood under "wall_ns" in the CSV of a figure, and
/// those of several phases of a cell in one list, in which nothing told them apart.
#[test]
fn the_csv_of_single_executions_says_what_they_are_timed_in_and_which_panel_they_are_in() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("downloads");
    let modelled = page(&directory, "modelled", |path| fixture::modelled(path, 1.0, 2.0));
    let measured = page(&directory, "first-look", fixture::first_look);
    for (path, time, other) in [(&modelled, "model_ns", "wall_ns"), (&measured, "wall_ns", "model_ns")] {
        let mut page = chromium.open(path, "", 1400, false);
        for figure in ["series", "latencies"] {
            let csv = page.text(&format!(
                "fathomReport.csvOf(fathomReport.figures.find(f => f.id === '{figure}')).slice(0, 4000)"
            ));
            let head = csv.lines().next().unwrap_or_default();
            assert!(head.contains(time) && !head.contains(other), "{figure}: {head}");
            let several =
                page.eval(&format!("fathomReport.figures.find(f => f.id === '{figure}').panels.length > 1"));
            assert_eq!(head.contains(",panel,"), several == true, "{figure}: {head}");
            let fields = |line: &str| line.split(',').count();
            assert!(csv.lines().take(9).all(|line| fields(line) == fields(head)), "{figure}: {csv}");
        }
    }
}

/// What happened: a single execution without model time left figures with logarithmic axes empty.
#[test]
fn an_execution_without_model_time_does_not_empty_a_figure() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("nothing");
    let path = page(&directory, "wide", fixture::modelled_wide);
    let mut page = chromium.open(&path, "", 1400, false);
    page.run("document.querySelectorAll('[data-tool=log][aria-pressed=false]').forEach(b => b.click())");
    for figure in ["series", "latencies"] {
        let lines = page.number(&format!(
            "(() => {{ const i = fathomReport.figures.findIndex(f => f.id === '{figure}'); \
             const colours = JSON.parse(document.getElementById('data').textContent).colours.map(c => c.light); \
             return [...document.querySelectorAll('#chart-' + i + ' svg path')].filter(p => \
             colours.includes(p.getAttribute('stroke')) && p.getBBox().width > 50 && p.getBBox().height > 10).length; }})()"
        ));
        assert_eq!(lines, 6.0, "{figure}");
    }
    assert_sound(&mut page, "nothing");
}

/// What happened: on a phone the panels of addresses had no moment on their time axis.
#[test]
fn the_time_axis_of_addresses_has_labels_at_every_width() {
    let Some(mut chromium) = browser() else { return };
    let directory = directory("times");
    let path = page(&directory, "times", |path| fixture::blocks(path, 1000));
    for width in [1400, 390, 340] {
        let mut page = chromium.open(&path, "", width, false);
        page.run("fathomBlocks.views.forEach(fathomBlocks.draw)");
        for zoom in ["", "Object.assign(fathomBlocks.views[0].view, { x0: 4.9e9, x1: 5.96e9 })"] {
            page.run(&format!("{zoom}; fathomBlocks.draw(fathomBlocks.views[0])"));
            let told = page.text("document.getElementById('address-0').dataset.times");
            assert!(told.split(" s").count() > 1 && told.split_whitespace().count() > 2, "{width}: {told}");
        }
    }
}
