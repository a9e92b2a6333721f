//! A connection to another host while the hosts connect: its handshake, and the messages about all hosts.

use super::handshake::{Handshake, Identity, Refusal, Step};
use super::strangers::Standing;
use super::stream::Stream;
use crate::clock::Nanos;
use crate::data::{Data, decode_whole};
use crate::error::ErrorKind;
use mio::net::TcpStream;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// What hosts that know each other send before the first job.
#[derive(Debug, PartialEq, Data)]
pub(super) enum Message {
    /// From the first host: all hosts, in order.
    Roster(Vec<Identity>),
    /// To the first host: this one is connected to all others.
    Connected,
    /// From the first host: all hosts are connected to each other.
    Begin,
    /// The hosts cannot work together.
    Failed(ErrorKind, String),
}

/// The most bytes of a message: enough for as many hosts as there may be.
const LONGEST: usize = 64 << 20;

/// What has become of a connection.
#[derive(Debug, PartialEq)]
pub(super) enum Happened {
    /// It is established; the handshake may begin.
    Established,
    /// The other host is authenticated.
    Joined(Identity),
    Message(Message),
    /// The other side is no host that this one may talk to.
    Refused(Refusal),
    /// It is closed or broken, and why.
    Closed(String),
}

/// A connection that does not block.
pub(super) struct Connection {
    stream: Stream,
    /// Where it comes from or leads to.
    pub(super) address: SocketAddr,
    /// When it began.
    pub(super) began: Nanos,
    state: State,
    input: Vec<u8>,
    output: Vec<u8>,
}

enum State {
    /// It is not known whether it is established.
    Connecting,
    /// Established, before the handshake.
    Established,
    Handshake(Box<Handshake>),
    Joined,
}

impl Connection {
    /// A connection that is being made.
    pub(super) fn made(stream: Stream, address: SocketAddr, began: Nanos) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self { stream, address, began, state: State::Connecting, input, output }
    }

    /// A connection that has been accepted.
    pub(super) fn accepted(stream: Stream, address: SocketAddr, began: Nanos) -> Self {
        // Only a hint: it works without.
        let _ = stream.socket().set_nodelay(true);
        Self { state: State::Established, ..Self::made(stream, address, began) }
    }

    /// Begins the handshake.
    pub(super) fn begin(&mut self, mut handshake: Handshake) {
        self.output.extend(handshake.output());
        self.state = State::Handshake(Box::new(handshake));
    }

    pub(super) fn send(&mut self, message: &Message) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.output.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.output.append(&mut bytes);
    }

    /// The address of this side.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        self.stream.socket().local_addr()
    }

    pub(super) fn is_established(&self) -> bool {
        !matches!(self.state, State::Connecting)
    }

    /// What the other side has shown of itself.
    pub(super) fn standing(&self) -> Standing {
        match &self.state {
            State::Connecting | State::Established => Standing::Silent,
            State::Joined => Standing::Certified,
            State::Handshake(_) if self.stream.is_certified() => Standing::Certified,
            State::Handshake(handshake) if handshake.is_greeted() || self.stream.is_greeted() => {
                Standing::Greeted
            }
            State::Handshake(_) => Standing::Silent,
        }
    }

    pub(super) fn is_joined(&self) -> bool {
        matches!(self.state, State::Joined)
    }

    /// Whether everything is written.
    pub(super) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        self.stream.socket_mut()
    }

    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Writes and reads what it can; returns the first thing that happens, if something does. It reads nothing beyond the
    /// message that it returns.
    pub(super) fn advance(&mut self) -> Option<Happened> {
        let advanced = self.try_advance();
        match advanced {
            Ok(happened) => happened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(match error.downcast::<Refusal>() {
                Ok(refusal) if self.is_joined() => Happened::Closed(refusal.to_string()),
                Ok(refusal) => Happened::Refused(refusal),
                Err(error) => Happened::Closed(match error.kind() {
                    io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                    _ => error.to_string(),
                }),
            }),
        }
    }

    fn try_advance(&mut self) -> io::Result<Option<Happened>> {
        if let State::Connecting = self.state {
            let socket = self.stream.socket();
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
            match socket.peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
                Err(error) => return Err(error),
            }
            // A connection to a port without a listener may get that port for its own side, and so reach itself.
            if socket.peer_addr()? == socket.local_addr()? {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let _ = socket.set_nodelay(true);
            self.state = State::Established;
            return Ok(Some(Happened::Established));
        }
        if let State::Handshake(handshake) = &mut self.state {
            handshake.bind(self.stream.secure()?);
            // If it is broken, reading says so: after what the other side has sent, which may be why it has closed it.
            let _ = self.write();
        } else {
            self.write()?;
        }
        loop {
            match &mut self.state {
                State::Connecting | State::Established => return Ok(None),
                State::Handshake(handshake) => {
                    let mut bytes = [0; 1024];
                    let most = handshake.wanted().min(bytes.len());
                    let read = read(&self.stream, &mut bytes[..most])?;
                    let step = handshake.take(&bytes[..read]);
                    self.output.extend(handshake.output());
                    match step {
                        Ok(Step::Read(_)) => self.write()?,
                        Ok(Step::Done(identity)) => {
                            self.write()?;
                            self.state = State::Joined;
                            return Ok(Some(Happened::Joined(identity)));
                        }
                        Err(refusal) => {
                            // It may not take the reason any more.
                            let _ = self.write();
                            // Closing a connection with bytes that were not read may destroy what was written.
                            let _ = (&self.stream).read(&mut [0; 4096]);
                            return Ok(Some(Happened::Refused(refusal)));
                        }
                    }
                }
                State::Joined => {
                    let wanted = match self.input.first_chunk() {
                        Some(length) => 4 + u32::from_le_bytes(*length) as usize,
                        None => 4,
                    };
                    if wanted > LONGEST {
                        return Err(invalid());
                    }
                    if self.input.len() == wanted && wanted > 4 {
                        let message = decode_whole(&self.input[4..], Message::decode);
                        self.input.clear();
                        return Ok(Some(Happened::Message(message.map_err(|_| invalid())?)));
                    }
                    let mut bytes = [0; 16 << 10];
                    let most = (wanted - self.input.len()).min(bytes.len());
                    if most == 0 {
                        return Err(invalid());
                    }
                    let read = read(&self.stream, &mut bytes[..most])?;
                    self.input.extend_from_slice(&bytes[..read]);
                }
            }
        }
    }

    /// Writes what the connection takes.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match (&self.stream).write(&self.output) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => drop(self.output.drain(..bytes)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it has sent what is no message of a host")
}

fn read(mut stream: &Stream, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}
