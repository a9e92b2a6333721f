//! Hostile bytes on a connection between hosts: a handshake must refuse them, and frames and messages must be refused or
//! read the same wherever reads tear them; no panic, and no more memory than there are bytes. As a frame of batches they may be
//! compressed: then there is memory for 255 times as many. And they come back when they are compressed.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where reads are torn.
    let Some((at, bytes)) = bytes.split_first() else { return };
    thalweg::check::read_from_host(bytes, usize::from(*at));
});
