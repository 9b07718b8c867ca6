package postgrestest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports from firstPort on are for FreeAddresses. They are below the ephemeral ports of Linux, so that no connection of
// another process takes a port before the server starts.
const firstPort, ports = 20_000, 12_000

// FreeAddresses returns addresses of this machine on which no process listens.
func FreeAddresses(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for tries := 0; len(addresses) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports)))
		if err != nil && tries < 100*n {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:revive // all at the end, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
