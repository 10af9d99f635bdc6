import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/** Every CQL type with values at its edges. */
final class Values {
    private Values() {}

    static final UUID TIMEUUID = UUID.fromString("50554d6e-29bb-11e5-b345-feff819cdc9f");

    /** A blob of this many bytes. */
    static ByteBuffer blob(int size, int value) {
        byte[] bytes = new byte[size];
        Arrays.fill(bytes, (byte) value);
        return ByteBuffer.wrap(bytes);
    }

    private static InetAddress inet(String text) {
        try {
            return InetAddress.getByName(text);
        } catch (UnknownHostException error) {
            throw new IllegalArgumentException(error);
        }
    }

    static Map<String, List<?>> natives() {
        Map<String, List<?>> types = new LinkedHashMap<>();
        types.put("ascii", List.of("", "plain", "it's"));
        types.put("bigint", List.of(0L, -1L, Long.MAX_VALUE, Long.MIN_VALUE));
        types.put("blob", List.of(blob(0, 0), blob(1, 0), blob(70_000, 0xff)));
        types.put("boolean", List.of(true, false));
        types.put("date", List.of(LocalDate.ofEpochDay(0), LocalDate.ofEpochDay(-1), LocalDate.ofEpochDay(Integer.MIN_VALUE), LocalDate.ofEpochDay(Integer.MAX_VALUE)));
        types.put("decimal", List.of(BigDecimal.ZERO, new BigDecimal("1.50"), new BigDecimal("-1E+10"), new BigDecimal("1E-40"), new BigDecimal(BigInteger.TWO.pow(300), 77)));
        types.put("double", List.of(0.0, -0.0, Double.MIN_VALUE, Double.MAX_VALUE, Double.NEGATIVE_INFINITY, Double.NaN));
        types.put("duration", List.of(CqlDuration.newInstance(0, 0, 0), CqlDuration.newInstance(1, 2, 3), CqlDuration.newInstance(-1, -2, -3),
                CqlDuration.newInstance(Integer.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE)));
        types.put("float", List.of(0.0f, -1.5f, Float.MIN_VALUE, Float.MAX_VALUE, Float.POSITIVE_INFINITY, Float.NaN));
        types.put("inet", List.of(inet("0.0.0.0"), inet("255.255.255.255"), inet("::"), inet("2001:db8::1")));
        types.put("int", List.of(0, -1, Integer.MAX_VALUE, Integer.MIN_VALUE));
        types.put("smallint", List.of((short) 0, (short) -1, Short.MAX_VALUE, Short.MIN_VALUE));
        types.put("text", List.of("", "grün", "日本語", "\uD83E\uDD80", "it's \0 \n", "x".repeat(70_000)));
        types.put("time", List.of(LocalTime.MIDNIGHT, LocalTime.ofNanoOfDay(1), LocalTime.MAX));
        types.put("timestamp", List.of(Instant.EPOCH, Instant.ofEpochMilli(-1), Instant.ofEpochMilli(Long.MIN_VALUE), Instant.ofEpochMilli(Long.MAX_VALUE)));
        types.put("timeuuid", List.of(TIMEUUID, UUID.fromString("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f")));
        types.put("tinyint", List.of((byte) 0, (byte) -1, Byte.MAX_VALUE, Byte.MIN_VALUE));
        types.put("uuid", List.of(new UUID(0, 0), new UUID(-1, -1), UUID.fromString("550e8400-e29b-41d4-a716-446655440000")));
        types.put("varint", List.of(BigInteger.ZERO, BigInteger.ONE.negate(), BigInteger.valueOf(128), BigInteger.valueOf(-129), BigInteger.TWO.pow(1000).negate()));
        return types;
    }

    static void createUserTypes(CqlSession session) {
        session.execute("CREATE TYPE IF NOT EXISTS address (street text, number int, tags frozen<set<text>>)");
        session.execute("CREATE TYPE IF NOT EXISTS person (name text, home frozen<address>, point frozen<tuple<int, text>>, "
                + "scores frozen<map<text, frozen<list<bigint>>>>)");
    }

