//! A script of SQL statements: one connection, one statement after the other.

use std::path::Path;

use super::bad::BadOnes;
use super::lines::Lines;
use super::play::{Player, Stream};
use super::statements::Statements;
use super::{ImportReport, Starts};
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::sql::Splitter;

/// Reads the script at `path`.
pub fn import(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    let (mut player, connection, number, bytes) =
        Player::of_one_connection(path, "script.db", (assembler, starts, bad), steps_max)?;
    let mut stream = Stream { statements: Statements::open(path)?, connection, number, bytes };
    stream.statements.has_times = player.look_for_profile(path)?;
    while player.unit(&mut stream)? {}
    player.close(stream)?;
    let mut imported = ImportReport::default();
    player.finish(&mut imported);
    Ok(imported)
}

/// Hands every statement of a script, with its line, to `each`.
///
/// # Errors
/// A command of the `sqlite3` shell, a text that is not closed, and what `each` says.
pub fn for_each(
    path: &Path,
    mut each: impl FnMut(u64, &str) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let mut lines = Lines::open(path)?;
    let mut splitter = Splitter::default();
    while let Some(line) = lines.next_line()? {
        if splitter.is_between() && line.trim_start().starts_with('.') {
            let command = line.trim().to_owned();
            return Err(TraceError::line(
                path,
                lines.number(),
                format!("`{command}` is a command of the sqlite3 shell and no SQL; remove the line"),
            ));
        }
        for (number, sql) in splitter.line(line) {
            each(number, &sql)?;
        }
    }
    match splitter.rest() {
        None => Ok(()),
        Some((number, rest)) if is_open(&rest) => Err(TraceError::line(
            path,
            number,
            "the statement that begins here has a text or comment that is never closed",
        )),
        Some((number, rest)) => each(number, &rest),
    }
}

/// Whether the last token is a text, name or comment without its end.
pub fn is_open(sql: &str) -> bool {
    use crate::sql::TokenKind::{Blob, Comment, Quoted, Text};
    crate::sql::tokens(sql).last().is_some_and(|token| match token.kind {
        Text | Blob => token.text.matches('\'').count() % 2 == 1,
        Quoted => match token.text.as_bytes()[0] {
            b'[' => !token.text.ends_with(']'),
            quote => token.text.bytes().filter(|byte| *byte == quote).count() % 2 == 1,
        },
        Comment => token.text.starts_with("/*") && !token.text.ends_with("*/"),
        _ => false,
    })
}
