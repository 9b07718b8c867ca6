package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/journal/journaltest"
)

func openLog(t *testing.T, d journal.Disk, folder string) *journal.Log {
	t.Helper()
	l, err := journal.OpenLog(d, folder, "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// ok fails the test if any error is not nil.
func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func begin(t *testing.T, l *journal.Log) *journal.Next {
	t.Helper()
	n, err := l.Next()
	ok(t, err)
	return n
}

func records(t *testing.T, l *journal.Log) (out []string) {
	t.Helper()
	ok(t, l.Each(func(p []byte) error { out = append(out, string(p)); return nil }))
	if int64(len(out)) != l.Records() {
		t.Errorf("%d records, and Records says %d", len(out), l.Records())
	}
	return out
}

// TestALogIsCutShort checks that a truncated log starts with its checkpoint, and includes the records appended since
// the checkpoint started. It continues in this process and in the next process. Earlier records no longer take up
// space.
func TestALogIsCutShort(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "deep", "down")
	l := openLog(t, journal.OS{}, folder)
	var want []string
	for g := range 12 {
		files, err := journal.OS{}.List(folder)
		name := fmt.Sprintf("a.%d.journal", g)
		if g == 0 {
			name = "a.journal"
		}
		if err != nil || !slices.Equal(files, []string{name, name + ".synced"}) || l.Generation() != g {
			t.Fatalf("generation %d: files %q, %v", l.Generation(), files, err)
		}
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.Size() != l.Bytes() {
			t.Errorf("Bytes says %d, the file %v, %v", l.Bytes(), info, err)
		}
		ok(t, l.Append([]byte("before")), l.Sync())
		n := begin(t, l)
		ok(t, l.Append([]byte("while")), l.Sync(), n.Append([]byte("checkpoint")), n.Append([]byte("of two")), n.Sync(), l.Append([]byte("it was written")),
			l.Sync(), n.CatchUp(), l.Append([]byte("and after")), l.Sync(), l.Switch(n))
		ok(t, l.Append([]byte("behind")), l.Sync())
		want = []string{"checkpoint", "of two", "while", "it was written", "and after", "behind"}
		if got := records(t, l); !slices.Equal(got, want) {
			t.Fatalf("generation %d: %q", g, got)
		}
		if n.Discard(); l.Failed() != nil || n.Behind() != 0 {
			t.Errorf("%d bytes behind, %v", n.Behind(), l.Failed())
		}
		if g%3 == 0 {
			ok(t, l.Close())
			l = openLog(t, journal.OS{}, folder)
			if got := records(t, l); !slices.Equal(got, want) {
				t.Fatalf("generation %d, again: %q", g, got)
			}
		}
	}
}

// A journal without generations is generation 0.
func TestAJournalIsALog(t *testing.T) {
	d := &journaltest.Disk{}
	if _, err := play(d); err != nil {
		t.Fatal(err)
	}
	if got := records(t, openLog(t, d, "folder")); !slices.Equal(got, upTo(len(script))) {
		t.Errorf("%q", got)
	}
}

func TestRefusalsOfALog(t *testing.T) {
	d := &journaltest.Disk{}
	for _, name := range []string{"", "a.1", "a.12", "b/a"} {
		if _, err := journal.OpenLog(d, "folder", name); err == nil || !strings.Contains(err.Error(), "cannot be told from") {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	l := openLog(t, d, "folder")
	says := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := journal.OpenLog(d, "folder", "a"); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	says("a record of the log's own", l.Append([]byte{0, 1}), "does not begin with the byte 0")
	says("an empty record", l.Append(nil), "0 bytes")
	n := begin(t, l)
	_, err := l.Next()
	says("two at a time", err, "begun already")
	ok(t, n.CatchUp())
	says("a checkpoint behind what came after it", n.Append([]byte("x")), "after CatchUp")
	says("what was given up", n.Sync(), "after CatchUp")
	says("what was given up", l.Switch(n), "after CatchUp")
	says("another one", l.Switch(nil), "not the next generation")
	n = begin(t, l)
	says("a checkpoint of the log's own", n.Append([]byte{0}), "does not begin with the byte 0")
	n = begin(t, l)
	ok(t, n.Append([]byte("checkpoint")), n.Sync(), l.Append([]byte("x")))
	says("what is not synced", l.Switch(n), "not synced")
	n = begin(t, l)
	ok(t, n.Append([]byte("checkpoint")), n.Sync())
	n.Discard()
	says("what was discarded", n.CatchUp(), "discarded")
	ok(t, l.Sync(), l.Append([]byte("y")), l.Sync(), l.Failed())
	if got := records(t, l); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("%q", got)
	}
	alone(t, "after all these", d)
	n = begin(t, l)
	ok(t, n.Append([]byte("checkpoint")), n.Sync(), l.Close())
	says("what was closed", n.Sync(), "discarded")
	alone(t, "closed", d)
}

// TestCatchUp checks that CatchUp writes kept payloads in pieces until little is left, and that the switch writes the
// rest.
func TestCatchUp(t *testing.T) {
	const kilobyte, count = 1 << 10, 9 << 10
	d := &journaltest.Disk{}
	l := openLog(t, d, "folder")
	n := begin(t, l)
	payload := bytes.Repeat([]byte("x"), kilobyte)
	for i := range count {
		binary.BigEndian.PutUint32(payload[1:], uint32(i))
		ok(t, l.Append(payload))
	}
	ok(t, l.Sync())
	if n.Behind() != count*kilobyte {
		t.Errorf("%d bytes are kept", n.Behind())
	}
	most := 0
	d.Fail = func(op journaltest.Op) (int, error) { most = max(most, op.Bytes); return 0, nil }
	ok(t, n.Append([]byte("checkpoint")), n.CatchUp())
	if n.Behind() >= 256*kilobyte || most > 4<<20+4<<20/kilobyte*16+100 {
		t.Errorf("%d bytes are left, and %d were written at once", n.Behind(), most)
	}
	ok(t, l.Append([]byte("last")), l.Sync(), l.Switch(n))
	i := -1
	ok(t, l.Each(func(p []byte) error {
		if i >= 0 && i < count && binary.BigEndian.Uint32(p[1:]) != uint32(i) || i == count && string(p) != "last" {
			return fmt.Errorf("record %d is %.20q", i, p)
		}
		i++
		return nil
	}))
	if i != count+1 || l.Records() != count+2 {
		t.Errorf("%d records, and Records says %d", i+1, l.Records())
	}
}

// TestNextBesideTheLog writes the checkpoint in one goroutine while the log's owner appends in another, without ever
// waiting for the checkpoint. In the meantime, some checkpoints are discarded, and some fail because the disk is full.
func TestNextBesideTheLog(t *testing.T) {
	d := &journaltest.Disk{}
	l := openLog(t, d, "folder")
	number := uint64(0)
	add := func() {
		number++
		ok(t, l.Append(binary.BigEndian.AppendUint64([]byte{'+'}, number)), l.Sync())
	}
	for round := range 40 {
		add()
		if round%4 == 1 {
			d.Fail = journaltest.Nth(journaltest.Write, fmt.Sprintf("folder/a.%d.journal", l.Generation()+1), 1+round%8, 3, syscall.ENOSPC)
		} else {
			d.Fail = nil
		}
		n := begin(t, l)
		state := binary.BigEndian.AppendUint64([]byte{'='}, number)
		written := make(chan error, 1)
		go func() {
			for range 20 {
				if err := errors.Join(n.Append(state), n.Sync()); err != nil {
					written <- err
					return
				}
			}
			written <- n.CatchUp()
		}()
		var err error
		for waiting := true; waiting; {
			if add(); round%4 == 2 {
				n.Discard()
			}
			select {
			case err = <-written:
				waiting = false
			default:
			}
		}
		add()
		before := l.Generation()
		switch round % 4 {
		case 0, 3:
			if ok(t, err, l.Switch(n)); l.Generation() != before+1 {
				t.Fatalf("round %d: generation %d", round, l.Generation())
			}
		case 1:
			if !errors.Is(err, syscall.ENOSPC) || l.Switch(n) == nil {
				t.Fatalf("round %d: a full disk: %v", round, err)
			}
		}
		add()
		if round%5 == 0 {
			d.Fail = nil
			ok(t, l.Close())
			l = openLog(t, d, "folder")
		}
		known := uint64(0)
		ok(t, l.Each(func(p []byte) error {
			n := binary.BigEndian.Uint64(p[1:])
			if p[0] == '+' && n != known+1 {
				return fmt.Errorf("%d comes after %d", n, known)
			}
			known = n
			return nil
		}))
		if known != number {
			t.Fatalf("round %d: the log ends with %d, not %d", round, known, number)
		}
	}
	alone(t, "in the end", d)
}

// TestDiscardedInASwitch discards a generation during a switch, after some of the kept payloads were written. That
// generation does not become the log.
func TestDiscardedInASwitch(t *testing.T) {
	d := &journaltest.Disk{}
	l := openLog(t, d, "folder")
	n := begin(t, l)
	payload := bytes.Repeat([]byte("x"), 1<<20)
	for range 9 {
		ok(t, l.Append(payload), l.Sync())
	}
	discarded := make(chan struct{})
	ok(t, n.Append([]byte("checkpoint")), n.Sync())
	began := false
	d.Fail = func(op journaltest.Op) (int, error) {
		if op.Kind == journaltest.Write && !began {
			began = true
			go func() {
				n.Discard()
				close(discarded)
			}()
			for n.Behind() > 0 { // from then on, Discard waits for the switch
				runtime.Gosched()
			}
		}
		return 0, nil
	}
	if err := l.Switch(n); err == nil || !strings.Contains(err.Error(), "discarded") || l.Failed() != nil {
		t.Errorf("the switch: %v; the log: %v", err, l.Failed())
	}
	<-discarded
	ok(t, l.Append([]byte("more")), l.Sync())
	if got := records(t, l); len(got) != 10 || l.Generation() != 0 {
		t.Errorf("%d records, generation %d", len(got), l.Generation())
	}
	alone(t, "discarded", d)
}

// TestLeftoversOfADiscardedGeneration checks that files of a discarded generation never become part of the next
// attempt, even if they could not be removed.
func TestLeftoversOfADiscardedGeneration(t *testing.T) {
	d := &journaltest.Disk{}
	l := openLog(t, d, "folder")
	n := begin(t, l)
	ok(t, l.Append([]byte("one")), l.Sync(), n.Append([]byte("first checkpoint")), n.Sync())
	d.Fail = func(op journaltest.Op) (int, error) {
		if op.Kind == journaltest.Remove {
			return 0, syscall.EIO
		}
		return 0, nil
	}
	n.Discard()
	if files := d.Files(); len(files) != 4 {
		t.Fatalf("the files are %q", files)
	}
	if err := begin(t, l).Append([]byte("second checkpoint")); !errors.Is(err, syscall.EIO) {
		t.Errorf("begun while the old files are there: %v", err)
	}
	d.Fail = nil
	n = begin(t, l)
	ok(t, n.Append([]byte("third checkpoint")), l.Append([]byte("two")), l.Sync(), l.Switch(n), l.Close())
	if got := records(t, openLog(t, d, "folder")); !slices.Equal(got, []string{"third checkpoint", "two"}) {
		t.Errorf("%q", got)
	}
}

// TestRecordsThatDoNotBelongThere checks that the file of a generation is rejected under the name of another
// generation. So is a record at a position where a log never writes such a record.
func TestRecordsThatDoNotBelongThere(t *testing.T) {
	own := func(kind, generation byte, more ...byte) []byte {
		return append([]byte{0, kind, generation, 0, 0, 0, 0, 0, 0, 0}, more...)
	}
	for name, tc := range map[string]struct {
		file    string
		records [][]byte
		want    string
	}{
		"an opened generation 0":      {"a.journal", [][]byte{[]byte("x"), own(2, 0)}, "does not belong into generation 0"},
		"generation 1 as 0":           {"a.journal", [][]byte{[]byte("x"), own(2, 1)}, "does not belong into generation 0"},
		"generation 1 as 2":           {"a.2.journal", [][]byte{[]byte("x"), own(2, 1)}, "does not belong into generation 2"},
		"opened twice":                {"a.1.journal", [][]byte{own(2, 1), own(2, 1)}, "does not belong into generation 1"},
		"too short":                   {"a.journal", [][]byte{{0}}, "too short"},
		"another kind":                {"a.journal", [][]byte{own(3, 0)}, "does not belong"},
		"opened with more":            {"a.1.journal", [][]byte{own(2, 1, 7)}, "does not belong"},
		"continued without its size":  {"a.journal", [][]byte{own(1, 1)}, "does not belong"},
		"continued in itself":         {"a.1.journal", [][]byte{own(2, 1), own(1, 1, make([]byte, 16)...)}, "does not belong"},
		"records behind continued":    {"a.journal", [][]byte{own(1, 1, make([]byte, 16)...), []byte("x")}, "behind the one that says that the log goes on"},
		"continued in what is not":    {"a.journal", [][]byte{own(1, 1, make([]byte, 16)...)}, "is missing, and"},
		"never opened":                {"a.7.journal", [][]byte{[]byte("x")}, "never opened as the log, which is folder/a.6.journal"},
		"opened, and then continued ": {"a.1.journal", [][]byte{own(2, 1), own(1, 2, make([]byte, 16)...)}, "folder/a.2.journal, offset 0: it is missing, and folder/a.1.journal is continued"},
	} {
		d := &journaltest.Disk{}
		j, err := journal.Open(d, "folder", tc.file)
		ok(t, err)
		for _, r := range tc.records {
			ok(t, j.Append(r))
		}
		ok(t, j.Sync(), j.Close())
		before := d.Contents("folder/" + tc.file)
		_, err = journal.OpenLog(d, "folder", "a")
		if refusedLog(t, name, err); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if files := d.Files(); len(files) != 2 || !bytes.Equal(d.Contents("folder/"+tc.file), before) {
			t.Errorf("%s: refused, and changed: %q", name, files)
		}
	}
}

// late is a disk that calls two functions once each: listed after the next List, and opened after the next
// OpenExisting.
type late struct {
	journal.Disk
	listed, opened func()
}

func once(f *func()) {
	if then := *f; then != nil {
		*f = nil
		then()
	}
}

func (d *late) List(folder string) ([]string, error) {
	defer once(&d.listed)
	return d.Disk.List(folder)
}

func (d *late) OpenExisting(path string) (journal.File, error) {
	defer once(&d.opened)
	return d.Disk.OpenExisting(path)
}

// TestTwoProcessesAndASwitch opens a log while another process switches to the next generation and, in some cases,
// exits. The process that opens the log neither mistakes the old file for the log nor creates a new file.
func TestTwoProcessesAndASwitch(t *testing.T) {
	for _, ends := range []bool{false, true} {
		for _, listed := range []bool{false, true} {
			d := &journaltest.Disk{}
			l := openLog(t, d, "folder")
			ok(t, l.Append([]byte("one")), l.Sync())
			then := func() {
				n := begin(t, l)
				ok(t, n.Append([]byte("checkpoint")), l.Switch(n), l.Append([]byte("two")), l.Sync())
				if ends {
					ok(t, l.Close())
				}
			}
			second := &late{Disk: d, opened: then}
			if listed {
				second = &late{Disk: d, listed: then}
			}
			if _, err := journal.OpenLog(second, "folder", "a"); !errors.Is(err, journal.ErrLocked) {
				t.Errorf("the second process: %v", err)
			}
			alone(t, "two processes", d)
			_ = l.Close()
			if got := records(t, openLog(t, d, "folder")); !slices.Equal(got, []string{"checkpoint", "two"}) {
				t.Errorf("%q", got)
			}
		}
	}
}
