//! The partitioners: where partition keys lie on the ring.
//!
//! | partitioner | token of a key | order of tokens | type in CQL |
//! |---|---|---|---|
//! | Murmur3 | first half of the key's Murmur3 hash | signed | bigint |
//! | Random | absolute value of the key's MD5 as a big-endian two's complement number: 0 to 2^127 | numeric | varint |
//! | ByteOrdered | the key | memcmp | blob |
//! | OrderPreserving | the key as UTF-8 text, or in lower-case hex digits if it is not UTF-8 | memcmp of UTF-8 | text |
//!
//! Every key carries the first 64 bits of its token as a [`Token`]. Keys with equal prefixes are ordered by
//! [`Partitioner::compare_ties`]: by the rest of their tokens, which is computed from the keys, then by their bytes.
//! For Murmur3 the prefix is the whole token, for ByteOrdered the rest is the key itself: both compare bytes at once.
//!
//! Cassandra orders the texts of OrderPreserving by UTF-16 units in memory and by UTF-8 in trie indexes. The two differ
//! for a character above U+FFFF beside one from U+E000 on, and a trie index then loses keys. Here the order is always
//! that of UTF-8.

use crate::token::{RingToken, Token, murmur3_token, random_token, text_token};
use crate::types::CqlType;
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// How partition keys become tokens; one for all tables of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub enum Partitioner {
    /// By hash, the default.
    #[default]
    Murmur3,
    /// By MD5.
    Random,
    /// By the key's bytes.
    ByteOrdered,
    /// By the key as text.
    OrderPreserving,
}

/// The package of Cassandra's partitioners, with the dot that follows it.
const PACKAGE: &str = "org.apache.cassandra.dht.";
/// The characters of random tokens of OrderPreserving.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

impl Partitioner {
    /// All partitioners.
    pub const ALL: [Partitioner; 4] =
        [Partitioner::Murmur3, Partitioner::Random, Partitioner::ByteOrdered, Partitioner::OrderPreserving];

