// Package kernel tests which packet operations a Linux kernel supports, by trying them in the network namespace of the
// calling process. It needs CAP_NET_ADMIN there.
package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Answer is the result of a probe.
type Answer struct {
	// Missing names each queueing discipline that the kernel has not, with the kernel's words.
	Missing map[string]string `json:"missing,omitempty"`
	// Error is the reason why the probe failed, or empty if it succeeded.
	Error string `json:"error,omitempty"`
}

// These are the queueing disciplines that Chaos Mesh uses: a prio selects the packets to some addresses, and a
// discipline below it treats them.
var (
	// Delay is what delays, losses and rates of links take.
	Delay = []string{"netem", "prio"}
	// Bandwidth lists the disciplines that a rate alone needs.
	Bandwidth = []string{"prio", "tbf"}
)

// Lacks says which of some queueing disciplines are missing, in the kernel's words; empty when none is.
func (a *Answer) Lacks(kinds []string) string {
	if a.Error != "" {
		return a.Error
	}
	var parts []string
	for _, q := range qdiscs {
		if why, ok := a.Missing[q.kind]; ok && slices.Contains(kinds, q.kind) {
			parts = append(parts, fmt.Sprintf("no queueing discipline %s: %s", q.kind, why))
		}
	}
	return strings.Join(parts, "; ")
}

// qdiscs are what Chaos Mesh puts on an interface, with options that the kernel accepts.
var qdiscs = []struct {
	kind    string
	options []byte
}{
	{"netem", netemOptions()},
	{"prio", prioOptions()},
	{"tbf", tbfOptions()},
}

// netemOptions is a struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
func netemOptions() []byte {
	var b []byte
	for _, v := range []uint32{0, 1000, 0, 0, 0, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

// prioOptions is a struct tc_prio_qopt: bands and a map of 16 priorities.
func prioOptions() []byte {
	return append(binary.NativeEndian.AppendUint32(nil, 4), make([]byte, 16)...)
}

// tbfOptions is an attribute with a struct tc_tbf_qopt: twice a struct tc_ratespec (for Ethernet, 1 MB/s and none),
// limit, buffer, MTU.
func tbfOptions() []byte {
	const ethernet, parms = 1, 1
	var b []byte
	for _, rate := range []uint32{1_000_000, 0} {
		b = append(b, 0, ethernet, 0, 0, 0, 0, 0, 0)
		b = binary.NativeEndian.AppendUint32(b, rate)
	}
	for _, v := range []uint32{100_000, 1_000_000, 0} {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return attribute(nil, parms, b)
}

// Probe puts each queueing discipline on the loopback interface of the process's network namespace and takes it away.
func Probe() *Answer {
	a := &Answer{Missing: map[string]string{}}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		a.Error = err.Error()
		return a
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		a.Error = "netlink: " + err.Error()
		return a
	}
	defer unix.Close(fd)
	for i, q := range qdiscs {
		add := message(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, uint32(2*i+1), lo.Index, q.kind, q.options)
		err := ask(fd, add)
		switch {
		case errors.Is(err, unix.EPERM):
			a.Error = "not allowed to change queueing disciplines: " + err.Error() + "; the container needs the capability NET_ADMIN"
			return a
		case err != nil:
			a.Missing[q.kind] = err.Error()
			continue
		}
		if err := ask(fd, message(unix.RTM_DELQDISC, 0, uint32(2*i+2), lo.Index, "", nil)); err != nil {
			a.Error = fmt.Sprintf("taking %s away again: %v", q.kind, err)
			return a
		}
	}
	return a
}

// rootHandle is TC_H_ROOT: the interface itself.
const rootHandle = 0xffffffff

// message is a netlink request about the root queueing discipline of an interface.
func message(kind, flags uint16, seq uint32, index int, qdisc string, options []byte) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+20)
	e := binary.NativeEndian
	e.PutUint16(b[4:], kind)
	e.PutUint16(b[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	e.PutUint32(b[8:], seq)
	b[16] = unix.AF_UNSPEC // struct tcmsg
	e.PutUint32(b[20:], uint32(index))
	e.PutUint32(b[28:], rootHandle)
	if qdisc != "" {
		b = attribute(b, unix.TCA_KIND, append([]byte(qdisc), 0))
		b = attribute(b, unix.TCA_OPTIONS, options)
	}
	e.PutUint32(b, uint32(len(b)))
	return b
}

func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// ask sends a request and returns the kernel's answer.
func ask(fd int, request []byte) error {
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	b := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("netlink: an answer of %d bytes that is no acknowledgement", n)
	}
	if code := int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
