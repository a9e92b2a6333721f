//! Divides the bytes of the input files among readers. Pure: accesses no file.

use super::paths::InputFile;

/// A range of bytes of one file, read by one reader.
///
/// A compressed file is usually one split, since it is decompressed from its start, whatever part of it is read. If
/// it is cut all the same, offsets count decompressed bytes.
///
/// The lines that *begin* in the range belong to it; see the [module](super) for why every line is then read exactly
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// The file, as an index into the list of input files.
    pub file: usize,
    /// The first byte of the range.
    pub start: u64,
    /// The offset after the last byte of the range.
    pub end: u64,
}

impl Split {
    /// The length of the range in bytes, compressed if the file is compressed.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// The offset in the file's text after the last byte; `u64::MAX` where it is not known, as of a whole compressed file.
    pub(crate) fn text_end(self, file: &InputFile) -> u64 {
        let is_whole = self.start == 0 && self.end == file.bytes;
        if is_whole && !file.compression.is_splittable() { u64::MAX } else { self.end }
    }

    /// Whether a line is read with this split that begins at this byte of the file's text.
    pub(crate) fn has_line(self, file: &InputFile, begins: u64) -> bool {
        (self.start..self.text_end(file)).contains(&begins)
    }

    /// Cuts a split that begins at the start of its file in two after `bytes` bytes, if it may have more.
    ///
    /// The second part of a compressed file has no end: its length is known only when it was read.
    pub(crate) fn cut(self, file: &InputFile, bytes: u64) -> (Self, Option<Self>) {
        let splittable = file.compression.is_splittable();
        if self.start > 0 || splittable && self.end <= bytes {
            return (self, None);
        }
        let end = if splittable { self.end } else { u64::MAX };
        (Self { end: bytes, ..self }, Some(Self { start: bytes, end, ..self }))
    }

    /// For the second part of a split, the number of bytes of the file itself in the first part: none for a
    /// compressed file, which the second part decompresses from its start.
    pub(crate) fn bytes_before(self) -> u64 {
        if self.end == u64::MAX { 0 } else { self.start }
    }
}

/// The weight of a compressed byte when loads are balanced: about the number of bytes of text that it decompresses
/// to.
const COMPRESSED_BYTE: u64 = 4;

/// Splits of nearly equal size, in the order of files and bytes, none larger than `split_bytes` except compressed
/// files.
///
/// For readers that take splits from a shared queue: a slow core then takes fewer. Choose `split_bytes` so that there
/// are many more splits than readers (4 to 16 MiB: opening costs microseconds, reading such a split milliseconds).
/// For a fixed share of the input per reader, without a queue, see [`assign_splits`].
///
/// Every byte is in exactly one split. An empty file has none, except when it is compressed: an empty compressed file
/// is an error, which its reader reports.
///
/// ```
/// use thalweg::io::files::{Compression, InputFile, Split, plan_splits};
///
/// let file = |name: &str, bytes, compression| InputFile { path: name.into(), bytes, compression };
/// let files = [file("a", 25, Compression::None), file("b.gz", 25, Compression::Gzip)];
/// let split = |file, start, end| Split { file, start, end };
/// assert_eq!(
///     plan_splits(&files, 10),
///     [split(0, 0, 9), split(0, 9, 17), split(0, 17, 25), split(1, 0, 25)],
/// );
/// ```
pub fn plan_splits(files: &[InputFile], split_bytes: u64) -> Vec<Split> {
    let mut splits = Vec::new();
    for (index, file) in files.iter().enumerate() {
        if !file.compression.is_splittable() {
            splits.push(Split { file: index, start: 0, end: file.bytes });
            continue;
        }
        let parts = file.bytes.div_ceil(split_bytes.max(1));
        // Near-equal parts rather than full ones and a small rest. The longer ones come first, so that sorting by
        // length keeps a file's splits in order.
        let mut start = 0;
        for part in 0..parts {
            let bytes = file.bytes / parts + u64::from(part < file.bytes % parts);
            splits.push(Split { file: index, start, end: start + bytes });
            start += bytes;
        }
    }
    splits
}

