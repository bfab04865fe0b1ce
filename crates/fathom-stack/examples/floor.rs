//! What one 4 KiB write + fdatasync costs on each file system that this machine can make, over
//! fresh images: `cargo run --release -p fathom-stack --example floor [DIRECTORY] [SAMPLES]
//! [SIZE_MIB]`

use std::time::Instant;

use fathom_stack::{Stack, StackSpec, available_filesystems, floor_probe};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().unwrap_or_else(|| ".".into());
    let samples = words.next().map_or(Ok(500), |n| n.parse())?;
    let size_mib = words.next().map_or(Ok(512), |n| n.parse())?;
    println!(
        "{:12} {:>8} {:>9} {:>9} {:>9} {:>9}  stack",
        "file system", "up ms", "p10 µs", "p50 µs", "p90 µs", "max µs"
    );
    for filesystem in available_filesystems().into_iter().filter(|f| f.present) {
        let spec = StackSpec {
            place: filesystem.filesystem.as_str().into(),
            size_mib,
            directory: Some(directory.clone().into()),
            ..StackSpec::default()
        };
        let start = Instant::now();
        let stack = Stack::up(&spec, "floor example")?;
        let up_ms = start.elapsed().as_millis();
        let floor = floor_probe(stack.path(), samples)?;
        let [p10, p50, p90, max] =
            [floor.p10_ns, floor.median_ns, floor.p90_ns, floor.max_ns].map(|ns| ns as f64 / 1e3);
        println!(
            "{:12} {up_ms:>8} {p10:>9.1} {p50:>9.1} {p90:>9.1} {max:>9.1}  {}",
            filesystem.filesystem,
            stack.record().device
        );
        stack.down()?;
    }
    Ok(())
}
