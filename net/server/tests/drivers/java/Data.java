import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.type.DataType;
import com.datastax.oss.driver.api.core.type.codec.TypeCodec;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/** Checks of values: every type both ways, null, unset and empty, by position and by name, large ones. */
final class Data {
    private Data() {}

    static void register(Map<String, Program.Check> checks) {
        checks.put("native_types", world -> bothWays(world, "natives", Values.natives()));
        checks.put("composite_types", world -> {
            Values.createUserTypes(world.session);
            bothWays(world, "composites", Values.composites(world.session, world.keyspace));
        });
        checks.put("values_of_simple_statements", Data::valuesOfSimpleStatements);
        checks.put("empty_values", Data::emptyValues);
        checks.put("null_and_unset", Data::nullAndUnset);
        checks.put("large_values", Data::largeValues);
    }

    /** Writes every value bound and as a literal, and reads it by simple and by prepared statements. */
    private static void bothWays(Program.World world, String table, Map<String, List<?>> types) {
        StringBuilder columns = new StringBuilder("pk int PRIMARY KEY");
        int number = 0;
        for (String type : types.keySet()) {
            columns.append(", c").append(number++).append(' ').append(type);
        }
        world.table(table, columns.toString());
        number = 0;
        int pk = 0;
        for (Map.Entry<String, List<?>> type : types.entrySet()) {
            String column = "c" + number++;
            PreparedStatement insert = world.session.prepare("INSERT INTO " + table + " (pk, " + column + ") VALUES (?, ?)");
            PreparedStatement select = world.session.prepare("SELECT " + column + " FROM " + table + " WHERE pk = ?");
            DataType described = insert.getVariableDefinitions().get(1).getType();
            TypeCodec<Object> codec = world.session.getContext().getCodecRegistry().codecFor(described);
            for (Object value : type.getValue()) {
                pk++;
                world.session.execute(insert.bind().setInt(0, pk).set(1, value, codec));
                same(world.session.execute(select.bind(pk)).one(), codec, value, type.getKey() + " bound, prepared");
                same(world.session.execute("SELECT " + column + " FROM " + table + " WHERE pk = " + pk).one(), codec, value, type.getKey() + " bound, simple");
                String literal = codec.format(value);
                // The driver prints a duration of nothing as nothing, and the years before 1 without a sign.
                if (literal.length() > 10_000 || literal.isEmpty() || value.equals(Instant.ofEpochMilli(Long.MIN_VALUE))) {
                    continue;
                }
                pk++;
                world.session.execute("INSERT INTO " + table + " (pk, " + column + ") VALUES (" + pk + ", " + literal + ")");
                same(world.session.execute(select.bind(pk)).one(), codec, value, type.getKey() + " literal " + literal);
            }
            pk++;
            world.session.execute(insert.bind().setInt(0, pk).setToNull(1));
            Program.require(world.session.execute(select.bind(pk)).one().isNull(0), type.getKey() + " null");
        }
    }

    private static void same(Row row, TypeCodec<Object> codec, Object value, String what) {
        Program.equal(row.get(0, codec), value, what);
    }

    /** Values of a QUERY, by position and by name. */
    private static void valuesOfSimpleStatements(Program.World world) {
        world.table("bound", "pk int, ck text, v double, b blob, PRIMARY KEY (pk, ck)");
        world.session.execute("INSERT INTO bound (pk, ck, v, b) VALUES (?, ?, ?, ?)", 1, "a", 1.5, ByteBuffer.wrap(new byte[] {1, 2}));
        world.session.execute("INSERT INTO bound (pk, ck, v) VALUES (:key, :name, :value)", Map.of("value", 2.5, "name", "b", "key", 1));
        world.session.execute(SimpleStatement.builder("UPDATE bound SET v = :\"Value\" WHERE pk = :x AND ck = 'c'")
                .addNamedValue("\"Value\"", 3.5).addNamedValue("x", 1).build());
        List<Row> rows = world.session.execute("SELECT ck, v, b FROM bound WHERE pk = ?", 1).all();
        Program.equal(rows.stream().map(row -> row.getString(0) + row.getDouble(1)).toList(), List.of("a1.5", "b2.5", "c3.5"), "values");
        Program.equal(rows.get(0).getByteBuffer(2), ByteBuffer.wrap(new byte[] {1, 2}), "the blob");
        Program.equal(world.session.execute("SELECT ck FROM bound WHERE pk = :pk AND ck > :ck LIMIT :n", Map.of("pk", 1, "ck", "a", "n", 1)).one().getString(0), "b", "by name");
        Program.refused(InvalidQueryException.class, "Expected 4 or 0 byte int (5)", () -> world.session.execute("SELECT ck FROM bound WHERE pk = ?", "five5"));
        Program.refused(InvalidQueryException.class, "", () -> world.session.execute("SELECT ck FROM bound WHERE pk = ? AND ck = ?", 1));
    }

