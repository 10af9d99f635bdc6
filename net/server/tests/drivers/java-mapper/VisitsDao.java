import com.datastax.oss.driver.api.mapper.annotations.Dao;
import com.datastax.oss.driver.api.mapper.annotations.Increment;
import com.datastax.oss.driver.api.mapper.annotations.Select;

/** Counters. */
@Dao
public interface VisitsDao {
    @Increment(entityClass = Visits.class)
    void add(String page, long count);

    @Select
    Visits find(String page);
}
