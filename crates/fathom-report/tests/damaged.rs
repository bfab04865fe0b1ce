//! What happened: of 220 results files with one flipped bit, 12 gave another CSV or JSON, exit code
//! 0 and not a word. The harm is a wrong number that looks like every measured one. The mend:
//! results carry a checksum for each run and for what belongs to none, and indexes are compared
//! with what they lead to. So whatever bit of a file is flipped: all exports are as before, or the
//! file is refused.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod fixture;

use std::path::Path;

use fathom_lab::store::Results;
use fathom_report::ReportError;

/// All that other programs read of the results.
fn exports(path: &Path) -> Result<Vec<u8>, ReportError> {
    let results = Results::load(path)?;
    let mut out = Vec::new();
    fathom_report::csv(&results, &mut out)?;
    fathom_report::json(&results, true, &mut out)?;
    Ok(out)
}

#[test]
fn a_flipped_bit_changes_no_export_silently() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    fixture::first_look(&path);
    let good = std::fs::read(&path).unwrap();
    let whole = exports(&path).unwrap();
    let damaged = directory.path().join("damaged.db");
    let cases = if std::env::var_os("FATHOM_LONG").is_some() { 20_000 } else { 400 };
    let (mut refused, mut harmless) = (0, 0);
    // Places spread over the file without a pattern of its own: multiples of the golden ratio.
    for case in 0..cases {
        let share = (f64::from(case) * 0.618_033_988_749_895).fract();
        let at = (share * good.len() as f64) as usize;
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (case % 8);
        for end in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(directory.path().join(format!("damaged.db{end}")));
        }
        std::fs::write(&damaged, &bytes).unwrap();
        match exports(&damaged) {
            Err(error) => {
                assert!(error.to_string().contains("damaged.db"), "byte {at}: {error}");
                refused += 1;
            }
            Ok(found) => {
                assert!(found == whole, "byte {at}, bit {}: an export changed silently", case % 8);
                harmless += 1;
            }
        }
    }
    println!("{refused} refused, {harmless} with all exports as before");
    assert!(refused > harmless, "most of the file is results");
}
