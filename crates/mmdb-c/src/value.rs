//! Values.

use crate::argument::{array, text};
use crate::failure::{Failure, Result, misuse};
use crate::status::mmdb_status;
use mmdb::{Decimal, Value};
use std::ffi::{c_char, c_void};

/// Kinds of values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_kind {
    /// NULL.
    Null = 0,
    /// A truth value, 0 or 1 in `integer`.
    Bool = 1,
    /// An integer with a sign, in `integer`.
    Int = 2,
    /// An integer without one, in `natural`.
    Uint = 3,
    /// A floating-point number, in `real`.
    Float = 4,
    /// An exact decimal number: `integer` without its point, and in `scale` the digits behind it.
    Decimal = 5,
    /// Microseconds since 1970-01-01 UTC, in `integer`.
    Time = 6,
    /// Bytes, `size` of them at `data`.
    Bytes = 7,
    /// UTF-8 text, `size` bytes at `data`, without a zero at its end.
    Text = 8,
}

/// A value. Only the fields of its kind are looked at. mmdb_int and the functions beside it at the
/// end of this header make one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_value {
    /// An mmdb_kind.
    pub kind: u32,
    /// Digits behind the point of a decimal number.
    pub scale: u32,
    /// A truth value, an integer with a sign, a decimal number without its point, a time.
    pub integer: i64,
    /// An integer without a sign.
    pub natural: u64,
    /// A floating-point number.
    pub real: f64,
    /// Bytes or text; NULL is right where `size` is 0.
    pub data: *const c_void,
    /// How many bytes.
    pub size: usize,
}

/// A column and the value that it is to have.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_assignment {
    /// The column's name.
    pub column: *const c_char,
    /// The value.
    pub value: mmdb_value,
}

impl mmdb_value {
    pub(crate) const NULL: mmdb_value = mmdb_value {
        kind: mmdb_kind::Null as u32,
        scale: 0,
        integer: 0,
        natural: 0,
        real: 0.0,
        data: std::ptr::null(),
        size: 0,
    };

    /// As C sees it. It points to what the value points to.
    pub(crate) fn of(value: Value<'_>) -> mmdb_value {
        let integer = |kind, integer| mmdb_value { kind, integer, ..mmdb_value::NULL };
        let at = |kind, bytes: &[u8]| mmdb_value {
            kind,
            data: bytes.as_ptr().cast(),
            size: bytes.len(),
            ..mmdb_value::NULL
        };
        match value {
            Value::Bool(v) => integer(mmdb_kind::Bool as u32, v.into()),
            Value::Int(v) => integer(mmdb_kind::Int as u32, v),
            Value::UInt(natural) => mmdb_value { kind: mmdb_kind::Uint as u32, natural, ..mmdb_value::NULL },
            Value::Float(real) => mmdb_value { kind: mmdb_kind::Float as u32, real, ..mmdb_value::NULL },
            Value::Decimal(v) => {
                mmdb_value { scale: v.scale().into(), ..integer(mmdb_kind::Decimal as u32, v.unscaled()) }
            }
            Value::Time(v) => integer(mmdb_kind::Time as u32, v),
            Value::Bytes(v) => at(mmdb_kind::Bytes as u32, v),
            Value::Text(v) => at(mmdb_kind::Text as u32, v.as_bytes()),
            // NULL, and kinds that this does not know yet.
            _ => mmdb_value::NULL,
        }
    }

    /// As Rust sees it.
    ///
    /// # Safety
    /// Bytes and text are there, and stay for `'a`.
    pub(crate) unsafe fn read<'a>(&self) -> Result<Value<'a>> {
        // SAFETY: says the caller.
        let bytes = || unsafe { array(self.data.cast::<u8>(), self.size, "the bytes of a value") };
        Ok(match self.kind {
            k if k == mmdb_kind::Null as u32 => Value::Null,
            k if k == mmdb_kind::Bool as u32 => Value::Bool(self.integer != 0),
            k if k == mmdb_kind::Int as u32 => Value::Int(self.integer),
            k if k == mmdb_kind::Uint as u32 => Value::UInt(self.natural),
            k if k == mmdb_kind::Float as u32 => Value::Float(self.real),
            k if k == mmdb_kind::Decimal as u32 => {
                let scale = u8::try_from(self.scale).ok();
                let decimal = scale.and_then(|scale| Decimal::new(self.integer, scale));
                Value::Decimal(decimal.ok_or_else(|| Failure {
                    status: mmdb_status::Value,
                    message: format!(
                        "a decimal number with {} digits behind its point; {} are possible",
                        self.scale,
                        Decimal::MAX_SCALE
                    ),
                })?)
            }
            k if k == mmdb_kind::Time as u32 => Value::Time(self.integer),
            k if k == mmdb_kind::Bytes as u32 => Value::Bytes(bytes()?),
            k if k == mmdb_kind::Text as u32 => {
                Value::Text(std::str::from_utf8(bytes()?).map_err(|e| Failure {
                    status: mmdb_status::NotText,
                    message: format!("the text of a value is not UTF-8: {e}"),
                })?)
            }
            other => return Err(misuse(format!("{other} is no mmdb_kind"))),
        })
    }
}

/// An array of values.
///
/// # Safety
/// The array and what it points to are there, and stay for `'a`.
pub(crate) unsafe fn values<'a>(p: *const mmdb_value, count: usize) -> Result<Vec<Value<'a>>> {
    // SAFETY: says the caller.
    unsafe { array(p, count, "values")?.iter().map(|v| v.read()).collect() }
}

/// An array of columns with values.
///
/// # Safety
/// As [`values`].
pub(crate) unsafe fn assignments<'a>(
    p: *const mmdb_assignment,
    count: usize,
) -> Result<Vec<(&'a str, Value<'a>)>> {
    // SAFETY: says the caller.
    let read = |a: &mmdb_assignment| unsafe { Ok((text(a.column, "a column")?, a.value.read()?)) };
    // SAFETY: says the caller.
    unsafe { array(p, count, "assignments")? }.iter().map(read).collect()
}
