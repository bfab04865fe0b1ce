//! The generations of a table's columns: what its rows had before columns were added and dropped.
//!
//! A column that comes or goes begins a new generation, and no row is rewritten: each one says in
//! its slot which generation it was written in. Whoever reads an earlier one gets it in the columns
//! of today: those that are still there, found by a number that a column keeps for its whole life,
//! and the default of those that came later. A row that is changed is written anew, in the
//! generation of that moment.
//!
//! Rewriting the table instead was measured (`docs/measurements.md`): it holds the table and logs
//! every row; an earlier row costs its readers more, until it is changed.

use crate::codec::{Reader, put_bytes, put_u16, put_varint};
use crate::column::{Column, ColumnType};

/// Generations have numbers below this: their place in a slot's head has 14 bits.
pub(crate) const MAX_GENERATIONS: u16 = 1 << 14;

/// A column as an earlier generation had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastColumn {
    /// The number that the column has for its whole life.
    pub(crate) id: u32,
    pub(crate) kind: ColumnType,
    pub(crate) nullable: bool,
}

/// An earlier generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastGeneration {
    pub(crate) number: u16,
    pub(crate) columns: Vec<PastColumn>,
}

/// All generations of one table. That of a table whose columns never changed is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generations {
    /// In which rows are written now.
    pub(crate) now: u16,
    /// The next column's number.
    next: u32,
    /// The numbers of today's columns; none while they are 0, 1, 2 …
    ids: Vec<u32>,
    /// What columns that were added have in the rows of before: their number, and a row of this
    /// column alone.
    defaults: Vec<(u32, Vec<u8>)>,
    /// Those that rows may have been written in, rising.
    pub(crate) past: Vec<PastGeneration>,
}

impl Generations {
    /// The number of the column at position `at`.
    pub(crate) fn id(&self, at: usize) -> u32 {
        self.ids.get(at).copied().unwrap_or(at as u32)
    }

    /// The default of the column with this number, as a row of it alone.
    pub(crate) fn default_of(&self, id: u32) -> Option<&[u8]> {
        self.defaults.iter().find(|(column, _)| *column == id).map(|(_, row)| &row[..])
    }

    /// Most bytes by which a row of the first generation is longer in today's columns. Wherever a
    /// default stands, it takes at most two bytes more than alone: of the null bitmap.
    pub(crate) fn most_added(&self) -> usize {
        self.defaults.iter().map(|(_, row)| row.len() + 2).sum()
    }

    /// Whether another one can begin.
    pub(crate) fn are_full(&self) -> bool {
        self.now + 1 >= MAX_GENERATIONS
    }

    /// Ends the generation of the columns `columns`.
    fn end(&mut self, columns: &[Column]) {
        assert!(!self.are_full(), "generations are numbered in 14 bits");
        if self.ids.is_empty() {
            self.ids = (0..columns.len() as u32).collect();
            self.next = columns.len() as u32;
        }
        let past = columns.iter().zip(&self.ids);
        let past = past.map(|(c, &id)| PastColumn { id, kind: c.kind, nullable: c.nullable });
        self.past.push(PastGeneration { number: self.now, columns: past.collect() });
        self.now += 1;
    }

    /// A column is added behind the columns `columns`, which has `default` in all rows so far.
    pub(crate) fn add(&mut self, columns: &[Column], default: Vec<u8>) {
        self.end(columns);
        self.ids.push(self.next);
        self.defaults.push((self.next, default));
        self.next += 1;
    }

    /// The column at position `at` of the columns `columns` is dropped.
    pub(crate) fn remove(&mut self, columns: &[Column], at: usize) {
        self.end(columns);
        let id = self.ids.remove(at);
        self.defaults.retain(|(column, _)| *column != id);
    }

    /// Forgets the generations in which no row was written that is there: `used` says which are.
    pub(crate) fn forget_unused(&mut self, used: impl Fn(u16) -> bool) {
        self.past.retain(|past| used(past.number));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_u16(out, self.now);
        if self.now == 0 {
            return;
        }
        put_varint(out, self.next.into());
        self.ids.iter().for_each(|&id| put_varint(out, id.into()));
        put_varint(out, self.defaults.len() as u64);
        for (id, row) in &self.defaults {
            put_varint(out, (*id).into());
            put_bytes(out, row);
        }
        put_varint(out, self.past.len() as u64);
        for past in &self.past {
            put_u16(out, past.number);
            put_varint(out, past.columns.len() as u64);
            for c in &past.columns {
                put_varint(out, c.id.into());
                c.kind.encode(out);
                out.push(c.nullable.into());
            }
        }
    }

    /// Those of a table that has `columns` columns.
    pub(crate) fn decode(r: &mut Reader<'_>, columns: usize) -> Option<Generations> {
        let mut g = Generations { now: r.u16()?, ..Generations::default() };
        if g.now == 0 {
            return Some(g);
        }
        let number = |r: &mut Reader<'_>| u32::try_from(r.varint()?).ok();
        g.next = number(r)?;
        for _ in 0..columns {
            g.ids.push(number(r)?);
        }
        for _ in 0..r.varint()? {
            g.defaults.push((number(r)?, r.bytes()?.to_vec()));
        }
        for _ in 0..r.varint()? {
            let mut past = PastGeneration { number: r.u16()?, columns: Vec::new() };
            for _ in 0..r.varint()? {
                let (id, kind) = (number(r)?, ColumnType::decode(r)?);
                past.columns.push(PastColumn { id, kind, nullable: r.u8()? != 0 });
            }
            g.past.push(past);
        }
        let is_given = |id: &u32| *id < g.next;
        let sane = g.now < MAX_GENERATIONS
            && g.ids.iter().all(is_given)
            && g.past.is_sorted_by(|a, b| a.number < b.number)
            && g.past.iter().all(|past| past.number < g.now);
        sane.then_some(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_read_back() {
        let column = |name: &str, kind| Column { name: name.into(), kind, nullable: false };
        let mut columns = vec![column("a", ColumnType::Int16), column("b", ColumnType::VarText(9))];
        let mut g = Generations::default();
        g.add(&columns, vec![0, 7, 0]);
        columns.push(column("c", ColumnType::Int16));
        g.remove(&columns, 1);
        columns.remove(1);
        assert_eq!((g.now, g.id(0), g.id(1)), (2, 0, 2));
        assert_eq!(g.default_of(2), Some(&[0, 7, 0][..]));
        let mut b = Vec::new();
        g.encode(&mut b);
        assert_eq!(Generations::decode(&mut Reader::new(&b), columns.len()), Some(g.clone()));
        for cut in 0..b.len() {
            assert_eq!(Generations::decode(&mut Reader::new(&b[..cut]), columns.len()), None, "{cut}");
        }
        g.forget_unused(|number| number == 1);
        assert_eq!(g.past.len(), 1);
    }
}
