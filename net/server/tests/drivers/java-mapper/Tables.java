import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.mapper.annotations.DaoFactory;
import com.datastax.oss.driver.api.mapper.annotations.DaoKeyspace;
import com.datastax.oss.driver.api.mapper.annotations.Mapper;

/** The tables of a keyspace. */
@Mapper
public interface Tables {
    @DaoFactory
    PersonDao people(@DaoKeyspace CqlIdentifier keyspace);

    @DaoFactory
    VisitsDao visits(@DaoKeyspace CqlIdentifier keyspace);
}
