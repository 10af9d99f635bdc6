//! Any bytes as a compressed body; any bytes compressed come back. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Opcode;
use wire::compression::Compression;
use wire::envelope::{HEADER_BYTES, put_envelope};

const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let compression = if choice & 1 == 0 { Compression::Lz4 } else { Compression::Snappy };
    if let Ok(plain) = compression.open(bytes, BYTES_MAX) {
        assert!(plain.len() <= BYTES_MAX);
        assert_eq!(compression.plain_len(bytes), Ok(plain.len()));
    }
    let mut out = Vec::new();
    put_envelope(&mut out, 4, 0, 1, Opcode::Query, |out| out.extend_from_slice(bytes));
    compression.seal(&mut out, 0);
    assert_eq!(compression.open(&out[HEADER_BYTES..], bytes.len()).as_deref(), Ok(bytes));
});
