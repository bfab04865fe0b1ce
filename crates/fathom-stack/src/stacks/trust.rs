//! Whose word is taken for what is to be removed: the state directory's, if nobody else can write
//! into it.
//!
//! An entry names directories and files that are removed with all their contents, often by root and
//! without a question. So the list is believed only where it belongs to this user or to root and
//! where nobody else could have put it: neither into the list, nor by exchanging a directory or a
//! symbolic link on the way to it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::error::StackError;

/// The user of whatever has no id in a user namespace, such as the machine's root there.
const UNMAPPED: u32 = 65_534;
/// The bit of a directory in which nobody removes what is another's.
const STICKY: u32 = 0o1000;
/// Symbolic links that are followed on the way, as in the kernel.
const LINKS: u32 = 40;
/// Users of Android's own (android_filesystem_config.h), each with a group of the same number.
const SYSTEM: u32 = 1000;
const SHELL: u32 = 2000;
/// Root's, and there on every Android and on no other Linux.
const ANDROID: [&str; 2] = ["/system/build.prop", "/system/bin/app_process"];

/// Whether the list of stacks may lie in this directory, as far as it and its way exist.
///
/// # Errors
/// It belongs to another user, or others may write to it or put something else in its place: which
/// directory, and what to do.
pub(crate) fn state(state: &Path) -> Result<(), StackError> {
    let refused = |problem: String| StackError::Directory {
        path: state.to_path_buf(),
        problem: format!(
            "is not trusted with the list of stacks, for what that names is removed: {problem}. Or set FATHOM_STATE_DIR to a \
             directory that you alone can write, as in FATHOM_STATE_DIR=$HOME/.fathom"
        ),
    };
    let whole = std::path::absolute(state).map_err(StackError::io("find", state))?;
    let Some(whole) = walked(&whole).map_err(&refused)? else { return Ok(()) };
    for own in [whole.clone(), whole.join("stacks")] {
        match fs::symlink_metadata(&own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(refused(format!("{}: {error}", own.display()))),
            Ok(about) => directory(&own, &about).map_err(&refused)?,
        }
    }
    Ok(())
}

/// Whether an entry's own directory is believed.
///
/// # Errors
/// It is gone, or cannot be looked at; `PermissionDenied` with the reason where it is not believed.
pub(crate) fn home(home: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(home)?;
    directory(home, &about).map_err(|problem| io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Whether a file with something to believe is this user's or root's, and of nobody else's making.
///
/// # Errors
/// In words: why not.
pub(crate) fn file(path: &Path, about: &Metadata) -> Result<(), String> {
    if !about.is_file() {
        return Err(format!("{} is no regular file", path.display()));
    }
    owned(path, about)?;
    unwritten_by_others(path, about)
}

/// A directory of Fathom's own.
fn directory(path: &Path, about: &Metadata) -> Result<(), String> {
    if !about.is_dir() {
        return Err(format!("{} is no directory", path.display()));
    }
    owned(path, about)?;
    unwritten_by_others(path, about)
}

fn owned(path: &Path, about: &Metadata) -> Result<(), String> {
    if is_ours(about) {
        return Ok(());
    }
    Err(format!("{} belongs to another user (id {})", path.display(), about.uid()))
}

/// This user's or root's.
pub(crate) fn is_ours(about: &Metadata) -> bool {
    about.uid() == rustix::process::geteuid().as_raw() || about.uid() == 0
}

fn unwritten_by_others(path: &Path, about: &Metadata) -> Result<(), String> {
    let mode = about.mode();
    if mode & 0o002 == 0 && (mode & 0o020 == 0 || is_private(about.gid())) {
        return Ok(());
    }
    let shown = path.display();
    // Whoever takes the right to write from /tmp takes it from everybody.
    let remedy = if mode & STICKY == 0 {
        format!("`chmod go-w {shown}`")
    } else {
        "name a directory of your own in it".to_owned()
    };
    Err(format!("{shown} may be written by others (mode {:04o}): {remedy}", mode & 0o7777))
}

/// A group with nobody else in it: root's, or the one that many systems make for each user, with
/// the user's own number.
fn is_private(group: u32) -> bool {
    let (user, own) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    group == 0 || group == own && own == user
}

/// Whether these are a directory and its owner, group and mode as Android's init makes those above
/// where a shell or an application may write (init.rc). What `system` wants to do there it does
/// without Fathom, and who is `shell` on a phone with `adb root` is root at a word.
fn is_of_init(path: &Path, (user, group, mode): (u32, u32, u32)) -> bool {
    let maker = match path.to_str() {
        Some("/data" | "/data/data" | "/data/user" | "/data/user/0") => SYSTEM,
        Some("/data/local/tmp") => SHELL,
        _ => return false,
    };
    (user, group) == (maker, maker) && mode & 0o002 == 0
}

fn is_android() -> bool {
    let is_roots = |about: Metadata| about.uid() == 0;
    ANDROID.iter().any(|path| fs::symlink_metadata(path).is_ok_and(is_roots))
}

/// A directory that only leads to Fathom's own. In one that is sticky, as /tmp is, nobody exchanges
/// what is another's.
fn on_the_way(path: &Path, about: &Metadata) -> Result<(), String> {
    // A service's home may be /dev/null, whose mode is to stay.
    if !about.is_dir() {
        return Err(format!("{} is no directory", path.display()));
    }
    if is_of_init(path, (about.uid(), about.gid(), about.mode())) && is_android() {
        return Ok(());
    }
    let sticky = about.mode() & STICKY != 0;
    // Root works in the directories of others, such as a checkout in a container; what lies in them
    // is root's, or not believed.
    let unmapped = about.uid() == UNMAPPED && fathom_ground::system::in_user_namespace();
    if !unmapped && !rustix::process::geteuid().is_root() {
        owned(path, about)?;
    }
    if sticky { Ok(()) } else { unwritten_by_others(path, about) }
}

/// Goes the way from the root, through links; gives the path without links, or none where it does
/// not exist yet.
fn walked(path: &Path) -> Result<Option<PathBuf>, String> {
    let mut links = LINKS;
    let mut rest: VecDeque<OsString> = names_of(path).collect();
    let mut at = PathBuf::from("/");
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let about = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| format!("{}: {error}", next.display()))?,
        };
        if about.is_symlink() {
            if !(is_ours(&about) || about.uid() == UNMAPPED && fathom_ground::system::in_user_namespace()) {
                return Err(format!("{} is a link of another user's (id {})", next.display(), about.uid()));
            }
            links = links.checked_sub(1).ok_or_else(|| format!("{}: too many links", next.display()))?;
            let target = fs::read_link(&next).map_err(|error| format!("{}: {error}", next.display()))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in names_of(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(name);
            }
            continue;
        }
        // The last one is looked at more strictly.
        if !rest.is_empty() {
            on_the_way(&next, &about)?;
        }
        at = next;
    }
    Ok(Some(at))
}

