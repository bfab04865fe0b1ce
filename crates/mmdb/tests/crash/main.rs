//! Crash schedules: random concurrent histories on a disk that drops, reorders, tears and fails,
//! checked after every restart.
//!
//! One schedule is one seed, and repeats exactly: all clients run on one thread, whose next step
//! the seed chooses. What happens in it: transactions that read by key, by every sort of index and
//! in ranges, and write; lazy commits by the dozen, which fill several segments before they are
//! flushed; checkpoints in steps; tables of all kinds of logging that are created and dropped, also
//! while one of the calls fails that this takes; backups, restored and compared; clean closings;
//! and at the end of each life a kill or a power cut, after which log directories are exchanged for
//! older copies of themselves, or lack their last segments. A tenth as many run with clients on
//! threads of their own, which repeat only roughly; `src/interleavings.rs` runs the same clients
//! under a scheduler that repeats them exactly.
//!
//! Half as many of a kind of their own (`alterations.rs`) change definitions of tables: columns,
//! names and indexes.
//!
//! A tenth as many of another kind (`blobs.rs`) change blobs of several chunks, and a twentieth
//! (`builds.rs`) build unique indexes beside clients whose rows share keys.
//!
//! `MMDB_CRASH_SCHEDULES` sets how many are run (5,000 by default), `MMDB_CRASH_FROM` the first
//! seed, and `MMDB_CRASH_SEED` runs one and prints its steps. Every test here heeds them, those of
//! the defects too. A failure prints the command that repeats it.
#![allow(clippy::unwrap_used)]

mod alterations;
mod backups;
mod blobs;
mod builds;
mod careless;
mod catalogue;
mod clients;
mod history;
mod keeper;
mod older;
mod rng;
mod schedule;
mod seeds;
mod table;
mod wrong;

use careless::{Careless, Omission};
use mmdb as engine;
use mmdb::medium::{CrashMedium, Medium};
use mmdb::{Options, Sabotage};
use seeds::Seeds;
use std::sync::Arc;
use std::thread::spawn;

/// Clients on threads of their own, which wait for locks and for the disk as an application's do.
fn threaded(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let disk = CrashMedium::new(seed ^ 0xabcd);
    let base = Options { sabotage, ..Options::in_memory() };
    clients::run(&clients::Plan::new(seed, 4, 12, &disk, base), &disk).map(|_| ())
}

fn as_it_is(disk: CrashMedium) -> Arc<dyn Medium> {
    Arc::new(disk)
}

const TARGET: &str = "--test crash";

#[test]
fn what_is_acknowledged_survives_every_crash() {
    let seeds = Seeds::of_environment(1);
    let name = (TARGET, "what_is_acknowledged_survives_every_crash");
    seeds.none_fails(name, 2, |seed| schedule::run(seed, Sabotage::None, as_it_is, seeds.trace));
}

#[test]
fn what_concurrent_clients_were_told_survives_every_crash() {
    let name = (TARGET, "what_concurrent_clients_were_told_survives_every_crash");
    Seeds::of_environment(10).none_fails(name, 2, |seed| threaded(seed, Sabotage::None));
}

#[test]
fn what_blobs_have_survives_every_crash_whole() {
    let name = (TARGET, "what_blobs_have_survives_every_crash_whole");
    Seeds::of_environment(10).none_fails(name, 2, |seed| blobs::run(seed, Sabotage::None));
}

#[test]
fn blobs_that_are_not_whole_after_a_crash_are_caught() {
    let name = (TARGET, "blobs_that_are_not_whole_after_a_crash_are_caught");
    for defect in [Sabotage::NoVersionFilter, Sabotage::NoSync, Sabotage::NoVersions] {
        Seeds::to_notice(1000).one_notices(name, 2, |seed| blobs::run(seed, defect));
    }
}

