package mysql_test

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// BenchmarkForms compares procedures with SQL, both without and with foreign keys. It runs TPC-C with two warehouses on
// one server, one variant after another in each round. It covers the client's generator, session and connections, but
// not the recording of results.
func BenchmarkForms(b *testing.B) {
	s := mysqltest.Start(b, "--innodb-buffer-pool-size=1G", "--innodb-log-file-size=512M")
	p := targettest.FormPlan(b)
	sides := map[string]sqltarget.Database{}
	for name, change := range map[string]func(*mysql.Options){
		"procedures":       func(*mysql.Options) {},
		"sql":              func(o *mysql.Options) { o.Form = sqltarget.FormSQL },
		"sql-foreign-keys": func(o *mysql.Options) { o.Form, o.ForeignKeys = sqltarget.FormSQL, true },
	} {
		o := options(mysql.ReadCommitted)
		o.Connections = targettest.FormClients
		change(&o)
		sides[name] = open(b, p, database(b, s, p, "bench_"+strings.ReplaceAll(name, "-", "_")), o)
	}
	targettest.CompareForms(b, p, sides)
}
