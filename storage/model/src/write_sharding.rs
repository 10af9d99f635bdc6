//! Write sharding: the rows of one partition key spread over several partitions, which the server puts together again.
//!
//! The key that clients see is the *logical* one: the partition key columns of the schema. A row of a table with write
//! sharding is stored in one of [`WriteSharding::shards`] *sub-partitions*, whose *stored* key has one component more
//! behind the logical ones: the number of the sub-partition, a big-endian `i16`.
//!
//! ```text
//! logical key of one column      value
//! its stored key                 length u16, value, 0, 0 2, number u16, 0
//! logical key of several         (length u16, value, 0) of each
//! its stored key                 (length u16, value, 0) of each, 0 2, number u16, 0
//! ```
//! So a stored key is what Cassandra makes of a partition key with a last column of type smallint.
//!
//! Everything below the execution of statements (tokens, replicas, SSTables, hints, repairs, streams, tablets) sees
//! stored keys and nothing else. Tables translate between the two: [`crate::stored_key`].
//!
//! The numbers of a key's sub-partitions are consecutive: its [`Places`]. They begin with 0 for a table as it was
//! created. Rows that are placed by chance stay where they are when a table gets more sub-partitions, so its numbers
//! still begin with 0. All others move, and `n` sub-partitions that a table has grown to have the numbers from `n` on.
//! Each growth at least doubles `n`, so no number is used twice: a partition is either all current or all left behind.
//!
//! Keys of a table with [`KeyGrowth`] begin with the number of the table, mostly 1, and get more by themselves, each
//! for itself, when one of their sub-partitions is too large or too busy.
//!
//! Invariants: which sub-partition a row is in depends on its clustering and the places of its key alone, or is in no
//! way known ([`ShardedBy::Random`]); what chooses it never changes, and the number of sub-partitions never falls.

use crate::byte_size;
use crate::clustering::Clustering;
use crate::key::push_composite;
use crate::partitioner::Partitioner;

/// The name of the table's extension in which the option is stored: `shards=200;by=0,1` with positions of clustering
/// columns, or `shards=200;random`. If keys grow by themselves, `;auto=` follows, with the bytes and the requests a
/// second of [`KeyGrowth`]: `shards=1;by=0;auto=134217728,1000`.
pub const EXTENSION: &str = "helenus.write_sharding";
/// Most sub-partitions of a partition key.
pub const SHARDS_MAX: u16 = 1_000;
/// Bytes above which a sub-partition is too large, unless the table says otherwise.
pub const SIZE_DEFAULT: u64 = 128 << 20;
/// The least bytes that a table can say, but for 0.
pub const SIZE_MIN: u64 = 64 << 10;
/// The most bytes that a table can say.
pub const SIZE_MAX: u64 = 30 << 30;
/// Requests a second above which a sub-partition is too busy, unless the table says otherwise.
pub const THROUGHPUT_DEFAULT: u32 = 1_000;
/// The most requests a second that a table can say.
pub const THROUGHPUT_MAX: u32 = 1_000_000;

/// The table option `write_sharding`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteSharding {
    /// How many sub-partitions a partition key has that has not grown by itself: 1 to [`SHARDS_MAX`].
    pub shards: u16,
    /// What chooses the sub-partition of a row.
    pub by: ShardedBy,
    /// When keys grow by themselves; `None` if they do not.
    pub growth: Option<KeyGrowth>,
}

/// When a key gets more sub-partitions by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyGrowth {
    /// Bytes above which one of its sub-partitions is too large, as an SSTable has them before compression:
    /// [`SIZE_MIN`] to [`SIZE_MAX`], or 0 for no limit.
    pub size_max: u64,
    /// Requests a second about single rows above which one of its sub-partitions is too busy: 1 to [`THROUGHPUT_MAX`],
    /// or 0 for no limit. Rows that chance has placed are read from all sub-partitions, however many there are, so for
    /// these there is none.
    pub throughput_max: u32,
}

