//! What a stack needs beside its maker, as a program of its own: for programs that make stacks and
//! are not `fathom`, which does the same when it is called with these words. See
//! `Stacks::with_program`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    match words.as_slice() {
        ["stack-guard", home] => fathom_stack::guard::main(Path::new(home)),
        ["device-server"] => fathom_device::server::main(),
        ["guest-keeper"] => fathom_stack::keeper::main(),
        _ => {
            eprintln!("usage: fathom-sidecar stack-guard HOME | device-server | guest-keeper (internal)");
            ExitCode::from(2)
        }
    }
}
