package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

// verdict completes the verdict and explains it. The explanation covers an anomaly that needs no cycle, or the given
// cycle and a shorter cycle. It is empty if the history passed.
func (c *checker) verdict(cycle, shorter []hop) *Verdict {
	_, snapshots := dependencies(c.v.Level)
	x := &explainer{h: c.h, writer: c.writer, snapshots: snapshots}
	switch a := c.worst(c.v.Level); {
	case a != "":
		c.v.Anomaly = a
		x.direct(c.v, c.direct[a])
		c.v.Transactions = x.witnesses()
	case cycle != nil:
		c.v.Anomaly = classify(cycle)
		c.v.Cycle, c.v.Explanation = x.cycle(c.v.Anomaly, cycle)
		c.v.Transactions = x.witnesses()
		if shorter != nil {
			x = &explainer{h: c.h, writer: c.writer, snapshots: snapshots}
			_, text := x.cycle(classify(shorter), shorter)
			c.v.Explanation += "\nA shorter one, of another kind: " + text
		}
	default:
		c.v.Passed = true
	}
	return c.v
}

// classify returns the anomaly of a cycle, by its dependencies.
func classify(cycle []hop) Anomaly {
	var n [link]int
	anti := func(h hop) bool { return h.dependency == RW || h.dependency == PredicateRW }
	adjacent := false
	for i, h := range cycle {
		n[h.dependency]++
		adjacent = adjacent || anti(h) && anti(cycle[(i+1)%len(cycle)])
	}
	item := func(items, predicates Anomaly) Anomaly {
		if n[PredicateRW] > 0 {
			return predicates
		}
		return items
	}
	a := G0
	switch antis := n[RW] + n[PredicateRW]; {
	// Snapshot isolation allows a cycle if and only if the cycle has two adjacent anti-dependencies.
	case antis > 1 && adjacent:
		a = item(G2Item, G2)
	case antis > 1:
		a = item(GNonadjacentItem, GNonadjacent)
	case antis == 1:
		a = item(GSingleItem, GSingle)
	case n[WR] > 0:
		a = G1c
	}
	switch {
	// The real-time order includes the order of each client, so a cycle with both is a real-time anomaly.
	case n[RealTime] > 0:
		return a + "-realtime"
	case n[Session] > 0:
		return a + "-process"
	}
	return a
}

// commonName returns the common name of a small cycle of a well-known kind, or "".
func commonName(cycle []hop) string {
	var shape strings.Builder
	for _, h := range cycle {
		shape.WriteString(h.dependency.String() + " ")
	}
	switch shape.String() {
	case "rw wr ":
		return " (read skew)"
	case "predicate-rw wr ":
		return " (phantom)"
	case "rw wr rw wr ":
		return " (long fork)"
	case "rw rw ":
		return " (write skew)"
	case "predicate-rw predicate-rw ", "predicate-rw rw ", "rw predicate-rw ":
		return " (write skew over a range)"
	}
	return ""
}

// explainer writes explanations. Transactions are called T1, T2, ... in the order in which they are first mentioned.
type explainer struct {
	h      *History
	writer []uint32
	// snapshots is set if a cycle consists of starts and commits.
	snapshots bool
	named     []uint32
	text      strings.Builder
}

// name returns the short name of a transaction, and assigns one if it has none.
func (x *explainer) name(i uint32) string {
	for k, n := range x.named {
		if n == i {
			return fmt.Sprintf("T%d", k+1)
		}
	}
	x.named = append(x.named, i)
	return fmt.Sprintf("T%d", len(x.named))
}

func (x *explainer) key(k uint32) string { return x.nameOf(x.h.keys[k]) }

// nameOf formats a key. The end of a range may not be a valid key.
func (x *explainer) nameOf(k txn.Key) string {
	if x.h.KeyName != nil && k.Valid() {
		return x.h.KeyName(k)
	}
	return k.String()
}

// instant formats a time, rounded to the microsecond.
func instant(d time.Duration) string { return d.Round(time.Microsecond).String() }

// maxExplained is the maximum number of transactions in an explanation; transactions in the middle of a longer cycle
// are omitted.
const maxExplained = 24

// left reports whether an explanation of n transactions omits transaction k. For the first omitted transaction, first
// is the number of omitted transactions; otherwise it is 0.
func left(k, n int) (out bool, first int) {
	if n <= maxExplained || k < maxExplained/2 || k >= n-maxExplained/2 {
		return false, 0
	}
	if k == maxExplained/2 {
		first = n - maxExplained
	}
	return true, first
}