impl KeyGrowth {
    /// What tables have that do not say otherwise.
    pub fn of_default(is_random: bool) -> KeyGrowth {
        KeyGrowth { size_max: SIZE_DEFAULT, throughput_max: if is_random { 0 } else { THROUGHPUT_DEFAULT } }
    }

    /// Whether all values are among those that a table can have.
    pub fn is_sound(&self, is_random: bool) -> bool {
        let has_size = self.size_max == 0 || (SIZE_MIN..=SIZE_MAX).contains(&self.size_max);
        has_size && self.throughput_max <= THROUGHPUT_MAX && !(is_random && self.throughput_max > 0)
    }

    /// What an extension says of it.
    fn decode(text: &str, is_random: bool) -> Option<KeyGrowth> {
        let (size_max, throughput_max) = text.strip_prefix("auto=")?.split_once(',')?;
        let growth = KeyGrowth { size_max: size_max.parse().ok()?, throughput_max: throughput_max.parse().ok()? };
        growth.is_sound(is_random).then_some(growth)
    }
}

/// What chooses the sub-partition of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShardedBy {
    /// A hash of the values of these clustering columns, by their positions in ascending order; at least one.
    Clustering(Vec<u16>),
    /// Chance, whenever a row is inserted.
    Random,
}

/// The sub-partitions of a key: those with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// The number of the first.
    pub first: u16,
    /// How many there are, at least 1.
    pub shards: u16,
}

impl Places {
    /// Those of a key of a table that has never grown.
    pub fn created(shards: u16) -> Places {
        Places { first: 0, shards }
    }

    /// Those of a key that has grown to so many, if rows are not placed by chance.
    pub fn grown(shards: u16) -> Places {
        Places { first: shards, shards }
    }

    /// Their numbers.
    pub fn numbers(self) -> std::ops::Range<u16> {
        self.first..self.first.saturating_add(self.shards)
    }

    /// Whether a number is one of them.
    pub fn has(self, number: u16) -> bool {
        self.numbers().contains(&number)
    }
}

impl ShardedBy {
    /// The number of the sub-partition of the rows whose clustering begins with `values`, among `places`: the first,
    /// and as many more as CQL's `shard_of` gives, which is the Murmur3 token of the value (of several: of their
    /// composite form, as if they were a partition key) as an unsigned number, modulo the number of sub-partitions.
    /// `None` if the values do not tell.
    pub fn number_of<'v>(&self, values: impl Iterator<Item = &'v [u8]> + Clone, places: Places) -> Option<u16> {
        let ShardedBy::Clustering(positions) = self else { return None };
        let value = |position: &u16| values.clone().nth(usize::from(*position));
        let token = match positions.as_slice() {
            [] => return None,
            [only] => Partitioner::Murmur3.token(value(only)?),
            several => {
                let values: Vec<&[u8]> = several.iter().map(value).collect::<Option<_>>()?;
                let mut composite = Vec::new();
                push_composite(values.into_iter(), &mut composite);
                Partitioner::Murmur3.token(&composite)
            }
        };
        Some(places.first + (token.0 as u64 % u64::from(places.shards.max(1))) as u16)
    }

    /// The number of the sub-partition of a row, among `places`; `None` if only chance knows.
    pub fn number_of_row(&self, row: Clustering<'_>, places: Places) -> Option<u16> {
        self.number_of(row.components(), places)
    }

    /// The number of the sub-partition of all rows of a range, among `places`, if both of its ends begin with the
    /// values that tell it.
    pub fn number_of_range(&self, start: Clustering<'_>, end: Clustering<'_>, places: Places) -> Option<u16> {
        let common = start.components().zip(end.components()).take_while(|(start, end)| start == end);
        self.number_of(common.map(|(value, _)| value), places)
    }
}

impl WriteSharding {
    /// Whether rows are placed by chance.
    pub fn is_random(&self) -> bool {
        self.by == ShardedBy::Random
    }

