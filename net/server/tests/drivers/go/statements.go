package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gocql/gocql"
)

const (
	partitions = 20
	rows       = 15
)

func fillPaged(w *world) error {
	if err := w.table("paged", "pk int, ck int, v text, PRIMARY KEY (pk, ck)"); err != nil {
		return err
	}
	for pk := 0; pk < partitions; pk++ {
		for ck := 0; ck < rows; ck++ {
			if err := w.exec("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)", pk, ck, fmt.Sprintf("%d-%d", pk, ck)); err != nil {
				return err
			}
		}
	}
	return nil
}

func keysOf(iter *gocql.Iter) ([]string, error) {
	var keys []string
	var pk, ck int
	for iter.Scan(&pk, &ck) {
		keys = append(keys, fmt.Sprintf("%d-%d", pk, ck))
	}
	return keys, iter.Close()
}

func paging(w *world) error {
	if err := fillPaged(w); err != nil {
		return err
	}
	for _, size := range []int{1, 7, 15, 299, 300, 301} {
		keys, err := keysOf(w.session.Query("SELECT pk, ck FROM paged").PageSize(size).Iter())
		if err != nil {
			return err
		}
		unique := map[string]bool{}
		for _, key := range keys {
			unique[key] = true
		}
		what := fmt.Sprintf("rows at %d a page", size)
		if err := all(equal(len(keys), partitions*rows, what), equal(len(unique), partitions*rows, what)); err != nil {
			return err
		}
	}
	keys, err := keysOf(w.session.Query("SELECT pk, ck FROM paged WHERE pk = ? ORDER BY ck DESC LIMIT 5", 3).PageSize(2).Iter())
	return all(err, equal(keys, []string{"3-14", "3-13", "3-12", "3-11", "3-10"}, "backwards"))
}

// The state of a page goes on in another session.
func pagingResumed(w *world) error {
	if err := fillPaged(w); err != nil {
		return err
	}
	var state []byte
	seen := 0
	for {
		session, err := w.connect(w.keyspace)
		if err != nil {
			return err
		}
		iter := session.Query("SELECT pk, ck FROM paged").PageSize(70).PageState(state).Iter()
		state = append([]byte(nil), iter.PageState()...)
		seen += iter.NumRows()
		err = iter.Close()
		session.Close()
		if err != nil {
			return err
		}
		if len(state) == 0 {
			return equal(seen, partitions*rows, "rows over sessions")
		}
	}
}

func preparedAcrossAlter(w *world) error {
	read := func() (map[string]any, error) {
		row := map[string]any{}
		err := w.session.Query("SELECT * FROM altered WHERE pk = ?", 1).MapScan(row)
		return row, err
	}
	if err := all(w.table("altered", "pk int PRIMARY KEY, a int"), w.exec("INSERT INTO altered (pk, a) VALUES (?, ?)", 1, 10)); err != nil {
		return err
	}
	before, err := read()
	if err := all(err, equal(len(before), 2, "columns")); err != nil {
		return err
	}
	if err := all(w.exec("ALTER TABLE altered ADD b text"), w.exec("INSERT INTO altered (pk, b) VALUES (?, ?)", 1, "new")); err != nil {
		return err
	}
	after := map[string]any{}
	err = eventually("the new column", func() bool {
		row, err := read()
		after = row
		return err == nil && row["b"] == "new"
	})
	return all(err, equal(after["a"], 10, "the old column"))
}

func batches(w *world) error {
	if err := w.table("batched", "pk int, ck int, v text, PRIMARY KEY (pk, ck)"); err != nil {
		return err
	}
	for at, kind := range []gocql.BatchType{gocql.LoggedBatch, gocql.UnloggedBatch} {
		batch := w.session.NewBatch(kind)
		for ck := 0; ck < 10; ck++ {
			batch.Query("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)", at, ck, "v")
		}
		batch.Query(fmt.Sprintf("DELETE FROM batched WHERE pk = %d AND ck = 10", at))
		if err := w.session.ExecuteBatch(batch); err != nil {
			return err
		}
		var count int
		err := w.session.Query("SELECT count(*) FROM batched WHERE pk = ?", at).Scan(&count)
		if err := all(err, equal(count, 10, "rows of a batch")); err != nil {
			return err
		}
	}
	return nil
}

func conditional(w *world) error {
	if err := w.table("conditional", "pk int PRIMARY KEY, v int"); err != nil {
		return err
	}
	for _, step := range []struct {
		statement string
		applied   bool
		current   any
	}{
		{"INSERT INTO conditional (pk, v) VALUES (1, 1) IF NOT EXISTS", true, nil},
		{"INSERT INTO conditional (pk, v) VALUES (1, 2) IF NOT EXISTS", false, 1},
		{"UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 2", false, 1},
		{"UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 1", true, nil},
		{"DELETE FROM conditional WHERE pk = 1 IF EXISTS", true, nil},
	} {
		row := map[string]any{}
		applied, err := w.session.Query(step.statement).SerialConsistency(gocql.LocalSerial).MapScanCAS(row)
		if err := all(err, equal(applied, step.applied, step.statement), equal(row["v"], step.current, step.statement)); err != nil {
			return err
		}
	}
	return nil
}

func counters(w *world) error {
	if err := w.table("counted", "pk int PRIMARY KEY, c counter"); err != nil {
		return err
	}
	batch := w.session.NewBatch(gocql.CounterBatch)
	for range 5 {
		batch.Query("UPDATE counted SET c = c + ? WHERE pk = 1", int64(3))
	}
	if err := all(w.session.ExecuteBatch(batch), w.exec("UPDATE counted SET c = c - 5 WHERE pk = 1")); err != nil {
		return err
	}
	var c int64
	return all(w.session.Query("SELECT c FROM counted WHERE pk = 1").Scan(&c), equal(c, 10, "the counter"))
}

// Errors come as the driver's types.
func refusals(w *world) error {
	var request gocql.RequestError
	for _, step := range []struct {
		statement string
		code      int
		text      string
	}{
		{"SELECT", gocql.ErrCodeSyntax, "no viable alternative at input"},
		{"SELECT * FROM nowhere", gocql.ErrCodeInvalid, "table nowhere does not exist"},
		{"CREATE KEYSPACE " + w.keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", gocql.ErrCodeAlreadyExists, "Cannot add existing keyspace"},
	} {
		err := w.session.Query(step.statement).Exec()
		if !errors.As(err, &request) || request.Code() != step.code || !strings.Contains(err.Error(), step.text) {
			return fmt.Errorf("%s: refused with %v", step.statement, err)
		}
	}
	return nil
}

// Requests in flight at once, each with the answer that belongs to it.
func tenThousandAtOnce(w *world) error {
	if err := w.table("many", "pk int PRIMARY KEY, v text"); err != nil {
		return err
	}
	const requests = 10_000
	var waiting sync.WaitGroup
	failed := make(chan error, requests)
	for pk := range requests {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			expected := fmt.Sprintf("value %d", pk)
			if err := w.exec("INSERT INTO many (pk, v) VALUES (?, ?)", pk, expected); err != nil {
				failed <- err
				return
			}
			var v string
			if err := all(w.session.Query("SELECT v FROM many WHERE pk = ?", pk).Scan(&v), equal(v, expected, "a value")); err != nil {
				failed <- err
			}
		}()
	}
	waiting.Wait()
	close(failed)
	return <-failed
}
