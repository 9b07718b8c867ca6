package result

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// course returns a document with the given throughput. Each character is a tenth of a second, and its digit times ten
// is the number of commits.
func course(t *testing.T, text string, faults ...Fault) *Document {
	t.Helper()
	text = strings.ReplaceAll(text, " ", "")
	if len(text)%10 != 0 {
		t.Fatalf("%d tenths are no whole seconds", len(text))
	}
	d := &Document{Faults: faults}
	d.Spec.Load.Duration = v1alpha1.DurationOf(time.Duration(len(text)) * 100 * time.Millisecond)
	for i, c := range text {
		if i%10 == 0 {
			d.Timeline = append(d.Timeline, Tick{Second: i / 10, Tenths: &Tenths{}})
		}
		d.Timeline[i/10].Tenths.Committed[i%10] = int64(c-'0') * 10
		d.Timeline[i/10].Tenths.Failed[i%10] = 1
	}
	d.fillFaults(&Report{})
	return d
}

func between(name string, from, to int64) Fault {
	f := Fault{Name: name, Kind: "k", FromMicroseconds: &from, InjectedMicroseconds: &from}
	if to > 0 {
		f.RecoveringMicroseconds, f.ToMicroseconds = &to, &to
	} else {
		f.Lasting = true
	}
	return f
}

// replaced returns a fault whose removal starts immediately. The lost resources are available again at time to.
func replaced(from, to int64) Fault {
	f := between("f", from, to)
	f.RecoveringMicroseconds = &from
	return f
}

// spreading returns a fault that takes effect everywhere only some time after its start.
func spreading(from, injected, to int64) Fault {
	f := between("f", from, to)
	f.InjectedMicroseconds = &injected
	return f
}

func (a *Availability) text() string {
	if a == nil {
		return "none"
	}
	p := func(v *int64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprint(*v)
	}
	mending := ""
	if a.MendingPerSecond != nil {
		mending = fmt.Sprintf(", mending %d", *a.MendingPerSecond)
	}
	return fmt.Sprintf("normal %d, fault %d"+mending+", R %d, T %s, detect %s, recover %s, outage %d, failed %d", a.NormalPerSecond, a.FaultPerSecond, a.RPPM,
		p(a.TPPM), p(a.DetectMicroseconds), p(a.RecoverMicroseconds), a.OutageMicroseconds, a.Failed)
}

