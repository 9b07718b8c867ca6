package postgrestest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// firstPort is the first of the ports from which FreeAddresses chooses, and ports is their number. They are below
// Linux's range of ephemeral ports. An outgoing connection of another process therefore cannot take a port before the
// test's server listens on it.
const firstPort, ports = 20_000, 12_000

// FreeAddresses returns n different addresses of the loopback interface on which no process listens.
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
		defer l.Close() //nolint:revive // closed only at the end, so that the addresses differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}
