//! Which program a machine needs, by what it says of itself.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::processor::processor_of;

/// Says that a line of the first script is meant.
pub(super) const PROBE: &str = "FATHOM-PROBE";

/// What a machine says of itself before anything is put there.
#[derive(Debug, PartialEq)]
pub(super) struct Probed {
    pub base: String,
    pub system: String,
    pub processor: String,
    pub has_program: bool,
}

/// Understands what the first script prints, wherever a login shell's greetings stand.
pub(super) fn probed(text: &str) -> Option<Probed> {
    let line = text.lines().find(|line| line.starts_with(PROBE))?;
    let mut words = line.splitn(5, '\t').skip(1);
    let mut next = || Some(words.next()?.to_owned());
    let (system, processor, has, base) = (next()?, next()?, next()?, next()?);
    // A kernel of 64 bits may have a system of 32 above it, which runs programs of 32; arm's names
    // say how they are ordered.
    let processor = processor_of(&processor).to_owned();
    Some(Probed { base, system, processor, has_program: has == "yes" })
}

/// The processors that scripts/static.sh makes programs for.
const MADE_FOR: [&str; 3] = ["x86_64", "aarch64", "armv7"];

/// The program of this release for another processor: beside this one, or in the directory
/// `machines` there.
pub(super) fn program_for(own: &Path, probed: &Probed) -> Result<PathBuf, String> {
    if probed.system != "Linux" {
        return Err(format!("its system is {}, and Fathom runs on Linux", probed.system));
    }
    let name = format!("fathom-{}", probed.processor);
    let place = own.parent().unwrap_or(Path::new("."));
    let candidates = [place.join(&name), place.join("machines").join(&name)];
    let installed = place.parent().map(|prefix| prefix.join("lib/fathom").join(&name));
    candidates.into_iter().chain(installed).find(|path| path.is_file()).ok_or_else(|| {
        let processor = &probed.processor;
        let how = if MADE_FOR.contains(&processor.as_str()) {
            format!("it comes with the release, or scripts/static.sh {processor} makes it")
        } else {
            format!(
                "the release has none (it is made for {}). One that was built on such a machine (cargo build --release -p \
                 fathom) is taken when it lies there by that name",
                MADE_FOR.join(", ")
            )
        };
        format!(
            "it is a Linux on {processor}, for which there must be a program {name} beside this one ({}): {how}",
            place.display()
        )
    })
}

/// Refuses what is no program for a processor, by the head of its file (elf(5)): a shell there
/// would take it for a script, or say that nothing was found.
pub(super) fn check_program(path: &Path, processor: &str) -> Result<(), String> {
    let mut head = [0; 20];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let is_made_for_it = match processor {
        "x86_64" => machine == 62,
        "aarch64" => machine == 183,
        arm if arm.starts_with("arm") => machine == 40,
        _ => true,
    };
    if read.is_ok() && head.starts_with(b"\x7fELF") && is_made_for_it {
        return Ok(());
    }
    Err(format!("{}: it is no program for {processor}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_script_is_understood_behind_greetings() {
        let text = "Welcome!\nFATHOM-PROBE\tLinux\tarmv7l\tno\t/home/pi/a\tb\n";
        let found = probed(text).unwrap();
        let expected = Probed {
            base: "/home/pi/a\tb".into(),
            system: "Linux".into(),
            processor: "armv7".into(),
            has_program: false,
        };
        assert_eq!(found, expected);
        assert_eq!(probed("FATHOM-PROBE\tLinux\n"), None);
    }

    /// What happened: with `--on "adb:1:/data/local/tmp/a "` a trace was pushed below the directory
    /// that was named, and looked for below one without the blank.
    #[test]
    fn the_directory_there_keeps_the_blank_at_its_end() {
        let base =
            |end: &str| probed(&format!("FATHOM-PROBE\tLinux\tarmv7l\tno\t/tmp/a {end}")).unwrap().base;
        assert_eq!([base("\n"), base("\r\n")], ["/tmp/a ", "/tmp/a "]);
    }

    /// A board of 32 bits that asks another one took it for another processor, and looked for a
    /// program beside its own.
    #[test]
    fn this_processor_and_what_uname_says_of_it_have_one_name() {
        for (rust, uname) in
            [("x86_64", "x86_64"), ("aarch64", "aarch64"), ("arm", "armv7l"), ("arm", "armv8l")]
        {
            assert_eq!(processor_of(rust), processor_of(uname));
        }
        assert_ne!(processor_of("armv6l"), processor_of("arm"));
    }

    #[test]
    fn a_processor_without_a_program_is_named_with_what_brings_it() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("bin/fathom");
        let probed = |system: &str| Probed {
            base: "/".into(),
            system: system.into(),
            processor: "aarch64".into(),
            has_program: false,
        };
        let problem = program_for(&own, &probed("Linux")).unwrap_err();
        assert!(problem.contains("fathom-aarch64") && problem.contains("static.sh aarch64"), "{problem}");
        assert!(program_for(&own, &probed("Darwin")).unwrap_err().contains("runs on Linux"));
        // One that nobody makes: no script is named that would refuse it.
        let old = Probed { processor: processor_of("armv6l").to_owned(), ..probed("Linux") };
        let problem = program_for(&own, &old).unwrap_err();
        assert!(problem.contains("fathom-armv6l") && !problem.contains("static.sh"), "{problem}");
        let beside = place.path().join("lib/fathom/fathom-aarch64");
        std::fs::create_dir_all(beside.parent().unwrap()).unwrap();
        std::fs::write(&beside, "").unwrap();
        assert_eq!(program_for(&own, &probed("Linux")).unwrap(), beside);
    }

    /// A text, an empty file and a program of another processor went to the board, where the shell
    /// said something else of each.
    #[test]
    fn what_is_no_program_for_the_processor_is_refused_here() {
        let own = std::env::current_exe().unwrap();
        let (own_processor, other) = match processor_of(std::env::consts::ARCH) {
            "aarch64" => ("aarch64", "x86_64"),
            own => (own, "aarch64"),
        };
        check_program(&own, own_processor).unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("fathom-aarch64");
        for text in ["", "not a program\n", "#!/bin/sh\nexec true # of any processor\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(check_program(&path, own_processor).unwrap_err().contains("no program for"), "{text:?}");
        }
        assert!(check_program(&own, other).is_err());
        assert!(check_program(&place.path().join("absent"), other).is_err());
    }
}
