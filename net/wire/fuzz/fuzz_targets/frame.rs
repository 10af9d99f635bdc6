//! Any bytes in any pieces through the decoder, plain and in segments. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Version;
use wire::frame::Decoder;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut decoder = Decoder::server(Version::V4);
    match choice & 3 {
        0 => {}
        1 => decoder.agree(Version::V4),
        2 => decoder.agree(Version::V5),
        _ => {
            decoder = Decoder::client();
            decoder.agree(Version::V5);
        }
    }
    for part in bytes.chunks(1 + (*choice >> 2) as usize) {
        decoder.feed(part);
        while decoder.next_event().is_some() {}
        assert!(decoder.buffered() <= bytes.len());
    }
});