    /// The places of a key of a table that has never grown.
    pub fn places(&self) -> Places {
        Places::created(self.shards)
    }

    /// The value of the extension.
    pub fn encode(&self) -> Vec<u8> {
        let by = match &self.by {
            ShardedBy::Random => "random".to_owned(),
            ShardedBy::Clustering(positions) => {
                let positions: Vec<String> = positions.iter().map(u16::to_string).collect();
                format!("by={}", positions.join(","))
            }
        };
        let auto = self.growth.map(|growth| format!(";auto={},{}", growth.size_max, growth.throughput_max));
        format!("shards={};{by}{}", self.shards, auto.unwrap_or_default()).into_bytes()
    }

    /// What an extension says of a table with `clustering_len` clustering columns; `None` if it is malformed.
    pub fn decode(bytes: &[u8], clustering_len: usize) -> Option<WriteSharding> {
        let (shards, by) = std::str::from_utf8(bytes).ok()?.strip_prefix("shards=")?.split_once(';')?;
        let shards = shards.parse().ok().filter(|shards| (1..=SHARDS_MAX).contains(shards))?;
        let (by, growth) = match by.split_once(';') {
            Some((by, growth)) => (by, Some(KeyGrowth::decode(growth, by == "random")?)),
            None => (by, None),
        };
        if by == "random" {
            return Some(WriteSharding { shards, by: ShardedBy::Random, growth });
        }
        let positions = by.strip_prefix("by=")?.split(',').map(|position| position.parse().ok());
        let positions: Vec<u16> = positions.collect::<Option<_>>()?;
        let ascend = positions.windows(2).all(|pair| pair[0] < pair[1]);
        let exist = positions.last().is_some_and(|last| usize::from(*last) < clustering_len);
        (ascend && exist).then_some(WriteSharding { shards, by: ShardedBy::Clustering(positions), growth })
    }

