package inprocess

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/journal/journaltest"
	"github.com/geobench/geobench/internal/engine/engines"
)

// disturbedDisk is a disk that damages the journal of the first node once, at the time when a restarted process opens
// it.
type disturbedDisk struct {
	*journaltest.Disk
	before    func(d *journaltest.Disk, path string)
	disturbed atomic.Bool
}

// OpenExisting implements journal.Disk. If the journal has contents, an earlier process has written them.
func (d *disturbedDisk) OpenExisting(path string) (journal.File, error) {
	if ofFirstNode(path) && len(d.Contents(path)) > 0 && !d.disturbed.Swap(true) {
		d.before(d.Disk, path)
	}
	return d.Disk.OpenExisting(path)
}

func ofFirstNode(path string) bool {
	return filepath.Ext(path) == ".journal" && filepath.Base(filepath.Dir(path)) == "0"
}

// A node of the first region is killed under load, and its journal is damaged before the restart. Either the damage has
// no effect, or the run reports it with the file, the offset and a remedy. No run passes after a disk has lost data.
func TestRunOnABadDisk(t *testing.T) {
	t.Parallel()
	last := func(d *journaltest.Disk, path string, change func([]byte) []byte) {
		d.Put(path, change(d.Contents(path)))
	}
	for name, tc := range map[string]struct {
		before func(d *journaltest.Disk, path string)
		fail   func(writes int32, op journaltest.Op) error
		// wrong lists substrings of the run's message; empty if the run passes.
		wrong []string
	}{
		"the machine ends": {before: func(d *journaltest.Disk, _ string) {
			d.Crash(func(r *rand.Rand) bool { return r.IntN(2) == 0 }, rand.New(rand.NewPCG(1, 1)))
		}},
		"half a turn is behind it": {before: func(d *journaltest.Disk, path string) {
			last(d, path, func(b []byte) []byte { return append(b, "half a turn"...) })
		}},
		"a bit in the middle": {
			before: func(d *journaltest.Disk, path string) {
				last(d, path, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
			},
			wrong: []string{"us-west-2", ".journal, offset ", "does not match its checksum", "was promised", "delete it"},
		},
		"a bit in the last record": {
			before: func(d *journaltest.Disk, path string) {
				last(d, path, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
			},
			wrong: []string{"us-west-2", ".journal, offset ", "does not match its checksum", "was promised", "delete it"},
		},
		"the last byte is missing": {
			before: func(d *journaltest.Disk, path string) {
				last(d, path, func(b []byte) []byte { return b[:len(b)-1] })
			},
			wrong: []string{"us-west-2", ".journal, offset ", "the file ends", "was promised", "delete it"},
		},
		"the file is empty": {
			before: func(d *journaltest.Disk, path string) { d.Put(path, nil) },
			wrong:  []string{"us-west-2", ".journal, offset 0", "had been promised", "delete it"},
		},
		"all is gone": {
			before: func(d *journaltest.Disk, path string) {
				d.Put(path, nil)
				d.Put(path+".synced", nil)
			},
			wrong: []string{"lost"},
		},
		"a sync fails": {
			fail: func(syncs int32, op journaltest.Op) error {
				if op.Kind == journaltest.Sync && syncs > 100 {
					return syscall.EIO
				}
				return nil
			},
			wrong: []string{"us-west-2", ".journal, offset ", "it cannot be synced: input/output error", "mend the disk"},
		},
		"the disk is full": {
			fail: func(syncs int32, op journaltest.Op) error {
				if op.Kind == journaltest.Write && syncs > 100 {
					return syscall.ENOSPC
				}
				return nil
			},
			wrong: []string{"us-west-2", ".journal, offset ", "cannot be written: no space left on device", "make room"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disturbedDisk{Disk: &journaltest.Disk{}, before: tc.before}
			if tc.before == nil {
				d.before = func(*journaltest.Disk, string) {}
			}
			var syncs atomic.Int32
			d.Fail = func(op journaltest.Op) (int, error) {
				if tc.fail == nil || !ofFirstNode(op.File) {
					return 0, nil
				}
				if op.Kind == journaltest.Sync {
					syncs.Add(1)
				}
				return op.Bytes / 2, tc.fail(syncs.Load(), op)
			}
			text := manifestOf("smallbank-two-regions", twoRegions, strict(engines.Names()[0]), "{clientsPerRegion: 10, thinkTime: 20ms, warmup: 1s, duration: 4s, requestTimeout: 1s}", 1)
			text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", mayBeUnanswered, 1) + `  faults:
    - {name: kill, at: 1s, nodeShutdown: {target: {regions: [us-west-2]}}, duration: 500ms}
`
			if tc.fail != nil {
				text = text[:strings.Index(text, "  faults:")]
			}
			text = strings.Replace(text, "verify: [Invariants]", "verify: [Invariants, Convergence, StrictSerializable]", 1)
			text = strings.Replace(text, "  engine: ", "  durability: Journal\n  engine: ", 1)
			document, err := Observed(t.Context(), planOf(t, text), nil, Observer{disk: d})
			var said strings.Builder
			if err != nil {
				said.WriteString(err.Error())
			} else {
				for _, r := range document.Reasons {
					if !ofBusyMachine(r.Reason) {
						said.WriteString(r.Reason + ": " + r.Message + "\n")
					}
				}
				if len(tc.wrong) > 0 && document.Verdict != v1alpha1.VerdictInvalid {
					t.Errorf("the verdict is %s", document.Verdict)
				}
			}
			if len(tc.wrong) == 0 && (said.Len() > 0 || err != nil || len(document.Checks) < 3) {
				t.Errorf("%v: %s", errors.Join(err), said.String())
			}
			for _, part := range tc.wrong {
				if !strings.Contains(said.String(), part) {
					t.Errorf("the run says %q, and nothing of %q", said.String(), part)
				}
			}
			t.Log(said.String())
		})
	}
}
