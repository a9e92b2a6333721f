//! Opens and decompresses one file.
//!
//! The content of input files is read only here.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::{Error, ErrorKind, Place, Result};

/// How the content of a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not compressed.
    #[default]
    None,
    /// gzip (RFC 1952), with any number of members, and zeros after the last, as tapes and disk images add them.
    Gzip,
    /// Zstandard (RFC 8878), with any number of frames, including skippable ones, with a window of up to 128 MiB and
    /// no dictionary.
    Zstd,
}

impl Compression {
    /// The compression that the file name indicates: `.gz`, `.zst` or `.zstd` in any case, else none. The content is
    /// not examined.
    ///
    /// ```
    /// use thalweg::io::files::Compression;
    ///
    /// assert_eq!(Compression::of("log.2024.GZ".as_ref()), Compression::Gzip);
    /// assert_eq!(Compression::of("log.gz.txt".as_ref()), Compression::None);
    /// ```
    pub fn of(path: &Path) -> Self {
        let is = |name: &str| path.extension().is_some_and(|end| end.eq_ignore_ascii_case(name));
        if is("gz") {
            Self::Gzip
        } else if is("zst") || is("zstd") {
            Self::Zstd
        } else {
            Self::None
        }
    }

    /// Whether reading can begin in the middle of the file.
    pub fn is_splittable(self) -> bool {
        self == Self::None
    }
}

/// The decompressed bytes of a file, in order.
///
/// A plain file is not buffered, so read large pieces. For lines see
/// [`ByteBlocks`](super::ByteBlocks) and [`LineBlocks`](super::LineBlocks).
///
/// ```
/// use thalweg::io::files::{Compression, FileReader};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("f");
/// std::fs::write(&path, "some text").unwrap();
/// let mut reader = FileReader::open_at(&path, Compression::None, 5).unwrap();
/// let mut buffer = [0; 100];
/// assert_eq!(reader.read(&mut buffer).unwrap(), 4);
/// assert_eq!(&buffer[..4], b"text");
/// assert_eq!(reader.position(), 9);
/// assert_eq!(reader.read(&mut buffer).unwrap(), 0);
/// ```
#[derive(Debug)]
pub struct FileReader {
    path: PathBuf,
    decoder: Decoder<File>,
    position: u64,
}

