//! Programs in C and C++ are compiled against the header, with the strictest warnings, and run:
//! linked to the shared library and to the static one, and under valgrind where that is installed.
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn library(name: &str) -> PathBuf {
    std::env::current_exe().unwrap().with_file_name(name)
}

fn exists(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn succeed(what: &str, output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{out}\n{err}", output.status);
    out
}

const STRICT: [&str; 6] = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic"];

/// Compiles a program; `compiler` has its language too, such as `cc -std=c99`.
fn compile(compiler: &[&str], source: &Path, to: &Path, is_static: bool) {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(STRICT).arg("-I").arg(here().join("include"));
    command.arg(source).arg("-o").arg(to);
    if is_static {
        command.arg("-x").arg("none").arg(library("libmmdb_c.a")).args(["-lpthread", "-ldl", "-lm"]);
    } else {
        let so = library("libmmdb_c.so");
        let dir = so.parent().unwrap().display();
        command.args(["-x", "none"]).arg(&so).arg(format!("-Wl,-rpath,{dir}")).arg("-lpthread");
    }
    succeed("compile", command.output().unwrap());
}

fn compilers() -> Vec<Vec<&'static str>> {
    let all = [
        vec!["cc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", "-x", "c"],
        vec!["cc", "-std=c17", "-D_POSIX_C_SOURCE=200809L", "-x", "c"],
        vec!["c++", "-std=c++11", "-x", "c++"],
        vec!["clang", "-std=c99", "-D_POSIX_C_SOURCE=200809L", "-x", "c"],
    ];
    let (there, absent): (Vec<_>, Vec<_>) = all.into_iter().partition(|c| exists(c[0]));
    for c in absent {
        eprintln!("SKIP {}: not installed", c[0]);
    }
    there
}

#[test]
fn the_interface_holds_what_it_promises_in_c_and_cpp() {
    let source = here().join("tests/interface.c");
    for (i, compiler) in compilers().iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("interface");
        compile(compiler, &source, &program, i == 1);
        let out = Command::new(&program).arg(dir.path()).output().unwrap();
        assert_eq!(succeed(&compiler.join(" "), out), "ok\n");
    }
}

#[test]
fn valgrind_finds_no_error_and_no_leak_of_the_interface() {
    if !exists("valgrind") || !exists("cc") {
        eprintln!("SKIP: valgrind is not installed (apt-get install valgrind)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("interface");
    compile(&compilers()[0], &here().join("tests/interface.c"), &program, false);
    let valgrind = [
        "-q",
        "--error-exitcode=9",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let out = Command::new("valgrind").args(valgrind).arg(&program).arg(dir.path()).output().unwrap();
    assert_eq!(succeed("valgrind", out), "ok\n");
}

/// The example of the README: what a reader copies works.
#[test]
fn the_quick_start_runs() {
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let code = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("main.c"), dir.path().join("main"));
    std::fs::write(&source, code).unwrap();
    for is_static in [false, true] {
        let store = dir.path().join(format!("store-{is_static}"));
        compile(&["cc", "-std=c99"], &source, &program, is_static);
        // A second time, too, as whoever tries it does.
        for _ in 0..2 {
            let out = Command::new(&program).arg(&store).output().unwrap();
            assert_eq!(succeed("quick start", out), "1 hello\n");
        }
    }
}
