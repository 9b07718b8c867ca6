package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Fault is a fault of the run's timeline: its plan, its actual times, and its effect on the throughput. All times count
// from the start of measuring.
type Fault struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// AtMicroseconds and DurationMicroseconds are the manifest's.
	AtMicroseconds       int64 `json:"atMicroseconds"`
	DurationMicroseconds int64 `json:"durationMicroseconds,omitempty"`
	// ToleranceMicroseconds is by how much the true times may be off.
	ToleranceMicroseconds int64 `json:"toleranceMicroseconds,omitempty"`
	// Targets are the nodes or links that were hit.
	Targets []string `json:"targets,omitempty"`
	// From is the start of injection, and Injected the time at which the fault was injected everywhere. Recovering is the
	// start of its removal, and To the time at which it was completely removed. nil means never.
	FromMicroseconds       *int64 `json:"fromMicroseconds,omitempty"`
	InjectedMicroseconds   *int64 `json:"injectedMicroseconds,omitempty"`
	RecoveringMicroseconds *int64 `json:"recoveringMicroseconds,omitempty"`
	ToMicroseconds         *int64 `json:"toMicroseconds,omitempty"`
	// Lasting faults were not removed: the nodes' data was lost with their processes.
	Lasting bool `json:"lasting,omitempty"`
	// Lost are the nodes that were lost permanently.
	Lost []string `json:"lost,omitempty"`
	// Restarted are the nodes that stopped and recovered. They continued from their disks, except for the nodes in
	// Replaced. Those had lost all state and obtained it from other nodes. From Recovering to To is the time until every
	// copy was available again and counted.
	Restarted []string `json:"restarted,omitempty"`
	Replaced  []string `json:"replaced,omitempty"`
	// Injector is the component that injected the fault on a cluster: BuiltIn, Sidecar, ChaosMesh or Kubernetes.
	Injector string `json:"injector,omitempty"`
	// Problem is the reason why the fault did not go as planned; the run is then Invalid. Message holds further
	// information.
	Problem string `json:"problem,omitempty"`
	Message string `json:"message,omitempty"`
	// Availability is nil if there was less than a second to measure before the fault. It is also nil if there was less
	// than a second after a fault that lasts or is immediately over.
	Availability *Availability `json:"availability,omitempty"`
}

// Availability is the effect of a fault on the throughput, as measured by Dike (Zhang et al., Dike, section 6).
// Resilience is R = 1 - |TPS_fault - TPS_normal| / TPS_normal, and recovery is T = 1 / (t_recover + 1), with t in
// seconds. Instants have a resolution of a tenth of a second. The throughput at an instant is the mean over the second
// that starts there.
type Availability struct {
	// NormalPerSecond is the throughput over at most the last 10 s before the fault. FaultPerSecond is the throughput
	// while the fault was injected everywhere. For a lasting fault it covers at most 10 s. For a fault that was
	// immediately over, it covers the second from its start.
	NormalPerSecond int64 `json:"normalPerSecond"`
	FaultPerSecond  int64 `json:"faultPerSecond"`
	// MendingPerSecond is the throughput from the time at which the fault first ended somewhere. It stops when the lost
	// resources are available again, such as the rows of a lost node, or when the next fault starts. It is nil if that
	// took less than a second.
	MendingPerSecond *int64 `json:"mendingPerSecond,omitempty"`
	// RPPM is R in parts per million. It is negative when the throughput more than doubled.
	RPPM int64 `json:"rPPM"`
	// WithinChance is true of a region where the throughput before and during the fault differs by no more than three
	// standard deviations of Poisson counts: R then says nothing.
	WithinChance bool `json:"withinChance,omitempty"`
	// TPPM is T in parts per million: 0 when the throughput did not recover. It is nil when too little time was left to
	// decide, or when another fault that started later was not over.
	TPPM *int64 `json:"tPPM,omitempty"`
	// DetectMicroseconds is the time from From until clients first observed less than 95% of the normal throughput; nil if
	// that never happened.
	DetectMicroseconds *int64 `json:"detectMicroseconds,omitempty"`
	// RecoverMicroseconds is the time from To (From, for a lasting fault) until clients observed 95% again and did not
	// relapse within three seconds. A relapse is a second that is below three quarters by more than three standard
	// deviations of a Poisson count. It is nil if this did not happen before the next fault or the end of measuring.
	RecoverMicroseconds *int64 `json:"recoverMicroseconds,omitempty"`
	// OutageMicroseconds is the longest time without a commit, from From to the next fault or the end of measuring.
	OutageMicroseconds int64 `json:"outageMicroseconds"`
	// Aborted and Failed count the aborted and the failed (refused or unknown) transactions that finished between From and
	// To. For a fault that was immediately over, they cover the second from From.
	Aborted int64 `json:"aborted"`
	Failed  int64 `json:"failed"`
}

