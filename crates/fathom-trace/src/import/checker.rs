//! Compiles the statements of a log against the databases as they were at the start. They are not
//! executed, because a log's processes ran at the same time; only changes of the schema are, so
//! that what follows them compiles.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::bad::BadOnes;
use super::private::{Compilation, DUMPED_TABLE, Fault, Private, compile, execute};
use super::same_file::known_as;
use crate::confine::ConfinedConnection;
use crate::error::TraceError;
use crate::sql::{Target, Verb};

/// A private database for each of the trace's.
pub struct Checker {
    /// Steps that a statement may take.
    steps_max: u64,
    databases: HashMap<u32, (Private, ConfinedConnection)>,
    /// Numbers of attached files.
    attached: HashMap<String, u32>,
}

impl Checker {
    /// Without a database.
    pub fn new(steps_max: u64) -> Checker {
        Checker { steps_max, databases: HashMap::new(), attached: HashMap::new() }
    }

    /// A database of the trace that begins with this file, or empty.
    ///
    /// # Errors
    /// A copy that the disk has no room for.
    pub fn database(&mut self, number: u32, start: Option<PathBuf>) -> Result<(), TraceError> {
        let private = Private::new(start.as_deref(), 0, false, self.steps_max)?;
        let connection = private.open()?;
        self.databases.insert(number, (private, connection));
        Ok(())
    }

    /// Whether a statement compiles; what does not is added to the bad ones.
    pub fn is_good(&mut self, database: u32, sql: &str, path: &Path, line: u64, bad: &mut BadOnes) -> bool {
        let Some((private, connection)) = self.databases.get_mut(&database) else { return true };
        let problem = match compile(connection, sql) {
            Ok(Compilation::Ready(mut statement)) => {
                let done = (Verb::of(sql) == Verb::Schema)
                    .then(|| execute(connection, &mut statement, Verb::Schema));
                match done.and_then(|done| done.unfit) {
                    None => return true,
                    Some(unfit) => unfit.to_string(),
                }
            }
            Ok(Compilation::Attach { target, schema }) => {
                let path = match target {
                    Target::File(path) => path,
                    _ => String::new(),
                };
                // Only for names to be found: what cannot be attached here is found missing by the
                // statements that use it.
                let next = u32::try_from(self.attached.len()).unwrap_or(u32::MAX);
                let number = *self.attached.entry(known_as(&path).into_owned()).or_insert(next);
                let _ = private.attach(connection, &schema, number, None);
                return true;
            }
            Ok(Compilation::VirtualTable(_)) => DUMPED_TABLE.to_owned(),
            Ok(Compilation::NotHere | Compilation::Nothing | Compilation::VacuumInto { .. }) => return true,
            Err(Fault::Incomplete) => "is the beginning of a statement (incomplete input)".to_owned(),
            Err(Fault::Wrong(message)) => message,
        };
        bad.add(path, line, sql, &problem);
        false
    }
}
