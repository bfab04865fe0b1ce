//! The words of `fathom stack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fathom stack`
#[derive(Debug, Args)]
pub struct Stack {
    /// What to do with stacks.
    #[command(subcommand)]
    pub action: StackAction,
}

/// What `fathom stack up` brings up.
#[derive(Debug, Args)]
pub struct StackUp {
    /// File system: ext4, xfs, btrfs, ntfs … (`fathom list filesystems`) [default: ext4, or what
    /// --image holds]
    #[arg(long, value_name = "FS")]
    pub fs: Option<String>,
    /// Its name [default: the file system's]
    #[arg(long)]
    pub name: Option<String>,
    /// Size of the image in MiB [default: 2048]
    #[arg(long, value_name = "MIB")]
    pub size: Option<u64>,
    /// An external log device of this size in MiB (XFS logdev, ext4 journal device)
    #[arg(long, value_name = "MIB")]
    pub log: Option<u64>,
    /// Mount options, e.g. data=journal
    #[arg(long, value_name = "OPTIONS")]
    pub mount: Option<String>,
    /// A further word for mkfs (may be given several times)
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub mkfs: Vec<String>,
    /// Where the image is put
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Begin with a copy of this image, e.g. of a card, instead of a file system that is made;
    /// nobody may have it mounted
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub image: Option<PathBuf>,
    /// Keep the image: in this new file, which stays when the stack is taken down or its processes
    /// are killed (not with --log)
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// A modelled device under it, e.g. sd-sandisk-extreme (`fathom list devices`), or a model's
    /// file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub device: Option<String>,
    /// The modelled device of the external log (with --log and --device) [default: another one like
    /// --device]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub log_device: Option<String>,
    /// What fails on the modelled device of the file system (not of an external log), counted from
    /// the mount on: read-error, write-error, flush-error, lying-flush or gone, with @N from the
    /// Nth operation on and xN so many times, or full@KIB (may be given several times)
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<String>,
    /// Log every operation on the modelled device of the file system to this new file, and those on
    /// that of an external log to FILE.log (`fathom stack operations FILE` prints it)
    #[arg(long, value_name = "FILE")]
    pub operations: Option<PathBuf>,
    /// With --operations: keep the data of these writes as well, in FILE.data and FILE.log.data
    #[arg(long, requires = "operations")]
    pub capture: bool,
    /// Mount it in a guest kernel even where this machine's own has the file system
    #[arg(long)]
    pub guest: bool,
}

