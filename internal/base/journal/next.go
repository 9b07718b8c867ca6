package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
)

const (
	// rest is how much CatchUp leaves for Switch, in bytes.
	rest = 256 << 10
	// piece is how much CatchUp writes with one sync, in bytes.
	piece = 4 << 20
)

var (
	errDiscarded = errors.New("the next generation was discarded")
	errSwitched  = errors.New("the next generation is the log now")
)

// Next is the generation that will take the present one's place. An error of any of its methods has given it up: what
// is written of it is removed, the present generation goes on alone, and another Next may be begun.
type Next struct {
	d            Disk
	folder, name string // of its journal

	// writing is held while the disk is at work on the file.
	writing sync.Mutex
	j       *Journal // nil until something is to be written
	behind  bool     // what is kept comes next

	mu    sync.Mutex
	kept  [][]byte
	bytes int64 // of the payloads that are kept and not on the disk yet
	over  error // why nothing is kept any more
}

// Next begins the next generation beside the present one. There is one at a time. From now on Append keeps a copy of
// each payload for it in memory; whatever was appended before, synced or not, is to follow from what the Next's Append
// is given. Its files are made by the first of its own methods that is called.
func (l *Log) Next() (*Next, error) {
	if err := l.Failed(); err != nil {
		return nil, err
	}
	if n := l.next; n != nil {
		if n.ended() == nil {
			return nil, fmt.Errorf("journal %s: the next generation has been begun already", l.j.name)
		}
		n.Discard() // returns when its files are removed
	}
	l.next = &Next{d: l.d, folder: l.folder, name: fileName(l.name, l.generation+1)}
	return l.next, nil
}

// use returns why the generation is over, if it is, and makes its files unless they are there. n.writing is held.
func (n *Next) use() error {
	if err := n.ended(); err != nil || n.j != nil {
		return err
	}
	err := remove(n.d, n.path())
	if err == nil {
		n.j, err = Open(n.d, n.folder, n.name)
	}
	return n.giveUp(err)
}

func (n *Next) path() string { return filepath.Join(n.folder, n.name) }

// keep has a payload written after what is there.
func (n *Next) keep(payload []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over == nil {
		n.kept = append(n.kept, bytes.Clone(payload))
		n.bytes += int64(len(payload))
	}
}

// Behind is the size of the payloads that are kept in memory for it, in bytes.
func (n *Next) Behind() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// Append adds a record that comes before all that was appended to the log since the Next was begun. It comes before
// CatchUp. Sync writes it; what was added since the last Sync is in memory. The payload is as the log's.
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

// Sync writes what was added and returns when it is on the disk.
func (n *Next) Sync() error {
	n.writing.Lock()
	defer n.writing.Unlock()
	if err := n.use(); err != nil {
		return err
	}
	return n.giveUp(n.j.Sync())
}

// CatchUp writes and syncs what the log has been given since the Next was begun, until less than 256 KiB of it are
// left: Switch writes these while the log's owner waits. It does not return while payloads come faster than the disk
// takes them, unless the Next is discarded.
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

// writePiece writes and syncs the first of the payloads that are kept. n.writing is held.
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over == nil {
		n.bytes -= int64(size)
	}
	return nil
}

// ended returns why the generation is over, nil while it is not.
func (n *Next) ended() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// end lets nothing be kept from now on, and tells whether it was over before.
func (n *Next) end(why error) (already bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over != nil {
		return true
	}
	n.over, n.kept, n.bytes = why, nil, 0
	return false
}

// giveUp removes the generation unless err is nil, and returns err. n.writing is held.
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

// remove deletes the files. What stays because the disk fails is removed before the files of another Next are made, and
// when the log is opened.
func (n *Next) remove() {
	_ = remove(n.d, n.path())
	if n.j != nil {
		_ = n.j.Close()
	}
}

// Discard gives the generation up: its files are removed, and the present generation goes on alone. It waits for a
// write that is under way. It does nothing where the generation was given up before or has become the log.
func (n *Next) Discard() {
	already := n.end(errDiscarded)
	n.writing.Lock()
	defer n.writing.Unlock()
	if !already {
		n.remove()
	}
}

// Switch writes what the next generation lacks, and goes on in it: the log is that generation then, and the files of
// the one before it are removed. Everything that was appended must be synced. It waits for CatchUp. After an error the
// next generation is given up; the present one goes on unless Failed says otherwise: which generation counts is known
// then only to who opens the log anew.
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
	if n.end(errSwitched) {
		return n.ended()
	}
	if l.failed = l.hand(n.j); l.failed != nil {
		_ = n.j.Close()
		return l.failed
	}
	_ = l.j.Close() // nothing is written to it any more
	l.j, l.own = n.j, 1
	l.generation++
	return nil
}

// hand lets the log go on in the next generation's journal, all of which is on the disk.
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
