package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
)

// SQLSTATE codes (PostgreSQL documentation, appendix A).
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	completionUnknown    = "40003"
	lockNotAvailable     = "55P03"
	readOnlyTransaction  = "25006"
	queryCanceled        = "57014"
	tooManyConnections   = "53300"
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
	noSuchDatabase       = "3D000"
	noPrivilege          = "42501"
	notPossibleNow       = "55000" // object_not_in_prerequisite_state
	dependentObjects     = "2BP01"
	undefinedFunction    = "42883"
)

// errNotCommitted is the error of a COMMIT that the server answers with ROLLBACK.
var errNotCommitted = errors.New("the server rolled the transaction back at COMMIT")

// Classify interprets an error of PostgreSQL. Conflicts are serialization failures, deadlocks, and locks that were not
// acquired within lock_timeout. After an answer of severity ERROR, unlike FATAL, the transaction has certainly been
// rolled back, even at COMMIT. If the connection was lost, the outcome is unknown.
func Classify(err error) target.Failure {
	if errors.Is(err, errNotCommitted) {
		return target.Failure{Cause: txn.CauseNode, Reason: "rolled-back", RolledBack: true}
	}
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		// If SafeToRetry returns true, nothing was sent, so the server cannot have committed anything.
		return target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true, RolledBack: pgconn.SafeToRetry(err)}
	}
	f := target.Failure{Cause: txn.CauseNode, RolledBack: answer.SeverityUnlocalized == "ERROR"}
	// After FATAL or PANIC the server closes the connection.
	f.Broken = !f.RolledBack
	switch answer.Code {
	case serializationFailure:
		f.Cause, f.Reason = txn.CauseConflict, "serialization-failure"
	case deadlockDetected:
		f.Cause, f.Reason = txn.CauseConflict, "deadlock"
	case lockNotAvailable:
		f.Cause, f.Reason = txn.CauseConflict, "lock-timeout"
	case completionUnknown:
		// The code means that the server itself does not know the outcome, whatever the severity is.
		f.Reason, f.RolledBack, f.Broken = "completion-unknown", false, true
	case readOnlyTransaction:
		f.Reason = "read-only"
	case queryCanceled:
		f.Reason = "canceled"
	default:
		f.Reason = classReason(answer.Code)
	}
	return f
}

// classReason returns the reason for the class of an SQLSTATE, which is its first two characters.
func classReason(code string) string {
	if len(code) < 2 {
		return "error"
	}
	switch code[:2] {
	case "08":
		return "connection-lost"
	case "23":
		return "constraint"
	case "53":
		return "out-of-resources"
	case "57":
		return "shutdown"
	case "58", "XX":
		return "server-error"
	}
	return "sqlstate-" + code[:2]
}
