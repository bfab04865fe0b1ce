//! Compiles the capture library and the loadable extension (`capture/*.c`), which are kept inside
//! the program and written to disk when they are needed: nothing has to be installed, and nothing
//! can be missing.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=capture");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    // SQLite's header, set by libsqlite3-sys (`links = "sqlite3"`) for crates that depend on it
    // directly.
    let include = std::env::var_os("DEP_SQLITE3_INCLUDE")
        .map(PathBuf::from)
        .expect("libsqlite3-sys tells where sqlite3.h is");
    // For the benchmark's C program.
    println!("cargo:rustc-env=FATHOM_SQLITE_INCLUDE={}", include.display());
    let compiler = cc::Build::new().opt_level(2).debug(false).warnings(true).try_get_compiler();
    let compiler = compiler.unwrap_or_else(|error| panic!("no C compiler: {error}"));
    let preload = ["preload.c", "blob.c", "within.c", "table.c", "loader.c", "seen.c"];
    for (library, own) in [("libfathom_capture.so", &preload[..]), ("libfathomtrace.so", &["extension.c"])] {
        let status = compiler
            .to_command()
            // Zig's compiler has debug information by itself, and with it this machine's
            // directories.
            .args(["-g0", "-s"])
            .args(["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-I"])
            .arg(&include)
            .args(["capture/spool.c", "capture/content.c", "capture/locks.c"])
            .args(own.iter().map(|file| format!("capture/{file}")))
            .arg("-o")
            .arg(out.join(library))
            .arg("-ldl")
            .status();
        match status {
            Ok(status) if status.success() => {}
            other => panic!("the C compiler could not make {library} of capture/{own:?}: {other:?}"),
        }
    }
}
