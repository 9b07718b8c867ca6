package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
)

var (
	// errChanged is the error of a commit whose comparisons fail.
	errChanged = errors.New("a row that was read has changed since")
	// errTooLarge is the error of a commit that is not sent because the server would reject its size.
	errTooLarge = errors.New("the transaction has more comparisons, operations or bytes than etcd takes in a request")
)

// known lists errors that servers return without executing the request. Even a commit that fails with such an error has
// had no effect.
var known = []struct {
	err    error
	reason string
}{
	{rpctypes.ErrTooManyRequests, "out-of-resources"},
	{rpctypes.ErrTooManyOps, "too-large"},
	{rpctypes.ErrRequestTooLarge, "too-large"},
	{errTooLarge, "too-large"},
	{rpctypes.ErrCorrupt, "corrupt"},
	{rpctypes.ErrPermissionDenied, "denied"},
	{rpctypes.ErrInvalidAuthToken, "denied"},
	{rpctypes.ErrUserEmpty, "denied"},
	{rpctypes.ErrAuthOldRevision, "denied"},
	{rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), "learner"},
	{rpctypes.ErrNoLeader, "no-leader"},
}

// Classify interprets an error of etcd. Conflicts are commits whose comparisons failed, and snapshots that were
// compacted. A request that was sent and then timed out or lost its connection has an unknown outcome: its proposal may
// still be applied.
func Classify(err error) target.Failure {
	switch {
	case errors.Is(err, errChanged):
		return target.Failure{Cause: txn.CauseConflict, Reason: "serialization-failure", RolledBack: true}
	case errors.Is(err, rpctypes.ErrCompacted):
		return target.Failure{Cause: txn.CauseConflict, Reason: "snapshot-compacted", RolledBack: true}
	}
	// ErrNoSpace does not prove a rollback: a member that finds the quota exceeded while it applies a request still
	// applies the request (quotaApplierV3).
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return target.Failure{Cause: txn.CauseNode, Reason: "out-of-resources"}
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return target.Failure{Cause: txn.CauseNode, Reason: k.reason, RolledBack: true}
		}
	}
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) {
		switch answer.Code() {
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			if errors.Is(err, rpctypes.ErrStopped) {
				return target.Failure{Cause: txn.CauseNode, Reason: "shutdown", Broken: true}
			}
			// The member received the proposal and stopped waiting for it, so the outcome is unknown. The connection still
			// works.
			if answer.Error() == rpctypes.ErrTimeout.Error() || errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail) || errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost) ||
				errors.Is(err, rpctypes.ErrTimeoutWaitAppliedIndex) || errors.Is(err, rpctypes.ErrLeaderChanged) || errors.Is(err, rpctypes.ErrUnhealthy) {
				return target.Failure{Cause: txn.CauseNode, Reason: "timeout"}
			}
			return target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}
		}
		return target.Failure{Cause: txn.CauseNode, Reason: "error-" + answer.Code().String()}
	}
	// The client's own context ended. gRPC drops the stream but keeps the connection, so the connection is not broken.
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return target.Failure{Cause: txn.CauseNode, Reason: "canceled"}
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unavailable {
		return target.Failure{Cause: txn.CauseNode, Reason: "error-" + s.Code().String(), Broken: true}
	}
	return target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}
}
