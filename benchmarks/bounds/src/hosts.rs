//! Exchange between processes by hand: one thread makes records, sorts them into a buffer for each host, and writes what is
//! for others to a connection in large pieces; one thread for each other host reads its pieces and takes them in.
//!
//! A piece is its length in bytes, then its records; an empty piece ends a round.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use bench_protocol::{Request, Result};

use crate::exchange::Kind;
use crate::threads::part;

/// Bytes after which a piece is written.
const PIECE: usize = 128 << 10;
/// How long a host waits until another one listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// The connections of a host, one for each other host.
pub(crate) struct Connections {
    host: usize,
    /// `None` is the host itself.
    streams: Vec<Option<TcpStream>>,
}

impl Connections {
    /// Connects with all other hosts: of two, the one with the higher number connects, and says its number.
    pub(crate) fn of(request: &Request) -> Result<Self> {
        let (host, hosts, addresses) = (request.host()?, request.hosts()?, request.addresses()?);
        let listener = TcpListener::bind(&addresses[host])?;
        let mut streams: Vec<Option<TcpStream>> = (0..hosts).map(|_| None).collect();
        for (stream, address) in streams.iter_mut().zip(&addresses).take(host) {
            let mut connected = connect(address)?;
            connected.write_all(&[host as u8])?;
            *stream = Some(connected);
        }
        for _ in host + 1..hosts {
            let (mut accepted, _) = listener.accept()?;
            let mut number = [0];
            accepted.read_exact(&mut number)?;
            streams[usize::from(number[0])] = Some(accepted);
        }
        for stream in streams.iter().flatten() {
            stream.set_nodelay(true)?;
        }
        Ok(Self { host, streams })
    }

    /// Exchanges records among all hosts; returns what this one has received.
    pub(crate) fn exchange<K: Kind>(&mut self, records: u64) -> Result<Vec<K::Check>> {
        let Self { host, streams } = self;
        let (own, hosts) = (*host, streams.len());
        let mut outs: Vec<_> = streams.iter().map(|stream| stream.as_ref().map(Out::new)).collect();
        scope(|scope| {
            let readers: Vec<_> = streams
                .iter()
                .flatten()
                .map(|stream| scope.spawn(move || receive::<K>(stream)))
                .collect();
            let mut check = K::Check::default();
            let mut buffers: Vec<K::Buffer> = (0..hosts).map(|_| K::buffer()).collect();
            let mut numbers = part(records, own, hosts);
            while let Some(to) = K::make(&mut numbers, &mut buffers, own, &mut check) {
                match &mut outs[to] {
                    None => K::take_all(&mut check, &mut buffers[to]),
                    Some(out) => out.add::<K>(&mut buffers[to])?,
                }
            }
            for (out, buffer) in outs.iter_mut().zip(&mut buffers) {
                match out {
                    None => K::take_all(&mut check, buffer),
                    Some(out) => {
                        out.add::<K>(buffer)?;
                        if out.piece.len() > HEADER {
                            out.write()?;
                        }
                        // An empty piece is the end.
                        out.write()?;
                    }
                }
            }
            let mut checks = vec![check];
            for reader in readers {
                checks.push(reader.join().map_err(|_| "a reader has panicked")??);
            }
            Ok(checks)
        })
    }
}

/// Retries until the port has a listener.
fn connect(address: &str) -> Result<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && began.elapsed() < PATIENCE =>
            {
                sleep(Duration::from_millis(5));
            }
            connected => return Ok(connected?),
        }
    }
}

/// The piece that is being filled for another host.
struct Out<'a> {
    stream: &'a TcpStream,
    /// Its length, and its records.
    piece: Vec<u8>,
}

const HEADER: usize = 4;

impl<'a> Out<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self { stream, piece: vec![0; HEADER] }
    }

    fn add<K: Kind>(&mut self, buffer: &mut K::Buffer) -> Result<()> {
        K::encode(buffer, &mut self.piece);
        if self.piece.len() >= PIECE { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let length = (self.piece.len() - HEADER) as u32;
        self.piece[..HEADER].copy_from_slice(&length.to_le_bytes());
        self.stream.write_all(&self.piece)?;
        self.piece.truncate(HEADER);
        Ok(())
    }
}

/// Takes in the pieces of another host up to the end of a round.
fn receive<K: Kind>(mut stream: &TcpStream) -> Result<K::Check> {
    let mut check = K::Check::default();
    let mut piece = Vec::new();
    loop {
        let mut header = [0; HEADER];
        stream.read_exact(&mut header)?;
        let length = u32::from_le_bytes(header) as usize;
        if length == 0 {
            return Ok(check);
        }
        piece.resize(length.max(piece.len()), 0);
        stream.read_exact(&mut piece[..length])?;
        K::take_encoded(&mut check, &piece[..length])?;
    }
}
