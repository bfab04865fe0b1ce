//! Typed, ranged parameters: what workloads, engines and stacks accept, and the one reader that
//! checks what was written.
//!
//! A workload (or an engine) declares a static list of [`Parameter`]s. [`Params::read`] checks what
//! an experiment file gives against it, fills in the defaults, and hands the values out by name. An
//! unknown name, a wrong type and a value out of range are errors that say what would be right.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use fathom_diagnostic::suggest::{did_you_mean, nearest};

/// One accepted parameter or setting.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name in an experiment file.
    pub name: &'static str,
    /// Type and range.
    pub kind: Kind,
    /// What holds when it is not given.
    pub default: Preset,
    /// Unit of the value (`rows`, `bytes`, `ms` …); empty where it has none.
    pub unit: &'static str,
    /// One sentence.
    pub description: &'static str,
}

/// Type and range of a parameter. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// One of a few whole numbers.
    IntegerOf(&'static [i64]),
    /// A number.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// `true` or `false`.
    Boolean,
    /// Any text.
    Text,
    /// An amount of memory as PostgreSQL writes it: a whole number and B, kB, MB, GB or TB.
    Memory,
    /// One of a few words; case does not matter.
    TextOf(&'static [&'static str]),
    /// A list of whole numbers, at least one, each in this range, none twice.
    Integers {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A list of words from these, at least one, none twice; case does not matter.
    TextsOf(&'static [&'static str]),
    /// A list of any texts, which may be empty; a text may stand in it several times.
    Texts,
}

/// The value that holds when a parameter is not given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// None: the accessor with `optional` in its name gives `None`.
    Unset,
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// Text.
    Text(&'static str),
    /// A list of whole numbers.
    Integers(&'static [i64]),
    /// A list of words.
    Texts(&'static [&'static str]),
}

/// What is wrong with a parameter or setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}{}", did_you_mean(.suggestion.as_deref()))]
pub struct ParameterError {
    /// The name as it was written.
    pub key: String,
    /// What is wrong and what would be right.
    pub problem: String,
    /// The known name or value that was probably meant.
    pub suggestion: Option<String>,
}

impl Kind {
    /// What is accepted, in words: `a whole number from 1 to 64`, `one of delete, truncate …`.
    #[must_use]
    pub fn describe(&self) -> String {
        let list = |words: &[&str]| words.join(", ");
        let numbers = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let range = |min: i64, max: i64| match (min, max) {
            (i64::MIN, i64::MAX) => String::new(),
            (min, i64::MAX) => format!(", {min} or more"),
            (i64::MIN, max) => format!(", {max} or less"),
            (min, max) => format!(" from {min} to {max}"),
        };
        match *self {
            Kind::Integer { min, max } => format!("a whole number{}", range(min, max)),
            Kind::IntegerOf(values) => format!("one of {}", numbers(values)),
            Kind::Number { min, max } => format!("a number from {min} to {max}"),
            Kind::Boolean => "true or false".into(),
            Kind::Text => "text".into(),
            Kind::Memory => "an amount of memory such as 64kB, 128MB or 1GB".into(),
            Kind::TextOf(words) => format!("one of {}", list(words)),
            Kind::Integers { min, max } => format!("a list of whole numbers, each{}", range(min, max)),
            Kind::TextsOf(words) => format!("a list of words from {}", list(words)),
            Kind::Texts => "a list of texts".into(),
        }
    }

    /// The accepted words or numbers where they can be counted, else nothing.
    #[must_use]
    pub fn allowed(&self) -> Vec<String> {
        match *self {
            Kind::IntegerOf(values) => values.iter().map(i64::to_string).collect(),
            Kind::TextOf(words) | Kind::TextsOf(words) => words.iter().map(|&w| w.to_owned()).collect(),
            Kind::Boolean => vec!["true".into(), "false".into()],
            _ => Vec::new(),
        }
    }

