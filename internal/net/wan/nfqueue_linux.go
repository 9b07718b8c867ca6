//go:build full

package wan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The protocol of the kernel's packet queues: linux/netfilter/nfnetlink_queue.h.
const (
	queuePacket  = unix.NFNL_SUBSYS_QUEUE << 8
	queueVerdict = unix.NFNL_SUBSYS_QUEUE<<8 | 1
	queueConfig  = unix.NFNL_SUBSYS_QUEUE<<8 | 2

	attrPacketHeader  = 1
	attrVerdictHeader = 2
	attrTimestamp     = 4
	attrPayload       = 10
	attrWholeLength   = 13
	attrPacketInfo    = 14

	configCommand   = 1
	configParams    = 2
	configMaxLength = 3
	configMask      = 4
	configFlags     = 5

	commandBind = 1
	copyPacket  = 2
	// flagWhole requests packets in the form in which the kernel holds them: possibly many packets of a TCP connection as
	// a unit.
	flagWhole = 1 << 2
	// infoWhole marks a unit of several packets.
	infoWhole = 1 << 1

	verdictDrop   = 0
	verdictAccept = 1
)

const (
	// copyBytes is the number of bytes of each packet that the kernel copies to user space, which is enough for the IP
	// header.
	copyBytes = 64
	// maxQueued is the maximum number of packets that wait for a verdict in a queue. It is so large that the limit
	// QueueBytes takes effect first.
	maxQueued = 1 << 20
	// receiveBuffer is the size of the socket's receive buffer, in bytes. The buffer contains packet headers that the
	// sidecar has not read yet.
	receiveBuffer = 64 << 20
	// batch is the number of packets per read.
	batch = 64
	// messageSpace is the size of the buffer for a message. The message for a packet takes about 200 bytes.
	messageSpace = 1024
	answerWait   = 2 * time.Second
)

var (
	native  = binary.NativeEndian
	network = binary.BigEndian
)

// queuedPacket is the kernel's description of a packet. payload is valid until the next read.
type queuedPacket struct {
	id    uint32
	queue uint16
	// bytes is the size of the packet from the IP header on.
	bytes int
	whole bool
	// stamp is the packet's arrival in wall-clock time, in nanoseconds, or 0 if the kernel does not report it.
	stamp   int64
	payload []byte
}

// answer is the kernel's answer to a message; err is nil if the message succeeded.
type answer struct {
	err error
	// verdict is set if the message was the verdict on a packet; queue is then the packet's queue.
	verdict bool
	queue   uint16
}

// queueSocket exchanges messages about packet queues with the kernel. It is not safe for concurrent use.
type queueSocket struct {
	fd      int
	out     []byte
	buffers [batch][messageSpace]byte
	headers [batch]struct {
		unix.Msghdr
		length uint32
		_      [4]byte
	}
	vectors [batch]unix.Iovec
}

func openQueueSocket() (*queueSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("netfilter socket: %w", err)
	}
	s := &queueSocket{fd: fd}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		s.close()
		return nil, fmt.Errorf("netfilter socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
		s.close()
		return nil, fmt.Errorf("receive buffer of the netfilter socket: %w: the capability NET_ADMIN is needed", err)
	}
	// Without this option, reads would fail whenever the receive buffer is full. The kernel counts the packets that it
	// could not deliver (kernelDrops).
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_NO_ENOBUFS, 1); err != nil {
		s.close()
		return nil, fmt.Errorf("netfilter socket: %w", err)
	}
	for i := range s.buffers {
		s.vectors[i].Base = &s.buffers[i][0]
		s.vectors[i].SetLen(messageSpace)
		s.headers[i].Iov = &s.vectors[i]
		s.headers[i].SetIovlen(1)
	}
	return s, nil
}

func (s *queueSocket) close() { _ = unix.Close(s.fd) }

// message appends a netlink message about a queue to b.
func message(b []byte, kind, flags, queue uint16, body func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, unix.SizeofNlMsghdr)...)
	b = append(b, unix.AF_UNSPEC, unix.NFNETLINK_V0)
	b = body(network.AppendUint16(b, queue))
	native.PutUint32(b[at:], uint32(len(b)-at))
	native.PutUint16(b[at+4:], kind)
	native.PutUint16(b[at+6:], unix.NLM_F_REQUEST|flags)
	return b
}

