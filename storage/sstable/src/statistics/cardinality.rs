//! A HyperLogLog++ sketch with 13 and 25 bits that estimates the number of partition keys, serialised as Cassandra
//! does.
//!
//! ```text
//! i32 -2; then varints (7 bits per byte, low ones first): 13, 25, and
//! sparse   1, count, differences of entries in the order of their indexes. An entry is the index of 25 bits << 1; or,
//!          if the 12 bits after the first 13 are zero, (index << 6 | 63 ^ run of zeros) << 1 | 1
//! dense    0, count of bytes, words of six registers of 5 bits
//! ```
//!
//! Invariants: entries are sorted, merged and converted to the dense form at the same moments as in Cassandra, so that
//! the bytes are equal even where they depend on that.

const P: u32 = 13;
const SP: u32 = 25;
const REGISTERS: usize = 1 << P;
/// Most entries of the sparse form: with more the sketch becomes dense.
const SPARSE_MAX: usize = REGISTERS / 4 * 3;
/// Most unsorted entries: with more they are merged into the sorted ones.
const UNSORTED_MAX: usize = SPARSE_MAX / 4;
const REGISTER_BITS: usize = 5;
const REGISTERS_PER_WORD: usize = 6;

/// A sketch to which keys are added.
#[derive(Clone, Debug)]
pub(crate) struct Cardinality {
    /// Entries of the sparse form, ascending.
    sparse: Vec<u32>,
    /// Entries that have not been merged into `sparse`.
    unsorted: Vec<u32>,
    /// The words of the dense form; empty as long as the sketch is sparse.
    words: Vec<u32>,
}

impl Cardinality {
    pub(crate) fn new() -> Cardinality {
        Cardinality { sparse: Vec::new(), unsorted: Vec::new(), words: Vec::new() }
    }

    /// Adds a partition key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        let hash = hash(key);
        if !self.words.is_empty() {
            return raise(&mut self.words, (hash >> (64 - P)) as usize, run(hash));
        }
        self.unsorted.push(entry(hash));
        if self.unsorted.len() > UNSORTED_MAX {
            self.merge_unsorted();
            if self.sparse.len() > SPARSE_MAX {
                self.words = vec![0; REGISTERS.div_ceil(REGISTERS_PER_WORD)];
                for entry in std::mem::take(&mut self.sparse) {
                    raise(&mut self.words, (index(entry) >> (SP - P)) as usize, run_of(entry));
                }
            }
        }
    }

    /// Merges the unsorted entries into the sorted ones. Old and new entries are compared as signed numbers, although
    /// both are sorted by index: Cassandra does so.
    fn merge_unsorted(&mut self) {
        if self.unsorted.is_empty() {
            return;
        }
        let mut new = std::mem::take(&mut self.unsorted);
        new.sort_by_key(|entry| (index(*entry), (entry << (P + 31 - SP)) as i32));
        new.dedup_by_key(|entry| index(*entry));
        let mut new = new.into_iter().peekable();
        let mut old = std::mem::take(&mut self.sparse).into_iter().peekable();
        let mut joined = Vec::with_capacity(old.len() + new.len());
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (Some(a), Some(b)) if index(a) == index(b) => {
                    joined.push((a as i32).min(b as i32) as u32);
                    old.next();
                    new.next();
                }
                (Some(a), Some(b)) if (a as i32) < b as i32 => joined.extend(old.next()),
                (_, Some(_)) => joined.extend(new.next()),
                (Some(_), None) => joined.extend(old.next()),
                (None, None) => break,
            }
        }
        self.sparse = joined;
        self.unsorted = Vec::with_capacity(UNSORTED_MAX + 1);
    }

    pub(crate) fn write(&mut self) -> Vec<u8> {
        let mut out = (-2i32).to_be_bytes().to_vec();
        push_varint(&mut out, P);
        push_varint(&mut out, SP);
        if self.words.is_empty() {
            self.merge_unsorted();
            push_varint(&mut out, 1);
            push_varint(&mut out, self.sparse.len() as u32);
            let mut before = 0u32;
            for entry in &self.sparse {
                push_varint(&mut out, entry.wrapping_sub(before));
                before = *entry;
            }
        } else {
            push_varint(&mut out, 0);
            push_varint(&mut out, 4 * self.words.len() as u32);
            self.words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        }
        out
    }
}

