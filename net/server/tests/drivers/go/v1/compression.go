package main

import "github.com/gocql/gocql"

var compressors = map[string]gocql.Compressor{"snappy": gocql.SnappyCompressor{}}