/// Reorders splits for a shared queue so that no long split comes last, when the other readers would wait for it.
///
/// Only whole compressed files are long; splits of equal length stay in order. A single reader
/// gains nothing from this and may prefer the order of the files.
pub fn largest_first(files: &[InputFile], splits: &mut [Split]) {
    splits.sort_by_key(|split| std::cmp::Reverse(cost(&files[split.file], split.bytes())));
}

/// The splits of each of `instances` readers, balanced by size, with as few splits as that allows.
///
/// For readers that need to know their share beforehand, in order. If the time per byte differs from core to core,
/// [`plan_splits`] and a shared queue balance better.
///
/// Compressed files are assigned whole, the largest first, each to the reader with the least load so far. The
/// remaining capacity is filled with consecutive ranges of the other files. No range is smaller than
/// `min_split_bytes` unless it is a whole file, so a reader may have up to that much more or less than its even
/// share, and small inputs leave some readers without a split.
///
/// ```
/// use thalweg::io::files::{Compression, InputFile, Split, assign_splits};
///
/// let file = |bytes| InputFile { path: "f".into(), bytes, compression: Compression::None };
/// let split = |file, start, end| Split { file, start, end };
/// assert_eq!(
///     assign_splits(&[file(100), file(20)], 2, 10),
///     [vec![split(0, 0, 60)], vec![split(0, 60, 100), split(1, 0, 20)]],
/// );
/// // Too small to be divided.
/// assert_eq!(assign_splits(&[file(15)], 2, 10), [vec![split(0, 0, 15)], vec![]]);
/// ```
pub fn assign_splits(
    files: &[InputFile],
    instances: usize,
    min_split_bytes: u64,
) -> Vec<Vec<Split>> {
    let mut shares: Vec<Vec<Split>> = vec![Vec::new(); instances];
    let mut loads = vec![0u64; instances];
    if instances == 0 {
        return shares;
    }

    let whole = |(_, file): &(usize, &InputFile)| !file.compression.is_splittable();
    let (mut wholes, divisible): (Vec<_>, Vec<_>) = files.iter().enumerate().partition(whole);
    wholes.sort_by_key(|(_, file)| std::cmp::Reverse(file.bytes));
    for (index, file) in wholes {
        let least = (0..instances).min_by_key(|&i| loads[i]).unwrap_or(0);
        shares[least].push(Split { file: index, start: 0, end: file.bytes });
        loads[least] += cost(file, file.bytes);
    }

    let rooms = rooms(&loads, divisible.iter().map(|(_, file)| file.bytes).sum());
    let min = min_split_bytes.max(1);
    let mut instance = 0;
    // The bytes that the readers up to this one should have in all, and the bytes assigned in all: with them, the
    // next reader compensates for the rounding to `min` of the one before.
    let (mut due, mut given) = (rooms[0], 0);
    for (index, file) in divisible {
        let mut start = 0;
        while start < file.bytes {
            let rest = file.bytes - start;
            let room = due.saturating_sub(given);
            let last = instance + 1 == instances;
            if !last && room < rest.min(min).div_ceil(2) {
                instance += 1;
                due += rooms[instance];
                continue;
            }
            let mut take = room.max(min);
            if last || rest.saturating_sub(take) < min {
                take = rest;
            }
            shares[instance].push(Split { file: index, start, end: start + take });
            start += take;
            given += take;
        }
    }
    shares
}

