//! Writes reports of synthetic results into a directory:
//! `cargo run -p fathom-report --example synthetic -- DIR`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::path::PathBuf::from(std::env::args().nth(1).ok_or("usage: synthetic DIR")?);
    std::fs::create_dir_all(&directory)?;
    type Make = fn(&std::path::Path);
    let all: [(&str, Make); 7] = [
        ("first-look", fixture::first_look),
        ("modelled", fixture::modelled_wide),
        ("journal-modes", |p| fixture::journal_modes(p, 1.0)),
        ("update-cost", |p| fixture::update_cost(p, 100)),
        ("time-split", fixture::time_split),
        ("hostile", fixture::hostile),
        ("blocks", |p| fixture::blocks(p, 200_000)),
    ];
    for (name, make) in all {
        let db = directory.join(format!("{name}.db"));
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(directory.join(format!("{name}.db{suffix}")));
        }
        make(&db);
        let results = fathom_lab::store::Results::load(&db)?;
        fathom_report::write_whole(&directory.join(format!("{name}.html")), &[], |out| {
            fathom_report::html(&results, out)
        })?;
        for (id, _) in fathom_report::figures(&results)? {
            let svg = fathom_report::figure_svg(&results, &id)?;
            std::fs::write(directory.join(format!("{name}-{id}.svg")), svg)?;
        }
        let style = fathom_report::Style { width: 110, unicode: true, colour: false };
        println!("== {name}\n{}", fathom_report::terminal(&results, &style)?);
    }
    Ok(())
}
