//! What an image holds, by its magic numbers: the file system, and how long it says it is.
//!
//! Only what a mistake looks like is told apart here: another file system, a disk with partitions,
//! a compressed or a virtual machine's image, one that was cut off. Whether a file system is whole,
//! its driver finds out when it mounts it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of an image that are looked at: the last magic number is Btrfs's, at 64 KiB.
pub const HEAD_BYTES: usize = 128 << 10;

/// A file system in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// File systems of [`crate::StackSpec::filesystem`] that mount it; the first is taken where
    /// none is asked for.
    pub names: &'static [&'static str],
    /// Bytes that it takes by its own account, where it tells.
    pub bytes: Option<u64>,
}

/// A reader of numbers at offsets; what lies behind the end is zero.
struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn holds(&self, at: usize, magic: &[u8]) -> bool {
        self.0.get(at..at + magic.len()) == Some(magic)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|field| field.try_into().ok()).unwrap_or([0; N])
    }

    fn le16(&self, at: usize) -> u64 {
        u16::from_le_bytes(self.array(at)).into()
    }

    fn le32(&self, at: usize) -> u64 {
        u32::from_le_bytes(self.array(at)).into()
    }

    fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn be32(&self, at: usize) -> u64 {
        u32::from_be_bytes(self.array(at)).into()
    }

    fn be64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }
}

/// `1 << exponent`, or nothing where that is no size of a block.
fn power(exponent: u64) -> Option<u64> {
    (exponent <= 30).then(|| 1 << exponent)
}

/// Formats that hold an image but are none: magic number, its place, what it is, what to do.
const WRAPPED: &[(&[u8], usize, &str, &str)] = &[
    (b"QFI\xfb", 0, "a QEMU image (qcow2)", "qemu-img convert -O raw IN OUT"),
    (b"KDMV", 0, "a VMware image (VMDK)", "qemu-img convert -O raw IN OUT"),
    (b"# Disk DescriptorFile", 0, "a VMware image's description (VMDK)", "qemu-img convert -O raw IN OUT"),
    (b"\x7f\x10\xda\xbe", 64, "a VirtualBox image (VDI)", "qemu-img convert -O raw IN OUT"),
    (b"vhdxfile", 0, "a Hyper-V image (VHDX)", "qemu-img convert -O raw IN OUT"),
    (b"conectix", 0, "a Virtual PC image (VHD)", "qemu-img convert -O raw IN OUT"),
    (b"\x3a\xff\x26\xed", 0, "an Android sparse image", "simg2img IN OUT"),
    (b"\x1f\x8b", 0, "compressed by gzip", "gzip -dc IN > OUT"),
    (b"\xfd7zXZ\0", 0, "compressed by xz", "xz -dc IN > OUT"),
    (b"\x28\xb5\x2f\xfd", 0, "compressed by zstd", "zstd -dc IN > OUT"),
    (b"BZh", 0, "compressed by bzip2", "bzip2 -dc IN > OUT"),
    (b"PK\x03\x04", 0, "a zip archive", "unzip IN"),
];

/// What is on a disk that is no file system to be written: magic number, its place, what it is.
const OTHER: &[(&[u8], usize, &str)] = &[
    (b"LUKS\xba\xbe", 0, "an encrypted volume (LUKS): give the image of what is in it"),
    (b"LVM2 001", 536, "a physical volume of LVM: give the image of a logical volume"),
    (b"SWAPSPACE2", 4086, "swap space"),
    (b"SWAP-SPACE", 4086, "swap space"),
    (b"hsqs", 0, "SquashFS, which cannot be written"),
    (b"\xe2\xe1\xf5\xe0", 1024, "EROFS, which cannot be written"),
    (b"ANDROID!", 0, "an Android boot image, which is no file system"),
    (b"SQLite format 3\0", 0, "an SQLite database, not the file system that it lies on"),
];

