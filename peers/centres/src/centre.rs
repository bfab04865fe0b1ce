//! The centres that are compared, and what each promises for a message that it has acknowledged.

use crate::{Failure, Options, kannel, smsc};
use std::path::Path;

/// How a centre is set up.
#[derive(Clone, Copy)]
pub enum Form {
    /// `smsc serve`, with this engine.
    Smsc(&'static str),
    /// Kannel, with this `store-type`; synced or not.
    Kannel(&'static str, bool),
}

/// A centre.
pub struct Centre {
    /// As the table shows it.
    pub name: &'static str,
    /// What of acknowledged messages survives.
    pub durability: &'static str,
    form: Form,
}

/// One that runs.
pub trait Running {
    /// Where it listens, and what a client sends for a message of so many a number.
    fn request(&self) -> Request;
    /// kill -9, of all its processes.
    fn kill(&mut self);
    /// Messages that it has when it is started again.
    fn kept(&mut self, dir: &Path) -> Result<u64, Failure>;
}

/// A request of an application.
#[derive(Clone)]
pub struct Request {
    /// The port, on this machine.
    pub port: u16,
    /// The request of a message for this number, whole.
    pub of: fn(to: &str) -> String,
    /// What an answer begins with where the message was accepted.
    pub accepted: &'static str,
}

impl Centre {
    /// All of them.
    pub fn all() -> Vec<Centre> {
        let centre = |name, durability, form| Centre { name, durability, form };
        vec![
            centre("smsc, mmdb", "power cut", Form::Smsc("mmdb")),
            centre("smsc, PostgreSQL", "power cut", Form::Smsc("postgresql-batched")),
            centre("smsc, SQLite", "power cut", Form::Smsc("sqlite")),
            centre("Kannel, spool, synced", "power cut", Form::Kannel("spool", true)),
            centre("Kannel, file, synced", "power cut", Form::Kannel("file", true)),
            centre("Kannel, spool", "process crash", Form::Kannel("spool", false)),
            centre("Kannel, file", "process crash", Form::Kannel("file", false)),
        ]
    }

    /// Starts it in a directory, and waits until it takes messages.
    pub fn start(&self, dir: &Path, options: &Options) -> Result<Box<dyn Running>, Failure> {
        match self.form {
            Form::Smsc(engine) => smsc::start(dir, &options.smsc, engine),
            Form::Kannel(store, synced) => kannel::start(dir, store, synced),
        }
    }
}
