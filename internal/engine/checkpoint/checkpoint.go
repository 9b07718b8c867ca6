// Package checkpoint writes the state of a replica and reads it into a new replica, which continues as the first
// replica would have. A node therefore need not keep all its inputs since its start.
//
// A replica is a graph of Go values in memory. A fresh replica, which Engine.New has just created from the same Config,
// divides these values into two kinds. Objects that a fresh replica reaches through fields, elements and pointers are
// wired. They exist after every call of New, and reading fills them in place. So values that New has created and that
// cannot be written, such as callbacks, stay valid. All other objects are data: they are written with their identities,
// and allocated again when they are read.
//
// Objects of a replica's environment, such as its topology, are identified by their position in World. Data contains no
// functions, channels or locks, and no pointers into the middle of another object. A value in an interface must be of a
// registered type, a message, or an object of World. If these rules are violated, Append returns an error that names
// the field.
//
// A field with the tag `checkpoint:"-"` is not written, because its value is not needed between steps of the replica. A
// type of another module that does not consist of data must implement Saver.
package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// World is the environment to which replicas refer, and which they do not own.
type World struct {
	// Objects contains pointers and other comparable values. Writing and reading need corresponding values in the same
	// order.
	Objects []any
	// Decode decodes a message, as Engine.Decode does.
	Decode func(kind uint8, body []byte) (protocol.Message, error)
	// Strict makes Append also search for pointers into the middle of other objects, which takes several times as long.
	Strict bool
}

// Saver is implemented by types that encode and decode themselves. LoadState is called on a wired object or, for data,
// on a new object.
type Saver interface {
	SaveState(b []byte) ([]byte, error)
	LoadState(r *codec.Reader) error
}

var (
	saverType   = reflect.TypeFor[Saver]()
	errorType   = reflect.TypeFor[error]()
	protoType   = reflect.TypeFor[proto.Message]()
	messageType = reflect.TypeFor[protocol.Message]()

	registered = map[string]reflect.Type{}
)

// Register allows interfaces of replicas to contain values of type T. It must be called during package initialization.
func Register[T any]() struct{} {
	t := reflect.TypeFor[T]()
	registered[t.String()] = t
	return struct{}{}
}

// id is the number of an object, counted from 1.
type id = uint64

// object identifies an object to which pointers refer. Values of different types at the same address are different
// objects.
type object struct {
	at   unsafe.Pointer
	elem reflect.Type
}

// written is an object to be written. fresh is the corresponding object of the fresh replica; nil for data.
type written struct {
	object
	fresh unsafe.Pointer
}

type saver struct {
	b       []byte
	world   map[any]int
	ids     map[object]id
	objects []written
	err     error
	path    []string // path of the value being written, for errors
	// spans contains the memory ranges of the written values, if strict is set.
	spans  []span
	strict bool
}

// span is the memory range of an object, or of the elements of a slice.
type span struct {
	from, to uintptr
	of       reflect.Type
	// fresh is the address of the corresponding object of the fresh replica, which reading fills in place. It is 0 for
	// data, which reading allocates.
	fresh uintptr
	// slice is the address of the slice header of these elements; 0 for an object. A slice may be written twice: as part
	// of an object that reading fills in place, and as part of another object inside that object.
	slice uintptr
	// plain is set for the memory of a slice whose elements contain no pointers.
	plain bool
}

// loaded is an object to be read. wired is set if the object was created by the fresh replica.
type loaded struct {
	object
	wired bool
}

type loader struct {
	r       codec.Reader
	w       *World
	objects []loaded
	err     error
}

// Append appends the state of a replica, or of another value, to b. replica and fresh are pointers. fresh is an unused
// replica created from the same Config; Append does not change it.
func Append(b []byte, w *World, replica, fresh any) ([]byte, error) {
	s := &saver{b: b, strict: w.Strict, world: map[any]int{}, ids: map[object]id{}}
	for i, o := range w.Objects {
		s.world[o] = i
	}
	live, made := reflect.ValueOf(replica), reflect.ValueOf(fresh)
	if live.Kind() != reflect.Pointer || live.Type() != made.Type() {
		return nil, fmt.Errorf("checkpoint: two pointers to one type are asked for, not %T and %T", replica, fresh)
	}
	// Values are written without field names, so only a program with the same types can read them. The layout identifies
	// the types.
	s.b = codec.AppendUint64(s.b, layoutOf(live.Type()))
	wire := &wiring{s: s, seen: map[object]bool{}}
	wire.pointer(live.Type().Elem(), live.UnsafePointer(), made.UnsafePointer())
	wire.follow()
	s.bits(wire.bits)
	// Writing an object may find further objects, which are appended to s.objects.
	for i := 0; i < len(s.objects) && s.err == nil; i++ {
		o := s.objects[i]
		s.path = append(s.path[:0], o.elem.String())
		s.covers(o.at, o.elem, 1, span{fresh: uintptr(o.fresh)})
		planOf(o.elem).save(s, o.at, o.fresh)
	}
	s.overlap()
	if s.err != nil {
		return nil, fmt.Errorf("checkpoint: %w", s.err)
	}
	return s.b, nil
}

