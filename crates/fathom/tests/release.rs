//! What `scripts/release.sh` makes: an archive and a package that hold all that they should, are
//! installed and removed again, and whose guest kernel is used only as it was made.
//!
//! The program in them stands for the static one and calls the one under test: what is tried here
//! is the packing.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

#[track_caller]
fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What a release is made for. Programs for all of these are there in any case.
const ALL: &[&str] = &["x86_64", "aarch64"];
/// For tests that look at the archive with the guest kernel alone: another one takes as long again.
const ONE: &[&str] = &["x86_64"];

/// The variables of who gives the kernel's source.
const OFFER: &[(&str, &str)] = &[("FATHOM_SOURCE_OFFER", "Jane Doe <jane@example.org>")];

/// Files beside `SHA256SUMS` that sign it.
fn signatures(dist: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dist).unwrap().map(|entry| entry.unwrap().file_name().into_string());
    names.map(Result::unwrap).filter(|name| name.starts_with("SHA256SUMS.")).collect()
}

/// Makes the release of a program that stands for the static one, for these processors, with this
/// umask, and with these variables and no others of its own; its directory.
fn released(
    processors: &[&str],
    place: &Path,
    kernels: &Path,
    umask: &str,
    variables: &[(&str, &str)],
) -> PathBuf {
    let target = place.join("target");
    for processor in ALL {
        let program = target.join("release/machines").join(format!("fathom-{processor}"));
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        let text = target.join("text");
        std::fs::write(&text, format!("#!/bin/sh\n# {processor}\nexec '{FATHOM}' \"$@\"\n")).unwrap();
        // By a process of its own: what this one writes may be open in what another test starts,
        // and is not executed meanwhile.
        ran(Command::new("cp").arg(&text).arg(&program));
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    // As zig's package has them.
    for (name, text) in [("LICENSE", "Zig contributors\n"), ("lib/libc/musl/COPYRIGHT", "musl as a whole\n")]
    {
        let licence = target.join("zig/lib/python3.0/site-packages/ziglang").join(name);
        std::fs::create_dir_all(licence.parent().unwrap()).unwrap();
        std::fs::write(licence, text).unwrap();
    }
    let wheels = target.join("release/wheels");
    std::fs::create_dir_all(&wheels).unwrap();
    std::fs::write(wheels.join(format!("mmdb-{VERSION}-py3-none-manylinux_2_28_x86_64.whl")), "").unwrap();
    ran(Command::new("sh")
        .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
        .arg(workspace().join("scripts/release.sh"))
        .args(processors)
        .env("CARGO_TARGET_DIR", &target)
        .env("FATHOM_CACHE_DIR", kernels)
        .env("FATHOM_BUILT", "1")
        .env("FATHOM_XZ_LEVEL", "0")
        .env_remove("FATHOM_KERNEL_SOURCE")
        .env_remove("FATHOM_SOURCE_OFFER")
        .env_remove("FATHOM_SIGN")
        .envs(variables.iter().copied()));
    let dist = target.join("release/dist");
    let is_signed = variables.iter().any(|variable| variable.0 == "FATHOM_SIGN");
    assert_eq!(!signatures(&dist).is_empty(), is_signed, "{:?}", signatures(&dist));
    dist
}

/// The files below a directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
}

