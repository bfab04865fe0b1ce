//! The legend of a figure: what each series is drawn with, and a filter where it stands for a
//! value.

use fathom_lab::experiment::FigureKind as Kind;
use maud::{Markup, html};

use crate::figure::{Figure, Series};
use crate::page::{chip, colours, label, swatch};
use crate::palette::{DASHES, PART_COLOURS, PARTS, VALUE_COLOURS};

/// Every series, or every part of a split, with its mark.
pub fn of(figure: &Figure) -> Markup {
    let drawn = figure.series.iter().enumerate().filter(|(index, _)| figure.draws(*index));
    html! {
        ul.legend {
            @if figure.kind == Kind::Split {
                @for (name, colour) in PARTS.iter().zip(&PART_COLOURS) {
                    li { (swatch(colour)) (name) }
                }
            } @else {
                @for (_, series) in drawn {
                    @let inside = html! { (mark(figure, series)) (label(&series.name)) };
                    li {
                        @if let (Some(axis), Some(value)) = (&figure.by, &series.value) {
                            (chip(axis, value, &inside))
                        } @else {
                            (inside)
                        }
                    }
                }
            }
        }
    }
}

/// A piece of the line with its dashes, or a small bar with its filling.
fn mark(figure: &Figure, series: &Series) -> Markup {
    let colour = colours(&VALUE_COLOURS[series.colour]);
    // Of single executions in order the spikes would be lost in dashes.
    let dashes = if figure.kind == Kind::Series { "" } else { DASHES[series.dash] };
    html! {
        @if figure.has_lines() {
            svg.line-swatch aria-hidden="true" width="28" height="10" style=(colour) {
                line x1="1" y1="5" x2="27" y2="5" stroke-dasharray=[Some(dashes).filter(|all| !all.is_empty())] {}
            }
        } @else {
            span class={ "swatch pattern-" (series.pattern) } style=(colour) {}
        }
    }
}
