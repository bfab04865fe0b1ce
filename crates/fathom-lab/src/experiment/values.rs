//! Values in one spelling: which of them are the same, however they are written.

use std::collections::BTreeMap;
use std::slice;

use fathom_stack::{Machine, STACK_KEYS, StackSpec};
use fathom_workload::engine::engines;
use fathom_workload::params::{Kind, Parameter, Params, memory_bytes};
use fathom_workload::registry::workloads;
use serde_json::Value as Json;

use super::units;

/// Values of parameters that were read, in one spelling: 1 and 1.0, `1GB` and `1024MB`, two paths
/// of one file.
pub(super) fn spelled(accepted: &[Parameter], params: &Params) -> BTreeMap<String, Json> {
    let plain = |(name, value): (&String, &Json)| {
        let parameter = accepted.iter().find(|parameter| parameter.name == name.as_str());
        (name.clone(), parameter.map_or_else(|| value.clone(), |parameter| in_one_spelling(parameter, value)))
    };
    params.all().iter().map(plain).collect()
}

/// Whether two values of a path are the same to one of the parameters that it may name.
pub(super) fn are_same<'a>(
    path: &str,
    (one, other): (&Json, &Json),
    parameters: impl Iterator<Item = (&'static str, &'a Parameter)>,
    machine: &Machine,
) -> bool {
    if one == other {
        return true;
    }
    let named = parameters.filter(|(section, parameter)| path == format!("{section}.{}", parameter.name));
    for (section, parameter) in named {
        let (one, other) = (with_unit(parameter, one), with_unit(parameter, other));
        let is_same = match section {
            "stack" => {
                let one = stack_of(parameter.name, one, machine);
                one.is_some() && one == stack_of(parameter.name, other, machine)
            }
            _ => {
                let one = read(parameter, one);
                one.is_some() && one == read(parameter, other)
            }
        };
        if is_same {
            return true;
        }
    }
    false
}

/// A label of an axis in the one spelling of the value that it names: `4KiB` on `engine.page_size`
/// is `4096`. It is that of the first engine, workload or key of stacks that takes it; a path, and
/// what none takes, stays as it is.
pub(crate) fn spelled_label(axis: &str, label: &str) -> String {
    let settings = engines().iter().flat_map(|engine| engine.settings).map(|own| ("engine", own));
    let of_work = workloads().iter().flat_map(|kind| kind.parameters).map(|own| ("workload", own));
    let all = settings.chain(of_work).chain(STACK_KEYS.iter().map(|own| ("stack", own)));
    let mut named =
        all.filter(|(section, own)| own.unit != "path" && axis.split_once('.') == Some((*section, own.name)));
    let values = [typed(label), Json::from(label)];
    let spelled = named.find_map(|(_, own)| values.iter().find_map(|value| read(own, with_unit(own, value))));
    match spelled {
        Some(Json::String(text)) => text,
        _ => label.to_owned(),
    }
}

/// A label as the value that a file would have for it: a number or true or false, or a text.
fn typed(label: &str) -> Json {
    match (label.parse::<bool>(), label.parse::<i64>(), label.parse::<f64>()) {
        (Ok(is_so), ..) => is_so.into(),
        (_, Ok(whole), _) => whole.into(),
        (_, _, Ok(number)) => number.into(),
        _ => label.into(),
    }
}

/// The value in its one spelling; none where the parameter does not take it.
fn read(parameter: &Parameter, value: Json) -> Option<Json> {
    let given = BTreeMap::from([(parameter.name.to_owned(), value)]);
    let params = Params::read(slice::from_ref(parameter), &given).ok()?;
    params.all().get(parameter.name).map(|value| in_one_spelling(parameter, value))
}

/// A stack of which only this key is known. Words for mkfs are those of a file system.
fn stack_of(key: &str, value: Json, machine: &Machine) -> Option<StackSpec> {
    let mut given = BTreeMap::from([("filesystem".to_owned(), Json::from("ext4"))]);
    given.insert(key.to_owned(), value);
    let keys = Params::read(STACK_KEYS, &given).ok()?;
    Some(StackSpec::of_keys(&keys).plain(machine))
}

