//! What a database and its standbys have in common: the history of commits that they share.
//!
//! ```text
//! in the manifest: lineage 16 | role u8 (0 primary, 1 standby, 2 deposed) | fenced u64
//!                  fences varint, each: epoch u64, after u64, changes u64, token u64
//!                  recorded u8 | changes so far u64
//!                  changes varint, each: number u64, after u64, table u32, next table u32, u8 (1: a schema follows)
//! ```
//! A *fence* begins an epoch: from the commit behind `after` on, who has the epoch is the primary.
//! A *change* is one of a table's definition. Those are not in the log; they are kept here, with
//! the commit behind which each came, as long as a standby may ask for them.

use crate::codec::{Reader, put_u32, put_u64, put_varint};
use crate::identity::{Identity, random};
use crate::log::frame::MAX_GSN;
use crate::schema::Schema;

/// Changes kept at most: each manifest repeats them.
pub(crate) const MANY_CHANGES: usize = 256;
/// No lineage has more fences: what a damaged number may cost is bounded.
const MAX_FENCES: u64 = 1 << 16;

/// No epoch has a greater number.
pub(crate) const MAX_EPOCH: u64 = 1 << 60;

/// What a database is to its lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It gives commits their numbers.
    Primary,
    /// It takes them from a primary.
    Standby,
    /// It was a primary, and has learned that another one is.
    Deposed,
}

/// The beginning of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) epoch: u64,
    /// The last commit of the epochs before.
    pub(crate) after: u64,
    /// Changes of definitions in the epochs before.
    pub(crate) changes: u64,
    /// Tells two promotions to one epoch from each other.
    pub(crate) token: u64,
}

impl Fence {
    /// Of a lineage that begins.
    pub(crate) const FIRST: Fence = Fence { epoch: 1, after: 0, changes: 0, token: 0 };

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        [self.epoch, self.after, self.changes, self.token].iter().for_each(|&n| put_u64(out, n));
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Fence> {
        Some(Fence { epoch: r.u64()?, after: r.u64()?, changes: r.u64()?, token: r.u64()? })
    }
}

pub(crate) fn put_fences(fences: &[Fence], out: &mut Vec<u8>) {
    put_varint(out, fences.len() as u64);
    fences.iter().for_each(|fence| fence.put(out));
}

/// At least one, in order.
pub(crate) fn read_fences(r: &mut Reader<'_>) -> Option<Vec<Fence>> {
    let count = r.varint().filter(|&n| n <= MAX_FENCES)?;
    let fences: Vec<Fence> = (0..count).map(|_| Fence::read(r)).collect::<Option<_>>()?;
    are_sane(&fences).then_some(fences)
}

/// Whether these can be the fences of a lineage.
fn are_sane(fences: &[Fence]) -> bool {
    let in_order =
        fences.is_sorted_by(|a, b| a.epoch < b.epoch && a.after <= b.after && a.changes <= b.changes);
    let sane = |fence: &Fence| fence.epoch <= MAX_EPOCH && fence.after <= MAX_GSN && fence.changes <= MAX_GSN;
    let few = fences.len() as u64 <= MAX_FENCES;
    few && in_order && fences.first().is_some_and(|first| first.epoch > 0) && fences.iter().all(sane)
}

/// A change of a table's definition, as it is kept and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) number: u64,
    /// No commit up to this one knows the change, none behind it the definition of before.
    pub(crate) after: u64,
    pub(crate) table: u32,
    /// The number that the next table will have.
    pub(crate) next_table: u32,
    /// `None` if the table was dropped.
    pub(crate) schema: Option<Schema>,
}

impl Change {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.number);
        put_u64(out, self.after);
        put_u32(out, self.table);
        put_u32(out, self.next_table);
        out.push(u8::from(self.schema.is_some()));
        self.schema.iter().for_each(|schema| schema.encode(out));
    }

    pub(crate) fn read(r: &mut Reader<'_>, format: u32) -> Option<Change> {
        let (number, after, table, next_table) = (r.u64()?, r.u64()?, r.u32()?, r.u32()?);
        let schema = if r.u8()? == 0 { None } else { Some(Schema::decode(r, format)?) };
        Some(Change { number, after, table, next_table, schema })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub(crate) id: Identity,
    pub(crate) role: Role,
    /// Of a standby: it takes nothing of an epoch below this. Of a deposed one: the epoch that
    /// deposed it.
    pub(crate) fenced: u64,
    /// Of all epochs, the first one's included.
    pub(crate) fences: Vec<Fence>,
    /// Changes are kept: there are standbys, or were.
    pub(crate) recorded: bool,
    /// Changes of definitions since they are counted.
    pub(crate) last_change: u64,
    /// The last ones.
    pub(crate) changes: Vec<Change>,
}

