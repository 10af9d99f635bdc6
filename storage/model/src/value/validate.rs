//! Validation of serialised values.

use super::composite::validate_composite;
use crate::types::{CqlType, UserType};
use crate::value::{Duration, ValueError, VectorElements, take_element};

/// Checks that `bytes` are a value of `cql_type`. The errors are Cassandra's texts.
pub fn validate(cql_type: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    use CqlType::*;
    let len = bytes.len();
    let fail = |text: String| Err(ValueError(text));
    match cql_type {
        Ascii => match bytes.iter().find(|byte| !byte.is_ascii()) {
            Some(&byte) => fail(format!("Invalid byte for ascii: {}", byte as i8)),
            None => Ok(()),
        },
        Text if !is_text(bytes) => fail("String didn't validate.".into()),
        Blob | Text | Varint => Ok(()),
        Bigint | Counter if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte long ({len})")),
        Boolean if len > 1 => fail(format!("Expected 1 or 0 byte value ({len})")),
        Date if len != 4 => fail(format!("Expected 4 byte long for date ({len})")),
        Decimal if len != 0 && len < 4 => fail(format!("Expected 0 or at least 4 bytes ({len})")),
        Double if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte value for a double ({len})")),
        Duration => validate_duration(bytes),
        Empty if len != 0 => fail("EmptyType only accept empty values".into()),
        Float if len != 4 && len != 0 => fail(format!("Expected 4 or 0 byte value for a float ({len})")),
        Inet if !matches!(len, 0 | 4 | 16) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            fail(format!("Expected 4 or 16 byte inetaddress; got {hex}"))
        }
        Int if len != 4 && len != 0 => fail(format!("Expected 4 or 0 byte int ({len})")),
        Smallint if len != 2 => fail(format!("Expected 2 bytes for a smallint ({len})")),
        Time if len != 8 => fail(format!("Expected 8 byte long for time ({len})")),
        Timestamp if len != 8 && len != 0 => fail(format!("Expected 8 or 0 byte long for date ({len})")),
        LexicalUuid | Uuid | Timeuuid if len != 16 && len != 0 => fail(format!("UUID should be 16 or 0 bytes ({len})")),
        Timeuuid if len == 16 && bytes[6] >> 4 != 1 => {
            // Cassandra shows the uuid's first digit instead of its version.
            fail(format!("Invalid version for TimeUUID type: 0x{:x}", bytes[0] >> 4))
        }
        Tinyint if len != 1 => fail(format!("Expected 1 byte for a tinyint ({len})")),
        List { element, .. } => validate_elements("list", &[element], bytes),
        Set { element, .. } => validate_elements("set", &[element], bytes),
        Map { key, value, .. } => validate_elements("map", &[key, value], bytes),
        Tuple(types) => validate_tuple(types, bytes),
        User { definition, .. } => validate_user_type(definition, bytes),
        Vector { element, dimension } => validate_vector(cql_type, element, *dimension, bytes),
        Composite(_) | DynamicComposite(_) => validate_composite(cql_type, bytes),
        _ => Ok(()),
    }
}

/// [`validate`] for a value that a client sent. Cassandra reads a whole collection before it checks the elements, and
/// so reports other errors for a negative count and for nulls in a list.
pub fn validate_bound(cql_type: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let name = match cql_type {
        CqlType::List { .. } => "list",
        CqlType::Set { .. } => "set",
        CqlType::Map { .. } => "map",
        _ => return validate(cql_type, bytes),
    };
    if bytes.first_chunk().is_some_and(|count| i32::from_be_bytes(*count) < 0) {
        return Err(ValueError(format!("The data cannot be deserialized as a {name}")));
    }
    let validated = validate(cql_type, bytes);
    match cql_type {
        CqlType::List { element, .. } if validated.is_err() => read_list(element, bytes).and(validated),
        _ => validated,
    }
}

/// Checks a list whose elements may be null.
fn read_list(element: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let short = || ValueError("Not enough bytes to read a list".into());
    let (count, mut rest) = bytes.split_first_chunk().ok_or_else(short)?;
    for _ in 0..i32::from_be_bytes(*count) {
        if let Some(found) = take_element(&mut rest).ok_or_else(short)? {
            validate(element, found)?;
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(ValueError("Unexpected extraneous bytes after list value".into())) }
}

/// Whether Cassandra accepts bytes as text. It is more tolerant than Unicode: `c0 80` for a zero, surrogates, code
/// points beyond the last one and most second bytes after `e0` and `f0` pass. Code that needs a `str` converts with
/// replacement characters.
fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() || is_tolerated_text(bytes)
}

fn is_tolerated_text(mut bytes: &[u8]) -> bool {
    let continues = |byte: u8| byte & 0xc0 == 0x80;
    loop {
        let (second_ok, tail_len) = match *bytes {
            [] => return true,
            [0..=0x7f, ref rest @ ..] => {
                bytes = rest;
                continue;
            }
            [0xc0, second, ..] => (second == 0x80, 0),
            [0xc2..=0xdf, second, ..] => (continues(second), 0),
            [0xe0, second, ..] => (second & 0xe0 != 0x80, 1),
            [0xe1..=0xef, second, ..] => (continues(second), 1),
            [0xf0, second, ..] => (second & 0x30 != 0, 2),
            [0xf1..=0xf7, second, ..] => (continues(second), 2),
            _ => return false,
        };
        match bytes[2..].split_at_checked(tail_len) {
            Some((tail, rest)) if second_ok && tail.iter().copied().all(continues) => bytes = rest,
            _ => return false,
        }
    }
}

