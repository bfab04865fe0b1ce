//! The values of a profile: a small language of what is drawn, `recent(message)` or `text(20, 60)`.
//!
//! | expression | value |
//! |---|---|
//! | `7`, `-1`, `'word'`, `null` | itself |
//! | `now` | ms since 1970 at the moment of the statement |
//! | `row` | while a table is filled: the row's number, from 1 |
//! | `name` | the value called so in `let` or `[values]` |
//! | `int(a, b)` | a whole number from a to b |
//! | `text(a, b)`, `blob(a, b)` | words, bytes; their length from a to b |
//! | `pick(x, y, …)` | one of them |
//! | `maybe(p, x)` | x in p of 100 cases, else NULL |
//! | `add(x, y)` | the sum |
//! | `spread(x, n)` | a number from 1 to n that belongs to x: the same for the same x |
//! | `named('kind', x, a, b)` | a text of a to b bytes that belongs to x: the same for the same kind and x |
//! | `join(x, y, …)` | their texts one after the other |
//! | `next(counter)` | the number of a new row |
//! | `last(counter)`, `any(counter)` | the newest number, any number |
//! | `recent(counter)` | a number, the newer the likelier: half of them among the newest eighth |
//! | `oldest(counter)` | the oldest number, which is used no more |

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use crate::model::Value;
use fathom_random::Random;

/// What is drawn for a value.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Expression {
    Constant(Value),
    /// A word: `now`, `row`, or a value by its name; and the name of a counter or function's
    /// argument.
    Word(String),
    Call(String, Vec<Expression>),
}

/// Functions with the least and the largest number of their arguments.
const FUNCTIONS: [(&str, usize, usize); 14] = [
    ("int", 2, 2),
    ("text", 2, 2),
    ("blob", 2, 2),
    ("pick", 1, usize::MAX),
    ("maybe", 2, 2),
    ("add", 2, 2),
    ("spread", 2, 2),
    ("named", 4, 4),
    ("join", 1, usize::MAX),
    ("next", 1, 1),
    ("last", 1, 1),
    ("any", 1, 1),
    ("recent", 1, 1),
    ("oldest", 1, 1),
];

impl TryFrom<String> for Expression {
    type Error = String;

    fn try_from(text: String) -> Result<Expression, String> {
        let mut rest = text.as_str();
        let read = read(&mut rest).map_err(|problem| format!("`{text}`: {problem}"))?;
        if rest.trim().is_empty() { Ok(read) } else { Err(format!("`{text}`: what is `{}`?", rest.trim())) }
    }
}

/// Reads an expression at the start of `rest`.
fn read(rest: &mut &str) -> Result<Expression, String> {
    *rest = rest.trim_start();
    if let Some(after) = rest.strip_prefix('\'') {
        let (text, after) = after.split_once('\'').ok_or("the text has no end")?;
        *rest = after;
        return Ok(Expression::Constant(Value::Text(text.into())));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
    if word.is_empty() {
        return Err(format!("a value is missing before `{after}`"));
    }
    *rest = after;
    if let Ok(number) = word.parse() {
        return Ok(Expression::Constant(Value::Integer(number)));
    }
    let Some(after) = after.strip_prefix('(') else {
        return Ok(match word {
            "null" => Expression::Constant(Value::Null),
            _ => Expression::Word(word.to_owned()),
        });
    };
    *rest = after;
    let mut arguments = Vec::new();
    loop {
        arguments.push(read(rest)?);
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix(',') {
            *rest = after;
        } else if let Some(after) = rest.strip_prefix(')') {
            *rest = after;
            break;
        } else {
            return Err("`)` is missing".into());
        }
    }
    let Some((_, least, most)) = FUNCTIONS.iter().find(|(name, ..)| *name == word) else {
        return Err(format!("there is no function {word}"));
    };
    if !(*least..=*most).contains(&arguments.len()) {
        return Err(format!("{word} does not take {} arguments", arguments.len()));
    }
    Ok(Expression::Call(word.to_owned(), arguments))
}

/// Definitions of values by name.
pub(super) type Definitions = BTreeMap<String, Expression>;

/// Numbers of rows: the first that is still there and the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(HashMap<String, (i64, i64)>);

impl Counters {
    /// `rows` rows are there, numbered from 1.
    pub fn set(&mut self, name: &str, rows: i64) {
        self.0.insert(name.to_owned(), (1, rows));
    }

    /// Its first and last number; a counter that was never counted has none.
    fn bounds(&mut self, name: &str) -> &mut (i64, i64) {
        self.0.entry(name.to_owned()).or_insert((1, 0))
    }
}

/// What values are drawn from.
pub(super) struct Source<'a> {
    pub random: &'a mut Random,
    pub counters: &'a mut Counters,
    /// `[values]`: drawn anew at each use.
    pub values: &'a Definitions,
    pub seed: u64,
    pub now_ms: i64,
    pub row: i64,
}

