//! SQL text as SQLite's tokenizer sees it: what a statement is, where its literals and parameters
//! are.

mod attach;
mod key;
mod literal;
mod parameter;
mod shape;
mod split;
mod token;
mod vacuum;
mod verb;

pub use attach::{Attach, Target, detached};
pub use key::{LEFT_OUT, key_of_attach, without_key};
pub use literal::{literal, value_of};
pub use parameter::{Parameters, values_from_expanded};
pub use shape::shape;
pub use split::Splitter;
pub use token::{Token, TokenKind, tokens};
pub use vacuum::{target_of_vacuum, vacuum_into};
pub use verb::{Verb, is_key_pragma, pragma, pragma_schema, with_pragma_name};
