import com.datastax.oss.driver.api.mapper.annotations.CqlName;
import com.datastax.oss.driver.api.mapper.annotations.Entity;
import java.util.Objects;
import java.util.Set;

/** A user type of the mapped tables. */
@Entity
@CqlName("address")
public class Address {
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

    @Override
    public boolean equals(Object other) {
        return other instanceof Address that && Objects.equals(street, that.street) && number == that.number && Objects.equals(tags, that.tags);
    }

    @Override
    public int hashCode() {
        return Objects.hash(street, number, tags);
    }
}
