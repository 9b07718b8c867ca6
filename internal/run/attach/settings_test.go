package attach_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/run/attach"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// playWhile plays a run. If do is not nil, it calls do once during the load.
func playWhile(t *testing.T, o own, do func()) *result.Document {
	t.Helper()
	var once sync.Once
	d, err := attach.Play(t.Context(), planned(t, o.text()), secrets(t), func(p inprocess.Progress) {
		if p.Elapsed > 0 && do != nil {
			once.Do(do)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// whySettings returns the message of a document about changed settings, or "" if there is none.
func whySettings(d *result.Document) string {
	for _, r := range d.Reasons {
		if r.Reason == result.ReasonSettingsChanged {
			return r.Message
		}
	}
	return ""
}

// The result contains the settings of a PostgreSQL server that determine its durability and its query plans. A run is
// Invalid if such a setting changes during the run.
func TestSettingsOfPostgreSQL(t *testing.T) {
	s := postgrestest.Start(t)
	query := func(sql ...string) {
		for _, q := range sql {
			s.Query(t, "postgres", q)
		}
	}
	mine := own{address: s.Address, workload: "{ycsb: {preset: B, records: 200}}", load: "{clientsPerRegion: 4, warmup: 100ms, duration: 1500ms, thinkTime: 10ms}", verify: "[Invariants]", isolation: "RepeatableRead"}
	plain := playWhile(t, mine, nil)
	if says := whySettings(plain); says != "" {
		t.Errorf("nobody changed anything, and it says %q", says)
	}
	if n := len(plain.Target.Servers); n != 1 {
		t.Fatalf("%d servers", n)
	}
	server := plain.Target.Servers[0]
	if v := server.Settings["synchronous_commit"]; v.Value != "on" || v.Source == "" || server.Started == nil || server.Configured == nil || server.Settings["fsync"].Value == "" || server.Settings["shared_buffers"].Value == "" {
		t.Errorf("the result has %+v", server)
	}
	// The order matters. The first reload also reports that shared_buffers is waiting for a restart, because the file and
	// the command line of the server differ. The message of a run in which this happens mentions nothing else.
	for _, tt := range []struct {
		name string
		do   func()
		says []string
	}{
		{"a setting of the server", func() { query("alter system set synchronous_commit = off", "select pg_reload_conf()") }, []string{"synchronous_commit of " + s.Address + " was on, and is off"}},
		{"a setting of the database", func() { query("alter database postgres set random_page_cost = 9") }, []string{"random_page_cost", "is 9"}},
		{"a setting that takes a restart", func() { query("alter system set huge_pages = off", "select pg_reload_conf()") }, []string{"huge_pages", "another value waits for a restart"}},
		{"a setting that is taken back", func() {
			query("alter system set full_page_writes = off", "select pg_reload_conf()", "alter system reset full_page_writes", "select pg_reload_conf()")
		}, []string{"has read its configuration again"}},
	} {
		d := playWhile(t, mine, tt.do)
		says := whySettings(d)
		for _, want := range tt.says {
			if d.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(says, want) {
				t.Errorf("%s: %s, %q does not say %q", tt.name, d.Verdict, says, want)
			}
		}
		query("alter system reset all", "alter database postgres reset all", "select pg_reload_conf()")
	}
	query("alter system set synchronous_commit = off", "select pg_reload_conf()")
	other := playWhile(t, mine, nil)
	if says := whySettings(other); says != "" {
		t.Errorf("it was changed before the run, and it says %q", says)
	}
	c := result.Compare([]*result.Document{plain}, []*result.Document{other}, result.CompareOptions{})
	if !slices.ContainsFunc(c.Warnings, func(w string) bool {
		return strings.Contains(w, "synchronous_commit of the server differs: on and off")
	}) {
		t.Errorf("a comparison warns of %q", c.Warnings)
	}
}