/// No schedule built a unique index while others committed equal keys: it must fail then, and leave
/// nothing behind.
#[test]
fn what_builds_beside_equal_keys_leave_is_whole_or_nothing() {
    let name = (TARGET, "what_builds_beside_equal_keys_leave_is_whole_or_nothing");
    Seeds::of_environment(20).none_fails(name, 2, |seed| builds::run(seed, Sabotage::None));
}

#[test]
fn an_index_beside_equal_keys_that_no_manifest_states_is_caught() {
    let name = (TARGET, "an_index_beside_equal_keys_that_no_manifest_states_is_caught");
    Seeds::to_notice(5000).one_notices(name, 2, |seed| builds::run(seed, Sabotage::AltersWithoutManifest));
}

/// The schedules must notice each defect, or they prove nothing.
fn is_caught(test: &str, sabotage: Sabotage) {
    let seeds = Seeds::to_notice(5000);
    seeds.one_notices((TARGET, test), 2, |seed| schedule::run(seed, sabotage, as_it_is, seeds.trace));
}

#[test]
fn commits_that_keep_no_versions_for_snapshots_are_caught() {
    is_caught("commits_that_keep_no_versions_for_snapshots_are_caught", Sabotage::NoVersions);
}

#[test]
fn indexes_that_keep_no_ghosts_for_snapshots_are_caught() {
    is_caught("indexes_that_keep_no_ghosts_for_snapshots_are_caught", Sabotage::NoGhosts);
}

#[test]
fn recovery_without_the_version_filter_is_caught() {
    is_caught("recovery_without_the_version_filter_is_caught", Sabotage::NoVersionFilter);
}

#[test]
fn recovery_without_the_gap_free_cut_is_caught() {
    is_caught("recovery_without_the_gap_free_cut_is_caught", Sabotage::NoGapFreeCut);
}

#[test]
fn a_checkpoint_published_before_it_is_durable_is_caught() {
    is_caught("a_checkpoint_published_before_it_is_durable_is_caught", Sabotage::NoPublishRule);
}

#[test]
fn acknowledging_before_the_sync_is_caught() {
    let name = "acknowledging_before_the_sync_is_caught";
    is_caught(name, Sabotage::NoSync);
    Seeds::to_notice(5000).one_notices((TARGET, name), 2, |seed| threaded(seed, Sabotage::NoSync));
}

/// With a thread that gets segments ready ahead, a copy of the log has the next ones, too.
#[test]
fn acknowledging_in_a_segment_before_a_manifest_says_that_it_is_begun_is_caught() {
    let name = "acknowledging_in_a_segment_before_a_manifest_says_that_it_is_begun_is_caught";
    is_caught(name, Sabotage::BeginsWithoutManifest);
    let threads = |seed| threaded(seed, Sabotage::BeginsWithoutManifest);
    Seeds::to_notice(5000).one_notices((TARGET, name), 2, threads);
}

#[test]
fn keeping_the_salt_of_the_last_life_is_caught() {
    is_caught("keeping_the_salt_of_the_last_life_is_caught", Sabotage::NoNewSalt);
}

#[test]
fn building_on_frames_that_are_only_in_the_page_cache_is_caught() {
    is_caught("building_on_frames_that_are_only_in_the_page_cache_is_caught", Sabotage::NoRecoverySync);
}

/// Definitions of tables change while the disk fails.
#[test]
fn changes_of_definitions_are_made_whole_or_not_at_all() {
    let seeds = Seeds::of_environment(2);
    let name = (TARGET, "changes_of_definitions_are_made_whole_or_not_at_all");
    seeds.none_fails(name, 2, |seed| alterations::run(seed, Sabotage::None, seeds.trace));
}

#[test]
fn changing_a_definition_without_a_manifest_is_caught() {
    let name = (TARGET, "changing_a_definition_without_a_manifest_is_caught");
    let seeds = Seeds::to_notice(5000);
    seeds.one_notices(name, 2, |seed| alterations::run(seed, Sabotage::AltersWithoutManifest, seeds.trace));
}

