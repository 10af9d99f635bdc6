import com.datastax.driver.core.BatchStatement;
import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.DataType;
import com.datastax.driver.core.Duration;
import com.datastax.driver.core.LocalDate;
import com.datastax.driver.core.PagingState;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ProtocolOptions;
import com.datastax.driver.core.ProtocolVersion;
import com.datastax.driver.core.QueryOptions;
import com.datastax.driver.core.QueryTrace;
import com.datastax.driver.core.RemoteEndpointAwareJdkSSLOptions;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.SocketOptions;
import com.datastax.driver.core.TupleType;
import com.datastax.driver.core.UDTValue;
import com.datastax.driver.core.UserType;
import com.datastax.driver.core.exceptions.AlreadyExistsException;
import com.datastax.driver.core.exceptions.DriverException;
import com.datastax.driver.core.exceptions.InvalidQueryException;
import com.datastax.driver.core.exceptions.SyntaxError;
import com.datastax.driver.core.policies.ConstantReconnectionPolicy;
import java.io.FileInputStream;
import java.io.InputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Date;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * The third line of the Java driver against a CQL server. Prints one line per check; exits 1 at the first that fails.
 *
 * <pre>Program3 HOST PORT VERSION-COMPRESSION... [--only=NAMES] [--restarts] [--ca=FILE] [--login=USER:PASSWORD]</pre>
 *
 * A variant is like v4-lz4. With --restarts the program prints {@code restart} and reads a line when the server is to be restarted by
 * whoever runs it. With --ca the connections are encrypted and the server shows a certificate that FILE has signed. Everything happens in keyspaces of its own, dropped first and last. Nothing that is printed differs from run to run.
 */
public final class Program3 {
    interface Check {
        void run(Program3 world) throws Exception;
    }

    private static final UUID TIMEUUID = UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f");
    final Cluster cluster;
    final Session session;
    final String keyspace;

    private Program3(String host, int port, String variant, SSLContext encryption, String[] login) {
        keyspace = "java3_" + variant.replace('-', '_');
        Cluster.Builder builder = Cluster.builder()
                .addContactPoint(host)
                .withPort(port)
                .withoutJMXReporting()
                .withProtocolVersion(ProtocolVersion.fromInt(Integer.parseInt(variant.substring(1, 2))))
                .withCompression(ProtocolOptions.Compression.valueOf(variant.substring(3).toUpperCase()))
                .withReconnectionPolicy(new ConstantReconnectionPolicy(200))
                .withSocketOptions(new SocketOptions().setReadTimeoutMillis(30_000).setConnectTimeoutMillis(30_000))
                .withQueryOptions(new QueryOptions().setConsistencyLevel(ConsistencyLevel.LOCAL_QUORUM));
        if (encryption != null) {
            builder.withSSL(RemoteEndpointAwareJdkSSLOptions.builder().withSSLContext(encryption).build());
        }
        if (login != null) {
            builder.withCredentials(login[0], login[1]);
        }
        cluster = builder.build();
        Session first = cluster.connect();
        first.execute("DROP KEYSPACE IF EXISTS " + keyspace);
        first.execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
        first.close();
        session = cluster.connect(keyspace);
    }

