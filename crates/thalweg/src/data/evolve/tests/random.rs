//! Random schemas, random changes of them, and what becomes of random values: by the engine, and by what the changes say.
//!
//! `THALWEG_MIGRATION_CASES` sets the number of cases, `THALWEG_MIGRATION_SEED` the first seed.

use super::model::{Dice, Scope, Value, integer};
use super::{Migration, encoded};
use crate::Data;
use crate::check::seeds;
use crate::data::{Evolution, Field, Schema, to_json};
use std::collections::{BTreeMap, BTreeSet};

/// What a change makes of the values.
#[derive(Debug)]
enum Fate {
    Same,
    Number {
        signed: bool,
    },
    Double,
    Unit,
    Some(Box<Fate>),
    Option(Box<Fate>),
    Each(Box<Fate>),
    Entries(Box<Fate>, Box<Fate>),
    Parts(Vec<Part>),
    /// By the old index, the new one.
    Variants(Vec<(usize, Fate)>),
    /// Of a type with this former name.
    Named(String, Box<Fate>),
    Again(String),
}

/// A field of the new type.
#[derive(Debug)]
enum Part {
    Was(usize, Fate),
    New(Value),
}

impl Fate {
    fn of<'f>(&'f self, value: &Value, open: &mut Vec<(&'f str, &'f Self)>) -> Value {
        let mut all = |fate: &'f Self, values: &[Value]| {
            values.iter().map(|value| fate.of(value, open)).collect::<Vec<_>>()
        };
        match (self, value) {
            (Self::Same, value) => value.clone(),
            (Self::Number { signed: true }, Value::Unsigned(number)) => {
                Value::Signed(i128::try_from(*number).expect("it fits"))
            }
            (Self::Number { .. }, value) => value.clone(),
            (Self::Double, Value::F32(number)) => Value::F64((*number).into()),
            (Self::Unit, _) => Value::Unit,
            (Self::Some(fate), value) => Value::Option(Some(Box::new(fate.of(value, open)))),
            (Self::Option(_), Value::Option(None)) => Value::Option(None),
            (Self::Option(fate), Value::Option(Some(value))) => {
                Value::Option(Some(Box::new(fate.of(value, open))))
            }
            (Self::Each(fate), Value::List(items)) => Value::List(all(fate, items)),
            (Self::Entries(key, value), Value::Entries(entries)) => {
                let entry = |(k, v): &(Value, Value)| (key.of(k, open), value.of(v, open));
                Value::Entries(entries.iter().map(entry).collect())
            }
            (Self::Parts(parts), value) => {
                let of = |part: &'f Part| match (part, value) {
                    (Part::New(default), _) => default.clone(),
                    (Part::Was(at, fate), Value::Parts(old)) => fate.of(&old[*at], open),
                    _ => panic!("{value:?} has no parts"),
                };
                Value::Parts(parts.iter().map(of).collect())
            }
            (Self::Variants(variants), Value::Variant(at, content)) => {
                let (new, fate) = &variants[*at];
                Value::Variant(*new, Box::new(fate.of(content, open)))
            }
            (Self::Named(name, fate), value) => {
                open.push((name, fate));
                let value = fate.of(value, open);
                open.pop();
                value
            }
            (Self::Again(name), value) => {
                let at = open.iter().position(|(of, _)| of == name).expect("a known type");
                let mut within = open[..=at].to_vec();
                open[at].1.of(value, &mut within)
            }
            _ => panic!("{self:?} is not of {value:?}"),
        }
    }
}

/// A default: its schema, how it is encoded, and what it is.
fn default(at: usize) -> (Schema, fn(&mut Vec<u8>), Value) {
    match at {
        0 => (Schema::U8, |out| 7_u8.encode(out), Value::Unsigned(7)),
        1 => (Schema::Str, |out| "neu".to_owned().encode(out), Value::Str("neu".to_owned())),
        2 => (<Option<u16>>::schema(), |out| None::<u16>.encode(out), Value::Option(None)),
        3 => (Schema::Unit, |out| ().encode(out), Value::Unit),
        _ => {
            let values = Value::List(vec![Value::Signed(1), Value::Signed(-1)]);
            (Vec::<i32>::schema(), |out| vec![1_i32, -1].encode(out), values)
        }
    }
}

