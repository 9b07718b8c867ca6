package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

const (
	// rest is the maximum number of bytes that CatchUp leaves for Switch to write.
	rest = 256 << 10
	// piece is the maximum number of bytes that CatchUp writes with a single sync.
	piece = 4 << 20
)

var (
	errDiscarded = errors.New("the next generation was discarded")
	errSwitched  = errors.New("the next generation is the log now")
)

// Next is the generation that will replace the present generation. If a method returns an error, the Next is discarded:
// its files are removed, the present generation continues alone, and another Next may be started.
type Next struct {
	d            Disk
	folder, name string // folder and name of the journal

	// writing is held during operations on the file.
	writing sync.Mutex
	j       *Journal // nil until there is something to write
	behind  bool     // CatchUp has started, so only kept payloads follow

	mu    sync.Mutex
	kept  [][]byte
	bytes int64 // size of the kept payloads that are not on the disk yet
	over  error // the reason why the Next no longer keeps payloads; nil while it does
}

// Next starts the next generation while the present generation continues. There is at most one Next at a time. From now
// on, Log.Append keeps a copy of each payload in memory for the Next. The records passed to Next.Append must replace
// everything that was appended to the log before, whether synced or not. The first method call on the Next creates its
// files.
func (l *Log) Next() (*Next, error) {
	if err := l.Failed(); err != nil {
		return nil, err
	}
	if n := l.next; n != nil {
		if n.ended() == nil {
			return nil, fmt.Errorf("journal %s: the next generation has been begun already", l.j.name)
		}
		n.Discard() // waits until its files are removed
	}
	l.next = &Next{d: l.d, folder: l.folder, name: fileName(l.name, l.generation+1)}
	return l.next, nil
}

// use returns n.over if the Next has ended. Otherwise it creates the files if they do not exist. The caller must hold
// n.writing.
func (n *Next) use() error {
	if err := n.ended(); err != nil || n.j != nil {
		return err
	}
	// An earlier attempt may have left files that could not be removed.
	err := remove(n.d, n.path())
	if err == nil {
		n.j, err = Open(n.d, n.folder, n.name)
	}
	return n.giveUp(err)
}

func (n *Next) path() string { return filepath.Join(n.folder, n.name) }

// keep queues a copy of a payload. It will be written after the existing records.
func (n *Next) keep(payload []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over == nil {
		n.kept = append(n.kept, bytes.Clone(payload))
		n.bytes += int64(len(payload))
	}
}

// Behind returns the size in bytes of the payloads that are kept in memory for n.
func (n *Next) Behind() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// Append adds a record. It precedes all payloads that were appended to the log since the Next was started. Append must
// be called before CatchUp. Sync writes the record; until then it is only in memory. The payload is subject to the same
// restrictions as in Log.Append.
func (n *Next) Append(payload []byte) error {
	n.writing.Lock()
	defer n.writing.Unlock()
	if err := n.use(); err != nil {
		return err
	}
	err := check(n.path(), payload)
	if err == nil && n.behind {
		err = fmt.Errorf("journal %s: a record of the beginning comes after CatchUp", n.path())
	}
	if err == nil {
		err = n.j.Append(payload)
	}
	return n.giveUp(err)
}

// Sync writes the appended records and returns when they are on the disk.
func (n *Next) Sync() error {
	n.writing.Lock()
	defer n.writing.Unlock()
	if err := n.use(); err != nil {
		return err
	}
	return n.giveUp(n.j.Sync())
}

// CatchUp writes and syncs the payloads that were appended to the log since the Next was started, until less than 256
// KiB are left. Switch writes the rest while the log's owner waits. If payloads arrive faster than the disk can write
// them, CatchUp returns only if the Next is discarded.
func (n *Next) CatchUp() error {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.behind = true
	for {
		if err := n.use(); err != nil {
			return err
		}
		if n.Behind() < rest {
			return n.giveUp(n.j.Sync())
		}
		if err := n.writePiece(); err != nil {
			return n.giveUp(err)
		}
	}
}

