//! The block trace in the page.

use std::io::{self, Write};

use fathom_lab::analysis::{ALL_PHASES, BlockStudy, ratio, spelled};
use fathom_lab::store::TraceSource;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use serde_json::{Value, json};

use super::{CAUSE_COLOURS, Picture, cause_name, causes_of, each, factor, files, of_all_phases};
use crate::document::Document;
use crate::html::{escape, label, swatch};
use crate::number;

/// What the page's script draws from.
pub fn data(document: &Document<'_>) -> Value {
    json!({
        "pictures": document.pictures,
        "causes": Cause::ALL.iter().zip(&CAUSE_COLOURS)
            .map(|(cause, c)| json!({ "name": cause_name(*cause), "light": c.light, "dark": c.dark })).collect::<Vec<_>>(),
        "ops": BlockOp::ALL.iter().map(|op| op.name()).collect::<Vec<_>>(),
    })
}

/// The section, where anything was traced.
pub fn section(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    if document.blocks.is_empty() {
        return Ok(());
    }
    let device = document.blocks.iter().any(|it| it.source == TraceSource::Device);
    let title = if device { "What reached the device" } else { "The pattern within the files" };
    writeln!(out, "<section aria-labelledby=\"h-blocks\"><h2 id=\"h-blocks\">{title}</h2>")?;
    if device {
        writeln!(
            out,
            "<p class=\"note\">Every request to the stack's device, from the kernel's block layer, each block with its owner. \
             Numbers are for one transaction, medians over the runs, all phases together.</p>"
        )?;
    } else {
        writeln!(
            out,
            "<p class=\"note\">No device could be traced, so this is what SQLite asked of its files, and not what reached a \
             device. Numbers are for one transaction, medians over the runs, all phases together.</p>"
        )?;
    }
    ladder(document, device, out)?;
    volume(document, out)?;
    addresses(document, device, out)?;
    pattern(document, device, out)?;
    writeln!(out, "</section>")
}

fn name(document: &Document<'_>, cell: i64) -> String {
    document.results.cell(cell).map_or_else(String::new, |it| label(&spelled(it, &it.label)))
}

