//! Takes the charting library out of the crate that ships it.
//!
//! The report draws with Apache ECharts. No copy of it lives in this repository: the `charming`
//! crate carries the minified bundle as a file of its source, Cargo downloads and checks that
//! source like any other, and this script copies the bundle to `OUT_DIR`, from where the library
//! includes it. `cargo metadata` is the supported way to learn where a dependency's source lies
//! (registry, vendored directory or path alike). See README.md for why this library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The crate that carries the bundle.
const CARRIER: &str = "charming";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.toml");
    if let Err(message) = copy_bundle() {
        eprintln!("error: cannot take the charting library out of the crate `{CARRIER}`: {message}");
        std::process::exit(1);
    }
}

fn copy_bundle() -> Result<(), String> {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    // Without the network first. That fails where packages that this build does not need (another
    // room's dev-dependencies) were never downloaded, since `cargo metadata` wants them all; then
    // Cargo may fetch them.
    let metadata = read_metadata(&manifest, true).or_else(|_| read_metadata(&manifest, false))?;
    let carrier = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == CARRIER))
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|path| Path::new(path).parent())
        .ok_or("it is not among the dependencies")?;
    let bundle = find_bundle(&carrier.join("src/asset"))?;
    let text = fs::read_to_string(&bundle).map_err(|e| format!("{}: {e}", bundle.display()))?;
    // The notices must travel with the code, and an inline script must not contain its own end tag.
    if !text.contains("Apache Software Foundation") || !text.contains("Apache License, Version 2.0") {
        return Err(format!("{}: the licence notice is missing", bundle.display()));
    }
    let text = text.replace("</script", "<\\/script");
    let version = bundle
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix("echarts-"))
        .and_then(|name| name.strip_suffix(".min.js"))
        .ok_or("the bundle's name carries no version")?;
    let out = PathBuf::from(variable("OUT_DIR")?);
    fs::write(out.join("echarts.min.js"), text).map_err(|e| format!("{}: {e}", out.display()))?;
    println!("cargo:rustc-env=FATHOM_ECHARTS_VERSION={version}");
    Ok(())
}

fn read_metadata(manifest: &Path, offline: bool) -> Result<serde_json::Value, String> {
    let mut command = Command::new(variable("CARGO")?);
    command.args(["metadata", "--format-version", "1", "--filter-platform"]).arg(variable("HOST")?);
    command.arg("--manifest-path").arg(manifest).args(offline.then_some("--offline"));
    let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn find_bundle(directory: &Path) -> Result<PathBuf, String> {
    fs::read_dir(directory)
        .map_err(|e| format!("{}: {e}", directory.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with("echarts-") && name.ends_with(".min.js"))
        })
        .ok_or_else(|| format!("{}: no echarts-*.min.js", directory.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}
