//! What the table must hold, kept in memory beside the run.

use super::record::{FIELDS, Record};
use crate::engine::Value;

/// The table as it must be: the loaded records, some with raises, some deleted.
pub struct ExpectedTable {
    seed: u64,
    /// For id `i`, at `i - 1`.
    rows: Vec<Row>,
}

/// What the totals need of a record, and what was done to it.
#[derive(Clone, Copy)]
struct Row {
    bonus: u32,
    /// The whole part of the salary as it was loaded; the other part is a quarter.
    salary: u32,
    raises: u32,
}

/// Number of rows and the sums of three columns: what one quick query can tell of a table's
/// content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Number of rows.
    pub rows: i64,
    /// Sum of `id`.
    pub ids: i64,
    /// Sum of `bonus`.
    pub bonuses: i64,
    /// Sum of `salary`: a multiple of a quarter below 2^51, so exact in a double in whatever order
    /// it is added up.
    pub salaries: f64,
}

impl ExpectedTable {
    /// An empty table of this seed.
    pub fn new(seed: u64, capacity: usize) -> Self {
        ExpectedTable { seed, rows: Vec::with_capacity(capacity) }
    }

    /// The next record to insert.
    pub fn append(&mut self) -> [Value; FIELDS] {
        let record = Record::of(self.seed, self.rows.len() as i64 + 1);
        self.rows.push(Row { bonus: record.bonus as u32, salary: record.salary as u32, raises: 0 });
        record.values()
    }

    /// Forgets all records after the first `rows`, and all raises.
    pub fn reset(&mut self, rows: i64) {
        self.rows.truncate(rows as usize);
        self.rows.iter_mut().for_each(|row| row.raises = 0);
    }

    /// Raises the salary of the ids `first..=last` by 1.
    pub fn raise(&mut self, first: i64, last: i64) {
        for row in &mut self.rows[first as usize - 1..last as usize] {
            row.raises += 1;
        }
    }

    /// The totals of the ids `first..=last`.
    pub fn totals(&self, first: i64, last: i64) -> Totals {
        let rows = &self.rows[first as usize - 1..last as usize];
        let bonuses = rows.iter().map(|row| i64::from(row.bonus)).sum();
        let whole: u64 = rows.iter().map(|row| u64::from(row.salary) + u64::from(row.raises)).sum();
        let salaries = whole as f64 + 0.25 * rows.len() as f64;
        // The even one of the two factors is halved, so that nothing overflows and nothing is
        // rounded.
        let (count, both) = (last - first + 1, first + last);
        let ids = if count % 2 == 0 { count / 2 * both } else { both / 2 * count };
        Totals { rows: count, ids, bonuses, salaries }
    }

    /// The totals of the whole table.
    pub fn all(&self) -> Totals {
        self.totals(1, self.len())
    }

    /// Number of rows.
    pub fn len(&self) -> i64 {
        self.rows.len() as i64
    }

    /// The row that a query in the order of ids must give after the first `position` rows.
    pub fn row(&self, position: usize) -> Option<[Value; FIELDS]> {
        let raises = self.rows.get(position)?.raises;
        let mut record = Record::of(self.seed, position as i64 + 1);
        record.salary += f64::from(raises);
        Some(record.values())
    }
}

impl Totals {
    /// These without `other`.
    pub fn without(self, other: Totals) -> Totals {
        Totals {
            rows: self.rows - other.rows,
            ids: self.ids - other.ids,
            bonuses: self.bonuses - other.bonuses,
            salaries: self.salaries - other.salaries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn totals_are_the_sums_of_the_rows(seed: u64, rows in 1_i64..300, a in 1_i64..300, b in 1_i64..300) {
            let mut expected = ExpectedTable::new(seed, 300);
            for _ in 0..rows {
                expected.append();
            }
            let (first, last) = (a.min(b).min(rows), a.max(b).min(rows));
            let records: Vec<Record> = (first..=last).map(|id| Record::of(seed, id)).collect();
            let totals = expected.totals(first, last);
            prop_assert_eq!(totals.rows, records.len() as i64);
            prop_assert_eq!(totals.ids, records.iter().map(|record| record.id).sum::<i64>());
            prop_assert_eq!(totals.bonuses, records.iter().map(|record| record.bonus).sum::<i64>());
            prop_assert_eq!(totals.salaries, records.iter().map(|record| record.salary).sum::<f64>());
            expected.raise(first, last);
            prop_assert_eq!(expected.totals(first, last).salaries, totals.salaries + totals.rows as f64);
            let rest = expected.all().without(totals);
            prop_assert_eq!(rest.rows, rows - totals.rows);
        }
    }

    #[test]
    fn raises_show_in_the_rows_and_a_reset_takes_them_back() {
        let mut expected = ExpectedTable::new(1, 4);
        let loaded: Vec<_> = (0..4).map(|_| expected.append()).collect();
        expected.raise(2, 3);
        expected.raise(3, 3);
        let salary =
            |expected: &ExpectedTable, position: usize| match expected.row(position).expect("a row")[6] {
                Value::Real(salary) => salary,
                ref other => panic!("{other:?}"),
            };
        let base = ExpectedTable { seed: 1, rows: vec![Row { bonus: 0, salary: 0, raises: 0 }; 4] };
        let raised: Vec<f64> = (0..4).map(|p| salary(&expected, p) - salary(&base, p)).collect();
        assert_eq!(raised, [0.0, 1.0, 2.0, 0.0]);
        expected.reset(3);
        assert_eq!(expected.len(), 3);
        assert_eq!(expected.row(2).as_ref(), Some(&loaded[2]));
        assert_eq!(expected.row(3), None);
    }
}
