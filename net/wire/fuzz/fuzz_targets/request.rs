//! Any body as any request; what is read can be written and read again. The first two bytes choose.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::client::put_request;
use wire::envelope::HEADER_BYTES;
use wire::request::Request;
use wire::{Opcode, Version};

fuzz_target!(|data: &[u8]| {
    let [a, b, body @ ..] = data else { return };
    let version = [Version::V3, Version::V4, Version::V5][*a as usize % 3];
    let Some(opcode) = Opcode::from_byte(*b % 17) else { return };
    if let Ok(request) = Request::decode(version, opcode, a & 0x1E, body) {
        let mut out = Vec::new();
        put_request(&mut out, version, 1, &request);
        let again = Request::decode(version, opcode, 0, &out[HEADER_BYTES..]);
        assert_eq!(again.ok(), Some(request));
    }
});
