//! Masking functions: what is shown in place of a value.

use super::Function;
use md5::Digest;
use model::{CqlType, Failure};

/// The padding character, unless another one is given.
const PADDING: u16 = b'*' as u16;
/// The hash algorithm, unless another one is named.
const ALGORITHM: &str = "SHA-256";
/// The smallest timeuuid of the first instant of 1970.
const TIMEUUID: [u8; 16] =
    [0x13, 0x81, 0x40, 0x00, 0x1d, 0xd2, 0x11, 0xb2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];

/// The masking functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// Null.
    Null,
    /// A fixed default value of the type.
    Default,
    /// A given value.
    Replace,
    /// Padding in place of all but the first and last characters.
    Inner,
    /// Padding in place of the first and last characters.
    Outer,
    /// A hash of the value.
    Hash,
}

/// Masks the first argument. Null stays null, except for masks that ignore the value.
pub(super) fn evaluate(
    function: &Function,
    mask: Mask,
    arguments: &[Option<&[u8]>],
) -> Result<Option<Vec<u8>>, Failure> {
    let argument = |at: usize| arguments.get(at).copied().flatten();
    let owned = |value: Option<&[u8]>| value.map(<[u8]>::to_vec);
    match mask {
        Mask::Null => Ok(None),
        Mask::Default => Ok(Some(default_of(&function.result))),
        Mask::Replace => Ok(owned(argument(1))),
        Mask::Inner | Mask::Outer => {
            let padding = match argument(3) {
                Some(text) => padding_of(function, &String::from_utf8_lossy(text))?,
                None => PADDING,
            };
            let Some(text) = argument(0) else { return Ok(None) };
            let count = |at| argument(at).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes);
            let masked = padded(&String::from_utf8_lossy(text), mask, count(1), count(2), padding);
            Ok(Some(masked.into_bytes()))
        }
        Mask::Hash => {
            let algorithm = argument(1).map_or(ALGORITHM.into(), String::from_utf8_lossy);
            let hash = hash_of(&algorithm, argument(0).unwrap_or_default());
            let hash = hash.ok_or_else(|| Failure::invalid(format!("Hash algorithm not found: {algorithm}")))?;
            Ok(argument(0).map(|_| hash))
        }
    }
}

/// The default mask of a type.
fn default_of(cql_type: &CqlType) -> Vec<u8> {
    let parts = |types: &mut dyn Iterator<Item = &CqlType>| {
        let mut out = Vec::new();
        types.for_each(|part| model::value::push_element(&mut out, Some(&default_of(part))));
        out
    };
    match cql_type {
        CqlType::Tinyint | CqlType::Boolean | CqlType::Varint => vec![0],
        CqlType::Smallint => vec![0; 2],
        CqlType::Int | CqlType::Float | CqlType::Inet => vec![0; 4],
        CqlType::Bigint | CqlType::Counter | CqlType::Double | CqlType::Time | CqlType::Timestamp => vec![0; 8],
        // Scale 0 and the number 0.
        CqlType::Decimal => vec![0; 5],
        CqlType::Ascii | CqlType::Text => b"****".to_vec(),
        CqlType::Date => vec![0x80, 0, 0, 0],
        // 0 months, days and nanoseconds.
        CqlType::Duration => vec![0; 3],
        CqlType::LexicalUuid | CqlType::Uuid => vec![0; 16],
        CqlType::Timeuuid => TIMEUUID.to_vec(),
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } => vec![0; 4],
        CqlType::Tuple(types) => parts(&mut types.iter()),
        CqlType::User { definition, .. } => parts(&mut definition.fields.iter().map(|(_, field)| field)),
        CqlType::Vector { element, dimension } => {
            let part = default_of(element);
            let mut out = Vec::new();
            (0..*dimension).for_each(|_| model::value::push_vector_element(&mut out, element, &part));
            out
        }
        // Cassandra fails for composite types.
        _ => Vec::new(),
    }
}

fn padding_of(function: &Function, text: &str) -> Result<u16, Failure> {
    let units: Vec<u16> = text.encode_utf16().collect();
    match units.as_slice() {
        [one] => Ok(*one),
        several => Err(Failure::invalid(format!(
            "The padding argument for function {} should be single-character, but '{text}' has {} characters.",
            function.name,
            several.len()
        ))),
    }
}

/// Characters are UTF-16 units, as in Java; half of a surrogate pair becomes a question mark.
fn padded(text: &str, mask: Mask, first: i32, last: i32, padding: u16) -> String {
    let units: Vec<u16> = text.encode_utf16().collect();
    let end = (units.len() as i32 - 1).wrapping_sub(last);
    let masked = units.iter().enumerate().map(|(at, unit)| {
        let inside = at as i32 >= first && at as i32 <= end;
        if inside == (mask == Mask::Inner) { padding } else { *unit }
    });
    char::decode_utf16(masked).map(|unit| unit.unwrap_or('?')).collect()
}

/// The hash of a value by Java's name of the algorithm.
fn hash_of(algorithm: &str, value: &[u8]) -> Option<Vec<u8>> {
    Some(match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => md5::Md5::digest(value).to_vec(),
        "SHA" | "SHA1" | "SHA-1" => sha1::Sha1::digest(value).to_vec(),
        "SHA-224" => sha2::Sha224::digest(value).to_vec(),
        "SHA-256" => sha2::Sha256::digest(value).to_vec(),
        "SHA-384" => sha2::Sha384::digest(value).to_vec(),
        "SHA-512" => sha2::Sha512::digest(value).to_vec(),
        "SHA-512/224" => sha2::Sha512_224::digest(value).to_vec(),
        "SHA-512/256" => sha2::Sha512_256::digest(value).to_vec(),
        "SHA3-224" => sha3::Sha3_224::digest(value).to_vec(),
        "SHA3-256" => sha3::Sha3_256::digest(value).to_vec(),
        "SHA3-384" => sha3::Sha3_384::digest(value).to_vec(),
        "SHA3-512" => sha3::Sha3_512::digest(value).to_vec(),
        _ => return None,
    })
}