    static Map<String, List<?>> composites(CqlSession session, String keyspace) {
        var known = session.getMetadata().getKeyspace(keyspace).orElseThrow();
        UserDefinedType addressType = known.getUserDefinedType("address").orElseThrow();
        UserDefinedType personType = known.getUserDefinedType("person").orElseThrow();
        TupleType point = (TupleType) personType.getFieldTypes().get(2);
        UdtValue home = addressType.newValue("Rue Émile 1", 7, Set.of("a", "ß"));
        UdtValue person = personType.newValue("Ada", home, point.newValue(1, "x"), Map.of("go", List.of(1L, Long.MIN_VALUE), "chess", List.of()));
        UdtValue sparse = personType.newValue(null, addressType.newValue(null, 1, null), point.newValue(null, "x"), Map.of());
        TupleType pair = DataTypes.tupleOf(DataTypes.INT, DataTypes.TEXT);
        TupleType inner = DataTypes.tupleOf(DataTypes.TEXT, DataTypes.UUID);
        TupleType nested = DataTypes.tupleOf(DataTypes.INT, inner, DataTypes.frozenListOf(DataTypes.INT));
        TupleValue gap = pair.newValue(null, "a");

        Map<String, List<?>> types = new LinkedHashMap<>();
        types.put("list<int>", List.of(List.of(1), List.of(3, Integer.MIN_VALUE, 3)));
        types.put("set<text>", List.of(Set.of(""), Set.of("b", "a", "ü")));
        types.put("map<text, int>", List.of(Map.of("", 0), Map.of("k", Integer.MAX_VALUE, "l", -1)));
        types.put("map<timeuuid, frozen<list<text>>>", List.of(Map.of(TIMEUUID, List.of("a", ""))));
        types.put("frozen<list<text>>", List.of(List.of(), List.of(""), List.of("a", "b".repeat(70_000))));
        types.put("frozen<set<int>>", List.of(Set.of(), Set.of(3, -1, 2)));
        types.put("frozen<map<int, text>>", List.of(Map.of(), Map.of(1, "", -1, "x")));
        types.put("list<frozen<map<int, frozen<set<text>>>>>", List.of(List.of(Map.of(1, Set.of("a", "b"), 2, Set.of()), Map.of())));
        types.put("set<frozen<list<frozen<tuple<int, text>>>>>", List.of(Set.of(List.of(pair.newValue(1, "a"), pair.newValue(2, null)), List.of())));
        types.put("map<frozen<set<int>>, frozen<map<text, frozen<list<double>>>>>", List.of(Map.of(Set.of(1, 2), Map.of("x", List.of(0.5, -0.0)))));
        types.put("tuple<int, text>", List.of(pair.newValue(1, "a"), gap, pair.newValue()));
        types.put("frozen<tuple<int, frozen<tuple<text, uuid>>, frozen<list<int>>>>",
                List.of(nested.newValue(1, inner.newValue("a", TIMEUUID), List.of(1, 2)), nested.newValue(1, inner.newValue(), null)));
        types.put("frozen<address>", List.of(home, addressType.newValue(), addressType.newValue("", 0, Set.of())));
        types.put("address", List.of(home, addressType.newValue("only", null, null)));
        types.put("person", List.of(person, sparse));
        types.put("list<frozen<person>>", List.of(List.of(person, sparse)));
        types.put("map<frozen<address>, frozen<person>>", List.of(Map.of(addressType.newValue("key", null, Set.of("one")), person)));
        types.put("vector<float, 3>", List.of(CqlVector.newInstance(0.5f, -1.5f, Float.POSITIVE_INFINITY)));
        types.put("vector<int, 1>", List.of(CqlVector.newInstance(Integer.MIN_VALUE)));
        types.put("vector<text, 2>", List.of(CqlVector.newInstance("", "ü".repeat(300))));
        types.put("vector<frozen<list<int>>, 2>", List.of(CqlVector.newInstance(List.of(List.of(), List.of(1, 2, 3)))));
        types.put("vector<frozen<vector<bigint, 2>>, 2>", List.of(CqlVector.newInstance(List.of(CqlVector.newInstance(1L, -1L), CqlVector.newInstance(2L, -2L)))));
        types.put("list<frozen<vector<double, 2>>>", List.of(List.of(CqlVector.newInstance(0.5, 1.5), CqlVector.newInstance(Double.NaN, 0.0))));
        return types;
    }
}