/// Changes schemas.
struct Changer<'d> {
    dice: &'d mut Dice,
    path: Vec<String>,
    /// The types that enclose what is changed: their former names, and their names.
    open: Vec<(String, String)>,
    /// Different values must stay different.
    apart: bool,
    /// Only what leaves hashes as they are.
    keeps_hash: bool,
    /// Nothing, but for what is within itself.
    keeps_all: bool,
    /// After so many more places where it could, a change is made that is not allowed.
    forbids_in: Option<usize>,
    /// Where that was.
    refused_at: Option<String>,
}

impl<'d> Changer<'d> {
    fn new(dice: &'d mut Dice) -> Self {
        Self {
            dice,
            path: Vec::new(),
            open: Vec::new(),
            apart: false,
            keeps_hash: false,
            keeps_all: false,
            forbids_in: None,
            refused_at: None,
        }
    }

    fn one_of(&mut self, chances: usize) -> bool {
        !self.keeps_all && self.dice.below(chances) == 0
    }

    /// Whether the change that is not allowed is made here, in a part of this name.
    fn forbids(&mut self) -> bool {
        let Some(left) = self.forbids_in else { return false };
        self.forbids_in = left.checked_sub(1);
        if left == 0 {
            self.refused_in(None);
        }
        left == 0
    }

    fn refused_in(&mut self, part: Option<&str>) {
        let path: Vec<_> = self.path.iter().map(String::as_str).chain(part).collect();
        self.refused_at = Some(match path.is_empty() {
            true => "the value ".to_owned(),
            false => format!("`{}` ", path.join(".")),
        });
    }

    fn schema(&mut self, schema: &Schema) -> (Schema, Fate) {
        use Schema as S;
        if !matches!(schema, S::Struct { .. } | S::Enum { .. }) && self.forbids() {
            return (self.misfit(schema), Fate::Same);
        }
        if !matches!(schema, S::Option(_)) && !self.keeps_hash && self.one_of(8) {
            let (new, fate) = self.within(schema);
            return (S::Option(Box::new(new)), Fate::Some(Box::new(fate)));
        }
        self.within(schema)
    }

    /// What values cannot become.
    fn misfit(&mut self, schema: &Schema) -> Schema {
        match schema {
            Schema::U8 => Schema::I8,
            Schema::I64 => {
                [Schema::I32, Schema::U64, Schema::U128, Schema::F64][self.dice.below(4)].clone()
            }
            Schema::U128 => Schema::I128,
            Schema::F64 => Schema::F32,
            Schema::List(of) => Schema::Set(of.clone()),
            Schema::Array(of, length) => Schema::Array(of.clone(), length + 1),
            Schema::Tuple(parts) => Schema::Tuple([&[Schema::U8][..], parts].concat()),
            Schema::Char => Schema::Bool,
            _ => Schema::Char,
        }
    }

    fn within(&mut self, schema: &Schema) -> (Schema, Fate) {
        use Schema as S;
        if let Some((width, signed)) = integer(schema) {
            return self.number(schema, width, signed);
        }
        match schema {
            S::F32 if self.one_of(3) => (S::F64, Fate::Double),
            S::Option(of) => {
                let (of, fate) = self.schema(of);
                (S::Option(Box::new(of)), Fate::Option(Box::new(fate)))
            }
            S::List(of) => {
                let (of, fate) = self.item(of, false);
                (S::List(Box::new(of)), Fate::Each(Box::new(fate)))
            }
            S::Array(of, length) => {
                let (of, fate) = self.item(of, false);
                (S::Array(Box::new(of), *length), Fate::Each(Box::new(fate)))
            }
            S::Set(of) => {
                let (of, fate) = self.item(of, true);
                (S::Set(Box::new(of)), Fate::Entries(Box::new(fate), Box::new(Fate::Same)))
            }
            S::Map(key, value) => {
                let (key, of_key) = self.item(key, true);
                let (value, of_value) = self.item(value, false);
                let fate = Fate::Entries(Box::new(of_key), Box::new(of_value));
                (S::Map(Box::new(key), Box::new(value)), fate)
            }
            S::Tuple(parts) => {
                let (mut new, mut fates) = (Vec::new(), Vec::new());
                for (at, part) in parts.iter().enumerate() {
                    let (schema, fate) = self.schema(part);
                    new.push(schema);
                    fates.push(Part::Was(at, fate));
                }
                (S::Tuple(new), Fate::Parts(fates))
            }
            S::Struct { .. } | S::Enum { .. } => self.named(schema),
            S::Recursive(name) => {
                let new = self.open.iter().find(|(old, _)| old == name).expect("a known type");
                (S::Recursive(new.1.clone()), Fate::Again(name.clone()))
            }
            other => (other.clone(), Fate::Same),
        }
    }