func TestAvailability(t *testing.T) {
	const second, idle = "5555555555", "0000000000"
	for name, tc := range map[string]struct {
		course string
		faults []Fault
		want   []string
	}{
		"no effect": {strings.Repeat(second, 6), []Fault{between("f", 2e6, 4e6)},
			[]string{"normal 500, fault 500, R 1000000, T 1000000, detect -, recover 0, outage 0, failed 20"}},
		"a dip of a fifth that ends at once": {second + second + "4444444444" + second + second, []Fault{between("f", 2e6, 3e6)},
			[]string{"normal 500, fault 400, R 800000, T 1000000, detect 0, recover 0, outage 0, failed 10"}},
		// The throughput is back at 95% half a second after the end: T = 1 / 1.5.
		"an outage": {second + second + idle + idle + "0000055555" + second + second, []Fault{between("f", 2e6, 4e6)},
			[]string{"normal 500, fault 0, R 0, T 666667, detect 0, recover 500000, outage 2500000, failed 20"}},
		"felt late": {second + second + second + idle + second + second + second, []Fault{between("f", 2e6, 4e6)},
			[]string{"normal 500, fault 250, R 500000, T 1000000, detect 100000, recover 0, outage 1000000, failed 20"}},
		"never over": {second + second + idle + idle + idle, []Fault{between("f", 2e6, 3e6)},
			[]string{"normal 500, fault 0, R 0, T 0, detect 0, recover -, outage 3000000, failed 10"}},
		// A node is killed and restarts within a tenth of a second. The figures cover one second, starting with the kill.
		"over at once": {second + second + "0022555555" + second + second, []Fault{between("f", 2e6, 2e6+50_000)},
			[]string{"normal 500, fault 340, R 680000, T 769231, detect 0, recover 300000, outage 200000, failed 10"}},
		// The node is back immediately, and its rows are available 2.5 s later.
		"a node that is replaced": {second + second + idle + "2222222222" + "4444455555" + second + second, []Fault{replaced(2e6, 4.5e6)},
			[]string{"normal 500, fault 0, mending 160, R 0, T 1000000, detect 0, recover 0, outage 1000000, failed 25"}},
		"one that is replaced within a second": {second + second + "2222255555" + second + second, []Fault{replaced(2e6, 2.5e6)},
			[]string{"normal 500, fault 350, R 700000, T 1000000, detect 0, recover 0, outage 0, failed 10"}},
		"no time left to tell": {second + second + idle, []Fault{between("f", 2e6, 2.9e6)},
			[]string{"normal 500, fault 0, R 0, T -, detect 0, recover -, outage 1000000, failed 9"}},
		"no time before": {idle + second + second, []Fault{between("f", 500_000, 1e6)}, []string{"none"}},
		"better than before": {second + "9999999999" + second, []Fault{between("f", 1e6, 2e6)},
			[]string{"normal 500, fault 900, R 200000, T 1000000, detect -, recover 0, outage 0, failed 10"}},
		// The recovery time of a lasting fault counts from the start of the fault.
		"a lasting fault": {second + second + idle + "0005555555" + second + second, []Fault{between("f", 2e6, 0)},
			[]string{"normal 500, fault 338, R 675000, T 434783, detect 0, recover 1300000, outage 1300000, failed 40"}},
		"one after the other": {second + second + idle + second + second + "4444444444" + second + second, []Fault{between("f", 2e6, 3e6), between("g", 5e6, 6e6)},
			[]string{"normal 500, fault 0, R 0, T 1000000, detect 0, recover 0, outage 1000000, failed 10",
				"normal 500, fault 400, R 800000, T 1000000, detect 0, recover 0, outage 0, failed 10"}},
		// The throughput during the first fault is not the normal throughput for the second fault.
		"one in the other": {second + second + "2222222222" + "1111111111" + "2222222222" + second + second, []Fault{between("f", 2e6, 5e6), between("g", 3e6, 4e6)},
			[]string{"normal 500, fault 167, R 333333, T 1000000, detect 0, recover 0, outage 0, failed 30",
				"normal 500, fault 100, R 200000, T 500000, detect 0, recover 1000000, outage 0, failed 10"}},
		"one after the other's end began": {second + second + "2222222222" + "1111111111" + "3333333333" + second + second, []Fault{between("f", 2e6, 4e6), between("g", 3e6, 5e6)},
			[]string{"normal 500, fault 150, R 300000, T -, detect 0, recover -, outage 0, failed 20",
				"normal 500, fault 200, R 400000, T 1000000, detect 0, recover 0, outage 0, failed 20"}},
		// For the throughput, two nodes that are killed at the same time count as one fault.
		"two lasting ones at once": {second + second + idle + "0005555555" + second + second, []Fault{between("f", 2e6, 0), between("g", 2.05e6, 0)},
			[]string{"normal 500, fault 338, R 675000, T 434783, detect 0, recover 1300000, outage 1300000, failed 40",
				"normal 500, fault 346, R 692308, T 444444, detect 0, recover 1250000, outage 1300000, failed 40"}},
		"two at once, one over earlier": {second + second + "1111111111" + "3333333333" + second + second, []Fault{between("f", 2e6, 3e6), between("g", 2e6, 4e6)},
			[]string{"normal 500, fault 100, R 200000, T -, detect 0, recover -, outage 0, failed 10",
				"normal 500, fault 200, R 400000, T 1000000, detect 0, recover 0, outage 0, failed 20"}},
		"two that are over at once": {second + second + "0022555555" + second + second, []Fault{between("f", 2e6, 2e6+50_000), between("g", 2e6, 2e6+50_000)},
			[]string{"normal 500, fault 340, R 680000, T 769231, detect 0, recover 300000, outage 200000, failed 10",
				"normal 500, fault 340, R 680000, T 769231, detect 0, recover 300000, outage 200000, failed 10"}},
		// The effect of a fault is unknown if less than a second of it was measured.
		"a lasting one at the end":        {second + second + second, []Fault{between("f", 2.5e6, 0)}, []string{"none"}},
		"a lasting one, and soon another": {second + second + idle + idle, []Fault{between("f", 2e6, 0), between("g", 2.4e6, 0)}, []string{"none", "normal 500, fault 0, R 0, T 0, detect 0, recover -, outage 1600000, failed 16"}},
		"with the end":                    {second + second + second, []Fault{between("f", 3e6, 3.2e6)}, []string{"none"}},
		"everywhere after the end":        {second + second + second, []Fault{spreading(2e6, 3.5e6, 5e6)}, []string{"none"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := course(t, tc.course, tc.faults...)
			for i, want := range tc.want {
				if got := d.Faults[i].Availability.text(); got != want {
					t.Errorf("%s:\n%s, want\n%s", d.Faults[i].Name, got, want)
				}
			}
		})
	}
}

