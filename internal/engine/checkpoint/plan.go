package checkpoint

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// plan encodes and decodes the values of a type.
type plan struct {
	// wires is set if a value may contain pointers, functions or interfaces.
	wires bool
	// empty is set if a value takes no bytes.
	empty bool
	// save writes the value at address at. fresh is the address of its counterpart in a fresh replica; nil for data.
	save func(s *saver, at, fresh unsafe.Pointer)
	// load reads a value over the existing value at address at. If wired is set, the existing value belongs to a fresh
	// replica. Otherwise it is a zero value.
	load func(l *loader, at unsafe.Pointer, wired bool)
}

var (
	plans   = map[reflect.Type]*plan{}
	plansMu sync.Mutex
)

// planOf returns the plan of a type.
func planOf(t reflect.Type) *plan {
	plansMu.Lock()
	defer plansMu.Unlock()
	return find(t)
}

// find is planOf without locking. The caller must hold plansMu.
func find(t reflect.Type) *plan {
	if p := plans[t]; p != nil {
		return p
	}
	p := &plan{wires: true} // registered before make, because a type may refer to itself
	plans[t] = p
	*p = p.make(t)
	return p
}

// make returns the plan of a type.
func (p *plan) make(t reflect.Type) plan {
	// Pointers and interfaces are references, so only the object to which they lead may encode itself.
	if t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer {
		switch of := reflect.PointerTo(t); {
		case of.Implements(saverType):
			return ownPlan(t)
		case of.Implements(protoType):
			return protoPlan(t)
		}
	}
	switch t.Kind() {
	// All these kinds have a size of one byte, which is copied unchanged.
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) { s.b = append(s.b, *(*byte)(at)) },
			load: func(l *loader, at unsafe.Pointer, _ bool) { *(*byte)(at) = l.r.Uint8() },
		}
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) {
				v := reflect.NewAt(t, at).Elem().Int()
				// Zigzag encoding keeps small negative numbers short.
				s.uvarint(uint64(v)<<1 ^ uint64(v>>63))
			},
			load: func(l *loader, at unsafe.Pointer, _ bool) {
				v := l.r.Uvarint()
				reflect.NewAt(t, at).Elem().SetInt(int64(v>>1) ^ -int64(v&1))
			},
		}
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) { s.uvarint(reflect.NewAt(t, at).Elem().Uint()) },
			load: func(l *loader, at unsafe.Pointer, _ bool) { reflect.NewAt(t, at).Elem().SetUint(l.r.Uvarint()) },
		}
	case reflect.Float64:
		// Copy the bits, so that NaNs and negative zero are restored exactly.
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) { s.b = codec.AppendUint64(s.b, *(*uint64)(at)) },
			load: func(l *loader, at unsafe.Pointer, _ bool) { *(*uint64)(at) = l.r.Uint64() },
		}
	case reflect.String:
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) { s.b = codec.AppendString(s.b, *(*string)(at)) },
			load: func(l *loader, at unsafe.Pointer, _ bool) { *(*string)(at) = string(l.r.Bytes()) },
		}
	case reflect.Struct:
		return structPlan(t)
	case reflect.Array:
		return arrayPlan(t)
	case reflect.Slice:
		return slicePlan(t)
	case reflect.Map:
		return mapPlan(t)
	case reflect.Pointer:
		return pointerPlan(t)
	case reflect.Interface:
		return interfacePlan(t)
	case reflect.Func:
		return plan{
			wires: true,
			empty: true,
			save: func(s *saver, at, fresh unsafe.Pointer) {
				has := *(*unsafe.Pointer)(at) != nil
				// Functions are not written. So where the replica has a function, the fresh replica must have one too, and vice
				// versa.
				if fresh == nil && has || fresh != nil && has != (*(*unsafe.Pointer)(fresh) != nil) {
					s.fail("it holds a function")
				}
			},
			load: func(*loader, unsafe.Pointer, bool) {},
		}
	}
	return plan{
		wires: true,
		save:  func(s *saver, _, _ unsafe.Pointer) { s.fail("a %v cannot be written", t) },
		load:  func(l *loader, _ unsafe.Pointer, _ bool) { l.fail("a %v cannot be read", t) },
	}
}

