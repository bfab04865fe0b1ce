//! Builds the guest kernel: source, changes, configuration, compiler, a trial, and into the cache
//! at once or not at all.
//!
//! Everything happens in `guest-kernel/work` of the cache, as an ordinary user. A build that was
//! stopped goes on where it was: the source is kept once its checksum was right, it is unpacked
//! whole or again, and `make` compiles what is missing.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::build_error::{BuildError, PACKAGE, SOURCE, SOURCE_SHA256, SPACE_MIB, VERSION, at};
use super::error::GuestError;
use super::kernel::{CONFIGURATION, FILE_SYSTEMS, Kernel, cache, directory, recipe};
use super::machine::Guest;
use super::patch;
use super::sha256::sha256;
use crate::ground::distribution::{Distribution, Package};
use fathom_ground::command::{CommandLine, file_name, find_program};

/// Lines that `make` writes for a whole kernel, for the progress only.
const COMPILE_LINES: u64 = 1540;
/// Time limits of the steps, which differ by a factor of a hundred between machines.
const FETCH_LIMIT: Duration = Duration::from_secs(1800);
const UNPACK_LIMIT: Duration = Duration::from_secs(1200);
const CONFIGURE_LIMIT: Duration = Duration::from_secs(600);

/// What is not needed of a source of 1.5 GB: drivers of cards that a guest has none of, and text.
const UNNEEDED: [&str; 7] = [
    "*.rst",
    "*.dts",
    "*.dtsi",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
];

/// How far a build is.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The source is being fetched.
    Fetch(String),
    /// It is being unpacked.
    Unpack,
    /// The changes and the configuration are made.
    Configure,
    /// Share that is compiled, 0 to 1.
    Compile(f64),
    /// The kernel is booted once.
    Trial,
}

/// The programs that a build takes and that are missing, each with its package.
fn missing() -> Vec<(&'static str, Package)> {
    let needed = [
        ("gcc", Package::C_COMPILER),
        ("make", Package::MAKE),
        ("flex", Package::FLEX),
        ("bison", Package::BISON),
        ("bc", Package::BC),
        ("perl", Package::PERL),
        ("tar", Package::TAR),
        ("xz", Package::XZ),
    ];
    needed.into_iter().filter(|(program, _)| find_program(program).is_none()).collect()
}

/// The packages of all programs that a build takes and that are missing here.
pub(crate) fn missing_tools(distribution: &Distribution) -> Vec<String> {
    missing().iter().map(|(_, package)| distribution.package(*package).to_owned()).collect()
}

/// What is asked of a build.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// A source of the user's own: a kernel's `.tar.xz`, or Debian's package of one. None = the
    /// pinned one, by apt.
    pub source: Option<PathBuf>,
    /// The SHA-256 that this source is to have, as 64 hex digits; none = it is only told.
    pub sha256: Option<String>,
    /// Compilers at once; none = one for each CPU.
    pub jobs: Option<usize>,
    /// The program that is the agent in the trial: `fathom`.
    pub agent: PathBuf,
}

