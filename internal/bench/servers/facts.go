package servers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Facts are the properties of a vendor's database that matter for loading and measuring, taken from the vendor's
// documentation. The databases with Facts have not been run in Geobench yet.
type Facts struct {
	// Product is the product's common name.
	Product string
	// Protocol and Port are the clients' protocol and port. User is a user that exists from the start.
	Protocol string
	Port     int32
	User     string
	// Isolation lists the supported isolation levels, starting with the default.
	Isolation []string
	// Retry lists the errors after which a transaction was rolled back and may be retried. Ambiguous lists the errors
	// after which it is unknown whether the transaction was committed.
	Retry, Ambiguous []string
	// Tolerates describes the failures that the database survives, as deployed here.
	Tolerates string
	// Placement describes how rows are assigned to home regions.
	Placement string
	// Licence is a short description of the licence.
	Licence string
	// Unmeasured is the reason why no built-in client can measure the database, or "" if there is such a client.
	Unmeasured string
}

// FactsOf returns the facts of a deployed database that has not been run yet, or nil for any other database.
func FactsOf(engine string) *Facts { return kinds[engine].facts }

// open describes the access to each deployed database that does not require authentication.
var open = map[string]string{
	"cockroachdb": "CockroachDB runs with --insecure: any client that reaches port 26257 of a server is root, without a password and without TLS",
	"etcd":        "etcd has no users: any client that reaches port 2379 of a member can read and write all keys, and any process that reaches port 2380 is treated as a member",
	"oceanbase":   "OceanBase's root has no password: any client that reaches port 2881 or 2882 of a server is its administrator",
	"tidb":        "TiDB's root has no password, and PD and TiKV do not authenticate clients: any client that reaches port 4000, 2379 or 20160 can read and write all rows",
	"yugabytedb":  "YugabyteDB runs without ysql_enable_auth: any client that reaches port 5433 of a server is its administrator, and masters do not authenticate clients",
}

// Open describes the access to a deployed database that does not require authentication. It returns "" if the database
// requires authentication.
func Open(engine string) string { return open[engine] }

// requests returns a memory request with an equal limit, because these databases determine their buffer sizes from the
// limit.
func requests(memory string) corev1.ResourceRequirements {
	q := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: q, Limits: q.DeepCopy()}
}