    fn number(&mut self, schema: &Schema, width: usize, signed: bool) -> (Schema, Fate) {
        let wider = [
            Schema::I16,
            Schema::I32,
            Schema::I64,
            Schema::I128,
            Schema::U16,
            Schema::U32,
            Schema::U64,
            Schema::U128,
        ];
        let new = wider[self.dice.below(wider.len())].clone();
        let (new_width, to) = integer(&new).expect("a number");
        let is_other_key = self.keeps_hash && to && (width, signed) == (8, false);
        match !self.keeps_all && new_width > width && (to || !signed) && !is_other_key {
            true => (new, Fate::Number { signed: to }),
            false => (schema.clone(), Fate::Same),
        }
    }

    /// An item of a collection, or a key or element whose values must stay different.
    fn item(&mut self, schema: &Schema, apart: bool) -> (Schema, Fate) {
        let before = (self.apart, self.keeps_all);
        self.apart |= apart;
        self.keeps_all |= self.keeps_hash;
        let changed = self.schema(schema);
        (self.apart, self.keeps_all) = before;
        changed
    }

    fn named(&mut self, schema: &Schema) -> (Schema, Fate) {
        let (Schema::Struct { name, .. } | Schema::Enum { name, .. }) = schema else {
            panic!("{schema} has no name")
        };
        let mut evolution = Evolution::default().alias("never");
        let mut new = name.clone();
        // Where keys have themselves in lists, they keep their name, as these have no other items.
        let is_again = self.keeps_hash && is_again_in(schema);
        if self.forbids() {
            new = self.dice.name();
        } else if !is_again && self.one_of(6) {
            new = self.dice.name();
            evolution = evolution.alias(name);
        }
        self.open.push((name.clone(), new.clone()));
        let before = self.apart;
        self.apart |= is_in_own_keys(schema, name);
        let is_root = self.path.is_empty();
        if is_root {
            self.path.push(new.clone());
        }
        let (changed, fate) = match schema {
            Schema::Struct { fields, .. } => {
                let (fields, fate) = self.fields(fields);
                (Schema::Struct { name: new, fields, evolution }, fate)
            }
            Schema::Enum { variants, .. } => {
                let (variants, fate) = self.variants(variants);
                (Schema::Enum { name: new, variants, evolution }, fate)
            }
            _ => panic!("{schema} has no name"),
        };
        if is_root {
            self.path.pop();
        }
        self.open.pop();
        self.apart = before;
        (changed, Fate::Named(name.clone(), Box::new(fate)))
    }

    /// The field or variant under a new name, or its own.
    fn renamed(&mut self, old: &Field, schema: Schema) -> Field {
        match old.name.starts_with('n') && self.one_of(6) {
            true => Field::new(self.dice.name(), schema).alias("other").alias(&old.name),
            false => Field::new(&old.name, schema),
        }
    }

    fn fields(&mut self, old: &[Field]) -> (Vec<Field>, Fate) {
        let by_place = old.first().is_some_and(|field| field.name == "0");
        let is_free = !self.keeps_hash && !by_place;
        let mut new = Vec::new();
        for (at, field) in old.iter().enumerate() {
            if is_free && !self.apart && self.one_of(8) {
                continue;
            }
            let mut renamed = self.renamed(field, Schema::Unit);
            self.path.push(renamed.name.clone());
            let (schema, fate) = self.schema(&field.schema);
            self.path.pop();
            renamed.schema = schema;
            new.push((renamed, Part::Was(at, fate)));
        }
        if is_free && new.len() > 1 && self.one_of(3) {
            let (a, b) = (self.dice.below(new.len()), self.dice.below(new.len()));
            new.swap(a, b);
        }
        while is_free && self.one_of(3) {
            let at = self.dice.below(new.len() + 1);
            new.insert(at, self.added());
        }
        if self.forbids() {
            self.forbidden_field(old, &mut new);
        }
        let (fields, parts) = new.into_iter().unzip();
        (fields, Fate::Parts(parts))
    }

