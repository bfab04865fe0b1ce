//! A FUSE file system of this machine's whose connection is another's to serve: as root by
//! mount(2), else with the help of fusermount3, which sends the connection back over a socket.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::super::inherit::inherit;
use fathom_ground::command::find_program;
use fathom_ground::mountinfo::mounts;

/// What the source of the mount is called.
const SOURCE: &str = "fathom-guest";
/// The variable that tells fusermount3 its end of the socket.
const SOCKET: &str = "_FUSE_COMMFD";
/// How long fusermount3 may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Mounts at `point`, shown as `fuse.KIND`: the connection. Until somebody serves it, whoever looks
/// at the mount waits.
///
/// # Errors
/// In words: why it cannot be mounted.
pub(crate) fn mount(point: &Path, kind: &str) -> Result<OwnedFd, String> {
    let done =
        if fathom_ground::system::is_root() { by_root(point, kind) } else { by_fusermount(point, kind) };
    done.map_err(|error| format!("a FUSE file system cannot be mounted on {}: {error}", point.display()))
}

/// Has the host's kernel answer every operation on the mount with an error from now on, those that
/// wait included. Ending whoever serves it does the same, unless a thread of theirs waits for a
/// disk that never answers and so cannot end.
pub(crate) fn abort(point: &Path) {
    let number = mounts().unwrap_or_default().into_iter().rfind(|mount| mount.point == point);
    let number = number.and_then(|mount| Some(mount.device.rsplit_once(':')?.1.to_owned()));
    let control = number.map(|number| format!("/sys/fs/fuse/connections/{number}/abort"));
    if control.is_some_and(|control| std::fs::write(control, "1").is_ok())
        || !fathom_ground::system::is_root()
    {
        return;
    }
    // Forced, an unmount begins with just that. It must not succeed: programs would write into the
    // directory under the mount.
    let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(held) = rustix::fs::open(point, path, Mode::empty()) {
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::FORCE);
        drop(held);
    }
}

fn by_root(point: &Path, kind: &str) -> io::Result<OwnedFd> {
    let connection = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    // Programs of every user may come, and the kernel checks by owner and mode whether they may.
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        connection.as_raw_fd()
    );
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let (kind, options) = (CString::new(format!("fuse.{kind}"))?, CString::new(options)?);
    rustix::mount::mount(SOURCE, point, kind.as_c_str(), flags, options.as_c_str())?;
    Ok(connection.into())
}

fn by_fusermount(point: &Path, kind: &str) -> io::Result<OwnedFd> {
    let program = ["fusermount3", "fusermount"].into_iter().find_map(find_program);
    let program = program.ok_or_else(|| io::Error::other("fusermount3 is not installed"))?;
    let (ours, its) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let mut words = tempfile_of_words()?;
    let mut command = Command::new(program);
    command
        .args(["-o", &format!("rw,nosuid,nodev,default_permissions,fsname={SOURCE},subtype={kind}"), "--"])
        .arg(point)
        .env(SOCKET, its.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(words.try_clone()?);
    inherit(&mut command, &its);
    let mut child = command.spawn()?;
    drop(its);
    rustix::net::sockopt::set_socket_timeout(&ours, rustix::net::sockopt::Timeout::Recv, Some(LIMIT))?;
    let received = received(&ours);
    if received.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    match received {
        Ok(connection) if status.success() => Ok(connection),
        other => {
            let mut said = String::new();
            io::Seek::rewind(&mut words)?;
            io::Read::read_to_string(&mut words, &mut said)?;
            let how = other.err().map_or_else(|| status.to_string(), |error| error.to_string());
            Err(io::Error::other(if said.trim().is_empty() { how } else { said.trim().to_owned() }))
        }
    }
}

/// Where a child's complaints go: nameless, so that nobody must read while it writes.
fn tempfile_of_words() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("fathom-words", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

fn received(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    rights.filter(|_| got.bytes > 0).ok_or_else(|| io::Error::other("fusermount3 has sent no connection"))
}
