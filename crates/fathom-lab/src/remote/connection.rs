//! A line to the agent on another machine.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::lines::{self, RAW};

use super::agent::SILENCE;
use super::shell;
use super::target::Target;
use super::wire::{Answer, BEAT, Question, VERSION};
use crate::schedule::Interrupt;

/// How long an agent may take to say that it is there; on a phone the program is read for the first
/// time.
const HELLO_LIMIT: Duration = Duration::from_secs(60);
/// Lines that have come and are not read yet; each has 1 MiB at most, and some hundred octets as a
/// rule.
const WAITING_MAX: usize = 256;
/// How often is looked while nothing comes.
const GLANCE: Duration = Duration::from_millis(50);
/// How long is looked for what has come meanwhile, before an agent is called silent.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// How long `ssh` or `adb` may take to end after its connection.
const END_LIMIT: Duration = Duration::from_secs(2);
/// How long an answer is waited for by whoever wants to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// The same of what must come to its end: a card that takes what was written to it needs minutes.
const HURRY_LIMIT: Duration = Duration::from_secs(180);
/// Lines before the agent's first that are somebody else's: a login shell's greetings.
const GREETINGS_MAX: usize = 200;
/// Letters of what an agent calls its Fathom: a release and a commit.
const FATHOM_MAX: usize = 80;
/// Letters that are shown of an answer to another question.
const SHOWN_MAX: usize = 200;
/// What is kept of what the machine complains of, octets.
const COMPLAINTS_KEPT: usize = 4096;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The agent says that it cannot be done.
    Refused(String),
    /// The connection is gone.
    Lost(String),
}

impl Failure {
    pub fn words(self) -> String {
        match self {
            Failure::Refused(words) | Failure::Lost(words) => words,
        }
    }
}

/// What comes while a program works there.
#[derive(Debug)]
pub(super) enum ProgramOutput {
    /// A line of the program's, with its end.
    Raw(Vec<u8>),
    /// The agent's.
    Answer(Answer),
    /// Nothing within the time.
    Silence,
}

/// An agent that is there. Dropping it ends the connection, and with it the agent and all that it
/// has.
#[derive(Debug)]
pub(super) struct Connection {
    target: Target,
    /// Where the agent's program lies here.
    program: PathBuf,
    /// The agent's number among the processes there.
    process: u32,
    /// Which Fathom it is.
    fathom: String,
    child: Child,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    lines: Receiver<Vec<u8>>,
    complaints: Arc<Mutex<Vec<u8>>>,
    /// When the last line came.
    heard: Instant,
    /// Nothing comes any more: its end is not waited for.
    is_silent: bool,
    /// Dropped to end the beats.
    _beats: Sender<()>,
}

