//! Modelled devices: an SD card, an eMMC or UFS part, a disk, on any machine.
//!
//! A model ([`Model`], a small TOML file with its sources) says how long a read, a write or a flush
//! takes; a [`Timeline`] turns operations and their times of arrival into times of completion by
//! it. Neither knows a clock: a daemon gives them real ones, tests and *model time* give them
//! computed ones.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod aligned;
mod answers;
mod awake;
mod blktrace;
mod calibrate;
mod device;
mod disk;
mod fault;
mod latency;
mod model;
mod model_file;
mod oplog;
mod overhead;
mod presets;
mod request_times;
pub mod server;
mod serving;
mod statistics;
mod timeline;
mod trial;
mod waiting;
mod wire;

pub use blktrace::{BLKTRACE_END, write_blktrace};
pub use calibrate::{CalibrateError, Calibration};
pub use device::{DeviceView, FILE, MARK, SERVED_MAX, STATISTICS};
pub use disk::{Disk, DiskError, Options, Trial};
pub use fault::{Fault, Faults, Outcome};
pub use latency::Latency;
pub use model::{Cache, Flush, Kind, Model, Side, Stall};
pub use model_file::{LARGEST_MODEL, device_model, is_model_file, model_text};
pub use oplog::{End, Log, Mark, OperationLog, Record, data_of, external_of, is_log, log_end, read_log};
pub use presets::{RECORDER, own_model, preset, presets, text_of};
pub use request_times::RequestTimes;
pub use statistics::{DeviceUse, LATE_NS, LATE_SHARE, SelfTestStep, Statistics, TESTED_FROM_NS, Times};
pub use timeline::{Operation, Service, Timeline};
