//! Expressions over the columns of a row, as data.

use crate::dynamic::columns::Value;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The computation of a value for each row: a column, a constant, or a function of other expressions.
///
/// Built with [`col`], [`lit`] and the methods below. Types are checked when a graph is
/// [checked](crate::dynamic::Graph::check); there are no implicit conversions.
///
/// In JSON: `{"column": "x"}`, `{"literal": {"i64": 1}}`, `{"call": ["add", [a, b]]}`.
///
/// ```
/// use thalweg::dynamic::{Expr, col, lit};
///
/// let half = col("total").div(lit(2_u64));
/// assert_eq!(half.to_string(), "div(total, 2)");
/// let json = serde_json::to_string(&half).unwrap();
/// assert_eq!(json, r#"{"call":["div",[{"column":"total"},{"literal":{"u64":2}}]]}"#);
/// assert_eq!(serde_json::from_str::<Expr>(&json).unwrap(), half);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// The value of the column of this name.
    Column(String),
    /// The same value for every row.
    Literal(Value),
    /// A function of other expressions. All arguments are evaluated for every row, even if the result does not depend
    /// on one of them.
    Call(Function, Vec<Expr>),
}

/// The functions of expressions.
///
/// Two numbers must have the same type; the functions `to_…` convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Function {
    /// The sum of two numbers. An integer result that overflows stops the job, here and below.
    Add,
    /// The difference of two numbers.
    Sub,
    /// The product of two numbers.
    Mul,
    /// The quotient of two numbers, of integers rounded towards zero. Division of an integer by
    /// zero stops the job; of floats it gives an infinity or NaN.
    Div,
    /// The remainder of a division, with the sign of the dividend.
    Rem,
    /// The number with the opposite sign.
    Neg,
    /// Whether two values are equal. Floats compare according to IEEE 754: NaN equals nothing.
    Eq,
    /// Whether two values differ.
    Ne,
    /// Whether the first value is less. Text compares by its bytes.
    Lt,
    /// Whether the first value is not greater.
    Le,
    /// Whether the first value is greater.
    Gt,
    /// Whether the first value is not less.
    Ge,
    /// Whether both are true.
    And,
    /// Whether either is true.
    Or,
    /// Whether the argument is false.
    Not,
    /// Text in lower case.
    Lower,
    /// Text in upper case.
    Upper,
    /// Text without white space at its ends.
    Trim,
    /// The number of characters of a text, or of bytes, as `u64`.
    Length,
    /// Two texts, one after the other.
    Concat,
    /// Whether the second text occurs in the first.
    Contains,
    /// Whether the first text starts with the second.
    StartsWith,
    /// Whether the first text ends with the second.
    EndsWith,
    /// Converts to `i64`: an integer that fits, a float truncated towards zero, a text that is a number, or 1 or 0
    /// for a truth value. A value that cannot be converted stops the job, here and below.
    ToI64,
    /// Converts to `u64`.
    ToU64,
    /// Converts to `f64`; integers beyond 2^53 are rounded.
    ToF64,
    /// Converts to text; floats in the shortest form that reads back as the same number.
    ToUtf8,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The column of this name.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::Column(name.into())
}

/// The same value for every row.
pub fn lit(value: impl Into<Value>) -> Expr {
    Expr::Literal(value.into())
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident => $function:ident),* $(,)?) => {
        impl Expr {$(
            $(#[$doc])*
            #[allow(clippy::should_implement_trait, reason = "all functions are called alike")]
            #[must_use]
            pub fn $name(self) -> Self {
                Self::Call(Function::$function, vec![self])
            }
        )*}
    };
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident => $function:ident),* $(,)?) => {
        impl Expr {$(
            $(#[$doc])*
            #[allow(clippy::should_implement_trait, reason = "all functions are called alike")]
            #[must_use]
            pub fn $name(self, other: Self) -> Self {
                Self::Call(Function::$function, vec![self, other])
            }
        )*}
    };
}

unary! {
    /// See [`Function::Neg`].
    neg => Neg,
    /// See [`Function::Not`].
    not => Not,
    /// See [`Function::Lower`].
    lower => Lower,
    /// See [`Function::Upper`].
    upper => Upper,
    /// See [`Function::Trim`].
    trim => Trim,
    /// See [`Function::Length`].
    length => Length,
    /// See [`Function::ToI64`].
    to_i64 => ToI64,
    /// See [`Function::ToU64`].
    to_u64 => ToU64,
    /// See [`Function::ToF64`].
    to_f64 => ToF64,
    /// See [`Function::ToUtf8`].
    to_utf8 => ToUtf8,
}

binary! {
    /// See [`Function::Add`].
    add => Add,
    /// See [`Function::Sub`].
    sub => Sub,
    /// See [`Function::Mul`].
    mul => Mul,
    /// See [`Function::Div`].
    div => Div,
    /// See [`Function::Rem`].
    rem => Rem,
    /// See [`Function::Eq`].
    eq => Eq,
    /// See [`Function::Ne`].
    ne => Ne,
    /// See [`Function::Lt`].
    lt => Lt,
    /// See [`Function::Le`].
    le => Le,
    /// See [`Function::Gt`].
    gt => Gt,
    /// See [`Function::Ge`].
    ge => Ge,
    /// See [`Function::And`].
    and => And,
    /// See [`Function::Or`].
    or => Or,
    /// See [`Function::Concat`].
    concat => Concat,
    /// See [`Function::Contains`].
    contains => Contains,
    /// See [`Function::StartsWith`].
    starts_with => StartsWith,
    /// See [`Function::EndsWith`].
    ends_with => EndsWith,
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => f.write_str(name),
            Self::Literal(value @ (Value::Utf8(_) | Value::Bytes(_))) => write!(f, "'{value}'"),
            Self::Literal(value) => value.fmt(f),
            Self::Call(function, arguments) => {
                write!(f, "{function}(")?;
                for (at, argument) in arguments.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    write!(f, "{comma}{argument}")?;
                }
                f.write_str(")")
            }
        }
    }
}