/// Values of a `let`, each drawn when it is first used and the same from then on, within those of
/// the group around it.
pub(super) struct Scope<'a> {
    definitions: &'a Definitions,
    drawn: RefCell<BTreeMap<String, Value>>,
    outer: Option<&'a Scope<'a>>,
}

impl<'a> Scope<'a> {
    /// Nothing is drawn.
    pub fn new(definitions: &'a Definitions, outer: Option<&'a Scope<'a>>) -> Scope<'a> {
        Scope { definitions, drawn: RefCell::default(), outer }
    }

    /// The value called `name`.
    pub fn value(&self, name: &str, source: &mut Source<'_>) -> Result<Value, String> {
        if let Some(value) = self.drawn.borrow().get(name) {
            return Ok(value.clone());
        }
        if let Some(definition) = self.definitions.get(name) {
            let value = self.draw(definition, source)?;
            self.drawn.borrow_mut().insert(name.to_owned(), value.clone());
            return Ok(value);
        }
        if let Some(outer) = self.outer {
            return outer.value(name, source);
        }
        match (name, source.values.get(name)) {
            ("now", _) => Ok(Value::Integer(source.now_ms)),
            ("row", _) => Ok(Value::Integer(source.row)),
            (_, Some(definition)) => self.draw(definition, source),
            _ => Err(format!("there is no value `{name}`")),
        }
    }

    /// Draws an expression.
    pub fn draw(&self, expression: &Expression, source: &mut Source<'_>) -> Result<Value, String> {
        let (function, arguments) = match expression {
            Expression::Constant(value) => return Ok(value.clone()),
            Expression::Word(name) => return self.value(name, source),
            Expression::Call(function, arguments) => (function.as_str(), arguments),
        };
        let argument = |place: usize, source: &mut Source<'_>| self.draw(&arguments[place], source);
        let number = |place: usize, source: &mut Source<'_>| match self.draw(&arguments[place], source)? {
            Value::Integer(number) => Ok(number),
            _ => Err(format!("argument {} of {function} is no whole number", place + 1)),
        };
        if let Some(Expression::Word(counter)) =
            arguments.first().filter(|_| matches!(function, "next" | "last" | "any" | "recent" | "oldest"))
        {
            return Ok(Value::Integer(count(function, counter, source)));
        }
        Ok(match function {
            "int" => {
                let (low, high) = (number(0, source)?, number(1, source)?);
                Value::Integer(source.random.between(low, high))
            }
            "text" | "blob" => {
                let (low, high) = (number(0, source)?.max(0), number(1, source)?.max(0));
                let length = source.random.between(low, high) as usize;
                if function == "text" {
                    Value::Text(words(source.random, length))
                } else {
                    let mut bytes = vec![0; length];
                    source.random.fill(&mut bytes);
                    Value::Blob(bytes)
                }
            }
            "pick" => argument(source.random.below(arguments.len() as u64) as usize, source)?,
            "maybe" => {
                let percent = number(0, source)?;
                if source.random.between(1, 100) <= percent { argument(1, source)? } else { Value::Null }
            }
            "add" => Value::Integer(number(0, source)?.saturating_add(number(1, source)?)),
            "spread" => {
                let (of, bound) = (number(0, source)?, number(1, source)?.max(1));
                let drawn = Random::stream(source.seed, "spread", of as u64).below(bound as u64);
                Value::Integer(drawn as i64 + 1)
            }
            "named" => {
                let kind = text_of(&argument(0, source)?);
                let of = number(1, source)?;
                let (low, high) = (number(2, source)?.max(0), number(3, source)?.max(0));
                let mut random = Random::stream(source.seed, &String::from_utf8_lossy(&kind), of as u64);
                let length = random.between(low, high) as usize;
                // The number makes it unique; the rest gives it its length.
                let mut text = of.to_string().into_bytes();
                text.push(b'-');
                let rest = length.saturating_sub(text.len());
                text.extend(words(&mut random, rest));
                Value::Text(text)
            }
            "join" => {
                let mut joined = Vec::new();
                for place in 0..arguments.len() {
                    joined.extend(text_of(&argument(place, source)?));
                }
                Value::Text(joined)
            }
            _ => return Err(format!("{function} takes the name of a counter")),
        })
    }
}

