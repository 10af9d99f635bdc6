package main

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"net"
	"strings"
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

func day(text string) time.Time {
	t, _ := time.Parse("2006-01-02", text)
	return t
}

func number(text string) *big.Int {
	n, _ := new(big.Int).SetString(text, 10)
	return n
}

func decimal(text string) *inf.Dec {
	d, _ := new(inf.Dec).SetString(text)
	return d
}

// What a value looks like once it has been read.
func shown(value any) string {
	switch v := value.(type) {
	case []byte:
		return fmt.Sprintf("%x", v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case float64:
		return fmt.Sprintf("%x", math.Float64bits(v))
	case float32:
		return fmt.Sprintf("%x", math.Float32bits(v))
	case net.IP:
		return v.String()
	default:
		return fmt.Sprintf("%v", v)
	}
}

func native[T any](w *world, cqlType string, values ...T) error {
	name := "n_" + cqlType
	if err := w.table(name, "pk int PRIMARY KEY, v "+cqlType); err != nil {
		return err
	}
	for pk, value := range values {
		if err := w.exec("INSERT INTO "+name+" (pk, v) VALUES (?, ?)", pk, value); err != nil {
			return err
		}
		var found T
		if err := w.session.Query("SELECT v FROM "+name+" WHERE pk = ?", pk).Scan(&found); err != nil {
			return fmt.Errorf("%s: %w", cqlType, err)
		}
		if shown(found) != shown(value) {
			return fmt.Errorf("%s: found %s, expected %s", cqlType, shown(found), shown(value))
		}
	}
	return nil
}

// Every native type with values at its edges.
func values(w *world) error {
	parse := func(text string) gocql.UUID {
		id, _ := gocql.ParseUUID(text)
		return id
	}
	long := strings.Repeat("x", 70_000)
	return all(
		native(w, "ascii", "", "plain"),
		native[int64](w, "bigint", 0, -1, math.MaxInt64, math.MinInt64),
		native(w, "blob", []byte{}, []byte{0}, bytes.Repeat([]byte{255}, 70_000)),
		native(w, "boolean", true, false),
		native(w, "date", day("1970-01-01"), day("1969-12-31"), day("2024-02-29")),
		native(w, "decimal", decimal("0"), decimal("-0.00"), decimal("1.50"), decimal("-123456789012345678901234567890.123456789")),
		native(w, "double", 0.0, math.Copysign(0, -1), 1.5, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1), math.Inf(-1)),
		native[float32](w, "float", 0, -1.5, math.SmallestNonzeroFloat32, math.MaxFloat32),
		native(w, "inet", net.ParseIP("127.0.0.1").To4(), net.ParseIP("2001:db8::1")),
		native[int32](w, "int", 0, -1, math.MaxInt32, math.MinInt32),
		native[int16](w, "smallint", 0, -1, math.MaxInt16, math.MinInt16),
		native[int8](w, "tinyint", 0, -1, math.MaxInt8, math.MinInt8),
		native(w, "text", "", "grün", "日本語", "🦀", "it's \x00 \n", long),
		native(w, "time", time.Duration(0), time.Duration(1), 24*time.Hour-1),
		native(w, "timestamp", time.UnixMilli(0), time.UnixMilli(-1), time.Date(2024, 2, 29, 12, 0, 0, 123_000_000, time.UTC)),
		native(w, "timeuuid", parse("50554d6e-29bb-11e5-b345-feff819cdc9f")),
		native(w, "uuid", parse("550e8400-e29b-41d4-a716-446655440000"), gocql.UUID{}),
		native(w, "varint", number("0"), number("-129"), new(big.Int).Exp(big.NewInt(2), big.NewInt(1000), nil)),
		durations(w),
	)
}

// The driver knows durations from the fifth version of the protocol on, and reads them in the fourth too.
func durations(w *world) error {
	if w.version < 4 {
		return nil
	}
	return native(w, "duration", gocql.Duration{}, gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, gocql.Duration{Months: -1, Days: -2, Nanoseconds: -3})
}

type address struct {
	Street string   `cql:"street"`
	Number int      `cql:"number"`
	Tags   []string `cql:"tags"`
}

func collections(w *world) error {
	if err := all(
		w.exec("DROP TABLE IF EXISTS collected"),
		w.exec("CREATE TYPE address (street text, number int, tags frozen<set<text>>)"),
		w.table("collected", "pk int PRIMARY KEY, l list<int>, s set<text>, m map<text, bigint>, n frozen<map<int, frozen<list<text>>>>, t tuple<int, text>, u frozen<address>, us list<frozen<address>>"),
	); err != nil {
		return err
	}
	home := address{"Rue Émile 1", 7, []string{"a", "ß"}}
	nested := map[int][]string{1: {"a", "b"}, 2: {}}
	err := w.exec("INSERT INTO collected (pk, l, s, m, n, t, u, us) VALUES (?, ?, ?, ?, ?, (?, ?), ?, ?)",
		1, []int{3, 1, 2}, []string{"z", "a"}, map[string]int64{"k": -1}, nested, 5, "five", home, []address{home})
	if err != nil {
		return err
	}
	var (
		l  []int
		s  []string
		m  map[string]int64
		n  map[int][]string
		t1 int
		t2 string
		u  address
		us []address
	)
	query := w.session.Query("SELECT l, s, m, n, t, u, us FROM collected WHERE pk = ?", 1)
	if err := query.Scan(&l, &s, &m, &n, &t1, &t2, &u, &us); err != nil {
		return err
	}
	return all(
		equal(l, []int{3, 1, 2}, "list"), equal(s, []string{"a", "z"}, "set"), equal(m, map[string]int64{"k": -1}, "map"),
		equal(n, nested, "nested"), equal(t1, 5, "tuple"), equal(t2, "five", "tuple"), equal(u, home, "user type"),
		equal(us, []address{home}, "list of a user type"),
	)
}

func nullsAndUnset(w *world) error {
	if err := w.table("optional", "pk int PRIMARY KEY, a int, b text"); err != nil {
		return err
	}
	a, b := 1, "x"
	if err := w.exec("INSERT INTO optional (pk, a, b) VALUES (?, ?, ?)", 1, &a, &b); err != nil {
		return err
	}
	read := func() (*int, *string, error) {
		var a *int
		var b *string
		err := w.session.Query("SELECT a, b FROM optional WHERE pk = 1").Scan(&a, &b)
		return a, b, err
	}
	if w.version >= 4 {
		if err := w.exec("INSERT INTO optional (pk, a, b) VALUES (?, ?, ?)", 1, gocql.UnsetValue, nil); err != nil {
			return err
		}
		a, b, err := read()
		if err := all(err, equal(a != nil && *a == 1, true, "unset leaves the value"), equal(b == nil, true, "null deletes")); err != nil {
			return err
		}
	}
	if err := w.exec("INSERT INTO optional (pk, a) VALUES (?, ?)", 1, nil); err != nil {
		return err
	}
	left, _, err := read()
	return all(err, equal(left == nil, true, "null"))
}
