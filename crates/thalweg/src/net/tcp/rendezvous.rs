//! How hosts find each other and connect: all connect to the first one, which then sends each the addresses of the
//! others; each of those connects to the ones with lower numbers. When all are connected, the first one sends all the
//! message to begin.
//!
//! All of it is done on the thread that waits for it, but for looking names up ([`names`](super::names)). A connection that
//! is not authenticated is dropped, and cannot keep a host from connecting: the number of such connections is bounded
//! ([`strangers`](super::strangers)), and so are their bytes and their time. When the hosts are connected, the listening
//! socket is closed.
#![expect(clippy::disallowed_methods, reason = "the door to the network")]

use super::connection::{Connection, Happened, Message};
use super::handshake::{Handshake, Identity, Refusal, Role, VERSION};
use super::names::resolve;
use super::strangers::{Stranger, expendable};
use super::stream::{Security, Stream};
use crate::clock::{Clock, Nanos, nanos};
use crate::config::HostConfig;
use crate::error::{Error, ErrorKind, Result};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The hosts, connected to this one.
pub(super) struct Met {
    /// All hosts, in order.
    pub(super) hosts: Vec<Identity>,
    /// The connections to all hosts but this one.
    pub(super) streams: BTreeMap<usize, Stream>,
}

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long an attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The first pause between attempts to connect, which doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How much longer a host waits for what another one decides: that one then says why.
const GRACE: Duration = Duration::from_secs(2);
/// How long a host tries to send the others the reason why it gives up.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long the first host waits for others, to send them the reason why the hosts cannot work together.
const LINGER: Duration = Duration::from_secs(2);
/// Connections that are not authentic yet, beyond one for each host.
const STRANGERS: usize = 64;
/// The connections that are accepted before others are served.
const AT_ONCE: usize = 32;
/// How long no connection is accepted after the system has refused to.
const RELIEF: Duration = Duration::from_millis(200);

/// The refusals that are reported while hosts connect.
const REPORTED: usize = 20;

const LISTENER: Token = Token(0);
const FIRST: u32 = 0;

/// Connects this host with all others. The address in `mine` is set here.
pub(super) fn meet(config: &HostConfig, mine: Identity) -> Result<Met> {
    let mut meeting = Meeting::new(config, mine, Clock::system())?;
    match meeting.connect() {
        Ok(()) => meeting.met(),
        Err(error) => {
            meeting.report(&error);
            Err(error)
        }
    }
}

struct Meeting<'a> {
    config: &'a HostConfig,
    security: Security,
    mine: Identity,
    clock: Clock,
    deadline: Nanos,
    poll: Poll,
    /// The addresses to listen at, if they are given: at the first of them where that works.
    listen_at: Vec<SocketAddr>,
    listener: Option<TcpListener>,
    /// When to accept connections, if some may wait: there is no other event for them.
    accept_at: Option<Nanos>,
    /// Whether it was reported that the system accepts no connection.
    is_full: bool,
    /// By token.
    connections: BTreeMap<usize, Connection>,
    next_token: usize,
    /// The tokens of the hosts that are connected.
    joined: BTreeMap<u32, usize>,
    /// The hosts that this one connects to, and has not reached.
    calls: BTreeMap<u32, Call>,
    /// Of the hosts that are connected, what they are.
    known: BTreeMap<u32, Identity>,
    /// All hosts, once the first one has sent them.
    roster: Option<Vec<Identity>>,
    /// On the first host: those that are connected to all others.
    connected: BTreeSet<u32>,
    /// Whether this host is connected to all others and has said so.
    ready: bool,
    /// Whether all hosts are connected.
    begun: bool,
    /// On the first host: why the hosts cannot work together. It waits a little for hosts that are not notified yet.
    verdict: Option<String>,
    /// On the first host: the hosts to which the verdict was sent.
    notified: BTreeSet<u32>,
    refusals: usize,
    /// The last connection that was refused, and why.
    refused: Option<String>,
}

/// A host that is to be reached.
struct Call {
    address: String,
    attempts: usize,
    /// The connection that is tried.
    token: Option<usize>,
    next: Nanos,
    pause: Duration,
    /// Why the last attempt has failed.
    failed: String,
}

