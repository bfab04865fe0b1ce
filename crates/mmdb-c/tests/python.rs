//! The wheel is built, installed into a virtual environment in a temporary directory, and used
//! there: the quick start of the README, and the programs of `tests/python`.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a program to its end; its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// A Python that has the wheel and nothing of this directory; None where there is no Python that
/// can make virtual environments.
fn installed(dir: &Path) -> Option<PathBuf> {
    // Debian's first: others may be in front of it for their own programs.
    let python = ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let check = Command::new(python).args(["-c", "import ctypes, ensurepip, venv"]).output();
        check.is_ok_and(|out| out.status.success())
    });
    let Some(python) = python else {
        eprintln!("SKIP: no python3 with venv (apt-get install python3 python3-venv)");
        return None;
    };
    let library = std::env::current_exe().unwrap().with_file_name("libmmdb_c.so");
    let script = here().join("python/build_wheel.py");
    let build = |to: &str| {
        let out = run(Command::new(python).arg(&script).arg(&library).arg(dir.join(to)));
        PathBuf::from(out.trim())
    };
    let wheel = build("dist");
    assert_eq!(
        std::fs::read(&wheel).unwrap(),
        std::fs::read(build("again")).unwrap(),
        "the same wheel is made of the same files"
    );
    let machine = std::env::consts::ARCH;
    let name = format!("mmdb-{}-py3-none-linux_{machine}.whl", env!("CARGO_PKG_VERSION"));
    assert_eq!(wheel.file_name().unwrap().to_string_lossy(), name);
    let venv = dir.join("venv");
    run(Command::new(python).args(["-m", "venv"]).arg(&venv));
    let python = venv.join("bin/python");
    let pip = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"];
    run(Command::new(&python).args(pip).arg(&wheel).current_dir(dir));
    Some(python)
}

/// What happened: a wheel was passed on with the licences of mmdb, and of none of the crates that
/// are linked into its library, whose licences ask for that.
#[test]
fn a_wheel_that_is_passed_on_has_the_licences_of_what_is_linked_in() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success()) {
        eprintln!("SKIP: no python3 (apt-get install python3)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (library, others) = (dir.path().join("libmmdb_c.so"), dir.path().join("LICENCES-OF-OTHERS"));
    std::fs::write(&library, "a library").unwrap();
    std::fs::write(&others, "parking_lot").unwrap();
    let script = here().join("python/build_wheel.py");
    let mut build = Command::new("python3");
    build.arg(script).arg(library).arg(dir.path().join("dist")).args(["linux_armv7l", "1.2.3"]).arg(others);
    let wheel = run(&mut build);
    let listed = run(Command::new("python3").args(["-m", "zipfile", "-l", wheel.trim()]));
    assert!(listed.contains("mmdb-1.2.3.dist-info/LICENCES-OF-OTHERS"), "{listed}");
    assert!(listed.contains("mmdb-1.2.3.dist-info/LICENSE-MIT"), "{listed}");
}

#[test]
fn the_wheel_is_installed_and_used() {
    let dir = tempfile::tempdir().unwrap();
    let Some(python) = installed(dir.path()) else { return };
    let python = || {
        let mut command = Command::new(&python);
        command.env_remove("PYTHONPATH").args(["-I", "-W", "error"]).current_dir(dir.path());
        command
    };

    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let code = readme.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let out = run(python().args(["-c", code, "quick-start"]));
    assert!(out.contains("table message, constraint primary: key"), "{out}");

    let tests = here().join("tests/python");
    for name in ["interface", "groups", "strangers", "signals", "forks"] {
        let out = run(python().arg(tests.join(format!("{name}.py"))).arg(dir.path().join(name)));
        eprintln!("{name}: {}", out.trim());
    }
}
