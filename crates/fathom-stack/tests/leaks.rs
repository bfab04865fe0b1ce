//! Nothing leaks: after failure at any step, after a busy mount, after SIGINT, SIGTERM and kill -9.

#![allow(clippy::unwrap_used, reason = "helpers of tests outside #[test] functions")]

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Place, alone, available, can_mount, script, wait_until};
use fathom_device::server::{Request, Server};
use fathom_stack::{StackError, StackSpec};

/// What is enough for another process to clean up, on a machine that is busy with other things too.
const SOON: Duration = Duration::from_secs(60);

/// A modelled device whose reads take an hour.
const HOUR: &str = "name = \"hour\"\ntitle = \"t\"\nkind = \"sd\"\nsources = [\"test\"]\n\
                    [read]\nrandom_us = 3.6e9\nmb_per_s = 1\n\
                    [write]\nrandom_us = 1\nmb_per_s = 1\n\
                    [flush]\nbase_us = 1\n";

/// Steps that fail for real: mkfs by its words, mount by an option, log by mkfs, image by its size.
#[test]
fn a_failing_step_leaves_nothing_and_says_what_failed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let spec = |filesystem: &str, mkfs: &[&str], mount: &str| StackSpec {
        mkfs: mkfs.iter().map(|w| (*w).to_owned()).collect(),
        mount: Some(mount.into()),
        ..place.spec(filesystem)
    };
    let cases = [
        (spec("ext4", &["-O", "no_such_feature"], ""), vec!["mke2fs", "no_such_feature", "it said"]),
        (spec("ext4", &[], "data=sideways"), vec!["mount", "data=sideways", "it said"]),
        (spec("ext4", &[], "ro"), vec!["read-only"]),
        (spec("ext4", &["-I", "3"], ""), vec!["mke2fs", "-I 3"]),
        (StackSpec { size_mib: 16 << 20, ..spec("ext4", &[], "") }, vec!["no space", "smaller `size_mib`"]),
        (
            StackSpec { log_mib: Some(64), ..spec("ext4", &[], "no_such_option") },
            vec!["mount", "no_such_option"],
        ),
    ];
    for (spec, parts) in cases {
        let error = place.stacks().up(&spec, "failing").unwrap_err().to_string();
        println!("{error}\n");
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
        place.assert_nothing_left();
    }
    if available("ntfs") {
        let error = place
            .stacks()
            .up(&spec("ntfs", &[], "streams_interface=nonsense"), "failing")
            .unwrap_err()
            .to_string();
        assert!(error.contains("ntfs-3g"), "{error}");
        place.assert_nothing_left();
    }
}