func TestFaultMarks(t *testing.T) {
	d := course(t, strings.Repeat("5", 60), between("f", 1.9e6, 3e6), between("g", 4e6, 0))
	got := ""
	for _, tick := range d.Timeline {
		got += fmt.Sprint(tick.Faults)
	}
	if want := "[][f][f][f][g][g]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFaultsFailed(t *testing.T) {
	d := &Document{Faults: []Fault{between("f", 1, 2), {Name: "g"}, {Name: "h", Problem: "Inject: no"}}}
	if got := fmt.Sprint(faultsFailed(d, nil, nil)); got != "[{FaultFailed fault g was never injected} {FaultFailed fault h: Inject: no}]" {
		t.Error(got)
	}
}

func TestFaultTable(t *testing.T) {
	d := course(t, strings.Repeat("5", 20)+strings.Repeat("0", 25)+strings.Repeat("5", 25), between("cut", 2e6, 4e6), between("kill", 6e6, 0))
	d.Faults[0].Targets = []string{"eu/0/0", "eu/1/0"}
	d.Faults[1].Message = "gone"
	var b strings.Builder
	grid(&b, faultRows(d))
	want := `FAULT  FROM     TO  TXN/S  DURING  MENDING     R     T  DETECTED  RECOVERED  OUTAGE  ERRORS
cut    2.0s   4.0s    500       0        -  0.00  0.67      0.0s       0.5s    2.5s      20
kill   6.0s  stays    500     500        -  1.00  1.00        no       0.0s    0.0s      10
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if notes := fmt.Sprint(faultNotes(d)); notes != "[cut: k on eu/0/0, eu/1/0 kill: k; gone]" {
		t.Error(notes)
	}
}

// planned returns a fault that is planned from 15 s to 25 s, with the default tolerance. times are its actual times in
// milliseconds; a missing or negative time means never.
func planned(name string, times ...int64) Fault {
	at := func(i int) *int64 {
		if i < len(times) && times[i] >= 0 {
			us := times[i] * 1000
			return &us
		}
		return nil
	}
	return Fault{Name: name, AtMicroseconds: 15e6, DurationMicroseconds: 10e6, ToleranceMicroseconds: 250_000,
		FromMicroseconds: at(0), InjectedMicroseconds: at(1), RecoveringMicroseconds: at(2), ToMicroseconds: at(3)}
}

func TestFaultsMistimed(t *testing.T) {
	kill := func(f Fault) Fault {
		f.DurationMicroseconds, f.Lost, f.Lasting = 0, []string{"eu/0/0"}, true
		return f
	}
	restart := func(f Fault) Fault {
		f.Restarted = []string{"eu/0/0"}
		return f
	}
	wide := func(f Fault) Fault { f.ToleranceMicroseconds = 20e6; return f }
	for name, tc := range map[string]struct {
		fault Fault
		want  string
	}{
		"on time":                {planned("f", 15_000, 15_010, 25_000, 25_010), ""},
		"within the tolerance":   {planned("f", 15_200, 15_250, 24_750, 25_250), ""},
		"late":                   {planned("f", 31_600, 31_630, 32_200, 32_200), "fault f began at 31.6s, planned for 15s: 16.6s late, and 250ms is allowed (tolerance)"},
		"late somewhere":         {planned("f", 15_000, 15_251, 25_000, 25_000), "fault f began at 15.251s, planned for 15s: 251ms late, and 250ms is allowed (tolerance)"},
		"too long":               {planned("f", 15_000, 15_000, 25_000, 68_600), "fault f ended at 1m8.6s, planned for 25s: 43.6s late, and 250ms is allowed (tolerance)"},
		"too short":              {planned("f", 15_000, 15_000, 24_000, 25_000), "fault f ended at 24s, planned for 25s: 1s early, and 250ms is allowed (tolerance)"},
		"too early":              {planned("f", 14_000, 15_000, 25_000, 25_000), "fault f began at 14s, planned for 15s: 1s early, and 250ms is allowed (tolerance)"},
		"a tolerance of its own": {wide(planned("f", 31_600, 31_630, 32_200, 32_200)), ""},
		// The time of the kill counts, not the time at which all nodes have noticed it.
		"a kill":         {kill(planned("f", 15_100, 18_000)), ""},
		"a late kill":    {kill(planned("f", 15_300, 18_000)), "fault f began at 15.3s, planned for 15s: 300ms late, and 250ms is allowed (tolerance)"},
		"a restart":      {restart(planned("f", 15_000, 15_000, 25_000, 26_200)), ""}, // a restart may take some time
		"a late restart": {restart(planned("f", 15_000, 15_000, 26_000, 26_200)), "fault f ended at 26s, planned for 25s: 1s late, and 250ms is allowed (tolerance)"},
		"never":          {planned("f"), ""}, // covered by another reason
	} {
		got := ""
		for _, r := range faultsMistimed(&Document{Faults: []Fault{tc.fault}}, &Inputs{}, nil) {
			if r.Reason != ReasonFaultMistimed {
				t.Errorf("%s: %s", name, r.Reason)
			}
			got += r.Message
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestDeviations(t *testing.T) {
	in := &Inputs{Deviations: []Deviation{
		{Name: "eu/0/0", What: "slower by 50%", FromMicroseconds: 1e6, ToMicroseconds: 1_001_000},
		{Name: "eu/0/0", What: "undisturbed", FromMicroseconds: 16e6, ToMicroseconds: 17e6, Fault: "f"},
		{Name: "eu/0/1", What: "undisturbed", FromMicroseconds: 16e6, ToMicroseconds: 17e6, Fault: "f"},
		{Name: "eu/0/0", What: "undisturbed", FromMicroseconds: 40e6, ToMicroseconds: 41e6, Fault: "late"},
	}}
	d := &Document{Faults: []Fault{planned("f", 15_000, 15_000, 25_000, 25_000), planned("late", 40_000, 40_000, 50_000, 50_000)}}
	if got := fmt.Sprint(undeclared(d, in, nil)); got != "[{UndeclaredDisturbance eu/0/0: slower by 50% from 1s to 1.001s, which no fault of the manifest declares}]" {
		t.Error(got)
	}
	if got := faultsMistimed(d, in, nil); len(got) != 2 || !strings.HasPrefix(got[0].Message, "fault late began at 40s") ||
		got[1].Message != "fault f: eu/0/0 was undisturbed from 16s to 17s, which its plan does not have" {
		t.Error(got)
	}
	in.FastLinks = []FastLink{{From: "eu/0/0", To: "us", DeclaredMicroseconds: 100_000, MedianMicroseconds: 20_123, FromMicroseconds: 1e6, ToMicroseconds: 2_500_000}}
	if got := fmt.Sprint(linksTooFast(d, in, nil)); got != "[{LinkTooFast link eu/0/0 -> us: round trips took 20.123ms (median) from 1s to 2.5s; 100ms is declared, and no fault of the manifest changes it}]" {
		t.Error(got)
	}
	for range 200 {
		in.Deviations = append(in.Deviations, in.Deviations[0])
	}
	if got := undeclared(d, in, nil); len(got) != 3 || !strings.HasSuffix(got[2].Message, "; and 198 more") {
		t.Errorf("%d: %s", len(got), got[len(got)-1].Message)
	}
}

// TestIncidentsThatFaultsExplain checks that the effects of a fault on the connections of its nodes are no incidents.
// Any incident at a permanently lost node is expected. A node that returns as the same process may be disconnected in
// the meantime.
func TestIncidentsThatFaultsExplain(t *testing.T) {
	about := func(node, reason string) Incident { return Incident{Reason{reason, "about " + node}, node} }
	in := &Inputs{Faults: []Fault{{Lost: []string{"lost"}}, {Restarted: []string{"back"}}}}
	r := &Report{Incidents: []Incident{
		about("lost", ReasonConnectionLost), about("lost", ReasonNodeRestarted), about("back", ReasonConnectionLost),
		about("back", ReasonNodeRestarted), about("other", ReasonConnectionLost), about("", ReasonWorkerLost),
	}}
	want := []Reason{{ReasonNodeRestarted, "about back"}, {ReasonConnectionLost, "about other"}, {ReasonWorkerLost, "about "}}
	if got := incidents(nil, in, r); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
