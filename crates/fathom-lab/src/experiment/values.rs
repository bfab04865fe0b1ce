//! Values in one spelling: which of them are the same, however they are written.

use std::collections::BTreeMap;
use std::slice;

use fathom_stack::{Machine, STACK_KEYS, StackSpec};
use fathom_workload::params::{Kind, Parameter, Params, memory_bytes};
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
