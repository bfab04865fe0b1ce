//! `kill -9` of a real process under load: what it reported as acknowledged is there afterwards.
//! `MMDB_KILLS` sets how often (20 by default).
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Options, Schema, Value};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn options() -> Options {
    Options { streams: 2, segment_bytes: 256 << 10, checkpoint_log_bytes: 512 << 10, ..Options::default() }
}

/// The child: four threads count upwards, each in its own row, and print every acknowledged count.
fn child(dir: &Path) {
    let db = Database::open(dir, options()).unwrap();
    let t = db.table("t").or_else(|_| {
        let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        db.create_table(s.column("pad", ColumnType::VarBytes(300)).primary_key(&["id"]))
    });
    let t = t.unwrap();
    std::thread::scope(|s| {
        for id in 0..4i64 {
            let (db, t) = (&db, &t);
            s.spawn(move || {
                loop {
                    let n = db
                        .run(|tx| {
                            let n = tx.get(t, &[id.into()])?.map_or(0, |r| r.at(1).as_int().unwrap()) + 1;
                            let pad = vec![n as u8; 1 + n as usize % 250];
                            // Twice the same number: a transaction cut in half would show.
                            tx.upsert(t, &[id.into(), n.into(), Value::Bytes(&pad)])?;
                            tx.upsert(t, &[(id + 100).into(), n.into(), Value::Bytes(&pad)])?;
                            Ok::<_, mmdb::Error>(n)
                        })
                        .unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "ack {id} {n}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    if let Ok(dir) = std::env::var("MMDB_KILL_CHILD") {
        child(Path::new(&dir));
        return;
    }
    let kills: u32 = std::env::var("MMDB_KILLS").ok().and_then(|v| v.parse().ok()).unwrap_or(20);
    let dir = std::env::temp_dir().join(format!("mmdb-kill-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut last = [0i64; 4];
    for round in 0..kills {
        let mut p = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_process_loses_nothing_it_acknowledged", "--nocapture"])
            .env("MMDB_KILL_CHILD", &dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(p.stdout.take().unwrap());
        let (all_count, counting) = std::sync::mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            let mut last = [0i64; 4];
            for line in out.lines().map_while(Result::ok) {
                let mut words = line.split_whitespace();
                if words.next() == Some("ack")
                    && let (Some(id), Some(n)) = (words.next(), words.next())
                    && let (Ok(id), Ok(n)) = (id.parse::<usize>(), n.parse())
                {
                    last[id] = n;
                    if last.iter().all(|&n| n > 0) {
                        // Full once nobody waits for it any more.
                        let _ = all_count.try_send(());
                    }
                }
            }
            last
        });
        // Every third life may end while it is still opening; in the others all threads count,
        // however slow the machine.
        if round % 3 != 0 {
            let _ = counting.recv_timeout(Duration::from_secs(60));
        }
        std::thread::sleep(Duration::from_millis(20 + u64::from(round * 37 % 100)));
        p.kill().unwrap();
        p.wait().unwrap();
        let seen = reader.join().unwrap();
        for (l, s) in last.iter_mut().zip(seen) {
            *l = (*l).max(s);
        }
        let db = Database::open(&dir, options()).unwrap();
        db.verify().unwrap();
        let Ok(t) = db.table("t") else { continue };
        let mut tx = db.begin().unwrap();
        for id in 0..4 {
            let n = |tx: &mut mmdb::Transaction<'_>, id: i64| {
                tx.get(&t, &[id.into()]).unwrap().map_or(0, |r| r.at(1).as_int().unwrap())
            };
            let (a, b) = (n(&mut tx, id), n(&mut tx, id + 100));
            assert_eq!(a, b, "round {round}: half a transaction");
            assert!(a >= last[id as usize], "round {round}: {a} recovered, {last:?} acknowledged");
            last[id as usize] = a;
        }
    }
    assert!(last.iter().all(|&n| n > 0), "the child did nothing: {last:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}
