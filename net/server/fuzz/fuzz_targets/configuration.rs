//! Any text as cassandra.yaml, and its last line as an option of the command line: it is read, or refused with a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::Config;

fuzz_target!(|text: &str| {
    let (file, option) = text.rsplit_once('\n').unwrap_or((text, ""));
    for options in [&[][..], &[option.to_owned()]] {
        match Config::read(file, options) {
            Ok(config) => _ = config.check(),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