    /// The class in Cassandra, as system tables and SSTables name it.
    pub fn class_name(self) -> &'static str {
        match self {
            Partitioner::Murmur3 => "org.apache.cassandra.dht.Murmur3Partitioner",
            Partitioner::Random => "org.apache.cassandra.dht.RandomPartitioner",
            Partitioner::ByteOrdered => "org.apache.cassandra.dht.ByteOrderedPartitioner",
            Partitioner::OrderPreserving => "org.apache.cassandra.dht.OrderPreservingPartitioner",
        }
    }

    /// The class's name without its package, as DESCRIBE CLUSTER gives it.
    pub fn simple_name(self) -> &'static str {
        &self.class_name()[PACKAGE.len()..]
    }

    /// The partitioner with this class name, with or without its package.
    pub fn named(name: &str) -> Option<Partitioner> {
        let simple = name.strip_prefix(PACKAGE).unwrap_or(name);
        Partitioner::ALL.into_iter().find(|partitioner| partitioner.simple_name() == simple)
    }

    /// The start of the ring, below all tokens of keys that are not empty.
    pub fn minimum(self) -> RingToken {
        self.ring_token(&[])
    }

    /// The type of `token()` in CQL.
    pub fn token_type(self) -> CqlType {
        match self {
            Partitioner::Murmur3 => CqlType::Bigint,
            Partitioner::Random => CqlType::Varint,
            Partitioner::ByteOrdered => CqlType::Blob,
            Partitioner::OrderPreserving => CqlType::Text,
        }
    }

    /// The first 64 bits of a serialised partition key's token.
    #[inline]
    pub fn token(self, key: &[u8]) -> Token {
        match self {
            Partitioner::Murmur3 => Token(murmur3_token(key)),
            Partitioner::Random => Token::of_random(random_token(key)),
            Partitioner::ByteOrdered => Token::of_bytes(key),
            Partitioner::OrderPreserving => Token::of_bytes(text_token(key).as_bytes()),
        }
    }

    /// The whole token of a serialised partition key.
    pub fn ring_token(self, key: &[u8]) -> RingToken {
        match self {
            Partitioner::Murmur3 => RingToken::Murmur3(murmur3_token(key)),
            Partitioner::Random => RingToken::random(random_token(key)),
            Partitioner::ByteOrdered => RingToken::ByteOrdered(key.into()),
            Partitioner::OrderPreserving => RingToken::OrderPreserving((*text_token(key)).into()),
        }
    }

    /// The order of two keys whose tokens have equal prefixes.
    #[inline]
    pub fn compare_ties(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Partitioner::Murmur3 | Partitioner::ByteOrdered => a.cmp(b),
            Partitioner::Random => random_token(a).cmp(&random_token(b)).then_with(|| a.cmp(b)),
            Partitioner::OrderPreserving => text_token(a).cmp(&text_token(b)).then_with(|| a.cmp(b)),
        }
    }

    /// The order of two keys, each given with the prefix of its token.
    #[inline]
    pub fn compare(self, a: (Token, &[u8]), b: (Token, &[u8])) -> Ordering {
        a.0.cmp(&b.0).then_with(|| self.compare_ties(a.1, b.1))
    }

    /// The token that a serialised value of [`Partitioner::token_type`] stands for. Numbers of Random outside of the
    /// ring become its first and its last token. `None` if the bytes are not of the type.
    pub fn token_of_value(self, value: &[u8]) -> Option<RingToken> {
        Some(match self {
            Partitioner::Murmur3 => RingToken::Murmur3(i64::from_be_bytes(value.try_into().ok()?)),
            Partitioner::Random if value.is_empty() => return None,
            Partitioner::Random => random_of_number(&BigInt::from_signed_bytes_be(value)),
            Partitioner::ByteOrdered => RingToken::ByteOrdered(value.into()),
            Partitioner::OrderPreserving => RingToken::OrderPreserving(std::str::from_utf8(value).ok()?.into()),
        })
    }

    /// The token that a text names, as operators give it.
    ///
    /// # Errors
    /// The text names no token of this partitioner; the message is Cassandra's.
    pub fn parse_token(self, text: &str) -> Result<RingToken, String> {
        match self {
            Partitioner::Murmur3 => text.parse().map(RingToken::Murmur3).map_err(|_| {
                let expected = "but expected a long value (unsigned 8 bytes integer).";
                format!("Invalid token for Murmur3Partitioner. Got {text} {expected}")
            }),
            Partitioner::Random => {
                let number: BigInt = text.parse().map_err(|_| format!("For input string: \"{text}\""))?;
                match number.sign() == Sign::Minus || number > BigInt::from(1u128 << 127) {
                    true => Err("Token must be >= 0 and <= 2**127".to_owned()),
                    false => Ok(random_of_number(&number)),
                }
            }
            Partitioner::ByteOrdered => {
                let digits = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
                let value = |digit: u8| char::from(digit).to_digit(16);
                let byte = |pair: &[u8; 2]| Some((value(pair[0])? << 4 | value(pair[1])?) as u8);
                let bytes: Option<Vec<u8>> = digits.as_bytes().as_chunks().0.iter().map(byte).collect();
                let bytes = bytes.ok_or_else(|| format!("Token {digits} contains non-hex digits"))?;
                Ok(RingToken::ByteOrdered(bytes.into()))
            }
            Partitioner::OrderPreserving if text.contains(',') => {
                Err("Tokens may not contain the character ,".to_owned())
            }
            Partitioner::OrderPreserving => Ok(RingToken::OrderPreserving(text.into())),
        }
    }

    /// `count` distinct random tokens, ascending, for a node that joins; `random` gives uniform words. The tokens of
    /// ByteOrdered are 16 bytes, those of OrderPreserving 16 letters and digits.
    pub fn random_tokens(self, count: usize, random: &mut dyn FnMut() -> u64) -> BTreeSet<RingToken> {
        let mut tokens = BTreeSet::new();
        while tokens.len() < count {
            let token = match self {
                Partitioner::Murmur3 => RingToken::Murmur3(random() as i64),
                Partitioner::Random => RingToken::random((u128::from(random() >> 1) << 64 | u128::from(random())) + 1),
                Partitioner::ByteOrdered => {
                    RingToken::ByteOrdered([random(), random()].iter().flat_map(|word| word.to_be_bytes()).collect())
                }
                Partitioner::OrderPreserving => {
                    let letter = |_| char::from(LETTERS[(random() % LETTERS.len() as u64) as usize]);
                    RingToken::OrderPreserving((0..16).map(letter).collect::<String>().into())
                }
            };
            if !token.is_minimum() {
                tokens.insert(token);
            }
        }
        tokens
    }
}

