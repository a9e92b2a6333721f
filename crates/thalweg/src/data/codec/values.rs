//! Implementations of [`Data`] for types of the language and its library.

use super::*;
use smallvec::SmallVec;
use std::num::NonZeroU64;
use std::ops::Range;

macro_rules! integers {
    ($($type:ty, $schema:ident, $word:expr, |$value:ident| $hash:expr;)*) => {$(
        impl Data for $type {
            const WORD: Option<fn(&Self) -> u64> = $word;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(Self::from_le_bytes(take_array(input)?))
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                let $value = *self;
                $hash
            }

            fn schema() -> Schema {
                Schema::$schema
            }

            fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
                encode_words(items, out, |item| item.to_le_bytes());
            }

            fn extend_list(
                input: &mut &[u8],
                len: usize,
                to: &mut Vec<Self>,
            ) -> Result<(), DecodeError> {
                extend_words(input, len, to, Self::from_le_bytes)
            }
        }
    )*};
}

integers! {
    i8, I8, Some(|word| *word as u64), |value| hash_u64(i64::from(value) as u64);
    i16, I16, Some(|word| *word as u64), |value| hash_u64(i64::from(value) as u64);
    i32, I32, Some(|word| *word as u64), |value| hash_u64(i64::from(value) as u64);
    i64, I64, Some(|word| *word as u64), |value| hash_u64(value as u64);
    i128, I128, None, |value| match i64::try_from(value) {
        Ok(narrow) => hash_u64(narrow as u64),
        Err(_) => mix(hash_u64(value as u64), hash_u64((value >> 64) as u64)),
    };
    u16, U16, Some(|word| u64::from(*word)), |value| hash_u64(u64::from(value));
    u32, U32, Some(|word| u64::from(*word)), |value| hash_u64(u64::from(value));
    u64, U64, Some(|word| *word), |value| hash_u64(value);
    u128, U128, None, |value| match u64::try_from(value) {
        Ok(narrow) => hash_u64(narrow),
        Err(_) => mix(hash_u64(value as u64), hash_u64((value >> 64) as u64)),
    };
    f32, F32, None, |value| hash_float(f64::from(value));
    f64, F64, None, |value| hash_float(value);
}

#[inline]
fn hash_float(value: f64) -> u64 {
    // A sum with 0.0 makes -0.0 into 0.0 and changes nothing else.
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    hash_u64(value.to_bits())
}

impl Data for u8 {
    const WORD: Option<fn(&Self) -> u64> = Some(|word| u64::from(*word));

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let [byte] = take_array(input)?;
        Ok(byte)
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        hash_u64(u64::from(*self))
    }

    fn schema() -> Schema {
        Schema::U8
    }

    #[inline]
    fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
        out.extend_from_slice(items);
    }

    #[inline]
    fn extend_list(input: &mut &[u8], len: usize, to: &mut Vec<Self>) -> Result<(), DecodeError> {
        to.extend_from_slice(take(input, len)?);
        Ok(())
    }

    #[inline]
    fn hash_list(front: &[Self], back: &[Self]) -> u64 {
        if back.is_empty() { hash_bytes(front) } else { hash_bytes(&[front, back].concat()) }
    }

    fn list_schema() -> Schema {
        Schema::Bytes
    }
}

/// Types that are encoded as another type, some of whose values are not valid.
macro_rules! encoded_as {
    ($($type:ty as $other:ty, $schema:expr, $word:expr, |$from:ident| $to:expr, |$back:ident| $checked:expr;)*) => {$(
        impl Data for $type {
            const WORD: Option<fn(&Self) -> u64> = $word;

            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                let $from = *self;
                let other: $other = $to;
                other.encode(out);
            }

            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let $back = <$other as Data>::decode(input)?;
                $checked
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                let $from = *self;
                let other: $other = $to;
                other.key_hash()
            }

            fn schema() -> Schema {
                $schema
            }
        }
    )*};
}

encoded_as! {
    usize as u64, Schema::U64, Some(|word| *word as u64), |value| value as u64,
        |other| usize::try_from(other).map_err(|_| DecodeError::invalid("a usize of this machine"));
    isize as i64, Schema::I64, Some(|word| *word as u64), |value| value as i64,
        |other| isize::try_from(other).map_err(|_| DecodeError::invalid("an isize of this machine"));
    NonZeroU64 as u64, Schema::U64, Some(|word| word.get()), |value| value.get(),
        |other| NonZeroU64::new(other).ok_or(DecodeError::invalid("a number other than 0"));
    bool as u8, Schema::Bool, None, |value| u8::from(value), |other| match other {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::invalid("a bool")),
    };
    char as u32, Schema::Char, None, |value| u32::from(value),
        |other| char::from_u32(other).ok_or(DecodeError::invalid("a char"));
    Duration as (u64, u32),
        Schema::Struct {
            name: "Duration".into(),
            fields: vec![Field::new("seconds", Schema::U64), Field::new("nanoseconds", Schema::U32)],
            evolution: Evolution::default(),
        },
        None,
        |value| (value.as_secs(), value.subsec_nanos()),
        |other| match other {
            (seconds, nanoseconds @ 0..1_000_000_000) => Ok(Self::new(seconds, nanoseconds)),
            _ => Err(DecodeError::invalid("a duration")),
        };
}

