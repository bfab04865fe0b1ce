//! ATTACH in a log or script: the file becomes a database of the trace, as capture makes it one, so
//! that a replay attaches its own.

use super::Starts;
use crate::assemble::Assembler;
use crate::error::TraceError;
use crate::model::{Action, Start};
use crate::sql::{Attach, Target};

/// Before the execution of a statement: where it is an ATTACH, says in the trace which database it
/// attaches.
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
