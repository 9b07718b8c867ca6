package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/journal/journaltest"
)

// story is the input of a log's owner, grouped by sync. A record of the log is a plus sign followed by a word, or a
// checkpoint: an equals sign followed by all words so far.
var story = [][]string{{"a"}, {"bb", "c"}, {"dddd"}, {"e", "f"}, {"g"}, {"hh"}}

// begins lists the syncs before which a checkpoint starts; the switch follows the next sync. If the value is true, the
// test calls Sync and CatchUp before the switch. Before sync number atOnce, the log switches to a checkpoint without
// any record after it.
var begins = map[int]bool{1: true, 3: false}

const atOnce = 5

func wordsUpTo(syncs int) (words []string) { return slices.Concat(story[:syncs]...) }

// words returns the words in the records of a log.
func words(l *journal.Log) (words []string, err error) {
	count := int64(0)
	err = l.Each(func(p []byte) error {
		count++
		switch rest := string(p[1:]); p[0] {
		case '+':
			words = append(words, rest)
		case '=':
			words = strings.Fields(rest)
		default:
			return fmt.Errorf("a record %q", p)
		}
		return nil
	})
	if err == nil && count != l.Records() {
		err = fmt.Errorf("%d records, and Records says %d", count, l.Records())
	}
	return words, err
}

// live opens the log and continues the story to its end, truncating the log at the points in begins. If a next
// generation fails, live retries at the next opportunity. It returns the number of promised words.
func live(d journal.Disk) (promised int, err error) {
	l, err := journal.OpenLog(d, "folder", "a")
	if err != nil {
		return 0, err
	}
	defer l.Close() //nolint:errcheck // what counts is synced
	known, err := words(l)
	if err != nil {
		return 0, err
	}
	promised = len(known)
	var next *journal.Next
	for i := range story {
		if i == atOnce {
			n, err := l.Next()
			if err != nil {
				return promised, err
			}
			if n.Append([]byte("="+strings.Join(known, " "))) == nil && l.Switch(n) != nil && l.Failed() != nil {
				return promised, l.Failed()
			}
		}
		early, occasion := begins[i]
		if occasion {
			if next, err = l.Next(); err != nil {
				return promised, err
			}
			if next.Append([]byte("="+strings.Join(known, " "))) != nil || early && next.Sync() != nil {
				next = nil
			}
		}
		for _, word := range wordsUpTo(i + 1)[min(len(known), len(wordsUpTo(i+1))):] {
			if err := l.Append([]byte("+" + word)); err != nil {
				return promised, err
			}
			known = append(known, word)
		}
		if err := l.Sync(); err != nil {
			return promised, err
		}
		promised = len(known)
		if next != nil && !occasion {
			if !begins[i-1] || next.CatchUp() == nil {
				if err := l.Switch(next); err != nil && l.Failed() != nil {
					return promised, err
				}
			}
			next = nil
		}
	}
	return promised, nil
}

// relive opens the log again and returns its words.
func relive(d journal.Disk) ([]string, error) {
	l, err := journal.OpenLog(d, "folder", "a")
	if err != nil {
		return nil, err
	}
	defer l.Close() //nolint:errcheck // nothing was written
	return words(l)
}

// kept fails the test unless the words found are a prefix of the story that includes all promised words.
func kept(t *testing.T, what string, found []string, promised int) {
	t.Helper()
	if all := wordsUpTo(len(story)); len(found) > len(all) || !slices.Equal(found, all[:len(found)]) {
		t.Errorf("%s: found %q, which is not how it went", what, found)
	} else if len(found) < promised {
		t.Errorf("%s: found %q, and %d words were promised", what, found, promised)
	}
}

// alone fails the test unless there is only one generation on the disk.
func alone(t *testing.T, what string, d *journaltest.Disk) {
	t.Helper()
	if f := d.Files(); len(f) != 2 || f[0]+".synced" != f[1] {
		t.Errorf("%s: the files are %q", what, f)
	}
}

