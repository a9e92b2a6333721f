//! Evaluates bound expressions a block at a time: one dispatch per block and function, then a loop over buffers.

use super::bound::Bound;
use super::expr::Function;
use crate::dynamic::columns::{Block, Column, Text, Type, Value};
use crate::error::{Error, ErrorKind, Result};
use std::fmt::{Display, Write};
use std::sync::Arc;

/// The values of an expression for a block.
enum Datum {
    Column(Arc<Column>),
    /// The same value for every row.
    Scalar(Value),
}

/// The values of an expression for the rows of a block.
pub(crate) fn evaluate(bound: &Bound, block: &Block) -> Result<Arc<Column>> {
    Ok(match datum(bound, block)? {
        Datum::Column(column) => column,
        Datum::Scalar(value) => Arc::new(Column::repeat(&value, block.rows())),
    })
}

fn datum(bound: &Bound, block: &Block) -> Result<Datum> {
    match bound {
        Bound::Column(at) => match block.columns().get(*at) {
            Some(column) => Ok(Datum::Column(Arc::clone(column))),
            None => Err(mismatch()),
        },
        Bound::Literal(value) => Ok(Datum::Scalar(value.clone())),
        Bound::Call(function, arguments) => {
            let arguments: Vec<Datum> =
                arguments.iter().map(|argument| datum(argument, block)).collect::<Result<_>>()?;
            call(*function, &arguments, block.rows()).map(|column| Datum::Column(Arc::new(column)))
        }
    }
}

/// The error for a block that does not have the checked schema.
#[cold]
fn mismatch() -> Error {
    Error::new(ErrorKind::Internal, "a block is not of the checked schema")
}

#[cold]
fn bad(message: String) -> Error {
    Error::new(ErrorKind::Input, message)
}

fn call(function: Function, arguments: &[Datum], rows: usize) -> Result<Column> {
    match (function, arguments) {
        (
            Function::Add | Function::Sub | Function::Mul | Function::Div | Function::Rem,
            [left, right],
        ) => arithmetic(function, left, right, rows),
        (
            Function::Eq | Function::Ne | Function::Lt | Function::Le | Function::Gt | Function::Ge,
            [left, right],
        ) => compare(function, left, right, rows),
        (Function::And | Function::Or, [left, right]) => {
            let (left, right) = (left.bools()?, right.bools()?);
            let and = function == Function::And;
            let both = |at| if and { left(at) && right(at) } else { left(at) || right(at) };
            Ok(Column::Bool((0..rows).map(both).collect()))
        }
        (Function::Not, [of]) => {
            let of = of.bools()?;
            Ok(Column::Bool((0..rows).map(|at| !of(at)).collect()))
        }
        (Function::Neg, [of]) => negate(of, rows),
        (Function::Length, [of]) => length(of, rows),
        (Function::Lower | Function::Upper | Function::Trim, [of]) => text(function, of, rows),
        (Function::Concat, [left, right]) => {
            let (left, right) = (left.texts()?, right.texts()?);
            let (mut out, mut one) = (Text::default(), String::new());
            for at in 0..rows {
                one.clear();
                one.push_str(left(at));
                one.push_str(right(at));
                out.push(&one);
            }
            Ok(Column::Utf8(out))
        }
        (Function::Contains, [left, right]) => search(left, right, rows, |a, b| a.contains(b)),
        (Function::StartsWith, [left, right]) => search(left, right, rows, |a, b| a.starts_with(b)),
        (Function::EndsWith, [left, right]) => search(left, right, rows, |a, b| a.ends_with(b)),
        (Function::ToI64, [of]) => convert(of, rows, Type::I64),
        (Function::ToU64, [of]) => convert(of, rows, Type::U64),
        (Function::ToF64, [of]) => convert(of, rows, Type::F64),
        (Function::ToUtf8, [of]) => convert(of, rows, Type::Utf8),
        _ => Err(mismatch()),
    }
}

/// One argument of a function of numbers: a column, or a single value for every row.
#[derive(Clone, Copy)]
struct Argument<'a, T> {
    values: &'a [T],
    step: usize,
}

impl<T: Copy> Argument<'_, T> {
    #[inline(always)]
    fn get(&self, at: usize) -> T {
        self.values[at * self.step]
    }
}

macro_rules! sides {
    ($($name:ident: $variant:ident($type:ty)),*) => {
        impl Datum {$(
            fn $name(&self) -> Option<Argument<'_, $type>> {
                match self {
                    Self::Scalar(Value::$variant(value)) => {
                        Some(Argument { values: std::slice::from_ref(value), step: 0 })
                    }
                    Self::Column(column) => match &**column {
                        Column::$variant(values) => Some(Argument { values, step: 1 }),
                        _ => None,
                    },
                    _ => None,
                }
            }
        )*}
    };
}

sides!(i64s: I64(i64), u64s: U64(u64), f64s: F64(f64));

