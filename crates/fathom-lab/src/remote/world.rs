//! Another machine as a [`World`]: what a schedule needs is asked of its agent.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_device::{LARGEST_MODEL, RequestTimes, SERVED_MAX, Statistics, text_of};
use fathom_ground::command::shell_line;
use fathom_ground::program::{executable, named, own_program};
use fathom_probe::Watch;
use fathom_stack::{Capability, StackRecord, StackSpec, image_state};
use serde_json::Value as Json;

use super::allowance::Allowance;
use super::connection::{Connection, Failure, ProgramOutput};
use super::files::{Content, plain_name, push};
use super::processor::processor_of;
use super::program::{PROBE, Probed, check_program, probed, program_for};
use super::shell;
use super::target::Target;
use super::wire::{Answer, Question};
use crate::cell::Cell;
use crate::event::{Event, WorkerRequest};
use crate::machine_state::MachineState;
use crate::plan::{Needs, PlannedCell};
use crate::schedule::{Interrupt, MachineLoad, MountedStack, Observations, StackFailure, WorkError, World};
use crate::store::{CutFinding, TraceRecord, Warning};

/// How long what needs no device may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How long making or taking down a stack may take, or looking at all that a machine can: a card
/// writes 1 GiB in two minutes.
const STACK_LIMIT: Duration = Duration::from_secs(1800);
/// How long a run may be past its own time limit before the agent is given up.
const WORK_GRACE: Duration = Duration::from_secs(120);
/// How long a replay may go on after it was told to end: its agent kills it after ten seconds.
const REPLAY_GRACE: Duration = Duration::from_secs(30);
/// How often the wish to stop is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// Pauses before a connection that was lost is tried again.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15)];
/// The setting that names a library, and how one of the machine's own is marked.
const LIBRARY: &str = "library";

/// The setting of an engine that is an extension of SQLite, likewise.
const EXTENSION: &str = "extension";
/// The workloads with a parameter that names a file.
const FILES: [(&str, &str); 2] = [("trace", "file"), ("mobibench-file", "calls")];
/// A library that is there already.
pub const REMOTE_FILE: &str = "remote:";

/// A machine that is reached by ssh or adb.
#[derive(Debug)]
pub struct Remote {
    target: Target,
    interrupt: Interrupt,
    origin: Instant,
    connection: Option<Connection>,
    /// The agent of the connection that was lost: its number among the processes there.
    before: Option<u32>,
    /// Where Fathom's files lie there.
    base: String,
    /// The script that starts the agent.
    script: String,
    /// Its program here.
    program: PathBuf,
    /// Files that lie there, by their path here.
    pushed: HashMap<PathBuf, (Content, String)>,
    /// What may come of the run under way.
    allowance: Allowance,
    /// What is to be told when the runs are over.
    notes: Vec<String>,
    /// The connection was lost and does not come back.
    is_given_up: bool,
}

