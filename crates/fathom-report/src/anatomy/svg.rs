//! The picture of the anatomy of one commit.

use fathom_lab::anatomy::{Anatomy, RequestSpan};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;

use super::{at, kind, notes, rows, sentence, title, took_of_call};
use crate::blocks::{CAUSE_COLOURS, cause_name};
use crate::canvas::{Canvas, INK, MUTED, WIDTH, document, text_width, within_page};
use crate::number;
use crate::palette::Colour;

/// What the statements are drawn in; words in them are dark on light and light on dark.
const STATEMENT: Colour = Colour { light: "#c9d8ea", dark: "#34506e" };
/// What the execution is drawn in.
const WHOLE: Colour = Colour { light: "#dfe6ee", dark: "#2b3640" };
/// What the calls are drawn in.
const CALL: &str = MUTED;
/// What the device's work is drawn in where nobody knows whose it is.
const NOBODY: Colour = Colour { light: "#8a9099", dark: "#8b949e" };
/// The lines of the time axis.
const RULE: Colour = Colour { light: "#e2e4e8", dark: "#31373e" };

fn colour(request: &RequestSpan) -> &'static str {
    let owner = if request.op == BlockOp::Flush { Some(Cause::Flush) } else { request.owner };
    owner.map_or(NOBODY.light, |owner| CAUSE_COLOURS[owner.number() as usize].light)
}

/// As much of a text as has room, with `…` where that is not all; nothing where it is next to
/// nothing.
fn fitting(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        if text_width(&short, size) + text_width("m…", size) > room {
            break;
        }
        short.push(letter);
    }
    if short.chars().count() < 4 { String::new() } else { short + "…" }
}

/// A step of the time axis: 1, 2 or 5 times a power of ten, at most eight of them.
fn step(span: f64) -> f64 {
    let rough = (span / 8.0).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|power| *power >= rough).unwrap_or(rough)
}

/// The picture: the execution, its calls, and what the device served, on one time line.
#[must_use]
pub fn anatomy_svg(anatomy: &Anatomy) -> String {
    let (height, body) = drawn(anatomy);
    document(&title(anatomy), &sentence(anatomy), height, &body)
}

/// The same for a page, in whose colours it is.
pub fn in_page(anatomy: &Anatomy) -> String {
    let (height, body) = drawn(anatomy);
    let own = [STATEMENT, WHOLE, NOBODY, RULE];
    let colours: Vec<Colour> = own.into_iter().chain(CAUSE_COLOURS).collect();
    within_page(&title(anatomy), &sentence(anatomy), height, &body, &colours)
}