const (
	tenth         = int64(100_000) // microseconds
	perSecond     = 10             // tenths
	baseline      = 10 * perSecond // of the normal throughput, at most
	lastingPeriod = 10 * perSecond
	recovered     = 950_000 // of the normal throughput, in parts per million
	relapsed      = 750_000
)

// counted are the transactions that ended in a tenth of a second.
type counted struct{ committed, aborted, failed int64 }

// tenths is a timeline in tenths of a second, for all clients or for one region's.
type tenths struct {
	counts []counted
	// sigmas is the number of standard deviations of a Poisson count that is added to the margin of 5%. A second must fall
	// short of the normal throughput by more than both to be below it. It is 0 for the whole database, as in Dike. A
	// single region commits few transactions a second.
	sigmas float64
}

func (t *tenths) len() int { return len(t.counts) }

func (t *tenths) committed(from, to int) (sum int64) {
	for _, x := range t.counts[from:to] {
		sum += x.committed
	}
	return sum
}

// add counts the tenths of a second of the timeline.
func (t *tenths) add(second int, x *Tenths) {
	for k := range perSecond {
		if i := second*perSecond + k; i < len(t.counts) {
			c := &t.counts[i]
			c.committed += x.Committed[k]
			c.aborted += x.Aborted[k]
			c.failed += x.Failed[k]
		}
	}
}

// fillFaults marks the faults in the timeline and measures their effect on all clients and on each region's clients.
func (d *Document) fillFaults(r *Report) {
	if len(d.Faults) == 0 {
		return
	}
	slices.SortStableFunc(d.Faults, func(a, b Fault) int { return cmp.Compare(a.begin(), b.begin()) })
	all, fine := d.tenths(0), false
	regions := map[string]*tenths{}
	for i := range d.Regions {
		regions[d.Regions[i].Name] = d.tenths(chanceSigmas)
	}
	for i := range d.Timeline {
		t := &d.Timeline[i]
		for _, f := range d.Faults {
			from, to := int64(t.Second)*perSecond*tenth, int64(t.end())*perSecond*tenth
			if f.FromMicroseconds != nil && *f.FromMicroseconds < to && (f.ToMicroseconds == nil || *f.ToMicroseconds >= from) {
				t.Faults = append(t.Faults, f.Name)
			}
		}
		if t.Tenths != nil {
			fine = true
			all.add(i, t.Tenths)
		}
	}
	if what := d.varies(); fine && what != "" {
		d.Notes = append(d.Notes, fmt.Sprintf("what the faults did to the throughput is not measured: %s changes it as well", what))
		return
	}
	if !fine {
		return
	}
	for i := range r.Timeline {
		if s := &r.Timeline[i]; s.Repetition == 1 && s.Tenths != nil && regions[s.Region] != nil {
			regions[s.Region].add(s.Second, s.Tenths)
		}
	}
	for i, a := range all.effects(d.Faults) {
		d.Faults[i].Availability = a
	}
	for i := range d.Regions {
		x := &d.Regions[i]
		for j, a := range regions[x.Name].effects(d.Faults) {
			x.Faults = append(x.Faults, FaultEffect{d.Faults[j].Name, a})
		}
	}
}

