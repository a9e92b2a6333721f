//! A sum that does not fit its type is an error that names operator and key, and one that fits is not, whichever
//! operator computes it.

use crate::check::{check, every};
use crate::operators::time::Watermarks;
use crate::operators::window::{
    CountWindow, CustomWindow, Early, EventTimeWindow, GlobalWindow, LastWindow, MakeWindows,
    ProcessingTimeWindow, SessionWindow, Transaction, TransactionWindow, WindowContext,
};
use crate::time::{Time, Timestamp};
use crate::{Chain, Environment, ErrorKind, Result, Stream};
use std::fmt::{Debug, Formatter};
use std::time::Duration;

/// Keys and numbers: the sum of key 7 does not fit into a byte, and nor does the sum of any three of its numbers.
const VALUES: [(u32, u8); 8] =
    [(7, 100), (1, 200), (7, 90), (2, 1), (7, 91), (1, 50), (7, 92), (7, 93)];

type Pair = (u32, u8);

/// Runs the job in every configuration; in each it must fail because of the sum of this key.
#[track_caller]
fn overflows<C: Chain<Item: Sized>>(key: &str, job: impl Fn(&Environment) -> Stream<C> + Sync) {
    every(|env| {
        let out = job(env).count().collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.operator().is_some_and(|name| name.contains(file!())), "{error}");
        assert!(error.message().starts_with("the sum does not fit the type"), "{error}");
        let named = error.message().split_once(", of key ").map_or("", |(_, key)| key);
        assert_eq!(named, key, "{error}");
        assert!(out.take().is_err());
        Ok(())
    });
}

#[test]
fn sums_of_keys() {
    let number = |pair: &Pair| pair.1;
    overflows("7", |env| env.iter(VALUES).group_by(|pair| pair.0).sum(number).unkey());
    overflows("7", |env| env.iter(VALUES).group_by(|p| p.0).repartition().sum(number).unkey());
    overflows("7", |env| {
        let keyed = env.iter(VALUES).shuffle().group_by(|pair| pair.0);
        keyed.aggregate(|a| (a.count(), a.sum(number), a.max(number))).unkey()
    });
    overflows("\"k7\"", |env| {
        let lines = env.iter(VALUES).map(|(key, number)| (format!("k{key}"), number));
        lines.group_by_ref(|pair| pair.0.as_str()).sum(|pair| pair.1).unkey()
    });
    // A key that the message cannot name.
    overflows("", |env| env.iter(VALUES).group_by(|_| ()).sum(number).unkey());
    overflows("7", |env| {
        let spans = env
            .iter(VALUES)
            .map(|(key, number)| (key, Duration::from_secs(u64::MAX / 256) * u32::from(number)));
        spans.group_by(|pair| pair.0).sum(|pair| pair.1).unkey()
    });
}

#[test]
fn sums_in_tables_of_every_size() {
    // Records of many keys wait for their slots, are sent uncombined, and go to disk.
    const KEYS: u64 = 150_000;
    for seed in 0..2 {
        let config = crate::config::Config {
            cores: 2.try_into().unwrap(),
            memory: if seed == 0 { 1 << 30 } else { 8 << 20 },
            ..crate::config::Config::default()
        };
        let env = Environment::with_config(config);
        let numbers =
            env.range(0..5 * KEYS).map(|n| (n % KEYS, if n % KEYS == 77 { 60_u8 } else { 1 }));
        let sums = numbers.group_by(|pair| pair.0).sum(|pair| pair.1).unkey().count().collect_one();
        let error = env.run().unwrap_err();
        assert!(error.message().ends_with(", of key 77"), "{error}");
        assert!(sums.take().is_err());
    }
}

/// Values that are a second apart.
fn timed(env: &Environment) -> Stream<impl Chain<Item = Pair, Time = Timestamp>> {
    let at = |at: usize| Timestamp::from_secs(at as i64);
    env.iter(VALUES.into_iter().enumerate())
        .assign_timestamps(move |(number, _)| at(*number), Watermarks::monotonous())
        .map(|(_, pair)| pair)
}

/// All values in one window, which only the end of the input closes.
struct One;

impl<T: Time> MakeWindows<Pair, T> for One {
    type Bounds = u8;
    type State = ();

    fn start(&self) {}

