package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/geobench/geobench/internal/ops/identity"
)

// Worker is the task of a worker pod: the clients to run and their database. All worker pods of a region receive the
// same Worker; each pod gets its index from its Job.
type Worker struct {
	// Run is the name of the BenchmarkRun, and UID is its unique ID.
	Run string `json:"run"`
	UID string `json:"uid"`
	// Attempt identifies an execution of the run. Nodes use it to recognize the clients of the execution.
	Attempt string `json:"attempt"`
	// Region is the region of the clients. Workers is the number of workers among which the clients are divided.
	Region  string `json:"region"`
	Workers int    `json:"workers"`
	// Database is the database that the clients use.
	Database Database `json:"database"`
	// Workload and Load are the run's spec.workload and spec.load, as JSON with all defaults filled in.
	Workload json.RawMessage `json:"workload"`
	Load     json.RawMessage `json:"load"`
	Seed     uint64          `json:"seed"`
	// HistoryLimit is the maximum size of the recorded history in bytes; 0 for no history. The worker stores the file in
	// HistoryFolder and serves it until the worker is stopped.
	HistoryLimit int64 `json:"historyLimit,omitempty"`
	// Fine is set if the worker's timeline divides seconds into tenths, as in runs with faults.
	Fine bool `json:"fine,omitempty"`
	// Deadline is the time until which the worker waits for the start.
	Deadline time.Time `json:"deadline"`

	digest string // digest of the file from which the worker was read
}

// Application returns the application name of this execution's sessions in a database other than Geobench's engines.
func (w *Worker) Application() string {
	return "geobench-" + w.Attempt
}

// Digest returns the digest of the file from which the worker was read.
func (w *Worker) Digest() string { return w.digest }

// Keys of the ConfigMap through which a worker and the operator communicate. The operator creates a ConfigMap for each
// worker in advance. The worker may get and patch only that ConfigMap.
const (
	// KeyState is written by the worker. Its value is a State constant.
	KeyState = "state"
	// KeyMessage is written by the worker along with StateFailed.
	KeyMessage = "message"
	// KeyPod is written by the worker with StateReady. Its value contains the name of the pod and the process ID, so that
	// the operator detects a replacement.
	KeyPod = "pod"
	// KeyStartAt is written by the operator once all workers are ready, that is, all clients of the run are connected. It
	// is the time at which the first warm-up starts, in RFC 3339 with nanoseconds.
	KeyStartAt = "startAt"
	// KeyProgress is written by the worker every few seconds while it runs: a Progress as JSON.
	KeyProgress = "progress"
	// KeyHistory is written by the worker before StateDone, if it recorded a history: a History as JSON.
	KeyHistory = "history"
	// KeySeal is written together with KeyReport. It proves that this worker wrote the report, and states which
	// configuration and start time the worker used: see HandIn.
	KeySeal = "seal"
	// KeyReport, in binaryData, is the gzipped result.Report. It is written together with StateDone.
	KeyReport = "report.json.gz"
)

// The states of a worker.
const (
	// StateReady: all clients are connected to the database and wait for KeyStartAt.
	StateReady = "ready"
	// StateRunning: the worker has read KeyStartAt.
	StateRunning = "running"
	// StateDone: the report is available.
	StateDone = "done"
	// StateFailed: the worker gave up; KeyMessage contains the reason.
	StateFailed = "failed"
)

// ReportKeyFile is the file with the key for HandIn.Seal.
const ReportKeyFile = "/etc/geobench-report/key"

// MaxHistory is the maximum size of a worker's history in bytes. It is enough for about three million transactions.
const MaxHistory = 128 << 20

// HistoryFolder is the folder with a worker's history. PathHistory is the path of the history file on the worker's HTTP
// server.
const (
	HistoryFolder = "/var/lib/geobench"
	PathHistory   = "/history"
)

// History describes the recorded history of a worker.
type History struct {
	Transactions int64 `json:"transactions"`
	Operations   int64 `json:"operations"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
	// Full is set if transactions are missing because the file has reached Worker.HistoryLimit.
	Full bool `json:"full,omitempty"`
}

// Progress contains the totals of a worker so far.
type Progress struct {
	// Stage is warmup, measure or drain; Repetition counts from 1.
	Stage      string `json:"stage"`
	Repetition int    `json:"repetition"`
	Committed  int64  `json:"committed"`
	Aborted    int64  `json:"aborted"`
	// Failed is the number of transactions that were refused or have an unknown outcome.
	Failed int64 `json:"failed,omitempty"`
	// Retried is the number of attempts that were not the first for their transaction.
	Retried int64 `json:"retried,omitempty"`
	// ThroughputPerSecond and MeanMicroseconds, the mean latency of committed transactions, cover the last interval.
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	MeanMicroseconds    int64 `json:"meanMicroseconds,omitempty"`
}

// ReadWorker reads a Worker from a JSON file and validates it.
func ReadWorker(path string) (*Worker, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	w := &Worker{digest: identity.Digest(b)}
	if err := json.Unmarshal(b, w); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := w.Database.Validate(); err != nil {
		return nil, fmt.Errorf("%s: database.%w", path, err)
	}
	if w.Database.Topology.Index(w.Region) < 0 {
		return nil, fmt.Errorf("%s: region: %q is not one of %v", path, w.Region, w.Database.Topology.Regions)
	}
	return w, nil
}