// varies names the field of the manifest by which the load changes while it is measured; empty if it does not.
func (d *Document) varies() string {
	switch w := &d.Spec.Workload; {
	case d.Spec.Load.Curve != nil:
		return "spec.load.curve"
	case w.SmallBank != nil && len(w.SmallBank.MixPhases) > 1:
		return "spec.workload.smallbank.mixPhases"
	case w.RMW != nil && len(w.RMW.MixPhases) > 1:
		return "spec.workload.rmw.mixPhases"
	}
	return ""
}

// chanceSigmas is tenths.sigmas of a region, and the tolerance of the relapse check.
const chanceSigmas = 3

// tenths returns an empty timeline as long as the document's; the last tenth of a window may be a part only, and is
// omitted.
func (d *Document) tenths(sigmas float64) *tenths {
	n := len(d.Timeline) * perSecond
	if whole := int(d.Spec.Load.Duration.Duration / (100 * time.Millisecond)); whole > 0 {
		n = min(n, whole)
	}
	return &tenths{make([]counted, n), sigmas}
}

// effects measures the availability of each fault, nil if there is nothing to compare with. Faults are in order of
// their start.
func (t *tenths) effects(faults []Fault) []*Availability {
	out := make([]*Availability, len(faults))
	clean := 0          // the tenth from which on nothing is left of earlier faults
	normal := int64(-1) // the last normal throughput, in committed transactions per million seconds
	for i := range faults {
		f := &faults[i]
		if f.FromMicroseconds == nil {
			continue
		}
		from := int(*f.FromMicroseconds / tenth)
		if from > t.len() {
			continue
		}
		// Faults that begin together with others, or while they last, are compared with the time before all of them.
		if begin := max(clean, from-baseline); from-begin >= perSecond {
			normal = ratio(int64(from-begin), 1, t.committed(begin, from), perSecond, 1_000_000)
		}
		limit := t.len()
		for _, g := range faults[i+1:] { // faults that start together count as one fault for the throughput
			if g.FromMicroseconds != nil && int(*g.FromMicroseconds/tenth) > from {
				limit = min(limit, int(*g.FromMicroseconds/tenth))
			}
		}
		if normal > 0 {
			out[i] = t.availability(f, from, limit, t.recoverLimit(f, faults[i+1:]), normal)
		}
		switch a := out[i]; {
		case f.ToMicroseconds == nil:
			clean = t.len()
			if a != nil && a.RecoverMicroseconds != nil {
				clean = from + int(*a.RecoverMicroseconds/tenth)
			}
		case a != nil && a.RecoverMicroseconds == nil:
			clean = max(clean, limit)
		default:
			clean = max(clean, int((*f.ToMicroseconds+tenth-1)/tenth))
			if a != nil {
				clean = max(clean, int((*f.ToMicroseconds+*a.RecoverMicroseconds+tenth-1)/tenth))
			}
		}
	}
	return out
}

// begin orders faults; faults that never started are last.
func (f *Fault) begin() int64 {
	if f.FromMicroseconds == nil {
		return 1<<63 - 1
	}
	return *f.FromMicroseconds
}

// recoverLimit is the tenth up to which the recovery of a fault is distinguishable from the effects of later faults. It
// is 0 if a later fault still lasts when the fault is over.
func (t *tenths) recoverLimit(f *Fault, later []Fault) int {
	limit, over := t.len(), f.ToMicroseconds
	if over == nil {
		over = f.FromMicroseconds
	}
	for i := range later {
		g := &later[i]
		switch {
		case g.FromMicroseconds == nil, g.ToMicroseconds != nil && *g.ToMicroseconds <= *over:
		case f.ToMicroseconds == nil && *g.FromMicroseconds/tenth == *over/tenth:
		case *g.FromMicroseconds < *over:
			return 0
		default:
			limit = min(limit, int(*g.FromMicroseconds/tenth))
		}
	}
	return limit
}

// width returns the number of tenths over which a throughput is compared with the normal throughput, in transactions
// per million seconds. It is a second, or longer: long enough that a time without any commit is significantly below the
// recovered share.
func (t *tenths) width(normal int64) int {
	expected := chanceSigmas / (float64(recovered) / 1e6) // the square root of the number of commits that it takes
	return max(perSecond, int(math.Ceil(expected*expected/(float64(normal)/1e6)*perSecond)))
}

