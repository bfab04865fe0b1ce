//! Tells the benchmark `harness_cost` where the bundled SQLite was built, so that its C program
//! links the very same library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Set by libsqlite3-sys (`links = "sqlite3"`) for crates that depend on it directly.
    for (name, from) in
        [("FATHOM_SQLITE_LIBRARY", "DEP_SQLITE3_LIB_DIR"), ("FATHOM_SQLITE_INCLUDE", "DEP_SQLITE3_INCLUDE")]
    {
        println!("cargo:rustc-env={name}={}", std::env::var(from).unwrap_or_default());
    }
}
