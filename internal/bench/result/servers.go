package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReasonSettingsChanged says that a server of a database that is not Geobench's own had other settings after the run
// than before, or was started again.
const ReasonSettingsChanged = "SettingsChanged"

// Server is the state of a server of a database that is not Geobench's own: what decides how durable its commits are
// and how it plans statements.
type Server struct {
	// Address of the endpoint that leads to it.
	Address string `json:"address"`
	// Started is the server's start time, and Configured the time of its last configuration reload; nil if it does not
	// report them.
	Started    *time.Time `json:"started,omitempty"`
	Configured *time.Time `json:"configured,omitempty"`
	// OtherSessions is the number of other users' sessions that were working when the server was asked, and Others
	// describes their owners.
	OtherSessions int      `json:"otherSessions,omitempty"`
	Others        []string `json:"others,omitempty"`
	// Settings are by their names in the server's own language.
	Settings map[string]Setting `json:"settings,omitempty"`
}

// Setting is one setting of a server.
type Setting struct {
	Value string `json:"value"`
	// Source is the origin of the value in the server's words, for example configuration file; empty if it does not report
	// one.
	Source string `json:"source,omitempty"`
	// PendingRestart says that the configuration has another value, which counts once the server is started again.
	PendingRestart bool `json:"pendingRestart,omitempty"`
}

// String returns the value, and reports whether another value waits for a restart.
func (s Setting) String() string {
	if s.PendingRestart {
		return s.Value + " (another value waits for a restart)"
	}
	return s.Value
}

// startJitter is the tolerance between two readings of a server's start time: some servers report uptime in whole
// seconds.
const startJitter = 3 * time.Second

// serversDiffer lists the differences between two readings of the servers. A server in only one of them is a
// difference, too.
func serversDiffer(before, after []Server) (out []string) {
	index := map[string]*Server{}
	for i := range after {
		index[after[i].Address] = &after[i]
	}
	for i := range before {
		b := &before[i]
		a := index[b.Address]
		if a == nil {
			out = append(out, fmt.Sprintf("%s did not tell of its settings after the run", b.Address))
			continue
		}
		if b.Started != nil && a.Started != nil && a.Started.Sub(*b.Started).Abs() > startJitter {
			out = append(out, fmt.Sprintf("%s was started again at %s", b.Address, a.Started.UTC().Format(time.RFC3339)))
		}
		said := len(out)
		for _, name := range settingNames(b, a) {
			was, is := b.Settings[name], a.Settings[name]
			switch {
			case was == is:
			case was.Value == is.Value && was.PendingRestart == is.PendingRestart:
				out = append(out, fmt.Sprintf("%s of %s is %s by %s, and was by %s", name, b.Address, is, is.Source, was.Source))
			default:
				out = append(out, fmt.Sprintf("%s of %s was %s, and is %s", name, b.Address, orNone(was), orNone(is)))
			}
		}
		if said == len(out) && b.Configured != nil && a.Configured != nil && !a.Configured.Equal(*b.Configured) {
			out = append(out, fmt.Sprintf("%s has read its configuration again at %s: what it had for a while is not known", b.Address, a.Configured.UTC().Format(time.RFC3339)))
		}
	}
	return out
}

// settingNames are the names of the settings of both, in order.
func settingNames(a, b *Server) []string {
	names := maps.Clone(a.Settings)
	if names == nil {
		names = map[string]Setting{}
	}
	maps.Copy(names, b.Settings)
	return slices.Sorted(maps.Keys(names))
}

func orNone(s Setting) string {
	if s == (Setting{}) {
		return "unknown"
	}
	return s.String()
}

// settingsChanged compares the servers after the run with the servers before it.
func settingsChanged(d *Document, _ *Inputs, _ *Report) []Reason {
	if d.Target == nil || len(d.Target.ServersAfter) == 0 { // a database that could not be audited has a separate reason
		return nil
	}
	differ := serversDiffer(d.Target.Servers, d.Target.ServersAfter)
	if len(differ) == 0 {
		return nil
	}
	const most = 5
	more := ""
	if n := len(differ) - most; n > 0 {
		differ, more = differ[:most], fmt.Sprintf("; and %d more", n)
	}
	return []Reason{{ReasonSettingsChanged, "while the run went on, a server was changed: " + strings.Join(differ, "; ") + more}}
}

// noteServers adds notes about servers that do not make the run Invalid.
func (d *Document) noteServers() {
	if d.Target == nil {
		return
	}
	for _, servers := range [][]Server{d.Target.Servers, d.Target.ServersAfter} {
		for i := range servers {
			s := &servers[i]
			if s.OtherSessions > 0 {
				d.Notes = append(d.Notes, fmt.Sprintf("%d sessions of others were at work at %s when it was asked (%s): figures are of a database that did other work, too", s.OtherSessions, s.Address, strings.Join(s.Others, ", ")))
				break
			}
			for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
				if s.Settings[name].PendingRestart {
					d.Notes = append(d.Notes, fmt.Sprintf("%s of %s is %s", name, s.Address, s.Settings[name]))
				}
			}
		}
	}
}

// settingsDiffer lists the settings that differ between the servers of two results. A result without settings has no
// differences.
func settingsDiffer(a, b *Document) (out []string) {
	of := func(d *Document) map[string][]string {
		values := map[string][]string{}
		for _, s := range d.target().Servers {
			for name, v := range s.Settings {
				if !slices.Contains(values[name], v.Value) {
					values[name] = append(values[name], v.Value)
				}
			}
		}
		for _, v := range values {
			slices.Sort(v)
		}
		return values
	}
	inA, inB := of(a), of(b)
	if len(inA) == 0 || len(inB) == 0 {
		return nil
	}
	for name, value := range inA {
		if other := inB[name]; !slices.Equal(value, other) {
			out = append(out, fmt.Sprintf("setting %s of the server differs: %s and %s", name, named(value), named(other)))
		}
	}
	for name, value := range inB {
		if inA[name] == nil {
			out = append(out, fmt.Sprintf("setting %s of the server differs: none and %s", name, named(value)))
		}
	}
	slices.Sort(out)
	return out
}