    fn on_value(&self, (): &mut (), _: &Pair, _: T, cx: &mut WindowContext<'_, u8>) {
        cx.add(0);
    }
}

#[test]
fn sums_of_windows() {
    let number = |pair: &Pair| pair.1;
    let second = Duration::from_secs(1);
    macro_rules! windows {
        ($source:expr, $($window:expr),* $(,)?) => {$(
            overflows("7", |env| $source(env).group_by(|p: &Pair| p.0).window($window).sum(number).unkey());
            overflows("", |env| $source(env).window_all($window).sum(number));
        )*};
    }
    let plain = |env: &Environment| env.iter(VALUES).boxed();
    windows!(
        plain,
        CountWindow::tumbling(3),
        CountWindow::sliding(3, 1),
        CountWindow::sliding(4, 2).keep_partial(),
        LastWindow::new(3),
        GlobalWindow::new(),
        TransactionWindow::new(|_: &Pair| Transaction::Continue),
        CustomWindow::new(One),
        ProcessingTimeWindow::sliding(1000 * second, 100 * second),
    );
    windows!(
        timed,
        EventTimeWindow::tumbling(100 * second),
        EventTimeWindow::sliding(100 * second, second),
        EventTimeWindow::sliding(100 * second, second).early(Early::every(1)),
        SessionWindow::new(100 * second),
        SessionWindow::new(100 * second).early(Early::every(2)),
    );
}

/// The intermediate sum of a window never includes values outside the window.
#[test]
fn sums_that_fit_are_no_errors() {
    // Three consecutive values fit into a byte, four do not.
    let bytes = [85_u8, 85, 85, 0, 0, 255, 0, 0, 254, 1, 0, 254];
    let windows: Vec<u8> = bytes.windows(3).map(|window| window.iter().sum()).collect();
    check(|env| {
        env.iter(bytes).window_all(CountWindow::sliding(3, 1)).sum(|n| *n).map(|p| p.value)
    })
    .equals(windows.clone());
    let mut expected = windows.clone();
    expected.extend([254, 254]);
    check(|env| {
        let window = CountWindow::sliding(3, 1).keep_partial();
        env.iter(bytes).window_all(window).sum(|n| *n).map(|p| p.value)
    })
    .equals(expected);
    let second = Duration::from_secs(1);
    let mut expected = vec![85, 170];
    expected.extend(&windows);
    expected.extend([254, 254]);
    check(|env| {
        env.iter(bytes.into_iter().enumerate())
            .assign_timestamps(|(at, _)| Timestamp::from_secs(*at as i64), Watermarks::monotonous())
            .map(|(_, byte)| byte)
            .window_all(EventTimeWindow::sliding(3 * second, second))
            .sum(|n| *n)
            .map(|pane| pane.value)
    })
    .equals(expected);
    check(|env| env.iter(bytes).group_by(|n| *n / 86).sum(|n| u64::from(*n)))
        .equals([(0, 256), (2, 763)]);
}

/// A key whose `Debug` fails.
#[derive(Clone, PartialEq, Eq, crate::Data)]
struct Mute(u8);

impl Debug for Mute {
    fn fmt(&self, _: &mut Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { panic!("no") } else { Err(std::fmt::Error) }
    }
}

#[test]
fn a_key_that_cannot_be_shown_ends_no_process() -> Result<()> {
    for key in [0, 1] {
        let env = Environment::new();
        let out = env
            .iter([200_u8, 100])
            .group_by(move |_| Mute(key))
            .sum(|n| *n)
            .unkey()
            .count()
            .collect_one();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.message().ends_with(", of key that cannot be shown"), "{error}");
        assert!(out.take().is_err());
    }
    // A text that is too long is cut, at a character boundary.
    let env = Environment::new();
    let sums = env.iter([200_u8, 100]).group_by(|_| "ü".repeat(1000)).sum(|n| *n).unkey();
    let out = sums.count().collect_one();
    let error = env.run().unwrap_err();
    assert!(error.message().ends_with("üü…") && error.message().len() < 1000, "{error}");
    assert!(out.take().is_err());
    // The next job on the same threads is not affected.
    let panics = env
        .iter([1])
        .group_by(|n| *n)
        .fold(0, |_, _| panic!("other"))
        .unkey()
        .count()
        .collect_one();
    assert_eq!(env.run().unwrap_err().message(), "panicked: other");
    drop(panics);
    Ok(())
}
