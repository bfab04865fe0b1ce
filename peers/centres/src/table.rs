//! The results as text.

use crate::Cell;
use crate::centre::Centre;
use std::fmt::Write;

/// One measurement, as it is told when it is done.
pub fn line(cell: &Cell) -> String {
    let [median, late, longest] = cell.figures.ms;
    format!(
        "{}, {} clients: {:.0}/s, {median:.2} ms, 99 %: {late:.2} ms, longest {longest:.0} ms; {:.3} flushes a message; \
         after kill -9 it has {} of {}",
        cell.centre, cell.clients, cell.figures.per_s, cell.flushes, cell.kept, cell.figures.accepted
    )
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    match of.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => of[odd / 2],
        even => (of[even / 2 - 1] + of[even / 2]) / 2.0,
    }
}

/// Medians over blocks: rates with least and greatest, and the 99th percentile.
pub fn table(centres: &[Centre], clients: &[usize], cells: &[Cell]) -> String {
    let mut out = String::from("| centre | survives |");
    // Writing to a string cannot fail, here and below.
    clients.iter().for_each(|count| _ = write!(out, " {count} clients, accepted/s | 99 %, ms |"));
    out.push_str(" flushes a message | after kill -9 |\n|---|---|");
    clients.iter().for_each(|_| out.push_str("---|---|"));
    out.push_str("---|---|\n");
    for centre in centres {
        let of_centre = || cells.iter().filter(|cell| cell.centre == centre.name);
        let _ = write!(out, "| {} | {} |", centre.name, centre.durability);
        for &count in clients {
            let of = |figure: fn(&Cell) -> f64| -> Vec<f64> {
                of_centre().filter(|cell| cell.clients == count).map(figure).collect()
            };
            let rates = of(|cell| cell.figures.per_s);
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let late = median(of(|cell| cell.figures.ms[1]));
            let _ = write!(out, " {:.0} ({least:.0}–{most:.0}) | {late:.1} |", median(rates));
        }
        let flushes: Vec<f64> = of_centre().map(|cell| cell.flushes).collect();
        let least = flushes.iter().copied().fold(f64::INFINITY, f64::min);
        let most = flushes.iter().copied().fold(0.0, f64::max);
        let lost: i64 = of_centre().map(|cell| cell.figures.accepted as i64 - cell.kept as i64).sum();
        let all: u64 = of_centre().map(|cell| cell.figures.accepted).sum();
        let _ = writeln!(out, " {least:.2}–{most:.2} | {lost} of {all} lost |");
    }
    out
}
