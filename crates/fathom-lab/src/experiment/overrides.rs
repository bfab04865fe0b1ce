//! `--set key=value`: one parameter or setting from the command line, checked like a line of the
//! file.

use serde_json::Value as Json;

use super::diagnostic::{Problem, Span};
use super::node::{Node, Value, document};
use super::parse::check_path;
use super::{Axis, Setting, Vocabulary};
use crate::cell::INSTRUMENT_KEYS;
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};
use fathom_stack::STACK_KEYS;
use fathom_workload::params::{Kind, Parameter};

/// Reads the argument of a `--set`, which is source number `source`.
///
/// The key is a dotted path, `variants`, or a bare name (`filesystem`, `journal_mode`, `rows`) that
/// means one thing only in this experiment. The value is written as in the file, but text needs no
/// quotes, and commas make a list.
pub(super) fn read(
    argument: &str,
    source: usize,
    base: &[Setting],
    axes: &[Axis],
    vocabulary: &Vocabulary,
) -> Result<Setting, Problem> {
    let whole = Span { source, range: 0..argument.len() };
    let Some(equals) = argument.find('=') else {
        return Err(Problem::new(&whole, "this is not key=value", "as in: --set engine.journal_mode=wal"));
    };
    let key = argument[..equals].trim_end();
    let key_span = Span { source, range: 0..key.len() };
    if key.is_empty() {
        return Err(Problem::new(
            &whole,
            "there is no key before the =",
            "as in: --set engine.journal_mode=wal",
        ));
    }
    if argument[equals + 1..].trim().is_empty() {
        return Err(Problem::new(
            &whole,
            format!("there is no value for `{key}`"),
            "as in: --set engine.journal_mode=wal",
        ));
    }
    let path = resolve(key, &key_span, base, axes, vocabulary)?;
    let mut node = value(argument, equals + 1..argument.len(), source, true);
    respell(&mut node, &words_of(&path, base, axes, vocabulary));
    Ok(Setting { path, key_span, node })
}

/// The words that a path takes, each as tables may print it and as files write it: `WAL` and `wal`,
/// `SQLite` and `sqlite`.
fn words_of(
    path: &str,
    base: &[Setting],
    axes: &[Axis],
    vocabulary: &Vocabulary,
) -> Vec<(&'static str, &'static str)> {
    if path == "engine.name" {
        return vocabulary
            .engines
            .iter()
            .flat_map(|engine| [(engine.title, engine.name), (engine.name, engine.name)])
            .collect();
    }
    parameters(base, axes, vocabulary)
        .filter(|(section, parameter)| path == format!("{section}.{}", parameter.name))
        .flat_map(|(_, parameter)| match parameter.kind {
            Kind::TextOf(words) | Kind::TextsOf(words) => words,
            _ => &[],
        })
        .map(|word| (*word, *word))
        .collect()
}

