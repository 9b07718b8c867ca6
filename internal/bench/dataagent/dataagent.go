// Package dataagent does on a cluster, for a database that is not made of Geobench's own nodes, what such nodes do for themselves: it loads the
// data of a run, says when the database is quiet, and audits the rows. It answers the operator over the administration protocol
// (package admin), as if it were the one node that has all rows.
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

// Database is what a steward looks after.
type Database interface {
	target.Database
	target.Described
	Close() error
}

// Agent implements admin.Node. Its database is opened when the first data set is to be loaded, so that what a manifest has wrong is an answer
// to the one who asks for that.
type Agent struct {
	// Topology is that of the database.
	Topology *geo.Topology
	// Open opens the database. A mistake in the manifest is a *target.FieldError, which is told as such; after any other error it is tried again.
	Open func(context.Context) (Database, error)
	// Process tells this steward from others.
	Process string

	mu      sync.Mutex // held by one question to the database at a time
	db      Database
	dataset string
	loaded  *admin.LoadResponse

	known       sync.Mutex
	lastDataset string // dataset, for those who do not wait
}

// activityWithin bounds how long a status waits for the database: the operator does not wait much longer.
const activityWithin = 2 * time.Second

// Status implements admin.Node. While the database does not tell what goes on in it, the error says so.
func (s *Agent) Status(ctx context.Context) (*admin.Status, error) {
	out := &admin.Status{Node: "steward", Process: s.Process, Ready: true}
	if !s.mu.TryLock() { // it loads, or audits
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
	s.loaded = nil
	if err := s.db.Load(ctx, data); err != nil {
		return nil, err
	}
	about := s.db.Describe()
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
