package checkpoint

import "reflect"

// Plain reports whether values of a type contain no pointers.
func Plain(t reflect.Type) bool { return !planOf(t).wires }

// Whole reports whether values of a type are written by their own methods rather than field by field.
func Whole(t reflect.Type) bool {
	of := reflect.PointerTo(t)
	return of.Implements(saverType) || of.Implements(protoType)
}