fn count(function: &str, counter: &str, source: &mut Source<'_>) -> i64 {
    let (first, last) = *source.counters.bounds(counter);
    match function {
        "next" => {
            source.counters.bounds(counter).1 = last + 1;
            last + 1
        }
        "oldest" => {
            // The last one stays, so that there is always one to ask for.
            if first < last {
                source.counters.bounds(counter).0 = first + 1;
            }
            first
        }
        "any" => source.random.between(first, last),
        "recent" => {
            // The cube of a uniform number: half of all draws lie below an eighth.
            let unit = u128::from(source.random.bits() >> 32);
            let span = (last - first).max(0) as u128;
            last - ((span * unit * unit * unit) >> 96) as i64
        }
        _ => last,
    }
}

fn text_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => bytes.clone(),
        Value::Integer(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

/// Letters, each about as often as in English text.
const LETTERS: &[u8; 32] = b"eeeeetttaaaooiiinnnsshhrrddlcumw";

/// Words of 2 to 9 letters, `length` bytes in all.
fn words(random: &mut Random, length: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(length);
    let mut bits = 0_u64;
    let mut left = 0;
    let mut word = 2 + random.below(8);
    while text.len() < length {
        if word == 0 && text.len() + 1 < length {
            text.push(b' ');
            word = 2 + random.below(8);
            continue;
        }
        if left == 0 {
            (bits, left) = (random.bits(), 12); // 12 letters of 5 bits
        }
        text.push(LETTERS[(bits & 31) as usize]);
        bits >>= 5;
        left -= 1;
        word = word.saturating_sub(1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn draw(text: &str, seed: u64, counters: &mut Counters) -> Result<Value, String> {
        let expression = Expression::try_from(text.to_owned())?;
        let (definitions, values) = (Definitions::new(), Definitions::new());
        let mut random = Random::new(seed);
        let mut source = Source { random: &mut random, counters, values: &values, seed, now_ms: 5, row: 3 };
        Scope::new(&definitions, None).draw(&expression, &mut source)
    }

    #[test]
    fn each_expression_gives_what_it_says() {
        let mut counters = Counters::default();
        counters.set("c", 10);
        let mut of = |text: &str| draw(text, 1, &mut counters).expect(text);
        assert_eq!(of("7"), Value::Integer(7));
        assert_eq!(of("-1"), Value::Integer(-1));
        assert_eq!(of("'a b'"), Value::Text(b"a b".to_vec()));
        assert_eq!(of("null"), Value::Null);
        assert_eq!(of("add(now, row)"), Value::Integer(8));
        assert_eq!(of("join('a', 1, null, 'b')"), Value::Text(b"a1b".to_vec()));
        assert_eq!(of("maybe(0, 1)"), Value::Null);
        assert_eq!(of("maybe(100, 1)"), Value::Integer(1));
        assert_eq!((of("last(c)"), of("next(c)"), of("last(c)")), (10.into(), 11.into(), 11.into()));
        assert_eq!((of("oldest(c)"), of("oldest(c)")), (1.into(), 2.into()));
        assert_eq!(of("next(new)"), Value::Integer(1));
        assert_eq!(of("oldest(new)"), Value::Integer(1));
        assert_eq!(of("oldest(new)"), Value::Integer(1), "the last one stays");
        assert_eq!(of("named('k', 3, 20, 20)"), of("named('k', 3, 20, 20)"));
        assert_ne!(of("named('k', 3, 20, 20)"), of("named('k', 4, 20, 20)"));
        assert_eq!(of("spread(9, 5)"), of("spread(9, 5)"));
    }

    impl From<i64> for Value {
        fn from(number: i64) -> Value {
            Value::Integer(number)
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for (text, words) in [
            ("", "a value is missing"),
            ("int(1)", "int does not take 1 arguments"),
            ("int(1, 2", "`)` is missing"),
            ("'a", "the text has no end"),
            ("dice(6)", "there is no function dice"),
            ("1 2", "what is `2`?"),
            ("nobody", "there is no value `nobody`"),
            ("int('a', 2)", "argument 1 of int is no whole number"),
            ("next(3)", "next takes the name of a counter"),
        ] {
            let error = draw(text, 1, &mut Counters::default()).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn draws_keep_their_bounds(seed: u64, low in 0_i64..200, more in 0_i64..200, rows in 1_i64..1000) {
            let mut counters = Counters::default();
            counters.set("c", rows);
            for (text, shift) in [("text", 0), ("blob", 0), ("named('x', 5, ", 2)] {
                let open = if text.ends_with(' ') { "" } else { "(" };
                let drawn = draw(&format!("{text}{open}{low}, {})", low + more), seed, &mut counters);
                let length = drawn.expect("drawn").bytes() as i64;
                prop_assert!(length >= low && length <= (low + more).max(shift), "{text} {length}");
            }
            for text in ["any(c)", "recent(c)", "last(c)"] {
                let Value::Integer(number) = draw(text, seed, &mut counters).expect("drawn") else { panic!() };
                prop_assert!((1..=rows).contains(&number));
            }
        }
    }
}
