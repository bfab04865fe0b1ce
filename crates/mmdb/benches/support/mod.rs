//! What the benchmarks share: a directory, rounds, medians.
// Each benchmark uses a part of it.
#![allow(dead_code)]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of its own, which goes when this is dropped.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static N: AtomicU64 = AtomicU64::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let base = std::env::var_os("MMDB_BENCH_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let dir = base.join(format!("mmdb-bench-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The upper of the two in the middle, if there are two.
pub fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// Rounds of every table: in each, every row is measured once, one after the other, so that a slow
/// phase of the disk or of the machine meets all of them.
pub fn rounds() -> usize {
    std::env::var("MMDB_BENCH_ROUNDS").map_or(5, |n| n.parse().unwrap())
}

/// Measures every row in every round; `f` returns the row's figures. The median of each figure by
/// row.
pub fn interleaved<R, const N: usize>(rows: &[R], f: impl Fn(&R) -> [f64; N]) -> Vec<[f64; N]> {
    medians(&in_rounds(rows, f))
}

/// As [`interleaved`], but all figures: of each row those of each round.
pub fn in_rounds<R, const N: usize>(rows: &[R], f: impl Fn(&R) -> [f64; N]) -> Vec<Vec<[f64; N]>> {
    let mut all = vec![Vec::new(); rows.len()];
    for _ in 0..rounds() {
        rows.iter().zip(&mut all).for_each(|(row, list)| list.push(f(row)));
    }
    all
}

pub fn medians<const N: usize>(all: &[Vec<[f64; N]>]) -> Vec<[f64; N]> {
    let of = |list: &Vec<[f64; N]>| std::array::from_fn(|i| median(list.iter().map(|x| x[i]).collect()));
    all.iter().map(of).collect()
}

/// The median over the rounds of one figure divided by that of another row in the same round, and
/// the least and the greatest.
pub fn quotient<const N: usize>(row: &[[f64; N]], base: &[[f64; N]], figure: usize) -> [f64; 3] {
    let all: Vec<f64> = row.iter().zip(base).map(|(a, b)| a[figure] / b[figure]).collect();
    let ends = all.iter().fold((f64::MAX, 0f64), |(low, high), &x| (low.min(x), high.max(x)));
    [median(all), ends.0, ends.1]
}
