//! Evaluation compared with the same formulas written for one row, and errors of evaluation.

use super::*;
use crate::dynamic::columns::{Block, Column, Field, Text, Value};
use crate::error::ErrorKind;
use proptest::prelude::*;

fn run(block: &Block, expr: &Expr) -> crate::Result<Vec<Value>> {
    let names = ["a", "b", "c", "d"];
    let schema: Vec<Field> = block
        .columns()
        .iter()
        .zip(names)
        .map(|(column, name)| Field::new(name, column.kind()))
        .collect();
    let (bound, kind) = bind(&schema, expr).expect("well typed");
    let column = evaluate(&bound, block)?;
    assert_eq!((column.len(), column.kind()), (block.rows(), kind));
    Ok((0..column.len()).map(|at| column.value(at).expect("in range")).collect())
}

fn integers(a: &[i64], b: &[i64]) -> Block {
    Block::new(a.len(), [Column::I64(a.to_vec()), Column::I64(b.to_vec())]).expect("one length")
}

fn failure(block: &Block, expr: &Expr) -> String {
    let error = run(block, expr).expect_err("must fail");
    assert_eq!(error.kind(), ErrorKind::Input);
    error.message().to_owned()
}

#[test]
fn an_expression_without_a_result_is_an_error() {
    let block = integers(&[1, i64::MIN], &[0, -1]);
    let (a, b) = (|| col("a"), || col("b"));
    assert_eq!(failure(&block, &a().div(b())), "division of 1 by zero, in `div`");
    assert_eq!(failure(&block, &a().rem(b())), "division of 1 by zero, in `rem`");
    let min = i64::MIN;
    assert_eq!(
        failure(&block, &a().mul(b())),
        format!("`mul` of {min} and -1 does not fit into i64")
    );
    assert_eq!(failure(&block, &a().neg()), format!("`neg` of {min} does not fit into i64"));
    assert_eq!(failure(&block, &a().to_u64()), format!("`{min}` cannot be converted to u64"));
    assert_eq!(failure(&block, &lit("1x").to_f64()), "`1x` cannot be converted to f64");
    assert_eq!(failure(&block, &lit(&b"a\xff"[..]).to_utf8()), r"the bytes `a\xff` are not UTF-8");
    assert_eq!(
        failure(&block, &lit(f64::MAX).to_i64()),
        format!("`{}` cannot be converted to i64", f64::MAX)
    );
}

#[test]
fn text_functions_know_letters_beyond_ascii() {
    let text: Text = ["Größe", "  ABC ", ""].into_iter().collect();
    let block = Block::new(3, [Column::Utf8(text)]).expect("one length");
    let texts = |expr: Expr| -> Vec<String> {
        run(&block, &expr).expect("fine").iter().map(Value::to_string).collect()
    };
    assert_eq!(texts(col("a").lower()), ["größe", "  abc ", ""]);
    assert_eq!(texts(col("a").upper()), ["GRÖSSE", "  ABC ", ""]);
    assert_eq!(texts(col("a").trim().concat(lit("!"))), ["Größe!", "ABC!", "!"]);
    assert_eq!(texts(col("a").length()), ["5", "6", "0"]);
    assert_eq!(texts(col("a").contains(lit("ö"))), ["true", "false", "false"]);
    assert_eq!(texts(col("a").starts_with(lit(" "))), ["false", "true", "false"]);
    assert_eq!(texts(col("a").ends_with(lit(""))), ["true", "true", "true"]);
    assert_eq!(texts(lit("AbC").lower()), ["abc", "abc", "abc"]);
}

proptest! {
    #[test]
    fn integers_compute_as_in_rust(rows in proptest::collection::vec((-9_i64..9, 1_i64..9), 0..40)) {
        let (a, b): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
        let block = integers(&a, &b);
        let (x, y) = (|| col("a"), || col("b"));
        let formula = x().mul(y()).sub(x().div(y())).add(x().rem(lit(5_i64))).neg();
        let expected: Vec<Value> =
            rows.iter().map(|(a, b)| Value::I64(-(a * b - a / b + a % 5))).collect();
        prop_assert_eq!(run(&block, &formula).expect("small numbers"), expected);
        let test = x().lt(y()).or(x().ge(lit(7_i64)).and(x().ne(y()).not()));
        let expected: Vec<Value> =
            rows.iter().map(|(a, b)| Value::Bool(a < b || (*a >= 7 && a == b))).collect();
        prop_assert_eq!(run(&block, &test).expect("comparisons"), expected);
        let there_and_back = x().to_f64().to_utf8().to_f64().to_i64();
        let expected: Vec<Value> = a.iter().map(|a| Value::I64(*a)).collect();
        prop_assert_eq!(run(&block, &there_and_back).expect("small numbers"), expected);
    }
}
