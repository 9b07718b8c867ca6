package social

import "github.com/geobench/geobench/internal/base/txn"

// Procedure numbers. They are part of messages, so they never change.
const (
	procTimeline txn.ProcID = 80
	procPost     txn.ProcID = 81
	procFollow   txn.ProcID = 82
)

// Reasons why a procedure aborts. Neither occurs in a loaded database that works correctly.
const (
	abortNoUser = txn.Abort("no-user")
	// abortBroken reports a row whose format does not match its table.
	abortBroken = txn.Abort("broken-row")
)

// Procedures returns the stored procedures of the social network.
func Procedures() []*txn.Procedure { return []*txn.Procedure{timeline, post, follow} }

// getList reads a list.
func getList(c txn.Ctx, k txn.Key) (list, error) {
	row, err := txn.GetRow(c, k, listHead, abortNoUser)
	if err == nil && !list(row).valid() {
		return nil, abortBroken
	}
	return row, err
}

// Aborts are the reasons with which procedures abort.
var Aborts = []txn.Abort{abortNoUser, abortBroken}
