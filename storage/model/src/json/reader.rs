//! Parses JSON texts to [`Json`], with the limits and errors of Jackson 2.19.
//!
//! One loop over tokens keeps a stack of open lists and objects, so that deep nesting takes no stack of the process.

use super::{Json, JsonError};
use crate::HashMap;

/// Deepest nesting of lists and objects.
pub const JSON_DEPTH_MAX: usize = 1000;
/// Longest number, in characters.
pub const JSON_NUMBER_MAX: usize = 1000;
/// Longest member name, in characters.
pub const JSON_NAME_MAX: usize = 50_000;

/// Jackson's placeholder for the source of a text.
const SOURCE: &str = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: ";
/// Jackson's words for what a value can be.
const EXPECTED: &str = "(JSON String, Number, Array, Object or token 'null', 'true' or 'false')";

/// Why a value that is not an object cannot be read as one: the exception as Java prints it.
pub(super) fn not_a_map(value: &Json, text: &str) -> String {
    let blank = text.len() - text.trim_start_matches([' ', '\t', '\r', '\n']).len();
    let (line, column) = JsonReader { text, at: blank }.place(blank);
    const MAP: &str = "java.util.LinkedHashMap";
    let class = match value {
        Json::String(text) if text.is_empty() => "InvalidFormatException",
        _ => "MismatchedInputException",
    };
    let why = match value {
        Json::String(text) if text.is_empty() => format!(
            "Cannot coerce empty String (\"\") to element of `{MAP}` (but could if coercion was enabled using \
             `CoercionConfig`)"
        ),
        Json::String(text) => format!(
            "Cannot construct instance of `{MAP}` (although at least one Creator exists): no String-argument \
             constructor/factory method to deserialize from String value ('{text}')"
        ),
        other => {
            let (kind, token) = match other {
                Json::Array(_) => ("Array", "START_ARRAY"),
                Json::Integer(_) => ("Integer", "VALUE_NUMBER_INT"),
                Json::Double(_) => ("Floating-point", "VALUE_NUMBER_FLOAT"),
                Json::Boolean(true) => ("Boolean", "VALUE_TRUE"),
                Json::Boolean(false) => ("Boolean", "VALUE_FALSE"),
                _ => ("Null", "VALUE_NULL"),
            };
            format!(
                "Cannot deserialize value of type `{MAP}<java.lang.Object,java.lang.Object>` from {kind} value (token \
                 `JsonToken.{token}`)"
            )
        }
    };
    format!("com.fasterxml.jackson.databind.exc.{class}: {why}\n at {SOURCE}{line}, column: {column}]")
}

pub(super) fn parse(text: &str) -> Result<Json> {
    JsonReader { text, at: 0 }.document()
}

type Result<T> = std::result::Result<T, JsonError>;

/// A list or object that is not closed yet.
struct Open {
    /// Where it starts.
    start: usize,
    /// The items of a list.
    items: Vec<Json>,
    /// The members of an object.
    members: Option<Members>,
}

#[derive(Default)]
struct Members {
    list: Vec<(String, Json)>,
    places: HashMap<String, usize>,
    /// The name whose value comes next.
    name: String,
}

