// gocqlx, the object mapper of Go, on ScyllaDB's driver, which knows cores and tablets. Prints one line per check; exits 1 at the first that
// fails.
//
//	program HOST PORT
//
// Everything happens in the keyspaces mapped and mapped_tablets, dropped first and last.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"github.com/scylladb/gocqlx/v3"
	"github.com/scylladb/gocqlx/v3/dbutil"
	"github.com/scylladb/gocqlx/v3/migrate"
	"github.com/scylladb/gocqlx/v3/qb"
	"github.com/scylladb/gocqlx/v3/table"
	"gopkg.in/inf.v0"
)

//go:embed migrations
var scripts embed.FS

type address struct {
	gocqlx.UDT
	Street string
	Number int
}

type everything struct {
	ID         gocql.UUID
	AText      string
	ABigint    int64
	ABool      bool
	ABlob      []byte
	ADouble    float64
	ADecimal   *inf.Dec
	AVarint    *big.Int
	AnInet     net.IP
	ATimestamp time.Time
	ADuration  gocql.Duration
	Numbers    []int
	Names      []string
	Counts     map[string]int64
	Home       address
}

type reading struct {
	Sensor string
	Day    int
	At     int
	Value  float64
	Note   string
	Place  string
}

var (
	all = table.New(table.Metadata{
		Name: "everything",
		Columns: []string{"id", "a_text", "a_bigint", "a_bool", "a_blob", "a_double", "a_decimal", "a_varint", "an_inet", "a_timestamp", "a_duration",
			"numbers", "names", "counts", "home"},
		PartKey: []string{"id"},
	})
	readings = table.New(table.Metadata{
		Name:    "readings",
		Columns: []string{"sensor", "day", "at", "value", "note", "place"},
		PartKey: []string{"sensor", "day"},
		SortKey: []string{"at"},
	})
)

func equal(found, expected any, what string) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("%s: %v instead of %v", what, found, expected)
	}
	return nil
}

func migrated(session gocqlx.Session) error {
	called := 0
	register := migrate.CallbackRegister{}
	register.Add(migrate.CallComment, "values", func(context.Context, gocqlx.Session, migrate.CallbackEvent, string) error {
		called++
		return nil
	})
	migrate.Callback = register.Callback
	files, err := fs.Sub(scripts, "migrations")
	if err != nil {
		return err
	}
	ctx := context.Background()
	pending, err := migrate.Pending(ctx, session, files)
	if err != nil {
		return err
	}
	if err := equal(len(pending), 2, "pending"); err != nil {
		return err
	}
	// Once more changes nothing.
	for range 2 {
		if err := migrate.FromFS(ctx, session, files); err != nil {
			return err
		}
	}
	done, err := migrate.List(ctx, session)
	if err != nil {
		return err
	}
	return equal([]int{len(done), called}, []int{2, 1}, "migrations and calls")
}

func everyType(session gocqlx.Session) error {
	written := everything{
		ID: gocql.TimeUUID(), AText: "日本語 it's", ABigint: -1 << 63, ABool: true, ABlob: []byte{0, 255}, ADouble: 5e-324, ADecimal: inf.NewDec(150, 2),
		AVarint: new(big.Int).Lsh(big.NewInt(1), 100), AnInet: net.ParseIP("2001:db8::1"), ATimestamp: time.UnixMilli(1709208000123).UTC(),
		ADuration: gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, Numbers: []int{3, 1, 3}, Names: []string{"a", "b"},
		Counts: map[string]int64{"k": -1}, Home: address{Street: "Rue Émile 1", Number: 7},
	}
	if err := session.Query(all.Insert()).BindStruct(written).ExecRelease(); err != nil {
		return err
	}
	read := everything{ID: written.ID}
	if err := session.Query(all.Get()).BindStruct(read).GetRelease(&read); err != nil {
		return err
	}
	read.ATimestamp = read.ATimestamp.UTC()
	if err := equal(read.ADecimal.Cmp(written.ADecimal)+read.AVarint.Cmp(written.AVarint), 0, "numbers"); err != nil {
		return err
	}
	read.ADecimal, read.AVarint = written.ADecimal, written.AVarint
	if err := equal(read, written, "a row"); err != nil {
		return err
	}
	if err := session.Query(all.Delete()).BindStruct(read).ExecRelease(); err != nil {
		return err
	}
	gone := session.Query(all.Get()).BindStruct(read).GetRelease(&read)
	return equal(errors.Is(gone, gocql.ErrNotFound), true, "the error of a row that is gone")
}

