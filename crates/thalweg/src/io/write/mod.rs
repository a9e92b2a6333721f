//! Sinks that write files.
//!
//! Each task encodes its records as bytes ([`Encode`]). One task, or each task for itself, writes them to a
//! [`NewFile`], which has a hidden name until the whole job has succeeded.
//!
//! Hosts write into a directory that they share, each the parts of its tasks. A file that one task writes is on the
//! first host, which has the first task of every stage, and so knows all paths that a job writes.

mod csv;
mod file;
mod json_lines;
mod lines;
mod rolling;

pub use rolling::RollingFiles;

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::RoundRobin;
use crate::flow::{Event, Op, Pipe, Publish, Push, guard};
use crate::metrics::Report;
use crate::net::HostId;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext, TieKind};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use file::{Claims, NewDir, NewFile, Owner, SavedFile};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// Encodes records as bytes.
pub(crate) trait Encode<I: Record + ?Sized>: Clone + Send + 'static {
    /// Appends the bytes of a record, including its line end.
    fn encode(&mut self, item: I::Of<'_>, out: &mut Vec<u8>) -> Result<()>;

    /// The layout that all records of a file must share, if the format has one. Known once a record was encoded.
    fn layout(&self) -> Option<&Layout> {
        None
    }
}

/// The common properties of the records of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The number of fields.
    fields: u64,
    /// The first bytes of the file.
    header: Vec<u8>,
}

impl<C: Chain> Stream<C> {
    /// Writes all records to one file.
    fn write_file<E: Encode<C::Item>>(self, origin: Origin, path: &Path, encode: E) {
        let details = Details::of("path", path);
        let path = path.to_owned();
        let is_one = self.tasks() == 1;
        let encoded = self.encoded(origin, encode);
        let open = move |cx: &TaskContext<'_>, op| {
            let owner = Owner(cx.checkpoint_dir());
            let create = |op: &Op| NewFile::create(&path, op, Claims::Checked, owner);
            FilePush::open(cx, op, None, Claims::Checked, create)
        };
        if is_one {
            encoded.with_fixed_tasks("one file is written").close_in_sink(origin, details, open);
        } else {
            let gather = Origin { kind: "gather", ..origin };
            let gathered = encoded.exchange(
                gather,
                Strategy::Gather,
                Parallelism::Fixed(1),
                |cx, op, edge| edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(0)),
            );
            gathered.close_in_sink(origin, details, open);
        }
    }

    /// Writes the records of each task to a file of its own.
    fn write_dir<E>(self, origin: Origin, dir: &Path, ending: &'static str, encode: E)
    where
        E: Encode<C::Item>,
    {
        let details = Details::of("path", dir);
        let dir = Arc::new(NewDir::new(dir));
        let encoded = self.encoded(origin, encode);
        let (env, stage) = (encoded.env.clone(), encoded.stage);
        encoded.close_in_sink(origin, details, move |cx, op| {
            let part = |task: usize| format!("part-{task:05}.{ending}");
            let me = cx.links.hosts().me();
            let of_others = (0..cx.tasks).filter(|task| cx.hosts[*task] != me).map(part);
            let claims = if me == HostId::FIRST { Claims::Checked } else { Claims::Trusted };
            let owner = Owner(cx.checkpoint_dir());
            let create = |op: &Op| {
                let shared = cx.links.hosts().count() > 1;
                let dir = dir.prepare(op, claims, owner, shared, of_others)?;
                NewFile::create(&dir.join(part(cx.task)), op, claims, owner)
            };
            FilePush::open(cx, op, Some(&dir), claims, create)
        });
        env.tie_last(stage, TieKind::Files);
    }

    fn encoded<E: Encode<C::Item>>(self, origin: Origin, encode: E) -> Stream<Encoded<C, E>> {
        self.then(origin, |prev, op| Encoded { prev, op, encode })
    }
}

