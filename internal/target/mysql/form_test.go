package mysql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/target/mysql"
	"github.com/geobench/geobench/internal/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/sqlform"
)

// formed are the options of a database whose transactions are SQL.
func formed(level string) mysql.Options {
	o := options(level)
	o.Form, o.ForeignKeys, o.Place = sqltarget.FormSQL, true, "geobench_rows_a"
	return o
}

// open opens a database of this name for a plan, and closes it when the test ends.
func open(t testing.TB, p *plan.Plan, to sqltarget.Server, o mysql.Options) sqltarget.Database {
	t.Helper()
	db, err := mysql.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// database makes a database for a test, for the regions of a plan.
func database(t testing.TB, s *mysqltest.Server, p *plan.Plan, name string) sqltarget.Server {
	t.Helper()
	s.Query(t, mysqltest.Database, "create database "+name)
	to := server(s, p.Topology.Regions...)
	to.Database = name
	return to
}

// The same calls have the same outcomes as procedures and as SQL, and leave the same rows.
func TestFormsAgree(t *testing.T) {
	s := mysqltest.Start(t)
	for name, spec := range targettest.FormSpecs {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
			to := database(t, s, p, name)
			targettest.FormsAgree(t, p, open(t, p, to, options(mysql.Serializable)), open(t, p, to, formed(mysql.Serializable)), func(put func(k, value string)) map[string][]string {
				for _, row := range s.Query(t, name, "select hex(k), hex(v) from geobench_rows") {
					put(row[0], row[1])
				}
				return tables(t, s, p.Workload, name)
			})
		})
	}
}

// tables are the rows of the form, as COPY of PostgreSQL would print them.
func tables(t testing.TB, s *mysqltest.Server, w workload.Workload, database string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for _, table := range w.(sqlform.Workload).Form().Tables {
		var columns []string
		for _, c := range table.Columns {
			name, kind, _ := strings.Cut(c, " ")
			var width int
			if _, err := fmt.Sscanf(kind, "char(%d)", &width); err == nil { // the server leaves blanks out at the end
				name = fmt.Sprintf("rpad(%s, %d, ' ')", name, width)
			}
			if strings.HasPrefix(kind, "timestamp") {
				name = "trim(trailing '.' from trim(trailing '0' from " + name + "))"
			}
			columns = append(columns, "coalesce("+name+", '\\\\N')")
		}
		for _, row := range s.Query(t, database, "select concat_ws('\\t', "+strings.Join(columns, ", ")+") from "+table.Name) {
			rows[table.Name] = append(rows[table.Name], row[0])
		}
	}
	return rows
}

// At SERIALIZABLE the histories of SQL are serializable and the money adds up.
func TestFormIsSerializable(t *testing.T) {
	s := mysqltest.Start(t)
	for name, spec := range map[string]string{
		"smallbank": "{smallbank: {customers: 200, multiHomePercent: 30, hotPercent: 50}}",
		"tpcc":      "{tpcc: {rowsPercent: 2}}",
		"dike":      targettest.FormSpecs["tpcc"],
	} {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
			targettest.FormIsSerializable(t, p, open(t, p, database(t, s, p, name), formed(mysql.Serializable)))
		})
	}
}

// At READ COMMITTED, and at REPEATABLE READ as InnoDB has it, money is lost.
func TestFormLosesMoney(t *testing.T) {
	s := mysqltest.Start(t)
	for _, level := range []string{mysql.ReadCommitted, mysql.RepeatableRead} {
		for name, spec := range targettest.LosingSpecs {
			t.Run(level+" "+name, func(t *testing.T) {
				p := targettest.Plan(t, "mysql", spec, isolation.Serializable)
				targettest.FormLosesMoney(t, p, open(t, p, database(t, s, p, fmt.Sprintf("%s_%s", level, name)), formed(level)))
			})
		}
	}
}

// The database finds by SQL what Audit finds in the rows.
func TestAuditsAgree(t *testing.T) {
	s := mysqltest.Start(t)
	p := targettest.Plan(t, "mysql", "{tpcc: {rowsPercent: 2}}", isolation.Serializable)
	o := formed(mysql.Serializable)
	o.ForeignKeys = false // rows that refer to nothing can be loaded
	targettest.AuditsAgree(t, p, open(t, p, server(s, p.Topology.Regions...), o))
}