// introduce describes the named transactions, one per line.
func (x *explainer) introduce() string {
	var b strings.Builder
	for k, i := range x.named {
		if out, n := left(k, len(x.named)); out {
			if n > 0 {
				fmt.Fprintf(&b, "  ... and %d more\n", n)
			}
			continue
		}
		t := &x.h.txns[i]
		fmt.Fprintf(&b, "  T%d is %v: client %d in %s, sent at %s, ", k+1, t.id, t.client, x.h.regions[t.region], instant(t.invoked))
		switch t.status {
		case txn.Committed:
			fmt.Fprintf(&b, "committed at %s\n", instant(t.answered))
		case txn.Unknown:
			b.WriteString("outcome unknown\n")
		default:
			fmt.Fprintf(&b, "aborted at %s\n", instant(t.answered))
		}
	}
	return b.String()
}

// witnesses returns the named transactions.
func (x *explainer) witnesses() (w []Witness) {
	for _, i := range x.named {
		t := &x.h.txns[i]
		w = append(w, Witness{
			Txn{ID: t.id, Client: t.client, Invoked: t.invoked, Answered: t.answered, Status: t.status}, x.h.regions[t.region],
		})
	}
	return w
}

// version describes a version of the current row.
func (x *explainer) version(id txn.ID) string {
	if id == Initial {
		return "the initial version"
	}
	for k, i := range x.named {
		if x.h.txns[i].id == id {
			return fmt.Sprintf("the version of T%d", k+1)
		}
	}
	return fmt.Sprintf("the version of %v", id)
}

func (x *explainer) id(i uint32) txn.ID { return x.h.txns[i].id }

// cycle returns the steps of a cycle, and its explanation.
func (x *explainer) cycle(a Anomaly, cycle []hop) (steps []Step, explanation string) {
	// For a reader, it is easiest to start with a read that another transaction's write made stale, and to end with the
	// order in time.
	if k := slices.IndexFunc(cycle, func(h hop) bool { return h.dependency == RW || h.dependency == PredicateRW }); k > 0 {
		cycle = slices.Concat(cycle[k:], cycle[:k])
	}
	for _, h := range cycle {
		x.name(h.from)
	}
	for k, h := range cycle {
		s := x.step(h)
		steps = append(steps, s)
		if out, n := left(k, len(cycle)); out {
			if n > 0 {
				fmt.Fprintf(&x.text, "... and so on for %d more ...\n", n)
			}
			continue
		}
		order := "%s comes before %s, because %s"
		switch {
		// With snapshots, an anti-dependency orders a start before a commit, and any other dependency a commit before a
		// start: see graph.components.
		case x.snapshots && (h.dependency == RW || h.dependency == PredicateRW):
			order = "%s starts before %s commits, because %s"
		case x.snapshots:
			order = "%s commits before %s starts, because %s"
		}
		fmt.Fprintf(&x.text, order, x.name(h.from), x.name(h.to), s.Text)
		if k == len(cycle)-1 {
			x.text.WriteString(": a contradiction")
		}
		x.text.WriteString(".\n")
	}
	explains := fmt.Sprintf("no order of these %d transactions explains", len(cycle))
	if x.snapshots {
		explains = fmt.Sprintf("no snapshots of these %d transactions explain", len(cycle))
	}
	return steps, fmt.Sprintf("%s%s: %s what they saw.\n%s%s", a, commonName(cycle), explains, x.introduce(),
		strings.TrimSuffix(x.text.String(), "\n"))
}

