package geo

// Traffic counts the data sent over a link or a connection.
type Traffic struct {
	// Bytes counts the bytes of frames: messages and frame headers. WireBytes adds the headers of the lower layers.
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
	// Segments is the number of TCP segments needed if each frame is sent separately: see Segments.
	Segments int64 `json:"segments"`
}

// Segments returns the number of TCP segments for a frame of size bytes that shares no segment with other frames.
func Segments(size int) int64 { return int64(max(1, (size+SegmentBytes-1)/SegmentBytes)) }

// AddFrame counts one more frame, of size bytes and with the given number of messages.
func (t *Traffic) AddFrame(size int, messages int64) {
	t.Add(Traffic{int64(size), messages, Segments(size)})
}

// Add adds other to t.
func (t *Traffic) Add(other Traffic) {
	t.Bytes += other.Bytes
	t.Messages += other.Messages
	t.Segments += other.Segments
}

// Sub subtracts an earlier count from t.
func (t *Traffic) Sub(before Traffic) {
	t.Add(Traffic{-before.Bytes, -before.Messages, -before.Segments})
}

// WireBytes returns the number of bytes that a network card counts: the frames' bytes, and the Ethernet, IP and TCP
// headers of each segment. It omits retransmissions and segments that contain only acknowledgements.
func (t Traffic) WireBytes() int64 { return t.Bytes + HeaderBytes*t.Segments }