fn names_of(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// No phone was ever measured: `/data` is the user `system`'s on each of them, and its group may
    /// write there, so that no list of stacks below it was believed.
    #[test]
    fn the_way_to_where_a_phones_shell_may_write_is_as_its_init_makes_it() {
        let is = |path: &str, about| is_of_init(Path::new(path), about);
        assert!(is("/data", (1000, 1000, 0o40771)) && is("/data/local/tmp", (2000, 2000, 0o40771)));
        for (path, about) in [
            ("/data", (1000, 1000, 0o40777)),
            ("/data", (1001, 1000, 0o40771)),
            ("/data", (2000, 2000, 0o40771)),
            ("/data/local/tmp", (1000, 2000, 0o40771)),
            ("/data/local/tmp/fathom", (2000, 2000, 0o40771)),
            ("/home", (1000, 1000, 0o40771)),
        ] {
            assert!(!is(path, about), "{path} {about:?}");
        }
    }

    /// What happened: the state directory `$TMPDIR/fathom` could be made by anybody first, and
    /// everything that its entries named was removed in the name of whoever ran Fathom next. The
    /// harm is any directory of that user's. The mend: who else could have written the list, or put
    /// another in its place, is refused with the directory and the remedy.
    #[test]
    fn a_list_that_others_could_have_written_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let list = at("way/state/stacks");
        fs::create_dir_all(&list).unwrap();
        let trusted = || state(&at("way/state")).map_err(|error| error.to_string());
        assert_eq!(trusted(), Ok(()));
        for (open, bits) in [("way/state/stacks", 0o757), ("way/state", 0o1777), ("way", 0o777)] {
            mode(&at(open), bits);
            let error = trusted().unwrap_err();
            let remedy = if bits & STICKY == 0 { "`chmod go-w " } else { "a directory of your own in it" };
            for part in ["may be written by others", remedy, "FATHOM_STATE_DIR=", open] {
                assert!(error.contains(part), "{open}: {error}");
            }
            assert!(bits & STICKY == 0 || !error.contains("chmod"), "never of /tmp: {error}");
            mode(&at(open), 0o755);
        }
        // As /tmp is: nobody exchanges there what is another's.
        mode(&at("way"), 0o1777);
        assert_eq!(trusted(), Ok(()));
        // Nothing is there yet, and nobody else can make it.
        assert!(state(&at("new/state")).is_ok());
        mode(&at(""), 0o777);
        assert!(state(&at("new/state")).is_err(), "anybody could make it first");
        mode(&at(""), 0o755);
        symlink("way/../way/state", at("link")).unwrap();
        assert!(state(&at("link")).is_ok(), "one's own link");
        symlink("loop", at("loop")).unwrap();
        assert!(state(&at("loop")).unwrap_err().to_string().contains("too many links"));
        fs::write(at("file"), "").unwrap();
        assert!(state(&at("file")).unwrap_err().to_string().contains("is no directory"));
        // What happened: with HOME=/dev/null the remedy was `chmod go-w /dev/null`.
        let device = state(Path::new("/dev/null/.local/state/fathom")).unwrap_err().to_string();
        assert!(device.contains("/dev/null is no directory") && !device.contains("chmod"), "{device}");
        if rustix::process::geteuid().is_root() {
            let nobody = Some(UNMAPPED);
            for other in ["way/state", "way/state/stacks", "link"] {
                std::os::unix::fs::lchown(at(other), nobody, nobody).unwrap();
                let by_link = state(&at("link")).unwrap_err().to_string();
                assert!(by_link.contains("another user"), "{other}: {by_link}");
                std::os::unix::fs::lchown(at(other), Some(0), Some(0)).unwrap();
            }
        } else {
            println!("SKIP: another user's directories need root");
        }
    }
}
