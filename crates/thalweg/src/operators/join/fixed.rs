//! Joins with a table that is complete before the first record: AIR's static join.

use crate::data::{Data, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Op, Pipe, Push, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::state::Rows;
use crate::stream::{Chain, Stream};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A table that is read once and shared by all tasks of the process, whatever job they belong to; for
/// [`Stream::join_static`]. A clone shares the same table.
///
/// A key may have several rows. Reading allocates per table, not per row; a lookup takes two steps in memory.
///
/// A stream becomes a table by a job of its own, whose result is collected:
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::join::StaticTable;
///
/// let env = Environment::new();
/// let squares = env.range(0..10).map(|n| (n * n, n)).collect::<Vec<_>>();
/// env.run()?;
/// let roots = StaticTable::new(squares.take()?);
/// assert_eq!(roots.get(&49), Some(&7));
/// assert_eq!(roots.get(&50), None);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct StaticTable<K, V>(Arc<Shared<K, V>>);

struct Shared<K, V> {
    rows: OnceLock<Rows<K, V>>,
    /// The closure that reads the rows; locked while it runs.
    read: Mutex<Read<K, V>>,
}

type Read<K, V> = Option<Box<dyn Fn() -> Result<Vec<(K, V)>> + Send>>;

impl<K, V> Clone for StaticTable<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Data + Eq, V: Data> StaticTable<K, V> {
    /// A table of these rows.
    pub fn new(rows: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(Arc::new(Shared { rows: OnceLock::from(linked(rows)), read: Mutex::new(None) }))
    }

    /// A table that is read by the first job that uses it, when that job starts. If the closure fails, so does
    /// the start of the job; the next job tries again.
    ///
    /// ```
    /// use thalweg::operators::join::StaticTable;
    /// use thalweg::{Environment, Error, ErrorKind};
    ///
    /// let table = StaticTable::load(|| {
    ///     let lines = ["1 one", "2 two"];
    ///     let parse = |line: &str| {
    ///         let (number, name) = line.split_once(' ')?;
    ///         Some((number.parse::<u64>().ok()?, name.to_owned()))
    ///     };
    ///     let wrong = || Error::new(ErrorKind::Input, "this is no number and its name");
    ///     lines.iter().map(|line| parse(line).ok_or_else(wrong)).collect()
    /// });
    /// let env = Environment::new();
    /// let names = env.range(0..5).join_static(&table, |n| *n, |_, name| name.clone());
    /// let out = names.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["one", "two"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn load(read: impl Fn() -> Result<Vec<(K, V)>> + Send + 'static) -> Self {
        Self(Arc::new(Shared { rows: OnceLock::new(), read: Mutex::new(Some(Box::new(read))) }))
    }

    /// The rows, which are read now if they have not been yet.
    fn ready(&self) -> Result<&Rows<K, V>> {
        if let Some(rows) = self.0.rows.get() {
            return Ok(rows);
        }
        let mut read = lock(&self.0.read);
        if self.0.rows.get().is_none() {
            let rows = match &*read {
                Some(read) => linked(read()?),
                None => Rows::new(),
            };
            let _ = self.0.rows.set(rows);
            *read = None;
        }
        drop(read);
        self.0.rows.get().ok_or_else(|| Error::new(ErrorKind::Internal, "a table was not set"))
    }

    /// The number of rows; none before they have been read.
    pub fn len(&self) -> usize {
        self.0.rows.get().map_or(0, Rows::len)
    }

    /// Whether there is no row, or they have not been read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.all(key).next()
    }

    /// The values of a key, in the order of the rows.
    pub fn all(&self, key: &K) -> impl Iterator<Item = &V> {
        let found = self.0.rows.get().map(|rows| {
            let hash = key.key_hash();
            let mut link = rows.first(hash);
            std::iter::from_fn(move || {
                let row = rows.find(hash, key, link)?;
                link = rows.after(row);
                Some(rows.value(row))
            })
        });
        found.into_iter().flatten()
    }
}

fn linked<K: Data + Eq, V: Data>(all: impl IntoIterator<Item = (K, V)>) -> Rows<K, V> {
    let mut rows = Rows::new();
    for (key, value) in all {
        rows.push(key.key_hash(), key, value);
    }
    while rows.link(usize::MAX) {}
    rows
}

/// The type of a record as closures see it.
type Item<'a, C> = <<C as Chain>::Item as Record>::Of<'a>;