impl Call {
    fn new(address: &str, now: Nanos) -> Self {
        let failed = "it does not answer".to_owned();
        Self {
            address: address.to_owned(),
            attempts: 0,
            token: None,
            next: now,
            pause: PAUSE,
            failed,
        }
    }

    /// The attempt has failed.
    fn again(&mut self, why: String, now: Nanos) {
        self.token = None;
        self.failed = why;
        self.next = now.saturating_add(nanos(self.pause));
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

/// The address of a host as this one reaches it. One that the first host sees on loopback is on the same machine, where
/// this host reaches the first.
fn seen_from_here(address: &str, first: Option<SocketAddr>) -> String {
    match (address.parse::<SocketAddr>(), first) {
        (Ok(host), Some(first)) if host.ip().is_loopback() && !first.ip().is_loopback() => {
            SocketAddr::new(first.ip(), host.port()).to_string()
        }
        _ => address.to_owned(),
    }
}

impl<'a> Meeting<'a> {
    fn new(config: &'a HostConfig, mine: Identity, clock: Clock) -> Result<Self> {
        let security = Security::new(config)?;
        let deadline = clock.now().saturating_add(nanos(config.connect_timeout));
        let poll = Poll::new().map_err(|cause| failed("wait for the network", cause))?;
        let is_first = mine.host == FIRST;
        let listen = config.listen.as_ref().or(is_first.then_some(&config.first));
        let listen_at = match listen {
            None => Vec::new(),
            Some(name) => {
                resolve(name, config.connect_timeout).map_err(|why| cannot_listen(name, &why))?
            }
        };
        let mut meeting = Self {
            config,
            security,
            mine,
            deadline,
            clock,
            poll,
            listen_at,
            listener: None,
            accept_at: None,
            is_full: false,
            connections: BTreeMap::new(),
            next_token: LISTENER.0 + 1,
            joined: BTreeMap::new(),
            calls: BTreeMap::new(),
            known: BTreeMap::new(),
            roster: None,
            connected: BTreeSet::new(),
            ready: false,
            begun: false,
            verdict: None,
            notified: BTreeSet::new(),
            refusals: 0,
            refused: None,
        };
        if is_first {
            meeting.listen()?;
            meeting.mine.address.clone_from(&config.first);
        } else {
            meeting.calls.insert(FIRST, Call::new(&config.first, meeting.clock.now()));
        }
        Ok(meeting)
    }

    fn is_first(&self) -> bool {
        self.mine.host == FIRST
    }

    /// Listens at the first address at which that works.
    fn listen(&mut self) -> Result<SocketAddr> {
        let mut failed = String::new();
        for address in &self.listen_at {
            let bound = TcpListener::bind(*address).and_then(|mut listener| {
                self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
                Ok((listener.local_addr()?, listener))
            });
            match bound {
                Ok((address, listener)) => {
                    self.listener = Some(listener);
                    return Ok(address);
                }
                Err(error) => {
                    failed = error.to_string();
                    let elsewhere = error.kind() == io::ErrorKind::AddrNotAvailable;
                    if elsewhere && self.is_first() && self.config.listen.is_none() {
                        failed += ": host 0 has to run on the machine of that address, or needs an \
                                   address to listen at (`--listen`)";
                    }
                }
            }
        }
        let given = self.config.listen.as_ref().or(self.is_first().then_some(&self.config.first));
        let any = || self.listen_at.first().map(SocketAddr::to_string).unwrap_or_default();
        Err(cannot_listen(&given.cloned().unwrap_or_else(any), &failed))
    }

    /// Runs until all hosts are connected.
    fn connect(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            self.call()?;
            if self.begun && self.joined_flushed() {
                return Ok(());
            }
            let until_next = self.until_next();
            self.wait(&mut events, until_next)
                .map_err(|cause| failed("wait for the network", cause))?;
            let now = self.clock.now();
            for event in &events {
                match event.token() {
                    LISTENER => {
                        self.accept_at.get_or_insert(now);
                    }
                    Token(token) => self.advance(token)?,
                }
            }
            if self.accept_at.is_some_and(|at| at <= now) {
                self.accept()?;
            }
            self.expire()?;
        }
    }

    /// Waits for events. A signal to the process may end the wait without one.
    fn wait(&mut self, events: &mut Events, at_most: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(at_most)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            polled => polled,
        }
    }

