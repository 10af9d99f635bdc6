//! The excerpt of the statement that ends a syntax error: `(...from t where [pk] not...)`.
//!
//! 1. It reaches from ten tokens before the marked one to two after it, but not beyond the furthest token that
//!    Cassandra's parser has looked at. White space and comments count as tokens.
//! 2. Line breaks are left out, as if the lines of the excerpt were one.
//! 3. `...` stands for what is cut off at either end.
//!
//! Positions are in UTF-16 units. A token ends where its content would end had it no quotes, because Cassandra computes
//! it so: of `'foo'` the excerpt shows `['fo]`.

use crate::lexer::{Lexer, TokenKind};
use std::collections::VecDeque;

/// Tokens shown before the marked one.
const BEFORE_MAX: usize = 10;
/// Tokens shown after the marked one.
const AFTER_MAX: usize = 2;

/// A token or blank with its place.
#[derive(Clone, Copy)]
struct Piece {
    /// Offset in bytes of its first character.
    start: usize,
    /// Number of UTF-16 units of its content.
    len: usize,
    /// Whether this is the end of the statement, which has no place in Cassandra.
    end: bool,
}

/// The excerpt around the token at the offset `marked`, with a space before it. It is empty if it would contain the end
/// of the statement. `furthest` is the offset of the last token that may be shown.
pub(super) fn excerpt(statement: &str, marked: usize, furthest: usize) -> String {
    let (before, after) = pieces(statement, marked, furthest);
    let (Some(first), Some(marked), Some(last)) = (before.front(), before.back(), after.last().or(before.back()))
    else {
        return String::new();
    };
    if marked.end || last.end {
        return String::new();
    }
    let lines = Lines::new(statement);
    let (first_line, first_column) = lines.place(first.start);
    let (marked_line, marked_column) = lines.place(marked.start);
    let (last_line, last_column) = lines.place(last.start);
    let last_column = last_column + last.len;
    let mut shown = String::from(" (");
    if (first_line, first_column) != (0, 0) {
        shown.push_str("...");
    }
    for at in first_line..=last_line {
        let mut line: Vec<u16> = lines.line(at).encode_utf16().collect();
        if at == last_line {
            line.truncate(last_column);
        }
        if at == marked_line {
            line.insert((marked_column + marked.len).min(line.len()), u16::from(b']'));
            line.insert(marked_column.min(line.len()), u16::from(b'['));
        }
        let start = if at == first_line { first_column.min(line.len()) } else { 0 };
        shown.push_str(&String::from_utf16_lossy(&line[start..]));
    }
    if !lines.is_end(last_line, last_column) {
        shown.push_str("...");
    }
    shown.push(')');
    shown
}

/// The pieces from ten before the marked one up to it, and up to two that follow it.
fn pieces(statement: &str, marked: usize, furthest: usize) -> (VecDeque<Piece>, Vec<Piece>) {
    let mut lexer = Lexer::new(statement);
    let (mut before, mut after) = (VecDeque::new(), Vec::new());
    while after.len() < AFTER_MAX {
        let start = lexer.offset();
        let piece = match lexer.skip_blank() {
            Ok(true) => {
                let len = lexer.slice(start, lexer.offset()).encode_utf16().count();
                Piece { start, len, end: false }
            }
            Ok(false) => match lexer.next() {
                Ok(token) => {
                    Piece { start, len: token.content().encode_utf16().count(), end: token.kind == TokenKind::End }
                }
                Err(_) => break,
            },
            Err(_) => break,
        };
        if start > furthest {
            break;
        }
        if start > marked {
            after.push(piece);
        } else {
            if before.len() > BEFORE_MAX {
                before.pop_front();
            }
            before.push_back(piece);
        }
        if piece.end {
            break;
        }
    }
    (before, after)
}

/// A statement's lines, of which Cassandra drops empty ones at the end.
struct Lines<'a> {
    statement: &'a str,
}

impl<'a> Lines<'a> {
    fn new(statement: &'a str) -> Lines<'a> {
        Lines { statement }
    }

    /// The number of the line that holds an offset, from 0, and the column in UTF-16 units.
    fn place(&self, offset: usize) -> (usize, usize) {
        let before = self.statement.get(..offset).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count();
        (line, before.rsplit('\n').next().unwrap_or_default().encode_utf16().count())
    }

    fn line(&self, number: usize) -> &'a str {
        self.statement.split('\n').nth(number).unwrap_or_default()
    }

    /// Whether a column is the end of the statement's last line.
    fn is_end(&self, line: usize, column: usize) -> bool {
        let mut whole = self.statement.trim_end_matches('\n').rsplit('\n');
        let last = whole.next().unwrap_or_default();
        line == whole.count() && column == last.encode_utf16().count()
    }
}
