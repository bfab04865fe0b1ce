//! The `mmdb` tool: looks at a closed database. `mmdb help` tells how.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use mmdb::{OfflineDatabase, Options, read_log, salvage};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
mmdb COMMAND DIRECTORY [ARGUMENT] [--stream DIRECTORY]...

  stat DIR          tables, rows, what opening would read
  check DIR         read everything as opening would, check indexes and rows; change nothing
  dump DIR [TABLE]  rows as JSON lines; without TABLE, all tables, each row as {\"table\":…,\"row\":…}
  salvage DIR NEW   save what is readable of a damaged database into the empty directory NEW
  log DIR           the frames of the log, one JSON line each

  --stream DIR      directory of the next log stream, if it is not DIR/log-N

The database must be closed: who has it open dumps a snapshot of it (Snapshot::dump_to of the library).
DIR and the log directories are only read. Exit code: 0 fine, 1 damaged or failed, 2 wrong usage.
salvage ends with 1, too, if anything was lost; NEW has the rest.
";

fn main() -> ExitCode {
    let mut words = Vec::new();
    let mut options = Options::default();
    let mut help = false;
    // As the system has them: a directory's name need not be text.
    let mut args = std::env::args_os().skip(1);
    while let Some(a) = args.next() {
        match (a.to_str(), a.as_encoded_bytes().starts_with(b"-")) {
            (Some("--stream"), _) => match args.next() {
                Some(d) => options.stream_dirs.push(PathBuf::from(d)),
                None => return usage("--stream needs a directory"),
            },
            (Some("-h" | "--help"), _) => help = true,
            (_, true) => return usage(&format!("unknown option {}", a.display())),
            _ => words.push(a),
        }
    }
    let command = words.first().map(|word| word.to_string_lossy().into_owned());
    let rest: Vec<&Path> = words.iter().skip(1).map(Path::new).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match (command.as_deref(), &rest[..]) {
        _ if help => write!(out, "{HELP}").map_err(Failure::Output),
        (Some("help"), []) => write!(out, "{HELP}").map_err(Failure::Output),
        (Some("stat"), [dir]) => stat(dir, &options, &mut out),
        (Some("check"), [dir]) => check(dir, &options, &mut out),
        (Some("dump"), [dir]) => dump(dir, None, &options, &mut out),
        (Some("dump"), [dir, table]) => match table.to_str() {
            Some(table) => dump(dir, Some(table), &options, &mut out),
            None => return usage(&format!("there is no table {}: its name is no text", table.display())),
        },
        (Some("salvage"), [dir, new]) if is_within(new, dir, &options) => {
            let problem = "lies in the damaged database, which is only read: name a directory elsewhere";
            return usage(&format!("{} {problem}", shown(&new.to_string_lossy())));
        }
        (Some("salvage"), [dir, new]) => save(dir, new, &options, &mut out),
        (Some("log"), [dir]) => log(dir, &options, &mut out),
        (None, _) => return usage("no command"),
        (Some(c), _) => return usage(&format!("cannot do {c} with {} arguments", rest.len())),
    };
    match done.and_then(|()| out.flush().map_err(Failure::Output)) {
        Ok(()) => ExitCode::SUCCESS,
        // `mmdb dump … | head` is no failure.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(e)) => fail(&format!("cannot write the output: {e}")),
        Err(Failure::Database(e)) => fail(&shown(&e.to_string())),
        Err(Failure::Damaged) => ExitCode::FAILURE,
    }
}

enum Failure {
    Database(mmdb::Error),
    Output(io::Error),
    Damaged,
}

impl From<mmdb::Error> for Failure {
    fn from(e: mmdb::Error) -> Self {
        Failure::Database(e)
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Output(e)
    }
}

type Done = Result<(), Failure>;

fn usage(what: &str) -> ExitCode {
    tell(&format!("mmdb: {what}\n\n{HELP}"));
    ExitCode::from(2)
}

/// `eprint!` panics where standard error is full or closed; then there is nobody to tell.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A name, or words with names in them, without what a terminal would obey: control characters by
/// their code. What is in a store may have come from anywhere.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { c.escape_unicode().to_string() } else { c.into() }).collect()
}

fn fail(what: &str) -> ExitCode {
    tell(&format!("mmdb: {what}\n"));
    ExitCode::FAILURE
}