// ownPlan returns the plan of a type that implements Saver.
func ownPlan(t reflect.Type) plan {
	return plan{
		save: func(s *saver, at, _ unsafe.Pointer) {
			b, err := reflect.NewAt(t, at).Interface().(Saver).SaveState(nil)
			if err != nil {
				s.fail("%v", err)
			}
			// The length prefix prevents a faulty LoadState from reading the bytes of the next value.
			s.b = codec.AppendBytes(s.b, b)
		},
		load: func(l *loader, at unsafe.Pointer, _ bool) {
			r := codec.NewReader(l.r.Bytes())
			err := reflect.NewAt(t, at).Interface().(Saver).LoadState(&r)
			// If bytes remain, LoadState does not match SaveState.
			if err == nil {
				err = r.Done()
			}
			if err != nil {
				l.fail("%v: %w", t, err)
			}
		},
	}
}

// protoPlan returns the plan of a protocol buffer, which has internal state in addition to its fields.
func protoPlan(t reflect.Type) plan {
	return plan{
		save: func(s *saver, at, _ unsafe.Pointer) {
			// Encode deterministically, because maps in the message would otherwise be written in random order.
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(reflect.NewAt(t, at).Interface().(proto.Message))
			if err != nil {
				s.fail("%v", err)
			}
			s.b = codec.AppendBytes(s.b, b)
		},
		load: func(l *loader, at unsafe.Pointer, _ bool) {
			if err := proto.Unmarshal(l.r.Bytes(), reflect.NewAt(t, at).Interface().(proto.Message)); err != nil {
				l.fail("%v: %w", t, err)
			}
		},
	}
}

func structPlan(t reflect.Type) plan {
	type field struct {
		offset uintptr
		name   string
		*plan
	}
	var fields []field
	p := plan{empty: true}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("checkpoint") == "-" {
			continue
		}
		fields = append(fields, field{f.Offset, "." + f.Name, find(f.Type)})
		last := fields[len(fields)-1]
		p.wires, p.empty = p.wires || last.wires, p.empty && last.empty
	}
	p.save = func(s *saver, at, fresh unsafe.Pointer) {
		for i := range fields {
			f := &fields[i]
			s.path = append(s.path, f.name)
			made := fresh
			if made != nil {
				made = unsafe.Add(fresh, f.offset)
			}
			f.save(s, unsafe.Add(at, f.offset), made)
			s.path = s.path[:len(s.path)-1]
		}
	}
	p.load = func(l *loader, at unsafe.Pointer, wired bool) {
		for i := range fields {
			fields[i].load(l, unsafe.Add(at, fields[i].offset), wired)
		}
	}
	return p
}

func arrayPlan(t reflect.Type) plan {
	elem, size := find(t.Elem()), t.Elem().Size()
	return plan{
		wires: elem.wires,
		empty: elem.empty || t.Len() == 0,
		save: func(s *saver, at, fresh unsafe.Pointer) {
			for i := range uintptr(t.Len()) {
				made := fresh
				if made != nil {
					made = unsafe.Add(fresh, i*size)
				}
				elem.save(s, unsafe.Add(at, i*size), made)
			}
		},
		load: func(l *loader, at unsafe.Pointer, wired bool) {
			for i := range uintptr(t.Len()) {
				elem.load(l, unsafe.Add(at, i*size), wired)
			}
		},
	}
}

