//! TLS of the generator's connections: `--ssl` and the files that go with it.

use std::path::{Path, PathBuf};
use tls::{ClientContext, Credentials};

/// How connections are encrypted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ssl {
    /// PEM with the certificates that are trusted; without it every server is.
    pub trust: Option<PathBuf>,
    /// PEM with the certificate to show.
    pub certificate: Option<PathBuf>,
    /// PEM with its key, if that is another file.
    pub key: Option<PathBuf>,
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    runtime::blocking::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl Ssl {
    /// Reads the files. The error names the one that cannot be used.
    pub fn context(&self) -> Result<ClientContext, String> {
        let trusted = match &self.trust {
            None => None,
            Some(path) => {
                let trusted = tls::certificates_of_pem(&read(path)?);
                Some(trusted.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        let own = match &self.certificate {
            None => None,
            Some(path) => {
                let mut text = read(path)?;
                if let Some(key) = &self.key {
                    text.extend_from_slice(&read(key)?);
                }
                let own = Credentials::of_pem(&text, None);
                Some(own.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        ClientContext::trusting(own, trusted).map_err(|error| error.to_string())
    }
}