impl Datum {
    fn bools(&self) -> Result<impl Fn(usize) -> bool> {
        let (bits, scalar) = match self {
            Self::Scalar(Value::Bool(value)) => (None, *value),
            Self::Column(column) => match &**column {
                Column::Bool(bits) => (Some(bits), false),
                _ => return Err(mismatch()),
            },
            Self::Scalar(_) => return Err(mismatch()),
        };
        Ok(move |at| bits.map_or(scalar, |bits| bits.get(at)))
    }

    fn texts<'a>(&'a self) -> Result<impl Fn(usize) -> &'a str> {
        let (column, scalar) = match self {
            Self::Scalar(Value::Utf8(value)) => (None, value.as_str()),
            Self::Column(column) => match &**column {
                Column::Utf8(text) => (Some(text), ""),
                _ => return Err(mismatch()),
            },
            Self::Scalar(_) => return Err(mismatch()),
        };
        Ok(move |at| column.map_or(scalar, |text| text.get(at)))
    }

    fn bytes<'a>(&'a self) -> Result<impl Fn(usize) -> &'a [u8]> {
        let (column, scalar) = match self {
            Self::Scalar(Value::Bytes(value)) => (None, value.as_slice()),
            Self::Column(column) => match &**column {
                Column::Bytes(bytes) => (Some(bytes), &[][..]),
                _ => return Err(mismatch()),
            },
            Self::Scalar(_) => return Err(mismatch()),
        };
        Ok(move |at| column.map_or(scalar, |bytes| bytes.get(at)))
    }
}

/// Applies a function that may fail to every row.
fn try_zip<T: Copy + Display, O>(
    function: Function,
    (left, right): (Argument<'_, T>, Argument<'_, T>),
    rows: usize,
    of: impl Fn(T, T) -> Option<O>,
) -> Result<Vec<O>> {
    let mut out = Vec::with_capacity(rows);
    for at in 0..rows {
        let (a, b) = (left.get(at), right.get(at));
        match of(a, b) {
            Some(value) => out.push(value),
            None => {
                let type_ = std::any::type_name::<T>();
                return Err(bad(match function {
                    Function::Div | Function::Rem if b.to_string() == "0" => {
                        format!("division of {a} by zero, in `{function}`")
                    }
                    _ => format!("`{function}` of {a} and {b} does not fit into {type_}"),
                }));
            }
        }
    }
    Ok(out)
}

macro_rules! checked {
    ($function:expr, $sides:expr, $rows:expr, $type:ty) => {
        match $function {
            Function::Add => try_zip($function, $sides, $rows, <$type>::checked_add),
            Function::Sub => try_zip($function, $sides, $rows, <$type>::checked_sub),
            Function::Mul => try_zip($function, $sides, $rows, <$type>::checked_mul),
            Function::Div => try_zip($function, $sides, $rows, <$type>::checked_div),
            _ => try_zip($function, $sides, $rows, <$type>::checked_rem),
        }
    };
}

fn arithmetic(function: Function, left: &Datum, right: &Datum, rows: usize) -> Result<Column> {
    if let (Some(a), Some(b)) = (left.i64s(), right.i64s()) {
        return checked!(function, (a, b), rows, i64).map(Column::I64);
    }
    if let (Some(a), Some(b)) = (left.u64s(), right.u64s()) {
        return checked!(function, (a, b), rows, u64).map(Column::U64);
    }
    let (Some(a), Some(b)) = (left.f64s(), right.f64s()) else { return Err(mismatch()) };
    let zip = |of: fn(f64, f64) -> f64| (0..rows).map(|at| of(a.get(at), b.get(at))).collect();
    Ok(Column::F64(match function {
        Function::Add => zip(|a, b| a + b),
        Function::Sub => zip(|a, b| a - b),
        Function::Mul => zip(|a, b| a * b),
        Function::Div => zip(|a, b| a / b),
        _ => zip(|a, b| a % b),
    }))
}

/// The rows for which the comparison holds.
fn compare_by<T: PartialOrd>(
    function: Function,
    rows: usize,
    left: impl Fn(usize) -> T,
    right: impl Fn(usize) -> T,
) -> Column {
    Column::Bool(match function {
        Function::Eq => (0..rows).map(|at| left(at) == right(at)).collect(),
        Function::Ne => (0..rows).map(|at| left(at) != right(at)).collect(),
        Function::Lt => (0..rows).map(|at| left(at) < right(at)).collect(),
        Function::Le => (0..rows).map(|at| left(at) <= right(at)).collect(),
        Function::Gt => (0..rows).map(|at| left(at) > right(at)).collect(),
        _ => (0..rows).map(|at| left(at) >= right(at)).collect(),
    })
}

fn compare(function: Function, left: &Datum, right: &Datum, rows: usize) -> Result<Column> {
    if let (Some(a), Some(b)) = (left.i64s(), right.i64s()) {
        return Ok(compare_by(function, rows, |at| a.get(at), |at| b.get(at)));
    }
    if let (Some(a), Some(b)) = (left.u64s(), right.u64s()) {
        return Ok(compare_by(function, rows, |at| a.get(at), |at| b.get(at)));
    }
    if let (Some(a), Some(b)) = (left.f64s(), right.f64s()) {
        return Ok(compare_by(function, rows, |at| a.get(at), |at| b.get(at)));
    }
    if let (Ok(a), Ok(b)) = (left.texts(), right.texts()) {
        return Ok(compare_by(function, rows, a, b));
    }
    if let (Ok(a), Ok(b)) = (left.bytes(), right.bytes()) {
        return Ok(compare_by(function, rows, a, b));
    }
    Ok(compare_by(function, rows, left.bools()?, right.bools()?))
}