#[test]
fn a_change_that_could_not_be_stated_and_comes_later_is_caught() {
    let name = (TARGET, "a_change_that_could_not_be_stated_and_comes_later_is_caught");
    let seeds = Seeds::to_notice(5000);
    seeds.one_notices(name, 2, |seed| alterations::run(seed, Sabotage::AltersHalf, seeds.trace));
}

#[test]
fn stating_a_unique_index_before_its_rows_are_durable_is_caught() {
    let name = (TARGET, "stating_a_unique_index_before_its_rows_are_durable_is_caught");
    let seeds = Seeds::to_notice(5000);
    seeds.one_notices(name, 2, |seed| alterations::run(seed, Sabotage::StatesUniqueEarly, seeds.trace));
}

/// What the engine forgets to make durable must be noticed, too.
fn is_missed(test: &str, omission: Omission) {
    let seeds = Seeds::to_notice(5000);
    let wrap = |disk| Careless::over(disk, omission);
    seeds.one_notices((TARGET, test), 2, |seed| schedule::run(seed, Sabotage::None, wrap, seeds.trace));
}

macro_rules! caught {
    ($(#[test] fn $name:ident() $check:ident $defect:expr;)*) => {
        $(#[test]
        fn $name() {
            $check(stringify!($name), $defect);
        })*
    };
}

caught! {
    #[test] fn syncing_only_the_last_segment_of_a_flush_is_caught() is_caught Sabotage::LastSegmentOnly;
    #[test] fn releasing_log_that_the_images_do_not_hold_is_caught() is_caught Sabotage::RecyclesTooMuch;
    #[test] fn writing_the_images_that_the_manifest_names_is_caught() is_caught Sabotage::OneSide;
    #[test] fn images_of_different_moments_are_caught() is_caught Sabotage::NoMoment;
    #[test] fn a_checkpoint_without_the_tables_that_are_not_logged_is_caught() is_caught Sabotage::NoCheckpointedTables;
    #[test] fn a_volatile_table_that_comes_back_is_caught() is_caught Sabotage::VolatileTablesKept;
    #[test] fn creating_a_table_without_a_manifest_is_caught() is_caught Sabotage::CreatesWithoutManifest;
    #[test] fn a_table_that_could_not_be_created_and_comes_later_is_caught() is_caught Sabotage::CreatesHalf;
    #[test] fn forgetting_the_images_of_a_table_that_could_not_be_dropped_is_caught() is_caught Sabotage::ForgetsBeforeManifest;
    #[test] fn dropping_a_table_without_a_manifest_is_caught() is_caught Sabotage::DropsWithoutManifest;
    #[test] fn a_unique_index_that_is_not_rebuilt_is_caught() is_caught Sabotage::NoUniqueIndex;
    #[test] fn an_old_key_that_stays_in_an_index_is_caught() is_caught Sabotage::StaleIndex;
    #[test] fn a_unique_key_that_is_not_checked_is_caught() is_caught Sabotage::NoUniqueCheck;
    #[test] fn opening_with_directories_of_others_is_caught() is_caught Sabotage::NoIdentity;
    #[test] fn closing_without_a_word_about_the_log_is_caught() is_caught Sabotage::ClosesWithoutHorizon;
    #[test] fn using_segments_before_a_manifest_names_them_is_caught() is_caught Sabotage::UsesBeforeManifest;
    #[test] fn believing_an_older_copy_of_the_log_is_caught() is_caught Sabotage::BelievesEmptySegments;
    #[test] fn a_manifest_that_is_not_synced_is_missed() is_missed Omission::Manifest;
    #[test] fn the_name_of_a_manifest_that_is_not_synced_is_missed() is_missed Omission::NameOfManifest;
    #[test] fn the_names_of_segments_that_are_not_synced_are_missed() is_missed Omission::NamesOfSegments;
    #[test] fn images_that_are_not_synced_are_missed() is_missed Omission::Images;
    #[test] fn a_backup_that_is_not_synced_is_missed() is_missed Omission::Copies;
    #[test] fn the_names_in_a_backup_that_are_not_synced_are_missed() is_missed Omission::NamesOfCopies;
}
