//! Properties of the encoding, for every type that implements it.

use super::*;
use proptest::collection::{btree_map, btree_set, hash_map, hash_set, vec};
use proptest::prelude::*;
use std::path::PathBuf;

fn encoded<T: Data>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    Data::encode(value, &mut bytes);
    bytes
}

/// The encoding decodes to the same value, whatever follows it, and no shorter input decodes.
fn round_trip<T: Data + PartialEq + fmt::Debug>(value: T) {
    let mut bytes = encoded(&value);
    let len = bytes.len();
    for short in [0, len / 2, len.saturating_sub(1)] {
        if short < len {
            assert!(<T as Data>::decode(&mut &bytes[..short]).is_err());
        }
    }
    bytes.extend([0xa5, 0x5a]);
    let mut rest = bytes.as_slice();
    let back = <T as Data>::decode(&mut rest).unwrap();
    assert_eq!(back, value);
    assert_eq!(rest, [0xa5, 0x5a]);
    assert_eq!(back.key_hash(), value.key_hash());
}

macro_rules! round_trips {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(100))]
            $(#[test] fn $name(value in $strategy) { round_trip(value); })*
        }
    };
}

round_trips! {
    unsigned: any::<(u8, u16, u32, u64, u128, usize)>();
    signed: any::<(i8, i16, i32, i64, i128, isize)>();
    numbers: any::<(f32, f64, bool, char, ())>();
    texts: any::<(String, Box<str>, Option<String>)>();
    shared: any::<String>().prop_map(|text| (Arc::<str>::from(&*text), Arc::new(text)));
    lists: any::<(Vec<u8>, Vec<u32>, Vec<String>, Vec<Vec<u64>>, Vec<()>)>();
    shared_lists: any::<(Vec<u16>, Vec<String>)>()
        .prop_map(|(small, texts)| (Arc::<[u16]>::from(small), Arc::<[String]>::from(texts)));
    deques: any::<(VecDeque<u8>, VecDeque<String>)>();
    arrays: any::<([u8; 3], [u64; 2], [String; 2])>();
    results: any::<(Result<u8, String>, Box<u64>, Duration, PathBuf)>();
    maps: (
        hash_map(any::<String>(), any::<u32>(), 0..20),
        btree_map(any::<i32>(), any::<String>(), 0..20),
    );
    sets: (hash_set(any::<u16>(), 0..40), btree_set(any::<String>(), 0..20));
    twelve: any::<(u8, u8, u8, u8, u8, u8)>()
        .prop_map(|(a, b, c, d, e, f)| (a, b, c, d, e, f, a, b, c, d, e, f));
}

