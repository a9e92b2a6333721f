//! Splits a row into fields, 64 bytes at a time.
//!
//! Rows whose quotes enclose whole fields are split with bit masks (after Langdale and Lemire, "Parsing gigabytes of
//! JSON per second", 2019). The few others, with quotes that are doubled, escaped or within a field, are parsed byte
//! by byte into a separate buffer.
//!
//! Nothing here depends on files, lines or names of columns.

use super::Dialect;
use crate::operators::text::find64;

/// Splits rows into fields. A row is one line, even if a quote is open at its end.
pub(super) struct RowScan {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    /// The end of each field: within the row or, if it was parsed byte by byte, within `apart`. The first `fields`
    /// are in use.
    ends: Vec<u32>,
    fields: usize,
    shape: Shape,
    /// The contents of the fields of a row that was parsed byte by byte, one after the other.
    apart: String,
}

/// The form of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Its fields are slices of it.
    Plain,
    /// Its fields were copied into `apart`.
    Apart,
    /// It ends within quotes.
    Open,
}

impl RowScan {
    pub(super) fn new(dialect: &Dialect) -> Self {
        let Dialect { delimiter, quote, escape, .. } = *dialect;
        let (ends, apart) = (Vec::new(), String::new());
        Self { delimiter, quote, escape, ends, fields: 0, shape: Shape::Plain, apart }
    }

    /// Splits the first row of `text` and returns its length in bytes, without its line feed.
    #[inline]
    pub(super) fn row(&mut self, text: &str) -> (usize, Shape) {
        let bytes = text.as_bytes();
        self.fields = 0;
        // All ones if the bytes before have opened quotes.
        let mut within = 0_u64;
        // `separated` is 1 if the byte before was a delimiter, or there is none; `closed` is 1 if it was a closing
        // quote.
        let (mut separated, mut closed) = (1_u64, 0_u64);
        let mut unusual = 0_u64;
        let mut at = 0;
        let end = loop {
            let (block, valid) = block(bytes, at);
            let [delimiters, quotes, feeds] =
                find64(&block, [self.delimiter, self.quote.unwrap_or(b'\n'), b'\n']);
            let feeds = feeds & valid;
            // The mask of the bytes of this row.
            let row = if feeds == 0 { valid } else { (feeds & feeds.wrapping_neg()) - 1 };
            let quotes = quotes & row;
            let mut delimiters = delimiters & row;
            if quotes | within | closed != 0 {
                let inside = prefix_xor(quotes) ^ within;
                delimiters &= !inside;
                let (opening, closing) = (quotes & inside, quotes & !inside);
                let after_close = closing << 1 | closed;
                // An opening quote follows a delimiter, and a delimiter follows a closing quote.
                unusual |= opening & !(delimiters << 1 | separated);
                unusual |= after_close & row & !delimiters;
                within = (inside >> 63).wrapping_neg();
                closed = closing >> 63;
            }
            separated = delimiters >> 63;
            self.push_ends(delimiters, at);
            if feeds != 0 {
                break at + feeds.trailing_zeros() as usize;
            }
            if valid != u64::MAX {
                break bytes.len();
            }
            at += 64;
        };
        let mut last = end;
        if end > 0 && bytes[end - 1] == b'\r' {
            last -= 1;
        }
        self.shape = if unusual | within == 0 && (self.escape.is_none() || self.quote.is_none()) {
            self.push_end(last);
            Shape::Plain
        } else if self.take_apart(&text[..last]) {
            Shape::Open
        } else {
            Shape::Apart
        };
        (end, self.shape)
    }

    /// The number of fields of the row. An empty row has one.
    #[inline]
    pub(super) fn fields(&self) -> usize {
        self.fields
    }

    /// A field of the row that was split last, with which `row` begins; empty if there is none.
    #[inline]
    pub(super) fn field<'a>(&'a self, row: &'a str, number: usize) -> &'a str {
        if number >= self.fields {
            return "";
        }
        let end = self.ends[number] as usize;
        let before = number.checked_sub(1).map(|before| self.ends[before] as usize);
        if self.shape != Shape::Plain {
            return &self.apart[before.unwrap_or(0)..end];
        }
        let field = &row[before.map_or(0, |before| before + 1)..end];
        match self.quote {
            // A quote at the start implies one at the end.
            Some(quote) if field.as_bytes().first() == Some(&quote) => &field[1..field.len() - 1],
            _ => field,
        }
    }

    #[inline(always)]
    fn push_ends(&mut self, mut delimiters: u64, at: usize) {
        if self.ends.len() < self.fields + 64 {
            self.ends.resize((self.fields + 64) * 2, 0);
        }
        let ends = &mut self.ends[self.fields..];
        self.fields += delimiters.count_ones() as usize;
        for end in ends {
            if delimiters == 0 {
                break;
            }
            *end = at as u32 + delimiters.trailing_zeros();
            delimiters &= delimiters - 1;
        }
    }