/// What `fathom stack age` does.
#[derive(Debug, Args)]
pub struct Age {
    /// The stack's name; its files stay, and its space goes
    pub name: String,
    /// How much of its space is used in the end, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(10..=95))]
    pub used: u8,
    /// How often it is filled and emptied
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seed of the files' sizes and of which go
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// The actions of `fathom stack`.
#[derive(Debug, Subcommand)]
pub enum StackAction {
    /// Make an image, its file system and a mount, and print where
    Up(Box<StackUp>),
    /// Unmount and remove
    Down {
        /// The stack's name
        #[arg(required_unless_present_any = ["all", "leftovers"])]
        name: Option<String>,
        /// Every stack, and whatever a killed run left behind
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Only what a killed run or command left behind; whatever is up stays, and what another
        /// state directory ($FATHOM_STATE_DIR) knows
        #[arg(long, conflicts_with_all = ["name", "all"])]
        leftovers: bool,
    },
    /// Build the guest kernel, for file systems that this machine's kernel lacks (once, some
    /// minutes; no root)
    #[command(
        after_help = "Examples:\n  fathom stack kernel\n  fathom stack kernel --source linux-6.12.117.tar.xz --sha256 SUM      a source of your own\n  \
                      fathom stack kernel --remove"
    )]
    Kernel {
        /// A kernel's source of your own, Linux 6.12: .tar.xz, or Debian's .deb of one [default:
        /// the pinned one, by apt-get]
        #[arg(long, value_name = "FILE")]
        source: Option<PathBuf>,
        /// The SHA-256 that FILE must have, as its authors publish it (kernel.org: sha256sums.asc);
        /// with any other nothing is built
        #[arg(long, value_name = "SUM", requires = "source")]
        sha256: Option<String>,
        /// Compilers at once [default: one for each CPU]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
        jobs: Option<u64>,
        /// Remove it, and what a build that was stopped has left
        #[arg(long, conflicts_with_all = ["source", "jobs"])]
        remove: bool,
        /// Say the name of its recipe, which is that of its directory in the cache; build nothing
        #[arg(long, conflicts_with_all = ["source", "jobs", "remove"])]
        recipe: bool,
    },
    /// Age a stack's file system: fill it and delete files, round by round, until its free space is
    /// in pieces
    #[command(
        after_help = "Examples:\n  fathom stack up --fs ext4 --size 512 --keep aged.img --name old\n  fathom stack age old --used 80\n  \
                      fathom stack down old\n  fathom run aged-file-system --set variants=fresh,aged"
    )]
    Age(Age),
    /// Measure a card, disk or file system and write the model of it, for `--device` (past the page
    /// cache; a minute or two)
    #[command(
        after_help = "Examples:\n  fathom stack calibrate /mnt/card --out my-card.toml      in a file of its own, which goes again\n  \
                      fathom stack calibrate /dev/mmcblk0 --destroy --out my-card.toml      the card alone; overwrites what is on it\n  \
                      fathom stack up --fs ext4 --device ./my-card.toml"
    )]
    Calibrate(Calibrate),
    /// What the modelled devices under named stacks have done since they were made, mkfs included:
    /// operations, bytes, queue, latencies
    #[command(
        after_help = "Examples:\n  fathom stack status card\n  fathom stack status card --watch      a line a second, until Ctrl-C\n  \
                      fathom stack status --json"
    )]
    Status(Status),
    /// Print what reached a modelled device, one operation a line, from the file of
    /// `up --operations`
    #[command(
        after_help = "Columns: arrival_us, asked_us (when the model has it done) and given_us (when it was answered), us since the device began;\n\
                      operation (read, write, flush, discard, mark: a number that a program wrote to the file `mark` beside\n\
                      the device, in the column offset); offset and bytes; outcome (done, error, full, lied); sequential and stalled\n\
                      (the model paused), 0 or 1; data_at, where its data begins in FILE.data. Lines stand in the order of answers.\n\n\
                      Examples:\n  fathom stack operations card.operations > card.csv\n  \
                      fathom stack operations card.operations --blktrace card      then: blkparse -i card -d card.bin; btt -i card.bin"
    )]
    Operations {
        /// The log
        file: PathBuf,
        /// A line of JSON for each instead of CSV
        #[arg(long)]
        json: bool,
        /// Write NAME.blktrace.0 instead, as blktrace does: for `blkparse -i NAME`
        #[arg(long, value_name = "NAME", conflicts_with = "json")]
        blktrace: Option<PathBuf>,
    },
    /// Print where a stack is mounted, for scripts
    #[command(after_help = "Example:\n  cd \"$(fathom stack path lab)\"")]
    Path {
        /// The stack's name
        name: String,
    },
    /// What is up
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `fathom stack calibrate`
#[derive(Debug, Args)]
pub struct Calibrate {
    /// A directory on what is to be measured, or with --destroy a block device or a file; it must
    /// exist
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// The model; replaced when it is there [default: print it]
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// How much of it is used, MiB: more than the device's own cache, and 16 at the least
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub size: u64,
    /// Some seconds instead of a minute or two: fewer operations, coarser tails
    #[arg(long)]
    pub quick: bool,
    /// The model's name: small letters, digits and dashes
    #[arg(long, default_value = "measured")]
    pub name: String,
    /// Overwrite what is on the block device, or in the file
    #[arg(long)]
    pub destroy: bool,
}

/// `fathom stack status`
#[derive(Debug, Args)]
pub struct Status {
    /// The stack's name [default: all with a modelled device]
    pub name: Option<String>,
    /// Go on with what happens every so many seconds
    #[arg(long, value_name = "S", num_args = 0..=1, default_missing_value = "1", requires = "name")]
    pub watch: Option<f64>,
    /// With --watch: end after so many
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, one object for each stack or moment
    #[arg(long)]
    pub json: bool,
}
