package postgrestest

import (
	"net"
	"testing"
)

// FreeAddresses are some of this machine that nobody listens on.
func FreeAddresses(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:revive // all at the end, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
