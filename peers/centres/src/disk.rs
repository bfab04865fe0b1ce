//! What the kernel counts of the disk under a directory.

use crate::Failure;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Flush requests that the disk has done since the machine was started (field 16 of
/// Documentation/block/stat.rst); of all processes, so nothing else may write meanwhile.
pub fn flushes(dir: &Path) -> Result<u64, Failure> {
    let device = std::fs::metadata(dir)?.dev();
    // gnu_dev_major and gnu_dev_minor of makedev(3).
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"))?;
    let flushes = stat.split_whitespace().nth(15).ok_or("the kernel does not count flushes (5.5 does)")?;
    Ok(flushes.parse()?)
}
