//! Texts of statements without the passwords in them.
//!
//! [`without_passwords`] is for texts that nobody has parsed; it looks for one word and cuts what follows. Logs that
//! show whole statements use [`with_masked_passwords`], which parses a text that has this word.
//!
//! Invariants: neither shows a password, or the hash of one, of a statement about roles, whatever the text is.

use crate::ast::{AccessStatement, Body};
use crate::lexer::{Lexer, Token, TokenKind};
use std::borrow::Cow;
use std::ops::Range;

/// The word after which a password may stand.
const WORD: &str = "password";
/// What stands for everything after it, as in Cassandra.
const OBFUSCATED: &str = " *******";
/// What stands for a password between its quotes, as in Cassandra.
const MASK: &str = "*******";

/// Where the first `password` in a text ends, in any case of its letters.
fn end_of_word(text: &str) -> Option<usize> {
    let found = text.as_bytes().windows(WORD.len()).position(|word| word.eq_ignore_ascii_case(WORD.as_bytes()));
    found.map(|at| at + WORD.len())
}

/// The text of a statement for logs, traces and tables: it ends after the first `password` in it, whatever follows.
/// Text without that word comes back as it is.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    match end_of_word(text) {
        None => Cow::Borrowed(text),
        Some(end) => Cow::Owned(format!("{}{OBFUSCATED}", &text[..end])),
    }
}

/// The text of a statement with a mask in place of each password in it. Only statements about roles have passwords: any
/// other comes back as it is, also one with a column of this name. What cannot be parsed may have one anywhere, so it
/// is cut as [`without_passwords`] does.
pub fn with_masked_passwords(text: &str) -> Cow<'_, str> {
    if end_of_word(text).is_none() {
        return Cow::Borrowed(text);
    }
    let Ok(statement) = crate::parse(text) else { return without_passwords(text) };
    let has_options = match &statement.body {
        Body::Access(access) => {
            matches!(**access, AccessStatement::CreateRole { .. } | AccessStatement::AlterRole { .. })
        }
        _ => false,
    };
    if !has_options {
        return Cow::Borrowed(text);
    }
    let (mut masked, mut copied) = (String::with_capacity(text.len()), 0);
    for range in passwords(text) {
        masked.push_str(&text[copied..range.start]);
        masked.push_str(MASK);
        copied = range.end;
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// Where passwords stand in a statement about roles, without their quotes: the strings after the word, with an equals
/// sign or, in a map of options, a colon between.
fn passwords(text: &str) -> Vec<Range<usize>> {
    let (mut lexer, mut found, mut follows) = (Lexer::new(text), Vec::new(), false);
    while let Ok(token) = lexer.next() {
        let Token { kind, text: content, start } = token;
        follows = match kind {
            TokenKind::End => break,
            TokenKind::String | TokenKind::DollarString if follows => {
                let opening = if kind == TokenKind::String { "'" } else { "$$" };
                let from = start + opening.len();
                found.push(from..from + content.len());
                false
            }
            TokenKind::Word | TokenKind::String | TokenKind::QuotedName => content.eq_ignore_ascii_case(WORD),
            TokenKind::Equal | TokenKind::Colon => follows,
            _ => false,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_word_is_not_shown() {
        for (text, shown) in [
            ("SELECT * FROM t", "SELECT * FROM t"),
            ("CREATE ROLE a WITH PASSWORD = 'p' AND LOGIN = true", "CREATE ROLE a WITH PASSWORD *******"),
            ("alter user é with pAssWord 'p'", "alter user é with pAssWord *******"),
            ("CREATE ROLE a WITH HASHED PASSWORD='x' AND PASSWORD='y'", "CREATE ROLE a WITH HASHED PASSWORD *******"),
            ("password", "password *******"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
    }

    /// As Cassandra's audit log has them, but for the password with a quote, which it shows.
    #[test]
    fn passwords_alone_are_masked_in_statements_about_roles() {
        let hash = "$2a$10$PfAaXG0jCO0zMcV8kV3sC.1K0bNNmFFh9Zv5yLZ4hzMMfvBYSxO6S";
        let hashed = format!("CREATE ROLE a WITH HASHED PASSWORD='{hash}' AND LOGIN=true");
        for (text, shown) in [
            (
                "CREATE ROLE a WITH PASSWORD = 'p' AND LOGIN = true",
                "CREATE ROLE a WITH PASSWORD = '*******' AND LOGIN = true",
            ),
            ("alter role \"é\" with pAssWord='p';", "alter role \"é\" with pAssWord='*******';"),
            (&hashed, "CREATE ROLE a WITH HASHED PASSWORD='*******' AND LOGIN=true"),
            ("ALTER ROLE a WITH PASSWORD=$$a'b$$", "ALTER ROLE a WITH PASSWORD=$$*******$$"),
            ("ALTER ROLE a WITH PASSWORD='it''s one'", "ALTER ROLE a WITH PASSWORD='*******'"),
            (
                "ALTER ROLE a WITH PASSWORD /* 'c' */ = -- 'd'\n 'p'",
                "ALTER ROLE a WITH PASSWORD /* 'c' */ = -- 'd'\n '*******'",
            ),
            ("CREATE ROLE password WITH PASSWORD='password'", "CREATE ROLE password WITH PASSWORD='*******'"),
            ("CREATE ROLE 'password' WITH LOGIN=true", "CREATE ROLE 'password' WITH LOGIN=true"),
            ("CREATE ROLE a WITH OPTIONS={'password' : 'p'}", "CREATE ROLE a WITH OPTIONS={'password' : '*******'}"),
            ("SELECT * FROM t WHERE password = 'x'", "SELECT * FROM t WHERE password = 'x'"),
            ("INSERT INTO t (password) VALUES ('x')", "INSERT INTO t (password) VALUES ('x')"),
            ("CREATE ROLE a WITH PASSWORD = 'p' AND", "CREATE ROLE a WITH PASSWORD *******"),
            ("CREATE ROLE a WITH PASSWORD = 'p", "CREATE ROLE a WITH PASSWORD *******"),
        ] {
            assert_eq!(with_masked_passwords(text), shown, "{text}");
        }
    }
}
