//! The lexer: text to tokens, one at a time, borrowed from the text without allocation.
//!
//! 1. White space and comments (`--`, `//` to the end of the line, `/* */`) are skipped.
//! 2. The first byte decides the kind of token. A uuid is tried before numbers and words, because it may start like
//!    either.
//! 3. A sign directly before a number, duration (`-1h30m`), `NaN` or `Infinity` is part of the token, as in Cassandra's
//!    lexer.
//!
//! Invariants: every token's text is a slice of the statement; the lexer never goes back; its work is linear in the
//! length of the text.
//!
//! Keywords are words here. The parser decides what a word is, because most of Cassandra's keywords are also valid
//! names.

use crate::errors::syntax;
use model::Failure;
use std::borrow::Cow;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenKind {
    /// A word: keyword or name without quotes.
    Word,
    /// `"Name"`; the token's text is between the quotes, with `""` not yet unescaped.
    QuotedName,
    /// `""`, which is no name.
    EmptyName,
    /// `'text'`; the token's text is between the quotes, with `''` not yet unescaped.
    String,
    /// `$$text$$`; the token's text is between the dollars.
    DollarString,
    /// Digits, with an optional sign.
    Integer,
    /// Digits with a point, an exponent or both.
    Float,
    /// `0xcafe`.
    Hex,
    /// 8-4-4-4-12 hexadecimal digits.
    Uuid,
    /// `1h30m`, `PT1H30M`, `P3W`, `P0001-02-03T04:05:06`.
    Duration,
    /// `?`.
    QuestionMark,
    /// `(`.
    ParenOpen,
    /// `)`.
    ParenClose,
    /// `[`.
    BracketOpen,
    /// `]`.
    BracketClose,
    /// `{`.
    BraceOpen,
    /// `}`.
    BraceClose,
    /// `,`.
    Comma,
    /// `;`.
    Semicolon,
    /// `:`.
    Colon,
    /// `.`.
    Dot,
    /// `..`.
    DotDot,
    /// `*`.
    Star,
    /// `/`.
    Slash,
    /// `%`.
    Percent,
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `+=`.
    PlusEqual,
    /// `-=`.
    MinusEqual,
    /// `=`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterEqual,
    /// The end of the text.
    End,
}

/// A token: its kind, text and position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// The token's text; without quotes for names and strings.
    pub(crate) text: &'a str,
    /// Offset in bytes of its first character, including quotes.
    pub(crate) start: usize,
}

impl<'a> Token<'a> {
    /// The text of the token as Cassandra's lexer gives it: doubled quotes inside names and strings count once.
    pub(crate) fn content(&self) -> Cow<'a, str> {
        let (doubled, single) = match self.kind {
            TokenKind::QuotedName => ("\"\"", "\""),
            TokenKind::String => ("''", "'"),
            _ => return Cow::Borrowed(self.text),
        };
        if self.text.contains(doubled) { self.text.replace(doubled, single).into() } else { Cow::Borrowed(self.text) }
    }

    /// Whether this is the word `keyword`, given in lower case, in any case.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(keyword)
    }
}

