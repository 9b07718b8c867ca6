package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// machine contains every kind of value that replicas consist of.
type machine struct {
	callback func() string // wired
	topology *topology     // an object of World
	env      any           // wired, but not registered
	log      *log          // wired
	parts    [2]part       // wired
	byName   map[string]*log
	room     []int `checkpoint:"-"`

	small                      int8
	count                      int
	big                        uint64
	ratio                      float64
	on                         bool
	name                       string
	bytes, noBytes, emptyBytes []byte
	list, noList, emptyList    []int32
	table                      map[key]*entry
	noTable, emptyTable        map[string]int
	first, last                *entry // a circular list
	waiting                    []waiter
	err, known                 error
	message                    protocol.Message
	clock                      counter
	proto                      *wrapperspb.StringValue
	wiredLater, replaced       *log
}

type topology struct{ f func() }

type log struct {
	m       *machine
	entries []*entry
	told    func(int)
}

type part struct {
	of   *log
	size int
}

type key struct {
	a uint32
	b string
}

type entry struct {
	n    int
	next *entry
}

type waiter interface{ wait() int }

type (
	byEntry struct{ e *entry }
	byValue struct{ n int }
)

func (b *byEntry) wait() int { return b.e.n }
func (b byValue) wait() int  { return b.n }

var (
	_ = Register[*byEntry]()
	_ = Register[byValue]()
)

// counter implements Saver.
type counter struct{ ticks uint64 }

func (c *counter) SaveState(b []byte) ([]byte, error) { return codec.AppendUvarint(b, 2*c.ticks), nil }
func (c *counter) LoadState(r *codec.Reader) error {
	c.ticks = r.Uvarint() / 2
	return nil
}

type ping struct{ n byte }

func (p ping) Kind() uint8              { return 9 }
func (p ping) Size() int                { return 1 }
func (p ping) AppendTo(b []byte) []byte { return append(b, p.n) }

var (
	earth   = &topology{func() {}}
	errSome = errors.New("some")
	world   = &World{
		Objects: []any{earth, errSome},
		Decode: func(kind uint8, body []byte) (protocol.Message, error) {
			if kind != 9 || len(body) != 1 {
				return nil, fmt.Errorf("kind %d, %d bytes", kind, len(body))
			}
			return ping{body[0]}, nil
		},
		Strict: true,
	}
)

func newMachine() *machine {
	m := &machine{topology: earth, env: key{1, "env"}, log: &log{}, replaced: &log{}, byName: map[string]*log{"a": {}, "b": {}}}
	m.callback = func() string { return fmt.Sprint(len(m.log.entries)) }
	m.log.m = m
	m.parts[1].of = m.log
	m.log.told = func(int) { m.count++ }
	return m
}

// used returns a machine in a state that a run could produce.
func used() *machine {
	m := newMachine()
	e := &entry{n: 7}
	e.next = &entry{8, e}
	m.small, m.count, m.big, m.ratio, m.on, m.name = -3, math.MinInt, math.MaxUint64, -0.5, true, "käse"
	m.bytes, m.emptyBytes, m.list, m.emptyList, m.emptyTable = []byte{1, 2}, []byte{}, []int32{-1, 5}, []int32{}, map[string]int{}
	m.table = map[key]*entry{{2, "b"}: e, {1, ""}: e.next, {1, "a"}: nil}
	m.first, m.last, m.log.entries = e, e.next, []*entry{e.next, nil, e}
	m.waiting = []waiter{&byEntry{e}, byValue{4}, nil}
	m.err, m.known, m.message, m.clock = errors.New("text"), errSome, ping{3}, counter{77}
	m.parts[0], m.parts[1].size = part{of: m.log}, 9
	m.byName = map[string]*log{"b": m.byName["b"], "c": {m: m}}
	m.byName["b"].entries = []*entry{e}
	m.proto, m.wiredLater, m.replaced = wrapperspb.String("x"), m.log, &log{entries: []*entry{e}}
	m.room = []int{1}
	return m
}