/// Steps that hang or lie, with programs of our own in place of the system's.
#[test]
fn a_tool_that_hangs_lies_or_crashes_leaves_nothing() {
    if !can_mount() {
        return;
    }
    // Only what hangs is to reach its limit. Before a mount that does, a real mke2fs has to end
    // within the same limit: where the machine is too busy for that, a longer one is tried.
    let seconds = |all: &[u64]| all.iter().map(|s| Duration::from_secs(*s)).collect::<Vec<_>>();
    let (at_once, after_mkfs, never) =
        (vec![Duration::from_millis(500)], seconds(&[5, 20, 80]), seconds(&[120]));
    let cases = [
        ("mke2fs", "sleep 600", &at_once, ["did not end within", "/mke2fs"]),
        ("mke2fs", "echo dying >&2; kill -SEGV $$", &never, ["signal: 11", "/mke2fs"]),
        ("mke2fs", "exit 0", &never, ["mount", "failed"]), // made nothing, so the mount must fail
        ("mount", "sleep 600", &after_mkfs, ["did not end within", "/mount"]),
        ("mount", "exit 0", &never, ["nothing is mounted", ""]),
        // Mounted all the same.
        ("mount", "/bin/mount \"$@\"; echo late failure >&2; exit 9", &never, ["late failure", "/mount"]),
    ];
    for (tool, text, limits, parts) in cases {
        let mut error = String::new();
        for limit in limits {
            let place = Place::new();
            let tools = place.root.path().join("tools");
            fs::create_dir(&tools).unwrap();
            script(&tools, tool, text);
            let stacks = place.stacks().with_tools(vec![tools]).with_limit(*limit);
            error = stacks.up(&place.spec("ext4"), "tool").unwrap_err().to_string();
            println!("{error}\n");
            place.assert_nothing_left();
            if parts.iter().all(|part| error.contains(part)) {
                break;
            }
        }
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

#[test]
fn a_panic_takes_the_stack_down() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let outcome = std::panic::catch_unwind(|| {
        let _stack = place.stacks().up(&place.spec("ext4"), "panic").unwrap();
        assert!(!place.left().is_empty());
        panic!("on purpose");
    });
    assert!(outcome.is_err());
    place.assert_nothing_left();
}

#[test]
fn a_busy_mount_names_its_holder_and_is_detached_lazily() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let stacks = place.stacks().with_busy_limit(Duration::from_millis(200));
    let stack = stacks.up(&place.spec("ext4"), "busy").unwrap();
    let mut holder = Command::new("sleep").arg("600").current_dir(stack.path()).spawn().unwrap();
    let error = stack.down().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, StackError::Busy { lazily: true, .. }), "{text}");
    assert!(
        text.contains("sleep") && text.contains(&holder.id().to_string()) && text.contains("lazily"),
        "{text}"
    );
    // The loop device is still there, and is known for what it is.
    let known = stacks.leftovers();
    assert!(known.iter().any(|l| l.label.contains("busy") && !l.loops.is_empty()), "{known:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    place.assert_nothing_left_within(SOON);
}

#[test]
fn a_mount_that_is_busy_for_a_moment_is_waited_for() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let stack = place.stacks().up(&place.spec("ext4"), "moment").unwrap();
    let mut holder = Command::new("sleep").arg("0.3").current_dir(stack.path()).spawn().unwrap();
    let waiter = std::thread::spawn(move || holder.wait().unwrap());
    stack.down().unwrap();
    waiter.join().unwrap();
    place.assert_nothing_left();
}

#[test]
fn an_unmount_by_hand_frees_everything_and_down_is_content() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let stack = place.stacks().up(&place.spec("ext4"), "hand").unwrap();
    assert!(Command::new("umount").arg(stack.path().parent().unwrap()).status().unwrap().success());
    stack.down().unwrap();
    place.assert_nothing_left();
}

