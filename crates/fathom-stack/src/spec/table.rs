//! The table of file systems: a new one is a row here, with its program if that is new too.
//!
//! The table is knowledge, not a limit: a block file system that the running kernel lists and for
//! which there is an `mkfs.NAME` is offered too.

use std::borrow::Cow;

use super::filesystem::{Driver, FileSystem, Log, Mkfs};
use crate::ground::distribution::Package;

/// `program`, words, word for its version; options of one letter without a value, and refused ones;
/// its package with apt, dnf, pacman, apk and zypper.
const fn mkfs(
    program: &'static str,
    words: &'static [&'static str],
    version: &'static str,
    letters: [&'static str; 2],
    package: [&'static str; 5],
) -> Mkfs {
    let [alone, refused] = letters;
    let package = Package::of(package);
    Mkfs { program: Cow::Borrowed(program), words, version, package, alone: Some(alone), refused }
}

const MKE2FS: Mkfs = mkfs("mke2fs", &["-F", "-q"], "-V", ["DFjKqv", "cdlnStzV"], ["e2fsprogs"; 5]);
const XFS: Mkfs = mkfs("mkfs.xfs", &["-q", "-f", "-K"], "-V", ["fKq", "cNpV"], ["xfsprogs"; 5]);
const BTRFS: Mkfs = mkfs(
    "mkfs.btrfs",
    &["-q", "-f", "-K"],
    "--version",
    ["fKMqv", "rV"],
    ["btrfs-progs", "btrfs-progs", "btrfs-progs", "btrfs-progs", "btrfsprogs"],
);
const NTFS: Mkfs = mkfs("mkntfs", &["-q", "-F", "-Q"], "--version", ["fQFIUCqvdT", "nV"], NTFS_PACKAGE);
const FAT: Mkfs = mkfs("mkfs.vfat", &["-I"], "--help", ["aAIv", "cClm"], ["dosfstools"; 5]);
const EXFAT: Mkfs = mkfs("mkfs.exfat", &[], "-V", ["fqv", "V"], ["exfatprogs"; 5]);
const F2FS: Mkfs = mkfs("mkfs.f2fs", &["-q", "-f", "-t", "0"], "-V", ["fHimqr", "cV"], ["f2fs-tools"; 5]);
const NILFS: Mkfs = mkfs(
    "mkfs.nilfs2",
    &["-q", "-f", "-K"],
    "-V",
    ["fKqv", "cnV"],
    ["nilfs-tools", "nilfs-utils", "nilfs-utils", "nilfs-utils", "nilfs-utils"],
);
const JFS: Mkfs = mkfs("mkfs.jfs", &["-q"], "-V", ["fOq", "cjV"], ["jfsutils"; 5]);
const BCACHEFS: Mkfs =
    mkfs("mkfs.bcachefs", &["-q", "--force"], "--version", ["fqv", "V"], ["bcachefs-tools"; 5]);
const UDF: Mkfs = mkfs("mkudffs", &["--media-type=hd"], "--help", ["", "n"], ["udftools"; 5]);
const MINIX: Mkfs = mkfs(
    "mkfs.minix",
    &["-3"],
    "--version",
    ["123v", "clV"],
    ["util-linux-extra", "util-linux", "util-linux", "util-linux-misc", "util-linux"],
);

const NTFS_PACKAGE: [&str; 5] =
    ["ntfs-3g", "ntfs-3g ntfsprogs", "ntfs-3g", "ntfs-3g ntfs-3g-progs", "ntfs-3g ntfsprogs"];
const NTFS_3G: Driver = Driver::Fuse { program: "ntfs-3g", package: Package::of(NTFS_PACKAGE) };
const EXFAT_FUSE: Driver = Driver::Fuse {
    program: "mount.exfat-fuse",
    package: Package::of(["exfat-fuse", "fuse-exfat", "exfat-utils", "", "fuse-exfat"]),
};

const fn kernel(name: &'static str) -> Driver {
    Driver::Kernel(Cow::Borrowed(name))
}

/// A row; names that differ in case only name two files.
const fn row(name: &'static str, driver: Driver, mkfs: Mkfs, min_mib: u64, log: Log) -> FileSystem {
    FileSystem { name: Cow::Borrowed(name), driver, mkfs, min_mib, log, case_folds: false }
}

/// A row; names that differ in case only name one file.
const fn case_folding(name: &'static str, mkfs: Mkfs, min_mib: u64) -> FileSystem {
    FileSystem {
        name: Cow::Borrowed(name),
        driver: kernel(name),
        mkfs,
        min_mib,
        log: Log::None,
        case_folds: true,
    }
}

/// Every file system by the name that experiments give it: what mounts it, what makes it, the
/// smallest image in MiB, and how an external log is asked for.
///
/// The smallest sizes are those of the tools (xfsprogs ≥ 5.19 refuses less than 300 MiB), rounded
/// up to what leaves room to work.
pub(crate) const KNOWN: &[FileSystem] = &[
    row("ext2", kernel("ext2"), MKE2FS, 8, Log::None),
    row("ext3", kernel("ext3"), MKE2FS, 16, Log::Ext),
    row("ext4", kernel("ext4"), MKE2FS, 16, Log::Ext),
    row("xfs", kernel("xfs"), XFS, 300, Log::Xfs),
    row("btrfs", kernel("btrfs"), BTRFS, 128, Log::None),
    row("ntfs", NTFS_3G, NTFS, 16, Log::None),
    case_folding("ntfs3", NTFS, 16),
    case_folding("vfat", FAT, 16),
    case_folding("msdos", FAT, 16),
    case_folding("exfat", EXFAT, 16),
    row("exfat-fuse", EXFAT_FUSE, EXFAT, 16, Log::None),
    row("f2fs", kernel("f2fs"), F2FS, 64, Log::None),
    row("nilfs2", kernel("nilfs2"), NILFS, 160, Log::None),
    row("jfs", kernel("jfs"), JFS, 32, Log::None),
    row("bcachefs", kernel("bcachefs"), BCACHEFS, 128, Log::None),
    row("udf", kernel("udf"), UDF, 16, Log::None),
    row("minix", kernel("minix"), MINIX, 16, Log::None),
];