// Read reads the output of Append into fresh, an unused replica created from the same Config. After an error, the
// replica must not be used. The replica may retain references into b.
func Read(b []byte, w *World, fresh any) error {
	l := &loader{r: codec.NewReader(b), w: w}
	made := reflect.ValueOf(fresh)
	if layout := l.r.Uint64(); layout != layoutOf(made.Type()) {
		return fmt.Errorf("checkpoint: it was written by a program whose %v is made of other fields: only the version of Geobench that has written it can read it", made.Type())
	}
	wire := &wiring{l: l, bits: l.bits(), seen: map[object]bool{}}
	wire.pointer(made.Type().Elem(), nil, made.UnsafePointer())
	wire.follow()
	// The walk over a fresh replica depends only on its wiring, so a different number of objects means a different Config
	// or engine.
	if wire.lacks || len(wire.bits) != wire.used {
		return errors.New("checkpoint: it is of a replica that is wired in another way")
	}
	for i := 0; i < len(l.objects) && l.err == nil && l.r.Err() == nil; i++ {
		o := l.objects[i]
		planOf(o.elem).load(l, o.at, o.wired)
	}
	if err := errors.Join(l.err, l.r.Done()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (s *saver) fail(format string, args ...any) {
	if s.err == nil {
		at := ""
		for _, p := range s.path {
			at += p
		}
		s.err = fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
}

func (l *loader) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// covers records the memory range of n values of type t, which belong to an object or a slice. The caller sets the
// remaining fields of the span.
func (s *saver) covers(at unsafe.Pointer, t reflect.Type, n int, p span) {
	if size := t.Size() * uintptr(n); s.strict && size > 0 {
		p.from, p.to, p.of = uintptr(at), uintptr(at)+size, t
		s.spans = append(s.spans, p)
	}
}

// overlap fails if an object is part of another object. The part would be written twice, and after reading, a pointer
// to the part would lead to a separate copy. Slices of plain data may share memory unless a pointer leads into that
// memory.
func (s *saver) overlap() {
	// Among spans with the same start, the longest is first, so that an enclosing span always precedes the spans inside
	// it.
	slices.SortFunc(s.spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	var widest, widestOther span // the span with the highest end so far: of all spans, and of the spans that are not plain
	for _, p := range s.spans {
		in := widest
		if p.plain {
			in = widestOther
		}
		if p.from < in.to && !p.within(in) {
			s.path = nil
			inner, outer := p, in
			if p.plain && p.from == in.from && p.to == in.to { // a slice with one element, and a pointer to this element
				inner, outer = in, p
			}
			s.fail("a pointer to a %v is into the middle of %s", inner.of, outer.what())
		}
		if p.to > widest.to {
			widest = p
		}
		if !p.plain && p.to > widestOther.to {
			widestOther = p
		}
	}
}

// within reports whether p may overlap outer. Either both must be the elements of the same slice, or reading must fill
// both in place. In the second case, the counterparts of p and outer in the fresh replica must have the same distance
// as p and outer.
func (p span) within(outer span) bool {
	return p.slice != 0 && p.slice == outer.slice || p.fresh != 0 && outer.fresh != 0 && p.from-outer.from == p.fresh-outer.fresh
}

func (p span) what() string {
	if p.plain {
		return fmt.Sprintf("a slice of %v", p.of)
	}
	return fmt.Sprintf("a %v", p.of)
}

func (s *saver) uvarint(v uint64) { s.b = codec.AppendUvarint(s.b, v) }

// bits writes a list of bits, packed into bytes.
func (s *saver) bits(bits []bool) {
	s.uvarint(uint64(len(bits)))
	var b byte
	for i, set := range bits {
		if set {
			b |= 1 << (i % 8)
		}
		if i%8 == 7 || i == len(bits)-1 {
			s.b, b = append(s.b, b), 0
		}
	}
}

func (l *loader) bits() []bool {
	n := l.r.UvarintMax(uint64(8 * l.r.Len()))
	packed := l.r.Take((n + 7) / 8)
	if l.r.Err() != nil {
		return nil
	}
	bits := make([]bool, n)
	for i := range bits {
		bits[i] = packed[i/8]&(1<<(i%8)) != 0
	}
	return bits
}

// wiring walks through the objects that a fresh replica reaches. With a saver, it finds their counterparts in the live
// replica, and records in bits which objects have a counterpart. With a loader, it reads this from bits.
type wiring struct {
	s    *saver
	l    *loader
	bits []bool
	used int
	// lacks is set if there are fewer bits than objects.
	lacks bool
	seen  map[object]bool // visited fresh objects
	next  []written
}

// pointer visits a fresh object. live is the object's counterpart in the live replica, or nil.
func (w *wiring) pointer(elem reflect.Type, live, fresh unsafe.Pointer) {
	if fresh == nil || w.world(elem, fresh) || w.seen[object{fresh, elem}] {
		return
	}
	w.seen[object{fresh, elem}] = true
	// Reading visits the same objects in the same order as writing, so one bit for each object is enough.
	if w.l != nil {
		if w.used == len(w.bits) {
			w.lacks = true
			return
		}
		w.used++
		if w.bits[w.used-1] {
			w.l.objects = append(w.l.objects, loaded{object{fresh, elem}, true})
			w.next = append(w.next, written{object{nil, elem}, fresh})
		}
		return
	}
	// Two wired pointers may correspond to the same live object. Match only the first of them with it, so that the object
	// is written once.
	there := live != nil && w.s.ids[object{live, elem}] == 0
	w.bits = append(w.bits, there)
	if there {
		w.s.objects = append(w.s.objects, written{object{live, elem}, fresh})
		w.s.ids[object{live, elem}] = id(len(w.s.objects))
		w.next = append(w.next, written{object{live, elem}, fresh})
	}
}

// world reports whether at points to an object of World.
func (w *wiring) world(elem reflect.Type, at unsafe.Pointer) bool {
	p := reflect.NewAt(elem, at).Interface()
	if w.s != nil {
		_, is := w.s.world[p]
		return is
	}
	return slices.Contains(w.l.w.Objects, any(p))
}

// follow visits the objects found so far, and all objects that are reachable from them.
func (w *wiring) follow() {
	for i := 0; i < len(w.next); i++ {
		n := w.next[i]
		w.walk(n.elem, n.at, n.fresh)
	}
}

// walk visits a fresh value of a type. live is the value's counterpart, or nil.
func (w *wiring) walk(t reflect.Type, live, fresh unsafe.Pointer) {
	// A value without pointers leads to no object, so skip the walk over large plain data.
	if !planOf(t).wires {
		return
	}
	at := func(offset uintptr) (unsafe.Pointer, unsafe.Pointer) {
		if live == nil {
			return nil, unsafe.Add(fresh, offset)
		}
		return unsafe.Add(live, offset), unsafe.Add(fresh, offset)
	}
	switch t.Kind() {
	case reflect.Pointer:
		var target unsafe.Pointer
		if live != nil {
			target = *(*unsafe.Pointer)(live)
		}
		w.pointer(t.Elem(), target, *(*unsafe.Pointer)(fresh))
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Tag.Get("checkpoint") != "-" {
				a, b := at(f.Offset)
				w.walk(f.Type, a, b)
			}
		}
	case reflect.Array:
		for i := range t.Len() {
			a, b := at(uintptr(i) * t.Elem().Size())
			w.walk(t.Elem(), a, b)
		}
	case reflect.Slice:
		made := reflect.NewAt(t, fresh).Elem()
		var have reflect.Value
		if live != nil {
			have = reflect.NewAt(t, live).Elem()
		}
		for i := range made.Len() {
			var a unsafe.Pointer
			if live != nil && i < have.Len() {
				a = have.Index(i).Addr().UnsafePointer()
			}
			w.walk(t.Elem(), a, made.Index(i).Addr().UnsafePointer())
		}
	case reflect.Map:
		if t.Elem().Kind() != reflect.Pointer {
			return // values of a map are not addressable, so reading cannot fill them in place
		}
		made := reflect.NewAt(t, fresh).Elem()
		// Sort, because map order is random and both walks must visit objects in the same order.
		for _, k := range sortedKeys(made) {
			var a unsafe.Pointer
			if live != nil {
				if v := reflect.NewAt(t, live).Elem().MapIndex(k); v.IsValid() {
					a = v.UnsafePointer()
				}
			}
			w.pointer(t.Elem().Elem(), a, made.MapIndex(k).UnsafePointer())
		}
	case reflect.Interface:
		made := reflect.NewAt(t, fresh).Elem().Elem()
		if made.Kind() != reflect.Pointer {
			return
		}
		var a unsafe.Pointer
		if live != nil {
			// If a live value of another type has replaced the wired object, the live value is written as data.
			if have := reflect.NewAt(t, live).Elem().Elem(); have.IsValid() && have.Type() == made.Type() {
				a = have.UnsafePointer()
			}
		}
		w.pointer(made.Type().Elem(), a, made.UnsafePointer())
	}
}

// sortedKeys returns the keys of a map in the order of their encodings, so that the order is the same for equal maps.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	if len(keys) < 2 {
		return keys
	}
	encoded := make(map[string]reflect.Value, len(keys))
	p := planOf(m.Type().Key())
	for _, k := range keys {
		s := &saver{}
		at := reflect.New(k.Type())
		at.Elem().Set(k)
		p.save(s, at.UnsafePointer(), nil)
		encoded[string(s.b)] = k
	}
	keys = keys[:0]
	for _, name := range slices.Sorted(maps.Keys(encoded)) {
		keys = append(keys, encoded[name])
	}
	return keys
}
