package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The log's own records start with the byte ownRecord, followed by a kind and the number of a generation, 8 bytes.
// Records of kind kindContinued also contain the size in bytes and the record count of that generation's file at the
// switch, 8 bytes each.
const (
	ownRecord     = 0
	kindContinued = 1 // the last record of its file: the log continues in the next generation
	kindOpened    = 2 // the log has switched to this generation, whose number the record contains
	openedBytes   = 2 + 8
	continuation  = openedBytes + 2*8

	extension = ".journal"
)

const cureGeneration = "put the file back as it was, or delete all generations of the journal, each together with the file of the same name and " + markSuffix +
	" (a pod: delete the pod), which loses the node's state, so that the database is made anew"

// Log is a journal that can be truncated. It consists of generations, each of which is a Journal in a separate file:
// FOLDER/NAME.journal is generation 0, FOLDER/NAME.1.journal is generation 1, and so on. The current generation is the
// log. A Next is a prepared successor of the current generation. It starts with the data that replaces the earlier
// records.
//
// The current generation is authoritative until its last record is on the disk. That record states that the log
// continues in the next generation, and contains the size and record count of that generation's file. The next
// generation is complete on the disk before that record is written. Afterwards, a record in the next generation states
// that it was opened. The next generation becomes the log once its predecessor has been removed.
//
// So the lowest existing generation is always authoritative. A higher generation belongs to a switch that must be
// completed, or to one that was never committed.
//
// Only one goroutine may use a Log. Another goroutine may use its Next.
type Log struct {
	d            Disk
	folder, name string
	generation   int
	j            *Journal
	own          int64 // number of the log's own records in j
	next         *Next // nil if there is none
	failed       error // error of Switch, after which the authoritative generation is unknown
}

// OpenLog opens or creates the log with this name in a folder. It finishes a switch that was started, and removes files
// of generations to which the log never switched. It returns ErrLocked while another process has the log open. It
// returns an *Error if an authoritative file is damaged, unreadable or missing. A name must not end in a period and a
// number.
func OpenLog(d Disk, folder, name string) (*Log, error) {
	if f, ok := parse(fileName(name, 0)); !ok || f != (fileOf{name: name}) || filepath.Base(name) != name {
		return nil, fmt.Errorf("journal %s: %q cannot be told from a generation of another journal; a name does not end in a point and a number", folder, name)
	}
	l := &Log{d: d, folder: folder, name: name}
	if err := l.open(); err != nil {
		if l.j != nil {
			_ = l.j.Close()
		}
		return nil, named(l.path(l.generation), err)
	}
	return l, nil
}

// path returns the path of a generation's journal.
func (l *Log) path(generation int) string {
	return filepath.Join(l.folder, fileName(l.name, generation))
}

func fileName(name string, generation int) string {
	if generation > 0 {
		name += "." + strconv.Itoa(generation)
	}
	return name + extension
}

// fileOf contains the parts of a file name.
type fileOf struct {
	name       string // of the log
	generation int
	mark       bool
}

func parse(file string) (f fileOf, ok bool) {
	file, f.mark = strings.CutSuffix(file, markSuffix)
	if f.name, ok = strings.CutSuffix(file, extension); !ok || f.name == "" {
		return f, false
	}
	if i := strings.LastIndexByte(f.name, '.'); i > 0 {
		// Only numbers in the form that fileName writes are generations; 01 or +1 are part of the name.
		if n, err := strconv.Atoi(f.name[i+1:]); err == nil && n > 0 && strconv.Itoa(n) == f.name[i+1:] {
			f.name, f.generation = f.name[:i], n
		}
	}
	return f, true
}

// list returns the generations with a journal and the generations with a mark, in ascending order.
func (l *Log) list() (journals, marks []int, err error) {
	names, err := l.d.List(l.folder)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		switch f, ok := parse(name); {
		case !ok || f.name != l.name:
		case f.mark:
			marks = append(marks, f.generation)
		default:
			journals = append(journals, f.generation)
		}
	}
	slices.Sort(journals)
	slices.Sort(marks)
	return journals, marks, nil
}

// open opens the existing files, or creates generation 0.
func (l *Log) open() error {
	journals, marks, err := l.list()
	if err != nil {
		return err
	}
	// The mark of a later generation shows that a log existed, so do not create generation 0 in its place.
	if last := len(marks) - 1; len(journals) == 0 && last >= 0 && marks[last] > 0 {
		return &Error{File: l.path(marks[last]), What: "it is missing, and its mark is there", Cure: cureGeneration}
	}
	if len(journals) > 0 {
		l.generation = journals[0]
	}
	f, err := l.lockLowest(len(journals) == 0)
	if err != nil {
		return err
	}
	found, err := l.take(f, 0)
	if err != nil {
		return err
	}
	// A generation that was never opened is an unfinished Next. Its predecessor, which is the log, is missing.
	if l.generation > 0 && !found.opened {
		return &Error{File: l.path(l.generation), Offset: found.at, What: fmt.Sprintf("it was never opened as the log, which is %s; that is missing",
			l.path(l.generation-1)), Cure: cureGeneration}
	}
	for found.continued {
		if found, err = l.finish(found); err != nil {
			return err
		}
	}
	l.own = found.own
	return l.removeLeftovers()
}

