import com.datastax.driver.core.Session;
import com.datastax.driver.mapping.Mapper;
import com.datastax.driver.mapping.MappingManager;
import com.datastax.driver.mapping.Result;
import com.datastax.driver.mapping.annotations.Accessor;
import com.datastax.driver.mapping.annotations.ClusteringColumn;
import com.datastax.driver.mapping.annotations.Column;
import com.datastax.driver.mapping.annotations.Computed;
import com.datastax.driver.mapping.annotations.Frozen;
import com.datastax.driver.mapping.annotations.Param;
import com.datastax.driver.mapping.annotations.PartitionKey;
import com.datastax.driver.mapping.annotations.Query;
import com.datastax.driver.mapping.annotations.Table;
import com.datastax.driver.mapping.annotations.UDT;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The object mapper of the third line of the Java driver: create, read, update, query, delete. */
final class Mapped {
    private Mapped() {}

    @UDT(name = "address")
    public static class Address {
        private String street;
        private int number;
        private Set<String> tags;

        public Address() {}

        Address(String street, int number, Set<String> tags) {
            this.street = street;
            this.number = number;
            this.tags = tags;
        }

        public String getStreet() { return street; }
        public void setStreet(String street) { this.street = street; }
        public int getNumber() { return number; }
        public void setNumber(int number) { this.number = number; }
        public Set<String> getTags() { return tags; }
        public void setTags(Set<String> tags) { this.tags = tags; }
    }

    @Table(name = "people")
    public static class Person {
        @PartitionKey private String team;
        @ClusteringColumn private int number;
        @Column(name = "full_name") private String name;
        @Frozen private Address home;
        private List<Integer> scores;
        private Map<String, Long> counts;
        @Computed("writetime(full_name)") private Long written;

        public String getTeam() { return team; }
        public void setTeam(String team) { this.team = team; }
        public int getNumber() { return number; }
        public void setNumber(int number) { this.number = number; }
        public String getName() { return name; }
        public void setName(String name) { this.name = name; }
        public Address getHome() { return home; }
        public void setHome(Address home) { this.home = home; }
        public List<Integer> getScores() { return scores; }
        public void setScores(List<Integer> scores) { this.scores = scores; }
        public Map<String, Long> getCounts() { return counts; }
        public void setCounts(Map<String, Long> counts) { this.counts = counts; }
        public Long getWritten() { return written; }
        public void setWritten(Long written) { this.written = written; }
    }

    @Accessor
    public interface People {
        @Query("SELECT * FROM people WHERE team = :team AND number >= :least")
        Result<Person> from(@Param("team") String team, @Param("least") int least);

        @Query("UPDATE people SET full_name = :name WHERE team = :team AND number = :number")
        void rename(@Param("team") String team, @Param("number") int number, @Param("name") String name);
    }

    static void run(Session session, String keyspace) {
        session.execute("DROP TABLE IF EXISTS people");
        session.execute("CREATE TYPE IF NOT EXISTS address (street text, number int, tags frozen<set<text>>)");
        session.execute("CREATE TABLE people (team text, number int, full_name text, home frozen<address>, scores list<int>, counts map<text, bigint>, "
                + "PRIMARY KEY (team, number))");
        MappingManager manager = new MappingManager(session);
        Mapper<Person> mapper = manager.mapper(Person.class, keyspace);
        for (int number = 0; number < 10; number++) {
            Person person = new Person();
            person.setTeam("red");
            person.setNumber(number);
            person.setName("name " + number);
            person.setHome(new Address("street", number, Set.of("x")));
            person.setScores(List.of(number, 1));
            person.setCounts(Map.of("k", (long) number));
            mapper.save(person, Mapper.Option.timestamp(1000 + number));
        }
        Person found = mapper.get("red", 3);
        Program3.equal(List.of(found.getName(), found.getHome().getNumber(), found.getScores(), found.getCounts(), found.getWritten()),
                List.of("name 3", 3, List.of(3, 1), Map.of("k", 3L), 1003L), "a person");
        People people = manager.createAccessor(People.class);
        Program3.equal(people.from("red", 7).all().size(), 3, "a query");
        people.rename("red", 3, "renamed");
        Program3.equal(mapper.get("red", 3).getName(), "renamed", "an update");
        Person without = new Person();
        without.setTeam("red");
        without.setNumber(4);
        mapper.save(without, Mapper.Option.saveNullFields(false));
        Program3.equal(mapper.get("red", 4).getName(), "name 4", "fields that are not there");
        mapper.delete("red", 4);
        Program3.equal(mapper.get("red", 4), null, "deleted");
    }
}