/// Owned strings of all kinds.
macro_rules! strings {
    ($($type:ty, $heap:expr;)*) => {$(
        impl Data for $type {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                encode_bytes(self.as_bytes(), out);
            }

            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                decode_str(input).map(Self::from)
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                hash_bytes(self.as_bytes())
            }

            fn schema() -> Schema {
                Schema::Str
            }

            #[inline]
            fn heap_size(&self) -> usize {
                let size: fn(&Self) -> usize = $heap;
                size(self)
            }
        }
    )*};
}

strings! {
    String, |text| text.capacity();
    Box<str>, |text| text.len();
    // The reference counts are stored beside the text.
    Arc<str>, |text| shared(text, text.len() + 2 * size_of::<usize>());
}

/// A path is encoded as its bytes, which need not be UTF-8.
#[cfg(unix)]
impl Data for std::path::PathBuf {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.as_os_str().as_encoded_bytes(), out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        use std::os::unix::ffi::OsStringExt;
        Ok(std::ffi::OsString::from_vec(decode_bytes(input)?.to_vec()).into())
    }

    fn key_hash(&self) -> u64 {
        hash_bytes(self.as_os_str().as_encoded_bytes())
    }

    fn schema() -> Schema {
        Schema::Bytes
    }

    fn heap_size(&self) -> usize {
        self.capacity()
    }
}

macro_rules! pointers {
    ($($pointer:ident: $($bound:ident)+, $heap:expr;)*) => {$(
        impl<T: $($bound +)+> Data for $pointer<T> {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                (**self).encode(out);
            }

            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let _level = Level::enter()?;
                T::decode(input).map(Self::new)
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                (**self).key_hash()
            }

            fn schema() -> Schema {
                T::schema()
            }

            fn heap_size(&self) -> usize {
                let size: fn(&Self, usize) -> usize = $heap;
                size(self, size_of::<T>() + (**self).heap_size())
            }
        }
    )*};
}

pointers! {
    Box: Data, |_, bytes| bytes;
    Arc: Data Sync, shared;
}

impl<T: Data> Data for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.encode(out);
            }
        }
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match read_varint(input)? {
            0 => Ok(None),
            1 => T::decode(input).map(Some),
            index => Err(DecodeError::variant("Option", index)),
        }
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        match self {
            None => hash_u64(0),
            Some(value) => mix(hash_u64(1), value.key_hash()),
        }
    }

    fn schema() -> Schema {
        Schema::Option(Box::new(T::schema()))
    }

    #[inline]
    fn heap_size(&self) -> usize {
        self.as_ref().map_or(0, T::heap_size)
    }
}

impl<T: Data, E: Data> Data for Result<T, E> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                out.push(0);
                value.encode(out);
            }
            Err(error) => {
                out.push(1);
                error.encode(out);
            }
        }
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match read_varint(input)? {
            0 => T::decode(input).map(Ok),
            1 => E::decode(input).map(Err),
            index => Err(DecodeError::variant("Result", index)),
        }
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        match self {
            Ok(value) => mix(hash_u64(0), value.key_hash()),
            Err(error) => mix(hash_u64(1), error.key_hash()),
        }
    }

    fn schema() -> Schema {
        let variants = vec![
            Field::new("Ok", Schema::Tuple(vec![T::schema()])),
            Field::new("Err", Schema::Tuple(vec![E::schema()])),
        ];
        Schema::Enum { name: "Result".into(), variants, evolution: Evolution::default() }
    }

    #[inline]
    fn heap_size(&self) -> usize {
        match self {
            Ok(value) => value.heap_size(),
            Err(error) => error.heap_size(),
        }
    }
}

impl<T: Data> Data for Vec<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.len() as u64, out);
        T::encode_slice(self, out);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let len = read_len(input)?;
        T::decode_list(input, len)
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        T::hash_list(self, &[])
    }

    fn schema() -> Schema {
        T::list_schema()
    }

    #[inline]
    fn heap_size(&self) -> usize {
        self.capacity() * size_of::<T>() + list_heap(self)
    }
}