    fn joined_flushed(&self) -> bool {
        let connection = |token: &usize| self.connections.get(token);
        self.joined.values().filter_map(connection).all(Connection::is_flushed)
    }

    /// The time until something is to be done without an event.
    fn until_next(&self) -> Duration {
        let now = self.clock.now();
        if self.accept_at.is_some_and(|at| at <= now) {
            return Duration::ZERO;
        }
        let calls = self.calls.values().filter(|call| call.token.is_none()).map(|call| call.next);
        let handshakes = self.connections.values().filter(|connection| !connection.is_joined());
        let next = calls
            .chain(handshakes.map(|connection| connection.began + limit(connection)))
            .chain(self.accept_at)
            .chain([self.deadline])
            .min();
        let left = next.unwrap_or(self.deadline).saturating_sub(now);
        // Rounded up to the granularity of the system call.
        Duration::from_nanos(left) + Duration::from_millis(1)
    }

    /// Begins the attempts to connect that are due. Looking a name up may take until the deadline. Only the first host is
    /// called by a name, and a host that has not reached it has nothing else to do.
    fn call(&mut self) -> Result<()> {
        let now = self.clock.now();
        let left = Duration::from_nanos(self.deadline.saturating_sub(now));
        let due = |call: &&mut Call| call.token.is_none() && call.next <= now;
        let mut tried = Vec::new();
        for call in self.calls.values_mut().filter(due) {
            let attempt = resolve(&call.address, left).and_then(|addresses| {
                let address = addresses[call.attempts % addresses.len()];
                TcpStream::connect(address)
                    .map(|stream| (stream, address))
                    .map_err(|e| e.to_string())
            });
            call.attempts += 1;
            match attempt {
                Ok((stream, address)) => {
                    let stream = self.security.stream(stream, Role::Connects, address)?;
                    let token = self.next_token;
                    self.next_token += 1;
                    call.token = Some(token);
                    tried.push((token, Connection::made(stream, address, now)));
                }
                Err(why) => call.again(why, now),
            }
        }
        for (token, connection) in tried {
            self.add(token, connection)?;
        }
        Ok(())
    }

