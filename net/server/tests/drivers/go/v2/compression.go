package main

import (
	"github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
	"github.com/apache/cassandra-gocql-driver/v2/snappy"
)

var compressors = map[string]gocql.Compressor{"snappy": snappy.SnappyCompressor{}, "lz4": lz4.LZ4Compressor{}}
