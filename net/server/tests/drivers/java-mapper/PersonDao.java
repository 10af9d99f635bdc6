import com.datastax.oss.driver.api.core.PagingIterable;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.mapper.annotations.Dao;
import com.datastax.oss.driver.api.mapper.annotations.Delete;
import com.datastax.oss.driver.api.mapper.annotations.Insert;
import com.datastax.oss.driver.api.mapper.annotations.Query;
import com.datastax.oss.driver.api.mapper.annotations.Select;
import com.datastax.oss.driver.api.mapper.annotations.StatementAttributes;
import com.datastax.oss.driver.api.mapper.annotations.Update;
import com.datastax.oss.driver.api.mapper.entity.saving.NullSavingStrategy;
import java.util.concurrent.CompletionStage;

/** What the mapper generates statements for. */
@Dao
public interface PersonDao {
    @Insert(timestamp = ":at", ttl = ":ttl")
    void save(Person person, long at, int ttl);

    @Insert(ifNotExists = true)
    boolean saveNew(Person person);

    @Insert
    BoundStatement bound(Person person);

    @Select
    Person find(String team, int number);

    @Select
    CompletionStage<Person> findLater(String team, int number);

    @Select(customWhereClause = "team = :team AND number >= :least", orderBy = "number DESC", limit = ":most")
    @StatementAttributes(pageSize = 2)
    PagingIterable<Person> from(String team, int least, int most);

    @Update(nullSavingStrategy = NullSavingStrategy.DO_NOT_SET)
    void update(Person person);

    @Update(customIfClause = "full_name = :expected", nullSavingStrategy = NullSavingStrategy.DO_NOT_SET)
    boolean updateIf(Person person, String expected);

    @Query("SELECT count(*) FROM ${keyspaceId}.people WHERE team = :team")
    long size(String team);

    @Delete
    void remove(Person person);

    @Delete(entityClass = Person.class, ifExists = true)
    boolean removeIfThere(String team, int number);

    @Delete(entityClass = Person.class, customWhereClause = "team = :team AND number > :above")
    ResultSet removeAbove(String team, int above);
}