    /// The value as it will be kept: words in their own spelling, whole floating-point numbers as
    /// integers.
    fn accept(&self, value: &Json) -> Result<Json, (String, Option<String>)> {
        let wrong = || (format!("{value} is not {}", self.describe()), None);
        match *self {
            Kind::Integer { min, max } => {
                let number = whole(value).ok_or_else(wrong)?;
                if number < min || number > max { Err(wrong()) } else { Ok(number.into()) }
            }
            Kind::IntegerOf(values) => {
                let number = whole(value).ok_or_else(wrong)?;
                if values.contains(&number) {
                    return Ok(number.into());
                }
                let near = values.iter().min_by_key(|v| v.abs_diff(number));
                Err((wrong().0, near.map(i64::to_string)))
            }
            Kind::Number { min, max } => {
                let number = value.as_f64().ok_or_else(wrong)?;
                if (min..=max).contains(&number) { Ok(value.clone()) } else { Err(wrong()) }
            }
            Kind::Boolean => {
                if value.is_boolean() {
                    Ok(value.clone())
                } else {
                    Err(wrong())
                }
            }
            Kind::Text => {
                if value.is_string() {
                    Ok(value.clone())
                } else {
                    Err(wrong())
                }
            }
            Kind::Memory => {
                value.as_str().and_then(memory_bytes).ok_or_else(wrong)?;
                Ok(value.clone())
            }
            Kind::TextOf(words) => {
                let given = value.as_str().ok_or_else(wrong)?;
                match words.iter().find(|word| word.eq_ignore_ascii_case(given)) {
                    Some(&word) => Ok(word.into()),
                    None => Err((wrong().0, nearest(given, words.iter().copied()).map(str::to_owned))),
                }
            }
            Kind::Integers { min, max } => self.accept_list(value, &Kind::Integer { min, max }),
            Kind::TextsOf(words) => self.accept_list(value, &Kind::TextOf(words)),
            Kind::Texts => match value {
                Json::Array(items) if items.iter().all(Json::is_string) => Ok(value.clone()),
                Json::String(_) => Ok(Json::Array(vec![value.clone()])),
                _ => Err(wrong()),
            },
        }
    }

    /// A list of at least one item of kind `item`; a single item is taken as a list of one. None may
    /// repeat: an item is a phase of the run, or its abscissa, by which its numbers are found.
    fn accept_list(&self, value: &Json, item: &Kind) -> Result<Json, (String, Option<String>)> {
        let items = match value {
            Json::Array(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        if items.is_empty() {
            return Err((format!("the list is empty: it must be {}", self.describe()), None));
        }
        let mut accepted: Vec<Json> = Vec::with_capacity(items.len());
        for given in items {
            let kept = item.accept(given)?;
            if accepted.contains(&kept) {
                return Err((format!("{kept} is listed twice"), None));
            }
            accepted.push(kept);
        }
        Ok(Json::Array(accepted))
    }
}

/// A whole number, also when written as 3.0 or 1e6 (TOML and JSON writers differ in this).
fn whole(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| {
        // 2^53: above it a double no longer says which whole number was meant.
        let number = value.as_f64()?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53: exact")]
        (number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0).then_some(number as i64)
    })
}

/// Bytes of an amount such as `128MB` (units of 1024, as PostgreSQL means them).
#[must_use]
pub fn memory_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let scale: u32 = match unit.trim_start() {
        "B" => 0,
        "kB" => 1,
        "MB" => 2,
        "GB" => 3,
        "TB" => 4,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1024_u64.pow(scale))
}

impl Preset {
    /// The preset as a JSON value; none for [`Preset::Unset`].
    #[must_use]
    pub fn json(&self) -> Option<Json> {
        Some(match *self {
            Preset::Unset => return None,
            Preset::Integer(number) => number.into(),
            Preset::Number(number) => number.into(),
            Preset::Boolean(truth) => truth.into(),
            Preset::Text(text) => text.into(),
            Preset::Integers(numbers) => numbers.to_vec().into(),
            Preset::Texts(texts) => texts.to_vec().into(),
        })
    }
}

/// Checked parameters, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    values: BTreeMap<String, Json>,
}

impl Params {
    /// Checks `given` against `accepted` and fills in the defaults.
    ///
    /// # Errors
    /// The first unknown name, wrong type or value out of range.
    pub fn read(accepted: &[Parameter], given: &BTreeMap<String, Json>) -> Result<Self, ParameterError> {
        let mut values = BTreeMap::new();
        for parameter in accepted {
            if let Some(value) = parameter.default.json() {
                values.insert(parameter.name.to_owned(), value);
            }
        }
        for (key, value) in given {
            let Some(parameter) = accepted.iter().find(|p| p.name == key) else {
                let names = accepted.iter().map(|p| p.name);
                return Err(ParameterError {
                    key: key.clone(),
                    problem: format!("unknown; known are {}", names.clone().collect::<Vec<_>>().join(", ")),
                    suggestion: nearest(key, names).map(str::to_owned),
                });
            };
            let kept = parameter.kind.accept(value).map_err(|(mut problem, suggestion)| {
                if !parameter.unit.is_empty() && suggestion.is_none() {
                    problem = format!("{problem} ({})", parameter.unit);
                }
                ParameterError { key: key.clone(), problem, suggestion }
            })?;
            values.insert(key.clone(), kept);
        }
        Ok(Params { values })
    }