    /** What trusts the certificate in a file. */
    private static SSLContext trusting(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream input = new FileInputStream(file)) {
            store.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(input));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    static void equal(Object found, Object expected, String what) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(what + ": found " + found + ", expected " + expected);
        }
    }

    private static void refused(Class<? extends Throwable> kind, String text, Runnable call) {
        try {
            call.run();
        } catch (RuntimeException error) {
            equal(kind.isInstance(error) && error.getMessage().contains(text), true, "refused with " + error + " instead of " + text);
            return;
        }
        throw new AssertionError("not refused with " + text);
    }

    private void table(String name, String columns) {
        session.execute("DROP TABLE IF EXISTS " + name);
        session.execute("CREATE TABLE " + name + " (" + columns + ")");
    }

    private void types() throws Exception {
        session.execute("CREATE TYPE IF NOT EXISTS address (street text, number int, tags frozen<set<text>>)");
        UserType type = cluster.getMetadata().getKeyspace(keyspace).getUserType("address");
        UDTValue home = type.newValue().setString("street", "Rue Émile 1").setInt("number", 7).setSet("tags", Set.of("a", "ß"));
        TupleType pair = cluster.getMetadata().newTupleType(DataType.cint(), DataType.text());
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("ascii", "plain");
        values.put("bigint", Long.MIN_VALUE);
        values.put("blob", ByteBuffer.wrap(new byte[70_000]));
        values.put("boolean", true);
        values.put("date", LocalDate.fromDaysSinceEpoch(-1));
        values.put("decimal", new BigDecimal("-1.50"));
        values.put("double", Double.MIN_VALUE);
        values.put("duration", Duration.newInstance(1, 2, 3));
        values.put("float", Float.NEGATIVE_INFINITY);
        values.put("inet", InetAddress.getByName("2001:db8::1"));
        values.put("int", Integer.MAX_VALUE);
        values.put("smallint", Short.MIN_VALUE);
        values.put("text", "日本語 it's");
        values.put("time", 86_399_999_999_999L);
        values.put("timestamp", new Date(-1));
        values.put("timeuuid", TIMEUUID);
        values.put("tinyint", Byte.MIN_VALUE);
        values.put("uuid", new UUID(-1, -1));
        values.put("varint", BigInteger.TWO.pow(1000).negate());
        values.put("list<int>", List.of(3, Integer.MIN_VALUE, 3));
        values.put("set<text>", Set.of("b", "a"));
        values.put("map<text, frozen<list<bigint>>>", Map.of("go", List.of(1L, Long.MIN_VALUE)));
        values.put("tuple<int, text>", pair.newValue(1, null));
        values.put("frozen<address>", home);
        values.put("list<frozen<address>>", List.of(home));
        StringBuilder columns = new StringBuilder("pk int PRIMARY KEY");
        int number = 0;
        for (String kind : values.keySet()) {
            columns.append(", c").append(number++).append(' ').append(kind);
        }
        table("types", columns.toString());
        number = 0;
        for (Map.Entry<String, Object> value : values.entrySet()) {
            PreparedStatement insert = session.prepare("INSERT INTO types (pk, c" + number + ") VALUES (?, ?)");
            session.execute(insert.bind(number, value.getValue()));
            PreparedStatement select = session.prepare("SELECT c" + number + " FROM types WHERE pk = ?");
            equal(session.execute(select.bind(number)).one().getObject(0), value.getValue(), value.getKey() + " prepared");
            equal(session.execute("SELECT c" + number + " FROM types WHERE pk = " + number).one().getObject(0), value.getValue(), value.getKey());
            session.execute(insert.bind(number, null));
            equal(session.execute(select.bind(number)).one().isNull(0), true, value.getKey() + " null");
            number++;
        }
    }

    private void unset() {
        table("unsets", "pk int PRIMARY KEY, a int, b text");
        PreparedStatement insert = session.prepare("INSERT INTO unsets (pk, a, b) VALUES (?, ?, ?)");
        session.execute(insert.bind(1, 1, "b"));
        BoundStatement partly = insert.bind().setInt("pk", 1).setToNull("a");
        session.execute(partly);
        Row row = session.execute("SELECT a, b FROM unsets").one();
        equal(row.isNull("a"), true, "null deletes");
        equal(row.getString("b"), "b", "unset leaves");
    }

    private void paging() {
        table("paged", "pk int, ck int, PRIMARY KEY (pk, ck)");
        PreparedStatement insert = session.prepare("INSERT INTO paged (pk, ck) VALUES (?, ?)");
        for (int pk = 0; pk < 20; pk++) {
            for (int ck = 0; ck < 15; ck++) {
                session.execute(insert.bind(pk, ck));
            }
        }
        for (int size : new int[] {1, 7, 299, 300, 301}) {
            Set<Integer> seen = new HashSet<>();
            for (Row row : session.execute(new SimpleStatement("SELECT pk, ck FROM paged").setFetchSize(size))) {
                equal(seen.add(row.getInt(0) * 100 + row.getInt(1)), true, "a row twice");
            }
            equal(seen.size(), 300, "rows at " + size + " a page");
        }
        int seen = 0;
        String state = null;
        do {
            SimpleStatement page = new SimpleStatement("SELECT pk, ck FROM paged");
            page.setFetchSize(70);
            if (state != null) {
                page.setPagingState(PagingState.fromString(state));
            }
            ResultSet result = session.execute(page);
            seen += result.getAvailableWithoutFetching();
            PagingState next = result.getExecutionInfo().getPagingState();
            state = next == null ? null : next.toString();
        } while (state != null);
        equal(seen, 300, "rows by states");
    }

    private void preparedAcrossAlter() {
        table("altered", "pk int PRIMARY KEY, a int");
        PreparedStatement insert = session.prepare("INSERT INTO altered (pk, a) VALUES (?, ?)");
        PreparedStatement named = session.prepare("SELECT a FROM altered WHERE pk = ?");
        session.execute(insert.bind(1, 10));
        session.execute("ALTER TABLE altered ADD b text");
        session.execute(insert.bind(2, 20));
        equal(session.execute(named.bind(2)).one().getInt(0), 20, "a named column");
        session.execute("UPDATE altered SET b = 'b' WHERE pk = 1");
        Row row = session.execute("SELECT * FROM altered WHERE pk = 1").one();
        equal(row.getInt("a") + row.getString("b"), "10b", "both columns");
        session.execute("ALTER TABLE altered DROP a");
        // The driver prepares it again, and says of a failure of that only that no host is left.
        refused(DriverException.class, "Undefined column name a", () -> session.execute(insert.bind(3, 30)));
        session.execute("DROP TABLE altered");
        refused(DriverException.class, "altered", () -> session.execute(named.bind(1)));
        session.execute("CREATE TABLE altered (pk int PRIMARY KEY, a int)");
        session.execute(insert.bind(1, 11));
        equal(session.execute(named.bind(1)).one().getInt(0), 11, "the table that came back");
    }

    private void batches() {
        table("batched", "pk int, ck int, v text, PRIMARY KEY (pk, ck)");
        PreparedStatement insert = session.prepare("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)");
        for (BatchStatement.Type type : List.of(BatchStatement.Type.LOGGED, BatchStatement.Type.UNLOGGED)) {
            int pk = type.ordinal();
            BatchStatement batch = new BatchStatement(type);
            batch.add(insert.bind(pk, 1, "prepared"));
            batch.add(new SimpleStatement("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)", pk, 2, "simple"));
            batch.add(new SimpleStatement("UPDATE batched SET v = 'literal' WHERE pk = " + pk + " AND ck = 3"));
            batch.setDefaultTimestamp(777);
            session.execute(batch);
            StringBuilder found = new StringBuilder();
            for (Row row : session.execute("SELECT v, writetime(v) FROM batched WHERE pk = " + pk)) {
                found.append(row.getString(0)).append(row.getLong(1)).append(' ');
            }
            equal(found.toString(), "prepared777 simple777 literal777 ", "a batch");
        }
    }

    private void conditional() {
        table("conditional", "pk int PRIMARY KEY, v int");
        equal(session.execute("INSERT INTO conditional (pk, v) VALUES (1, 1) IF NOT EXISTS").wasApplied(), true, "inserted");
        ResultSet refused = session.execute("INSERT INTO conditional (pk, v) VALUES (1, 2) IF NOT EXISTS");
        equal(refused.wasApplied(), false, "inserted again");
        equal(refused.one().getInt("v"), 1, "the row that was there");
        PreparedStatement update = session.prepare("UPDATE conditional SET v = ? WHERE pk = 1 IF v = ?").setSerialConsistencyLevel(ConsistencyLevel.LOCAL_SERIAL);
        equal(session.execute(update.bind(3, 2)).wasApplied(), false, "another value");
        equal(session.execute(update.bind(3, 1)).wasApplied(), true, "the value");
    }

    private void counters() {
        table("counted", "pk int PRIMARY KEY, c counter");
        BatchStatement batch = new BatchStatement(BatchStatement.Type.COUNTER);
        PreparedStatement add = session.prepare("UPDATE counted SET c = c + ? WHERE pk = ?");
        for (int number = 0; number < 5; number++) {
            batch.add(add.bind(3L, 1));
        }
        session.execute(batch);
        session.execute("UPDATE counted SET c = c - 5 WHERE pk = 1");
        equal(session.execute("SELECT c FROM counted WHERE pk = 1").one().getLong(0), 10L, "the counter");
    }

    private void tracing() {
        table("traced", "pk int PRIMARY KEY, v text");
        ResultSet result = session.execute(new SimpleStatement("INSERT INTO traced (pk, v) VALUES (1, 'x')").enableTracing());
        QueryTrace trace = result.getExecutionInfo().getQueryTrace();
        equal(trace.getRequestType(), "Execute CQL3 query", "the kind of request");
        equal(trace.getEvents().isEmpty(), false, "no events");
        equal(session.execute("SELECT max(pk) FROM traced").getExecutionInfo().getWarnings(), List.of("Aggregation query used without partition key"), "warnings");
    }

    private void refusals() {
        refused(SyntaxError.class, "no viable alternative at input", () -> session.execute("SELECT"));
        refused(InvalidQueryException.class, "table nowhere does not exist", () -> session.execute("SELECT * FROM nowhere"));
        refused(AlreadyExistsException.class, "already exists", () -> session.execute(
                "CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"));
    }

    private void metadata() {
        table("described", "pk int, ck text, s int static, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC");
        var known = cluster.getMetadata().getKeyspace(keyspace).getTable("described");
        equal(known.getPartitionKey().get(0).getName() + known.getClusteringOrder(), "pk[DESC]", "the key");
        equal(known.getColumn("m").getType().toString(), "map<text, int>", "the map");
        equal(known.getColumn("s").isStatic(), true, "the static column");
        equal(cluster.getMetadata().getReplicas(keyspace, ByteBuffer.wrap(new byte[4])).size(), 1, "replicas");
        equal(cluster.getMetadata().checkSchemaAgreement(), true, "agreement");
        equal(known.asCQLQuery().contains("CLUSTERING ORDER BY (ck DESC)"), true, "the table as CQL");
    }

    private void restart() throws Exception {
        table("kept", "pk int PRIMARY KEY, v int");
        PreparedStatement insert = session.prepare("INSERT INTO kept (pk, v) VALUES (?, ?)");
        session.execute(insert.bind(1, 2));
        System.out.println("restart");
        System.out.flush();
        equal(System.in.read() >= 0, true, "somebody restarts the server");
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (true) {
            try {
                equal(session.execute("SELECT v FROM kept WHERE pk = 1").one().getInt(0), 2, "a row from before the restart");
                break;
            } catch (RuntimeException error) {
                equal(System.nanoTime() < deadline, true, "connected again");
                Thread.sleep(50);
            }
        }
        session.execute(insert.bind(2, 3));
        equal(session.execute("SELECT v FROM kept WHERE pk = 2").one().getInt(0), 3, "a row written by the statement from before");
    }

    public static void main(String[] arguments) throws Exception {
        SSLContext encryption = null;
        String[] login = null;
        List<String> only = List.of();
        for (String argument : arguments) {
            if (argument.startsWith("--ca=")) {
                encryption = trusting(argument.substring(5));
            } else if (argument.startsWith("--only=")) {
                only = List.of(argument.substring(7).split(","));
            } else if (argument.startsWith("--login=")) {
                login = argument.substring(8).split(":");
            }
        }
        boolean restarts = List.of(arguments).contains("--restarts");
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("types", Program3::types);
        checks.put("unset", Program3::unset);
        checks.put("paging", Program3::paging);
        checks.put("prepared_across_alter", Program3::preparedAcrossAlter);
        checks.put("batches", Program3::batches);
        checks.put("conditional", Program3::conditional);
        checks.put("counters", Program3::counters);
        checks.put("tracing", Program3::tracing);
        checks.put("refusals", Program3::refusals);
        checks.put("metadata", Program3::metadata);
        checks.put("mapper", world -> Mapped.run(world.session, world.keyspace));
        checks.put("restart", Program3::restart);
        for (int index = 2; index < arguments.length; index++) {
            String variant = arguments[index];
            if (variant.startsWith("--")) {
                continue;
            }
            String current = "connect";
            try {
                Program3 world = new Program3(arguments[0], Integer.parseInt(arguments[1]), variant, encryption, login);
                for (Map.Entry<String, Check> check : checks.entrySet()) {
                    current = check.getKey();
                    if ((current.equals("restart") && !restarts) || (!only.isEmpty() && !only.contains(current))) {
                        continue;
                    }
                    check.getValue().run(world);
                    System.out.printf("java3 %s %s: ok%n", variant, current);
                }
                world.session.execute("DROP KEYSPACE IF EXISTS " + world.keyspace);
                world.cluster.close();
            } catch (Throwable failure) {
                failure.printStackTrace();
                System.out.printf("java3 %s %s: FAILED%n", variant, current);
                System.out.flush();
                System.exit(1);
            }
        }
        System.exit(0);
    }
}
