import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.QueryTrace;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.KeyspaceMetadata;
import com.datastax.oss.driver.api.core.metadata.schema.SchemaChangeListenerBase;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CopyOnWriteArrayList;

/** Checks of what surrounds statements: tracing, warnings, events, metadata, requests in flight, options of a request. */
final class Sessions {
    private Sessions() {}

    static void register(Map<String, Program.Check> checks) {
        checks.put("tracing", Sessions::tracing);
        checks.put("warnings", Sessions::warnings);
        checks.put("schema_events", Sessions::schemaEvents);
        checks.put("ring", Sessions::ring);
        checks.put("thousand_in_flight", Sessions::thousandInFlight);
        checks.put("options_of_a_request", Sessions::optionsOfARequest);
        checks.put("keyspace_and_time_of_a_request", Sessions::keyspaceAndTimeOfARequest);
    }

    private static void tracing(Program.World world) {
        world.table("traced", "pk int PRIMARY KEY, v text");
        PreparedStatement insert = world.session.prepare("INSERT INTO traced (pk, v) VALUES (?, ?)");
        for (Statement<?> statement : List.<Statement<?>>of(insert.bind(1, "x"), SimpleStatement.newInstance("SELECT * FROM traced"),
                BatchStatement.newInstance(DefaultBatchType.UNLOGGED, insert.bind(2, "y")))) {
            var info = world.session.execute(statement.setTracing(true)).getExecutionInfo();
            Program.require(info.getTracingId() != null, "a session id");
            QueryTrace trace = info.getQueryTrace();
            Program.require(!trace.getEvents().isEmpty() && trace.getDurationMicros() >= 0 && trace.getStartedAt() > 0, "a trace with events");
            Program.equal(trace.getCoordinatorAddress().getAddress().getHostAddress(), world.host, "the coordinator");
        }
        Program.require(world.session.execute("SELECT * FROM traced").getExecutionInfo().getTracingId() == null, "traced without being asked to");
    }

    private static List<String> warned(Program.World world, Statement<?> statement) {
        return world.session.execute(statement).getExecutionInfo().getWarnings();
    }

    private static void warnings(Program.World world) {
        world.table("warned", "pk int PRIMARY KEY, v text");
        BatchStatementBuilder many = BatchStatement.builder(DefaultBatchType.UNLOGGED);
        for (int pk = 0; pk < 12; pk++) {
            many.addStatement(SimpleStatement.newInstance("INSERT INTO warned (pk, v) VALUES (?, ?)", pk, "v"));
        }
        Program.equal(warned(world, many.build()), List.of("Unlogged batch covering 12 partitions detected against table [" + world.keyspace
                + ".warned]. You should use a logged batch for atomicity, or asynchronous writes for performance."), "partitions of an unlogged batch");
        Program.equal(warned(world, SimpleStatement.newInstance("SELECT max(pk) FROM warned")), List.of("Aggregation query used without partition key"), "an aggregate");
        Program.equal(warned(world, SimpleStatement.newInstance("SELECT pk FROM warned")), List.of(), "nothing to warn of");
    }

