package mysql

import (
	"database/sql/driver"
	"errors"
	"strconv"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
)

// Error numbers (MySQL Server Error Reference; MariaDB Error Code Reference).
const (
	recordChanged       = 1020 // ER_CHECKREAD, raised by innodb_snapshot_isolation
	diskFull            = 1021
	outOfMemory         = 1037
	tooManyConnections  = 1040
	databaseDenied      = 1044
	accessDenied        = 1045
	notReady            = 1047 // ER_UNKNOWN_COM_ERROR, returned by a Galera node outside the primary component
	noSuchDatabase      = 1049
	serverShutdown      = 1053
	duplicateEntry      = 1062
	tableFull           = 1114
	tableDenied         = 1142
	lockWaitTimeout     = 1205
	deadlock            = 1213
	readOnlyOption      = 1290
	privilegeDenied     = 1227
	queryInterrupted    = 1317
	readOnlyTransaction = 1792
	readOnlyMode        = 1836
	connectionKilled    = 1927
	statementTimeout    = 1969
	executionTime       = 3024
)

// Classify interprets an error of the server. Conflicts are deadlocks, rows that have changed after the snapshot, and
// locks that were not available in time. Galera also reports a deadlock for a transaction that failed certification or
// blocked a transaction of another node.
//
// Other errors at COMMIT count as rolled back only if the server returns them before it writes anything. A Galera node
// that loses its cluster or is interrupted during COMMIT may have sent the transaction to other nodes.
func Classify(err error) target.Failure {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		// The driver returns ErrBadConn only if it has not sent anything, so the server cannot have committed the
		// transaction.
		return target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true, RolledBack: errors.Is(err, driver.ErrBadConn)}
	}
	conflict := func(reason string) target.Failure {
		return target.Failure{Cause: txn.CauseConflict, Reason: reason, RolledBack: true}
	}
	refused := func(reason string) target.Failure {
		return target.Failure{Cause: txn.CauseNode, Reason: reason, RolledBack: true}
	}
	open := func(reason string, broken bool) target.Failure {
		return target.Failure{Cause: txn.CauseNode, Reason: reason, Broken: broken}
	}
	switch answer.Number {
	case deadlock:
		return conflict("deadlock")
	case lockWaitTimeout:
		return conflict("lock-timeout")
	case recordChanged:
		return conflict("serialization-failure")
	case readOnlyOption, readOnlyTransaction, readOnlyMode:
		return refused("read-only")
	case diskFull, outOfMemory, tableFull:
		return refused("out-of-resources")
	case duplicateEntry:
		return refused("constraint")
	case notReady:
		return open("not-ready", false)
	case queryInterrupted, statementTimeout, executionTime:
		return open("canceled", false)
	case serverShutdown:
		return open("shutdown", true)
	case connectionKilled:
		return open("connection-lost", true)
	}
	return open("error-"+strconv.Itoa(int(answer.Number/100))+"xx", false)
}
