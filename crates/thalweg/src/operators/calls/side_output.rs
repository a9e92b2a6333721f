//! How calls that have failed for good are handled: the job stops, or they go to a side output.

use super::failed::{FailedCall, Problem};
use crate::data::Data;
use crate::flow::Op;
use crate::operators::side_outlet::{NoSideOutput, SideOutlet, ToSideOutput};
use crate::plan::Origin;
use crate::stream::{Chain, Received, Stream};
use crate::time::Time;
use std::fmt::Display;

/// The handler of failed calls in a running task.
pub(super) trait OnFailure<D> {
    /// Handles a call that has failed for good, with its record if that was kept. Returns what is to go to the
    /// side output in place of the result; `None` if the job stops.
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        record: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>>;
}

/// The job stops when a call has failed.
impl<D> OnFailure<D> for NoSideOutput {
    #[cold]
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        _: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>> {
        op.fail(problem.into_error(attempts));
        None
    }
}

impl<D: Data, T: Time> OnFailure<D> for SideOutlet<FailedCall<D>, T> {
    fn failed<E: Display + 'static>(
        &self,
        op: &Op,
        record: Option<D>,
        attempts: u32,
        problem: Problem<E>,
    ) -> Option<FailedCall<D>> {
        let Some(record) = record else {
            op.fail(problem.into_error(attempts));
            return None;
        };
        Some(FailedCall {
            record,
            attempts,
            timed_out: problem.is_timeout(),
            error: problem.into_text(),
        })
    }
}

/// The stream of calls that have failed.
pub(super) type Failures<D, T> = Stream<Received<FailedCall<D>, T>>;

/// The sending and the receiving end of the side output of failed calls.
type Begun<C, D> =
    (ToSideOutput<FailedCall<D>, <C as Chain>::Time>, Failures<D, <C as Chain>::Time>);

/// Begins the side output of the operator that is added to `stream` next.
pub(super) fn begin_failures<C: Chain, D: Data>(stream: &Stream<C>, origin: Origin) -> Begun<C, D> {
    ToSideOutput::begin(stream, Origin { kind: "failed calls", ..origin })
}