/// Splits a statement into tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// The whole statement.
    pub(crate) fn statement(&self) -> &'a str {
        self.text
    }

    /// The offset of the first byte that is not part of a token yet.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The statement's text from one offset to another.
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or("")
    }

    /// The next token; after the last one [`TokenKind::End`], any number of times.
    pub(crate) fn next(&mut self) -> Result<Token<'a>, Failure> {
        while self.skip_blank()? {}
        let start = self.at;
        let Some(first) = self.byte(0) else {
            return Ok(Token { kind: TokenKind::End, text: "", start });
        };
        match first {
            b'\'' => return self.quoted(b'\'', TokenKind::String),
            b'"' => return self.quoted(b'"', TokenKind::QuotedName),
            b'$' if self.byte(1) == Some(b'$') => return self.dollars(),
            _ => {}
        }
        if first.is_ascii_hexdigit() {
            let rest = &self.text.as_bytes()[start..];
            let len = uuid_prefix_len(rest);
            if len == UUID_LEN {
                return Ok(self.take(TokenKind::Uuid, len));
            }
            // Only a uuid begins like this: a name has no dash, a number no other letters.
            if len > if first.is_ascii_digit() { number_prefix_len(rest) } else { 8 } {
                let expected = if matches!(len, 8 | 13 | 18 | 23) { "'-'" } else { "set null" };
                return Err(self.mismatched_character(start + len, expected));
            }
        }
        if first.is_ascii_digit() || (first == b'-' && self.byte(1).is_some_and(|b| b.is_ascii_digit())) {
            return self.number();
        }
        if first == b'-'
            && let Some(word) = self.byte(1).and_then(|letter| match letter | 32 {
                b'n' => Some("nan"),
                b'i' => Some("infinity"),
                _ => None,
            })
        {
            return self.negative_word(word);
        }
        let minus = (first == b'-') as usize;
        if self.byte(minus) == Some(b'P') {
            let rest = &self.text.as_bytes()[start + minus..];
            if let Some(len) = iso_duration_len(rest) {
                return Ok(self.take(TokenKind::Duration, len + minus));
            }
            // Only a duration has a dash after four digits.
            let len = date_duration_prefix_len(rest);
            if len > 5 {
                let expected = match len {
                    8 => "'-'",
                    11 => "'T'",
                    14 | 17 => "':'",
                    _ => "set null",
                };
                return Err(self.mismatched_character(start + minus + len, expected));
            }
        }
        if first.is_ascii_alphabetic() {
            let rest = &self.text.as_bytes()[start..];
            let len = rest.iter().position(|b| !is_word_byte(*b)).unwrap_or(rest.len());
            return Ok(self.take(TokenKind::Word, len));
        }
        let (kind, len) = match (first, self.byte(1)) {
            (b'<', Some(b'=')) => (TokenKind::LessEqual, 2),
            (b'>', Some(b'=')) => (TokenKind::GreaterEqual, 2),
            (b'!', Some(b'=')) => (TokenKind::NotEqual, 2),
            (b'+', Some(b'=')) => (TokenKind::PlusEqual, 2),
            (b'-', Some(b'=')) => (TokenKind::MinusEqual, 2),
            (b'.', Some(b'.')) => (TokenKind::DotDot, 2),
            (b'<', _) => (TokenKind::Less, 1),
            (b'>', _) => (TokenKind::Greater, 1),
            (b'=', _) => (TokenKind::Equal, 1),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'-', _) => (TokenKind::Minus, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            (b'(', _) => (TokenKind::ParenOpen, 1),
            (b')', _) => (TokenKind::ParenClose, 1),
            (b'[', _) => (TokenKind::BracketOpen, 1),
            (b']', _) => (TokenKind::BracketClose, 1),
            (b'{', _) => (TokenKind::BraceOpen, 1),
            (b'}', _) => (TokenKind::BraceClose, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'?', _) => (TokenKind::QuestionMark, 1),
            (b'!', _) => return Err(self.mismatched_character(start + 1, "'='")),
            _ => return Err(self.bad_character(start)),
        };
        Ok(self.take(kind, len))
    }

    /// An offset as `line L:C`.
    pub(crate) fn position(&self, offset: usize) -> String {
        let (line, column) = self.line_and_column(offset);
        format!("line {line}:{column}")
    }

    /// The line and column of an offset: lines from 1, columns from 0 in UTF-16 units, as in Java.
    pub(crate) fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let before = self.slice(0, offset);
        let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
        let column = before.rsplit('\n').next().unwrap_or("").encode_utf16().count();
        (line, column)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn take(&mut self, kind: TokenKind, len: usize) -> Token<'a> {
        let start = self.at;
        self.at += len;
        Token { kind, text: self.slice(start, self.at), start }
    }

    /// Skips a run of white space or a comment, each of which is a token in Cassandra; returns whether one was there.
    pub(crate) fn skip_blank(&mut self) -> Result<bool, Failure> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += match rest {
            [b' ' | b'\t' | b'\n' | b'\r', ..] => {
                let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
                rest.iter().position(|byte| !blank(byte)).unwrap_or(rest.len())
            }
            [b'-', b'-', ..] | [b'/', b'/', ..] => {
                // A line comment must end with a line break, not with the text.
                let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                    return Err(self.mismatched_character(self.text.len(), "set null"));
                };
                end + 1
            }
            [b'/', b'*', ..] => {
                let Some(end) = rest[2..].windows(2).position(|pair| pair == b"*/") else {
                    return Err(self.unfinished("*"));
                };
                end + 4
            }
            _ => return Ok(false),
        };
        Ok(true)
    }

    /// Reads a name or string, up to a quote that is not doubled.
    fn quoted(&mut self, quote: u8, kind: TokenKind) -> Result<Token<'a>, Failure> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            let Some(len) = bytes[at..].iter().position(|b| *b == quote) else {
                return Err(self.unfinished(if quote == b'"' { "\"" } else { "'" }));
            };
            at += len + 1;
            if bytes.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        }
        self.at = at;
        let text = self.slice(start + 1, at - 1);
        if kind == TokenKind::QuotedName && text.is_empty() {
            return Ok(Token { kind: TokenKind::EmptyName, text: self.slice(start, at), start });
        }
        Ok(Token { kind, text, start })
    }

    fn dollars(&mut self) -> Result<Token<'a>, Failure> {
        let start = self.at;
        let Some(len) = self.text[start + 2..].find("$$") else {
            return Err(self.unfinished("$"));
        };
        self.at = start + len + 4;
        Ok(Token { kind: TokenKind::DollarString, text: self.slice(start + 2, start + 2 + len), start })
    }

    /// Reads an integer, float, blob or duration.
    fn number(&mut self) -> Result<Token<'a>, Failure> {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if rest[0] == b'0' && rest.get(1).is_some_and(|b| b | 32 == b'x') {
            let len = rest[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
            return Ok(self.take(TokenKind::Hex, 2 + len));
        }
        let minus = (rest[0] == b'-') as usize;
        let mut len = minus + digits(minus);
        let mut kind = TokenKind::Integer;
        if rest[len..].starts_with(b"...") {
            // A float without digits after its point (`1.`), or the start of a range (`1..2`).
            return Ok(self.take(TokenKind::Float, len + 1));
        }
        if rest.get(len) == Some(&b'.') && rest.get(len + 1) != Some(&b'.') {
            kind = TokenKind::Float;
            len += 1;
            len += digits(len);
        }
        if rest.get(len).is_some_and(|b| b | 32 == b'e') {
            let sign = rest.get(len + 1).is_some_and(|b| matches!(b, b'+' | b'-')) as usize;
            let exponent = digits((len + 1 + sign).min(rest.len()));
            if exponent == 0 {
                let at = (start + len + 1 + sign).min(self.text.len());
                let unsigned_integer = minus + sign == 0 && kind == TokenKind::Integer;
                return Err(match unsigned_integer {
                    true => self.bad_character(at),
                    false => self.error_at(at, "required (...)+ loop did not match anything at character", ""),
                });
            }
            kind = TokenKind::Float;
            len += 1 + sign + exponent;
        }
        if kind == TokenKind::Integer {
            while let Some(unit) = duration_unit_len(&rest[len..]) {
                kind = TokenKind::Duration;
                len += unit;
                let more = digits(len);
                if more > 0 && duration_unit_len(&rest[len + more..]).is_none() {
                    len += more;
                    return Err(match half_duration_unit_len(&rest[len..]) {
                        Some(half) => self.mismatched_character(start + len + half, "set null"),
                        None => self.bad_character(start + len),
                    });
                }
                len += more;
            }
            if kind == TokenKind::Integer
                && let Some(half) = half_duration_unit_len(&rest[len..])
            {
                return Err(self.mismatched_character(start + len + half, "set null"));
            }
        }
        Ok(self.take(kind, len))
    }

    /// Reads `-NaN` or `-Infinity`: a sign before these first letters can mean nothing else.
    fn negative_word(&mut self, word: &str) -> Result<Token<'a>, Failure> {
        let letters = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let same = word.bytes().zip(letters).take_while(|(wanted, given)| *wanted == **given | 32).count();
        if same < word.len() {
            return Err(self.mismatched_character(self.at + 1 + same, "set null"));
        }
        Ok(self.take(TokenKind::Float, 1 + word.len()))
    }

    fn mismatched_character(&self, at: usize, expected: &str) -> Failure {
        self.error_at(at, "mismatched character", &format!(" expecting {expected}"))
    }

    fn bad_character(&self, at: usize) -> Failure {
        self.error_at(at, "no viable alternative at character", "")
    }

    fn error_at(&self, at: usize, what: &str, tail: &str) -> Failure {
        let found = match self.text.get(at..).and_then(|rest| rest.chars().next()) {
            Some('\n') => "\\n".to_owned(),
            Some('\t') => "\\t".to_owned(),
            Some('\r') => "\\r".to_owned(),
            Some(other) => other.to_string(),
            None => "<EOF>".to_owned(),
        };
        syntax(format!("{} {what} '{found}'{tail}", self.position(at)))
    }

    fn unfinished(&self, expected: &str) -> Failure {
        self.mismatched_character(self.text.len(), &format!("'{expected}'"))
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Length of a uuid, 8-4-4-4-12.
const UUID_LEN: usize = 36;

/// The length of the longest beginning of the bytes with which a uuid may begin.
fn uuid_prefix_len(bytes: &[u8]) -> usize {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.iter().take(UUID_LEN).enumerate().take_while(|byte| fits(*byte)).count()
}

/// The length of the longest beginning of the bytes, up to that of a uuid, with which an unsigned number or duration
/// may begin.
fn number_prefix_len(bytes: &[u8]) -> usize {
    let bytes = &bytes[..bytes.len().min(UUID_LEN)];
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut len = digits(0);
    if bytes.get(len).is_some_and(|byte| byte | 32 == b'e') {
        len += 1;
        len += bytes.get(len).is_some_and(|byte| matches!(byte, b'+' | b'-')) as usize;
        return len + digits(len);
    }
    while let Some(unit) = duration_unit_len(&bytes[len..]) {
        len += unit;
        len += digits(len);
    }
    len
}

/// The length of a duration's unit, if the bytes start with one and the word ends there.
fn duration_unit_len(bytes: &[u8]) -> Option<usize> {
    let lower = |at: usize| bytes.get(at).map_or(0, |b| b.to_ascii_lowercase());
    match (lower(0), lower(1)) {
        (b'm', b'o') | (b'm', b's') | (b'u', b's') | (b'n', b's') => Some(2),
        (b'y' | b'w' | b'd' | b'h' | b'm' | b's', _) => Some(1),
        // The micro sign, U+00B5.
        (0xc2, 0xb5) if lower(2) == b's' => Some(3),
        _ => None,
    }
}

/// The length of an ISO 8601 duration, which begins with `P`, if the bytes start with one and the word ends there:
/// `P3W`, `P1Y2M3DT4H5M6S` without any of its parts, or `P0001-02-03T04:05:06`.
fn iso_duration_len(bytes: &[u8]) -> Option<usize> {
    if date_duration_prefix_len(bytes) == DATE_DURATION.len() {
        return Some(DATE_DURATION.len());
    }
    let word = bytes.iter().position(|b| !is_word_byte(*b)).unwrap_or(bytes.len());
    let mut rest = &bytes[1..word];
    let mut designators: &[u8] = b"YMDTHMS";
    let mut fields = 0;
    while let [first, tail @ ..] = rest {
        if *first == b'T' && designators.len() >= 4 && !tail.is_empty() {
            designators = b"HMS";
            rest = tail;
            continue;
        }
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let designator = rest.get(digits).filter(|_| digits > 0)?;
        if *designator == b'W' && fields == 0 && digits + 1 == rest.len() && designators.len() == 7 {
            return Some(word);
        }
        // Those of the date stand before the `T`.
        let end = designators.iter().position(|b| *b == b'T').unwrap_or(designators.len());
        let at = designators[..end].iter().position(|b| b == designator)?;
        designators = &designators[at + 1..];
        fields += 1;
        rest = &rest[digits + 1..];
    }
    (fields > 0).then_some(word)
}

/// The length of the first letter of `ns`, `us` or `µs`, if the bytes start with one: they may follow a number.
fn half_duration_unit_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'n' | b'N' | b'u' | b'U', ..] => Some(1),
        [0xc2, 0xb5, ..] => Some(2),
        _ => None,
    }
}