/// Not a test: the child of the kill tests. Brings a stack up, tells where, and waits to be killed.
#[test]
#[ignore = "the child process of the kill tests"]
fn child_that_holds_a_stack() {
    let Ok(order) = std::env::var("FATHOM_TEST_HOLD") else { return };
    // A shell starts its background jobs with SIGINT ignored, and that is inherited: the kill test
    // means the default. SAFETY: SIG_DFL is a valid disposition for SIGINT.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
    let [state, images, filesystem, told, tools] = order.split('|').collect::<Vec<_>>().try_into().unwrap();
    let spec = StackSpec {
        place: filesystem.into(),
        size_mib: 128,
        directory: Some(images.into()),
        ..StackSpec::default()
    };
    let tools = if tools.is_empty() { vec![] } else { vec![tools.into()] };
    let stack = common::stacks_at(state.as_ref()).with_tools(tools).up(&spec, "killed").unwrap();
    // A device of its own is traced, too: the trace's instance must go as the mount does.
    let _trace = (filesystem != "dir" && traced()).then(|| stack.trace_blocks().unwrap());
    fs::write(stack.path().join("data"), vec![1; 1 << 20]).unwrap();
    fs::write(format!("{told}.new"), stack.guard_pid().unwrap().to_string()).unwrap();
    fs::rename(format!("{told}.new"), told).unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

/// Whether this machine traces blocks.
fn traced() -> bool {
    fathom_ground::system::is_root() && fathom_stack::blocks::tracing().is_ok()
}

/// The trace instances of a process.
fn traces_of(pid: u32) -> Vec<String> {
    let Ok(tracing) = fathom_stack::blocks::tracing() else { return Vec::new() };
    let entries = fs::read_dir(tracing.join("instances")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("fathom-") && name.contains(&format!("-{pid}-"))).collect()
}

/// A process that holds a stack (and traces it), and the process id of its guard.
fn holding(place: &Place, filesystem: &str) -> (Child, libc::pid_t) {
    let told = place.root.path().join("told");
    let child = started(place, filesystem, "");
    assert!(wait_until(Duration::from_secs(60), || told.exists()), "the child brings its stack up");
    let traces = usize::from(filesystem != "dir" && traced());
    assert_eq!(traces_of(child.id()).len(), traces, "{:?}", traces_of(child.id()));
    (child, fs::read_to_string(told).unwrap().parse().unwrap())
}

/// A process that has begun to bring a stack up.
fn started(place: &Place, filesystem: &str, tools: &str) -> Child {
    let told = place.root.path().join("told");
    let show = |p: &Path| p.to_str().unwrap().to_owned();
    let order =
        [show(&place.state), show(&place.images), filesystem.to_owned(), show(&told), tools.to_owned()]
            .join("|");
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_holds_a_stack", "--ignored", "--nocapture"])
        .env("FATHOM_TEST_HOLD", order)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn kill(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: kill takes no pointers; the process is our child (or its guard) and has not been
    // waited for.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Kills an owner of a stack and, first, its guard, waits until both have ended, and gives the
/// owner's process id.
fn killed_with_its_guard(mut owner: Child, guard: libc::pid_t) -> u32 {
    kill(guard, libc::SIGKILL);
    kill(owner.id() as libc::pid_t, libc::SIGKILL);
    owner.wait().unwrap();
    // Nobody here can wait for the guard; once it is a zombie it holds nothing any more.
    let ended = || {
        let stat = fs::read_to_string(format!("/proc/{guard}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    };
    assert!(wait_until(SOON, ended), "the guard has ended");
    owner.id()
}

/// Ctrl-C, SIGTERM and kill -9: the guard undoes it at once.
#[test]
fn a_killed_owner_leaves_nothing() {
    let _alone = alone();
    for filesystem in ["dir", "ext4", "ntfs"] {
        if !available(filesystem) {
            continue;
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
            let place = Place::new();
            let (mut child, _) = holding(&place, filesystem);
            assert!(!place.left().is_empty());
            let known = place.stacks().leftovers();
            assert!(known.iter().any(|l| l.label == "killed" && !l.dead), "alive: {known:?}");
            kill(child.id() as libc::pid_t, signal);
            child.wait().unwrap();
            place.assert_nothing_left_within(SOON);
            assert_eq!(traces_of(child.id()), Vec::<String>::new());
        }
    }
}

/// Killed in the middle of a step, which goes on without its parent and may even succeed late.
#[test]
fn an_owner_killed_during_mkfs_or_mount_leaves_nothing() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    for (tool, real) in [("mke2fs", "/sbin/mke2fs"), ("mount", "/bin/mount")] {
        for (before, after) in [("sleep 1", ""), ("", "sleep 1")] {
            let place = Place::new();
            let tools = place.root.path().join("tools");
            fs::create_dir(&tools).unwrap();
            let at = tools.join("begun");
            let begun = at.display();
            script(&tools, tool, &format!("touch '{begun}'; {before}\n{real} \"$@\"; {after}"));
            let mut child = started(&place, "ext4", tools.to_str().unwrap());
            assert!(wait_until(Duration::from_secs(60), || at.exists()), "{tool} runs");
            std::thread::sleep(Duration::from_millis(300));
            assert!(!place.left().is_empty());
            kill(child.id() as libc::pid_t, libc::SIGKILL);
            child.wait().unwrap();
            place.assert_nothing_left_within(SOON);
        }
    }
}

/// What happened: Ctrl-C of a `stack up` on a model whose reads take an hour. mkfs cannot be broken
/// off while it waits for the device, which went on at its own pace: after its minute the guard
/// detached the device's mount, and mkfs, a loop device and the server stayed, in no list.
#[test]
fn a_device_whose_owner_is_gone_takes_no_time() {
    let _alone = alone();
    if !can_mount() || !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = Place::new();
    let at = place.root.path().join("at");
    fs::create_dir(&at).unwrap();
    let image = place.images.join("image");
    fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let request = Request {
        image,
        at: at.clone(),
        model: HOUR.into(),
        seed: 1,
        log: None,
        capture: false,
        answers: None,
        faults: Vec::new(),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_fathom-sidecar"));
    let server = Server::start(program, &request, &place.root.path().join("log")).unwrap();
    let disk = at.join(fathom_device::FILE);
    let reads = std::thread::spawn(move || fs::File::open(disk)?.read_exact_at(&mut [0; 512], 0));
    std::thread::sleep(Duration::from_millis(300));
    drop(server);
    assert!(wait_until(SOON, || reads.is_finished()), "an answer that takes an hour is waited for");
    reads.join().unwrap().unwrap();
    assert!(wait_until(SOON, || !fathom_ground::mountinfo::is_mounted(&at)), "and the mount goes");
}

/// mkfs gets its time and no more, and what waits in the kernel for such a device is let go.
#[test]
fn a_device_that_is_too_slow_for_mkfs_is_taken_away() {
    let _alone = alone();
    if !can_mount() || !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = Place::new();
    let model = place.root.path().join("hour.toml");
    fs::write(&model, HOUR).unwrap();
    let spec = StackSpec { device: Some(model.to_str().unwrap().into()), ..place.spec("ext4") };
    let stacks = place.stacks().with_limit(Duration::from_secs(1));
    let up =
        std::thread::spawn(move || stacks.up(&spec, "hour").map(drop).map_err(|error| error.to_string()));
    assert!(wait_until(SOON, || up.is_finished()), "it waits for the device");
    let error = up.join().unwrap().unwrap_err();
    assert!(error.contains("mke2fs"), "{error}");
    place.assert_nothing_left_within(SOON);
}

/// mkfs was named a loop device, whose number went to another stack's image when its owner was
/// killed before mkfs had opened it: the other's mkfs failed ("apparently in use"), or its file
/// system was made anew under it. Whoever is named a device has it open now, so it stays.
#[test]
fn a_tool_that_outlives_its_owner_finds_no_other_image_on_its_device() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let tools = place.root.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let (begun, late) = (tools.join("begun"), tools.join("late"));
    script(&tools, "mke2fs", &format!("touch '{}'; sleep 3; touch '{}'", begun.display(), late.display()));
    let mut child = started(&place, "ext4", tools.to_str().unwrap());
    assert!(wait_until(SOON, || begun.exists()), "mke2fs runs");
    kill(child.id() as libc::pid_t, libc::SIGKILL);
    child.wait().unwrap();
    let attached = || place.left().iter().any(|line| line.starts_with("/sys/block/loop"));
    let kept = wait_until(SOON, || {
        let kept = attached();
        late.exists() || !kept
    });
    assert!(kept && late.exists(), "the device belongs to its image until the tool has ended");
    place.assert_nothing_left_within(SOON);
}

/// A sweep beside it removed, late, what a new stack of the same name had made.
#[test]
fn what_a_guard_is_at_is_not_swept() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (mut child, _) = holding(&place, "ext4");
    let path = place.stacks().leftovers().into_iter().find(|l| l.label == "killed").unwrap().path;
    let busy = fs::File::create(path.join("busy")).unwrap();
    kill(child.id() as libc::pid_t, libc::SIGKILL);
    child.wait().unwrap();
    let report = place.stacks().down_all(true);
    assert!(report.removed.is_empty() && report.failed.is_empty(), "{report:?}");
    let known = place.stacks().leftovers();
    assert!(known.iter().any(|l| l.label == "killed" && !l.dead), "{known:?}");
    drop(busy);
    place.assert_nothing_left_within(SOON);
}

/// Even the guard is killed: the next stack sweeps what is left, and so does `down_all`.
#[test]
fn leftovers_of_a_killed_guard_are_swept() {
    let _alone = alone();
    for filesystem in ["dir", "ext4", "ntfs"] {
        if !available(filesystem) {
            continue;
        }
        for by_next_up in [false, true] {
            let place = Place::new();
            let (child, guard) = holding(&place, filesystem);
            let owner = killed_with_its_guard(child, guard);
            let known = place.stacks().leftovers();
            let dead: Vec<_> = known.iter().filter(|l| l.label == "killed").collect();
            assert!(dead.len() == 1 && dead[0].dead && dead[0].path.exists(), "{known:?}");
            assert_eq!(dead[0].loops.len(), usize::from(filesystem != "dir"), "{known:?}");
            if by_next_up {
                place.stacks().up(&place.spec("dir"), "next").unwrap().down().unwrap();
            } else {
                let report = place.stacks().down_all(true);
                assert!(
                    report.removed.contains(&"killed".to_owned()) && report.failed.is_empty(),
                    "{report:?}"
                );
            }
            place.assert_nothing_left();
            assert_eq!(traces_of(owner), Vec::<String>::new());
        }
    }
}

#[test]
fn a_living_owner_is_not_swept() {
    let _alone = alone();
    let place = Place::new();
    let stack = place.stacks().up(&place.spec("dir"), "alive").unwrap();
    let report = place.stacks().down_all(true);
    assert!(!report.removed.contains(&"alive".to_owned()) && stack.path().exists(), "{report:?}");
    drop(stack);
    place.assert_nothing_left();
}

/// `stack down --leftovers` of one test failed because of what the test beside it had just killed,
/// in another state directory: mounts are found machine-wide, and it was busy. While its own state
/// directory knows a stack, others leave it alone; once that is gone (`/run` was emptied), the
/// image's name tells whose it is, and anybody's `down_all` takes it. Until issue 17 this test took
/// away what was known elsewhere.
#[test]
fn a_stack_is_left_to_the_state_directory_that_knows_it_and_found_without_one() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (child, guard) = holding(&place, "ext4");
    let owner = killed_with_its_guard(child, guard);
    let elsewhere = common::stacks_at(&place.root.path().join("other-state"));
    let ours = |l: &fathom_stack::Leftover| l.path.starts_with(place.root.path());
    let known = elsewhere.leftovers().into_iter().find(ours).unwrap();
    assert_eq!(known.elsewhere, Some(place.state.canonicalize().unwrap()), "{known:?}");
    let traces = traces_of(owner);
    for only_dead in [true, false] {
        let report = elsewhere.down_all(only_dead);
        assert!(
            !report.removed.iter().any(|l| l.contains("killed")) && report.failed.is_empty(),
            "{report:?}"
        );
    }
    assert!(known.path.join("work/data").exists() && traces_of(owner) == traces, "it is not touched");

    let home = known.path.parent().unwrap();
    for name in ["entry.json", "owner"] {
        fs::remove_file(home.join(name)).unwrap();
    }
    let known = elsewhere.leftovers();
    let found: Vec<_> = known.iter().filter(|l| ours(l)).collect();
    assert!(found.len() == 1 && found[0].dead && found[0].label.contains("killed"), "{known:?}");
    assert_eq!(found[0].elsewhere, None);
    let report = elsewhere.down_all(true);
    assert!(report.removed.iter().any(|l| l.contains("killed")), "{report:?}");
    // The trace, too, is known by its name alone.
    assert_eq!(traces_of(owner), Vec::<String>::new());
    place.stacks().down_all(true);
    place.assert_nothing_left();
}

/// What happened: until it was mounted, what another process was bringing up was nobody's to a look
/// from another state directory: asked to take down all, it took the loop device away from mkfs, or
/// waited for it to go and unmounted it once it was there. A test beside it had its stack so taken.
#[test]
fn what_is_just_being_brought_up_is_left_to_who_is_at_it() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let tools = place.root.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let (begun, go_on) = (tools.join("begun"), tools.join("go-on"));
    let text = format!(
        "touch '{}'; until test -e '{}'; do sleep 0.1; done; /sbin/mke2fs \"$@\"",
        begun.display(),
        go_on.display()
    );
    script(&tools, "mke2fs", &text);
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            let stacks = place.stacks().with_tools(vec![tools.clone()]);
            let stack = stacks.up(&place.spec("ext4"), "in-work").unwrap();
            fs::write(stack.path().join("data"), "x").unwrap();
            stack.down().unwrap();
        });
        let has_begun = wait_until(SOON, || begun.exists());
        let elsewhere = common::stacks_at(&place.root.path().join("other-state"));
        let report = elsewhere.down_all(false);
        fs::write(&go_on, "").unwrap();
        assert!(has_begun, "mke2fs runs");
        let told: Vec<_> = report.removed.iter().chain(&report.failed).collect();
        assert!(!told.iter().any(|label| label.contains("in-work")), "{report:?}");
        maker.join().unwrap();
    });
    place.assert_nothing_left();
}

