//! Any bytes in any pieces through the decoder of frames. Even bytes that carry no valid hash become frames now and
//! then: the input is also sent as the body of one, compressed or not. The first byte chooses.
#![no_main]

use internode::frame::{Decoder, Envelope, Kind, Step};
use libfuzzer_sys::fuzz_target;

const BODY_BYTES_MAX: usize = 1 << 20;

fn decode(bytes: &[u8], piece_bytes: usize) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut bodies = Vec::new();
    for mut piece in bytes.chunks(piece_bytes) {
        loop {
            match decoder.step(&mut piece) {
                Ok(Step::Starved) => break,
                Ok(Step::Head(head)) => assert!(head.payload_bytes <= BODY_BYTES_MAX),
                Ok(Step::Body(body)) => bodies.push(body.to_vec()),
                Err(_) => return bodies,
            }
        }
    }
    bodies
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let piece_bytes = 1 + (*choice >> 1) as usize;
    decode(bytes, piece_bytes);
    let mut sent = Vec::new();
    let envelope = Envelope { kind: Kind::Request, verb: *choice, id: 1, clock_micros: 2 };
    envelope.put(&mut sent, choice & 1 != 0, |out| out.extend_from_slice(bytes));
    sent.extend_from_slice(bytes);
    assert_eq!(decode(&sent, piece_bytes).first().map(Vec::as_slice), Some(bytes));
});
