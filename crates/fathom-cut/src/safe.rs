//! What is safe at a moment: of each device the answers that a flush of its own has made sure of.

/// Of each device so many of all answers: what it had answered among them is safe. A file system
/// with an external log has two devices, and a flush of one makes nothing safe on the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Safe([u64; 2]);

/// One of a history's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The file system's.
    Main,
    /// Its external log's.
    Log,
}

impl Safe {
    /// All that was answered before this place, whichever device did.
    #[must_use]
    pub fn all_before(answers: u64) -> Safe {
        Safe([answers; 2])
    }

    /// What of a device's answers is safe: those before this place.
    #[must_use]
    pub fn of(self, side: Side) -> u64 {
        self.0[side as usize]
    }

    /// The same, with more of one device: never with less.
    #[must_use]
    pub(crate) fn with(mut self, side: Side, answers: u64) -> Safe {
        let there = &mut self.0[side as usize];
        *there = answers.max(*there);
        self
    }

    /// What is safe of any device, at most.
    pub(crate) fn most(self) -> u64 {
        self.0[0].max(self.0[1])
    }

    /// What is safe of every device, at least.
    pub(crate) fn least(self) -> u64 {
        self.0[0].min(self.0[1])
    }
}
