//! The events of the Yahoo benchmark, in both forms.

use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use thalweg_workloads::digest::digest;
use thalweg_workloads::error::{DecodeError, Problem};
use thalweg_workloads::ysb::oracle::{STAR, swa, ysb, ysb_star};
use thalweg_workloads::ysb::{
    AdType, Campaigns, Event, EventType, FixedSegments, Generator, VariableSegments, fixed,
    parse_uuid, recipe, uuid, variable,
};

#[test]
fn events_and_answers_do_not_drift() {
    // The inputs and answers of other systems are stored in files: if a value changes, raise the version of the
    // formats as well.
    let events: Vec<Event> = Generator::new(recipe(1)).events(0..100_000).collect();
    let campaigns = Campaigns::new(1);
    let digests = [
        digest(&events),
        digest(ysb(events.iter().copied(), &campaigns)),
        digest(ysb_star(events.iter().copied(), &campaigns, STAR)),
        digest(swa(events.iter().copied())),
    ];
    let expected = [
        "100000:6bf6f58e8c1c48b5",
        "100:85f59871b04307c4",
        "100:b8e77440aabd494d",
        "1:05a9351db5290827",
    ];
    assert_eq!(digests.map(|digest| digest.to_string()), expected);
}

#[test]
fn a_hundred_campaigns_have_ten_advertisements_each() {
    let campaigns = Campaigns::new(2);
    assert_eq!(campaigns.ads().iter().collect::<HashSet<_>>().len(), 1_000);
    let mut counts = HashMap::new();
    for (place, ad) in campaigns.ads().iter().enumerate() {
        let campaign = campaigns.table()[ad];
        assert_eq!(campaign as usize, place / 10);
        *counts.entry(campaign).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 100);
    assert!(counts.values().all(|&count| count == 10));
    let texts = campaigns.text_table();
    assert_eq!(texts.len(), 1_000);
    for (text, campaign) in texts {
        let ad = parse_uuid(text.as_bytes().try_into().unwrap()).unwrap();
        assert_eq!(campaigns.table()[&ad], campaign);
    }
}

#[test]
fn everything_is_uniform() {
    const COUNT: u64 = 300_000;
    let (mut ads, mut ad_types, mut types) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut last = i64::MIN;
    for event in Generator::new(recipe(3)).events(0..COUNT) {
        assert!(event.time > last, "each has a microsecond of its own");
        last = event.time;
        *ads.entry(event.ad).or_insert(0u64) += 1;
        *ad_types.entry(event.ad_type).or_insert(0u64) += 1;
        *types.entry(event.event_type).or_insert(0u64) += 1;
    }
    let near = |counts: Vec<&u64>, expected: u64, within: u64| {
        for &count in counts {
            assert!(count.abs_diff(expected) < within, "{count} for {expected}");
        }
    };
    assert_eq!((ads.len(), ad_types.len(), types.len()), (1_000, 5, 3));
    near(ads.values().collect(), COUNT / 1_000, 100);
    near(ad_types.values().collect(), COUNT / 5, 1_200);
    near(types.values().collect(), COUNT / 3, 1_500);
}

#[test]
fn the_variable_form_takes_136_bytes_on_average() {
    let segments = VariableSegments::generate(recipe(4), 100_000);
    let average = segments.size() as f64 / 100_000.0;
    assert!((135.9..136.2).contains(&average), "{average}");
}

#[test]
fn both_forms_give_the_same_answers() {
    let fixed = FixedSegments::generate(recipe(5), 50_000);
    let variable = VariableSegments::generate(recipe(5), 50_000);
    assert_eq!(fixed.size(), 64 * 50_000);
    let parsed: Vec<Event> = variable.events().map(|event| event.parse().unwrap()).collect();
    assert!(fixed.events().eq(parsed.iter().copied()));
    assert!(fixed.events().eq(Generator::new(recipe(5)).events(0..50_000)));
}

fn any_event() -> impl Strategy<Value = Event> {
    let ad_type = prop::sample::select(AdType::ALL);
    let event_type = prop::sample::select(EventType::ALL);
    (any::<(u128, u128, u128)>(), ad_type, event_type, any::<(i64, [u8; 4])>()).prop_map(
        |((user, page, ad), ad_type, event_type, (time, ip))| Event {
            user,
            page,
            ad,
            ad_type,
            event_type,
            time,
            ip,
        },
    )
}

fn text(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    variable::encode(event, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn both_forms_come_back(event in any_event()) {
        prop_assert_eq!(fixed::decode(&fixed::encode(&event)), Ok(event));
        let bytes = text(&event);
        let mut rest = bytes.as_slice();
        let decoded = variable::decode(&mut rest).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert_eq!(decoded.parse(), Ok(event));
        prop_assert_eq!(Some(event.user), parse_uuid(&uuid(event.user)));
    }

    #[test]
    fn text_cut_short_is_refused(event in any_event()) {
        let bytes = text(&event);
        for length in 0..bytes.len() {
            let error = variable::decode(&mut &bytes[..length]).unwrap_err();
            prop_assert_eq!(error.problem, Problem::Short);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_are_another_event(
        event in any_event(),
        place: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = fixed::encode(&event);
        bytes[place.index(64)] = byte;
        if let Ok(other) = fixed::decode(&bytes) {
            prop_assert_eq!(fixed::encode(&other), bytes);
        }
        let mut bytes = text(&event);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(Ok(other)) = variable::decode(&mut bytes.as_slice()).map(|event| event.parse()) {
            prop_assert_eq!(text(&other), bytes);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes: Vec<u8>) {
        if let Ok(event) = variable::decode(&mut bytes.as_slice()) {
            let _ = event.parse();
        }
    }
}

#[test]
fn errors_say_where() {
    let event = Generator::new(recipe(6)).event(0);
    let fail = |place: usize, byte: u8| {
        let mut bytes = text(&event);
        bytes[place] = byte;
        variable::decode(&mut bytes.as_slice()).and_then(|event| event.parse()).unwrap_err()
    };
    let error = |problem, offset| DecodeError { problem, offset };
    assert_eq!(fail(0, 255), error(Problem::Length, 0));
    assert_eq!(fail(1, b'G'), error(Problem::Form, 1));
    assert_eq!(fail(37 + 8, b'0'), error(Problem::Form, 37));
    assert_eq!(fail(73, b'-'), error(Problem::Form, 73));
    assert_eq!(fail(73, 0xff), error(Problem::Text, 1));
    assert_eq!(fail(122, b'X'), error(Problem::Form, 121));
    let end = text(&event).len() - 1;
    let second = end - event.event_type.name().len();
    assert_eq!(fail(end, b'X'), error(Problem::Form, second));

    let mut bytes = fixed::encode(&event);
    bytes[60] = 5;
    assert_eq!(fixed::decode(&bytes), Err(error(Problem::Unknown(5), 60)));
    let mut bytes = fixed::encode(&event);
    bytes[63] = 1;
    assert_eq!(fixed::decode(&bytes), Err(error(Problem::Form, 62)));
}