    /** Every change of the schema reaches another session's listener. */
    private static void schemaEvents(Program.World world) throws InterruptedException {
        String keyspace = world.keyspace + "_e";
        List<String> events = new CopyOnWriteArrayList<>();
        SchemaChangeListenerBase listener = new SchemaChangeListenerBase() {
            private void keep(String what, String in, Object name) {
                if (in.equals(keyspace)) {
                    events.add(what + " " + name);
                }
            }

            @Override
            public void onKeyspaceCreated(KeyspaceMetadata created) {
                keep("created keyspace", created.getName().asInternal(), "");
            }

            @Override
            public void onKeyspaceUpdated(KeyspaceMetadata current, KeyspaceMetadata previous) {
                keep("updated keyspace", current.getName().asInternal(), current.isDurableWrites());
            }

            @Override
            public void onKeyspaceDropped(KeyspaceMetadata dropped) {
                keep("dropped keyspace", dropped.getName().asInternal(), "");
            }

            @Override
            public void onTableCreated(TableMetadata table) {
                keep("created table", table.getKeyspace().asInternal(), table.getName());
            }

            @Override
            public void onTableUpdated(TableMetadata current, TableMetadata previous) {
                keep("updated table", current.getKeyspace().asInternal(), current.getName() + " " + current.getColumns().size());
            }

            @Override
            public void onTableDropped(TableMetadata table) {
                keep("dropped table", table.getKeyspace().asInternal(), table.getName());
            }

            @Override
            public void onUserDefinedTypeCreated(UserDefinedType type) {
                keep("created type", type.getKeyspace().asInternal(), type.getName());
            }

            @Override
            public void onUserDefinedTypeUpdated(UserDefinedType current, UserDefinedType previous) {
                keep("updated type", current.getKeyspace().asInternal(), current.getName() + " " + current.getFieldNames().size());
            }

            @Override
            public void onUserDefinedTypeDropped(UserDefinedType type) {
                keep("dropped type", type.getKeyspace().asInternal(), type.getName());
            }
        };
        try (CqlSession other = world.connect(null, listener)) {
            String[][] changes = {
                {"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", "created keyspace "},
                {"ALTER KEYSPACE " + keyspace + " WITH durable_writes = false", "updated keyspace false"},
                {"CREATE TYPE " + keyspace + ".u (a int)", "created type u"},
                {"ALTER TYPE " + keyspace + ".u ADD b text", "updated type u 2"},
                {"CREATE TABLE " + keyspace + ".t (pk int, ck text, s int static, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)", "created table t"},
                {"ALTER TABLE " + keyspace + ".t ADD v frozen<u>", "updated table t 5"},
            };
            List<String> expected = new ArrayList<>();
            for (String[] change : changes) {
                world.session.execute(change[0]);
                expected.add(change[1]);
                // The driver merges changes that follow each other closely into one refresh.
                Program.eventually(change[1] + " after " + events, () -> events.size() >= expected.size(), 20);
            }
            Program.equal(new ArrayList<>(events), expected, "events");
            TableMetadata table = other.getMetadata().getKeyspace(keyspace).orElseThrow().getTable("t").orElseThrow();
            Program.equal(table.getClusteringColumns().values().iterator().next(), ClusteringOrder.DESC, "the order");
            Program.require(table.getColumn("s").orElseThrow().isStatic(), "the static column");
            Program.equal(table.getColumn("m").orElseThrow().getType(), DataTypes.mapOf(DataTypes.TEXT, DataTypes.INT), "the map");
            for (String[] change : new String[][] {{"DROP TABLE " + keyspace + ".t", "dropped table t"}, {"DROP TYPE " + keyspace + ".u", "dropped type u"},
                {"DROP KEYSPACE " + keyspace, "dropped keyspace "}}) {
                world.session.execute(change[0]);
                expected.add(change[1]);
                Program.eventually(change[1], () -> events.size() >= expected.size(), 20);
            }
            Program.equal(new ArrayList<>(events), expected, "events with drops");
        }
    }

    /** The node as the driver sees it. */
    private static void ring(Program.World world) {
        Node node = world.session.getMetadata().getNodes().values().iterator().next();
        Program.equal(world.session.getMetadata().getNodes().size(), 1, "nodes");
        Program.equal(node.getDatacenter() + " " + node.getRack(), "datacenter1 rack1", "the place");
        Program.equal(node.getCassandraVersion().getMajor(), 5, "the version");
        var tokens = world.session.getMetadata().getTokenMap().orElseThrow();
        Program.equal(tokens.getPartitionerName(), "org.apache.cassandra.dht.Murmur3Partitioner", "partitioner");
        Program.require(!tokens.getTokens(node).isEmpty(), "tokens");
        Program.equal(tokens.getReplicas(world.keyspace, ByteBuffer.wrap(new byte[] {0, 0, 0, 1})).size(), 1, "replicas");
        Program.equal(node.getOpenConnections(), 2, "connections: the control connection and the pool's one");
    }