/// An amount with its unit as a number of the parameter's own; any other value as it is.
fn with_unit(parameter: &Parameter, value: &Json) -> Json {
    let is_number = matches!(parameter.kind, Kind::Integer { .. } | Kind::IntegerOf(_) | Kind::Number { .. });
    let text = value.as_str().filter(|_| is_number);
    match text.and_then(|text| units::convert(text, parameter.unit)) {
        Some(Ok(number)) => number.into(),
        _ => value.clone(),
    }
}

/// A value that was read: a number as a text, which has no fraction where it is whole, an amount of
/// memory as its bytes, a path as that of the file; anything else as it is.
pub(super) fn in_one_spelling(parameter: &Parameter, value: &Json) -> Json {
    match (parameter.kind, value) {
        (Kind::Memory, Json::String(text)) => {
            memory_bytes(text).map_or_else(|| value.clone(), |bytes| bytes.to_string().into())
        }
        (Kind::Text, Json::String(text)) if parameter.unit == "path" => match std::fs::canonicalize(text) {
            Ok(file) => file.to_string_lossy().into_owned().into(),
            Err(_) => value.clone(),
        },
        (_, Json::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string().into(),
            (None, Some(number)) => number.to_string().into(),
            (None, None) => value.clone(),
        },
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(path: &str, one: Json, other: Json) -> bool {
        let settings = fathom_workload::engine::engines().iter().flat_map(|engine| engine.settings);
        let all = settings.map(|setting| ("engine", setting));
        let all = all.chain(STACK_KEYS.iter().map(|key| ("stack", key)));
        are_same(path, (&one, &other), all, &Machine::unknown())
    }

    #[test]
    fn labels_of_an_axis_are_spelled_in_one_way() {
        for (axis, label, spelled) in [
            ("engine.page_size", "4KiB", "4096"),
            ("engine.page_size", "4096", "4096"),
            ("engine.journal_mode", "WAL", "wal"),
            ("stack.size_mib", "1 GiB", "1024"),
            ("workload.rows", "1000", "1000"),
            ("workload.rows", "1000.0", "1000"),
            // What names no value of these, and a path.
            ("variants", "4KiB", "4KiB"),
            ("engine.page_size", "4 parsecs", "4 parsecs"),
            ("engine.unknown", "4KiB", "4KiB"),
            ("workload.file", "./app.trace", "./app.trace"),
            ("", "", ""),
        ] {
            assert_eq!(spelled_label(axis, label), spelled, "{axis} {label}");
        }
    }

    #[test]
    fn a_value_is_the_same_however_it_is_spelled() {
        for (path, one, other) in [
            ("engine.page_size", json!(4096), json!("4 KiB")),
            ("engine.page_size", json!(4096.0), json!("4KiB")),
            ("engine.journal_mode", json!("WAL"), json!("wal")),
            ("engine.shared_buffers", json!("1GB"), json!("1024MB")),
            ("stack.size_mib", json!("1 GiB"), json!(1024)),
            ("stack.mount", json!("noatime,data=journal"), json!("data=journal,noatime")),
            ("stack.mkfs", json!(["-O", "^has_journal"]), json!(["-O^has_journal"])),
            ("stack.directory", json!("/"), json!("/.")),
        ] {
            assert!(same(path, one.clone(), other.clone()), "{path}: {one} {other}");
        }
        for (path, one, other) in [
            ("engine.page_size", json!(4096), json!("8 KiB")),
            ("engine.page_size", json!("4 parsecs"), json!("5 parsecs")),
            ("engine.journal_mode", json!("wal"), json!("delete")),
            ("stack.mount", json!("data=journal,data=ordered"), json!("data=ordered,data=journal")),
            ("stack.device", json!("sd-slow"), json!("emmc-51")),
            ("stack.unknown", json!("a"), json!("b")),
        ] {
            assert!(!same(path, one.clone(), other.clone()), "{path}: {one} {other}");
        }
    }
}