impl Lineage {
    /// A lineage of its own, for a database with this identity.
    pub(crate) fn new(id: Identity) -> Lineage {
        Lineage {
            id,
            role: Role::Primary,
            fenced: 0,
            fences: vec![Fence::FIRST],
            recorded: false,
            last_change: 0,
            changes: Vec::new(),
        }
    }

    /// The fence of the epoch that it is in.
    pub(crate) fn fence(&self) -> Fence {
        self.fences.last().copied().unwrap_or(Fence::FIRST)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.fence().epoch
    }

    /// A fence that begins `epoch` behind commit `after`.
    pub(crate) fn next_fence(&self, epoch: u64, after: u64) -> Fence {
        Fence { epoch, after, changes: self.last_change, token: random() }
    }

    /// Forgets epochs of which it has heard, and to whose beginning it has not come: the last
    /// commit here is `after`. What follows goes on from that, and never was a part of them.
    pub(crate) fn forget_epochs_behind(&mut self, after: u64) {
        let changes = self.last_change;
        self.fences.retain(|fence| fence.after <= after && fence.changes <= changes);
    }

    /// Whether no further epoch can begin behind commit `after`.
    pub(crate) fn is_full(&self, after: u64) -> bool {
        let mut next = self.clone();
        next.forget_epochs_behind(after);
        next.fences.len() as u64 >= MAX_FENCES
    }

    /// What has become of a copy of it in another directory: of a standby a standby, else a
    /// database with a lineage of its own, for both may go on.
    pub(crate) fn of_copy(&self, id: Identity) -> Lineage {
        if self.role == Role::Standby { self.clone() } else { Lineage::new(id) }
    }

    /// Notes a change of a table's definition that came behind commit `after`.
    pub(crate) fn note(&mut self, after: u64, table: u32, next_table: u32, schema: Option<Schema>) {
        if !self.recorded {
            return;
        }
        let before = self.changes.last().map_or(0, |change| change.after);
        self.last_change += 1;
        let change = Change { number: self.last_change, after: after.max(before), table, next_table, schema };
        self.changes.push(change);
        let many = self.changes.len().saturating_sub(MANY_CHANGES);
        self.changes.drain(..many);
    }

    /// Forgets the changes that nobody asks for who has every commit up to `gsn`, and all changes up
    /// to number `known`: the last commits may have gone out before a change that was stated later.
    pub(crate) fn forget_changes(&mut self, gsn: u64, known: u64) {
        self.changes.retain(|change| change.after >= gsn || change.number > known);
    }

    /// At an opening: commits behind `cut` are gone, and what followed them follows the cut.
    pub(crate) fn cut_at(&mut self, cut: u64) {
        self.changes.iter_mut().for_each(|change| change.after = change.after.min(cut));
    }

    /// Change number `number`, if it was made. An error if it is not kept any more.
    pub(crate) fn change(&self, number: u64) -> Result<Option<&Change>, ()> {
        if number > self.last_change {
            return Ok(None);
        }
        let first = self.last_change - self.changes.len() as u64 + 1;
        let at = number.checked_sub(first).ok_or(())?;
        self.changes.get(at as usize).map(Some).ok_or(())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        out.push(match self.role {
            Role::Primary => 0,
            Role::Standby => 1,
            Role::Deposed => 2,
        });
        put_u64(out, self.fenced);
        put_fences(&self.fences, out);
        out.push(u8::from(self.recorded));
        put_u64(out, self.last_change);
        put_varint(out, self.changes.len() as u64);
        self.changes.iter().for_each(|change| change.put(out));
    }