    /// The option as CQL has it, of a table with clustering columns of these names.
    pub fn to_cql(&self, clustering: &[&str]) -> String {
        let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
        let shards = match self.growth {
            None => format!("'shards': {}", self.shards),
            Some(KeyGrowth { size_max, throughput_max }) => {
                let initial = match self.shards {
                    1 => String::new(),
                    more => format!(", 'initial_shards': {more}"),
                };
                let size = if size_max == 0 { "0".to_owned() } else { byte_size::text(size_max) };
                let throughput = match self.is_random() {
                    true => String::new(),
                    false => format!(", 'sub_partition_throughput': {throughput_max}"),
                };
                format!("'shards': 'auto'{initial}, 'sub_partition_size': '{size}'{throughput}")
            }
        };
        match &self.by {
            ShardedBy::Random => format!("{{{shards}, 'mode': 'random'}}"),
            ShardedBy::Clustering(positions) => {
                let names = positions.iter().filter_map(|position| clustering.get(usize::from(*position)));
                let names: Vec<String> = names.map(|name| quoted(name)).collect();
                format!("{{{shards}, 'by': [{}]}}", names.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::push_clustering;

    fn by(positions: &[u16]) -> WriteSharding {
        WriteSharding { shards: 200, by: ShardedBy::Clustering(positions.to_vec()), growth: None }
    }

    #[test]
    fn golden_bytes_of_the_extension() {
        let random = WriteSharding { shards: 1_000, by: ShardedBy::Random, growth: None };
        let auto = |size_max, throughput_max| Some(KeyGrowth { size_max, throughput_max });
        for (option, bytes) in [
            (by(&[0]), &b"shards=200;by=0"[..]),
            (by(&[0, 2]), b"shards=200;by=0,2"),
            (random.clone(), b"shards=1000;random"),
            (
                WriteSharding { growth: Some(KeyGrowth::of_default(false)), ..by(&[0, 2]) },
                b"shards=200;by=0,2;auto=134217728,1000",
            ),
            (WriteSharding { growth: auto(0, 1), ..by(&[0]) }, b"shards=200;by=0;auto=0,1"),
            (WriteSharding { growth: auto(SIZE_MIN, 0), ..random }, b"shards=1000;random;auto=65536,0"),
        ] {
            assert_eq!(option.encode(), bytes);
            assert_eq!(WriteSharding::decode(bytes, 3), Some(option));
        }
        for malformed in [
            &b""[..],
            b"shards=200",
            b"shards=0;by=0",
            b"shards=1001;by=0",
            b"shards=200;by=",
            b"shards=200;by=3",
            b"shards=200;by=1,0",
            b"shards=200;by=0,0",
            b"shards=-1;random",
            b"by=0;shards=200",
            b"shards=200;by=0;random",
            b"shards=200;by=0;auto=",
            b"shards=200;by=0;auto=65535,0",
            b"shards=200;by=0;auto=32212254721,0",
            b"shards=200;by=0;auto=65536,1000001",
            b"shards=200;by=0;auto=65536,0,0",
            b"shards=200;random;auto=65536,1",
            b"\xff",
        ] {
            assert_eq!(WriteSharding::decode(malformed, 3), None, "{}", String::from_utf8_lossy(malformed));
        }
    }

    /// Applications may compute these too, so they must stay what they are.
    #[test]
    fn golden_sub_partitions() {
        let row = [&b"On rings"[..], b"b", &[0, 0, 0, 7]];
        let of = |option: &WriteSharding| option.by.number_of(row.into_iter(), option.places());
        // Cassandra's tokens: of 'a' it is -8839064797231613815.
        assert_eq!(
            by(&[0]).by.number_of([&b"a"[..]].into_iter(), Places::created(200)),
            Some((-8_839_064_797_231_613_815_i64 as u64 % 200) as u16)
        );
        assert_eq!(
            by(&[0]).by.number_of([&b"a"[..]].into_iter(), Places::grown(400)),
            Some((-8_839_064_797_231_613_815_i64 as u64 % 400) as u16 + 400)
        );
        let token = Partitioner::Murmur3.token(b"\0\x08On rings\0\0\x04\0\0\0\x07\0").0 as u64;
        assert_eq!(of(&by(&[0, 2])), Some((token % 200) as u16));
        let some = row[..2].iter().copied();
        assert_eq!(by(&[0, 2]).by.number_of(some, Places::created(200)), None, "the values do not tell");
        assert_eq!(of(&WriteSharding { shards: 7, by: ShardedBy::Random, growth: None }), None);
    }
    /// No number is used twice, however a table grows.
    #[test]
    fn places_of_growths_do_not_overlap() {
        let mut before = vec![Places::created(1)];
        for shards in [2, 4, 12, 500, 1_000] {
            let grown = Places::grown(shards);
            assert!(before.iter().all(|places| grown.numbers().all(|number| !places.has(number))), "{shards}");
            before.push(grown);
        }
        assert!(Places::grown(SHARDS_MAX).numbers().all(|number| number <= i16::MAX as u16));
    }

    #[test]
    fn ranges_within_one_hashed_value_are_in_one_place() {
        let row = |values: &[&str]| {
            let mut out = Vec::new();
            values.iter().for_each(|value| push_clustering(&mut out, value.as_bytes()));
            out
        };
        let (places, second) = (Places::grown(8), ShardedBy::Clustering(vec![1]));
        let of = |start: &[&str], end: &[&str]| {
            second.number_of_range(Clustering(&row(start)), Clustering(&row(end)), places)
        };
        assert_eq!(of(&["a", "b", "c"], &["a", "b"]), second.number_of_row(Clustering(&row(&["a", "b", "d"])), places));
        assert!(of(&["a", "b"], &["a", "b"]).is_some_and(|number| places.has(number)));
        assert_eq!(of(&["a"], &["a"]), None);
        assert_eq!(of(&["a", "b"], &["a", "c"]), None);
        assert_eq!(of(&["a", "b"], &["b", "b"]), None, "rows in between begin with anything");
    }
}