/// Its guard was at it, so that nothing was found, and soon after something was still mounted.
#[test]
fn what_a_guard_is_at_is_waited_for() {
    let _alone = alone();
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (mut child, _) = holding(&place, "ext4");
    let path = place.stacks().leftovers().into_iter().find(|l| l.label == "killed").unwrap().path;
    let busy = fs::File::create(path.join("busy")).unwrap();
    kill(child.id() as libc::pid_t, libc::SIGKILL);
    child.wait().unwrap();
    let mut told = Vec::new();
    let ending = place
        .stacks()
        .wait_for_guards(Duration::from_secs(2), &mut |leftover| told.push(leftover.label.clone()));
    assert!(ending.len() == 1 && ending[0].label == "killed", "bounded, and told: {ending:?}");
    assert_eq!(told, ["killed"]);
    drop(busy);
    assert_eq!(place.stacks().wait_for_guards(SOON, &mut |_| ()), []);
    // Its entry goes last but one; the directory a moment later.
    place.assert_nothing_left_within(SOON);
}

/// The owner died while it wrote the entry.
#[test]
fn a_half_written_entry_is_swept() {
    let _alone = alone();
    let place = Place::new();
    let home = place.state.join("stacks/fathom-half-1-2-3");
    fs::create_dir_all(home.join("mnt")).unwrap();
    fs::write(home.join("owner"), "").unwrap();
    fs::write(home.join("entry.json"), "{ \"label\": ").unwrap();
    let ownerless = place.state.join("stacks/fathom-half-1-2-4");
    fs::create_dir_all(ownerless.join("mnt")).unwrap();
    let report = place.stacks().down_all(true);
    assert!(report.failed.is_empty(), "{report:?}");
    place.assert_nothing_left();
}