impl Open {
    fn name(&self) -> &'static str {
        if self.members.is_some() { "Object" } else { "Array" }
    }

    fn push(&mut self, value: Json) {
        let Some(members) = &mut self.members else { return self.items.push(value) };
        let name = std::mem::take(&mut members.name);
        match members.places.get(&name) {
            Some(&place) => members.list[place].1 = value,
            None => {
                members.places.insert(name.clone(), members.list.len());
                members.list.push((name, value));
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.members.as_ref().is_none_or(|members| members.list.is_empty())
    }

    fn close(self) -> Json {
        match self.members {
            Some(members) => Json::Object(members.list),
            None => Json::Array(self.items),
        }
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    fn document(mut self) -> Result<Json> {
        let mut stack: Vec<Open> = Vec::new();
        self.skip_blank()?;
        if self.peek().is_none() {
            // Jackson gives only the line here.
            let (line, _) = self.place(self.at);
            return Err(JsonError(format!("No content to map due to end-of-input\n at {SOURCE}{line}]")));
        }
        loop {
            // A value, or the end of an empty list or object.
            let value = match self.peek() {
                Some(open @ ('[' | '{')) => {
                    let start = self.at;
                    self.at += 1;
                    if stack.len() == JSON_DEPTH_MAX {
                        let text = format!(
                            "Document nesting depth ({}) exceeds the maximum allowed ({JSON_DEPTH_MAX}, from \
                             `StreamReadConstraints.getMaxNestingDepth()`)",
                            JSON_DEPTH_MAX + 1
                        );
                        return Err(self.error(text, self.at));
                    }
                    let members = (open == '{').then(Members::default);
                    stack.push(Open { start, items: Vec::new(), members });
                    None
                }
                _ => Some(self.scalar()?),
            };
            if let Some(value) = value {
                match stack.last_mut() {
                    Some(open) => open.push(value),
                    None => return Ok(value),
                }
            }
            // Ends of lists and objects, then the way to the next value.
            loop {
                let Some(open) = stack.last_mut() else { return Err(self.error("no value".into(), self.at)) };
                self.skip_blank()?;
                let close = if open.members.is_some() { '}' } else { ']' };
                match self.peek() {
                    None => {
                        let (line, column) = self.place(open.start);
                        let text = format!(
                            "Unexpected end-of-input: expected close marker for {} (start marker at {SOURCE}{line}, \
                             column: {column}])",
                            open.name()
                        );
                        return Err(self.error(text, self.at));
                    }
                    Some(c) if c == close => {
                        self.at += 1;
                        let Some(closed) = stack.pop().map(Open::close) else { continue };
                        match stack.last_mut() {
                            Some(outer) => outer.push(closed),
                            None => return Ok(closed),
                        }
                        continue;
                    }
                    Some(c @ (']' | '}')) => {
                        let (line, column) = self.place(open.start);
                        let text = format!(
                            "Unexpected close marker '{c}': expected '{close}' (for {} starting at {SOURCE}{line}, \
                             column: {column}])",
                            open.name()
                        );
                        return Err(self.error(text, self.at));
                    }
                    Some(',') if !open.is_empty() => {
                        self.at += 1;
                        self.skip_blank()?;
                    }
                    Some(c) if !open.is_empty() => {
                        let wanted = format!("was expecting comma to separate {} entries", open.name());
                        return Err(self.unexpected(c, &wanted, self.at));
                    }
                    Some(_) => {}
                }
                if let Some(members) = &mut open.members {
                    members.name = self.member_name()?;
                } else if self.peek().is_none() {
                    return Err(self.error("Unexpected end-of-input within/between Array entries".into(), self.at));
                }
                break;
            }
        }
    }

    /// Reads a member's name, the colon after it and the space before the value.
    fn member_name(&mut self) -> Result<String> {
        let end = "Unexpected end-of-input within/between Object entries";
        match self.peek() {
            None => return Err(self.error(end.into(), self.at)),
            Some('"') => {}
            Some(c) => return Err(self.unexpected(c, "was expecting double-quote to start field name", self.at)),
        }
        let name = self.string("a field name")?;
        if name.chars().count() > JSON_NAME_MAX {
            let text = format!(
                "Name length ({}) exceeds the maximum allowed ({JSON_NAME_MAX}, from \
                 `StreamReadConstraints.getMaxNameLength()`)",
                name.chars().count()
            );
            return Err(self.error(text, self.at));
        }
        self.skip_blank()?;
        match self.peek() {
            Some(':') => self.at += 1,
            None => return Err(self.error(end.into(), self.at)),
            Some(c) => {
                return Err(self.unexpected(c, "was expecting a colon to separate field name and value", self.at));
            }
        }
        self.skip_blank()?;
        match self.peek() {
            None => Err(self.error(end.into(), self.at)),
            Some(_) => Ok(name),
        }
    }

    fn scalar(&mut self) -> Result<Json> {
        match self.peek() {
            Some('"') => self.string("a string value").map(Json::String),
            Some('-' | '0'..='9') => self.number(),
            Some('+') => {
                let wanted = "JSON spec does not allow numbers to have plus signs: enable \
                              `JsonReadFeature.ALLOW_LEADING_PLUS_SIGN_FOR_NUMBERS` to allow";
                Err(self.error(format!("Unexpected character ('+' (code 43)) in numeric value: {wanted}"), self.at + 1))
            }
            Some(c) if is_word(c) => self.word(),
            Some(c @ (']' | '}')) => {
                let name = if c == ']' { "Array" } else { "Object" };
                if self.at_start() {
                    return Err(self.error(format!("Unexpected close marker '{c}': no open {name} to close"), self.at));
                }
                Err(self.unexpected(c, &format!("expected a valid value {EXPECTED}"), self.at))
            }
            Some('/') => {
                let wanted = "maybe a (non-standard) comment? (not recognized as one since Feature 'ALLOW_COMMENTS' not \
                              enabled for parser)";
                Err(self.unexpected('/', wanted, self.at))
            }
            Some(c) => Err(self.unexpected(c, &format!("expected a valid value {EXPECTED}"), self.at)),
            None => Err(self.error("Unexpected end-of-input".into(), self.at)),
        }
    }

    /// Whether only space has been read.
    fn at_start(&self) -> bool {
        self.text[..self.at].trim().is_empty()
    }

    fn word(&mut self) -> Result<Json> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        self.at += word.len();
        match word {
            "null" => Ok(Json::Null),
            "true" => Ok(Json::Boolean(true)),
            "false" => Ok(Json::Boolean(false)),
            "NaN" | "Infinity" => Err(self.not_a_number(word)),
            _ => Err(self.error(format!("Unrecognized token '{word}': was expecting {EXPECTED}"), self.at)),
        }
    }

    fn not_a_number(&self, word: &str) -> JsonError {
        let enable = "enable `JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS` to allow";
        self.error(format!("Non-standard token '{word}': {enable}"), self.at)
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let numeric = |c: char, why: &str| format!("Unexpected character ({}) in numeric value: {why}", shown(c));
        if self.peek() == Some('-') {
            self.at += 1;
            match self.peek() {
                Some('0'..='9') => {}
                None => return Err(self.error("Unexpected end-of-inputNo digit following sign".into(), self.at)),
                Some('I') => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                    let token = &self.text[start..self.at];
                    return Err(match token {
                        "-Infinity" | "-INF" => self.not_a_number(token),
                        _ => self.error(format!("Unrecognized token '{token}': was expecting {EXPECTED}"), self.at),
                    });
                }
                Some(c) => {
                    let why = "expected digit (0-9) to follow minus sign, for valid numeric value";
                    return Err(self.error(numeric(c, why), self.at));
                }
            }
        }
        let whole = self.digits();
        if whole.len() > 1 && whole.starts_with('0') {
            let text = "Invalid numeric value: Leading zeroes not allowed".to_owned();
            let first = self.at - whole.len();
            return Err(self.error(text, first + 1));
        }
        let mut is_integer = true;
        if self.peek() == Some('.') {
            let point = self.at;
            self.at += 1;
            is_integer = false;
            if self.digits().is_empty() {
                let why = "Decimal point not followed by a digit";
                return Err(self.error(numeric(self.peek().unwrap_or('.'), why), point));
            }
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            let letter = self.at;
            self.at += 1;
            is_integer = false;
            if matches!(self.peek(), Some('+' | '-')) {
                self.at += 1;
            }
            if self.digits().is_empty() {
                let why = "Exponent indicator not followed by a digit";
                return Err(match self.peek() {
                    Some(c) => self.error(numeric(c, why), letter),
                    None => {
                        let text = "Unexpected end-of-inputexpected a digit for number exponent";
                        self.error(text.into(), self.at)
                    }
                });
            }
        }
        let text = &self.text[start..self.at];
        let len = text.bytes().filter(u8::is_ascii_digit).count();
        if len > JSON_NUMBER_MAX {
            let text = format!(
                "Number value length ({len}) exceeds the maximum allowed ({JSON_NUMBER_MAX}, from \
                 `StreamReadConstraints.getMaxNumberLength()`)"
            );
            return Err(self.error(text, self.at));
        }
        let follows = self.peek().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'));
        if let (Some(c), true) = (follows, self.text[..start].trim().is_empty()) {
            return Err(self.unexpected(c, "Expected space separating root-level values", self.at));
        }
        Ok(match is_integer {
            true if text == "-0" => Json::Integer("0".into()),
            true => Json::Integer(text.into()),
            // The form of a number has been checked.
            false => Json::Double(text.parse().unwrap_or(f64::NAN)),
        })
    }

    fn digits(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        self.at += digits.len();
        digits
    }

    /// Reads a string from its opening to its closing quote; `what` is what errors call it.
    fn string(&mut self, what: &str) -> Result<String> {
        self.at += 1;
        let mut out = String::new();
        let mut high = None;
        loop {
            let rest = &self.text[self.at..];
            let plain = &rest[..rest.find(|c| matches!(c, '"' | '\\' | '\0'..='\x1f')).unwrap_or(rest.len())];
            if !plain.is_empty() {
                flush(&mut high, &mut out);
                out.push_str(plain);
                self.at += plain.len();
            }
            match self.peek() {
                None => {
                    let text = match what {
                        "a field name" => "Unexpected end-of-input in field name".to_owned(),
                        _ => format!("Unexpected end-of-input: was expecting closing quote for {what}"),
                    };
                    return Err(self.error(text, self.at));
                }
                Some('"') => {
                    flush(&mut high, &mut out);
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') => {
                    self.at += 1;
                    let unit = self.escape()?;
                    push_unit(unit, &mut high, &mut out);
                }
                Some(c) => {
                    let place = if what == "a field name" { "name" } else { "string value" };
                    let text = format!(
                        "Illegal unquoted character ((CTRL-CHAR, code {})): has to be escaped using backslash to be \
                         included in {place}",
                        c as u32
                    );
                    return Err(self.error(text, self.at));
                }
            }
        }
    }

    /// Reads the UTF-16 unit of an escape, after its backslash.
    fn escape(&mut self) -> Result<u32> {
        let end = || "Unexpected end-of-input in character escape sequence".to_owned();
        let Some(c) = self.peek() else { return Err(self.error(end(), self.at)) };
        self.at += c.len_utf8();
        Ok(match c {
            'b' => 8,
            't' => 9,
            'n' => 10,
            'f' => 12,
            'r' => 13,
            '"' | '/' | '\\' => c as u32,
            'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    let Some(c) = self.peek() else { return Err(self.error(end(), self.at)) };
                    let Some(digit) = c.to_digit(16) else {
                        let wanted = "expected a hex-digit for character escape sequence";
                        return Err(self.unexpected(c, wanted, self.at));
                    };
                    self.at += 1;
                    unit = unit * 16 + digit;
                }
                unit
            }
            c => {
                let at = self.at - c.len_utf8();
                return Err(self.error(format!("Unrecognized character escape {}", shown(c)), at));
            }
        })
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\n' | '\r') => self.at += 1,
                Some(c @ '\0'..='\x1f') => {
                    let text = format!(
                        "Illegal character ((CTRL-CHAR, code {})): only regular white space (\\r, \\n, \\t) is allowed \
                         between tokens",
                        c as u32
                    );
                    return Err(self.error(text, self.at + 1));
                }
                _ => return Ok(()),
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn unexpected(&self, c: char, wanted: &str, at: usize) -> JsonError {
        self.error(format!("Unexpected character ({}): {wanted}", shown(c)), at)
    }

    fn error(&self, text: String, at: usize) -> JsonError {
        let (line, column) = self.place(at);
        JsonError(format!("{text}\n at {SOURCE}{line}, column: {column}]"))
    }

    /// Line and column of a byte, both from 1; columns are UTF-16 units.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[line_start..].encode_utf16().count() + 1)
    }
}