impl Remote {
    /// Connects: pushes this program if it is not there yet, and starts its agent. What the user
    /// is to know meanwhile goes to `tell` at once: a slow way takes minutes.
    ///
    /// # Errors
    /// In words: no connection, no program for that processor, no directory.
    pub fn connect(
        target: &Target,
        interrupt: Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Remote, String> {
        let mut remote = Remote::unconnected(target.clone(), interrupt);
        remote.begin(tell)?;
        remote.sweep()?.iter().for_each(|note| tell(note));
        Ok(remote)
    }

    /// Before the first connection.
    fn unconnected(target: Target, interrupt: Interrupt) -> Remote {
        Remote {
            target,
            interrupt,
            origin: Instant::now(),
            connection: None,
            before: None,
            base: String::new(),
            script: String::new(),
            program: PathBuf::new(),
            pushed: HashMap::new(),
            allowance: Allowance::default(),
            notes: Vec::new(),
            is_given_up: false,
        }
    }

    /// Finds or brings a program that runs there, and starts its agent.
    fn begin(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        shell::check_cache()?;
        let own = own_program().map_err(|error| format!("this program's own path: {error}"))?;
        let own = named(&own).to_owned();
        // An update may have taken the place of the file that runs, which is what runs there, too.
        let content = |path: &Path| {
            Content::of(&executable(path)).map_err(|error| format!("{}: {error}", path.display()))
        };
        let own_content = content(&own)?;
        let probed = self.probe(&own_content)?;
        self.base.clone_from(&probed.base);
        let is_alike = (probed.system.as_str(), probed.processor.as_str())
            == ("Linux", processor_of(std::env::consts::ARCH));
        let other = program_for(&own, &probed)
            .and_then(|path| check_program(&path, &probed.processor).map(|()| path))
            .map_err(|problem| format!("{}: {problem}", self.target));
        if !is_alike {
            let other = other?;
            let content = content(&other)?;
            let is_there = self.probe(&content)?.has_program;
            return self.start(&(other, content), is_there, tell).map_err(Failure::words);
        }
        // This program is linked to the C library of this system: a board may have the same, and a
        // phone has not.
        let is_own_first = matches!(self.target, Target::Ssh { .. });
        if !is_own_first && let Ok(other) = &other {
            let content = content(other)?;
            let is_there = self.probe(&content)?.has_program;
            return self.start(&(other.clone(), content), is_there, tell).map_err(Failure::words);
        }
        let started = self.start(&(own, own_content), probed.has_program, tell);
        match (started, other) {
            // What its agent refused, another agent would refuse, too.
            (Err(Failure::Lost(first)), Ok(other)) if is_own_first && !self.interrupt.is_raised() => {
                let content = content(&other)?;
                let is_there = self.probe(&content)?.has_program;
                let started = self.start(&(other, content), is_there, tell);
                started.map_err(|second| Failure::Lost(of_both(&first, second.words())))
            }
            (started, _) => started,
        }
        .map_err(Failure::words)
    }

    fn start(
        &mut self,
        (program, content): &(PathBuf, Content),
        is_there: bool,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        if !is_there {
            tell(&format!(
                "{}: pushing {} ({:.1} MB)",
                self.target,
                plain_name(program),
                content.bytes as f64 / 1e6
            ));
            let pushed = push(&self.target, &executable(program), "fathom", content, &self.interrupt);
            // No other program would find room or leave, either.
            pushed.map_err(Failure::Refused)?;
        }
        let place = shell_line([content.place("fathom")]);
        // Behind a greeting without an end of its line the agent's first word would be none.
        self.script = format!("cd \"$base\" && echo && exec ./{place} agent --dir \"$work\"");
        self.program.clone_from(program);
        let connection = Connection::open(&self.target, &self.script, program, &self.interrupt)?;
        // The program for another processor may have been left from before an update of this one.
        let (there, here) = (connection.fathom(), crate::version::version());
        if there != here {
            tell(&format!(
                "warning: {}: {} is Fathom {}, and this is {here}: it measures there, and the results say so",
                self.target,
                fathom_output::shown_path(program),
                fathom_output::shown(there)
            ));
        }
        self.connection = Some(connection);
        Ok(())
    }

    fn probe(&self, content: &Content) -> Result<Probed, String> {
        let (place, directory) = (content.place("fathom"), content.place(""));
        let bytes = content.bytes;
        // The whole of it, and this user's own.
        let script = format!(
            "cd \"$base\" || exit 1; has=no; if [ -O {directory} ] && [ -O {place} ] && [ -x {place} ] && \
             [ \"$(wc -c < {place})\" -eq {bytes} ]; then has=yes; fi; printf '\\n%s\\t%s\\t%s\\t%s\\t%s\\n' {PROBE} \"$(uname -s)\" \"$(uname -m)\" \"$has\" \"$(pwd -P)\""
        );
        probed(&shell::run(&self.target, &script, None, &self.interrupt)?).ok_or_else(|| {
            format!("{}: it does not say what it is: is its shell a POSIX shell?", self.target)
        })
    }

    /// Removes what a run that was killed has left there; what that was, in words.
    ///
    /// # Errors
    /// The connection is lost, and why: nobody tells that once more.
    fn sweep(&mut self) -> Result<Vec<String>, String> {
        let (removed, failed) = match self.ask_unless_stopped(&Question::Sweep) {
            Ok(Answer::Swept { removed, failed }) => (removed, failed),
            Ok(other) => return Err(self.unexpected(&other)),
            Err(problem) if self.connection.is_none() => return Err(problem),
            // It lives, and can be asked for runs.
            Err(_) => return Ok(Vec::new()),
        };
        let target = self.target.to_string();
        let shown = |label: &String| fathom_output::shown(label);
        let removed = removed
            .iter()
            .map(|label| format!("{target}: removed what a killed run had left: {}", shown(label)));
        let failed = failed.iter().map(|why| format!("warning: {target}: {}", shown(why)));
        Ok(removed.chain(failed).collect())
    }

    /// Sweeps between two runs, where nobody listens: what that was is told when they are over.
    fn sweep_again(&mut self) -> Result<(), String> {
        for note in self.sweep()? {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        Ok(())
    }

    /// Everything that `fathom doctor` says there, and the command that installs what packages
    /// bring.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn doctor(&mut self) -> Result<(Vec<Capability>, Option<String>), String> {
        match self.ask_unless_stopped(&Question::Doctor)? {
            Answer::Capabilities { capabilities, packages } => Ok((capabilities, packages)),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Replays a trace once there: `fathom trace replay` with these words and this file. Lines of
    /// its output go to `on_line`; gives its exit code, none where a signal ended it, and what it
    /// wrote to stderr.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn replay(
        &mut self,
        mut words: Vec<String>,
        file: &Path,
        on_line: &mut dyn FnMut(&[u8]),
    ) -> Result<(Option<i32>, String), String> {
        for word in &mut words {
            let setting = word.strip_prefix("--set=").and_then(|setting| setting.split_once('='));
            if let Some((key, library)) = setting
                && [LIBRARY, EXTENSION].contains(&key.strip_prefix("engine.").unwrap_or(key))
                && let Some(there) = self.library_there(library)?
            {
                *word = format!("--set={key}={there}");
            }
        }
        words.extend(["--".into(), self.bring(file)?]);
        self.tell(&Question::Replay { words })?;
        self.replayed(REPLAY_GRACE, on_line)
    }

    /// Hears a replay to its end. One that does not end within `grace` after it was told to is left
    /// to its agent, which ends when this side has gone.
    fn replayed(
        &mut self,
        grace: Duration,
        on_line: &mut dyn FnMut(&[u8]),
    ) -> Result<(Option<i32>, String), String> {
        let mut told: Option<Instant> = None;
        loop {
            if self.interrupt.is_raised() && told.is_none() {
                self.tell(&Question::Stop)?;
                told = Some(Instant::now());
            }
            if told.is_some_and(|since| since.elapsed() > grace) {
                self.let_go();
                return Err(format!(
                    "{}: stopped by a signal; its agent did not end the replay within {} s, and was left: what is there \
                     still is removed when it ends, or by the next command for that machine",
                    self.target,
                    grace.as_secs()
                ));
            }
            match self.hear(GLANCE)? {
                ProgramOutput::Silence => {}
                ProgramOutput::Raw(line) => on_line(&line),
                ProgramOutput::Answer(Answer::Replayed { code, said }) => return Ok((code, said)),
                ProgramOutput::Answer(Answer::Refused { problem }) => return Err(problem),
                ProgramOutput::Answer(other) => return Err(self.unexpected(&other)),
            }
        }
    }

    /// Path there of a file of this machine, which is pushed unless it is there already.
    fn bring(&mut self, path: &Path) -> Result<String, String> {
        let found = self.pushed.get(path).cloned();
        let (content, name) = match found {
            Some(found) => found,
            None => {
                let content = Content::of(path).map_err(|error| format!("{}: {error}", path.display()))?;
                (content, plain_name(path))
            }
        };
        let there = format!("{}/{}", self.base, content.place(&name));
        let size = self.ask(&Question::Size { path: there.clone().into() }, ANSWER_LIMIT)?;
        if !matches!(size, Answer::Size { bytes: Some(bytes) } if bytes == content.bytes) {
            push(&self.target, path, &name, &content, &self.interrupt)?;
        }
        self.pushed.insert(path.to_owned(), (content, name));
        Ok(there)
    }

    fn lost(&mut self, failure: Failure) -> String {
        if let Failure::Lost(_) = &failure {
            self.let_go();
        }
        failure.words()
    }

    /// Ends the connection. Its agent may not know of that for a while.
    fn let_go(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.before = Some(connection.process());
        }
    }

    fn unexpected(&mut self, answer: &Answer) -> String {
        match &self.connection {
            Some(connection) => {
                let failure = connection.unexpected(answer);
                self.lost(failure)
            }
            None => self.no_connection(),
        }
    }

    /// Ends the connection to an agent that tells more than was asked.
    fn too_much(&mut self, problem: &str) -> String {
        self.let_go();
        format!("{}: its agent {problem}", self.target)
    }

    fn no_connection(&self) -> String {
        format!("the connection to {} was lost", self.target)
    }

    fn ask(&mut self, ask: &Question, limit: Duration) -> Result<Answer, String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let answer = connection.ask(ask, limit, &self.interrupt);
        answer.map_err(|failure| self.lost(failure))
    }