    /// All values by name, defaults included: what a workload's `parameters()` gives.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, Json> {
        &self.values
    }

    /// Whether the parameter has a value.
    #[must_use]
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// A whole number.
    ///
    /// # Panics
    /// These accessors panic when the parameter was not declared with this kind and a default: a
    /// slip in the workload's own list, which its first test finds, never in what a user wrote.
    #[must_use]
    pub fn integer(&self, name: &str) -> i64 {
        self.optional_integer(name).unwrap_or_else(|| undeclared(name, "a whole number"))
    }

    /// A whole number that cannot be negative, because its range starts at 0 or above.
    ///
    /// # Panics
    /// As [`Params::integer`], and when the declared range allows negative numbers.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        u64::try_from(self.integer(name)).unwrap_or_else(|_| undeclared(name, "a count"))
    }

    /// A whole number, or none when it has no default and was not given.
    #[must_use]
    pub fn optional_integer(&self, name: &str) -> Option<i64> {
        self.values.get(name).and_then(Json::as_i64)
    }

    /// A number.
    ///
    /// # Panics
    /// As [`Params::integer`].
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.values.get(name).and_then(Json::as_f64).unwrap_or_else(|| undeclared(name, "a number"))
    }

    /// `true` or `false`.
    ///
    /// # Panics
    /// As [`Params::integer`].
    #[must_use]
    pub fn boolean(&self, name: &str) -> bool {
        self.values.get(name).and_then(Json::as_bool).unwrap_or_else(|| undeclared(name, "true or false"))
    }

    /// Text or a word.
    ///
    /// # Panics
    /// As [`Params::integer`].
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.optional_text(name).unwrap_or_else(|| undeclared(name, "text"))
    }

    /// Text or a word, or none when it has no default and was not given.
    #[must_use]
    pub fn optional_text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Json::as_str)
    }

    /// A list of whole numbers.
    ///
    /// # Panics
    /// As [`Params::integer`].
    #[must_use]
    pub fn integers(&self, name: &str) -> Vec<i64> {
        let items = self.values.get(name).and_then(Json::as_array);
        items
            .map(|items| items.iter().filter_map(Json::as_i64).collect())
            .unwrap_or_else(|| undeclared(name, "a list of whole numbers"))
    }

    /// A list of words.
    ///
    /// # Panics
    /// As [`Params::integer`].
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<String> {
        let items = self.values.get(name).and_then(Json::as_array);
        items
            .map(|items| items.iter().filter_map(Json::as_str).map(str::to_owned).collect())
            .unwrap_or_else(|| undeclared(name, "a list of words"))
    }
}

