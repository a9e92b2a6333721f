//! Buffers that MPI reads or fills while the program goes on.
//!
//! `mpi` knows this only of buffers that are borrowed for the time of a scope, within which all of it has to end, or for
//! ever. A queue of messages that end in any order needs buffers that are owned.
#![allow(unsafe_code, reason = "a buffer is lent to MPI, and taken back when MPI has done with it")]

use mpi::point_to_point::Message;
use mpi::request::{Request, StaticScope};
use mpi::topology::Process;
use mpi::traits::Destination;
use std::mem::ManuallyDrop;

/// A message that MPI sends or receives. If it is dropped before it has finished, its memory is never freed.
pub(crate) struct Lent {
    /// The buffer. Nobody else touches it until the request has finished.
    message: ManuallyDrop<Vec<u8>>,
    /// Always there, and dropped only when it has finished: `mpi` panics otherwise.
    request: ManuallyDrop<Request<'static, [u8]>>,
}

impl Lent {
    pub(crate) fn send(to: &Process<'_>, tag: i32, message: Vec<u8>) -> Self {
        let message = ManuallyDrop::new(message);
        // SAFETY: the elements are initialised, stay where they are, and are neither freed nor written before the request
        // has finished: `message` is not touched until then, and never dropped if it does not finish.
        let bytes: &'static [u8] =
            unsafe { std::slice::from_raw_parts(message.as_ptr(), message.len()) };
        let request = to.immediate_send_with_tag(StaticScope, bytes, tag);
        Self { message, request: ManuallyDrop::new(request) }
    }

    /// Receives a message into a buffer of its length.
    pub(crate) fn receive(from: Message, buffer: Vec<u8>) -> Self {
        let mut message = ManuallyDrop::new(buffer);
        // SAFETY: as in `send`, and nothing reads the elements before the request has finished.
        let bytes: &'static mut [u8] =
            unsafe { std::slice::from_raw_parts_mut(message.as_mut_ptr(), message.len()) };
        let request = from.immediate_matched_receive_into(StaticScope, bytes);
        Self { message, request: ManuallyDrop::new(request) }
    }

    /// The buffer, once MPI has done with it.
    pub(crate) fn finished(self) -> Result<Vec<u8>, Self> {
        let Self { message, request } = self;
        match ManuallyDrop::into_inner(request).test() {
            Ok(_) => Ok(ManuallyDrop::into_inner(message)),
            Err(request) => Err(Self { message, request: ManuallyDrop::new(request) }),
        }
    }
}
