package result

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/workload"
)

func TestTable(t *testing.T) {
	in := small()
	in.Checks = append(in.Checks, workload.Check{Name: "copies-agree", Message: strings.Repeat("total is 1 in a and 2 in b; ", 20)})
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, wide := range []bool{false, true} {
		var b bytes.Buffer
		if err := Table(&b, d, wide); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		for _, l := range strings.Split(out, "\n") {
			if len(l) > 100 {
				t.Errorf("%d columns: %s", len(l), l)
			}
		}
		for _, want := range []string{"quickstart: Failed  SIMULATED", "CheckFailed", "100.3ms", "ok    smallbank-total", "FAIL  copies-agree", "1090"} {
			if !strings.Contains(out, want) {
				t.Errorf("the table lacks %q", want)
			}
		}
		if strings.Contains(out, "ATTEMPTS") {
			t.Error("the table tells attempts, though nothing is tried again")
		}
		t.Log("\n" + out)
	}
}

func TestTableOfAttempts(t *testing.T) {
	in := small()
	in.Load.Retry = &v1alpha1.Retry{Attempts: 3, Backoff: v1alpha1.DurationOf(10 * time.Millisecond), MaxBackoff: v1alpha1.DurationOf(time.Second), Jitter: 50,
		Causes: []v1alpha1.RetryCause{v1alpha1.RetryConflict, v1alpha1.RetryNode}}
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Table(&b, d, false); err != nil {
		t.Fatal(err)
	}
	out := strings.Join(strings.Fields(b.String()), " ")
	t.Log("\n" + b.String())
	for _, want := range []string{
		"up to 3 attempts, 10ms to 1s apart (jitter 50%), after Conflict or Node",
		"REGION ATTEMPTS/S PER COMMIT ABORTED CONFLICT NODE RETRIED IN 1 IN 2 IN MORE",
		// 750, 100 and 50 transactions committed with one, two and three attempts: 1207 attempts for 900 commits.
		"b 121 1.34 24.86% 300 2 201 83.33% 11.11% 5.556%",
		"all 1121 1.03 2.677% 300 2 201 98.62% 0.9183% 0.4591%",
		"balance b 900 100 7 10.5ms 10.9ms 11.0ms 1207",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the table lacks %q", want)
		}
	}
}

func TestPrices(t *testing.T) {
	p := DefaultPrices()
	for link, want := range map[[2]string]int64{
		{"us-east-1", "us-east-1"}: 0, {"us-east-1", "us-east-2"}: 10_000, {"us-east-1", "eu-west-1"}: 20_000,
		{"ap-northeast-1", "us-west-2"}: 90_000, {"nowhere", "us-west-2"}: 20_000,
	} {
		if got := p.Transfer(link[0], link[1]); got != want {
			t.Errorf("%v: %d, want %d", link, got, want)
		}
	}
	for _, bad := range []string{"", "{}", `{"source":"x","date":"y","currency":"USD","instance":"z"}`, `{"nonsense": 1}`} {
		if _, err := ParsePrices([]byte(bad)); err == nil {
			t.Errorf("%q is read as prices", bad)
		}
	}
	var m Micros
	for text, want := range map[string]Micros{"1.5": 1_500_000, "0.000001": 1, "12": 12_000_000, "-0.250000": -250_000} {
		if err := json.Unmarshal([]byte(text), &m); err != nil || m != want {
			t.Errorf("%s is %d: %v", text, m, err)
		}
	}
	if err := json.Unmarshal([]byte("1e99"), &m); err == nil {
		t.Error("1e99 is an amount")
	}
}

// TestTableLeavesOutWhatNobodyKnows checks that the table of a database whose nodes report nothing omits unknown
// figures.
func TestTableLeavesOutWhatNobodyKnows(t *testing.T) {
	in := small()
	in.Before, in.After, in.RTTs, in.Target = nil, nil, nil, &Target{Promises: "Serializable"}
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	for _, wide := range []bool{false, true} {
		var b bytes.Buffer
		if err := Table(&b, d, wide); err != nil {
			t.Fatal(err)
		}
		for _, unknown := range []string{"per transaction: 0 bytes", "us of CPU", "cost: machines", "DECLARED RTT"} {
			if strings.Contains(b.String(), unknown) {
				t.Errorf("the table says %q:\n%s", unknown, b.String())
			}
		}
		if !strings.Contains(b.String(), "a target that promises Serializable") {
			t.Errorf("the table does not say what was measured:\n%s", b.String())
		}
	}
	text, err := json.Marshal(d.Summary)
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{"cpuMicrosecondsPerTransaction", "ytesPerTransaction", `"cost"`} {
		if bytes.Contains(text, []byte(unknown)) {
			t.Errorf("the document has %s: %s", unknown, text)
		}
	}
}

// TestWhereTellsOfElections checks that the description of the server includes its leader and the elections.
func TestWhereTellsOfElections(t *testing.T) {
	t1 := Target{Server: "etcd 3.7.3", Leader: "us", Endpoints: []TargetEndpoint{{"us", 500}, {"eu", 1250}}}
	moved, vanished := t1, t1
	moved.Elections, moved.LeaderAtEnd = 2, "eu"
	vanished.Elections = 1
	const where = "etcd 3.7.3; round trips us 0.5 ms, eu 1.25 ms; led from us"
	for _, tc := range []struct {
		of   *Target
		want string
	}{
		{&t1, where},
		{&moved, where + "; 2 leaders were elected while the run went on, the last in eu"},
		{&vanished, where + "; 1 leader was elected while the run went on, in no region with clients"},
	} {
		if got := tc.of.Where(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