fn undeclared<T>(name: &str, kind: &str) -> T {
    panic!("parameter {name} is read as {kind} but was not declared so with a default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ACCEPTED: &[Parameter] = &[
        parameter("rows", Kind::Integer { min: 1, max: 100 }, Preset::Integer(10)),
        parameter("share", Kind::Number { min: 0.0, max: 1.0 }, Preset::Number(0.5)),
        parameter("mode", Kind::TextOf(&["insert", "update", "delete"]), Preset::Text("insert")),
        parameter("phases", Kind::TextsOf(&["insert", "update"]), Preset::Texts(&["insert"])),
        parameter("ranges", Kind::Integers { min: 1, max: 1000 }, Preset::Integers(&[1, 2])),
        parameter("page_size", Kind::IntegerOf(&[512, 4096]), Preset::Integer(4096)),
        parameter("check", Kind::Boolean, Preset::Boolean(true)),
        parameter("buffers", Kind::Memory, Preset::Unset),
        parameter("path", Kind::Text, Preset::Unset),
    ];

    const fn parameter(name: &'static str, kind: Kind, default: Preset) -> Parameter {
        Parameter { name, kind, default, unit: "", description: "" }
    }

    fn read(key: &str, value: Json) -> Result<Params, ParameterError> {
        Params::read(ACCEPTED, &BTreeMap::from([(key.to_owned(), value)]))
    }

    #[test]
    fn what_is_not_given_has_its_default() {
        let params = Params::read(ACCEPTED, &BTreeMap::new()).unwrap();
        assert_eq!(params.integer("rows"), 10);
        assert_eq!(params.count("page_size"), 4096);
        assert_eq!(params.text("mode"), "insert");
        assert_eq!(params.texts("phases"), ["insert"]);
        assert_eq!(params.integers("ranges"), [1, 2]);
        assert!(params.boolean("check"));
        assert_eq!(params.optional_text("path"), None);
        assert!(!params.is_set("buffers"));
    }

    #[test]
    fn what_is_given_is_kept_in_its_own_spelling() {
        assert_eq!(read("mode", json!("UPDATE")).unwrap().text("mode"), "update");
        assert_eq!(read("rows", json!(20.0)).unwrap().integer("rows"), 20);
        assert_eq!(read("phases", json!("Update")).unwrap().texts("phases"), ["update"]);
        assert_eq!(read("ranges", json!([5, 1])).unwrap().integers("ranges"), [5, 1]);
        assert_eq!(read("buffers", json!("128MB")).unwrap().text("buffers"), "128MB");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let message = |key: &str, value: Json| read(key, value).unwrap_err().to_string();
        assert!(message("row", json!(1)).ends_with("did you mean `rows`?"));
        assert!(message("rows", json!(101)).contains("101 is not a whole number from 1 to 100"));
        assert!(message("rows", json!("ten")).contains("\"ten\" is not a whole number"));
        assert!(message("rows", json!(1.5)).contains("1.5 is not a whole number"));
        assert!(
            message("mode", json!("updat"))
                .ends_with("one of insert, update, delete; did you mean `update`?")
        );
        assert!(message("page_size", json!(4000)).ends_with("did you mean `4096`?"));
        assert!(message("phases", json!([])).contains("the list is empty"));
        assert!(message("phases", json!(["insert", "INSERT"])).contains("listed twice"));
        assert!(message("check", json!("yes")).contains("true or false"));
        assert!(message("buffers", json!("128 MiB")).contains("an amount of memory such as"));
    }

    /// What happened: `ranges = [100, 100]` of `update` made two phases of one name and abscissa in
    /// a run. They counted as two runs of their cell, so that a single run had an interval, and a
    /// ratio was proven by half as many blocks as it takes.
    #[test]
    fn no_number_of_a_list_stands_in_it_twice() {
        for twice in [json!([5, 1, 5]), json!([5, 5.0])] {
            let error = read("ranges", twice).unwrap_err().to_string();
            assert!(error.contains("5 is listed twice"), "{error}");
        }
        assert_eq!(read("ranges", json!([1, 5])).unwrap().integers("ranges"), [1, 5]);
    }

    #[test]
    fn memory_has_units_of_1024() {
        assert_eq!(memory_bytes("8kB"), Some(8192));
        assert_eq!(memory_bytes("16 MB"), Some(16 << 20));
        assert_eq!(memory_bytes("99999999999TB"), None);
        assert_eq!(memory_bytes("1"), None);
        assert_eq!(memory_bytes("MB"), None);
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<u64>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            "[a-zA-Z0-9_]{0,8}".prop_map(Json::from),
        ];
        leaf.prop_recursive(2, 8, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Json::from))
    }

    proptest! {
        /// Whatever is written, the reader either refuses it with an explanation or keeps a value
        /// that it accepts again unchanged and that its accessor can read.
        #[test]
        fn what_is_accepted_is_accepted_again(key in "rows|share|mode|phases|ranges|page_size|check|buffers|path|[a-z]{1,5}", value in any_json()) {
            match read(&key, value) {
                Ok(params) => {
                    let again = Params::read(ACCEPTED, params.all()).unwrap();
                    prop_assert_eq!(&again, &params);
                    prop_assert!((1..=100).contains(&params.integer("rows")));
                    prop_assert!((0.0..=1.0).contains(&params.number("share")));
                    prop_assert!(["insert", "update", "delete"].contains(&params.text("mode")));
                    prop_assert!(!params.texts("phases").is_empty() && !params.integers("ranges").is_empty());
                }
                Err(error) => {
                    prop_assert_eq!(&error.key, &key);
                    prop_assert!(!error.problem.is_empty());
                }
            }
        }

        #[test]
        fn a_number_in_range_is_accepted_and_one_out_of_it_refused(number in any::<i64>()) {
            prop_assert_eq!(read("rows", json!(number)).is_ok(), (1..=100).contains(&number));
            let small = number % 200;
            prop_assert_eq!(read("rows", json!(small)).is_ok(), (1..=100).contains(&small));
        }
    }
}