/// Bytes that decode are the one encoding of their value.
fn canonical<T: Data>(bytes: &[u8]) {
    let mut rest = bytes;
    if let Ok(value) = <T as Data>::decode(&mut rest) {
        assert_eq!(encoded(&value), bytes[..bytes.len() - rest.len()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    // Small values, so that lengths and variants are often plausible.
    fn any_bytes_decode_or_fail(
        bytes in prop_oneof![vec(any::<u8>(), 0..40), vec(0..5_u8, 0..60)],
    ) {
        canonical::<(u64, i128, f32)>(&bytes);
        canonical::<(bool, char, Duration)>(&bytes);
        canonical::<Vec<Option<u16>>>(&bytes);
        canonical::<Vec<String>>(&bytes);
        canonical::<VecDeque<Vec<u8>>>(&bytes);
        canonical::<Vec<Vec<()>>>(&bytes);
        canonical::<[Result<u8, Box<str>>; 3]>(&bytes);
        canonical::<Arc<[Option<u16>]>>(&bytes);
        canonical::<HashMap<String, Vec<u8>>>(&bytes);
        canonical::<BTreeMap<u8, HashSet<i8>>>(&bytes);
        canonical::<BTreeSet<(u8, bool)>>(&bytes);
        canonical::<PathBuf>(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn lengths_and_indices(value in any::<u64>(), shift in 0..64) {
        let value = value >> shift;
        let mut bytes = Vec::new();
        write_varint(value, &mut bytes);
        prop_assert_eq!(bytes.len(), (64 - value.leading_zeros() as usize).div_ceil(7).max(1));
        prop_assert_eq!(read_varint(&mut bytes.as_slice()), Ok(value));
    }

    #[test]
    fn maps_do_not_tell_their_order(entries in btree_map(any::<String>(), any::<u8>(), 0..30)) {
        let ordered = entries.clone();
        let one: HashMap<_, _> = entries.clone().into_iter().collect();
        let mut other = HashMap::with_capacity(1000);
        other.extend(entries.into_iter().rev());
        prop_assert_eq!(encoded(&one), encoded(&other));
        prop_assert_eq!(encoded(&one), encoded(&ordered));
        prop_assert_eq!(one.key_hash(), other.key_hash());
        prop_assert_eq!(one.key_hash(), ordered.key_hash());
    }

    #[test]
    fn portable_texts_are_encoded_as_strings(text in any::<String>()) {
        let mut bytes = Vec::new();
        <str as Wire>::encode(&text.as_str(), &mut bytes);
        prop_assert_eq!(&bytes, &encoded(&text));
        prop_assert_eq!(<str as Wire>::decode(&mut bytes.as_slice()), Ok(text.as_str()));
        let mut bytes = Vec::new();
        <[u8] as Wire>::encode(&text.as_bytes(), &mut bytes);
        prop_assert_eq!(&bytes, &encoded(&text.as_bytes().to_vec()));
        prop_assert_eq!(<[u8] as Wire>::decode(&mut bytes.as_slice()), Ok(text.as_bytes()));
    }
}

#[track_caller]
fn golden<T: Data + PartialEq + fmt::Debug>(value: T, schema: &str, bytes: &[u8]) {
    assert_eq!(encoded(&value), bytes);
    assert_eq!(T::schema().to_string(), schema);
    round_trip(value);
}

#[test]
fn golden_bytes() {
    golden(0x12_u8, "u8", &[0x12]);
    golden(0x1234_u16, "u16", &[0x34, 0x12]);
    golden(0x1234_5678_u32, "u32", &[0x78, 0x56, 0x34, 0x12]);
    golden(1_u64, "u64", &[1, 0, 0, 0, 0, 0, 0, 0]);
    golden(1_usize, "u64", &[1, 0, 0, 0, 0, 0, 0, 0]);
    golden(1_u128, "u128", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    golden(-2_i8, "i8", &[254]);
    golden(-2_i16, "i16", &[254, 255]);
    golden(-2_i32, "i32", &[254, 255, 255, 255]);
    golden(-2_i64, "i64", &[254, 255, 255, 255, 255, 255, 255, 255]);
    golden(-2_isize, "i64", &[254, 255, 255, 255, 255, 255, 255, 255]);
    golden(256_i128, "i128", &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    golden(1.0_f32, "f32", &[0, 0, 128, 63]);
    golden(-2.0_f64, "f64", &[0, 0, 0, 0, 0, 0, 0, 192]);
    golden(true, "bool", &[1]);
    golden('é', "char", &[0xe9, 0, 0, 0]);
    golden((), "()", &[]);
    golden(PhantomData::<String>, "()", &[]);
    golden(String::from("é"), "str", &[2, 0xc3, 0xa9]);
    golden(Box::<str>::from("a"), "str", &[1, b'a']);
    golden(Arc::<str>::from("a"), "str", &[1, b'a']);
    golden(vec![7_u8; 128], "bytes", &[vec![0x80, 1], vec![7; 128]].concat());
    golden(vec![1_u16, 2], "[u16]", &[2, 1, 0, 2, 0]);
    golden(VecDeque::from([1_u16, 2]), "[u16]", &[2, 1, 0, 2, 0]);
    golden([1_u16, 2], "[u16; 2]", &[1, 0, 2, 0]);
    golden(Box::new(3_u8), "u8", &[3]);
    golden(Arc::new(3_u8), "u8", &[3]);
    golden(None::<u8>, "u8?", &[0]);
    golden(Some(3_u8), "u8?", &[1, 3]);
    golden(Ok::<u8, bool>(3), "Result <Ok(u8) | Err(bool)>", &[0, 3]);
    golden(Err::<u8, bool>(true), "Result <Ok(u8) | Err(bool)>", &[1, 1]);
    golden((3_u8,), "(u8,)", &[3]);
    golden((3_u8, false), "(u8, bool)", &[3, 0]);
    golden(PathBuf::from("a/b"), "bytes", &[3, b'a', b'/', b'b']);
    golden(
        Duration::new(1, 2),
        "Duration { seconds: u64, nanoseconds: u32 }",
        &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
    );
    // In the order of the encoded keys: that of the little-endian bytes, not of the numbers.
    let map = [(1_u16, true), (256, false)];
    golden(HashMap::from(map), "{u16: bool}", &[2, 0, 1, 0, 1, 0, 1]);
    golden(BTreeMap::from(map), "{u16: bool}", &[2, 0, 1, 0, 1, 0, 1]);
    golden(HashSet::from([2_u8, 1]), "{u8}", &[2, 1, 2]);
    golden(BTreeSet::from([2_u8, 1]), "{u8}", &[2, 1, 2]);
}

#[test]
fn equal_numbers_meet_whatever_their_width() {
    for value in [-128_i64, -1, 0, 1, 127] {
        let hash = value.key_hash();
        assert_eq!(hash, (value as i8).key_hash());
        assert_eq!(hash, (value as i16).key_hash());
        assert_eq!(hash, (value as i32).key_hash());
        assert_eq!(hash, i128::from(value).key_hash());
        assert_eq!(hash, (value as isize).key_hash());
    }
    for value in [0_u64, 1, 255] {
        let hash = value.key_hash();
        assert_eq!(hash, (value as u8).key_hash());
        assert_eq!(hash, (value as u16).key_hash());
        assert_eq!(hash, (value as u32).key_hash());
        assert_eq!(hash, u128::from(value).key_hash());
        assert_eq!(hash, (value as usize).key_hash());
    }
    assert_ne!((1_u128 << 64).key_hash(), 0_u128.key_hash());
    assert_eq!(0.5_f32.key_hash(), 0.5_f64.key_hash());
    assert_eq!(0.0_f64.key_hash(), (-0.0_f64).key_hash());
    assert_eq!(f64::NAN.key_hash(), f64::from_bits(f64::NAN.to_bits() ^ (1 << 63 | 1)).key_hash());
}

#[test]
fn equal_values_meet_whatever_holds_them() {
    let text = String::from("thalweg");
    let hash = hash_bytes(b"thalweg");
    assert_eq!(text.key_hash(), hash);
    assert_eq!(Box::<str>::from(&*text).key_hash(), hash);
    assert_eq!(Arc::<str>::from(&*text).key_hash(), hash);
    assert_eq!(Arc::new(text.clone()).key_hash(), hash);
    assert_eq!(text.clone().into_bytes().key_hash(), hash);
    assert_eq!(PathBuf::from(&text).key_hash(), hash);
    assert_eq!((text.clone(),).key_hash(), hash);
    // A deque in two pieces.
    let mut deque: VecDeque<u8> = VecDeque::with_capacity(8);
    deque.extend(b"xthalweg".iter());
    deque.pop_front();
    deque.push_back(b'!');
    assert!(!deque.as_slices().1.is_empty());
    assert_eq!(deque.key_hash(), hash_bytes(b"thalweg!"));
    assert_eq!(Vec::from(deque).key_hash(), hash_bytes(b"thalweg!"));
    assert_ne!(vec![1_u32, 2].key_hash(), vec![2_u32, 1].key_hash());
    assert_ne!(vec![0_u32].key_hash(), vec![0_u32; 2].key_hash());
    assert_ne!(None::<()>.key_hash(), Some(()).key_hash());
}

#[test]
fn hostile_lengths_are_errors() {
    let huge = [255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    for tail in [0, 1, 100] {
        let bytes = [huge.to_vec(), vec![0; tail]].concat();
        let input = &mut bytes.as_slice();
        assert!(<Vec<u8> as Data>::decode(&mut *input).is_err());
        assert!(<Vec<u64> as Data>::decode(&mut bytes.as_slice()).is_err());
        assert!(<Vec<String> as Data>::decode(&mut bytes.as_slice()).is_err());
        assert!(<Vec<()> as Data>::decode(&mut bytes.as_slice()).is_err());
        assert!(<Vec<Box<()>> as Data>::decode(&mut bytes.as_slice()).is_err());
        assert!(<HashMap<u8, [u64; 8]> as Data>::decode(&mut bytes.as_slice()).is_err());
        assert!(<String as Data>::decode(&mut bytes.as_slice()).is_err());
        // What is allocated ahead stays within four times the input.
        assert!(first_capacity::<[u64; 64]>(&bytes, usize::MAX) * 512 <= 4 * bytes.len() + 512);
    }
    let eleven = [[255; 10].as_slice(), &[1]].concat();
    assert_eq!(
        read_varint(&mut eleven.as_slice()).unwrap_err().to_string(),
        "the bytes are not a length or index below 2^64"
    );
    assert_eq!(
        read_varint(&mut [128, 0].as_slice()).unwrap_err().to_string(),
        "the bytes are not a length or index in its shortest form"
    );
    assert_eq!(
        <u32 as Data>::decode(&mut [1, 2].as_slice()).unwrap_err().to_string(),
        "the bytes end too early: 4 are needed, 2 are left"
    );
}

#[test]
fn values_out_of_range_are_errors() {
    let refused = |error: DecodeError, message: &str| assert_eq!(error.to_string(), message);
    refused(<bool as Data>::decode(&mut [2].as_slice()).unwrap_err(), "the bytes are not a bool");
    let surrogate = 0xd800_u32.to_le_bytes();
    refused(
        <char as Data>::decode(&mut surrogate.as_slice()).unwrap_err(),
        "the bytes are not a char",
    );
    refused(
        <String as Data>::decode(&mut [1, 255].as_slice()).unwrap_err(),
        "the bytes are not UTF-8",
    );
    let second = encoded(&(0_u64, 1_000_000_000_u32));
    refused(
        <Duration as Data>::decode(&mut second.as_slice()).unwrap_err(),
        "the bytes are not a duration",
    );
    for disordered in [[2, 5, 4], [2, 4, 4]] {
        refused(
            <HashSet<u8> as Data>::decode(&mut disordered.as_slice()).unwrap_err(),
            "the bytes are not a map or set in the order of its keys",
        );
    }
}

#[test]
fn heap_is_counted() {
    assert_eq!(7_u64.heap_size(), 0);
    assert_eq!(Vec::<u64>::with_capacity(4).heap_size(), 32);
    let word = String::from("thalweg");
    assert_eq!(word.heap_size(), 7);
    assert_eq!(vec![word.clone(), word.clone()].heap_size(), 2 * size_of::<String>() + 14);
    assert_eq!((word.clone(), Some(word.clone()), 1).heap_size(), 14);
    assert_eq!([word.clone(), word.clone()].heap_size(), 14);
    assert_eq!(Box::new(word.clone()).heap_size(), size_of::<String>() + 7);
    assert!(HashMap::from([(1_u64, word)]).heap_size() >= 8 + size_of::<String>() + 7);
}

#[test]
fn what_is_shared_is_divided_where_it_does_not_count_for_each_holder() {
    let (text, list) = (Arc::<str>::from("x".repeat(6000)), Arc::<[u64]>::from(vec![0; 1000]));
    let all = (text.clone(), text, list.clone(), list, Arc::new(7_u64));
    let bytes = 6000 + 2 * size_of::<usize>() + 8000;
    assert_eq!(all.heap_size(), 2 * bytes + 8);
    assert_eq!(divide_shared(|| all.heap_size()), bytes + 8);
    assert_eq!(all.heap_size(), 2 * bytes + 8);
}

#[test]
fn a_list_of_one_lies_in_place_again() {
    use smallvec::SmallVec;
    for list in [vec![], vec![7u64], vec![7, 8, 9]] {
        let mut bytes = Vec::new();
        let small = SmallVec::<[u64; 1]>::from_slice(&list);
        Data::encode(&small, &mut bytes);
        let mut expected = Vec::new();
        Data::encode(&list, &mut expected);
        assert_eq!(bytes, expected);
        let again = <SmallVec<[u64; 1]> as Data>::decode(&mut &*bytes).unwrap();
        assert_eq!((again.as_slice(), again.spilled()), (&*list, list.len() > 1));
    }
}

#[test]
fn lists_of_nothing_are_bounded_unless_they_are_ours() {
    let list = vec![(); 100_000];
    let mut bytes = Vec::new();
    Data::encode(&list, &mut bytes);
    let decode = || <Vec<()> as Data>::decode(&mut &*bytes);
    assert!(decode().is_err(), "a few bytes must not make a list of any length");
    assert_eq!(of_ours(decode).unwrap().len(), list.len());
    assert!(decode().is_err());
}
