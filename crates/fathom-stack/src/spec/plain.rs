//! A specification in one spelling, by which two ways of writing the same stack are known.

use std::path::{Path, PathBuf};

use fathom_device::{Fault, device_model};

use super::machine::Machine;
use super::stack_spec::{DEFAULT_SIZE_MIB, StackSpec};

impl StackSpec {
    /// The same stack in one spelling: what is equal in it is made and mounted alike, however it
    /// was written. Only for comparing: a device is then what its model says, and nothing can be
    /// made of that.
    #[must_use]
    pub fn plain(&self, machine: &Machine) -> StackSpec {
        let filesystem = self.place.filesystem().and_then(|name| machine.filesystem(name));
        let is_ext = filesystem.is_some_and(|filesystem| filesystem.mkfs.program == "mke2fs");
        let has_no_size = self.place.is_directory() || self.image.is_some();
        let device = self.device.as_deref().map(model_of);
        // Without one of its own the log lies on another device like the file system's.
        let log_device = match (&self.log_device, self.log_mib) {
            (Some(own), _) => Some(model_of(own)),
            (None, Some(_)) => device.clone(),
            (None, None) => None,
        };
        StackSpec {
            mkfs: words_of_mkfs(&self.mkfs, is_ext),
            mount: self.mount.as_deref().map(options_of_mount).filter(|options| !options.is_empty()),
            // A directory has none, and an image its own.
            size_mib: if has_no_size { DEFAULT_SIZE_MIB } else { self.size_mib },
            directory: self.directory.as_deref().map(real),
            image: self.image.as_deref().map(real),
            device,
            log_device,
            faults: self.faults.iter().map(|fault| fault_of(fault)).collect(),
            ..self.clone()
        }
    }
}

/// A path without links and detours, where it leads somewhere.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// What a device's model says.
fn model_of(device: &str) -> String {
    device_model(device).map_or_else(|_| device.to_owned(), |model| format!("{model:?}"))
}

/// A fault with all that it leaves to its defaults.
fn fault_of(text: &str) -> String {
    text.parse::<Fault>().map_or_else(|_| text.to_owned(), |fault| format!("{fault:?}"))
}

/// Words for mkfs, each option in one word with its value; sorted where none is there twice.
fn words_of_mkfs(words: &[String], is_ext: bool) -> Vec<String> {
    let mut plain: Vec<String> = Vec::new();
    for word in words {
        match plain.last_mut().filter(|_| !word.starts_with('-')) {
            Some(option) => {
                if option.starts_with("--") && !option.contains('=') {
                    option.push('=');
                }
                option.push_str(word);
            }
            None => plain.push(word.clone()),
        }
    }
    // As Fathom asks for where nothing else is said.
    plain.retain(|word| !(is_ext && word == "-b4096"));
    let option = |word: &String| match word.starts_with("--") {
        true => word.split('=').next().unwrap_or_default().to_owned(),
        false => word.chars().take(2).collect(),
    };
    if are_distinct(plain.iter().map(option).collect()) {
        plain.sort_unstable();
    }
    plain
}

/// Options of mount, sorted where no two of them are about the same: of those the last one holds.
fn options_of_mount(options: &str) -> String {
    let is_said = |option: &&str| !option.is_empty() && *option != "defaults";
    let mut plain: Vec<&str> = options.split(',').map(str::trim).filter(is_said).collect();
    if are_distinct(plain.iter().map(|option| subject(option).to_owned()).collect()) {
        plain.sort_unstable();
    }
    plain.join(",")
}

/// What an option of mount is about, rather too widely: `barrier` of `nobarrier` and `barrier=0`,
/// `compress` of `compress-force=lzo`.
fn subject(option: &str) -> &str {
    for family in ["atime", "sync"] {
        if option.contains(family) {
            return family;
        }
    }
    let key = option.split(['=', '-', '_']).next().unwrap_or(option);
    key.strip_prefix("no").unwrap_or(key)
}

