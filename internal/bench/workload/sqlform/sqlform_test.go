package sqlform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
)

// Text in braces applies only to recorded runs. In recorded runs, the ID of the transaction is an additional last
// parameter.
func TestStatementText(t *testing.T) {
	s := &Statement{SQL: "update t set n = n + $2 {, prior = version, version = $v} where id = $1 returning n {, prior}"}
	if got, want := s.Text(false), "update t set n = n + $2  where id = $1 returning n "; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got, want := s.Text(true), "update t set n = n + $2 , prior = version, version = $3 where id = $1 returning n , prior"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if reads := (&Statement{SQL: "select n {, version} from t"}); !s.stamps() || reads.stamps() {
		t.Error("a statement that writes versions is not told from one that reads them")
	}
}

func TestColumns(t *testing.T) {
	var c Columns
	for range 2 {
		c.Begin()
		c.Int(-7)
		c.Money(-5)
		c.Money(123_456)
		c.Share(1)
		c.Date(uint64(time.Date(2026, 1, 2, 3, 4, 5, 60_000_000, time.UTC).UnixMicro()))
		c.Null()
		c.Text([]byte("a\tb\\c\nd\re"))
		c.End()
	}
	const want = "-7\t-0.05\t1234.56\t0.0001\t2026-01-02 03:04:05.06\t\\N\ta\\tb\\\\c\\nd\\re\n"
	if got := string(c.Bytes); got != want+want {
		t.Errorf("%q, not twice %q", got, want)
	}
}

// A Row returns the values that parameters were encoded from. If a column has an unexpected type, the error names the
// column.
func TestRow(t *testing.T) {
	const us = 1_767_225_600_000_123
	var values [][]byte
	for _, a := range []Arg{Int(int64(-1 << 63)), Money(-1_05), Date(us), Text([]byte("text"))} {
		values = append(values, a.Append(nil))
	}
	r := NewRow(append(values, nil, nil, []byte("0.1234")))
	if a, b, c, d := r.Int(), r.Int(), r.Date(), string(r.Text()); a != -1<<63 || b != -1_05 || c != us || d != "text" {
		t.Errorf("%d, %d, %d, %q", a, b, c, d)
	}
	if a, b, c := r.Int(), r.Date(), r.Int(); a != 0 || b != 0 || c != 1234 || r.Err() != nil {
		t.Errorf("%d, %d, %d: %v", a, b, c, r.Err())
	}
	if _ = r.Int(); r.Err() == nil {
		t.Error("a column that is not there is one")
	}
	r = NewRow([][]byte{[]byte("1"), []byte("x")})
	if r.Skip(1); r.Int() != 0 || r.Err() == nil || !strings.Contains(r.Err().Error(), `column 2: "x" is no number`) {
		t.Errorf("%v", r.Err())
	}
	ints, monies := Ints([]int64{1, -2}), Monies([]int64{1, -200})
	if a, b := string(ints.Append(nil)), string(monies.Append(nil)); a != "{1,-2}" || b != "{0.01,-2.00}" {
		t.Errorf("%s, %s", a, b)
	}
}

// answering is a connection that answers each statement with one row.
type answering struct {
	rows  map[*Statement][]string
	sent  []string
	queue []func() bool
	fails error
}

func (a *answering) Queue(s *Statement, args []Arg, row func(values [][]byte) bool) {
	var texts []string
	for i := range args {
		texts = append(texts, string(args[i].Append(nil)))
	}
	a.sent = append(a.sent, fmt.Sprintf("%s%q", s.Name, texts))
	a.queue = append(a.queue, func() bool {
		if row == nil {
			return true
		}
		var values [][]byte
		for _, v := range a.rows[s] {
			values = append(values, []byte(v))
		}
		return row(values)
	})
}

func (a *answering) Send() error {
	for _, answer := range a.queue {
		answer()
	}
	a.queue = nil
	return a.fails
}

