//! Why a guest does not do what it is asked.

/// Why a guest does not do what it is asked.
#[derive(Debug, thiserror::Error)]
#[error("guest kernel: {problem}{}", said(.console))]
pub struct GuestError {
    /// What is wrong.
    pub problem: String,
    /// The last that the guest's kernel said.
    pub console: String,
}

fn said(console: &str) -> String {
    if console.is_empty() {
        String::new()
    } else {
        format!("\n  it said: {}", console.replace('\n', "\n           "))
    }
}
