//! What a user's words for mkfs and mount may say.
//!
//! They are handed to programs that run as root and end with the stack's own device. `mkfs.btrfs`
//! makes one file system of every device that it is given, so a further word `/dev/sdb` was a
//! further disk that was overwritten; `-o loop`, `logdev=` or `lowerdir=` take what is no part of
//! the stack. So words are options of a file system and nothing else: none names a path or a
//! device, and none stands by itself. External logs are given by Fathom alone (`log_mib`).
//!
//! Nor does an option harm more than the stack: what panics the machine's kernel at the first
//! error, shuts the file system down, reads the whole device for bad blocks, makes another file
//! system than was asked for, or keeps the driver in the foreground is refused. `docs/security.md`
//! has the table of what each file system's manual page offers and what was decided.

use std::path::Path;

use super::filesystem::{FileSystem, Mkfs};
use super::stack_spec::StackSpec;

/// Long options that name a file or a directory, or make nothing.
const LONG: [&str; 6] = ["rootdir", "source", "new-file", "protofile", "badblocks", "no-write"];
/// What a file system is told to do at an error, by option of mkfs: letter or word.
const AT_ERRORS: [&str; 3] = ["e", "errors", "fatal_errors"];

/// Options of mount that harm more than the stack, and how.
const HARMFUL: [(&str, &str); 6] = [
    ("abort", "shuts the file system down as if its device had failed"),
    ("panic", "stops the whole machine at the first error"),
    ("shutdown", "shuts the file system down"),
    ("debug", "writes into the kernel's log, and keeps a FUSE driver from coming back from the mount"),
    ("no_detach", "keeps the driver from coming back from the mount, which then waits for its time limit"),
    ("auto_unmount", "leaves a helper process behind that unmounts at its own time"),
];

/// Keys, in `key=value` or alone, of what is no part of the stack, at mkfs and at mount.
const KEYS: [&str; 34] = [
    "device",
    "logdev",
    "rtdev",
    "name",
    "file",
    "journal_dev",
    "journal_path",
    "journal_device",
    "log_dev",
    "lowerdir",
    "upperdir",
    "workdir",
    "loop",
    "offset",
    "sizelimit",
    "encryption",
    "bind",
    "rbind",
    "move",
    "remount",
    "helper",
    "uhelper",
    "fd",
    "shared",
    "rshared",
    "private",
    "rprivate",
    "slave",
    "rslave",
    "unbindable",
    "runbindable",
    "jdev",
    "modules",
    "fsname",
];

/// Says what is wrong with the words of a stack: the key, and why.
///
/// # Errors
/// A word that names a path or a device, that stands by itself, or that asks for something else
/// than this file system on its device.
pub(super) fn check_words(spec: &StackSpec, filesystem: &FileSystem) -> Result<(), (&'static str, String)> {
    of_mkfs(&spec.mkfs, &filesystem.mkfs).map_err(|problem| ("mkfs", problem))?;
    of_mount(spec.mount.as_deref().unwrap_or_default()).map_err(|problem| ("mount", problem))
}

fn names_a_path(word: &str) -> String {
    format!(
        "{word:?} names a path; what a stack is made of is given by Fathom alone (an external log by `log_mib`)"
    )
}

