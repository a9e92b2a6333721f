//! Decodes values straight into serde types, by a [`Plan`]: no tree of values in between, and text and bytes are borrowed
//! from the record.

use super::decimal;
use super::fault::Fault;
use super::plan::{Branch, Fields, Label, Node, Number, Plan};
use super::schema::{Id, MAX_DEPTH, short};
use serde::de::value::{BorrowedBytesDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, Visitor};
use std::fmt::Write as _;

/// How many values without bytes may be in the lists and the records without bytes of what is decoded: their number is all
/// there is of them.
const MAX_EMPTY: u64 = 1 << 20;
/// The most for which memory is reserved in advance.
const MAX_RESERVED: u64 = 4096;

/// Decodes a value, which must be all of the bytes.
pub(super) fn decode<'de, T: de::Deserialize<'de>>(
    plan: &Plan,
    bytes: &'de [u8],
) -> Result<T, Fault> {
    let mut input = Input { rest: bytes, record: Some(bytes), depth: 0, empty: 0 };
    let value = T::deserialize(Decoder { plan, input: &mut input, node: plan.root, label: None })?;
    match input.rest.len() {
        0 => Ok(value),
        more => Err(Fault::new(format!("{more} bytes follow the value"))),
    }
}

/// What is left to decode: of a record, or of a default, which does not live as long.
struct Input<'de, 'p> {
    rest: &'p [u8],
    record: Option<&'de [u8]>,
    depth: usize,
    /// How many values without bytes there have been.
    empty: u64,
}

/// Bytes of a record, or of a default.
enum Part<'de, 'p> {
    Record(&'de [u8]),
    Default(&'p [u8]),
}

impl<'de, 'p> Input<'de, 'p> {
    #[inline]
    fn take(&mut self, length: usize) -> Result<&'p [u8], Fault> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(cut_off()),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn long(&mut self) -> Result<i64, Fault> {
        // Most numbers are short.
        let (&first, rest) = self.rest.split_first().ok_or_else(cut_off)?;
        if first < 0x80 {
            self.rest = rest;
            return Ok(i64::from(first >> 1) ^ -i64::from(first & 1));
        }
        self.long_of_several()
    }

    fn long_of_several(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().enumerate() {
            let shift = 7 * index as u32;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        match self.rest.len() {
            0..10 => Err(cut_off()),
            _ => Err(Fault::new("a number has more than 64 bits")),
        }
    }

    #[inline]
    fn int(&mut self) -> Result<i32, Fault> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Fault::new(format!("{value} is no int")))
    }

    fn boolean(&mut self) -> Result<bool, Fault> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Fault::new(format!("the byte {other} is no boolean"))),
        }
    }

    #[inline]
    fn length(&mut self) -> Result<usize, Fault> {
        let length = self.long()?;
        usize::try_from(length).map_err(|_| Fault::new(format!("{length} is no length")))
    }

    #[inline]
    fn part(&mut self, length: usize) -> Result<Part<'de, 'p>, Fault> {
        let Some(record) = self.record else { return self.take(length).map(Part::Default) };
        let begin = record.len() - self.rest.len();
        self.take(length)?;
        Ok(Part::Record(&record[begin..begin + length]))
    }

    fn enter(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(Fault::new("it is nested too deeply")),
            false => Ok(()),
        }
    }

    /// Counts values that take no bytes, which the record's length does not limit.
    fn count_empty(&mut self, count: u64) -> Result<(), Fault> {
        self.empty = self.empty.saturating_add(count);
        match self.empty > MAX_EMPTY {
            true => Err(Fault::new(format!(
                "it is too large: more than {MAX_EMPTY} of its values take no bytes"
            ))),
            false => Ok(()),
        }
    }

    fn index<T>(&mut self, all: &[T]) -> Result<usize, Fault> {
        let index = self.long()?;
        let known = usize::try_from(index).ok().filter(|index| *index < all.len());
        known.ok_or_else(|| Fault::new(format!("there is no number {index} of {}", all.len())))
    }

    /// As deep as what is decoded, for which unions do not count either.
    fn skip(&mut self, plan: &Plan, id: Id) -> Result<(), Fault> {
        if plan.is_empty(id) {
            return Ok(());
        }
        match plan.get(id) {
            Node::Null => Ok(()),
            Node::Boolean => self.boolean().map(drop),
            Node::Number(Number::Int | Number::Long, _) | Node::Enum(_) => self.long().map(drop),
            Node::Number(Number::Float, _) => self.take(4).map(drop),
            Node::Number(Number::Double, _) => self.take(8).map(drop),
            Node::Bytes | Node::Text | Node::Decimal(None, _) => {
                let length = self.length()?;
                self.take(length).map(drop)
            }
            Node::Decimal(Some(size), _) | Node::Fixed(size) => self.take(*size).map(drop),
            Node::Uuid => self.take(16).map(drop),
            Node::Array(items) => self.skip_blocks(plan, *items, false),
            Node::Map(items) => self.skip_blocks(plan, *items, true),
            Node::Record(fields) => {
                self.enter()?;
                for (_, field) in &fields.written {
                    self.skip(plan, *field)?;
                }
                self.depth -= 1;
                Ok(())
            }
            Node::Union(branches) => {
                let index = self.index(branches)?;
                self.skip(plan, branches[index].node)
            }
            Node::Chosen(branch) => self.skip(plan, branch.node),
            Node::Misfit(what) => Err(Fault::new(what)),
        }
    }

    fn skip_blocks(&mut self, plan: &Plan, items: Id, has_keys: bool) -> Result<(), Fault> {
        self.enter()?;
        let mut blocks = Blocks::new(plan, items, has_keys);
        while let Some((_, bytes)) = blocks.begin(self)? {
            if let Some(bytes) = bytes {
                self.take(bytes)?;
                blocks.left = 0;
                continue;
            }
            for _ in 0..blocks.left {
                if has_keys {
                    let length = self.length()?;
                    self.take(length)?;
                }
                self.skip(plan, items)?;
            }
            blocks.left = 0;
        }
        self.depth -= 1;
        Ok(())
    }
}