/// Height, and what is drawn.
fn drawn(anatomy: &Anatomy) -> (f64, Canvas) {
    const LEFT: f64 = 96.0;
    const ROW: f64 = 20.0;
    const BAR: f64 = 14.0;
    let starts = anatomy
        .requests
        .iter()
        .map(|request| request.start_ns)
        .chain(anatomy.calls.iter().map(|call| call.start_ns));
    let ends = anatomy
        .requests
        .iter()
        .map(|request| request.end_ns)
        .chain(anatomy.calls.iter().map(|call| call.end_ns));
    let wall = anatomy.wall_ns as f64;
    // What began before or ends after is cut off at a tenth of the execution.
    let from = (starts.min().unwrap_or(0) as f64).clamp(-0.1 * wall, 0.0);
    let to = (ends.max().unwrap_or(0) as f64).clamp(wall, 1.1 * wall);
    let width = WIDTH - LEFT - 12.0;
    let x = |ns: f64| LEFT + (ns.clamp(from, to) - from) / (to - from).max(1.0) * width;
    let mut body = Canvas::default();
    let mut y = 20.0;
    y = body.paragraph(y, &title(anatomy), INK, 15, true) + 16.0;
    for text in [sentence(anatomy)].into_iter().chain(notes(anatomy)) {
        y = body.paragraph(y, &text, MUTED, 10, false) + 13.0;
    }
    y += 8.0;
    let (top, mut bars) = (y, Canvas::default());
    let bar = |canvas: &mut Canvas, y: f64, span: (i64, i64), colour: &str, words: &str, light: bool| {
        let (left, right) = (x(span.0 as f64), x(span.1 as f64));
        canvas.rect(left, y, (right - left).max(1.0), BAR, colour);
        if right - left > text_width(words, 10.0) + 6.0 {
            let ink = if light { INK } else { "#ffffff" };
            canvas.text(left + 4.0, y + 10.5, words, "start", ink, 10, false);
        }
    };
    body.text(LEFT - 8.0, y + 11.0, &anatomy.unit, "end", INK, 11, false);
    let whole = (0, i64::try_from(anatomy.wall_ns).unwrap_or(i64::MAX));
    bar(&mut bars, y, whole, WHOLE.light, &super::whole(anatomy), true);
    y += ROW + 4.0;
    if !anatomy.statements.is_empty() {
        body.text(LEFT - 8.0, y + 11.0, "statements", "end", INK, 11, false);
    }
    let all = &anatomy.statements;
    let statement_rows = rows(all.iter().map(|statement| (statement.start_ns, statement.end_ns)));
    for (place, (statement, row)) in all.iter().zip(&statement_rows).enumerate() {
        let (left, right) = (x(statement.start_ns as f64), x(statement.end_ns as f64));
        let inside = fitting(&statement.text, 10.0, right - left - 7.0);
        let top = y + *row as f64 * ROW;
        bar(&mut bars, top, (statement.start_ns, statement.end_ns), STATEMENT.light, &inside, true);
        // Beside a bar that is too short, as far as the next one of its row leaves room.
        let mut later = all[place + 1..].iter().zip(&statement_rows[place + 1..]);
        let next = later.find(|(_, other)| *other == row);
        let room = next.map_or(WIDTH, |(next, _)| x(next.start_ns as f64)) - right;
        let beside =
            if inside.is_empty() { fitting(&statement.text, 9.0, room - 6.0) } else { String::new() };
        bars.text(right + 3.0, top + 10.5, &beside, "start", MUTED, 9, false);
    }
    y += statement_rows.iter().max().map_or(0.0, |row| (*row + 1) as f64 * ROW) + 4.0;
    let call_rows = rows(anatomy.calls.iter().map(|call| (call.start_ns, call.end_ns)));
    if !anatomy.calls.is_empty() {
        body.text(LEFT - 8.0, y + 11.0, "calls on files", "end", INK, 11, false);
    }
    for (number, (call, row)) in (1..).zip(anatomy.calls.iter().zip(&call_rows)) {
        let words = format!("{} {number}: {}", kind(anatomy, call), at(took_of_call(call)));
        bar(&mut bars, y + *row as f64 * ROW, (call.start_ns, call.end_ns), CALL, &words, false);
    }
    y += call_rows.iter().max().map_or(0.0, |row| (*row + 1) as f64 * ROW) + 4.0;
    // A row for each owner, so that the eye finds whose each write was.
    let mut kinds: Vec<(u8, &'static str, &'static str)> = Vec::new();
    for request in &anatomy.requests {
        let kind = (request.device, name_of(request), colour(request));
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for (device, name, colour) in kinds {
        let own: Vec<&RequestSpan> = anatomy
            .requests
            .iter()
            .filter(|request| request.device == device && name_of(request) == name)
            .collect();
        let of_log = if device > 0 { "log: " } else { "" };
        body.text(LEFT - 8.0, y + 11.0, &format!("{of_log}{name}"), "end", INK, 11, false);
        let rows = rows(own.iter().map(|span| (span.start_ns, span.end_ns)));
        for (place, (span, row)) in own.iter().zip(&rows).enumerate() {
            let words = match span.op {
                BlockOp::Flush => at(span.end_ns - span.start_ns),
                _ => number::bytes(span.bytes as f64),
            };
            let y = y + *row as f64 * ROW;
            let (left, right) = (x(span.start_ns as f64), x(span.end_ns as f64));
            let fits_inside = right - left > text_width(&words, 10.0) + 6.0;
            let inside = if fits_inside { words.as_str() } else { "" };
            bar(&mut bars, y, (span.start_ns, span.end_ns), colour, inside, false);
            // Beside a bar that is too short, as far as the next one of its row leaves room.
            let next = own[place + 1..].iter().zip(&rows[place + 1..]).find(|(_, other)| *other == row);
            let room = next.map_or(WIDTH, |(next, _)| x(next.start_ns as f64)) - right;
            if !fits_inside && text_width(&words, 9.0) + 4.0 < room {
                bars.text(right + 3.0, y + 10.5, &words, "start", MUTED, 9, false);
            }
        }
        y += rows.iter().max().map_or(1.0, |row| (*row + 1) as f64) * ROW;
    }
    let step = step(to - from);
    let mut tick = (from / step).ceil() * step;
    while tick <= to {
        body.line(x(tick), top - 4.0, x(tick), y, RULE.light, 1.0);
        body.text(x(tick), y + 13.0, &at(tick as i64), "middle", MUTED, 10, false);
        tick += step;
    }
    body.put_all(&bars);
    (y + 22.0, body)
}

/// Whose a request is, as its row is called.
fn name_of(request: &RequestSpan) -> &'static str {
    match (request.op, request.owner) {
        (BlockOp::Flush, _) => "flush",
        (_, Some(Cause::FileSystemJournal)) => "fs journal",
        (_, Some(Cause::Metadata)) => "fs metadata",
        (_, Some(Cause::RollbackJournal)) => "journal",
        (_, Some(owner)) => cause_name(owner),
        (op, None) => op.name(),
    }
}
