//! What a reader must know of where a stack lies.

use std::fs::File;

use fathom_device::Model;

use crate::spec::StackSpec;

/// What is laid on a host's file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The databases themselves.
    Directory,
    /// An image, whose times are those of the disk that it lies on.
    Image,
    /// An image with a model's times, whatever it lies on: memory is as good as any disk, and
    /// quieter.
    Modelled,
}

impl StackSpec {
    pub(crate) fn placement(&self) -> Placement {
        if self.device.is_some() { Placement::Modelled } else { Placement::Image }
    }

    /// What a reader must know where the mount was asked for discards: no stack's device takes any
    /// (they would take the image's reserved space away), and file systems pass over the wish.
    pub(crate) fn discard_warning(&self) -> Option<String> {
        let asks = |option: &str| option == "discard" || option.starts_with("discard=");
        let option = self.mount.as_deref()?.split(',').find(|option| asks(option))?;
        Some(format!(
            "the mount option {option} does nothing here: the device takes no discards, and what they cost is in no number"
        ))
    }
}

/// What a reader must know of the file system under an image or directory.
pub(crate) fn place_warnings(filesystem: &str, placement: Placement) -> Vec<String> {
    let what = match placement {
        Placement::Directory => "the directory lies on",
        Placement::Image => "the image lies on",
        Placement::Modelled => return Vec::new(),
    };
    let warning = match filesystem {
        "tmpfs" | "ramfs" => format!(
            "{what} {filesystem}: there is no device and syncs are free; durable writes look far too fast"
        ),
        "overlay" => format!(
            "{what} overlay: first writes copy files up, and the upper layer's device is what is measured"
        ),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "afs" => {
            format!(
                "{what} {filesystem}: a server is measured, and what a sync promises is the server's affair"
            )
        }
        other if other == "fuse" || other.starts_with("fuse.") => {
            format!("{what} {other}: a program in user space is measured")
        }
        _ => return Vec::new(),
    };
    vec![warning]
}

/// The modelled devices in words, where there are any.
pub(crate) fn described_models(modelled: &[(File, Model)]) -> Option<String> {
    let each = |(_, model): &(File, Model)| format!("modelled {} ({})", model.name, model.title);
    match modelled {
        [] => None,
        [one] => Some(each(one)),
        [one, log, ..] => Some(format!("{}, log on {}", each(one), each(log))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_under_an_image_is_warned_of_unless_a_model_keeps_the_times() {
        assert!(place_warnings("tmpfs", Placement::Image)[0].contains("syncs are free"));
        assert!(place_warnings("tmpfs", Placement::Directory)[0].contains("the directory lies on tmpfs"));
        assert!(place_warnings("tmpfs", Placement::Modelled).is_empty());
    }

    /// What happened: a stack with `discard` was the same as one without, and nothing said so: ext4
    /// tells the kernel's log alone, and discards looked as if they cost nothing.
    #[test]
    fn discards_that_are_asked_for_and_do_not_come_are_told() {
        let told =
            |mount: &str| StackSpec { mount: Some(mount.into()), ..StackSpec::default() }.discard_warning();
        assert!(told("noatime,discard").unwrap().contains("option discard does nothing"));
        assert!(told("discard=async").unwrap().contains("discard=async"));
        for none in ["nodiscard", "noatime", "", "discard_unit=block"] {
            assert_eq!(told(none), None, "{none}");
        }
        assert_eq!(StackSpec::default().discard_warning(), None);
    }
}
