package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReasonSettingsChanged is the reason if a server of a target had different settings after the run than before, or was
// restarted.
const ReasonSettingsChanged = "SettingsChanged"

// Server holds the state of a target's server that determines how durable commits are and how statements are planned.
type Server struct {
	// Address is the address of the endpoint that leads to the server.
	Address string `json:"address"`
	// Started is the server's start time, and Configured the time of its last configuration reload; nil if the server
	// does not report them.
	Started    *time.Time `json:"started,omitempty"`
	Configured *time.Time `json:"configured,omitempty"`
	// OtherSessions is the number of active sessions of other users when the server was queried, and Others describes
	// their owners.
	OtherSessions int      `json:"otherSessions,omitempty"`
	Others        []string `json:"others,omitempty"`
	// Settings maps the server's names of its settings to the settings.
	Settings map[string]Setting `json:"settings,omitempty"`
}

// Setting is one setting of a server.
type Setting struct {
	Value string `json:"value"`
	// Source is the origin of the value as named by the server, for example configuration file; empty if the server does
	// not report it.
	Source string `json:"source,omitempty"`
	// PendingRestart is set if the configuration has another value that takes effect at the next restart.
	PendingRestart bool `json:"pendingRestart,omitempty"`
}

// String returns the value, with a remark if another value waits for a restart.
func (s Setting) String() string {
	if s.PendingRestart {
		return s.Value + " (another value waits for a restart)"
	}
	return s.Value
}

// startJitter is the tolerance between two readings of a server's start time, because some servers report their uptime
// in whole seconds.
const startJitter = 3 * time.Second

// serversDiffer describes the differences between two readings of the servers, including a server without a second
// reading.
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
			// An equal value from another source still means that the configuration was changed.
			case was.Value == is.Value && was.PendingRestart == is.PendingRestart:
				out = append(out, fmt.Sprintf("%s of %s is %s by %s, and was by %s", name, b.Address, is, is.Source, was.Source))
			default:
				out = append(out, fmt.Sprintf("%s of %s was %s, and is %s", name, b.Address, orNone(was), orNone(is)))
			}
		}
		// The configuration was reloaded without a visible difference: a setting may have been changed and changed back.
		if said == len(out) && b.Configured != nil && a.Configured != nil && !a.Configured.Equal(*b.Configured) {
			out = append(out, fmt.Sprintf("%s has read its configuration again at %s: what it had for a while is not known", b.Address, a.Configured.UTC().Format(time.RFC3339)))
		}
	}
	return out
}

// settingNames returns the sorted names of the settings of either server.
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

// settingsChanged returns a reason if the servers after the run differ from the servers before it.
func settingsChanged(d *Document, _ *Inputs, _ *Report) []Reason {
	if d.Target == nil || len(d.Target.ServersAfter) == 0 { // a database that could not be audited has its own reason
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
	note := func(text string) {
		if !slices.Contains(d.Notes, text) { // the notes on the servers before and after the run are often the same
			d.Notes = append(d.Notes, text)
		}
	}
	for _, servers := range [][]Server{d.Target.Servers, d.Target.ServersAfter} {
		crowded := false // one note about other sessions is enough
		for i := range servers {
			s := &servers[i]
			if s.OtherSessions > 0 && !crowded {
				crowded = true
				note(fmt.Sprintf("%d sessions of others were at work at %s when it was asked (%s): figures are of a database that did other work, too", s.OtherSessions, s.Address, strings.Join(s.Others, ", ")))
			}
			for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
				if s.Settings[name].PendingRestart {
					note(fmt.Sprintf("%s of %s is %s", name, s.Address, s.Settings[name]))
				}
			}
		}
	}
}

// settingsDiffer describes the settings that differ between the servers of two results. If a result has no settings,
// there are no differences.
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
