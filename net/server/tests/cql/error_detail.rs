//! The fields that errors have besides code and text, as words: `detail QUORUM, required 2, alive 1`.
//!
//! They are read here byte by byte, by the specification of protocol version 5, so that the answers of both servers are
//! held against the protocol and not against each other's encoder.

use model::Consistency;
use std::net::IpAddr;

const UNAVAILABLE: u16 = 0x1000;
const WRITE_TIMEOUT: u16 = 0x1100;
const READ_TIMEOUT: u16 = 0x1200;
const READ_FAILURE: u16 = 0x1300;
const WRITE_FAILURE: u16 = 0x1500;
const CAS_WRITE_UNKNOWN: u16 = 0x1700;

/// The fields of an error with this code; `None` if such errors have none. Panics on too few or too many bytes.
pub(crate) fn words(code: u16, detail: &[u8]) -> Option<String> {
    let mut fields = Fields(detail);
    let words = match code {
        UNAVAILABLE => format!("{}, required {}, alive {}", fields.level(), fields.int(), fields.int()),
        WRITE_TIMEOUT => {
            let words = format!("{}, {}", fields.received(), fields.string());
            match fields.0.is_empty() {
                true => words,
                false => format!("{words}, contentions {}", fields.short()),
            }
        }
        READ_TIMEOUT => format!("{}, data {}", fields.received(), fields.byte()),
        READ_FAILURE => format!("{}, {}, data {}", fields.received(), fields.reasons(), fields.byte()),
        WRITE_FAILURE => format!("{}, {}, {}", fields.received(), fields.reasons(), fields.string()),
        CAS_WRITE_UNKNOWN => fields.received(),
        _ => return None,
    };
    assert!(fields.0.is_empty(), "{code:#06x} {words}: {:?} is left", fields.0);
    Some(format!("detail {words}"))
}

/// What is left of an error's body.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, left) = self.0.split_at(length);
        self.0 = left;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }

    fn string(&mut self) -> String {
        let length = usize::from(self.short());
        String::from_utf8(self.take(length).to_vec()).expect("text")
    }

    fn level(&mut self) -> &'static str {
        Consistency::from_code(self.short()).expect("a consistency level").name()
    }

    fn received(&mut self) -> String {
        format!("{}, received {} of {}", self.level(), self.int(), self.int())
    }

    /// The replicas that failed, with the code of the reason.
    fn reasons(&mut self) -> String {
        let count = self.int();
        let mut reasons: Vec<String> = (0..count)
            .map(|_| {
                let length = usize::from(self.byte());
                let address: IpAddr = match length {
                    4 => <[u8; 4]>::try_from(self.take(4)).expect("four bytes").into(),
                    _ => <[u8; 16]>::try_from(self.take(16)).expect("an address").into(),
                };
                format!("{address}: {}", self.short())
            })
            .collect();
        reasons.sort();
        format!("failures {{{}}}", reasons.join(", "))
    }
}
