//! Parameters of prepared statements.

use super::error::ConnectionError;
use bytes::{BufMut, BytesMut};
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend::{self, BindError};
use postgres_protocol::types::{ArrayDimension, array_to_sql};
use std::error::Error;

/// Numbers of types (`pg_type.dat`).
pub mod oid {
    /// `bytea`
    pub const BYTEA: u32 = 17;
    /// `bigint`
    pub const INT8: u32 = 20;
    /// `text`
    pub const TEXT: u32 = 25;
    /// `bytea[]`
    pub const BYTEA_ARRAY: u32 = 1001;
    /// `text[]`
    pub const TEXT_ARRAY: u32 = 1009;
    /// `bigint[]`
    pub const INT8_ARRAY: u32 = 1016;
}

/// How columns come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As text.
    Text,
    /// In binary.
    Binary,
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub enum Parameter<'a> {
    /// NULL.
    Null,
    /// Text; also a value of any other type in its text form.
    Text(&'a str),
    /// `bytea`
    Bytes(&'a [u8]),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `bytea[]`
    BytesArray(&'a [&'a [u8]]),
    /// `text[]`
    TextArray(&'a [&'a str]),
    /// `bigint[]`
    Int8Array(&'a [i64]),
}

impl Parameter<'_> {
    /// 0: text, 1: binary.
    fn format(&self) -> i16 {
        i16::from(!matches!(self, Parameter::Null | Parameter::Text(_)))
    }

    fn write(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Send + Sync>> {
        match *self {
            Parameter::Null => return Ok(IsNull::Yes),
            Parameter::Text(text) => out.put_slice(text.as_bytes()),
            Parameter::Bytes(octets) => out.put_slice(octets),
            Parameter::Int2(number) => out.put_i16(number),
            Parameter::Int4(number) => out.put_i32(number),
            Parameter::Int8(number) => out.put_i64(number),
            Parameter::BytesArray(elements) => {
                let write = |element: &&[u8], out: &mut BytesMut| write_element(element, out);
                array_to_sql(whole(elements), oid::BYTEA, elements, write, out)?;
            }
            Parameter::TextArray(elements) => {
                let write = |element: &&str, out: &mut BytesMut| write_element(element.as_bytes(), out);
                array_to_sql(whole(elements), oid::TEXT, elements, write, out)?;
            }
            Parameter::Int8Array(numbers) => {
                let write = |number: &i64, out: &mut BytesMut| write_element(&number.to_be_bytes(), out);
                array_to_sql(whole(numbers), oid::INT8, numbers, write, out)?;
            }
        }
        Ok(IsNull::No)
    }
}

fn write_element(octets: &[u8], out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Send + Sync>> {
    out.put_slice(octets);
    Ok(IsNull::No)
}

/// The one dimension of an array. More elements than fit a message do not get here.
fn whole<T>(elements: &[T]) -> [ArrayDimension; 1] {
    [ArrayDimension { len: i32::try_from(elements.len()).unwrap_or(i32::MAX), lower_bound: 1 }]
}

pub(super) fn refused_value(error: std::io::Error) -> ConnectionError {
    ConnectionError::Request(error.to_string())
}

/// Writes the Bind of the statement `name` down.
pub(super) fn bind(
    name: &str,
    parameters: &[Parameter<'_>],
    rows: Format,
    out: &mut BytesMut,
) -> Result<(), ConnectionError> {
    let formats = parameters.iter().map(Parameter::format);
    let rows = [i16::from(rows == Format::Binary)];
    frontend::bind("", name, formats, parameters, |parameter, out| parameter.write(out), rows, out).map_err(
        |error| match error {
            BindError::Conversion(error) => ConnectionError::Request(error.to_string()),
            BindError::Serialization(error) => refused_value(error),
        },
    )
}