fn of_mkfs(words: &[String], mkfs: &Mkfs) -> Result<(), String> {
    let is_ext = mkfs.program == "mke2fs";
    // Whether the word before is an option that waits for its value, and whether that is certain.
    let mut waits = None;
    for word in words {
        if word.contains('/') || [".", "..", "~"].contains(&&**word) {
            return Err(names_a_path(word));
        }
        let refused = || {
            Err(format!(
                "{word:?} names a file, makes nothing or another file system, or reads the whole device for bad blocks: leave it out"
            ))
        };
        refuse_keys(word, false)?;
        refuse_panic(word)?;
        // A device for another file system's journal, and no file system.
        let is_journal = |feature: &str| {
            feature == "journal_dev" || feature.starts_with('-') && feature.ends_with("Ojournal_dev")
        };
        if is_ext && word.split(',').any(is_journal) {
            return refused();
        }
        let Some(option) = word.strip_prefix('-').filter(|option| !option.is_empty() && *option != "-")
        else {
            match waits.take() {
                None => {
                    return Err(format!(
                        "{word:?} is no option: mkfs would take it for a device to overwrite"
                    ));
                }
                // An option that is not known may take no value, and then this is a device.
                Some((false, _)) if Path::new(word).exists() => return Err(names_a_path(word)),
                Some((_, name)) if word == "panic" && AT_ERRORS.contains(&name) => return Err(stops(word)),
                Some(_) => continue,
            }
        };
        if let Some(long) = option.strip_prefix('-') {
            let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            // Long options may be shortened.
            if LONG.iter().any(|long| name.len() > 1 && long.starts_with(name)) {
                return refused();
            }
            waits = (!has_value).then_some((false, name));
            continue;
        }
        let Some(alone) = mkfs.alone else {
            waits = Some((false, option));
            continue;
        };
        // `-qF`: letters up to the first that takes a value, which is the rest of the word or the
        // next word.
        let rest = option.trim_start_matches(|letter| alone.contains(letter));
        if rest.starts_with(|letter| mkfs.refused.contains(letter)) {
            return refused();
        }
        if is_ext && rest == "epanic" {
            return Err(stops(word));
        }
        waits = (rest.chars().count() == 1).then_some((true, rest));
    }
    Ok(())
}

fn of_mount(options: &str) -> Result<(), String> {
    for option in options.split(',') {
        if option.contains('/') {
            return Err(names_a_path(option));
        }
        // util-linux's own: directories to make, owners to set.
        if option.to_ascii_lowercase().starts_with("x-mount.") || option.starts_with("verity.") {
            return Err(format!("{option:?} is no option of a file system: leave it out"));
        }
    }
    refuse_panic(options)?;
    for option in options.split(',') {
        let key = option.split_once('=').map_or(option, |(key, _)| key);
        if let Some((_, harm)) = HARMFUL.iter().find(|(name, _)| *name == key) {
            return Err(format!("{option:?} {harm}: leave it out"));
        }
    }
    refuse_keys(options, true)
}

fn stops(word: &str) -> String {
    format!(
        "{word:?} stops the whole machine at the file system's first error: give another behaviour or leave it out"
    )
}

/// Refuses what panics the kernel at an error, however the option is called: `errors=panic`,
/// `fatal_errors=panic`, `onerror=panic`.
fn refuse_panic(word: &str) -> Result<(), String> {
    let panics = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or_default();
        key.trim_start_matches('-').contains("error") && value.trim_matches(['"', '\'']) == "panic"
    };
    if word.split(',').any(panics) { Err(stops(word)) } else { Ok(()) }
}

