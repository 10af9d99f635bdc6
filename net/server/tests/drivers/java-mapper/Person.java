import com.datastax.oss.driver.api.mapper.annotations.ClusteringColumn;
import com.datastax.oss.driver.api.mapper.annotations.Computed;
import com.datastax.oss.driver.api.mapper.annotations.CqlName;
import com.datastax.oss.driver.api.mapper.annotations.Entity;
import com.datastax.oss.driver.api.mapper.annotations.PartitionKey;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** A row of the table people. */
@Entity
@CqlName("people")
public class Person {
    @PartitionKey private String team;
    @ClusteringColumn private int number;
    @CqlName("full_name") private String name;
    private Address home;
    private UUID badge;
    private BigDecimal balance;
    private LocalDate born;
    private Instant seen;
    private List<Integer> scores;
    private Map<String, List<Address>> places;
    @Computed("writetime(full_name)") private long written;

    public Person() {}

    Person(String team, int number) {
        this.team = team;
        this.number = number;
    }

    public String getTeam() { return team; }
    public void setTeam(String team) { this.team = team; }
    public int getNumber() { return number; }
    public void setNumber(int number) { this.number = number; }
    public String getName() { return name; }
    public void setName(String name) { this.name = name; }
    public Address getHome() { return home; }
    public void setHome(Address home) { this.home = home; }
    public UUID getBadge() { return badge; }
    public void setBadge(UUID badge) { this.badge = badge; }
    public BigDecimal getBalance() { return balance; }
    public void setBalance(BigDecimal balance) { this.balance = balance; }
    public LocalDate getBorn() { return born; }
    public void setBorn(LocalDate born) { this.born = born; }
    public Instant getSeen() { return seen; }
    public void setSeen(Instant seen) { this.seen = seen; }
    public List<Integer> getScores() { return scores; }
    public void setScores(List<Integer> scores) { this.scores = scores; }
    public Map<String, List<Address>> getPlaces() { return places; }
    public void setPlaces(Map<String, List<Address>> places) { this.places = places; }
    public long getWritten() { return written; }
    public void setWritten(long written) { this.written = written; }
}