// refusedLog fails the test unless the error names the file, the problem and the remedy.
func refusedLog(t *testing.T, what string, err error) {
	t.Helper()
	var e *journal.Error
	if !errors.As(err, &e) {
		t.Errorf("%s: %v is no refusal", what, err)
	} else if filepath.Dir(e.File) != "folder" || e.What == "" && e.Err == nil || e.Cure == "" {
		t.Errorf("%s: %+v says too little", what, e)
	}
}

// TestMachineEndsInALog crashes the machine or the process at any operation, including the operations of a switch, of
// opening the log and of finishing a switch. The log then opens with all promised records, and continues.
func TestMachineEndsInALog(t *testing.T) {
	worlds := 0
	for seed := range uint64(60) {
		for n := 1; ; n++ {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			odds := r.IntN(6)
			end := func(d *journaltest.Disk) {
				if r.IntN(3) == 0 {
					d.Kill()
				} else {
					d.Crash(func(r *rand.Rand) bool { return r.IntN(5) < odds }, r)
				}
			}
			d := &journaltest.Disk{Sector: []int{16, 32, 512}[seed%3], Fail: endsAt(n)}
			promised, err := live(d)
			if err == nil {
				break
			}
			worlds++
			what := fmt.Sprintf("seed %d, operation %d", seed, n)
			for range 2 {
				end(d)
				d.Fail = endsAt(1 + r.IntN(40))
				again, err := live(d)
				if err != nil && !errors.Is(err, errGone) {
					t.Fatalf("%s: an honest disk is refused: %v", what, err)
				}
				promised = max(promised, again)
			}
			end(d)
			d.Fail = nil
			found, err := relive(d)
			if err != nil {
				t.Fatalf("%s: an honest disk is refused: %v", what, err)
			}
			kept(t, what, found, promised)
			alone(t, what, d)
			if promised, err := live(d); err != nil || promised != len(wordsUpTo(len(story))) {
				t.Errorf("%s: then %d words, %v", what, promised, err)
			}
		}
	}
	t.Logf("%d ends", worlds)
}

// stage is a snapshot of the files between two disk operations of a log.
type stage struct {
	files    map[string][]byte
	promised int // number of promised words
	lowest   string
}

func (s stage) disk(change map[string][]byte) *journaltest.Disk {
	d := &journaltest.Disk{}
	for name, b := range s.files {
		if c, ok := change[name]; ok {
			b = c
		}
		d.Put(name, b)
	}
	return d
}

// without returns a disk with all files of the stage except gone.
func (s stage) without(gone string) *journaltest.Disk {
	c := stage{files: maps.Clone(s.files)}
	delete(c.files, gone)
	return c.disk(nil)
}

// stages returns all distinct stages in the life of a log on a disk without faults, starting with the first promise.
func stages(t *testing.T) (all []stage) {
	t.Helper()
	for n := 1; ; n++ {
		left := n
		d := &journaltest.Disk{Fail: func(journaltest.Op) (int, error) {
			if left--; left <= 0 {
				return 0, errGone
			}
			return 0, nil
		}}
		promised, err := live(d)
		s := stage{files: map[string][]byte{}, promised: promised}
		for _, f := range d.Files() {
			s.files[f] = d.Contents(f)
			if s.lowest == "" && strings.HasSuffix(f, ".journal") {
				s.lowest = f
			}
		}
		// In alphabetical order, a.1.journal precedes a.journal.
		if _, ok := s.files["folder/a.journal"]; ok {
			s.lowest = "folder/a.journal"
		}
		if promised > 0 && (len(all) == 0 || !maps.EqualFunc(s.files, all[len(all)-1].files, bytes.Equal)) {
			all = append(all, s)
		} else if len(all) > 0 {
			all[len(all)-1].promised = max(promised, all[len(all)-1].promised)
		}
		if err == nil {
			return all
		}
	}
}