// availability reckons a fault's figures, up to the tenth limit and, of its recovery, recoverLimit. normal is in
// transactions per million seconds. It is nil where there is too little time.
func (t *tenths) availability(f *Fault, from, limit, recoverLimit int, normal int64) *Availability {
	a := &Availability{NormalPerSecond: ratio(1_000_000, 1, normal)}
	ceil := func(us int64) int { return int((us + tenth - 1) / tenth) }
	// The time when the fault was everywhere.
	begin, end := from, min(from+lastingPeriod, limit)
	if f.InjectedMicroseconds != nil {
		begin = ceil(*f.InjectedMicroseconds)
	}
	if begin >= t.len() {
		return nil
	}
	over := end // of the time in which errors count
	if f.RecoveringMicroseconds != nil {
		end = min(int(*f.RecoveringMicroseconds/tenth), t.len())
	}
	if f.ToMicroseconds != nil {
		over = min(ceil(*f.ToMicroseconds), t.len())
	}
	atOnce := f.RecoveringMicroseconds != nil && end <= begin // it was over before a tenth was
	if atOnce {
		begin, end = from, min(from+perSecond, limit)
		over = max(over, end)
	}
	if (atOnce || f.RecoveringMicroseconds == nil) && end-begin < perSecond {
		return nil
	}
	during := ratio(int64(end-begin), 1, t.committed(begin, end), perSecond, 1_000_000)
	a.FaultPerSecond = ratio(1_000_000, 1, during)
	if f.RecoveringMicroseconds != nil && f.ToMicroseconds != nil {
		if begin, end := max(from, ceil(*f.RecoveringMicroseconds)), min(int(*f.ToMicroseconds/tenth), limit); end-begin >= perSecond {
			mending := ratio(int64(end-begin), 1, t.committed(begin, end), perSecond)
			a.MendingPerSecond = &mending
		}
	}
	if t.sigmas > 0 {
		expected := float64(normal) / 1e6 * float64(end-begin) / perSecond
		a.WithinChance = math.Abs(float64(t.committed(begin, end))-expected) <= t.sigmas*math.Sqrt(2*expected)
	}
	a.RPPM = 1_000_000 - ratio(normal, 1, max(during-normal, normal-during), 1_000_000)
	for _, x := range t.counts[from:max(from, over)] {
		a.Aborted += x.aborted
		a.Failed += x.failed
	}
	// width is the time, in tenths, over which a throughput is compared: a second, or as long as it takes until the
	// absence of commits is significant.
	width := t.width(normal)
	// below reports whether the interval of that width from i has less than a share of the normal throughput. The
	// shortfall must exceed the given number of standard deviations of the expected Poisson count.
	below := func(i int, share int64, sigmas float64) bool {
		expected := float64(normal) / 1e6 * float64(width) / perSecond
		short := expected*float64(share)/1e6 - float64(t.committed(i, i+width))
		return short > 0 && short > sigmas*math.Sqrt(expected)
	}
	// stays reports whether no second that starts within the next three seconds falls significantly below three quarters
	// of the normal throughput. The throughput of a real database varies by more than a Poisson count.
	stays := func(i int) bool {
		for j := i + 1; j <= i+3*width && j+width <= recoverLimit; j++ {
			if below(j, relapsed, chanceSigmas) {
				return false
			}
		}
		return true
	}
	for i := from; i < max(over, from+1) && i+width <= limit; i++ {
		if below(i, recovered, t.sigmas) {
			us := max(0, int64(i)*tenth-*f.FromMicroseconds)
			a.DetectMicroseconds = &us
			break
		}
	}
	back, known := from, f.Lasting
	if f.ToMicroseconds != nil {
		back, known = ceil(*f.ToMicroseconds), true
	}
	if known && back+width <= recoverLimit {
		t0 := int64(0)
		a.TPPM = &t0
		first := int64(back) * tenth
		if f.Lasting && a.DetectMicroseconds != nil {
			// From the dip on, so that the second in which the fault began does not count as its end.
			back = ceil(*f.FromMicroseconds + *a.DetectMicroseconds)
			first = *f.FromMicroseconds
		}
		for i := back; i+width <= recoverLimit; i++ {
			if !below(i, recovered, t.sigmas) && stays(i) {
				us := int64(i)*tenth - first
				ppm := ratio(us+1_000_000, 1, 1_000_000, 1_000_000)
				a.RecoverMicroseconds, a.TPPM = &us, &ppm
				break
			}
		}
	}
	longest, silent := 0, 0
	for _, x := range t.counts[from:limit] {
		if silent++; x.committed > 0 {
			silent = 0
		}
		longest = max(longest, silent)
	}
	a.OutageMicroseconds = int64(longest) * tenth
	return a
}