    fn added(&mut self) -> (Field, Part) {
        let (schema, encode, value) = default(self.dice.below(5));
        let field = Field::new(self.dice.name(), schema).with_default(encode);
        (field.alias("never"), Part::New(value))
    }

    fn forbidden_field(&mut self, old: &[Field], new: &mut Vec<(Field, Part)>) {
        let name = self.dice.name();
        let kept = new.iter().rposition(|(_, part)| matches!(part, Part::Was(..)));
        match (kept, self.dice.below(4)) {
            (Some(at), 0) => {
                // Two that were the same: under its name, or under a new one.
                let Part::Was(was, _) = new[at].1 else { panic!("it was there") };
                let twin = self.added().0.alias(&old[was].name);
                new.push((twin, Part::New(Value::Unit)));
            }
            // Without a field that has the keys there may be none.
            (Some(at), 1) if self.apart && !is_again_in(&new[at].0.schema) => {
                let (_, Part::Was(was, _)) = new.remove(at) else { panic!("it was there") };
                self.refused_in(Some(&old[was].name));
            }
            _ => {
                self.refused_in(Some(&name));
                new.push((Field::new(name, Schema::U8), Part::New(Value::Unit)));
            }
        }
    }

    fn variants(&mut self, old: &[Field]) -> (Vec<Field>, Fate) {
        let mut new = Vec::new();
        for (at, variant) in old.iter().enumerate() {
            let mut renamed = self.renamed(variant, Schema::Unit);
            self.path.push(renamed.name.clone());
            let (schema, fate) = self.content(&variant.schema, &renamed.name);
            self.path.pop();
            renamed.schema = schema;
            new.push((renamed, Some((at, fate))));
        }
        if self.forbids() {
            let gone = self.dice.below(new.len());
            new.remove(gone);
        }
        if !self.keeps_hash && new.len() > 1 && self.one_of(3) {
            let (a, b) = (self.dice.below(new.len()), self.dice.below(new.len()));
            new.swap(a, b);
        }
        while self.one_of(3) {
            let at = if self.keeps_hash { new.len() } else { self.dice.below(new.len() + 1) };
            new.insert(at, (Field::new(self.dice.name(), Schema::Tuple(vec![Schema::U8])), None));
        }
        let (mut variants, mut fates) = (Vec::new(), BTreeMap::new());
        for (at, (variant, fate)) in new.into_iter().enumerate() {
            variants.push(variant);
            fates.extend(fate.map(|(old, fate)| (old, (at, fate))));
        }
        (variants, Fate::Variants(fates.into_values().collect()))
    }

    fn content(&mut self, schema: &Schema, name: &str) -> (Schema, Fate) {
        let of = |fields| Schema::Struct {
            name: name.to_owned(),
            fields,
            evolution: Evolution::default(),
        };
        match schema {
            Schema::Unit if !self.keeps_hash && self.one_of(4) => {
                let (field, part) = self.added();
                (of(vec![field]), Fate::Parts(vec![part]))
            }
            Schema::Struct { .. } if !self.keeps_hash && !self.apart && self.one_of(8) => {
                (Schema::Unit, Fate::Unit)
            }
            Schema::Struct { fields, .. } => {
                let (fields, fate) = self.fields(fields);
                (of(fields), fate)
            }
            // What has no names stays a tuple.
            Schema::Tuple(_) => self.within(schema),
            other => (other.clone(), Fate::Same),
        }
    }
}

/// Whether an enclosing type, or one within, is there again.
fn is_again_in(schema: &Schema) -> bool {
    format!("{schema:?}").contains("Recursive")
}

/// Whether a type has itself in keys of maps or elements of sets, also by way of others that it contains.
fn is_in_own_keys(schema: &Schema, name: &str) -> bool {
    let mut names = BTreeSet::new();
    loop {
        let before = names.len();
        names_in_keys(schema, false, &mut names);
        if names.len() == before {
            return names.contains(name);
        }
    }
}