/// Finds what the first bytes of an image of `length` bytes are.
///
/// # Errors
/// In words, with the byte that tells it: it is no file system, one that was cut off, or something
/// that holds an image.
pub fn recognise(head: &[u8], length: u64) -> Result<Content, String> {
    if length == 0 {
        return Err("it is empty".into());
    }
    if let Some(content) = file_system(&Head(head))? {
        return match content.bytes {
            Some(bytes) if bytes > length => Err(format!(
                "it is cut off: its {} says it takes {bytes} bytes, the file has {length}",
                content.names[0]
            )),
            _ => Ok(content),
        };
    }
    let head = Head(head);
    for (magic, at, what, command) in WRAPPED {
        if head.holds(*at, magic) {
            return Err(format!("it is {what} (byte {at}); make a plain image of it:  {command}"));
        }
    }
    for (magic, at, what) in OTHER {
        if head.holds(*at, magic) {
            return Err(format!("it holds {what} (byte {at})"));
        }
    }
    if let Some(problem) = partitioned(&head) {
        return Err(problem);
    }
    if head.holds(32769, b"CD001") {
        return Err("it holds ISO 9660, which cannot be written (byte 32769)".into());
    }
    if head.0.iter().all(|byte| *byte == 0) {
        return Err(format!("it holds no file system: its first {} bytes are zero", head.0.len()));
    }
    Err(format!(
        "it holds no file system that is known: none has its magic number in the first {} bytes",
        head.0.len()
    ))
}

/// The file system by its superblock.
fn file_system(head: &Head<'_>) -> Result<Option<Content>, String> {
    let found = |names: &'static [&'static str], bytes: Option<u64>| Ok(Some(Content { names, bytes }));
    let product = |a: u64, b: Option<u64>| b.and_then(|b| a.checked_mul(b));
    if head.le16(1080) == 0xEF53 {
        let block = power(10 + head.le32(1048));
        // EXTENTS, 64BIT and FLEX_BG among what must be understood; a journal among what may.
        let incompatible = head.le32(1120);
        let high = if incompatible & 0x80 == 0 { 0 } else { head.le32(1360) << 32 };
        let names: &[&str] = if incompatible & 0x8 != 0 {
            return Err("it is a journal of ext3 or ext4 on a device of its own (byte 1120)".into());
        } else if incompatible & 0x2C0 != 0 {
            &["ext4"]
        } else if head.le32(1116) & 0x4 != 0 {
            &["ext3", "ext4"]
        } else {
            &["ext2", "ext4"]
        };
        return found(names, product(head.le32(1028) | high, block));
    }
    if head.holds(0, b"XFSB") {
        return found(&["xfs"], head.be64(8).checked_mul(head.be32(4)));
    }
    if head.holds(65600, b"_BHRfS_M") {
        let devices = head.le64(65536 + 0x88);
        if devices > 1 {
            return Err(format!("it is one of the {devices} devices of a Btrfs (byte {})", 65536 + 0x88));
        }
        return found(&["btrfs"], Some(head.le64(65536 + 0x70)));
    }
    if head.holds(3, b"NTFS    ") {
        return found(&["ntfs", "ntfs3"], head.le64(0x28).checked_mul(head.le16(0xB)));
    }
    if head.holds(3, b"EXFAT   ") {
        return found(
            &["exfat", "exfat-fuse"],
            product(head.le64(72), power(head.array::<1>(108)[0].into())),
        );
    }
    if head.holds(510, b"\x55\xaa") && (head.holds(54, b"FAT1") || head.holds(82, b"FAT32")) {
        let short = head.le16(19);
        let sectors = if short == 0 { head.le32(32) } else { short };
        return found(&["vfat"], sectors.checked_mul(head.le16(11)));
    }
    if head.le32(1024) == 0xF2F5_2010 {
        return found(&["f2fs"], product(head.le64(1024 + 36), power(head.le32(1024 + 16))));
    }
    if head.le16(1024 + 6) == 0x3434 && head.le32(1024) == 2 {
        return found(&["nilfs2"], Some(head.le64(1024 + 32)));
    }
    if head.holds(32768, b"JFS1") {
        return found(&["jfs"], head.le64(32768 + 8).checked_mul(head.le32(32768 + 24)));
    }
    if (0..16).any(|sector| {
        let at = 32769 + 2048 * sector;
        head.holds(at, b"NSR02") || head.holds(at, b"NSR03")
    }) {
        return found(&["udf"], None);
    }
    if [0x137F, 0x138F, 0x2468, 0x2478].contains(&head.le16(1040)) || head.le16(1048) == 0x4D5A {
        return found(&["minix"], None);
    }
    Ok(None)
}

