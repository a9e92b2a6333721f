//! Values of an older version of a program, encoded anew as values of this one.
//!
//! A [`Migration`] is found from two schemas, that of the bytes and that of the program, as Avro resolves the schemas of a writer
//! and a reader: fields and variants have the same meaning if they have the same name, or if the one of the program was called so
//! before. It turns the bytes of each value into those of the other schema, and knows no type.
//!
//! What changes is what loses nothing that the program still has a place for: a field is added with its default, removed, moved or
//! renamed; a number becomes wider; a value becomes optional; a variant is added, moved or renamed. All else is refused, with the
//! place.

use super::codec::{
    DecodeError, Level, derive_support::read_varint, derive_support::write_varint, read_len, take,
};
use super::schema::{Evolution, Field, Schema};
use std::cell::Cell;

/// How the values of one schema become those of another.
#[derive(Debug)]
pub(crate) struct Migration {
    /// Steps refer to others by number, since types may contain themselves.
    steps: Vec<Step>,
    root: usize,
    changes: Vec<String>,
    /// How many bytes elements have got so far that had none.
    grown: Cell<usize>,
}

/// How a value is read and written.
#[derive(Debug)]
enum Step {
    /// So many bytes are the same.
    Same(usize),
    /// Text or bytes.
    Bytes,
    /// An integer becomes a wider one.
    Widened {
        from: usize,
        to: usize,
        signed: bool,
    },
    /// A float of four bytes becomes one of eight.
    Float,
    /// The value becomes an optional one.
    Some(usize),
    Option(usize),
    List(usize),
    Array(usize, usize),
    /// Keys and values, in the order of the encoded keys.
    Map(usize, usize),
    /// A type that contains itself: its step.
    Again(usize),
    /// Fields one after the other.
    Fields(Fields),
    /// For each variant its new index, and its content.
    Enum(Vec<(u64, usize)>),
    /// Not known yet, of a type that is being looked at.
    Open,
}

#[derive(Debug)]
struct Fields {
    /// How each is read, in the order of the bytes.
    read: Vec<usize>,
    /// What is written: a field that was read, by its number, or a default.
    write: Vec<Result<usize, Vec<u8>>>,
}

impl Fields {
    /// Whether the fields are written in the order in which they are read.
    fn are_in_order(&self) -> bool {
        self.write.len() == self.read.len()
            && self.write.iter().enumerate().all(|(at, field)| *field == Ok(at))
    }
}

impl Migration {
    /// How values that were encoded by one schema become those of another. Those that go `by_key`, tuples of a key and more, keep
    /// the hash of the key.
    ///
    /// # Errors
    ///
    /// The place that cannot be changed so, and why.
    pub(crate) fn find(from: &Schema, to: &Schema, by_key: bool) -> Result<Self, String> {
        let mut finder = Finder::default();
        let root = match (from, to) {
            (Schema::Tuple(from), Schema::Tuple(to)) if by_key => finder.entry(from, to)?,
            _ => {
                finder.keeps_hash = by_key;
                finder.step(from, to)?
            }
        };
        Ok(Self { steps: finder.steps, root, changes: finder.changes, grown: Cell::new(0) })
    }

    /// What is different, each in a few words.
    pub(crate) fn changes(&self) -> &[String] {
        &self.changes
    }

    /// Reads a value from the front of `input`, and appends its new encoding.
    ///
    /// # Errors
    ///
    /// If the bytes are not a value of the schema that the migration is from.
    pub(crate) fn apply(&self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        self.step(self.root, input, out)
    }

