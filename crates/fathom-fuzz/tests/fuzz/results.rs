//! results.db: damaged pages, and values that nobody measured under pages that are right.

use fathom_fuzz::{Fuzz, Random, Scratch, mutate};
use fathom_lab::store::Results;
use fathom_report::Style;
use rusqlite::Connection;

/// What would break out of a page, a terminal or a directory if it came through.
const BREAKS: &str = "<fuzz\u{1b}[2J>../";

/// A small results file with a block trace.
fn seed(scratch: &Scratch) -> Vec<u8> {
    let path = scratch.path().join("seed.db");
    crate::fixture::blocks(&path, 30);
    let db = Connection::open(&path).expect("the results");
    // Two cells of two runs each are enough, and quick.
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA journal_mode = DELETE;
         DELETE FROM cell WHERE id > (SELECT min(id) + 1 FROM cell);
         DELETE FROM run WHERE cell NOT IN (SELECT id FROM cell) OR block > 1 AND id > 2;
         DELETE FROM sample WHERE run NOT IN (SELECT id FROM run) OR seq > 5;
         DELETE FROM phase WHERE run NOT IN (SELECT id FROM run);
         DELETE FROM io WHERE run NOT IN (SELECT id FROM run);
         DELETE FROM verified WHERE run NOT IN (SELECT id FROM run);
         DELETE FROM warning WHERE run NOT IN (SELECT id FROM run);
         VACUUM;",
    )
    .expect("fewer of them");
    drop(db);
    std::fs::read(&path).expect("the results")
}

/// A value of any type.
fn value(random: &mut Random) -> rusqlite::types::Value {
    use rusqlite::types::Value;
    match random.below(8) {
        0 => Value::Null,
        1 | 2 => Value::Integer(mutate::number(random) as i64),
        3 => Value::Real(*random.pick(&[
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
            -1.0,
            0.0,
            1e300,
        ])),
        4 => Value::Blob(random.bits().to_le_bytes().to_vec()),
        5 => Value::Text(BREAKS.into()),
        6 => Value::Text(String::new()),
        _ => Value::Text(
            (*random.pick(&[
                "{}",
                "[]",
                "null",
                "[[[[",
                "done",
                "failed",
                "1e999",
                "\u{202e}x",
                "[{\"name\":1}]",
            ]))
            .into(),
        ),
    }
}

/// The tables and their columns.
fn columns(bytes: &[u8], scratch: &Scratch) -> Vec<(String, String)> {
    let path = scratch.path().join("columns.db");
    std::fs::write(&path, bytes).expect("the results");
    let db = Connection::open(&path).expect("the results");
    let mut select = db
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'",
        )
        .expect("the schema");
    let found: rusqlite::Result<Vec<(String, String)>> =
        select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("the schema").collect();
    found.expect("the schema")
}

/// Everything that is made of a results file.
fn report(results: &Results) -> Result<(), String> {
    let mut out = Vec::new();
    if let Ok(text) = fathom_report::terminal(results, &Style::PLAIN)
        && let Some(line) = text.lines().find(|line| line.contains('\u{1b}'))
    {
        return Err(format!("an escape comes through to the terminal, in {line:?}"));
    }
    if fathom_report::html(results, &mut out).is_ok() && out.windows(5).any(|window| window == b"<fuzz") {
        return Err("markup comes through to the page".into());
    }
    out.clear();
    let _ = fathom_report::csv(results, &mut out);
    if fathom_report::json(results, true, &mut Vec::new()).is_ok() {
        out.clear();
        fathom_report::json(results, true, &mut out).map_err(|error| error.to_string())?;
        serde_json::from_slice::<serde_json::Value>(&out)
            .map_err(|error| format!("the JSON is none: {error}"))?;
    }
    let _ = fathom_report::blocks_csv(results, &mut out);
    let _ = fathom_report::requests_csv(results, &mut out);
    let _ = fathom_report::requests_json(results, &mut out);
    for (id, _) in fathom_report::figures(results).unwrap_or_default() {
        if let Ok(svg) = fathom_report::figure_svg(results, &id)
            && svg.contains("<fuzz")
        {
            return Err(format!("markup comes through to the figure {id}"));
        }
    }
    let _ = fathom_report::compare_terminal(results, results, &Style::PLAIN);
    Ok(())
}

#[test]
fn results_are_reported_or_refused() {
    let target = Fuzz::new("results::results_are_reported_or_refused", 300).memory(64 << 20, 200);
    let scratch = Scratch::new().expect("a scratch directory");
    let good = seed(&scratch);
    let columns = columns(&good, &scratch);
    let path = scratch.path().join("results.db");
    std::fs::write(&path, &good).expect("the results");
    report(&Results::load(&path).expect("the good results")).expect("the good report");
    scratch.clear().expect("an empty directory");
    let mut reported = 0_u64;
    let mut loaded = 0_u64;
    target.run(
        |random| {
            let mut bytes = good.clone();
            let times = 1 + random.below(4);
            if random.below(3) == 0 {
                mutate::bytes(random, &mut bytes, times, &[]);
            } else {
                let made = scratch.path().join("made.db");
                std::fs::write(&made, &good).expect("a copy");
                let db = Connection::open(&made).expect("a copy");
                let _ = db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
                for _ in 0..times {
                    let (table, column) = random.pick(&columns);
                    let which = random.below(4) as i64;
                    let value = value(random);
                    // What the schema forbids stays as it was.
                    let _ = db.execute(&format!("UPDATE \"{table}\" SET \"{column}\" = ?1 WHERE rowid % 4 = ?2 OR rowid < 3"), (value, which));
                }
                drop(db);
                bytes = std::fs::read(&made).expect("a copy");
            }
            let length = bytes.len();
            (bytes, length)
        },
        |bytes| {
            std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
            let Ok(results) = Results::load(&path) else { return Ok(()) };
            loaded += 1;
            // A report takes a hundred times as long as reading.
            if loaded % 8 == 1 {
                report(&results)?;
                reported += 1;
            }
            drop(results);
            let now = std::fs::read(&path).map_err(|error| error.to_string())?;
            if now != *bytes {
                return Err("reading the results has changed them".into());
            }
            scratch.outside_is_untouched(&[])
        },
    );
    assert!(reported > 0, "not one of the results was reported");
}