func write(t testing.TB, m *machine) []byte {
	t.Helper()
	b, err := Append([]byte("front"), world, m, newMachine())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte("front")) {
		t.Fatal("Append must append")
	}
	return b[5:]
}

// A machine that was read has the same values as the original machine. Separate objects are still separate, shared
// objects are still shared, and objects of the environment are not copied. The objects that New has wired are still
// wired.
func TestRoundTrip(t *testing.T) {
	was := used()
	b := write(t, was)
	m := newMachine()
	made := *m
	if err := Read(bytes.Clone(b), world, m); err != nil {
		t.Fatal(err)
	}
	if again := write(t, m); !bytes.Equal(again, b) {
		t.Errorf("what was read is written as\n%x, not\n%x", again, b)
	}
	if m.log != made.log || m.replaced != made.replaced || m.byName["b"] != made.byName["b"] || m.topology != earth {
		t.Error("what was wired is not the same")
	}
	if m.log.told(1); m.callback() != "3" || m.count != math.MinInt+1 {
		t.Errorf("callbacks see %s entries and count to %d", m.callback(), m.count)
	}
	m.count--
	if m.room != nil {
		t.Error("room is written")
	}
	e := m.first
	if e == was.first || e.next != m.last || e.next.next != e || m.table[key{2, "b"}] != e || m.log.entries[2] != e || m.waiting[0].(*byEntry).e != e || m.wiredLater != m.log || m.byName["c"].m != m {
		t.Error("pointers to one object lead to several")
	}
	if m.known != errSome || m.err.Error() != "text" || m.noBytes != nil || m.emptyBytes == nil || m.noList != nil || m.emptyList == nil || m.noTable != nil || m.emptyTable == nil {
		t.Errorf("%v, %v; nil is not empty: %v", m.known, m.err, m)
	}
	for _, of := range []*machine{m, was} { // not comparable
		of.callback, of.log.told, of.room = nil, nil, nil
		of.proto.ProtoReflect()
	}
	if !reflect.DeepEqual(m, was) {
		t.Errorf("got\n%+v, want\n%+v", m, was)
	}
}

// If two wired pointers lead to the same object, they also do so after reading. This object is the first of the two
// objects that New created.
func TestOneObjectInTwoPlaces(t *testing.T) {
	was := used()
	was.replaced = was.log
	m := newMachine()
	made := m.log
	if err := Read(write(t, was), world, m); err != nil || m.log != made || m.replaced != made || len(made.entries) != 3 {
		t.Errorf("%v: %p and %p, want %p; %d entries", err, m.log, m.replaced, made, len(made.entries))
	}
}

// Equal states have equal encodings, regardless of map order.
func TestAlike(t *testing.T) {
	first := write(t, used())
	for range 20 {
		if again := write(t, used()); !bytes.Equal(again, first) {
			t.Fatalf("%x, then %x", first, again)
		}
	}
}

type (
	holder  struct{ any any }
	failure struct{ err error }
	jobs    struct{ list []func() }
	inner   struct {
		in    struct{ n int }
		first *int
	}
)