    /// See [`Connection::ask_unless_stopped`].
    fn ask_unless_stopped(&mut self, ask: &Question) -> Result<Answer, String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let answer = connection.ask_unless_stopped(ask, STACK_LIMIT, &self.interrupt);
        answer.map_err(|failure| self.lost(failure))
    }

    /// See [`Connection::ask_and_hurry`].
    fn ask_and_hurry(&mut self, ask: &Question, limit: Duration) -> Result<Answer, String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let answer = connection.ask_and_hurry(ask, limit, &self.interrupt);
        answer.map_err(|failure| self.lost(failure))
    }

    fn answer(&mut self) -> Result<Answer, String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let answer = connection.answer(ANSWER_LIMIT, &self.interrupt);
        answer.map_err(|failure| self.lost(failure))
    }

    fn tell(&mut self, ask: &Question) -> Result<(), String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let told = connection.tell(ask, &self.interrupt);
        told.map_err(|failure| self.lost(failure))
    }

    fn hear(&mut self, limit: Duration) -> Result<ProgramOutput, String> {
        let Some(connection) = &mut self.connection else { return Err(self.no_connection()) };
        let heard = connection.hear(limit);
        heard.map_err(|failure| self.lost(failure))
    }

    /// Connects again where the connection was lost.
    fn connected(&mut self) -> Result<(), String> {
        if let Some(connection) = &mut self.connection {
            if !connection.has_ended() {
                return Ok(());
            }
            self.let_go();
        }
        let mut problem = self.no_connection();
        // An agent that has not noticed yet would go on with its run beside the next one.
        let script = match self.before {
            Some(process) => format!("{} --after {process}", self.script),
            None => self.script.clone(),
        };
        for pause in AGAIN {
            let begin = Instant::now();
            while begin.elapsed() < pause && !self.interrupt.is_raised() {
                std::thread::sleep(GLANCE);
            }
            if self.interrupt.is_raised() {
                return Err(problem);
            }
            match Connection::open(&self.target, &script, &self.program, &self.interrupt) {
                Ok(connection) => {
                    self.connection = Some(connection);
                    match self.sweep_again() {
                        Ok(()) => return Ok(()),
                        Err(again) => problem = again,
                    }
                }
                Err(again) => problem = again.words(),
            }
        }
        self.is_given_up = true;
        Err(format!("{problem}; it was tried {} times again", AGAIN.len()))
    }

    /// The stack as it is asked for there: files of this machine's are pushed.
    fn stack_there(&mut self, spec: &StackSpec) -> Result<StackSpec, String> {
        let mut spec = spec.clone();
        if let Some(image) = &spec.image {
            spec.image = Some(self.bring(&image.clone())?.into());
        }
        for device in [&mut spec.device, &mut spec.log_device].into_iter().flatten() {
            if text_of(device).is_none() {
                *device = self.bring(Path::new(&device.clone()))?;
            }
        }
        Ok(spec)
    }

    /// Path there of a library: one of this machine's is pushed. None of one that is no path.
    fn library_there(&mut self, library: &str) -> Result<Option<String>, String> {
        match library.strip_prefix(REMOTE_FILE) {
            Some(there) => Ok(Some(there.to_owned())),
            None if library.contains('/') => self.bring(Path::new(library)).map(Some),
            None => Ok(None),
        }
    }

    /// The order as it is executed there.
    fn order_there(&mut self, order: &WorkerRequest) -> Result<WorkerRequest, String> {
        let mut order = order.clone();
        for key in [LIBRARY, EXTENSION] {
            if let Some(engine) = &mut order.cell.engine
                && let Some(Json::String(library)) = engine.settings.get_mut(key)
                && let Some(there) = self.library_there(library)?
            {
                *library = there;
            }
        }
        let workload = &mut order.cell.workload;
        for (name, parameter) in FILES {
            if workload.name == name
                && let Some(Json::String(file)) = workload.params.get_mut(parameter)
            {
                *file = self.bring(Path::new(&file.clone()))?;
            }
        }
        Ok(order)
    }
}

