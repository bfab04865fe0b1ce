//! Blobs on a disk that drops, tears and fails: after every crash each blob is whole, and as it was
//! after the last commit that recovery found; what was waited for is among those.

use crate::rng::Rng;
use mmdb::medium::{CrashKind, CrashMedium};
use mmdb::{Blobs, Database, Durability, Error, Options, Sabotage, Stepwise};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<u64, Vec<u8>>;

const IDS: u64 = 4;

fn noise(rng: &mut Rng, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| rng.next() as u8).collect()
}

/// A change of one blob, of up to four chunks of 4,061 bytes.
fn change(
    blobs: &Blobs,
    tx: &mut mmdb::Transaction<'_>,
    model: &mut Model,
    rng: &mut Rng,
) -> mmdb::Result<()> {
    let id = rng.below(IDS);
    let length = model.get(&id).map_or(0, |b| b.len() as u64);
    match rng.below(5) {
        0 => {
            let bytes = rng.below(14_000);
            let bytes = noise(rng, bytes);
            blobs.put(tx, id, &bytes)?;
            model.insert(id, bytes);
        }
        1 => {
            blobs.delete(tx, id)?;
            model.remove(&id);
        }
        2 => {
            let to = rng.below(length + 1);
            blobs.truncate(tx, id, to)?;
            if let Some(b) = model.get_mut(&id) {
                b.truncate(to as usize);
            }
        }
        _ => {
            let (at, bytes) = (rng.below(length.min(12_000) + 1) as usize, rng.below(3000));
            let bytes = noise(rng, bytes);
            blobs.write(tx, id, at as u64, &bytes)?;
            let b = model.entry(id).or_default();
            b.resize(b.len().max(at + bytes.len()), 0);
            b[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    Ok(())
}

fn all(mut read: impl FnMut(u64) -> mmdb::Result<Option<Vec<u8>>>) -> Result<Model, String> {
    let mut found = Model::new();
    for id in 0..IDS {
        if let Some(bytes) = read(id).map_err(|e| e.to_string())? {
            found.insert(id, bytes);
        }
    }
    Ok(found)
}

fn lengths(model: &Model) -> Vec<(u64, usize)> {
    model.iter().map(|(id, b)| (*id, b.len())).collect()
}

pub fn run(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let mut rng = Rng(seed);
    let disk = CrashMedium::new(seed ^ 0xb10b);
    let options = Options {
        medium: Arc::new(disk.clone()),
        background: false,
        segment_bytes: 256 << 10,
        container_bytes: 4096,
        streams: 1 + rng.below(2) as usize,
        sabotage,
        ..Options::in_memory()
    };
    let words = |e: Error| e.to_string();
    // The blobs after each commit, by its number.
    let mut after: BTreeMap<u64, Model> = BTreeMap::from([(0, Model::new())]);
    let mut waited = 0;
    for life in 0..3 {
        let db = Database::open("/db", options.clone()).map_err(|e| format!("life {life}: {e}"))?;
        let blobs = db.blobs("b").map_err(words)?;
        let cut = db.recovery().cut;
        if cut < waited {
            return Err(format!("life {life}: the cut is {cut}, and {waited} was acknowledged"));
        }
        let (_, model) = after.range(..=cut).next_back().ok_or("nothing is known")?;
        let mut model = model.clone();
        let found = all(|id| blobs.read(&mut db.begin()?, id))?;
        if found != model {
            let (found, model) = (lengths(&found), lengths(&model));
            return Err(format!("life {life}: after commit {cut} there is {found:?}, not {model:?}"));
        }
        db.verify().map_err(words)?;
        after.retain(|gsn, _| *gsn <= cut);
        let mut moment = None;
        // Copied container by container, while blobs change.
        let mut checkpoint: Option<Stepwise<'_>> = None;
        for _ in 0..5 + rng.below(40) {
            match rng.below(12) {
                0..=3 => match checkpoint.take() {
                    None => checkpoint = Some(db.checkpoint_stepwise().map_err(words)?),
                    Some(mut c) => {
                        if c.step().map_err(words)? {
                            checkpoint = Some(c);
                        } else {
                            c.finish().map_err(words)?;
                        }
                    }
                },
                4 => moment = Some((db.snapshot().map_err(words)?, model.clone())),
                _ => {
                    let (script, mut next) = (rng.next(), Model::new());
                    let count = 1 + rng.below(3);
                    let done = db.run_with(Durability::Durable, |tx| {
                        next = model.clone();
                        let mut rng = Rng(script);
                        (0..count).try_for_each(|_| change(&blobs, tx, &mut next, &mut rng))
                    });
                    let ((), ticket) = done.map_err(words)?;
                    model = next;
                    after.insert(ticket.gsn(), model.clone());
                    if rng.one_in(2) {
                        waited = ticket.wait().map_err(words)?;
                    }
                }
            }
        }
        if let Some((moment, want)) = &moment {
            let found = all(|id| blobs.at(moment).read(id))?;
            if found != *want {
                let (found, want) = (lengths(&found), lengths(want));
                return Err(format!("life {life}: a snapshot shows {found:?}, not {want:?}"));
            }
        }
        // A backup waits for a checkpoint.
        checkpoint.filter(|_| rng.one_in(2)).map_or(Ok(()), |c| c.finish().map(drop)).map_err(words)?;
        if rng.one_in(3) {
            let path = format!("/backup-{life}");
            let done = db.backup(&path).map_err(words)?;
            let copy = Database::open(&path, Options { stream_dirs: Vec::new(), ..options.clone() });
            let copy = copy.map_err(words)?;
            let copied = copy.blobs("b").map_err(words)?;
            let found = all(|id| copied.read(&mut copy.begin()?, id))?;
            let (_, want) = after.range(..=done.gsn).next_back().ok_or("nothing is known")?;
            if found != *want {
                return Err(format!(
                    "life {life}: a backup has {:?}, not {:?}",
                    lengths(&found),
                    lengths(want)
                ));
            }
        }
        drop(moment);
        disk.crash(rng.of(&[CrashKind::Kill, CrashKind::Power]));
    }
    Ok(())
}
