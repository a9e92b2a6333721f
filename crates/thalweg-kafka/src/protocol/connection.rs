//! A connection to a broker: opened, encrypted and logged in as the settings say, with a limit of time for each step.

use super::answer::{Answered, Coming, Limits, Wanted, Whole, api, request};
use super::fault::Fault;
use super::login::Login;
use super::settings::Settings;
use super::wire::{self, Answer, Api, Torn, Versions};
use super::{PATIENCE, login};
use crate::connections::{advice, is_final};
use rdkafka::error::RDKafkaErrorCode as Code;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection on which a broker answers.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    /// Of the broker.
    name: String,
    /// What the client calls itself.
    client: String,
    /// Of the last request.
    number: i32,
    /// What the broker takes, once that is known.
    versions: Vec<Versions>,
    login: Option<Arc<Login>>,
    /// When to log in again, before the time of the login is over.
    login_at: Option<Instant>,
}

/// How much longer than it may wait for records a broker takes that has no trouble.
const LATE: Duration = Duration::from_secs(1);
/// How long it takes to see what is there.
const MOMENT: Duration = Duration::from_millis(10);

/// A socket whose reads and writes all end at a time, however slowly bytes come, or when none has come for a while.
#[derive(Debug)]
pub(super) struct Socket {
    tcp: TcpStream,
    until: Instant,
    /// By how much each byte puts off the time, as in answers with records, which may be long.
    renews: Option<Duration>,
}

/// What a connection goes through.
pub(super) trait Stream: Read + Write + Send {
    /// The socket underneath.
    fn socket(&mut self) -> &mut Socket;
}

impl Stream for Socket {
    fn socket(&mut self) -> &mut Socket {
        self
    }
}

impl Socket {
    fn open(host: &str, port: u16) -> io::Result<Self> {
        let mut last = io::Error::other("the name has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    let until = Instant::now() + PATIENCE;
                    return Ok(Self { tcp, until, renews: None });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            // As when it is over while the socket waits. TLS can go on behind it.
            Duration::ZERO => Err(io::ErrorKind::WouldBlock.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(self.left()?)?;
        let read = self.tcp.read(bytes)?;
        if let Some(time) = self.renews
            && read > 0
        {
            self.until = Instant::now() + time;
        }
        Ok(read)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(self.left()?)?;
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

/// An answer with records. Where a part of it does not come in time, this is said once, and it is waited for once more.
struct Awaited<'a, L> {
    stream: &'a mut dyn Stream,
    late: Option<L>,
    /// Whether nothing was there when its time was over: this thread may not have run meanwhile.
    has_looked: bool,
}

impl<'a, L: FnOnce()> Awaited<'a, L> {
    /// One before which the broker may wait for so long.
    fn new(stream: &'a mut dyn Stream, wait: Duration, late: L) -> Self {
        let socket = stream.socket();
        (socket.until, socket.renews) = (Instant::now() + wait + LATE, Some(LATE));
        Self { stream, late: Some(late), has_looked: false }
    }

    fn length(&mut self) -> io::Result<usize> {
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        usize::try_from(i32::from_be_bytes(length)).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

impl<L: FnOnce()> Read for Awaited<'_, L> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(bytes);
            let is_over = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            };
            if !read.as_ref().is_err_and(is_over) {
                self.has_looked = false;
                return read;
            }
            let socket = self.stream.socket();
            if !std::mem::replace(&mut self.has_looked, true) {
                socket.until = Instant::now() + MOMENT;
            } else if let Some(late) = self.late.take() {
                late();
                (socket.until, socket.renews) = (Instant::now() + PATIENCE, Some(PATIENCE));
            } else {
                return read;
            }
        }
    }
}

impl Connection {
    pub(crate) fn new(settings: &Settings, host: &str, port: u16) -> Result<Self, Fault> {
        let name = format!("{host}:{port}");
        let socket = Socket::open(host, port).map_err(|error| lost(&name, &error))?;
        #[cfg(feature = "tls")]
        let stream: Box<dyn Stream> = match &settings.tls {
            Some(tls) => {
                let opened = tls.connect(host, socket);
                Box::new(opened.map_err(|reason| failed(&name, None, reason, false))?)
            }
            None => Box::new(socket),
        };
        #[cfg(not(feature = "tls"))]
        let stream = Box::new(socket);
        let client = settings.client.clone();
        let mut connection = Self {
            stream,
            name,
            client,
            number: 0,
            versions: Vec::new(),
            login: settings.login.clone(),
            login_at: None,
        };
        let (code, versions) =
            connection.ask(wire::API_VERSIONS, &[], |answer| answer.api_versions())?;
        Fault::check(code)?;
        connection.versions = versions;
        connection.log_in()?;
        Ok(connection)
    }

    fn log_in(&mut self) -> Result<(), Fault> {
        let Some(login) = self.login.clone() else { return Ok(()) };
        // Not again for its own requests.
        self.login_at = None;
        let again = login::log_in(self, &login)?;
        self.login_at = again.map(|again| Instant::now() + again);
        Ok(())
    }