/// The host that reads each file, for hosts with so many readers each: whole files, balanced by size in proportion to
/// the readers.
///
/// Each file goes to the host on which its readers would then have the least to do. The hosts are balanced in every
/// beginning of the list, so that of files that follow one another in time all hosts read early ones first.
pub(crate) fn assign_files(files: &[InputFile], readers: &[usize]) -> Vec<usize> {
    let mut loads = vec![0u128; readers.len()];
    let mut assign = |file: &InputFile| {
        let cost = u128::from(cost(file, file.bytes).max(1));
        let able = (0..readers.len()).filter(|&host| readers[host] > 0);
        // `a / x < b / y`, in whole numbers.
        let least = able.min_by(|&a, &b| {
            let (of_a, of_b) = (loads[a] + cost, loads[b] + cost);
            (of_a * readers[b] as u128).cmp(&(of_b * readers[a] as u128))
        });
        let host = least.unwrap_or(0);
        if let Some(load) = loads.get_mut(host) {
            *load += cost;
        }
        host
    };
    files.iter().map(&mut assign).collect()
}

/// The share of each reader of `bytes`, such that the loads become as even as possible.
fn rooms(loads: &[u64], bytes: u64) -> Vec<u64> {
    let mut sorted = loads.to_vec();
    sorted.sort_unstable();
    // The level to which `bytes` fill up the lowest `k` loads, for the first `k` at which the next load is above that
    // level.
    let (mut below, mut k) = (0, 0);
    let level = loop {
        below += sorted[k];
        k += 1;
        let level = (below + bytes).div_ceil(k as u64);
        if k == sorted.len() || level <= sorted[k] {
            break level;
        }
    };
    // Rounded up, the sum of the rooms may exceed `bytes` by a few; the last reader then gets less.
    loads.iter().map(|load| level.saturating_sub(*load)).collect()
}

