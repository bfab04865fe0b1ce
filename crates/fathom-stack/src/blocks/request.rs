//! Requests to a device, and all of them that a trace recorded.

use serde::{Deserialize, Serialize};

/// Bytes of a sector in the block layer, whatever the device's own sectors are.
pub const SECTOR_BYTES: u64 = 512;

/// What a request asks of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockOp {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Make everything written so far durable.
    Flush,
    /// Forget sectors.
    Discard,
    /// Anything else (zone management, a driver's private commands).
    Other,
}

impl BlockOp {
    /// All, in order of [`BlockOp::number`].
    pub const ALL: [BlockOp; 5] =
        [BlockOp::Read, BlockOp::Write, BlockOp::Flush, BlockOp::Discard, BlockOp::Other];

    /// As tables and exports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Flush => "flush",
            BlockOp::Discard => "discard",
            BlockOp::Other => "other",
        }
    }

    /// Its number in results files.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// One request to a device, from submission to completion. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Index of the device in what [`BlockTrace::start`](super::BlockTrace::start) was given.
    pub device: u8,
    /// What is asked.
    pub op: BlockOp,
    /// Forced unit access was asked for: this write is durable when it completes.
    pub fua: bool,
    /// Somebody waits for it (`REQ_SYNC`).
    pub sync: bool,
    /// The file system marked it as metadata (`REQ_META`).
    pub meta: bool,
    /// Read ahead of what was asked for.
    pub ahead: bool,
    /// When the block layer made the request.
    pub submit_ns: u64,
    /// When it was handed to the driver.
    pub issue_ns: u64,
    /// When it was complete.
    pub complete_ns: u64,
    /// First sector, of [`SECTOR_BYTES`]; 0 for a flush.
    pub sector: u64,
    /// Number of sectors; 0 for a flush.
    pub sectors: u32,
    /// 0, or the error with which it ended (a negative errno).
    pub error: i32,
}

impl Request {
    /// Bytes moved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    /// From submission to completion, ns.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.complete_ns.saturating_sub(self.submit_ns)
    }
}

/// All that was traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In order of [`Request::issue_ns`].
    pub requests: Vec<Request>,
    /// Events that the kernel's buffer had no room for: requests are missing when it is not 0.
    pub lost_events: u64,
    /// Requests that were issued and had not completed when the trace ended.
    pub unfinished: u64,
    /// When the trace began and ended, CLOCK_MONOTONIC, ns.
    pub span_ns: (u64, u64),
}