/// The chain that ends in an encoder. Its records are bytes preceded by a [`Tag`].
struct Encoded<C, E> {
    prev: C,
    op: usize,
    encode: E,
}

/// The kind of the bytes after it. They may come from several tasks, each of which sends its layout: the number of
/// fields in eight bytes, and the header.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Record,
    Layout,
}

impl<C: Chain, E: Encode<C::Item>> Chain for Encoded<C, E> {
    type Item = [u8];
    type Time = ();
    type Task<N: Push<[u8], ()> + 'static> = C::Task<EncodePush<C::Item, E, N>>;

    fn attach<N: Push<[u8], ()> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        let push = EncodePush {
            op: cx.op(self.op),
            encode: self.encode.clone(),
            bytes: vec![Tag::Record as u8],
            begun: false,
            failed: false,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

struct EncodePush<I: ?Sized, E, N> {
    op: Op,
    encode: E,
    /// A tag and one record.
    bytes: Vec<u8>,
    /// Whether the layout was sent, if there is one.
    begun: bool,
    failed: bool,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, E: Send, N: Pipe> Pipe for EncodePush<I, E, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I, T, E, N> Push<I, T> for EncodePush<I, E, N>
where
    I: Record + ?Sized,
    T: Time,
    E: Encode<I>,
    N: Push<[u8], ()>,
{
    #[inline]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        if self.failed {
            return;
        }
        self.bytes.truncate(1);
        if let Err(error) = guard(&self.op, || self.encode.encode(item, &mut self.bytes)) {
            self.failed = true;
            self.op.fail(error);
            return;
        }
        if !self.begun {
            self.begun = true;
            if let Some(Layout { fields, header }) = self.encode.layout() {
                let mut tagged = vec![Tag::Layout as u8];
                tagged.extend_from_slice(&fields.to_le_bytes());
                tagged.extend_from_slice(header);
                self.next.push(&tagged, ());
            }
        }
        self.next.push(&self.bytes, ());
    }
}

/// Writes encoded records to a file.
struct FilePush {
    op: Op,
    /// `None` once it is complete or has failed.
    file: Option<NewFile>,
    /// The layout of the first record.
    layout: Option<Vec<u8>>,
    /// Files of tasks that the job does not have any more since it was interrupted, each with the number of its task.
    others: Vec<(usize, NewFile, Option<Vec<u8>>)>,
    state: StateHandle,
    task: usize,
    records: u64,
    /// Declared after the file, so that the directory is empty when both are dropped.
    dir: Option<Arc<NewDir>>,
}

/// A task's file at a checkpoint: the number of the task, the file, and the layout of its records.
type SavedPart = (usize, SavedFile, Option<Vec<u8>>);

impl FilePush {
    /// Opens the file of a task: the one that it wrote before the job was interrupted, or else the one that `create`
    /// makes.
    fn open(
        cx: &TaskContext<'_>,
        op: usize,
        dir: Option<&Arc<NewDir>>,
        claims: Claims,
        create: impl FnOnce(&Op) -> Result<NewFile>,
    ) -> Result<Self> {
        let state = cx.state::<SavedPart>(op, "file", Redistribution::United);
        let (op, owner) = (cx.op(op), Owner(cx.checkpoint_dir()));
        if cx.is_trial() {
            state.restore(|(_, file, _): SavedPart| NewFile::check_saved(&file))?;
            let (file, layout, others, dir) = (None, None, Vec::new(), None);
            return Ok(Self { op, file, layout, others, state, task: cx.task, records: 0, dir });
        }
        let mut saved = Vec::new();
        state.restore(|part: SavedPart| {
            saved.push(part);
            Ok(())
        })?;
        let begin_anew = cx.begin_anew();
        let resume = |file: &SavedFile| NewFile::resume(file, &op, claims, owner, &begin_anew);
        let open = || {
            if let (Some(dir), false) = (dir, saved.is_empty()) {
                let files: Vec<_> = saved.iter().map(|(_, file, _)| file.clone()).collect();
                let is_saved = move |name: &str| files.iter().any(|file| file.is_hidden_as(name));
                dir.resume(&op, claims, cx.links.hosts().count() > 1, owner, is_saved)?;
            }
            let mine = saved.iter().position(|(task, ..)| *task == cx.task);
            let (file, layout) = match mine.map(|at| saved.swap_remove(at)) {
                Some((_, file, layout)) => (resume(&file)?, layout),
                None => (create(&op)?, None),
            };
            let without_task =
                saved.into_iter().filter(|(task, ..)| cx.task == 0 && *task >= cx.tasks);
            let others = without_task
                .map(|(task, file, layout)| resume(&file).map(|file| (task, file, layout)));
            let others = others.collect::<Result<Vec<_>>>()?;
            Ok((file, layout, others))
        };
        let (file, layout, others) =
            open().map_err(|error: Error| error.in_operator(&*op.name()))?;
        let (file, dir, task) = (Some(file), dir.cloned(), cx.task);
        Ok(Self { op, file, layout, others, state, task, records: 0, dir })
    }

