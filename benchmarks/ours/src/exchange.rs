//! Moving records between tasks: numbers, and records with strings.
//!
//! A record with strings is a struct that derives `Data`. With `--form borrowed` it is one that is borrowed from its
//! batch: [`Rows`] says by hand how such records lie there, their ids in one column, their strings one after the other
//! in another.

use crate::environment;
use crate::kept::Kept;
use bench_protocol::workload::{self, NumberCheck, Record as Row, RecordCheck};
use bench_protocol::{Answer, Request, Result, serve};
use thalweg::data::{Batch, DecodeError, Portable, Record, TextBatch};
use thalweg::{Data, Environment, Visit};

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    serve(request, |stopwatch| {
        let all = stopwatch.time(|| -> thalweg::Result<NumberCheck> {
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
        })?;
        Ok(Answer { digest: all.digest(), records, bytes: records * 8, ..Answer::default() })
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    let work = match request.get("form") {
        None => derived,
        Some("borrowed") => borrowed,
        Some(form) => return Err(format!("there is no form {form:?}: borrowed").into()),
    };
    serve(request, |stopwatch| {
        let all = stopwatch.time(|| work(&env, records))?;
        Ok(Answer { digest: all.digest(), records, bytes: all.bytes(), ..Answer::default() })
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

fn borrowed(env: &Environment, records: u64) -> thalweg::Result<RecordCheck> {
    let kept = Kept::<RecordCheck>::new();
    let mut part = kept.part();
    let seen = env
        .range(0..records)
        .flat_each(Make)
        .repartition_by(|row, tasks| share(row.id, tasks))
        .map_volatile(move |row: Row<'_>| {
            let part = &mut part;
            part.own.add(row);
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

/// The kind of record that `Row` is.
struct Rows {
    _unsized: [()],
}

impl Record for Rows {
    type Of<'a> = Row<'a>;
}

impl Portable for Rows {
    type Batch = RowBatch;
    type Owned = (u64, (String, String, String));

    fn to_owned(row: Row<'_>) -> Self::Owned {
        (row.id, (row.name.to_owned(), row.url.to_owned(), row.body.to_owned()))
    }
}

#[derive(Default)]
struct RowBatch {
    ids: Vec<u64>,
    texts: TextBatch,
}

impl Batch<Rows> for RowBatch {
    #[inline]
    fn push(&mut self, row: Row<'_>) {
        self.ids.push(row.id);
        [row.name, row.url, row.body].into_iter().for_each(|text| self.texts.push(text));
    }

    #[inline]
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn bytes(&self) -> usize {
        size_of_val(self.ids.as_slice()) + self.texts.bytes()
    }

    #[inline]
    fn drain(&mut self, mut each: impl FnMut(Row<'_>)) {
        {
            let mut texts = self.texts.iter();
            for &id in &self.ids {
                // Three were pushed with every id.
                let (Some(name), Some(url), Some(body)) =
                    (texts.next(), texts.next(), texts.next())
                else {
                    break;
                };
                each(Row { id, name, url, body });
            }
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.texts.clear();
    }

    fn encode_all(&self, out: &mut Vec<u8>) {
        self.ids.encode_all(out);
        self.texts.encode_all(out);
    }

    fn decode_all(&mut self, input: &mut &[u8]) -> std::result::Result<(), DecodeError> {
        self.ids.decode_all(input)?;
        self.texts.decode_all(input)
    }
}

/// Makes the record of a number.
struct Make;

impl Visit<u64> for Make {
    type Out = Rows;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, number: u64, (): &mut (), emit: &mut impl FnMut(Row<'_>)) {
        emit(workload::record(number));
    }
}
