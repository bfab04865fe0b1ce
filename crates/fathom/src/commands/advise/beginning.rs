//! The beginning of a long trace, which is recorded in its place.
//!
//! An answer takes some forty recordings. Of 10,000 commits each takes ten seconds and more, of
//! 1,000 one, and what a journal mode or a page size is to a commit it is to the next one: a log is
//! copied back several times in 1,000 as well. What comes later may be other work all the same, so
//! the answer says what it rests on, and where that does other work than the whole.

use std::path::Path;

use fathom_lab::experiment::TraceChoice;
use fathom_output::{shown, tell};
use fathom_trace::TraceError;
use fathom_trace::info::Info;
use fathom_trace::part::{PartRequest, part};

use super::super::record::{self, Beginning, RecordingFile};
use super::application::Application;
use crate::commands;
use crate::outcome::Error;

/// A trace with more transactions that write is long.
const MANY: u64 = 1500;

/// So many of a long one are recorded.
const ENOUGH: u64 = 1000;

/// Shares of statements that read which are further apart are of other work.
const OTHER_SHARE: f64 = 0.15;

/// Statements of a transaction of which there are so many times more are other work.
const OTHER_LENGTH: f64 = 1.5;

/// The trace that is recorded in the place of a long one, made in the directory of what is kept;
/// none where all of it is. What the application tells of what was recorded is then of that one.
///
/// # Errors
/// It cannot be made.
pub(super) fn beginning(
    trace: &TraceChoice,
    application: &mut Application,
    kept: &RecordingFile,
) -> Result<Option<(TraceChoice, Beginning)>, Error> {
    let of = application.transactions();
    if of <= MANY {
        return Ok(None);
    }
    let out = kept.file.with_file_name(format!("{}-beginning.trace", trace.label));
    let request = PartRequest {
        path: Path::new(&trace.value).to_owned(),
        out: out.clone(),
        transactions: Some(ENOUGH),
        skip_own: false,
    };
    let made = part(&request).map_err(|error| match &error {
        TraceError::Io { source, .. } if fathom_ground::system::is_full_disk(source) => {
            record::temporary_is_full()
        }
        _ => Error::failed(error),
    })?;
    // Where a transaction is open to the end there is no shorter part.
    let Some(transactions) = made.transactions.filter(|transactions| *transactions < of) else {
        return Ok(None);
    };
    let info = fathom_trace::info::info(&out).map_err(Error::failed)?;
    let other = other_work(&info, application.info());
    let path = std::path::absolute(&trace.value).map_err(Error::failed)?;
    let begun = Beginning { trace: commands::text_path("TRACE", &path)?.to_owned(), transactions, of, other };
    application.take_beginning(info);
    tell!("{}: {}", shown(&trace.label), begun.told());
    let value = commands::text_path("TMPDIR", &out)?.to_owned();
    Ok(Some((TraceChoice { label: trace.label.clone(), parameter: "file", value }, begun)))
}

/// In what the beginning does other work than the whole, in words; none where it does the same.
fn other_work(begin: &Info, whole: &Info) -> Option<String> {
    let length = |info: &Info| info.executed as f64 / info.transactions.count.max(1) as f64;
    let (long, short) = (length(begin).max(length(whole)), length(begin).min(length(whole)));
    if (begin.read_share - whole.read_share).abs() > OTHER_SHARE {
        let percent = |info: &Info| format!("{:.0} %", info.read_share * 100.0);
        return Some(format!(
            "{} of its statements read, and {} of all of the trace's",
            percent(begin),
            percent(whole)
        ));
    }
    (long > short * OTHER_LENGTH).then(|| {
        format!(
            "it has {:.1} statements for each transaction that writes, and the whole trace {:.1}",
            length(begin),
            length(whole)
        )
    })
}

#[cfg(test)]
mod tests {
    use fathom_trace::info::TransactionInfo;

    use super::*;

    fn work(transactions: u64, executed: u64, read_share: f64) -> Info {
        let transactions = TransactionInfo { count: transactions, ..TransactionInfo::default() };
        Info { executed, read_share, transactions, ..Info::default() }
    }

    #[test]
    fn a_beginning_that_does_other_work_than_the_whole_is_told() {
        let whole = work(10_000, 40_000, 0.5);
        assert_eq!(other_work(&work(1000, 4100, 0.55), &whole), None);
        let told = other_work(&work(1000, 4000, 0.1), &whole).unwrap();
        assert_eq!(told, "10 % of its statements read, and 50 % of all of the trace's");
        let told = other_work(&work(1000, 1000, 0.45), &whole).unwrap();
        assert!(told.contains("1.0 statements") && told.ends_with("4.0"), "{told}");
        assert_eq!(other_work(&Info::default(), &Info::default()), None);
    }
}
