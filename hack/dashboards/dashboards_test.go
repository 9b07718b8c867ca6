package main

import (
	"regexp"
	"strings"
	"testing"
)

// By default, dashboards show all namespaces. They must not add up runs or databases that have the same name in
// different namespaces.
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

// Figures per transaction use the number of all transactions, because nodes do not report their work by type of
// transaction.
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