/// Returns the length of the run of zeros after the first 13 bits, plus one.
fn run(hash: u64) -> u32 {
    (hash << P | 1 << (P - 1)).leading_zeros() + 1
}

/// Returns the sparse entry of a hash.
fn entry(hash: u64) -> u32 {
    let index = (hash >> (64 - SP)) as u32;
    if index << (32 - SP + P) == 0 { (index << 6 | run(hash) ^ 0x3f) << 1 | 1 } else { index << 1 }
}

fn index(entry: u32) -> u32 {
    if entry & 1 == 1 { entry >> 7 } else { entry >> 1 }
}

fn run_of(entry: u32) -> u32 {
    if entry & 1 == 1 { entry >> 1 & 0x3f ^ 0x3f } else { (entry << (P + 31 - SP)).leading_zeros() + 1 }
}

/// Sets a register to a value if that is larger.
fn raise(words: &mut [u32], register: usize, value: u32) {
    let shift = REGISTER_BITS * (register % REGISTERS_PER_WORD);
    let Some(word) = words.get_mut(register / REGISTERS_PER_WORD) else { return };
    let mask = 0x1f << shift;
    let value = u64::from(value) << shift;
    if value > u64::from(*word & mask) {
        *word = *word & !mask | value as u32;
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the 64-bit MurmurHash2 of a key with seed 0, in Cassandra's variant: tail bytes are sign-extended.
fn hash(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = M.wrapping_mul(key.len() as u64);
    let (words, tail) = key.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(M);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (at, byte) in tail.iter().enumerate() {
            hash ^= (*byte as i8 as u64) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sparse_form_is_left_beyond_its_limit() {
        let mut counted = Cardinality::new();
        let mut key = 0u32;
        // Sorted in after every `UNSORTED_MAX` and one; the indexes of so few keys hardly collide.
        let mut add = |counted: &mut Cardinality, count: usize| {
            for _ in 0..count {
                counted.add(&key.to_be_bytes());
                key += 1;
            }
        };
        add(&mut counted, 3 * (UNSORTED_MAX + 1));
        assert!(counted.words.is_empty());
        add(&mut counted, UNSORTED_MAX);
        assert!(counted.words.is_empty());
        add(&mut counted, 2 * (UNSORTED_MAX + 1));
        assert!(!counted.words.is_empty());
        let bytes = counted.write();
        assert_eq!(bytes[..4], [0xff, 0xff, 0xff, 0xfe]);
        assert_eq!(bytes.len(), 4 + 3 + 2 + 4 * REGISTERS.div_ceil(REGISTERS_PER_WORD));
    }

    /// Counts of keys, and length and CRC-32 of the sketch in Cassandra's implementation.
    const VECTORS: [(usize, usize, u32); 11] = [
        (1, 12, 0x9d47_affc),
        (1000, 2785, 0x8035_c641),
        (1537, 4139, 0xa767_036d),
        (3000, 7435, 0xd51f_3503),
        (4608, 10674, 0xb6e4_663a),
        (6143, 13594, 0xa178_c648),
        (6144, 13596, 0x2539_f54e),
        (7680, 5473, 0x3dd8_0537),
        (7681, 5473, 0xb512_f039),
        (20000, 5473, 0x0a5c_fb4c),
        (300_000, 5473, 0xdf97_d9dc),
    ];

    #[test]
    fn bytes_are_the_originals() {
        for (keys, len, crc) in VECTORS {
            let mut counted = Cardinality::new();
            for i in 0..keys {
                let tail = (4..4 + i % 9).map(|at| (i * 31 + at * 77) as u8);
                let key: Vec<u8> = (i as u32).to_be_bytes().into_iter().chain(tail).collect();
                counted.add(&key);
            }
            let bytes = counted.write();
            assert_eq!((bytes.len(), crc32fast::hash(&bytes)), (len, crc), "{keys} keys");
        }
    }
}
