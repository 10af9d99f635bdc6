//! Texts of several statements, such as the `schema.cql` of a snapshot.

use crate::errors::shortened;
use crate::lexer::{Lexer, TokenKind};
use model::Failure;

/// The statements of a script, each without its semicolon. Those in which nothing stands are left out.
///
/// # Errors
/// A text or comment in it does not end.
pub fn statements_of(script: &str) -> Result<Vec<&str>, Failure> {
    let (mut lexer, mut found) = (Lexer::new(script), Vec::new());
    // Where the statement begins with its first token.
    let mut begin = None;
    loop {
        let token = lexer.next().map_err(shortened)?;
        match token.kind {
            TokenKind::Semicolon | TokenKind::End => {
                found.extend(begin.take().map(|begin| script[begin..token.start].trim_end()));
                if token.kind == TokenKind::End {
                    return Ok(found);
                }
            }
            _ => _ = begin.get_or_insert(token.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_texts_and_comments_do_not_count() {
        let script =
            "-- first;\nCREATE TABLE a (b int) WITH comment = 'x;\ny;';\n;/* ; */ ALTER TABLE \"a;\" DROP c;\n b";
        let expected = ["CREATE TABLE a (b int) WITH comment = 'x;\ny;'", "ALTER TABLE \"a;\" DROP c", "b"];
        assert_eq!(statements_of(script).expect("a script"), expected);
        assert_eq!(statements_of(" ; ;").expect("a script"), [""; 0]);
        assert!(statements_of("CREATE 'x;").is_err());
    }
}
