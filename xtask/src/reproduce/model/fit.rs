//! Least squares: a cost as a sum of terms, each with a coefficient that is not negative.

use anyhow::{Result, ensure};

/// A measured cost, and what each coefficient is multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row<const N: usize> {
    pub(super) terms: [f64; N],
    pub(super) cost: f64,
}

/// Coefficients, and how far the fitted costs are from the measured ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit<const N: usize> {
    pub(super) coefficients: [f64; N],
    /// Fitted over measured, minus 1, of each row.
    pub(super) residuals: Vec<f64>,
}

impl<const N: usize> Fit<N> {
    /// Finds the coefficients with the least sum of squared relative errors. A term whose coefficient would be negative is left
    /// out, the most negative one first: no part of a cost can be less than nothing.
    pub(super) fn of(rows: &[Row<N>]) -> Result<Self> {
        ensure!(rows.len() >= N, "{} measurements for {N} coefficients", rows.len());
        ensure!(rows.iter().all(|row| row.cost > 0.0), "a cost of nothing or less");
        let mut used = [true; N];
        loop {
            let coefficients = solve(rows, &used)?;
            let least = (0..N).min_by(|&a, &b| coefficients[a].total_cmp(&coefficients[b]));
            match least {
                Some(at) if coefficients[at] < 0.0 => used[at] = false,
                _ => {
                    let of = |row: &Row<N>| value(&coefficients, &row.terms) / row.cost - 1.0;
                    let residuals = rows.iter().map(of).collect();
                    return Ok(Self { coefficients, residuals });
                }
            }
        }
    }

    pub(super) fn cost(&self, terms: &[f64; N]) -> f64 {
        value(&self.coefficients, terms)
    }

    /// The greatest residual, without its sign.
    pub(super) fn worst(&self) -> f64 {
        self.residuals.iter().map(|residual| residual.abs()).fold(0.0, f64::max)
    }
}

fn value<const N: usize>(coefficients: &[f64; N], terms: &[f64; N]) -> f64 {
    coefficients.iter().zip(terms).map(|(coefficient, term)| coefficient * term).sum()
}

/// Solves the normal equations of the terms that are used. Each row is divided by its cost, so that small costs count as much as
/// large ones.
fn solve<const N: usize>(rows: &[Row<N>], used: &[bool; N]) -> Result<[f64; N]> {
    let mut equations = vec![[0.0; N]; N];
    let mut right = [0.0; N];
    for Row { terms, cost } in rows {
        let weighted = |at: usize| if used[at] { terms[at] / cost } else { 0.0 };
        let row: [f64; N] = std::array::from_fn(weighted);
        for (a, equation) in equations.iter_mut().enumerate() {
            right[a] += row[a];
            for (cell, of_row) in equation.iter_mut().zip(row) {
                *cell += row[a] * of_row;
            }
        }
    }
    for (at, used) in used.iter().enumerate() {
        if !used {
            equations[at][at] = 1.0;
        }
    }
    for column in 0..N {
        let pivot = (column..N)
            .max_by(|&a, &b| equations[a][column].abs().total_cmp(&equations[b][column].abs()))
            .unwrap_or(column);
        equations.swap(column, pivot);
        right.swap(column, pivot);
        let head = equations[column][column];
        ensure!(head.abs() > f64::MIN_POSITIVE, "the measurements cannot tell the terms apart");
        for row in 0..N {
            if row != column {
                let factor = equations[row][column] / head;
                let pivot = equations[column];
                for (cell, of_pivot) in equations[row].iter_mut().zip(pivot) {
                    *cell -= factor * of_pivot;
                }
                right[row] -= factor * right[column];
            }
        }
    }
    Ok(std::array::from_fn(|at| right[at] / equations[at][at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: impl Fn(f64, f64) -> f64) -> Vec<Row<3>> {
        let widths = [8.0, 32.0, 128.0];
        let batches = [16.0, 128.0, 1024.0];
        let each = |width: f64| batches.map(|batch| (width, 1.0 / batch));
        let all = widths.into_iter().flat_map(each);
        all.map(|(width, share)| Row { terms: [1.0, width, share], cost: of(width, share) })
            .collect()
    }

    fn near(found: f64, known: f64) {
        assert!((found - known).abs() <= 1e-6 * known.abs().max(1e-3), "{found} is not {known}");
    }

    #[test]
    fn what_is_a_sum_of_terms_is_found() {
        let fit = Fit::of(&rows(|width, share| 20.0 + 0.5 * width + 700.0 * share)).unwrap();
        for (found, known) in fit.coefficients.into_iter().zip([20.0, 0.5, 700.0]) {
            near(found, known);
        }
        assert!(fit.worst() < 1e-9);
        near(fit.cost(&[1.0, 64.0, 0.5]), 402.0);
    }

    #[test]
    fn small_costs_count_as_much_as_large_ones() {
        // Every other cost is a tenth more or less: the residuals say so, wherever they are.
        let mut all = rows(|width, share| 20.0 + 0.5 * width + 700.0 * share);
        for (at, row) in all.iter_mut().enumerate() {
            row.cost *= if at % 2 == 0 { 1.1 } else { 0.9 };
        }
        let fit = Fit::of(&all).unwrap();
        assert!((0.05..0.2).contains(&fit.worst()), "{fit:?}");
    }

    #[test]
    fn no_coefficient_is_negative() {
        let fit = Fit::of(&rows(|width, share| 50.0 + 0.5 * width - 100.0 * share)).unwrap();
        assert_eq!(fit.coefficients[2], 0.0);
        assert!(fit.coefficients[0] > 0.0 && fit.coefficients[1] > 0.0);
    }

    #[test]
    fn measurements_that_say_nothing_are_refused() {
        let one = Row { terms: [1.0, 8.0, 0.1], cost: 3.0 };
        assert!(Fit::of(&[one.clone(), one.clone()]).is_err());
        let same = vec![one.clone(); 4];
        assert!(Fit::of(&same).is_err() || Fit::of(&same).unwrap().worst() < 1e-6);
        let free = Row { cost: 0.0, ..one };
        assert!(Fit::of(&vec![free; 4]).is_err());
    }
}
