//! The bytes of a connection to another host: as they are, or encrypted ([`tls`](super::tls)) with the feature `tls`.

use super::handshake::Role;
#[cfg(feature = "tls")]
use super::tls::{Certificates, TlsStream};
use crate::config::HostConfig;
use crate::error::Result;
#[cfg(not(feature = "tls"))]
use crate::error::{Error, ErrorKind};
use mio::net::TcpStream;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};

/// What makes streams of the sockets of a host.
pub(super) enum Security {
    None,
    #[cfg(feature = "tls")]
    Tls(Box<Certificates>),
}

impl Security {
    pub(super) fn new(config: &HostConfig) -> Result<Self> {
        match &config.tls {
            None => Ok(Self::None),
            #[cfg(feature = "tls")]
            Some(tls) => Ok(Self::Tls(Box::new(Certificates::new(tls)?))),
            #[cfg(not(feature = "tls"))]
            Some(_) => {
                let what = "connections between hosts are to be encrypted (`--tls-dir`), and this program was \
                            built without that: it needs the feature `tls` of the crate `thalweg`";
                Err(Error::new(ErrorKind::Config, what))
            }
        }
    }

    /// The stream of a socket that leads to this address, or comes from there.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "needed to encrypt"))]
    pub(super) fn stream(
        &self,
        socket: TcpStream,
        role: Role,
        address: SocketAddr,
    ) -> Result<Stream> {
        Ok(match self {
            Self::None => Stream::Plain(socket),
            #[cfg(feature = "tls")]
            Self::Tls(certificates) => {
                Stream::Tls(Box::new(certificates.stream(socket, role, address)?))
            }
        })
    }
}

/// A connection to another host. Several threads may write, one at a time, while another reads.
///
/// Bytes are written when the system has taken them. Where writing would block, the next bytes to be written must begin with
/// those that were not taken: they may be encrypted already.
///
/// A read that returns fewer bytes than there is room for has read all that had arrived.
pub(super) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket(),
        }
    }

    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.socket_mut(),
        }
    }

    /// Goes on with what precedes the first byte: both sides agree on keys. Returns what identifies this connection to both
    /// sides, and to no other, if it is encrypted.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) while that is not done. A [`Refusal`](super::handshake::Refusal) if the
    /// other side is not accepted, or does not accept this one.
    pub(super) fn secure(&mut self) -> io::Result<Option<[u8; 32]>> {
        match self {
            Self::Plain(_) => Ok(None),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.secure().map(Some),
        }
    }

    /// Whether the other side has sent something that a host sends first, before [`secure`](Self::secure) is done.
    pub(super) fn is_greeted(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_greeted(),
        }
    }

    /// Whether the other side has shown a certificate that is accepted.
    pub(super) fn is_certified(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_certified(),
        }
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.socket().shutdown(how)
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => (&mut &*socket).read(buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => (&mut &*socket).write(bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => (&mut &*socket).write_vectored(slices),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.write_vectored(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