/// Refuses [`KEYS`] in `a,b=c`, also behind letters (`-Jdevice=`, `-fqllogdev=`), and without a
/// value where they mean something `alone`: at mkfs a label may be called so.
fn refuse_keys(word: &str, alone: bool) -> Result<(), String> {
    for part in word.split(',') {
        let part = part.trim_matches(['"', '\'']);
        let (key, value) = part.split_once('=').map_or((part, None), |(key, value)| (key, Some(value)));
        // How many letters stand before it depends on which of them take no value, which is not
        // known of every mkfs.
        let is_behind =
            |letters: &str| !letters.starts_with('-') && KEYS.iter().any(|own| letters.ends_with(own));
        let is_one =
            KEYS.contains(&key.trim_start_matches('-')) || key.strip_prefix('-').is_some_and(is_behind);
        if (alone || value.is_some()) && is_one {
            return Err(format!(
                "{part:?} takes what is no part of the stack; an external log is asked for by `log_mib`"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::table::KNOWN;
    use super::*;

    fn mkfs(tool: &str, words: &str) -> Result<(), String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let known = KNOWN.iter().find(|filesystem| filesystem.mkfs.program == tool);
        let unknown = || FileSystem::listed(tool.trim_start_matches("mkfs."));
        of_mkfs(&words, &known.cloned().unwrap_or_else(unknown).mkfs)
    }

    /// What happened: `fathom stack up --fs btrfs --mkfs /dev/loop2` formatted another device than
    /// its own, with whatever was on it; a further word is a further device to mkfs. The harm is
    /// any disk of the machine, from an experiment file that somebody passed on. The mend: words
    /// are options, and none names a path, a device or what is no part of the stack.
    #[test]
    fn a_word_for_mkfs_never_names_another_device() {
        for (tool, words) in [
            ("mkfs.btrfs", "/dev/loop2"),
            ("mkfs.btrfs", "-f loop2"),
            ("mkfs.btrfs", "-L label loop2"),
            ("mkfs.btrfs", "-qf loop2"),
            ("mkfs.btrfs", "-r dir"),
            ("mkfs.btrfs", "--rootdir=dir"),
            ("mkfs.btrfs", "--root dir"),
            ("mkfs.btrfs", "-- loop2"),
            ("mke2fs", "-J device=loop2"),
            ("mke2fs", "-Jdevice=loop2"),
            ("mke2fs", "-J size=4,device=UUID"),
            ("mke2fs", "-d dir"),
            ("mke2fs", "-qz undo"),
            ("mke2fs", "-z/var/undo"),
            ("mke2fs", "-F disk"),
            ("mke2fs", ".."),
            ("mkfs.xfs", "-l logdev=sdb"),
            ("mkfs.xfs", "-llogdev=sdb"),
            // The letters before it hid it: a file of the user's was overwritten with a log.
            ("mkfs.xfs", "-fqllogdev=results.db,size=64m"),
            ("mkfs.xfs", "-qdname=results.db"),
            ("mke2fs", "-FqJdevice=loop2"),
            ("mke2fs", "-qFEoffset=4096"),
            ("mke2fs", "-FOjournal_dev"),
            ("mkfs.unknown", "-xyldevice=sdb"),
            ("mkfs.xfs", "-r rtdev=sdb"),
            ("mkfs.xfs", "-d name=sdb"),
            ("mkfs.xfs", "-p proto"),
            ("mkfs.f2fs", "-c sdb"),
            ("mkfs.vfat", "-C new.img"),
            ("mkfs.jfs", "-j sdb"),
            ("mkfs.jfs", "-J device=sdb"),
            ("mkfs.unknown", "-x Cargo.toml"),
            ("mkfs.unknown", "sdb"),
        ] {
            assert!(mkfs(tool, words).is_err(), "{tool} {words}");
        }
        for (tool, words) in [
            ("mke2fs", "-O ^has_journal -E stride=4 -b 1024 -m0 -i 8192 -I 256 -L name"),
            ("mke2fs", "-qF -J size=4 -j"),
            ("mkfs.xfs", "-m crc=1 -l size=64m -d agcount=4 -i size=512 -n ftype=1"),
            ("mkfs.btrfs", "-d single -m dup --csum xxhash -n 16k -O no-holes"),
            ("mkfs.vfat", "-F 16 -s 64 -n CARD"),
            ("mkntfs", "-c 8192"),
            ("mkfs.exfat", "-c 32K"),
            ("mkfs.f2fs", "-O encrypt -o 5 -a 1"),
            ("mkudffs", "--blocksize=512 --label=x"),
        ] {
            assert_eq!(mkfs(tool, words), Ok(()), "{tool} {words}");
        }
    }

    /// What happened: `mount = "errors=panic"`, `mkfs = ["-e", "panic"]` and btrfs's
    /// `fatal_errors=panic` passed, so that an experiment file of somebody else's, with a modelled
    /// device that fails, stopped the whole machine. `abort` shut the file system down, `-cc` read
    /// and wrote the whole device, `-t xfs` and `-S` made something else, and NTFS-3G's `no_detach`
    /// hung for 120 s whatever `timeout_s` said. The mend: such words are refused at the plan, with
    /// the reason.
    #[test]
    fn no_word_harms_more_than_the_stack() {
        for (tool, words, why) in [
            ("mke2fs", "-e panic", "stops the whole machine"),
            ("mke2fs", "-epanic", "stops the whole machine"),
            ("mke2fs", "-qe panic", "stops the whole machine"),
            ("mke2fs", "-S", "makes nothing"),
            ("mke2fs", "-c", "bad blocks"),
            ("mke2fs", "-qcc", "bad blocks"),
            ("mke2fs", "-t xfs", "another file system"),
            ("mke2fs", "-text2", "another file system"),
            ("mke2fs", "-O extents,journal_dev", "another file system"),
            ("mke2fs", "-Ojournal_dev", "another file system"),
            ("mkfs.vfat", "-c", "bad blocks"),
            ("mkfs.nilfs2", "-c", "bad blocks"),
            ("mkfs.jfs", "-c", "bad blocks"),
            ("mkfs.minix", "-c", "bad blocks"),
            ("mkudffs", "-n", "makes nothing"),
            ("mkudffs", "--no-write", "makes nothing"),
            ("mkfs.bcachefs", "--errors=panic", "stops the whole machine"),
            ("mkfs.bcachefs", "--errors panic", "stops the whole machine"),
        ] {
            let error = mkfs(tool, words).unwrap_err();
            assert!(error.contains(why), "{tool} {words}: {error}");
        }
        for (tool, words) in [
            ("mke2fs", "-e remount-ro -L panic"),
            ("mkfs.bcachefs", "--errors=ro --fs_label panic"),
            ("mkfs.xfs", "-L abort"),
        ] {
            assert_eq!(mkfs(tool, words), Ok(()), "{tool} {words}");
        }
        for (options, why) in [
            ("errors=panic", "stops the whole machine"),
            ("noatime,errors=\"panic\"", "stops the whole machine"),
            ("fatal_errors=panic", "stops the whole machine"),
            ("onerror=panic", "stops the whole machine"),
            ("abort", "shuts the file system down"),
            ("noatime,abort", "shuts the file system down"),
            ("debug", "kernel's log"),
            ("no_detach", "coming back"),
            ("auto_unmount", "helper"),
            ("unbindable", "no part of the stack"),
            ("jdev=x", "no part of the stack"),
        ] {
            let error = of_mount(options).unwrap_err();
            assert!(error.contains(why), "{options}: {error}");
        }
        for options in [
            "errors=remount-ro",
            "errors=continue,nobarrier",
            "rescue=usebackuproot",
            "fault_injection=1",
            "nodebug",
        ] {
            assert_eq!(of_mount(options), Ok(()), "{options}");
        }
    }

    #[test]
    fn an_option_of_mount_never_names_what_is_no_part_of_the_stack() {
        for options in [
            "loop",
            "noatime,loop=loop3",
            "logdev=sdb",
            "logdev=/dev/sdb",
            "device=sdb",
            "lowerdir=a,upperdir=b",
            "journal_dev=0x801",
            "journal_path=sdb",
            "remount",
            "bind",
            "X-mount.mkdir=0777",
            "x-mount.owner=me",
            "offset=4096",
        ] {
            assert!(of_mount(options).is_err(), "{options}");
        }
        for options in [
            "",
            "noatime,data=journal",
            "commit=30,nobarrier",
            "fsync_mode=posix",
            "logbsize=64k,nodatacow",
            "uid=0,umask=022,iocharset=utf8",
            "order=strict",
            "big_writes,windows_names",
        ] {
            assert_eq!(of_mount(options), Ok(()), "{options}");
        }
    }
}
