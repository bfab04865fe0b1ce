//! The keys of `[stack]`: a table as workloads and engines have it, and what is made of it.

use std::path::PathBuf;

use fathom_ground::params::{Kind, Parameter, Params, Preset};

use super::check::LARGEST_MIB;
use super::stack_spec::{DEFAULT_SIZE_MIB, StackSpec};

const TEXT: (Kind, Preset) = (Kind::Text, Preset::Unset);
const TEXTS: (Kind, Preset) = (Kind::Texts, Preset::Unset);
const MIB: Kind = Kind::Integer { min: 1, max: LARGEST_MIB.cast_signed() };

const fn key(
    name: &'static str,
    (kind, default): (Kind, Preset),
    unit: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, kind, default, unit, description }
}

/// The keys of `[stack]` with their types, ranges and defaults. What goes together is
/// [`StackSpec::check`]'s to judge.
pub const STACK_KEYS: &[Parameter] = &[
    key("filesystem", (Kind::Text, Preset::Text("dir")), "", "File system, or dir: a directory."),
    key("mkfs", TEXTS, "", "Further words for mkfs."),
    key("mount", TEXT, "", "Mount options, separated by commas."),
    key("size_mib", (MIB, Preset::Integer(DEFAULT_SIZE_MIB.cast_signed())), "MiB", "Size of the image."),
    key("log_mib", (MIB, Preset::Unset), "MiB", "Size of an external log (XFS, ext3, ext4)."),
    key("image", TEXT, "", "An image to begin each run with a copy of."),
    key("directory", TEXT, "", "Where images, or working directories, are put; else --dir."),
    key("device", TEXT, "", "Modelled device: a preset, or a model's file."),
    key("log_device", TEXT, "", "Modelled device of the external log; else another like `device`."),
    key("faults", TEXTS, "", "What fails on the modelled device, such as write-error@1000."),
    key("guest", (Kind::Boolean, Preset::Boolean(false)), "", "Mounts in a guest kernel in any case."),
];

impl StackSpec {
    /// What the keys of [`STACK_KEYS`] ask.
    #[must_use]
    pub fn of_keys(keys: &Params) -> StackSpec {
        let text = |name: &str| {
            keys.optional_text(name).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let path = |name: &str| text(name).map(PathBuf::from);
        let texts = |name: &str| if keys.is_set(name) { keys.texts(name) } else { Vec::new() };
        StackSpec {
            place: keys.text("filesystem").into(),
            mkfs: texts("mkfs"),
            mount: text("mount"),
            size_mib: keys.count("size_mib"),
            log_mib: keys.optional_integer("log_mib").map(i64::cast_unsigned),
            image: path("image"),
            directory: path("directory"),
            device: text("device"),
            log_device: text("log_device"),
            faults: texts("faults"),
            guest: keys.boolean("guest"),
            ..StackSpec::default()
        }
    }
}
