//! Values of the generated statements, each as CQL literal, as bytes on the wire and as JSON. Domains are small, so
//! that keys collide, and contain the extremes of every type.

use crate::dice::Dice;
use crate::schema::UserType;
use crate::types::Type;

/// The value of a marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Bind {
    Bytes(Vec<u8>),
    Null,
    Unset,
}

/// A value in its three forms.
///
/// As literals and in JSON sets and maps have each element or key once: Cassandra keeps them in a hash table by the
/// addresses of objects, so which one of equal keys counts would vary. On the wire they may be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Datum {
    pub(crate) literal: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) json: String,
    /// The literal of the bytes.
    pub(crate) bound: String,
    /// A key that is the same for values that are equal in the order of their type.
    same: String,
}

impl Datum {
    /// A value whose literal says all.
    pub(crate) fn new(literal: String, bytes: Vec<u8>, json: String) -> Datum {
        let same = if literal == "1.00" { "1.0".into() } else { literal.clone() };
        Datum { bound: literal.clone(), literal, bytes, json, same }
    }
}

/// How many different values of each native type keys may have.
const KEY_VALUES: usize = 3;
/// The most elements of a collection.
const ELEMENTS_MAX: usize = 3;

/// The indexes of the elements that are not equal to one before them.
fn each_once(elements: &[Datum]) -> impl Iterator<Item = usize> {
    (0..elements.len()).filter(|at| elements[..*at].iter().all(|before| before.same != elements[*at].same))
}

/// A value of `cql_type`. Keys have fewer different ones.
pub(crate) fn datum(dice: &mut Dice, types: &[UserType], cql_type: &Type, key: bool) -> Datum {
    match cql_type {
        Type::Native(name) => {
            let all = samples(name);
            let count = if key { KEY_VALUES.min(all.len()) } else { all.len() };
            all[dice.below(count)].clone()
        }
        Type::List(element, _) => {
            let elements = some(dice, types, element, key);
            sequence(&elements, "[", "]")
        }
        Type::Set(element, _) => {
            let drawn = some(dice, types, element, key);
            let once: Vec<Datum> = each_once(&drawn).map(|at| drawn[at].clone()).collect();
            let Datum { bytes, bound, .. } = sequence(&drawn, "{", "}");
            let mut same: Vec<&str> = once.iter().map(|one| one.same.as_str()).collect();
            same.sort_unstable();
            let same = format!("{{{}}}", same.join(", "));
            Datum { bytes, bound, same, ..sequence(&once, "{", "}") }
        }
        Type::Map(key_type, value_type, _) => {
            let keys = some(dice, types, key_type, key);
            let values: Vec<Datum> = keys.iter().map(|_| datum(dice, types, value_type, key)).collect();
            let once = |all: &[Datum]| each_once(&keys).map(|at| all[at].clone()).collect::<Vec<_>>();
            let Datum { bytes, bound, .. } = map(&keys, &values);
            Datum { bytes, bound, ..map(&once(&keys), &once(&values)) }
        }
        Type::Tuple(elements) => {
            let fields: Vec<Option<Datum>> = elements
                .iter()
                .map(|element| (key || !dice.percent(15)).then(|| datum(dice, types, element, key)))
                .collect();
            let literals: Vec<&str> = fields.iter().map(|f| f.as_ref().map_or("null", |d| &d.literal)).collect();
            let json: Vec<&str> = fields.iter().map(|f| f.as_ref().map_or("null", |d| &d.json)).collect();
            let bound: Vec<&str> = fields.iter().map(|f| f.as_ref().map_or("null", |d| &d.bound)).collect();
            let same: Vec<&str> = fields.iter().map(|f| f.as_ref().map_or("null", |d| &d.same)).collect();
            Datum {
                literal: format!("({})", literals.join(", ")),
                bytes: fields_of(&fields),
                json: format!("[{}]", json.join(", ")),
                bound: format!("({})", bound.join(", ")),
                same: format!("({})", same.join(", ")),
            }
        }
        Type::User(name, _) => user(dice, types, name, key),
        Type::Vector(element, len) => {
            let elements: Vec<Datum> = (0..*len).map(|_| datum(dice, types, element, key)).collect();
            let mut bytes = Vec::new();
            for one in &elements {
                if element.fixed_len().is_none() {
                    bytes.extend(unsigned_vint(one.bytes.len() as u64));
                }
                bytes.extend(&one.bytes);
            }
            Datum { bytes, ..sequence(&elements, "[", "]") }
        }
    }
}

