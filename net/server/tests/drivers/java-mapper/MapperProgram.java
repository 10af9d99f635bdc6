import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import org.cognitor.cassandra.migration.Database;
import org.cognitor.cassandra.migration.MigrationConfiguration;
import org.cognitor.cassandra.migration.MigrationRepository;
import org.cognitor.cassandra.migration.MigrationTask;

/**
 * The object mapper of the fourth line of the Java driver on tables that cassandra-migration makes. Prints one line per check; exits 1
 * at the first that fails.
 *
 * <pre>MapperProgram HOST PORT</pre>
 *
 * Everything happens in the keyspace {@code mapped}, dropped first and last. Nothing that is printed differs from run to run.
 */
public final class MapperProgram {
    private static final String KEYSPACE = "mapped";

    private MapperProgram() {}

    private static void equal(Object found, Object expected, String what) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError(what + ": found " + found + ", expected " + expected);
        }
    }

    private static CqlSession connect(String host, int port) {
        var config = DriverConfigLoader.programmaticBuilder()
                .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
                .withInt(DefaultDriverOption.SESSION_LEAK_THRESHOLD, 0)
                .withInt(DefaultDriverOption.NETTY_IO_SHUTDOWN_QUIET_PERIOD, 0)
                .withInt(DefaultDriverOption.NETTY_ADMIN_SHUTDOWN_QUIET_PERIOD, 0)
                .build();
        return CqlSession.builder().addContactPoint(new InetSocketAddress(host, port)).withLocalDatacenter("datacenter1").withConfigLoader(config).build();
    }

    /** Migrates up to a version; the tool closes the session that it was given. */
    private static void migrate(String host, int port, String scripts, int version) {
        try (Database database = new Database(connect(host, port), new MigrationConfiguration().withKeyspaceName(KEYSPACE))) {
            new MigrationTask(database, new MigrationRepository(scripts), true).migrate();
        }
        try (Database database = new Database(connect(host, port), new MigrationConfiguration().withKeyspaceName(KEYSPACE))) {
            equal(database.getVersion(), version, "version of the schema");
        }
    }

    private static void people(PersonDao people, CqlSession session) {
        Address home = new Address("Rue Émile 1", 7, Set.of("a", "ß"));
        for (int number = 0; number < 10; number++) {
            Person person = new Person("red", number);
            person.setName("name " + number);
            person.setHome(home);
            person.setBadge(new UUID(number, -1));
            person.setBalance(new BigDecimal("-1.50"));
            person.setBorn(LocalDate.of(1969, 7, 20));
            person.setSeen(Instant.ofEpochMilli(-1));
            person.setScores(List.of(number, 1));
            person.setPlaces(Map.of("k", List.of(home, new Address(null, 1, Set.of()))));
            people.save(person, 1000 + number, 100_000);
        }
        Person found = people.find("red", 3);
        equal(List.of(found.getName(), found.getHome(), found.getBadge(), found.getBalance(), found.getBorn(), found.getSeen(), found.getScores(), found.getWritten()),
                List.of("name 3", home, new UUID(3, -1), new BigDecimal("-1.50"), LocalDate.of(1969, 7, 20), Instant.ofEpochMilli(-1), List.of(3, 1), 1003L), "a person");
        equal(found.getPlaces().get("k").get(0), home, "a user type within collections");
        equal(people.findLater("red", 4).toCompletableFuture().join().getName(), "name 4", "read without waiting");
        equal(people.find("red", 99), null, "nobody");
        equal(people.from("red", 2, 5).all().stream().map(Person::getNumber).toList(), List.of(9, 8, 7, 6, 5), "a slice in pages");
        equal(people.size("red"), 10L, "a query of its own");
        Person partly = new Person("red", 3);
        partly.setName("renamed");
        people.update(partly);
        equal(people.find("red", 3).getHome(), home, "fields that are not set stay");
        partly.setName("renamed again");
        equal(people.updateIf(partly, "name 3"), false, "a condition that does not hold");
        equal(people.updateIf(partly, "renamed"), true, "a condition that holds");
        equal(people.find("red", 3).getName(), "renamed again", "updated");
        equal(people.saveNew(partly), false, "who is there already");
        equal(people.saveNew(new Person("blue", 1)), true, "who is new");
        equal(people.removeIfThere("blue", 1), true, "deleted");
        equal(people.removeIfThere("blue", 1), false, "deleted again");
        people.remove(partly);
        people.removeAbove("red", 5);
        equal(people.from("red", 0, 100).all().stream().map(Person::getNumber).toList(), List.of(5, 4, 2, 1, 0), "who is left");
        session.execute(BatchStatement.newInstance(DefaultBatchType.LOGGED, people.bound(new Person("green", 1)), people.bound(new Person("green", 2))));
        equal(people.size("green"), 2L, "a batch");
    }

    private static void counters(VisitsDao visits) {
        visits.add("/", 5);
        visits.add("/", -2);
        equal(visits.find("/").getCount(), 3L, "a counter");
    }

    private static void migrations(CqlSession session) {
        var found = session.execute("SELECT version, script_name FROM mapped.schema_migration WHERE applied_successful = true").all();
        equal(found.stream().map(row -> row.getInt(0) + " " + row.getString(1)).toList(), List.of("1 001_people.cql", "2 002_visits.cql"), "what was migrated");
        equal(session.execute("SELECT page FROM mapped.visits WHERE page = 'none'").one(), null, "the table of the second script");
    }

    public static void main(String[] arguments) {
        String host = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        String current = "connect";
        try (CqlSession session = connect(host, port)) {
            session.execute("DROP KEYSPACE IF EXISTS " + KEYSPACE);
            session.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
            current = "migrate";
            migrate(host, port, "migrations", 2);
            migrate(host, port, "migrations", 2);
            migrations(session);
            System.out.println("cassandra-migration: ok");
            current = "people";
            Tables tables = new TablesBuilder(session).build();
            people(tables.people(CqlIdentifier.fromCql(KEYSPACE)), session);
            System.out.println("java mapper people: ok");
            current = "counters";
            counters(tables.visits(CqlIdentifier.fromCql(KEYSPACE)));
            System.out.println("java mapper counters: ok");
            session.execute("DROP KEYSPACE " + KEYSPACE);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.out.println(current + ": FAILED");
            System.out.flush();
            System.exit(1);
        }
        System.exit(0);
    }
}