// slicePlan returns the plan of a slice. It writes the elements, but not the spare capacity, and distinguishes nil from
// empty slices.
func slicePlan(t reflect.Type) plan {
	if t.Elem().Kind() == reflect.Uint8 {
		return plan{
			save: func(s *saver, at, _ unsafe.Pointer) {
				v := *(*[]byte)(at)
				s.uvarint(present(v == nil, len(v)))
				s.covers(unsafe.Pointer(unsafe.SliceData(v)), t.Elem(), len(v), span{slice: uintptr(at), plain: true})
				s.b = append(s.b, v...)
			},
			load: func(l *loader, at unsafe.Pointer, _ bool) {
				n, is := l.count(false)
				*(*[]byte)(at) = nil
				if is {
					// The result must not be nil even if it is empty, because the encoding distinguishes nil from empty.
					*(*[]byte)(at) = append([]byte{}, l.r.Take(uint64(n))...)
				}
			},
		}
	}
	elem, size := find(t.Elem()), t.Elem().Size()
	return plan{
		wires: elem.wires,
		save: func(s *saver, at, fresh unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem()
			s.uvarint(present(v.IsNil(), v.Len()))
			made := 0
			var of unsafe.Pointer
			if fresh != nil {
				f := reflect.NewAt(t, fresh).Elem()
				made, of = f.Len(), f.UnsafePointer()
			}
			data := v.UnsafePointer()
			memory := span{slice: uintptr(at), plain: !elem.wires}
			// Reading fills the fresh slice in place only if it is long enough.
			if elem.wires && v.Len() <= made {
				memory.fresh = uintptr(of)
			}
			s.covers(data, t.Elem(), v.Len(), memory)
			for i := range v.Len() {
				var counterpart unsafe.Pointer
				if i < made {
					counterpart = unsafe.Add(of, uintptr(i)*size)
				}
				elem.save(s, unsafe.Add(data, uintptr(i)*size), counterpart)
			}
		},
		load: func(l *loader, at unsafe.Pointer, wired bool) {
			v := reflect.NewAt(t, at).Elem()
			n, is := l.count(elem.empty)
			switch made := v.Len(); {
			case !is:
				v.SetZero()
				return
			// Elements that New has created stay at their addresses, because other wired pointers may lead to them.
			case wired && elem.wires && n <= made && !v.IsNil():
				v.SetLen(n)
			// The slice has grown since New. Keep the contents of wired elements, such as callbacks.
			case wired && elem.wires:
				longer := reflect.MakeSlice(t, n, n)
				reflect.Copy(longer, v)
				v.Set(longer)
			default:
				v.Set(reflect.MakeSlice(t, n, n))
			}
			data := v.UnsafePointer()
			// Stop at the first error, because all further elements would be zero values.
			for i := 0; i < n && l.r.Err() == nil && l.err == nil; i++ {
				elem.load(l, unsafe.Add(data, uintptr(i)*size), wired)
			}
		},
	}
}

// present encodes a number of elements as n+1, or as 0 if none is set, which means that there is no value.
func present(none bool, n int) uint64 {
	if none {
		return 0
	}
	return uint64(n) + 1
}

// maxEmpty is the maximum number of elements that are allocated if elements take no bytes.
const maxEmpty = 1 << 20

// count decodes the output of present. The result is reports whether there is a value. Elements take at least one byte,
// so the length of the input limits their number. If empty is set, elements take no bytes, and maxEmpty limits their
// number.
func (l *loader) count(empty bool) (n int, is bool) {
	most := uint64(l.r.Len())
	// The length of the input does not limit the number of elements that take no bytes.
	if empty {
		most = maxEmpty
	}
	// Allow one more, because present adds 1 to distinguish an empty value from nil.
	v := l.r.UvarintMax(most + 1)
	if v == 0 || l.r.Err() != nil {
		return 0, false
	}
	return int(v - 1), true
}

// mapPlan returns the plan of a map: its entries, in the order of the encoded keys.
func mapPlan(t reflect.Type) plan {
	key, elem := find(t.Key()), find(t.Elem())
	return plan{
		wires: elem.wires,
		save: func(s *saver, at, _ unsafe.Pointer) {
			m := reflect.NewAt(t, at).Elem()
			s.uvarint(present(m.IsNil(), m.Len()))
			v := reflect.New(t.Elem())
			k := reflect.New(t.Key())
			// Sort, because map order is random, but equal states must have equal encodings.
			for _, name := range sortedKeys(m) {
				k.Elem().Set(name)
				key.save(s, k.UnsafePointer(), nil)
				v.Elem().Set(m.MapIndex(name))
				// Values of a map are not addressable, so they are data without a counterpart.
				elem.save(s, v.UnsafePointer(), nil)
			}
		},
		load: func(l *loader, at unsafe.Pointer, _ bool) {
			m := reflect.NewAt(t, at).Elem()
			n, is := l.count(key.empty && elem.empty)
			switch {
			case !is:
				m.SetZero()
				return
			case m.IsNil():
				m.Set(reflect.MakeMapWithSize(t, n))
			default:
				m.Clear()
			}
			for i := 0; i < n && l.r.Err() == nil && l.err == nil; i++ {
				k, v := reflect.New(t.Key()), reflect.New(t.Elem())
				key.load(l, k.UnsafePointer(), false)
				elem.load(l, v.UnsafePointer(), false)
				m.SetMapIndex(k.Elem(), v.Elem())
			}
		},
	}
}

