package etcd

import (
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// keys are the names of a run's keys in etcd.
type keys struct {
	// all is the prefix of every key. The key mark contains the mark of the run that created or last used the keys. The
	// key lock exists while a run uses the keys. A write to barrier waits for earlier requests of other clients.
	all, mark, lock, barrier string
	// rows is the prefix of all row keys. deletions is the prefix of one mark per group, which is written when a row of
	// the group is deleted.
	rows, deletions string
}

func keysOf(prefix string) keys {
	all := prefix + "/"
	return keys{all: all, mark: all + "made", lock: all + "lock", barrier: all + "barrier", rows: all + "rows/", deletions: all + "deleted/"}
}

func (k *keys) row(row txn.Key) string { return k.rows + string(row) }

func (k *keys) key(name []byte) txn.Key { return txn.Key(strings.TrimPrefix(string(name), k.rows)) }

func (k *keys) deleted(group txn.Key) string { return k.deletions + string(group) }

// shared has one client for each endpoint, which all connections to the endpoint share. A client is closed with its
// last connection.
type shared struct {
	mu      sync.Mutex
	clients map[sqltarget.Endpoint]*used
}

type used struct {
	client *clientv3.Client
	by     int
}

// take returns the client of an endpoint for a new connection. It opens the client if there is none.
func (s *shared) take(e sqltarget.Endpoint, open func() (*clientv3.Client, error)) (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.clients[e]
	if u == nil {
		client, err := open()
		if err != nil {
			return nil, err
		}
		u = &used{client: client}
		s.clients[e] = u
	}
	u.by++
	return u.client, nil
}

// give releases the client of an endpoint when a connection is closed.
func (s *shared) give(e sqltarget.Endpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.clients[e]
	if u.by--; u.by > 0 {
		return nil
	}
	delete(s.clients, e)
	return u.client.Close()
}
