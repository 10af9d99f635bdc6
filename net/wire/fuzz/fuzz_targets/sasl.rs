//! Any bytes as a token of SASL PLAIN: what is read of it stands at its end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::sasl::Credentials;

fuzz_target!(|data: &[u8]| {
    if let Ok(Credentials { name, password }) = Credentials::decode(data) {
        assert!(!name.is_empty() && !password.is_empty());
        assert!(data.ends_with(format!("\0{name}\0{password}").as_bytes()));
        assert_eq!(data.iter().filter(|byte| **byte == 0).count(), 2);
    }
});
