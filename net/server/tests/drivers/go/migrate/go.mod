module program

go 1.22.0

require (
	github.com/gocql/gocql v1.7.0
	github.com/golang-migrate/migrate/v4 v4.18.1
)

require (
	github.com/golang/snappy v0.0.4 // indirect
	github.com/hailocab/go-hostpool v0.0.0-20160125115350-e80d13ce29ed // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	go.uber.org/atomic v1.7.0 // indirect
	gopkg.in/inf.v0 v0.9.1 // indirect
)
