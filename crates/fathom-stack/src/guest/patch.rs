//! What is changed in the kernel's source before it is compiled.

use std::fs;
use std::path::Path;

use super::build_error::{BuildError, at};

/// What goes into the disk driver.
const DRIVER: &str = include_str!("kernel/ubd_kern.c");
/// What its disks are like; further up in it.
const LIMITS: &str = include_str!("kernel/ubd_limits.c");
/// What goes into its other half, which is the host's.
const TRANSFER: &str = include_str!("kernel/ubd_user.c");
/// A driver of its own: the host's FUSE connection in the guest.
const CONNECTION: &str = include_str!("kernel/fathom_fuse.c");
/// What `ubd_user.c` has for `ubd_kern.c`.
const DECLARED: &str = "\
#define FATHOM_FLUSH 2
struct fathom_end { void *owner; long long result; };
extern int fathom_transfer(int fd, int write, void *vector, int count, unsigned long long offset);
extern void fathom_direct(int fd);
extern int fathom_start(void);
extern int fathom_submit(void *owner, int fd, int what, void *vector, int count, unsigned long long offset);
extern int fathom_ended(struct fathom_end *ends, int most);
extern void fathom_wait(int requests);
";

/// One change to a file of the source: what stands there once, and what stands there then.
struct Change {
    file: &'static str,
    old: &'static str,
    new: String,
}

fn changes() -> Vec<Change> {
    let driver = "arch/um/drivers/ubd_kern.c";
    vec![
        Change {
            file: "arch/um/drivers/ubd.h",
            old: "extern int kernel_fd;\n",
            new: format!("extern int kernel_fd;\n{DECLARED}"),
        },
        // As the host's loop device has it: requests up to 1 MiB, of pieces of up to 64 KiB and not
        // of pages.
        Change {
            file: driver,
            old: "\t\trq_for_each_segment(bvec, req, iter) {\n",
            new: "\t\trq_for_each_bvec(bvec, req, iter) {\n".into(),
        },
        // A piece beyond 64 KiB counts as several.
        Change {
            file: driver,
            old: "bvec.bv_len;\n\t\t\ti++;\n\t\t}\n",
            new: "bvec.bv_len;\n\t\t\ti++;\n\t\t}\n\t\tio_req->desc_cnt = i;\n".into(),
        },
        Change { file: driver, old: "#define MAX_SG 64\n", new: "#define MAX_SG 128\n".into() },
        Change {
            file: driver,
            old: "static int ubd_add(int n, char **error_out)\n",
            new: format!("{LIMITS}static int ubd_add(int n, char **error_out)\n"),
        },
        Change {
            file: driver,
            old: "\t\t.seg_boundary_mask\t= PAGE_SIZE - 1,\n",
            new: "\t\t.max_hw_sectors\t\t= 2048,\n".into(),
        },
        Change {
            file: driver,
            old: "\tubd_dev->size = ROUND_BLOCK(ubd_dev->size);\n",
            new: "\tubd_dev->size = ROUND_BLOCK(ubd_dev->size);\n\tif (n < fathom_sectors[0])\n\t\t\
                  lim.logical_block_size = fathom_sectors[1 + n];\n"
                .into(),
        },
        Change { file: driver, old: "int io_thread(void *arg)\n", new: format!("{DRIVER}int io_thread(void *arg)\n") },
        Change {
            file: driver,
            old: "\tos_fix_helper_signals();\n\n\twhile(1){\n",
            new: "\tos_fix_helper_signals();\n\tfathom_serve();\n\n\twhile(1){\n".into(),
        },
        // Where the host has no asynchronous I/O: one request after the other.
        Change {
            file: driver,
            old: "\t\t\tfor (i = 0; !req->error && i < req->desc_cnt; i++)\n\t\t\t\tdo_io(req, &(req->io_desc[i]));\n",
            new: "\t\t\t(void) i;\n\t\t\tfathom_complete(req);\n".into(),
        },
        Change {
            file: driver,
            old: "\tubd_dev->fd = fd;\n",
            new: "\tubd_dev->fd = fd;\n\tfathom_direct(fd);\n".into(),
        },
        Change {
            file: "arch/um/drivers/Makefile",
            old: "obj-$(CONFIG_UML_RTC) += rtc.o\n",
            new: "obj-$(CONFIG_UML_RTC) += rtc.o\nobj-y += fathom_fuse.o\n".into(),
        },
        // The host takes registers only as a whole, and where it has AMX that is four times what
        // the kernel keeps of them. Tiles (state components 17 and 18, whose bits are in the word
        // at byte 512) are not among it: no program in a guest may use them.
        Change {
            file: "arch/x86/um/os-Linux/registers.c",
            old: "\t\tif (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n",
            new: "\t\tstatic unsigned long whole[2048];\n\n\t\t__builtin_memcpy(whole, fp_regs, iov.iov_len);\n\t\t\
                  whole[64] &= ~(3UL << 17);\n\t\tiov.iov_base = whole;\n\t\tiov.iov_len = sizeof(whole);\n\t\t\
                  if (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov) < 0)\n"
                .into(),
        },
        // The guest's memory is a file: one without a name or a place, where /dev/shm is small,
        // noexec or not there.
        Change {
            file: "arch/um/os-Linux/mem.c",
            old: "\n\tif (tempdir == NULL) {\n",
            new: "\n\tfd = memfd_create(\"fathom-guest\", MFD_CLOEXEC);\n\tif (fd >= 0) {\n\t\ttempdir = \"memory\";\n\t\t\
                  return fd;\n\t}\n\tif (tempdir == NULL) {\n"
                .into(),
        },
    ]
}