    fn push_end(&mut self, end: usize) {
        if self.ends.len() == self.fields {
            self.ends.push(0);
        }
        self.ends[self.fields] = end as u32;
        self.fields += 1;
    }

    /// Parses the row byte by byte and returns whether it ends within quotes.
    #[cold]
    fn take_apart(&mut self, row: &str) -> bool {
        self.fields = 0;
        self.apart.clear();
        let mut chars = row.chars().peekable();
        let is = |char: char, byte: Option<u8>| byte.is_some_and(|byte| char == char::from(byte));
        let (mut at_start, mut quoted) = (true, false);
        while let Some(char) = chars.next() {
            if quoted {
                if is(char, self.escape) {
                    self.apart.extend(chars.next());
                } else if !is(char, self.quote) || chars.next_if_eq(&char).is_some() {
                    // No quote, or a doubled one.
                    self.apart.push(char);
                } else {
                    quoted = false;
                }
            } else if is(char, Some(self.delimiter)) {
                self.push_end(self.apart.len());
                at_start = true;
                continue;
            } else if at_start && is(char, self.quote) {
                quoted = true;
            } else {
                self.apart.push(char);
            }
            at_start = false;
        }
        self.push_end(self.apart.len());
        quoted
    }
}

/// The next 64 bytes, padded with zeros, and a mask of the bytes that exist.
#[inline(always)]
fn block(bytes: &[u8], at: usize) -> ([u8; 64], u64) {
    let rest = &bytes[at..];
    if let Some(block) = rest.first_chunk::<64>() {
        return (*block, u64::MAX);
    }
    let mut block = [0; 64];
    block[..rest.len()].copy_from_slice(rest);
    (block, (1 << rest.len()) - 1)
}

/// Sets each bit to the parity of all bits up to it.
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for distance in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << distance;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::super::Csv;
    use super::*;
    use proptest::prelude::*;

    /// The fields of each row, and whether the row's quotes are closed.
    fn cut(csv: &Csv, text: &str) -> Vec<(Vec<String>, bool)> {
        let mut scan = RowScan::new(&csv.dialect);
        let (mut rows, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (bytes, shape) = scan.row(rest);
            let fields = (0..scan.fields()).map(|at| scan.field(rest, at).to_owned()).collect();
            rows.push((fields, shape != Shape::Open));
            rest = rest.get(bytes + 1..).unwrap_or_default();
        }
        rows
    }

    fn oracle(csv: &Csv, line: &str) -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .quoting(csv.dialect.quote.is_some())
            .quote(csv.dialect.quote.unwrap_or(b'"'))
            .escape(csv.dialect.escape)
            .delimiter(csv.dialect.delimiter)
            .from_reader(line.as_bytes());
        let mut rows = reader.records();
        rows.next()
            .map_or(vec![String::new()], |row| row.unwrap().iter().map(str::to_owned).collect())
    }

    proptest! {
        #[test]
        fn rows_as_the_crate_reads_them(
            lines in prop::collection::vec("([a-cü\" ]{0,12}[,;]|\"[a-c,ü]{0,30}\",){0,12}[a\"\\\\]{0,3}", 1..5),
            carriage in any::<bool>(), dialect in 0..4,
        ) {
            let csv = match dialect {
                0 => Csv::new("f"),
                1 => Csv::new("f").quote(None),
                2 => Csv::new("f").escape(Some(b'\\')),
                _ => Csv::new("f").delimiter(b';').quote(Some(b'a')),
            };
            let end = if carriage { "\r\n" } else { "\n" };
            let text = lines.join(end);
            let rows = cut(&csv, &text);
            // An empty line at the end is not a row.
            prop_assert!(rows.len() == lines.len() || lines.last().unwrap().is_empty());
            for (line, (fields, closed)) in lines.iter().zip(rows) {
                if closed {
                    prop_assert_eq!(fields, oracle(&csv, line), "{}", line);
                } else {
                    prop_assert!(line.contains(['"', 'a']));
                }
            }
        }
    }

    #[test]
    fn what_a_row_looks_like() {
        let shape = |text: &str| RowScan::new(&Csv::new("f").dialect).row(text);
        assert_eq!(shape("a,\"b, c\",d\nx"), (10, Shape::Plain));
        assert_eq!(shape("\"\"\n"), (2, Shape::Plain));
        assert_eq!(shape("a,\"b \"\"c\"\"\"\n"), (11, Shape::Apart));
        assert_eq!(shape("a,5\" pipe\n"), (9, Shape::Apart));
        assert_eq!(shape("a,\"b\nc\"\n"), (4, Shape::Open));
        for long in [62, 63, 64, 65, 127, 128, 129] {
            let field = "x".repeat(long);
            let text = format!("\"{field}\",\"{field},\",\"");
            assert_eq!(shape(&text), (text.len(), Shape::Open));
            let text = format!("\"{field}\",\"{field},\",\"\"\n");
            assert_eq!(shape(&text), (text.len() - 1, Shape::Plain), "{long}");
        }
    }
}
