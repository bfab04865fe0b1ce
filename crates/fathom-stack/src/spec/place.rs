//! Where the files of a stack lie.

use serde::{Deserialize, Serialize};

/// The user's word for [`Place::Directory`].
const DIRECTORY: &str = "dir";

/// Where the files of a stack lie. As text it is the user's word: `dir`, or the file system's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Place {
    /// A directory of the host's: nothing is made or mounted.
    #[default]
    Directory,
    /// A file system of its own in an image.
    Image {
        /// `ext2`, `ext3`, `ext4`, `xfs`, `btrfs`, `ntfs` (ntfs-3g), `vfat`, `exfat`, `f2fs`,
        /// `ntfs3` … whatever this machine can make and mount.
        filesystem: String,
    },
}

impl Place {
    /// The user's word: `dir`, or the file system's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.filesystem().unwrap_or(DIRECTORY)
    }

    /// The file system's name; none for a directory.
    #[must_use]
    pub fn filesystem(&self) -> Option<&str> {
        match self {
            Place::Directory => None,
            Place::Image { filesystem } => Some(filesystem),
        }
    }

    /// Whether it is a directory of the host's.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        *self == Place::Directory
    }
}

impl From<&str> for Place {
    fn from(name: &str) -> Place {
        match name {
            DIRECTORY => Place::Directory,
            filesystem => Place::Image { filesystem: filesystem.to_owned() },
        }
    }
}

impl From<String> for Place {
    fn from(name: String) -> Place {
        name.as_str().into()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> String {
        place.name().to_owned()
    }
}