impl Connection {
    /// Starts the agent with this script, which ends in `exec`; `program` is what it is here.
    ///
    /// # Errors
    /// It cannot be started, or what the machine said; refused, where the agent itself said it.
    pub fn open(
        target: &Target,
        script: &str,
        program: &Path,
        interrupt: &Interrupt,
    ) -> Result<Connection, Failure> {
        let script = format!("{}{script}", shell::places(target));
        let Some(mut command) = shell::command(target, &script) else {
            return Err(Failure::Lost(format!("{target}: no other machine")));
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |error| Failure::Lost(shell::not_started(target, &error));
        let mut child = command.spawn().map_err(cannot)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::Lost(format!("{target}: a program without pipes")));
        };
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&complaints);
        thread::spawn(move || keep(stderr, &kept));
        let stdin = Arc::new(Mutex::new(Some(stdin)));
        let (beats, ended) = channel();
        let beating = Arc::clone(&stdin);
        thread::spawn(move || beat(&beating, &ended));
        let lines = lines::receive_few(stdout, WAITING_MAX);
        let target = target.clone();
        let (heard, is_silent) = (Instant::now(), false);
        let mut connection = Connection {
            target,
            program: program.to_owned(),
            process: 0,
            fathom: String::new(),
            child,
            stdin,
            lines,
            complaints,
            heard,
            is_silent,
            _beats: beats,
        };
        connection.greet(interrupt)?;
        Ok(connection)
    }

    /// Waits for the agent's first words, past those of a login shell.
    fn greet(&mut self, interrupt: &Interrupt) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut greetings = 0;
        while begin.elapsed() < HELLO_LIMIT && greetings < GREETINGS_MAX {
            let line = match self.lines.recv_timeout(GLANCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if interrupt.is_raised() => {
                    self.is_silent = true;
                    return Err(Failure::Lost(format!("{}: stopped by a signal", self.target)));
                }
                Err(RecvTimeoutError::Timeout) => continue,
            };
            greetings += 1;
            match serde_json::from_slice(&line) {
                Ok(Answer::Hello { version: VERSION, process, fathom }) => {
                    self.process = process;
                    self.fathom = fathom.chars().take(FATHOM_MAX).collect();
                    return Ok(());
                }
                Ok(Answer::Hello { version, fathom, .. }) => {
                    let fathom: String = fathom.chars().take(FATHOM_MAX).collect();
                    let program = fathom_output::shown_path(&self.program);
                    let problem = format!(
                        "Fathom {fathom} there speaks version {version}, this one {VERSION}: {program}, the program \
                         for that processor, is of another release; fetch or make it anew (scripts/static.sh)"
                    );
                    return Err(Failure::Lost(format!("{}: {problem}", self.target)));
                }
                Ok(Answer::Refused { problem }) => {
                    return Err(Failure::Refused(format!("{}: {problem}", self.target)));
                }
                _ => {}
            }
        }
        self.is_silent = true;
        Err(Failure::Lost(format!("{}: its agent did not say that it is there", self.target)))
    }

    /// The agent's number among the processes there.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Which Fathom it is.
    pub fn fathom(&self) -> &str {
        &self.fathom
    }

    /// Whether it has ended while nobody listened: runs were made on another machine meanwhile. An
    /// agent that said more than that it lives is none to go on with, either.
    pub fn has_ended(&mut self) -> bool {
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => line,
                Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) if self.heard.elapsed() <= SILENCE => return false,
                Err(TryRecvError::Empty) => match self.lines.recv_timeout(LAST_LOOK) {
                    Ok(line) => line,
                    Err(_) => {
                        self.is_silent = true;
                        return true;
                    }
                },
            };
            self.heard = Instant::now();
            if !matches!(serde_json::from_slice(&line), Ok(Answer::Beat)) {
                return true;
            }
        }
    }

    /// Says something. A network that is gone takes no more than the pipes hold: one that has taken
    /// nothing for [`SILENCE`] is lost, and who wants to stop waits no longer than [`STOP_LIMIT`].
    pub fn tell(&mut self, ask: &Question, interrupt: &Interrupt) -> Result<(), Failure> {
        self.tell_within(ask, SILENCE, interrupt)
    }

    fn tell_within(&mut self, ask: &Question, limit: Duration, interrupt: &Interrupt) -> Result<(), Failure> {
        let is_over =
            |still: Duration| still >= limit || (interrupt.is_raised() && still >= STOP_LIMIT.min(limit));
        let written = {
            let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
            stdin.as_mut().map(|pipe| lines::send_unless(pipe, ask, is_over))
        };
        match written {
            Some(Ok(())) => Ok(()),
            // Of what was said it may have a part, behind which nothing else can be said.
            Some(Err(error)) if error.kind() == ErrorKind::TimedOut => {
                self.is_silent = true;
                if interrupt.is_raised() {
                    return Err(self.stopped());
                }
                let problem = format!("it has taken nothing for {} s", limit.as_secs());
                Err(Failure::Lost(format!("the connection to {} was lost: {problem}", self.target)))
            }
            _ => Err(self.gone()),
        }
    }

    /// Asks, and waits at most so long; who wants to stop waits no longer than [`STOP_LIMIT`].
    pub fn ask(&mut self, ask: &Question, limit: Duration, interrupt: &Interrupt) -> Result<Answer, Failure> {
        self.tell(ask, interrupt)?;
        self.answer(limit, interrupt)
    }

    /// As [`Connection::ask`], of what begins something long: a wish to stop ends the wait, and with
    /// it the connection; the agent then undoes what it has.
    pub fn ask_unless_stopped(
        &mut self,
        ask: &Question,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Answer, Failure> {
        self.tell(ask, interrupt)?;
        self.wait_and_watch(limit, |connection| match interrupt.is_raised() {
            true => Err(connection.stopped()),
            false => Ok(()),
        })
    }

    /// As [`Connection::ask`], of what takes the time of a device and must come to its end: a wish
    /// to stop is told to the agent, which then waits for no device, and has [`HURRY_LIMIT`].
    pub fn ask_and_hurry(
        &mut self,
        ask: &Question,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<Answer, Failure> {
        let mut told: Option<Instant> = None;
        self.tell(ask, interrupt)?;
        self.wait_and_watch(limit, |connection| match told {
            None if interrupt.is_raised() => {
                told = Some(Instant::now());
                connection.tell(&Question::Stop, interrupt)
            }
            Some(since) if since.elapsed() > HURRY_LIMIT => Err(connection.stopped()),
            _ => Ok(()),
        })
    }

    /// That the user wants to stop, and nothing is waited for any more.
    fn stopped(&self) -> Failure {
        Failure::Lost(format!("{}: stopped by a signal", self.target))
    }

    /// Waits for an answer; as long as nothing comes, `watch` is called again and again, and ends
    /// the wait by an error.
    fn wait_and_watch(
        &mut self,
        limit: Duration,
        mut watch: impl FnMut(&mut Connection) -> Result<(), Failure>,
    ) -> Result<Answer, Failure> {
        let begin = Instant::now();
        loop {
            match self.hear(GLANCE)? {
                ProgramOutput::Silence => watch(self)?,
                heard => return self.answered(heard, limit),
            }
            if begin.elapsed() >= limit {
                return self.answered(ProgramOutput::Silence, limit);
            }
        }
    }

    /// The next answer, as [`Connection::ask`] waits for it.
    pub fn answer(&mut self, limit: Duration, interrupt: &Interrupt) -> Result<Answer, Failure> {
        let mut stopped: Option<Instant> = None;
        self.wait_and_watch(limit, |connection| {
            let is_over =
                interrupt.is_raised() && stopped.get_or_insert_with(Instant::now).elapsed() > STOP_LIMIT;
            if is_over { Err(connection.stopped()) } else { Ok(()) }
        })
    }

    /// What came within `limit`, if it is an answer.
    fn answered(&self, heard: ProgramOutput, limit: Duration) -> Result<Answer, Failure> {
        match heard {
            ProgramOutput::Answer(Answer::Refused { problem }) => Err(Failure::Refused(problem)),
            ProgramOutput::Answer(answer) => Ok(answer),
            ProgramOutput::Raw(line) => Err(self.nonsense(&line)),
            ProgramOutput::Silence => {
                let problem = format!("its agent has not answered for {} s", limit.as_secs());
                Err(Failure::Lost(format!("{}: {problem}", self.target)))
            }
        }
    }

    /// Whatever comes next but a beat. A network that is gone says nothing, and neither does adb of
    /// it: an agent that has not even said for [`SILENCE`] that it lives is lost.
    pub fn hear(&mut self, limit: Duration) -> Result<ProgramOutput, Failure> {
        let begin = Instant::now();
        loop {
            let left = limit.saturating_sub(begin.elapsed()).min(BEAT);
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.heard = Instant::now();
                    match self.understood(line)? {
                        // One that says nothing else, and that without a pause, is silent, too.
                        ProgramOutput::Answer(Answer::Beat) if begin.elapsed() >= limit => {
                            return Ok(ProgramOutput::Silence);
                        }
                        ProgramOutput::Answer(Answer::Beat) => {}
                        other => return Ok(other),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if self.heard.elapsed() > SILENCE => {
                    // This program may have been stopped itself, and what came waits to be read.
                    if let Ok(line) = self.lines.recv_timeout(LAST_LOOK) {
                        self.heard = Instant::now();
                        match self.understood(line)? {
                            ProgramOutput::Answer(Answer::Beat) => continue,
                            other => return Ok(other),
                        }
                    }
                    self.is_silent = true;
                    let problem = format!("nothing came over it for {} s", SILENCE.as_secs());
                    let lost = format!("the connection to {} was lost: {problem}", self.target);
                    return Err(Failure::Lost(lost));
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() >= limit => {
                    return Ok(ProgramOutput::Silence);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn understood(&mut self, mut line: Vec<u8>) -> Result<ProgramOutput, Failure> {
        if line.first() == Some(&RAW) {
            line.remove(0);
            return Ok(ProgramOutput::Raw(line));
        }
        // The beginning of a line, where the connection ended in the middle of it.
        if line.last() != Some(&b'\n') && (line.len() as u64) < lines::LONGEST_LINE {
            return Err(self.gone());
        }
        serde_json::from_slice(&line).map(ProgramOutput::Answer).map_err(|_| self.nonsense(&line))
    }

    /// An answer to another question.
    pub fn unexpected(&self, answer: &Answer) -> Failure {
        let text: String = format!("{answer:?}").chars().take(SHOWN_MAX).collect();
        Failure::Lost(format!("{}: its agent gave another answer: {text}", self.target))
    }

    fn nonsense(&self, line: &[u8]) -> Failure {
        let text: String = String::from_utf8_lossy(line).trim_end().chars().take(80).collect();
        Failure::Lost(format!("{}: its agent wrote what is no answer: {text:?}", self.target))
    }

    /// The connection is lost: why, as far as anybody says.
    fn gone(&mut self) -> Failure {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if begin.elapsed() < END_LIMIT => thread::sleep(Duration::from_millis(5)),
                _ => break None,
            }
        };
        let kept = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let said = fathom_output::lines(String::from_utf8_lossy(&kept).trim());
        let how = match (said.is_empty(), status) {
            (_, Some(status)) if !status.success() => shell::why(&self.target, &said, status),
            (false, _) => said,
            (true, _) => "it was closed".to_owned(),
        };
        Failure::Lost(format!("the connection to {} was lost: {how}", self.target))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The end of its input is the agent's own end.
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begin = Instant::now();
        let limit = if self.is_silent { Duration::ZERO } else { super::agent::END_LIMIT };
        while begin.elapsed() < limit && matches!(self.child.try_wait(), Ok(None)) {
            // One that waits for its reader does not come to its end; one that writes without an
            // end is not read for ever.
            let waiting = (0..WAITING_MAX).take_while(|_| self.lines.try_recv().is_ok()).count();
            if waiting < WAITING_MAX {
                thread::sleep(Duration::from_millis(5));
            }
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            // An error means that it has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Says from time to time that this side lives.
fn beat(stdin: &Mutex<Option<ChildStdin>>, ended: &Receiver<()>) {
    while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        let mut stdin = stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pipe) = stdin.as_mut() else { return };
        match lines::send_unless(pipe, &Question::Beat, |_| true) {
            // What the pipe is full of says it as well, and whoever ends the connection wants the
            // lock.
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(_) => return,
            Ok(()) => {}
        }
    }
}

/// Keeps the end of what is complained of.
fn keep(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0_u8; 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
        let excess = kept.len().saturating_sub(COMPLAINTS_KEPT);
        kept.drain(..excess);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "for tests")]
impl Connection {
    /// A line to a script in the place of an agent.
    pub fn to(script: &str) -> Connection {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Connection {
            target: "ssh:board".parse().unwrap(),
            program: "/usr/lib/fathom/fathom-aarch64".into(),
            process: 0,
            fathom: String::new(),
            child,
            stdin: Arc::new(Mutex::new(Some(stdin))),
            lines: lines::receive_few(stdout, WAITING_MAX),
            complaints: Arc::default(),
            heard: Instant::now(),
            is_silent: true,
            _beats: channel().0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(script: &str) -> Connection {
        Connection::to(script)
    }

    #[track_caller]
    fn is_lost(failure: &Failure, words: &str) {
        assert!(matches!(failure, Failure::Lost(said) if said.contains(words)), "{words}: {failure:?}");
    }

    /// What happened: an agent that said without a pause that it lives, and nothing else, was
    /// listened to for ever; no time limit was looked at, and Ctrl-C was not heard.
    #[test]
    fn an_agent_that_only_says_that_it_lives_is_given_up() {
        let mut flood = to("exec yes '\"beat\"'");
        let limit = Duration::from_millis(300);
        let interrupt = Interrupt::new();
        is_lost(&flood.ask(&Question::Floor, limit, &interrupt).unwrap_err(), "has not answered");
        interrupt.raise();
        let stopped = flood.ask_unless_stopped(&Question::Doctor, limit * 1000, &interrupt);
        is_lost(&stopped.unwrap_err(), "stopped by a signal");
    }

    #[test]
    fn an_agent_that_answers_nonsense_is_given_up_with_what_it_said() {
        let limit = Duration::from_secs(60);
        let long = format!("read asked; head -c {} /dev/zero", lines::LONGEST_LINE + 9);
        for (script, words) in [
            ("read asked; echo '{\"floor\":{\"ns\":-1}}'", "no answer"),
            ("read asked; printf '\\033[2J\\377\\n'", "u{1b}[2J"),
            ("read asked; echo '>{}'", "no answer"),
            ("read asked; printf '{\"floor\"'", "was lost"),
            ("read asked; exit 3", "ended with exit status: 3"),
            (&*long, "no answer"),
        ] {
            let failure = to(script).ask(&Question::Floor, limit, &Interrupt::new()).unwrap_err();
            is_lost(&failure, words);
        }
    }

    /// What happened: over a network that was gone, a question longer than what the pipe to `adb`
    /// holds was said for ever: no time limit was looked at, and Ctrl-C was not heard.
    #[test]
    fn a_question_that_nobody_takes_is_given_up() {
        let long = Question::Replay { words: vec!["x".repeat(1 << 20)] };
        let limit = Duration::from_millis(200);
        let (interrupt, mut hangs) = (Interrupt::new(), to("exec sleep 600"));
        is_lost(&hangs.tell_within(&long, limit, &interrupt).unwrap_err(), "has taken nothing");
        interrupt.raise();
        let mut hangs = to("exec sleep 600");
        is_lost(&hangs.tell_within(&long, limit, &interrupt).unwrap_err(), "stopped by a signal");
        // One that takes it gets it, however much the pipe holds.
        let mut reads = to("head -n 1 >/dev/null; echo '{\"floor\":{\"ns\":7}}'; read end");
        let answer = reads.ask(&long, Duration::from_secs(60), &Interrupt::new());
        assert!(matches!(answer, Ok(Answer::Floor { ns: Some(7) })), "{answer:?}");
    }

    /// One that lived and answered nothing was waited for its two minutes after Ctrl-C.
    #[test]
    fn whoever_wants_to_stop_does_not_wait_for_an_answer_that_does_not_come() {
        let (interrupt, begin) = (Interrupt::new(), Instant::now());
        interrupt.raise();
        let failure = to("read asked; exec sleep 600").ask(&Question::Floor, STOP_LIMIT * 100, &interrupt);
        is_lost(&failure.unwrap_err(), "stopped by a signal");
        assert!(begin.elapsed() >= STOP_LIMIT && begin.elapsed() < STOP_LIMIT * 10, "{:?}", begin.elapsed());
        // What does come is taken: on a busy machine a shell may need longer than that to begin.
        let is_taken = |_| {
            let mut quick = to("read asked; echo '{\"floor\":{\"ns\":7}}'; read end");
            let answer = quick.ask(&Question::Floor, STOP_LIMIT, &interrupt);
            matches!(answer, Ok(Answer::Floor { ns: Some(7) }))
        };
        assert!((0..6).any(is_taken), "an answer that comes is taken");
    }

    /// The whole of it, up to 1 MiB, was the message of the failed run: a precision cuts nothing
    /// off what `Debug` derives.
    #[test]
    fn of_an_answer_to_another_question_the_beginning_is_shown() {
        let answer = Answer::Refused { problem: "\u{1b}x".repeat(100_000) };
        let words = to("read end").unexpected(&answer).words();
        assert!(words.contains("Refused { problem: \"\\u{1b}x") && words.len() < 400, "{words}");
    }

    /// What happened: of an old program that was found in `../lib/fathom`, say, no more was told
    /// than that it lies here.
    #[test]
    fn an_agent_says_who_it_is_behind_what_a_login_shell_says() {
        let hello = |version: u32| {
            format!(
                "echo hi; echo '{{\"hello\":{{\"version\":{version},\"fathom\":\"0.0.1+a\",\"process\":7}}}}'; read end"
            )
        };
        let mut agent = to(&hello(VERSION));
        agent.greet(&Interrupt::new()).unwrap();
        assert_eq!((agent.process(), agent.fathom()), (7, "0.0.1+a"));
        let failure = to(&hello(VERSION + 1)).greet(&Interrupt::new()).unwrap_err();
        is_lost(&failure, "Fathom 0.0.1+a there speaks version");
        is_lost(&failure, "/usr/lib/fathom/fathom-aarch64, the program");
        is_lost(&failure, "scripts/static.sh");
        is_lost(&to("exec yes").greet(&Interrupt::new()).unwrap_err(), "did not say that it is there");
    }

    /// A connection that was lost while runs were made elsewhere failed the next run that was to be
    /// made over it, although it could have been had again.
    #[test]
    fn a_connection_that_ends_while_nobody_listens_is_noticed_before_the_next_question() {
        let ends = |script: &str| {
            let (mut agent, begin) = (to(script), Instant::now());
            while !agent.has_ended() {
                if begin.elapsed() > Duration::from_secs(60) {
                    return false;
                }
                thread::sleep(GLANCE);
            }
            true
        };
        assert!(ends("echo '\"beat\"'"));
        assert!(ends("echo '\"done\"'; read end"), "nobody had asked");
        let mut lives = to("echo '\"beat\"'; echo '\"beat\"'; read end");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(500) {
            assert!(!lives.has_ended());
            thread::sleep(GLANCE);
        }
    }

    /// What it writes at its end is read, or it would wait for that until it is killed.
    #[test]
    fn an_agent_that_has_much_to_say_at_its_end_comes_to_it() {
        let place = tempfile::tempdir().unwrap();
        let done = place.path().join("done");
        let mut agent = to(&format!("cat; yes | head -n 200000; touch '{}'", done.display()));
        agent.is_silent = false;
        let begin = Instant::now();
        drop(agent);
        assert!(done.exists() && begin.elapsed() < super::super::agent::END_LIMIT, "{:?}", begin.elapsed());
    }

    /// The floor on a slow card went on at its pace after Ctrl-C: the agent had not been told.
    #[test]
    fn a_wish_to_stop_is_told_to_an_agent_at_work() {
        let interrupt = Interrupt::new();
        interrupt.raise();
        let mut agent = to(
            "read asked; read told; [ \"$told\" = '\"stop\"' ] && echo '{\"floor\":{\"ns\":7}}'; read end",
        );
        let answer = agent.ask_and_hurry(&Question::Floor, Duration::from_secs(60), &interrupt);
        assert!(matches!(answer, Ok(Answer::Floor { ns: Some(7) })), "{answer:?}");
    }
}
