//! What is measured, in words.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use fathom_ground::mountinfo::mount_of;
use fathom_ground::system::kernel_release;

/// What was measured, in words.
#[derive(Debug)]
pub(super) struct Description {
    /// The device.
    pub title: String,
    /// As a model names it.
    pub kind: &'static str,
    /// All of it.
    pub text: String,
}

impl Description {
    /// From what the kernel tells.
    pub fn of(path: &Path, file: &File) -> Description {
        let metadata = file.metadata().ok();
        let is_device = metadata.as_ref().is_some_and(|about| about.file_type().is_block_device());
        let number = metadata.map_or(0, |about| if is_device { about.rdev() } else { about.dev() });
        let sys = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let sys = fs::canonicalize(sys).unwrap_or_default();
        let read = |name: &str| {
            // A partition has its disk above it.
            let all = [sys.join(name), sys.join("..").join(name)];
            let text = all.iter().find_map(|path| fs::read_to_string(path).ok());
            text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let node = fathom_ground::command::file_name(&sys);
        let model = read("device/model").or_else(|| read("device/name"));
        let kind = match (read("device/type").as_deref(), read("queue/rotational").as_deref()) {
            (Some("SD"), _) => "sd",
            (Some("MMC"), _) => "emmc",
            (_, Some("1")) if !node.starts_with("loop") => "disk",
            _ => "flash",
        };
        let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect() };
        let on = match (is_device, mount_of(path)) {
            (false, Ok(mount)) => format!("a file on {} ({})", mount.filesystem, mount.source),
            _ => path.display().to_string(),
        };
        let title = model.unwrap_or_else(|| if node.is_empty() { "device".into() } else { node });
        let text = plain(&format!("{title}: {on}, Linux {}", kernel_release()));
        Description { title: plain(&title), kind, text }
    }
}
