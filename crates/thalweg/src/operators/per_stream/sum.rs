//! Sums and means of streams of numbers.

use crate::error::{Error, ErrorKind};
use crate::operators::aggregates::Summand;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

/// Numbers that can be summed up: all integers and floats of the language.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number that can be summed up",
    label = "this stream's records are not numbers",
    note = "make numbers of the records first, with `map`; to sum up by key, call `group_by` first",
    note = "values of other types are added with `reduce` or `fold_assoc`"
)]
pub trait Number: Summand + sealed::Sealed {
    /// The nearest float.
    fn to_f64(self) -> f64;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}

        impl Number for $number {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

impl<C, T> Stream<C>
where
    C: Chain<Item = T>,
    T: ?Sized + 'static,
{
    /// The sum of all records, as one record; 0 for an empty stream.
    ///
    /// Summed up in each task, then in one. Floats are added in an order that is not said, so that
    /// the last digits may differ from run to run.
    ///
    /// # Errors
    ///
    /// An integer sum that its type does not hold stops the job: widen the records with `map`
    /// first. Where there are numbers of both signs, a sum that is too large on the way may come back;
    /// whether it becomes so depends on the order in which they are added. On a stream that does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(["one", "three"]).map(|word| word.len()).sum().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [8]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// Other records are refused by the compiler, which says what to do:
    ///
    /// ```compile_fail,E0277
    /// let env = thalweg::Environment::new();
    /// let out = env.iter([String::new()]).sum().count();
    /// ```
    #[track_caller]
    pub fn sum(self) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Number,
    {
        let add = |sum: &mut T, number: T| {
            *sum = sum.checked_sum(number).ok_or_else(too_large)?;
            Ok(())
        };
        self.fold_twice(Origin::here("sum"), T::default(), add, add)
    }

    /// The mean of all records, as one record; an empty stream gives an empty stream.
    ///
    /// # Errors
    ///
    /// On a stream that does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([1, 2, 6]).average().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn average(self) -> Stream<impl Chain<Item = f64, Time = C::Time>>
    where
        T: Number,
    {
        let origin = Origin::here("average");
        let local = |(sum, count): &mut (f64, u64), number: T| {
            *sum += number.to_f64();
            *count += 1;
            Ok(())
        };
        let global = |(sum, count): &mut (f64, u64), other: (f64, u64)| {
            *sum += other.0;
            *count += other.1;
            Ok(())
        };
        self.fold_twice(origin, (0.0, 0), local, global)
            .filter_map(|(sum, count)| (count > 0).then(|| sum / count as f64))
    }
}

#[cold]
fn too_large() -> Error {
    let what = "the sum is too large for the records' type: widen them with `map` first";
    Error::new(ErrorKind::Input, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::every;

    #[test]
    fn sums_and_means() {
        every(|env| {
            let sum = env.range(0..1001).sum().collect::<Vec<_>>();
            let mean = env.range(0..1001).average().collect::<Vec<_>>();
            let floats = env.iter([0.5_f32, 0.25]).shuffle().sum().collect::<Vec<_>>();
            let none = env.iter([0_i8; 0]).sum().collect::<Vec<_>>();
            let no_mean = env.iter([0_i8; 0]).average().count();
            env.run()?;
            assert_eq!((sum.take()?, mean.take()?), (vec![500_500], vec![500.0]));
            assert_eq!((floats.take()?, none.take()?, no_mean.take()?), (vec![0.75], vec![0], 0));
            Ok(())
        });
    }

    #[test]
    fn a_sum_that_does_not_fit_stops_the_job() {
        every(|env| {
            let out = env.iter([100_u8; 6]).shuffle().sum().collect::<Vec<_>>();
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.operator().unwrap_or_default().starts_with("sum ("), "{error}");
            assert!(out.take().is_err());
            Ok(())
        });
    }
}