impl Build {
    /// Builds the kernel, unless it is there already, and tells how far it is.
    ///
    /// # Errors
    /// [`BuildError`]; what was done so far is kept for the next try.
    pub fn run(&self, on_step: &mut dyn FnMut(&Step)) -> Result<Kernel, BuildError> {
        if let (Some(kernel), None) = (Kernel::cached(), &self.source) {
            return Ok(kernel);
        }
        if !cfg!(target_arch = "x86_64") {
            return Err(BuildError::Machine(std::env::consts::ARCH));
        }
        let (Some(cache), Some(target)) = (cache(), directory()) else { return Err(BuildError::NoPlace) };
        let work = cache.join("guest-kernel/work");
        fs::create_dir_all(&work).map_err(at(&work))?;
        let lock_path = cache.join("guest-kernel/lock");
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| BuildError::Busy { path: work.clone() })?;
        self.check_tools()?;
        check_space(&work)?;
        let source = match &self.source {
            Some(file) => {
                let whole = file.canonicalize().map_err(at(file))?;
                // A device has no end, and no checksum.
                if !whole.is_file() {
                    let why = format!("{} is no file: --source names an archive", file.display());
                    return Err(BuildError::Source { why });
                }
                whole
            }
            None => fetch(&work, on_step)?,
        };
        let sum = sha256(&source)?;
        if self.source.is_none() && sum != SOURCE_SHA256 {
            fs::remove_file(&source).map_err(at(&source))?;
            return Err(BuildError::Checksum { path: source, found: sum });
        }
        check_sum(&source, &sum, self.sha256.as_deref())?;
        let tree = work.join("linux");
        // The marks say what the tree was made of: another source or another recipe begins anew.
        let (mark, wanted) = (work.join("made-of"), format!("{sum} {}", recipe()));
        if fs::read_to_string(&mark).ok().as_deref() != Some(&wanted) {
            on_step(&Step::Unpack);
            unpack(&source, &work, &tree)?;
            on_step(&Step::Configure);
            patch::apply(&tree)?;
            configure(&tree, &work)?;
            fs::write(&mark, &wanted).map_err(at(&mark))?;
        }
        on_step(&Step::Compile(0.0));
        self.compile(&tree, &work, on_step)?;
        on_step(&Step::Trial);
        let made = self.tried(&tree, &work, &source, sum)?;
        // Whole or not at all: the directory appears under its name when everything is in it.
        let _ = fs::remove_dir_all(&target);
        fs::rename(&made, &target).map_err(at(&target))?;
        fs::remove_dir_all(&work).map_err(at(&work))?;
        Kernel::read(&target).ok_or_else(|| BuildError::Lacks(format!("in {}", target.display())))
    }

    fn check_tools(&self) -> Result<(), BuildError> {
        let missing = missing();
        if missing.is_empty() {
            return Ok(());
        }
        let distribution = Distribution::here();
        let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
        let remedy = distribution.install(&missing_tools(&distribution));
        Err(BuildError::Tools { missing: names.join(", "), remedy })
    }

    fn compile(&self, tree: &Path, work: &Path, on_step: &mut dyn FnMut(&Step)) -> Result<(), BuildError> {
        let jobs = self.jobs.unwrap_or_else(fathom_ground::system::online_cpus);
        let log_path = work.join("build.log");
        let mut log = File::create(&log_path).map_err(at(&log_path))?;
        let mut command = make(tree);
        command.arg(format!("-j{jobs}")).arg("linux");
        command.stdout(Stdio::piped()).stderr(log.try_clone().map_err(at(&log_path))?);
        let mut child = command.spawn().map_err(at(Path::new("make")))?;
        let mut lines = 0;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
                lines += 1;
                on_step(&Step::Compile((lines as f64 / COMPILE_LINES as f64).min(0.99)));
            }
        }
        let status = child.wait().map_err(at(Path::new("make")))?;
        if status.success() {
            return Ok(());
        }
        let text = fs::read_to_string(&log_path).unwrap_or_default();
        let errors = || text.lines().filter(|line| line.contains("error:") || line.contains("*** "));
        let said = errors().take(3).collect::<Vec<_>>().join("\n  ");
        let said = if said.is_empty() { format!("make ended with {status}") } else { said };
        Err(BuildError::Compile { said, log: log_path })
    }

    /// Boots the kernel once and asks what it is and has; gives the directory that is to be the
    /// cache's.
    fn tried(
        &self,
        tree: &Path,
        work: &Path,
        source: &Path,
        source_sha256: String,
    ) -> Result<PathBuf, BuildError> {
        let made = work.join("made");
        let _ = fs::remove_dir_all(&made);
        fs::create_dir_all(&made).map_err(at(&made))?;
        let path = made.join("linux");
        let built = tree.join("linux");
        // Symbols for a debugger are half of the file. A machine without strip keeps them.
        let stripped = find_program("strip").is_some_and(|strip| {
            CommandLine::new(strip, ["-o".as_ref(), path.as_os_str(), built.as_os_str()])
                .run(CONFIGURE_LIMIT)
                .is_ok()
        });
        if !stripped {
            fs::copy(&built, &path).map_err(at(&path))?;
        }
        let compiler = CommandLine::new("gcc", ["--version"]).run(CONFIGURE_LIMIT)?;
        let mut kernel = Kernel {
            path,
            release: String::new(),
            filesystems: Vec::new(),
            source: file_name(source),
            source_sha256,
            compiler: compiler.stdout.lines().next().unwrap_or_default().to_owned(),
        };
        let state = work.join("state");
        let _ = fs::remove_dir_all(&state);
        fs::create_dir(&state).map_err(at(&state))?;
        (kernel.release, kernel.filesystems) =
            trial(&kernel, &self.agent, &state).map_err(BuildError::Trial)?;
        let lacking: Vec<&str> = FILE_SYSTEMS
            .into_iter()
            .filter(|name| !kernel.filesystems.iter().any(|known| known == name))
            .collect();
        if !lacking.is_empty() {
            return Err(BuildError::Lacks(lacking.join(", ")));
        }
        let description = made.join("kernel.json");
        let text = serde_json::to_vec_pretty(&kernel).map_err(io::Error::from).map_err(at(&description))?;
        fs::write(&description, text).map_err(at(&description))?;
        Ok(made)
    }
}

