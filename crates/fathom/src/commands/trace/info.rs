//! `fathom trace info`: what a trace does, in numbers.

use fathom_output::{say, shown, tell};
use fathom_trace::info::{Distribution, Info, info};
use fathom_trace::model::Loss;

use crate::cli::TraceInfo;
use crate::outcome::{Error, Outcome};

/// Prints the numbers; a trace that cannot be read to its end is counted up to there, and the
/// command fails.
pub fn run(asked: &TraceInfo) -> super::super::Result {
    let info = info(&asked.file).map_err(Error::of_trace)?;
    if asked.json {
        super::super::print_json(&info)?;
    } else if info.torn.is_none() || info.events > 0 {
        // Of a file that is torn before its first event there is nothing to count.
        print(&info);
    }
    match &info.torn {
        None => Ok(Outcome::Good),
        Some(reason) => {
            tell!("error: {reason}");
            Ok(Outcome::Failed)
        }
    }
}

fn print(info: &Info) {
    let mark = if info.anonymised { ", anonymised" } else { "" };
    say!("{} of {}{mark}", shown(&info.how), shown(&info.what));
    if let Some(note) = &info.note {
        say!("note: {}", shown(note));
    }
    if info.lost > 0 {
        say!("warning: {}", Loss::sentence(info.lost));
    }
    if let Some(untold) = &info.untold {
        say!("warning: {untold}");
    }
    say!(
        "{} events in {:.3} s; {} processes, {} threads, {} connections (at most {} at once)",
        info.events,
        info.duration_s,
        info.processes,
        info.threads,
        info.connections,
        info.connections_at_once
    );
    for database in &info.databases {
        let size = database.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        let page = database.page_bytes.map_or(String::new(), |bytes| format!(", page size {bytes}"));
        let mode =
            database.journal_mode.as_ref().map_or(String::new(), |mode| format!(", journal mode {mode}"));
        let note = database.note.as_ref().map_or(String::new(), |note| format!(": {}", shown(note)));
        say!("  {}  ({}{size}{page}{mode}{note})", shown(&database.path), database.start);
    }
    say!(
        "\n{} executions of {} texts, {} prepared, {} executed again",
        info.executed,
        info.texts,
        info.prepared,
        info.executed_again
    );
    say!(
        "  {:9} {:>10} {:>10} {:>10} {:>11} {:>9} {:>9} {:>9}",
        "statement",
        "executed",
        "rows",
        "changes",
        "time ms",
        "p50 µs",
        "p99 µs",
        "max µs"
    );
    for (verb, statement) in &info.statements {
        let latency = &statement.latency_us;
        say!(
            "  {:9} {:>10} {:>10} {:>10} {:>11.3} {:>9} {:>9} {:>9}",
            verb.name(),
            statement.executions,
            statement.rows,
            statement.changes,
            statement.time_ms,
            latency.at(0.5),
            latency.at(0.99),
            latency.max()
        );
    }
    let blobs = &info.blobs;
    if blobs.opened > 0 {
        say!(
            "\nincremental blobs: {} opened ({} for writing), {} reads of {} bytes, {} writes of {} bytes, {:.3} ms",
            blobs.opened,
            blobs.opened_for_writing,
            blobs.reads,
            blobs.read_bytes,
            blobs.writes,
            blobs.written_bytes,
            blobs.time_ms
        );
    }
    let transactions = &info.transactions;
    say!(
        "\nreads: {:.1} % of SELECT, INSERT, UPDATE and DELETE; {} bytes given to INSERT, UPDATE and DELETE or bound",
        info.read_share * 100.0,
        info.bytes_given
    );
    say!(
        "{} writing transactions: {} single statements, {} rolled back",
        transactions.count,
        transactions.autocommit,
        transactions.rolled_back
    );
    say!("  {:22} {:>10} {:>9} {:>9} {:>9} {:>9}", "", "mean", "p50", "p90", "p99", "max");
    print_distribution("writes in one", &transactions.writes);
    print_distribution("rows changed in one", &transactions.changes);
    print_distribution("think time, µs", &info.think_us);
    if !info.tables.is_empty() {
        say!("\n  {:32} {:>10} {:>10} {:>10}", "table", "reads", "writes", "changes");
        for table in &info.tables {
            say!(
                "  {:32} {:>10} {:>10} {:>10}",
                shown(&table.table),
                table.reads,
                table.writes,
                table.changes
            );
        }
    }
    print_counts("settings", info.settings.iter());
    print_counts(
        "brought by the application itself: a statement that uses it cannot be replayed without it",
        info.foreign.iter(),
    );
    for error in &info.errors {
        say!("\n  error {} ({} times): {}", error.code, error.count, shown(&error.message));
    }
    if info.unfinished > 0 {
        say!("\n  {} executions had not returned when their process was killed", info.unfinished);
    }
}

fn print_distribution(name: &str, of: &Distribution) {
    if of.count() > 0 {
        say!(
            "  {name:22} {:>10.1} {:>9} {:>9} {:>9} {:>9}",
            of.mean(),
            of.at(0.5),
            of.at(0.9),
            of.at(0.99),
            of.max()
        );
    }
}

fn print_counts<'a>(title: &str, counts: impl ExactSizeIterator<Item = (&'a String, &'a u64)>) {
    if counts.len() > 0 {
        say!("\n  {title}:");
        for (name, count) in counts {
            say!("    {count:>8} {}", shown(name));
        }
    }
}