/// Why the second program that was tried did not start, and why the first one had not, where that
/// is another reason: the second may lie here from an earlier release, and say only that.
fn of_both(first: &str, second: String) -> String {
    match first.lines().last() == second.lines().last() {
        true => second,
        false => format!("{second}\n  before that this program itself was tried: {first}"),
    }
}

impl World for Remote {
    fn now_ns(&mut self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now_ms(&mut self) -> i64 {
        crate::now_ms()
    }

    fn choose(&mut self, machine: &str) -> Result<(), String> {
        if machine == self.target.to_string() {
            return Ok(());
        }
        Err(format!("the machine is {}, and the cell is for {machine:?}", self.target))
    }

    fn capabilities(&mut self, machine: &str, needs: Needs) -> Result<Vec<Capability>, String> {
        self.choose(machine)?;
        match self.ask(&Question::Capabilities { needs }, ANSWER_LIMIT)? {
            Answer::Capabilities { capabilities, .. } => Ok(capabilities),
            other => Err(self.unexpected(&other)),
        }
    }

    fn environment(&mut self) -> Result<BTreeMap<String, String>, String> {
        match self.ask(&Question::Environment, ANSWER_LIMIT)? {
            Answer::Environment { mut values } => {
                values.insert("machine".into(), self.target.to_string());
                Ok(values)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    fn up(&mut self, spec: &StackSpec, label: &str) -> Result<MountedStack, StackFailure> {
        self.connected()?;
        // That of the file here: it may have been pushed to the machine anew in the meantime.
        let image = spec.image.as_deref().map(image_state).unwrap_or_default();
        let spec = Box::new(self.stack_there(spec)?);
        let mut answer = self.ask_unless_stopped(&Question::Up { spec, label: label.to_owned() })?;
        let mut models: Vec<String> = Vec::new();
        loop {
            match answer {
                // A stack has two devices at most.
                Answer::Model { device: device @ ..2, text } => {
                    models.resize_with(models.len().max(device + 1), String::new);
                    if let Some(model) = models.get_mut(device) {
                        model.push_str(&text);
                    }
                    if models.iter().any(|model| model.len() as u64 > LARGEST_MODEL) {
                        let kib = LARGEST_MODEL >> 10;
                        let problem =
                            format!("tells of a device's model of more than {kib} KiB: it was left");
                        return Err(self.too_much(&problem).into());
                    }
                }
                Answer::Up { directory, record } => {
                    return Ok(MountedStack { directory, record: StackRecord { models, image, ..*record } });
                }
                Answer::NoRoom { problem } => return Err(StackFailure { problem, is_full_disk: true }),
                other => return Err(self.unexpected(&other).into()),
            }
            answer = self.answer()?;
        }
    }

    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure> {
        match self.ask_and_hurry(&Question::Floor, ANSWER_LIMIT)? {
            Answer::Floor { ns } => Ok(ns),
            Answer::NoRoom { problem } => Err(StackFailure { problem, is_full_disk: true }),
            other => Err(self.unexpected(&other).into()),
        }
    }

    fn cpus(&mut self, cell: &PlannedCell) -> Vec<usize> {
        // A connection that is lost here is lost in the next question, too, which can say so.
        match self.ask(&Question::Cpus { cell: Box::new(cell.cell.clone()) }, ANSWER_LIMIT) {
            Ok(Answer::Cpus { cpus }) => cpus,
            _ => Vec::new(),
        }
    }

    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError> {
        let failed = WorkError::Failed;
        // A file that is being pushed is broken off where the user wants to stop.
        let order = self.order_there(order).map_err(|problem| match self.interrupt.is_raised() {
            true => WorkError::Interrupted,
            false => failed(problem),
        })?;
        self.allowance = Allowance::of(&order);
        let order = Box::new(order);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.tell(&Question::Work { order, limit_ms }).map_err(failed)?;
        let begin = Instant::now();
        let mut stopped: Option<Instant> = None;
        loop {
            if self.interrupt.is_raised() && stopped.is_none() {
                self.tell(&Question::Stop).map_err(|_| WorkError::Interrupted)?;
                stopped = Some(Instant::now());
            }
            let is_late = begin.elapsed() > limit.saturating_add(WORK_GRACE)
                || stopped.is_some_and(|since| since.elapsed() > WORK_GRACE);
            if is_late {
                self.let_go();
                return match stopped {
                    Some(_) => Err(WorkError::Interrupted),
                    None => Err(failed(format!("{}: its agent does not end the run", self.target))),
                };
            }
            let heard = self.hear(GLANCE).map_err(|problem| match stopped {
                Some(_) => WorkError::Interrupted,
                None => WorkError::Failed(problem),
            })?;
            match heard {
                ProgramOutput::Silence => {}
                ProgramOutput::Raw(line) => match serde_json::from_slice(&line) {
                    // It is shown, and not kept.
                    Ok(event @ Event::Progress { .. }) => on_event(event),
                    Ok(event) => {
                        let taken = self.allowance.take(line.len());
                        taken.map_err(|problem| failed(self.too_much(&problem)))?;
                        on_event(event);
                    }
                    Err(error) => {
                        self.let_go();
                        return Err(failed(format!("{}: what came is no event: {error}", self.target)));
                    }
                },
                ProgramOutput::Answer(Answer::Worked { is_interrupted: true, .. }) => {
                    return Err(match self.interrupt.is_raised() {
                        true => WorkError::Interrupted,
                        false => failed(format!("{}: its agent was told to end", self.target)),
                    });
                }
                ProgramOutput::Answer(Answer::Worked { failed: None, .. }) => return Ok(()),
                ProgramOutput::Answer(Answer::Worked { failed: Some(problem), .. }) => {
                    return Err(failed(problem));
                }
                ProgramOutput::Answer(other) => return Err(failed(self.unexpected(&other))),
            }
        }
    }

    fn trace(&mut self) -> Result<Option<Watch>, String> {
        match self.ask(&Question::Trace, ANSWER_LIMIT)? {
            Answer::Watch { watch } => Ok(watch),
            other => Err(self.unexpected(&other)),
        }
    }

    fn traced(&mut self, _watched: Observations) -> Result<Option<TraceRecord>, String> {
        // The agent has kept what the worker told on its way here.
        let mut answer = self.ask_and_hurry(&Question::Traced, STACK_LIMIT)?;
        let mut all = Vec::new();
        loop {
            match answer {
                Answer::Blocks { rows } => {
                    let allowed = self.allowance.requests(all.len() + rows.len());
                    allowed.map_err(|problem| self.too_much(&problem))?;
                    all.extend(rows);
                }
                Answer::Traced { trace } => {
                    return Ok(trace.map(|trace| TraceRecord { rows: all, ..*trace }));
                }
                other => return Err(self.unexpected(&other)),
            }
            answer = self.answer()?;
        }
    }

    fn devices(&mut self) -> Result<Vec<Statistics>, String> {
        match self.ask(&Question::Devices, ANSWER_LIMIT)? {
            Answer::Devices { statistics } => Ok(statistics),
            other => Err(self.unexpected(&other)),
        }
    }

    fn keep_served(&mut self) -> Result<bool, String> {
        match self.ask(&Question::KeepServed, ANSWER_LIMIT)? {
            Answer::Kept { is_kept } => Ok(is_kept),
            other => Err(self.unexpected(&other)),
        }
    }

    fn served(&mut self) -> Result<Vec<Vec<RequestTimes>>, String> {
        let mut answer = self.ask(&Question::RequestTimes, STACK_LIMIT)?;
        let mut all: Vec<Vec<RequestTimes>> = Vec::new();
        loop {
            match answer {
                // A stack has two devices at most; no number makes a list as long as it likes.
                Answer::Operations { device: device @ ..2, served } => {
                    all.resize_with(all.len().max(device + 1), Vec::new);
                    if all.get(device).map_or(0, Vec::len) + served.len() > SERVED_MAX {
                        let problem = format!(
                            "tells of more than {SERVED_MAX} operations of a device, which keeps no more: it was left"
                        );
                        return Err(self.too_much(&problem));
                    }
                    if let Some(list) = all.get_mut(device) {
                        list.extend(served);
                    }
                }
                Answer::RequestTimes { devices: devices @ ..=2 } => {
                    all.resize_with(devices, Vec::new);
                    return Ok(all);
                }
                other => return Err(self.unexpected(&other)),
            }
            answer = self.answer()?;
        }
    }

    /// It is the database's and the file system's doing, and no machine's: a modelled device here
    /// has it as well.
    fn power_cut(&mut self, _cell: &Cell, _seed: u64) -> Result<Option<CutFinding>, WorkError> {
        Err(WorkError::Failed(format!(
            "it is tried on the machine that fathom itself runs on, and not on {}; without --on it is tried here",
            self.target
        )))
    }

    fn down(&mut self) -> Result<(), String> {
        // An agent without a connection takes its stack down by itself.
        if self.connection.is_none() {
            return Ok(());
        }
        match self.ask_and_hurry(&Question::Down, STACK_LIMIT)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn machine_load(&mut self) -> MachineLoad {
        match self.ask(&Question::MachineLoad, ANSWER_LIMIT) {
            Ok(Answer::MachineLoad(machine_load)) => machine_load,
            _ => MachineLoad::default(),
        }
    }

    fn state(&mut self) -> MachineState {
        match self.ask(&Question::State, ANSWER_LIMIT) {
            Ok(Answer::State(state)) => state,
            _ => MachineState::default(),
        }
    }

    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        match self.ask(&Question::Condition, ANSWER_LIMIT) {
            Ok(Answer::Condition { state, remarks }) => (state, remarks),
            _ => (MachineState::default(), Vec::new()),
        }
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn interrupted(&mut self) -> bool {
        self.is_given_up || self.interrupt.is_raised()
    }

    fn is_stopped(&mut self) -> bool {
        self.interrupt.is_raised()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order_of(workload: serde_json::Value) -> WorkerRequest {
        let cell = json!({"workload": workload, "stack": StackSpec::default(), "axes": {}});
        let order = json!({"protocol": 1, "cell": cell, "seed": 1, "directory": "/x"});
        serde_json::from_value(order).unwrap()
    }

    /// Ctrl-C while a trace was pushed for the first run was written down as a run that had failed.
    #[test]
    fn what_is_broken_off_on_its_way_is_no_failed_run() {
        let interrupt = Interrupt::new();
        let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), interrupt.clone());
        let order = order_of(json!({"name": "trace", "file": "/nonexistent/app.trace"}));
        let mut worked = || remote.work(&order, Duration::from_secs(60), &mut |_| {});
        assert!(matches!(worked(), Err(WorkError::Failed(why)) if why.contains("/nonexistent/app.trace")));
        interrupt.raise();
        assert_eq!(worked(), Err(WorkError::Interrupted));
    }

    /// A recording of file calls was looked for there, by its path here.
    #[test]
    fn each_file_that_a_workload_names_is_brought() {
        for (name, parameter) in FILES {
            let kind = fathom_workload::workload_named(name).unwrap();
            assert!(kind.parameters.iter().any(|known| known.name == parameter), "{name}: {parameter}");
            let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
            let order = order_of(json!({"name": name, parameter: "/nonexistent/app.file"}));
            let problem = remote.order_there(&order).unwrap_err();
            assert!(problem.starts_with("/nonexistent/app.file: "), "{problem}");
        }
    }

    /// "pushing" was told when it had been pushed, after minutes of silence over a slow way, and
    /// not at all where that failed.
    #[test]
    fn what_is_to_be_known_is_told_before_it_is_done() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("fathom-aarch64");
        std::fs::write(&program, "not pushed").unwrap();
        let content = Content::of(&program).unwrap();
        // Gone before it is pushed.
        std::fs::remove_file(&program).unwrap();
        let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
        let mut told = Vec::new();
        let started = remote.start(&(program, content), false, &mut |note| told.push(note.to_owned()));
        assert!(matches!(started, Err(Failure::Refused(_))), "{started:?}");
        assert_eq!(told, ["ssh:board: pushing fathom-aarch64 (0.0 MB)"]);
    }

    /// What happened: what was removed there, and what could not be, after a connection had been
    /// lost and made again, was told to nobody.
    #[test]
    fn what_is_swept_between_runs_is_told_when_they_are_over() {
        let script = "while read asked; do \
                      echo '{\"swept\":{\"removed\":[\"wal full\"],\"failed\":[\"/mnt/x is busy\"]}}'; done";
        let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
        remote.connection = Some(Connection::to(script));
        remote.sweep_again().unwrap();
        remote.sweep_again().unwrap();
        let removed = "ssh:board: removed what a killed run had left: wal full";
        assert_eq!(remote.notes(), [removed, "warning: ssh:board: /mnt/x is busy"]);
        assert_eq!(remote.notes(), Vec::<String>::new());
    }

    /// What happened: of an agent that ended before it was asked for anything, where there was no
    /// memory for it, say, nothing but "the connection to ssh:board was lost" was told.
    #[test]
    fn an_agent_that_ends_at_once_is_told_with_how_it_ended() {
        let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
        remote.connection = Some(Connection::to("exit 3"));
        let problem = remote.sweep().unwrap_err();
        assert!(problem.contains("ended with exit status: 3"), "{problem}");
        assert!(remote.connection.is_none());
        let refuses = "read asked; echo '{\"refused\":{\"problem\":\"no\"}}'; read end";
        remote.connection = Some(Connection::to(refuses));
        assert_eq!(remote.sweep(), Ok(Vec::new()));
    }

    /// What happened: this program could not start on a board of its own processor, an old one for
    /// that processor lay here and was tried as well, and all that was told was its release.
    #[test]
    fn why_the_first_program_did_not_start_is_told_with_why_the_second_did_not() {
        let both = of_both("lost: out of memory", "it speaks version 4".into());
        assert!(both.starts_with("it speaks version 4\n") && both.ends_with("lost: out of memory"), "{both}");
        let hint = |file: &str| format!("{file}: Permission denied\n  the directory lets no program start");
        assert_eq!(of_both(&hint("files/a"), hint("files/b")), hint("files/b"));
    }

    /// A machine that told without an end filled the memory of this one.
    #[test]
    fn a_run_that_tells_more_than_was_asked_ends_with_why() {
        let script = "read order; x=$(head -c 500000 /dev/zero | tr '\\0' x); \
                      while echo \">{\\\"event\\\":\\\"verified\\\",\\\"check\\\":\\\"$x\\\"}\"; do :; done";
        let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
        remote.connection = Some(Connection::to(script));
        let order = order_of(json!({"name": "mobibench-sql", "transactions": 10}));
        let mut heard = 0;
        let worked = remote.work(&order, Duration::from_secs(600), &mut |_| heard += 1);
        let Err(WorkError::Failed(why)) = worked else { panic!("{worked:?}") };
        assert!(why.contains("its agent tells more than a run of at most 30 executions"), "{why}");
        assert!(remote.connection.is_none() && (100..200).contains(&heard), "{heard}");
    }

    /// The answer held the texts of the models and was longer than a line; and one that tells
    /// without an end is left.
    #[test]
    fn the_models_of_a_stack_are_put_together_from_their_parts() {
        let place = tempfile::tempdir().unwrap();
        let said = place.path().join("said");
        let up = |model: &str, is_endless: bool| {
            let line = |answer: &Answer| serde_json::to_string(answer).unwrap() + "\n";
            let parts = super::super::agent::parts(model);
            let told: String =
                parts.map(|part| line(&Answer::Model { device: 0, text: part.to_owned() })).collect();
            let end = Answer::Up { directory: "/x".into(), record: Box::default() };
            std::fs::write(&said, told + &line(&end)).unwrap();
            let script = match is_endless {
                false => format!("read asked; cat '{}'; read end", said.display()),
                true => format!("read asked; while head -n 1 '{}'; do :; done", said.display()),
            };
            let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), Interrupt::new());
            remote.connection = Some(Connection::to(&script));
            remote.up(&StackSpec::default(), "x")
        };
        let model = "\"é".repeat(300_000);
        assert_eq!(up(&model, false).unwrap().record.models, std::slice::from_ref(&model));
        assert_eq!(up("", false).unwrap().record, StackRecord::default());
        let problem = up(&model, true).unwrap_err().problem;
        assert!(problem.contains("its agent tells of a device's model of more than 1024 KiB"), "{problem}");
    }

    /// What happened: a replay whose agent lived and hung was waited for without an end after
    /// Ctrl-C; so was one that talked on.
    #[test]
    fn a_replay_that_does_not_end_is_left_after_the_wish_to_stop() {
        for script in ["while echo '\"beat\"'; do sleep 1; done", "exec yes '>line'"] {
            let interrupt = Interrupt::new();
            let mut remote = Remote::unconnected("ssh:board".parse().unwrap(), interrupt.clone());
            remote.connection = Some(Connection::to(script));
            interrupt.raise();
            let begin = Instant::now();
            let left = remote.replayed(Duration::from_secs(1), &mut |_| {}).unwrap_err();
            // Its own limit of a second, and not the one that users have.
            let told = ["stopped by a signal", "within 1 s", "was left"];
            assert!(told.iter().all(|part| left.contains(part)), "{left}");
            assert!(
                remote.connection.is_none() && begin.elapsed() < REPLAY_GRACE * 10,
                "{:?}",
                begin.elapsed()
            );
        }
    }
}
