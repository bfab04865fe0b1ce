//! Writes reports of synthetic results into a directory: `cargo run -p fathom-report --example synthetic -- DIR`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::path::PathBuf::from(std::env::args().nth(1).ok_or("usage: synthetic DIR")?);
    std::fs::create_dir_all(&directory)?;
    type Make = fn(&std::path::Path);
    let all: [(&str, Make); 5] = [
        ("first-look", fixture::first_look),
        ("journal-modes", |p| fixture::journal_modes(p, 1.0)),
        ("update-cost", |p| fixture::update_cost(p, 100)),
        ("time-split", fixture::time_split),
        ("hostile", fixture::hostile),
    ];
    for (name, make) in all {
        let db = directory.join(format!("{name}.db"));
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(directory.join(format!("{name}.db{suffix}")));
        }
        make(&db);
        let results = fathom_lab::store::Results::load(&db)?;
        let mut page =
            std::io::BufWriter::new(std::fs::File::create(directory.join(format!("{name}.html")))?);
        fathom_report::html(&results, &mut page)?;
    }
    Ok(())
}
