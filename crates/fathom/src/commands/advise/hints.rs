//! What has to be known of the settings that are named.

use fathom_lab::advise::{Candidate, DeviceAdvice};

/// What has to be known of the settings that are named, beside what the application has now: of
/// recordings that are asked again as of a trace.
pub(super) fn of_settings(baseline: &Candidate, advised: &[DeviceAdvice]) -> Vec<String> {
    let named = || advised.iter().filter_map(DeviceAdvice::best_trial).map(|trial| &trial.candidate);
    let mut all = Vec::new();
    if named().any(|candidate| candidate.more.contains_key("locking_mode")) {
        all.push(
            "locking_mode = EXCLUSIVE lets no other connection or program open the database meanwhile: not a backup, \
             not the sqlite3 shell."
                .into(),
        );
    }
    all.extend(of_cards(advised));
    // The lengths of logs that are advised, but for the application's own.
    let mut logs = named()
        .filter_map(|candidate| candidate.more.get("wal_autocheckpoint"))
        .filter(|frames| baseline.more.get("wal_autocheckpoint") != Some(*frames))
        .filter_map(|frames| frames.parse::<u64>().ok());
    if logs.clone().any(|frames| frames < 1000) {
        all.push(
            "With a short wal_autocheckpoint the log soon stops growing, and while it grows each commit costs one flush more. \
             That pays in sessions as long as the trace, for the log goes with the last connection. Whoever keeps the database \
             open for thousands of commits gains less, and may lose where checkpoints cost more: capture such a session and \
             ask again."
                .into(),
        );
    }
    if logs.any(|frames| frames >= 1000) {
        all.push(
            "A larger wal_autocheckpoint makes the log longer, and with it the first start after a crash and reads while it is long."
                .into(),
        );
    }
    all
}

/// Cards are sold with other file systems than the one that was asked for.
fn of_cards(advised: &[DeviceAdvice]) -> Option<String> {
    let is_card = |device: &&DeviceAdvice| {
        let is_called = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "sd");
        is_called(&device.device.as_deref().unwrap_or_default().to_lowercase())
            || is_called(&device.title.to_lowercase())
    };
    let trial = advised.iter().filter(is_card).find_map(DeviceAdvice::best_trial)?;
    let is_fat = ["vfat", "exfat"].contains(&trial.filesystem.as_str());
    (!is_fat).then(|| {
        format!(
            "Cards often carry FAT or exFAT, and this is for {}. On those, power cuts left databases that cannot be opened, \
             with WAL/FULL, too (docs/power-cut.md). `--fs vfat` or `--fs exfat` asks of them where this machine's kernel \
             mounts them; `fathom cut --set filesystem=vfat,exfat --set journal_mode=wal` shows what is lost anywhere.",
            trial.filesystem
        )
    })
}
