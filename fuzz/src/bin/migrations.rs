//! Types of states and entries from bytes, as an old or a hostile checkpoint may have them: an entry is shown as valid JSON or
//! refused, and what is migrated to another type is an entry of that type.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use thalweg::check::{migrated, shown};
use thalweg::data::{Evolution, Field, Schema};

/// The names of fields, variants and types: so few that they meet.
const NAMES: [&str; 8] = ["0", "1", "a", "b", "A", "B", "", "\"}\u{1}"];

/// What the types are made by; nothing is changed any more where it is over.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or_default()
    }

    fn of(&mut self, count: u8) -> u8 {
        self.next() % count
    }

    fn name(&mut self) -> String {
        NAMES[usize::from(self.of(8))].to_owned()
    }

    /// A type, nested no deeper.
    fn schema(&mut self, depth: u32) -> Schema {
        use Schema as S;
        let inner = |choices: &mut Self| Box::new(choices.schema(depth.saturating_sub(1)));
        match if depth == 0 { self.of(19) } else { self.of(29) } {
            0 => S::U8,
            1 => S::Unit,
            2 => S::Bool,
            3 => S::I8,
            4 => S::I16,
            5 => S::I32,
            6 => S::I64,
            7 => S::I128,
            8 => S::U16,
            9 => S::U32,
            10 => S::U64,
            11 => S::U128,
            12 => S::F32,
            13 => S::F64,
            14 => S::Char,
            15 => S::Str,
            16 => S::Bytes,
            17 => S::Recursive(self.name()),
            18 => S::Columns(Vec::new()),
            19 => S::Option(inner(self)),
            20 => S::List(inner(self)),
            21 => S::Set(inner(self)),
            22 => {
                let length = [0, 1, 2, 1 << 16, 1 << 40, usize::MAX][usize::from(self.of(6))];
                S::Array(inner(self), length)
            }
            23 => S::Map(inner(self), inner(self)),
            24 | 25 => S::Tuple((0..self.of(4)).map(|_| *inner(self)).collect()),
            26 | 27 => S::Struct {
                name: self.name(),
                fields: self.fields(depth),
                evolution: Evolution::default(),
            },
            _ => S::Enum {
                name: self.name(),
                variants: self.fields(depth),
                evolution: Evolution::default(),
            },
        }
    }

    fn fields(&mut self, depth: u32) -> Vec<Field> {
        let count = self.of(4);
        let field = |_| Field::new(self.name(), self.schema(depth.saturating_sub(1)));
        (0..count).map(field).collect()
    }

    /// A field that older values lack.
    fn added(&mut self) -> Field {
        let name = self.name();
        match self.of(3) {
            0 => Field::new(name, Schema::U16).with_default(|out| out.extend([7, 0])),
            1 => Field::new(name, Schema::Str).with_default(|out| out.extend(b"\x01x")),
            _ => Field::new(name, Schema::Option(Box::new(Schema::Unit)))
                .with_default(|out| out.push(0)),
        }
    }

    /// The type in another version of the program.
    fn changed(&mut self, schema: &Schema) -> Schema {
        use Schema as S;
        match self.of(8) {
            1 => return S::Option(Box::new(self.changed(schema))),
            2 => return self.schema(2),
            _ => {}
        }
        let inner = |choices: &mut Self, of: &Schema| Box::new(choices.changed(of));
        match schema {
            S::U8 | S::U16 if self.of(2) == 1 => S::I32,
            S::I8 | S::I32 if self.of(2) == 1 => S::I64,
            S::F32 if self.of(2) == 1 => S::F64,
            S::Option(of) => S::Option(inner(self, of)),
            S::List(of) => S::List(inner(self, of)),
            S::Set(of) => S::Set(inner(self, of)),
            S::Array(of, length) => S::Array(inner(self, of), *length),
            S::Map(key, value) => S::Map(inner(self, key), inner(self, value)),
            S::Tuple(parts) => S::Tuple(parts.iter().map(|part| self.changed(part)).collect()),
            S::Struct { name, fields, .. } => {
                let (name, evolution) = self.renamed(name);
                S::Struct { name, fields: self.changed_fields(fields, true), evolution }
            }
            S::Enum { name, variants, .. } => {
                let (name, evolution) = self.renamed(name);
                S::Enum { name, variants: self.changed_fields(variants, false), evolution }
            }
            other => other.clone(),
        }
    }

    fn renamed(&mut self, name: &str) -> (String, Evolution) {
        match self.of(4) {
            1 => (self.name(), Evolution::default().alias(name)),
            _ => (name.to_owned(), Evolution::default()),
        }
    }

    fn changed_fields(&mut self, fields: &[Field], may_drop: bool) -> Vec<Field> {
        let mut all = Vec::new();
        for Field { name, schema, .. } in fields {
            let new = self.changed(schema);
            match self.of(5) {
                1 => all.insert(0, Field::new(name.clone(), new)),
                2 => all.push(Field::new(self.name(), new).alias(name)),
                3 if may_drop => all.push(self.added()),
                4 => all.extend([self.added(), Field::new(name.clone(), new)]),
                _ => all.push(Field::new(name.clone(), new)),
            }
        }
        all
    }
}

fuzz_target!(|bytes: &[u8]| {
    // What the types are made by, with its length before it, and an entry.
    let [length, by_key, rest @ ..] = bytes else { return };
    let by_key = by_key % 2 == 1;
    let (choices, entry) = rest.split_at(usize::from(*length).min(rest.len()));
    let mut choices = Choices(choices);
    let from = choices.schema(100);
    let was_shown = shown(&from, entry);
    if let Ok(json) = &was_shown {
        is_json(json);
    }
    let to = choices.changed(&from);
    let Ok(new) = migrated((&from, &to), by_key, entry) else { return };
    // What is recursive in several types of one name is refused.
    match migrated((&to, &to), by_key, &new) {
        Err(error) => assert!(!error.contains("cannot be read"), "{error}: {to}"),
        Ok(_) if was_shown.is_ok() => match shown(&to, &new) {
            Ok(json) => is_json(&json),
            Err(error) => {
                let error = error.to_string();
                let may_be = error.contains("nested more than") || error.contains("have one name");
                assert!(may_be, "{error}: {from} as {to}");
            }
        },
        Ok(_) => {}
    }
});

fn is_json(text: &str) {
    let mut json = serde_json::Deserializer::from_str(text);
    json.disable_recursion_limit();
    let read = IgnoredAny::deserialize(&mut json).and_then(|_| json.end());
    read.unwrap_or_else(|error| panic!("{error}: {text}"));
}
