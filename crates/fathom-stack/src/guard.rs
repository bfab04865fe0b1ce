//! The guard: a small shell that waits on a pipe for this process to end, however it ends, and then undoes the stack.
//!
//! A destructor does not run after Ctrl-C, SIGTERM or kill -9. The pipe closes all the same, the guard's `read` returns,
//! and what it finds mounted it unmounts; the loop device and the nameless image go with the mount. Told `down` on the
//! pipe, it ends without doing anything. It ignores the signals of the terminal and has a process group of its own.
//! Should the guard be killed too, the entry's lock tells the next sweep that nobody owns the stack. Until then the guard has a
//! part in that lock: a sweep that undid the same stack beside it would be done first, and the slower of the two would
//! then remove what a new stack of the same name has made.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::claim::{Entry, device_points, image_path, mount_point};

/// $1 mount point, $2 entry, $3 directory of a `dir` stack or empty, $4 and $5 images (nameless but for a moment),
/// $6 the stack's trace instance or empty (there is one only while blocks are traced), $7 and $8 where modelled devices are
/// served, or empty; the others are files that go with a stack that was not complete. A mount whose server was killed cannot be looked at, so it is the directory above and rmdir that tell. An rmdir that
/// succeeds proves that nothing is mounted and nothing can be mounted there any more. A process that still uses the mount has 60
/// seconds to end.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
IFS= read -r word
[ "$word" = down ] && exit 0
tries=0
if [ -n "$6" ]; then
  while [ -d "$6" ] && ! rmdir -- "$6" 2>/dev/null && [ "$tries" -lt 20 ]; do tries=$((tries + 1)); sleep 0.1; done
fi
tries=0
while ls -- "$2" 2>/dev/null | grep -qxF -- "${1##*/}" && ! rmdir -- "$1" 2>/dev/null; do
  umount -- "$1" 2>/dev/null && continue
  fusermount3 -u -- "$1" 2>/dev/null && continue
  tries=$((tries + 1))
  [ "$tries" -gt 600 ] && exit 1
  sleep 0.1
done
for at in "$7" "$8"; do
  tries=0
  while [ -n "$at" ] && [ -d "$2" ] && ! rmdir -- "$at" 2>/dev/null; do
    umount -- "$at" 2>/dev/null && continue
    fusermount3 -u -- "$at" 2>/dev/null && continue
    tries=$((tries + 1))
    [ "$tries" -eq 100 ] && umount -l -- "$at" 2>/dev/null
    [ "$tries" -gt 200 ] && exit 1
    sleep 0.1
  done
done
rm -f -- "$4" "$5"
rm -rf -- "$2/state"
home=$2 work=$3
shift 8
[ "$#" -gt 0 ] && rm -f -- "$@"
if [ -n "$work" ]; then rm -rf -- "$work" || exit 1; fi
rm -f -- "$home/entry.json" "$home/entry.json.new" "$home/owner"
rmdir -- "$home"
"#;

/// A running guard.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts the guard of an entry, whose lock is `owner`'s.
    ///
    /// # Errors
    /// No shell can be started.
    pub fn start(home: &Path, entry: &Entry, owner: &File) -> io::Result<Guard> {
        let empty = Path::new("");
        let mut devices = device_points(home, entry);
        devices.resize(2, PathBuf::new());
        // Where there is no tracefs nothing is traced.
        let instance = crate::blocks::instance_path(&entry.tag).ok();
        let mut shell = Command::new("/bin/sh");
        crate::blocks::give_tracing(&mut shell);
        shell
            .args(["-c", SCRIPT, "fathom-stack-guard"])
            .arg(mount_point(home))
            .arg(home)
            .arg(entry.work.as_deref().unwrap_or(empty))
            .args([image_path(entry, ".img"), image_path(entry, ".log.img")])
            .arg(instance.as_deref().unwrap_or(empty))
            .args(devices)
            .args(entry.unfinished())
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            // Not on the mount, nor on the file system that holds it.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Nothing is written there: a lock lasts as long as somebody has its file open, and this is the one descriptor left that
            // a child is given. Programs that may hang have another.
            .stderr(owner.try_clone()?)
            .process_group(0)
            .spawn()
            .map(Guard)
    }

    /// Process id, for tests that kill it.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends the guard: there is nothing left to undo.
    pub fn dismiss(mut self) {
        // A guard that was killed cannot be told; it is only to be waited for.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = crate::pipe::write_all(&mut pipe, b"down\n");
        }
        let _ = self.0.wait();
    }
}