// If a file is lost or damaged anywhere, at any stage, OpenLog returns an error or the damage has no effect.
func TestEveryByteOfALog(t *testing.T) {
	n, refusals, both := 0, 0, 0
	for i, s := range stages(t) {
		if len(s.files) > 2 {
			both++
		}
		judge := func(what string, d *journaltest.Disk) {
			n++
			found, err := relive(d)
			if err != nil {
				refusals++
				refusedLog(t, what, err)
				return
			}
			kept(t, what, found, s.promised)
			alone(t, what, d)
		}
		judge(fmt.Sprintf("stage %d", i), s.disk(nil))
		for name, b := range s.files {
			damages(b, func(what string, _ int, damaged []byte) {
				judge(fmt.Sprintf("stage %d, %s: %s", i, name, what), s.disk(map[string][]byte{name: damaged}))
			})
			judge(fmt.Sprintf("stage %d, %s is gone", i, name), s.without(name))
		}
		if t.Failed() {
			return
		}
	}
	if t.Logf("%d damages, %d refused; %d stages with two generations", n, refusals, both); both < 20 {
		t.Error("too few stages have two generations")
	}
}

// TestEveryByteOfALogBehindOldMarks repeats TestEveryByteOfALog after a machine crash, with old marks. Promised records
// of the present generation may then be cut off undetected, but only beyond its mark, as in a Journal without
// generations. Records that existed at the switch to this generation are never lost, and damage to any other file loses
// nothing.
func TestEveryByteOfALogBehindOldMarks(t *testing.T) {
	type version struct {
		mark     []byte
		promised int // number of words promised when the mark was written
	}
	marks := map[string][]version{} // by file
	switched := map[string]int{}    // number of words promised when the file became the lowest
	n, refusals := 0, 0
	for i, s := range stages(t) {
		if _, ok := switched[s.lowest]; !ok {
			switched[s.lowest] = s.promised
			if i == 0 {
				switched[s.lowest] = 0
			}
		}
		for name, b := range s.files {
			if vs := marks[name]; strings.HasSuffix(name, ".synced") && len(b) > 0 && (len(vs) == 0 || !bytes.Equal(vs[len(vs)-1].mark, b)) {
				marks[name] = append(vs, version{b, s.promised})
			}
		}
		for name, b := range s.files {
			if !strings.HasSuffix(name, ".journal") {
				continue
			}
			for age, v := range marks[name+".synced"] {
				least := s.promised
				if name == s.lowest {
					least = min(least, max(v.promised, switched[name]))
				}
				for at := range b {
					flipped := bytes.Clone(b)
					flipped[at] ^= 1 << (at % 8)
					zeros := bytes.Clone(b)
					clear(zeros[at:])
					for kind, damaged := range map[string][]byte{"flipped": flipped, "zeros from there": zeros, "cut": b[:at]} {
						n++
						what := fmt.Sprintf("stage %d, %s with mark %d, byte %d %s", i, name, age, at, kind)
						d := s.disk(map[string][]byte{name: damaged, name + ".synced": v.mark})
						found, err := relive(d)
						if err != nil {
							refusals++
							if refusedLog(t, what, err); name != s.lowest && !bytes.Equal(d.Contents(name), damaged) {
								t.Errorf("%s: refused, and cut off or written to", what)
							}
							continue
						}
						kept(t, what, found, least)
						if _, err := live(d); err != nil {
							t.Fatalf("%s: then %v", what, err)
						}
					}
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d damages, %d refused", n, refusals)
}

// OpenLog rejects a log with a lost file and names the file, unless the file is not yet or no longer part of the log.
func TestLostGenerations(t *testing.T) {
	const first, second = "folder/a.journal", "folder/a.1.journal"
	seen := map[string]int{}
	for i, s := range stages(t) {
		for name := range s.files {
			if !strings.HasSuffix(name, ".journal") {
				continue
			}
			_, err := relive(s.without(name))
			var e *journal.Error
			what := "goes on"
			if errors.As(err, &e) {
				what = e.What
			}
			switch {
			case len(s.files) == 2 && err == nil:
				t.Errorf("stage %d: went on without %s", i, name)
			case name == second && strings.Contains(what, "is missing, and "+first+" is continued in it"):
				seen["continued"]++
			case name == first && strings.Contains(what, "never opened as the log, which is "+first+"; that is missing"):
				seen["never opened"]++
			case name == first && err == nil:
				seen["opened"]++
			case name == second && err == nil:
				seen["not continued"]++
			}
		}
	}
	for _, what := range []string{"continued", "never opened", "opened", "not continued"} {
		if seen[what] == 0 {
			t.Errorf("no stage in which a generation is %s: %v", what, seen)
		}
	}
}

// TestAnotherNextGeneration checks that a complete but different file in place of the next generation is rejected if
// its length is different.
func TestAnotherNextGeneration(t *testing.T) {
	const second = "folder/a.1.journal"
	continued := 0
	for i, s := range stages(t) {
		if _, err := relive(s.without(second)); s.lowest != "folder/a.journal" || s.files[second] == nil || err == nil {
			continue
		}
		continued++
		for _, more := range []string{"", "+x"} {
			other := &journaltest.Disk{}
			l := openLog(t, other, "folder")
			n := begin(t, l)
			ok(t, l.Append([]byte("+a")), l.Sync(), n.Append([]byte("=a b")))
			if more != "" {
				for range 9 {
					ok(t, n.Append([]byte(more)))
				}
			}
			ok(t, l.Switch(n), l.Close())
			_, err := relive(s.disk(map[string][]byte{second: other.Contents(second), second + ".synced": other.Contents(second + ".synced")}))
			refusedLog(t, fmt.Sprintf("stage %d, another file with %q", i, more), err)
		}
	}
	if continued == 0 {
		t.Error("there is no such stage")
	}
}

// TestOpenedBehindWhatIsNotContinued damages a file so that the log seems never to have continued in the next
// generation. The damage is detected, because the next generation contains a record that it was opened.
func TestOpenedBehindWhatIsNotContinued(t *testing.T) {
	all := stages(t)
	for i, s := range all {
		second := s.files["folder/a.1.journal"]
		if s.lowest != "folder/a.journal" || !bytes.Contains(second, []byte{0, 2, 1, 0, 0, 0, 0, 0, 0, 0}) {
			continue
		}
		first := bytes.Clone(s.files[s.lowest])
		first[len(first)-1] ^= 1
		old := s.files["folder/a.1.journal.synced"] // a mark that promises fewer bytes
		for _, earlier := range all[:i] {
			if b := earlier.files[s.lowest+".synced"]; len(earlier.files) == 2 && len(b) > 0 {
				old = b
			}
		}
		_, err := relive(s.disk(map[string][]byte{s.lowest: first, s.lowest + ".synced": old}))
		if refusedLog(t, "not continued", err); err != nil && !strings.Contains(err.Error(), "a.1.journal says that the log has gone on there") {
			t.Error(err)
		}
		return
	}
	t.Error("there is no such stage")
}

var kinds = []journaltest.Kind{journaltest.Open, journaltest.Read, journaltest.Write, journaltest.Truncate, journaltest.Sync, journaltest.List,
	journaltest.Remove, journaltest.SyncFolder}

// failing returns a disk that fails as fail specifies, and a flag that is set once it has failed.
func failing(fail func(journaltest.Op) (int, error)) (d *journaltest.Disk, failed *bool) {
	failed = new(bool)
	return &journaltest.Disk{Fail: func(op journaltest.Op) (int, error) {
		done, err := fail(op)
		*failed = *failed || err != nil
		return min(done, op.Bytes), err
	}}, failed
}

// TestFullDiskOfTheNextGeneration fills the disk at any byte of any write of the next generation. Only the checkpoint
// is lost, unless the log has already started to switch to that generation. In that case, the next process finishes the
// switch.
func TestFullDiskOfTheNextGeneration(t *testing.T) {
	fatal, survived := 0, 0
	for _, name := range []string{"folder/a.1.journal", "folder/a.1.journal.synced", "folder/a.2.journal"} {
		for n := 1; n == 1 || !strings.HasSuffix(name, ".synced"); n++ { // an existing mark needs no more space
			count := 0
			for done := range 80 {
				d, failed := failing(journaltest.Nth(journaltest.Write, name, n, done, syscall.ENOSPC))
				promised, err := live(d)
				if !*failed {
					break
				}
				count++
				what := fmt.Sprintf("%s, write %d, byte %d", name, n, done)
				if err == nil {
					survived++
					if promised != len(wordsUpTo(len(story))) {
						t.Errorf("%s: %d words", what, promised)
					}
					alone(t, what, d)
				} else {
					fatal++
					refusedLog(t, what, err)
				}
				d.Kill()
				d.Fail = nil
				found, err := relive(d)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				kept(t, what, found, promised)
				alone(t, what, d)
			}
			if count == 0 {
				break
			}
		}
	}
	if t.Logf("%d went on, %d ended", survived, fatal); survived == 0 || fatal == 0 {
		t.Error("one of them never happened")
	}
}

// TestOperationsOfALogFail makes any single operation of the disk fail once. Either the log continues, or it is broken
// and reports the error permanently. All promised records are found after a restart of the process and after a machine
// crash.
func TestOperationsOfALogFail(t *testing.T) {
	for _, kind := range kinds {
		goesOn, ends := 0, 0
		for n := 1; ; n++ {
			what := fmt.Sprintf("%s %d", kind, n)
			d, failed := failing(journaltest.Nth(kind, "", n, 0, syscall.EIO))
			promised, err := live(d)
			if !*failed {
				break
			}
			if err == nil {
				goesOn++
				if promised != len(wordsUpTo(len(story))) {
					t.Errorf("%s: %d words", what, promised)
				}
			} else {
				ends++
				if !errors.Is(err, syscall.EIO) {
					t.Errorf("%s: %v", what, err)
				}
			}
			d.Fail = nil
			d.Kill()
			found, err := relive(d)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			kept(t, what, found, promised)
			alone(t, what, d)
			d.Crash(func(*rand.Rand) bool { return false }, nil)
			if after, err := relive(d); err != nil || !slices.Equal(after, found) {
				t.Errorf("%s: the process after it went on from %q, and the disk had %q, %v", what, found, after, err)
			}
		}
		t.Logf("%s: %d go on, %d end", kind, goesOn, ends)
	}
}

// TestOperationsOfOpeningALogFail makes any single operation fail once while a log is opened, at any stage. Either
// OpenLog returns an error, or the failure has no effect. All promised records are found after a restart of the process
// and after a machine crash.
func TestOperationsOfOpeningALogFail(t *testing.T) {
	opened, refusals := 0, 0
	for i, s := range stages(t) {
		for _, kind := range kinds {
			for n := 1; ; n++ {
				what := fmt.Sprintf("stage %d, %s %d", i, kind, n)
				d, failed := failing(journaltest.Nth(kind, "", n, 0, syscall.EIO))
				for name, b := range s.files {
					d.Put(name, b)
				}
				found, err := relive(d)
				if !*failed {
					break
				}
				if err == nil {
					opened++
					kept(t, what, found, s.promised)
				} else if refusals++; !errors.Is(err, syscall.EIO) {
					t.Errorf("%s: %v", what, err)
				} else if kind == journaltest.Read {
					refusedLog(t, what, err)
				}
				d.Fail = nil
				d.Kill()
				found, err = relive(d)
				if err != nil {
					t.Fatalf("%s: then %v", what, err)
				}
				kept(t, what, found, s.promised)
				alone(t, what, d)
				d.Crash(func(*rand.Rand) bool { return false }, nil)
				if after, err := relive(d); err != nil || !slices.Equal(after, found) {
					t.Errorf("%s: the process after it went on from %q, and the disk had %q, %v", what, found, after, err)
				}
			}
		}
	}
	if t.Logf("%d opened, %d refused", opened, refusals); refusals == 0 {
		t.Error("nothing was refused")
	}
}

// TestABrokenSwitchIsForGood checks that a log is permanently broken once a switch has failed halfway, because it is
// then unknown which generation is authoritative. Further records are rejected, and the disk does not change.
func TestABrokenSwitchIsForGood(t *testing.T) {
	for n := 1; n <= 2; n++ { // the first sync writes the record kindContinued, and the second the record kindOpened
		d := &journaltest.Disk{}
		l, err := journal.OpenLog(d, "folder", "a")
		if err != nil {
			t.Fatal(err)
		}
		next, err := l.Next()
		if err := errors.Join(err, l.Append([]byte("+a")), l.Sync(), next.Append([]byte("=")), next.CatchUp()); err != nil {
			t.Fatal(err)
		}
		syncs := 0
		written := 0
		d.Fail = func(op journaltest.Op) (int, error) {
			switch {
			case op.Kind == journaltest.Write:
				written++
			case op.Kind == journaltest.Sync:
				if syncs++; syncs == n+1 { // the first sync writes the kept payloads
					return 0, syscall.EIO
				}
			}
			return 0, nil
		}
		broken := l.Switch(next)
		refusedLog(t, "a broken switch", broken)
		before := written
		for what, err := range map[string]error{"Failed": l.Failed(), "Append": l.Append([]byte("+b")), "Sync": l.Sync(), "Switch": l.Switch(next)} {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("sync %d: then %s says %v", n, what, err)
			}
		}
		if _, err := l.Next(); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d: then Next says %v", n, err)
		}
		next.Discard()
		if err := l.Close(); err != nil || written != before || len(d.Files()) != 4 {
			t.Errorf("sync %d: %d writes after it, files %q, %v", n, written-before, d.Files(), err)
		}
		d.Fail = nil
		if found, err := relive(d); err != nil || !slices.Equal(found, []string{"a"}) {
			t.Errorf("sync %d: %q, %v", n, found, err)
		}
		alone(t, "afterwards", d)
	}
}

// FuzzOpenLog checks that opening the log terminates for any content of its files. A log that was accepted once is
// accepted again, with the same records.
func FuzzOpenLog(f *testing.F) {
	for n := 1; n < 120; n += 5 {
		d := &journaltest.Disk{Fail: endsAt(n)}
		_, _ = live(d)
		f.Add(d.Contents("folder/a.journal"), d.Contents("folder/a.journal.synced"), d.Contents("folder/a.1.journal"), d.Contents("folder/a.1.journal.synced"))
	}
	f.Fuzz(func(t *testing.T, first, firstMark, second, secondMark []byte) {
		d := &journaltest.Disk{}
		for name, b := range map[string][]byte{"a.journal": first, "a.journal.synced": firstMark, "a.1.journal": second, "a.1.journal.synced": secondMark} {
			if len(b) > 0 {
				d.Put("folder/"+name, b)
			}
		}
		read := func() (records []string, err error) {
			l, err := journal.OpenLog(d, "folder", "a")
			if err != nil {
				return nil, err
			}
			defer l.Close() //nolint:errcheck // nothing was written
			err = l.Each(func(p []byte) error { records = append(records, string(p)); return nil })
			if err == nil && int64(len(records)) != l.Records() {
				t.Fatalf("%d records, and Records says %d", len(records), l.Records())
			}
			return records, err
		}
		found, err := read()
		if err != nil {
			return
		}
		if again, err := read(); err != nil || !slices.Equal(again, found) {
			t.Fatalf("%q, then %q, %v", found, again, err)
		}
		alone(t, "opened", d)
	})
}
