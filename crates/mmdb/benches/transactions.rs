//! Placeholder until the engine is measured.
fn main() {}
