//! Encoded values for people and other programs to read: as JSON, by the schema alone.

use super::codec::{DecodeError, Level, MAX_EMPTY, derive_support::read_varint, read_len, take};
use super::schema::{Field, Schema};
use serde_json::{Map, Number, Value};

/// Reads a value from the front of `input`, and shows it as JSON: structs as objects, enums as serde shows them, bytes as
/// hexadecimal digits behind `0x`, maps whose keys are no text as lists of pairs, and numbers that JSON does not have as text.
///
/// # Errors
///
/// If the bytes are not a value of the schema.
pub(crate) fn to_json(schema: &Schema, input: &mut &[u8]) -> Result<Value, DecodeError> {
    let left = input.len().saturating_mul(VALUES_PER_BYTE).saturating_add(VALUES);
    Shown { open: Vec::new(), empty: 0, left }.value(schema, input)
}

/// The types that enclose a value, by which those are found that contain themselves.
struct Shown<'s> {
    open: Vec<(&'s str, &'s Schema)>,
    /// How many elements without bytes there are so far: the length of the input does not limit them.
    empty: usize,
    /// How many values there may still be: parts of elements may be without bytes, too.
    left: usize,
}

/// The most values that are shown of an entry: so many for each of its bytes, and these.
const VALUES_PER_BYTE: usize = 64;
const VALUES: usize = 1 << 18;

fn number<const N: usize, T: Into<Number>>(
    input: &mut &[u8],
    from_bytes: impl FnOnce([u8; N]) -> T,
) -> Result<Value, DecodeError> {
    array(input).map(|bytes| Value::Number(from_bytes(bytes).into()))
}

fn array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let mut array = [0; N];
    array.copy_from_slice(take(input, N)?);
    Ok(array)
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

/// What a list begins with at most: its length may be that of a torn list.
const FIRST: usize = 1024;

impl<'s> Shown<'s> {
    fn value(&mut self, schema: &'s Schema, input: &mut &[u8]) -> Result<Value, DecodeError> {
        // Of every value, so that this is stricter than decoding: it needs more of the stack.
        let _level = Level::enter()?;
        self.left = self
            .left
            .checked_sub(1)
            .ok_or(DecodeError::invalid("shown: they have too many parts without bytes"))?;
        Ok(match schema {
            Schema::Bool => Value::Bool(match array(input)? {
                [0] => false,
                [1] => true,
                _ => return Err(DecodeError::invalid("a bool")),
            }),
            Schema::I8 => number(input, i8::from_le_bytes)?,
            Schema::I16 => number(input, i16::from_le_bytes)?,
            Schema::I32 => number(input, i32::from_le_bytes)?,
            Schema::I64 => number(input, i64::from_le_bytes)?,
            Schema::U8 => number(input, u8::from_le_bytes)?,
            Schema::U16 => number(input, u16::from_le_bytes)?,
            Schema::U32 => number(input, u32::from_le_bytes)?,
            Schema::U64 => number(input, u64::from_le_bytes)?,
            Schema::I128 => Value::String(i128::from_le_bytes(array(input)?).to_string()),
            Schema::U128 => Value::String(u128::from_le_bytes(array(input)?).to_string()),
            // With the digits that it needs, not those of the wider number.
            Schema::F32 => {
                let value = f32::from_le_bytes(array(input)?);
                float(value.to_string().parse().unwrap_or(f64::from(value)))
            }
            Schema::F64 => float(f64::from_le_bytes(array(input)?)),
            Schema::Char => {
                let char = char::from_u32(u32::from_le_bytes(array(input)?));
                Value::String(char.ok_or(DecodeError::invalid("a char"))?.to_string())
            }
            Schema::Str => {
                let length = read_len(input)?;
                let text = std::str::from_utf8(take(input, length)?);
                Value::String(text.map_err(|_| DecodeError::invalid("UTF-8"))?.to_owned())
            }
            Schema::Bytes => {
                let length = read_len(input)?;
                let digits = take(input, length)?.iter().map(|byte| format!("{byte:02x}"));
                Value::String(format!("0x{}", digits.collect::<String>()))
            }
            Schema::Unit => Value::Null,
            Schema::Option(of) => match read_varint(input)? {
                0 => Value::Null,
                1 => self.value(of, input)?,
                index => return Err(DecodeError::variant("Option", index)),
            },
            Schema::List(of) | Schema::Set(of) => {
                let length = read_len(input)?;
                self.items(of, length, input)?
            }
            Schema::Array(of, length) => self.items(of, *length, input)?,
            Schema::Tuple(parts) => self.parts(parts.iter(), input)?,
            Schema::Map(key, value) => self.map(key, value, input)?,
            Schema::Struct { name, fields, .. } => {
                self.open.push((name, schema));
                let shown = self.fields(fields, input);
                self.open.pop();
                shown?
            }
            Schema::Enum { name, variants, .. } => {
                self.open.push((name, schema));
                let shown = self.variant(variants, input);
                self.open.pop();
                shown?
            }
            Schema::Recursive(name) => {
                let mut all = self.open.iter().filter(|(open, _)| open == name);
                let (_, schema) = *all.next().ok_or(DecodeError::invalid("of a known type"))?;
                if all.any(|(_, other)| *other != schema) {
                    return Err(DecodeError::invalid("shown: several types have one name"));
                }
                self.value(schema, input)?
            }
            Schema::Columns(_) => {
                // Nothing follows them.
                *input = &[];
                Value::String("rows held by column".to_owned())
            }
        })
    }

