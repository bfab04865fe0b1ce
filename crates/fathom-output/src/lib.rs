//! The one way in which Fathom's commands write.
//!
//! A command is told by name what to write to, and a name may be anything: a device node, a FIFO, a
//! link, the file that is read, a week's results. So every output of every command goes through
//! [`Output`], whose rules are these:
//!
//! 1. A **regular file** is replaced, whole and at once: the new one is written beside it, brought
//!    to the device, and renamed. A reader never sees half of it, an error leaves the old one, and
//!    the mode of the old one is kept. Until it is complete the new one has no name where the file
//!    system can do that, so nothing stays of it even after `kill -9`; elsewhere it is
//!    [held](hold).
//! 2. A **symbolic link** is followed, to the end: its target is replaced, and the link stays a
//!    link.
//! 3. A **character device, a FIFO, standard output** (`-`, or whatever leads to it, such as
//!    `/dev/stdout`) are written to and never replaced. A FIFO's reader is waited for until the
//!    user wants the program to stop ([`stop_waiting`]).
//! 4. Refused, before anything is written, are: a directory; a block device and a socket; **an
//!    input of the same command**, by whatever name it is given (told by device and inode number,
//!    so that links of both kinds do not hide it); **every SQLite database**, results of Fathom
//!    first of all, and a name that SQLite takes for a database's journal; **what was recorded and
//!    cannot be recorded again**: traces (which only another trace may replace), excerpts of
//!    results (which only another excerpt may replace), spools of a capture, logs of a device's
//!    operations, databases of `mmdb`. Nor are those written over where they lie
//!    ([`check_overwritten`]). Nor is what **another user has put** where everybody may make files.
//! 5. A name that the **user did not give** (`index.html` beside `--out index.db`) replaces an
//!    earlier output of the same kind and nothing else ([`check_unnamed`]).
//!
//! [`say!`], [`tell!`] and [`raw`] are standard output and error, which may be full or closed: an
//! error is kept for [`end`], which the program asks last. What they print is shown as text
//! ([`shown()`], [`lines`]): names and messages come from traces, results and experiment files of
//! others, and a terminal obeys what is in them.

mod access;
mod error;
mod file;
mod place;
mod precious;
mod print;
mod stream;
mod target;
mod temporary;
mod text;

pub use access::Access;
pub use error::OutputError;
pub use file::{Output, check, check_access, check_overwritten, check_unnamed, is_standard_output, write};
pub use precious::is_journal;
pub use print::{end, is_stdout_closed, out_line, raw, tell_line};
pub use stream::stop_waiting;
pub use target::is_same_file;
pub use temporary::{TemporaryPath, hold, remove_temporary};
pub use text::{EscapingWriter, is_obeyed, lines, shown, shown_path};