/// Another version of Fathom has made it: what it consists of is not known here, so that it is left
/// whole.
#[test]
fn an_entry_of_another_version_is_left_alone() {
    let _alone = alone();
    let place = Place::new();
    let home = place.state.join("stacks/named-later");
    fs::create_dir_all(home.join("mnt")).unwrap();
    fs::write(home.join("owner"), "").unwrap();
    fs::write(home.join("entry.json"), "{ \"label\": \"later\", \"spec\": { \"unheard_of\": 1 } }").unwrap();
    let report = place.stacks().down_all(true);
    assert!(report.removed.is_empty() && report.failed.is_empty(), "{report:?}");
    for part in ["mnt", "owner", "entry.json"] {
        assert!(home.join(part).exists(), "{part}");
    }
    fs::remove_dir_all(home).unwrap();
    place.assert_nothing_left();
}

#[test]
fn many_at_once_do_not_meet() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let place = &place;
            scope.spawn(move || {
                for _ in 0..2 {
                    let spec = StackSpec { size_mib: 32, ..place.spec("ext4") };
                    let stack = place.stacks().up(&spec, &format!("many {number}")).unwrap();
                    fs::write(stack.path().join("mine"), number.to_string()).unwrap();
                    assert_eq!(fs::read_to_string(stack.path().join("mine")).unwrap(), number.to_string());
                    stack.down().unwrap();
                }
            });
        }
    });
    place.assert_nothing_left();
}

