//! A directory for the time of one piece of work, which goes however that ends.

use std::path::Path;

use fathom_stack::{Stack, StackSpec};

use crate::error::CutError;

/// A directory below the system's temporary one, the user's alone. It is a stack as others are
/// (`filesystem = "dir"`): a guard removes it when this process is killed, and `fathom stack down
/// --leftovers` finds it should the guard be killed, too.
#[derive(Debug)]
pub struct Scratch(Box<Stack>);

impl Scratch {
    /// Makes one. `label` says whose it is, in `fathom stack list`, and is part of the path, which a
    /// guest's kernel is told in words: no blanks.
    ///
    /// # Errors
    /// The stack's.
    pub fn new(label: &str) -> Result<Scratch, CutError> {
        let spec = StackSpec { directory: Some(std::env::temp_dir()), ..StackSpec::default() };
        Ok(Scratch(Box::new(Stack::up(&spec, label).map_err(CutError::of_scratch)?)))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
