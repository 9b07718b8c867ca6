package result

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettingsChanged(t *testing.T) {
	at := func(s int) *time.Time {
		t := time.Date(2026, 11, 27, 17, 0, s, 0, time.UTC)
		return &t
	}
	server := func(change func(*Server)) []Server {
		s := Server{Address: "db:5432", Started: at(0), Configured: at(1), Settings: map[string]Setting{"fsync": {Value: "on", Source: "default"}}}
		change(&s)
		return []Server{s}
	}
	same := func(*Server) {}
	for name, tt := range map[string]struct {
		before, after []Server
		says, note    string
	}{
		"nobody tells":                 {},
		"as before":                    {before: server(same), after: server(same)},
		"not known after":              {before: server(same)},
		"another value":                {before: server(same), after: server(func(s *Server) { s.Settings["fsync"] = Setting{Value: "off", Source: "configuration file"} }), says: "fsync of db:5432 was on, and is off"},
		"another source":               {before: server(same), after: server(func(s *Server) { s.Settings["fsync"] = Setting{Value: "on", Source: "database"} }), says: "fsync"},
		"a setting more":               {before: server(same), after: server(func(s *Server) { s.Settings["jit"] = Setting{Value: "off"} }), says: "jit of db:5432 was unknown, and is off"},
		"started again":                {before: server(same), after: server(func(s *Server) { s.Started, s.Configured = at(30), at(31) }), says: "was started again at 2026-11-27T17:00:30Z"},
		"a start that is reckoned":     {before: server(same), after: server(func(s *Server) { s.Started = at(1) })},
		"configured again":             {before: server(same), after: server(func(s *Server) { s.Configured = at(9) }), says: "has read its configuration again"},
		"another server":               {before: server(same), after: server(func(s *Server) { s.Address = "other:5432" }), says: "db:5432 did not tell"},
		"others at work":               {before: server(func(s *Server) { s.OtherSessions, s.Others = 20, []string{"20 x pgbench of me"} }), after: server(same), note: "20 sessions of others were at work at db:5432 when it was asked (20 x pgbench of me)"},
		"others at work afterwards":    {before: server(same), after: server(func(s *Server) { s.OtherSessions = 1 }), note: "1 sessions of others"},
		"a change waits for a restart": {before: server(func(s *Server) { s.Settings["fsync"] = Setting{Value: "on", PendingRestart: true} }), note: "fsync of db:5432 is on (another value waits for a restart)"},
	} {
		in := small()
		in.Simulated, in.Before, in.After = false, nil, nil
		in.Target = &Target{Server: "PostgreSQL 15", Servers: tt.before, ServersAfter: tt.after}
		d, err := Build(in)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, r := range d.Reasons {
			if r.Reason == ReasonSettingsChanged {
				said += r.Message
			}
		}
		if tt.says == "" && said != "" || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %q, want %q", name, said, tt.says)
		}
		if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
			t.Errorf("%s: notes %q, want %q", name, notes, tt.note)
		}
	}
}

// TestEachServerIsNoted checks that a server with other sessions does not hide the settings of the servers after it.
// Each note must appear once, although the servers are queried both before and after the run.
func TestEachServerIsNoted(t *testing.T) {
	pending := map[string]Setting{"fsync": {Value: "on", PendingRestart: true}}
	servers := []Server{{Address: "a", OtherSessions: 1, Settings: pending}, {Address: "b", OtherSessions: 2, Settings: pending}}
	d := &Document{Target: &Target{Servers: servers, ServersAfter: servers}}
	d.noteServers()
	want := []string{
		"1 sessions of others were at work at a when it was asked (): figures are of a database that did other work, too",
		"fsync of a is on (another value waits for a restart)", "fsync of b is on (another value waits for a restart)",
	}
	if !slices.Equal(d.Notes, want) {
		t.Errorf("notes %q, want %q", d.Notes, want)
	}
}

func TestSettingsDiffer(t *testing.T) {
	of := func(name, value string) *Document {
		return &Document{Target: &Target{Servers: []Server{{Address: "a", Settings: map[string]Setting{name: {Value: value}}}}}}
	}
	for name, tt := range map[string]struct {
		a, b *Document
		says string
	}{
		"the same":          {of("fsync", "on"), of("fsync", "on"), ""},
		"another value":     {of("fsync", "on"), of("fsync", "off"), "setting fsync of the server differs: on and off"},
		"another setting":   {of("fsync", "on"), of("jit", "on"), "setting fsync of the server differs: on and none; setting jit of the server differs: none and on"},
		"one tells of none": {of("fsync", "on"), &Document{}, ""},
	} {
		if got := strings.Join(settingsDiffer(tt.a, tt.b), "; "); got != tt.says {
			t.Errorf("%s: %q, want %q", name, got, tt.says)
		}
	}
}
