//! Fuzzes everything that is read and was written by others: see the crate's README.
//!
//! What happened before there was this: a trace of 181 bytes took 1 GB, one of 221 bytes ended the
//! process, a damaged spool asked for petabytes, a database with a lying manifest opened empty.
//! Each was found by hand, one at a time.

#[path = "../../../fathom-report/tests/fixture/mod.rs"]
mod fixture;

mod experiments;
mod imports;
mod models;
mod networks;
mod pdus;
mod results;
mod spools;
mod stores;
mod texts;
mod trace_file;
mod traces;

use fathom_fuzz::memory::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