    /// Values may be nested deeply: this has no variables of its own.
    fn step(&self, at: usize, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        match &self.steps[at] {
            Step::Same(bytes) => same(*bytes, input, out),
            Step::Bytes => bytes(input, out),
            Step::Widened { from, to, signed } => widened((*from, *to), *signed, input, out),
            Step::Float => float(input, out),
            Step::Some(value) => {
                out.push(1);
                self.step(*value, input, out)
            }
            Step::Again(step) => self.again(*step, input, out),
            Step::Option(value) => self.option(*value, input, out),
            Step::List(item) => self.list(*item, input, out),
            Step::Array(item, length) => self.items(*item, *length, input, out),
            Step::Map(key, value) => self.entries((*key, *value), input, out),
            Step::Fields(fields) if fields.are_in_order() => {
                fields.read.iter().try_for_each(|field| self.step(*field, input, out))
            }
            Step::Fields(fields) => self.fields(fields, input, out),
            Step::Enum(variants) => self.variant(variants, input, out),
            Step::Open => Err(DecodeError::invalid("of a known type")),
        }
    }

    fn again(&self, step: usize, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let _level = Level::enter()?;
        self.step(step, input, out)
    }

    fn option(
        &self,
        value: usize,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let index = read_varint(input)?;
        write_varint(index, out);
        match index {
            0 => Ok(()),
            1 => self.step(value, input, out),
            _ => Err(DecodeError::variant("Option", index)),
        }
    }

    fn list(&self, item: usize, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let length = read_len(input)?;
        write_varint(length as u64, out);
        match self.steps[item] {
            Step::Same(bytes) => same(bytes.saturating_mul(length), input, out),
            _ => self.items(item, length, input, out),
        }
    }

    fn fields(
        &self,
        Fields { read, write }: &Fields,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let (mut values, mut ends) = (Vec::new(), vec![0]);
        for field in read {
            self.step(*field, input, &mut values)?;
            ends.push(values.len());
        }
        for field in write {
            out.extend_from_slice(match field {
                Ok(at) => &values[ends[*at]..ends[at + 1]],
                Err(default) => default,
            });
        }
        Ok(())
    }

    fn variant(
        &self,
        variants: &[(u64, usize)],
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let index = read_varint(input)?;
        let variant = usize::try_from(index).ok().and_then(|at| variants.get(at));
        let (new, content) =
            variant.ok_or_else(|| DecodeError::variant("the type of the state", index))?;
        write_varint(*new, out);
        self.step(*content, input, out)
    }

    fn items(
        &self,
        item: usize,
        length: usize,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        for _ in 0..length {
            let (before, start) = (input.len(), out.len());
            self.step(item, input, out)?;
            if input.len() == before {
                return self.repeat(start, length, out);
            }
        }
        Ok(())
    }

    /// Repeats the element from `start` on, so that there are `length`: one that is read from no bytes is as all others.
    fn repeat(&self, start: usize, length: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let element = out[start..].to_vec();
        let grown = self.grown.get().saturating_add(element.len().saturating_mul(length));
        if grown > MOST_NEW {
            return Err(DecodeError::invalid("such that lists get at most 256 MiB by the change"));
        }
        self.grown.set(grown);
        out.truncate(start);
        out.extend(element.repeat(length));
        Ok(())
    }

    /// Entries of a map or set, whose order may be another one afterwards.
    fn entries(
        &self,
        (key, value): (usize, usize),
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let length = read_len(input)?;
        write_varint(length as u64, out);
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for _ in 0..length {
            let (start, before) = (bytes.len(), input.len());
            self.step(key, input, &mut bytes)?;
            let middle = bytes.len();
            self.step(value, input, &mut bytes)?;
            // Keys are different, so that one at most has no bytes.
            if input.len() == before && length > 1 {
                return Err(DecodeError::invalid("a map or set of different keys"));
            }
            entries.push((start..middle, middle..bytes.len()));
        }
        entries.sort_unstable_by(|(a, _), (b, _)| bytes[a.clone()].cmp(&bytes[b.clone()]));
        for (key, value) in entries {
            out.extend_from_slice(&bytes[key]);
            out.extend_from_slice(&bytes[value]);
        }
        Ok(())
    }
}

