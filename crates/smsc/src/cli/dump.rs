//! What a crash leaves behind: no core dump with secrets in it.

/// From now on the kernel writes no core dump of this process, hands none to a collector, and lets
/// no other program of the same user read its memory.
///
/// A password of a URL is kept, since a session that is opened later logs in again; a copy of it is
/// in the environment or in the text of the configuration, and the memory has keys of TLS, hashes
/// and the text of messages besides. Whoever erases one place leaves the others, as does
/// `MADV_DONTDUMP` for its pages, and a limit of the size (RLIMIT_CORE) does not hold for a
/// collector behind a pipe (core(5)). So the whole process is left out.
pub fn forbid() {
    // SAFETY: the call takes numbers only, and changes nothing but who may look at this process.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}
