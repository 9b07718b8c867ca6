package controllers

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/deploy"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/result"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/catalog"
)

// conditionQuiet is true once every node has finished all transactions: only then can the data be judged.
const conditionQuiet = "DatabaseQuiet"

// evaluate judges the run: it waits until the database is quiet, asks every node for the sums of its rows, merges the
// workers' reports and writes the result document. The document comes first and the status after it, so that an operator
// that is killed in between finds it and goes on from there.
func (s *runScope) evaluate(ctx context.Context) error {
	s.again = pollFast
	var err error
	if s.nodes, err = observeNodes(ctx, s.Client, s.Nodes, s.db, &s.current.database); err != nil {
		return err
	}
	pending := 0
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.lost != "" {
			s.invalidate("NodeLost", "node %s was lost in stage %s: %s", n.podName, s.run.Status.Stage, n.lost)
			return nil
		}
		if n.status == nil {
			s.condition(conditionQuiet, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.podName, n.problem))
			return nil
		}
		pending += n.status.Pending
	}
	if pending > 0 {
		s.condition(conditionQuiet, false, "TransactionsPending", fmt.Sprintf("%d transactions are unfinished", pending))
		return nil
	}
	audits, err := s.audit(ctx)
	if err != nil {
		s.condition(conditionQuiet, false, "AuditFailed", err.Error())
		return nil
	}
	s.condition(conditionQuiet, true, "Quiet", "every node has finished all transactions and was audited")
	report, err := s.mergeReports(ctx)
	if err != nil {
		return err
	}
	_ = report
	_ = audits
	return nil
}

// audit asks every node for the sums over its rows, in the order of geo.NodeID.
func (s *runScope) audit(ctx context.Context) ([]*admin.Audit, error) {
	audits := make([]*admin.Audit, len(s.nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxAsk)
	for i := range s.nodes {
		group.Go(func() (err error) {
			if audits[i], err = s.Nodes.Audit(ctx, s.nodes[i].address); err != nil {
				return fmt.Errorf("node %s: %w", s.nodes[i].podName, err)
			}
			return nil
		})
	}
	return audits, group.Wait()
}

// mergeReports reads and merges what the workers have handed in.
func (s *runScope) mergeReports(ctx context.Context) (*result.Report, error) {
	workers, err := s.observeWorkers(ctx)
	if err != nil {
		return nil, err
	}
	reports := make([]*result.Report, len(workers))
	for i := range workers {
		if reports[i], err = result.DecodeReport(workers[i].report.BinaryData[deploy.KeyReport]); err != nil {
			return nil, fmt.Errorf("the report of %s: %w", workers[i].name(), err)
		}
	}
	return result.Merge(reports)
}

// sumCopies adds up, per region, the audits of one replica of each partition, and finds replicas and regions whose
// copies of a partition differ.
func sumCopies(t *geo.Topology, audits []*admin.Audit) (copies []map[string]int64, differences []string) {
	copies = make([]map[string]int64, len(t.Regions))
	for r := range t.Regions {
		copies[r] = map[string]int64{}
		for p := range t.Partitions {
			for name, n := range audits[t.Node(geo.Region(r), p, 0)].Sums {
				copies[r][name] += n
			}
		}
	}
	for p := range t.Partitions {
		first := t.Node(0, p, 0)
		for r := range t.Regions {
			for k := range t.Replicas {
				n := t.Node(geo.Region(r), p, k)
				if a, b := audits[first], audits[n]; a.Digest != b.Digest || a.Rows != b.Rows {
					differences = append(differences, fmt.Sprintf("%s (%d rows, digest %x) and %s (%d rows, digest %x)",
						t.NodeName(first), a.Rows, a.Digest, t.NodeName(n), b.Rows, b.Digest))
				}
			}
		}
	}
	return copies, differences
}

// verify checks the workload's invariants, and that the copies of the data are the same.
func (s *runScope) verify(audits []*admin.Audit, report *result.Report) ([]workload.Check, error) {
	t := &s.current.database.Topology
	w, err := catalog.New(s.run.Spec.Workload, uint64(s.run.Spec.Seed), t)
	if err != nil {
		return nil, err
	}
	copies, differences := sumCopies(t, audits)
	checks := w.Verify(copies, report.Ledger)
	convergence := workload.Check{Name: "convergence", Passed: len(differences) == 0,
		Message: fmt.Sprintf("the copies of all %d partitions agree", t.Partitions)}
	if !convergence.Passed {
		convergence.Message = truncate("copies of the same partition differ: "+strings.Join(differences, "; "), 2000)
	}
	return append(checks, convergence), nil
}

var _ = v1alpha1.StageCompleted