/// The most bytes that elements get which had none, in all values together: the input does not limit them.
const MOST_NEW: usize = 1 << 28;

fn same(length: usize, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    out.extend_from_slice(take(input, length)?);
    Ok(())
}

fn bytes(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let length = read_len(input)?;
    write_varint(length as u64, out);
    same(length, input, out)
}

fn widened(
    (from, to): (usize, usize),
    signed: bool,
    input: &mut &[u8],
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let bytes = take(input, from)?;
    let is_negative = signed && bytes.last().is_some_and(|last| *last >= 0x80);
    out.extend_from_slice(bytes);
    out.resize(out.len() + to - from, if is_negative { 0xff } else { 0 });
    Ok(())
}

fn float(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(take(input, 4)?);
    out.extend_from_slice(&f64::from(f32::from_le_bytes(bytes)).to_le_bytes());
    Ok(())
}

/// Finds a migration.
#[derive(Default)]
struct Finder<'s> {
    steps: Vec<Step>,
    changes: Vec<String>,
    /// The types that are being looked at: the names in both schemas, and their step.
    open: Vec<(&'s str, &'s str, usize)>,
    /// Where it looks.
    path: Vec<&'s str>,
    /// Whether the values must keep their hash.
    keeps_hash: bool,
    /// Whether different values must stay different, as keys of a map or elements of a set.
    keeps_apart: bool,
    /// Steps of types that have themselves in such keys or elements.
    in_own_keys: Vec<usize>,
    /// Whether the values are dropped.
    drops: bool,
}

/// Finds the step of a named type from its parts in both schemas.
type FindParts<'s> = fn(&mut Finder<'s>, &'s [Field], &'s [Field]) -> Result<Step, String>;

/// A named type: its name, its parts and its former names.
type Named<'s> = (&'s str, &'s [Field], &'s Evolution);

