//! One pass over the files: prepare, go cold, time, check.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Barrier;

use fathom_probe::{PlainFile, Split, mark_call};
use fathom_stack::ColdMethod;

use super::access::Access;
use super::block::{self, Stamp};
use super::buffer::Buffer;
use super::medium::Medium;
use super::sync::SyncMode;
use crate::clock::{now_ns, thread_cpu_ns};
use crate::params::Params;
use crate::recorder::{Lane, Phase, Unit};
use crate::sample::{IoRow, Sink, WarningKind};
use crate::workload::{Context, WorkloadError};
use fathom_random::Random;

/// The workload, its parameters checked.
pub struct MobibenchFile {
    pub params: Params,
    pub accesses: Vec<Access>,
    pub sync: SyncMode,
    pub threads: u32,
    /// Records of one thread's file.
    pub records: u64,
    pub record_bytes: usize,
    pub overlap_percent: u64,
    pub cold: bool,
}

/// The file of a thread.
fn path_of(context: &Context<'_>, thread: u32) -> PathBuf {
    context.directory.join(format!("mobibench-file.{thread}"))
}

/// Memory for records of all threads together. A pass over more data pauses, untimed, to check or
/// make the next records.
const BUFFERS_BYTES: u64 = 64 << 20;

/// The files of a run, and what each of their records must hold.
pub struct Files<'a> {
    workload: &'a MobibenchFile,
    context: &'a Context<'a>,
    files: Vec<OneFile>,
}

/// One thread's file.
struct OneFile {
    number: u32,
    path: PathBuf,
    /// Generation of each record.
    generations: Vec<u32>,
    buffer: Buffer,
}

/// Calls, bytes and time of a thread's pass, by kind.
#[derive(Clone, Copy, Default)]
struct Calls {
    reads: u64,
    writes: u64,
    syncs: u64,
    transferred_bytes: u64,
    transfer_ns: u64,
    sync_ns: u64,
}

impl<'a> Files<'a> {
    /// Writes generation 1 of every file.
    pub fn prepare(workload: &'a MobibenchFile, context: &'a Context<'a>) -> Result<Self, WorkloadError> {
        let share = BUFFERS_BYTES / u64::from(workload.threads) / workload.record_bytes as u64;
        let slots = share.clamp(1, workload.records) as usize;
        let mut files = Vec::with_capacity(workload.threads as usize);
        for number in 0..workload.threads {
            let mut file = OneFile {
                number,
                path: path_of(context, number),
                generations: vec![1; workload.records as usize],
                buffer: Buffer::new(slots * workload.record_bytes),
            };
            file.write_all(workload, context.seed)?;
            files.push(file);
        }
        Ok(Files { workload, context, files })
    }

    /// Times one access over all files, then reads everything back and checks it.
    pub fn pass(&mut self, access: Access, step: u64, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let workload = self.workload;
        if access == Access::Append {
            for file in &self.files {
                PlainFile::deleting(&file.path);
                std::fs::remove_file(&file.path).map_err(|source| file.failed(source))?;
            }
        }
        if workload.cold {
            self.go_cold(access, sink);
        }
        let mut media = Vec::with_capacity(self.files.len());
        let mut orders = Vec::with_capacity(self.files.len());
        for file in &self.files {
            media.push(Medium::open(
                &file.path,
                workload.sync,
                workload.records * workload.record_bytes as u64,
            )?);
            // A stream of its own for each thread and step: no two passes visit in the same order.
            let mut random =
                Random::stream(self.context.seed, access.name(), step << 32 | u64::from(file.number));
            orders.push(access.order(workload.records, workload.overlap_percent, &mut random));
        }
        let mut phase = Phase::begin(access.name(), None, Unit::Operation);
        let mut lanes: Vec<Lane> =
            (0..workload.threads).map(|thread| phase.lane(thread, workload.records as usize)).collect();
        let mut calls = Calls::default();
        let slots = self.files[0].buffer.bytes().len() / workload.record_bytes;
        for first in (0..workload.records as usize).step_by(slots) {
            let last = (first + slots).min(workload.records as usize);
            if access.writes() {
                phase.excluded(|| self.make_records(&orders, first..last, step as u32 + 2));
            }
            for thread_calls in self.run_threads(access, &mut media, &orders, first..last, &mut lanes)? {
                calls.add(&thread_calls);
            }
            if !access.writes() {
                phase.excluded(|| self.check_records(&orders, first..last))?;
            }
        }
        // Unmapped and closed before anything is read back.
        drop(media);
        calls.report(access, &mut phase);
        phase.end(lanes, sink);
        if !access.writes() {
            let count = workload.records * u64::from(workload.threads);
            sink.verified(format!("{}: {count} records were right when they were read", access.name()));
        }
        self.check_files(access, sink)
    }

