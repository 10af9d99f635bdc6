//! The table option `tombstone_gc`: an extension of the table, so that Cassandra's tools read `system_schema`.
//!
//! Its value is a text: the mode, a blank, and `propagation_delay_in_seconds`.

use model::tombstone_gc::TombstoneGc;

/// The extension's name.
pub(super) const EXTENSION: &str = "helenus.tombstone_gc";

/// The extension's value; `None` for the default.
pub(super) fn encode(option: TombstoneGc) -> Option<Vec<u8>> {
    let text = || format!("{} {}", option.mode.name(), option.delay_seconds).into_bytes();
    (option != TombstoneGc::default()).then(text)
}

/// The option of an extension's value; `None` if it is malformed.
pub(super) fn decode(bytes: &[u8]) -> Option<TombstoneGc> {
    let (mode, delay) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    TombstoneGc::of_map([("mode", mode), ("propagation_delay_in_seconds", delay)]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::tombstone_gc::GcMode;

    #[test]
    fn golden_bytes_of_the_option() {
        assert_eq!(encode(TombstoneGc::default()), None);
        let option = TombstoneGc { mode: GcMode::Repair, delay_seconds: 60 };
        assert_eq!(encode(option).as_deref(), Some(&b"repair 60"[..]));
        assert_eq!(decode(b"repair 60"), Some(option));
        for malformed in [&b""[..], b"repair", b"repair x", b"later 60", b"\xff 60"] {
            assert_eq!(decode(malformed), None);
        }
    }
}
