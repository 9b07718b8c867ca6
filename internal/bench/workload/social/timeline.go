package social

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
)

// The arguments of timeline, big-endian: the user (8 bytes), the number of posts to show (2) and the length of a
// message (2).
const timelineArgs = 12

// authorSize is the length of the user number before each post of a timeline.
const authorSize = 8

// timeline returns the newest posts of all users that the user follows, newest first. Each post consists of its user,
// time and message. The list of producers determines the rows that timeline reads.
var timeline = &txn.Procedure{
	ID:   procTimeline,
	Name: "timeline", ReadOnly: true,
	Declare: func(args []byte, f *txn.Footprint) error {
		if err := txn.CheckLen(args, timelineArgs); err != nil {
			return err
		}
		shown, message := timelineSizes(args)
		if shown < 1 || shown > maxPosts || message < 1 || message > maxPostBytes {
			return fmt.Errorf("%d posts of %d bytes are asked for, not 1 to %d of 1 to %d", shown, message, maxPosts, maxPostBytes)
		}
		f.Accesses = append(f.Accesses, txn.Access{Key: producersKey(args), Mode: txn.Read})
		return nil
	},
	Run: func(c txn.Ctx, args []byte) ([]byte, error) {
		producers, err := getList(c, producersKey(args))
		if err != nil {
			return nil, err
		}
		rows, err := c.GetAll(postsKeys(producers))
		if err != nil {
			return nil, err
		}
		shown, message := timelineSizes(args)
		return newest(producers, rows, shown, message)
	},
}

func timelineSizes(args []byte) (shown, message int) {
	return int(binary.BigEndian.Uint16(args[8:])), int(binary.BigEndian.Uint16(args[10:]))
}

func producersKey(args []byte) txn.Key {
	return txn.IntKey(tableProducers, binary.BigEndian.Uint64(args))
}

// postsKeys returns the keys of the posts of users, which share one string.
func postsKeys(users list) []txn.Key {
	b := make([]byte, 0, keySize*users.users())
	for i := range users.users() {
		b = txn.AppendIntKey(b, tablePosts, users.user(i))
	}
	all, keys := txn.Key(b), make([]txn.Key, users.users())
	for i := range keys {
		keys[i] = all[i*keySize : (i+1)*keySize]
	}
	return keys
}

// newest merges the posts of users, newest first. rows are the posts of each user, in the order of users.
func newest(users list, rows [][]byte, shown, message int) ([]byte, error) {
	type entry struct {
		at   int64
		user uint64
		post []byte
	}
	var all []entry
	for i, row := range rows {
		p := posts(row)
		switch {
		case row == nil:
			return nil, abortNoUser
		case !p.valid(message):
			return nil, abortBroken
		}
		for j := p.kept(message) - 1; j >= 0; j-- {
			all = append(all, entry{timeOf(p.post(j, message)), users.user(i), p.post(j, message)})
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.user, b.user))
	})
	all = all[:min(len(all), shown)]
	result := make([]byte, 0, len(all)*(authorSize+postHead+message))
	for i := range all {
		result = append(binary.BigEndian.AppendUint64(result, all[i].user), all[i].post...)
	}
	return result, nil
}

// plausible reports whether a timeline can be correct. It must have no fewer posts than least, newest first, each with
// the message that its user posted at that time.
func plausible(result []byte, least, message int) bool {
	size := authorSize + postHead + message
	if len(result)%size != 0 || len(result)/size < least {
		return false
	}
	var room [512]byte
	for i := 0; i < len(result); i += size {
		user, post := binary.BigEndian.Uint64(result[i:]), result[i+authorSize:i+size]
		if i > 0 && timeOf(post) > timeOf(result[i-size+authorSize:]) {
			return false
		}
		if string(post[postHead:]) != string(appendMessage(room[:0], user, timeOf(post), message)) {
			return false
		}
	}
	return true
}