    fn go_cold(&self, access: Access, sink: &mut dyn Sink) {
        match fathom_stack::cold(self.context.directory) {
            ColdMethod::Failed(why) => {
                let text = format!("{}: caches were not cold: {why}", access.name());
                sink.warning_of(WarningKind::WarmCaches, text);
            }
            method => sink.verified(format!("{}: cold caches: {method}", access.name())),
        }
    }

    /// Fills the buffers with the records that these visits write.
    fn make_records(&mut self, orders: &[Vec<u64>], visits: std::ops::Range<usize>, generation: u32) {
        let (seed, bytes) = (self.context.seed, self.workload.record_bytes);
        for (file, order) in self.files.iter_mut().zip(orders) {
            for (record, slot) in order[visits.clone()].iter().zip(file.buffer.bytes_mut().chunks_mut(bytes))
            {
                let stamp = Stamp { file: file.number, generation, offset: record * bytes as u64 };
                block::write(slot, seed, stamp);
                file.generations[*record as usize] = generation;
            }
        }
    }

    /// Checks the records that these visits have read into the buffers.
    fn check_records(
        &self,
        orders: &[Vec<u64>],
        visits: std::ops::Range<usize>,
    ) -> Result<(), WorkloadError> {
        let mut scratch = vec![0; self.workload.record_bytes];
        for (file, order) in self.files.iter().zip(orders) {
            let slots = file.buffer.bytes().chunks(self.workload.record_bytes);
            for (record, slot) in order[visits.clone()].iter().zip(slots) {
                file.check(*record, slot, self.context.seed, &mut scratch)?;
            }
        }
        Ok(())
    }

    /// Runs these visits, each file on a thread of its own, all starting together.
    fn run_threads(
        &mut self,
        access: Access,
        media: &mut [Medium],
        orders: &[Vec<u64>],
        visits: std::ops::Range<usize>,
        lanes: &mut [Lane],
    ) -> Result<Vec<Calls>, WorkloadError> {
        let barrier = Barrier::new(self.files.len());
        let bytes = self.workload.record_bytes;
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.files.len());
            for (((file, medium), order), lane) in self.files.iter_mut().zip(media).zip(orders).zip(lanes) {
                let (barrier, visits) = (&barrier, visits.clone());
                threads.push(scope.spawn(move || {
                    let is_last = visits.end == order.len();
                    barrier.wait();
                    let buffer = file.buffer.bytes_mut();
                    let mut calls = run_visits(access, medium, &order[visits], buffer, bytes, lane)?;
                    if is_last && access.writes() {
                        let start_ns = now_ns();
                        medium.sync_whole()?;
                        let wall_ns = now_ns() - start_ns;
                        mark_call(None, wall_ns);
                        calls.syncs += 1;
                        calls.sync_ns += wall_ns;
                        let split = Split { wall_ns, sync_ns: wall_ns, sync_calls: 1, ..Split::default() };
                        lane.record_auxiliary(start_ns, split);
                        medium.look_at_whole();
                    }
                    Ok(calls)
                }));
            }
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    /// Reads every file, from the device where caches are to be cold and can be emptied, and checks
    /// every byte.
    fn check_files(&mut self, access: Access, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let is_cold = self.workload.cold
            && !matches!(fathom_stack::cold(self.context.directory), ColdMethod::Failed(_));
        let checked = if is_cold { "read back with cold caches" } else { "read back through the cache" };
        for file in &mut self.files {
            file.check_all(self.workload, self.context.seed)?;
        }
        let count = self.workload.records * u64::from(self.workload.threads);
        sink.verified(format!("{}: {count} records {checked}, every byte right", access.name()));
        Ok(())
    }
}

