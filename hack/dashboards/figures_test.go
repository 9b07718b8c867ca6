package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/engines/enginestest"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// selector is the part of a query that selects figures of engines: counters by event, or gauges by figure.
type selector struct {
	kind protocol.Kind
	text string
	// names lists the selected figures; nil if all are selected.
	names []string
}

var (
	selectors = regexp.MustCompile(`(` + metrics.EngineEvents.Name + `|` + metrics.EngineState.Name + `)\{([^}]*)\}`)
	matcher   = regexp.MustCompile(`\b(event|figure)(=~|!~|!=|=)"([^"]*)"`)
)

// selectorsOf returns the selectors of figures in a query. It fails the test for a selector that is not a list of
// names, because the test cannot check such a selector.
func selectorsOf(t *testing.T, expr string) (out []selector) {
	t.Helper()
	for _, m := range selectors.FindAllStringSubmatch(expr, -1) {
		s := selector{kind: protocol.Counter, text: m[0]}
		label := "event"
		if m[1] == metrics.EngineState.Name {
			s.kind, label = protocol.Gauge, "figure"
		}
		for _, by := range matcher.FindAllStringSubmatch(m[2], -1) {
			if by[1] != label || by[2] != "=" && by[2] != "=~" {
				t.Errorf("%s selects by %s%s; list the names of figures by %s=~", m[0], by[1], by[2], label)
			}
			s.names = append(s.names, strings.Split(by[3], "|")...)
		}
		out = append(out, s)
	}
	return out
}

// has reports whether a database of engine e that reports these figures has data for the selector.
func (s *selector) has(e *protocol.Engine, reported map[string]protocol.Reading) bool {
	for name := range reported {
		if f, ok := e.Figure(name); ok && f.Kind == s.kind && (s.names == nil || slices.Contains(s.names, name)) {
			return true
		}
	}
	return false
}

// Every name in a query is a figure of an engine, and has the kind that the query expects. If an engine declares one of
// the names, the query returns data for databases of the engine. For this, the test runs every engine.
func TestQueriesOfFiguresHaveData(t *testing.T) {
	reported := map[string]map[string]protocol.Reading{}
	for _, e := range engines.All() {
		reported[e.Name] = enginestest.Figures(t, e)
	}
	queries, shown := 0, map[string]bool{}
	for _, d := range all() {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, s := range selectorsOf(t, target.Expr) {
					queries++
					where := fmt.Sprintf("%s, %s: %s", d.Title, p.Title, s.text)
					for _, problem := range s.judge(reported) {
						t.Errorf("%s: %s", where, problem)
					}
					for _, name := range s.names {
						shown[fmt.Sprint(s.kind, name)] = true
					}
				}
			}
		}
	}
	if least := len(protocol.Topics()) + 2; queries < least {
		t.Errorf("%d queries of figures, fewer than %d", queries, least)
	}
	for _, e := range engines.All() {
		for _, f := range e.Figures {
			if !shown[fmt.Sprint(f.Kind, f.Name)] {
				t.Errorf("no panel shows %s of %s by its name", f.Name, e.Name)
			}
		}
	}
}

// judge describes the problems of a selector, given the figures that each engine reports.
func (s *selector) judge(reported map[string]map[string]protocol.Reading) (problems []string) {
	for _, name := range s.names {
		if !slices.ContainsFunc(engines.All(), func(e *protocol.Engine) bool {
			f, ok := e.Figure(name)
			return ok && f.Kind == s.kind
		}) {
			problems = append(problems, fmt.Sprintf("no engine has a %v %s", s.kind, name))
		}
	}
	for _, e := range engines.All() {
		declared := slices.ContainsFunc(e.Figures, func(f protocol.Figure) bool {
			return f.Kind == s.kind && (s.names == nil || slices.Contains(s.names, f.Name))
		})
		if got := s.has(e, reported[e.Name]); got != declared {
			problems = append(problems, fmt.Sprintf("engine %s has such a figure: %v; the query has data: %v", e.Name, declared, got))
		}
	}
	return problems
}

// The check detects an error that a query once had, and similar errors.
func TestWrongQueriesAreFound(t *testing.T) {
	reported := map[string]map[string]protocol.Reading{}
	for _, e := range engines.All() {
		reported[e.Name] = map[string]protocol.Reading{}
		for _, f := range e.Figures {
			reported[e.Name][f.Name] = protocol.Reading{Name: f.Name}
		}
	}
	for expr, want := range map[string]string{
		`rate(geobench_engine_events_total{namespace=~"$n",event=~"lock_waits|reexecutions"}[1m])`: "no engine has a counter reexecutions",
		`rate(geobench_engine_events_total{event="pending"}[1m])`:                                  "no engine has a counter pending",
		`max(geobench_engine_state{figure=~"batches"})`:                                            "no engine has a gauge batches",
		`max(geobench_engine_state{figure=~"log_position|leases"})`:                                "",
		`rate(geobench_engine_events_total{namespace=~"$n"}[1m])`:                                  "",
	} {
		s := selectorsOf(t, expr)
		if len(s) != 1 {
			t.Fatalf("%s: %d selections", expr, len(s))
		}
		if got := strings.Join(s[0].judge(reported), "\n"); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
	delete(reported["sdur"], "pending")
	s := selector{kind: protocol.Gauge, names: []string{"pending"}}
	if got := s.judge(reported); len(got) != 1 || got[0] != "engine sdur has such a figure: true; the query has data: false" {
		t.Errorf("a figure that is not reported: %q", got)
	}
}
