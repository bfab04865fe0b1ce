//! For whom a file is made.

/// Who may read a file that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the umask says; a file that is replaced keeps its mode.
    Public,
    /// The user alone: traces hold what the users of an application wrote. So also where a file is
    /// replaced that others could read, and that may be a trace, too.
    Private,
    /// As [`Access::Public`], of an excerpt of results: it may replace an earlier excerpt.
    Excerpt,
}
