//! Sources and sinks that other crates add.
//!
//! # Sources
//!
//! A [`SplitSource`] is made of splits: the partitions of a log, the shards of a table, files. Each split is read in order by
//! one [`SplitReader`], in one task, and a task reads its splits in turn. So a connector knows neither tasks nor hosts: it
//! lists its splits, opens one of them at a position, and emits records. The engine deals splits out to the tasks of all hosts,
//! keeps a watermark for each of them, saves positions in checkpoints, and opens splits again where a checkpoint has them, at
//! any number of tasks.
//!
//! # Sinks
//!
//! A [`Sink`] commits in two phases. Each task has a [`SinkWriter`]. At a checkpoint's barrier the writer
//! [prepares](SinkWriter::prepare) what it has written since the last one, and hands over a value by which that can be
//! committed: the name of a file, the number of a transaction. The value is stored with the checkpoint; once the checkpoint
//! counts, the engine [commits](Sink::commit) it. A job that is interrupted in between commits it when it goes on from that
//! checkpoint, so a commit may be repeated, and must have no effect the second time. A job without checkpoints commits once, when
//! it has ended well.
//!
//! # Rules for both
//!
//! Readers and writers run on the engine's threads, a batch at a time, so they must not block: what blocks belongs on a thread
//! of the connector's, which calls [`SplitWaker::wake`] or [`SinkWaker::wake`]. Calls whose documentation says so may block.
//! An error ends the job; with [`Place::Split`](crate::Place::Split) it says where the record is.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use thalweg::connector::{
//!     Emit, Prepared, ReadStatus, Sink, SinkContext, SinkWriter, SplitContext, SplitReader, SplitSource,
//! };
//! use thalweg::{Environment, Result};
//!
//! /// The words of named texts: each text is a split.
//! struct Texts(BTreeMap<String, String>);
//!
//! struct Reading {
//!     words: Vec<String>,
//!     next: usize,
//! }
//!
//! impl SplitSource for Texts {
//!     type Item = String;
//!     type Split = String;
//!     type Position = usize;
//!     type Reader = Reading;
//!
//!     fn describe(&self) -> String {
//!         "texts".to_owned()
//!     }
//!
//!     fn is_bounded(&self) -> bool {
//!         true
//!     }
//!
//!     fn splits(&self) -> Result<Vec<String>> {
//!         Ok(self.0.keys().cloned().collect())
//!     }
//!
//!     fn open(&self, name: &String, from: Option<usize>, _: &SplitContext) -> Result<Reading> {
//!         let words = self.0[name].split_whitespace().map(str::to_owned).collect();
//!         Ok(Reading { words, next: from.unwrap_or(0) })
//!     }
//! }
//!
//! impl SplitReader for Reading {
//!     type Item = String;
//!     type Position = usize;
//!
//!     fn read(&mut self, out: &mut impl Emit<String>) -> Result<ReadStatus> {
//!         let Some(word) = self.words.get(self.next) else { return Ok(ReadStatus::End) };
//!         out.emit(word.clone());
//!         self.next += 1;
//!         Ok(ReadStatus::More)
//!     }
//!
//!     fn position(&self) -> usize {
//!         self.next
//!     }
//! }
//!
//! /// Appends batches of words to a list, each as a whole.
//! struct List(Arc<Mutex<Vec<String>>>);
//!
//! #[derive(Default)]
//! struct Batch(Vec<String>);
//!
//! impl Sink for List {
//!     type Item = String;
//!     type Commit = Vec<String>;
//!     type Writer = Batch;
//!
//!     fn describe(&self) -> String {
//!         "list".to_owned()
//!     }
//!
//!     fn open(&self, _: &SinkContext) -> Result<Batch> {
//!         Ok(Batch::default())
//!     }
//!
//!     fn commit(&self, words: &Vec<String>) -> Result<()> {
//!         self.0.lock().unwrap().extend_from_slice(words);
//!         Ok(())
//!     }
//! }
//!
//! impl SinkWriter for Batch {
//!     type Item = String;
//!     type Commit = Vec<String>;
//!
//!     fn write(&mut self, word: String) -> Result<()> {
//!         self.0.push(word);
//!         Ok(())
//!     }
//!
//!     fn prepare(&mut self) -> Result<Option<Prepared<Vec<String>>>> {
//!         Ok(Some(Prepared::new(std::mem::take(&mut self.0))))
//!     }
//! }
//!
//! let texts = [("a", "along the river"), ("b", "down")].map(|(name, text)| (name.to_owned(), text.to_owned()));
//! let list = Arc::new(Mutex::new(Vec::new()));
//! let env = Environment::new();
//! env.read(Texts(texts.into())).filter(|word| word != "the").write(List(Arc::clone(&list)));
//! env.run()?;
//! let mut words = list.lock().unwrap().clone();
//! words.sort();
//! assert_eq!(words, ["along", "down", "river"]);
//! # Ok::<(), thalweg::Error>(())
//! ```

mod decoding;
mod opening;
mod progress;
mod sink;
mod source;
mod splits;
mod waits;

pub use decoding::DecodingSource;
pub use sink::{CancellationToken, Prepared, Sink, SinkContext, SinkWaker, SinkWriter};
pub use source::{Emit, ReadStatus, SplitContext, SplitReader, SplitSource, SplitWaker};
pub use splits::SplitFactory;