// step describes an edge.
func (x *explainer) step(h hop) Step {
	s := Step{From: x.id(h.from), To: x.id(h.to), Dependency: h.dependency}
	a, b := x.name(h.from), x.name(h.to)
	from, to := &x.h.txns[h.from], &x.h.txns[h.to]
	key := ""
	meet := func(o *op) {
		s.Key, key = x.h.keys[o.key], x.key(o.key)
	}
	switch h.dependency {
	case Session:
		s.Text = fmt.Sprintf("client %d in %s had the answer to %s before it sent %s", from.client, x.h.regions[from.region], a, b)
	case RealTime:
		s.Text = fmt.Sprintf("%s was answered at %s, before %s was sent at %s", a, instant(from.answered), b, instant(to.invoked))
	case WR:
		for k := range x.h.opsOf(h.to) {
			if o := &x.h.opsOf(h.to)[k]; o.read() && o.known() && o.version == s.From {
				meet(o)
				s.Version = s.From
				s.Text = fmt.Sprintf("%s read %s as %s had written it", b, key, a)
				if o.gone() {
					s.Text = fmt.Sprintf("%s found %s missing after %s had deleted it", b, key, a)
				}
				break
			}
		}
	case WW:
		s.Version = s.From
		// A write with a report of the overwritten version proves the order directly, so it makes the better explanation.
		o, direct := x.replaced(h.to, func(w *op) bool { return w.known() && w.version == s.From }, func(k uint32) bool { return x.wrote(h.from, k) })
		meet(o)
		s.Text = fmt.Sprintf("%s overwrote the version of %s that %s had written", b, key, a)
		if !direct {
			s.Text = fmt.Sprintf("%s wrote %s after %s had written it", b, key, a)
		}
	case RW, PredicateRW:
		// read is the operation that saw the replaced version; scan is the scan that did not find the row.
		var read, scan *op
		ops := x.h.opsOf(h.from)
		saw := func(k uint32, match func(*op) bool) bool {
			for j := range ops {
				if o := &ops[j]; o.read() && o.key == k && match(o) {
					// For a predicate dependency, the read must be of a deleted row that a later scan of the transaction covers.
					if scan = x.scanOf(ops[j:], k); h.dependency == RW || o.gone() && scan != nil {
						read = o
						return true
					}
				}
			}
			return false
		}
		unmet := func(k uint32) bool {
			met := slices.IndexFunc(ops, func(o op) bool { return !o.scan() && o.key == k })
			if met < 0 {
				met = len(ops)
			}
			scan = x.scanOf(ops[:met], k)
			return h.dependency == PredicateRW && scan != nil
		}
		o, _ := x.replaced(h.to, func(w *op) bool {
			return w.known() && (w.version == Initial && unmet(w.key) || saw(w.key, func(r *op) bool { return r.known() && r.version == w.version }))
		}, func(k uint32) bool {
			return unmet(k) || saw(k, func(r *op) bool { return r.version != s.To })
		})
		meet(o)
		did := "wrote"
		if o.write() && o.gone() {
			did = "deleted"
		}
		if read != nil {
			s.Version = read.version
		}
		switch {
		case h.dependency == PredicateRW:
			s.Text = fmt.Sprintf("%s looked at the rows %s and met no %s before %s %s it", a, x.rangeOf(scan), key, b, did)
		case read.gone():
			s.Text = fmt.Sprintf("%s found %s missing before %s %s it", a, key, b, did)
		default:
			s.Text = fmt.Sprintf("%s read %s before %s %s it (it saw %s)", a, key, b, did, x.version(read.version))
		}
	}
	return s
}

// scanOf returns the first of ops that is a scan of a range with row k, or nil.
func (x *explainer) scanOf(ops []op, k uint32) *op {
	for i := range ops {
		if o := &ops[i]; o.scan() && x.h.bounds[o.key] <= x.h.keys[k] && x.h.keys[k] < x.h.bounds[o.version] {
			return o
		}
	}
	return nil
}

// rangeOf describes the range of a scan.
func (x *explainer) rangeOf(o *op) string {
	return fmt.Sprintf("from %s up to %s", x.nameOf(x.h.bounds[o.key]), x.nameOf(x.h.bounds[o.version]))
}

// replaced returns a write of transaction i that reports its overwritten version and that direct accepts. If there is
// none, it returns a write without such a report, of a key that infer accepts. If i has reported no operations, the
// result may be another transaction's read of a version that i wrote.
func (x *explainer) replaced(i uint32, direct func(*op) bool, infer func(key uint32) bool) (o *op, isDirect bool) {
	ops := x.h.opsOf(i)
	for k := range ops {
		if o := &ops[k]; o.write() && direct(o) {
			return o, true
		}
	}
	for k := range ops {
		if o := &ops[k]; o.write() && infer(o.key) {
			return o, false
		}
	}
	for k := range x.h.ops {
		if o := &x.h.ops[k]; o.known() && x.writer[k] == i && infer(o.key) {
			return o, false
		}
	}
	panic("history: an edge without a reason")
}

