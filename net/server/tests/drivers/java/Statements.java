import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PagingState;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.ProtocolError;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;

/** Checks of statements: prepared ones under changes of the schema, batches, paging with resume, a restart. */
final class Statements {
    private Statements() {}

    static void register(Map<String, Program.Check> checks) {
        checks.put("paging", Statements::paging);
        checks.put("paging_resumed_elsewhere", Statements::pagingResumedElsewhere);
        checks.put("prepared_across_alter", Statements::preparedAcrossAlter);
        checks.put("prepared_across_drop_and_create", Statements::preparedAcrossDropAndCreate);
        checks.put("batches", Statements::batches);
        checks.put("restart", Statements::restart);
    }

    private static void fillPaged(Program.World world) {
        world.table("paged", "pk int, ck int, v text, PRIMARY KEY (pk, ck)");
        PreparedStatement insert = world.session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)");
        for (int pk = 0; pk < 20; pk++) {
            for (int ck = 0; ck < 15; ck++) {
                world.session.execute(insert.bind(pk, ck, pk + "-" + ck));
            }
        }
    }

    private static void paging(Program.World world) {
        fillPaged(world);
        for (int size : new int[] {1, 7, 299, 300, 301}) {
            List<String> seen = new ArrayList<>();
            for (Row row : world.session.execute(SimpleStatement.newInstance("SELECT * FROM paged").setPageSize(size))) {
                seen.add(row.getInt("pk") + "-" + row.getInt("ck"));
                Program.equal(row.getString("v"), seen.get(seen.size() - 1), "a row");
            }
            Program.equal(seen.size(), 300, "rows at " + size + " a page");
            Program.equal(seen.stream().distinct().count(), 300L, "distinct rows at " + size + " a page");
        }
        PreparedStatement slice = world.session.prepare("SELECT ck FROM paged WHERE pk = ? AND ck > ? ORDER BY ck DESC");
        List<Integer> found = new ArrayList<>();
        world.session.execute(slice.bind(3, 2).setPageSize(5)).forEach(row -> found.add(row.getInt(0)));
        Program.equal(found, IntStream.range(3, 15).boxed().sorted(Collections.reverseOrder()).toList(), "a slice in reverse");
    }

    /** The state of a page, kept as text and as bytes, goes on in another session. */
    private static void pagingResumedElsewhere(Program.World world) {
        fillPaged(world);
        for (boolean prepared : new boolean[] {false, true}) {
            List<String> seen = new ArrayList<>();
            String kept = null;
            do {
                try (CqlSession session = world.connect(world.keyspace, null)) {
                    String text = "SELECT pk, ck FROM paged WHERE token(pk) > ?";
                    Statement<?> statement = prepared ? session.prepare(text).bind(Long.MIN_VALUE) : SimpleStatement.newInstance(text, Long.MIN_VALUE);
                    statement = statement.setPageSize(70);
                    if (kept != null) {
                        statement = prepared ? ((BoundStatement) statement).setPagingState(PagingState.fromString(kept))
                                : ((SimpleStatement) statement).setPagingState(PagingState.fromString(kept));
                    }
                    ResultSet result = session.execute(statement);
                    for (int left = result.getAvailableWithoutFetching(); left > 0; left--) {
                        Row row = result.one();
                        seen.add(row.getInt(0) + "-" + row.getInt(1));
                    }
                    PagingState state = result.getExecutionInfo().getSafePagingState();
                    kept = state == null ? null : state.toString();
                }
            } while (kept != null);
            Program.equal(seen.size(), 300, "rows over sessions");
            Program.equal(seen.stream().distinct().count(), 300L, "distinct rows over sessions");
        }
        Program.refused(ProtocolError.class, "Invalid value for the paging state", () -> world.session.execute(
                SimpleStatement.newInstance("SELECT * FROM paged").setPagingState(ByteBuffer.wrap("nonsense".getBytes()))));
    }

    private static void preparedAcrossAlter(Program.World world) {
        world.table("altered", "pk int PRIMARY KEY, a int");
        PreparedStatement insert = world.session.prepare("INSERT INTO altered (pk, a) VALUES (?, ?)");
        PreparedStatement everything = world.session.prepare("SELECT * FROM altered WHERE pk = ?");
        PreparedStatement one = world.session.prepare("SELECT a FROM altered WHERE pk = ?");
        world.session.execute(insert.bind(1, 10));
        Program.equal(world.session.execute(everything.bind(1)).one().getColumnDefinitions().size(), 2, "columns before");
        world.session.execute("ALTER TABLE altered ADD b text");
        world.session.execute(insert.bind(2, 20));
        Program.equal(world.session.execute(one.bind(2)).one().getInt(0), 20, "a named column");
        world.session.execute("UPDATE altered SET b = 'b' WHERE pk = 1");
        Row row = world.session.execute(everything.bind(1)).one();
        Program.equal(row.getInt("a"), 10, "the old column");
        if (world.version >= 5) {
            // The id of the metadata travels with the request, so the same statement sees the new column.
            Program.equal(row.getString("b"), "b", "the new column");
            Program.equal(everything.getResultSetDefinitions().size(), 3, "the new metadata");
        }
        Program.equal(world.session.execute("SELECT * FROM altered WHERE pk = 1").one().getString("b"), "b", "the new column, simple");
        world.session.execute("ALTER TABLE altered DROP a");
        Program.refused(InvalidQueryException.class, "", () -> world.session.execute(insert.bind(3, 30)));
        world.session.execute("ALTER TABLE altered RENAME pk TO id");
        Program.refused(InvalidQueryException.class, "", () -> world.session.execute(everything.bind(1)));
        Program.equal(world.session.execute("SELECT * FROM altered WHERE id = 1").one().getString("b"), "b", "after RENAME");
    }

    /** The table under a prepared statement goes and comes back. */
    private static void preparedAcrossDropAndCreate(Program.World world) {
        world.table("dropped", "pk int PRIMARY KEY, v int");
        PreparedStatement insert = world.session.prepare("INSERT INTO dropped (pk, v) VALUES (?, ?)");
        PreparedStatement select = world.session.prepare("SELECT v FROM dropped WHERE pk = ?");
        world.session.execute(insert.bind(1, 1));
        world.session.execute("DROP TABLE dropped");
        Program.refused(InvalidQueryException.class, "dropped", () -> world.session.execute(select.bind(1)));
        world.session.execute("CREATE TABLE dropped (pk int PRIMARY KEY, v int)");
        Program.require(world.session.execute(select.bind(1)).one() == null, "the new table is empty");
        world.session.execute(BatchStatement.newInstance(DefaultBatchType.LOGGED, insert.bind(1, 2), insert.bind(2, 3)));
        Program.equal(world.session.execute(select.bind(1)).one().getInt(0), 2, "the old statement writes to the new table");
    }

    private static void batches(Program.World world) {
        world.table("batched", "pk int, ck int, v text, PRIMARY KEY (pk, ck)");
        PreparedStatement insert = world.session.prepare("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)");
        for (DefaultBatchType type : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
            int pk = type.ordinal();
            BatchStatement batch = BatchStatement.builder(type)
                    .addStatement(insert.bind(pk, 1, "prepared"))
                    .addStatement(insert.bind(pk + 100, 1, "elsewhere"))
                    .addStatement(SimpleStatement.newInstance("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)", pk, 2, "simple"))
                    .addStatement(SimpleStatement.newInstance("UPDATE batched SET v = 'literal' WHERE pk = " + pk + " AND ck = 3"))
                    .setQueryTimestamp(777)
                    .build();
            world.session.execute(batch);
            List<Row> rows = world.session.execute("SELECT v, writetime(v) FROM batched WHERE pk = ?", pk).all();
            Program.equal(rows.stream().map(row -> row.getString(0) + row.getLong(1)).toList(), List.of("prepared777", "simple777", "literal777"), "a batch");
            Program.equal(world.session.execute("SELECT v FROM batched WHERE pk = ?", pk + 100).one().getString(0), "elsewhere", "the other partition");
        }
        Program.refused(InvalidQueryException.class, "", () -> world.session.execute(
                BatchStatement.newInstance(DefaultBatchType.LOGGED, insert.bind(70, 1, "x"), SimpleStatement.newInstance("INSERT INTO nowhere (pk) VALUES (1)"))));
        Program.require(world.session.execute("SELECT v FROM batched WHERE pk = 70").one() == null, "a refused batch writes nothing");
    }

    /** What was prepared and written before a restart is there after it; whoever runs the program restarts the server. */
    private static void restart(Program.World world) throws IOException, InterruptedException {
        world.table("kept", "pk int PRIMARY KEY, v int, m map<text, int>");
        PreparedStatement insert = world.session.prepare("INSERT INTO kept (pk, v, m) VALUES (?, ?, ?)");
        PreparedStatement select = world.session.prepare("SELECT v, m FROM kept WHERE pk = ?");
        for (int pk = 0; pk < 100; pk++) {
            world.session.execute(insert.bind(pk, pk * 2, Map.of("k", pk)));
        }
        Node node = world.session.getMetadata().getNodes().values().iterator().next();
        UUID hostId = node.getHostId();
        var ring = world.session.getMetadata().getTokenMap().orElseThrow().getTokens(node);
        System.out.println("restart");
        System.out.flush();
        Program.require(System.in.read() >= 0, "nobody restarted the server");
        Program.eventually("connected again", () -> {
            try {
                world.session.execute("SELECT key FROM system.local");
                return true;
            } catch (RuntimeException error) {
                return false;
            }
        }, 60);
        // The driver's control connection comes back by itself, and a change of the schema before that never returns from the driver.
        Program.eventually("the control connection is back", () -> {
            try {
                return world.session.checkSchemaAgreement();
            } catch (RuntimeException error) {
                return false;
            }
        }, 60);
        for (int pk = 0; pk < 100; pk++) {
            Row row = world.session.execute(select.bind(pk)).one();
            Program.equal(row.getInt(0), pk * 2, "a row from before the restart");
            Program.equal(row.getMap(1, String.class, Integer.class), Map.of("k", pk), "its map");
        }
        world.session.execute(insert.bind(1000, 1, Map.of("new", 1)));
        Program.equal(world.session.execute(select.bind(1000)).one().getInt(0), 1, "a row written after it by the statement from before");
        try (CqlSession session = world.connect(null, null)) {
            Node again = session.getMetadata().getNodes().values().iterator().next();
            Program.equal(again.getHostId(), hostId, "the host's id");
            Program.equal(session.getMetadata().getTokenMap().orElseThrow().getTokens(again), ring, "the host's tokens");
        }
    }
}
