//! Floats have no total order.

//~ error[E0277]: records of `{float}` have no order
//~ this operator compares records, and they do not say how
//~ the trait `Ordered` is not implemented for `{float}`
//~ for floats, say how: `sorted_by(f64::total_cmp)`, and so `top_by`, `max_by` and `min_by`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter([2.5, 0.5]).top(1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
