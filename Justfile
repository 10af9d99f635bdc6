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

# Clusters in the simulator: COUNT seeds from FIRST.
sim-clusters first="0" count="1000":
    cargo run --release --quiet -p sim -- --clusters --first {{first}} --count {{count}}

# Clusters in the simulator whose nodes join, leave and are replaced under load: COUNT seeds from FIRST.
sim-elastic first="0" count="100":
    cargo run --release --quiet -p sim -- --elastic --first {{first}} --count {{count}}

# Crashes each node at every EVERY-th message of a join, a decommission, a replacement and a change of replication.
elastic-sweep every="1" seed="0":
    cargo build --release --quiet -p sim
    bash net/sim/elastic-sweep "${CARGO_TARGET_DIR:-target}/release/sim" {{every}} {{seed}}

# Starts N nodes on 127.0.0.1 to 127.0.0.N to play with; Ctrl-C stops them in order.
cluster n="3":
    cargo build --release --bin helenus
    bash net/cli/cluster "${CARGO_TARGET_DIR:-target}/release/helenus" {{n}} "${CARGO_TARGET_DIR:-target}/cluster"

# The tests that the Python driver, the Java driver and cqlsh make. Fetches them, and installs Python or a JDK, when missing.
drivers:
    bash net/server/tests/drivers/prepare "${CARGO_TARGET_DIR:-target}/tmp/drivers"
    cargo test --test binary -- --ignored drivers::

# The tests that count instructions and allocations per request. Need valgrind.
counts:
    cargo test --test counts -- --ignored

# The text cases on a real Cassandra, which the script CASSANDRA starts and stops. HELENUS_ORACLE=record rewrites the answers.
oracle:
    cargo test -p server --test cql -- --ignored --nocapture recorded_answers_are_cassandras

# The text cases with several users on a real Cassandra that has PasswordAuthenticator, CassandraAuthorizer and
# CassandraNetworkAuthorizer. HELENUS_ORACLE=record rewrites the answers.
oracle-access:
    cargo test -p server --test cql -- --ignored --nocapture --test-threads 1 recorded_answers_to_users_are_cassandras recorded_matrix_of_grants_is_cassandras

# The text cases for three nodes on a real Cassandra. HELENUS_ORACLE=record rewrites the answers.
oracle-three-nodes:
    cargo test -p server --test three_nodes -- --ignored --nocapture recorded_answers_are_cassandras

# The text cases that depend on the order of partitions, on a real Cassandra with the partitioner that
# HELENUS_ORACLE_PARTITIONER names.
oracle-partitioner:
    cargo test -p server --test cql -- --ignored --nocapture recorded_answers_of_another_partitioner_are_cassandras

# Random statements on Helenus and on a real Cassandra; net/server/tests/side_by_side/settings.rs lists what sets its size.
side-by-side:
    cargo test -p server --test side_by_side -- --ignored --nocapture random_statements_answer_as_cassandra_does

# Which of the random statements a real Cassandra refuses.
side-by-side-errors:
    cargo test -p server --test side_by_side -- --ignored --nocapture errors_of_the_generator

# SSTables of the writer and of the engine, read by a real Cassandra; net/server/tests/golden/written.rs names the variables.
sstables-accepted:
    cargo test -p sstable --test golden -- --ignored cassandra_accepts_what_is_written
    cargo test -p server --test golden -- --ignored cassandra_accepts_what_the_engine_writes

# Fuzzes one target for a minute (needs cargo-fuzz and a nightly toolchain): `just fuzz net/wire decoder`.
fuzz crate target seconds="60":
    cd {{crate}} && cargo +nightly fuzz run {{target}} -- -max_total_time={{seconds}}

# QUORUM load on three processes that are killed, stopped, cut off and restarted (cutting off needs nftables and root).
failures minutes="10":
    cargo build --release --bin helenus
    python3 bench/cluster/failures.py "${CARGO_TARGET_DIR:-target}/release/helenus" --minutes {{minutes}}
