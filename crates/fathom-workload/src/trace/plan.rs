//! The first reading of a trace, before the timed window: its databases are put back, and it becomes known which threads replay it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Path, PathBuf};

use fathom_trace::model::{Loss, Record, Start};
use fathom_trace::reuse::Prepared;
use fathom_trace::start::{Layout, Restore};
use fathom_trace::{Reader, TraceError};

use super::translate::{Made, Reading, Translator};
use crate::engine::Engine;

/// What the second reading and the threads need.
pub struct Plan {
    /// The trace.
    pub file: PathBuf,
    /// Calls of each lane.
    pub lanes: Vec<u64>,
    /// The lane of each connection that is used.
    pub lane_of: HashMap<u32, u32>,
    /// What the second reading needs of the first.
    pub reading: Reading,
    /// What a user must know.
    pub warnings: Vec<String>,
    /// Functions, collations and modules of the application, for messages.
    pub foreign: Vec<String>,
    /// Databases with files, by number, and the path that the application gave.
    pub databases: Vec<(u32, String)>,
}

/// Threads that a replay starts at most. An application that had more over time, and not at once, is replayed with fewer: see [`Groups::lanes`].
const LANES_MAX: usize = 1024;

/// Name of the engine's database for a database of the trace.
pub fn name_of(database: u32) -> String {
    format!("trace-{database}")
}

/// Reads a trace and puts its databases into `directory`.
pub fn plan(file: &Path, engine: &dyn Engine, directory: &Path) -> Result<Plan, TraceError> {
    let mut translator = Translator::new(engine, Reading::First(Prepared::default()));
    let mut restore = Restore::default();
    let mut databases = Vec::new();
    let mut groups = Groups::default();
    let mut lost = 0;
    for record in Reader::open(file)? {
        match record? {
            Record::Database(database) => {
                let path = directory.join(format!("{}.db", name_of(database.id)));
                restore.database(&database, &path)?;
                translator.database(&database);
                if database.start != Start::Memory {
                    databases.push((database.id, String::from_utf8_lossy(&database.path).into_owned()));
                }
            }
            Record::Content(content) => restore.content(&content)?,
            Record::Statement(statement) => translator.statement(statement),
            Record::Event(event) => {
                if let Some(made) = translator.event(event) {
                    groups.add(&made);
                }
            }
            Record::Loss(_) => lost += 1,
            _ => {}
        }
    }
    if let Some(problem) = translator.refused.take() {
        return Err(TraceError::Refused { what: file.display().to_string(), problem });
    }
    let page_bytes = engine.info().settings.get("page_size").and_then(|bytes| bytes.parse().ok());
    restore.finish(Layout { page_bytes })?;
    let mut warnings: Vec<String> =
        translator.skipped.iter().map(|(why, count)| format!("left out: {count} {why}")).collect();
    warnings.sort();
    if lost > 0 {
        warnings.insert(0, Loss::told(lost));
    }
    let threads = groups.threads.len();
    let (lanes, lane_of) = groups.lanes(translator.has_times);
    if lanes.len() > LANES_MAX {
        let problem = format!(
            "{} threads used connections of their own at the same time, and a replay starts {LANES_MAX} at most",
            lanes.len()
        );
        return Err(TraceError::Refused { what: file.display().to_string(), problem });
    }
    if lanes.len() < threads {
        warnings.push(format!(
            "{threads} threads are replayed as {}: those that used a connection in turns are one",
            lanes.len()
        ));
    }
    let foreign = std::mem::take(&mut translator.foreign);
    let reading = translator.into_second();
    Ok(Plan { file: file.to_owned(), lanes, lane_of, reading, warnings, foreign, databases })
}

/// Threads and connections that belong together.
#[derive(Default)]
struct Groups {
    /// Of each thread, its group.
    threads: HashMap<u32, usize>,
    /// Of each connection, a group and its calls.
    connections: HashMap<u32, (usize, u64)>,
    /// Connections in order of their first call.
    order: Vec<u32>,
    /// Of each group, the one that it became part of.
    joined: Vec<usize>,
    /// Of each connection, the numbers of its first and last call.
    spans: HashMap<u32, (u64, u64)>,
}

impl Groups {
    fn root(&self, mut group: usize) -> usize {
        while self.joined[group] != group {
            group = self.joined[group];
        }
        group
    }

    fn add(&mut self, made: &Made) {
        self.spans.entry(made.connection).or_insert((made.number, made.number)).1 = made.number;
        // A program that collects its garbage closes connections on whatever thread does that.
        if made.what.is_an_end()
            && let Some((_, calls)) = self.connections.get_mut(&made.connection)
        {
            *calls += 1;
            return;
        }
        let joined = &mut self.joined;
        let of_thread = *self.threads.entry(made.thread).or_insert_with(|| {
            joined.push(joined.len());
            joined.len() - 1
        });
        let order = &mut self.order;
        let of_connection = self.connections.entry(made.connection).or_insert_with(|| {
            order.push(made.connection);
            (of_thread, 0)
        });
        of_connection.1 += 1;
        let (a, b) = (of_thread, of_connection.0);
        if a != b {
            let (a, b) = (self.root(a), self.root(b));
            self.joined[a.max(b)] = a.min(b);
        }
    }

    /// The calls of each lane, and the lane of each connection. Where there would be too many and the trace tells times, groups of which one had
    /// ended before the other began share a lane.
    fn lanes(self, has_times: bool) -> (Vec<u64>, HashMap<u32, u32>) {
        let mut numbers: HashMap<usize, u32> = HashMap::new();
        let mut lanes = Vec::new();
        let mut lane_of = HashMap::new();
        for connection in &self.order {
            let (group, calls) = self.connections[connection];
            let lane = *numbers.entry(self.root(group)).or_insert_with(|| {
                lanes.push(0);
                lanes.len() as u32 - 1
            });
            lanes[lane as usize] += calls;
            lane_of.insert(*connection, lane);
        }
        if lanes.len() > LANES_MAX && has_times { self.fewer(&lanes, lane_of) } else { (lanes, lane_of) }
    }

    /// Each lane goes behind another one that has ended before, where there is one.
    fn fewer(&self, lanes: &[u64], lane_of: HashMap<u32, u32>) -> (Vec<u64>, HashMap<u32, u32>) {
        let mut spans = vec![(u64::MAX, 0); lanes.len()];
        for (connection, lane) in &lane_of {
            let (first, last) = self.spans.get(connection).copied().unwrap_or_default();
            let span = &mut spans[*lane as usize];
            *span = (span.0.min(first), span.1.max(last));
        }
        let mut in_order: Vec<usize> = (0..lanes.len()).collect();
        in_order.sort_by_key(|lane| spans[*lane].0);
        // The lanes that there are then, by the end of what they do.
        let mut ends: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
        let (mut fewer, mut place_of) = (Vec::new(), vec![0_u32; lanes.len()]);
        for lane in in_order {
            let (first, last) = spans[lane];
            let place = match ends.peek() {
                Some(Reverse((end, place))) if *end < first => {
                    let place = *place;
                    ends.pop();
                    place
                }
                _ => {
                    fewer.push(0);
                    fewer.len() as u32 - 1
                }
            };
            fewer[place as usize] += lanes[lane];
            place_of[lane] = place;
            ends.push(Reverse((last, place)));
        }
        let lane_of =
            lane_of.into_iter().map(|(connection, lane)| (connection, place_of[lane as usize])).collect();
        (fewer, lane_of)
    }
}
