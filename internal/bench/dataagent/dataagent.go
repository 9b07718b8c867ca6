// Package dataagent performs, for a database of another vendor on a cluster, the tasks that Geobench's nodes perform
// themselves. It loads the data of a run, reports whether the database is quiescent, and audits the rows. It serves the
// operator over the administration protocol (package admin), as if it were a single node with all rows.
package dataagent

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Database is the database that an agent manages.
type Database interface {
	target.Database
	target.Described
	Close() error
}

// Agent implements admin.Node. It opens its database when the first data set is loaded. An error in the manifest is
// therefore returned to the caller that requests the load.
type Agent struct {
	// Topology is the topology of the database.
	Topology *geo.Topology
	// Open opens the database. If the manifest is wrong, it returns a *target.FieldError, which the agent reports as a bad
	// request. After any other error, the next load opens the database again.
	Open func(context.Context) (Database, error)
	// Process distinguishes this agent from other agents.
	Process string

	mu      sync.Mutex // held during each operation on the database
	db      Database
	dataset string
	loaded  *admin.LoadResponse

	known       sync.Mutex
	lastDataset string // copy of dataset for callers that must not wait
}

// activityWithin is the maximum time that Status waits for the database. It is short because the operator does not wait
// much longer.
const activityWithin = 2 * time.Second

// Status implements admin.Node. It returns an error while the database does not report its activity.
func (s *Agent) Status(ctx context.Context) (*admin.Status, error) {
	out := &admin.Status{Node: "steward", Process: s.Process, Ready: true}
	if !s.mu.TryLock() { // a load or an audit is in progress
		s.known.Lock()
		defer s.known.Unlock()
		out.Dataset = s.lastDataset
		return out, nil
	}
	defer s.mu.Unlock()
	if s.db == nil {
		return out, nil
	}
	out.Dataset = s.dataset
	ctx, cancel := context.WithTimeout(ctx, activityWithin)
	defer cancel()
	a, err := s.db.Activity(ctx)
	if err != nil {
		return nil, err
	}
	out.Pending, out.Operations, out.Leader, out.Elections = a.Pending, a.Operations, a.Leader, a.Elections
	return out, nil
}

// Load implements admin.Node.
func (s *Agent) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The operator repeats requests whose response it has not received.
	if s.loaded != nil && s.dataset == req.Dataset {
		return s.loaded, nil
	}
	w, err := catalog.Parse(req.Workload, req.Seed, s.Topology)
	if err != nil {
		return nil, &admin.BadRequest{Err: err}
	}
	if s.db == nil {
		db, err := s.Open(ctx)
		var wrong *target.FieldError
		if errors.As(err, &wrong) {
			return nil, &admin.BadRequest{Err: err}
		}
		if err != nil {
			return nil, err
		}
		s.db = db
	}
	var rows int64
	data := target.Dataset{Name: req.Dataset, Workload: w, Spec: req.Workload, Seed: req.Seed, Traced: req.Traced, Progress: func(n int64) { rows = n }}
	// A failed load leaves the database in an unknown state, so an audit must not use it.
	s.loaded = nil
	if err := s.db.Load(ctx, data); err != nil {
		return nil, err
	}
	about := s.db.Describe()
	// The state before the clients connect will be compared with the state after the audit.
	if about.Servers, err = target.StateOf(ctx, s.db); err != nil {
		return nil, err
	}
	described, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	s.dataset, s.loaded = req.Dataset, &admin.LoadResponse{Rows: rows, Target: described}
	s.known.Lock()
	defer s.known.Unlock()
	s.lastDataset = req.Dataset
	return s.loaded, nil
}

// Audit implements admin.Node.
func (s *Agent) Audit(ctx context.Context) (*admin.Audit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded == nil {
		return nil, admin.ErrBusy
	}
	shards, err := s.db.Audit(ctx, nil)
	if err != nil {
		return nil, err
	}
	servers, err := target.StateOf(ctx, s.db)
	if err != nil {
		return nil, err
	}
	out := &admin.Audit{Shards: shards[0]}
	if len(servers) > 0 {
		out.Servers, err = json.Marshal(servers)
	}
	return out, err
}

// Healthy implements admin.Node.
func (s *Agent) Healthy() error { return nil }

// Ready implements admin.Node.
func (s *Agent) Ready() error { return nil }

// Close closes the database.
func (s *Agent) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}
