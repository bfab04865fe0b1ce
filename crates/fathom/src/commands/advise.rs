//! `fathom advise TRACE|PROFILE|RESULTS`: which settings an application should use.

use fathom_lab::schedule::Interrupt;
use fathom_output::{shown, shown_path, tell};
use fathom_report::HTML_MARK;

use super::simulate;
use crate::cli::Advise;
use crate::outcome::{Error, Outcome};
use crate::repeat::Invocation;

mod application;
mod cut;
mod durability;
mod error;
mod failure;
mod hints;
mod judgement;
mod live;
mod machine;
mod origin;
mod outputs;
mod partial;
mod question;
mod recorded;
mod results;
mod rounds;
mod settings;
mod trace;

use outputs::{check_outputs, report_file};
use question::{Answer, Question};
use results::of_results;
use trace::of_trace;

/// Answers.
pub fn run(asked: &Advise, parsed: &Invocation) -> super::Result {
    let interrupt = Interrupt::new();
    let answered = answer(asked, parsed, &interrupt);
    if let Some(signal) = interrupt.signal() {
        match &answered {
            // The answer is there, and what was stopped stands in it.
            Ok(_) => {}
            Err(Stopped::WithAnswer(error)) => tell!("error: {}", error.message()),
            // All that was begun is gone with it.
            Err(Stopped::Without(_)) => {
                tell!("Stopped by a signal: what was begun is removed, and there is no advice.");
            }
        }
        // What was printed is to be there before that.
        if let Err(error) = fathom_output::end() {
            tell!("error: standard output: {error}");
        }
        crate::ending::as_the_signal(signal);
    }
    answered.map_err(|stopped| match stopped {
        Stopped::WithAnswer(error) | Stopped::Without(error) => error,
    })
}

/// Why the command failed, and whether the answer was printed all the same.
enum Stopped {
    WithAnswer(Error),
    Without(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Without(error)
    }
}

fn answer(asked: &Advise, parsed: &Invocation, interrupt: &Interrupt) -> Result<Outcome, Stopped> {
    let command = parsed.again(&["json"], &[]);
    let devices = simulate::devices(&asked.device)?;
    if asked.live && asked.device.is_empty() {
        return Err(Stopped::Without(Error::usage(
            "--live runs on each device for as long as that takes: name the devices with --device",
        )));
    }
    let now = settings::now(&asked.now)?;
    check_outputs(asked, &[&asked.input])?;
    super::stop_on_signals(interrupt)?;
    let question = Question { asked, now: &now, command: &command, devices: &devices, interrupt };
    let answer =
        if simulate::is_results(&asked.input) { of_results(&question)? } else { of_trace(&question)? };
    let Answer { advice, named, mut problems } = answer;
    if let Some((file, is_named)) = report_file(asked, &advice.title) {
        let inputs = super::all_inputs(&[&asked.input], &named);
        let checked =
            if is_named { Ok(()) } else { super::check_unnamed("--html", &file, &inputs, HTML_MARK) };
        match checked.and_then(|()| super::write_text("--html", &file, &inputs, &advice.html())) {
            Ok(()) => tell!("Report: {}", shown_path(&file)),
            // The answer is printed all the same.
            Err(error) => problems.push(error),
        }
    }
    if asked.json {
        super::print_json(&advice.json())?;
    } else if !super::takes_stdout(&[asked.html.as_deref()]) {
        fathom_output::raw(&advice.terminal(&super::style()));
    }
    if let Some(problem) = super::first_of(problems) {
        return Err(Stopped::WithAnswer(problem));
    }
    // Who named a device has no answer for it.
    let is_whole = advice.missing.is_empty() || (asked.device.is_empty() && asked.fs.is_empty());
    let problem = advice.cut_problem();
    if let Some(problem) = &problem {
        tell!("error: {}", shown(problem));
    }
    Ok(if is_whole && problem.is_none() { Outcome::Good } else { Outcome::Failed })
}
