// golang-migrate with its driver for Cassandra. Prints one line per check; exits 1 at the first that fails.
//
//	program HOST PORT
//
// Everything happens in the keyspace migrated, dropped first and last.
package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gocql/gocql"
	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/cassandra"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

//go:embed migrations
var scripts embed.FS

func run(host, port string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	cluster := gocql.NewCluster(host)
	cluster.Port = number
	cluster.Timeout = 30 * time.Second
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	exec := func(statement string) error { return session.Query(statement).Exec() }
	if err := exec("DROP KEYSPACE IF EXISTS migrated"); err != nil {
		return err
	}
	if err := exec("CREATE KEYSPACE migrated WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"); err != nil {
		return err
	}
	source, err := iofs.New(scripts, "migrations")
	if err != nil {
		return err
	}
	url := "cassandra://" + host + ":" + port + "/migrated?x-multi-statement=true&timeout=30s&protocol=4"
	tool, err := migrate.NewWithSourceInstance("iofs", source, url)
	if err != nil {
		return err
	}
	at := func(expected uint, what string) error {
		version, dirty, err := tool.Version()
		if err != nil || dirty || version != expected {
			return fmt.Errorf("%s: version %d, dirty %v, %v", what, version, dirty, err)
		}
		fmt.Printf("golang-migrate %s: ok\n", what)
		return nil
	}
	if err := tool.Steps(1); err != nil {
		return err
	}
	if err := at(1, "one step"); err != nil {
		return err
	}
	if err := tool.Up(); err != nil {
		return err
	}
	if err := at(2, "up"); err != nil {
		return err
	}
	if err := tool.Up(); !errors.Is(err, migrate.ErrNoChange) {
		return fmt.Errorf("up again: %v", err)
	}
	if err := exec("INSERT INTO migrated.people (id, name, home) VALUES (1, 'Ada', {street: 'x'})"); err != nil {
		return err
	}
	if err := tool.Steps(-1); err != nil {
		return err
	}
	if err := at(1, "one step down"); err != nil {
		return err
	}
	if err := exec("SELECT home FROM migrated.people"); err == nil {
		return errors.New("the column is still there")
	}
	if err := tool.Drop(); err != nil {
		return err
	}
	if err := exec("SELECT id FROM migrated.people"); err == nil {
		return errors.New("the table is still there")
	}
	fmt.Println("golang-migrate drop: ok")
	return exec("DROP KEYSPACE migrated")
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Println("golang-migrate: FAILED:", err)
		os.Exit(1)
	}
}
