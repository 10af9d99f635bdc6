import com.datastax.oss.driver.api.mapper.annotations.Entity;
import com.datastax.oss.driver.api.mapper.annotations.PartitionKey;

/** A row of the table of counters. */
@Entity
public class Visits {
    @PartitionKey private String page;
    private long count;

    public String getPage() { return page; }
    public void setPage(String page) { this.page = page; }
    public long getCount() { return count; }
    public void setCount(long count) { this.count = count; }
}