func queries(session gocqlx.Session) error {
	insert := session.Query(readings.Insert())
	for _, sensor := range []string{"a", "b"} {
		for at := range 30 {
			row := reading{Sensor: sensor, Day: 1, At: at, Value: float64(at) / 2, Note: sensor + strconv.Itoa(at)}
			if err := insert.BindStruct(row).Exec(); err != nil {
				return err
			}
		}
	}
	insert.Release()
	of := qb.M{"sensor": "a", "day": 1, "from": 10, "to": 13, "at": []int{4, 2}}
	ats := func(builder *qb.SelectBuilder) ([]int, error) {
		var rows []reading
		err := builder.Query(session).BindMap(of).SelectRelease(&rows)
		found := make([]int, 0, len(rows))
		for _, row := range rows {
			found = append(found, row.At)
		}
		return found, err
	}
	for _, query := range []struct {
		builder  *qb.SelectBuilder
		expected []int
		what     string
	}{
		{readings.SelectBuilder().Limit(3), []int{29, 28, 27}, "the order of the table"},
		{readings.SelectBuilder().OrderBy("at", qb.ASC).Limit(3), []int{0, 1, 2}, "the other order"},
		{readings.SelectBuilder().Where(qb.GtOrEqNamed("at", "from"), qb.LtNamed("at", "to")), []int{12, 11, 10}, "a slice"},
		{readings.SelectBuilder().Where(qb.In("at")), []int{4, 2}, "IN"},
	} {
		found, err := ats(query.builder)
		if err != nil {
			return fmt.Errorf("%s: %w", query.what, err)
		}
		if err := equal(found, query.expected, query.what); err != nil {
			return err
		}
	}
	// Page by page.
	iter := qb.Select("readings").Query(session).PageSize(7).Iter()
	count, row := 0, reading{}
	for iter.StructScan(&row) {
		count++
	}
	if err := iter.Close(); err != nil {
		return err
	}
	if err := equal(count, 60, "pages"); err != nil {
		return err
	}
	update := session.Query(readings.Update("note")).BindStruct(reading{Sensor: "a", Day: 1, At: 3, Note: "changed"})
	if err := update.ExecRelease(); err != nil {
		return err
	}
	found := reading{Sensor: "a", Day: 1, At: 3}
	if err := session.Query(readings.Get("note", "value")).BindStruct(found).GetRelease(&found); err != nil {
		return err
	}
	return equal([]any{found.Note, found.Value}, []any{"changed", 1.5}, "an update")
}

func conditions(session gocqlx.Session) error {
	row := reading{Sensor: "c", Day: 1, At: 1, Note: "first"}
	for _, expected := range []bool{true, false} {
		applied, err := readings.InsertBuilder().Unique().Query(session).BindStruct(row).ExecCASRelease()
		if err != nil {
			return err
		}
		if err := equal(applied, expected, "IF NOT EXISTS"); err != nil {
			return err
		}
	}
	update := readings.UpdateBuilder("note").If(qb.EqNamed("note", "expected"))
	for _, expected := range []struct {
		note    string
		applied bool
	}{{"other", false}, {"first", true}, {"first", false}} {
		shown := reading{}
		changed := reading{Sensor: "c", Day: 1, At: 1, Note: "second"}
		applied, err := update.Query(session).BindStructMap(changed, qb.M{"expected": expected.note}).GetCASRelease(&shown)
		if err != nil {
			return err
		}
		if err := equal(applied, expected.applied, "IF note = "+expected.note); err != nil {
			return err
		}
	}
	return nil
}

