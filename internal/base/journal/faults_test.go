package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/journal/journaltest"
)

const (
	file = "folder/a.journal"
	mark = file + ".synced"
)

// script is the input of a node: records, grouped by sync. The records have different lengths, so that headers, records
// and writes start and end at many different offsets within a sector.
var script = [][]string{{"one"}, {"two", strings.Repeat("longer ", 9)}, {"x"}, {"four", "five", "six"}}

// play opens the journal and appends the part of the script that is missing from it, sync by sync. It returns the
// number of syncs of the script that have succeeded.
func play(d *journaltest.Disk) (synced int, err error) {
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		return 0, err
	}
	defer j.Close() //nolint:errcheck // what counts is synced
	found, err := contents(j)
	if err != nil {
		return 0, err
	}
	before := 0
	for _, records := range script {
		left := records[min(len(records), max(0, len(found)-before)):]
		before += len(records)
		for _, r := range left {
			if err := j.Append([]byte(r)); err != nil {
				return synced, err
			}
		}
		if err := j.Sync(); err != nil {
			return synced, err
		}
		synced++
	}
	return synced, nil
}

func contents(j *journal.Journal) (out []string, err error) {
	err = j.Each(func(p []byte) error { out = append(out, string(p)); return nil })
	return out, err
}

// upTo returns the records of the first syncs of the script.
func upTo(synced int) (all []string) {
	for _, records := range script[:synced] {
		all = append(all, records...)
	}
	return all
}

// reopen opens the journal and returns its records.
func reopen(d *journaltest.Disk) ([]string, error) {
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		return nil, err
	}
	defer j.Close() //nolint:errcheck // nothing was written
	return contents(j)
}

// legal fails the test unless the records found are a prefix of the written records that includes all promised records.
func legal(t *testing.T, what string, found []string, promised int) {
	t.Helper()
	if all := upTo(len(script)); len(found) > len(all) || !slices.Equal(found, all[:len(found)]) {
		t.Errorf("%s: found %q, which was never written", what, found)
	} else if least := upTo(promised); len(found) < len(least) {
		t.Errorf("%s: found %q, and %q was promised", what, found, least)
	}
}

// refused fails the test unless the error names the file, the offset, the problem and the remedy.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	var e *journal.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: %v is no refusal", what, err)
	} else if (e.File != file && e.File != mark) || e.What == "" && e.Err == nil || e.Cure == "" || !strings.Contains(err.Error(), fmt.Sprintf("offset %d", e.Offset)) {
		t.Errorf("%s: %+v says too little", what, e)
	}
}

