//! The command line of Fathom.
fn main() {}
