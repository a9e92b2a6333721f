//! Moving records between tasks: numbers, and records with strings.
//!
//! A record with strings is a struct that derives `Data`. With `--form views` its views are sent, and with `--form
//! borrowed` views are all there is: their strings are never owned.

use crate::environment;
use crate::kept::Kept;
use bench_protocol::workload::{self, NumberCheck, Record as Row, RecordCheck};
use bench_protocol::{Answer, Request, Result, Stopwatch, serve_parts};
use thalweg::data::{View, ViewOf};
use thalweg::{Chain, Data, Environment, Stream, Visit};

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    let round = |stopwatch: &mut Stopwatch| {
        Ok(stopwatch.time(|| -> thalweg::Result<NumberCheck> {
            let kept = Kept::<NumberCheck>::new();
            let mut part = kept.part();
            let seen = env
                .range(0..records)
                .map(workload::number)
                .repartition_by(|number, tasks| share(*number, tasks))
                .map_volatile(move |number| {
                    let part = &mut part;
                    part.own.add(number);
                })
                .count()
                .collect_one();
            env.run()?;
            seen.take()?;
            Ok(kept.take())
        })?)
    };
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: records * 8,
        ..Answer::default()
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    let work = match request.get("form") {
        None => derived,
        Some("views") => views,
        Some("borrowed") => borrowed,
        Some(form) => return Err(format!("there is no form {form:?}: views, borrowed").into()),
    };
    let round = |stopwatch: &mut Stopwatch| Ok(stopwatch.time(|| work(&env, records))?);
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: all.bytes(),
        ..Answer::default()
    })
}

/// The record as most would write it.
#[derive(Clone, Data)]
struct Owned {
    id: u64,
    name: String,
    url: String,
    body: String,
}

impl Owned {
    fn of(row: Row<'_>) -> Self {
        let Row { id, name, url, body } = row;
        Self { id, name: name.to_owned(), url: url.to_owned(), body: body.to_owned() }
    }

    fn borrow(&self) -> Row<'_> {
        Row { id: self.id, name: &self.name, url: &self.url, body: &self.body }
    }
}

fn derived(env: &Environment, records: u64) -> thalweg::Result<RecordCheck> {
    let kept = Kept::<RecordCheck>::new();
    let mut part = kept.part();
    let seen = env
        .range(0..records)
        .map(|number| Owned::of(workload::record(number)))
        .repartition_by(|row, tasks| share(row.id, tasks))
        .map_volatile(move |row| {
            let part = &mut part;
            part.own.add(row.borrow());
        })
        .count()
        .collect_one();
    env.run()?;
    seen.take()?;
    Ok(kept.take())
}

fn views(env: &Environment, records: u64) -> thalweg::Result<RecordCheck> {
    let owned = env.range(0..records).map(|number| Owned::of(workload::record(number)));
    check_views(env, owned.views())
}

fn borrowed(env: &Environment, records: u64) -> thalweg::Result<RecordCheck> {
    check_views(env, env.range(0..records).flat_each(Make))
}

/// Sends views and checks them.
fn check_views(
    env: &Environment,
    views: Stream<impl Chain<Item = ViewOf<Owned>, Time = ()>>,
) -> thalweg::Result<RecordCheck> {
    let kept = Kept::<RecordCheck>::new();
    let mut part = kept.part();
    let seen = views
        .repartition_by(|row, tasks| share(row.id, tasks))
        .map_volatile(move |row: View<'_, Owned>| {
            let View::<Owned> { id, name, url, body } = row;
            let part = &mut part;
            part.own.add(Row { id, name, url, body });
        })
        .count()
        .collect_one();
    env.run()?;
    seen.take()?;
    Ok(kept.take())
}

/// A number's share of all 64-bit numbers, when they are dealt out in equal runs.
fn share(number: u64, tasks: usize) -> usize {
    ((u128::from(number) * tasks as u128) >> 64) as usize
}

/// Makes the record of a number.
struct Make;

impl Visit<u64> for Make {
    type Out = ViewOf<Owned>;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, number: u64, (): &mut (), emit: &mut impl FnMut(View<'_, Owned>)) {
        let Row { id, name, url, body } = workload::record(number);
        emit(View::<Owned> { id, name, url, body });
    }
}
