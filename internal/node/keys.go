package node

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/identity"
	"github.com/geobench/geobench/internal/wire"
)

// keys are what peers and clients have to have.
func (n *Node) keys() *wire.Keys {
	folder := n.cfg.Credentials
	return &wire.Keys{
		Peer: func() ([]byte, error) { return folder.Read(identity.FilePeer) },
		Client: func(run string) ([]byte, error) {
			if err := n.admits(run); err != nil {
				return nil, err
			}
			key, err := folder.Read(identity.FileClients)
			if err != nil {
				return nil, err
			}
			return identity.ClientKey(key, run), nil
		},
		Stranger: n.stranger,
	}
}

// admits tells whether the clients of a run may submit transactions now: those of the run that has loaded its data last.
func (n *Node) admits(run string) error {
	if n.cfg.Credentials == "" {
		return nil
	}
	if now := n.run.Load(); now == nil || *now != run || run == "" {
		return fmt.Errorf("the clients of run %q may not connect: the node is not loaded for it", run)
	}
	return nil
}

// strangerEvery is the least time between two lines in the log about those who are turned away.
const strangerEvery = 10 * time.Second

// strangers counts those who are turned away.
type strangers struct {
	mu    sync.Mutex
	count int64
	told  int64 // up to here, in the log
	last  time.Time
}

func (n *Node) stranger(from net.Addr, reason error) {
	s := &n.strangers
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if now := time.Now(); now.Sub(s.last) >= strangerEvery {
		n.cfg.Log.Warn("somebody was turned away who has no key of this database", "from", from.String(), "reason", reason, "count", s.count-s.told)
		s.last, s.told = now, s.count
	}
}

func (s *strangers) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
