//! What tells a disk, or an image, from another one under the same path: texts by their names.
//! What nobody tells is left out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fathom_ground::fnv::{EMPTY, fnv1a};
use fathom_ground::mountinfo::{Mount, host_of};

use super::content::{head_of, marks_of};

/// Where udev names the file systems that it has found.
const BY_UUID: &str = "/dev/disk/by-uuid";
/// Blocks of an image, spread over it, of which its content's hash is made beside its beginning.
const SAMPLES: u64 = 256;
/// Bytes of such a block.
const SAMPLE_BYTES: u64 = 4096;

/// Of the disk that a directory lies on: `file system UUID` and, for who may read the device, `file
/// system features`; of the block device, where there is one, `disk size`, `disk model`, `disk
/// serial` and, of the device mapper's, `mapped device`.
pub(crate) fn of_disk(directory: &Path) -> BTreeMap<String, String> {
    let mount = host_of(directory);
    let Some((major, minor)) = block_number(&mount) else { return BTreeMap::new() };
    let mut all = of_block(&Path::new("/sys/dev/block").join(format!("{major}:{minor}")));
    let head = node_of(&mount).and_then(|node| head_of(&File::open(node).ok()?).ok());
    let marks = head.map(|head| marks_of(&head)).unwrap_or_default();
    put(&mut all, "file system features", marks.features);
    if marks.uuid.is_some() {
        put(&mut all, "file system UUID", marks.uuid);
        return all;
    }
    let links = fs::read_dir(BY_UUID).into_iter().flatten().flatten();
    let is_it = |link: &PathBuf| {
        fs::metadata(link).is_ok_and(|about| {
            about.file_type().is_block_device()
                && (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev())) == (major, minor)
        })
    };
    let uuid = links.map(|link| link.path()).find(is_it);
    put(&mut all, "file system UUID", uuid.and_then(|link| Some(link.file_name()?.to_string_lossy().into())));
    all
}

/// Of an image: `image size`, of the file system in it `image UUID` and `image features`, and
/// `image content`, a hash of its beginning and of blocks spread over it.
pub(crate) fn of_image(path: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let Ok(file) = File::open(path) else { return all };
    let (Ok(about), Ok(head)) = (file.metadata(), head_of(&file)) else { return all };
    let marks = marks_of(&head);
    put(&mut all, "image size", Some(format!("{} bytes", about.len())));
    put(&mut all, "image UUID", marks.uuid);
    put(&mut all, "image features", marks.features);
    put(&mut all, "image content", content_hash(&file, &head, about.len()));
    all
}

fn put(all: &mut BTreeMap<String, String>, name: &str, text: Option<String>) {
    let plain = |text: String| text.chars().filter(|letter| !letter.is_control()).collect::<String>();
    if let Some(text) = text.map(plain).filter(|text| !text.trim().is_empty()) {
        all.insert(name.to_owned(), text.trim().to_owned());
    }
}

/// The block device that a mount is of. Btrfs and others show a number of no device; that of what
/// is mounted is the real one.
fn block_number(mount: &Mount) -> Option<(u32, u32)> {
    if let Some(about) = node_of(mount).and_then(|node| fs::metadata(node).ok()) {
        return Some((rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev())));
    }
    let (major, minor) = mount.device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The device node of what is mounted, if it is one.
fn node_of(mount: &Mount) -> Option<&Path> {
    let node = Path::new(&mount.source);
    let is_device = |about: fs::Metadata| about.file_type().is_block_device();
    (node.is_absolute() && fs::metadata(node).is_ok_and(is_device)).then_some(node)
}