fn cost(file: &InputFile, bytes: u64) -> u64 {
    if file.compression.is_splittable() { bytes } else { bytes.saturating_mul(COMPRESSED_BYTE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::files::Compression;
    use proptest::prelude::*;

    fn file(bytes: u64, compression: Compression) -> InputFile {
        InputFile { path: "f".into(), bytes, compression }
    }

    fn files() -> impl Strategy<Value = Vec<InputFile>> {
        let compression = prop_oneof![3 => Just(Compression::None), 1 => Just(Compression::Gzip), 1 => Just(Compression::Zstd)];
        let bytes = prop_oneof![0..20u64, 0..2000u64];
        prop::collection::vec((bytes, compression).prop_map(|(b, c)| file(b, c)), 0..8)
    }

    #[test]
    fn files_are_balanced_between_hosts_in_the_order_of_the_list() {
        let files = |bytes: &[u64]| -> Vec<_> {
            bytes.iter().map(|bytes| file(*bytes, Compression::None)).collect()
        };
        assert_eq!(assign_files(&files(&[9; 6]), &[1, 1]), [0, 1, 0, 1, 0, 1]);
        assert_eq!(assign_files(&files(&[9; 6]), &[2, 0, 1]), [0, 0, 2, 0, 0, 2]);
        assert_eq!(assign_files(&files(&[1, 5, 4, 1]), &[1, 1]), [0, 1, 0, 0]);
        let packed =
            [file(5, Compression::Gzip), file(9, Compression::None), file(9, Compression::None)];
        assert_eq!(assign_files(&packed, &[1, 1]), [0, 1, 1]);
        assert_eq!(assign_files(&files(&[0, 0]), &[1, 1]), [0, 1]);
    }

    /// Checks that each byte is covered once, and that compressed files are whole.
    fn covers(files: &[InputFile], mut splits: Vec<Split>) {
        splits.sort_by_key(|s| (s.file, s.start));
        let mut splits = splits.into_iter().peekable();
        for (index, file) in files.iter().enumerate() {
            if !file.compression.is_splittable() {
                let whole = Split { file: index, start: 0, end: file.bytes };
                assert_eq!(splits.next(), Some(whole));
                continue;
            }
            let mut at = 0;
            while let Some(split) = splits.next_if(|s| s.file == index) {
                assert_eq!(split.start, at);
                assert!(split.end > at, "no empty split");
                at = split.end;
            }
            assert_eq!(at, file.bytes);
        }
        assert_eq!(splits.next(), None);
    }

    proptest! {
        #[test]
        fn planned_splits_cover_in_order_and_are_even(files in files(), split_bytes in 0..300u64) {
            let splits = plan_splits(&files, split_bytes);
            prop_assert!(splits.is_sorted_by_key(|s| (s.file, s.start)));
            for split in splits.iter().filter(|s| files[s.file].compression.is_splittable()) {
                prop_assert!(split.bytes() <= split_bytes.max(1));
                let whole = split.bytes() == files[split.file].bytes;
                prop_assert!(whole || split.bytes() * 2 + 1 >= split_bytes);
            }
            let mut queue = splits.clone();
            largest_first(&files, &mut queue);
            prop_assert!(queue.is_sorted_by_key(|s| std::cmp::Reverse(cost(&files[s.file], s.bytes()))));
            for file in 0..files.len() {
                let own = |splits: &[Split]| -> Vec<_> {
                    splits.iter().copied().filter(|s| s.file == file).collect()
                };
                prop_assert_eq!(own(&splits), own(&queue));
            }
            covers(&files, queue);
        }

        #[test]
        fn assigned_splits_cover_and_are_not_small(
            files in files(), instances in 1..9usize, min in 0..200u64,
        ) {
            let shares = assign_splits(&files, instances, min);
            prop_assert_eq!(shares.len(), instances);
            for split in shares.iter().flatten() {
                let whole = split.bytes() == files[split.file].bytes;
                prop_assert!(whole || split.bytes() >= min);
            }
            covers(&files, shares.concat());
        }

        #[test]
        fn assigned_shares_are_even(
            sizes in prop::collection::vec(0..3000u64, 0..8), instances in 1..9usize, min in 0..200u64,
        ) {
            let files: Vec<_> = sizes.iter().map(|&b| file(b, Compression::None)).collect();
            let even = sizes.iter().sum::<u64>() / instances as u64;
            for share in assign_splits(&files, instances, min) {
                let bytes: u64 = share.iter().map(Split::bytes).sum();
                prop_assert!(bytes <= even + 2 * min + 1, "{bytes} of {even}");
                prop_assert!(bytes + 2 * min + instances as u64 >= even, "{bytes} of {even}");
            }
        }
    }

    #[test]
    fn plain_bytes_fill_up_beside_compressed_files() {
        let files = [
            file(100, Compression::Gzip),
            file(1000, Compression::None),
            file(50, Compression::Zstd),
        ];
        // 400 and 200 from the compressed ones, and 1000 more: about 534 for each of three.
        let shares = assign_splits(&files, 3, 1);
        let loads: Vec<u64> = shares
            .iter()
            .map(|share| share.iter().map(|s| cost(&files[s.file], s.bytes())).sum())
            .collect();
        assert_eq!(loads, [534, 534, 532]);
        assert_eq!(shares[0][0], Split { file: 0, start: 0, end: 100 });
        assert_eq!(shares[0][1], Split { file: 1, start: 0, end: 134 });
    }

    #[test]
    fn a_reader_with_much_already_gets_no_more() {
        let files = [file(10_000, Compression::Gzip), file(100, Compression::None)];
        let shares = assign_splits(&files, 3, 1);
        assert_eq!(shares[0].len(), 1);
        assert_eq!(shares[1], [Split { file: 1, start: 0, end: 50 }]);
        assert_eq!(shares[2], [Split { file: 1, start: 50, end: 100 }]);
    }

    #[test]
    fn an_empty_compressed_file_is_still_looked_at() {
        let files = [file(0, Compression::None), file(0, Compression::Gzip)];
        let split = Split { file: 1, start: 0, end: 0 };
        assert_eq!(plan_splits(&files, 10), [split]);
        assert_eq!(assign_splits(&files, 2, 10), [vec![split], vec![]]);
        assert!(assign_splits(&files, 0, 10).is_empty());
    }
}