impl<C: Chain> Stream<C> {
    /// Looks each record up in a table, and makes a record of it and each row that the table has for its key.
    /// Records without a row have no result.
    ///
    /// The table is read once and shared by all tasks, so no record is exchanged: this is the cheapest join
    /// with a small, fixed side. For a side that is a stream of the same job, or is large, there is
    /// [`join`](crate::KeyedStream::join). The results of one record are emitted without a pause for
    /// back-pressure: for a table with very many rows per key prefer `join`.
    ///
    /// Keeps order and tasks, and each record's timestamp.
    ///
    /// # Errors
    ///
    /// If the table cannot be read, or is larger than the memory budget, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::join::StaticTable;
    ///
    /// let prices = StaticTable::new([('a', 3), ('b', 2)]);
    /// let env = Environment::new();
    /// let orders = env.iter([('b', 4), ('c', 1), ('a', 1)]);
    /// let sums = orders.join_static(&prices, |order| order.0, |order, price| order.1 * price);
    /// let out = sums.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [8, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn join_static<K, V, O, F, M>(
        self,
        table: &StaticTable<K, V>,
        key: F,
        make: M,
    ) -> Stream<impl Chain<Item = O, Time = C::Time> + use<C, K, V, O, F, M>>
    where
        K: Data + Eq + Sync,
        V: Data + Sync,
        O: 'static,
        F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K + Send + Sync + 'static,
        M: for<'a, 'b> Fn(&'b Item<'a, C>, &'b V) -> O + Send + Sync + 'static,
    {
        let make =
            move |item: &Item<'_, C>, value: Option<&V>| value.map(|value| make(item, value));
        self.with_table(Origin::here("join_static"), table, key, make)
    }

    /// Like [`join_static`](Self::join_static), with a result for records without a row too: the closure gets
    /// `None`.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::join::StaticTable;
    ///
    /// let names = StaticTable::new([(1, "one".to_owned()), (2, "two".to_owned())]);
    /// let env = Environment::new();
    /// let named = env.iter(0..3).left_join_static(&names, |n| *n, |n, name| {
    ///     name.cloned().unwrap_or_else(|| n.to_string())
    /// });
    /// let out = named.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["0", "one", "two"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join_static<K, V, O, F, M>(
        self,
        table: &StaticTable<K, V>,
        key: F,
        make: M,
    ) -> Stream<impl Chain<Item = O, Time = C::Time> + use<C, K, V, O, F, M>>
    where
        K: Data + Eq + Sync,
        V: Data + Sync,
        O: 'static,
        F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K + Send + Sync + 'static,
        M: for<'a, 'b> Fn(&'b Item<'a, C>, Option<&'b V>) -> O + Send + Sync + 'static,
    {
        let make = move |item: &Item<'_, C>, value: Option<&V>| Some(make(item, value));
        self.with_table(Origin::here("left_join_static"), table, key, make)
    }

    fn with_table<K, V, O, F, M>(
        self,
        origin: Origin,
        table: &StaticTable<K, V>,
        key: F,
        make: M,
    ) -> Stream<WithTable<C, K, V, O, F, M>>
    where
        K: Data + Eq + Sync,
        V: Data + Sync,
        O: 'static,
        F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K + Send + Sync + 'static,
        M: for<'a, 'b> Fn(&'b Item<'a, C>, Option<&'b V>) -> Option<O> + Send + Sync + 'static,
    {
        let (table, with) = (table.clone(), Arc::new((key, make)));
        self.then(origin, |prev, op| WithTable { prev, op, table, with, output: PhantomData })
    }
}

/// The chain that ends in a lookup in a fixed table.
pub struct WithTable<C, K, V, O, F, M> {
    prev: C,
    op: usize,
    table: StaticTable<K, V>,
    with: Arc<(F, M)>,
    output: PhantomData<fn() -> O>,
}

impl<C, K, V, O, F, M> Chain for WithTable<C, K, V, O, F, M>
where
    C: Chain,
    K: Data + Eq + Sync,
    V: Data + Sync,
    O: 'static,
    F: for<'a, 'b> Fn(&'b Item<'a, C>) -> K + Send + Sync + 'static,
    M: for<'a, 'b> Fn(&'b Item<'a, C>, Option<&'b V>) -> Option<O> + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<WithTablePush<C::Item, K, V, O, F, M, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let op = cx.op(self.op);
        let mut memory = cx.fixed(self.op);
        let rows = self.table.ready().map_err(|error| error.in_operator(&*op.name()))?;
        let bytes = Rows::<K, V>::bytes_with(rows.capacity()) + rows.heap();
        // One of the tasks reserves the memory for all.
        if cx.task == 0 && !memory.try_resize(bytes) {
            let what = format!(
                "its table takes {bytes} bytes, which the memory budget of {} has not left; `join` with a stream of the \
                 table's rows uses the disk",
                cx.memory.limit()
            );
            return Err(memory.refused(what).in_operator(&*op.name()));
        }
        let (table, with) = (self.table.clone(), Arc::clone(&self.with));
        let push = WithTablePush {
            op,
            table,
            with,
            emitted: 0,
            _memory: memory,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// A lookup in a fixed table, in a running task.
pub struct WithTablePush<I: ?Sized, K, V, O, F, M, N> {
    op: Op,
    table: StaticTable<K, V>,
    with: Arc<(F, M)>,
    emitted: u64,
    /// Held as long as the task lives.
    _memory: Reservation,
    next: N,
    types: PhantomData<fn(&I) -> O>,
}

impl<I, K, V, O, F, M, N> Pipe for WithTablePush<I, K, V, O, F, M, N>
where
    I: ?Sized,
    K: Data + Sync,
    V: Data + Sync,
    F: Send + Sync,
    M: Send + Sync,
    N: Pipe,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, K, V, O, T, F, M, N> Push<I, T> for WithTablePush<I, K, V, O, F, M, N>
where
    I: Record + ?Sized,
    K: Data + Eq + Sync,
    V: Data + Sync,
    O: 'static,
    T: Time,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> K + Send + Sync,
    M: for<'a, 'b> Fn(&'b I::Of<'a>, Option<&'b V>) -> Option<O> + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { op, table, with, emitted, next, .. } = self;
        let (find, make) = &**with;
        // Was read before the task was made.
        let Some(rows) = table.0.rows.get() else { return };
        let (hash, key) = guard(op, || {
            let key = find(&item);
            (key.key_hash(), key)
        });
        let mut row = guard(op, || rows.find(hash, &key, rows.first(hash)));
        if row.is_none()
            && let Some(made) = guard(op, || make(&item, None))
        {
            *emitted += 1;
            next.push(made, time);
        }
        while let Some(found) = row {
            if let Some(made) = guard(op, || make(&item, Some(rows.value(found)))) {
                *emitted += 1;
                next.push(made, time);
            }
            row = guard(op, || rows.find(hash, &key, rows.after(found)));
        }
    }
}