/// Adds the types that are named within keys or elements, or within types that are already found to be in some.
fn names_in_keys<'s>(schema: &'s Schema, is_key: bool, names: &mut BTreeSet<&'s str>) {
    use Schema as S;
    match schema {
        S::Recursive(name) if is_key => _ = names.insert(name),
        S::Option(of) | S::List(of) | S::Array(of, _) => names_in_keys(of, is_key, names),
        S::Set(of) => names_in_keys(of, true, names),
        S::Map(key, value) => {
            names_in_keys(key, true, names);
            names_in_keys(value, is_key, names);
        }
        S::Tuple(parts) => parts.iter().for_each(|part| names_in_keys(part, is_key, names)),
        S::Struct { name, fields: parts, .. } | S::Enum { name, variants: parts, .. } => {
            let is_key = is_key || names.contains(&**name);
            parts.iter().for_each(|part| names_in_keys(&part.schema, is_key, names));
        }
        _ => {}
    }
}

/// The changed bytes of a value, and whether all were read.
fn migrate(migration: &Migration, bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut out) = (bytes, Vec::new());
    migration.apply(&mut rest, &mut out).ok().filter(|()| rest.is_empty())?;
    Some(out)
}

fn shown(schema: &Schema, mut bytes: &[u8]) -> serde_json::Value {
    let shown = to_json(schema, &mut bytes).unwrap();
    assert!(bytes.is_empty());
    shown
}

/// Random values of the old schema become what the changes say.
fn values_become(
    dice: &mut Dice,
    (old, new): (&Schema, &Schema),
    (migration, fate): (&Migration, &Fate),
) {
    let (scope, same) = (Scope::default(), Migration::find(new, new, false).unwrap());
    for fuel in 0..6 {
        let value = dice.value(&scope, old, fuel);
        let expected = fate.of(&value, &mut Vec::new());
        let (mut bytes, new_bytes) = (scope.bytes(old, &value), scope.bytes(new, &expected));
        assert_eq!(migrate(migration, &bytes), Some(new_bytes.clone()), "{value:?} {expected:?}");
        assert_eq!(shown(old, &bytes), scope.json(old, &value));
        assert_eq!(shown(new, &new_bytes), scope.json(new, &expected));
        if bytes.is_empty() {
            continue;
        }
        let cut = dice.below(bytes.len());
        assert!(migration.apply(&mut &bytes[..cut], &mut Vec::new()).is_err(), "{value:?}");
        assert!(to_json(old, &mut &bytes[..cut]).is_err(), "{value:?}");
        // Of other bytes: an error, or what can be read again.
        bytes[cut] = dice.below(256) as u8;
        _ = to_json(old, &mut &*bytes);
        if let Some(out) = migrate(migration, &bytes) {
            assert_eq!(migrate(&same, &out).map(|out| out.len()), Some(out.len()));
        }
    }
}

/// What has been seen, so that it is known that all is.
#[derive(Default)]
struct Seen {
    allowed: usize,
    refused: usize,
    keys_kept: usize,
    keys_refused: usize,
}

fn allowed_or_forbidden(dice: &mut Dice, seen: &mut Seen) {
    let old = dice.schema(4);
    let forbids_in = (dice.below(3) == 0).then(|| dice.below(8));
    let mut changer = Changer { forbids_in, ..Changer::new(dice) };
    let (new, fate) = changer.schema(&old);
    let refused_at = changer.refused_at;
    match (Migration::find(&old, &new, false), refused_at) {
        (Err(error), Some(place)) => {
            assert!(error.starts_with(&place), "{error}, and not {place}: {old} {new}");
            seen.refused += 1;
        }
        (Ok(migration), None) => {
            assert_eq!(migration.changes().is_empty(), old == new, "{:?}", migration.changes());
            values_become(dice, (&old, &new), (&migration, &fate));
            seen.allowed += 1;
        }
        (found, place) => panic!("{found:?}, expected {place:?}: {old} {new}"),
    }
}