// A reference is 0 for nil, and 2n for object n. For an object of World it is 2p+1, where p is the position in World,
// from 1.
const (
	noObject   = 0
	worldBit   = 1
	firstWorld = 1
)

// ref writes a reference to an object.
func (s *saver) ref(elem reflect.Type, at unsafe.Pointer) {
	if at == nil {
		s.uvarint(noObject)
		return
	}
	// Objects of World are not part of the state, because the reader has its own objects at the same positions.
	if i, is := s.world[reflect.NewAt(elem, at).Interface()]; is {
		s.uvarint(uint64(i+firstWorld)<<1 | worldBit)
		return
	}
	// The type is part of the object's identity, because a struct and its first field have the same address.
	o := object{at, elem}
	n := s.ids[o]
	if n == 0 {
		s.objects = append(s.objects, written{o, nil})
		n = id(len(s.objects))
		s.ids[o] = n
	}
	s.uvarint(n << 1)
}

// ref reads a reference to an object of type elem. It allocates the object at the first reference.
func (l *loader) ref(elem reflect.Type) unsafe.Pointer {
	v := l.r.Uvarint()
	if v == noObject || l.r.Err() != nil || l.err != nil {
		return nil
	}
	if v&worldBit != 0 {
		i := v>>1 - firstWorld
		if i < uint64(len(l.w.Objects)) {
			if o := reflect.ValueOf(l.w.Objects[i]); o.Kind() == reflect.Pointer && o.Type().Elem() == elem {
				return o.UnsafePointer()
			}
		}
		l.fail("the world has no %v in place %d", elem, i)
		return nil
	}
	n := v >> 1
	switch have := id(len(l.objects)); {
	// Objects are numbered in the order of their first references, so a new object has the next number.
	case n == have+1:
		at := reflect.New(elem).UnsafePointer()
		l.objects = append(l.objects, loaded{object{at, elem}, false})
		return at
	case n > have:
		l.fail("object %d comes before object %d", n, have+1)
		return nil
	}
	o := l.objects[n-1]
	// A corrupt checkpoint must not make a pointer lead to an object of another type.
	if o.elem != elem {
		l.fail("object %d is a %v, not a %v", n, o.elem, elem)
		return nil
	}
	return o.at
}

func pointerPlan(t reflect.Type) plan {
	return plan{
		wires: true,
		save:  func(s *saver, at, _ unsafe.Pointer) { s.ref(t.Elem(), *(*unsafe.Pointer)(at)) },
		load:  func(l *loader, at unsafe.Pointer, _ bool) { *(*unsafe.Pointer)(at) = l.ref(t.Elem()) },
	}
}

// Kinds of values in an interface. Each comment describes the encoding of the kind.
const (
	holdsNothing = iota
	holdsWorld   // index in World
	holdsMessage // kind | body
	holdsPointer // type | reference
	holdsValue   // type | value
	holdsWired   // reference to an object of the type that a fresh replica has in this interface
	holdsError   // text of an error that is not registered
	holdsSame    // no content; a fresh replica has the same value in this interface
)

