//! The right to change what the manifest states.

use std::collections::HashMap;

/// What the sides' files hold, and the right to change what the manifest says of tables and
/// checkpoints. One user at a time.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    /// Per side: checksum of each container's image in the file. A container that is not dirty on a
    /// side has one there.
    pub(crate) crcs: [HashMap<(u32, u32), u32>; 2],
}

impl Admin {
    /// After the manifest without these tables is stored: what their images held is nobody's any
    /// more.
    pub(crate) fn forget_images(&mut self, is_gone: impl Fn(u32) -> bool) {
        for side in &mut self.crcs {
            side.retain(|(table, _), _| !is_gone(*table));
        }
    }
}