// attribute appends an attribute to b, padded to a multiple of 4 bytes.
func attribute(b []byte, kind uint16, value ...byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = append(native.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func word(v uint32) []byte { return network.AppendUint32(nil, v) }

func bindMessage(queue, flags uint16) []byte {
	return message(nil, queueConfig, flags, queue, func(b []byte) []byte { return attribute(b, configCommand, commandBind, 0, 0, 0) })
}

// bindFirst binds a queue and waits for the answer. Until the answer arrives, rules of an earlier sidecar may still
// queue packets; bindFirst lets these packets pass.
func (s *queueSocket) bindFirst(queue uint16) error {
	err := s.send(bindMessage(queue, unix.NLM_F_ACK))
	for deadline := time.Now().Add(answerWait); err == nil; {
		if time.Now().After(deadline) {
			return fmt.Errorf("packet queue %d: the kernel does not answer", queue)
		}
		answered, result := false, error(nil)
		err = errors.Join(
			s.wait(time.Until(deadline), -1),
			s.read(func(p queuedPacket) { s.verdict(p.queue, p.id, verdictAccept) }, func(a answer) { answered, result = true, a.err }),
			s.flush(),
		)
		if answered && err == nil {
			if result == nil {
				return nil
			}
			err = result
		}
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EPERM) {
		// If another process has bound the queue, the kernel answers EPERM even to a process with the capability.
		return fmt.Errorf("packet queue %d: %w: the capability NET_ADMIN is needed, and no other sidecar in this network namespace", queue, err)
	}
	return fmt.Errorf("packet queue %d: %w", queue, err)
}

// bind binds a queue. If the kernel answers with an error, read reports it.
func (s *queueSocket) bind(queue uint16) error { return s.send(bindMessage(queue, 0)) }

// configure sets how the kernel delivers the packets of a queue. If the kernel answers with an error, read reports it.
func (s *queueSocket) configure(queue uint16, whole bool) error {
	flags := uint32(0)
	if whole {
		flags = flagWhole
	}
	return s.send(message(nil, queueConfig, 0, queue, func(b []byte) []byte {
		b = attribute(b, configParams, append(word(copyBytes), copyPacket)...)
		b = attribute(b, configMaxLength, word(maxQueued)...)
		b = attribute(b, configMask, word(flagWhole)...)
		return attribute(b, configFlags, word(flags)...)
	}))
}

func (s *queueSocket) send(b []byte) error {
	for {
		err := unix.Sendto(s.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		// EINTR: a signal interrupted the call before it had sent anything, so try again.
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// verdict records the verdict on a packet: verdictAccept or verdictDrop. The verdict takes effect with the next flush.
func (s *queueSocket) verdict(queue uint16, id uint32, verdict uint32) {
	s.out = message(s.out, queueVerdict, 0, queue, func(b []byte) []byte {
		b = native.AppendUint16(b, unix.SizeofNlAttr+8)
		b = native.AppendUint16(b, attrVerdictHeader)
		return network.AppendUint32(network.AppendUint32(b, verdict), id)
	})
}

// flush sends the verdicts to the kernel. If it returns ENOBUFS, the kernel had no memory for the verdicts, and the
// next flush sends them again.
func (s *queueSocket) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.send(s.out)
	if !errors.Is(err, unix.ENOBUFS) {
		s.out = s.out[:0]
	}
	return err
}

// wait returns when the socket or the file descriptor other is readable, or after timeout. It has no timeout if timeout
// is negative.
func (s *queueSocket) wait(timeout time.Duration, other int) error {
	var ts *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	fds := [2]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	_, err := unix.Ppoll(fds[:], ts, nil)
	// A signal may end the wait early. This is harmless, because callers then read without waiting.
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}

// read passes at most one batch of received packets and answers to the functions packet and answered. It does not wait.
func (s *queueSocket) read(packet func(queuedPacket), answered func(answer)) error {
	_, err := s.readBatch(packet, answered)
	return err
}

// drain reads until the socket has no more messages.
func (s *queueSocket) drain(packet func(queuedPacket), answered func(answer)) error {
	for {
		if n, err := s.readBatch(packet, answered); n == 0 || err != nil {
			return err
		}
	}
}

// readBatch implements read, and returns the number of messages read.
func (s *queueSocket) readBatch(packet func(queuedPacket), answered func(answer)) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.headers[0])), batch, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
	// The kernel counts the packets that it could not deliver: see kernelDrops.
	case unix.EAGAIN, unix.EINTR, unix.ENOBUFS:
		return 0, nil
	default:
		return 0, fmt.Errorf("netfilter socket: %w", errno)
	}
	for i := range int(n) {
		b := s.buffers[i][:min(s.headers[i].length, messageSpace)]
		if len(b) < unix.SizeofNlMsghdr+4 {
			continue
		}
		switch native.Uint16(b[4:]) {
		case unix.NLMSG_ERROR:
			answered(parseAnswer(b[unix.SizeofNlMsghdr:]))
		case queuePacket:
			if p, ok := parsePacket(b[unix.SizeofNlMsghdr:]); ok {
				packet(p)
			}
		}
	}
	return int(n), nil
}

// parseAnswer decodes an error message without its netlink header. The message consists of an error code and the
// request to which it is the answer.
func parseAnswer(b []byte) (a answer) {
	// An error of 0 acknowledges the request.
	if code := int32(native.Uint32(b)); code != 0 {
		a.err = unix.Errno(-code)
	}
	if b = b[4:]; len(b) >= unix.SizeofNlMsghdr+4 {
		a.verdict = native.Uint16(b[4:]) == queueVerdict
		a.queue = network.Uint16(b[unix.SizeofNlMsghdr+2:])
	}
	return a
}

// parsePacket decodes a packet message without its netlink header.
func parsePacket(b []byte) (p queuedPacket, ok bool) {
	p.queue = network.Uint16(b[2:])
	for b = b[4:]; len(b) >= unix.SizeofNlAttr; {
		length := int(native.Uint16(b))
		if length < unix.SizeofNlAttr || length > len(b) {
			break
		}
		value := b[unix.SizeofNlAttr:length]
		switch native.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER) {
		case attrPacketHeader:
			if len(value) >= 4 {
				p.id, ok = network.Uint32(value), true
			}
		case attrTimestamp:
			if len(value) >= 16 {
				p.stamp = int64(network.Uint64(value))*1e9 + int64(network.Uint64(value[8:]))*1e3
			}
		case attrPayload:
			p.payload = value
			// The payload may be truncated; attrWholeLength then contains the full length. The attributes may come in any order.
			p.bytes = max(p.bytes, len(value))
		case attrWholeLength:
			if len(value) >= 4 {
				p.bytes = max(p.bytes, int(network.Uint32(value)))
			}
		case attrPacketInfo:
			if len(value) >= 4 {
				p.whole = network.Uint32(value)&infoWhole != 0
			}
		}
		// Attributes start at multiples of 4 bytes, but the padding of the last attribute may be missing.
		b = b[min((length+3)&^3, len(b)):]
	}
	return p, ok
}