    /// Logs in again if the time of the login is about to be over.
    fn renew_login(&mut self) -> Result<(), Fault> {
        match self.login_at.is_some_and(|at| at <= Instant::now()) {
            true => self.log_in(),
            false => Ok(()),
        }
    }

    /// Sends a request, and decodes its answer.
    pub(super) fn ask<T>(
        &mut self,
        api: Api,
        body: &[u8],
        decode: impl FnOnce(Answer<'_>) -> Result<T, Torn>,
    ) -> Result<T, Fault> {
        self.look_for(api)?;
        self.renew_login()?;
        self.number = self.number.wrapping_add(1);
        let frame = wire::request(api, self.number, &self.client, body);
        let answer = self.exchange(&frame).map_err(|error| self.fault(&error))?;
        let decoded = Answer::open(api, self.number, &answer).and_then(decode);
        decoded.map_err(|Torn| self.not_kafka())
    }

    /// Gets records of partitions, with the functions of [`Coming::decode`]; `late` is called if an answer is, which is waited for all
    /// the same. Returns how long the broker wants not to be asked again.
    pub(crate) fn fetch(
        &mut self,
        limits: &Limits,
        wanted: &[Wanted],
        late: impl FnOnce(),
        buffer: impl FnMut(usize) -> Vec<u8>,
        take: impl FnMut(usize, Answered, Vec<u8>),
    ) -> Result<Duration, Fault> {
        let api = api(self.takes(wire::FETCH_BY_ID), wanted);
        self.look_for(api)?;
        self.renew_login()?;
        self.number = self.number.wrapping_add(1);
        let frame = wire::request(api, self.number, &self.client, &request(api, limits, wanted));
        let answered = self.send(&frame).and_then(|()| {
            let mut answer = Awaited::new(&mut *self.stream, limits.wait, late);
            let length = answer.length()?;
            let coming = Coming::new(&mut answer, length);
            coming.decode(api, self.number, (limits, wanted), buffer, take)
        });
        let Whole { code, throttled } = answered.map_err(|error| self.fault(&error))?;
        Fault::check(code).map(|()| throttled)
    }

    /// Sends a request, whose answer is to come as soon.
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let socket = self.stream.socket();
        (socket.until, socket.renews) = (Instant::now() + PATIENCE, None);
        self.stream.write_all(frame)?;
        self.stream.flush()
    }

    /// Checks that the broker knows a request in the version that it is sent in. One that does not closes the connection.
    fn look_for(&self, api: Api) -> Result<(), Fault> {
        if api == wire::API_VERSIONS || self.takes(api) {
            return Ok(());
        }
        let Api { name: request, version, .. } = api;
        let since = match request {
            "Fetch" => {
                "2.8 or later are needed (`KafkaSource::fetch_by_librdkafka` reads from older ones)"
            }
            _ => "3.0 or later are needed",
        };
        let what = format!(
            "{} does not know the request {request} of version {version}: brokers of version {since}",
            self.name
        );
        Err(Fault::Final(what))
    }

    fn takes(&self, api: Api) -> bool {
        let takes = |(key, first, last): &Versions| {
            *key == api.key && (*first..=*last).contains(&api.version)
        };
        self.versions.iter().any(takes)
    }

    fn fault(&self, error: &io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::InvalidData => self.not_kafka(),
            _ => lost(&self.name, error),
        }
    }

    fn exchange(&mut self, frame: &[u8]) -> io::Result<Vec<u8>> {
        self.send(frame)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > wire::LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut answer = Vec::new();
        // It takes memory as bytes come, and not before.
        (&mut self.stream).take(length as u64).read_to_end(&mut answer)?;
        if answer.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }

    /// The fault of an answer that makes no sense.
    pub(super) fn not_kafka(&self) -> Fault {
        // What a broker with TLS answers to a client without begins with the number of an alert.
        let what = "the answer is not one of Kafka's protocol; with TLS, `security.protocol` is `ssl` or `sasl_ssl`";
        Fault::Later(format!("{}: {what}", self.name))
    }

    /// The fault of a broker that does not accept a login.
    pub(super) fn refused(&self, reason: String) -> Fault {
        let by_token = self.login.as_ref().is_some_and(|login| login.is_by_token());
        failed(&self.name, Some(Code::SaslAuthenticationFailed), reason, by_token)
    }
}

fn lost(name: &str, error: &io::Error) -> Fault {
    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the broker has closed the connection".to_owned(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "no answer in time".to_owned(),
        _ => error.to_string(),
    };
    failed(name, None, reason, false)
}

/// The fault of a connection, which is final if one side refuses the other.
fn failed(name: &str, code: Option<Code>, reason: String, by_token: bool) -> Fault {
    let failed = (code.or(Some(Code::SSL)), reason);
    let what = format!("{name}: {}{}", failed.1, advice(&failed, by_token));
    if is_final(&failed) { Fault::Final(what) } else { Fault::Later(what) }
}