    /** 1,000 requests on the one connection of the pool before the first answer is looked at; every answer is its own. */
    private static void thousandInFlight(Program.World world) {
        world.table("flight", "pk int PRIMARY KEY, v text, n bigint");
        PreparedStatement insert = world.session.prepare("INSERT INTO flight (pk, v, n) VALUES (?, ?, ?)");
        PreparedStatement select = world.session.prepare("SELECT pk, v, n FROM flight WHERE pk = ?");
        for (int round = 0; round < 3; round++) {
            List<CompletionStage<AsyncResultSet>> writes = new ArrayList<>();
            for (int pk = 0; pk < 1000; pk++) {
                writes.add(world.session.executeAsync(insert.bind(pk, pk + ":" + "x".repeat(pk % 251), ((long) pk << 31) + round)));
            }
            writes.forEach(write -> write.toCompletableFuture().join());
            List<CompletionStage<AsyncResultSet>> reads = new ArrayList<>();
            for (int pk = 0; pk < 1000; pk++) {
                reads.add(pk % 10 == 9 ? world.session.executeAsync("SELECT nonsense FROM flight") : world.session.executeAsync(select.bind(pk)));
            }
            for (int pk = 0; pk < 1000; pk++) {
                try {
                    Row row = reads.get(pk).toCompletableFuture().join().one();
                    Program.equal(row.getInt(0) + " " + row.getString(1) + " " + row.getLong(2), pk + " " + pk + ":" + "x".repeat(pk % 251) + " " + (((long) pk << 31) + round), "an answer");
                    Program.require(pk % 10 != 9, "an answer instead of an error");
                } catch (CompletionException error) {
                    Program.require(pk % 10 == 9 && error.getCause() instanceof InvalidQueryException, "an error instead of an answer: " + error);
                }
            }
        }
    }

    private static void optionsOfARequest(Program.World world) {
        world.table("stamped", "pk int PRIMARY KEY, v text");
        world.session.execute(SimpleStatement.newInstance("INSERT INTO stamped (pk, v) VALUES (1, 'a')").setQueryTimestamp(1_234_567));
        Program.equal(world.session.execute("SELECT writetime(v) FROM stamped").one().getLong(0), 1_234_567L, "the request's timestamp");
        ResultSet result = world.session.execute(SimpleStatement.newInstance("SELECT v FROM stamped").setCustomPayload(Map.of("k", ByteBuffer.wrap(new byte[] {1}))));
        Program.equal(result.one().getString(0), "a", "a request with a payload");
    }

    private static void keyspaceAndTimeOfARequest(Program.World world) {
        if (world.version < 5) {
            return;
        }
        String other = world.keyspace + "_o";
        world.session.execute("DROP KEYSPACE IF EXISTS " + other);
        world.session.execute("CREATE KEYSPACE " + other + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        world.session.execute("CREATE TABLE " + other + ".here (pk int PRIMARY KEY, v text)");
        world.table("here", "pk int PRIMARY KEY, v text");
        world.session.execute("INSERT INTO here (pk, v) VALUES (1, 'session')");
        world.session.execute(SimpleStatement.newInstance("INSERT INTO here (pk, v) VALUES (1, 'request')").setKeyspace(other));
        Program.equal(world.session.execute(SimpleStatement.newInstance("SELECT v FROM here WHERE pk = 1").setKeyspace(other)).one().getString(0), "request", "simple");
        PreparedStatement prepared = world.session.prepare(SimpleStatement.newInstance("SELECT v FROM here WHERE pk = ?").setKeyspace(other));
        Program.equal(world.session.execute(prepared.bind(1)).one().getString(0), "request", "prepared");
        Program.equal(world.session.execute("SELECT v FROM here WHERE pk = 1").one().getString(0), "session", "the session's own");
        world.session.execute("DROP KEYSPACE " + other);

        int now = (int) (System.currentTimeMillis() / 1000) + 1_000_000;
        world.session.execute(SimpleStatement.newInstance("INSERT INTO here (pk, v) VALUES (2, 'brief') USING TTL 100").setNowInSeconds(now));
        SimpleStatement left = SimpleStatement.newInstance("SELECT ttl(v) FROM here WHERE pk = 2");
        Program.equal(world.session.execute(left.setNowInSeconds(now + 40)).one().getInt(0), 60, "the time that is left");
        Program.require(world.session.execute(left.setNowInSeconds(now + 101)).one() == null, "the row is gone");
    }
}
