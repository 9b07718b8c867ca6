//go:build full

package wan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// tableName is the name of the sidecar's tables in the families ip and ip6.
	tableName = "geobench-wan"
	chainName = "arrivals"
	// firstQueue is the number of the first packet queue.
	firstQueue = 7100
	// elementsAtOnce is the number of addresses per message: netlink attributes are limited to 64 KiB.
	elementsAtOnce = 500
	rulesBuffer    = 16 << 20
)

// ruleset selects the packets that the kernel queues: packets from the addresses of each queue, except packets of
// exempt ports.
type ruleset struct {
	// queues maps links to queue numbers.
	queues map[string]uint16
	spans4 []span
	spans6 []span
	exempt []int
	// bypass lets packets pass while no process has bound the queue.
	bypass bool
}

// queueStatement returns the expression with which a rule queues a packet. There are two such expressions; a kernel
// supports at least one of them.
type queueStatement func(queue uint16, bypass bool) expr.Any

var queueStatements = []struct {
	name      string
	statement queueStatement
}{
	{"the statement queue", func(queue uint16, bypass bool) expr.Any {
		q := &expr.Queue{Num: queue, Total: 1}
		if bypass {
			q.Flag = expr.QueueFlagBypass
		}
		return q
	}},
	{"the target NFQUEUE", func(queue uint16, bypass bool) expr.Any {
		// struct xt_NFQ_info_v3: queue number, number of queues, flags
		info := native.AppendUint16(native.AppendUint16(native.AppendUint16(nil, queue), 1), 0)
		if bypass {
			native.PutUint16(info[4:], 1)
		}
		info = append(info, 0, 0) // xtables aligns to 8 bytes
		unknown := xt.Unknown(info)
		return &expr.Target{Name: "NFQUEUE", Rev: 3, Info: &unknown}
	}},
}

// rules installs rules in the network namespace of the process.
type rules struct {
	// works is the index of the queue statement that this kernel supports; -1 if not known yet.
	works int
}

func newRules() *rules { return &rules{works: -1} }

func connect() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(rulesBuffer), c.SetReadBuffer(rulesBuffer))
	}))
}

// install replaces the existing rules, including the rules of another process. No packet passes without matching either
// the old or the new rules. It keeps the chains. When a chain is removed from its hook, the kernel drops every queued
// packet of the network namespace, and does not count the drops.
func (r *rules) install(set *ruleset) error {
	if r.works < 0 {
		// Test the statement separately, because a ruleset without addresses does not contain it.
		var failures []error
		for i, q := range queueStatements {
			err := probe(q.statement)
			if err == nil {
				r.works = i
				break
			}
			failures = append(failures, fmt.Errorf("with %s: %w", q.name, err))
		}
		if r.works < 0 {
			return fmt.Errorf("netfilter rules: %w", errors.Join(failures...))
		}
	}
	if err := r.try(set, queueStatements[r.works].statement); err != nil {
		return fmt.Errorf("netfilter rules with %s: %w", queueStatements[r.works].name, err)
	}
	return nil
}

// probe tests whether the kernel accepts a statement. It uses a table that the same transaction deletes again.
func probe(statement queueStatement) error {
	c, err := connect()
	if err != nil {
		return err
	}
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName + "-probe"})
	chain := c.AddChain(&nftables.Chain{Name: chainName, Table: table})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{statement(firstQueue, true)}})
	c.DelTable(table)
	return c.Flush()
}

// try inserts new rules before the existing rules, and removes the existing rules in a second transaction. With a
// single transaction, packets occasionally pass (Linux 6.18): the kernel matches them against the rules of one
// generation and the sets of the other.
func (r *rules) try(set *ruleset, statement queueStatement) error {
	c, err := connect()
	if err != nil {
		return err
	}
	var before []remains
	for _, family := range families {
		spans := set.spans4
		if family == nftables.TableFamilyIPv6 {
			spans = set.spans6
		}
		there, err := tables(c, family)
		if err != nil {
			return err
		}
		if len(spans) == 0 && len(there) == 0 && family == nftables.TableFamilyIPv6 {
			continue
		}
		var old remains
		if len(there) > 0 {
			if old, err = remainsOf(c, there[0]); err != nil {
				return err
			}
			before = append(before, old)
		}
		if err := fill(c, set, family, spans, statement, old); err != nil {
			return err
		}
	}
	if err := c.Flush(); err != nil || len(before) == 0 {
		return err
	}
	for _, old := range before {
		if err := old.remove(c); err != nil {
			return err
		}
	}
	return c.Flush()
}

// remains holds the old rules and sets of a table, which new ones replace.
type remains struct {
	rules []*nftables.Rule
	sets  []*nftables.Set
}

func remainsOf(c *nftables.Conn, table *nftables.Table) (old remains, err error) {
	chain := &nftables.Chain{Name: chainName, Table: table}
	if old.rules, err = c.GetRules(table, chain); err != nil {
		return remains{}, fmt.Errorf("rules of netfilter table %s: %w", tableName, err)
	}
	if old.sets, err = c.GetSets(table); err != nil {
		return remains{}, fmt.Errorf("sets of netfilter table %s: %w", tableName, err)
	}
	for _, s := range old.sets {
		s.Table = table
	}
	return old, nil
}

