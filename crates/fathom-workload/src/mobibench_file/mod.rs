//! `mobibench-file`: the file half of Mobibench (P4): sequential and random reads and writes, and
//! appends, by sync mode.
//!
//! The facts about the original are those of ESOS-Lab's Mobibench (its help text and its main
//! loop); the code is our own.
//!
//! | the original | here | why |
//! |---|---|---|
//! | `-f` file size in KB (1024; P4: 10 MB), divided by the threads, each with a file of its own | `file_kib` (10,240), the same | |
//! | `-r` record size in KB (4) | `record_kib` (4) | |
//! | `-a` 0 write, 1 random write, 2 read, 3 random read, 4 append: one a program run | `accesses`, a list, one after another; each is a phase of that name | one run gives the whole table |
//! | `-y` 0 normal, 1 `O_SYNC`, 2 `fsync`, 3 `O_DIRECT`, 4 both, 5 mmap, 6 mmap + `MS_ASYNC`, 7 mmap + `MS_SYNC`, 8 `fdatasync` | `sync`: `none`, `o_sync`, `fsync`, `o_direct`, `o_direct+o_sync`, `mmap`, `mmap+async`, `mmap+sync`, `fdatasync` | words |
//! | `-t` threads (1, at most 100) | `threads`, the same | |
//! | `-v` share of random accesses that hit a record again, % | `overlap_percent` (0), at most 99 | 100 divides by zero there |
//! | random order without repetition, fixed seed, the same for all threads | the same, from the run's seed, another order for each thread | threads in step on equal offsets would be an artefact |
//! | caches dropped before the clock starts | the same (`cold`, true); says in the result how | |
//! | a last `fsync` or `msync` inside the timed window of all writing modes | the same: in the phase's wall time and split, not an operation of its own | |
//! | every record holds the same repeated byte; nothing is read back | random content with a stamp and a checksum; every byte is checked, on each read and after each pass (with cold caches where `cold` holds) | a device or file system that compresses, deduplicates or loses data must not win |
//! | a short read or write counts as a whole one | the rest is read or written | |
//! | `lseek` and `write` | `pwrite`, `pread`: one call | |
//! | a mapped file is extended by writing its last record | its space is allocated first, untimed | a full disk would kill the process by SIGBUS |
//! | `O_DIRECT` not supported: message and a wrong exit | an error that says what to do | |
//! | block devices as target | not offered | it would overwrite a device by name |
//! | `-g` a script of `mobigen`, each thread at its times | `calls`, a recording that `fathom trace import` made of it, by one thread in the order of its times | one outcome; every byte is checked |
//!
//! **Results.** KB/s is the summary's `split.read_bytes + split.write_bytes` over its `wall_ns`;
//! IOPS is its `count` over `wall_ns`.
//!
//! **Where the time goes.** An operation runs from the end of the one before it to its own end.
//! `read`, `write` and `sync` are the wall time inside the calls (with a mapping: of the copy, page
//! faults included). What is left between the calls is this program's own loop: CPU time, and
//! `other` where the thread's CPU clock shows that the thread did not run.

mod access;
mod block;
mod buffer;
mod calls;
mod error;
mod medium;
mod pass;
mod sync;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_trace::file_calls::FileCalls;

use crate::params::{Kind, Parameter, Params, Preset};
use crate::sample::Sink;
use crate::workload::{Context, Workload, WorkloadError, WorkloadKind};
use access::Access;
use error::{NAME, refused};
use pass::MobibenchFile;
use sync::SyncMode;