// written returns a disk with the whole script on it. marks and sizes contain the mark and the size of the journal
// before the first sync and after each sync.
func written(t *testing.T) (d *journaltest.Disk, marks [][]byte, sizes []int) {
	t.Helper()
	d = &journaltest.Disk{}
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(script) + 1 {
		marks, sizes = append(marks, d.Contents(mark)), append(sizes, len(d.Contents(file)))
		if n == len(script) {
			break
		}
		for _, r := range script[n] {
			if err := j.Append([]byte(r)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return d, marks, sizes
}

// damages calls each for every damaged variant of b: with one bit flipped, truncated, or with zeros up to the end. from
// is the first byte that differs.
func damages(b []byte, each func(what string, from int, damaged []byte)) {
	for i := range b {
		for bit := range 8 {
			c := bytes.Clone(b)
			c[i] ^= 1 << bit
			each(fmt.Sprintf("bit %d of byte %d flipped", bit, i), i, c)
		}
		each(fmt.Sprintf("cut at %d", i), i, b[:i])
		c := bytes.Clone(b)
		clear(c[i:])
		if !bytes.Equal(c, b) {
			each(fmt.Sprintf("zeros from %d", i), i, c)
		}
	}
}

// After a process crash, Open rejects a journal with a damaged byte anywhere, because every record was promised.
func TestEveryByteOfAPromisedJournal(t *testing.T) {
	good, marks, _ := written(t)
	last := marks[len(marks)-1]
	n := 0
	damages(good.Contents(file), func(what string, _ int, damaged []byte) {
		d := &journaltest.Disk{}
		d.Put(file, damaged)
		d.Put(mark, last)
		_, err := reopen(d)
		refused(t, what, err)
		n++
	})
	damages(last, func(what string, _ int, damaged []byte) {
		d := &journaltest.Disk{}
		d.Put(file, good.Contents(file))
		d.Put(mark, damaged)
		_, err := reopen(d)
		refused(t, "the mark: "+what, err)
		n++
	})
	for _, gone := range []string{file, mark} {
		d := &journaltest.Disk{}
		for _, name := range []string{file, mark} {
			if name != gone {
				d.Put(name, good.Contents(name))
			}
		}
		_, err := reopen(d)
		refused(t, gone+" is gone", err)
	}
	t.Logf("%d damages", n)
	d := &journaltest.Disk{}
	d.Put(file, append(good.Contents(file), "half a turn of which nobody has heard"...))
	d.Put(mark, last)
	found, err := reopen(d)
	if legal(t, "more behind it", found, len(script)); err != nil {
		t.Error(err)
	}
}

// TestEveryByteBehindAnOldMark checks damage after a machine crash, when the mark may be old. Damage in the last write
// is then indistinguishable from an incomplete write, so it is cut off. Damage in an earlier write is rejected, with
// any of the marks.
func TestEveryByteBehindAnOldMark(t *testing.T) {
	good, marks, sizes := written(t)
	whole := good.Contents(file)
	lastWrite := sizes[len(sizes)-2]
	n := 0
	for old, m := range marks {
		damages(whole, func(what string, from int, damaged []byte) {
			what = fmt.Sprintf("mark %d, %s", old, what)
			n++
			d := &journaltest.Disk{}
			d.Put(file, damaged)
			d.Put(mark, m)
			found, err := reopen(d)
			if err != nil {
				refused(t, what, err)
				if from >= max(lastWrite, sizes[old]) {
					t.Errorf("%s: refused, although nobody was told of it: %v", what, err)
				}
				return
			}
			legal(t, what, found, old)
			// If a file was truncated between two writes, it has no trace of the later writes; only the mark shows that they
			// existed.
			if from < lastWrite && len(damaged) > lastWrite && !bytes.Equal(damaged[lastWrite:], make([]byte, len(damaged)-lastWrite)) {
				t.Errorf("%s: went on with %q, although a later write is there", what, found)
			}
			// The damaged end is removed permanently: the node continues, and the next process finds the same records.
			if _, err := play(d); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if found, err = reopen(d); err != nil || !slices.Equal(found, upTo(len(script))) {
				t.Fatalf("%s: then %q, %v", what, found, err)
			}
		})
	}
	t.Logf("%d damages", n)
}

// errGone is the error of all operations after a machine crash.
var errGone = errors.New("the machine is gone")

// endsAt returns a Disk.Fail that crashes the machine at its n-th operation. If that operation is a write, a prefix of
// the data has reached the kernel's memory.
func endsAt(n int) func(journaltest.Op) (int, error) {
	return func(op journaltest.Op) (int, error) {
		if n--; n <= 0 {
			return op.Bytes / 2 / 16 * 16, errGone
		}
		return 0, nil
	}
}

// TestMachineEnds crashes the machine at any operation, including operations while the journal is opened, with a random
// subset of the sectors on the disk. If the disk does not lie about syncs, the journal then opens with all promised
// records.
func TestMachineEnds(t *testing.T) {
	worlds := 0
	for seed := range uint64(60) {
		for n := 1; ; n++ {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			odds := 1 + r.IntN(4)
			keep := func(r *rand.Rand) bool { return r.IntN(5) < odds }
			d := &journaltest.Disk{Sector: []int{16, 32, 512}[seed%3], Fail: endsAt(n)}
			synced, err := play(d)
			if err == nil {
				break
			}
			worlds++
			d.Crash(keep, r)
			// The machine crashes a second time, while it opens the journal or a little later.
			d.Fail = endsAt(1 + r.IntN(25))
			again, err := play(d)
			if err != nil && !errors.Is(err, errGone) {
				t.Fatalf("seed %d, operation %d: %v", seed, n, err)
			}
			d.Crash(keep, r)
			d.Fail = nil
			found, err := reopen(d)
			if err != nil {
				t.Fatalf("seed %d, operation %d: an honest disk is refused: %v", seed, n, err)
			}
			legal(t, fmt.Sprintf("seed %d, operation %d", seed, n), found, max(synced, again))
		}
	}
	t.Logf("%d ends", worlds)
}

// TestFailingSync checks that a failed sync is never repeated. The next process rewrites the records that it finds in
// the kernel's memory. So a record that other nodes have learned of survives the next machine crash.
func TestFailingSync(t *testing.T) {
	for n := 1; n <= len(script)+2; n++ {
		d := &journaltest.Disk{Fail: journaltest.Nth(journaltest.Sync, file, n, 0, syscall.EIO)}
		synced, err := play(d)
		if n > len(script)+1 {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		refused(t, "a failing sync", err)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d: %v", n, err)
		}
		d.Fail = nil
		d.Kill()
		found, err := reopen(d)
		if err != nil {
			t.Fatalf("sync %d: %v", n, err)
		}
		legal(t, fmt.Sprintf("sync %d", n), found, synced)
		d.Crash(func(*rand.Rand) bool { return false }, nil)
		if after, err := reopen(d); err != nil || !slices.Equal(after, found) {
			t.Errorf("sync %d: the process after it went on from %q, and the disk had %q, %v", n, found, after, err)
		}
	}
}

func TestAFailedSyncIsNotRepeated(t *testing.T) {
	syncs := 0
	d := &journaltest.Disk{}
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	d.Fail = func(op journaltest.Op) (int, error) {
		if op.Kind == journaltest.Sync {
			syncs++
			return 0, syscall.EIO
		}
		return 0, nil
	}
	if err := j.Append([]byte("one")); err != nil {
		t.Fatal(err)
	}
	first := j.Sync()
	refused(t, "the first sync", first)
	if again := j.Sync(); !errors.Is(again, first) || syncs != 1 || j.Records() != 0 {
		t.Errorf("%d syncs, %d records, the second said %v", syncs, j.Records(), again)
	}
}

// TestFullDisk truncates a write at any byte because the disk is full. The next process finds the promised records, and
// continues once there is space again.
func TestFullDisk(t *testing.T) {
	for n := 2; n <= len(script)+1; n++ { // the first write is the magic of the file
		for done := range 120 {
			d := &journaltest.Disk{Fail: journaltest.Nth(journaltest.Write, file, n, done, syscall.ENOSPC)}
			synced, err := play(d)
			refused(t, "a full disk", err)
			if !errors.Is(err, syscall.ENOSPC) || synced != n-2 {
				t.Fatalf("write %d: %d syncs, %v", n, synced, err)
			}
			d.Fail = nil
			found, err := reopen(d)
			if err != nil {
				t.Fatalf("write %d, %d bytes: %v", n, done, err)
			}
			legal(t, fmt.Sprintf("write %d, %d bytes", n, done), found, synced)
			if _, err := play(d); err != nil {
				t.Fatal(err)
			}
			if found, err = reopen(d); err != nil || !slices.Equal(found, upTo(len(script))) {
				t.Errorf("write %d, %d bytes: then %q, %v", n, done, found, err)
			}
		}
	}
}

// short is a disk that writes less than it reports.
type short struct{ journal.Disk }

type shortFile struct{ journal.File }

func (s short) Open(path string) (journal.File, error) {
	f, err := s.Disk.Open(path)
	return shortFile{f}, err
}

func (f shortFile) WriteAt(p []byte, at int64) (int, error) { return f.File.WriteAt(p[:len(p)/2], at) }

func TestShortWrite(t *testing.T) {
	d := &journaltest.Disk{}
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(short{d}, "folder", "a.journal"); err == nil || !strings.Contains(err.Error(), "short write") {
		t.Errorf("a mark that is half written: %v", err)
	}
}

// TestReadErrors checks that a journal is rejected if a read fails while it is opened or read. Once the disk is
// readable again, the records are unchanged.
func TestReadErrors(t *testing.T) {
	good, marks, _ := written(t)
	for n := 1; ; n++ {
		d := &journaltest.Disk{}
		d.Put(file, good.Contents(file))
		d.Put(mark, marks[len(marks)-1])
		d.Fail = journaltest.Nth(journaltest.Read, "", n, 0, syscall.EIO)
		found, err := reopen(d)
		if err == nil {
			if n < 4 || !slices.Equal(found, upTo(len(script))) {
				t.Errorf("read %d: %q", n, found)
			}
			break
		}
		refused(t, fmt.Sprintf("read %d", n), err)
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("read %d: %v", n, err)
		}
		d.Fail = nil
		if found, err = reopen(d); err != nil || !slices.Equal(found, upTo(len(script))) {
			t.Errorf("read %d: then %q, %v", n, found, err)
		}
	}
}

// If the disk returns different bytes on a second read, Each returns an error instead of ending early.
func TestBytesChangeAfterOpening(t *testing.T) {
	good, marks, _ := written(t)
	d := &journaltest.Disk{}
	d.Put(file, good.Contents(file))
	d.Put(mark, marks[len(marks)-1])
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 60); err != nil {
		t.Fatal(err)
	}
	_, err = contents(j)
	refused(t, "another byte", err)
}

// FuzzOpen checks that opening terminates for any content of the file. A journal that was accepted once is accepted
// again with the same records, and accepts further records.
func FuzzOpen(f *testing.F) {
	d := &journaltest.Disk{}
	if _, err := play(d); err != nil {
		f.Fatal(err)
	}
	f.Add(d.Contents(file), d.Contents(mark))
	f.Add(d.Contents(file)[:70], []byte{})
	f.Add([]byte{}, []byte{})
	f.Add(d.Contents(file), make([]byte, 12))
	f.Fuzz(func(t *testing.T, contentsOf, markOf []byte) {
		d := &journaltest.Disk{}
		d.Put(file, contentsOf)
		d.Put(mark, markOf)
		first, err := reopen(d)
		if err != nil {
			return
		}
		j, err := journal.Open(d, "folder", "a.journal")
		if err != nil {
			t.Fatalf("opened once: %v", err)
		}
		if err := errors.Join(j.Append([]byte("more")), j.Sync()); err != nil {
			t.Fatal(err)
		}
		again, err := contents(j)
		if err != nil || !slices.Equal(again, append(first, "more")) || j.Records() != int64(len(again)) {
			t.Fatalf("%q, then %q, %v", first, again, err)
		}
	})
}

// If a disk has misplaced or lost a write, Open detects the records at the wrong offset or the missing records. Each
// record is complete in itself.
func TestMisplacedRecords(t *testing.T) {
	d := &journaltest.Disk{}
	j, err := journal.Open(d, "folder", "a.journal")
	if err != nil {
		t.Fatal(err)
	}
	ends := []int64{j.Bytes()}
	for _, r := range []string{"first", "other", "third"} {
		if err := errors.Join(j.Append([]byte(r)), j.Sync()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, j.Bytes())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole := d.Contents(file)
	for to := range 3 {
		for from := range 3 {
			b := bytes.Clone(whole)
			copy(b[ends[to]:ends[to+1]], whole[ends[from]:ends[from+1]])
			d.Put(file, b)
			_, err := reopen(d)
			if to == from && err != nil {
				t.Error(err)
			} else if to != from {
				refused(t, fmt.Sprintf("record %d in the place of record %d", from, to), err)
			}
		}
	}
}
