package social

import (
	"encoding/binary"
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// The arguments of post, big-endian: the user (8 bytes), the time of the post (8), the number of posts to keep (2), and
// the message.
const postArgs = 18

// post adds a message to the user's posts and drops the oldest post if there are too many.
var post = &txn.Procedure{
	ID:   procPost,
	Name: "post",
	Declare: func(args []byte, f *txn.Footprint) error {
		if len(args) <= postArgs || len(args) > postArgs+maxPostBytes {
			return fmt.Errorf("the message has %d bytes, not 1 to %d", len(args)-postArgs, maxPostBytes)
		}
		if keep := postsKept(args); keep < 1 || keep > maxPosts {
			return fmt.Errorf("%d posts are kept, not 1 to %d", keep, maxPosts)
		}
		f.Accesses = append(f.Accesses, txn.Access{Key: postsKey(args), Mode: txn.ReadWrite})
		f.Exact = true
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		k, message := postsKey(args), args[postArgs:]
		row, err := txn.GetRow(c, k, postsHead, abortNoUser)
		if err != nil {
			return nil, err
		}
		if !posts(row).valid(len(message)) {
			return nil, abortBroken
		}
		c.Put(k, posts(row).with(timeOf(args[8:]), message, postsKept(args)))
		return nil, nil
	},
}

func postsKey(args []byte) txn.Key { return txn.IntKey(tablePosts, binary.BigEndian.Uint64(args)) }

func postsKept(args []byte) int { return int(binary.BigEndian.Uint16(args[16:])) }