impl<T: Data> Data for VecDeque<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        let (front, back) = self.as_slices();
        write_varint(self.len() as u64, out);
        T::encode_slice(front, out);
        T::encode_slice(back, out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        <Vec<T> as Data>::decode(input).map(Self::from)
    }

    fn key_hash(&self) -> u64 {
        let (front, back) = self.as_slices();
        T::hash_list(front, back)
    }

    fn schema() -> Schema {
        T::list_schema()
    }

    fn heap_size(&self) -> usize {
        self.capacity() * size_of::<T>() + list_heap(self)
    }
}

/// As a `Vec`, for what the engine keeps.
#[doc(hidden)]
impl<T: Data> Data for SmallVec<[T; 1]> {
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.len() as u64, out);
        T::encode_slice(self, out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let list = <Vec<T> as Data>::decode(input)?;
        // One lies in place.
        Ok(if list.len() <= 1 { list.into_iter().collect() } else { Self::from_vec(list) })
    }

    fn key_hash(&self) -> u64 {
        T::hash_list(self, &[])
    }

    fn schema() -> Schema {
        T::list_schema()
    }

    fn heap_size(&self) -> usize {
        let own = if self.spilled() { self.capacity() * size_of::<T>() } else { 0 };
        own + self.iter().map(T::heap_size).sum::<usize>()
    }
}

/// A list that is shared where it is cloned, and copied when it is sent to another process: encoded as a `Vec`. Each
/// holder counts the memory of all elements as its own, but for states of which there is one in each task.
impl<T: Data + Sync> Data for Arc<[T]> {
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.len() as u64, out);
        T::encode_slice(self, out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        <Vec<T> as Data>::decode(input).map(Self::from)
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        T::hash_list(self, &[])
    }

    fn schema() -> Schema {
        T::list_schema()
    }

    #[inline]
    fn heap_size(&self) -> usize {
        shared(self, size_of_val(&**self) + list_heap(&**self))
    }
}

impl<T: Data, const N: usize> Data for [T; N] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode_slice(self, out);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut failed = None;
        let items: [Option<T>; N] = std::array::from_fn(|_| match failed {
            Some(_) => None,
            None => T::decode(input).map_err(|error| failed = Some(error)).ok(),
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(items.map(|item| item.expect("every element was decoded"))),
        }
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        T::hash_list(self, &[])
    }

    fn schema() -> Schema {
        Schema::Array(Box::new(T::schema()), N)
    }

    #[inline]
    fn heap_size(&self) -> usize {
        list_heap(self)
    }
}

/// Encodes entries in the order of their encoded keys, which a reader in any language can check.
fn encode_sorted<T>(
    entries: impl ExactSizeIterator<Item = T>,
    encode_key: impl Fn(&T, &mut Vec<u8>),
    encode_value: impl Fn(&T, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    write_varint(entries.len() as u64, out);
    let (mut keys, mut all) = (Vec::new(), Vec::with_capacity(entries.len()));
    let mut ends = Vec::with_capacity(entries.len());
    for entry in entries {
        encode_key(&entry, &mut keys);
        ends.push(keys.len());
        all.push(entry);
    }
    for (range, at) in in_order(&keys, &ends) {
        out.extend_from_slice(&keys[range]);
        encode_value(&all[at], out);
    }
}

/// Where each key is, and its number, in the order of the keys. The end of each key is the beginning of the next.
fn in_order(keys: &[u8], ends: &[usize]) -> Vec<(Range<usize>, usize)> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mut places: Vec<_> =
        starts.zip(ends).enumerate().map(|(at, (start, end))| (start..*end, at)).collect();
    places.sort_unstable_by(|(a, _), (b, _)| keys[a.clone()].cmp(&keys[b.clone()]));
    places
}

/// Decodes entries one by one; refuses entries that are out of order or duplicated.
fn decode_sorted<M, K: Data, V: Data>(
    input: &mut &[u8],
    map: &mut M,
    capacity: impl FnOnce(&mut M, usize),
    insert: impl Fn(&mut M, K, V),
) -> Result<(), DecodeError> {
    let _level = Level::enter()?;
    let len = read_len(input)?;
    capacity(map, first_capacity::<(K, V)>(input, len));
    let mut last: Option<&[u8]> = None;
    for _ in 0..len {
        let start = *input;
        let key = K::decode(input)?;
        let bytes = &start[..start.len() - input.len()];
        if last.is_some_and(|last| last >= bytes) {
            return Err(DecodeError::invalid("a map or set in the order of its keys"));
        }
        last = Some(bytes);
        insert(map, key, V::decode(input)?);
    }
    Ok(())
}

fn hash_entries(len: usize, entries: impl Iterator<Item = u64>) -> u64 {
    // A sum, because entries come in any order.
    mix(hash_u64(len as u64), entries.fold(0, u64::wrapping_add))
}