/// How many links the pages below a directory have to others, and those that lead nowhere.
fn links(directory: &Path) -> (usize, Vec<String>) {
    let (mut followed, mut broken) = (0, Vec::new());
    let pages = below(directory).into_iter().filter(|path| path.extension().is_some_and(|e| e == "md"));
    for page in pages {
        let written = std::fs::read_to_string(&page).unwrap();
        for link in written.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
            if link.is_empty() || link.contains("://") {
                continue;
            }
            followed += 1;
            if !page.parent().unwrap().join(link).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    (followed, broken)
}

/// What happened: the README of an archive led to pages that were not in it, and these to 161 more,
/// to the papers' experiments and results and to what mmdb and smsc say of themselves.
#[test]
fn an_archive_and_a_package_hold_everything_and_are_installed_and_removed() {
    if cfg!(not(target_arch = "x86_64")) || !has("dpkg-deb") || !has("gzip") {
        println!("SKIP: no dpkg-deb; to get it: sudo apt-get install dpkg");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dist = released(ALL, place.path(), &place.path().join("no cache"), "022", OFFER);
    ran(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&dist));
    let sums = std::fs::read_to_string(dist.join("SHA256SUMS")).unwrap();
    for name in [
        format!("fathom-{VERSION}-x86_64-linux.tar.gz"),
        format!("fathom-{VERSION}-aarch64-linux.tar.gz"),
        format!("fathom_{VERSION}_amd64.deb"),
        format!("fathom_{VERSION}_arm64.deb"),
        format!("mmdb-{VERSION}-py3-none-manylinux_2_28_x86_64.whl"),
    ] {
        assert!(sums.contains(&name), "{name} in {sums}");
    }
    ran(Command::new("tar")
        .arg("-xzf")
        .arg(dist.join(format!("fathom-{VERSION}-x86_64-linux.tar.gz")))
        .current_dir(&place));
    let unpacked = place.path().join(format!("fathom-{VERSION}-x86_64-linux"));
    let root = place.path().join("root");
    let dpkg = |words: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", root.display())).args([
            "--force-not-root",
            "--force-depends",
            "--log=/dev/null",
        ]);
        command.args(words);
        command
    };
    for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let package = dist.join(format!("fathom_{VERSION}_amd64.deb"));
    ran(&mut dpkg(&["--install", package.to_str().unwrap()]));
    let installed = root.join("usr");
    for (tree, completion, others) in [
        (&unpacked, "share/zsh/site-functions/_fathom", "share/doc/fathom/LICENCES-OF-OTHERS"),
        (&installed, "share/zsh/vendor-completions/_fathom", "share/doc/fathom/LICENCES-OF-OTHERS.gz"),
    ] {
        let version = ran(Command::new(tree.join("bin/fathom")).arg("--version"));
        assert!(text(&version).contains(VERSION));
        for path in [
            "lib/fathom/fathom-aarch64",
            "share/man/man1/fathom.1.gz",
            "share/man/man1/fathom-run.1.gz",
            "share/bash-completion/completions/fathom",
            "share/fish/vendor_completions.d/fathom.fish",
            "share/doc/fathom/README.md",
            "share/doc/fathom/docs/on-a-board.md",
            "share/doc/fathom/docs/ko/my-app.md",
            "share/doc/fathom/docs/figures/first-look.svg",
            others,
            completion,
        ] {
            let size =
                std::fs::metadata(tree.join(path)).unwrap_or_else(|error| panic!("{path}: {error}")).len();
            assert!(size > 0, "{path}");
        }
        assert!(!tree.join("lib/fathom/fathom-x86_64").exists(), "it is bin/fathom");
    }
    assert!(
        unpacked.join("share/doc/fathom/LICENSE-MIT").exists()
            && installed.join("share/doc/fathom/copyright").exists()
    );
    for tree in [&unpacked, &installed] {
        let (followed, broken) = links(&tree.join("share/doc/fathom"));
        assert!(followed > 300 && broken.is_empty(), "of {followed}: {broken:#?}");
    }
    // What happened: texts that lie deep in a crate were left out, that of mimalloc's authors among
    // them, and nobody was told of crates that have none.
    let others = std::fs::read_to_string(unpacked.join("share/doc/fathom/LICENCES-OF-OTHERS")).unwrap();
    assert!(others.contains("Daan Leijen"), "mimalloc's");
    assert!(others.contains("These bring no text of their own") && others.contains("maud "));
    // So was that of what zig links in, beside musl's.
    assert!(others.contains("zig's runtime library: MIT") && others.contains("\nZig contributors\n"));
    assert!(others.contains("musl: MIT") && others.contains("\nmusl as a whole\n"));
    // Of a compiler that rustup has brought.
    let sysroot = text(&ran(Command::new("rustc").args(["--print", "sysroot"])));
    let is_brought = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html").exists();
    for (tree, end) in [(&unpacked, ""), (&installed, ".gz")] {
        let packed = tree.join(format!("share/doc/fathom/LICENCES-OF-RUST.html{end}"));
        assert_eq!(packed.exists(), is_brought, "{}", packed.display());
    }
    ran(&mut dpkg(&["--verify", "fathom"]));
    ran(&mut dpkg(&["--remove", "fathom"]));
    let left = ran(Command::new("find").arg(&root).args(["-name", "*fathom*"]));
    assert_eq!(text(&left), "", "nothing of it stays");
}