// Values that cannot be written are rejected with an error that names the field.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		live, fresh any
		want        string
	}{
		"a function":               {&struct{ f func() }{func() {}}, &struct{ f func() }{}, ".f: it holds a function"},
		"a function in a list":     {&jobs{[]func(){func() {}}}, &jobs{}, "checkpoint.jobs.list: it holds a function"},
		"a channel":                {&struct{ c chan int }{}, &struct{ c chan int }{}, ".c: a chan int cannot be written"},
		"a type of nobody's":       {&holder{key{}}, &holder{}, "checkpoint.holder.any: it holds a checkpoint.key, which is not registered"},
		"an error with another":    {&failure{fmt.Errorf("more: %w", errSome)}, &failure{}, "checkpoint.failure.err: it holds a *fmt.wrapError, which is not registered"},
		"the middle of an object":  {middle(), &inner{}, "a pointer to a int is into the middle of a checkpoint.inner"},
		"an element of plain data": {pointsAt(2, 1), &pointing{}, "a pointer to a checkpoint.size is into the middle of a slice of checkpoint.size"},
		"the only element":         {pointsAt(1, 0), &pointing{}, "a pointer to a checkpoint.size is into the middle of a slice of checkpoint.size"},
		"what New has made":        {pointsAt(2, 1), pointsAt(2, 1), "a pointer to a checkpoint.size is into the middle of a slice of checkpoint.size"},
		"a byte":                   {aByte(), &bytePointing{}, "a pointer to a uint8 is into the middle of a slice of uint8"},
		"another place than New":   {wiredAt(1), wiredAt(0), "a pointer to a checkpoint.part is into the middle of a checkpoint.part"},
		"two kinds of machine":     {&holder{}, &jobs{}, "two pointers to one type are asked for, not *checkpoint.holder and *checkpoint.jobs"},
		"what no pointer leads to": {holder{}, holder{}, "two pointers to one type are asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Append(nil, world, c.live, c.fresh); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

type (
	size     struct{ n int }
	pointing struct {
		sizes []size
		to    *size
	}
	bytePointing struct {
		bytes []byte
		to    *byte
	}
	partPointing struct {
		parts []part
		to    *part
	}
	sharing struct{ all, some []size }
)

func pointsAt(n, i int) *pointing {
	p := &pointing{sizes: make([]size, n)}
	p.to = &p.sizes[i]
	return p
}

func aByte() *bytePointing {
	b := []byte{1, 2, 3}
	return &bytePointing{b, &b[1]}
}

func wiredAt(i int) *partPointing {
	p := &partPointing{parts: []part{{size: 1}, {size: 2}}}
	p.to = &p.parts[i]
	return p
}

// A pointer may lead into a slice that New has created and that reading fills in place. After reading, it leads to the
// same element. Slices of plain data may share memory.
func TestPointersIntoWhatNewHasMade(t *testing.T) {
	was, is := wiredAt(1), wiredAt(1)
	was.to.size = 7
	b, err := Append(nil, world, was, wiredAt(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := Read(b, world, is); err != nil || is.to != &is.parts[1] || is.to.size != 7 {
		t.Errorf("%v, %+v", err, is)
	}
	all := []size{{1}, {2}}
	if _, err := Append(nil, world, &sharing{all, all[:1]}, &sharing{}); err != nil {
		t.Error(err)
	}
}

func middle() *inner {
	i := &inner{}
	i.first = &i.in.n
	return i
}

// Output of a program with other fields is rejected.
func TestLayouts(t *testing.T) {
	type before struct{ First, Second int }
	type after struct{ Second, First int }
	was, is := &before{1, 2}, &after{}
	b, err := Append(nil, world, was, &before{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Read(b, world, is); err == nil || !strings.Contains(err.Error(), "whose *checkpoint.after is made of other fields") {
		t.Errorf("%v, %+v", err, is)
	}
	if layoutOf(reflect.TypeFor[key]()) == layoutOf(reflect.TypeFor[entry]()) {
		t.Error("layouts do not tell types apart")
	}
}

// Damaged input yields an error or a different state, and has no other effect.
func TestDamage(t *testing.T) {
	b := write(t, used())
	for i := range b {
		for bit := range 8 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1 << bit
			_ = Read(damaged, world, newMachine())
		}
		if err := Read(bytes.Clone(b[:i]), world, newMachine()); err == nil {
			t.Errorf("the first %d of %d bytes are taken for all", i, len(b))
		}
	}
	if err := Read(append(bytes.Clone(b), 0), world, newMachine()); err == nil {
		t.Error("a byte behind the end is taken")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, used()))
	f.Add(write(f, newMachine()))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = Read(b, world, newMachine()) })
}
