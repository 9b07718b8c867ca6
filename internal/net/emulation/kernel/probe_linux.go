package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Probe adds each queueing discipline to the loopback interface of the process's network namespace and removes it
// again.
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

// rootHandle is TC_H_ROOT, the parent of an interface's root queueing discipline.
const rootHandle = 0xffffffff

// message returns a netlink request about the root queueing discipline of an interface.
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

// ask sends a request to the kernel. It returns the error in the kernel's answer, or nil if the request succeeded.
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