/// Boots a kernel without any disk, with the program `agent` (`fathom`) in it, and asks for its
/// release and the file systems that it has. `home` is an empty directory.
///
/// # Errors
/// It does not come up or does not answer: what it said.
pub fn trial(kernel: &Kernel, agent: &Path, home: &Path) -> Result<(String, Vec<String>), GuestError> {
    let mut guest = Guest::boot(kernel, agent, &[], home, None)?;
    let release = guest.read(Path::new("/proc/sys/kernel/osrelease"))?;
    let listed = guest.read(Path::new("/proc/filesystems"))?;
    guest.off(Path::new(super::layout::POINT), CONFIGURE_LIMIT)?;
    let on_disks = listed.lines().filter(|line| !line.starts_with("nodev"));
    Ok((release.trim().to_owned(), on_disks.map(|line| line.trim().to_owned()).collect()))
}

/// Refuses a source of the user's own that is not what it is said to be; it stays where it is.
fn check_sum(source: &Path, found: &str, expected: Option<&str>) -> Result<(), BuildError> {
    match expected.map(str::trim) {
        Some(expected) if !found.eq_ignore_ascii_case(expected) => Err(BuildError::Differs {
            path: source.to_path_buf(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn check_space(work: &Path) -> Result<(), BuildError> {
    let space = rustix::fs::statvfs(work).map_err(io::Error::from).map_err(at(work))?;
    let free_mib = space.f_bavail.saturating_mul(space.f_frsize) >> 20;
    // A build that goes on has taken its part already.
    if free_mib < SPACE_MIB && !work.join("made-of").exists() {
        return Err(BuildError::Space { path: work.to_path_buf(), free_mib });
    }
    Ok(())
}

/// The pinned source: the one that was fetched before, or by apt from wherever this machine's apt
/// is told to look.
fn fetch(work: &Path, on_step: &mut dyn FnMut(&Step)) -> Result<PathBuf, BuildError> {
    let file = work.join(SOURCE);
    if file.exists() && sha256(&file)? == SOURCE_SHA256 {
        return Ok(file);
    }
    on_step(&Step::Fetch(format!("{PACKAGE} {VERSION}, 146 MiB")));
    let Some(apt) = find_program("apt-get") else {
        return Err(BuildError::Source { why: "there is no apt-get here".into() });
    };
    // It writes into its working directory; a name that is taken it writes again.
    let script = "cd \"$1\" && exec \"$2\" -q download \"$3\"";
    let wanted = format!("{PACKAGE}={VERSION}");
    let words =
        ["-c".as_ref(), script.as_ref(), "sh".as_ref(), work.as_os_str(), apt.as_os_str(), wanted.as_ref()];
    match CommandLine::new("/bin/sh", words).run(FETCH_LIMIT) {
        Ok(_) if file.exists() => Ok(file),
        Ok(_) => Err(BuildError::Source { why: format!("apt-get brought no {SOURCE}") }),
        Err(error) => Err(BuildError::Source { why: error.to_string() }),
    }
}

/// Unpacks the source into `tree`, whatever its archive calls the directory.
fn unpack(source: &Path, work: &Path, tree: &Path) -> Result<(), BuildError> {
    let fresh = work.join("unpacking");
    for old in [&fresh, &tree.to_path_buf()] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(at(old))?;
        }
    }
    fs::create_dir(&fresh).map_err(at(&fresh))?;
    let mut archive = source.to_path_buf();
    if source.extension().is_some_and(|end| end == "deb") {
        let package = fresh.join("package");
        CommandLine::new("dpkg-deb", ["-x".as_ref(), source.as_os_str(), package.as_os_str()])
            .run(UNPACK_LIMIT)?;
        archive = package.join(format!("usr/src/{PACKAGE}.tar.xz"));
        if !archive.exists() {
            let problem = format!("holds no usr/src/{PACKAGE}.tar.xz");
            return Err(BuildError::Unlike { path: source.to_path_buf(), problem });
        }
    }
    let mut words =
        vec!["-x".into(), "-f".into(), archive.into_os_string(), "-C".into(), fresh.clone().into()];
    words.extend(UNNEEDED.iter().map(|pattern| format!("--exclude={pattern}").into()));
    words.extend(["--strip-components=1".into(), "--one-top-level=linux".into()] as [std::ffi::OsString; 2]);
    CommandLine::new("tar", words).run(UNPACK_LIMIT)?;
    fs::rename(fresh.join("linux"), tree).map_err(at(tree))?;
    fs::remove_dir_all(&fresh).map_err(at(&fresh))
}

fn configure(tree: &Path, work: &Path) -> Result<(), BuildError> {
    let wanted = work.join("guest.config");
    fs::write(&wanted, CONFIGURATION).map_err(at(&wanted))?;
    let words = [
        "-C".into(),
        tree.into(),
        "ARCH=um".into(),
        {
            let mut word = std::ffi::OsString::from("KCONFIG_ALLCONFIG=");
            word.push(&wanted);
            word
        },
        "allnoconfig".into(),
    ] as [std::ffi::OsString; 5];
    CommandLine::new("make", words).run(CONFIGURE_LIMIT)?;
    let path = tree.join(".config");
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let set = |line: &&str| text.lines().any(|own| own == *line);
    let refused: Vec<&str> =
        CONFIGURATION.lines().filter(|line| line.starts_with("CONFIG_")).filter(|line| !set(line)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(BuildError::Unlike { path, problem: format!("this source does not take {}", refused.join(", ")) })
}

/// `make` of the guest's architecture, with nothing of the caller's that changes a kernel; it ends
/// with its owner.
fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(tree).arg("ARCH=um").env("LC_ALL", "C").stdin(Stdio::null());
    for name in ["ARCH", "SUBARCH", "CROSS_COMPILE", "MAKEFLAGS", "MFLAGS", "CFLAGS", "LDFLAGS", "KCFLAGS"] {
        command.env_remove(name);
    }
    command.env("KBUILD_BUILD_USER", "fathom").env("KBUILD_BUILD_HOST", "fathom");
    // SAFETY: between fork and exec one system call is made, which neither allocates nor takes a
    // lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
                .map_err(io::Error::from)
        });
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a\\b");
        fs::write(&file, "").unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(&file).unwrap(), empty);
    }

    /// What happened: whoever has no apt was sent to kernel.org for an archive that was unpacked,
    /// compiled and started whatever it was: nothing compared it with what its authors say.
    #[test]
    fn a_source_of_the_users_own_is_what_it_is_said_to_be_or_nothing_is_built_of_it() {
        let (path, sum) = (Path::new("linux-6.12.117.tar.xz"), "ab".repeat(32));
        check_sum(path, &sum, None).unwrap();
        check_sum(path, &sum, Some(&sum)).unwrap();
        check_sum(path, &sum, Some(&format!("{}\n", sum.to_uppercase()))).unwrap();
        for other in ["cd".repeat(32), sum[..63].to_owned(), String::new()] {
            let refused = check_sum(path, &sum, Some(&other)).unwrap_err().to_string();
            assert!(refused.contains(&sum) && refused.contains("nothing was built"), "{refused}");
        }
        // And the way without apt names where the sum is had.
        let lacking = BuildError::Source { why: "there is no apt-get here".into() }.to_string();
        assert!(lacking.contains("sha256sums.asc") && lacking.contains("--sha256 SUM"), "{lacking}");
    }
}