/// What tells a file system from another one of its kind, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Its UUID, or the shorter number that FAT, exFAT and NTFS have.
    pub uuid: Option<String>,
    /// Its features' bits and the size of its blocks.
    pub features: Option<String>,
}

/// The marks of the file system that an image begins with.
#[must_use]
pub fn marks_of(head: &[u8]) -> Marks {
    let head = Head(head);
    let marks = |uuid: String, features: Option<String>| Marks { uuid: Some(uuid), features };
    if head.le16(1080) == 0xEF53 {
        let features = format!(
            "compatible {:#x}, incompatible {:#x}, read-only compatible {:#x}, blocks of {} bytes",
            head.le32(1116),
            head.le32(1120),
            head.le32(1124),
            power(10 + head.le32(1048)).unwrap_or_default()
        );
        return marks(uuid(head.array(1128)), Some(features));
    }
    if head.holds(0, b"XFSB") {
        let features = format!(
            "version {:#x}, compatible {:#x}, read-only compatible {:#x}, incompatible {:#x}, blocks of {} bytes",
            u16::from_be_bytes(head.array(100)),
            head.be32(208),
            head.be32(212),
            head.be32(216),
            head.be32(4)
        );
        return marks(uuid(head.array(32)), Some(features));
    }
    if head.holds(65600, b"_BHRfS_M") {
        let at = |offset: usize| head.le64(65536 + offset);
        let features = format!(
            "compatible {:#x}, read-only compatible {:#x}, incompatible {:#x}",
            at(0xAC),
            at(0xB4),
            at(0xBC)
        );
        return marks(uuid(head.array(65536 + 0x20)), Some(features));
    }
    if head.le32(1024) == 0xF2F5_2010 {
        return marks(uuid(head.array(1024 + 108)), Some(format!("{:#x}", head.le32(1024 + 2180))));
    }
    let short = |number: u64| format!("{:04X}-{:04X}", number >> 16, number & 0xFFFF);
    if head.holds(3, b"NTFS    ") {
        return marks(format!("{:016X}", head.le64(0x48)), None);
    }
    if head.holds(3, b"EXFAT   ") {
        return marks(short(head.le32(100)), None);
    }
    if head.holds(510, b"\x55\xaa") && head.holds(82, b"FAT32") {
        return marks(short(head.le32(67)), None);
    }
    if head.holds(510, b"\x55\xaa") && head.holds(54, b"FAT1") {
        return marks(short(head.le32(39)), None);
    }
    Marks::default()
}

/// As tools write it.
fn uuid(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes);
    let part = |from: u32, digits: u32| (number >> (4 * from)) & ((1 << (4 * digits)) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(24, 8),
        part(20, 4),
        part(16, 4),
        part(12, 4),
        part(0, 12)
    )
}

/// A whole disk instead of a partition: what to do.
fn partitioned(head: &Head<'_>) -> Option<String> {
    let hint = "give the image of one partition:  sfdisk -d IMAGE  lists them, and  dd if=IMAGE of=PART bs=512 skip=START count=SIZE  copies one";
    if head.holds(512, b"EFI PART") {
        return Some(format!("it is a whole disk with a partition table (GPT, byte 512); {hint}"));
    }
    let entry = |number: usize| 446 + 16 * number;
    let plausible = |at: usize| matches!(head.array::<1>(at)[0], 0 | 0x80);
    let used =
        |number: &usize| head.array::<1>(entry(*number) + 4)[0] != 0 && head.le32(entry(*number) + 12) != 0;
    let table = head.holds(510, b"\x55\xaa") && (0..4).all(|number| plausible(entry(number)));
    let first = (0..4).find(used).filter(|_| table)?;
    let start = head.le32(entry(first) + 8);
    Some(format!(
        "it is a whole disk with a partition table (MBR, byte 446), its first partition begins at sector {start}; {hint}"
    ))
}

/// Looks into an open image.
///
/// # Errors
/// In words: it cannot be read, or see [`recognise`].
pub fn content_of(file: &File) -> Result<(Content, u64), String> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let head = head_of(file)?;
    recognise(&head, length).map(|content| (content, length))
}

