//! The current shard's random numbers, the only source of randomness: seeded by the operating system, and by the run's
//! seed in simulation.

use crate::context::{self, BackendContext};
pub use crate::generator::Rng;

/// A uniformly distributed random number.
pub fn u64() -> u64 {
    context::with(|c| match &c.backend {
        BackendContext::Sim(s) => s.random(),
        _ => c.system().random(),
    })
}

/// A random number below `n`, uniformly distributed; `n` must not be 0.
pub fn below(n: u64) -> u64 {
    ((u64() as u128 * n as u128) >> 64) as u64
}

/// Sixteen random bytes, for identifiers.
pub fn bytes16() -> [u8; 16] {
    let mut out = [0; 16];
    out[..8].copy_from_slice(&u64().to_le_bytes());
    out[8..].copy_from_slice(&u64().to_le_bytes());
    out
}