func interfacePlan(t reflect.Type) plan {
	return plan{
		wires: true,
		save: func(s *saver, at, fresh unsafe.Pointer) {
			v := reflect.NewAt(t, at).Elem().Elem()
			if !v.IsValid() {
				s.b = append(s.b, holdsNothing)
				return
			}
			// Looking up a value that is not comparable would panic.
			if v.Comparable() {
				if i, is := s.world[v.Interface()]; is {
					s.b = append(s.b, holdsWorld)
					s.uvarint(uint64(i))
					return
				}
			}
			name := v.Type().String()
			if fresh != nil {
				switch made := reflect.NewAt(t, fresh).Elem().Elem(); {
				case !made.IsValid() || made.Type() != v.Type():
				case v.Kind() == reflect.Pointer:
					s.b = append(s.b, holdsWired)
					s.ref(v.Type().Elem(), v.UnsafePointer())
					return
				// The type of the value need not be registered, because the fresh replica provides the value.
				case v.Comparable() && v.Equal(made):
					s.b = append(s.b, holdsSame)
					return
				}
			}
			switch {
			case registered[name] == v.Type() && v.Kind() == reflect.Pointer:
				s.b = codec.AppendString(append(s.b, holdsPointer), name)
				s.ref(v.Type().Elem(), v.UnsafePointer())
			case registered[name] == v.Type():
				s.b = codec.AppendString(append(s.b, holdsValue), name)
				held := reflect.New(v.Type())
				held.Elem().Set(v)
				planOf(v.Type()).save(s, held.UnsafePointer(), nil)
			case v.Type().Implements(messageType):
				m := v.Interface().(protocol.Message)
				s.b = append(s.b, holdsMessage, m.Kind())
				s.b = codec.AppendBytes(s.b, m.AppendTo(nil))
			// For an error that wraps other errors, the text is not enough: errors.Is would give a different result.
			case t == errorType && !wraps(v.Interface().(error)):
				s.b = codec.AppendString(append(s.b, holdsError), v.Interface().(error).Error())
			default:
				s.fail("it holds a %v, which is not registered", v.Type())
			}
		},
		load: func(l *loader, at unsafe.Pointer, _ bool) {
			if err := l.hold(reflect.NewAt(t, at).Elem()); err != nil {
				l.fail("%v: %w", t, err)
			}
		},
	}
}

// wraps reports whether an error wraps other errors.
func wraps(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	}
	return false
}

// hold reads the value of an interface into v.
func (l *loader) hold(v reflect.Value) error {
	switch what := l.r.Uint8(); what {
	case holdsNothing:
		v.SetZero()
	case holdsWorld:
		i := l.r.Uvarint()
		if i >= uint64(len(l.w.Objects)) || !reflect.TypeOf(l.w.Objects[i]).AssignableTo(v.Type()) {
			return fmt.Errorf("the world has nothing of it in place %d", i)
		}
		v.Set(reflect.ValueOf(l.w.Objects[i]))
	case holdsMessage:
		kind, body := l.r.Uint8(), l.r.Bytes()
		// Return nil: the reader keeps its error, and the loader reports it.
		if l.r.Err() != nil {
			return nil
		}
		// Pass a copy, because a decoded message may alias its body.
		m, err := l.w.Decode(kind, append([]byte(nil), body...))
		if err != nil {
			return fmt.Errorf("a message of kind %d: %w", kind, err)
		}
		if !reflect.TypeOf(m).AssignableTo(v.Type()) {
			return fmt.Errorf("a message of kind %d is a %T", kind, m)
		}
		v.Set(reflect.ValueOf(m))
	case holdsPointer, holdsValue:
		name := string(l.r.Bytes())
		t := registered[name]
		if t == nil || !t.AssignableTo(v.Type()) || (t.Kind() == reflect.Pointer) != (what == holdsPointer) {
			return fmt.Errorf("a %q cannot be in it", name)
		}
		held := reflect.New(t)
		if what == holdsPointer {
			*(*unsafe.Pointer)(held.UnsafePointer()) = l.ref(t.Elem())
		} else {
			planOf(t).load(l, held.UnsafePointer(), false)
		}
		v.Set(held.Elem())
	case holdsWired:
		made := v.Elem()
		if made.Kind() != reflect.Pointer {
			return fmt.Errorf("a fresh replica has none in it")
		}
		held := reflect.New(made.Type())
		*(*unsafe.Pointer)(held.UnsafePointer()) = l.ref(made.Type().Elem())
		v.Set(held.Elem())
	case holdsSame:
		if v.IsNil() {
			return errors.New("a fresh replica has none in it")
		}
	case holdsError:
		text := string(l.r.Bytes())
		if v.Type() != errorType {
			return errors.New("it is no error")
		}
		v.Set(reflect.ValueOf(errors.New(text)))
	default:
		return fmt.Errorf("it holds something of kind %d", what)
	}
	return nil
}
