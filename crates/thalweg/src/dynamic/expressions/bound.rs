//! Expressions with resolved columns and checked types. Pure: a function from a schema and an expression to a bound
//! expression, or to what is wrong with it.

use super::expr::{Expr, Function};
use crate::dynamic::columns::{Field, Type, Value};

/// An expression whose arguments all have the expected types.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    Column(usize),
    Literal(Value),
    Call(Function, Vec<Bound>),
}

/// How deeply expressions may nest: an expression in a file must not exhaust the stack.
const MAX_DEPTH: usize = 200;

/// Finds the column of this name.
pub(crate) fn find(schema: &[Field], name: &str) -> Result<usize, String> {
    schema.iter().position(|field| field.name == name).ok_or_else(|| {
        let names: Vec<_> = schema.iter().map(|field| field.name.as_str()).collect();
        format!("there is no column `{name}`; the columns are: {}", names.join(", "))
    })
}

/// Checks an expression against a schema; also returns the type of its result.
pub(crate) fn bind(schema: &[Field], expr: &Expr) -> Result<(Bound, Type), String> {
    bind_at(schema, expr, 0)
}

fn bind_at(schema: &[Field], expr: &Expr, depth: usize) -> Result<(Bound, Type), String> {
    if depth > MAX_DEPTH {
        return Err(format!("an expression is nested more than {MAX_DEPTH} deep"));
    }
    match expr {
        Expr::Column(name) => {
            let at = find(schema, name)?;
            Ok((Bound::Column(at), schema[at].kind))
        }
        Expr::Literal(Value::F64(value)) if !value.is_finite() => {
            Err(format!("{value} cannot be a constant: JSON has no form for it"))
        }
        Expr::Literal(value) => Ok((Bound::Literal(value.clone()), value.kind())),
        Expr::Call(function, arguments) => {
            let (bound, types): (Vec<_>, Vec<_>) = arguments
                .iter()
                .map(|argument| bind_at(schema, argument, depth + 1))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .unzip();
            let result = result(*function, &types).ok_or_else(|| {
                let types: Vec<_> = types.iter().map(Type::to_string).collect();
                format!("there is no `{function}` of ({}), in `{expr}`", types.join(", "))
            })?;
            Ok((Bound::Call(*function, bound), result))
        }
    }
}

/// The type of a function's result for arguments of these types; `None` if there is no such function.
fn result(function: Function, types: &[Type]) -> Option<Type> {
    use Function as F;
    use Type::{Bool, Bytes, F64, I64, U64, Utf8};
    let fits = |yes: bool, result| yes.then_some(result);
    match (function, types) {
        (F::Add | F::Sub | F::Mul | F::Div | F::Rem, &[a, b]) => fits(a == b && a.is_number(), a),
        (F::Neg, &[a]) => fits(matches!(a, I64 | F64), a),
        (F::Eq | F::Ne | F::Lt | F::Le | F::Gt | F::Ge, &[a, b]) => fits(a == b, Bool),
        (F::And | F::Or, [Bool, Bool]) | (F::Not, [Bool]) => Some(Bool),
        (F::Lower | F::Upper | F::Trim, [Utf8]) | (F::Concat, [Utf8, Utf8]) => Some(Utf8),
        (F::Contains | F::StartsWith | F::EndsWith, [Utf8, Utf8]) => Some(Bool),
        (F::Length, [Utf8 | Bytes]) => Some(U64),
        (F::ToI64, [from]) => fits(*from != Bytes, I64),
        (F::ToU64, [from]) => fits(*from != Bytes, U64),
        (F::ToF64, [from]) => fits(*from != Bytes, F64),
        (F::ToUtf8, [_]) => Some(Utf8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dynamic::expressions::{col, lit};

    #[test]
    fn a_type_that_does_not_fit_is_named() {
        let schema = [Field::new("n", Type::I64), Field::new("s", Type::Utf8)];
        let wrong = |expr: Expr| bind(&schema, &expr).unwrap_err();
        assert_eq!(wrong(col("m")), "there is no column `m`; the columns are: n, s");
        assert_eq!(
            wrong(col("n").add(col("s")).neg()),
            "there is no `add` of (i64, utf8), in `add(n, s)`"
        );
        assert_eq!(wrong(Expr::Call(Function::Not, vec![])), "there is no `not` of (), in `not()`");
        assert_eq!(wrong(lit(f64::NAN)), "NaN cannot be a constant: JSON has no form for it");
        let deep = (0..1000).fold(col("n"), |expr, _| expr.neg());
        assert_eq!(wrong(deep), "an expression is nested more than 200 deep");
        let fine = col("s").length().lt(col("n").to_u64()).and(lit(true));
        assert_eq!(bind(&schema, &fine).unwrap().1, Type::Bool);
    }
}
