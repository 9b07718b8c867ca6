package social

import "github.com/geobench/geobench/internal/base/txn"

// Numbers of the procedures. They travel, so they never change.
const (
	procTimeline txn.ProcID = 80
	procPost     txn.ProcID = 81
	procFollow   txn.ProcID = 82
)

// Reasons why a procedure gives up. Neither happens in a database that was loaded and works.
const (
	abortNoUser = txn.Abort("no-user")
	// abortBroken is for a row whose form does not fit its table.
	abortBroken = txn.Abort("broken-row")
)

// Procedures are the stored procedures of the social network.
func Procedures() []*txn.Procedure { return []*txn.Procedure{timeline, post, follow} }

// getList reads a list.
func getList(c txn.Ctx, k txn.Key) (list, error) {
	row, err := txn.GetRow(c, k, listHead, abortNoUser)
	if err == nil && !list(row).valid() {
		return nil, abortBroken
	}
	return row, err
}

// Aborts are the reasons for which procedures abort.
var Aborts = []txn.Abort{abortNoUser, abortBroken}
