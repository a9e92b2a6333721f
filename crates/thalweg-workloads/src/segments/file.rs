//! Writes segments to a file and reads them back, with every byte checked: a damaged file never leads to a slightly
//! wrong answer.

use super::{Format, Segment, Segments, hash_of, numbers, pieces};
use crate::Recipe;
use crate::error::{FileError, FileErrorKind};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

/// The size of the header without its hash, in bytes.
const HEAD: usize = 40;

impl<F: Format> Segments<F> {
    /// Writes a file, and replaces an existing one. It is written under its name with `.part` appended, and renamed
    /// when it is complete.
    ///
    /// # Errors
    /// If the system fails to write.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = path.as_ref();
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut offset = 0;
        let written = self.write_to(&part, &mut offset);
        let renamed = written.and_then(|()| std::fs::rename(&part, path));
        renamed.map_err(|error| FileError {
            path: path.to_owned(),
            offset,
            kind: FileErrorKind::Io(error),
        })
    }

    fn write_to(&self, path: &Path, offset: &mut u64) -> io::Result<()> {
        let mut out = Counted { out: BufWriter::new(File::create(path)?), offset };
        self.write_into(&mut out)?;
        out.out.into_inner()?.sync_all()
    }

    /// Writes the contents of the file to any writer.
    ///
    /// # Errors
    /// Those of `out`.
    ///
    /// ```
    /// use thalweg_workloads::nexmark::{Segments, recipe};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let file = folder.path().join("events");
    /// let (segments, mut bytes) = (Segments::generate(recipe(3), 100), Vec::new());
    /// segments.write_into(&mut bytes)?;
    /// segments.write(&file)?;
    /// assert_eq!(std::fs::read(&file)?, bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_into(&self, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
        let head = self.head();
        out.write_all(&head)?;
        out.write_all(&hash_of(&head).to_le_bytes())?;
        for segment in &self.segments {
            out.write_all(&(segment.bytes.len() as u64).to_le_bytes())?;
            out.write_all(&hash_of(&segment.bytes).to_le_bytes())?;
            out.write_all(&segment.bytes)?;
        }
        Ok(())
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&F::MAGIC);
        head[8..12].copy_from_slice(&F::VERSION.to_le_bytes());
        head[12..16].copy_from_slice(&self.per_segment.get().to_le_bytes());
        let words = [self.recipe.seed, self.recipe.rate.get(), self.count];
        head[16..].copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        head
    }

    /// Reads a file written by [`write`](Self::write), and checks all of it.
    ///
    /// # Errors
    /// If the system fails to read, or the file holds other events, or those of another version, or is damaged: the
    /// error contains the offset.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (size, file) = opened.map_err(|error| FileError {
            path: path.to_owned(),
            offset: 0,
            kind: FileErrorKind::Io(error),
        })?;
        Input { path, offset: 0, size, file: BufReader::new(file) }.segments()
    }
}

/// Counts the bytes written, for the offset of an error.
struct Counted<'o, W> {
    out: W,
    offset: &'o mut u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        *self.offset += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A file that is being read.
struct Input<'p> {
    path: &'p Path,
    offset: u64,
    size: u64,
    file: BufReader<File>,
}

impl Input<'_> {
    fn segments<F: Format>(mut self) -> Result<Segments<F>, FileError> {
        let magic = self.array()?;
        if magic != F::MAGIC {
            return Err(self.error(0, FileErrorKind::Foreign { wanted: F::NAME }));
        }
        let found = u32::from_le_bytes(self.array()?);
        if found != F::VERSION {
            let kind = FileErrorKind::Version { found, wanted: F::VERSION };
            return Err(self.error(8, kind));
        }
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&magic);
        head[8..12].copy_from_slice(&found.to_le_bytes());
        let rest: [u8; HEAD - 12] = self.array()?;
        head[12..].copy_from_slice(&rest);
        if self.word()? != hash_of(&head) {
            return Err(self.damaged(0, "the head is not what was written"));
        }
        let [a, b, c, d, ref words @ ..] = rest;
        let per_segment = u32::from_le_bytes([a, b, c, d]);
        let (words, _) = words.as_chunks::<8>();
        let [seed, rate, count] = [words[0], words[1], words[2]].map(u64::from_le_bytes);
        let (Some(per_segment), Some(rate)) = (NonZeroU32::new(per_segment), NonZeroU64::new(rate))
        else {
            return Err(self.damaged(12, "the head has a zero where none can be"));
        };
        let mut segments = Vec::new();
        for piece in 0..pieces(count, per_segment) {
            segments.push(self.segment(numbers(piece, count, per_segment))?);
        }
        if self.offset < self.size {
            return Err(self.damaged(self.offset, "there are bytes after the last segment"));
        }
        Ok(Segments { recipe: Recipe { seed, rate }, per_segment, count, segments })
    }

    fn segment<F: Format>(
        &mut self,
        numbers: std::ops::Range<u64>,
    ) -> Result<Segment<F>, FileError> {
        let (length, hash) = (self.word()?, self.word()?);
        let start = self.offset;
        // Before memory is allocated, so that a damaged length allocates none.
        if length > self.size.saturating_sub(start) {
            return Err(self.short());
        }
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        if hash_of(&bytes) != hash {
            return Err(self.damaged(start, "a segment is not what was written"));
        }
        let count = numbers.end - numbers.start;
        let mut rest = bytes.as_slice();
        for number in numbers.clone() {
            let at = start + (bytes.len() - rest.len()) as u64;
            if let Err(error) = F::decode(&mut rest) {
                let place = at + error.offset as u64;
                return Err(
                    self.damaged(place, &format!("event {number} cannot be read ({error})"))
                );
            }
        }
        if !rest.is_empty() {
            return Err(self.damaged(self.offset - rest.len() as u64, "a segment is too long"));
        }
        Ok(Segment { first: numbers.start, count, bytes: bytes.into(), format: PhantomData })
    }

    fn word(&mut self) -> Result<u64, FileError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        match self.file.read_exact(bytes) {
            Ok(()) => {
                self.offset += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.short()),
            Err(error) => Err(self.error(self.offset, FileErrorKind::Io(error))),
        }
    }

    fn short(&self) -> FileError {
        self.damaged(self.size, "the file ends too early")
    }

    fn damaged(&self, offset: u64, what: &str) -> FileError {
        self.error(offset, FileErrorKind::Damaged(what.to_owned()))
    }

    fn error(&self, offset: u64, kind: FileErrorKind) -> FileError {
        FileError { path: self.path.to_owned(), offset, kind }
    }
}