fn some(dice: &mut Dice, types: &[UserType], element: &Type, key: bool) -> Vec<Datum> {
    let count = dice.below(if key { 2 } else { ELEMENTS_MAX }) + usize::from(!dice.one_in(8));
    (0..count).map(|_| datum(dice, types, element, key)).collect()
}

fn user(dice: &mut Dice, types: &[UserType], name: &str, key: bool) -> Datum {
    let Some(found) = types.iter().find(|known| known.name == name) else {
        return Datum::new("{}".into(), Vec::new(), "{}".into());
    };
    let mut fields = Vec::new();
    let (mut literals, mut json, mut bound, mut same) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (field, field_type) in &found.fields {
        let value = (key || !dice.percent(20)).then(|| datum(dice, types, field_type, key));
        same.push(value.as_ref().map_or("null".into(), |value| value.same.clone()));
        match &value {
            Some(value) => {
                bound.push(format!("{}: {}", crate::schema::ident(field), value.bound));
                literals.push(format!("{}: {}", crate::schema::ident(field), value.literal));
                json.push(format!("{}: {}", json_name(field), value.json));
            }
            None if dice.one_in(2) => {
                literals.push(format!("{}: null", crate::schema::ident(field)));
                json.push(format!("{}: null", json_name(field)));
            }
            None => {}
        }
        fields.push(value);
    }
    // At least one field: `{}` is an empty set or map.
    if literals.is_empty() {
        literals.push(format!("{}: null", crate::schema::ident(&found.fields[0].0)));
    }
    if bound.is_empty() {
        bound.clone_from(&literals);
    }
    Datum {
        literal: format!("{{{}}}", literals.join(", ")),
        bytes: fields_of(&fields),
        json: format!("{{{}}}", json.join(", ")),
        bound: format!("{{{}}}", bound.join(", ")),
        same: format!("({})", same.join(", ")),
    }
}

/// A column or field name as a JSON key: names with capitals keep their quotes inside.
pub(crate) fn json_name(name: &str) -> String {
    if crate::schema::ident(name).starts_with('"') { format!("\"\\\"{name}\\\"\"") } else { format!("\"{name}\"") }
}

/// Elements as a list or set: `[a, b]`.
pub(crate) fn sequence(elements: &[Datum], open: &str, close: &str) -> Datum {
    let literals: Vec<&str> = elements.iter().map(|one| one.literal.as_str()).collect();
    let json: Vec<&str> = elements.iter().map(|one| one.json.as_str()).collect();
    let mut bytes = (elements.len() as i32).to_be_bytes().to_vec();
    for one in elements {
        push_sized(&mut bytes, &one.bytes);
    }
    let bound: Vec<&str> = elements.iter().map(|one| one.bound.as_str()).collect();
    let same: Vec<&str> = elements.iter().map(|one| one.same.as_str()).collect();
    Datum {
        literal: format!("{open}{}{close}", literals.join(", ")),
        bytes,
        json: format!("[{}]", json.join(", ")),
        bound: format!("{open}{}{close}", bound.join(", ")),
        same: format!("[{}]", same.join(", ")),
    }
}

/// Pairs as a map: `{k: v}`.
pub(crate) fn map(keys: &[Datum], values: &[Datum]) -> Datum {
    let mut bytes = (keys.len() as i32).to_be_bytes().to_vec();
    let (mut literals, mut json, mut bound, mut same) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (key, value) in keys.iter().zip(values) {
        bound.push(format!("{}: {}", key.bound, value.bound));
        same.push(format!("{}: {}", key.same, value.same));
        push_sized(&mut bytes, &key.bytes);
        push_sized(&mut bytes, &value.bytes);
        literals.push(format!("{}: {}", key.literal, value.literal));
        // A JSON key is a string: what is not one becomes one.
        let quoted = key.json.starts_with('"');
        let name = if quoted {
            key.json.clone()
        } else {
            format!("\"{}\"", key.json.replace('\\', "\\\\").replace('"', "\\\""))
        };
        json.push(format!("{name}: {}", value.json));
    }
    same.sort_unstable();
    Datum {
        literal: format!("{{{}}}", literals.join(", ")),
        bytes,
        json: format!("{{{}}}", json.join(", ")),
        bound: format!("{{{}}}", bound.join(", ")),
        same: format!("{{{}}}", same.join(", ")),
    }
}