#[cold]
fn cut_off() -> Fault {
    Fault::new("its bytes end too early")
}

/// The blocks of an array or a map.
struct Blocks {
    left: u64,
    is_over: bool,
    /// Whether items take bytes, so that there cannot be more of them than bytes.
    has_bytes: bool,
}

impl Blocks {
    fn new(plan: &Plan, items: Id, has_keys: bool) -> Self {
        let has_bytes = has_keys || !plan.is_empty(items);
        Self { left: 0, is_over: false, has_bytes }
    }

    /// Begins a block: its number of items, and of bytes if it says so.
    fn begin(&mut self, input: &mut Input<'_, '_>) -> Result<Option<(u64, Option<usize>)>, Fault> {
        if self.is_over {
            return Ok(None);
        }
        let count = input.long()?;
        if count == 0 {
            self.is_over = true;
            return Ok(None);
        }
        let bytes = if count < 0 { Some(input.length()?) } else { None };
        self.left = count.unsigned_abs();
        if !self.has_bytes {
            input.count_empty(self.left)?;
        } else if self.left > input.rest.len() as u64 {
            return Err(Fault::new(format!("a block of {} items is too large", self.left)));
        }
        Ok(Some((self.left, bytes)))
    }

    /// Whether there is another item.
    #[inline]
    fn advance(&mut self, input: &mut Input<'_, '_>) -> Result<bool, Fault> {
        if self.left == 0 && self.begin(input)?.is_none() {
            return Ok(false);
        }
        self.left -= 1;
        Ok(true)
    }

    fn end(&mut self, input: &mut Input<'_, '_>) -> Result<(), Fault> {
        match self.advance(input)? {
            true => Err(Fault::new("it has more items than expected")),
            false => Ok(()),
        }
    }
}

struct Decoder<'a, 'de, 'p> {
    plan: &'a Plan,
    input: &'a mut Input<'de, 'p>,
    node: Id,
    /// What the branch of the union is called that it is in.
    label: Option<&'a Label>,
}