#[test]
fn named_stacks_outlive_their_maker_and_go_by_name() {
    let _alone = alone();
    let place = Place::new();
    let stacks = place.stacks();
    for filesystem in ["dir", "ext4"] {
        if !available(filesystem) {
            continue;
        }
        let named = stacks.named_up("mine", &place.spec(filesystem)).unwrap();
        assert!(named.up && named.path.is_dir(), "{named:?}");
        fs::write(named.path.join("kept"), "x").unwrap();
        assert_eq!(stacks.named_list(), std::slice::from_ref(&named));
        // Neither a sweep nor another `up` takes it, and its name is taken.
        let report = stacks.down_all(true);
        assert!(!report.removed.contains(&"mine".to_owned()), "{report:?}");
        assert!(named.path.join("kept").exists());
        let error = stacks.named_up("mine", &place.spec("dir")).unwrap_err().to_string();
        assert!(error.contains("already up") && error.contains("fathom stack down mine"), "{error}");
        // Busy: nothing is done, and the holder is named.
        if filesystem != "dir" {
            let open = fs::File::open(named.path.join("kept")).unwrap();
            let impatient = place.stacks().with_busy_limit(Duration::from_millis(100));
            let error = impatient.named_down("mine").unwrap_err().to_string();
            assert!(error.contains(&std::process::id().to_string()), "{error}");
            assert!(named.path.join("kept").exists());
            drop(open);
        }
        stacks.named_down("mine").unwrap();
        assert_eq!(stacks.named_list(), []);
        place.assert_nothing_left();
    }
    for (name, part) in
        [("mine", "no stack named \"mine\""), ("../x", "letters"), ("", "letters"), ("a b", "letters")]
    {
        let error = stacks.named_down(name).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// What happened: Ctrl-C of `stack up` said that all is being removed, and the stack was complete a
/// moment later, and stayed.
#[test]
fn a_named_stack_that_may_not_stay_is_taken_down_by_its_maker() {
    let place = Place::new();
    for filesystem in ["dir", "ext4"] {
        if !available(filesystem) {
            continue;
        }
        let up = place.stacks().named_up_if("mine", &place.spec(filesystem), &|| false).unwrap();
        assert_eq!(up, None);
        assert_eq!(place.stacks().named_list(), []);
        place.assert_nothing_left();
    }
}

#[test]
fn a_named_stack_that_fails_frees_its_name() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let bad = StackSpec { mount: Some("data=sideways".into()), ..place.spec("ext4") };
    place.stacks().named_up("again", &bad).unwrap_err();
    place.assert_nothing_left();
    place.stacks().named_up("again", &place.spec("ext4")).unwrap();
    place.stacks().named_down("again").unwrap();
    place.assert_nothing_left();
}

#[test]
fn paths_with_spaces_work() {
    let place = Place::new();
    let odd: PathBuf = place.root.path().join("a b'c");
    fs::create_dir(&odd).unwrap();
    for filesystem in ["dir", "ext4"] {
        if !available(filesystem) {
            continue;
        }
        let stacks = common::stacks_at(&odd.join("state dir"));
        let stack =
            stacks.up(&StackSpec { directory: Some(odd.clone()), ..place.spec(filesystem) }, "odd").unwrap();
        fs::write(stack.path().join("x"), "x").unwrap();
        stack.down().unwrap();
        assert!(stacks.leftovers().iter().all(|l| !l.path.starts_with(&odd)));
    }
    place.assert_nothing_left();
}
