// Prometheus tests the dashboards and rules. A real Prometheus scrapes a real run, and Prometheus then evaluates every
// query of every panel, variable, annotation and rule. Each query must parse. It must return data, unless there is an
// entry with a reason why it cannot. The command prints a table. It fails if a query fails, unexpectedly returns no
// data, or returns data although it has such an entry.
//
//	prometheus -server PROMETHEUS -geobench GEOBENCH    start a Prometheus, run run.yaml in-process, evaluate
//	prometheus -url URL -place cluster                  evaluate on a Prometheus that has scraped a run already
//
// With -plot FOLDER, the results are also drawn: see plot.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var c config
	flag.StringVar(&c.server, "server", "", "program prometheus, to be started here")
	flag.StringVar(&c.geobench, "geobench", "", "program geobench, to be run here")
	flag.StringVar(&c.manifest, "manifest", "hack/prometheus/run.yaml", "manifest to run")
	flag.StringVar(&c.dashboards, "dashboards", "dashboards", "folder of dashboards and rules")
	flag.StringVar(&c.url, "url", "", "evaluate on this Prometheus instead of starting one")
	flag.StringVar(&c.place, "place", "local", "where the run ran, as places differ in what can return data: local, cluster, or sidecars (a cluster with emulation Sidecar)")
	flag.StringVar(&c.plot, "plot", "", "draw every dashboard into this folder, as an HTML page")
	flag.DurationVar(&c.span, "span", 5*time.Minute, "how far back to look with -url")
	flag.DurationVar(&c.rate, "rate", 5*time.Second, "span of $__rate_interval with -url: at least four scrapes; Grafana has 60s for the usual 15s")
	flag.BoolVar(&c.verbose, "v", false, "print every query and how much it returned")
	modes := flag.String("histograms", "native,classic", "how the server that is started here scrapes histograms, one run each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, strings.Split(*modes, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type config struct {
	server, geobench, manifest, dashboards, url, place, plot string
	span, rate                                               time.Duration
	verbose                                                  bool
}

func run(ctx context.Context, c config, modes []string) error {
	files, err := readDashboards(c.dashboards)
	if err != nil {
		return err
	}
	rules, err := readRules(c.dashboards)
	if err != nil {
		return err
	}
	if c.url != "" {
		to := time.Now()
		return judge(ctx, c, c.place, files, rules, &server{url: strings.TrimSuffix(c.url, "/"), from: to.Add(-c.span), to: to, rateInterval: c.rate})
	}
	for _, mode := range modes {
		s, err := observe(ctx, c, mode == "native")
		if err != nil {
			return err
		}
		fmt.Printf("\n%s histograms, %s of a run scraped every second\n", mode, s.to.Sub(s.from).Round(time.Second))
		err = judge(ctx, c, "local", files, rules, s)
		s.stop()
		if err != nil {
			return err
		}
		c.plot = "" // plot only the first mode
	}
	return nil
}