fn head(out: &mut dyn Write, about: &str, columns: &[&str]) -> io::Result<()> {
    write!(
        out,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{about}\"><table><thead><tr><th scope=\"col\">cell</th>"
    )?;
    for column in columns {
        let class = if *column == "phase" || column.is_empty() { "" } else { " class=\"n\"" };
        write!(out, "<th scope=\"col\"{class}>{column}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody>")
}

type Fields<'a> = &'a dyn Fn(&BlockStudy, &mut dyn Write) -> io::Result<()>;

/// All phases together, and each phase where the reader asks for it.
fn two_tables(
    document: &Document<'_>,
    about: &str,
    columns: &[&str],
    out: &mut dyn Write,
    fields: Fields<'_>,
) -> io::Result<()> {
    let row = |study: &BlockStudy, phase: bool, out: &mut dyn Write| {
        let cell = name(document, study.cell);
        write!(out, "<tr data-cell=\"{}\"><th scope=\"row\">{cell}</th>", study.cell)?;
        if phase {
            write!(out, "<td>{}</td>", label(&study.phase))?;
        }
        fields(study, out)?;
        writeln!(out, "</tr>")
    };
    head(out, about, columns)?;
    for study in of_all_phases(&document.blocks) {
        row(study, false, out)?;
    }
    writeln!(out, "</tbody></table></div>")?;
    let mut of_phases = document.blocks.iter().filter(|it| it.phase != ALL_PHASES).peekable();
    if of_phases.peek().is_some() {
        writeln!(out, "<details class=\"more\"><summary>Each phase</summary>")?;
        let mut with_phase = vec!["phase"];
        with_phase.extend(columns);
        head(out, &format!("{about}, each phase"), &with_phase)?;
        for study in of_phases {
            row(study, true, out)?;
        }
        writeln!(out, "</tbody></table></div></details>")?;
    }
    Ok(())
}

fn card(out: &mut dyn Write, title: &str, id: &str, see: &str) -> io::Result<()> {
    writeln!(
        out,
        "<figure class=\"figure\" id=\"{id}\"><figcaption><h3>{title}<span class=\"id\">{id}</span></h3><p>{see}</p></figcaption>"
    )
}

fn bytes(study: &BlockStudy, value: Option<f64>) -> String {
    value.map_or_else(|| "?".into(), |it| number::bytes(each(study, it)))
}

/// The place of [`fathom_lab::analysis::Ladder::files`] among its steps.
const FILES_STEP: usize = 2;

fn ladder(document: &Document<'_>, device: bool, out: &mut dyn Write) -> io::Result<()> {
    card(
        out,
        "The write ladder",
        "blocks-ladder",
        "Bytes at each step on the way from SQL to the device, and how much each step multiplies them.",
    )?;
    let columns: &[&str] = if device {
        &[
            "changed by SQL",
            "written by SQLite",
            "of files at the device",
            "unattributed",
            "at the device",
            "in all",
            "flushes",
        ]
    } else {
        &["changed by SQL", "written by SQLite", "in all", "syncs"]
    };
    two_tables(document, "The write ladder", columns, out, &|study, out| {
        let steps = study.ladder.steps();
        let shown = if device { 4 } else { 2 };
        for (place, (_, value)) in steps.iter().take(shown).enumerate() {
            let shown = bytes(study, *value);
            let shown = if place == FILES_STEP { files(study, shown) } else { shown };
            write!(out, "<td class=\"n\">{shown}")?;
            if let Some(before) = place.checked_sub(1).and_then(|it| steps.get(it)) {
                write!(out, " <span class=\"iv\">{}</span>", factor(ratio(*value, before.1)))?;
            }
            write!(out, "</td>")?;
            if place == FILES_STEP {
                write!(out, "<td class=\"n\">{}</td>", bytes(study, study.ladder.unattributed))?;
            }
        }
        let whole =
            if device { study.ladder.factor() } else { ratio(study.ladder.pages, study.ladder.changed) };
        let flushes = study.flushes_each.map_or_else(|| "?".into(), number::plain);
        write!(out, "<td class=\"n\">{}</td><td class=\"n\">{flushes}</td>", factor(whole))
    })?;
    writeln!(
        out,
        "<p class=\"note\">For one transaction. The small number is the factor over the step before. \
         Changed by SQL: the values of statements that changed rows, as SQLite stores them. Unattributed: at the device, and nobody knows \
         for whom; where there is any, files have at least (≥) what is told.</p></figure>"
    )
}

fn volume(document: &Document<'_>, out: &mut dyn Write) -> io::Result<()> {
    card(
        out,
        "Volume by cause",
        "blocks-volume",
        "Bytes written for one transaction, by what made them. Bars share one scale.",
    )?;
    let causes = causes_of(&document.blocks);
    write!(out, "<ul class=\"legend\">")?;
    for cause in &causes {
        write!(out, "<li>{}{}</li>", swatch(&CAUSE_COLOURS[cause.number() as usize]), cause_name(*cause))?;
    }
    writeln!(out, "</ul>")?;
    let total = |it: &BlockStudy| each(it, it.written.iter().sum());
    let most = of_all_phases(&document.blocks).map(total).fold(1.0, f64::max);
    let mut columns = vec!["", "written"];
    columns.extend(causes.iter().map(|it| cause_name(*it)));
    columns.push("attributed");
    head(out, "Volume by cause", &columns)?;
    for study in of_all_phases(&document.blocks) {
        write!(
            out,
            "<tr data-cell=\"{}\"><th scope=\"row\">{}</th><td><span class=\"volume\" aria-hidden=\"true\">",
            study.cell,
            name(document, study.cell)
        )?;
        for cause in &causes {
            let colour = &CAUSE_COLOURS[cause.number() as usize];
            let share = 100.0 * each(study, study.written[cause.number() as usize]) / most;
            write!(out, "<i style=\"--c:{};--d:{};width:{share:.2}%\"></i>", colour.light, colour.dark)?;
        }
        write!(out, "</span></td><td class=\"n\">{}</td>", number::bytes(total(study)))?;
        for cause in &causes {
            write!(
                out,
                "<td class=\"n\">{}</td>",
                number::bytes(each(study, study.written[cause.number() as usize]))
            )?;
        }
        let attributed = study.attributed().map_or_else(|| "?".into(), |it| format!("{:.1} %", 100.0 * it));
        writeln!(out, "<td class=\"n\">{attributed}</td></tr>")?;
    }
    writeln!(out, "</tbody></table></div></figure>")
}

fn pattern(document: &Document<'_>, device: bool, out: &mut dyn Write) -> io::Result<()> {
    card(
        out,
        "Pattern",
        "blocks-pattern",
        "How the requests follow one another, how large they are, and how long they take.",
    )?;
    let columns = [
        "writes",
        "sequential",
        "seek p50",
        "size p50 / p99",
        "depth mean / max",
        "write p50 / p99",
        "flush p50 / p99",
    ];
    two_tables(document, "Pattern", &columns, out, &|study, out| {
        let unknown = || "?".to_owned();
        let pair = |value: Option<[f64; 2]>, shown: fn(f64) -> String| {
            value.map_or_else(unknown, |[a, b]| format!("{} / {}", shown(a), shown(b)))
        };
        let writes = study.requests[BlockOp::Write.number() as usize];
        let mut fields = vec![
            number::plain(each(study, writes)),
            study.sequential.map_or_else(unknown, number::percent),
            study.seek_bytes.map_or_else(unknown, number::bytes),
        ];
        fields.push(pair(study.size_bytes, number::bytes));
        fields.push(pair(study.depth, number::plain));
        fields.push(pair(study.write_ns, number::time));
        fields.push(pair(study.flush_ns, number::time));
        for field in fields {
            write!(out, "<td class=\"n\">{field}</td>")?;
        }
        Ok(())
    })?;
    let seek = if device {
        "the median way from a request's end to the next one's begin, whoever made them"
    } else {
        "not known within files"
    };
    writeln!(
        out,
        "<p class=\"note\">Sequential: the share of writes that begin where the last write of the same \
         cause ended. Seek: {seek}. Depth: requests under way while there are any. Times from submission to completion.</p></figure>"
    )
}

fn addresses(document: &Document<'_>, device: bool, out: &mut dyn Write) -> io::Result<()> {
    let see = if device {
        "Each request where it went on the device, when. Unused stretches are cut out of the axis; flushes are the ticks below."
    } else {
        "Each call where it went in its file, when. Syncs are the ticks below."
    };
    card(out, "Address over time", "blocks-address", see)?;
    write!(out, "<ul class=\"legend\">")?;
    for cause in causes_of(&document.blocks).into_iter().chain([Cause::Flush]) {
        let number = cause.number();
        write!(
            out,
            "<li><button type=\"button\" class=\"chip\" aria-pressed=\"true\" data-cause=\"{number}\">{}{}</button></li>",
            swatch(&CAUSE_COLOURS[number as usize]),
            cause_name(cause)
        )?;
    }
    writeln!(out, "</ul><div class=\"addresses\">")?;
    for (index, picture) in document.pictures.iter().enumerate() {
        panel(document, picture, index, out)?;
    }
    writeln!(
        out,
        "</div><p class=\"note\">All panels have one time axis, and zoom together: drag, or Ctrl and the wheel, or pinch; double-click to see all \
         again; with the keyboard: + and −, arrows, 0. \
         `fathom report RESULTS.db --requests` prints every request as CSV.</p></figure>"
    )
}

fn panel(document: &Document<'_>, picture: &Picture, index: usize, out: &mut dyn Write) -> io::Result<()> {
    let cell = name(document, picture.cell);
    let plain = document.results.cell(picture.cell).map_or_else(String::new, |it| spelled(it, &it.label));
    let study = of_all_phases(&document.blocks).find(|it| it.cell == picture.cell);
    let said = study.map_or_else(String::new, |it| {
        let written: Vec<String> = causes_of(std::slice::from_ref(it))
            .into_iter()
            .map(|cause| {
                let bytes = each(it, it.written[cause.number() as usize]);
                format!("{} {}", cause_name(cause), number::bytes(bytes))
            })
            .collect();
        format!(" Written for one transaction: {}.", written.join(", "))
    });
    writeln!(
        out,
        "<div class=\"address\" data-cell=\"{}\"><h4>{cell}</h4><canvas id=\"address-{index}\" tabindex=\"0\" role=\"img\" \
         aria-label=\"Address over time of {}: {} requests in {}.{said} The tables above hold the values.\"></canvas>",
        picture.cell,
        escape(&plain),
        number::plain(picture.requests as f64),
        number::time(picture.span_ns as f64),
    )?;
    let mut notes = Vec::new();
    if (picture.drawn as u64) < picture.requests {
        notes.push(format!(
            "{} requests in {} dots: neighbours of one kind are joined.",
            number::plain(picture.requests as f64),
            number::plain(picture.drawn as f64)
        ));
    }
    if picture.lost_events > 0 {
        notes.push(format!("{} events were lost.", number::plain(picture.lost_events as f64)));
    }
    notes.extend(picture.remarks.iter().map(|it| format!("{it}.")));
    if !notes.is_empty() {
        writeln!(out, "<p class=\"note\">{}</p>", escape(&notes.join(" ")))?;
    }
    writeln!(out, "</div>")
}