// writePiece writes and syncs the first kept payloads: at most piece bytes, but at least one payload. The caller must
// hold n.writing.
func (n *Next) writePiece() error {
	n.mu.Lock()
	count, size := 0, 0
	for count < len(n.kept) && (count == 0 || size+len(n.kept[count]) <= piece) {
		size += len(n.kept[count])
		count++
	}
	taken := n.kept[:count]
	n.kept = n.kept[count:]
	n.mu.Unlock()
	for i, payload := range taken {
		if err := n.j.Append(payload); err != nil {
			return err
		}
		taken[i] = nil
	}
	if err := n.j.Sync(); err != nil {
		return err
	}
	// Subtract only synced payloads, so that Behind is 0 only when everything is on the disk.
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over == nil {
		n.bytes -= int64(size)
	}
	return nil
}

// ended returns n.over.
func (n *Next) ended() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// end makes the Next stop keeping payloads, and reports whether it had already stopped.
func (n *Next) end(why error) (already bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over != nil {
		return true
	}
	n.over, n.kept, n.bytes = why, nil, 0
	return false
}

// giveUp returns err and, unless err is nil, removes the generation. The caller must hold n.writing.
func (n *Next) giveUp(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the next generation is given up: %w", err)
	if !n.end(err) {
		n.remove()
	}
	return err
}

// remove deletes the files. If the disk fails, files may remain. They are removed before another Next creates its
// files, or when the log is opened.
func (n *Next) remove() {
	_ = remove(n.d, n.path())
	if n.j != nil {
		_ = n.j.Close()
	}
}

// Discard removes the generation's files, and the present generation continues alone. Discard waits for a write in
// progress. It does nothing if the generation was already discarded or has become the log.
func (n *Next) Discard() {
	// End the Next first, so that CatchUp stops after its current piece and releases the lock.
	already := n.end(errDiscarded)
	n.writing.Lock()
	defer n.writing.Unlock()
	if !already {
		n.remove()
	}
}

// Switch writes the payloads that are missing from the next generation, makes that generation the log, and removes the
// files of its predecessor. All appended records must have been synced. Switch waits for CatchUp.
//
// After an error the next generation is discarded, and the present generation continues unless Failed returns an error.
// In that case, which generation is authoritative is unknown until the log is opened again.
func (l *Log) Switch(n *Next) error {
	if err := l.Failed(); err != nil {
		return err
	}
	if n == nil || n != l.next {
		return fmt.Errorf("journal %s: not the next generation of this log", l.j.name)
	}
	n.writing.Lock()
	defer n.writing.Unlock()
	l.next = nil
	if err := n.use(); err != nil {
		return err
	}
	if len(l.j.pending) > 0 {
		return n.giveUp(fmt.Errorf("journal %s: %d bytes were appended and not synced", l.j.name, len(l.j.pending)))
	}
	for n.Behind() > 0 {
		if err := n.writePiece(); err != nil {
			return n.giveUp(err)
		}
	}
	if err := n.j.Sync(); err != nil {
		return n.giveUp(err)
	}
	// A concurrent Discard was first. It will remove the files once it holds n.writing.
	if n.end(errSwitched) {
		return n.ended()
	}
	if l.failed = l.hand(n.j); l.failed != nil {
		_ = n.j.Close()
		return l.failed
	}
	_ = l.j.Close() // no more data is written to it
	l.j, l.own = n.j, 1
	l.generation++
	return nil
}

// hand makes the log continue in the journal of the next generation, which is completely on the disk. The comment of
// Log describes the order of the steps.
func (l *Log) hand(next *Journal) error {
	to := l.generation + 1
	if err := errors.Join(l.j.Append(own(kindContinued, to, next.size, next.records)), l.j.Sync()); err != nil {
		return err
	}
	if err := errors.Join(next.Append(own(kindOpened, to)), next.Sync()); err != nil {
		return err
	}
	return named(l.j.name, remove(l.d, l.j.name))
}