/// Appends a UTF-16 unit; a high surrogate waits in `high` for its other half.
fn push_unit(unit: u32, high: &mut Option<u32>, out: &mut String) {
    match (unit, high.take()) {
        (0xdc00..=0xdfff, Some(first)) => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (unit - 0xdc00);
            out.push(char::from_u32(code).unwrap_or('?'));
        }
        (_, waiting) => {
            flush(&mut { waiting }, out);
            match unit {
                0xd800..=0xdbff => *high = Some(unit),
                unit => out.push(char::from_u32(unit).unwrap_or('?')),
            }
        }
    }
}

/// Half of a surrogate pair becomes a question mark, as when Java writes it as UTF-8.
fn flush(high: &mut Option<u32>, out: &mut String) {
    if high.take().is_some() {
        out.push('?');
    }
}

/// Whether Java allows a character in an identifier: letters, digits, underscores, currency signs.
fn is_word(c: char) -> bool {
    c < '\u{10000}' && c.is_alphanumeric() || matches!(c, '_' | '$' | '¢'..='¥' | '\u{20a0}'..='\u{20cf}')
}

/// `'x' (code 120)`; control characters by their code only.
fn shown(c: char) -> String {
    match c {
        '\0'..='\x1f' => format!("(CTRL-CHAR, code {})", c as u32),
        '\u{100}'.. => format!("'{c}' (code {} / 0x{:x})", c as u32, c as u32),
        c => format!("'{c}' (code {})", c as u32),
    }
}
