package geo

// Traffic counts what was sent over a link or a connection.
type Traffic struct {
	// Bytes of frames: messages and the headers of the frames that carry them. What lies below TCP is WireBytes.
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
	// Segments of TCP that the frames take, each a frame of its own: see Segments.
	Segments int64 `json:"segments"`
}

// Segments returns how many segments of TCP a frame of so many bytes takes, if none of them carries anything else.
func Segments(size int) int64 { return int64(max(1, (size+SegmentBytes-1)/SegmentBytes)) }

// AddFrame counts one more frame, of so many bytes and with so many messages.
func (t *Traffic) AddFrame(size int, messages int64) {
	t.Add(Traffic{int64(size), messages, Segments(size)})
}

// Add adds other to t.
func (t *Traffic) Add(other Traffic) {
	t.Bytes += other.Bytes
	t.Messages += other.Messages
	t.Segments += other.Segments
}

// Sub takes from t what was counted before.
func (t *Traffic) Sub(before Traffic) {
	t.Add(Traffic{-before.Bytes, -before.Messages, -before.Segments})
}

// WireBytes is what a network card counts: the frames' bytes, and Ethernet's, IP's and TCP's headers of each segment.
// Segments that carry nothing but acknowledgements, and retransmissions, are left out.
func (t Traffic) WireBytes() int64 { return t.Bytes + HeaderBytes*t.Segments }