// faultRows are the rows of a table of the faults; nil when there are none.
func faultRows(d *Document) [][]string {
	if len(d.Faults) == 0 {
		return nil
	}
	rows := [][]string{{"FAULT", "FROM", "TO", "TXN/S", "DURING", "MENDING", "R", "T", "DETECTED", "RECOVERED", "OUTAGE", "ERRORS"}}
	for i := range d.Faults {
		f := &d.Faults[i]
		rows = append(rows, append([]string{f.Name, instant(f.FromMicroseconds, "never"), instant(f.ToMicroseconds, "stays")}, f.Availability.cells()...))
	}
	return rows
}

// RegionEffect is the effect of a fault on the clients of a region.
type RegionEffect struct {
	Region string
	*Availability
}

// WorstRegions returns the regions that fault i hit hardest. The first is the region that kept the smallest share of
// its throughput. If they differ from it, the region that recovered last and the region with the longest time without a
// commit follow. There are none if there is only one region or nothing was measured. A region whose throughput differs
// insignificantly is not the hardest hit if there are others.
func (d *Document) WorstRegions(i int) (out []RegionEffect) {
	if len(d.Regions) < 2 {
		return nil
	}
	var hit, all, slow, silent []RegionEffect
	for j := range d.Regions {
		r := &d.Regions[j]
		if i >= len(r.Faults) || r.Faults[i].Availability == nil {
			continue
		}
		e := RegionEffect{r.Name, r.Faults[i].Availability}
		all = append(all, e)
		if !e.WithinChance {
			hit = append(hit, e)
		}
		if e.TPPM != nil && *e.TPPM < 1_000_000 {
			slow = append(slow, e)
		}
		if e.OutIsNoChance() {
			silent = append(silent, e)
		}
	}
	if len(hit) == 0 {
		hit = all
	}
	for _, x := range []struct {
		of    []RegionEffect
		worse func(a, b RegionEffect) int
	}{
		{hit, func(a, b RegionEffect) int {
			return cmp.Or(a.kept(b.Availability), a.recovers(b.Availability), a.outage(b.Availability))
		}},
		{slow, func(a, b RegionEffect) int { return a.recovers(b.Availability) }},
		{silent, func(a, b RegionEffect) int { return a.outage(b.Availability) }},
	} {
		if len(x.of) == 0 {
			continue
		}
		w := slices.MinFunc(x.of, x.worse)
		if !slices.ContainsFunc(out, func(o RegionEffect) bool { return x.worse(o, w) <= 0 }) {
			out = append(out, w)
		}
	}
	return out
}

// OutIsNoChance reports whether the longest time without a commit is significant at the normal throughput. The
// probability of a coincidence is below 1e-6 if 14 or more commits were expected.
func (a *Availability) OutIsNoChance() bool { return a.NormalPerSecond*a.OutageMicroseconds >= 14e6 }

// kept, recovers and outage compare availabilities; the result is negative if a is worse.
func (a *Availability) kept(b *Availability) int {
	return cmp.Compare(a.FaultPerSecond*b.NormalPerSecond, b.FaultPerSecond*a.NormalPerSecond)
}

func (a *Availability) recovers(b *Availability) int {
	t := func(a *Availability) int64 {
		if a.TPPM == nil {
			return 1_000_000 // unknown
		}
		return *a.TPPM
	}
	return cmp.Compare(t(a), t(b))
}