    /** A value of zero bytes is neither null nor zero. */
    private static void emptyValues(Program.World world) {
        List<String> kinds = List.of("bigint", "boolean", "decimal", "double", "float", "inet", "int", "timestamp", "timeuuid", "uuid", "varint");
        StringBuilder columns = new StringBuilder("pk int PRIMARY KEY, l list<int>, fl frozen<list<int>>");
        kinds.forEach(kind -> columns.append(", ").append(kind).append("_ ").append(kind));
        world.table("empties", columns.toString());
        for (String kind : kinds) {
            PreparedStatement insert = world.session.prepare("INSERT INTO empties (pk, " + kind + "_) VALUES (1, ?)");
            world.session.execute(insert.bind().setBytesUnsafe(0, ByteBuffer.allocate(0)));
            Row row = world.session.execute("SELECT " + kind + "_, " + kind + "_as_blob(" + kind + "_) FROM empties WHERE pk = 1").one();
            Program.equal(row.getBytesUnsafe(0), ByteBuffer.allocate(0), "empty " + kind);
            Program.equal(row.getByteBuffer(1), ByteBuffer.allocate(0), "bytes of an empty " + kind);
        }
        PreparedStatement insert = world.session.prepare("INSERT INTO empties (pk, l, fl) VALUES (2, ?, ?)");
        world.session.execute(insert.bind(List.of(), List.of()));
        Row row = world.session.execute("SELECT l, fl FROM empties WHERE pk = 2").one();
        Program.require(row.isNull(0) && !row.isNull(1), "empty collections");
    }

    private static void nullAndUnset(Program.World world) {
        world.table("nulls", "pk int, ck int, a int, b text, s set<int>, PRIMARY KEY (pk, ck)");
        PreparedStatement insert = world.session.prepare("INSERT INTO nulls (pk, ck, a, b, s) VALUES (?, ?, ?, ?, ?)");
        world.session.execute(insert.bind(1, 1, 1, "b", Set.of(1)));
        world.session.execute(insert.bind().setInt(0, 1).setInt(1, 1).setToNull(2));
        Row row = world.session.execute("SELECT a, b, s FROM nulls").one();
        Program.require(row.isNull(0), "null deletes");
        Program.equal(row.getString(1), "b", "unset leaves");
        Program.equal(row.getSet(2, Integer.class), Set.of(1), "unset leaves a collection");
        Program.refused(InvalidQueryException.class, "Invalid unset value for column ck", () -> world.session.execute(insert.bind().setInt(0, 1)));
        world.session.execute(insert.bind(1, 1, null, "c", null));
        row = world.session.execute("SELECT a, b, s FROM nulls").one();
        Program.require(row.isNull(0) && row.isNull(2) && "c".equals(row.getString(1)), "nulls");
        Program.refused(InvalidQueryException.class, "Invalid null value in condition for column pk", () -> world.session.execute(insert.bind(null, 1, 1, "b", null)));
    }

    /** Frames that span several segments of v5 and many packets. */
    private static void largeValues(Program.World world) {
        world.table("large", "pk int PRIMARY KEY, v blob");
        PreparedStatement insert = world.session.prepare("INSERT INTO large (pk, v) VALUES (?, ?)");
        PreparedStatement select = world.session.prepare("SELECT v FROM large WHERE pk = ?");
        int pk = 0;
        for (int size : new int[] {131_000, 131_071, 131_072, 262_144, 4_000_000}) {
            byte[] noise = new byte[size];
            new Random(size).nextBytes(noise);
            for (ByteBuffer value : List.of(ByteBuffer.wrap(noise), Values.blob(size, 7))) {
                world.session.execute(insert.bind(++pk, value));
                Program.require(world.session.execute(select.bind(pk)).one().getByteBuffer(0).equals(value), size + " bytes came back otherwise");
            }
        }
    }
}