fn stat(dir: &Path, options: &Options, out: &mut impl Write) -> Done {
    let s = OfflineDatabase::load(dir, options)?;
    let r = s.report();
    writeln!(out, "last commit        {}", r.cut)?;
    let closed = if r.is_closed { "yes" } else { "no, so its end is what the log shows" };
    writeln!(out, "closed             {closed}")?;
    writeln!(out, "role               {}", s.role())?;
    writeln!(out, "container images   {}", r.images)?;
    writeln!(out, "log frames         {} ({} bytes)", r.frames, r.log_bytes)?;
    writeln!(out, "frames dropped     {} (behind the cut, never acknowledged)", r.dropped_frames)?;
    for (schema, rows) in s.tables() {
        let indexes: Vec<String> = schema.indexes.iter().map(|i| shown(&i.name)).collect();
        writeln!(
            out,
            "table {}: {rows} rows, {} columns, indexes {}, locking {:?}, {:?}",
            shown(&schema.name),
            schema.columns.len(),
            indexes.join(" "),
            schema.locking,
            schema.logging
        )?;
        if let Some((column, expiry)) = schema.expiry.and_then(|e| Some((schema.columns.get(e.column)?, e))) {
            writeln!(out, "  rows expire by {}, which counts {:?}", shown(&column.name), expiry.unit)?;
        }
        let changes = s.column_changes(&schema.name)?;
        if changes > 0 {
            let earlier = s.earlier_rows(&schema.name)?;
            writeln!(
                out,
                "  columns changed {changes} times; {earlier} rows were written before the last time"
            )?;
        }
    }
    Ok(())
}

fn check(dir: &Path, options: &Options, out: &mut impl Write) -> Done {
    let s = OfflineDatabase::load(dir, options)?;
    s.check()?;
    let rows: u64 = s.tables().iter().map(|t| t.1).sum();
    let r = s.report();
    writeln!(out, "ok: {rows} rows in {} tables, last commit {}", s.tables().len(), r.cut)?;
    if !r.is_closed {
        writeln!(
            out,
            "the database was not closed: MANIFEST states commits up to {}, the log shows those behind",
            r.manifest_horizon
        )?;
    }
    Ok(())
}

fn dump(dir: &Path, table: Option<&str>, options: &Options, out: &mut impl Write) -> Done {
    let s = OfflineDatabase::load(dir, options)?;
    let mut failed = Ok(());
    if let Some(t) = table {
        s.rows(t, |row| {
            if failed.is_ok() {
                failed = writeln!(out, "{}", row.to_json());
            }
        })?;
        return Ok(failed?);
    }
    s.dump(|line| {
        if failed.is_ok() {
            failed = writeln!(out, "{line}");
        }
    });
    Ok(failed?)
}

/// Where a path leads, also one that is not there yet: its longest part that is there, without
/// links.
fn whereabouts(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()?.ancestors().find_map(|part| part.canonicalize().ok())
}

/// Whether `new` lies in what is to be saved: the database's directory, or that of a log stream,
/// which may be elsewhere or behind a link.
fn is_within(new: &Path, dir: &Path, options: &Options) -> bool {
    let Some(new) = whereabouts(new) else { return false };
    let within = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let damaged = options.stream_dirs.iter().cloned().chain(within).chain([dir.to_owned()]);
    damaged
        .filter_map(|place| place.canonicalize().ok())
        .any(|place| place.is_dir() && new.starts_with(place))
}

fn save(dir: &Path, new: &Path, options: &Options, out: &mut impl Write) -> Done {
    let s = salvage(dir, new, options)?;
    let told = writeln!(out, "saved {} rows, commits up to {}", s.rows, s.cut).and_then(|()| {
        s.problems.iter().try_for_each(|p| writeln!(out, "lost: {}", shown(p)))?;
        out.flush()
    });
    if s.problems.is_empty() { Ok(told?) } else { damaged(told) }
}

/// The end of a command that has found damage and told of it: a script must not take what is left
/// for the whole, though nobody may have read the output to its end.
fn damaged(told: io::Result<()>) -> Done {
    match told {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Err(Failure::Damaged),
    }
}

fn log(dir: &Path, options: &Options, out: &mut impl Write) -> Done {
    let mut failed = Ok(());
    let problems = read_log(dir, options, |f| {
        if failed.is_err() {
            return;
        }
        let changes: Vec<String> = f
            .changes
            .iter()
            .map(|c| {
                format!(
                    "{{\"table\":{},\"container\":{},\"slot\":{},\"version\":{},\"kind\":\"{}\",\"bytes\":{}}}",
                    c.table,
                    c.place.0,
                    c.place.1,
                    c.version,
                    if c.is_difference { "difference" } else { "after" },
                    c.bytes
                )
            })
            .collect();
        let file = f.file.to_string_lossy();
        failed = writeln!(
            out,
            "{{\"file\":{},\"offset\":{},\"bytes\":{},\"gsn\":{},\"horizon\":{},\"counts\":{},\"changes\":[{}]}}",
            mmdb::Value::Text(&file),
            f.offset,
            f.len,
            f.gsn,
            f.horizon,
            f.is_recovered,
            changes.join(",")
        );
    })?;
    if problems.is_empty() {
        return Ok(failed?);
    }
    let told = failed.and_then(|()| out.flush());
    problems.iter().for_each(|p| tell(&format!("mmdb: {}\n", shown(p))));
    damaged(told)
}
