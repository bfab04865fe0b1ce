//! Fuzzing without a fuzzer's machinery: stable Rust, no corpus on the disk, every case repeatable
//! by its number.
//!
//! A *target* is a function that judges one input: a file, or a directory of files, that an enemy,
//! a failing disk or an old version may have written. It must neither panic, nor abort, nor take
//! long, nor ask for memory out of proportion to its input, nor touch a file outside its directory;
//! and what it accepts must make sense. [`Fuzz`] makes one input for each case number and holds the
//! target to it; [`mutate`] has the mutations; [`memory`] is the allocator that counts; [`Scratch`]
//! is a directory in memory for targets that want files.
//!
//! Inputs are made from good ones (the example traces, databases made at the start, the built-in
//! experiments and device models). Where a format has checksums, most mutations are made below them
//! and the checksums are written anew, so that the damage gets as far as the code that believes
//! them. The targets are in `tests/fuzz/`; `README.md` says how to run millions of cases.

mod case;
pub mod memory;
pub mod mutate;
mod run;
mod scratch;

pub use fathom_random::Random;
pub use run::{Fuzz, Turn, turn};
pub use scratch::Scratch;
