//! Tokens for SASL by OAUTHBEARER, which a closure of the user gives.
//!
//! The closure runs on a thread of its own, `kafka-tokens`, from the first connection on: it may block, and a panic ends the job and no thread
//! of the engine. All clients of a source or sink share a token. The thread gets the next one when seven tenths of its lifetime are over:
//! librdkafka asks at eight tenths, and our own connections log in again then, so that neither waits for the closure.

use crate::threads::start;
use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a connection waits for the closure.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after a failure: behind the first one, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The pause after a token at least, however short its lifetime is.
const LEAST_PAUSE: Duration = Duration::from_millis(200);

/// How long librdkafka may show an expired token after there is a new one: it asks ten seconds after it was given none.
const LATE: Duration = Duration::from_secs(15);

const EXPIRED: &str = "the last one has expired, and the closure has not returned";

/// What the reason begins with where a connection has no token. It is tried again, unless it contains [`PANICKED`].
pub(crate) const NO_TOKEN: &str = "there is no token for ";
pub(crate) const PANICKED: &str = "the closure of `tokens` panicked";

/// A token of OAuth, by which the brokers know the user: what [`KafkaSource::tokens`](crate::KafkaSource::tokens) and
/// [`KafkaSink::tokens`](crate::KafkaSink::tokens) get from a closure. Its value is neither logged nor part of an error.
///
/// ```
/// use std::time::Duration;
/// use thalweg_kafka::Token;
///
/// let token = Token::expiring_in("eyJhbGciOiJSUzI1NiJ9.e30.c2VjcmV0", Duration::from_secs(300)).principal("job");
/// let shown = format!("{token:?}");
/// assert!(shown.contains("job") && !shown.contains("eyJ"));
/// ```
#[derive(Clone)]
pub struct Token {
    value: String,
    principal: String,
    expires: SystemTime,
}

impl Token {
    /// A token that is valid until a time, in the form that brokers take, usually a JSON Web Token.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use thalweg_kafka::Token;
    ///
    /// let token = Token::new("e30", SystemTime::now() + Duration::from_secs(60));
    /// assert!(!format!("{token:?}").contains("e30"));
    /// ```
    pub fn new(value: impl Into<String>, expires: SystemTime) -> Self {
        Self { value: value.into(), principal: "thalweg".to_owned(), expires }
    }

    /// A token that is valid for so long from now on: the `expires_in` of an answer with an `access_token`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_kafka::Token;
    ///
    /// let (access_token, expires_in) = ("e30", 3_600);
    /// let token = Token::expiring_in(access_token, Duration::from_secs(expires_in));
    /// assert!(format!("{token:?}").contains("expires"));
    /// ```
    pub fn expiring_in(value: impl Into<String>, lifetime: Duration) -> Self {
        let now = SystemTime::now();
        // A time that cannot be represented is too far away to matter.
        Self::new(value, now.checked_add(lifetime).unwrap_or(now + Duration::from_secs(1 << 32)))
    }

    /// Names the principal in messages of librdkafka; by default `thalweg`. Brokers take the name of the user from the token itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg_kafka::Token;
    ///
    /// let token = Token::expiring_in("e30", Duration::from_secs(60)).principal("job");
    /// assert!(format!("{token:?}").contains("job"));
    /// ```
    #[must_use]
    pub fn principal(mut self, name: impl Into<String>) -> Self {
        self.principal = name.into();
        self
    }

    /// The first message of a login (RFC 7628).
    pub(crate) fn first_message(&self) -> String {
        format!("n,,\x01auth=Bearer {}\x01\x01", self.value)
    }

    /// As librdkafka takes it.
    pub(crate) fn for_librdkafka(self) -> rdkafka::client::OAuthToken {
        let since = self.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        let lifetime_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX / 1_000);
        rdkafka::client::OAuthToken {
            token: self.value,
            principal_name: self.principal,
            lifetime_ms: lifetime_ms.min(i64::MAX / 1_000),
        }
    }

    /// What is left of its lifetime; zero if it is over.
    fn left(&self) -> Duration {
        self.expires.duration_since(SystemTime::now()).unwrap_or_default()
    }

    /// Why it is of no use, if it is not.
    fn check(&self) -> Result<(), String> {
        let is_visible = |text: &str| text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if self.value.is_empty() {
            return Err("the closure gave an empty token".to_owned());
        }
        if !is_visible(&self.value) {
            return Err(
                "the closure gave a token with spaces, line ends or other bytes than visible ASCII"
                    .to_owned(),
            );
        }
        if self.principal.contains('\0') {
            return Err("the principal of the token has a zero byte".to_owned());
        }
        if self.left().is_zero() {
            let over = SystemTime::now().duration_since(self.expires).unwrap_or_default();
            return Err(format!("the closure gave a token that expired {over:.1?} ago"));
        }
        Ok(())
    }
}

/// Without the value.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("principal", &self.principal)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// The user's closure, whose error is a text.
type Source = Box<dyn FnMut() -> Result<Token, String> + Send>;

