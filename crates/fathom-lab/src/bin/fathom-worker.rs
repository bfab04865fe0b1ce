//! The worker alone, without the rest of Fathom: what is put on another host, into a guest or onto
//! a phone.

fn main() -> std::process::ExitCode {
    fathom_lab::worker::main()
}
