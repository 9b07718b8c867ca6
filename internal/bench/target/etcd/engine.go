// Package etcd implements target.Database for etcd 3.4 or later, which it accesses with the etcd client. Procedures run
// on a snapshot, which is one revision of the cluster. They commit with a single Txn, which writes only if all values
// read are still the newest. This is optimistic concurrency control (Kung and Robinson, TODS 1981; etcd documentation,
// KV API guarantees). The package deploys nothing, and writes only below its own prefix.
//
// The commit compares the mod revision of each row that was read; a missing row has mod revision 0. For a scan, the
// commit compares the whole range: no row in the range may be newer than the snapshot. A deleted row has no mod
// revision to compare. A deletion therefore also writes a mark of the row's group, and the commit compares the marks of
// all scanned groups.
//
// A read-only transaction ends with its last read, because all its reads see one revision. With linearizable reads,
// this is the newest revision at the start of the transaction, and histories are strictly serializable. With
// serializable reads (etcd's term for reads that a member answers from its local state) the revision may be old, and
// histories are serializable.
package etcd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Names of the parameters of Engine.
const (
	readsParameter       = "reads"
	interactiveParameter = "interactive"
	maxTxnOpsParameter   = "maxTxnOps"
	leaderParameter      = "leader"
	prefixParameter      = "prefix"
	dropPrefixParameter  = "dropPrefix"
)

// Values of the parameter reads, as etcd calls them.
const (
	Linearizable = "Linearizable"
	Serializable = "Serializable"
)

// DefaultMaxTxnOps is the server's default of --max-txn-ops. maxRequestBytes is the server's default of
// --max-request-bytes, 1.5 MiB.
const (
	DefaultMaxTxnOps = 128
	maxRequestBytes  = 3 << 19
)

// prefixes are the allowed values of the parameter prefix, with the default first. With a slash appended, none of them
// is a prefix of another, so runs cannot share keys.
var prefixes = []string{"geobench", "geobench_a", "geobench_b", "geobench_c"}

// Engine describes the etcd configuration in a manifest.
var Engine = &protocol.Engine{
	Name: "etcd",
	Doc:  "etcd, reached with its Go client; transactions read at a revision, and commit by one Txn if what they read is still the newest",
	Parameters: []protocol.Parameter{
		{Name: readsParameter, Default: Linearizable, OneOf: []string{Linearizable, Serializable},
			Doc: "reads of the newest revision, or of what the endpoint's member has; the latter are stale where it lags, but no transaction that writes commits on them"},
		{Name: interactiveParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether rows are read one after the other; otherwise those that a transaction is known to read are fetched with the first of them, in one request"},
		{Name: maxTxnOpsParameter, Default: "128", Integer: true, MinInt: 16, MaxInt: 1 << 16,
			Doc: "the servers' --max-txn-ops: how many comparisons or operations one request may have"},
		{Name: leaderParameter, Default: "-1", Integer: true, MinInt: -1, MaxInt: 63,
			Doc: "number of the region, from 0, whose endpoint's member is made the leader before the run, which decides latencies; -1 leaves the one that was elected"},
		sqltarget.Connections,
		sqltarget.TLS,
		{Name: prefixParameter, Default: prefixes[0], OneOf: prefixes,
			Doc: "all keys begin with it and a slash; several let runs share a cluster"},
		{Name: dropPrefixParameter, Default: "false", OneOf: []string{"false", "true"},
			Doc: "whether the keys are deleted after the run"},
	},
	Isolation: func(p protocol.Params) isolation.Level { return promises(p.Word(readsParameter)) },
	CheckTopology: func(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
		if n := p.Int(leaderParameter); n >= int64(len(t.Regions)) {
			return &protocol.TopologyError{Field: "spec.engine.parameters." + leaderParameter, Value: strconv.FormatInt(n, 10), Message: fmt.Sprintf("there are %d regions, numbered from 0: %s", len(t.Regions), strings.Join(t.Regions, ", "))}
		}
		return nil
	},
}

// promises returns the isolation level that histories satisfy with these reads.
func promises(reads string) isolation.Level {
	if reads == Serializable {
		return isolation.Serializable
	}
	return isolation.StrictSerializable
}

// Options configures the use of a database, except for its location. Isolation is the value of the parameter reads.
type Options struct {
	sqltarget.Options
	// Interactive is set if each row is read by a separate request.
	Interactive bool
	// MaxTxnOps is the servers' limit on the comparisons and on the operations of a request.
	MaxTxnOps int
	// Leader is the index of the endpoint whose member must lead; a negative value accepts any leader.
	Leader int
}

// OptionsOf returns the options that the parameters of Engine select. The parameters must have been checked.
func OptionsOf(p protocol.Params) Options {
	return Options{
		Options: sqltarget.Options{
			Isolation: p.Word(readsParameter), Connections: int(p.Int(sqltarget.ConnectionsParameter)), TLS: p.Word(sqltarget.TLSParameter),
			Place: p.Word(prefixParameter), Drop: p.Word(dropPrefixParameter) == "true",
		},
		Interactive: p.Word(interactiveParameter) == "true", MaxTxnOps: int(p.Int(maxTxnOpsParameter)), Leader: int(p.Int(leaderParameter)),
	}
}
