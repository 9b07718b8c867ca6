package node

import (
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/net/wire"
)

// beside is the queue of work that the replica does outside the loop. A goroutine executes one piece after another, and
// the loop handles the completion of each piece as an input. The log records this input like any other, so a replay is
// correct although the duration of the work varies.
type beside struct {
	pieces  queue.Queue[piece] // a goroutine executes the first piece, except in a replay
	working sync.WaitGroup
}

type piece struct {
	work func() int64
	over protocol.Timer
}

// Offload implements protocol.Env.
func (l *loop) Offload(work func() int64, over protocol.Timer) {
	l.beside.pieces.Push(piece{work, over})
	if l.beside.pieces.Len() == 1 && !l.replaying {
		l.workBeside()
	}
}

// workBeside starts a goroutine for the first piece.
func (l *loop) workBeside() {
	work := l.beside.pieces.Front().work
	l.beside.working.Go(func() {
		began := wire.Now()
		work()
		if percent := l.slow.Load(); percent > 0 {
			rest := time.NewTimer((wire.Now() - began) * time.Duration(percent) / 100)
			defer rest.Stop()
			select {
			case <-rest.C:
			case <-l.n.done:
			}
		}
		l.n.box.post(l.besideOver)
	})
}

// besideOver handles the completion of the first piece.
func (l *loop) besideOver() {
	if l.log != nil {
		l.log.input(inputBeside)
	}
	over := l.beside.pieces.Front().over
	l.beside.pieces.Pop()
	if l.beside.pieces.Len() > 0 {
		l.workBeside()
	}
	l.replica.Fire(over)
}

// replayBeside executes the first piece and handles its completion, at the position of the completion in the log. It
// returns false if there is no piece.
func (l *loop) replayBeside() bool {
	if l.beside.pieces.Len() == 0 {
		return false
	}
	p := l.beside.pieces.Front()
	l.beside.pieces.Pop()
	p.work()
	l.replica.Fire(p.over)
	return true
}

// resumeBeside ends the replay and continues with the work that was unfinished at the end of the log.
func (l *loop) resumeBeside() {
	l.replaying = false
	if l.beside.pieces.Len() > 0 {
		l.workBeside()
	}
}