/// The form of a duration that is written like a date; `9` stands for a digit.
const DATE_DURATION: &[u8; 20] = b"P9999-99-99T99:99:99";

/// The length of the longest beginning of the bytes with which a duration in the form of a date may begin.
fn date_duration_prefix_len(bytes: &[u8]) -> usize {
    let fits = |(byte, form): &(&u8, &u8)| if **form == b'9' { byte.is_ascii_digit() } else { byte == form };
    bytes.iter().zip(DATE_DURATION).take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next().unwrap();
            if token.kind == TokenKind::End {
                return tokens;
            }
            tokens.push((token.kind, token.text));
        }
    }

    fn error(text: &str) -> String {
        let mut lexer = Lexer::new(text);
        loop {
            match lexer.next() {
                Ok(token) if token.kind == TokenKind::End => panic!("{text} is fine"),
                Ok(_) => {}
                Err(failure) => return failure.text.into_owned(),
            }
        }
    }

    #[test]
    fn constants() {
        use TokenKind::*;
        assert_eq!(
            kinds("-5 1.5 1. 1e5 -1.E-5"),
            [(Integer, "-5"), (Float, "1.5"), (Float, "1."), (Float, "1e5"), (Float, "-1.E-5")]
        );
        assert_eq!(kinds("1..2"), [(Integer, "1"), (DotDot, ".."), (Integer, "2")]);
        assert_eq!(kinds("-1...2."), [(Float, "-1."), (DotDot, ".."), (Float, "2.")]);
        assert_eq!(kinds("0xCafe 0x"), [(Hex, "0xCafe"), (Hex, "0x")]);
        assert_eq!(kinds("'it''s' $$it's$$"), [(String, "it''s"), (DollarString, "it's")]);
        assert_eq!(kinds("123e4567-e89b-12d3-a456-426614174000"), [(Uuid, "123e4567-e89b-12d3-a456-426614174000")]);
        assert_eq!(kinds("abcdefab-e89b-12d3-a456-426614174000"), [(Uuid, "abcdefab-e89b-12d3-a456-426614174000")]);
    }

    #[test]
    fn durations() {
        for text in [
            "1h30m",
            "-1h30m",
            "1Y2MO",
            "1µs",
            "1ms2us3ns",
            "PT1H30M",
            "P1Y2M3DT4H5M6S",
            "P3W",
            "-P3W",
            "P0001-02-03T04:05:06",
        ] {
            assert_eq!(kinds(text), [(TokenKind::Duration, text)], "{text}");
        }
        for text in
            ["p", "P", "pk", "PT", "price", "p1", "p1d", "P2Y3W", "P1y2D", "P3W2D", "P1D2Y", "P1YT", "PT1D", "PT1S2M"]
        {
            assert_eq!(kinds(text), [(TokenKind::Word, text)], "{text}");
        }
    }

    #[test]
    fn blanks_and_comments() {
        assert_eq!(
            kinds(" a -- b\n c // d\r e /* f\n*/ g /**/ -- h\n"),
            [(TokenKind::Word, "a"), (TokenKind::Word, "c"), (TokenKind::Word, "e"), (TokenKind::Word, "g")]
        );
    }

    #[test]
    fn errors_have_a_place() {
        assert_eq!(error("a\n  #"), "line 2:2 no viable alternative at character '#'");
        assert_eq!(error("'é' §"), "line 1:4 no viable alternative at character '§'");
        assert_eq!(error("pk='abc"), "line 1:7 mismatched character '<EOF>' expecting '''");
        assert_eq!(error("1e"), "line 1:2 no viable alternative at character '<EOF>'");
        assert_eq!(error("1h30)"), "line 1:4 no viable alternative at character ')'");
        assert_eq!(error("a /* b"), "line 1:6 mismatched character '<EOF>' expecting '*'");
    }
}
