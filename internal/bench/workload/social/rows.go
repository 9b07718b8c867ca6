package social

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

// Tables of the schema. Keys are user numbers.
const (
	tableConsumers txn.Table = 0
	tableProducers txn.Table = 1
	tablePosts     txn.Table = 2
)

var tableNames = []string{"consumers", "producers", "posts"}

// keySize is the length of txn.IntKey.
const keySize = 9

// Bounds of the API.
const (
	maxList      = 1000
	maxPosts     = 100
	maxPostBytes = 4096
)

// list is the row of a user's producers or of its consumers, big-endian:
//
//	4 bytes        number of follows that have updated the list
//	4 bytes        number of these follows that did not change the users
//	8 bytes each   users, in the order in which they were added
type list []byte

const (
	listHead  = 8
	listEntry = 8
)

func (l list) valid() bool       { return len(l) >= listHead && (len(l)-listHead)%listEntry == 0 }
func (l list) follows() uint32   { return binary.BigEndian.Uint32(l) }
func (l list) ignored() uint32   { return binary.BigEndian.Uint32(l[4:]) }
func (l list) users() int        { return (len(l) - listHead) / listEntry }
func (l list) user(i int) uint64 { return binary.BigEndian.Uint64(l[listHead+listEntry*i:]) }

// whole reports whether a list that was loaded with the given number of users contains all users that follows have
// added.
func (l list) whole(loaded int) bool {
	return l.valid() && int64(l.users()) == int64(loaded)+int64(l.follows())-int64(l.ignored())
}

func (l list) append(user uint64) list { return binary.BigEndian.AppendUint64(l, user) }

func (l list) has(user uint64) bool {
	for i := range l.users() {
		if l.user(i) == user {
			return true
		}
	}
	return false
}

// followed returns a copy of the list that counts one more follow. Unless ignore is set, user is appended to the copy.
func (l list) followed(user uint64, ignore bool) list {
	next := append(make(list, 0, len(l)+listEntry), l...)
	binary.BigEndian.PutUint32(next, l.follows()+1)
	if ignore {
		binary.BigEndian.PutUint32(next[4:], l.ignored()+1)
		return next
	}
	return next.append(user)
}

// posts is the row of a user's posts, big-endian:
//
//	8 bytes   number of all posts so far
//	then for each of the newest posts, the oldest first: 8 bytes for the time, and the message
type posts []byte

const (
	postsHead = 8
	postHead  = 8
)

func (p posts) valid(message int) bool {
	return len(p) >= postsHead && (len(p)-postsHead)%(postHead+message) == 0
}

func (p posts) count() uint64 { return binary.BigEndian.Uint64(p) }

// kept returns the number of posts in the row. message is the length of a message in bytes.
func (p posts) kept(message int) int { return (len(p) - postsHead) / (postHead + message) }

// post returns the time and message of the i-th kept post.
func (p posts) post(i, message int) []byte {
	size := postHead + message
	return p[postsHead+i*size : postsHead+(i+1)*size]
}

// with returns a copy of the posts with another post appended, limited to the newest keep posts. A user without posts
// has an empty row.
func (p posts) with(at int64, message []byte, keep int) posts {
	count, old := uint64(0), []byte(nil)
	if len(p) > 0 {
		count, old = p.count(), p[postsHead:]
	}
	size := postHead + len(message)
	if over := len(old) - (keep-1)*size; over > 0 {
		old = old[over:]
	}
	next := make(posts, 0, postsHead+len(old)+size)
	next = append(binary.BigEndian.AppendUint64(next, count+1), old...)
	return append(binary.BigEndian.AppendUint64(next, uint64(at)), message...)
}

// whole reports whether the row has the expected number of posts, and each post has the message that the user posted at
// that time.
func (p posts) whole(user uint64, message, keep int) bool {
	if !p.valid(message) || p.count() == 0 || uint64(p.kept(message)) != min(p.count(), uint64(keep)) {
		return false
	}
	var room [512]byte
	for i := range p.kept(message) {
		post := p.post(i, message)
		if !bytes.Equal(post[postHead:], appendMessage(room[:0], user, timeOf(post), message)) {
			return false
		}
	}
	return true
}

// timeOf returns the time of a post, in microseconds since the start of measuring.
func timeOf(post []byte) int64 { return int64(binary.BigEndian.Uint64(post)) }

// loadedAt is the time of loaded posts: a year before the start of measuring, and so before any warm-up.
var loadedAt = -(365 * 24 * time.Hour).Microseconds()

// appendMessage appends the message, size bytes long, that user posts at time at. The message is derived from user and
// at, so a check can recognize posts that no user sent.
func appendMessage(b []byte, user uint64, at int64, size int) []byte {
	x := user*0xd1342543de82ef95 + uint64(at)
	for end := len(b) + size; len(b) < end; {
		// SplitMix64
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		word := binary.BigEndian.AppendUint64(nil, z^z>>31)
		b = append(b, word[:min(end-len(b), len(word))]...)
	}
	return b
}
