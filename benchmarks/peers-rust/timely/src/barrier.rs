//! Rounds in which nothing happens: an operator that feeds itself, and is notified when a round is complete, as in
//! the example of timely's own.

use bench_protocol::workload::single_row;
use bench_protocol::{Answer, Request, Result};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::{ConnectLoop, Feedback};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let count: u64 = request.value("count")?;
    bench_protocol::serve(request, |stopwatch| {
        let rounds = stopwatch.time(|| rounds(count, cores))?;
        Ok(Answer { digest: single_row(count, rounds), records: count, ..Answer::default() })
    })
}

/// How many rounds each worker has seen, which is the same of all.
fn rounds(count: u64, cores: usize) -> Result<u64> {
    let workers = timely::execute(timely::Config::process(cores), move |worker| {
        let seen = std::rc::Rc::new(std::cell::Cell::new(0));
        let counter = std::rc::Rc::clone(&seen);
        worker.dataflow::<u64, _, _>(move |scope| {
            let (handle, stream) = scope.feedback::<Vec<u64>>(1);
            stream
                .unary_notify::<CapacityContainerBuilder<_>, _, _>(
                    Pipeline,
                    "round",
                    vec![0],
                    move |_, _, notificator| {
                        while let Some((round, _)) = notificator.next() {
                            counter.set(counter.get() + 1);
                            let next = *round.time() + 1;
                            if next < count {
                                notificator.notify_at(round.delayed(&next));
                            }
                        }
                    },
                )
                .connect_loop(handle);
        });
        while worker.step_or_park(None) {}
        seen.get()
    })?;
    let seen: Vec<u64> = workers.join().into_iter().collect::<std::result::Result<_, _>>()?;
    match seen.iter().all(|rounds| *rounds == seen[0]) {
        true => Ok(seen[0]),
        false => Err(format!("workers saw different numbers of rounds: {seen:?}").into()),
    }
}
