//! Reads an instance's buffers while the trace runs.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::error::TraceError;
use super::format::{Field, Format};
use super::ring;
use super::rwbs::Rwbs;
use super::tracefs::{EVENTS, Instance};

/// How long the reader sleeps when it has read everything. It wakes 20 times a second, on whatever
/// CPU the worker is not pinned to, and reads pages: no event wakes it.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A request's station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Station {
    /// It was made.
    Submit,
    /// It was handed to the driver.
    Issue,
    /// It, or a part of it, is complete.
    Complete,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub at_ns: u64,
    pub station: Station,
    pub device: u8,
    pub sector: u64,
    pub sectors: u32,
    pub rwbs: Rwbs,
    pub error: i32,
}

/// Where an event's fields are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    id: u16,
    station: Station,
    device: Field,
    sector: Field,
    sectors: Field,
    rwbs: Field,
    error: Option<Field>,
}

/// The open buffers and what was read of them.
#[derive(Debug)]
pub(super) struct Reader {
    layouts: Vec<Layout>,
    /// `common_type` of a record.
    kind: Field,
    /// The kernel's number of each traced device, in the caller's order.
    devices: Vec<u64>,
    buffers: Vec<(PathBuf, File)>,
    page: Vec<u8>,
    records: Vec<Record>,
}

impl Reader {
    pub fn open(instance: &Instance, devices: &[(u32, u32)]) -> Result<Reader, TraceError> {
        let mut layouts = Vec::new();
        let mut kind = Field { offset: 0, size: 2 };
        for (event, station) in EVENTS.iter().zip([Station::Submit, Station::Issue, Station::Complete]) {
            let path = instance.format_path(event);
            let format = Format::read(&path)?;
            kind = format.field("common_type", &path)?;
            layouts.push(Layout {
                id: format.id,
                station,
                device: format.field("dev", &path)?,
                sector: format.field("sector", &path)?,
                sectors: format.field("nr_sector", &path)?,
                rwbs: format.field("rwbs", &path)?,
                error: format.field("error", &path).ok(),
            });
        }
        let mut buffers = Vec::new();
        for path in instance.buffers()? {
            let mut options = File::options();
            let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(&path);
            buffers.push((path.clone(), file.map_err(TraceError::io("open", &path))?));
        }
        // A page of the buffer is a page of the machine, unless somebody made the instance's
        // larger.
        let page = vec![0; rustix::param::page_size()];
        let devices = devices.iter().map(|&(major, minor)| u64::from(major << 20 | minor)).collect();
        Ok(Reader { layouts, kind, devices, buffers, page, records: Vec::new() })
    }

    /// Reads until `end` is set and the buffers are empty.
    pub fn read_until(mut self, end: &AtomicBool) -> Result<Reader, TraceError> {
        loop {
            // Asked before the buffers are emptied: what was recorded before the end is then in
            // them.
            let last = end.load(Ordering::Acquire);
            self.empty()?;
            if last {
                return Ok(self);
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Takes what the buffers hold by now.
    pub fn empty(&mut self) -> Result<(), TraceError> {
        let Reader { layouts, kind, devices, buffers, page, records } = self;
        for (path, buffer) in buffers {
            loop {
                let length = match buffer.read(page) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(TraceError::io("read", &*path)(e)),
                };
                ring::records(&page[..length], |at_ns, bytes| {
                    records.extend(decoded(layouts, *kind, devices, at_ns, bytes));
                });
            }
        }
        Ok(())
    }

    /// All events so far, in order of time.
    pub fn in_order(&mut self) -> &[Record] {
        // Each CPU's buffer is in order; a stable sort keeps events of one moment in theirs.
        self.records.sort_by_key(|record| record.at_ns);
        &self.records
    }
}

fn decoded(layouts: &[Layout], kind: Field, devices: &[u64], at_ns: u64, bytes: &[u8]) -> Option<Record> {
    let id = kind.number(bytes)?;
    let layout = layouts.iter().find(|layout| u64::from(layout.id) == id)?;
    let device = layout.device.number(bytes)?;
    let device = devices.iter().position(|&known| known == device)?;
    Some(Record {
        at_ns,
        station: layout.station,
        device: u8::try_from(device).ok()?,
        sector: layout.sector.number(bytes)?,
        sectors: u32::try_from(layout.sectors.number(bytes)?).ok()?,
        rwbs: Rwbs::parse(layout.rwbs.of(bytes)?),
        error: layout.error.and_then(|field| field.number(bytes)).map_or(0, |field| field as u32 as i32),
    })
}