    pub(crate) fn decode(r: &mut Reader<'_>, format: u32) -> Option<Lineage> {
        let id = Identity::read(r)?;
        let role = match r.u8()? {
            0 => Role::Primary,
            1 => Role::Standby,
            2 => Role::Deposed,
            _ => return None,
        };
        let (fenced, fences) = (r.u64()?, read_fences(r)?);
        let (recorded, last_change) = (r.u8()? != 0, r.u64()?);
        let count = r.varint()?;
        let changes: Vec<Change> = (0..count).map(|_| Change::read(r, format)).collect::<Option<_>>()?;
        let lineage = Lineage { id, role, fenced, fences, recorded, last_change, changes };
        lineage.is_sane().then_some(lineage)
    }

    pub(crate) fn is_sane(&self) -> bool {
        let first = self.last_change.checked_sub(self.changes.len() as u64);
        are_sane(&self.fences)
            && self.last_change <= MAX_GSN
            && first.is_some_and(|first| {
                (first + 1..).zip(&self.changes).all(|(number, change)| change.number == number)
            })
            && self.changes.is_sorted_by(|a, b| a.after <= b.after)
            && self.changes.iter().all(|change| change.after <= MAX_GSN)
    }

    /// Whether this may be stated after `before` in one life: nothing is taken back.
    pub(crate) fn follows(&self, before: &Lineage) -> bool {
        self.id == before.id
            && self.epoch() >= before.epoch()
            && self.fenced >= before.fenced
            && self.last_change >= before.last_change
            && self.recorded >= before.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::ColumnType;

    fn sample() -> Lineage {
        let mut lineage = Lineage::new(Identity::random());
        lineage.note(3, 1, 2, None);
        assert_eq!((lineage.last_change, lineage.changes.len()), (0, 0), "nobody asks for it");
        lineage.recorded = true;
        let schema = Schema::new("t").column("a", ColumnType::Int64).primary_key(&["a"]);
        lineage.note(5, 1, 2, Some(schema));
        lineage.note(9, 1, 2, None);
        lineage.fences.push(lineage.next_fence(4, 9));
        lineage
    }

    #[test]
    fn a_lineage_reads_back_whole_or_not_at_all() {
        let lineage = sample();
        let mut bytes = Vec::new();
        lineage.encode(&mut bytes);
        let format = u32::MAX;
        assert_eq!(Lineage::decode(&mut Reader::new(&bytes), format), Some(lineage));
        for cut in 0..bytes.len() {
            assert_eq!(Lineage::decode(&mut Reader::new(&bytes[..cut]), format), None, "{cut}");
        }
    }

    /// A standby that has heard of an epoch, and is behind its beginning, is promoted: what it then
    /// states has to be in order, or nobody can read it again.
    #[test]
    fn epochs_that_a_promotion_forgets_are_those_it_has_not_come_to() {
        let mut lineage = sample();
        let (first, second) = (lineage.fences[0], lineage.fences[1]);
        lineage.forget_epochs_behind(9);
        assert_eq!(lineage.fences, [first, second], "it has all that came before");
        lineage.last_change -= 1;
        lineage.forget_epochs_behind(9);
        assert_eq!(lineage.fences, [first], "a change that came before is missing");
        lineage.fences.push(second);
        lineage.last_change += 1;
        lineage.forget_epochs_behind(8);
        lineage.fences.push(lineage.next_fence(5, 8));
        let mut bytes = Vec::new();
        lineage.encode(&mut bytes);
        assert_eq!(Lineage::decode(&mut Reader::new(&bytes), u32::MAX), Some(lineage));
    }

    #[test]
    fn changes_are_found_by_number_until_they_are_forgotten() {
        let mut lineage = sample();
        let after = |found: Result<Option<&Change>, ()>| found.map(|found| found.map(|change| change.after));
        assert_eq!(after(lineage.change(1)), Ok(Some(5)));
        assert_eq!(after(lineage.change(2)), Ok(Some(9)));
        assert_eq!(after(lineage.change(3)), Ok(None));
        lineage.cut_at(7);
        assert_eq!(after(lineage.change(2)), Ok(Some(7)), "it follows what is left");
        lineage.forget_changes(9, 0);
        assert_eq!(after(lineage.change(1)), Ok(Some(5)), "who asks for it has later commits already");
        lineage.forget_changes(6, 2);
        assert_eq!((after(lineage.change(1)), after(lineage.change(2))), (Err(()), Ok(Some(7))));
        for table in 0..1000 {
            lineage.note(10, table, 1000, None);
        }
        assert!(lineage.is_sane() && lineage.changes.len() == MANY_CHANGES);
    }
}
