package deploy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

// configMap is the capacity of a ConfigMap, in bytes.
const configMap = 1 << 20

// largest returns the database with the longest description that the API allows. It has 16,384 nodes, the maximum
// number of regions, the longest names, and a separate group for each cell.
func largest() *Database {
	const regions, partitions, replicas = 32, 64, 8
	name := strings.Repeat("d", 27)
	d := &Database{
		Name: name, Engine: "spanner", Parameters: map[string]string{}, Emulate: true, Seed: math.MaxUint64, Incarnation: "abcde-1000",
		Epoch:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Topology: geo.Topology{Partitions: partitions, Replicas: replicas},
	}
	for i := range 8 {
		d.Parameters[fmt.Sprintf("parameter%d", i)] = "1h0m0.000000001s"
	}
	for r := range regions {
		region := fmt.Sprintf("%s-%02d", strings.Repeat("r", 21), r)
		d.Topology.Regions = append(d.Topology.Regions, region)
		links := make([]geo.Link, regions)
		for to := range links {
			links[to] = geo.Link{Delay: 30 * time.Second, Jitter: 30 * time.Second, LossPPM: 999_999, BandwidthMbps: 1_000_000}
		}
		d.Topology.Links = append(d.Topology.Links, links)
		for p := range partitions {
			g := geo.CellGroup{Cell: geo.Cell{Home: geo.Region(r), Partition: p}, Leader: geo.Region(r)}
			for range regions {
				g.Replicas = append(g.Replicas, replicas)
			}
			d.Topology.Groups = append(d.Topology.Groups, g)
		}
		for ordinal := range partitions * replicas {
			host := fmt.Sprintf("%s-%s-%d.%s-%s.%s.svc", name, region, ordinal, name, region, strings.Repeat("n", 63))
			d.Nodes = append(d.Nodes, Node{Address: host + ":7000", Admin: host + ":7001"})
		}
	}
	return d
}

// The description of every valid database fits into the ConfigMap that its nodes read.
func TestTheLargestDatabaseFitsIntoAConfigMap(t *testing.T) {
	d := largest()
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes in %d bytes", len(d.Nodes), len(b))
	if room := configMap - 32<<10; len(b) > room { // leave room for annotations, or for a worker's workload and load
		t.Errorf("%d bytes are more than %d", len(b), room)
	}
	file := filepath.Join(t.TempDir(), "database.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadFile(file); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("%v; read back, it is another one", err)
	}
}

// Files in which an earlier version of the operator listed every address separately can still be read.
func TestNodesAreReadAsTheyWereWritten(t *testing.T) {
	for text, want := range map[string]string{
		`[{"address":"a-0:1","admin":"a-0:2"},{"address":"a-1:1","admin":"a-1:2"},{"address":"b:1"}]`: `[{"address":"a-[0-1]:1","admin":"a-[0-1]:2"},{"address":"b:1"}]`,
		`[]`:                        `null`,
		`[{"address":"a-[2-0]:1"}]`: `nodes: "a-[2-0]:1": 0 is not more than 2; a range ends after it begins`,
	} {
		var n Nodes
		err := json.Unmarshal([]byte(text), &n)
		if err != nil {
			if err.Error() != want {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if b, err := json.Marshal(n); err != nil || string(b) != want {
			t.Errorf("%s: %s, %v; want %s", text, b, err, want)
		}
	}
}
