//! Any body as any response of a server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::client::Answer;
use wire::envelope::{Envelope, Header};
use wire::{Opcode, Version};

fuzz_target!(|data: &[u8]| {
    let [a, b, body @ ..] = data else { return };
    let version = [Version::V3, Version::V4, Version::V5][*a as usize % 3];
    let Some(opcode) = Opcode::from_byte(*b % 17) else { return };
    let header = Header { version, flags: *a, stream: 1, opcode };
    let _ = Answer::decode(&Envelope { header, body: body.to_vec().into() });
});
