package etcd

import (
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// keys are the names that a run uses in etcd.
type keys struct {
	// all is the prefix of every key. mark names the owner of the keys, and lock their current user. A client writes
	// barrier to wait for the requests of other clients.
	all, mark, lock, barrier string
	// rows is the prefix of the key of every row. deletions is the prefix of the marks of groups from which a row was
	// deleted.
	rows, deletions string
}

func keysOf(prefix string) keys {
	all := prefix + "/"
	return keys{all: all, mark: all + "made", lock: all + "lock", barrier: all + "barrier", rows: all + "rows/", deletions: all + "deleted/"}
}

func (k *keys) row(row txn.Key) string { return k.rows + string(row) }

func (k *keys) key(name []byte) txn.Key { return txn.Key(strings.TrimPrefix(string(name), k.rows)) }

func (k *keys) deleted(group txn.Key) string { return k.deletions + string(group) }

// shared holds the clients that connections share, one for each endpoint, while there are connections.
type shared struct {
	mu      sync.Mutex
	clients map[sqltarget.Endpoint]*used
}

type used struct {
	client *clientv3.Client
	by     int
}

// take returns the client of an endpoint, for an additional connection.
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

// give ends the use of a connection.
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