fn negate(of: &Datum, rows: usize) -> Result<Column> {
    if let Some(side) = of.i64s() {
        let negated = (0..rows).map(|at| {
            let value = side.get(at);
            value
                .checked_neg()
                .ok_or_else(|| bad(format!("`neg` of {value} does not fit into i64")))
        });
        return negated.collect::<Result<_>>().map(Column::I64);
    }
    let side = of.f64s().ok_or_else(mismatch)?;
    Ok(Column::F64((0..rows).map(|at| -side.get(at)).collect()))
}

fn length(of: &Datum, rows: usize) -> Result<Column> {
    if let Ok(bytes) = of.bytes() {
        return Ok(Column::U64((0..rows).map(|at| bytes(at).len() as u64).collect()));
    }
    let texts = of.texts()?;
    Ok(Column::U64((0..rows).map(|at| texts(at).chars().count() as u64).collect()))
}

fn text(function: Function, of: &Datum, rows: usize) -> Result<Column> {
    if let Datum::Column(column) = of
        && let Column::Utf8(text) = &**column
        && text.data().is_ascii()
        && function != Function::Trim
    {
        // All texts at once, since no length changes.
        let mut text = text.clone();
        match function {
            Function::Lower => text.lowercase_ascii(),
            _ => text.uppercase_ascii(),
        }
        return Ok(Column::Utf8(text));
    }
    let (texts, mut out) = (of.texts()?, Text::default());
    for at in 0..rows {
        match function {
            Function::Lower => out.push(&texts(at).to_lowercase()),
            Function::Upper => out.push(&texts(at).to_uppercase()),
            _ => out.push(texts(at).trim()),
        }
    }
    Ok(Column::Utf8(out))
}

fn search(
    left: &Datum,
    right: &Datum,
    rows: usize,
    of: impl Fn(&str, &str) -> bool,
) -> Result<Column> {
    let (left, right) = (left.texts()?, right.texts()?);
    Ok(Column::Bool((0..rows).map(|at| of(left(at), right(at))).collect()))
}

/// Converts every row: a number or truth value with `number`, a text with `parse`.
fn convert(of: &Datum, rows: usize, to: Type) -> Result<Column> {
    let source = match of {
        Datum::Column(column) => Arc::clone(column),
        Datum::Scalar(value) => Arc::new(Column::repeat(value, rows)),
    };
    let fails = |value: &dyn Display| bad(format!("`{value}` cannot be converted to {to}"));
    match to {
        Type::Utf8 => {
            let (mut out, mut one) = (Text::default(), String::new());
            for at in 0..rows {
                let Some(value) = source.value(at) else { return Err(mismatch()) };
                one.clear();
                match value {
                    Value::Bytes(bytes) => match str::from_utf8(&bytes) {
                        Ok(text) => one.push_str(text),
                        Err(_) => {
                            let shown = Value::Bytes(bytes);
                            return Err(bad(format!("the bytes `{shown}` are not UTF-8")));
                        }
                    },
                    // Writing to a string cannot fail.
                    other => _ = write!(one, "{other}"),
                }
                out.push(&one);
            }
            Ok(Column::Utf8(out))
        }
        Type::I64 => each(&source, fails, |value| match value {
            Value::I64(value) => Some(*value),
            Value::U64(value) => i64::try_from(*value).ok(),
            Value::F64(value) => {
                let fits =
                    *value >= -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_808.0;
                fits.then_some(*value as i64)
            }
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Utf8(value) => value.parse().ok(),
            Value::Bytes(_) => None,
        })
        .map(Column::I64),
        Type::U64 => each(&source, fails, |value| match value {
            Value::I64(value) => u64::try_from(*value).ok(),
            Value::U64(value) => Some(*value),
            Value::F64(value) => {
                (*value > -1.0 && *value < 18_446_744_073_709_551_616.0).then_some(*value as u64)
            }
            Value::Bool(value) => Some(u64::from(*value)),
            Value::Utf8(value) => value.parse().ok(),
            Value::Bytes(_) => None,
        })
        .map(Column::U64),
        _ => each(&source, fails, |value| match value {
            Value::I64(value) => Some(*value as f64),
            Value::U64(value) => Some(*value as f64),
            Value::F64(value) => Some(*value),
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            Value::Utf8(value) => value.parse().ok(),
            Value::Bytes(_) => None,
        })
        .map(Column::F64),
    }
}

fn each<O>(
    column: &Column,
    fails: impl Fn(&dyn Display) -> Error,
    of: impl Fn(&Value) -> Option<O>,
) -> Result<Vec<O>> {
    (0..column.len())
        .map(|at| {
            let value = column.value(at).ok_or_else(mismatch)?;
            of(&value).ok_or_else(|| fails(&value))
        })
        .collect()
}
