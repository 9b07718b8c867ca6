package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// empty contains the reasons why some queries cannot return data. The first key is the place where the run was scraped.
// The second key has the form DASHBOARD / PANEL / REFID. It is shorter if the reason applies to a whole dashboard,
// section or panel.
var empty = map[string]map[string]string{
	"local": {
		"Operator":                              "there is no operator without a cluster",
		"Network / Sidecars":                    "there are no sidecars without a cluster",
		"Run / Refused, lost and timed out / A": "no transaction is refused in the quickstart",
		"Run / Refused, lost and timed out / B": "no connection is lost in the quickstart",
		"Run / Aborts by reason":                "no transaction of the quickstart aborts",
		"Engine / " + recovery:                  calvinCounts,
		"Engine / " + work:                      calvinCounts,
		"alert":                                 "nothing is wrong",
	},
	"cluster": {
		"Network / Sidecars":                    sidecarsNeeded,
		"Operator / Runs under way":             "the run is over when this is asked",
		"Run / Refused, lost and timed out / A": "no transaction is refused in the quickstart",
		"Run / Refused, lost and timed out / B": "no connection is lost in the quickstart",
		"Run / Aborts by reason":                "no transaction of the quickstart aborts",
		"Engine / " + recovery:                  calvinCounts,
		"Engine / " + work:                      calvinCounts,
		"annotation Faults":                     "the quickstart has no faults",
		"alert":                                 "nothing is wrong",
	},
}

// recovery and work are the titles of panels about which calvin, the engine of the quickstart, has no counters.
// calvinCounts is the reason. The test of package dashboards covers all engines.
const (
	recovery     = string(protocol.AboutRecovery)
	work         = string(protocol.AboutWork)
	calvinCounts = "calvin counts nothing of this kind"
)

// sidecarsNeeded is the reason why there is no data about sidecars if the engine itself delays the links.
const sidecarsNeeded = "the quickstart's network is emulated by the engine"

// A cluster whose network is emulated by sidecars has the same data as any cluster, and also data about sidecars.
func init() {
	empty["sidecars"] = maps.Clone(empty["cluster"])
	delete(empty["sidecars"], "Network / Sidecars")
}

// expected returns the reason why a query may return no data, and the key of the entry with this reason. Both are empty
// if the query must return data.
func expected(place, dashboard, section, panel, ref string) (why, entry string) {
	for _, name := range []string{dashboard, dashboard + " / " + section, dashboard + " / " + panel, dashboard + " / " + panel + " / " + ref, panel} {
		if why := empty[place][name]; why != "" {
			return why, strings.TrimPrefix(name, dashboard+" / ")
		}
	}
	return "", ""
}

// tally contains the numbers of queries of a dashboard or of the rules.
type tally struct {
	name                   string
	panels, queries, empty int
	why                    []string
}

// judge evaluates all queries and prints a table of the results.
func judge(ctx context.Context, c config, place string, dashboards []dashboard, rules []rule, s *server) error {
	var problems []error
	var tallies []*tally
	section := "" // section of the dashboard
	one := func(t *tally, panel, ref, expr string, instant bool) []series {
		t.queries++
		where := t.name + " / " + panel + " / " + ref
		expr, err := s.expand(expr)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", where, err))
			return nil
		}
		answer, err := s.evaluate(ctx, expr, instant)
		points := 0
		for i := range answer {
			points += answer[i].points()
		}
		why, entry := expected(place, t.name, section, panel, ref)
		if c.verbose {
			fmt.Printf("%s: %d series, %d values\n    %s\n", where, len(answer), points, expr)
		}
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w\n    %s", where, err, expr))
		case points == 0 && why == "":
			problems = append(problems, fmt.Errorf("%s returned nothing\n    %s", where, expr))
		case points == 0:
			t.empty++
			if line := fmt.Sprintf("%s (%s)", entry, why); len(t.why) == 0 || t.why[len(t.why)-1] != line {
				t.why = append(t.why, line)
			}
		}
		return answer
	}
	var drawn []drawing
	for _, d := range dashboards {
		t := &tally{name: strings.TrimPrefix(d.Title, "Geobench / ")}
		tallies = append(tallies, t)
		section = ""
		bands := map[string][]series{}
		for _, a := range d.Annotations.List {
			bands[a.Name] = one(t, "annotation "+a.Name, "", a.Expr, false)
		}
		for _, p := range d.Panels {
			if p.Type == "row" {
				section = p.Title
				drawn = append(drawn, drawing{dashboard: t.name, panel: p})
				continue
			}
			t.panels++
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				problems = append(problems, fmt.Errorf("%s / %s: a panel needs a title, a description, a unit and a query", t.name, p.Title))
			}
			draw := drawing{dashboard: t.name, panel: p, stages: bands["Stages"], faults: bands["Faults"]}
			for _, q := range p.Targets {
				draw.answers = append(draw.answers, one(t, p.Title, q.RefID, q.Expr, q.Instant))
			}
			drawn = append(drawn, draw)
		}
		section = ""
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				t.queries++
				values, err := s.choices(ctx, v.Query)
				if err == nil && len(values) == 0 && place+t.name != "localOperator" {
					err = errors.New("there is nothing to choose")
				}
				if err != nil {
					problems = append(problems, fmt.Errorf("%s / variable %s: %w", t.name, v.Name, err))
				}
				if c.verbose {
					fmt.Printf("%s / variable %s: %v\n", t.name, v.Name, values)
				}
			}
		}
	}
	t := &tally{name: "rules.yaml"}
	tallies = append(tallies, t)
	for _, r := range rules {
		t.panels++
		if r.Alert != "" {
			one(t, "alert", "", r.Expr, false)
			continue
		}
		one(t, r.Record, "", r.Expr, false)
		one(t, "recorded "+r.Record, "", r.Record, false)
	}
	problems = append(problems, s.healthy(ctx)...)

	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "dashboard\tpanels\tqueries\tempty\twhy")
	sum := tally{name: "all"}
	for _, t := range tallies {
		why := strings.Join(t.why, "; ")
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", t.name, t.panels, t.queries, t.empty, why)
		sum.panels, sum.queries, sum.empty = sum.panels+t.panels, sum.queries+t.queries, sum.empty+t.empty
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d wrong\n", sum.panels, sum.queries, sum.empty, len(problems))
	if err := w.Flush(); err != nil {
		return err
	}
	if c.plot != "" {
		if err := plot(c.plot, drawn, s); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}

// choices returns the values of a variable that can be selected.
func (s *server) choices(ctx context.Context, raw []byte) ([]string, error) {
	selector, label, err := variableQuery(raw)
	if err != nil {
		return nil, err
	}
	if selector, err = s.expand(selector); err != nil {
		return nil, err
	}
	var values []string
	q := url.Values{"match[]": {selector}, "start": {stamp(s.from)}, "end": {stamp(s.to)}}
	err = s.get(ctx, "label/"+label+"/values?"+q.Encode(), nil, &values)
	return values, err
}

// healthy describes the rules that the server could not evaluate and the targets that it could not scrape. It also
// reports a server that has not loaded the rules.
func (s *server) healthy(ctx context.Context) (problems []error) {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := s.get(ctx, "rules", nil, &data); err != nil {
		return []error{err}
	}
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				problems = append(problems, fmt.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	if n == 0 {
		problems = append(problems, errors.New("the server has not loaded rules.yaml"))
	}
	return problems
}
