//! The block trace in the page.

use fathom_lab::analysis::{ALL_PHASES, BlockStudy, ratio};
use fathom_lab::store::TraceSource;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{CAUSE_COLOURS, Picture, cause_name, causes_of, each, factor, files, of_all_phases};
use crate::document::Document;
use crate::number;
use crate::page::{cell_name, colours, column, label, number_cell, scrolled, swatch};

const DEVICE_NOTE: &str = "Every request to the stack's device, from the kernel's block layer, each block with its \
    owner. Numbers are for one transaction, medians over the runs, all phases together.";

const FILES_NOTE: &str = "No device could be traced, so this is what SQLite asked of its files, and not what \
    reached a device. Numbers are for one transaction, medians over the runs, all phases together.";

const LADDER_NOTE: &str = "For one transaction. The small number is the factor over the step before. Changed by SQL: \
    the values of statements that changed rows, as SQLite stores them. Unattributed: at the device, and nobody knows \
    for whom; where there is any, files have at least (≥) what is told.";

const ADDRESS_NOTE: &str = "All panels have one time axis, and zoom together: drag, or Ctrl and the wheel, or pinch; \
    double-click to see all again; with the keyboard: + and −, arrows, 0. \
    `fathom report RESULTS.db --requests` prints every request as CSV.";

/// What the page's script draws from.
pub fn data(document: &Document<'_>) -> Value {
    json!({
        "pictures": document.pictures,
        "causes": Cause::ALL.iter().zip(&CAUSE_COLOURS)
            .map(|(cause, c)| json!({ "name": cause_name(*cause), "light": c.light, "dark": c.dark }))
            .collect::<Vec<_>>(),
        "ops": BlockOp::ALL.iter().map(|op| op.name()).collect::<Vec<_>>(),
    })
}

/// The section, where anything was traced.
pub fn section(document: &Document<'_>) -> Markup {
    let is_of_device = document.blocks.iter().any(|study| study.source == TraceSource::Device);
    let (title, note) = if is_of_device {
        ("What reached the device", DEVICE_NOTE)
    } else {
        ("The pattern within the files", FILES_NOTE)
    };
    html! {
        @if !document.blocks.is_empty() {
            section aria-labelledby="h-blocks" {
                h2 id="h-blocks" { (title) }
                p.note { (note) }
                (ladder(document, is_of_device))
                (volume(document))
                (addresses(document, is_of_device))
                (pattern(document, is_of_device))
            }
        }
    }
}

fn card(title: &str, id: &str, see: &str, inside: &Markup) -> Markup {
    html! {
        figure.figure id=(id) {
            figcaption { h3 { (title) span.id { (id) } } p { (see) } }
            (inside)
        }
    }
}

/// The column of bars.
const BY_CAUSE: &str = "by cause";

fn head(columns: &[&str]) -> Markup {
    html! {
        thead {
            tr {
                (column("cell", false))
                @for name in columns { (column(name, !matches!(*name, "phase" | BY_CAUSE))) }
            }
        }
    }
}

type Fields<'a> = &'a dyn Fn(&BlockStudy) -> Markup;

/// All phases together, and each phase where the reader asks for it.
fn two_tables(document: &Document<'_>, about: &str, columns: &[&str], fields: Fields<'_>) -> Markup {
    let row = |study: &BlockStudy, has_phase: bool| {
        html! {
            tr data-cell=(study.cell) {
                th scope="row" { (cell_name(document.results, study.cell)) }
                @if has_phase { td { (label(&study.phase)) } }
                (fields(study))
            }
        }
    };
    let mut of_phases = document.blocks.iter().filter(|study| study.phase != ALL_PHASES).peekable();
    let mut with_phase = vec!["phase"];
    with_phase.extend(columns);
    html! {
        (scrolled(about, &html! {
            table.sortable.close {
                (head(columns))
                tbody { @for study in of_all_phases(&document.blocks) { (row(study, false)) } }
            }
        }))
        @if of_phases.peek().is_some() {
            details.more {
                summary { "Each phase" }
                (scrolled(&format!("{about}, each phase"), &html! {
                    table.sortable.close {
                        (head(&with_phase))
                        tbody { @for study in of_phases { (row(study, true)) } }
                    }
                }))
            }
        }
    }
}