/// Visits these records, each timed, with buffers that hold them in the order of the visits.
fn run_visits(
    access: Access,
    medium: &mut Medium,
    records: &[u64],
    buffer: &mut [u8],
    bytes: usize,
    lane: &mut Lane,
) -> Result<Calls, WorkloadError> {
    let mut visits: Vec<(u64, Split)> = Vec::with_capacity(records.len());
    lane.enter();
    let cpu_start_ns = thread_cpu_ns();
    let is_watched = access.writes() && medium.is_watched();
    let mut looking_cpu_ns = 0;
    let mut end_ns = now_ns();
    for (record, slot) in records.iter().zip(buffer.chunks_mut(bytes)) {
        let start_ns = end_ns;
        let offset = record * bytes as u64;
        let mut split = Split::default();
        let call_ns = now_ns();
        if access.writes() {
            split.write_calls = medium.write(slot, offset)?;
            split.write_bytes = bytes as u64;
            end_ns = now_ns();
            split.write_ns = end_ns - call_ns;
            mark_call(None, split.write_ns);
            if medium.syncs_each() {
                let sync_ns = end_ns;
                medium.sync(offset, bytes)?;
                end_ns = now_ns();
                split.sync_ns = end_ns - sync_ns;
                mark_call(None, split.sync_ns);
                split.sync_calls = 1;
            }
        } else {
            split.read_calls = medium.read(slot, offset)?;
            split.read_bytes = bytes as u64;
            end_ns = now_ns();
            split.read_ns = end_ns - call_ns;
            mark_call(None, split.read_ns);
        }
        split.wall_ns = end_ns - start_ns;
        split.cpu_ns = call_ns - start_ns;
        visits.push((start_ns, split));
        if is_watched {
            // Between two operations, in the time of neither.
            let before_ns = thread_cpu_ns();
            medium.look(offset, bytes);
            looking_cpu_ns += thread_cpu_ns() - before_ns;
            end_ns = now_ns();
        }
    }
    let cpu_ns = (thread_cpu_ns() - cpu_start_ns).saturating_sub(looking_cpu_ns);
    give_idle_to_other(&mut visits, cpu_ns);
    let mut calls = Calls::default();
    for (start_ns, split) in visits {
        calls.reads += split.read_calls;
        calls.writes += split.write_calls;
        calls.syncs += split.sync_calls;
        calls.transferred_bytes += split.read_bytes + split.write_bytes;
        calls.transfer_ns += split.read_ns + split.write_ns;
        calls.sync_ns += split.sync_ns;
        lane.record(start_ns, 1, split);
    }
    Ok(calls)
}

/// The gaps between calls cannot hold more CPU time than the thread has used; what exceeds it was
/// waiting for a processor.
fn give_idle_to_other(visits: &mut [(u64, Split)], cpu_ns: u64) {
    let gaps_ns: u64 = visits.iter().map(|(_, split)| split.cpu_ns).sum();
    if gaps_ns <= cpu_ns {
        return;
    }
    let share = cpu_ns as f64 / gaps_ns as f64;
    for (_, split) in visits {
        let ran_ns = (split.cpu_ns as f64 * share) as u64;
        split.other_ns += split.cpu_ns - ran_ns;
        split.cpu_ns = ran_ns;
    }
}

impl Calls {
    fn add(&mut self, more: &Calls) {
        self.reads += more.reads;
        self.writes += more.writes;
        self.syncs += more.syncs;
        self.transferred_bytes += more.transferred_bytes;
        self.transfer_ns += more.transfer_ns;
        self.sync_ns += more.sync_ns;
    }

