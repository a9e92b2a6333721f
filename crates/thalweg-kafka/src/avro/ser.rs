//! Encodes serde values by a schema, straight into bytes.

use super::de::decode;
use super::decimal;
use super::fault::Fault;
use super::plan::Plan;
use super::schema::{
    Decimal, Field, FixedKind, Id, MAX_DEPTH, Record, Schema, Type, short, write_bytes, write_long,
};
use serde::ser::{self, Serialize, Serializer};
use std::sync::LazyLock;

/// Appends a value. What is there after an error is a part of it.
pub(super) fn encode<T: Serialize + ?Sized>(
    schema: &Schema,
    value: &T,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    value.serialize(Encoder { schema, id: schema.root, out, depth: 0 })
}

/// Schemas by which keys of maps, and bytes one by one, become text and numbers.
static TEXT: LazyLock<Schema> = LazyLock::new(|| plain("\"string\""));
static LONG: LazyLock<Schema> = LazyLock::new(|| plain("\"long\""));

fn plain(text: &str) -> Schema {
    Schema::parse(text, &[]).unwrap_or_else(|fault| unreachable!("{fault}"))
}

/// What serde has, to choose the branch of a union by.
#[derive(Clone, Copy)]
enum Kind<'v> {
    Unit,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text(&'v str),
    Bytes(usize),
    List,
    Map,
    Struct(&'static str),
    /// A variant of a Rust enum without content.
    Symbol(&'static str),
}

impl Kind<'_> {
    /// How well a type fits; less is better.
    fn rank(self, schema: &Schema, id: Id) -> Option<u8> {
        let has_symbol = |symbol: &str| match schema.get(id) {
            Type::Enum(of) => of.symbols.iter().any(|other| other == symbol),
            _ => false,
        };
        Some(match (self, schema.get(id)) {
            (Self::Unit, Type::Null)
            | (Self::Boolean, Type::Boolean)
            | (Self::Int, Type::Int)
            | (Self::Long, Type::Long)
            | (Self::Float, Type::Float)
            | (Self::Double, Type::Double)
            | (Self::Text(_), Type::String)
            | (Self::Bytes(_), Type::Bytes(_))
            | (Self::List, Type::Array(_))
            | (Self::Map, Type::Map(_)) => 0,
            (Self::Bytes(length), Type::Fixed(_, size, _)) if *size == length => 1,
            (Self::Int, Type::Long) | (Self::Long, Type::Int) => 1,
            (Self::Int | Self::Long, Type::Double) => 2,
            (Self::Int | Self::Long, Type::Float) => 3,
            (Self::Float, Type::Double) | (Self::Double, Type::Float) => 1,
            (
                Self::Int | Self::Long | Self::Float | Self::Double | Self::Text(_),
                Type::Bytes(Some(_)) | Type::Fixed(_, _, FixedKind::Decimal(_)),
            ) => 4,
            (Self::Text(symbol), Type::Enum(_)) if has_symbol(symbol) => 1,
            (Self::Text(_), Type::Fixed(_, _, FixedKind::Uuid)) => 2,
            (Self::List, Type::Bytes(_)) => 1,
            (Self::List, Type::Fixed(..)) => 2,
            (Self::Map, Type::Record(_)) => 1,
            (Self::Struct(name), Type::Record(of)) if of.name.short() == name => 0,
            (Self::Struct(_), Type::Record(_)) => 1,
            (Self::Struct(_), Type::Map(_)) => 2,
            (Self::Symbol(symbol), Type::Enum(_)) if has_symbol(symbol) => 0,
            (Self::Symbol(symbol), Type::Null) if symbol.eq_ignore_ascii_case("null") => 1,
            (Self::Symbol(_), Type::String) => 2,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Unit => "nothing",
            Self::Boolean => "a boolean",
            Self::Int | Self::Long => "an integer",
            Self::Float | Self::Double => "a floating-point number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Struct(_) => "a struct",
            Self::Symbol(_) => "a variant of a Rust enum",
        }
    }
}

struct Encoder<'a> {
    schema: &'a Schema,
    id: Id,
    out: &'a mut Vec<u8>,
    /// How many lists, maps and records it is in.
    depth: usize,
}

impl<'a> Encoder<'a> {
    /// The depth of what is within: no deeper than decoders read.
    fn within(&self) -> Result<usize, Fault> {
        match self.depth < MAX_DEPTH {
            true => Ok(self.depth + 1),
            false => Err(Fault::new(format!(
                "it is nested too deeply: more than {MAX_DEPTH} lists, maps and records"
            ))),
        }
    }

    /// Chooses the branch, where the type is a union.
    #[inline]
    fn settle(&mut self, kind: Kind<'_>) -> Result<&'a Type, Fault> {
        let schema = self.schema;
        let Type::Union(branches) = schema.get(self.id) else { return Ok(schema.get(self.id)) };
        let ranks = branches.iter().enumerate();
        let ranks = ranks.filter_map(|(index, id)| Some((kind.rank(schema, *id)?, index, *id)));
        let (_, index, id) = ranks.min().ok_or_else(|| self.misfit(kind))?;
        write_long(self.out, index as i64);
        self.id = id;
        Ok(schema.get(id))
    }

    #[cold]
    fn misfit(&self, kind: Kind<'_>) -> Fault {
        let expected = match self.schema.get(self.id) {
            Type::Union(branches) => {
                let labels: Vec<_> = branches.iter().map(|id| self.schema.label(*id)).collect();
                format!("union of {}", labels.join(", "))
            }
            _ => self.schema.label(self.id).to_owned(),
        };
        Fault::new(format!("{} is no {expected}", kind.name()))
    }

    fn integer(mut self, value: i128, kind: Kind<'_>) -> Result<(), Fault> {
        let kind_of = self.settle(kind)?;
        let misfit =
            || Fault::new(format!("{value} does not fit the {}", self.schema.label(self.id)));
        match kind_of {
            Type::Int => {
                write_long(self.out, i32::try_from(value).map_err(|_| misfit())?.into());
            }
            Type::Long => write_long(self.out, i64::try_from(value).map_err(|_| misfit())?),
            Type::Double if value as f64 as i128 == value => {
                self.out.extend((value as f64).to_le_bytes());
            }
            Type::Float if value as f32 as i128 == value => {
                self.out.extend((value as f32).to_le_bytes());
            }
            Type::Bytes(Some(decimal)) | Type::Fixed(_, _, FixedKind::Decimal(decimal)) => {
                let factor = 10_i128.checked_pow(decimal.scale);
                let unscaled = factor.and_then(|factor| value.checked_mul(factor));
                return self.decimal(unscaled, &value.to_string(), *decimal);
            }
            Type::Double | Type::Float => return Err(misfit()),
            _ => return Err(self.misfit(kind)),
        }
        Ok(())
    }

    fn decimal(self, unscaled: Option<i128>, text: &str, of: Decimal) -> Result<(), Fault> {
        let Decimal { precision, scale } = of;
        let fits = |value: &i128| value.unsigned_abs().to_string().len() <= precision;
        let misfit = || {
            Fault::new(format!(
                "`{text}` is no decimal of {precision} digits, {scale} of them behind the point"
            ))
        };
        let bytes = decimal::bytes(unscaled.filter(fits).ok_or_else(misfit)?);
        match self.schema.get(self.id) {
            Type::Fixed(_, size, _) => {
                let filler = size.checked_sub(bytes.len()).ok_or_else(misfit)?;
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
                self.out.extend(std::iter::repeat_n(sign, filler));
                self.out.extend(bytes);
            }
            _ => write_bytes(self.out, &bytes),
        }
        Ok(())
    }

    /// The encoder of the branch of a union that is called like a variant.
    fn branch(mut self, variant: &'static str) -> Result<Self, Fault> {
        let Type::Union(branches) = self.schema.get(self.id) else {
            let what = format!(
                "the variant `{variant}` has content, which takes a union and not a {}",
                self.schema.label(self.id)
            );
            return Err(Fault::new(what));
        };
        // Full names count before names, and these before names in other letters.
        let find =
            |is: &dyn Fn(&str) -> bool| branches.iter().position(|id| is(self.schema.label(*id)));
        let index = find(&|label| label == variant)
            .or_else(|| find(&|label| short(label) == variant))
            .or_else(|| find(&|label| short(label).eq_ignore_ascii_case(variant)))
            .ok_or_else(|| {
                Fault::new(format!(
                    "the union has no branch that is called like the variant `{variant}`"
                ))
            })?;
        write_long(self.out, index as i64);
        self.id = branches[index];
        Ok(self)
    }

    fn list(mut self, length: Option<usize>) -> Result<List<'a>, Fault> {
        let kind = self.settle(Kind::List)?;
        match kind {
            Type::Array(items) => {
                let depth = self.within()?;
                let Self { schema, out, .. } = self;
                let begin = out.len();
                // The number of items goes before them, once it is known.
                let known = length.filter(|length| *length > 0);
                if let Some(length) = known {
                    write_long(out, length as i64);
                }
                Ok(List::Array { schema, items: *items, out, depth, begin, known, count: 0 })
            }
            Type::Bytes(_) | Type::Fixed(..) => Ok(List::Bytes(self, Vec::new())),
            _ => Err(self.misfit(Kind::List)),
        }
    }

    fn pairs(mut self, kind: Kind<'_>) -> Result<Pairs<'a>, Fault> {
        match self.settle(kind)? {
            Type::Record(of) => {
                let depth = self.within()?;
                let Self { schema, out, .. } = self;
                let fields = Fields { schema, of, out, depth, next: 0, early: Vec::new() };
                Ok(Pairs::Record(fields, None))
            }
            Type::Map(items) => {
                let depth = self.within()?;
                let begin = self.out.len();
                let Self { schema, out, .. } = self;
                Ok(Pairs::Map { schema, items: *items, out, depth, begin, count: 0 })
            }
            _ => Err(self.misfit(kind)),
        }
    }
}

impl<'a> Serializer for Encoder<'a> {
    type Ok = ();
    type Error = Fault;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = List<'a>;
    type SerializeMap = Pairs<'a>;
    type SerializeStruct = Pairs<'a>;
    type SerializeStructVariant = Pairs<'a>;

    fn serialize_bool(mut self, value: bool) -> Result<(), Fault> {
        match self.settle(Kind::Boolean)? {
            Type::Boolean => self.out.push(u8::from(value)),
            _ => return Err(self.misfit(Kind::Boolean)),
        }
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Fault> {
        self.serialize_i32(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Fault> {
        self.serialize_i32(value.into())
    }

    fn serialize_i32(mut self, value: i32) -> Result<(), Fault> {
        match self.settle(Kind::Int)? {
            Type::Int | Type::Long => {
                write_long(self.out, value.into());
                Ok(())
            }
            _ => self.integer(value.into(), Kind::Int),
        }
    }

    fn serialize_i64(mut self, value: i64) -> Result<(), Fault> {
        match self.settle(Kind::Long)? {
            Type::Long => {
                write_long(self.out, value);
                Ok(())
            }
            _ => self.integer(value.into(), Kind::Long),
        }
    }

    fn serialize_i128(self, value: i128) -> Result<(), Fault> {
        self.integer(value, Kind::Long)
    }

    fn serialize_u8(self, value: u8) -> Result<(), Fault> {
        self.serialize_i32(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Fault> {
        self.serialize_i32(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Fault> {
        self.serialize_i64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Fault> {
        self.integer(value.into(), Kind::Long)
    }

    fn serialize_u128(self, value: u128) -> Result<(), Fault> {
        let fits = i128::try_from(value);
        self.integer(fits.map_err(|_| Fault::new(format!("{value} is too large")))?, Kind::Long)
    }

    fn serialize_f32(mut self, value: f32) -> Result<(), Fault> {
        match self.settle(Kind::Float)? {
            Type::Float => self.out.extend(value.to_le_bytes()),
            Type::Double => self.out.extend(f64::from(value).to_le_bytes()),
            Type::Bytes(Some(of)) | Type::Fixed(_, _, FixedKind::Decimal(of)) => {
                let text = value.to_string();
                return self.decimal(decimal::parse(&text, of.scale), &text, *of);
            }
            _ => return Err(self.misfit(Kind::Float)),
        }
        Ok(())
    }

    fn serialize_f64(mut self, value: f64) -> Result<(), Fault> {
        match self.settle(Kind::Double)? {
            Type::Double => self.out.extend(value.to_le_bytes()),
            Type::Float if f64::from(value as f32) == value || value.is_nan() => {
                self.out.extend((value as f32).to_le_bytes());
            }
            Type::Float => return Err(Fault::new(format!("{value} does not fit a float"))),
            Type::Bytes(Some(of)) | Type::Fixed(_, _, FixedKind::Decimal(of)) => {
                let text = value.to_string();
                return self.decimal(decimal::parse(&text, of.scale), &text, *of);
            }
            _ => return Err(self.misfit(Kind::Double)),
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Fault> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(mut self, value: &str) -> Result<(), Fault> {
        match self.settle(Kind::Text(value))? {
            Type::String => write_bytes(self.out, value.as_bytes()),
            Type::Enum(of) => match of.symbols.iter().position(|symbol| symbol == value) {
                Some(index) => write_long(self.out, index as i64),
                None => {
                    let what = format!("the enum {} has no symbol `{value}`", of.name.full);
                    return Err(Fault::new(what));
                }
            },
            Type::Bytes(Some(of)) | Type::Fixed(_, _, FixedKind::Decimal(of)) => {
                return self.decimal(decimal::parse(value, of.scale), value, *of);
            }
            Type::Fixed(_, _, FixedKind::Uuid) => match uuid(value) {
                Some(bytes) => self.out.extend(bytes),
                None => return Err(Fault::new(format!("`{value}` is no UUID"))),
            },
            _ => return Err(self.misfit(Kind::Text(value))),
        }
        Ok(())
    }

    fn serialize_bytes(mut self, value: &[u8]) -> Result<(), Fault> {
        match self.settle(Kind::Bytes(value.len()))? {
            Type::Bytes(_) => write_bytes(self.out, value),
            Type::Fixed(_, size, _) if *size == value.len() => self.out.extend_from_slice(value),
            Type::Fixed(name, size, _) => {
                let what = format!("{} bytes are no {} of {size}", value.len(), name.full);
                return Err(Fault::new(what));
            }
            _ => return Err(self.misfit(Kind::Bytes(value.len()))),
        }
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_unit(mut self) -> Result<(), Fault> {
        match self.settle(Kind::Unit)? {
            Type::Null => Ok(()),
            _ => Err(self.misfit(Kind::Unit)),
        }
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Fault> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Fault> {
        match self.settle(Kind::Symbol(variant))? {
            Type::Null => Ok(()),
            _ => self.serialize_str(variant),
        }
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Fault> {
        value.serialize(self.branch(variant)?)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<List<'a>, Fault> {
        self.list(length)
    }

    fn serialize_tuple(self, length: usize) -> Result<List<'a>, Fault> {
        self.list(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, length: usize) -> Result<List<'a>, Fault> {
        self.list(Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<List<'a>, Fault> {
        self.branch(variant)?.list(Some(length))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Pairs<'a>, Fault> {
        self.pairs(Kind::Map)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Pairs<'a>, Fault> {
        self.pairs(Kind::Struct(name))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Pairs<'a>, Fault> {
        self.branch(variant)?.pairs(Kind::Struct(variant))
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

/// A list that is being written.
enum List<'a> {
    Array {
        schema: &'a Schema,
        items: Id,
        out: &'a mut Vec<u8>,
        depth: usize,
        begin: usize,
        known: Option<usize>,
        count: usize,
    },
    /// What serde makes of `Vec<u8>` and `[u8; N]`.
    Bytes(Encoder<'a>, Vec<u8>),
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        match self {
            Self::Array { schema, items, out, depth, count, .. } => {
                *count += 1;
                value.serialize(Encoder { schema, id: *items, out, depth: *depth })
            }
            Self::Bytes(_, bytes) => {
                bytes.push(byte(value)?);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), Fault> {
        match self {
            Self::Array { out, begin, known, count, .. } => {
                match known {
                    None if count > 0 => put_count(out, begin, count),
                    Some(known) if known != count => {
                        let what = format!("a list of {known} items has {count}");
                        return Err(Fault::new(what));
                    }
                    _ => {}
                }
                out.push(0);
                Ok(())
            }
            Self::Bytes(encoder, bytes) => encoder.serialize_bytes(&bytes),
        }
    }
}

/// Puts the number of items before them.
fn put_count(out: &mut Vec<u8>, begin: usize, count: usize) {
    let mut number = Vec::new();
    write_long(&mut number, count as i64);
    out.splice(begin..begin, number);
}

fn byte<T: Serialize + ?Sized>(value: &T) -> Result<u8, Fault> {
    let mut out = Vec::new();
    encode(&LONG, value, &mut out)?;
    // Zigzag: twice the number.
    let number = match out[..] {
        [low] if low & 1 == 0 => u16::from(low) / 2,
        [low, high] if low & 1 == 0 => (u16::from(low & 0x7f) | u16::from(high) << 7) / 2,
        _ => u16::MAX,
    };
    u8::try_from(number).map_err(|_| Fault::new("bytes are written of a list of bytes alone"))
}

macro_rules! lists {
    ($($of:ident $item:ident),*) => {$(
        impl ser::$of for List<'_> {
            type Ok = ();
            type Error = Fault;

            fn $item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
                self.item(value)
            }

            fn end(self) -> Result<(), Fault> {
                self.finish()
            }
        }
    )*};
}

lists!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// Names and values that are being written.
enum Pairs<'a> {
    Map {
        schema: &'a Schema,
        items: Id,
        out: &'a mut Vec<u8>,
        depth: usize,
        begin: usize,
        count: usize,
    },
    /// With the key that has come without its value.
    Record(Fields<'a>, Option<String>),
}

/// The fields of a record. They are written in the schema's order: those that come before their turn wait.
struct Fields<'a> {
    schema: &'a Schema,
    of: &'a Record,
    out: &'a mut Vec<u8>,
    depth: usize,
    next: usize,
    early: Vec<(usize, Vec<u8>)>,
}

impl<'a> Fields<'a> {
    fn put<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Fault> {
        let (schema, depth) = (self.schema, self.depth);
        let within = |fault: Fault| fault.within(name);
        match self.of.fields.get(self.next) {
            Some(field) if field.name == name => {
                let encoder = Encoder { schema, id: field.kind, out: self.out, depth };
                value.serialize(encoder).map_err(within)?;
                self.next += 1;
                self.catch_up();
                Ok(())
            }
            _ => {
                let (index, field) = self.find(name)?;
                let mut out = Vec::new();
                let encoder = Encoder { schema, id: field.kind, out: &mut out, depth };
                value.serialize(encoder).map_err(within)?;
                self.early.push((index, out));
                Ok(())
            }
        }
    }

    fn find(&self, name: &str) -> Result<(usize, &'a Field), Fault> {
        let found = self.of.fields.iter().enumerate().find(|(_, field)| field.name == name);
        let (index, field) = found.ok_or_else(|| {
            Fault::new(format!("the schema's {} has no field `{name}`", self.of.name.full))
        })?;
        if index < self.next || self.early.iter().any(|(other, _)| *other == index) {
            return Err(Fault::new(format!("the field `{name}` comes twice")));
        }
        Ok((index, field))
    }

    /// Writes those that have waited until now.
    fn catch_up(&mut self) {
        while let Some(at) = self.early.iter().position(|(index, _)| *index == self.next) {
            let (_, bytes) = self.early.swap_remove(at);
            self.out.extend(bytes);
            self.next += 1;
        }
    }

    fn default(&mut self, field: &Field) -> Result<Vec<u8>, Fault> {
        match &field.default {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err(what)) => Err(Fault::new(what).within(&field.name)),
            None => {
                let what = "the value does not have it, and the schema has no default";
                Err(Fault::new(what).within(&field.name))
            }
        }
    }

    /// Leaves a field to its default. One that the schema does not have is left out, as the value asks.
    fn skip(&mut self, name: &str) -> Result<(), Fault> {
        if self.of.fields.iter().all(|field| field.name != name) {
            return Ok(());
        }
        let (index, field) = self.find(name)?;
        let bytes = self.default(field)?;
        self.early.push((index, bytes));
        self.catch_up();
        Ok(())
    }

    fn finish(mut self) -> Result<(), Fault> {
        let of = self.of;
        while let Some(field) = of.fields.get(self.next) {
            let bytes = self.default(field)?;
            self.out.extend(bytes);
            self.next += 1;
            self.catch_up();
        }
        Ok(())
    }
}

impl Pairs<'_> {
    fn pair<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Fault> {
        match self {
            Self::Record(fields, _) => fields.put(name, value),
            Self::Map { schema, items, out, depth, count, .. } => {
                *count += 1;
                write_bytes(out, name.as_bytes());
                value.serialize(Encoder { schema, id: *items, out, depth: *depth })
            }
        }
    }

    fn skip(&mut self, name: &str) -> Result<(), Fault> {
        match self {
            Self::Record(fields, _) => fields.skip(name),
            Self::Map { .. } => Ok(()),
        }
    }

    fn finish(self) -> Result<(), Fault> {
        match self {
            Self::Record(fields, _) => fields.finish(),
            Self::Map { out, begin, count, .. } => {
                if count > 0 {
                    put_count(out, begin, count);
                }
                out.push(0);
                Ok(())
            }
        }
    }
}

impl ser::SerializeMap for Pairs<'_> {
    type Ok = ();
    type Error = Fault;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Fault> {
        match self {
            Self::Map { out, count, .. } => {
                *count += 1;
                encode(&TEXT, key, out)
            }
            Self::Record(_, name) => {
                let mut text = Vec::new();
                encode(&TEXT, key, &mut text)?;
                *name = Some(decode(&Plan::of(&TEXT), &text)?);
                Ok(())
            }
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Fault> {
        match self {
            Self::Map { schema, items, out, depth, .. } => {
                value.serialize(Encoder { schema, id: *items, out, depth: *depth })
            }
            Self::Record(fields, name) => {
                let name =
                    name.take().ok_or_else(|| Fault::new("a value comes without its key"))?;
                fields.put(&name, value)
            }
        }
    }

    fn end(self) -> Result<(), Fault> {
        self.finish()
    }
}

macro_rules! structs {
    ($($of:ident),*) => {$(
        impl ser::$of for Pairs<'_> {
            type Ok = ();
            type Error = Fault;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Fault> {
                self.pair(name, value)
            }

            fn skip_field(&mut self, name: &'static str) -> Result<(), Fault> {
                self.skip(name)
            }

            fn end(self) -> Result<(), Fault> {
                self.finish()
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);
