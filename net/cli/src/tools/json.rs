//! JSON in the layout of Cassandra's tools: that of Jackson's pretty printer, with two switches that keep the members
//! of objects or the elements of arrays on one line.

use std::io::{self, Write};

const INDENT: &str = "  ";

/// The whitespace between values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// Values are indented on lines of their own.
    Pretty,
    /// There is none, except that each value of the top level is on a line of its own.
    Lines,
}

/// Writes JSON value by value.
pub(crate) struct JsonWriter<'o> {
    out: &'o mut dyn Write,
    layout: Layout,
    /// Whether the members of objects stay on one line.
    pub(crate) compact_objects: bool,
    /// Whether the elements of arrays stay on one line.
    pub(crate) compact_arrays: bool,
    /// For every open array or object: whether it is an array, and how many elements or members it has so far.
    open: Vec<(bool, usize)>,
    after_name: bool,
    values: usize,
}

impl<'o> JsonWriter<'o> {
    pub(crate) fn new(out: &'o mut dyn Write, layout: Layout) -> JsonWriter<'o> {
        let open = Vec::new();
        JsonWriter { out, layout, compact_objects: false, compact_arrays: false, open, after_name: false, values: 0 }
    }

    fn indent(&mut self, array: bool, level: usize) -> io::Result<()> {
        let compact = if array { self.compact_arrays } else { self.compact_objects };
        match self.layout {
            Layout::Lines => Ok(()),
            Layout::Pretty if compact => self.out.write_all(b" "),
            Layout::Pretty => {
                self.out.write_all(b"\n")?;
                (0..level).try_for_each(|_| self.out.write_all(INDENT.as_bytes()))
            }
        }
    }

    /// Writes what separates the next member or element from the previous one.
    fn separate(&mut self, array: bool) -> io::Result<()> {
        let level = self.open.len();
        if let Some((_, count)) = self.open.last_mut() {
            *count += 1;
            if *count > 1 {
                self.out.write_all(b",")?;
            }
            return self.indent(array, level);
        }
        self.values += 1;
        if self.values > 1 { self.out.write_all(b"\n") } else { Ok(()) }
    }

    fn before_value(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.after_name) { Ok(()) } else { self.separate(true) }
    }

    pub(crate) fn start_object(&mut self) -> io::Result<()> {
        self.before_value()?;
        self.open.push((false, 0));
        self.out.write_all(b"{")
    }

    pub(crate) fn start_array(&mut self) -> io::Result<()> {
        self.before_value()?;
        self.open.push((true, 0));
        self.out.write_all(b"[")
    }

    /// Ends the innermost array or object.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let Some((array, count)) = self.open.pop() else { return Ok(()) };
        match self.layout {
            _ if count > 0 => self.indent(array, self.open.len())?,
            Layout::Pretty => self.out.write_all(b" ")?,
            Layout::Lines => {}
        }
        self.out.write_all(if array { b"]" } else { b"}" })
    }

    pub(crate) fn name(&mut self, name: &str) -> io::Result<()> {
        self.separate(false)?;
        self.string_bytes(name)?;
        self.after_name = true;
        self.out.write_all(if self.layout == Layout::Pretty { b" : " } else { b":" })
    }

    pub(crate) fn string(&mut self, text: &str) -> io::Result<()> {
        self.before_value()?;
        self.string_bytes(text)
    }

    /// Writes a value that is JSON already: a number, or the output of [`model::json::push_json`].
    pub(crate) fn raw(&mut self, json: &str) -> io::Result<()> {
        self.before_value()?;
        self.out.write_all(json.as_bytes())
    }

    fn string_bytes(&mut self, text: &str) -> io::Result<()> {
        let mut quoted = String::with_capacity(text.len() + 2);
        model::json::push_string(text, &mut quoted);
        self.out.write_all(quoted.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(layout: Layout, write: impl FnOnce(&mut JsonWriter<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut JsonWriter::new(&mut out, layout)).expect("written");
        String::from_utf8(out).expect("text")
    }

    fn sample(json: &mut JsonWriter<'_>) -> io::Result<()> {
        json.start_array()?;
        json.start_object()?;
        json.name("a")?;
        json.compact_arrays = true;
        json.start_array()?;
        json.string("x")?;
        json.raw("1")?;
        json.end()?;
        json.compact_arrays = false;
        json.name("b")?;
        json.start_array()?;
        json.end()?;
        json.end()?;
        json.end()
    }

    #[test]
    fn layouts_are_jackson_s() {
        assert_eq!(written(Layout::Pretty, sample), "[\n  {\n    \"a\" : [ \"x\", 1 ],\n    \"b\" : [ ]\n  }\n]");
        assert_eq!(written(Layout::Lines, sample), "[{\"a\":[\"x\",1],\"b\":[]}]");
        let two = |json: &mut JsonWriter<'_>| json.raw("1").and_then(|()| json.raw("2"));
        assert_eq!(written(Layout::Lines, two), "1\n2");
    }
}
