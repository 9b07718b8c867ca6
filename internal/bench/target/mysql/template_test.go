package mysql

import (
	"regexp"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/workload/smallbank"
	"github.com/geobench/geobench/internal/bench/workload/sqlform"
	"github.com/geobench/geobench/internal/bench/workload/tpcc"
)

// A template formats the text that is sent, with the run's comment in each statement. The number of results equals the
// number of SELECTs.
func TestTemplate(t *testing.T) {
	const said = " /* run */"
	id, ids, amounts := sqlform.Int(7), sqlform.Ints([]int64{1, 2}), sqlform.Monies([]int64{5, -123})
	for name, tc := range map[string]struct {
		statement sqlform.Statement
		recorded  bool
		args      []sqlform.Arg
		want      string
		results   int
	}{
		"a query": {sqlform.Statement{SQL: "select n {, version} from t where id = $1"}, true, []sqlform.Arg{id},
			"select /* run */ n , version from t where id = 7", 1},
		"what an update returns": {sqlform.Statement{SQL: "update t set n = n + $2 {, prior = version, version = $v} where id = $1 returning n - 1 {, prior}"}, true,
			[]sqlform.Arg{id, sqlform.Money(-5), sqlform.Int(99)},
			"update /* run */ t set n = n + -0.05 , prior = version, version = 99 where id = 7; select /* run */ n - 1 , prior from t where id = 7", 1},
		"texts": {sqlform.Statement{SQL: "insert into t values ($1::text, $2)"}, false, []sqlform.Arg{sqlform.Text([]byte(`it's a \ [$1]; select`)), sqlform.Date(1_000_000)},
			`insert /* run */ into t values ('it\'s a \\ [$1]; select', '1970-01-01 00:00:01')`, 0},
		"a list": {sqlform.Statement{SQL: "-", MySQL: "select n from t where id in ([$1])"}, false, []sqlform.Arg{ids},
			"select /* run */ n from t where id in (1, 2)", 1},
		"statements that are repeated": {sqlform.Statement{SQL: "$1 $2 $3", MySQL: "[<; >delete from t where w = $1 and id = $2]; select n from ([< union all >select $2 as id, $3 as m]) as l"}, false,
			[]sqlform.Arg{id, ids, amounts},
			"delete /* run */ from t where w = 7 and id = 1; delete /* run */ from t where w = 7 and id = 2; select /* run */ n from (select 1 as id, 0.05 as m union all select 2 as id, -1.23 as m) as l", 1},
		"selects that are repeated": {sqlform.Statement{SQL: "$1 $2", MySQL: "select 1; [<; >update t set n = $2; select n from t where id = $2]; select 2"}, false,
			[]sqlform.Arg{id, ids},
			"select /* run */ 1; update /* run */ t set n = 1; select /* run */ n from t where id = 1; update /* run */ t set n = 2; select /* run */ n from t where id = 2; select /* run */ 2", 4},
		"an insert of what is selected": {sqlform.Statement{SQL: "insert into t select n from u"}, false, nil, "insert /* run */ into t select n from u", 0},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := newTemplate(tc.statement.MySQLText(tc.recorded), said)
			if err != nil {
				t.Fatal(err)
			}
			text, results := x.append(nil, tc.args)
			if string(text) != tc.want || results != tc.results {
				t.Errorf("%d results of %s\nnot %d of %s", results, text, tc.results, tc.want)
			}
		})
	}
	for text, want := range map[string]string{
		"select [$1":   "nothing closes a bracket",
		"select $1] n": "nothing opens the bracket",
		"select $n":    "no number is behind the $",
	} {
		if _, err := newTemplate(text, said); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", text, err, want)
		}
	}
}

// No statement for MySQL contains syntax that only PostgreSQL supports.
func TestStatementsAreMySQLs(t *testing.T) {
	foreign := regexp.MustCompile(`unnest|any\(|::|generate_series|lateral|returning|using |with |[{}]|\$v|collate`)
	n := 0
	for _, x := range append(smallbank.Transactions(), tpcc.Transactions()...) {
		for _, s := range x.Statements {
			for _, recorded := range []bool{false, true} {
				text := s.MySQLText(recorded)
				if found := foreign.FindString(text); found != "" {
					t.Errorf("%s, recorded %v, has %q: %s", s.Name, recorded, found, text)
				}
				if _, err := newTemplate(text, ""); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
				n++
			}
		}
	}
	if n < 60 {
		t.Errorf("there are only %d texts", n)
	}
}

// Rows in COPY format are converted to rows of an INSERT.
func TestAppendValues(t *testing.T) {
	var c sqlform.Columns
	for range 2 {
		c.Begin()
		c.Int(-7)
		c.Null()
		c.Text([]byte("it's a\tb\\N"))
		c.Text(nil)
		c.End()
	}
	const row = `('-7',null,'it\'s a\tb\\N','')`
	if got := string(appendValues([]byte("values "), c.Bytes)); got != "values "+row+","+row {
		t.Errorf("%s", got)
	}
}
