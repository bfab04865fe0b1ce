//! The command that gives the same again, made of what clap has parsed and of nothing else: an
//! option that is new is in it without anybody's help.

use std::ffi::OsStr;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};

use crate::cli::Cli;

/// A command line that was parsed.
pub struct Invocation(ArgMatches);

impl Invocation {
    /// Parses the program's own command line.
    ///
    /// # Errors
    /// What clap says, of help and version too.
    pub fn of_process() -> Result<Invocation, clap::Error> {
        Cli::command().try_get_matches().map(Invocation)
    }

    /// As the words of the command line.
    ///
    /// # Errors
    /// What clap says.
    pub fn cli(&self) -> Result<Cli, clap::Error> {
        use clap::FromArgMatches;
        Cli::from_arg_matches(&self.0).map_err(|error| error.format(&mut Cli::command()))
    }

    /// The command again, quoted for a shell: all options that were given but those called
    /// `except`; of those in `instead` this value, given or not.
    #[must_use]
    pub fn again(&self, except: &[&str], instead: &[(&str, String)]) -> String {
        let mut words = vec!["fathom".to_owned()];
        let root = Cli::command();
        if let Some((name, given)) = self.0.subcommand() {
            words.push(name.to_owned());
            let command = root.find_subcommand(name);
            let mut options: Vec<&Arg> = command.into_iter().flat_map(clap::Command::get_arguments).collect();
            // What is not an option comes first, as people write it.
            options.sort_by_key(|option| !option.is_positional());
            for option in options.into_iter().filter(|option| !except.contains(&option.get_id().as_str())) {
                let other = instead.iter().find(|(id, _)| option.get_id() == id);
                match (other, option.get_long()) {
                    (Some((_, value)), Some(long)) => push(&mut words, long, value.clone()),
                    _ => words.extend(words_of(option, given)),
                }
            }
        }
        fathom_ground::command::shell_line(&words)
    }
}

/// The words by which an option was given; none where it was not.
fn words_of(option: &Arg, given: &ArgMatches) -> Vec<String> {
    let id = option.get_id().as_str();
    let mut words = Vec::new();
    if given.value_source(id) != Some(ValueSource::CommandLine) {
        return words;
    }
    if !option.get_action().takes_values() {
        return option.get_long().map(|long| format!("--{long}")).into_iter().collect();
    }
    for values in given.get_raw_occurrences(id).into_iter().flatten() {
        let values: Vec<String> = values.map(OsStr::to_string_lossy).map(Into::into).collect();
        let values = match option.get_value_delimiter() {
            Some(between) => vec![values.join(&between.to_string())],
            None => values,
        };
        match option.get_long() {
            Some(long) => values.into_iter().for_each(|value| push(&mut words, long, value)),
            None => words.extend(values),
        }
    }
    words
}

fn push(words: &mut Vec<String>, long: &str, value: String) {
    if value.starts_with('-') {
        words.push(format!("--{long}={value}"));
    } else {
        words.extend([format!("--{long}"), value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::commands::run::NOT_REPEATED;

    fn parsed(words: &[String]) -> Result<Invocation, clap::Error> {
        Cli::command().try_get_matches_from(words).map(Invocation)
    }

    fn again(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parsed(&words).unwrap().again(NOT_REPEATED, &[("seed", "7".into())])
    }

    fn run_of(parsed: &Invocation) -> String {
        match parsed.cli().unwrap().command {
            Command::Run(run) => format!("{run:?}"),
            _ => panic!("another command"),
        }
    }

    /// The command was once made by hand, option by option, and `--time-limit` was not in it: who
    /// repeated such a run had runs that took longer counted as good.
    #[test]
    fn every_option_of_run_that_changes_the_result_is_in_the_command_that_repeats_it() {
        let root = Cli::command();
        let command = root.find_subcommand("run").unwrap();
        let samples = ["5", "5%", "2m", "engine.page_size=8192", "ssh:board", "x"];
        let mut seen = 0;
        for option in command
            .get_arguments()
            .filter(|argument| !argument.is_positional() && argument.get_id() != "help")
        {
            let (id, long) = (option.get_id().as_str(), option.get_long().expect("it has a long name"));
            let with = |value: Option<&str>| {
                let mut words: Vec<String> = ["fathom", "run", "first-look"].map(Into::into).into();
                words.push(format!("--{long}"));
                words.extend(value.map(Into::into));
                words
            };
            let words = match option.get_action().takes_values() {
                false => with(None),
                true => {
                    let accepted = samples.iter().map(|value| with(Some(value)));
                    let mut accepted = accepted.filter(|words| parsed(words).is_ok());
                    accepted.next().unwrap_or_else(|| panic!("--{long}: add a value that it takes"))
                }
            };
            let given = parsed(&words).unwrap();
            let line = given.again(NOT_REPEATED, &[]);
            if NOT_REPEATED.contains(&id) {
                assert!(!line.contains(&format!("--{long}")), "{line}");
            } else {
                let again: Vec<String> = line.split(' ').map(|word| word.trim_matches('\'').into()).collect();
                assert_eq!(run_of(&parsed(&again).unwrap()), run_of(&given), "{line}");
                assert!(line.contains(&format!("--{long}")), "{line}");
            }
            seen += 1;
        }
        assert!(seen >= 14, "{seen} options");
        for id in NOT_REPEATED {
            assert!(
                command.get_arguments().any(|argument| argument.get_id() == id),
                "there is no option {id}"
            );
        }
    }

    #[test]
    fn values_are_as_they_were_given_and_the_seed_is_that_of_the_plan() {
        let line = again(&[
            "fathom",
            "run",
            "--set",
            "a=b c",
            "first-look",
            "--time-limit",
            "9",
            "--sqlite",
            "a,b",
            "--quiet",
            "--set",
            "c=1,2",
            "--until",
            "5%",
            "--dir=-x",
            "--seed",
            "3",
            "--resume",
        ]);
        assert_eq!(
            line,
            "fathom run first-look --seed 7 --set 'a=b c' --set 'c=1,2' '--dir=-x' --until '5%' --sqlite 'a,b' --time-limit 9"
        );
        assert_eq!(again(&["fathom", "run", "mine.toml"]), "fathom run mine.toml --seed 7");
    }
}
