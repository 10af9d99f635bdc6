//! The drivers `scylla` and `cdrs-tokio` against a CQL server, as applications use them. Prints one line per check;
//! panics at the first that fails.
//!
//! ```text
//! program HOST[,HOST...] PORT VARIANT... [--only=NAMES] [--restarts] [--ca=FILE [--names]] [--login=USER:PASSWORD]
//! ```
//! 1. A variant is a driver, a version of the protocol and a compression, like `scylla-v4-lz4` or `cdrs-v5-none`. Each
//!    has a session that its checks share, and keyspaces of its own, dropped first and last.
//! 2. With `--restarts` the program prints `restart` and reads a line when the server is to be restarted by whoever
//!    runs it.
//! 3. With `--ca` the connections are encrypted by TLS 1.3, and the nodes show certificates for `localhost` that FILE
//!    has signed. `other.pem` beside FILE is an authority that has signed none of them. With `--names` the
//!    certificates are for the nodes' addresses too, and `scylla` insists on that.
//! 4. With `--login` the server refuses everybody else.

/// Runs those of a world's checks that were asked for, in their order.
macro_rules! checks {
    ($world:expr, $options:expr, $variant:expr, [$($name:ident),* $(,)?]) => {$(
        if $options.wants(stringify!($name)) {
            let began = tokio::time::Instant::now();
            $world.$name().await;
            println!("rust {} {}: ok, {} ms", $variant, stringify!($name), began.elapsed().as_millis());
        }
    )*};
}

mod cdrs_driver;
mod noise;
mod options;
mod patience;
mod scylla_driver;
mod trust;

use options::Options;

#[tokio::main]
async fn main() {
    let options = Options::read(std::env::args().skip(1));
    for variant in &options.variants {
        match variant.driver.as_str() {
            "scylla" => scylla_driver::walk(&options, variant).await,
            "cdrs" => cdrs_driver::walk(&options, variant).await,
            other => panic!("no driver {other}"),
        }
    }
}
