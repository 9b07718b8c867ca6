package main

import (
	"regexp"
	"strings"
	"testing"
)

// Dashboards show all namespaces by default. Runs and databases with the same name in several namespaces must not be
// added up.
func TestNamespacesAreKeptApart(t *testing.T) {
	lists := regexp.MustCompile(`(?:by|on) \(([^)]*)\)`)
	for _, d := range all() {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, m := range lists.FindAllStringSubmatch(target.Expr, -1) {
					labels := " " + strings.ReplaceAll(m[1], ",", " ") + " "
					if (strings.Contains(labels, " run ") || strings.Contains(labels, " database ")) && !strings.Contains(labels, " namespace ") {
						t.Errorf("%s, %s: %s has no namespace: %s", d.Title, p.Title, m[0], target.Expr)
					}
				}
				if target.LegendFormat != "" && strings.Contains(target.LegendFormat, "{{run}}") != strings.Contains(target.LegendFormat, "{{namespace}} {{run}}") {
					t.Errorf("%s, %s: the series %s have no namespace", d.Title, p.Title, target.LegendFormat)
				}
			}
		}
	}
}

// Figures per transaction cover all transactions, because nodes do not report for which transactions they work.
func TestFiguresPerTransactionAreOfAll(t *testing.T) {
	n := 0
	for _, p := range compareDashboard().Panels {
		if !strings.HasSuffix(p.Title, "per transaction") {
			continue
		}
		n++
		for _, target := range p.Targets {
			if strings.Contains(target.Expr, "$transaction") || strings.Contains(target.Expr, "$region") {
				t.Errorf("%s: %s", p.Title, target.Expr)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d panels", n)
	}
}
