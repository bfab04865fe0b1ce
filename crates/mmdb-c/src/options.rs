//! How a database is opened.

use crate::argument::{place, put, text};
use crate::failure::{Failure, Result, guard};
use crate::handle::{content, enter, give, take};
use crate::status::mmdb_status;
use mmdb::{LogKind, Options};
use std::ffi::c_char;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// How a database is opened. The library copies it: it can be used again, or freed at once.
pub struct mmdb_options {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_options, Mutex<Options>, b"mmdbOPT\x01");

/// Options whose value is a number, a time in ms, or 0 and 1.
const NAMES: [&str; 18] = [
    "streams",
    "segment_bytes",
    "container_bytes",
    "after_images",
    "scrub",
    "memory_limit",
    "snapshot_memory",
    "lock_timeout_ms",
    "range_locks",
    "max_runs",
    "checkpoint_log_bytes",
    "max_log_bytes",
    "lazy_interval_ms",
    "manifest_interval_ms",
    "expire_interval_ms",
    "group_commit",
    "reference",
    "recovery_threads",
];

fn refuse(message: String) -> Failure {
    Failure { status: mmdb_status::Options, message }
}

fn set(o: &mut Options, name: &str, value: u64) -> Result<()> {
    let out_of_range = |_| refuse(format!("option {name}: {value} is too large"));
    let size = || usize::try_from(value).map_err(out_of_range);
    let flag = || match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(refuse(format!("option {name} is 0 or 1, not {value}"))),
    };
    let time = Duration::from_millis(value);
    match name {
        "streams" => o.streams = size()?,
        "segment_bytes" => o.segment_bytes = value,
        "container_bytes" => o.container_bytes = size()?,
        "after_images" => o.log_kind = if flag()? { LogKind::AfterImage } else { LogKind::Differential },
        "scrub" => o.scrub = flag()?,
        "memory_limit" => o.memory_limit = value,
        "snapshot_memory" => o.snapshot_memory = value,
        "lock_timeout_ms" => o.lock_timeout = time,
        "range_locks" => o.range_locks = size()?,
        "max_runs" => o.max_runs = u32::try_from(value).map_err(out_of_range)?,
        "checkpoint_log_bytes" => o.checkpoint_log_bytes = value,
        "max_log_bytes" => o.max_log_bytes = value,
        "lazy_interval_ms" => o.lazy_interval = time,
        "manifest_interval_ms" => o.manifest_interval = time,
        "expire_interval_ms" => o.expire_interval = time,
        "group_commit" => o.group_commit = flag()?,
        "reference" => o.reference = flag()?,
        "recovery_threads" => o.recovery_threads = size()?,
        _ => return Err(refuse(format!("there is no option {name}; there are {}", NAMES.join(", ")))),
    }
    Ok(())
}

/// The options that a caller gave; NULL for those of every database.
///
/// # Safety
/// `p` is NULL or a handle.
pub(crate) unsafe fn given(p: *const mmdb_options) -> Result<Options> {
    if p.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: says the caller.
    Ok(enter(unsafe { content(p)? }, "mmdb_options")?.clone())
}

/// Makes options with the values that every database has. Free them with mmdb_options_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_options_new(options: *mut *mut mmdb_options) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(place(options, "options")?, give(Mutex::new(Options::default())));
        Ok(())
    })
}

/// Sets an option: streams, segment_bytes, container_bytes, after_images (0, 1), scrub (0, 1),
/// memory_limit, snapshot_memory, lock_timeout_ms, range_locks, max_runs, checkpoint_log_bytes,
/// max_log_bytes, lazy_interval_ms, manifest_interval_ms, expire_interval_ms, group_commit (0, 1),
/// reference (0, 1), recovery_threads. Whether the values go together, mmdb_open says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_options_set(
    options: *mut mmdb_options,
    name: *const c_char,
    value: u64,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let mut options = enter(content(options)?, "mmdb_options")?;
        set(&mut options, text(name, "the name of an option")?, value)
    })
}

/// Says where the next log stream lives. Streams without a directory live in the database's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_options_add_stream_dir(
    options: *mut mmdb_options,
    path: *const c_char,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let mut options = enter(content(options)?, "mmdb_options")?;
        options.stream_dirs.push(PathBuf::from(text(path, "the path of a stream")?));
        Ok(())
    })
}

/// Keeps the database's files in memory, as long as these options or a database opened with them
/// are there: for tests. Sets segment_bytes to 1 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_options_in_memory(options: *mut mmdb_options) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let mut options = enter(content(options)?, "mmdb_options")?;
        let Options { medium, segment_bytes, .. } = Options::in_memory();
        (options.medium, options.segment_bytes) = (medium, segment_bytes);
        Ok(())
    })
}

/// Frees options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_options_free(options: *mut mmdb_options) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if options.is_null() { Ok(()) } else { take(options).map(drop) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_an_option() {
        for name in NAMES {
            assert!(set(&mut Options::default(), name, 1).is_ok(), "{name}");
        }
        assert!(set(&mut Options::default(), "colour", 1).is_err());
    }
}
