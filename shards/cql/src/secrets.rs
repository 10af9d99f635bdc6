//! Texts of statements without the passwords in them.

use std::borrow::Cow;

/// The word after which a password may stand.
const WORD: &[u8] = b"password";
/// What stands for everything after it, as in Cassandra.
const OBFUSCATED: &str = " *******";

/// The text of a statement for logs, traces and tables: it ends after the first `password` in it, whatever follows.
/// Text without that word comes back as it is.
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let found = text.as_bytes().windows(WORD.len()).position(|word| word.eq_ignore_ascii_case(WORD));
    match found {
        None => Cow::Borrowed(text),
        Some(at) => Cow::Owned(format!("{}{OBFUSCATED}", &text[..at + WORD.len()])),
    }
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
}