fn fields_of(fields: &[Option<Datum>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in fields {
        match field {
            Some(value) => push_sized(&mut bytes, &value.bytes),
            None => bytes.extend((-1i32).to_be_bytes()),
        }
    }
    bytes
}

fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as i32).to_be_bytes());
    out.extend(bytes);
}

fn unsigned_vint(value: u64) -> Vec<u8> {
    let extra = (0..8).find(|extra| value < 1 << (7 * (extra + 1))).unwrap_or(8);
    let mut bytes = value.to_be_bytes()[8 - extra.min(8)..].to_vec();
    if extra == 8 {
        bytes.insert(0, 0xff);
    } else {
        let high = (value >> (8 * extra)) as u8;
        bytes.insert(0, high | !(0xff_u16 >> extra) as u8);
    }
    bytes
}

fn signed_vint(value: i64) -> Vec<u8> {
    unsigned_vint(((value << 1) ^ (value >> 63)) as u64)
}

/// A number in two's complement, in as few bytes as possible.
fn varint(value: i128) -> Vec<u8> {
    let all = value.to_be_bytes();
    let redundant = |at: usize| (all[at] == 0 && all[at + 1] < 0x80) || (all[at] == 0xff && all[at + 1] >= 0x80);
    let from = (0..15).find(|at| !redundant(*at)).unwrap_or(15);
    all[from..].to_vec()
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digits: String = hex.chars().filter(|c| *c != '-').collect();
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[at * 2..at * 2 + 2], 16).expect("hex")).collect()
}

