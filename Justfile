# `just verify` is the gate of a change; it never edits. `just fix` does.

# The whole gate: tests, formatting, lints, licences, docs.
verify: test
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo deny check bans licenses sources
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# The tests, as CI runs them.
test:
    bash .ci/run

# Formats and applies what clippy can mend.
fix:
    cargo fmt --all
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged

# The simulator: 1,000 seeds from FIRST, or one SEED with `just sim-seed SEED`.
sim first="0" count="1000":
    cargo run --release --quiet -p sim -- --first {{first}} --count {{count}}

# Replays one seed and prints its trace hash.
sim-seed seed:
    cargo run --release --quiet -p sim -- --first {{seed}} --count 1 --verbose

# The text cases against real Cassandra; CASSANDRA names a script with the verbs start and stop.
oracle:
    HELENUS_ORACLE=1 cargo test -p server --test cql -- --nocapture

# Fuzzes one target for a minute (needs cargo-fuzz and a nightly toolchain): `just fuzz net/wire frame`.
fuzz crate target seconds="60":
    cd {{crate}} && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}
