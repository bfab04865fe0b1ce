//! ATTACH in a log or script: the file becomes a database of the trace, as capture makes it one, so that a replay attaches its own.

use super::Starts;
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::model::{Action, Start};
use crate::sql::{Attach, Target};

/// Before the execution of a statement: where it is an ATTACH, says in the trace which database it attaches.
///
/// # Errors
/// A file that is named by a parameter or an expression; a full disk.
pub fn map(
    sql: &str,
    connection: u32,
    at_ns: u64,
    assembler: &mut Assembler,
    starts: &mut Starts,
) -> Result<(), TraceError> {
    let Some(Attach { target, schema }) = Attach::of(sql) else { return Ok(()) };
    let refused = |problem: &str| Err(TraceError::refused(format!("`{}`", sql.trim()), problem));
    if schema.is_empty() {
        return refused(
            "under which name it attaches cannot be told from the text; write the name, or capture the application",
        );
    }
    let database = match target {
        Target::File(path) => starts.attached(&path, assembler)?,
        Target::Memory => assembler.database(b":memory:", Start::Memory, None)?,
        Target::Expression => {
            return refused(
                "which file it attaches cannot be told from the text; write the file, or capture the application",
            );
        }
    };
    assembler.event(connection, at_ns, 0, Action::Attach { schema, database })
}

/// Refuses what a loading script may not do: it makes one database and reaches no other file.
///
/// # Errors
/// ATTACH of a file, VACUUM INTO.
pub fn refuse_in_loading(place: &str, sql: &str) -> Result<(), TraceError> {
    let attaches = Attach::of(sql).is_some_and(|it| it.target != Target::Memory);
    let mut words = crate::sql::tokens(sql).filter(|token| !token.is_blank());
    let is_vacuum_into =
        words.next().is_some_and(|token| token.is("vacuum")) && words.any(|token| token.is("into"));
    if attaches || is_vacuum_into {
        let problem = "a loading script makes one database, and cannot attach or write another file; put this into a stream's script";
        return Err(TraceError::refused(place, problem));
    }
    Ok(())
}
