package node

import (
	"fmt"

	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/identity"
)

// keys returns functions that load the keys which peers and clients must present.
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
		Stranger: n.strangers.Turned,
	}
}

// admits returns an error if clients of the run may not submit transactions. Only clients of the run that loaded its
// data last may submit them.
func (n *Node) admits(run string) error {
	if n.cfg.Credentials == "" {
		return nil
	}
	if now := n.run.Load(); now == nil || *now != run || run == "" {
		return fmt.Errorf("the clients of run %q may not connect: the node is not loaded for it", run)
	}
	return nil
}