/// Of a block device by its directory in sysfs; a partition has its disk above it.
fn of_block(directory: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let Ok(own) = fs::canonicalize(directory) else { return all };
    let is_partition = own.join("partition").exists();
    let disk = own.parent().filter(|_| is_partition).map_or_else(|| own.clone(), Path::to_path_buf);
    let line = |path: PathBuf| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.lines().next()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let sectors = line(own.join("size")).and_then(|text| text.parse::<u64>().ok());
    let bytes = sectors.and_then(|sectors| sectors.checked_mul(512));
    put(&mut all, "disk size", bytes.map(|bytes| format!("{bytes} bytes")));
    let model = line(disk.join("device/model")).or_else(|| line(disk.join("device/name")));
    let vendor = line(disk.join("device/vendor")).filter(|vendor| !vendor.starts_with("0x"));
    let words: Vec<String> = vendor.into_iter().filter(|_| model.is_some()).chain(model.clone()).collect();
    put(&mut all, "disk model", Some(words.join(" ")));
    put(&mut all, "disk serial", line(disk.join("device/serial")).or_else(|| line(disk.join("serial"))));
    put(&mut all, "mapped device", line(own.join("dm/uuid")).or_else(|| line(own.join("dm/name"))));
    all
}

/// FNV-1a (64 bits), hexadecimal, of what an image begins with and of blocks spread over it; none
/// where it cannot be read.
fn content_hash(file: &File, head: &[u8], bytes: u64) -> Option<String> {
    let mut hash = fnv1a(EMPTY, head);
    let mut block = [0_u8; SAMPLE_BYTES as usize];
    let blocks = bytes / SAMPLE_BYTES;
    for sample in 0..SAMPLES.min(blocks) {
        let at = (u128::from(sample) * u128::from(blocks) / u128::from(SAMPLES.min(blocks))) as u64;
        file.read_exact_at(&mut block, at * SAMPLE_BYTES).ok()?;
        hash = fnv1a(hash, &block);
    }
    Some(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_disk_is_known_by_its_model_and_its_serial_number_also_by_a_partition() {
        let place = tempfile::tempdir().unwrap();
        written(place.path(), "mmcblk0/device/name", "SU32G\n");
        written(place.path(), "mmcblk0/device/serial", "0x1f2e3d4c\n");
        written(place.path(), "mmcblk0/mmcblk0p1/partition", "1\n");
        written(place.path(), "mmcblk0/mmcblk0p1/size", "2048\n");
        let found = of_block(&place.path().join("mmcblk0/mmcblk0p1"));
        let told: Vec<(&str, &str)> = found.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(
            told,
            [("disk model", "SU32G"), ("disk serial", "0x1f2e3d4c"), ("disk size", "1048576 bytes")]
        );
        assert!(of_block(&place.path().join("nothing")).is_empty());
        assert!(of_disk(Path::new("/proc")).is_empty(), "it is on no device");
    }

    #[test]
    fn another_image_under_the_same_name_is_told_by_what_differs() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("card.img");
        let mut bytes = vec![0_u8; 4 << 20];
        bytes[1080..1082].copy_from_slice(&[0x53, 0xEF]);
        bytes[1128..1144].copy_from_slice(&[0x11; 16]);
        fs::write(&path, &bytes).unwrap();
        let first = of_image(&path);
        assert_eq!(first["image UUID"], "11111111-1111-1111-1111-111111111111");
        assert_eq!(first["image size"], "4194304 bytes");
        let differs = |bytes: &[u8]| -> Vec<String> {
            fs::write(&path, bytes).unwrap();
            let now = of_image(&path);
            first.iter().filter(|(name, text)| now[*name] != **text).map(|(name, _)| name.clone()).collect()
        };
        assert!(differs(&bytes).is_empty(), "it was only written again");
        bytes[3 << 20] = 7;
        assert_eq!(differs(&bytes), ["image content"]);
        bytes[1120] = 0x40;
        assert_eq!(differs(&bytes), ["image content", "image features"]);
        bytes.resize(8 << 20, 0);
        assert_eq!(differs(&bytes), ["image content", "image features", "image size"]);
        assert!(of_image(&place.path().join("nothing")).is_empty());
    }
}
