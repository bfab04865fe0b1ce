//! The processors that programs are made for, by name.

/// A processor's name in those of Fathom's programs: of what `uname -m` says, and of what Rust
/// calls the one that a program is made for, which for Arm of 32 bits says no version.
pub(super) fn processor_of(name: &str) -> &str {
    match name {
        "arm64" => "aarch64",
        "amd64" => "x86_64",
        "arm" => "armv7",
        arm if arm.starts_with("armv7") || arm.starts_with("armv8") => "armv7",
        other => other,
    }
}