    fn report(&self, access: Access, phase: &mut Phase) {
        let mut row = |op: &str, calls, bytes, ns| {
            if calls > 0 {
                let row =
                    IoRow { phase: String::new(), class: "file".into(), op: op.into(), calls, bytes, ns };
                phase.add_io(row);
            }
        };
        if access.writes() {
            row("write", self.writes, self.transferred_bytes, self.transfer_ns);
            row("sync", self.syncs, 0, self.sync_ns);
        } else {
            row("read", self.reads, self.transferred_bytes, self.transfer_ns);
        }
    }
}

impl OneFile {
    /// Writes every record of generation 1 in large writes, and syncs.
    fn write_all(&mut self, workload: &MobibenchFile, seed: u64) -> Result<(), WorkloadError> {
        let bytes = workload.record_bytes;
        let file = File::create(&self.path).map_err(|source| self.failed(source))?;
        let slots = self.buffer.bytes().len() / bytes;
        for first in (0..workload.records).step_by(slots) {
            let count = (workload.records - first).min(slots as u64) as usize;
            let chunk = &mut self.buffer.bytes_mut()[..count * bytes];
            for (record, slot) in (first..).zip(chunk.chunks_mut(bytes)) {
                let stamp = Stamp { file: self.number, generation: 1, offset: record * bytes as u64 };
                block::write(slot, seed, stamp);
            }
            file.write_all_at(chunk, first * bytes as u64).map_err(|source| failed(&self.path, source))?;
        }
        file.sync_all().map_err(|source| self.failed(source))?;
        let mut watched = PlainFile::open(&self.path);
        watched.written(0, workload.records * bytes as u64);
        watched.settle();
        Ok(())
    }

    /// Reads the whole file and checks every record.
    fn check_all(&mut self, workload: &MobibenchFile, seed: u64) -> Result<(), WorkloadError> {
        let bytes = workload.record_bytes;
        let file = File::open(&self.path).map_err(|source| self.failed(source))?;
        let length = file.metadata().map_err(|source| self.failed(source))?.len();
        if length != workload.records * bytes as u64 {
            let must = workload.records * bytes as u64;
            return Err(WorkloadError::Verification(format!(
                "{} has {length} bytes, not {must}",
                self.path.display()
            )));
        }
        let slots = self.buffer.bytes().len() / bytes;
        let mut scratch = vec![0; bytes];
        for first in (0..workload.records).step_by(slots) {
            let count = (workload.records - first).min(slots as u64) as usize;
            let chunk = &mut self.buffer.bytes_mut()[..count * bytes];
            file.read_exact_at(chunk, first * bytes as u64).map_err(|source| failed(&self.path, source))?;
            for (record, slot) in (first..).zip(self.buffer.bytes()[..count * bytes].chunks(bytes)) {
                self.check(record, slot, seed, &mut scratch)?;
            }
        }
        Ok(())
    }

    fn check(&self, record: u64, slot: &[u8], seed: u64, scratch: &mut [u8]) -> Result<(), WorkloadError> {
        let offset = record * slot.len() as u64;
        let stamp = Stamp { file: self.number, generation: self.generations[record as usize], offset };
        block::check(slot, seed, stamp, scratch).map_err(|problem| {
            WorkloadError::Verification(format!(
                "{}: record at offset {offset}: {problem}",
                self.path.display()
            ))
        })
    }

    fn failed(&self, source: std::io::Error) -> WorkloadError {
        failed(&self.path, source)
    }
}

fn failed(path: &std::path::Path, source: std::io::Error) -> WorkloadError {
    WorkloadError::Io { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_longer_than_the_cpu_time_are_idle() {
        let split = Split { wall_ns: 1_000, cpu_ns: 400, write_ns: 600, ..Split::default() };
        let mut visits = [(0, split), (1_000, split)];
        give_idle_to_other(&mut visits, 200);
        for (_, split) in visits {
            assert_eq!((split.cpu_ns, split.other_ns), (100, 300));
            assert_eq!(split.wall_ns, split.cpu_ns + split.write_ns + split.other_ns);
        }
    }
}
