package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/geobench/geobench/internal/ops/identity"
)

// Worker is the task of a worker pod: the clients that it runs, and their database. Pods of the same region share it; a
// pod gets its Index from its job.
type Worker struct {
	// Run is the BenchmarkRun's name, UID its unique id.
	Run string `json:"run"`
	UID string `json:"uid"`
	// Attempt identifies an execution of the run. Nodes recognize the execution's clients by it.
	Attempt string `json:"attempt"`
	// Region of the clients, and the number of workers that share the region's clients.
	Region  string `json:"region"`
	Workers int    `json:"workers"`
	// Database to talk to.
	Database Database `json:"database"`
	// Workload and Load are the run's spec.workload and spec.load, as JSON with all defaults filled in.
	Workload json.RawMessage `json:"workload"`
	Load     json.RawMessage `json:"load"`
	Seed     uint64          `json:"seed"`
	// HistoryLimit is the maximum size of the recorded history in bytes; 0 means no history. The worker keeps the file in
	// HistoryFolder, and serves it until the worker is stopped.
	HistoryLimit int64 `json:"historyLimit,omitempty"`
	// Fine splits the seconds of the worker's timeline into tenths, for runs with faults.
	Fine bool `json:"fine,omitempty"`
	// Deadline is the time at which the worker stops waiting for the start.
	Deadline time.Time `json:"deadline"`

	digest string // of the file that it was read from
}

// Application is the name that all sessions of this execution of the run have at a database that is not Geobench's own.
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
	// KeyPod is written by the worker with StateReady: its pod's name and process id, so that a replaced worker shows.
	KeyPod = "pod"
	// KeyStartAt is written by the operator once all workers are ready, and so all clients of the run connected: the
	// instant, in RFC 3339 with nanoseconds, at which the first warm-up starts.
	KeyStartAt = "startAt"
	// KeyProgress is written by the worker every few seconds while it runs: a Progress as JSON.
	KeyProgress = "progress"
	// KeyHistory is written by the worker before StateDone, if it recorded a history: a History as JSON.
	KeyHistory = "history"
	// KeySeal is written together with KeyReport. It proves that this worker has written both, and which configuration and
	// start time it used: see HandIn.
	KeySeal = "seal"
	// KeyReport holds, in binaryData, the gzipped result.Report, written together with StateDone.
	KeyReport = "report.json.gz"
)

// The states of a worker.
const (
	// StateReady: all of its clients are connected to the database and wait for KeyStartAt.
	StateReady = "ready"
	// StateRunning: has seen KeyStartAt.
	StateRunning = "running"
	// StateDone: the report is there.
	StateDone = "done"
	// StateFailed means that the worker gave up; KeyMessage has the reason.
	StateFailed = "failed"
)

// ReportKeyFile is the file with the key of HandIn.Seal.
const ReportKeyFile = "/etc/geobench-report/key"

// MaxHistory is the maximum size of a worker's recorded history in bytes: about three million transactions.
const MaxHistory = 128 << 20

// HistoryFolder is the folder of a worker's history, and PathHistory the path of the file on its HTTP server.
const (
	HistoryFolder = "/var/lib/geobench"
	PathHistory   = "/history"
)

// History describes the recorded history of a worker.
type History struct {
	Transactions int64 `json:"transactions"`
	Operations   int64 `json:"operations"`
	// Bytes of the file.
	Bytes int64 `json:"bytes"`
	// Full is set if the file has reached Worker.HistoryLimit, so that transactions are missing.
	Full bool `json:"full,omitempty"`
}

// Progress is a worker's running total.
type Progress struct {
	// Stage is warmup, measure or drain; Repetition counts from 1.
	Stage      string `json:"stage"`
	Repetition int    `json:"repetition"`
	Committed  int64  `json:"committed"`
	Aborted    int64  `json:"aborted"`
	// Failed is the number of transactions that were refused or have an unknown outcome.
	Failed int64 `json:"failed,omitempty"`
	// Retried is the number of attempts other than first attempts.
	Retried int64 `json:"retried,omitempty"`
	// ThroughputPerSecond and MeanMicroseconds, the mean latency of the committed, are over the last interval.
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