fn are_distinct(mut names: Vec<String>) -> bool {
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn ext4() -> StackSpec {
        StackSpec { place: "ext4".into(), ..StackSpec::default() }
    }

    /// What happened: words for mkfs, mount options and paths were compared as they were typed, so
    /// that one stack in two spellings was two cells, and was compared with itself.
    #[test]
    fn one_stack_in_two_spellings_is_one() {
        let machine = Machine::unknown();
        let same = |one: &StackSpec, other: &StackSpec| one.plain(&machine) == other.plain(&machine);
        let mkfs = |text: &str| StackSpec { mkfs: words(text), ..ext4() };
        let mount = |text: &str| StackSpec { mount: Some(text.into()), ..ext4() };
        assert!(same(&mkfs("-O ^has_journal -m 0"), &mkfs("-m0 -O^has_journal")));
        assert!(same(&mkfs("-b 4096"), &ext4()), "that is what Fathom asks for");
        assert!(!same(&mkfs("-b 1024"), &ext4()));
        assert!(!same(&mkfs("-E stride=4 -E stride=8"), &mkfs("-E stride=8 -E stride=4")), "the last one");
        assert!(same(&mount("noatime,data=journal"), &mount("data=journal,noatime")));
        assert!(same(&mount("defaults"), &ext4()) && same(&mount("noatime,"), &mount("noatime")));
        for (one, other) in [
            ("barrier=0,barrier=1", "barrier=1,barrier=0"),
            ("barrier,nobarrier", "nobarrier,barrier"),
            ("relatime,noatime", "noatime,relatime"),
            ("compress=zstd,compress-force=lzo", "compress-force=lzo,compress=zstd"),
        ] {
            assert!(!same(&mount(one), &mount(other)), "of {one} the last one holds");
        }
        let xfs = |text: &str| StackSpec { place: "xfs".into(), ..mkfs(text) };
        assert!(!same(&xfs("-b size=4096"), &xfs("")));
        let btrfs = |text: &str| StackSpec { place: "btrfs".into(), ..mkfs(text) };
        assert!(same(&btrfs("--csum xxhash -m single"), &btrfs("-m single --csum=xxhash")));
    }

    #[test]
    fn what_changes_nothing_is_left_out() {
        let machine = Machine::unknown();
        let directory = |size_mib| StackSpec { size_mib, ..StackSpec::default() }.plain(&machine);
        assert_eq!(directory(512), directory(1024));
        let sized = |size_mib| StackSpec { size_mib, ..ext4() }.plain(&machine);
        assert_ne!(sized(512), sized(1024));
        let logged = |log_device: Option<&str>, log_mib| {
            let device = Some("sd-slow".into());
            StackSpec { device, log_device: log_device.map(str::to_owned), log_mib, ..ext4() }.plain(&machine)
        };
        assert_eq!(logged(None, Some(64)), logged(Some("sd-slow"), Some(64)));
        assert_ne!(logged(None, Some(64)), logged(Some("emmc-51"), Some(64)));
        assert_ne!(logged(None, Some(64)), logged(None, None));
    }

    /// A preset and a copy of it, and two paths of one file, are one device.
    #[test]
    fn a_device_is_its_model() {
        let machine = Machine::unknown();
        let directory = tempfile::tempdir().unwrap();
        let text = fathom_device::text_of("sd-slow").unwrap();
        let file = directory.path().join("copy.toml");
        std::fs::write(&file, text).unwrap();
        let on = |device: String| StackSpec { device: Some(device), ..ext4() }.plain(&machine);
        let copy = file.display().to_string();
        let detour = directory.path().join(".").join("copy.toml").display().to_string();
        assert_eq!(on(copy.clone()), on(detour));
        assert_eq!(on(copy.clone()), on("sd-slow".into()));
        std::fs::write(&file, text.replacen("\"sd-slow\"", "\"sd-mine\"", 1)).unwrap();
        assert_ne!(on(copy), on("sd-slow".into()));
        let faulty = |fault: &str| StackSpec { faults: vec![fault.into()], ..ext4() }.plain(&machine);
        assert_ne!(faulty("write-error@1000"), faulty("write-error@2000"));
    }
}
