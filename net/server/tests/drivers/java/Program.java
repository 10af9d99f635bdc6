import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.ProtocolVersion;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.metadata.schema.SchemaChangeListener;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.BooleanSupplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * The Java driver against a CQL server, as applications use it. Prints one line per check; exits 1 at the first that fails.
 *
 * <pre>Program HOST PORT [VERSION-COMPRESSION ...] [--only=NAMES] [--skip=NAMES] [--restarts] [--ca=FILE] [--login=USER:PASSWORD]</pre>
 *
 * A variant is like v4-snappy or v5-lz4; without one it is v5-none. With --restarts the program prints {@code restart} and reads a
 * line when the server is to be restarted by whoever runs it. With --ca the connections are encrypted and the server shows a certificate that
 * FILE has signed. Everything happens in keyspaces of its own, dropped first and last.
 */
public final class Program {
    /** What encrypts the connections; null for plain ones. */
    private static SSLContext encryption;

    /** A name and a password; null without a login. */
    private static String[] login;

    /** A check; fails by throwing. */
    interface Check {
        void run(World world) throws Exception;
    }

    /** One server, one protocol version, one compression, one session that the checks share. */
    static final class World implements AutoCloseable {
        final String host;
        final int port;
        final int version;
        final String compression;
        final String keyspace;
        final List<CqlSession> sessions = new ArrayList<>();
        final CqlSession session;

        World(String host, int port, String variant) {
            this.host = host;
            this.port = port;
            version = Integer.parseInt(variant.substring(1, 2));
            compression = variant.substring(3);
            keyspace = "java_v" + version + "_" + compression;
            try (CqlSession first = connect(null, null)) {
                first.execute("DROP KEYSPACE IF EXISTS " + keyspace);
                first.execute("CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
            }
            session = connect(keyspace, null);
            equal(session.getContext().getProtocolVersion().getCode(), version, "protocol version");
        }

        /** A new session: other connections, nothing remembered. */
        CqlSession connect(String keyspace, SchemaChangeListener listener) {
            var config = DriverConfigLoader.programmaticBuilder()
                    .withString(DefaultDriverOption.PROTOCOL_VERSION, "V" + version)
                    .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, compression)
                    .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
                    .withDuration(DefaultDriverOption.RECONNECTION_BASE_DELAY, Duration.ofMillis(200))
                    .withDuration(DefaultDriverOption.RECONNECTION_MAX_DELAY, Duration.ofMillis(400))
                    .withInt(DefaultDriverOption.CONNECTION_MAX_REQUESTS, 2048)
                    .withBoolean(DefaultDriverOption.REQUEST_LOG_WARNINGS, false)
                    // The default gives up on a trace after 15 ms, less than a busy machine may need.
                    .withInt(DefaultDriverOption.REQUEST_TRACE_ATTEMPTS, 1000)
                    .withInt(DefaultDriverOption.SESSION_LEAK_THRESHOLD, 0)
                    .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
                    .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0)
                    .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(50))
                    .build();
            CqlSessionBuilder builder = CqlSession.builder()
                    .addContactPoint(new InetSocketAddress(host, port))
                    .withLocalDatacenter("datacenter1")
                    .withConfigLoader(config);
            if (encryption != null) {
                builder.withSslContext(encryption);
            }
            if (login != null) {
                builder.withAuthCredentials(login[0], login[1]);
            }
            if (keyspace != null) {
                builder.withKeyspace(keyspace);
            }
            if (listener != null) {
                builder.withSchemaChangeListener(listener);
            }
            CqlSession made = builder.build();
            sessions.add(made);
            return made;
        }

        /** Creates the table anew. */
        void table(String name, String columns) {
            session.execute("DROP TABLE IF EXISTS " + name);
            session.execute("CREATE TABLE " + name + " (" + columns + ")");
        }

        @Override
        public void close() {
            session.execute("DROP KEYSPACE " + keyspace);
            sessions.forEach(CqlSession::close);
        }
    }

    /** What trusts the certificate in a file. */
    static SSLContext trusting(String file) throws Exception {
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

    static void require(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    /** {@code call} throws {@code kind} with {@code text} in its message. */
    static void refused(Class<? extends Throwable> kind, String text, Runnable call) {
        try {
            call.run();
        } catch (RuntimeException error) {
            require(kind.isInstance(error) && error.getMessage().contains(text), "refused with " + error + " instead of " + text);
            return;
        }
        throw new AssertionError("not refused with " + text);
    }

    /** Waits until the condition holds. */
    static void eventually(String what, BooleanSupplier condition, int seconds) throws InterruptedException {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        while (!condition.getAsBoolean()) {
            require(System.nanoTime() < deadline, what + ": not within " + seconds + " s");
            Thread.sleep(20);
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<String> variants = new ArrayList<>();
        Set<String> only = Set.of();
        Set<String> skip = Set.of();
        boolean restarts = false;
        for (int index = 2; index < arguments.length; index++) {
            String argument = arguments[index];
            if (argument.startsWith("--only=")) {
                only = Set.of(argument.substring(7).split(","));
            } else if (argument.startsWith("--skip=")) {
                skip = Set.of(argument.substring(7).split(","));
            } else if (argument.startsWith("--ca=")) {
                encryption = trusting(argument.substring(5));
            } else if (argument.startsWith("--login=")) {
                login = argument.substring(8).split(":");
            } else if (argument.equals("--restarts")) {
                restarts = true;
            } else if (argument.matches("v[45]-(none|lz4|snappy)")) {
                variants.add(argument);
            } else {
                System.err.println("unknown argument " + argument);
                System.exit(2);
            }
        }
        if (variants.isEmpty()) {
            variants.add("v5-none");
        }
        Map<String, Check> checks = new LinkedHashMap<>();
        Data.register(checks);
        Statements.register(checks);
        Sessions.register(checks);
        for (String variant : variants) {
            String current = "connect";
            try {
                World world = new World(arguments[0], Integer.parseInt(arguments[1]), variant);
                for (Map.Entry<String, Check> check : checks.entrySet()) {
                    String name = current = check.getKey();
                    boolean selected = only.isEmpty() || only.contains(name);
                    if (!selected || skip.contains(name) || (name.equals("restart") && !restarts)) {
                        continue;
                    }
                    long start = System.nanoTime();
                    check.getValue().run(world);
                    System.out.printf("java %s %s: ok, %.2f s%n", variant, name, (System.nanoTime() - start) / 1e9);
                }
                world.close();
            } catch (Throwable failure) {
                failure.printStackTrace();
                System.out.printf("java %s %s: FAILED%n", variant, current);
                System.out.flush();
                System.exit(1);
            }
        }
        System.exit(0);
    }
}