/// Makes the changes in a tree that was just unpacked.
///
/// # Errors
/// A file cannot be read or written, or has not what is to be changed: another version of Linux.
pub(super) fn apply(tree: &Path) -> Result<(), BuildError> {
    for Change { file, old, new } in changes() {
        let path = tree.join(file);
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        let found = text.matches(old).count();
        if found != 1 {
            let problem = format!("{old:?} stands there {found} times instead of once");
            return Err(BuildError::Unlike { path, problem });
        }
        fs::write(&path, text.replacen(old, &new, 1)).map_err(at(&path))?;
    }
    let path = tree.join("arch/um/drivers/fathom_fuse.c");
    fs::write(&path, CONNECTION).map_err(at(&path))?;
    let path = tree.join("arch/um/drivers/ubd_user.c");
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    fs::write(&path, text + TRANSFER).map_err(at(&path))
}

/// All that a kernel is made of beside its source and its configuration.
pub(super) fn texts() -> impl Iterator<Item = String> {
    let files = [TRANSFER, CONNECTION].map(str::to_owned);
    changes()
        .into_iter()
        .flat_map(|change| [change.file.to_owned(), change.old.to_owned(), change.new])
        .chain(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(tree: &Path, file: &str, text: &str) {
        let path = tree.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A tree with nothing but the places that are changed.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut files: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
        for change in changes() {
            files.entry(change.file).or_default().push_str(change.old);
        }
        files.insert("arch/um/drivers/ubd_user.c", String::new());
        files.iter().for_each(|(file, text)| write(dir.path(), file, text));
        dir
    }

    #[test]
    fn the_changes_are_made_once_each() {
        let dir = tree();
        apply(dir.path()).unwrap();
        let driver = fs::read_to_string(dir.path().join("arch/um/drivers/ubd_kern.c")).unwrap();
        for (what, count) in [("fathom_serve(", 2), ("fathom_sectors_setup", 2)] {
            assert_eq!(driver.matches(what).count(), count, "{what} is defined and used: {driver}");
        }
        assert!(driver.find("static void fathom_serve") < driver.find("int io_thread"), "{driver}");
    }

    #[test]
    fn a_source_of_another_shape_is_refused_with_the_place() {
        let dir = tree();
        write(dir.path(), "arch/um/drivers/ubd.h", "/* nothing */\n");
        let error = apply(dir.path()).unwrap_err().to_string();
        for part in ["ubd.h", "kernel_fd", "0 times", "Linux 6.12"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
