package postgres_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// The SQL expression returns the same home as geo.Placement for every number of homes. A key whose home SQL cannot
// determine counts as a key of the first region.
func TestHomeNumber(t *testing.T) {
	s := postgrestest.Start(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, homes := range []int{1, 2, 3, 5, 7, 32} {
		placement := geo.Placement{Regions: homes, Partitions: 1}
		var values []string
		for range 50 {
			shard := rng.Uint64() >> rng.IntN(64)
			for _, k := range []txn.Key{txn.IntKey(3, shard), txn.CompositeKey(4, shard, []byte("rest"))} {
				values = append(values, fmt.Sprintf("('\\x%s'::bytea, %d)", hex.EncodeToString([]byte(k)), placement.Home(k)))
			}
		}
		values = append(values, fmt.Sprintf("('\\x%s'::bytea, 0)", hex.EncodeToString([]byte(txn.StringKey(1, "a name that is long")))), `('\x'::bytea, 0)`, `('\x01'::bytea, 0)`)
		sql := "select coalesce(string_agg(encode(k, 'hex'), ' '), '') from (values " + strings.Join(values, ", ") + ") as t (k, want) where want <> " + postgres.HomeNumber("k", homes)
		if wrong := asked(t, s, "postgres", sql); wrong != "" {
			t.Errorf("of %d homes: %s", homes, wrong)
		}
	}
}

// If rows are placed, every statement names the region and finds the same rows. On a PostgreSQL, where the region
// column has no effect, the contract holds and each row has the right home. An existing table is recreated.
func TestPlacedRows(t *testing.T) {
	s := postgrestest.Start(t)
	s.Database(t, "placed")
	asked(t, s, "placed", "create schema geobench; create table geobench.rows (k bytea primary key, v bytea not null); comment on table geobench.rows is '"+sqltarget.Mark+"a run before'")
	open := func(t *testing.T, p *plan.Plan) target.Database {
		o := options(postgres.Serializable)
		o.Product, o.Homes = postgres.Placed(), true
		return open(t, s, p, "placed", o)
	}
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100}}", isolation.Serializable)
	db := open(t, p)
	if d := db.(target.Described).Describe(); d.Placement != "Homes" || !strings.Contains(d.String(), "with rows placed by homes") {
		t.Errorf("the result says %q: %s", d.Placement, d.String())
	}
	if err := db.Load(t.Context(), target.Dataset{Workload: p.Workload}); err != nil {
		t.Fatal(err)
	}
	placement := p.Topology.Placement()
	homes := map[geo.Region]int{}
	for _, row := range strings.Fields(asked(t, s, "placed", "select string_agg(encode(k, 'hex') || '=' || home::text, ' ') from geobench.rows")) {
		k, region, _ := strings.Cut(row, "=")
		b, err := hex.DecodeString(k)
		if err != nil {
			t.Fatal(err)
		}
		home, placed := placement.Home(txn.Key(b)), b[0]&txn.Unplaced == 0
		if !placed { // placed by the hash of a name, which SQL cannot compute
			home = 0
		}
		if p.Topology.Regions[home] != region {
			t.Errorf("row %s is in %s, and its home is %s", k, region, p.Topology.Regions[home])
		} else if placed {
			homes[home]++
		}
	}
	if len(homes) != 2 || homes[0] != homes[1] {
		t.Errorf("rows of homes: %v", homes)
	}
	targettest.Conform(t, "postgres", isolation.Serializable, open)
}

// The statements for CockroachDB equal the golden file. They have not been tested on a server.
func TestPlacedStatements(t *testing.T) {
	two := postgres.PlacedStatements(&geo.Topology{Regions: []string{"us", "eu"}, Partitions: 1, Replicas: 1})
	if want := []string{`alter database "defaultdb" set primary region "us"`, `alter database "defaultdb" add region if not exists "eu"`}; !slices.Equal(two[:2], want) || len(two) != 3 {
		t.Errorf("%q", two)
	}
	three := postgres.PlacedStatements(&geo.Topology{Regions: []string{"us", "eu", "asia"}, Homes: 2, Partitions: 1, Replicas: 1})
	if len(three) != 5 || three[3] != `alter database "defaultdb" survive region failure` {
		t.Fatalf("%q", three)
	}
	for _, want := range []string{
		"create table geobench.rows (k bytea primary key, v bytea not null, home public.crdb_internal_region not null generated always as (case case when octet_length(k) <= 8 then 0 ",
		" when 0 then 'us'::public.crdb_internal_region when 1 then 'eu'::public.crdb_internal_region end) stored) locality regional by row as home",
	} {
		if !strings.Contains(three[4], want) {
			t.Errorf("%s\nwant %s", three[4], want)
		}
	}
}
