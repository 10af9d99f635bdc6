//! Any bytes in any pieces from a client that has not logged in. The first byte is the length of a piece.
#![no_main]

#[path = "../../tests/handshake/walk.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let reached = walk::Walk::run(bytes, usize::from(*piece));
    assert_eq!(reached, walk::Walk::run(bytes, bytes.len()), "however the bytes arrive");
});