    /// Saves the files, if this event is a barrier or the end.
    fn save(&mut self, event: Event) {
        let Self { op, file, layout, others, state, task, .. } = self;
        let Some(file) = file else { return };
        state.save(event, |out| {
            let mut save = |task: usize, file: &mut NewFile, layout: &Option<Vec<u8>>| {
                out.add(&(task, file.save()?, layout.clone()));
                out.before_it_counts(file.sync());
                Ok(())
            };
            let mut saved = save(*task, file, layout);
            for (task, file, layout) in others {
                saved = saved.and_then(|()| save(*task, file, layout));
            }
            if let Err(error) = saved {
                op.fail(error);
            }
        });
    }

    fn complete(&mut self, file: NewFile) -> Result<()> {
        let dir = self.dir.take();
        let others = std::mem::take(&mut self.others).into_iter().map(|(_, file, _)| file);
        for mut file in others.chain([file]) {
            file.complete()?;
            let (dir, operator) = (dir.clone(), self.op.name());
            self.op.signals().on_success(move || {
                let named = move |error: Error| error.in_operator(&*operator);
                file.check().map_err(&named)?;
                let name = file.name().display().to_string();
                let rename = move || {
                    let published = file.publish().map_err(named);
                    if let (Some(dir), Ok(())) = (&dir, &published) {
                        dir.published();
                    }
                    drop(dir);
                    published
                };
                Ok(Publish::File { name, rename: Box::new(rename) })
            });
        }
        Ok(())
    }
}

impl Pipe for FilePush {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.save(event);
        if event == Event::End
            && let Some(file) = self.file.take()
            && let Err(error) = self.complete(file)
        {
            self.op.fail(error);
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.records);
    }
}

impl Push<[u8], ()> for FilePush {
    #[inline]
    fn push(&mut self, item: &[u8], (): ()) {
        let (Some(file), Some((&tag, bytes))) = (&mut self.file, item.split_first()) else {
            return;
        };
        let written = if tag == Tag::Layout as u8 {
            begin(file, &mut self.layout, bytes)
        } else {
            self.records += 1;
            file.write(bytes)
        };
        if let Err(error) = written {
            self.file = None;
            self.op.fail(error);
        }
    }
}

/// Begins a file with the header of its first record; refuses records with another layout.
#[cold]
fn begin(file: &mut NewFile, first: &mut Option<Vec<u8>>, layout: &[u8]) -> Result<()> {
    match first {
        Some(first) if first == layout => Ok(()),
        Some(_) => {
            let what = "records of one file have different columns";
            Err(Error::new(ErrorKind::Input, what))
        }
        None => {
            *first = Some(layout.to_vec());
            file.write(layout.get(size_of::<u64>()..).unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;