impl<'s> Finder<'s> {
    fn add(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// The place, for messages.
    fn place(&self) -> String {
        match self.path.is_empty() {
            true => "the value".to_owned(),
            false => format!("`{}`", self.path.join(".")),
        }
    }

    fn refuse<T>(&self, why: impl std::fmt::Display) -> Result<T, String> {
        Err(format!("{} {why}", self.place()))
    }

    fn changed(&mut self, what: impl std::fmt::Display) {
        let change = format!("{} {what}", self.place());
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// Notes a change after which a key would have another hash.
    fn changes_hash(&mut self, what: String) -> Result<(), String> {
        if self.keeps_hash {
            return self.refuse(format!(
                "{what}, and it belongs to a key, which would then be another one"
            ));
        }
        self.changed(what);
        Ok(())
    }

    /// An entry of a key: a tuple that begins with the key.
    fn entry(&mut self, from: &'s [Schema], to: &'s [Schema]) -> Result<usize, String> {
        if from.len() != to.len() {
            return self.refuse(format!("had {} parts, and has {}", from.len(), to.len()));
        }
        let mut read = Vec::new();
        for (at, (from, to)) in from.iter().zip(to).enumerate() {
            self.keeps_hash = at == 0;
            read.push(self.step(from, to)?);
        }
        Ok(self.fields(read))
    }

    fn fields(&mut self, read: Vec<usize>) -> usize {
        let write = (0..read.len()).map(Ok).collect();
        self.add(Step::Fields(Fields { read, write }))
    }

    fn step(&mut self, from: &'s Schema, to: &'s Schema) -> Result<usize, String> {
        use Schema as S;
        if let (Some((width, kind)), Some((new, new_kind))) = (integer(from), integer(to)) {
            return self.number((width, kind), (new, new_kind), (from, to));
        }
        let step = match (from, to) {
            (S::Bool, S::Bool) => Step::Same(1),
            (S::Char | S::F32, S::Char | S::F32) if from == to => Step::Same(4),
            (S::F64, S::F64) => Step::Same(8),
            (S::Unit, S::Unit) => Step::Same(0),
            (S::F32, S::F64) => {
                self.changed("becomes a f64, from f32");
                Step::Float
            }
            (S::Str, S::Str) | (S::Bytes, S::Bytes) => Step::Bytes,
            (S::Option(from), S::Option(to)) => Step::Option(self.step(from, to)?),
            (_, S::Option(to))
                if !matches!(from, S::Recursive(_)) || matches!(**to, S::Recursive(_)) =>
            {
                self.changes_hash("becomes optional".to_owned())?;
                Step::Some(self.step(from, to)?)
            }
            (S::List(from), S::List(to)) => Step::List(self.item(from, to)?),
            (S::Array(from, length), S::Array(to, new)) if length == new => {
                Step::Array(self.item(from, to)?, *length)
            }
            (S::Map(key, value), S::Map(new_key, new_value)) => {
                Step::Map(self.apart(key, new_key)?, self.item(value, new_value)?)
            }
            (S::Set(from), S::Set(to)) => Step::Map(self.apart(from, to)?, self.add(Step::Same(0))),
            (S::Tuple(from), S::Tuple(to)) if from.len() == to.len() => {
                let read = from.iter().zip(to).map(|(from, to)| self.step(from, to));
                let read = read.collect::<Result<_, _>>()?;
                return Ok(self.fields(read));
            }
            (
                S::Struct { name, fields, evolution },
                S::Struct { name: new, fields: to, evolution: was },
            ) => return self.named((name, fields, evolution), (new, to, was), Self::structure),
            (
                S::Enum { name, variants, evolution },
                S::Enum { name: new, variants: to, evolution: was },
            ) => return self.named((name, variants, evolution), (new, to, was), Self::variants),
            (S::Recursive(from), S::Recursive(to)) => return self.enclosing(from, to),
            (S::Columns(_), S::Columns(_)) => {
                return self.refuse("has rows held by column, which are not looked into");
            }
            _ => return self.refuse(format!("was `{from}`, and is `{to}`")),
        };
        Ok(self.add(step))
    }

    /// An item of a collection. Those of keys stay as they are: some collections of bytes have hashes of their own.
    fn item(&mut self, from: &'s Schema, to: &'s Schema) -> Result<usize, String> {
        if self.keeps_hash && from != to {
            return self.refuse("has other items, and belongs to a key");
        }
        self.step(from, to)
    }

    /// A key of a map, or an element of a set.
    fn apart(&mut self, from: &'s Schema, to: &'s Schema) -> Result<usize, String> {
        let before = std::mem::replace(&mut self.keeps_apart, true);
        let step = self.item(from, to);
        self.keeps_apart = before;
        step
    }

    fn number(
        &mut self,
        (width, signed): (usize, bool),
        (new, new_signed): (usize, bool),
        (from, to): (&Schema, &Schema),
    ) -> Result<usize, String> {
        let is_wider = new > width && (new_signed || !signed);
        if (width, signed) == (new, new_signed) {
            return Ok(self.add(Step::Same(width)));
        }
        if !is_wider {
            return self.refuse(format!("was `{from}`, which is not always a `{to}`"));
        }
        // Equal numbers have the same hash, whatever their width, but for those above 63 bits as signed ones.
        if self.keeps_hash && (width, signed) == (8, false) && new_signed {
            return self.refuse(format!("was `{from}`, and as `{to}` a key may have another hash"));
        }
        self.changed(format!("becomes a {to}, from {from}"));
        Ok(self.add(Step::Widened { from: width, to: new, signed }))
    }

    /// A type with a name, which may contain itself.
    fn named(
        &mut self,
        (name, from, _): Named<'s>,
        (new, to, was): Named<'s>,
        find: FindParts<'s>,
    ) -> Result<usize, String> {
        if name != new {
            if !was.was(name) {
                return self.refuse(format!(
                    "was a `{name}`, and is a `{new}`: `#[data(alias = \"{name}\")]` on `{new}` says that it is the same type"
                ));
            }
            self.changed(format!("is a `{new}`, formerly `{name}`"));
        }
        let step = self.add(Step::Open);
        self.open.push((name, new, step));
        let is_root = self.path.is_empty();
        if is_root {
            self.path.push(new);
        }
        let mut found = find(self, from, to);
        if found.is_ok() && !self.keeps_apart && self.in_own_keys.contains(&step) {
            self.keeps_apart = true;
            found = find(self, from, to);
            self.keeps_apart = false;
        }
        if is_root {
            self.path.pop();
        }
        self.open.pop();
        self.steps[step] = found?;
        Ok(step)
    }

    /// The type of these names that is being looked at.
    fn enclosing(&mut self, from: &str, to: &str) -> Result<usize, String> {
        let drops = self.drops;
        let is_of = |(name, new, _): &&(&str, &str, usize)| *name == from || !drops && *new == to;
        let mut all = self.open.iter().rev().filter(is_of);
        match (all.next(), all.next()) {
            (Some((name, new, step)), None) if *name == from && (drops || *new == to) => {
                let step = *step;
                if self.keeps_apart && !drops {
                    self.in_own_keys.push(step);
                }
                Ok(self.add(Step::Again(step)))
            }
            (Some(_), Some(_)) => {
                self.refuse(format!("is within several types that are called `{from}` or `{to}`"))
            }
            _ => self.refuse(format!("was the enclosing `{from}`, and is the enclosing `{to}`")),
        }
    }

    fn structure(&mut self, from: &'s [Field], to: &'s [Field]) -> Result<Step, String> {
        self.by_name(from, to).map(Step::Fields)
    }

    fn by_name(&mut self, from: &'s [Field], to: &'s [Field]) -> Result<Fields, String> {
        let places = self.places(from, to)?;
        let mut read = Vec::new();
        for (at, field) in from.iter().enumerate() {
            let new = places.iter().position(|place| *place == Some(at));
            self.path.push(new.map_or(&field.name, |new| &to[new].name));
            read.push(match new {
                Some(new) => self.step(&field.schema, &to[new].schema)?,
                None => {
                    if self.keeps_apart {
                        return self.refuse(
                            "is dropped, and two keys of a map or elements of a set could become one",
                        );
                    }
                    self.changes_hash("is dropped".to_owned())?;
                    // Read as what it was.
                    let (changes, drops) = (self.changes.len(), self.drops);
                    self.drops = true;
                    let step = self.step(&field.schema, &field.schema)?;
                    self.drops = drops;
                    self.changes.truncate(changes);
                    step
                }
            });
            self.path.pop();
        }
        let mut write = Vec::new();
        for (field, place) in to.iter().zip(places) {
            self.path.push(&field.name);
            let was = place.map(|at| &*from[at].name).filter(|was| *was != field.name);
            if let Some(was) = was {
                self.changed(format!("was called `{was}`"));
            }
            let default = || field.evolution.default_bytes();
            write.push(match (place, place.is_none().then(default).flatten()) {
                (Some(at), _) => Ok(at),
                (None, Some(default)) => {
                    self.changes_hash("is added, with its default".to_owned())?;
                    Err(default)
                }
                (None, None) => {
                    return self.refuse(
                        "is new, and has no default: `#[data(default)]` gives it one, and `#[data(alias = \"…\")]` its former \
                         name",
                    );
                }
            });
            self.path.pop();
        }
        let kept: Vec<_> = write.iter().filter_map(|field| field.as_ref().ok()).collect();
        if !kept.is_sorted() {
            self.changes_hash("has its fields in another order".to_owned())?;
        }
        Ok(Fields { read, write })
    }

    /// What each field or variant was, if it was there.
    fn places(&self, from: &[Field], to: &[Field]) -> Result<Vec<Option<usize>>, String> {
        let places = to.iter().map(|field| self.former(from, to, field));
        let places: Vec<_> = places.collect::<Result<_, _>>()?;
        for (at, place) in places.iter().enumerate() {
            let Some(place) = *place else { continue };
            if let Some(other) = places[..at].iter().position(|other| *other == Some(place)) {
                let (name, other, was) = (&to[at].name, &to[other].name, &from[place].name);
                return self.refuse(format!("has `{other}` and `{name}`, which were both `{was}`"));
            }
        }
        Ok(places)
    }

    /// The field or variant that another one was: of its name, or of a former one. Where both are there it is not known which.
    fn former(&self, from: &[Field], to: &[Field], field: &Field) -> Result<Option<usize>, String> {
        let place = |of: &[Field], name: &str| of.iter().position(|other| other.name == name);
        let own = place(from, &field.name);
        let was = |old: &&Field| field.evolution.was(&old.name) && old.name != field.name;
        let mut former = from.iter().filter(was);
        let (Some(old), other) = (former.next(), former.next()) else { return Ok(own) };
        let (name, was) = (&field.name, &old.name);
        if own.is_some() || other.is_some() {
            let other = other.map_or(name, |other| &other.name);
            return self.refuse(format!(
                "had both `{was}` and `{other}`, and `{name}` has the alias `{was}`: it is not known which of them it is"
            ));
        }
        if place(to, was).is_some() {
            return self.refuse(format!(
                "has both `{was}` and `{name}` with the alias `{was}`: it is not known which of them was `{was}`"
            ));
        }
        Ok(place(from, was))
    }

    fn variants(&mut self, from: &'s [Field], to: &'s [Field]) -> Result<Step, String> {
        let places = self.places(from, to)?;
        for (variant, _) in to.iter().zip(&places).filter(|(_, place)| place.is_none()) {
            self.changed(format!("has a new variant `{}`", variant.name));
        }
        let mut all = Vec::new();
        for (at, variant) in from.iter().enumerate() {
            let Some(new) = places.iter().position(|place| *place == Some(at)) else {
                return self.refuse(format!(
                    "has no variant `{}` any more: values of it would be lost",
                    variant.name
                ));
            };
            let name = &to[new].name;
            if *name != variant.name {
                self.changed(format!("has a variant `{name}`, formerly `{}`", variant.name));
            }
            if new != at {
                self.changes_hash(format!("has its variant `{name}` in another place"))?;
            }
            self.path.push(name);
            // The name of the content is the variant's, whose other names are with it.
            let fields = match (&variant.schema, &to[new].schema) {
                (Schema::Struct { fields, .. }, Schema::Struct { fields: to, .. }) => {
                    Some((&**fields, &**to))
                }
                (Schema::Unit, Schema::Struct { fields, .. }) => Some((&[][..], &**fields)),
                (Schema::Struct { fields, .. }, Schema::Unit) => Some((&**fields, &[][..])),
                _ => None,
            };
            let content = match fields {
                Some((from, to)) => {
                    let fields = self.by_name(from, to)?;
                    self.add(Step::Fields(fields))
                }
                None => self.step(&variant.schema, &to[new].schema)?,
            };
            self.path.pop();
            all.push((new as u64, content));
        }
        Ok(Step::Enum(all))
    }
}

/// The bytes of an integer, and whether it has a sign.
fn integer(schema: &Schema) -> Option<(usize, bool)> {
    Some(match schema {
        Schema::I8 => (1, true),
        Schema::I16 => (2, true),
        Schema::I32 => (4, true),
        Schema::I64 => (8, true),
        Schema::I128 => (16, true),
        Schema::U8 => (1, false),
        Schema::U16 => (2, false),
        Schema::U32 => (4, false),
        Schema::U64 => (8, false),
        Schema::U128 => (16, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
