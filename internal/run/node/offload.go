package node

import (
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/net/wire"
)

// beside is the work that the replica has done outside the loop. A goroutine does it, one piece after another, and the
// loop takes the end of each as an input. So the duration of the work may vary, and a log records its position in the
// order of inputs.
type beside struct {
	pieces  queue.Queue[piece] // of which the first is being done, but in a replay
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

// workBeside does the first piece.
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

// besideOver takes the end of the first piece.
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

// replayBeside finishes the first piece at its place in the log, and reports whether there is one.
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

// resumeBeside continues the work that was unfinished at the end of the log.
func (l *loop) resumeBeside() {
	l.replaying = false
	if l.beside.pieces.Len() > 0 {
		l.workBeside()
	}
}