/// A number as a token of Random; below -1 it becomes 0, above 2^127 that.
fn random_of_number(number: &BigInt) -> RingToken {
    match u128::try_from(number + 1i32) {
        Ok(number) => RingToken::random(number),
        Err(_) if number.sign() == Sign::Minus => RingToken::random(1),
        Err(_) => RingToken::random(u128::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DecoratedKey;
    use crate::token::{RingPosition, TokenRange};

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
    }

    /// Keys in hex digits, in the order of ByteOrdered, with the tokens that Cassandra 5.0.9 gives them under Random
    /// and OrderPreserving.
    const RECORDED: [(&str, &str, &str); 27] = [
        ("00", "143927757573010354572009627285182898319", "\u{0}"),
        ("0000", "79669323765471977568744711998075745690", "\u{0}\u{0}"),
        ("0000000000000001", "7503646637767087990998909735290609801", "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{1}"),
        ("00000001", "19580090105725936846312850328329299579", "\u{0}\u{0}\u{0}\u{1}"),
        (
            "000102030405060708090a0b0c0d0e0f",
            "35566888831469867896589741071285600936",
            "\u{0}\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{7}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{e}\u{f}",
        ),
        (
            "0001610000040000000100",
            "51810473954188110215075778061365544859",
            "\u{0}\u{1}a\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{1}\u{0}",
        ),
        ("000400000001000004ffffffff00", "105394660494152908747477196881907854445", "000400000001000004ffffffff00"),
        ("313233", "42767516990368493138776584305024125808", "123"),
        ("3830", "20999368082830210987165710467853778291", "80"),
        ("4142", "95124040858592479692147160628646928215", "AB"),
        ("61", "16955237001963240173058271559858726497", "a"),
        ("6162636465666768", "30757858240470761054063486744565946344", "abcdefgh"),
        ("616263646566676861", "155815123075058947292085962248495271718", "abcdefgha"),
        ("6162636465666768ff", "7869499751049463272907058592881028083", "6162636465666768ff"),
        ("6333613938", "71021795377427073021468206641801578835", "c3a98"),
        ("7363796c6c61", "150896992469306647270651258384223992430", "scylla"),
        ("7f", "165256714753328353047666744724155394667", "\u{7f}"),
        ("80", "152560766125070040330893099817609554657", "80"),
        ("c080", "103153618413014158630148626537121525666", "c080"),
        ("c3a9", "136732923097551493579404309126273812335", "\u{e9}"),
        ("eda080", "112222365144857760035416070662332678628", "eda080"),
        ("ee8080", "22602972155361389989945865656173471558", "\u{e000}"),
        ("efbfbd", "133641603088736614231142061705423321178", "\u{fffd}"),
        ("f09f9880", "55842721998748738903166261021950683062", "\u{1f600}"),
        (
            "fefefefefefefefefefefefefefefefefe",
            "7719456387013227130739826027952650840",
            "fefefefefefefefefefefefefefefefefe",
        ),
        ("ff", "463733602705843015805947089201357461", "ff"),
        ("ffffffff", "120549550962197124826514825591841393591", "ffffffff"),
    ];

    #[test]
    fn tokens_are_cassandras() {
        for (key, random, text) in RECORDED {
            assert_eq!(Partitioner::Random.ring_token(&bytes(key)).to_string(), random, "{key}");
            assert_eq!(Partitioner::OrderPreserving.ring_token(&bytes(key)).to_string(), text, "{key}");
            assert_eq!(Partitioner::ByteOrdered.ring_token(&bytes(key)).to_string(), key);
        }
        assert!(RECORDED.is_sorted_by_key(|(key, ..)| DecoratedKey::new(Partitioner::ByteOrdered, &bytes(key))));
    }

    #[test]
    fn the_minimum_is_the_token_of_the_empty_key() {
        let texts = Partitioner::ALL.map(|partitioner| partitioner.minimum().to_string());
        assert_eq!(texts, ["-9223372036854775808", "-1", "", ""]);
        assert!(Partitioner::ALL.iter().all(|partitioner| partitioner.minimum().is_minimum()));
    }

    #[test]
    fn values_and_texts_of_tokens_read_back() {
        for partitioner in Partitioner::ALL {
            for (key, ..) in RECORDED {
                let token = partitioner.ring_token(&bytes(key));
                assert_eq!(
                    partitioner.token_of_value(&token.to_value()).as_ref(),
                    Some(&token),
                    "{partitioner:?} {key}"
                );
                assert_eq!(partitioner.parse_token(&token.to_string()), Ok(token), "{partitioner:?} {key}");
            }
            assert_eq!(Partitioner::named(partitioner.class_name()), Some(partitioner));
            assert_eq!(Partitioner::named(partitioner.simple_name()), Some(partitioner));
        }
        assert_eq!(Partitioner::named("org.apache.cassandra.dht.LocalPartitioner"), None);
    }

    #[test]
    fn texts_that_are_no_tokens_are_refused() {
        let refused = |partitioner: Partitioner, text| partitioner.parse_token(text).expect_err(text);
        assert_eq!(refused(Partitioner::Random, "-1"), "Token must be >= 0 and <= 2**127");
        assert_eq!(
            refused(Partitioner::Random, "170141183460469231731687303715884105729"),
            "Token must be >= 0 and <= 2**127"
        );
        assert_eq!(refused(Partitioner::ByteOrdered, "xyz"), "Token 0xyz contains non-hex digits");
        assert_eq!(refused(Partitioner::OrderPreserving, "a,b"), "Tokens may not contain the character ,");
        assert!(refused(Partitioner::Murmur3, "a").starts_with("Invalid token for Murmur3Partitioner. Got a but"));
        assert_eq!(
            Partitioner::ByteOrdered.parse_token("abc"),
            Ok(RingToken::ByteOrdered([0x0a, 0xbc].as_slice().into()))
        );
    }

    #[test]
    fn numbers_outside_of_the_ring_of_random_lie_at_its_ends() {
        let token =
            |number: BigInt| Partitioner::Random.token_of_value(&number.to_signed_bytes_be()).expect("a number");
        let end = BigInt::from(1u128 << 127);
        assert_eq!(token(BigInt::from(-1)), Partitioner::Random.minimum());
        assert_eq!(token(BigInt::from(-2)), token(BigInt::from(0)));
        assert_eq!(token(end.clone() * 8), token(end.clone()));
        assert!(token(BigInt::from(0)) < token(end));
        assert_eq!(Partitioner::Random.token_of_value(&[]), None);
        assert_eq!(Partitioner::Murmur3.token_of_value(&[0; 7]), None);
        assert_eq!(Partitioner::OrderPreserving.token_of_value(&[0xff]), None);
    }

    /// Random keys of few letters, so that many share the first 64 bits of their tokens.
    fn random_key(word: &mut impl FnMut() -> u64) -> Vec<u8> {
        const LETTERS: [u8; 6] = [0, b'0', b'a', b'f', 0x80, 0xff];
        let head: &[u8] = if word().is_multiple_of(2) { b"abcdefgh" } else { b"" };
        let tail = (0..1 + word() % 4).map(|_| LETTERS[(word() % LETTERS.len() as u64) as usize]);
        head.iter().copied().chain(tail.collect::<Vec<u8>>()).collect()
    }

    fn words(seed: u64) -> impl FnMut() -> u64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        }
    }

    #[test]
    fn keys_are_ordered_by_their_whole_tokens_then_by_bytes() {
        let mut word = words(1);
        for partitioner in Partitioner::ALL {
            for _ in 0..3000 {
                let (a, b) = (random_key(&mut word), random_key(&mut word));
                let expected = partitioner.ring_token(&a).cmp(&partitioner.ring_token(&b)).then_with(|| a.cmp(&b));
                let (x, y) = (DecoratedKey::new(partitioner, &a), DecoratedKey::new(partitioner, &b));
                assert_eq!(x.cmp(&y), expected, "{partitioner:?} {x:?} {y:?}");
                assert_eq!(partitioner.ring_token(&a).token(), x.token);
            }
        }
    }

    #[test]
    fn a_range_has_the_keys_between_its_positions() {
        let mut word = words(2);
        for partitioner in Partitioner::ALL {
            for _ in 0..3000 {
                let [key, low, high] = [0; 3].map(|_| random_key(&mut word));
                let [token, low, high] = [&key, &low, &high].map(|key| partitioner.ring_token(key));
                let is_after = [word().is_multiple_of(2), word().is_multiple_of(2)];
                let range = TokenRange {
                    start: Some(RingPosition { token: low.clone(), is_after: is_after[0] }),
                    end: Some(RingPosition { token: high.clone(), is_after: is_after[1] }),
                };
                let (begun, passed) =
                    (token > low || token == low && !is_after[0], token > high || token == high && !is_after[1]);
                let prefix = partitioner.token(&key);
                assert_eq!(range.contains(prefix, &key), begun && !passed, "{partitioner:?} {range:?} {key:02x?}");
                assert!(!range.contains(prefix, &key) || range.may_overlap(prefix, prefix), "{range:?} {key:02x?}");
                if let Some(before) = low.key_before() {
                    let before = DecoratedKey::new(partitioner, before);
                    assert!(!begun || before <= DecoratedKey::new(partitioner, &key), "{low:?} {key:02x?}");
                }
            }
        }
    }

    #[test]
    fn random_tokens_are_distinct_and_read_back() {
        let mut word = words(3);
        for partitioner in Partitioner::ALL {
            let tokens = partitioner.random_tokens(256, &mut || word() << 32 | word());
            assert_eq!(tokens.len(), 256);
            assert!(tokens.iter().all(|token| partitioner.parse_token(&token.to_string()).as_ref() == Ok(token)));
        }
    }
}