/// The values of a native type; keys have one of the first ones.
fn samples(name: &str) -> Vec<Datum> {
    let bare = |literal: &str, bytes: Vec<u8>| Datum::new(literal.into(), bytes, literal.into());
    let quoted = |text: &str, bytes: Vec<u8>| {
        let json = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        Datum::new(format!("'{}'", text.replace('\'', "''")), bytes, json)
    };
    let text = |text: &str| quoted(text, text.as_bytes().to_vec());
    match name {
        "ascii" => ["a", "b", "", "Zz", "it's", "~ \"q\""].map(text).to_vec(),
        "text" | "varchar" => ["a", "b", "ab", "", "ä€😀", "it's", "B"].map(text).to_vec(),
        "bigint" | "counter" => {
            [0, 1, -1, 5, i64::MAX, i64::MIN].map(|n: i64| bare(&n.to_string(), n.to_be_bytes().to_vec())).to_vec()
        }
        "int" => {
            [0, 1, -1, 2, 3, i32::MAX, i32::MIN].map(|n: i32| bare(&n.to_string(), n.to_be_bytes().to_vec())).to_vec()
        }
        "smallint" => {
            [0, 1, -1, 300, i16::MAX, i16::MIN].map(|n: i16| bare(&n.to_string(), n.to_be_bytes().to_vec())).to_vec()
        }
        "tinyint" => [0, 1, -1, i8::MAX, i8::MIN].map(|n: i8| bare(&n.to_string(), n.to_be_bytes().to_vec())).to_vec(),
        "varint" => [0, 1, -1, 255, -129, 1 << 70, -(1 << 70)].map(|n: i128| bare(&n.to_string(), varint(n))).to_vec(),
        "blob" => ["01", "", "ff", "cafe", "00", "01ff"]
            .map(|hex| Datum::new(format!("0x{hex}"), bytes_of_hex(hex), format!("\"0x{hex}\"")))
            .to_vec(),
        "boolean" => vec![bare("true", vec![1]), bare("false", vec![0])],
        "date" => [
            ("2024-02-29", 19782),
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ]
        .map(|(date, days): (&str, i32)| quoted(date, ((days as i64 + (1 << 31)) as u32).to_be_bytes().to_vec()))
        .to_vec(),
        "decimal" => {
            // No key may be both 1.0 and 1.00: which of them a row shows depends on what Cassandra has flushed, as it
            // does at each ALTER TABLE.
            [("0", 0, 0), ("1.0", 10, 1), ("-2.5", -25, 1), ("1.00", 100, 2), ("1E+3", 1, -3), ("1E-10", 1, 10)]
                .map(|(literal, unscaled, scale): (&str, i128, i32)| {
                    bare(literal, [scale.to_be_bytes().to_vec(), varint(unscaled)].concat())
                })
                .to_vec()
        }
        "double" => [
            ("0.0", 0.0),
            ("1.5", 1.5),
            ("-1.5", -1.5),
            ("1e300", 1e300),
            ("-0.0", -0.0),
            ("NaN", f64::NAN),
            ("Infinity", f64::INFINITY),
        ]
        .map(|(literal, n): (&str, f64)| float(literal, n.to_be_bytes().to_vec()))
        .to_vec(),
        "float" => [
            ("0.0", 0.0),
            ("1.5", 1.5),
            ("-1.5", -1.5),
            ("3e10", 3e10),
            ("-0.0", -0.0),
            ("NaN", f32::NAN),
            ("-Infinity", f32::NEG_INFINITY),
        ]
        .map(|(literal, n): (&str, f32)| float(literal, n.to_be_bytes().to_vec()))
        .to_vec(),
        "duration" => [
            ("1mo", 1, 0, 0),
            ("2d", 0, 2, 0),
            ("12h30m", 0, 0, 45_000_000_000_000),
            ("-1mo2d", -1, -2, 0),
            ("1y3ns", 12, 0, 3),
        ]
        .map(|(literal, months, days, nanos): (&str, i64, i64, i64)| {
            let bytes = [signed_vint(months), signed_vint(days), signed_vint(nanos)].concat();
            Datum::new(literal.into(), bytes, format!("\"{literal}\""))
        })
        .to_vec(),
        "inet" => [
            ("127.0.0.1", "7f000001"),
            ("10.0.0.255", "0a0000ff"),
            ("::1", "00000000000000000000000000000001"),
            ("255.1.1.1", "ff010101"),
        ]
        .map(|(address, hex)| quoted(address, bytes_of_hex(hex)))
        .to_vec(),
        "time" => [("12:34:56.789", 45_296_789_000_000), ("00:00:00", 0), ("23:59:59.999999999", 86_399_999_999_999)]
            .map(|(time, nanos): (&str, i64)| quoted(time, nanos.to_be_bytes().to_vec()))
            .to_vec(),
        "timestamp" => [
            ("2024-01-31 12:00:00+0000", 1_706_702_400_000),
            ("1970-01-01T00:00:00.001Z", 1),
            ("1969-12-31 23:59:59.999+0000", -1),
            ("2030-06-15 01:02:03.456+0200", 1_907_622_123_456),
        ]
        .map(|(timestamp, millis): (&str, i64)| quoted(timestamp, millis.to_be_bytes().to_vec()))
        .to_vec(),
        "timeuuid" => identifiers(&[
            "00000000-0000-1000-8000-000000000001",
            "b4f12180-bf2c-11ee-8080-808080808080",
            "b4f12180-bf2c-11ee-7f7f-7f7f7f7f7f7f",
            "ffffffff-ffff-1fff-bfff-ffffffffffff",
        ]),
        "uuid" => identifiers(&[
            "00000000-0000-1000-8000-000000000001",
            "f81d4fae-7dec-4000-a765-00a0c91e6bf6",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "b4f12180-bf2c-11ee-8080-808080808080",
            "00000000-0000-0000-0000-000000000000",
        ]),
        other => unreachable!("no values of {other}"),
    }
}

fn float(literal: &str, bytes: Vec<u8>) -> Datum {
    let json = if literal.contains(['N', 'I']) { format!("\"{literal}\"") } else { literal.to_string() };
    Datum::new(literal.into(), bytes, json)
}

fn identifiers(list: &[&str]) -> Vec<Datum> {
    list.iter().map(|uuid| Datum::new(uuid.to_string(), bytes_of_hex(uuid), format!("\"{uuid}\""))).collect()
}
