//! Device models: what parses must give times that are times.

use fathom_device::{Operation, Timeline, own_model, presets, text_of};
use fathom_fuzz::{Fuzz, mutate};

const WORDS: &[&str] = &[
    "name",
    "title",
    "kind",
    "sources",
    "assumptions",
    "channels",
    "streams",
    "sector_bytes",
    "tear_bytes",
    "random_us",
    "sequential_us",
    "mb_per_s",
    "base_us",
    "per_dirty_kib_us",
    "kib",
    "write_us",
    "drain_mb_per_s",
    "every_mib",
    "us",
    "sd",
    "emmc",
    "ufs",
    "flash",
    "protected",
    "disk",
    "none",
    "[read]",
    "[write]",
    "[flush]",
    "[cache]",
    "[stall]",
];

#[test]
fn models_are_read_or_refused() {
    let target = Fuzz::new("models::models_are_read_or_refused", 10_000).memory(1 << 20, 400);
    let seeds: Vec<&str> = presets().iter().filter_map(|model| text_of(&model.name)).collect();
    assert!(seeds.len() > 5);
    target.run(
        |random| {
            let seed = *random.pick(&seeds);
            let times = 1 + random.below(4);
            let text = mutate::text(random, seed, times, WORDS, &seeds);
            let length = text.len();
            (text, length)
        },
        |text| {
            let model = match own_model("mine.toml", text) {
                Ok(model) => model,
                Err(error) if error.line == 0 || error.message.is_empty() => {
                    return Err(format!("no line or no reason: {error:?}"));
                }
                Err(_) => return Ok(()),
            };
            let short = model.in_short();
            let mut device = Timeline::new(model, 7);
            let mut now = 0_u64;
            for step in 0..24_u64 {
                let operation = [
                    Operation::Write,
                    Operation::Read,
                    Operation::Write,
                    Operation::Flush,
                    Operation::Discard,
                ][(step % 5) as usize];
                let service =
                    device.submit(now, operation, step.wrapping_mul(7919) % 1009 * 4096, 4096 << (step % 9));
                if service.start_ns < now || service.finish_ns < service.start_ns {
                    return Err(format!("{short}: asked at {now}, {service:?}"));
                }
                let dirty = device.dirty_bytes_at(service.finish_ns);
                if !dirty.is_finite() || dirty < 0.0 {
                    return Err(format!("{short}: {dirty} dirty bytes"));
                }
                now = if step % 3 == 0 { now.saturating_add(1000) } else { service.finish_ns };
            }
            Ok(())
        },
    );
}