// A recorded call appends the versions that its statements returned to its result. An unrecorded call appends nothing.
func TestCall(t *testing.T) {
	read := &Statement{Name: "read", SQL: "select n {, version} from t where id = $1"}
	write := &Statement{Name: "write", SQL: "update t set n = $2 {, prior = version, version = $v} where id = $1 returning id {, prior}"}
	one, two, group := txn.IntKey(1, 1), txn.IntKey(1, 2), txn.OrderedKey(2, 1, nil, nil)
	x := &Transaction{Procedure: 5, Run: func(c *Call) ([]byte, error) {
		var n int64
		c.Use(one)
		c.Do(read, func(r *Row) error {
			n = r.Int()
			if c.Recorded() {
				c.Read(one, r)
				c.Scan(group, group.End(), true)
			}
			return nil
		}, Int(1))
		c.Do(write, func(r *Row) error {
			if r.Skip(1); c.Recorded() {
				c.Update(two, r)
			}
			return nil
		}, Int(2), Int(9))
		if err := c.Send(); err != nil {
			return nil, err
		}
		c.Do(write, func(r *Row) error {
			if r.Skip(1); c.Recorded() {
				c.Overwrite(one, r)
			}
			return nil
		}, Int(1), Int(9))
		return []byte{byte(n)}, nil
	}}
	id := txn.MakeID(1, 3)
	used := 0
	use := func(txn.Key) { used++ }

	var c Call
	conn := &answering{rows: map[*Statement][]string{read: {"4"}, write: {"0"}}}
	result, err := c.Run(x, &txn.Transaction{ID: id, Proc: 5, Args: []byte("args")}, conn, use)
	if err != nil || !slices.Equal(result, []byte{4}) || string(c.Args) != "args" || used != 1 {
		t.Errorf("%v: %v, with %q, %d rows used", result, err, c.Args, used)
	}
	if want := []string{`read["1"]`, `write["2" "9"]`, `write["1" "9"]`}; !slices.Equal(conn.sent, want) || len(conn.queue) != 1 {
		t.Errorf("%q, %d of which wait", conn.sent, len(conn.queue))
	}

	recorded := &txn.Transaction{ID: id, Proc: 5 + history.Traced, Args: append(codec.AppendID(nil, id), "args"...)}
	conn = &answering{rows: map[*Statement][]string{read: {"4", "77"}, write: {"0", "88"}}}
	traced, err := c.Run(x, recorded, conn, use)
	if err != nil || string(c.Args) != "args" || len(conn.queue) != 0 {
		t.Errorf("%v, with %q, %d wait", err, c.Args, len(conn.queue))
	}
	result, ops, err := history.SplitTrace(traced)
	want := []history.Op{
		{Kind: history.Read, Key: one, Version: 77, Known: true},
		{Kind: history.Scan, Key: group, To: group.End(), Gone: true},
		{Kind: history.Read, Key: two, Version: 88, Known: true},
		{Kind: history.Write, Key: two, Version: 88, Known: true},
		{Kind: history.Write, Key: one, Version: 88, Known: true},
	}
	if err != nil || !slices.Equal(result, []byte{4}) || !slices.Equal(ops, want) {
		t.Errorf("%v, %v: %v\nnot %v", result, err, ops, want)
	}
	if last := conn.sent[2]; last != fmt.Sprintf("write[%q %q %q]", "1", "9", fmt.Sprint(uint64(id))) {
		t.Errorf("the version is not the last parameter: %s", last)
	}

	conn = &answering{rows: map[*Statement][]string{read: {"four"}, write: {"0"}}}
	if _, err := c.Run(x, &txn.Transaction{ID: id, Proc: 5}, conn, use); err == nil || !strings.Contains(err.Error(), `statement read: column 1: "four" is no number`) || !errors.Is(err, txn.ErrProcedure) {
		t.Errorf("%v", err)
	}
	lost := errors.New("lost")
	if _, err := c.Run(x, recorded, &answering{rows: conn.rows, fails: lost}, use); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