func (a *Availability) outage(b *Availability) int {
	return cmp.Compare(b.OutageMicroseconds, a.OutageMicroseconds)
}

// cells returns the availability as cells of a table of faults; a may be nil.
func (a *Availability) cells() []string {
	if a == nil {
		return slices.Repeat([]string{"-"}, 9)
	}
	t, recovered, mending := "-", "-", "-"
	if a.TPPM != nil {
		t, recovered = share(*a.TPPM), instant(a.RecoverMicroseconds, "no")
	}
	if a.MendingPerSecond != nil {
		mending = fmt.Sprint(*a.MendingPerSecond)
	}
	return []string{fmt.Sprint(a.NormalPerSecond), fmt.Sprint(a.FaultPerSecond), mending, share(a.RPPM), t,
		instant(a.DetectMicroseconds, "no"), recovered, instant(&a.OutageMicroseconds, ""), fmt.Sprint(a.Aborted + a.Failed)}
}

// String describes the availability in words.
func (a *Availability) String() string {
	c := a.cells()
	return fmt.Sprintf("%s/s before and %s during, R %s, T %s, detected after %s, recovered after %s, outage %s, %s errors", c[0], c[1], c[3], c[4], c[5], c[6], c[7], c[8])
}

// instant writes seconds to a tenth.
func instant(us *int64, never string) string {
	if us == nil {
		return never
	}
	return fmt.Sprintf("%.1fs", float64(*us)/1e6)
}

// share writes parts per million as 0.95.
func share(ppm int64) string { return fmt.Sprintf("%.2f", float64(ppm)/1e6) }

// faultNotes are the lines below the table.
func faultNotes(d *Document) (out []string) {
	for i := range d.Faults {
		f := &d.Faults[i]
		parts := []string{f.Kind}
		if len(f.Targets) > 0 {
			targets := f.Targets
			more := ""
			if len(targets) > 6 {
				targets, more = targets[:6], fmt.Sprintf(" and %d more", len(f.Targets)-6)
			}
			parts[0] += " on " + strings.Join(targets, ", ") + more
		}
		for _, w := range d.WorstRegions(i) {
			parts = append(parts, fmt.Sprintf("worst in %s: %s", w.Region, w.Availability))
		}
		for _, s := range []string{f.Message, f.Problem} {
			if s != "" {
				parts = append(parts, s)
			}
		}
		out = append(out, f.Name+": "+strings.Join(parts, "; "))
	}
	return out
}

// Deviation is a time in a measured window when something else was done to a node or to a link than the manifest says.
type Deviation struct {
	// Name is the node's, as region/partition/replica, or the pod's of a sidecar.
	Name string `json:"name"`
	// What describes the action in words.
	What string `json:"what"`
	// From and To count from the start of measuring.
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
	// Fault is the fault that was late, or that lasted too long or too short a time; empty for undeclared actions.
	Fault string `json:"fault,omitempty"`
}

// FastLink is a time in a measured window when a node's round trips to a region, or to one of its nodes, were too
// short. The median of ten consecutive round trips was below the minimum of the declared network.
type FastLink struct {
	// From is the node that measured, To the region or the node.
	From                 string `json:"from"`
	To                   string `json:"to"`
	DeclaredMicroseconds int64  `json:"declaredRTTMicroseconds"`
	// Median is the shortest.
	MedianMicroseconds int64 `json:"medianRTTMicroseconds"`
	// FromMicroseconds and ToMicroseconds count from the start of measuring.
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
}

// maxDeviations is the largest number of entries that a document lists of each kind.
const maxDeviations = 100

// trueTimes returns the actual times of a fault. A fault that kills starts when its processes are stopped and ends when
// they are started again. Any other fault starts when it is injected everywhere and ends when it is completely removed.
func (f *Fault) trueTimes() (begin, end *int64) {
	if len(f.Lost)+len(f.Restarted) > 0 {
		return f.FromMicroseconds, f.RecoveringMicroseconds
	}
	return f.InjectedMicroseconds, f.ToMicroseconds
}