    fn add(&mut self, token: usize, mut connection: Connection) -> Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(connection.socket(), Token(token), interest)
            .map_err(|cause| failed("wait for a connection", cause))?;
        self.connections.insert(token, connection);
        Ok(())
    }

    /// Accepts a few connections.
    fn accept(&mut self) -> Result<()> {
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                Ok((stream, address)) => {
                    let stream = self.security.stream(stream, Role::Accepts, address)?;
                    let mut connection = Connection::accepted(stream, address, self.clock.now());
                    connection.begin(self.handshake(Role::Accepts)?);
                    self.make_room();
                    let token = self.next_token;
                    self.next_token += 1;
                    self.add(token, connection)?;
                    self.advance(token)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accept_at = None;
                    return Ok(());
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.cannot_accept(&error);
                    return Ok(());
                }
            }
        }
        self.accept_at = Some(self.clock.now());
        Ok(())
    }

    /// The system accepts no connection, as when too many files are open: it may do so later.
    fn cannot_accept(&mut self, why: &io::Error) {
        self.accept_at = Some(self.clock.now().saturating_add(nanos(RELIEF)));
        let what = format!("the system does not accept connections for this host: {why}");
        if !std::mem::replace(&mut self.is_full, true) {
            log::warn!(target: "thalweg::hosts", "{what}");
        }
        self.refused = Some(what);
    }

    /// Drops one of the connections that are not authentic, if there are too many.
    fn make_room(&mut self) {
        let called: BTreeSet<_> = self.calls.values().filter_map(|call| call.token).collect();
        let stranger = |(token, connection): (&usize, &Connection)| {
            let is_stranger = !connection.is_joined() && !called.contains(token);
            is_stranger.then(|| Stranger {
                token: *token,
                address: connection.address.ip(),
                standing: connection.standing(),
                began: connection.began,
            })
        };
        let strangers: Vec<_> = self.connections.iter().filter_map(stranger).collect();
        if strangers.len() >= STRANGERS + self.config.count
            && let Some(token) = expendable(&strangers)
        {
            self.connections.remove(&token);
        }
    }

    fn handshake(&self, role: Role) -> Result<Handshake> {
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|cause| {
            Error::new(ErrorKind::Io, "cannot get random numbers from the system").caused_by(cause)
        })?;
        Ok(Handshake::new(role, self.mine.clone(), self.config.secret.clone(), nonce))
    }

    /// Goes on with a connection, as far as it can.
    fn advance(&mut self, token: usize) -> Result<()> {
        loop {
            // Another host may have begun its first job, whose frames are not read here.
            let is_joined = |(host, of): (&u32, &usize)| *of == token && *host != FIRST;
            let done = self.begun || !self.is_first() && self.joined.iter().any(is_joined);
            let Some(connection) = self.connections.get_mut(&token) else { return Ok(()) };
            if done {
                // If it is broken, that is found when it is read.
                let _ = connection.write();
                return Ok(());
            }
            match connection.advance() {
                None => return Ok(()),
                Some(happened) => self.happened(token, happened)?,
            }
        }
    }

    fn happened(&mut self, token: usize, happened: Happened) -> Result<()> {
        let called = self.calls.iter().find(|(_, call)| call.token == Some(token));
        let called = called.map(|(host, _)| *host);
        let joined = self.joined.iter().find(|(_, of)| **of == token).map(|(host, _)| *host);
        match (happened, called, joined) {
            (Happened::Established, _, _) => self.established(token),
            (Happened::Joined(identity), Some(host), _) => self.reached(token, host, identity),
            (Happened::Joined(identity), None, _) => self.accepted(token, identity),
            (Happened::Message(message), _, Some(host)) => self.message(host, message),
            (Happened::Message(_), _, None) => Ok(()),
            (Happened::Refused(refusal), Some(host), _) => Err(self.refused_by(host, &refusal)),
            (Happened::Refused(refusal), None, _) => {
                self.refuse(token, &refusal);
                Ok(())
            }
            (Happened::Closed(why), Some(host), _) => {
                self.connections.remove(&token);
                let now = self.clock.now();
                if let Some(call) = self.calls.get_mut(&host) {
                    call.again(why, now);
                }
                Ok(())
            }
            (Happened::Closed(why), None, Some(host)) => self.left(token, host, &why),
            (Happened::Closed(_), None, None) => {
                self.connections.remove(&token);
                Ok(())
            }
        }
    }

    /// A connection to another host is established.
    fn established(&mut self, token: usize) -> Result<()> {
        if self.listener.is_none() {
            self.listen_for_others(token)?;
        }
        let handshake = self.handshake(Role::Connects)?;
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.begin(handshake);
        }
        Ok(())
    }

    /// Listens where the first host has been reached from, or where the program says.
    fn listen_for_others(&mut self, token: usize) -> Result<()> {
        let local = self.connections.get(&token).map(Connection::local);
        let Some(local) = local.transpose().map_err(|cause| failed("read an address", cause))?
        else {
            return Ok(());
        };
        if self.listen_at.is_empty() {
            self.listen_at.push(SocketAddr::new(local.ip(), 0));
        }
        self.mine.address = self.listen()?.to_string();
        Ok(())
    }

    /// This host has connected to another.
    fn reached(&mut self, token: usize, called: u32, identity: Identity) -> Result<()> {
        if identity.host != called {
            let (at, is) = (&self.calls[&called].address, identity.host);
            let what = format!(
                "host {called} was expected at {at}, and it is host {is} that listens there"
            );
            return Err(Error::new(ErrorKind::Config, what));
        }
        self.fits(&identity)?;
        self.calls.remove(&called);
        self.join(token, identity);
        if called == FIRST {
            self.extend_deadline(GRACE);
        }
        self.is_connected()
    }

    /// Another host has connected to this one.
    fn accepted(&mut self, token: usize, mut identity: Identity) -> Result<()> {
        let from = self.connections.get(&token).map(|connection| connection.address);
        if let (Ok(address), Some(from)) = (identity.address.parse::<SocketAddr>(), from)
            && address.ip().is_unspecified()
        {
            identity.address = SocketAddr::new(from.ip(), address.port()).to_string();
        }
        if let Err(error) = self.drop_stale(&identity) {
            // It gets the reason, too.
            self.joined.insert(identity.host, token);
            return Err(error);
        }
        let known = self.known.get(&identity.host).and_then(|known| known.mismatch(&identity));
        let mismatch = self.mine.mismatch(&identity).or(known);
        if self.is_first() && (mismatch.is_some() || self.verdict.is_some()) {
            self.reject(token, identity.host, mismatch);
            return Ok(());
        }
        if let Some(mismatch) = mismatch {
            return Err(Error::new(ErrorKind::Config, mismatch));
        }
        self.join(token, identity);
        if self.is_first() && self.joined.len() + 1 == self.config.count {
            let all = self.known.values().cloned();
            let roster: Vec<_> = std::iter::once(self.mine.clone()).chain(all).collect();
            self.send_all(&Message::Roster(roster.clone()))?;
            self.roster = Some(roster);
            self.extend_deadline(2 * GRACE);
        }
        self.is_connected()
    }

    /// Drops the connection that a host has made before, if it is of no use any more: it is closed, or the same process has
    /// connected again, as where no answer has come in time. A process is recognised by where it listens. So only two
    /// processes that are there count as two hosts.
    fn drop_stale(&mut self, again: &Identity) -> Result<()> {
        let before = self.joined.get(&again.host).copied();
        let Some(before) = before.filter(|_| again.host > self.mine.host) else { return Ok(()) };
        // Its end may have arrived, and not be read yet.
        self.advance(before)?;
        let is_there = self.joined.get(&again.host) == Some(&before);
        let known = self.known.get(&again.host).filter(|_| is_there);
        if known.is_none_or(|known| known.address != again.address) {
            return Ok(());
        }
        if self.is_first() {
            return self.left(before, again.host, "it has connected again");
        }
        // The other side has made the new one because this one is of no use to it, and sends nothing on it.
        self.forget(before, again.host);
        Ok(())
    }

    /// On the first host: the hosts cannot work together. Sends the reason to all that are connected, and to this one.
    fn reject(&mut self, token: usize, host: u32, mismatch: Option<String>) {
        if self.verdict.is_none() {
            self.verdict = mismatch;
            self.deadline = self.deadline.min(self.clock.now().saturating_add(nanos(LINGER)));
            self.notified.extend(self.joined.keys());
            let connected: Vec<_> = self.joined.values().copied().collect();
            connected.into_iter().for_each(|token| self.send_verdict(token));
        }
        self.send_verdict(token);
        self.notified.insert(host);
    }

    fn send_verdict(&mut self, token: usize) {
        if let (Some(why), Some(to)) = (&self.verdict, self.connections.get_mut(&token)) {
            to.send(&Message::Failed(ErrorKind::Config, why.clone()));
            // A host whose connection is broken needs no message.
            let _ = to.write();
        }
    }

    /// Checks that another host fits this one.
    fn fits(&self, other: &Identity) -> Result<()> {
        match self.mine.mismatch(other) {
            Some(mismatch) => Err(Error::new(ErrorKind::Config, mismatch)),
            None => Ok(()),
        }
    }

    fn join(&mut self, token: usize, identity: Identity) {
        self.joined.insert(identity.host, token);
        self.known.insert(identity.host, identity);
    }

    /// Sets the deadline for the next step: the connect timeout from now, and `longer`.
    fn extend_deadline(&mut self, longer: Duration) {
        let wait = nanos(self.config.connect_timeout.saturating_add(longer));
        self.deadline = self.clock.now().saturating_add(wait);
    }

    /// Notifies the first host when this one is connected to all others.
    fn is_connected(&mut self) -> Result<()> {
        let all = self.joined.len() + 1 == self.config.count && self.roster.is_some();
        if all && !self.is_first() && !self.ready {
            self.ready = true;
            self.send(FIRST, &Message::Connected)?;
        }
        Ok(())
    }

    fn message(&mut self, from: u32, message: Message) -> Result<()> {
        match message {
            Message::Roster(hosts) if from == FIRST && self.roster.is_none() => {
                let numbers = hosts.iter().map(|identity| identity.host as usize);
                if !numbers.eq(0..self.config.count) {
                    let what = "the first host has sent a list of other hosts than there are";
                    return Err(Error::new(ErrorKind::Internal, what));
                }
                let now = self.clock.now();
                let first = self.joined.get(&FIRST).and_then(|token| self.connections.get(token));
                let first = first.map(|connection| connection.address);
                for identity in &hosts[1..self.mine.host as usize] {
                    let address = seen_from_here(&identity.address, first);
                    self.calls.insert(identity.host, Call::new(&address, now));
                }
                self.roster = Some(hosts);
                self.extend_deadline(Duration::ZERO);
                self.is_connected()
            }
            Message::Connected if self.is_first() => {
                self.connected.insert(from);
                if self.connected.len() + 1 == self.config.count {
                    self.send_all(&Message::Begin)?;
                    self.begun = true;
                }
                Ok(())
            }
            Message::Begin if from == FIRST => {
                self.begun = true;
                Ok(())
            }
            Message::Failed(kind, what) => Err(Error::new(kind, what)),
            Message::Roster(_) | Message::Connected | Message::Begin => {
                let what =
                    format!("host {from} has sent a message that it does not send at this time");
                Err(Error::new(ErrorKind::Internal, what))
            }
        }
    }

    fn send(&mut self, host: u32, message: &Message) -> Result<()> {
        let token = self.joined.get(&host).copied();
        let connection = token.and_then(|token| self.connections.get_mut(&token));
        if let Some(connection) = connection {
            connection.send(message);
            if let Err(error) = connection.write() {
                return self.left(token.unwrap_or_default(), host, &error.to_string());
            }
        }
        Ok(())
    }

    fn send_all(&mut self, message: &Message) -> Result<()> {
        let hosts: Vec<u32> = self.joined.keys().copied().collect();
        hosts.into_iter().try_for_each(|host| self.send(host, message))
    }

    /// The connection to a host is broken. Before all have come, it may come again.
    fn left(&mut self, token: usize, host: u32, why: &str) -> Result<()> {
        let address = self.forget(token, host);
        if self.roster.is_some() {
            let what =
                format!("host {host} ({address}) is lost, before all hosts were connected: {why}");
            return Err(Error::new(ErrorKind::Lost, what));
        }
        if host == FIRST {
            let mut call = Call::new(&self.config.first, self.clock.now());
            call.again(why.to_owned(), self.clock.now());
            self.calls.insert(FIRST, call);
        } else {
            self.refused = Some(format!("host {host} had come from {address}, and left: {why}"));
        }
        Ok(())
    }

    /// Forgets a host and its connection; returns its address.
    fn forget(&mut self, token: usize, host: u32) -> String {
        self.connections.remove(&token);
        self.joined.remove(&host);
        self.known.remove(&host).map(|known| known.address).unwrap_or_default()
    }

    /// Drops a connection that is not authentic.
    fn refuse(&mut self, token: usize, refusal: &Refusal) {
        let Some(connection) = self.connections.remove(&token) else { return };
        let refused = format!("a connection from {} was refused: {refusal}", connection.address);
        self.refusals += 1;
        if self.refusals <= REPORTED {
            log::warn!(target: "thalweg::hosts", "{refused}");
        }
        // Why a host was refused tells more than that something else has come.
        if self.refused.is_none() || *refusal != Refusal::NoHost {
            self.refused = Some(refused);
        }
    }

    /// The error where a host that this one has called is not what it should be, or says that of this one.
    fn refused_by(&self, host: u32, refusal: &Refusal) -> Error {
        let at = self.calls.get(&host).map_or("", |call| &call.address);
        let what = match refusal {
            Refusal::NoHost => {
                format!("what listens at {at} is no host of a job: another program has this port")
            }
            Refusal::Version(version) => format!(
                "the version of the protocol between hosts is {version} at host {host} ({at}), and {VERSION} at this one"
            ),
            Refusal::Secret => format!("host {host} ({at}) does not know the secret of this host"),
            Refusal::Refused => {
                format!("host {host} ({at}) has refused this host, which has another secret")
            }
            Refusal::Encrypted => format!(
                "host {host} ({at}) encrypts connections, and this host does not: all hosts need certificates \
                 (`--tls-dir`), or none"
            ),
            #[cfg(feature = "tls")]
            Refusal::Tls(failure) => failure.of_host(host, at),
        };
        Error::new(ErrorKind::Config, what)
    }

    /// Ends what has taken too long.
    fn expire(&mut self) -> Result<()> {
        let now = self.clock.now();
        let late = |(token, connection): (&usize, &Connection)| {
            let late = !connection.is_joined() && connection.began + limit(connection) <= now;
            late.then_some(*token)
        };
        let late: Vec<_> = self.connections.iter().filter_map(late).collect();
        for token in late {
            self.happened(token, Happened::Closed("it does not answer".to_owned()))?;
        }
        let all = self.notified.len() + 1 >= self.config.count;
        if let Some(verdict) = self.verdict.take_if(|_| all || now >= self.deadline) {
            return Err(Error::new(ErrorKind::Config, verdict));
        }
        if now < self.deadline || self.begun {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TimedOut, self.too_late()))
    }

    /// What has not happened in time.
    fn too_late(&self) -> String {
        let within = format!("within {:?} (`--connect-timeout`)", self.config.connect_timeout);
        let refused = self.refused.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        if let Some((host, call)) = self.calls.first_key_value() {
            let (address, why) = (&call.address, &call.failed);
            return format!(
                "host {host} could not be reached at {address} {within}: {why}{refused}"
            );
        }
        let missing = |there: &dyn Fn(u32) -> bool| {
            let hosts =
                (0..self.mine.hosts).filter(|host| *host != self.mine.host && !there(*host));
            hosts.collect::<Vec<_>>()
        };
        if self.is_first() && self.roster.is_some() {
            let hosts = list(&missing(&|host| self.connected.contains(&host)));
            return format!("{hosts} not connected to all others {within}");
        }
        if !self.is_first() && self.roster.is_none() {
            let at = &self.config.first;
            return format!(
                "not all hosts have connected {within}: the first one, at {at}, waits for others{refused}"
            );
        }
        if self.ready {
            let at = &self.config.first;
            return format!("the first host, at {at}, has not begun {within}");
        }
        let missing = missing(&|host| self.joined.contains_key(&host));
        let hosts = list(&missing);
        let question = match missing.len() {
            _ if !self.is_first() => "",
            1 => ": was it started, and does it know the address of this first host?",
            _ => ": were they started, and do they know the address of this first host?",
        };
        format!("{hosts} not connected {within}{refused}{question}")
    }

    /// Sends the others the reason why the hosts cannot work together, as far as they take it.
    fn report(&mut self, error: &Error) {
        let message = Message::Failed(error.kind(), error.to_string());
        let to_first = !self.is_first();
        for (_, token) in self.joined.iter().filter(|(host, _)| !to_first || **host == FIRST) {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.send(&message);
                let _ = connection.write();
            }
        }
        let until = self.clock.now().saturating_add(nanos(FAREWELL));
        let mut events = Events::with_capacity(256);
        while !self.joined_flushed() && self.clock.now() < until {
            if self.wait(&mut events, FAREWELL).is_err() {
                return;
            }
            for event in &events {
                let Some(connection) = self.connections.get_mut(&event.token().0) else { continue };
                if connection.write().is_err() {
                    self.connections.remove(&event.token().0);
                }
            }
        }
    }

    fn met(mut self) -> Result<Met> {
        let mut streams = BTreeMap::new();
        for (host, token) in std::mem::take(&mut self.joined) {
            if let Some(mut connection) = self.connections.remove(&token) {
                self.poll
                    .registry()
                    .deregister(connection.socket())
                    .map_err(|cause| failed("wait for a connection", cause))?;
                streams.insert(host as usize, connection.into_stream());
            }
        }
        Ok(Met { hosts: self.roster.take().unwrap_or_default(), streams })
    }
}

/// How long a connection may take until it is authentic.
fn limit(connection: &Connection) -> Nanos {
    nanos(if connection.is_established() { HANDSHAKE } else { ATTEMPT })
}

/// Whether the connection that was to be accepted has failed, and another may be accepted at once.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

fn cannot_listen(address: &str, why: &str) -> Error {
    Error::new(ErrorKind::Io, format!("this host cannot listen at {address}: {why}"))
}

fn failed(doing: &str, cause: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing}")).caused_by(cause)
}

/// Names hosts, a few of many.
fn list(hosts: &[u32]) -> String {
    const SHOWN: usize = 10;
    let numbers: Vec<_> = hosts.iter().take(SHOWN).map(u32::to_string).collect();
    match (hosts.len(), numbers.split_last()) {
        (1, _) => format!("host {} has", numbers[0]),
        (2..=SHOWN, Some((last, before))) => format!("hosts {} and {last} have", before.join(", ")),
        (all, _) => format!("hosts {} and {} more have", numbers.join(", "), all - numbers.len()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
