// The Go driver against a CQL server, as applications use it. Prints one line per check; exits 1 at the first that fails.
//
//	program HOST[,HOST...] PORT VERSION-COMPRESSION... [--only=NAMES] [--restarts] [--ca=FILE] [--login=USER:PASSWORD]
//
// A variant is like v4-snappy or v5-lz4. With --restarts the program prints "restart" and reads a line when the server is
// to be restarted by whoever runs it. With --ca the connections are encrypted and the server shows a certificate that
// FILE has signed. Everything happens in keyspaces of its own, dropped first and last.
//
// The program is built twice: v1 and v2 have what differs between the two lines of the driver, and prepare puts the second
// one's name into the imports.
package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocql/gocql"
)

// A check; fails by returning an error.
type check struct {
	name string
	run  func(*world) error
}

var checks = []check{
	{"values", values},
	{"collections", collections},
	{"nulls_and_unset", nullsAndUnset},
	{"paging", paging},
	{"paging_resumed", pagingResumed},
	{"prepared_across_alter", preparedAcrossAlter},
	{"batches", batches},
	{"conditional", conditional},
	{"counters", counters},
	{"errors", refusals},
	{"tracing", tracing},
	{"warnings", warnings},
	{"metadata", metadata},
	{"ring", ring},
	{"ten_thousand_at_once", tenThousandAtOnce},
	{"restart", restart},
}

// One server or cluster, one protocol version, one compression, one session that the checks share.
type world struct {
	hosts       []string
	port        int
	version     int
	compression string
	keyspace    string
	session     *gocql.Session
	restarts    bool
}

// The file with the certificate of the authority, empty for plain connections; a name and a password, empty without a login.
var ca, login string

func (w *world) connect(keyspace string) (*gocql.Session, error) {
	return w.connectBy(keyspace, gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy()))
}

func (w *world) connectBy(keyspace string, policy gocql.HostSelectionPolicy) (*gocql.Session, error) {
	cluster := gocql.NewCluster(w.hosts...)
	cluster.Port = w.port
	cluster.ProtoVersion = w.version
	cluster.Keyspace = keyspace
	cluster.Timeout = 30 * time.Second
	cluster.ConnectTimeout = 30 * time.Second
	cluster.ReconnectInterval = 200 * time.Millisecond
	cluster.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 1000, Interval: 100 * time.Millisecond}
	cluster.PoolConfig.HostSelectionPolicy = policy
	cluster.NumConns = 2
	cluster.Compressor = compressors[w.compression]
	if ca != "" {
		cluster.SslOpts = &gocql.SslOptions{CaPath: ca, EnableHostVerification: false}
	}
	if name, password, found := strings.Cut(login, ":"); found {
		cluster.Authenticator = gocql.PasswordAuthenticator{Username: name, Password: password}
	}
	return cluster.CreateSession()
}

func (w *world) exec(statement string, values ...any) error {
	if err := w.session.Query(statement, values...).Exec(); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Makes a table anew.
func (w *world) table(name, columns string) error {
	if err := w.exec("DROP TABLE IF EXISTS " + name); err != nil {
		return err
	}
	return w.exec("CREATE TABLE " + name + " (" + columns + ")")
}

func open(hosts []string, port int, variant string, restarts bool) (*world, error) {
	version, compression, _ := strings.Cut(strings.TrimPrefix(variant, "v"), "-")
	number, err := strconv.Atoi(version)
	if err != nil {
		return nil, err
	}
	w := &world{hosts: hosts, port: port, version: number, compression: compression, restarts: restarts}
	w.keyspace = "go_v" + version + "_" + compression
	first, err := w.connect("")
	if err != nil {
		return nil, err
	}
	defer first.Close()
	create := fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", w.keyspace, min(len(hosts), 3))
	for _, statement := range []string{"DROP KEYSPACE IF EXISTS " + w.keyspace, create} {
		if err := first.Query(statement).Exec(); err != nil {
			return nil, err
		}
	}
	w.session, err = w.connect(w.keyspace)
	return w, err
}

func (w *world) drop() error {
	last, err := w.connect("")
	if err != nil {
		return err
	}
	defer last.Close()
	return last.Query("DROP KEYSPACE IF EXISTS " + w.keyspace).Exec()
}

func equal(found, expected any, what string) error {
	if f, e := fmt.Sprintf("%v", found), fmt.Sprintf("%v", expected); f != e {
		return fmt.Errorf("%s: found %s, expected %s", what, f, e)
	}
	return nil
}

// The first of some errors.
func all(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func eventually(what string, condition func() bool) error {
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within 20 s", what)
		}
	}
	return nil
}

// The server is restarted by whoever runs the program; the session finds it again by itself.
func restart(w *world) error {
	if !w.restarts {
		return nil
	}
	if err := all(w.table("restarted", "pk int PRIMARY KEY, v int"), w.exec("INSERT INTO restarted (pk, v) VALUES (?, ?)", 1, 2)); err != nil {
		return err
	}
	fmt.Println("restart")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	var v int
	read := func() bool { return w.session.Query("SELECT v FROM restarted WHERE pk = ?", 1).Scan(&v) == nil }
	return all(eventually("a read after the restart", read), equal(v, 2, "the row"))
}

func main() {
	var variants []string
	restarts := false
	var only []string
	for _, argument := range os.Args[3:] {
		if argument == "--restarts" {
			restarts = true
		} else if names, found := strings.CutPrefix(argument, "--only="); found {
			only = strings.Split(names, ",")
		} else if file, found := strings.CutPrefix(argument, "--ca="); found {
			ca = file
		} else if given, found := strings.CutPrefix(argument, "--login="); found {
			login = given
		} else {
			variants = append(variants, argument)
		}
	}
	port, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for _, variant := range variants {
		w, err := open(strings.Split(os.Args[1], ","), port, variant, restarts)
		if err != nil {
			fmt.Printf("go %s: %v\n", variant, err)
			os.Exit(1)
		}
		for _, check := range checks {
			if only != nil && !slices.Contains(only, check.name) {
				continue
			}
			begin := time.Now()
			if err := check.run(w); err != nil {
				fmt.Printf("go %s %s: FAILED: %v\n", variant, check.name, err)
				os.Exit(1)
			}
			fmt.Printf("go %s %s: ok, %d ms\n", variant, check.name, time.Since(begin).Milliseconds())
		}
		w.session.Close()
		// By a new session: after a restart some connections of the old one may be gone.
		if err := w.drop(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}
