//! Files of Java properties.

/// The properties of a file in its order. As in Java's `Properties.load`: a line is a key, then `=`, `:` or white
/// space, then a value; `#` and `!` begin comments; `\` at the end of a line joins it with the next, and elsewhere
/// escapes a character, `\u` and four digits among them.
pub fn parse(text: &str) -> Vec<(String, String)> {
    logical_lines(text).iter().map(|line| split(line)).collect()
}

/// Lines without comments and blanks, joined where one goes on in the next.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut joined: Option<String> = None;
    for line in text.split(['\n', '\r']) {
        let line = line.trim_start_matches([' ', '\t', '\u{c}']);
        if joined.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let mut all = joined.take().unwrap_or_default();
        all.push_str(line);
        let escapes = all.len() - all.trim_end_matches('\\').len();
        if escapes % 2 == 1 {
            all.pop();
            joined = Some(all);
        } else {
            lines.push(all);
        }
    }
    lines.extend(joined);
    lines
}

fn split(line: &str) -> (String, String) {
    let mut is_escaped = false;
    let is_end = |c: char| {
        let ends = !is_escaped && (matches!(c, '=' | ':') || is_blank(c));
        is_escaped = !is_escaped && c == '\\';
        ends
    };
    let (key, rest) = line.split_at(line.find(is_end).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(is_blank);
    (unescape(key), unescape(rest))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_java_reads_them() {
        for (text, expected) in [
            ("dc=DC1\nrack=R1", &[("dc", "DC1"), ("rack", "R1")][..]),
            ("# a\n  ! b\n\n \t\ndc = DC1 \r\nrack:R1", &[("dc", "DC1 "), ("rack", "R1")]),
            ("dc DC1\n#c\\\nrack\tR 1", &[("dc", "DC1"), ("rack", "R 1")]),
            ("dc=a\\\n   #b\\\n", &[("dc", "a#b")]),
            ("fe80\\:\\:1=a:b", &[("fe80::1", "a:b")]),
            ("a\\=b=c\\\\\nd\\u0041=\\u00zz", &[("a=b", "c\\"), ("dA", "\u{fffd}")]),
            ("key", &[("key", "")]),
            ("=x", &[("", "x")]),
            ("k==x", &[("k", "=x")]),
            ("k\\", &[("k", "")]),
        ] {
            let expected: Vec<(String, String)> = expected.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
