package protocoltest

import (
	"reflect"
	"slices"
	"testing"
)

// Restored compares a value that was read from a snapshot, a checkpoint or a state transfer with the value that was
// written. Both are pointers to structs. Every field of the written value must be set. The comparison then exposes
// fields that are not written, including fields that are added later. The parameter but names the fields that are
// deliberately not written.
func Restored[T any](t testing.TB, was, is *T, but ...string) {
	t.Helper()
	of := reflect.TypeFor[T]()
	for i := range of.NumField() {
		f := of.Field(i)
		if slices.Contains(but, f.Name) {
			continue
		}
		field := func(v *T) reflect.Value {
			at := reflect.ValueOf(v).Elem().Field(i)
			// reflect does not allow Interface on an unexported field, so the field is read through its address.
			return reflect.NewAt(f.Type, at.Addr().UnsafePointer()).Elem()
		}
		w, r := field(was), field(is)
		empty := w.IsZero()
		// For a map or slice, IsZero is true only if it is nil. An empty map or slice would not show whether its elements are
		// restored.
		switch f.Type.Kind() {
		case reflect.Map, reflect.Slice:
			empty = w.Len() == 0
		}
		if empty {
			t.Errorf("%v.%s is empty: set it, so that it shows whether it is restored", of, f.Name)
		}
		if !reflect.DeepEqual(w.Interface(), r.Interface()) {
			t.Errorf("%v.%s was %+v, and is %+v", of, f.Name, w.Interface(), r.Interface())
		}
	}
}
