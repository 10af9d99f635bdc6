//! TOC.txt: the names of an SSTable's components, sorted, one per line.

use crate::descriptor::{Component, Descriptor};
use crate::error::{Error, Fault, Problem};

/// Most lines of a TOC.txt.
pub const TOC_LINES_MAX: usize = 1000;

impl Descriptor {
    /// Returns the names listed in a TOC.txt, including those of components that are not known here.
    ///
    /// # Errors
    /// The bytes are not UTF-8, or have more than [`TOC_LINES_MAX`] lines.
    pub fn parse_toc(&self, bytes: &[u8]) -> Result<Vec<String>, Error> {
        let fault = |offset, problem| Fault { offset, problem }.in_file(self, Component::Toc);
        let text = std::str::from_utf8(bytes)
            .map_err(|error| fault(error.valid_up_to() as u64, Problem::Invalid("a text")))?;
        let names: Vec<String> =
            text.lines().filter(|line| !line.is_empty()).take(TOC_LINES_MAX + 1).map(str::to_owned).collect();
        if names.len() > TOC_LINES_MAX {
            return Err(fault(0, Problem::Limit("TOC_LINES_MAX")));
        }
        Ok(names)
    }
}

/// Returns the bytes of a TOC.txt that lists `components`.
pub fn write_toc(components: &[Component]) -> Vec<u8> {
    let mut names: Vec<&str> = components.iter().map(|component| component.name()).collect();
    names.sort_unstable();
    names.iter().flat_map(|name| [name, "\n"]).flat_map(str::bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    #[test]
    fn the_table_of_contents_is_bounded() {
        let descriptor = Descriptor { version: Version::Da, id: "1".into() };
        let toc = "x\n".repeat(TOC_LINES_MAX);
        assert_eq!(descriptor.parse_toc(toc.as_bytes()).unwrap().len(), TOC_LINES_MAX);
        assert!(descriptor.parse_toc(format!("{toc}x").as_bytes()).is_err());
        assert!(descriptor.parse_toc(&[0xff]).is_err());
        assert_eq!(write_toc(&[Component::Toc, Component::Data]), b"Data.db\nTOC.txt\n");
    }
}
