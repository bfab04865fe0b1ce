//! The words of the command line: the commands, and one file a command for what it takes.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

mod advise;
mod anatomy;
mod baseline;
mod compare;
mod cut;
mod doctor;
mod list;
mod papers;
mod report;
mod run;
mod simulate;
mod stack;
mod trace;
mod values;

pub use advise::Advise;
pub use anatomy::Anatomy;
pub use baseline::Baseline;
pub use compare::Compare;
pub use cut::{CutArgs, KeepsArg};
pub use doctor::Doctor;
pub use list::{Kind, List};
pub use papers::PapersArgs;
pub use report::Report;
pub use run::Run;
pub use simulate::Simulate;
pub use stack::{Age, Calibrate, Stack, StackAction, StackUp, Status};
pub use trace::{
    Trace, TraceAction, TraceAnonymise, TraceCapture, TraceFormat, TraceImport, TraceInfo, TraceOrder,
    TracePart, TraceReplay, TraceSynthesise,
};

/// Fathom, a performance laboratory for embedded and mobile databases.
///
/// Tells what an application's SQL does on any combination of engine, settings, file system and
/// device: how fast, where the time goes (CPU, read, write, fsync), and how sure the numbers are.
#[derive(Debug, Parser)]
#[command(
    name = "fathom",
    version,
    max_term_width = 110,
    after_help = "First time?  fathom run first-look      What can this machine do?  fathom doctor\n\
                  Settings for your own application?  fathom trace capture, then fathom advise\n\
                  Exit codes: 0 = all good, 1 = it ran and something failed, 2 = asked wrongly,\n\
                  and in a shell 130 and 143 where Ctrl-C or SIGTERM has stopped it, in order."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this machine can run, and the command that brings the rest
    #[command(
        after_help = "Example:\n  fathom doctor\n  fathom doctor --json | jq '.[] | select(.present | not) | .remedy'"
    )]
    Doctor(Doctor),
    /// Experiments, workloads, engines and file systems
    #[command(
        after_help = "Examples:\n  fathom list\n  fathom list workloads\n  fathom list --show journal-modes > mine.toml"
    )]
    List(List),
    /// Which settings your application should use on the devices that it runs on: PRAGMAs to paste
    #[command(after_help = "Examples:\n  fathom advise app.trace --device sd-slow\n  \
                      fathom advise app.trace --device emmc-51,ufs-fresh --must keep=all --html advice.html\n  \
                      fathom advise gmail --fs ext4,xfs --device ./my-card.toml\n  \
                      fathom advise app.trace --device sd-slow --live --cut\n\n\
                      Devices: `fathom list devices`, or a model of your own card: `fathom stack calibrate`.\n\
                      A trace: `fathom trace capture --out app.trace -- ./app`.")]
    Advise(Advise),
    /// Run an experiment: a built-in one by name, or your own file
    #[command(after_help = "Examples:\n  fathom run first-look\n  fathom run journal-modes --quick\n  \
                      fathom run update-cost --set stack.filesystem=ext4,xfs --repeat 10\n  \
                      fathom run journal-modes --trace mine.trace --trace gmail\n  fathom run mine.toml --resume\n  \
                      fathom run first-look --until 5% --budget 10m\n  \
                      fathom run first-look --on local,ssh:pi@board:/mnt/card\n  \
                      fathom run first-look --sqlite /usr/lib/x86_64-linux-gnu/libsqlite3.so.0,bundled")]
    Run(Run),
    /// Tables, the HTML report, figures and exports of results
    #[command(after_help = "Examples:\n  fathom report fathom-out/first-look/results.db\n  \
                      fathom report results.db --html report.html\n  fathom report results.db --figure P4-T3 --svg table3.svg\n  \
                      fathom report results.db --csv > results.csv")]
    Report(Report),
    /// The page of the papers: each finding, the paper's number, ours and the verdict, printed from
    /// published data
    #[command(after_help = "Examples, in the repository:\n  fathom papers --out docs/papers.md\n  \
                      fathom papers --check docs/papers.md\n  \
                      fathom papers --list                               the data and the commands that measured them\n  \
                      fathom papers --with p4-cards=new.db             do the verdicts come out again?")]
    Papers(PapersArgs),
    /// What changed between two results, with intervals; ~ where nothing is proven
    #[command(after_help = "Examples:\n  fathom compare before/results.db after/results.db\n  \
                      fathom compare fathom-baseline.toml new.db --fail-if-slower 10%\n  \
                      fathom compare a.db b.db --fail-if-slower 5% --metric flushes,bytes --junit gate.xml\n\n\
                      As a gate it exits with 0 (fine), 1 (slower than allowed) or 2 (asked wrongly, or it cannot be told).")]
    Compare(Compare),
    /// One commit on a time line: its calls on files, what reached the device, and whose that was
    #[command(
        after_help = "Examples:\n  fathom run first-look --quick --repeat 1 --set variants=wal/full --set filesystem=ext4 \\\n    \
                      --set device=sd-sandisk-extreme --set instruments.operations=true --set instruments.blocks=true --out a.db\n  \
                      fathom anatomy a.db --svg commit.svg\n  \
                      fathom anatomy a.db --phase update --execution 7 --perfetto commit.json"
    )]
    Anatomy(Anatomy),
    /// A measurement as a text for your repository, which `fathom compare` takes in the place of
    /// A.db
    #[command(after_help = "Examples:\n  fathom baseline results.db --out fathom-baseline.toml\n  \
                            fathom compare fathom-baseline.toml new.db --fail-if-slower 10%")]
    Baseline(Baseline),
    /// An application on devices that you do not have: recorded runs, or a trace, replayed on
    /// models in virtual time
    #[command(after_help = "Examples:\n  fathom simulate app.trace\n  \
                      fathom simulate gmail --set journal_mode=wal --device sd-slow,ufs-fresh --html gmail.html\n  \
                      fathom run journal-modes --set filesystem=ext4 --set device=recorder --set instruments.operations=true --out r.db\n  \
                      fathom simulate r.db --csv")]
    Simulate(Simulate),
    /// What a power cut leaves of a database, by journal mode, synchronous setting and file system:
    /// tried, not promised (needs root)
    #[command(
        after_help = "Examples:\n  fathom cut                     first-look's eight settings on ext4, two minutes\n  \
                      fathom cut --set filesystem=ext4,xfs --set journal_mode=delete,wal --set synchronous=full,normal\n  \
                      fathom cut --trace app.trace --set journal_mode=delete,wal --set synchronous=full\n  \
                      fathom cut --set journal_mode=delete --record cuts\n  \
                      fathom cut --replay cuts --state 1/17 --image after-the-cut.img\n\n\
                      It exits with 1 where a power cut takes more than the settings promise, or not everything could be\n\
                      tried. Ctrl-C ends it as it ends any program (130), after what was found until then is shown."
    )]
    Cut(CutArgs),
    /// A file system of a chosen kind, mounted, for your own use (needs root or a guest kernel)
    #[command(
        after_help = "Examples:\n  fathom stack up --fs xfs --name lab\n  fathom stack list\n  fathom stack down lab\n  \
                      fathom stack down --leftovers  what a killed run left behind, and nothing else\n  \
                      fathom stack down --all        both that and every stack that is up"
    )]
    Stack(Stack),
    /// SQL traces of applications: capture, import, make up, look at, replay
    #[command(
        after_help = "Examples:\n  fathom trace capture --out app.trace -- ./app --its-own options\n  \
                      fathom trace info app.trace\n  fathom trace import logcat.txt --out phone.trace\n  \
                      fathom trace synthesise gmail --out gmail.trace"
    )]
    Trace(Trace),
    /// Completions for a shell, to standard output
    #[command(
        after_help = "Examples:\n  fathom completions bash > ~/.local/share/bash-completion/completions/fathom\n  \
                            fathom completions zsh > ~/.zfunc/_fathom      with fpath+=~/.zfunc before compinit\n  \
                            fathom completions fish > ~/.config/fish/completions/fathom.fish"
    )]
    Completions {
        /// For which
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// The manual page, or with --out a page for each command
    #[command(after_help = "Examples:\n  fathom man | man -l -\n  fathom man --out ~/.local/share/man/man1")]
    Man {
        /// A directory that is there: fathom.1, fathom-run.1 and so on are written into it
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Execute one cell: takes an order as JSON on stdin and writes one event per line (used by
    /// `fathom run`)
    #[command(hide = true)]
    Worker,
    /// Do what a `fathom run --on` asks over standard input and output (internal)
    #[command(hide = true)]
    Agent {
        /// The directory under test
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// The agent of a connection that was lost, which is to end first
        #[arg(long, value_name = "PROCESS")]
        after: Option<u32>,
    },
    /// Serve a modelled device (internal)
    #[command(hide = true)]
    DeviceServer,
    /// Hold a guest whose file system is mounted here (internal)
    #[command(hide = true)]
    GuestKeeper,
    /// Take a stack down when its owner has ended (internal)
    #[command(hide = true)]
    StackGuard {
        /// The stack's entry in the state directory
        home: PathBuf,
    },
    /// Be the first process of a guest kernel (internal)
    #[command(hide = true)]
    GuestAgent,
    /// Look at states of a power cut in a guest kernel (internal)
    #[command(hide = true)]
    CutGuest,
}