fn bytes(study: &BlockStudy, value: Option<f64>) -> String {
    value.map_or_else(|| "?".into(), |bytes| number::bytes(each(study, bytes)))
}

/// The place of [`fathom_lab::analysis::Ladder::files`] among its steps.
const FILES_STEP: usize = 2;

fn ladder(document: &Document<'_>, is_of_device: bool) -> Markup {
    let columns: &[&str] = if is_of_device {
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
    let steps_shown = if is_of_device { 4 } else { 2 };
    let fields = |study: &BlockStudy| {
        let steps = study.ladder.steps();
        let whole = if is_of_device {
            study.ladder.factor()
        } else {
            ratio(study.ladder.pages, study.ladder.changed)
        };
        html! {
            @for (place, (_, value)) in steps.iter().take(steps_shown).enumerate() {
                td.n data-v=[value.map(|bytes| each(study, bytes))] {
                    @if place == FILES_STEP { (files(study, bytes(study, *value))) } @else { (bytes(study, *value)) }
                    @if let Some(before) = place.checked_sub(1).and_then(|place| steps.get(place)) {
                        " " span.iv { (factor(ratio(*value, before.1))) }
                    }
                }
                @if place == FILES_STEP {
                    @let unattributed = study.ladder.unattributed;
                    (number_cell(unattributed.map(|bytes| each(study, bytes)), &bytes(study, unattributed)))
                }
            }
            (number_cell(whole, &factor(whole)))
            (number_cell(study.flushes_each, &study.flushes_each.map_or_else(|| "?".into(), number::plain)))
        }
    };
    card(
        "The write ladder",
        "blocks-ladder",
        "Bytes at each step on the way from SQL to the device, and how much each step multiplies them.",
        &html! {
            (two_tables(document, "The write ladder", columns, &fields))
            p.note { (LADDER_NOTE) }
        },
    )
}

fn volume(document: &Document<'_>) -> Markup {
    let causes = causes_of(&document.blocks);
    let colour_of = |cause: &Cause| &CAUSE_COLOURS[cause.number() as usize];
    let of_cause = |study: &BlockStudy, cause: &Cause| each(study, study.written[cause.number() as usize]);
    let total = |study: &BlockStudy| each(study, study.written.iter().sum());
    let most = of_all_phases(&document.blocks).map(total).fold(1.0, f64::max);
    let mut columns = vec![BY_CAUSE, "written"];
    columns.extend(causes.iter().map(|cause| cause_name(*cause)));
    columns.push("attributed");
    let row = |study: &BlockStudy| {
        html! {
            tr data-cell=(study.cell) {
                th scope="row" { (cell_name(document.results, study.cell)) }
                td data-v=(total(study)) {
                    span.volume aria-hidden="true" {
                        @for cause in &causes {
                            @let share = 100.0 * of_cause(study, cause) / most;
                            i style={ (colours(colour_of(cause))) (format!(";width:{share:.2}%")) } {}
                        }
                    }
                }
                (number_cell(Some(total(study)), &number::bytes(total(study))))
                @for cause in &causes {
                    @let written = of_cause(study, cause);
                    (number_cell(Some(written), &number::bytes(written)))
                }
                @let attributed = study.attributed();
                (number_cell(attributed, &attributed.map_or_else(|| "?".into(), |share| format!("{:.1} %", 100.0 * share))))
            }
        }
    };
    card(
        "Volume by cause",
        "blocks-volume",
        "Bytes written for one transaction, by what made them. Bars share one scale.",
        &html! {
            ul.legend { @for cause in &causes { li { (swatch(colour_of(cause))) (cause_name(*cause)) } } }
            (scrolled("Volume by cause", &html! {
                table.sortable.close {
                    (head(&columns))
                    tbody { @for study in of_all_phases(&document.blocks) { (row(study)) } }
                }
            }))
        },
    )
}

fn pattern(document: &Document<'_>, is_of_device: bool) -> Markup {
    let columns = [
        "writes",
        "sequential",
        "seek p50",
        "size p50 / p99",
        "depth mean / max",
        "write p50 / p99",
        "flush p50 / p99",
    ];
    let fields = |study: &BlockStudy| {
        let unknown = || "?".to_owned();
        let pair = |value: Option<[f64; 2]>, shown: fn(f64) -> String| {
            value.map_or_else(unknown, |[a, b]| format!("{} / {}", shown(a), shown(b)))
        };
        let writes = study.requests[BlockOp::Write.number() as usize];
        // A pair is sorted by its first.
        let first = |value: Option<[f64; 2]>| value.map(|pair| pair[0]);
        let fields = [
            (Some(each(study, writes)), number::plain(each(study, writes))),
            (study.sequential, study.sequential.map_or_else(unknown, number::percent)),
            (study.seek_bytes, study.seek_bytes.map_or_else(unknown, number::bytes)),
            (first(study.size_bytes), pair(study.size_bytes, number::bytes)),
            (first(study.depth), pair(study.depth, number::plain)),
            (first(study.write_ns), pair(study.write_ns, number::time)),
            (first(study.flush_ns), pair(study.flush_ns, number::time)),
        ];
        html! { @for (value, shown) in &fields { (number_cell(*value, shown)) } }
    };
    let seek = if is_of_device {
        "the median way from a request's end to the next one's begin, whoever made them"
    } else {
        "not known within files"
    };
    card(
        "Pattern",
        "blocks-pattern",
        "How the requests follow one another, how large they are, and how long they take.",
        &html! {
            (two_tables(document, "Pattern", &columns, &fields))
            p.note {
                "Sequential: the share of writes that begin where the last write of the same cause ended. Seek: "
                (seek) ". Depth: requests under way while there are any. Times from submission to completion."
            }
        },
    )
}

fn addresses(document: &Document<'_>, is_of_device: bool) -> Markup {
    let see = if is_of_device {
        "Each request where it went on the device, when. Unused stretches are cut out of the axis; flushes are the \
         ticks below."
    } else {
        "Each call where it went in its file, when. Syncs are the ticks below."
    };
    card(
        "Address over time",
        "blocks-address",
        see,
        &html! {
            ul.legend {
                @for cause in causes_of(&document.blocks).into_iter().chain([Cause::Flush]) {
                    li {
                        button.chip type="button" aria-pressed="true" data-cause=(cause.number()) {
                            (swatch(&CAUSE_COLOURS[cause.number() as usize])) (cause_name(cause))
                        }
                    }
                }
            }
            div.addresses {
                @for (index, picture) in document.pictures.iter().enumerate() { (panel(document, picture, index)) }
            }
            p.note { (ADDRESS_NOTE) }
        },
    )
}

fn panel(document: &Document<'_>, picture: &Picture, index: usize) -> Markup {
    let title = document.results.cell(picture.cell).map_or("", |cell| cell.title.as_str());
    let study = of_all_phases(&document.blocks).find(|study| study.cell == picture.cell);
    let written = study.map_or_else(String::new, |study| {
        let of_cause = |cause: Cause| {
            let bytes = each(study, study.written[cause.number() as usize]);
            format!("{} {}", cause_name(cause), number::bytes(bytes))
        };
        let parts: Vec<String> = causes_of(std::slice::from_ref(study)).into_iter().map(of_cause).collect();
        format!(" Written for one transaction: {}.", parts.join(", "))
    });
    let description = format!(
        "Address over time of {title}: {} requests in {}.{written} The tables above hold the values.",
        number::plain(picture.requests as f64),
        number::time(picture.span_ns as f64)
    );
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
    notes.extend(picture.remarks.iter().map(|remark| format!("{remark}.")));
    html! {
        div.address data-cell=(picture.cell) {
            h4 { (cell_name(document.results, picture.cell)) }
            canvas id={ "address-" (index) } tabindex="0" role="img" aria-label=(description) {}
            @if !notes.is_empty() { p.note { (notes.join(" ")) } }
        }
    }
}