macro_rules! maps {
    ($($map:ident<K: $($bound:ident)+ $(, $hasher:ident)?>, |$size:ident| $new:expr, |$self:ident| $slots:expr;)*) => {$(
        impl<K: Data + $($bound +)+, V: Data $(, $hasher: BuildHasher + Default + Send + 'static)?> Data
            for $map<K, V $(, $hasher)?>
        {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_sorted(
                    self.iter(),
                    |(key, _), out| key.encode(out),
                    |(_, value), out| value.encode(out),
                    out,
                );
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let mut map = Self::default();
                decode_sorted(
                    input,
                    &mut map,
                    |map, $size| *map = $new,
                    |map, key, value| {
                        map.insert(key, value);
                    },
                )?;
                Ok(map)
            }

            fn key_hash(&self) -> u64 {
                let entries = self.iter().map(|(k, v)| mix(mix(0, k.key_hash()), v.key_hash()));
                hash_entries(self.len(), entries)
            }

            fn schema() -> Schema {
                Schema::Map(Box::new(K::schema()), Box::new(V::schema()))
            }

            fn heap_size(&$self) -> usize {
                $slots * (size_of::<(K, V)>() + 1) + list_heap($self.keys()) + list_heap($self.values())
            }
        }
    )*};
}

maps! {
    HashMap<K: Eq Hash, S>,
        |size| Self::with_capacity_and_hasher(size, S::default()), |self| self.capacity();
    // Nodes are about two thirds full.
    BTreeMap<K: Ord>, |_size| Self::new(), |self| self.len() * 3 / 2;
}

macro_rules! sets {
    ($($set:ident<T: $($bound:ident)+ $(, $hasher:ident)?>, |$size:ident| $new:expr, |$self:ident| $slots:expr;)*) => {$(
        impl<T: Data + $($bound +)+ $(, $hasher: BuildHasher + Default + Send + 'static)?> Data
            for $set<T $(, $hasher)?>
        {
            fn encode(&self, out: &mut Vec<u8>) {
                encode_sorted(self.iter(), |item, out| item.encode(out), |_, _| {}, out);
            }

            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                let mut set = Self::default();
                decode_sorted(
                    input,
                    &mut set,
                    |set, $size| *set = $new,
                    |set, item, ()| {
                        set.insert(item);
                    },
                )?;
                Ok(set)
            }

            fn key_hash(&self) -> u64 {
                hash_entries(self.len(), self.iter().map(T::key_hash))
            }

            fn schema() -> Schema {
                Schema::Set(Box::new(T::schema()))
            }

            fn heap_size(&$self) -> usize {
                $slots * (size_of::<T>() + 1) + list_heap($self.iter())
            }
        }
    )*};
}

sets! {
    HashSet<T: Eq Hash, S>,
        |size| Self::with_capacity_and_hasher(size, S::default()), |self| self.capacity();
    BTreeSet<T: Ord>, |_size| Self::new(), |self| self.len() * 3 / 2;
}

impl Data for () {
    #[inline]
    fn encode(&self, _out: &mut Vec<u8>) {}

    #[inline]
    fn decode(_input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }

    /// The timestamps of a batch without any: counted, not decoded one by one.
    fn extend_list(_input: &mut &[u8], len: usize, to: &mut Vec<Self>) -> Result<(), DecodeError> {
        if len > MAX_EMPTY && !OURS.get() {
            return Err(too_many_empty());
        }
        to.resize(to.len() + len, ());
        Ok(())
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        0
    }

    fn schema() -> Schema {
        Schema::Unit
    }
}

impl<T: Send + 'static> Data for PhantomData<T> {
    #[inline]
    fn encode(&self, _out: &mut Vec<u8>) {}

    #[inline]
    fn decode(_input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self)
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        0
    }

    fn schema() -> Schema {
        Schema::Unit
    }
}

impl<T: Data> Data for (T,) {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    #[inline]
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok((T::decode(input)?,))
    }

    #[inline]
    fn key_hash(&self) -> u64 {
        self.0.key_hash()
    }

    fn schema() -> Schema {
        Schema::Tuple(vec![T::schema()])
    }

    #[inline]
    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Data),*> Data for ($($name,)*) {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)*
            }

            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($($name::decode(input)?,)*))
            }

            #[inline]
            fn key_hash(&self) -> u64 {
                let mut hash = 0;
                $(hash = mix(hash, self.$index.key_hash());)*
                hash
            }

            fn schema() -> Schema {
                Schema::Tuple(vec![$($name::schema()),*])
            }

            #[inline]
            fn heap_size(&self) -> usize {
                0 $(+ self.$index.heap_size())*
            }
        }
    )*};
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11)
}
