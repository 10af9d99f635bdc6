//! Any bytes as a greeting, plain and with the hash that makes them one. What is read is written as it was.
#![no_main]

use internode::greeting::Greeting;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Greeting::take(data);
    let mut whole = data.to_vec();
    if let Some(length) = data.len().checked_sub(16)
        && let Some(field) = whole.get_mut(14..16)
    {
        field.copy_from_slice(&(length as u16).to_le_bytes());
    }
    whole.extend_from_slice(&runtime::hash64(&whole).to_le_bytes());
    if let Ok(Some((greeting, used))) = Greeting::take(&whole) {
        assert_eq!(used, whole.len());
        let mut written = Vec::new();
        greeting.put(&mut written);
        assert_eq!(Greeting::take(&written), Ok(Some((greeting, written.len()))));
    }
});