/// A key that is changed as keys may be is migrated, and one that is changed otherwise is refused or has the hash that it had.
fn keys(dice: &mut Dice, seen: &mut Seen) {
    let (key, kept) = (dice.schema(3), dice.schema(1));
    let keeps_hash = dice.below(2) == 0;
    let mut changer = Changer { keeps_hash, ..Changer::new(dice) };
    let (new_key, of_key) = changer.schema(&key);
    let (new_kept, of_kept) = Changer::new(dice).schema(&kept);
    let old = Schema::Tuple(vec![key, kept]);
    let new = Schema::Tuple(vec![new_key, new_kept]);
    let fate = Fate::Parts(vec![Part::Was(0, of_key), Part::Was(1, of_kept)]);
    let migration = match Migration::find(&old, &new, true) {
        Ok(migration) => migration,
        Err(error) => {
            assert!(!keeps_hash, "{error}: {old} {new}");
            assert!(error.contains("key"), "{error}");
            seen.keys_refused += 1;
            return;
        }
    };
    seen.keys_kept += 1;
    values_become(dice, (&old, &new), (&migration, &fate));
    let (Schema::Tuple(from), Schema::Tuple(to)) = (&old, &new) else {
        panic!("a key and a value")
    };
    let scope = Scope::default();
    for fuel in 0..6 {
        let value = dice.value(&scope, &old, fuel);
        let expected = fate.of(&value, &mut Vec::new());
        let (Value::Parts(value), Value::Parts(new)) = (value, expected) else {
            panic!("a key and a value")
        };
        let (before, after) = (scope.hash(&from[0], &value[0]), scope.hash(&to[0], &new[0]));
        assert_eq!(before, after, "{old} of {value:?}");
    }
}

/// Says which case has failed.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("THALWEG_MIGRATION_SEED={} THALWEG_MIGRATION_CASES=1 repeats it", self.0);
        }
    }
}

#[test]
fn values_of_random_schemas_become_what_random_changes_say() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and no number")),
        Err(_) => default,
    };
    let (first, cases) =
        (number("THALWEG_MIGRATION_SEED", 0_u64), number("THALWEG_MIGRATION_CASES", seeds(2000)));
    let mut seen = Seen::default();
    for seed in first..first.saturating_add(cases) {
        let _case = Case(seed);
        let mut dice = Dice::new(seed);
        match dice.below(2) {
            0 => allowed_or_forbidden(&mut dice, &mut seen),
            _ => keys(&mut dice, &mut seen),
        }
    }
    let Seen { allowed, refused, keys_kept, keys_refused } = seen;
    let least = (cases / 50) as usize;
    for (what, of) in [
        (allowed, "allowed"),
        (refused, "refused"),
        (keys_kept, "of keys"),
        (keys_refused, "of keys refused"),
    ] {
        assert!(what >= least, "only {what} changes were {of}");
    }
}

/// The model is that of the engine's own types.
#[test]
fn the_model_encodes_and_hashes_as_types_do() {
    fn holds<T: Data>(value: &T, model: &Value) {
        let (schema, scope) = (T::schema(), Scope::default());
        assert_eq!(scope.bytes(&schema, model), encoded(value), "{model:?}");
        assert_eq!(scope.hash(&schema, model), value.key_hash(), "{model:?}");
    }
    #[derive(Data)]
    struct Key {
        number: i32,
    }
    #[derive(Data)]
    enum Kind {
        Unit,
        Pair(u8, f32),
        Named { text: String },
    }
    let unsigned = Value::Unsigned;
    holds(&Key { number: -3 }, &Value::Parts(vec![Value::Signed(-3)]));
    holds(&Kind::Unit, &Value::Variant(0, Box::new(Value::Unit)));
    let pair = Value::Parts(vec![unsigned(1), Value::F32(-0.0)]);
    holds(&Kind::Pair(1, -0.0), &Value::Variant(1, Box::new(pair)));
    let named = Value::Parts(vec![Value::Str("ü".to_owned())]);
    holds(&Kind::Named { text: "ü".to_owned() }, &Value::Variant(2, Box::new(named)));
    let map = Value::Entries(vec![(unsigned(256), Value::Unit), (unsigned(1), Value::Unit)]);
    holds(&BTreeMap::from([(1_u16, ()), (256, ())]), &map);
    holds(&BTreeSet::from([1_u16, 256]), &map);
    holds(
        &(u128::MAX, i128::MIN),
        &Value::Parts(vec![unsigned(u128::MAX), Value::Signed(i128::MIN)]),
    );
    holds(&[1_u8, 2], &Value::List(vec![unsigned(1), unsigned(2)]));
    holds(&vec![1_u8, 2], &Value::Bytes(vec![1, 2]));
    let some = |value| Value::Option(Some(Box::new(value)));
    holds(&vec![Some('a'), None], &Value::List(vec![some(Value::Char('a')), Value::Option(None)]));
    holds(
        &(true, Some(0.5_f64), ()),
        &Value::Parts(vec![Value::Bool(true), some(Value::F64(0.5)), Value::Unit]),
    );
}
