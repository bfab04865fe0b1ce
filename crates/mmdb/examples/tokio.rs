//! Commits from tasks of a tokio runtime, which is never blocked by the disk.
//!
//! A transaction itself works in memory and takes microseconds, so a task runs it as it is, with
//! `run_with`, and awaits the ticket: meanwhile the thread runs other tasks, whose commits go to the
//! disk with the same flush. No lock is held while a ticket is awaited. What can block a thread:
//!
//! - a lock that a transaction of another thread has, for as long as that one takes; with a runtime
//!   of one thread there is none. Long transactions, such as scans of large tables, belong into
//!   `spawn_blocking`, or read a snapshot, which takes no locks;
//! - `begin` and `run_with` while 16 MiB are unflushed, or a checkpoint has to make room in the log;
//! - opening, closing, dropping the last handle, `checkpoint`, `backup` and changes of definitions.
//!
//! A ticket that is dropped undoes nothing: the commit is made.
//!
//! `cargo run -p mmdb --example tokio`

use mmdb::{ColumnType, Database, Durability, Error, Options, Schema, Table, Value};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

const TASKS: i64 = 64;
const TRANSFERS: i64 = 50;

/// What the tasks did.
#[derive(Debug)]
pub struct Report {
    /// Commits, that of the accounts' creation too.
    pub commits: u64,
    /// Flushes of the log that made them durable.
    pub flushes: u64,
    /// Most commits that were awaited at once, all by one thread.
    pub most_awaited: usize,
    /// What all accounts have together.
    pub total: i64,
}

/// Moves 1 from one account to another, and returns once no power cut can take that back.
async fn transfer(
    db: &Database,
    accounts: &Table,
    (from, to): (i64, i64),
    awaited: &AtomicUsize,
) -> Result<usize, Error> {
    let ((), ticket) = db.run_with(Durability::Durable, |tx| {
        for (id, change) in [(from, -1), (to, 1)] {
            let balance = tx.get_with(accounts, &[id.into()], |row| row.at(1).as_int())?.flatten();
            let set = [("balance", Value::Int(balance.unwrap_or(0) + change))];
            tx.update(accounts, &[id.into()], &set)?;
        }
        Ok::<_, Error>(())
    })?;
    let now = awaited.fetch_add(1, Ordering::Relaxed) + 1;
    let durable = ticket.await;
    awaited.fetch_sub(1, Ordering::Relaxed);
    durable.map(|_| now)
}

/// All tasks on one thread.
pub fn run(dir: &Path) -> Result<Report, Box<dyn std::error::Error>> {
    let db = Database::open(dir, Options::default())?;
    let accounts = db.create_table(
        Schema::new("account")
            .column("id", ColumnType::Int64)
            .column("balance", ColumnType::Int64)
            .primary_key(&["id"]),
    )?;
    db.run(|tx| (0..TASKS).try_for_each(|id| tx.insert(&accounts, &[id.into(), 1000.into()])))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let most_awaited = runtime.block_on(async {
        let awaited = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (db, accounts, awaited) = (db.clone(), accounts.clone(), awaited.clone());
            tasks.spawn(async move {
                let mut most = 0;
                for n in 0..TRANSFERS {
                    let to = (task + n + 1) % TASKS;
                    most = most.max(transfer(&db, &accounts, (task, to), &awaited).await?);
                }
                Ok::<_, Error>(most)
            });
        }
        let mut most = 0;
        while let Some(done) = tasks.join_next().await {
            most = most.max(done??);
        }
        Ok::<_, Box<dyn std::error::Error>>(most)
    })?;
    let stats = db.stats();
    let mut total = 0;
    for row in db.snapshot()?.scan(&accounts)? {
        total += row?.at(1).as_int().unwrap_or(0);
    }
    drop(accounts);
    // Closing waits for the disk: not in a task.
    db.close()?;
    Ok(Report { commits: stats.commits, flushes: stats.flushes, most_awaited, total })
}

/// Runs the tasks on a database in a directory of its own.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("mmdb-tokio-{}", std::process::id()));
    let done = run(&dir);
    std::fs::remove_dir_all(&dir)?; // an example leaves nothing behind
    println!("{:?}", done?);
    Ok(())
}
