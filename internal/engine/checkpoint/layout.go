package checkpoint

import (
	"hash/fnv"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
)

var layouts sync.Map // by reflect.Type

// layoutOf returns a hash of the structure of a type and of the registered types, with their names and kinds. Programs
// with different hashes cannot read each other's checkpoints.
func layoutOf(t reflect.Type) uint64 {
	if known, ok := layouts.Load(t); ok {
		return known.(uint64)
	}
	h := fnv.New64a()
	seen := map[reflect.Type]bool{}
	describe(h, t, seen)
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		describe(h, registered[name], seen)
	}
	layouts.Store(t, h.Sum64())
	return h.Sum64()
}

func describe(w io.Writer, t reflect.Type, seen map[reflect.Type]bool) {
	say := func(text string) { _, _ = io.WriteString(w, text+"\n") } // writing to a hash does not fail
	say(t.PkgPath() + "." + t.String() + " " + t.Kind().String())
	// A type may refer to itself, so write only its name the second time.
	if seen[t] {
		return
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			say(f.Name + " " + string(f.Tag))
			describe(w, f.Type, seen)
		}
	case reflect.Map:
		describe(w, t.Key(), seen)
		describe(w, t.Elem(), seen)
	case reflect.Array:
		say(strconv.Itoa(t.Len()))
		describe(w, t.Elem(), seen)
	case reflect.Slice, reflect.Pointer:
		describe(w, t.Elem(), seen)
	}
}