/// Gives tokens to the clients of a source or sink.
pub(crate) struct Tokens(Arc<Shared>);

struct Shared {
    brokers: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Until the thread has it.
    source: Option<Source>,
    /// The last token, and its lifetime when it came.
    current: Option<(Token, Duration)>,
    /// Why the last call gave none.
    failed: Option<String>,
    /// When there was last no token, and why.
    gap: Option<(Instant, String)>,
    /// Whether a connection waits for a token.
    is_awaited: bool,
    is_over: bool,
}

impl Tokens {
    pub(crate) fn new<E>(
        brokers: &str,
        mut source: impl FnMut() -> Result<Token, E> + Send + 'static,
    ) -> Self
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let source: Source = Box::new(move || source().map_err(|error| said(&*error.into())));
        let state = State { source: Some(source), ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self(Arc::new(Shared { brokers: brokers.to_owned(), state, changed }))
    }

    /// A token with a tenth of its lifetime left at least. Blocks while the closure runs for the first one.
    ///
    /// # Errors
    ///
    /// Why there is none, which begins with [`NO_TOKEN`].
    pub(crate) fn get(&self) -> Result<Token, String> {
        self.get_within(PATIENCE)
    }

    fn get_within(&self, patience: Duration) -> Result<Token, String> {
        let Self(shared) = self;
        let mut state = shared.state();
        if let Some(source) = state.source.take() {
            let of_thread = Arc::clone(shared);
            if let Err(error) = start("kafka-tokens", move || of_thread.renew(source)) {
                state.failed = Some(shared.without(&error.to_string()));
            }
        }
        let until = Instant::now() + patience;
        loop {
            if let Some((token, lifetime)) = &state.current
                && token.left() > *lifetime / 10
            {
                return Ok(token.clone());
            }
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("the closure has not returned for {patience:?}");
                let why = shared.without(&why);
                state.gap = Some((Instant::now(), why.clone()));
                return Err(why);
            }
            state.is_awaited = true;
            shared.changed.notify_all();
            let waited = shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Why librdkafka may have no other token to show than an expired one, if so.
    pub(crate) fn gap(&self) -> Option<String> {
        let state = self.0.state();
        if let Some(failed) = &state.failed {
            return Some(failed.clone());
        }
        if state.current.as_ref().is_some_and(|(token, _)| token.left().is_zero()) {
            return Some(self.0.without(EXPIRED));
        }
        let gap = state.gap.as_ref().filter(|(at, _)| at.elapsed() < LATE);
        gap.map(|(_, why)| why.clone())
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("brokers", &self.0.brokers).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn without(&self, why: &str) -> String {
        // librdkafka takes texts up to a zero byte.
        format!("{NO_TOKEN}{}: {why}", self.brokers).replace('\0', " ")
    }

    /// Calls the closure again and again, until no client is left.
    fn renew(&self, mut source: Source) {
        let mut pause_of_failures = FIRST_PAUSE;
        loop {
            let called = catch_unwind(AssertUnwindSafe(&mut source));
            let mut state = self.state();
            state.is_awaited = false;
            let pause = match called {
                Ok(Ok(token)) if token.check().is_ok() => {
                    let lifetime = token.left();
                    let has_expired = |(last, _): &(Token, Duration)| last.left().is_zero();
                    let without = match state.failed.take() {
                        None if state.current.as_ref().is_some_and(has_expired) => {
                            Some(self.without(EXPIRED))
                        }
                        failed => failed,
                    };
                    if let Some(why) = without {
                        state.gap = Some((Instant::now(), why));
                    }
                    (state.current, state.failed) = (Some((token, lifetime)), None);
                    pause_of_failures = FIRST_PAUSE;
                    lifetime.mul_f64(0.7).max(LEAST_PAUSE)
                }
                Ok(given) => {
                    let why = given.and_then(|token| token.check()).err().unwrap_or_default();
                    let failed = self.without(&why);
                    log::warn!("{failed}");
                    state.gap = Some((Instant::now(), failed.clone()));
                    state.failed = Some(failed);
                    let pause = pause_of_failures;
                    pause_of_failures = (2 * pause).min(LONGEST_PAUSE);
                    pause
                }
                Err(panic) => {
                    let failed = format!("{PANICKED}: {}", message(&*panic));
                    (state.current, state.failed) = (None, Some(self.without(&failed)));
                    self.changed.notify_all();
                    return;
                }
            };
            self.changed.notify_all();
            let has_failed = state.failed.is_some();
            let until = Instant::now() + pause;
            // A token that has expired before its time, as where the machine slept, is replaced when it is needed.
            while !state.is_over && (has_failed || !state.is_awaited) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_over {
                return;
            }
        }
    }
}

/// An error with its causes.
fn said(error: &(dyn StdError + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const LONG: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_message_has_the_token_in_the_form_of_rfc_7628() {
        let token = Token::expiring_in("abc", LONG);
        assert_eq!(token.first_message(), "n,,\x01auth=Bearer abc\x01\x01");
    }

    #[test]
    fn no_value_is_shown() {
        let token = Token::expiring_in("secret", LONG);
        let tokens = Tokens::new("a:1", move || Ok::<_, Infallible>(token.clone()));
        assert!(!format!("{tokens:?} {:?}", tokens.get().unwrap()).contains("secret"));
    }

    #[test]
    fn clients_share_a_token_until_it_is_renewed_ahead_of_its_end() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let tokens = Tokens::new("a:1", move || {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Token::expiring_in(call.to_string(), Duration::from_secs(1)))
        });
        assert_eq!(calls.load(Ordering::SeqCst), 0, "a source that is not opened needs none");
        let begun = Instant::now();
        let mut last = 0;
        while last < 3 {
            let now = SystemTime::now();
            let token = tokens.get().unwrap();
            assert!(token.expires > now, "{token:?}");
            let number = token.value.parse().unwrap();
            assert!(number >= last);
            last = number;
            assert!(begun.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
        assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
        drop(tokens);
        thread::sleep(Duration::from_millis(900));
        let then = calls.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(900));
        assert_eq!(calls.load(Ordering::SeqCst), then, "the thread ends with the last client");
    }

    #[test]
    fn an_error_is_said_and_the_closure_called_again() {
        let mut calls = 0;
        let given = Arc::<Mutex<Option<Instant>>>::default();
        let given_at = Arc::clone(&given);
        let tokens = Tokens::new("a:1,b:2", move || {
            calls += 1;
            match calls {
                1 => Err("the server is away"),
                _ => {
                    *given_at.lock().unwrap() = Some(Instant::now());
                    Ok(Token::expiring_in("abc", LONG))
                }
            }
        });
        let failed = "there is no token for a:1,b:2: the server is away";
        assert_eq!(tokens.get().unwrap_err(), failed);
        assert_eq!(tokens.gap().unwrap(), failed);
        let begun = Instant::now();
        while tokens.get().is_err() {
            assert!(begun.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(20));
        }
        // librdkafka may not have the new one yet, for a while that begins now.
        assert_eq!(tokens.gap().unwrap(), failed);
        assert!(tokens.0.state().gap.as_ref().map(|(at, _)| *at) >= *given.lock().unwrap());
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let given = |token: Token| Tokens::new("a:1", move || Ok::<_, Infallible>(token.clone()));
        let past = SystemTime::now() - LONG;
        for (token, says) in [
            (Token::new("abc", past), "that expired 3600"),
            (Token::expiring_in("", LONG), "an empty token"),
            (Token::expiring_in("ab c", LONG), "with spaces"),
            (Token::expiring_in("abc\n", LONG), "line ends"),
            (Token::expiring_in("abc", LONG).principal("a\0b"), "zero byte"),
        ] {
            let why = given(token).get().unwrap_err();
            assert!(why.contains(says) && !why.contains("ab"), "{why}");
        }
    }

    #[test]
    fn a_panic_is_for_good_and_a_closure_that_blocks_is_not_waited_for_without_end() {
        let panics = Tokens::new("a:1", || -> Result<Token, Infallible> { panic!("no {}", "way") });
        for _ in 0..2 {
            let why = panics.get().unwrap_err();
            assert_eq!(why, "there is no token for a:1: the closure of `tokens` panicked: no way");
        }
        let blocks = Tokens::new("a:1", || {
            thread::sleep(Duration::from_secs(5));
            Ok::<_, Infallible>(Token::expiring_in("abc", LONG))
        });
        assert_eq!(blocks.gap(), None);
        let why = blocks.get_within(Duration::from_millis(100)).unwrap_err();
        assert_eq!(blocks.gap().unwrap(), why);
        assert!(why.contains("has not returned for 100ms"), "{why}");
    }

    #[test]
    fn a_token_that_has_expired_is_a_gap() {
        let (mut calls, lifetime) = (0, Duration::from_millis(300));
        let tokens = Tokens::new("a:1", move || {
            calls += 1;
            thread::sleep(if calls == 2 { 3 * lifetime } else { Duration::ZERO });
            Ok::<_, Infallible>(Token::expiring_in("abc", if calls == 2 { LONG } else { lifetime }))
        });
        tokens.get().unwrap();
        assert_eq!(tokens.gap(), None);
        thread::sleep(2 * lifetime);
        assert!(tokens.gap().unwrap().ends_with("and the closure has not returned"));
        assert!(tokens.get().unwrap().left() > lifetime);
        assert!(tokens.gap().is_some());
    }

    #[test]
    fn lifetimes_that_cannot_be_represented_are_long() {
        let token = Token::expiring_in("abc", Duration::MAX).for_librdkafka();
        assert!(token.lifetime_ms > 4_000_000_000_000);
        // librdkafka counts it in microseconds.
        assert!(token.lifetime_ms.checked_mul(1_000).is_some());
    }
}
