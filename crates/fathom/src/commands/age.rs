//! `fathom stack age`: fills a stack's file system and deletes files, until its free space is in
//! pieces.

use fathom_output::{say, tell};
use fathom_stack::named_stack::{self, NamedStack};
use fathom_stack::{Ageing, Place};

use crate::cli::Age;
use crate::outcome::{Error, Outcome};

/// Ages a named stack.
pub fn run(asked: &Age) -> super::Result {
    let stack = stack(&asked.name)?;
    let ageing = Ageing { used: f64::from(asked.used) / 100.0, rounds: asked.rounds, seed: asked.seed };
    let directory = stack.path.join("aged");
    if directory.exists() {
        return Err(Error::usage(format!(
            "{}: it was aged already; begin with a new one, or an image that was kept before",
            asked.name
        )));
    }
    // A signal ends the command; the files are on the stack, and go with it.
    let aged = ageing
        .age(&stack.path)
        .map_err(|error| Error::failed(format!("{}: {error}; take it down", stack.path.display())))?;
    if asked.json {
        return super::print_json(&aged);
    }
    let extents = |count: Option<usize>| match count {
        None => "an unknown number of extents".to_owned(),
        Some(1) => "1 extent".to_owned(),
        Some(count) => format!("{count} extents"),
    };
    say!(
        "{}: {} files are left of {} ({} MiB written); {:.1} % of the space is used",
        asked.name,
        aged.files,
        aged.written_files,
        aged.written_bytes >> 20,
        100.0 * aged.used
    );
    say!("a file of 4 MiB had {} and has {}", extents(aged.extents_before), extents(aged.extents_after));
    if let Some(image) = &stack.spec.keep {
        tell!(
            "Keep it with:  fathom stack down {}      then  --set stack.image={}",
            asked.name,
            image.display()
        );
    }
    Ok(Outcome::Good)
}

/// The stack of a name, if it has a file system of its own to be filled.
fn stack(name: &str) -> std::result::Result<NamedStack, Error> {
    let stacks = named_stack::list();
    let up: Vec<&str> = stacks.iter().map(|stack| stack.name.as_str()).collect();
    let Some(stack) = stacks.iter().find(|stack| stack.name == name) else {
        let known =
            if up.is_empty() { "none is up".to_owned() } else { format!("there are: {}", up.join(", ")) };
        return Err(Error::usage(format!(
            "no stack is called {name:?}; {known}. `fathom stack up --keep FILE --name {name}` makes one"
        )));
    };
    if !stack.up {
        let why = stack.problem.clone().unwrap_or_else(|| "it is not mounted any more".into());
        return Err(Error::failed(format!("{name}: {why}. `fathom stack down {name}` removes what is left")));
    }
    if matches!(stack.spec.place, Place::Directory) {
        return Err(Error::usage(format!(
            "{name}: it is a directory on a file system of yours, which would be filled; \
             `fathom stack up --fs ext4` makes one that may be"
        )));
    }
    Ok(stack.clone())
}
