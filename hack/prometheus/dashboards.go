package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// dashboard is the part of a dashboard file that this program uses.
type dashboard struct {
	Title       string
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Type, Name string
			Query      json.RawMessage
		}
	}
}

type panel struct {
	Type, Title, Description string
	Targets                  []target
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct {
		Defaults  struct{ Unit, NoValue string }
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Transformations []struct {
		Options struct {
			RenameByName map[string]string
			IndexByName  map[string]int
		}
	}
}

type target struct {
	RefID, Expr, LegendFormat string
	Instant                   bool
}

func readDashboards(folder string) ([]dashboard, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("%s: no dashboards: %w", folder, err)
	}
	var out []dashboard
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var d dashboard
		if err := json.Unmarshal(b, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// rule is a recording rule or an alert.
type rule struct{ Record, Alert, Expr string }

func readRules(folder string) ([]rule, error) {
	b, err := os.ReadFile(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	var out []rule
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out, nil
}

var variable = regexp.MustCompile(`\$(__)?[a-z_]+`)

// expand replaces the variables in a query like Grafana, with All selected everywhere.
func (s *server) expand(expr string) (string, error) {
	var unknown error
	out := variable.ReplaceAllStringFunc(expr, func(name string) string {
		switch name {
		case "$__rate_interval":
			return s.rateInterval.String()
		case "$__range":
			return fmt.Sprintf("%ds", int(s.to.Sub(s.from).Seconds()))
		case "$namespace", "$run", "$database", "$region", "$transaction":
			return ".*"
		}
		unknown = fmt.Errorf("variable %s is not defined", name)
		return name
	})
	return out, unknown
}

var labelValues = regexp.MustCompile(`^label_values\((.*), *([a-z_]+)\)$`)

// variableQuery parses the query of a variable. It returns the selector of the series and the label whose values can be
// selected.
func variableQuery(raw json.RawMessage) (selector, label string, err error) {
	var q struct{ Query string }
	if err := json.Unmarshal(raw, &q); err != nil {
		return "", "", err
	}
	m := labelValues.FindStringSubmatch(q.Query)
	if m == nil {
		return "", "", fmt.Errorf("%s is no label_values(SELECTOR, LABEL)", q.Query)
	}
	return m[1], strings.TrimSpace(m[2]), nil
}
