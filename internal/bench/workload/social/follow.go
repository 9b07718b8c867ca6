package social

import (
	"encoding/binary"
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// The arguments of follow, big-endian: the follower and the followed user (8 bytes each), and the capacity of a list in
// users (4 bytes).
const followArgs = 20

// follow adds the followed user to the follower's producers, and the follower to the followed user's consumers. If the
// follower already follows the user, or if a list is full, it changes only the counts of both lists.
var follow = &txn.Procedure{
	ID:   procFollow,
	Name: "follow",
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, followArgs); err != nil {
			return err
		}
		if follower, followed := followUsers(args); follower == followed {
			return fmt.Errorf("user %d follows itself", follower)
		}
		producers, consumers := followKeys(args)
		f.Accesses = append(f.Accesses, txn.Access{Key: producers, Mode: txn.ReadWrite}, txn.Access{Key: consumers, Mode: txn.ReadWrite})
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		producersKey, consumersKey := followKeys(args)
		producers, err := getList(c, producersKey)
		if err != nil {
			return nil, err
		}
		consumers, err := getList(c, consumersKey)
		if err != nil {
			return nil, err
		}
		follower, followed := followUsers(args)
		limit := int(binary.BigEndian.Uint32(args[16:]))
		ignore := producers.has(followed) || producers.users() >= limit || consumers.users() >= limit
		c.Put(producersKey, producers.followed(followed, ignore))
		c.Put(consumersKey, consumers.followed(follower, ignore))
		return nil, nil
	},
}

func followUsers(args []byte) (follower, followed uint64) {
	return binary.BigEndian.Uint64(args), binary.BigEndian.Uint64(args[8:])
}

// followKeys returns producers(follower) and consumers(followed), which share one string.
func followKeys(args []byte) (producers, consumers txn.Key) {
	follower, followed := followUsers(args)
	var b [2 * keySize]byte
	txn.AppendIntKey(b[:0], tableProducers, follower)
	txn.AppendIntKey(b[:keySize], tableConsumers, followed)
	s := txn.Key(b[:])
	return s[:keySize], s[keySize:]
}
