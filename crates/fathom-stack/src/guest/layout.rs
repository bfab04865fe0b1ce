//! Where things are: in a guest, and in the directory of its stack.

/// What builds the guest kernel.
pub(crate) const BUILD: &str = "fathom stack kernel";

/// Where the file system under test is mounted in the guest: in its own `/dev`, where it hides no
/// file of the user's.
pub(crate) const POINT: &str = "/dev/fathom";
/// The kernel keeps what it needs while it runs in this directory of a stack's.
pub(crate) const STATE: &str = "state";
