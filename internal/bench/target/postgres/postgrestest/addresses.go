package postgrestest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports from firstPort on are those of FreeAddresses: below the ones that Linux gives to whoever asks for any, so that between here and the start
// of a server no connection of another process takes one.
const firstPort, ports = 20_000, 12_000

// FreeAddresses are some of this machine that nobody listens on.
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
