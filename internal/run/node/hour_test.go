package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// A node handles 10,000 transactions per second of virtual time, and the files of its journal stay smaller than twice
// the size of its data. By default the test covers some seconds of virtual time and truncates the journal sooner. `make
// journal-hour` runs it for an hour of virtual time.
func TestJournalsStayShort(t *testing.T) {
	const perSecond, perTurn = 10_000, 256
	virtual, customers, cut := 5*time.Second, 30_000, int64(100_000)
	engine, logTo := "slog", slog.New(slog.DiscardHandler)
	if name := os.Getenv("GEOBENCH_HOUR"); name != "" {
		virtual, customers, cut, engine = time.Hour, 4_000_000, 0, name
		logTo = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	db := database("a")
	db.Engine, db.Incarnation, db.Nodes = engine, "one", []deploy.Node{{Address: "127.0.0.1:1"}}
	folder := t.TempDir()
	e, _ := engines.Lookup(engine)
	n, err := New(Config{
		Database: &db, Engine: e, Procedures: catalog.Procedures(), ParseWorkload: catalog.Parse, Journal: folder, CutJournal: cut, Log: logTo,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &n.loop
	turn := func(f func()) {
		t.Helper()
		if err := l.turn([]item{{f: f}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	req := &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(fmt.Sprintf(`{"smallbank": {"customers": %d,
		"mix": {"balance": 40, "writeCheck": 25, "depositChecking": 15, "transactSavings": 15, "amalgamate": 5}}}`, customers)), Seed: 1}
	w, err := catalog.Parse(req.Workload, req.Seed, n.topology)
	if err != nil {
		t.Fatal(err)
	}
	turn(func() {
		if err = l.fill(req, w, l.rows(w), func(int) error { return nil }); err == nil {
			b, _ := json.Marshal(req)
			l.log.load(b)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	data := l.store.Bytes()
	g := w.NewGenerator(workload.GeneratorConfig{Clients: perTurn, RegionClients: perTurn, Stream: 1, Measured: virtual})
	most, transactions := int64(0), 0
	// The loop runs many times faster than virtual time, so the disk of a busy machine cannot keep up with it. In the
	// short version, the loop waits for a checkpoint that takes longer than a second of virtual time.
	const patience = perSecond / perTurn
	turns := 0 // since the start of the truncation
	began, cpu := time.Now(), late.CPUTime()
	for step := time.Second * perTurn / perSecond; virtual > 0; virtual -= step {
		l.epoch += step
		turn(func() {
			for c := range perTurn {
				transactions++
				x := &txn.Transaction{ID: txn.MakeID(1, uint64(transactions))}
				g.Next(c, 0, x)
				l.log.submit(x)
				l.pending[x.ID] = nil
				l.replica.Submit(x)
				g.Done(c, txn.Outcome{ID: x.ID, Status: txn.Committed})
			}
		})
		if c := l.log.cutting; c == nil || c.written {
			turns = 0
		} else if turns++; turns > patience && cut > 0 {
			for n.box.len() == 0 {
				<-n.box.wake
			}
		}
		if n.box.len() > 0 {
			items, _ := n.box.take(nil)
			if err := l.turn(items); err != nil {
				t.Fatal(err)
			}
		}
		most = max(most, sizeOf(t, folder))
	}
	l.log.close()
	cuts := l.log.journal.Generation()
	t.Logf("%s: %d transactions, data of %d bytes, files of %d bytes at most (%.2f times the data), cut short %d times, %v of CPU in %v",
		engine, transactions, data, most, float64(most)/float64(data), cuts, late.CPUTime()-cpu, time.Since(began).Round(time.Second))
	if l.unfinished() > 2*perTurn || cuts < 3 || most > 2*data {
		t.Errorf("%d transactions are unfinished; files of %d bytes, cut short %d times, where twice the data is %d", l.unfinished(), most, cuts, 2*data)
	}
}

// sizeOf returns the total size of the files in a folder, in bytes.
func sizeOf(t *testing.T, folder string) (sum int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil { // the node may remove a file between Glob and Stat
			sum += info.Size()
		}
	}
	return sum
}