fn validate_duration(bytes: &[u8]) -> Result<(), ValueError> {
    let len = bytes.len();
    if len < 3 {
        return Err(ValueError(format!("Expected at least 3 bytes for a duration ({len})")));
    }
    let Some((months, days, nanoseconds)) = Duration::read_parts(bytes) else {
        return Err(ValueError(format!("Expected at least 3 bytes for a duration ({len})")));
    };
    for (name, number) in [("months", months), ("days", days)] {
        if i32::try_from(number).is_err() {
            return Err(ValueError(format!("The duration {name} must be a 32 bits integer but was: {number}")));
        }
    }
    let parts = [months, days, nanoseconds];
    if parts.iter().any(|&part| part < 0) && parts.iter().any(|&part| part > 0) {
        return Err(ValueError(format!(
            "The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanoseconds})"
        )));
    }
    Ok(())
}

/// Checks a list, set or map; `types` alternate (key and value of a map).
fn validate_elements(name: &str, types: &[&CqlType], bytes: &[u8]) -> Result<(), ValueError> {
    let short = || ValueError(format!("Not enough bytes to read a {name}"));
    let (count, mut rest) = bytes.split_first_chunk().ok_or_else(short)?;
    for _ in 0..i32::from_be_bytes(*count) {
        for cql_type in types {
            let element = take_element(&mut rest).ok_or_else(short)?;
            validate(cql_type, element.ok_or_else(|| ValueError("Null value read when not allowed".into()))?)?;
        }
    }
    if !rest.is_empty() {
        return Err(ValueError(format!("Unexpected extraneous bytes after {name} value")));
    }
    Ok(())
}

/// Checks the elements of a tuple. `part` names the element with this index in errors.
fn validate_tuple_elements<'t>(
    types: impl Iterator<Item = &'t CqlType>,
    kind: &str,
    part: impl Fn(usize) -> String,
    wrap: impl Fn(usize, ValueError) -> ValueError,
    bytes: &[u8],
) -> Result<(), ValueError> {
    let mut rest = bytes;
    for (i, cql_type) in types.enumerate() {
        // Trailing elements may be missing.
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() < 4 {
            return Err(ValueError(format!("Not enough bytes to read size of {}", part(i))));
        }
        let element =
            take_element(&mut rest).ok_or_else(|| ValueError(format!("Not enough bytes to read {}", part(i))))?;
        if let Some(element) = element {
            validate(cql_type, element).map_err(|error| wrap(i, error))?;
        }
    }
    if !rest.is_empty() {
        return Err(ValueError(format!("Invalid remaining data after end of {kind} value")));
    }
    Ok(())
}

fn validate_tuple(types: &[CqlType], bytes: &[u8]) -> Result<(), ValueError> {
    validate_tuple_elements(types.iter(), "tuple", |i| format!("{i}th component"), |_, error| error, bytes)
}

fn validate_user_type(definition: &UserType, bytes: &[u8]) -> Result<(), ValueError> {
    let field = |i: usize| format!("{i}th field {}", definition.fields[i].0);
    let wrap = |i, ValueError(text)| ValueError(format!("Failure validating the {}; {text}", field(i)));
    validate_tuple_elements(definition.field_types(), "UDT", field, wrap, bytes)
}

fn validate_vector(vector: &CqlType, element: &CqlType, dimension: u32, bytes: &[u8]) -> Result<(), ValueError> {
    if bytes.is_empty() {
        return Err(ValueError("Invalid empty vector value".into()));
    }
    let mut elements = VectorElements::new(element, dimension, bytes);
    for _ in 0..dimension {
        let short = || ValueError(format!("Not enough bytes to read a {vector}"));
        if elements.rest().is_empty() {
            return Err(short());
        }
        let len = elements.read_len().ok_or_else(short)?;
        let left = elements.rest().len();
        let value = elements.read_bytes(len).ok_or_else(|| match element.fixed_len() {
            Some(_) => short(),
            None => ValueError(format!("Attempted to read {len}, but the size is {left}")),
        })?;
        validate(element, value)?;
    }
    match elements.rest().len() {
        0 => Ok(()),
        left => Err(ValueError(format!("Unexpected {left} extraneous bytes after {vector} value"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: Result<(), ValueError>) -> String {
        result.map_or_else(|error| error.0, |()| "ok".into())
    }

    #[test]
    fn bound_collections_have_no_negative_count() {
        let element = || Box::new(CqlType::Text);
        for (name, cql_type) in [
            ("list", CqlType::List { element: element(), frozen: false }),
            ("set", CqlType::Set { element: element(), frozen: true }),
            ("map", CqlType::Map { key: element(), value: element(), frozen: false }),
        ] {
            for count in [-1, i32::MIN] {
                let refused = format!("The data cannot be deserialized as a {name}");
                assert_eq!(text(validate_bound(&cql_type, &count.to_be_bytes())), refused);
                // Inside other values Cassandra treats such a collection as empty.
                assert_eq!(text(validate(&cql_type, &count.to_be_bytes())), "ok");
            }
            assert_eq!(text(validate_bound(&cql_type, &[0; 4])), "ok");
            assert_eq!(text(validate_bound(&cql_type, &[0; 3])), format!("Not enough bytes to read a {name}"));
        }
    }

    #[test]
    fn nulls_of_bound_lists_are_refused_after_all_else() {
        let list = CqlType::List { element: Box::new(CqlType::Text), frozen: true };
        let check = |bytes: &[u8]| text(validate_bound(&list, bytes));
        assert_eq!(check(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), "Null value read when not allowed");
        assert_eq!(check(&[0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff]), "Not enough bytes to read a list");
        let longer = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0];
        assert_eq!(check(&longer), "Unexpected extraneous bytes after list value");
        assert_eq!(text(validate(&list, &longer)), "Null value read when not allowed");
    }
}
