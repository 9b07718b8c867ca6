package protocoltest

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

// Transactions that abort each other still finish. The test uses two SunStorm transactions, each of which is prepared
// in its own region when it arrives in the other region.
func TestBenchClientsPassEachOther(t *testing.T) {
	s := benchWorld(t, sunstorm.Engine, nil)
	clients := []*benchClient{addBenchClient(s, 0, 1), addBenchClient(s, 1, 1)}
	both := benchTxn(clients[0].rng, 0, 100, 0)
	for _, c := range clients {
		c.pool = [][]byte{both}
	}
	s.Run(10 * time.Second)
	for r, c := range clients {
		if c.left+c.open > 0 {
			t.Errorf("region %d: the transaction has had %d attempts in 10 s, and goes on", r, c.n)
		}
	}
	if clients[0].n+clients[1].n == 2 {
		t.Error("no transaction was aborted: nothing is shown")
	}
}
