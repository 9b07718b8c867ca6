package main

import (
	"context"
	"time"

	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/metrics"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// lingerAtMost bounds how long a process with scraped metrics waits, after its work is done, for a scrape of the final
// figures.
const lingerAtMost = 10 * time.Second

// runObserved runs a plan, and serves its metrics meanwhile unless address is empty.
func runObserved(ctx context.Context, address string, p *plan.Plan, report inprocess.Report) (*result.Document, error) {
	if address == "" {
		return inprocess.Run(ctx, p, report)
	}
	registry := metrics.NewRegistry()
	server, err := metrics.Serve(address, registry)
	if err != nil {
		return nil, usageError("--metrics-address: %w", err)
	}
	defer server.Close() //nolint:errcheck // the figures are in the result
	return inprocess.Observed(ctx, p, report, inprocess.Observer{
		Registry: registry,
		// Linger before the database is closed, because its metrics disappear with it.
		Last: func(ctx context.Context) { linger(ctx, server) },
	})
}

func linger(ctx context.Context, server *metrics.Server) {
	ctx, cancel := context.WithTimeout(ctx, lingerAtMost)
	defer cancel()
	server.Linger(ctx)
}