// free returns name, with a suffix if necessary, so that no existing set has this name.
func (old remains) free(name string) string {
	// The old sets exist until remove is called, so the new sets need different names.
	for slices.ContainsFunc(old.sets, func(s *nftables.Set) bool { return s.Name == name }) {
		name += "-next"
	}
	return name
}

func (old remains) remove(c *nftables.Conn) error {
	for _, r := range old.rules {
		if err := c.DelRule(r); err != nil {
			return err
		}
	}
	for _, s := range old.sets {
		c.DelSet(s)
	}
	return nil
}

var families = []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6}

// hooked creates the table and its chain if they do not exist.
func hooked(c *nftables.Conn, family nftables.TableFamily) (*nftables.Table, *nftables.Chain) {
	table := c.AddTable(&nftables.Table{Family: family, Name: tableName})
	// The hook precedes connection tracking and address translation.
	chain := c.AddChain(&nftables.Chain{
		Name: chainName, Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw,
	})
	return table, chain
}

// quiet makes the rules queue no further packets. Packets that are already queued stay in their queues.
func quiet() error {
	c, err := connect()
	if err != nil {
		return err
	}
	for _, family := range families {
		there, err := tables(c, family)
		if err != nil {
			return err
		}
		if len(there) > 0 {
			_, chain := hooked(c, family)
			c.FlushChain(chain)
		}
	}
	return c.Flush()
}

// fill adds rules and sets to a table, before the old rules and sets.
func fill(c *nftables.Conn, set *ruleset, family nftables.TableFamily, spans []span, statement queueStatement, old remains) error {
	table, chain := hooked(c, family)
	var rules []*nftables.Rule
	for _, port := range set.exempt {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			for _, offset := range []uint32{0, 2} { // source and destination
				rules = append(rules, &nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
					&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
					&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
					&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
					&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(uint16(port))},
					&expr.Verdict{Kind: expr.VerdictAccept},
				}})
			}
		}
	}
	kind, source := nftables.TypeIPAddr, expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	if family == nftables.TableFamilyIPv6 {
		kind, source = nftables.TypeIP6Addr, expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	}
	byQueue := map[uint16][]span{}
	for _, s := range spans {
		queue := set.queues[s.link]
		byQueue[queue] = append(byQueue[queue], s)
	}
	numbers := make([]uint16, 0, len(byQueue))
	for queue := range byQueue {
		numbers = append(numbers, queue)
	}
	// Sort the numbers, so that equal rulesets give equal rules.
	slices.Sort(numbers)
	for _, queue := range numbers {
		s := &nftables.Set{Table: table, Name: old.free(fmt.Sprintf("queue%d", queue)), KeyType: kind, Interval: true}
		if err := c.AddSet(s, nil); err != nil {
			return err
		}
		for part := range slices.Chunk(byQueue[queue], elementsAtOnce) {
			if err := c.SetAddElements(s, elements(part)); err != nil {
				return err
			}
		}
		from := source
		rules = append(rules, &nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&from,
			&expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID},
			statement(queue, set.bypass),
		}})
	}
	// Each rule is inserted at the front of the chain, so the last rule must be inserted first.
	for _, r := range slices.Backward(rules) {
		c.InsertRule(r)
	}
	return nil
}

// elements returns the bounds of spans in the form of an interval set: the first address of each span, and the first
// address after it.
func elements(spans []span) []nftables.SetElement {
	var out []nftables.SetElement
	for _, s := range spans {
		out = append(out, nftables.SetElement{Key: s.first.AsSlice()})
		// The highest address has no successor; its interval remains open.
		if end := s.last.Next(); end.IsValid() {
			out = append(out, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}

func tables(c *nftables.Conn, family nftables.TableFamily) ([]*nftables.Table, error) {
	all, err := c.ListTablesOfFamily(family)
	if err != nil {
		return nil, fmt.Errorf("netfilter tables: %w", err)
	}
	return slices.DeleteFunc(all, func(t *nftables.Table) bool { return t.Name != tableName }), nil
}

// Cleanup removes everything that sidecars have left in the network namespace of the process, and reports whether there
// was anything.
func Cleanup() (bool, error) {
	c, err := connect()
	if err != nil {
		return false, err
	}
	found := false
	for _, family := range families {
		there, err := tables(c, family)
		if err != nil {
			return false, err
		}
		for _, t := range there {
			c.DelTable(t)
			found = true
		}
	}
	if !found {
		return false, nil
	}
	if err := c.Flush(); err != nil {
		return false, fmt.Errorf("remove netfilter table %s: %w", tableName, err)
	}
	return true, nil
}

// ownAddresses returns matches without a link for addrs, the addresses of the network namespace's interfaces.
func ownAddresses(addrs []netip.Addr) []match {
	var out []match
	for _, a := range addrs {
		out = append(out, match{prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return out
}