/// What an open image begins with, [`HEAD_BYTES`] or all of it.
///
/// # Errors
/// In words: it cannot be read.
pub fn head_of(file: &File) -> Result<Vec<u8>, String> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("it cannot be read at byte {filled}: {error}")),
        }
    }
    head.truncate(filled);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use fathom_ground::command::{CommandLine, find_program};

    /// An image with these bytes at these places.
    fn head(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut all = vec![0; HEAD_BYTES];
        for (at, bytes) in parts {
            all[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        all
    }

    #[test]
    fn what_is_no_file_system_to_be_mounted_is_refused_with_its_reason() {
        let mbr = head(&[(446, &[0x80, 0, 0, 0, 0x0C, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0]), (510, b"\x55\xaa")]);
        let ext =
            |incompatible: u8| head(&[(1080, &[0x53, 0xEF]), (1028, &[0, 0, 1, 0]), (1120, &[incompatible])]);
        let btrfs = head(&[(65600, b"_BHRfS_M"), (65536 + 0x88, &[2])]);
        let xfs = head(&[(0, b"XFSB\0\0\x10\0\0\0\0\0\0\x01\0\0")]);
        let noise: Vec<u8> = (0..HEAD_BYTES).map(|at| (at * 7 % 251) as u8).collect();
        let cases: [(Vec<u8>, u64, &[&str]); 27] = [
            (Vec::new(), 0, &["empty"]),
            (head(&[]), 1 << 20, &["first 131072 bytes are zero"]),
            (vec![0; 512], 512, &["first 512 bytes are zero"]),
            (noise, 1 << 20, &["no file system that is known"]),
            (head(&[(0, b"QFI\xfb")]), 1 << 20, &["qcow2", "qemu-img convert"]),
            (head(&[(0, b"KDMV")]), 1 << 20, &["VMDK"]),
            (head(&[(0, b"# Disk DescriptorFile")]), 1 << 20, &["VMDK"]),
            (head(&[(64, b"\x7f\x10\xda\xbe")]), 1 << 20, &["VDI", "byte 64"]),
            (head(&[(0, b"vhdxfile")]), 1 << 20, &["VHDX"]),
            (head(&[(0, b"conectix")]), 1 << 20, &["VHD"]),
            (head(&[(0, b"\x3a\xff\x26\xed")]), 1 << 20, &["Android sparse", "simg2img"]),
            (head(&[(0, b"\x1f\x8b")]), 1 << 20, &["gzip -dc"]),
            (head(&[(0, b"\xfd7zXZ\0")]), 1 << 20, &["xz -dc"]),
            (head(&[(0, b"\x28\xb5\x2f\xfd")]), 1 << 20, &["zstd -dc"]),
            (head(&[(0, b"BZh")]), 1 << 20, &["bzip2"]),
            (head(&[(0, b"PK\x03\x04")]), 1 << 20, &["zip"]),
            (head(&[(0, b"LUKS\xba\xbe")]), 1 << 20, &["LUKS"]),
            (head(&[(536, b"LVM2 001")]), 1 << 20, &["LVM"]),
            (head(&[(4086, b"SWAPSPACE2")]), 1 << 20, &["swap"]),
            (head(&[(0, b"hsqs")]), 1 << 20, &["SquashFS"]),
            (head(&[(32769, b"CD001")]), 1 << 20, &["ISO 9660"]),
            (head(&[(0, b"SQLite format 3\0")]), 1 << 20, &["SQLite database"]),
            (mbr, 1 << 20, &["MBR", "begins at sector 2048", "sfdisk"]),
            (head(&[(512, b"EFI PART")]), 1 << 20, &["GPT", "byte 512"]),
            (ext(0x40), 1 << 20, &["cut off", "67108864 bytes", "has 1048576"]),
            (ext(0x08), 1 << 30, &["journal", "byte 1120"]),
            (xfs, 1 << 20, &["cut off", "xfs", "268435456"]),
        ];
        for (head, length, parts) in cases {
            let problem = recognise(&head, length).unwrap_err();
            assert!(parts.iter().all(|part| problem.contains(part)), "{parts:?} in {problem}");
        }
        assert!(recognise(&btrfs, 1 << 30).unwrap_err().contains("2 devices"));
    }

    #[test]
    fn file_systems_are_told_apart_by_their_own_marks() {
        let mut xfs = vec![0; 512];
        xfs[..4].copy_from_slice(b"XFSB");
        xfs[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        xfs[32..48].copy_from_slice(&0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes());
        xfs[216..220].copy_from_slice(&9_u32.to_be_bytes());
        let marks = marks_of(&xfs);
        assert_eq!(marks.uuid.unwrap(), "00112233-4455-6677-8899-aabbccddeeff");
        let features = marks.features.unwrap();
        assert!(features.contains("incompatible 0x9, blocks of 4096"), "{features}");
        let mut fat = vec![0; 512];
        fat[510..].copy_from_slice(b"\x55\xaa");
        fat[82..87].copy_from_slice(b"FAT32");
        fat[67..71].copy_from_slice(&0x1234_ABCD_u32.to_le_bytes());
        assert_eq!(marks_of(&fat), Marks { uuid: Some("1234-ABCD".into()), features: None });
        assert_eq!(marks_of(&[0; 2048]), Marks::default());
        assert_eq!(marks_of(&[]), Marks::default());
    }

    /// What the tools of this machine make is recognised, and cut off when it is.
    #[test]
    fn what_mkfs_makes_is_recognised_with_its_size() {
        let cases: [(&str, &str, &[&str], u64); 11] = [
            ("ext2", "mke2fs", &["-F", "-q", "-t", "ext2"], 16),
            ("ext3", "mke2fs", &["-F", "-q", "-t", "ext3"], 16),
            ("ext4", "mke2fs", &["-F", "-q", "-t", "ext4"], 16),
            ("xfs", "mkfs.xfs", &["-q", "-f"], 300),
            ("btrfs", "mkfs.btrfs", &["-q", "-f"], 128),
            ("ntfs", "mkntfs", &["-q", "-F", "-Q"], 16),
            ("vfat", "mkfs.vfat", &["-F", "16"], 16),
            ("vfat", "mkfs.vfat", &["-F", "32"], 64),
            ("exfat", "mkfs.exfat", &[], 16),
            ("f2fs", "mkfs.f2fs", &["-q", "-f"], 64),
            ("nilfs2", "mkfs.nilfs2", &["-q", "-f"], 160),
        ];
        let dir = tempfile::tempdir().unwrap();
        for (number, (name, tool, words, mib)) in cases.into_iter().enumerate() {
            let Some(tool) = find_program(tool) else {
                println!("skipped: {tool} is not installed");
                continue;
            };
            let path = dir.path().join(number.to_string());
            File::create(&path).unwrap().set_len(mib << 20).unwrap();
            let words = words.iter().map(|word| (*word).into()).chain([path.clone().into_os_string()]);
            CommandLine::new(&tool, words.collect::<Vec<std::ffi::OsString>>())
                .run(std::time::Duration::from_secs(60))
                .unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let (content, length) = content_of(&file).unwrap();
            assert_eq!((content.names[0], length), (name, mib << 20));
            let bytes = content.bytes.unwrap();
            assert!(bytes <= length && bytes > length * 3 / 4, "{name}: {bytes} of {length}");
            file.set_len(length / 2).unwrap();
            let problem = content_of(&file).unwrap_err();
            assert!(problem.contains("cut off"), "{name}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..2048), length in any::<u64>(), which in 0_usize..8) {
            let magic: [(usize, &[u8]); 8] = [
                (1080, &[0x53, 0xEF]), (0, b"XFSB"), (3, b"NTFS    "), (3, b"EXFAT   "), (510, b"\x55\xaa"),
                (1024, &[0x10, 0x20, 0xF5, 0xF2]), (1030, &[0x34, 0x34]), (0, b""),
            ];
            let (at, magic) = magic[which];
            if let Some(place) = bytes.get_mut(at..at + magic.len()) {
                place.copy_from_slice(magic);
            }
            let _ = recognise(&bytes, length);
            let _ = marks_of(&bytes);
        }
    }
}
