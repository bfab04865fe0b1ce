//! TOML values with their places, and readers that say what is wrong with them.

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Problem, Span};
use fathom_ground::suggest::{did_you_mean_hint, nearest};

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub span: Span,
    pub value: Value,
}

/// A value of TOML; tables in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Moment(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub key_span: Span,
    pub node: Node,
}

/// Parses a whole document.
pub(super) fn document(text: &str, source: usize) -> Result<Vec<Entry>, Problem> {
    let table = DeTable::parse(text).map_err(|error| {
        let range = error.span().unwrap_or(0..0);
        let message = error.message().replace('\n', ", ");
        Problem::new(&Span { source, range }, format!("not TOML: {message}"), "")
    })?;
    entries(table.get_ref(), source)
}

fn entries(table: &DeTable<'_>, source: usize) -> Result<Vec<Entry>, Problem> {
    let mut entries = table
        .iter()
        .map(|(key, value)| {
            Ok(Entry {
                key: key.get_ref().to_string(),
                key_span: Span { source, range: key.span() },
                node: node(value, source)?,
            })
        })
        .collect::<Result<Vec<Entry>, Problem>>()?;
    entries.sort_by_key(|entry| entry.key_span.range.start);
    Ok(entries)
}

fn node(value: &Spanned<DeValue<'_>>, source: usize) -> Result<Node, Problem> {
    let span = Span { source, range: value.span() };
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let read = i64::from_str_radix(&number.as_str().replace('_', ""), number.radix());
            Value::Integer(read.map_err(|_| {
                Problem::new(&span, "the number is too large", format!("the largest is {}", i64::MAX))
            })?)
        }
        DeValue::Float(number) => Value::Float(
            number
                .as_str()
                .replace('_', "")
                .parse()
                .map_err(|_| Problem::new(&span, "this is not a number", ""))?,
        ),
        DeValue::Boolean(truth) => Value::Boolean(*truth),
        DeValue::Datetime(moment) => Value::Moment(moment.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(item, source)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(entries(table, source)?),
    };
    Ok(Node { span, value })
}

impl Node {
    /// What it is, in words, with its value where it is short.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Boolean(truth) => format!("{truth}"),
            Value::Integer(number) => format!("{number}"),
            Value::Float(number) => format!("{number}"),
            Value::Text(text) => format!("\"{text}\""),
            Value::Moment(text) => format!("the date {text}"),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a table".into(),
        }
    }

    fn wrong(&self, key: &str, wanted: &str) -> Problem {
        Problem::new(&self.span, format!("`{key}` is {wanted}, not {}", self.describe()), "")
    }

    pub fn text(&self, key: &str) -> Result<String, Problem> {
        match &self.value {
            Value::Text(text) if !text.trim().is_empty() => Ok(text.clone()),
            Value::Text(_) => Err(Problem::new(&self.span, format!("`{key}` is empty"), "")),
            _ => Err(self.wrong(key, "text in quotes")),
        }
    }

    pub fn boolean(&self, key: &str) -> Result<bool, Problem> {
        match &self.value {
            Value::Boolean(truth) => Ok(*truth),
            _ => Err(self.wrong(key, "true or false")),
        }
    }

    pub fn number(&self, key: &str) -> Result<f64, Problem> {
        match &self.value {
            Value::Integer(number) => Ok(*number as f64),
            Value::Float(number) if number.is_finite() => Ok(*number),
            _ => Err(self.wrong(key, "a number")),
        }
    }

    pub fn whole(&self, key: &str, min: i64, max: i64) -> Result<i64, Problem> {
        match &self.value {
            Value::Integer(number) if (min..=max).contains(number) => Ok(*number),
            _ => Err(self.wrong(key, &format!("a whole number from {min} to {max}"))),
        }
    }

    /// One of a few words.
    pub fn word<'a>(&self, key: &str, words: &[&'a str]) -> Result<&'a str, Problem> {
        let text = self.text(key)?;
        words.iter().find(|word| **word == text).copied().ok_or_else(|| {
            let hint = match nearest(&text, words.iter().copied()) {
                Some(word) => did_you_mean_hint(Some(word)),
                None => format!("one of {}", words.join(", ")),
            };
            Problem::new(&self.span, format!("unknown {key} \"{text}\""), hint)
        })
    }

    /// A list of texts; one text is a list of one.
    pub fn texts(&self, key: &str) -> Result<Vec<(String, Span)>, Problem> {
        self.items().iter().map(|item| Ok((item.text(key)?, item.span.clone()))).collect()
    }

    /// The items of a list; anything else is a list of one.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    pub fn table(&self, key: &str) -> Result<&[Entry], Problem> {
        match &self.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.wrong(key, &format!("a table (`[{key}]`)"))),
        }
    }

    /// The tables of a `[[key]]`.
    pub fn tables(&self, key: &str) -> Result<Vec<(&Span, &[Entry])>, Problem> {
        let wanted = format!("a list of tables (`[[{key}]]`)");
        match &self.value {
            Value::List(items) => items
                .iter()
                .map(|item| match &item.value {
                    Value::Table(entries) => Ok((&item.span, entries.as_slice())),
                    _ => Err(item.wrong(key, &wanted)),
                })
                .collect(),
            _ => Err(self.wrong(key, &wanted)),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Result<Json, Problem> {
        Ok(match &self.value {
            Value::Boolean(truth) => (*truth).into(),
            Value::Integer(number) => (*number).into(),
            Value::Float(number) if number.is_finite() => (*number).into(),
            Value::Text(text) => text.clone().into(),
            Value::List(items) => {
                items.iter().map(Node::json).collect::<Result<Vec<Json>, Problem>>()?.into()
            }
            Value::Float(_) | Value::Moment(_) | Value::Table(_) => {
                return Err(Problem::new(
                    &self.span,
                    format!("{} cannot be a parameter or setting", self.describe()),
                    "use a number, text, true or false, or a list of them",
                ));
            }
        })
    }
}

/// The error for a key that is none of `known`.
pub(super) fn unknown_key(entry: &Entry, place: &str, known: &[&str]) -> Problem {
    let hint = match nearest(&entry.key, known.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known here: {}", known.join(", ")),
    };
    Problem::new(&entry.key_span, format!("unknown key `{}` in {place}", entry.key), hint)
}