/// What happened: with umask 077 nobody but root could read the manual pages and completions of an
/// installed package, and no two who packed the same programs had the same files.
#[test]
fn whoever_packs_the_same_programs_makes_the_same_files_that_everybody_may_read() {
    if cfg!(not(target_arch = "x86_64")) || !has("dpkg-deb") || !has("gzip") {
        println!("SKIP: no dpkg-deb; to get it: sudo apt-get install dpkg");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let sums = |umask: &str| {
        let own = place.path().join(umask);
        let dist = released(ALL, &own, &place.path().join("no cache"), umask, OFFER);
        (std::fs::read_to_string(dist.join("SHA256SUMS")).unwrap(), dist)
    };
    let ((strict, dist), (usual, _)) = (sums("077"), sums("022"));
    assert_eq!(strict, usual);
    let package = dist.join(format!("fathom_{VERSION}_amd64.deb"));
    let listed = text(&ran(Command::new("dpkg-deb").arg("--contents").arg(&package)));
    let unreadable = |line: &&str| !line.starts_with("drwxr-xr-x") && line.get(7..8) != Some("r");
    assert_eq!(listed.lines().filter(unreadable).collect::<Vec<_>>(), Vec::<&str>::new());
    // Of zstd, which Ubuntu takes by itself, older systems know nothing.
    let members = text(&ran(Command::new("ar").arg("t").arg(&package)));
    assert!(members.contains("data.tar.xz") && members.contains("control.tar.xz"), "{members}");
}

/// The name of the recipe whose kernel the program under test looks for.
fn recipe() -> String {
    let said = ran(Command::new(FATHOM).args(["stack", "kernel", "--recipe"]));
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// A kernel that stands for one of a recipe: of a source that is three letters long. Its source's
/// path.
fn kernel_of_three_letters(place: &Path, recipe: &str) -> PathBuf {
    let recipe = place.join("guest-kernel").join(recipe);
    std::fs::create_dir_all(&recipe).unwrap();
    std::fs::write(recipe.join("linux"), "a kernel").unwrap();
    // FIPS 180-2, appendix B.1.
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let described = serde_json::json!({
        "release": "6.12.117-fathom", "filesystems": ["ext4"], "source": "linux-6.12.117.tar.xz",
        "source_sha256": sum, "compiler": "gcc 12",
    });
    std::fs::write(recipe.join("kernel.json"), serde_json::to_vec_pretty(&described).unwrap()).unwrap();
    let source = place.join("kept.tar.xz");
    std::fs::write(&source, "abc").unwrap();
    source
}

/// What happened: a Linux kernel was passed on with three lines that named its licence: neither the
/// text of that was there, nor the source, nor anybody who gives it (GPL, version 2, sections 1
/// and 3).
#[test]
fn a_kernel_is_passed_on_with_what_its_licence_asks_for_or_not_at_all() {
    if cfg!(not(target_arch = "x86_64")) || !has("gzip") {
        println!("SKIP: no gzip, or another processor than that of guest kernels");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let recipe = recipe();
    let source = kernel_of_three_letters(place.path(), &recipe);
    let packed = |name: &str, variables: &[(&str, &str)]| {
        let own = place.path().join(name);
        let dist = released(ONE, &own, place.path(), "022", variables);
        let archive = dist.join(format!("fathom-{VERSION}-x86_64-linux.tar.gz"));
        ran(Command::new("tar").arg("-xzf").arg(archive).current_dir(&own));
        let kernels = own.join(format!("fathom-{VERSION}-x86_64-linux/lib/fathom/guest-kernel"));
        (dist, kernels.join(&recipe))
    };
    let named = "linux-6.12.117.tar.xz";
    let (dist, kernel) = packed("beside", &[("FATHOM_KERNEL_SOURCE", source.to_str().unwrap())]);
    let said = std::fs::read_to_string(kernel.join("LICENCE")).unwrap();
    for part in
        [named, "ba7816bf", "from the same place", "last paragraph of section 3", "https://cdn.kernel.org/"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(std::fs::read_to_string(dist.join("SHA256SUMS")).unwrap().contains(named));
    assert_eq!(std::fs::read(dist.join(named)).unwrap(), b"abc");
    let licence = std::fs::read_to_string(kernel.join("COPYING")).unwrap();
    assert!(licence.contains("GNU GENERAL PUBLIC LICENSE") && licence.contains("Version 2, June 1991"));
    for file in ["kernel/guest.config", "kernel/ubd_kern.c", "kernel/fathom_fuse.c", "patch.rs", "build.rs"] {
        let own = workspace().join("crates/fathom-stack/src/guest").join(file);
        assert_eq!(std::fs::read(kernel.join("source").join(file)).unwrap(), std::fs::read(own).unwrap());
    }
    // Another file is not its source, and somebody gives it.
    std::fs::write(&source, "abd").unwrap();
    let offered = [
        ("FATHOM_KERNEL_SOURCE", source.to_str().unwrap()),
        ("FATHOM_SOURCE_OFFER", "Jane Doe <jane@example.org>"),
    ];
    let (dist, kernel) = packed("offered", &offered);
    let said = std::fs::read_to_string(kernel.join("LICENCE")).unwrap();
    for part in ["section 3 b", "Jane Doe <jane@example.org>", "three years"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!dist.join(named).exists());
    // Nobody does: there is none.
    let (_, kernel) = packed("neither", &[]);
    assert!(!kernel.exists());
}

/// Of programs that were there already whichever kernel was newest was packed, also that of an
/// earlier recipe, for which none of them looks.
#[test]
fn a_kernel_of_another_recipe_is_not_packed_and_that_is_said() {
    if cfg!(not(target_arch = "x86_64")) || !has("gzip") {
        println!("SKIP: no gzip, or another processor than that of guest kernels");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let own = recipe();
    assert!(own.len() == 16 && own.chars().all(|c| c.is_ascii_hexdigit()), "{own:?}");
    // The newer of both.
    kernel_of_three_letters(place.path(), &own);
    let source = kernel_of_three_letters(place.path(), "0123456789abcdef");
    let packed = |name: &str| -> Vec<String> {
        let at = place.path().join(name);
        let given = [("FATHOM_KERNEL_SOURCE", source.to_str().unwrap())];
        let dist = released(ONE, &at, place.path(), "022", &given);
        let archive = dist.join(format!("fathom-{VERSION}-x86_64-linux.tar.gz"));
        let listed = text(&ran(Command::new("tar").arg("-tzf").arg(archive)));
        let kernels = listed.lines().filter_map(|line| line.strip_suffix("/linux"));
        kernels.filter_map(|line| line.rsplit('/').next()).map(str::to_owned).collect()
    };
    assert_eq!(packed("both"), std::slice::from_ref(&own));
    std::fs::remove_dir_all(place.path().join("guest-kernel").join(&own)).unwrap();
    assert_eq!(packed("other"), Vec::<String>::new());
}

/// `SHA256SUMS` said that a file is whole, and of nobody who had made it.
#[test]
fn a_release_is_signed_where_a_key_is_named() {
    if cfg!(not(target_arch = "x86_64")) || !has("gzip") || !has("ssh-keygen") {
        println!("SKIP: no ssh-keygen, which signs, too; to get it: sudo apt-get install openssh-client");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let none = place.path().join("no cache");
    // That nothing signs where none is named is asserted of each other release.
    let key = place.path().join("a key");
    ran(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let sign = format!("ssh-keygen -q -Y sign -n file -f '{}'", key.display());
    let dist = released(ONE, &place.path().join("signed"), &none, "022", &[("FATHOM_SIGN", &sign)]);
    assert_eq!(signatures(&dist), ["SHA256SUMS.sig"]);
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    std::fs::write(place.path().join("allowed"), format!("maker {public}")).unwrap();
    let verified = |dist: &Path| {
        let mut command = Command::new("ssh-keygen");
        command.args(["-Y", "verify", "-n", "file", "-I", "maker", "-s", "SHA256SUMS.sig", "-f"]);
        command.arg(place.path().join("allowed")).current_dir(dist);
        command
            .stdin(std::fs::File::open(dist.join("SHA256SUMS")).unwrap())
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(verified(&dist));
    std::fs::write(dist.join("SHA256SUMS"), "another").unwrap();
    assert!(!verified(&dist));
}

/// Half an archive boots into nothing, and a changed kernel is not the one that was made.
#[test]
fn the_guest_kernel_of_an_archive_is_used_as_it_was_made_and_not_when_it_is_damaged() {
    let cache = std::env::var_os("FATHOM_CACHE_DIR").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/fathom"));
    let Some(cache) = cache.or_else(home).filter(|cache| cache.join("guest-kernel").is_dir()) else {
        println!("SKIP: no guest kernel; to get it: fathom stack kernel");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let dist = released(ONE, place.path(), &cache, "022", OFFER);
    ran(Command::new("tar")
        .arg("-xzf")
        .arg(dist.join(format!("fathom-{VERSION}-x86_64-linux.tar.gz")))
        .current_dir(&place));
    let unpacked = place.path().join(format!("fathom-{VERSION}-x86_64-linux"));
    let program = unpacked.join("bin/fathom");
    // What looks for its release looks beside itself.
    std::fs::remove_file(&program).unwrap();
    // By a process of its own: what this one writes may be open in what another test starts.
    ran(Command::new("cp").arg(FATHOM).arg(&program));
    let doctor = || {
        let empty = place.path().join("no cache");
        text(&ran(Command::new(&program).arg("doctor").env("FATHOM_CACHE_DIR", empty)))
    };
    if !unpacked.join("lib/fathom/guest-kernel").is_dir() {
        println!("SKIP: the guest kernel is of another version of Fathom: fathom stack kernel");
        return;
    }
    let kernels: Vec<PathBuf> = std::fs::read_dir(unpacked.join("lib/fathom/guest-kernel"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("linux"))
        .collect();
    let is_used = |said: &str| said.lines().any(|line| line.contains("yes  guest-kernel"));
    let whole = doctor();
    if !is_used(&whole) {
        println!("SKIP: the guest kernel does not boot here: fathom doctor");
        return;
    }
    for kernel in &kernels {
        let mut octets = std::fs::read(kernel).unwrap();
        let middle = octets.len() / 2;
        octets[middle] ^= 1;
        std::fs::write(kernel, octets).unwrap();
    }
    let damaged = doctor();
    assert!(damaged.contains("its SHA-256 is another than linux.sha256 says"), "{damaged}");
    assert!(!is_used(&damaged), "{damaged}");
}
