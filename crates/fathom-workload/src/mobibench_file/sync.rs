//! How writes are made to last: Mobibench's sync modes (`-y`).

/// A sync mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// `write`, and one `fsync` at the end of the pass (`-y 0`).
    None,
    /// The file is opened with `O_SYNC` (`-y 1`).
    OSync,
    /// `write` and `fsync` (`-y 2`).
    Fsync,
    /// The file is opened with `O_DIRECT` (`-y 3`).
    ODirect,
    /// The file is opened with `O_DIRECT` and `O_SYNC` (`-y 4`).
    ODirectOSync,
    /// Copies to and from a shared mapping; one `msync` at the end of the pass (`-y 5`).
    Mmap,
    /// As `Mmap`, with `msync(MS_ASYNC)` after each record (`-y 6`; on Linux the call does nothing
    /// since 2.6.19).
    MmapAsync,
    /// As `Mmap`, with `msync(MS_SYNC)` after each record (`-y 7`).
    MmapSync,
    /// `write` and `fdatasync` (`-y 8`).
    Fdatasync,
}

impl SyncMode {
    /// The modes' names, in Mobibench's order.
    pub const NAMES: &'static [&'static str] = &[
        "none",
        "o_sync",
        "fsync",
        "o_direct",
        "o_direct+o_sync",
        "mmap",
        "mmap+async",
        "mmap+sync",
        "fdatasync",
    ];

    /// The mode of this name, which is one of [`SyncMode::NAMES`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "none" => SyncMode::None,
            "o_sync" => SyncMode::OSync,
            "fsync" => SyncMode::Fsync,
            "o_direct" => SyncMode::ODirect,
            "o_direct+o_sync" => SyncMode::ODirectOSync,
            "mmap" => SyncMode::Mmap,
            "mmap+async" => SyncMode::MmapAsync,
            "mmap+sync" => SyncMode::MmapSync,
            "fdatasync" => SyncMode::Fdatasync,
            _ => return None,
        })
    }

    /// Whether the file is mapped.
    #[must_use]
    pub fn maps(self) -> bool {
        matches!(self, SyncMode::Mmap | SyncMode::MmapAsync | SyncMode::MmapSync)
    }

    /// Whether the file is opened with `O_DIRECT`.
    #[must_use]
    pub fn is_direct(self) -> bool {
        matches!(self, SyncMode::ODirect | SyncMode::ODirectOSync)
    }

    /// Flags for `open` beyond read, write and create.
    #[must_use]
    pub fn open_flags(self) -> i32 {
        match self {
            SyncMode::OSync => libc::O_SYNC,
            SyncMode::ODirect => libc::O_DIRECT,
            SyncMode::ODirectOSync => libc::O_DIRECT | libc::O_SYNC,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_modes_are_one_to_one() {
        for (number, &name) in SyncMode::NAMES.iter().enumerate() {
            assert_eq!(SyncMode::from_name(name).map(|mode| mode as usize), Some(number));
        }
        assert_eq!(SyncMode::from_name("msync"), None);
    }
}