// wrote reports whether transaction i wrote key k, according to its own or to other transactions' operations.
func (x *explainer) wrote(i, k uint32) bool {
	for _, o := range x.h.opsOf(i) {
		if o.write() && o.key == k {
			return true
		}
	}
	for j := range x.h.ops {
		if o := &x.h.ops[j]; o.key == k && o.known() && x.writer[j] == i {
			return true
		}
	}
	return false
}

// direct explains an anomaly that needs no cycle.
func (x *explainer) direct(v *Verdict, e *evidence) {
	a, b, key := x.name(e.a), "", ""
	if e.b != initial {
		b = x.name(e.b)
	}
	if v.Anomaly != DuplicateID {
		key = x.key(e.key)
	}
	step := func(from, to uint32, d Dependency, text string) {
		s := Step{From: x.id(from), To: x.id(to), Dependency: d, Version: e.version, Text: text}
		if v.Anomaly != DuplicateID {
			s.Key = x.h.keys[e.key]
		}
		v.Cycle = append(v.Cycle, s)
	}
	var head, text string
	switch v.Anomaly {
	case DuplicateID:
		head = "two transactions have the same id, so the history means nothing"
		text = fmt.Sprintf("%s and %s are different transactions.", a, b)
	case GarbageRead:
		head = "a version turned up that nobody wrote"
		text = fmt.Sprintf("%s saw %s in a version of transaction %v, which is not in the history.", a, key, e.version)
		switch {
		case e.found != unknownPresence:
			head = "a row was there and missing in one version"
			found, other, did := "there", "missing", "deleted it"
			if e.found == gone {
				found, other, did = "missing", "there", "written it"
			}
			// The writer of a version knows whether the version contains a row; otherwise b observed it.
			if x.id(e.b) == e.version {
				text = fmt.Sprintf("%s found %s %s in the version in which %s had %s.", a, key, found, b, did)
			} else {
				text = fmt.Sprintf("%s found %s %s in %s, and %s found it %s.", a, key, found, x.version(e.version), b, other)
			}
		case e.b != initial:
			text = fmt.Sprintf("%s saw %s in a version of %s, which did not write it.", a, key, b)
		}
	case PredicateReadMiss:
		head = "a scan did not meet a row of its range, which was there"
		text = fmt.Sprintf("%s looked at the rows %s and met no %s. It was loaded, since %s found it there, and no deletion explains this.",
			a, x.rangeOf(x.scanOf(x.h.opsOf(e.a), e.key)), key, b)
	case G1a, DirtyUpdate:
		head, text = "what an aborted transaction wrote was read", fmt.Sprintf("%s read %s as %s had written it, but %s was aborted.", a, key, b, b)
		d := WR
		if v.Anomaly == DirtyUpdate {
			d = WW
			head, text = "what an aborted transaction wrote was overwritten", fmt.Sprintf("%s overwrote the version of %s that %s had written, but %s was aborted.", a, key, b, b)
		}
		step(e.b, e.a, d, text)
	case G1b:
		head = "what a transaction wrote on its way was read"
		text = fmt.Sprintf("%s read %s as %s had written it with write %d of %d.", a, key, b, e.nth, e.of)
		step(e.b, e.a, WR, text)
	case Internal:
		head = "a transaction contradicts itself"
		text = fmt.Sprintf("%s read %s and found %s, although it had read or written another before.", a, key, x.version(e.version))
		if e.version == x.id(e.a) {
			text = fmt.Sprintf("%s saw %s in a version of its own that it had not written yet.", a, key)
		}
	case IncompatibleOrder, LostUpdate:
		head = "two transactions replaced the same version, so one of them never happened"
		did := "overwrote"
		if v.Anomaly == LostUpdate {
			head = "two transactions read the same version and replaced it, so one of them never happened"
			did = "read and overwrote"
		}
		text = fmt.Sprintf("%s and %s both %s %s of %s.", b, a, did, x.version(e.version), key)
		step(e.b, e.a, RW, fmt.Sprintf("%s saw %s of %s, which %s replaced", b, x.version(e.version), key, a))
		step(e.a, e.b, RW, fmt.Sprintf("%s saw %s of %s, which %s replaced", a, x.version(e.version), key, b))
	}
	v.Explanation = fmt.Sprintf("%s: %s.\n%s%s", v.Anomaly, head, x.introduce(), text)
	if n := v.Stats.Found[v.Anomaly]; n > 1 {
		v.Explanation += fmt.Sprintf("\nIt happened %d times; this is the first.", n)
	}
}