impl<'a, 'de, 'p> Decoder<'a, 'de, 'p> {
    /// Goes to the branch of a union that is there.
    #[inline]
    fn settle(&mut self) -> Result<&'a Node, Fault> {
        loop {
            let Branch { label, node } = match self.plan.get(self.node) {
                Node::Union(branches) => &branches[self.input.index(branches)?],
                Node::Chosen(branch) => branch,
                node => return Ok(node),
            };
            self.node = *node;
            self.label = label.as_ref();
        }
    }

    fn number<V: Visitor<'de>>(
        self,
        from: Number,
        to: Number,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let whole = match from {
            Number::Int => i64::from(self.input.int()?),
            Number::Long => self.input.long()?,
            Number::Float => {
                let value = f32::from_le_bytes(self.input.array()?);
                return match to {
                    Number::Double => visitor.visit_f64(value.into()),
                    _ => visitor.visit_f32(value),
                };
            }
            Number::Double => {
                return visitor.visit_f64(f64::from_le_bytes(self.input.array()?));
            }
        };
        match to {
            Number::Int => visitor.visit_i32(whole as i32),
            Number::Long => visitor.visit_i64(whole),
            Number::Float => visitor.visit_f32(whole as f32),
            Number::Double => visitor.visit_f64(whole as f64),
        }
    }

    /// Bytes of a type that is read as something else if it is not read as bytes.
    fn raw(&mut self, size: Option<usize>) -> Result<Part<'de, 'p>, Fault> {
        let length = match size {
            Some(size) => size,
            None => self.input.length()?,
        };
        self.input.part(length)
    }

    fn unscaled(&mut self, size: Option<usize>) -> Result<i128, Fault> {
        let (Part::Record(bytes) | Part::Default(bytes)) = self.raw(size)?;
        decimal::integer(bytes)
    }

    /// An integer, which may be a decimal without a fraction.
    fn integer<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.settle()? {
            Node::Decimal(size, 0) => {
                let value = self.unscaled(*size)?;
                // A `u64` takes no `i128` of serde's.
                match (i64::try_from(value), u64::try_from(value)) {
                    (Ok(value), _) => visitor.visit_i64(value),
                    (_, Ok(value)) => visitor.visit_u64(value),
                    _ => visitor.visit_i128(value),
                }
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn floating<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.settle()? {
            Node::Decimal(size, scale) => {
                let text = decimal::text(self.unscaled(*size)?, *scale);
                visitor.visit_f64(text.parse().map_err(|_| Fault::new("it is no number"))?)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    /// As bytes, if the type is one that is written so.
    fn as_bytes(&mut self) -> Result<Option<Part<'de, 'p>>, Fault> {
        match self.settle()? {
            Node::Bytes | Node::Text => self.raw(None).map(Some),
            Node::Decimal(size, _) => self.raw(*size).map(Some),
            Node::Fixed(size) => self.raw(Some(*size)).map(Some),
            Node::Uuid => self.raw(Some(16)).map(Some),
            _ => Ok(None),
        }
    }

    /// The variant that text or a symbol is the name of. It remains to be read.
    fn said(&mut self, node: &'a Node, variants: &'static [&'static str]) -> Option<&'static str> {
        let rest = self.input.rest;
        let find = |said: &[u8]| variants.iter().copied().find(|of| of.as_bytes() == said);
        let found = match node {
            Node::Enum(symbols) => {
                self.symbol(symbols).ok().and_then(|symbol| find(symbol.as_bytes()))
            }
            Node::Text => match self.raw(None) {
                Ok(Part::Record(bytes) | Part::Default(bytes)) => find(bytes),
                Err(_) => None,
            },
            _ => None,
        };
        self.input.rest = rest;
        found
    }

    fn symbol(&mut self, symbols: &'a [Result<String, String>]) -> Result<&'a str, Fault> {
        match &symbols[self.input.index(symbols)?] {
            Ok(symbol) => Ok(symbol),
            Err(symbol) => Err(Fault::new(format!(
                "the reader's enum has no symbol `{symbol}`, and no default"
            ))),
        }
    }
}

impl<'de> Deserializer<'de> for Decoder<'_, 'de, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.settle()? {
            Node::Null => visitor.visit_unit(),
            Node::Boolean => visitor.visit_bool(self.input.boolean()?),
            Node::Number(from, to) => self.number(*from, *to, visitor),
            Node::Text => match self.raw(None)? {
                Part::Record(bytes) => visitor.visit_borrowed_str(utf8(bytes)?),
                Part::Default(bytes) => visitor.visit_str(utf8(bytes)?),
            },
            Node::Bytes => visit_bytes(self.raw(None)?, visitor),
            Node::Fixed(size) => visit_bytes(self.raw(Some(*size))?, visitor),
            Node::Decimal(size, scale) => {
                visitor.visit_string(decimal::text(self.unscaled(*size)?, *scale))
            }
            Node::Uuid => visitor.visit_string(uuid(self.input.array()?)),
            Node::Enum(symbols) => visitor.visit_str(self.symbol(symbols)?),
            Node::Array(items) => {
                let blocks = Blocks::new(self.plan, *items, false);
                let mut list = List { plan: self.plan, input: self.input, items: *items, blocks };
                list.input.enter()?;
                let value = visitor.visit_seq(&mut list)?;
                list.blocks.end(list.input)?;
                list.input.depth -= 1;
                Ok(value)
            }
            Node::Map(items) => {
                let blocks = Blocks::new(self.plan, *items, true);
                let mut list = List { plan: self.plan, input: self.input, items: *items, blocks };
                list.input.enter()?;
                let value = visitor.visit_map(&mut list)?;
                list.blocks.end(list.input)?;
                list.input.depth -= 1;
                Ok(value)
            }
            Node::Record(fields) => {
                let mut reading = Reading { plan: self.plan, input: self.input, fields, next: 0 };
                reading.input.enter()?;
                if reading.plan.is_empty(self.node) {
                    reading.input.count_empty(fields.written.len() as u64)?;
                }
                let value = visitor.visit_map(&mut reading)?;
                let seen = reading.next.min(fields.written.len());
                for (_, field) in &fields.written[seen..] {
                    self.input.skip(self.plan, *field)?;
                }
                self.input.depth -= 1;
                Ok(value)
            }
            Node::Misfit(what) => Err(Fault::new(what)),
            Node::Union(_) | Node::Chosen(_) => Err(Fault::new("a union is within a union")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.settle()? {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        match self.as_bytes()? {
            Some(part) => visit_bytes(part, visitor),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        if matches!(self.settle()?, Node::Text) {
            return self.deserialize_any(visitor);
        }
        // What serde makes of `Vec<u8>` and `[u8; N]`.
        match self.as_bytes()? {
            Some(Part::Record(bytes) | Part::Default(bytes)) => {
                let mut all = de::value::SeqDeserializer::new(bytes.iter().copied());
                let value = visitor.visit_seq(&mut all)?;
                all.end()?;
                Ok(value)
            }
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let node = self.settle()?;
        if let Some(label) = self.label
            && let Some(variant) = variant_of(&label.name, variants)
        {
            let other = self.said(node, variants).filter(|said| *said != variant);
            let is_text = matches!(node, Node::Text);
            if !other.is_some_and(|said| names_variant(said, is_text, label, variants)) {
                return visitor.visit_enum(Variant { variant, other, content: self });
            }
        }
        match node {
            Node::Enum(symbols) => {
                let symbol = self.symbol(symbols)?;
                visitor.visit_enum(symbol.into_deserializer())
            }
            Node::Text => match self.raw(None)? {
                Part::Record(bytes) | Part::Default(bytes) => {
                    visitor.visit_enum(utf8(bytes)?.into_deserializer())
                }
            },
            _ => match self.label {
                Some(Label { name, .. }) => {
                    let what = format!("the union has a {name}, of which there is no variant");
                    Err(Fault::new(what))
                }
                None => Err(Fault::new("a Rust enum is read of enums, text and unions alone")),
            },
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.input.skip(self.plan, self.node)?;
        visitor.visit_unit()
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.integer(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.floating(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.floating(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool char str string unit unit_struct map struct identifier
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| Fault::new(format!("its text is no UTF-8: {error}")))
}

fn visit_bytes<'de, V: Visitor<'de>>(part: Part<'de, '_>, visitor: V) -> Result<V::Value, Fault> {
    match part {
        Part::Record(bytes) => BorrowedBytesDeserializer::new(bytes).deserialize_any(visitor),
        Part::Default(bytes) => visitor.visit_bytes(bytes),
    }
}

fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Text accepts all that is written to it.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The variant that is called like a branch: with its full name, its name, or that in other letters (`long` and `Long`).
fn variant_of(label: &str, variants: &'static [&'static str]) -> Option<&'static str> {
    let find = |is: &dyn Fn(&str) -> bool| variants.iter().copied().find(|variant| is(variant));
    find(&|variant| variant == label)
        .or_else(|| find(&|variant| variant == short(label)))
        .or_else(|| find(&|variant| variant.eq_ignore_ascii_case(short(label))))
}

/// Whether text or a symbol in a union is a variant without content, though the branch is called like another one. The
/// two cannot be told apart by the Rust type: in a union of one branch besides null, an enum is what is written there; in
/// one of several branches, it is the union itself if it has a variant for each of them, or one that is called exactly like
/// the branch.
fn names_variant(
    said: &str,
    is_text: bool,
    label: &Label,
    variants: &'static [&'static str],
) -> bool {
    let mut others = label.among.iter().filter(|name| *name != "null");
    let count = others.clone().count();
    if count == 1 {
        // The variant of null is written as null, not as text.
        let has_null = count < label.among.len();
        return !(is_text && has_null && said.eq_ignore_ascii_case("null"));
    }
    let is_exact = variants.contains(&label.name.as_str());
    !is_exact && !others.all(|name| variant_of(name, variants).is_some())
}

/// An array or a map.
struct List<'a, 'de, 'p> {
    plan: &'a Plan,
    input: &'a mut Input<'de, 'p>,
    items: Id,
    blocks: Blocks,
}

impl<'de> de::SeqAccess<'de> for &mut List<'_, 'de, '_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        if !self.blocks.advance(self.input)? {
            return Ok(None);
        }
        let (plan, node) = (self.plan, self.items);
        seed.deserialize(Decoder { plan, input: self.input, node, label: None }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        (self.blocks.left > 0).then_some(self.blocks.left.min(MAX_RESERVED) as usize)
    }
}

impl<'de> de::MapAccess<'de> for &mut List<'_, 'de, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        if !self.blocks.advance(self.input)? {
            return Ok(None);
        }
        let length = self.input.length()?;
        match self.input.part(length)? {
            Part::Record(bytes) => {
                seed.deserialize(de::value::BorrowedStrDeserializer::new(utf8(bytes)?)).map(Some)
            }
            Part::Default(bytes) => {
                seed.deserialize(StrDeserializer::<Fault>::new(utf8(bytes)?)).map(Some)
            }
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let (plan, node) = (self.plan, self.items);
        seed.deserialize(Decoder { plan, input: self.input, node, label: None })
    }
}

/// A record.
struct Reading<'a, 'de, 'p> {
    plan: &'a Plan,
    input: &'a mut Input<'de, 'p>,
    fields: &'a Fields,
    /// The next field: those that were written, and then those that were added.
    next: usize,
}

impl<'de> de::MapAccess<'de> for &mut Reading<'_, 'de, '_> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Fields { written, added } = self.fields;
        while let Some((name, node)) = written.get(self.next) {
            if let Some(name) = name {
                return seed.deserialize(StrDeserializer::<Fault>::new(name)).map(Some);
            }
            self.input.skip(self.plan, *node)?;
            self.next += 1;
        }
        match added.get(self.next - written.len()) {
            Some((name, ..)) => seed.deserialize(StrDeserializer::<Fault>::new(name)).map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Fields { written, added } = self.fields;
        let (plan, at) = (self.plan, self.next);
        self.next += 1;
        if let Some((name, node)) = written.get(at) {
            let decoder = Decoder { plan, input: self.input, node: *node, label: None };
            return seed.deserialize(decoder).map_err(|fault| within(fault, name.as_deref()));
        }
        let (name, node, bytes) = &added[at - written.len()];
        let mut input =
            Input { rest: bytes, record: None, depth: self.input.depth, empty: self.input.empty };
        let decoder = Decoder { plan, input: &mut input, node: *node, label: None };
        seed.deserialize(decoder).map_err(|fault| within(fault, Some(name)))
    }
}

#[cold]
fn within(fault: Fault, field: Option<&str>) -> Fault {
    match field {
        Some(field) => fault.within(field),
        None => fault,
    }
}

/// A branch of a union, as a variant of a Rust enum.
struct Variant<'a, 'de, 'p> {
    variant: &'static str,
    /// Another variant, whose name is what is written in the branch.
    other: Option<&'static str>,
    content: Decoder<'a, 'de, 'p>,
}

/// What is in the branch.
struct Content<'a, 'de, 'p> {
    decoder: Decoder<'a, 'de, 'p>,
    other: Option<&'static str>,
}

impl<'a, 'de, 'p> de::EnumAccess<'de> for Variant<'a, 'de, 'p> {
    type Error = Fault;
    type Variant = Content<'a, 'de, 'p>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self::Variant), Fault> {
        let variant = seed.deserialize(StrDeserializer::<Fault>::new(self.variant))?;
        // What is in the branch is no branch any more.
        let decoder = Decoder { label: None, ..self.content };
        Ok((variant, Content { decoder, other: self.other }))
    }
}

impl<'de> de::VariantAccess<'de> for Content<'_, 'de, '_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        if let Some(other) = self.other {
            let what = format!("`{other}` may be a variant, or text in a branch of the union");
            return Err(Fault::new(what));
        }
        self.decoder.input.skip(self.decoder.plan, self.decoder.node)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.decoder.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.decoder.deserialize_any(visitor)
    }
}