// mistimed describes the deviation of a fault from its plan; empty if the deviation was within the tolerance.
func (f *Fault) mistimed() string {
	off := func(what string, planned int64, first, last *int64) string {
		for _, at := range []*int64{first, last} {
			if at == nil {
				continue
			}
			d, side := *at-planned, "late"
			if d < 0 {
				d, side = -d, "early"
			}
			if d > f.ToleranceMicroseconds {
				return fmt.Sprintf("fault %s %s at %s, planned for %s: %s %s, and %s is allowed (tolerance)", f.Name, what, moment(*at), moment(planned), moment(d), side, moment(f.ToleranceMicroseconds))
			}
		}
		return ""
	}
	begin, end := f.trueTimes()
	if text := off("began", f.AtMicroseconds, f.FromMicroseconds, begin); text != "" {
		return text
	}
	if f.DurationMicroseconds == 0 || f.Lasting {
		return ""
	}
	return off("ended", f.AtMicroseconds+f.DurationMicroseconds, f.RecoveringMicroseconds, end)
}

// moment writes microseconds to a millisecond, for people: 31.63s.
func moment(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(time.Millisecond).String()
}

// faultsMistimed returns the faults that deviated from their plan: the figures of a fault refer to its planned time.
func faultsMistimed(d *Document, in *Inputs, _ *Report) (out []Reason) {
	told := map[string]bool{}
	for i := range d.Faults {
		if text := d.Faults[i].mistimed(); text != "" {
			out = append(out, Reason{ReasonFaultMistimed, text})
			told[d.Faults[i].Name] = true
		}
	}
	for _, x := range in.Deviations {
		if x.Fault != "" && !told[x.Fault] {
			out = append(out, Reason{ReasonFaultMistimed, fmt.Sprintf("fault %s: %s was %s from %s to %s, which its plan does not have", x.Fault, x.Name, x.What, moment(x.FromMicroseconds), moment(x.ToMicroseconds))})
			told[x.Fault] = true
		}
	}
	return out
}

// undeclared returns the actions that the manifest does not declare, because their effects were measured too.
func undeclared(_ *Document, in *Inputs, _ *Report) (out []Reason) {
	for _, x := range in.Deviations {
		if x.Fault == "" {
			out = append(out, Reason{ReasonUndeclaredDisturbance, fmt.Sprintf("%s: %s from %s to %s, which no fault of the manifest declares", x.Name, x.What, moment(x.FromMicroseconds), moment(x.ToMicroseconds))})
		}
	}
	return few(out)
}

// linksTooFast: another network was measured too.
func linksTooFast(_ *Document, in *Inputs, _ *Report) (out []Reason) {
	for _, x := range in.FastLinks {
		out = append(out, Reason{ReasonLinkTooFast, fmt.Sprintf("link %s -> %s: round trips took %s (median) from %s to %s; %s is declared, and no fault of the manifest changes it", x.From, x.To,
			time.Duration(x.MedianMicroseconds)*time.Microsecond, moment(x.FromMicroseconds), moment(x.ToMicroseconds), time.Duration(x.DeclaredMicroseconds)*time.Microsecond)})
	}
	return few(out)
}

// few are the first of some reasons of a kind, and how many more there are.
func few(reasons []Reason) []Reason {
	const shown = 3
	if more := len(reasons) - shown; more > 0 {
		reasons = reasons[:shown]
		reasons[shown-1].Message += fmt.Sprintf("; and %d more", more)
	}
	return reasons
}

// faultsFailed: a fault that did not go as planned was not measured.
func faultsFailed(d *Document, _ *Inputs, _ *Report) (out []Reason) {
	for i := range d.Faults {
		f := &d.Faults[i]
		switch {
		case f.Problem != "":
			out = append(out, Reason{ReasonFaultFailed, fmt.Sprintf("fault %s: %s", f.Name, f.Problem)})
		case f.FromMicroseconds == nil:
			out = append(out, Reason{ReasonFaultFailed, fmt.Sprintf("fault %s was never injected", f.Name)})
		}
	}
	return out
}