impl FileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be opened.
    pub fn open(path: &Path, compression: Compression) -> Result<Self> {
        Self::open_at(path, compression, 0)
    }

    /// Opens a file to read it from this byte on, decompressed if it is compressed. All bytes before are then
    /// decompressed and dropped; a file with fewer bytes is at its end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be opened; for a compressed file also the errors of [`read`](Self::read).
    pub fn open_at(path: &Path, compression: Compression, offset: u64) -> Result<Self> {
        let seek = if compression.is_splittable() { offset } else { 0 };
        let open = || {
            let mut file = File::open(path)?;
            if seek > 0 {
                file.seek(SeekFrom::Start(seek))?;
            }
            Ok(file)
        };
        let file = open().map_err(|cause| Error::io(path, "open the file", cause))?;
        let decoder = Decoder::new(file, compression);
        let mut reader = Self { path: path.to_owned(), decoder, position: seek };
        reader.skip_to(offset)?;
        Ok(reader)
    }

    /// Reads and drops the bytes up to this offset.
    fn skip_to(&mut self, offset: u64) -> Result<()> {
        let mut skipped =
            vec![0; usize::try_from(offset - self.position).map_or(SKIPPED, |n| n.min(SKIPPED))];
        while self.position < offset {
            let left = usize::try_from(offset - self.position).unwrap_or(usize::MAX);
            let most = left.min(skipped.len());
            if self.read(&mut skipped[..most])? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Reads some bytes; returns 0 only at the end of the file or for an empty buffer.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the system call fails; [`ErrorKind::Input`], with the decompressed offset, when
    /// compressed data are corrupt or truncated.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.decoder.read(buffer) {
            Ok(bytes) => {
                self.position += bytes as u64;
                Ok(bytes)
            }
            Err(DecodeError::Io(cause)) => Err(Error::io(&self.path, "read the file", cause)),
            Err(DecodeError::Corrupt(cause)) => {
                let message = "the compressed data are corrupt or cut short";
                let place = Place::Offset(self.path.clone(), self.position);
                Err(Error::new(ErrorKind::Input, message).at(place).caused_by(cause))
            }
        }
    }

    /// The offset of the next byte, decompressed if the file is compressed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of bytes of the file itself that were read, compressed if the file is compressed.
    pub fn consumed(&self) -> u64 {
        match &self.decoder {
            Decoder::Plain(_) => self.position,
            Decoder::Gzip(gzip) => gzip.consumed(),
            Decoder::Zstd(zstd) => consumed(&zstd.input),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Decompressed bytes that are skipped at once.
const SKIPPED: usize = 64 << 10;

/// Decompresses the output of a reader.
#[derive(Debug)]
enum Decoder<R> {
    Plain(R),
    Gzip(Box<GzipMembers<R>>),
    Zstd(Box<ZstdFrames<R>>),
}

#[derive(Debug)]
enum DecodeError {
    /// The underlying reader failed.
    Io(io::Error),
    /// The underlying reader works, but its bytes cannot be decompressed.
    Corrupt(Box<dyn std::error::Error + Send + Sync>),
}

type Compressed<R> = BufReader<Watched<R>>;

/// Compressed bytes read at once: enough to make the cost of system calls negligible.
const COMPRESSED_BUFFER: usize = 128 << 10;

impl<R: Read> Decoder<R> {
    fn new(reader: R, compression: Compression) -> Self {
        let compressed = |reader| {
            let watched = Watched { reader, bytes: 0, failed: None };
            BufReader::with_capacity(COMPRESSED_BUFFER, watched)
        };
        match compression {
            Compression::None => Self::Plain(reader),
            Compression::Gzip => Self::Gzip(Box::new(GzipMembers::new(compressed(reader)))),
            Compression::Zstd => Self::Zstd(Box::new(ZstdFrames::new(compressed(reader)))),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, DecodeError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self {
            Self::Plain(reader) => retry(reader, buffer).map_err(DecodeError::Io),
            Self::Gzip(gzip) => gzip.read(buffer),
            Self::Zstd(zstd) => {
                zstd.read(buffer).map_err(|error| blame(zstd.input.get_mut(), error))
            }
        }
    }
}

/// Counts the compressed bytes, and records a failure of the reader: decoders wrap or replace the errors of their
/// reader, so its failures could not be distinguished from corrupt data afterwards.
#[derive(Debug)]
struct Watched<R> {
    reader: R,
    bytes: u64,
    failed: Option<io::Error>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match retry(&mut self.reader, buffer) {
            Ok(bytes) => {
                self.bytes += bytes as u64;
                Ok(bytes)
            }
            Err(error) => {
                let kind = error.kind();
                self.failed = Some(error);
                Err(kind.into())
            }
        }
    }
}

fn retry(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn blame<R>(
    watched: &mut Watched<R>,
    error: Box<dyn std::error::Error + Send + Sync>,
) -> DecodeError {
    watched.failed.take().map_or(DecodeError::Corrupt(error), DecodeError::Io)
}

fn consumed<R>(input: &Compressed<R>) -> u64 {
    input.get_ref().bytes - input.buffer().len() as u64
}

/// The members of a gzip file, and the zeros after the last.
///
/// The library decodes single members, or any number of them and nothing else.
#[derive(Debug)]
struct GzipMembers<R> {
    /// `None` at the end.
    member: Option<GzDecoder<Compressed<R>>>,
    /// The number of compressed bytes of all members, once it is known.
    end: u64,
}

impl<R: Read> GzipMembers<R> {
    fn new(input: Compressed<R>) -> Self {
        Self { member: Some(GzDecoder::new(input)), end: 0 }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, DecodeError> {
        while let Some(mut member) = self.member.take() {
            let read = member.read(buffer);
            if !matches!(read, Ok(0)) {
                let member = self.member.insert(member);
                return read.map_err(|error| blame(member.get_mut().get_mut(), error.into()));
            }
            let mut input = member.into_inner();
            match is_at_member(&mut input) {
                Ok(true) => self.member = Some(GzDecoder::new(input)),
                Ok(false) => self.end = consumed(&input),
                Err(error) => return Err(blame(input.get_mut(), error.into())),
            }
        }
        Ok(0)
    }

    fn consumed(&self) -> u64 {
        self.member.as_ref().map_or(self.end, |member| consumed(member.get_ref()))
    }
}

/// Whether another gzip member follows; otherwise reads to the end, before which only zeros may follow.
fn is_at_member(input: &mut impl BufRead) -> io::Result<bool> {
    if input.fill_buf()?.first().is_some_and(|&byte| byte != 0) {
        return Ok(true);
    }
    loop {
        let zeros = input.fill_buf()?;
        if zeros.is_empty() {
            return Ok(false);
        }
        if zeros.iter().any(|&byte| byte != 0) {
            let what = "zeros follow a member, and something else follows them";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let count = zeros.len();
        input.consume(count);
    }
}

/// The frames of a Zstandard file, decoded a block (up to 128 KiB) at a time.
///
/// The library decodes single frames; the bytes between them, and the checks at the end of a frame, are handled here.
struct ZstdFrames<R> {
    input: Compressed<R>,
    frame: FrameDecoder,
    inside: bool,
    any: bool,
    /// Bytes decompressed from the current frame.
    written: u64,
}

impl<R: Read> ZstdFrames<R> {
    fn new(input: Compressed<R>) -> Self {
        Self { input, frame: FrameDecoder::new(), inside: false, any: false, written: 0 }
    }

    fn read(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
        loop {
            if !self.inside {
                if self.input.fill_buf()?.is_empty() {
                    return if self.any { Ok(0) } else { Err("the file is empty".into()) };
                }
                self.enter_frame()?;
            } else if self.frame.can_collect() > 0 {
                let bytes = self.frame.read(buffer)?;
                self.written += bytes as u64;
                return Ok(bytes);
            } else if self.frame.is_finished() {
                self.leave_frame()?;
            } else {
                self.frame.decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))?;
            }
        }
    }

    fn enter_frame(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.any = true;
        self.written = 0;
        match self.frame.reset(&mut self.input) {
            Ok(()) => {
                self.inside = true;
                Ok(())
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                let skipped = io::copy(&mut (&mut self.input).take(length), &mut io::sink())?;
                if skipped == length {
                    Ok(())
                } else {
                    Err("a skippable frame is cut short".into())
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn leave_frame(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.inside = false;
        // The library reads both, and does not compare them. It returns 0 for a size that is not stated.
        if let Some(stated) = self.frame.get_checksum_from_data()
            && self.frame.get_calculated_checksum() != Some(stated)
        {
            return Err("the checksum of a frame does not match its content".into());
        }
        let stated = self.frame.content_size();
        if stated != 0 && stated != self.written {
            let written = self.written;
            return Err(format!("a frame of {stated} bytes gave {written}").into());
        }
        Ok(())
    }
}

impl<R> std::fmt::Debug for ZstdFrames<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdFrames").field("written", &self.written).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const BOTH: [Compression; 2] = [Compression::Gzip, Compression::Zstd];

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn compress(content: &[u8], compression: Compression) -> Vec<u8> {
        match compression {
            Compression::None => content.to_vec(),
            Compression::Gzip => gzip(content),
            Compression::Zstd => zstd(content),
        }
    }

    fn decode(packed: &[u8], compression: Compression) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Decoder::new(packed, compression);
        let (mut content, mut buffer) = (Vec::new(), [0; 1000]);
        loop {
            match decoder.read(&mut buffer)? {
                0 => return Ok(content),
                bytes => content.extend_from_slice(&buffer[..bytes]),
            }
        }
    }

    /// Compressible, but not uniform.
    fn content(bytes: usize) -> Vec<u8> {
        let words =
            (0u64..).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50).to_string() + " ");
        let mut content: Vec<u8> = words.flat_map(String::into_bytes).take(bytes).collect();
        content.extend_from_slice(b"end\n");
        content
    }

    #[test]
    fn members_and_frames_are_read_to_the_end() {
        for compression in BOTH {
            let (a, b) = (content(700_000), content(3));
            let empty = compress(b"", compression);
            let packed = [compress(&a, compression), empty, compress(&b, compression)].concat();
            assert!(decode(&packed, compression).unwrap() == [a, b].concat(), "{compression:?}");
        }
    }

    #[test]
    fn zeros_after_the_last_member_are_passed_over() {
        let (a, b) = (content(7000), content(3));
        let packed = [gzip(&a), gzip(&b)].concat();
        for zeros in [1, 7, 512, COMPRESSED_BUFFER, 3 * COMPRESSED_BUFFER + 1] {
            let padded = [&packed[..], &vec![0; zeros]].concat();
            assert!(
                decode(&padded, Compression::Gzip).unwrap() == [&a[..], &b].concat(),
                "{zeros}"
            );
            for end in [&b"x"[..], &gzip(b"more")] {
                let error = decode(&[&padded[..], end].concat(), Compression::Gzip).unwrap_err();
                assert!(
                    matches!(&error, DecodeError::Corrupt(e) if e.to_string().contains("zeros")),
                    "{error:?}"
                );
            }
        }
        // A file without any member is not gzip.
        assert!(decode(&[0; 512], Compression::Gzip).is_err());
        // Zstandard has no padding; its reference program refuses it too.
        assert!(decode(&[&zstd(&a)[..], &[0; 512]].concat(), Compression::Zstd).is_err());
    }

    #[test]
    fn skippable_frames_are_skipped() {
        let skippable = |body: &[u8]| {
            let mut frame = 0x184D_2A53u32.to_le_bytes().to_vec();
            frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
            frame.extend_from_slice(body);
            frame
        };
        let packed = [skippable(b""), zstd(b"one"), skippable(&[7; 500]), zstd(b"two")].concat();
        assert_eq!(decode(&packed, Compression::Zstd).unwrap(), b"onetwo");
        assert_eq!(decode(&skippable(b"alone"), Compression::Zstd).unwrap(), b"");

        let cut = skippable(&[7; 500]);
        let error = decode(&cut[..100], Compression::Zstd).unwrap_err();
        assert!(matches!(error, DecodeError::Corrupt(e) if e.to_string().contains("skippable")));
    }

    /// Files written by the reference programs: `zstd -19 --check` and `gzip -9` of 1000 lines.
    #[test]
    fn files_of_the_reference_programs_are_read() {
        let lines: String = (0..1000).map(|n| format!("line {n} of many\n")).collect();
        let zst = include_bytes!("testdata/lines.zst");
        assert_eq!(decode(zst, Compression::Zstd).unwrap(), lines.as_bytes());
        let gz = include_bytes!("testdata/lines.gz");
        assert_eq!(decode(gz, Compression::Gzip).unwrap(), lines.as_bytes());
    }

    #[test]
    fn a_wrong_checksum_is_seen() {
        let mut zst = include_bytes!("testdata/lines.zst").to_vec();
        *zst.last_mut().unwrap() ^= 1;
        let error = decode(&zst, Compression::Zstd).unwrap_err();
        assert!(matches!(error, DecodeError::Corrupt(e) if e.to_string().contains("checksum")));
        let mut gz = include_bytes!("testdata/lines.gz").to_vec();
        let crc = gz.len() - 8;
        gz[crc] ^= 1;
        assert!(decode(&gz, Compression::Gzip).is_err());
    }

    #[test]
    fn every_truncation_is_an_error() {
        for compression in BOTH {
            let packed = compress(&content(3000), compression);
            for length in 0..packed.len() {
                let error = decode(&packed[..length], compression);
                assert!(
                    matches!(error, Err(DecodeError::Corrupt(_))),
                    "{compression:?} cut to {length} of {}: {error:?}",
                    packed.len(),
                );
            }
            assert!(decode(&[&packed[..], b"more"].concat(), compression).is_err());
        }
    }

    #[test]
    fn a_failing_disk_is_not_taken_for_corrupt_data() {
        struct Failing<'a>(&'a [u8]);
        impl Read for Failing<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match self.0.read(buffer)? {
                    0 => Err(io::Error::other("the disk is on fire")),
                    bytes => Ok(bytes),
                }
            }
        }
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let packed = compress(&content(3000), compression);
            let mut decoder = Decoder::new(Failing(&packed[..packed.len() / 2]), compression);
            let error = loop {
                match decoder.read(&mut [0; 1000]) {
                    Ok(bytes) => assert!(bytes > 0),
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(&error, DecodeError::Io(e) if e.to_string() == "the disk is on fire"),
                "{compression:?}: {error:?}"
            );
        }
    }

    #[test]
    fn errors_name_file_and_offset() {
        let dir = tempfile::tempdir().unwrap();
        for (compression, name) in [(Compression::Gzip, "f.gz"), (Compression::Zstd, "f.zst")] {
            let path = dir.path().join(name);
            let content = content(900_000);
            let mut packed = compress(&content, compression);
            packed.truncate(packed.len() - 9);
            std::fs::write(&path, &packed).unwrap();
            let mut reader = FileReader::open(&path, compression).unwrap();
            let mut buffer = [0; 5000];
            let mut read = 0;
            let error = loop {
                assert_eq!(reader.position(), read);
                match reader.read(&mut buffer) {
                    Ok(bytes) => read += bytes as u64,
                    Err(error) => break error,
                }
            };
            assert!(read > 500_000 && read <= content.len() as u64);
            assert_eq!(error.kind(), ErrorKind::Input);
            assert_eq!(error.place(), Some(&Place::Offset(path.clone(), read)));
            assert!(error.to_string().contains("corrupt or cut short: "), "{error}");
            assert!(reader.consumed() <= packed.len() as u64);

            let gone = FileReader::open(&dir.path().join("none"), compression).unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::Io);
        }
    }

    proptest! {
        #[test]
        fn packed_files_are_unpacked(parts in prop::collection::vec(
            prop::collection::vec(prop_oneof![b'a'..b'd', any::<u8>()], 0..300), 1..4,
        )) {
            for compression in BOTH {
                let packed: Vec<u8> = parts.iter().flat_map(|p| compress(p, compression)).collect();
                prop_assert_eq!(decode(&packed, compression).unwrap(), parts.concat());
            }
        }

        /// Random bytes never cause a panic, a hang, or an end without an error.
        #[test]
        fn noise_is_survived(noise in prop::collection::vec(any::<u8>(), 0..400), with_magic in any::<bool>()) {
            for (compression, magic) in
                [(Compression::Gzip, &[0x1f, 0x8b, 8][..]), (Compression::Zstd, &[0x28, 0xb5, 0x2f, 0xfd])]
            {
                let start = if with_magic { magic } else { &[] };
                let _ = decode(&[start, &noise].concat(), compression);
            }
        }

        /// Damaged valid data get further into a decoder than random bytes do.
        #[test]
        fn damage_is_survived(
            bytes in 0..5000usize,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let content = content(bytes);
            let real = [include_bytes!("testdata/lines.zst").to_vec(), zstd(&content), gzip(&content)];
            for (packed, compression) in
                real.into_iter().zip([Compression::Zstd, Compression::Zstd, Compression::Gzip])
            {
                let mut packed = packed;
                for (index, byte) in &damage {
                    let at = index.index(packed.len());
                    packed[at] = *byte;
                }
                let _ = decode(&packed, compression);
            }
        }
    }
}
