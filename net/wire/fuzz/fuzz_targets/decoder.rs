//! Any bytes in any pieces through the decoder, plain and in segments. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Version;
use wire::decoder::Decoder;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let mut decoder = Decoder::server(Version::V3);
    match choice & 3 {
        0 => {}
        1 => decoder.agree(Version::V4),
        2 => decoder.agree(Version::V5),
        _ => {
            decoder = Decoder::client();
            decoder.agree(Version::V5);
        }
    }
    if choice & 4 != 0 {
        decoder.agree_compressed_segments();
    }
    for part in bytes.chunks(1 + (*choice >> 3) as usize) {
        decoder.feed(part);
        while decoder.next_event().is_some() {}
        // An LZ4 block stands for at most 255 times its bytes.
        assert!(decoder.buffered() <= bytes.len() * 255);
    }
});
