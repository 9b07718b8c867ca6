package checkpoint_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
)

// If a replica of an engine has a slice of plain data, a pointer into this slice is rejected. Reading allocates such
// slices again, so the pointer would lead to a separate element. sunstorm once had this bug, with the parts of logs to
// be applied.
func TestPlantedPointers(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			given := map[string]string{}
			if e.Name == "sunstorm" {
				given["copyLag"] = "30ms"
			}
			type made struct {
				config  protocol.Config
				replica protocol.Replica
			}
			var replicas []made
			watched := e.Variant(e.Name, func(c protocol.Config) protocol.Replica {
				r := e.New(c)
				replicas = append(replicas, made{c, r})
				return r
			})
			topology := simload.Topology(1, 1, [][]float64{{0, 20, 30}, {20, 0, 40}, {30, 40, 0}})
			s := sim.New(sim.Config{
				Topology: topology, Engine: watched, Params: protocoltest.Params(t, e, given), Procedures: simload.Procedures, Costs: sim.DefaultCosts,
			})
			simload.FillLayout(e.Layout(topology, protocoltest.Params(t, e, given)), 30, 100, func(n geo.NodeID) store.Store { return s.Store(n) })
			for r := range topology.Regions {
				simload.Add(s, geo.Region(r), uint64(r)+1, simload.Load{
					Clients: 10, Next: protocoltest.Transfers(30), Think: time.Millisecond, Until: 2 * time.Second,
				})
			}
			tried := map[string]bool{}
			for at := 100 * time.Millisecond; at < time.Second; at += 100*time.Millisecond + time.Duration(rand.New(rand.NewPCG(uint64(at), 1)).IntN(1000))*time.Microsecond {
				s.Run(at)
				for _, m := range replicas[:topology.Nodes()] {
					plant(t, e, m.config, m.replica, tried)
				}
			}
			if len(tried) == 0 {
				t.Error("no replica has a slice of plain data")
			}
			t.Log(slices.Sorted(maps.Keys(tried)))
		})
	}
}

// plant visits every slice of plain data in a replica. It writes the replica together with a pointer into the slice,
// checks that the write fails, and adds the path of the slice to tried.
func plant(t *testing.T, e *protocol.Engine, c protocol.Config, r protocol.Replica, tried map[string]bool) {
	t.Helper()
	w := checkpoint.NewWorld(e, &c)
	w.Strict = true
	world := map[any]bool{}
	for _, o := range w.Objects {
		world[o] = true
	}
	write := func(elem reflect.Type, at reflect.Value) error {
		of := reflect.StructOf([]reflect.StructField{
			{Name: "Replica", Type: reflect.TypeFor[protocol.Replica]()}, {Name: "Planted", Type: reflect.PointerTo(elem)},
		})
		live, fresh := reflect.New(of), reflect.New(of)
		live.Elem().Field(0).Set(reflect.ValueOf(r))
		fresh.Elem().Field(0).Set(reflect.ValueOf(e.New(c)))
		if at.IsValid() {
			live.Elem().Field(1).Set(at)
		}
		_, err := checkpoint.Append(nil, w, live.Interface(), fresh.Interface())
		return err
	}
	if err := write(reflect.TypeFor[int](), reflect.Value{}); err != nil {
		t.Fatalf("nothing is planted: %v", err)
	}
	walk := &slicesOf{world: world, seen: map[[2]any]bool{}}
	walk.value(reflect.ValueOf(r), reflect.TypeOf(r).String(), func(path string, v reflect.Value) {
		if tried[path] {
			return
		}
		tried[path] = true
		element := v.Index(v.Len() - 1)
		at := reflect.NewAt(element.Type(), element.Addr().UnsafePointer())
		if err := write(element.Type(), at); err == nil || !strings.Contains(err.Error(), "is into the middle of") {
			t.Errorf("a pointer into %s: %v", path, err)
		}
	})
}

// slicesOf walks through the objects of a replica.
type slicesOf struct {
	world map[any]bool
	seen  map[[2]any]bool
}

// value calls found for every non-empty slice of plain data that is reachable from v.
func (w *slicesOf) value(v reflect.Value, path string, found func(string, reflect.Value)) {
	if v.CanAddr() { // works for unexported fields as well
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	}
	if v.Kind() != reflect.Interface && v.Kind() != reflect.Pointer && checkpoint.Whole(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || w.world[v.Interface()] || w.seen[[2]any{v.Type(), v.Pointer()}] {
			return
		}
		w.seen[[2]any{v.Type(), v.Pointer()}] = true
		w.value(v.Elem(), v.Type().String(), found)
	case reflect.Interface:
		if held := v.Elem(); held.IsValid() && held.Kind() == reflect.Pointer && !held.Type().Implements(reflect.TypeFor[protocol.Message]()) {
			w.value(held, path, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Tag.Get("checkpoint") != "-" && v.CanAddr() {
				w.value(v.Field(i), path+"."+f.Name, found)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Len() > 0 && checkpoint.Plain(v.Type().Elem()) && v.Type().Elem().Size() > 0 {
			found(path, v)
			return
		}
		for i := range v.Len() {
			w.value(v.Index(i), path+"[]", found)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Pointer {
			for _, k := range v.MapKeys() {
				w.value(v.MapIndex(k), path+"[]", found)
			}
		}
	}
}