func batches(session gocqlx.Session) error {
	batch := session.NewBatch(gocql.LoggedBatch)
	insert := session.Query(readings.Insert())
	for at := range 5 {
		if err := batch.BindStruct(insert, reading{Sensor: "e", Day: 1, At: at, Note: "batch"}); err != nil {
			return err
		}
	}
	if err := session.ExecuteBatch(batch); err != nil {
		return err
	}
	var rows []reading
	if err := session.Query(readings.Select("at")).BindMap(qb.M{"sensor": "e", "day": 1}).SelectRelease(&rows); err != nil {
		return err
	}
	return equal(len(rows), 5, "a batch")
}

func counters(session gocqlx.Session) error {
	for range 3 {
		add := qb.Update("visits").AddLit("count", "2").Where(qb.EqLit("page", "'/'")).Query(session)
		if err := add.ExecRelease(); err != nil {
			return err
		}
	}
	var count int64
	if err := qb.Select("visits").Columns("count").Where(qb.Eq("page")).Query(session).BindMap(qb.M{"page": "/"}).GetRelease(&count); err != nil {
		return err
	}
	return equal(count, int64(6), "a counter")
}

func rewritten(session gocqlx.Session) error {
	if err := dbutil.RewriteTable(session, readings, readings, func(row map[string]interface{}) { row["place"] = "here" }); err != nil {
		return err
	}
	var places []string
	if err := qb.Select("readings").Columns("place").Query(session).SelectRelease(&places); err != nil {
		return err
	}
	sort.Strings(places)
	return equal([]any{len(places), places[0], places[len(places)-1]}, []any{66, "here", "here"}, "all rows")
}

// Tables with tablets, of which the driver is told where they are, if the server has such.
func tablets(session gocqlx.Session) error {
	if err := session.ExecStmt("DROP KEYSPACE IF EXISTS mapped_tablets"); err != nil {
		return err
	}
	create := "CREATE KEYSPACE mapped_tablets WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
	err := session.ExecStmt(create + " AND tablets = {'initial': 8}")
	if err != nil && strings.Contains(err.Error(), "Unknown property 'tablets'") {
		err = session.ExecStmt(create)
	}
	if err != nil {
		return err
	}
	if err := session.ExecStmt("CREATE TABLE mapped_tablets.rows (id int PRIMARY KEY, note text)"); err != nil {
		return err
	}
	rows := table.New(table.Metadata{Name: "mapped_tablets.rows", Columns: []string{"id", "note"}, PartKey: []string{"id"}})
	type note struct {
		ID   int
		Note string
	}
	for id := range 200 {
		if err := session.Query(rows.Insert()).BindStruct(note{id, strconv.Itoa(id)}).ExecRelease(); err != nil {
			return err
		}
	}
	for id := range 200 {
		found := note{ID: id}
		if err := session.Query(rows.Get()).BindStruct(found).GetRelease(&found); err != nil {
			return err
		}
		if err := equal(found.Note, strconv.Itoa(id), "a row"); err != nil {
			return err
		}
	}
	return session.ExecStmt("DROP KEYSPACE mapped_tablets")
}

func run(host, port string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	cluster := gocql.NewCluster(host)
	cluster.Port, cluster.Timeout, cluster.ConnectTimeout = number, 30*time.Second, 30*time.Second
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	first, err := gocqlx.WrapSession(cluster.CreateSession())
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"DROP KEYSPACE IF EXISTS mapped",
		"CREATE KEYSPACE mapped WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
	} {
		if err := first.ExecStmt(statement); err != nil {
			return err
		}
	}
	defer first.Close()
	cluster.Keyspace = "mapped"
	cluster.PoolConfig.HostSelectionPolicy = gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	session, err := gocqlx.WrapSession(cluster.CreateSession())
	if err != nil {
		return err
	}
	defer session.Close()
	for _, check := range []struct {
		name string
		run  func(gocqlx.Session) error
	}{
		{"migrations", migrated}, {"every type", everyType}, {"queries", queries}, {"conditions", conditions}, {"batches", batches},
		{"counters", counters}, {"rewritten rows", rewritten}, {"tablets", tablets},
	} {
		if err := check.run(session); err != nil {
			return fmt.Errorf("%s: %w", check.name, err)
		}
		fmt.Printf("gocqlx %s: ok\n", check.name)
	}
	return first.ExecStmt("DROP KEYSPACE mapped")
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "program HOST PORT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
