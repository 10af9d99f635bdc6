package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/gocql/gocql"
)

func tracing(w *world) error {
	if err := w.table("traced", "pk int PRIMARY KEY, v text"); err != nil {
		return err
	}
	var out bytes.Buffer
	tracer := gocql.NewTraceWriter(w.session, &out)
	if err := w.session.Query("INSERT INTO traced (pk, v) VALUES (?, ?)", 1, "x").Trace(tracer).Exec(); err != nil {
		return err
	}
	if text := out.String(); !strings.Contains(text, "Tracing session") || !strings.Contains(text, "coordinator") {
		return fmt.Errorf("no trace: %s", text)
	}
	return nil
}

func warnings(w *world) error {
	if w.version < 4 {
		return nil
	}
	if err := w.table("warned", "pk int PRIMARY KEY, v text"); err != nil {
		return err
	}
	iter := w.session.Query("SELECT max(pk) FROM warned").Iter()
	found := iter.Warnings()
	return all(iter.Close(), equal(found, []string{"Aggregation query used without partition key"}, "an aggregate"))
}

func metadata(w *world) error {
	err := w.table("described", "pk int, ck text, s int static, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC")
	if err != nil {
		return err
	}
	session, err := w.connect(w.keyspace)
	if err != nil {
		return err
	}
	defer session.Close()
	keyspace, err := session.KeyspaceMetadata(w.keyspace)
	if err != nil {
		return err
	}
	table, found := keyspace.Tables["described"]
	if !found {
		return fmt.Errorf("the driver does not know the table")
	}
	return all(
		equal(keyspace.StrategyClass, "org.apache.cassandra.locator.SimpleStrategy", "the strategy"),
		equal(len(table.Columns), 4, "columns"),
		equal(table.PartitionKey[0].Name, "pk", "the partition key"),
		equal(table.ClusteringColumns[0].Order, gocql.DESC, "the order"),
		equal(table.Columns["s"].Kind, gocql.ColumnStatic, "the static column"),
		equal(table.Columns["m"].Type.Type(), gocql.TypeMap, "the map"),
	)
}

// Remembers the nodes that the driver knows.
type hosts struct {
	gocql.HostSelectionPolicy
	mutex sync.Mutex
	known map[string]*gocql.HostInfo
}

func (h *hosts) AddHost(host *gocql.HostInfo) {
	h.mutex.Lock()
	h.known[host.HostID()] = host
	h.mutex.Unlock()
	h.HostSelectionPolicy.AddHost(host)
}

// What the driver knows of the nodes is what they say of themselves.
func ring(w *world) error {
	known := &hosts{HostSelectionPolicy: gocql.RoundRobinHostPolicy(), known: map[string]*gocql.HostInfo{}}
	session, err := w.connectBy(w.keyspace, known)
	if err != nil {
		return err
	}
	defer session.Close()
	known.mutex.Lock()
	defer known.mutex.Unlock()
	for id, host := range known.known {
		if len(host.Tokens()) == 0 || host.DataCenter() == "" || host.Rack() == "" {
			return fmt.Errorf("node %s: %v", id, host)
		}
	}
	return equal(len(known.known), len(w.hosts), "nodes")
}