/// The workload's entry in the registry.
pub static KIND: WorkloadKind = WorkloadKind {
    name: NAME,
    summary: "Mobibench's file work (P4): sequential and random read and write, append, by sync mode",
    parameters: PARAMETERS,
    needs_engine: false,
    needs: |_| None,
    abscissa: "",
    one_thread: |params| params.count("threads") == 1,
    samples: |params| match params.is_set("calls") {
        true => calls::SAMPLES_MAX as u64,
        false => {
            let records = params.count("file_kib") / params.count("record_kib").max(1);
            records.saturating_mul(params.texts("accesses").len() as u64)
        }
    },
    idle: |_| None,
    create,
};

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "file_kib",
        kind: Kind::Integer { min: 1, max: 1 << 30 },
        default: Preset::Integer(10_240),
        unit: "KiB",
        description: "Size of all files together; each thread has a file of its share.",
    },
    Parameter {
        name: "record_kib",
        kind: Kind::Integer { min: 1, max: 1 << 16 },
        default: Preset::Integer(4),
        unit: "KiB",
        description: "Size of one read or write.",
    },
    Parameter {
        name: "accesses",
        kind: Kind::TextsOf(Access::NAMES),
        default: Preset::Texts(Access::NAMES),
        unit: "",
        description: "What is done to the file, in this order.",
    },
    Parameter {
        name: "sync",
        kind: Kind::TextOf(SyncMode::NAMES),
        default: Preset::Text("fsync"),
        unit: "",
        description: "How the file is opened and how each write is made to last.",
    },
    Parameter {
        name: "threads",
        kind: Kind::Integer { min: 1, max: 100 },
        default: Preset::Integer(1),
        unit: "",
        description: "Threads, each with a file of its own.",
    },
    Parameter {
        name: "overlap_percent",
        kind: Kind::Integer { min: 0, max: 99 },
        default: Preset::Integer(0),
        unit: "%",
        description: "Share of the random accesses that go to a record which is visited anyway.",
    },
    Parameter {
        name: "calls",
        kind: Kind::Text,
        default: Preset::Unset,
        unit: "path",
        description: "Instead of all accesses, and of their parameters: a recording of file calls (fathom trace import of mobigen's or strace's output), done again.",
    },
    Parameter {
        name: "cold",
        kind: Kind::Boolean,
        default: Preset::Boolean(true),
        unit: "",
        description: "Whether the page cache is emptied before each access.",
    },
];

/// The parameters of a recording.
const OF_CALLS: [&str; 2] = ["calls", "cold"];

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    if let Some(file) = params.optional_text("calls") {
        // Else an axis of one of them would have cells that differ in nothing but their names.
        for parameter in PARAMETERS.iter().filter(|parameter| !OF_CALLS.contains(&parameter.name)) {
            if params.all().get(parameter.name) != parameter.default.json().as_ref() {
                let problem = "is of made-up accesses, and with `calls` those of the recording are done";
                return Err(refused(parameter.name, problem.into()));
            }
        }
        let (file, cold) = (PathBuf::from(file), params.boolean("cold"));
        // Looked at at the plan, so that no run fails of it.
        FileCalls::check(&file).map_err(|error| refused("calls", error.to_string()))?;
        return Ok(Box::new(calls::RecordedCalls { params, file, cold }));
    }
    let (threads, record_kib) = (params.count("threads"), params.count("record_kib"));
    let records = params.count("file_kib") / threads / record_kib;
    if records == 0 {
        return Err(refused(
            "file_kib",
            format!("must be at least threads x record_kib = {} KiB", threads * record_kib),
        ));
    }
    let sync = SyncMode::from_name(params.text("sync")).ok_or_else(|| refused("sync", "unknown".into()))?;
    let accesses = params.texts("accesses").iter().filter_map(|name| Access::from_name(name)).collect();
    Ok(Box::new(MobibenchFile {
        accesses,
        sync,
        threads: threads as u32,
        records,
        record_bytes: record_kib as usize * 1024,
        overlap_percent: params.count("overlap_percent"),
        cold: params.boolean("cold"),
        params,
    }))
}

impl Workload for MobibenchFile {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let mut files = pass::Files::prepare(self, context)?;
        let steps = self.accesses.len() as f64;
        for (step, &access) in self.accesses.iter().enumerate() {
            files.pass(access, step as u64, sink)?;
            sink.progress((step as f64 + 1.0) / steps);
        }
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        self.params.all().clone()
    }
}

#[cfg(test)]
mod tests;
