package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func open(t *testing.T, folder string) *Journal {
	t.Helper()
	j, err := Open(OS{}, folder, "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func contents(t *testing.T, j *Journal) []string {
	t.Helper()
	var out []string
	if err := j.Each(func(p []byte) error { out = append(out, string(p)); return nil }); err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != j.Records() {
		t.Errorf("%d records, but Records says %d", len(out), j.Records())
	}
	return out
}

func add(t *testing.T, j *Journal, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := j.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
}

func flush(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
}

// TestRecordsOutliveTheProcess checks that synced records survive the process and unsynced records do not. Further
// records are appended after them.
func TestRecordsOutliveTheProcess(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "deep", "down")
	j := open(t, folder)
	if got := contents(t, j); len(got) != 0 {
		t.Fatalf("a new journal holds %q", got)
	}
	add(t, j, "one", "two")
	flush(t, j)
	add(t, j, strings.Repeat("three", 1000))
	flush(t, j)
	add(t, j, "never synced")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, folder)
	want := []string{"one", "two", strings.Repeat("three", 1000)}
	if got := contents(t, again); !slices.Equal(got, want) {
		t.Fatalf("%.40q, want %.40q", got, want)
	}
	add(t, again, "four")
	flush(t, again)
	if got := contents(t, again); !slices.Equal(got, append(want, "four")) {
		t.Errorf("%.40q", got)
	}
	info, err := os.Stat(filepath.Join(folder, "a"))
	if err != nil || info.Size() != again.Bytes() {
		t.Errorf("Bytes says %d, the file %d (%v)", again.Bytes(), info.Size(), err)
	}
}

// TestTornTailIsCutOff checks that everything after the last complete record is cut off, even if it is a single byte.
// No part of a record and no header remains in the file.
func TestTornTailIsCutOff(t *testing.T) {
	for _, torn := range []int{1, headerBytes - 1, headerBytes, headerBytes + 1, 100} {
		folder := t.TempDir()
		j := open(t, folder)
		add(t, j, "one", "two")
		flush(t, j)
		whole := j.Bytes()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(folder, "a"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(make([]byte, torn))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		again := open(t, folder)
		info, err := os.Stat(filepath.Join(folder, "a"))
		if err != nil || info.Size() != whole || again.Bytes() != whole {
			t.Errorf("with %d bytes behind the last record the file has %d bytes, and Bytes says %d; want %d (%v)", torn, info.Size(), again.Bytes(), whole, err)
		}
		if got := contents(t, again); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("with %d bytes behind the last record: %q", torn, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	j := open(t, folder)
	if _, err := Open(OS{}, folder, "a"); !errors.Is(err, ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := j.Append(nil); err == nil || !strings.Contains(err.Error(), "0 bytes") {
		t.Errorf("an empty record: %v", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "other"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(OS{}, folder, "other"); err == nil || !strings.Contains(err.Error(), "some other file") {
		t.Errorf("some other file: %v", err)
	}
	stop := errors.New("enough")
	add(t, j, "x")
	flush(t, j)
	if err := j.Each(func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Each: %v", err)
	}
}

// TestRecordsWrittenTogether checks that records of the same write count separately, before and after a restart of the
// process.
func TestRecordsWrittenTogether(t *testing.T) {
	folder := t.TempDir()
	j, err := Open(OS{}, folder, "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range [][]string{{"one", "two", "three"}, {"four"}} {
		for _, record := range batch {
			if err := j.Append([]byte(record)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	written := j.Records()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(OS{}, folder, "a.journal"); err != nil {
		t.Fatal(err)
	}
	defer j.Close() //nolint:errcheck // nothing was written through it
	if written != 4 || j.Records() != 4 {
		t.Errorf("%d records before, %d after, want 4", written, j.Records())
	}
}

// TestRemoveOthers checks that logs with other names are removed, with all generations and marks. Files that are not
// journals remain.
func TestRemoveOthers(t *testing.T) {
	folder := t.TempDir()
	stay := []string{"a.1.journal", "a.12.journal.synced", "a.journal", "a.journal.synced", "notes", "notes.synced"}
	for _, name := range append([]string{"b.journal", "b.journal.synced", "b.3.journal", "b.3.journal.synced", "a.x.journal", "aa.1.journal"}, stay...) {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "c.journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := RemoveOthers(OS{}, folder, "a"); err != nil {
		t.Fatal(err)
	}
	left, err := OS{}.List(folder)
	if err != nil || !slices.Equal(left, stay) {
		t.Errorf("left: %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "c.journal")); err != nil {
		t.Errorf("a folder was removed: %v", err)
	}
	if err := RemoveOthers(OS{}, filepath.Join(folder, "none"), "a"); err != nil {
		t.Error(err)
	}
}