/// Writes words as files do: a cell is the same cell however its setting was typed.
fn respell(node: &mut Node, words: &[(&str, &str)]) {
    match &mut node.value {
        Value::Text(text) => {
            let known = words.iter().find(|(printed, _)| printed.eq_ignore_ascii_case(text));
            if let Some((_, written)) = known {
                (*written).clone_into(text);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| respell(item, words)),
        _ => {}
    }
}

/// Whether the argument of a `--set` chooses among the variants.
pub(super) fn chooses_variants(argument: &str) -> bool {
    argument.split_once('=').is_some_and(|(key, _)| key.trim_end() == "variants")
}

/// A value as TOML; what is no TOML is a list where it has commas, and text.
fn value(argument: &str, range: std::ops::Range<usize>, source: usize, lists: bool) -> Node {
    let text = &argument[range.clone()];
    // The same offsets as in the argument: every character before the value becomes a space
    // (range.start ≥ 2).
    let padded = format!("{}v={text}", " ".repeat(range.start.saturating_sub(2)));
    if let Ok(mut entries) = document(&padded, source)
        && entries.len() == 1
        && let Some(entry) = entries.pop()
    {
        return entry.node;
    }
    if lists && text.contains(',') {
        let mut start = range.start;
        let mut items = Vec::new();
        for part in text.split(',') {
            items.push(value(argument, start..start + part.len(), source, false));
            start += part.len() + 1;
        }
        return Node { span: Span { source, range }, value: Value::List(items) };
    }
    let trimmed = text.trim();
    let start = range.start + (text.len() - text.trim_start().len());
    Node {
        span: Span { source, range: start..start + trimmed.len() },
        value: Value::Text(trimmed.to_owned()),
    }
}

/// What the workloads and engines of this experiment and stacks accept, each with its section.
pub(super) fn parameters<'a>(
    base: &'a [Setting],
    axes: &'a [Axis],
    vocabulary: &'a Vocabulary,
) -> impl Iterator<Item = (&'static str, &'static Parameter)> + 'a {
    let all =
        base.iter().chain(axes.iter().flat_map(|axis| axis.points.iter().flat_map(|point| &point.settings)));
    let of_stack = STACK_KEYS.iter().map(|key| ("stack", key));
    all.flat_map(|setting| {
        let name = match setting.node.json() {
            Ok(Json::String(name)) => name,
            _ => String::new(),
        };
        let (section, parameters) = match setting.path.as_str() {
            "workload.name" => ("workload", vocabulary.workload(&name).map(|workload| workload.parameters)),
            "engine.name" => ("engine", vocabulary.engine(&name).map(|engine| engine.settings)),
            _ => ("", None),
        };
        parameters.unwrap_or_default().iter().map(move |parameter| (section, parameter))
    })
    .chain(of_stack)
}

/// Whether the value at `path` is a list by itself, so that several values are one value and not an
/// axis.
pub(super) fn accepts_list(path: &str, base: &[Setting], axes: &[Axis], vocabulary: &Vocabulary) -> bool {
    parameters(base, axes, vocabulary).any(|(section, parameter)| {
        matches!(parameter.kind, Kind::Integers { .. } | Kind::TextsOf(_) | Kind::Texts)
            && path == format!("{section}.{}", parameter.name)
    })
}

fn resolve(
    key: &str,
    span: &Span,
    base: &[Setting],
    axes: &[Axis],
    vocabulary: &Vocabulary,
) -> Result<String, Problem> {
    if key == "variants" && axes.iter().any(|axis| axis.name == "variants") {
        return Ok(key.to_owned());
    }
    if let Some(option) =
        [("repeats", "--repeat"), ("seed", "--seed"), ("quick", "--quick"), ("out", "--out")]
            .iter()
            .find_map(|(name, option)| (*name == key).then_some(option))
    {
        return Err(Problem::new(span, format!("`{key}` is not a parameter"), format!("use {option}")));
    }
    if key == "workload" || key == "engine" {
        return Ok(format!("{key}.name"));
    }
    if key.contains('.') {
        check_path(key, span)?;
        return Ok(key.to_owned());
    }
    let mut known: Vec<String> = INSTRUMENT_KEYS.iter().map(|key| format!("instruments.{key}")).collect();
    let parameters = parameters(base, axes, vocabulary);
    known.extend(parameters.map(|(section, parameter)| format!("{section}.{}", parameter.name)));
    known.sort();
    known.dedup();
    let matching: Vec<&String> =
        known.iter().filter(|path| path.split_once('.').is_some_and(|(_, name)| name == key)).collect();
    match matching.as_slice() {
        [path] => Ok((*path).clone()),
        [] => {
            let names = known.iter().filter_map(|path| path.split_once('.').map(|(_, name)| name));
            let hint = match nearest(key, names) {
                Some(near) => did_you_mean_hint(Some(near)),
                None => "`fathom list --show NAME` prints the experiment; parameters are workload.…, engine.…, stack.…".into(),
            };
            Err(Problem::new(span, format!("unknown parameter `{key}`"), hint))
        }
        several => {
            let several: Vec<&str> = several.iter().map(|path| path.as_str()).collect();
            Err(Problem::new(
                span,
                format!("`{key}` means several things"),
                format!("write {}", several.join(" or ")),
            ))
        }
    }
}