// lockLowest opens and locks the file of the lowest generation, so that no other process can have it open. After
// locking, it checks that the generation is still the lowest, because another process may have switched and removed the
// file in the meantime.
func (l *Log) lockLowest(create bool) (File, error) {
	open := l.d.OpenExisting
	if create {
		open = l.d.Open
	}
	f, err := open(l.path(l.generation))
	// Since the list was read, another process has switched to the next generation, so that process has the log open.
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrLocked
	}
	if err != nil {
		return nil, err
	}
	err = f.Lock()
	if err == nil {
		var now []int
		if now, _, err = l.list(); err == nil && (len(now) == 0 || now[0] != l.generation) {
			err = ErrLocked
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// take opens the file of the present generation as a journal. promised is the promised size in bytes according to the
// previous generation, or 0 if there is none. Opening the mark syncs the folder. Afterwards, names that an earlier
// process has created or removed are durable.
func (l *Log) take(f File, promised int64) (*scan, error) {
	s := &scan{file: l.path(l.generation), generation: l.generation, at: int64(len(magic))}
	j, err := take(l.d, &Journal{f: f, name: s.file, promised: promised, found: s.record})
	if err != nil {
		return nil, err
	}
	l.j = j
	if s.wrong != nil {
		return nil, s.wrong
	}
	return s, nil
}

// finish continues in the next generation, as the last record of the present generation states, and removes the files
// of the present generation.
func (l *Log) finish(old *scan) (*scan, error) {
	before := l.j
	l.j = nil
	defer before.Close() //nolint:errcheck // nothing is written to it any more
	l.generation++
	path := l.path(l.generation)
	f, err := l.d.OpenExisting(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Error{File: path, What: fmt.Sprintf("it is missing, and %s is continued in it", old.file), Cure: cureGeneration}
	}
	if err != nil {
		return nil, err
	}
	if err := f.Lock(); err != nil {
		_ = f.Close()
		return nil, err
	}
	// The mark may be older than the switch, but all these bytes were on the disk before the switch.
	found, err := l.take(f, old.bytes)
	if err != nil {
		return nil, err
	}
	at, records := found.at, found.records
	if found.opened {
		at, records = found.openedAt, found.openedAfter
	}
	// The next generation was complete at the switch, so a difference means that the file was damaged or replaced.
	if at != old.bytes || records != old.count {
		return nil, &Error{File: path, Offset: at, What: fmt.Sprintf("it has %d records in %d bytes there, and %s is continued in one of %d records in %d bytes",
			records, at, old.file, old.count, old.bytes), Cure: cureGeneration}
	}
	// The process stopped after it had written the first of the two records of the switch.
	if !found.opened {
		if err := errors.Join(l.j.Append(own(kindOpened, l.generation)), l.j.Sync()); err != nil {
			return nil, err
		}
		found.opened, found.own = true, found.own+1
	}
	// Remove the old file last: it is needed until the record kindOpened of the next generation is on the disk.
	return found, remove(l.d, old.file)
}

// remove deletes the files of a generation, the journal first. A mark without a journal is harmless if the next
// generation was opened, but OpenLog rejects a journal without a mark.
func remove(d Disk, path string) error {
	for _, file := range []string{path, path + markSuffix} {
		if err := d.Remove(file); err != nil {
			return fmt.Errorf("remove %s: %w", file, err)
		}
	}
	return nil
}

// removeLeftovers removes generations to which the log never switched, and marks of removed generations.
func (l *Log) removeLeftovers() error {
	journals, marks, err := l.list()
	if err != nil {
		return err
	}
	for _, g := range journals {
		if g == l.generation {
			continue
		}
		if opened, err := l.wasOpened(g); err != nil {
			return err
			// The record kindContinued is missing from the present generation, so its file was damaged or replaced by an old
			// version.
		} else if opened {
			return &Error{File: l.path(l.generation), Offset: l.j.size, What: fmt.Sprintf("it lacks the record that it is continued, and %s says that the log has gone on there",
				l.path(g)), Cure: cureGeneration}
		}
	}
	for _, g := range slices.Concat(journals, marks) {
		if g == l.generation {
			continue
		}
		if err := remove(l.d, l.path(g)); err != nil {
			return err
		}
	}
	return nil
}

// wasOpened reports whether a generation above the present one contains a record that it was opened as the log. It
// reads only up to the first incomplete record.
func (l *Log) wasOpened(generation int) (bool, error) {
	path := l.path(generation)
	f, err := l.d.OpenExisting(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // nothing is written
	size, err := f.Size()
	if err != nil || size <= int64(len(magic)) {
		return false, err
	}
	j := &Journal{f: f, name: path}
	s := &scan{file: path, generation: generation}
	if bad := j.read(size, func(payload []byte) error { s.record(payload); return nil }); bad != nil && bad.Err != nil {
		return false, bad
	}
	return s.opened, nil
}

// scan is the state of a generation as described by its records.
type scan struct {
	file       string
	generation int
	at         int64 // offset of the next record
	records    int64
	own        int64 // number of the log's own records
	// opened is set if the log has switched to this generation. The record that states this is at offset openedAt, after
	// openedAfter other records.
	opened                bool
	openedAt, openedAfter int64
	// continued is set if the log continues in the next generation. bytes and count are the size and the number of records
	// of that generation at the switch.
	continued    bool
	bytes, count int64
	wrong        *Error // the first record that is not allowed at its position
}

func (s *scan) record(payload []byte) {
	what := s.understand(payload)
	if what != "" && s.wrong == nil {
		s.wrong = &Error{File: s.file, Offset: s.at, What: what, Cure: cureGeneration}
	}
	s.at += headerBytes + int64(len(payload))
	s.records++
}

// understand interprets the next record. It returns a description of the problem if the record is invalid, and ""
// otherwise.
func (s *scan) understand(payload []byte) string {
	if s.continued {
		return "there is a record behind the one that says that the log goes on in the next generation"
	}
	if payload[0] != ownRecord {
		return ""
	}
	s.own++
	if len(payload) < openedBytes {
		return "a record of the log's own is too short"
	}
	kind, generation := payload[1], binary.LittleEndian.Uint64(payload[2:])
	switch {
	case kind == kindOpened && len(payload) == openedBytes && generation == uint64(s.generation) && s.generation > 0 && !s.opened:
		s.opened, s.openedAt, s.openedAfter = true, s.at, s.records
	case kind == kindContinued && len(payload) == continuation && generation == uint64(s.generation)+1:
		s.continued = true
		s.bytes, s.count = int64(binary.LittleEndian.Uint64(payload[openedBytes:])), int64(binary.LittleEndian.Uint64(payload[openedBytes+8:]))
	default:
		return fmt.Sprintf("a record of the log's own, of kind %d and for generation %d, does not belong into generation %d", kind, generation, s.generation)
	}
	return ""
}

// own returns the payload of one of the log's own records.
func own(kind byte, generation int, more ...int64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{ownRecord, kind}, uint64(generation))
	for _, n := range more {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// check returns an error for a payload that looks like one of the log's own records.
func check(path string, payload []byte) error {
	if len(payload) > 0 && payload[0] == ownRecord {
		return fmt.Errorf("journal %s: a record of the log's user does not begin with the byte %d", path, ownRecord)
	}
	return nil
}

// Append adds a record to the present generation, and keeps a copy for the next generation if there is one. Sync writes
// the record. The payload must not be empty or start with a zero byte. The caller may reuse it.
func (l *Log) Append(payload []byte) error {
	if l.failed != nil {
		return l.failed
	}
	if err := check(l.j.name, payload); err != nil {
		return err
	}
	if err := l.j.Append(payload); err != nil {
		return err
	}
	if l.next != nil {
		l.next.keep(payload)
	}
	return nil
}

// Sync writes the appended records and returns when they are on the disk. After an error every further Sync returns the
// same error, as with a Journal.
func (l *Log) Sync() error {
	if l.failed != nil {
		return l.failed
	}
	return l.j.Sync()
}

// Failed returns the permanent error of Sync, or nil while the log works.
func (l *Log) Failed() error {
	if l.failed != nil {
		return l.failed
	}
	return l.j.failed
}

// Each calls f for every record of the present generation, like Journal.Each, without the log's own records.
func (l *Log) Each(f func(payload []byte) error) error {
	return l.j.Each(func(payload []byte) error {
		if payload[0] == ownRecord {
			return nil
		}
		return f(payload)
	})
}

// Records returns the number of durable records in the present generation, without the log's own records.
func (l *Log) Records() int64 { return l.j.records - l.own }

// Bytes returns the size of the present generation's file in bytes, including the log's own records.
func (l *Log) Bytes() int64 { return l.j.size }

// Generation returns the number of the present generation, counted from 0.
func (l *Log) Generation() int { return l.generation }

// Close discards the next generation, if there is one, and closes the log. Unsynced records are lost.
func (l *Log) Close() error {
	if l.next != nil {
		l.next.Discard()
	}
	return l.j.Close()
}

// RemoveOthers deletes all logs of a folder except the log with this name, with all their generations and marks. Call
// it only if the owners of those logs no longer exist.
func RemoveOthers(d Disk, folder, name string) error {
	files, err := d.List(folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		if f, ok := parse(file); !ok || f.name == name {
			continue
		}
		if err := d.Remove(filepath.Join(folder, file)); err != nil {
			return err
		}
	}
	return nil
}
