//! What a salvage holds of the log while it reads it, and of what it cannot read.

use super::*;
use crate::{ColumnType, Database};

/// A salvage reads the log twice: first to see how far it goes, then to apply that. Each time it
/// kept all segments that it did not apply until the end, so that a log larger than the memory
/// could not be salvaged.
#[test]
fn a_salvage_holds_no_log_that_it_does_not_apply() {
    let options = Options { segment_bytes: 16384, container_bytes: 4096, ..Options::in_memory() };
    let options = Options { background: false, ..options };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    // Each has a block of its own, and three of them a segment.
    (0..40i64).for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap());
    drop((t, db));
    for recovery_threads in [1, 3] {
        let options = Options { recovery_threads, ..options.clone() };
        let mut locks = Locks::default();
        let found = Survey::take("/db".as_ref(), &options, Purpose::Read, &mut locks).unwrap();
        let Survey { manifest: Some(manifest), homes } = found else { panic!("there is a database") };
        assert!(homes[0].numbers.len() > 10);
        // Without its table nothing has to be put anywhere.
        let tables: Vec<Option<Arc<TableInner>>> = (0..manifest.next_table).map(|_| None).collect();
        let mut first = Replay::new(&options, &homes, &manifest, &tables, true);
        first.run(false).unwrap();
        assert_eq!((first.cut(), first.pending.len(), first.frames), (40, 0, 40));
        let mut second = Replay::new(&options, &homes, &manifest, &tables, true);
        second.limit = Some(5);
        second.run(true).unwrap();
        assert_eq!((second.cut(), second.pending.len(), second.dropped), (40, 0, 35));
        // One segment is read ahead, one waits, and one is looked at.
        let held = second.spare.lock().unwrap().len();
        assert!(held <= 4, "{held} segments are in memory");
    }
}

/// Each row that could not be read was a problem of its own: a list as large as the table.
#[test]
fn unreadable_rows_of_a_container_are_counted() {
    let options = Options { segment_bytes: 16384, container_bytes: 4096, ..Options::in_memory() };
    let options = Options { background: false, ..options };
    let db = Database::open("/db", options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    db.run(|tx| (0..100i64).try_for_each(|id| tx.insert(&t, &[id.into()]))).unwrap();
    db.checkpoint().unwrap();
    drop((t, db));
    // No slot can have seen so many changes.
    let (medium, dir) = (&*options.medium, std::path::Path::new("/db"));
    let mut m = crate::manifest::Manifest::load(medium, dir).unwrap().unwrap();
    let c = m.checkpoint.as_mut().unwrap();
    let file = medium.open(&dir.join(crate::manifest::image_name(c.side))).unwrap();
    let mut slots = 0;
    for i in &mut c.images {
        let (mut image, at) = (vec![0; 4096], u64::from(i.image) * 4096);
        file.read_at(at, &mut image).unwrap();
        for slot in image.chunks_exact_mut(crate::container::CLASSES[usize::from(i.class)]) {
            slot[..8].fill(0xff);
            slots += 1;
        }
        file.write_at(at, &image).unwrap();
        i.crc = crc32c::crc32c(&image);
    }
    let containers = c.images.len();
    m.store(medium, dir).unwrap();
    let saved = crate::salvage("/db", "/saved", &options).unwrap();
    assert_eq!(saved.rows, 0, "{:?}", saved.problems);
    let named = saved.problems.iter().filter(|p| p.contains("unreadable row in container")).count();
    let number = |p: &String| p.split_once(" more unreadable")?.0.rsplit(' ').next()?.parse::<usize>().ok();
    let counted: usize = saved.problems.iter().filter_map(number).sum();
    assert_eq!((named, named + counted), (16 * containers, slots), "{:?}", saved.problems);
}