    fn parts(
        &mut self,
        schemas: impl Iterator<Item = &'s Schema>,
        input: &mut &[u8],
    ) -> Result<Value, DecodeError> {
        schemas.map(|schema| self.value(schema, input)).collect()
    }

    fn items(
        &mut self,
        of: &'s Schema,
        length: usize,
        input: &mut &[u8],
    ) -> Result<Value, DecodeError> {
        let mut all = Vec::with_capacity(length.min(FIRST));
        for _ in 0..length {
            let before = input.len();
            all.push(self.value(of, input)?);
            if input.len() == before {
                self.empty += 1;
                if self.empty > MAX_EMPTY {
                    return Ok(Value::String(format!("{length} elements without bytes")));
                }
            }
        }
        Ok(Value::Array(all))
    }

    fn map(
        &mut self,
        key: &'s Schema,
        value: &'s Schema,
        input: &mut &[u8],
    ) -> Result<Value, DecodeError> {
        let length = read_len(input)?;
        let mut entries = Vec::with_capacity(length.min(FIRST));
        for at in 0..length {
            let before = input.len();
            entries.push((self.value(key, input)?, self.value(value, input)?));
            if input.len() == before && at > 0 {
                return Err(DecodeError::invalid("a map of different keys"));
            }
        }
        // Other keys may be shown as text, too, and not all of them.
        if matches!(key, Schema::Str | Schema::Char) {
            let by_text = entries.into_iter().map(|(key, value)| match key {
                Value::String(key) => (key, value),
                other => (other.to_string(), value),
            });
            return Ok(Value::Object(by_text.collect()));
        }
        let pairs = entries.into_iter().map(|(key, value)| Value::Array(vec![key, value]));
        Ok(Value::Array(pairs.collect()))
    }

    /// A tuple struct of one field is shown as that field.
    fn fields(&mut self, fields: &'s [Field], input: &mut &[u8]) -> Result<Value, DecodeError> {
        match fields {
            [Field { name, schema, .. }] if name == "0" => return self.value(schema, input),
            [Field { name, .. }, ..] if name == "0" => {
                let schemas = fields.iter().map(|field| &field.schema);
                return self.parts(schemas, input);
            }
            _ => {}
        }
        let mut all = Map::new();
        for Field { name, schema, .. } in fields {
            all.insert(name.clone(), self.value(schema, input)?);
        }
        Ok(Value::Object(all))
    }

    fn variant(&mut self, variants: &'s [Field], input: &mut &[u8]) -> Result<Value, DecodeError> {
        let index = read_varint(input)?;
        let variant = usize::try_from(index).ok().and_then(|at| variants.get(at));
        let Field { name, schema, .. } =
            variant.ok_or_else(|| DecodeError::variant("the type of the state", index))?;
        let content = match schema {
            Schema::Unit => return Ok(Value::String(name.clone())),
            Schema::Tuple(parts) => match parts.as_slice() {
                [only] => self.value(only, input)?,
                _ => self.parts(parts.iter(), input)?,
            },
            Schema::Struct { fields, .. } => self.fields(fields, input)?,
            other => self.value(other, input)?,
        };
        Ok(Value::Object(Map::from_iter([(name.clone(), content)])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Data;
    use std::collections::BTreeMap;

    fn shown<T: Data>(value: &T) -> String {
        let mut bytes = Vec::new();
        value.encode(&mut bytes);
        let mut rest = &*bytes;
        let shown = to_json(&T::schema(), &mut rest).unwrap();
        assert!(rest.is_empty());
        for length in 0..bytes.len() {
            assert!(to_json(&T::schema(), &mut &bytes[..length]).is_err(), "{length} bytes");
        }
        shown.to_string()
    }

    #[derive(Data)]
    enum Tree {
        Leaf,
        Cut(u8),
        Pair(i16, bool),
        Node { left: Box<Tree>, right: Option<Box<Tree>> },
    }

    #[derive(Data)]
    struct Meters(f64);

    #[test]
    fn values_are_shown_by_their_schema_alone() {
        assert_eq!(shown(&(7_u8, -1_i64, u64::MAX, -0.5_f32)), "[7,-1,18446744073709551615,-0.5]");
        assert_eq!(
            shown(&(u128::MAX, f64::NAN)),
            r#"["340282366920938463463374607431768211455","NaN"]"#
        );
        assert_eq!(
            shown(&("größer".to_owned(), 'é', vec![0_u8, 255])),
            r#"["größer","é","0x00ff"]"#
        );
        assert_eq!(shown(&vec![Some(1_u16), None]), "[1,null]");
        assert_eq!(shown(&(Meters(2.5), ())), "[2.5,null]");
        let by_name = BTreeMap::from([("a".to_owned(), 1_u32)]);
        assert_eq!(
            shown(&(by_name, BTreeMap::from([(3_u8, [true])]))),
            r#"[{"a":1},[[3,[true]]]]"#
        );
        let optional = BTreeMap::from([(None, 1_u8), (Some("a".to_owned()), 2)]);
        assert_eq!(shown(&optional), r#"[[null,1],["a",2]]"#);
        assert_eq!(shown(&(0.1_f32, BTreeMap::from([('x', 1_u8)]))), r#"[0.1,{"x":1}]"#);
        let leaf = || Box::new(Tree::Leaf);
        let node = Tree::Node { left: leaf(), right: Some(Box::new(Tree::Pair(-2, true))) };
        let tree = Tree::Node { left: Box::new(node), right: None };
        assert_eq!(
            shown(&(tree, Tree::Cut(9))),
            r#"[{"Node":{"left":{"Node":{"left":"Leaf","right":{"Pair":[-2,true]}}},"right":null}},{"Cut":9}]"#
        );
    }
}
