package result

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Fault is a fault in the run's timeline: its plan, its actual times, and its effect on the throughput. All times count
// from the start of measuring.
type Fault struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// AtMicroseconds and DurationMicroseconds are the planned start and duration from the manifest.
	AtMicroseconds       int64 `json:"atMicroseconds"`
	DurationMicroseconds int64 `json:"durationMicroseconds,omitempty"`
	// ToleranceMicroseconds is the largest allowed difference between planned and actual times.
	ToleranceMicroseconds int64 `json:"toleranceMicroseconds,omitempty"`
	// Targets are the nodes or links that the fault affected.
	Targets []string `json:"targets,omitempty"`
	// FromMicroseconds is the start of injection, and InjectedMicroseconds the time at which the fault was in effect
	// everywhere. RecoveringMicroseconds is the start of its removal, and ToMicroseconds the time at which it was
	// completely removed. nil means never.
	FromMicroseconds       *int64 `json:"fromMicroseconds,omitempty"`
	InjectedMicroseconds   *int64 `json:"injectedMicroseconds,omitempty"`
	RecoveringMicroseconds *int64 `json:"recoveringMicroseconds,omitempty"`
	ToMicroseconds         *int64 `json:"toMicroseconds,omitempty"`
	// Lasting is set if the fault is never removed, because the nodes lost their data when their processes stopped.
	Lasting bool `json:"lasting,omitempty"`
	// Lost lists the nodes that were lost permanently.
	Lost []string `json:"lost,omitempty"`
	// Restarted lists the nodes that stopped and recovered. The nodes in Replaced lost all state and obtained it from
	// other nodes; nodes that are only in Restarted continued from their disks. ToMicroseconds is the time at which every
	// copy was available again.
	Restarted []string `json:"restarted,omitempty"`
	Replaced  []string `json:"replaced,omitempty"`
	// Injector is the component that injected the fault on a cluster: BuiltIn, Sidecar, ChaosMesh or Kubernetes.
	Injector string `json:"injector,omitempty"`
	// Problem explains why the fault did not go as planned; the run is then Invalid. Message holds further information.
	Problem string `json:"problem,omitempty"`
	Message string `json:"message,omitempty"`
	// Availability is nil if less than a second could be measured before the fault. It is also nil for a fault that lasts
	// or ends immediately, if less than a second could be measured after its start.
	Availability *Availability `json:"availability,omitempty"`
}

// Availability is the effect of a fault on the throughput, as defined by Dike (Zhang et al., section 6). Resilience is
// R = 1 - |TPS_fault - TPS_normal| / TPS_normal. Recovery is T = 1 / (t_recover + 1), with t in seconds. Times have a
// resolution of a tenth of a second. The throughput at a time is the mean over the second that starts at that time.
type Availability struct {
	// NormalPerSecond is the throughput over at most the last 10 s before the fault. FaultPerSecond is the
	// throughput while the fault was in effect everywhere. It covers at most 10 s of a lasting fault, and one
	// second from the start of a fault that was immediately over.
	NormalPerSecond int64 `json:"normalPerSecond"`
	FaultPerSecond  int64 `json:"faultPerSecond"`
	// MendingPerSecond is the throughput while the database recovers. The recovery starts with the removal of the fault.
	// It lasts until the lost resources (such as the rows of a lost node) are available again, or until the next fault
	// starts. MendingPerSecond is nil if this period is shorter than a second.
	MendingPerSecond *int64 `json:"mendingPerSecond,omitempty"`
	// RPPM is R in parts per million. It is negative if the throughput more than doubled.
	RPPM int64 `json:"rPPM"`
	// WithinChance is set for a region if the throughputs before and during the fault differ by at most three standard
	// deviations of Poisson counts. R is then meaningless.
	WithinChance bool `json:"withinChance,omitempty"`
	// TPPM is T in parts per million; 0 if the throughput did not recover. It is nil if too little time was left to
	// decide, or if a fault that started later was still active.
	TPPM *int64 `json:"tPPM,omitempty"`
	// DetectMicroseconds is the time from FromMicroseconds until clients first observed less than 95% of the normal
	// throughput; nil if they never did.
	DetectMicroseconds *int64 `json:"detectMicroseconds,omitempty"`
	// RecoverMicroseconds is the time from ToMicroseconds (FromMicroseconds, for a lasting fault) until clients observed
	// 95% again without a relapse soon after. Throughput is compared over intervals of a second, or longer at a low
	// throughput. A relapse is an interval that starts within the next three interval lengths and is below three quarters
	// of the normal throughput. The shortfall must exceed three standard deviations of a Poisson count.
	// RecoverMicroseconds is nil if there was no recovery before the next fault or the end of measuring.
	RecoverMicroseconds *int64 `json:"recoverMicroseconds,omitempty"`
	// OutageMicroseconds is the longest time without a commit, from FromMicroseconds to the next fault or the end of
	// measuring.
	OutageMicroseconds int64 `json:"outageMicroseconds"`
	// Aborted and Failed (refused or unknown) count transactions that finished between FromMicroseconds and
	// ToMicroseconds. For a fault that was immediately over, they cover one second from its start.
	Aborted int64 `json:"aborted"`
	Failed  int64 `json:"failed"`
}

const (
	tenth         = int64(100_000) // in microseconds
	perSecond     = 10             // tenths in a second
	baseline      = 10 * perSecond // maximum length of the period before the fault
	lastingPeriod = 10 * perSecond
	recovered     = 950_000 // share of the normal throughput, in parts per million
	relapsed      = 750_000
)

// counted counts the transactions that ended in a tenth of a second.
type counted struct{ committed, aborted, failed int64 }

// tenths is a timeline in tenths of a second, of all clients or of the clients of one region.
type tenths struct {
	counts []counted
	// sigmas is a margin in standard deviations of a Poisson count, in addition to the margin of 5%. An interval is below
	// the normal throughput only if its shortfall exceeds the sum of both margins. sigmas is 0 for the whole database, as
	// in Dike, and larger for regions, because a single region commits few transactions per second.
	sigmas float64
}

func (t *tenths) len() int { return len(t.counts) }

func (t *tenths) committed(from, to int) (sum int64) {
	for _, x := range t.counts[from:to] {
		sum += x.committed
	}
	return sum
}

// add adds the tenths of one second of the timeline.
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

// fillFaults lists the faults of each second of the timeline, and measures their effect on all clients and on each
// region's clients.
func (d *Document) fillFaults(r *Report) {
	if len(d.Faults) == 0 {
		return
	}
	// effects compares each fault with the faults that start after it.
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
	// If the load itself varies, the throughput before the fault is not the normal throughput during the fault.
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

// varies returns the manifest field that makes the load vary during the measurement; empty if there is none.
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

// chanceSigmas is a margin in standard deviations of a Poisson count. It applies to the throughput of single regions
// (tenths.sigmas), and to the relapse check.
const chanceSigmas = 3

// tenths returns an empty timeline with the length of the document's timeline. It omits the last tenth if the window
// covers only a part of this tenth.
func (d *Document) tenths(sigmas float64) *tenths {
	n := len(d.Timeline) * perSecond
	if whole := int(d.Spec.Load.Duration.Duration / (100 * time.Millisecond)); whole > 0 {
		n = min(n, whole)
	}
	return &tenths{make([]counted, n), sigmas}
}

// effects returns the availability of each fault; nil if there is no throughput to compare with. faults must be in
// order of their start.
func (t *tenths) effects(faults []Fault) []*Availability {
	out := make([]*Availability, len(faults))
	clean := 0          // the first tenth without effects of earlier faults
	normal := int64(-1) // last normal throughput, in committed transactions per million seconds
	for i := range faults {
		f := &faults[i]
		if f.FromMicroseconds == nil {
			continue
		}
		from := int(*f.FromMicroseconds / tenth)
		if from > t.len() {
			continue
		}
		// Without a second of undisturbed time before a fault, the last normal throughput applies. Faults that start
		// together or overlap are therefore compared with the time before all of them.
		if begin := max(clean, from-baseline); from-begin >= perSecond {
			normal = ratio(int64(from-begin), 1, t.committed(begin, from), perSecond, 1_000_000)
		}
		limit := t.len()
		for _, g := range faults[i+1:] { // for the throughput, faults that start together count as one fault
			if g.FromMicroseconds != nil && int(*g.FromMicroseconds/tenth) > from {
				limit = min(limit, int(*g.FromMicroseconds/tenth))
			}
		}
		if normal > 0 {
			out[i] = t.availability(f, from, limit, t.recoverLimit(f, faults[i+1:]), normal)
		}
		switch a := out[i]; {
		// A lasting fault establishes a new normal throughput only once the throughput has recovered despite the fault.
		case f.ToMicroseconds == nil:
			clean = t.len()
			if a != nil && a.RecoverMicroseconds != nil {
				clean = from + int(*a.RecoverMicroseconds/tenth)
			}
		// The throughput did not recover before the next fault, so the time until then is disturbed.
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

// begin returns the start of the fault for ordering; faults that never started sort last.
func (f *Fault) begin() int64 {
	if f.FromMicroseconds == nil {
		return 1<<63 - 1
	}
	return *f.FromMicroseconds
}

// recoverLimit returns the tenth up to which the recovery from f can be distinguished from the effects of later faults.
// It is 0 if a later fault is still active when f is over.
func (t *tenths) recoverLimit(f *Fault, later []Fault) int {
	limit, over := t.len(), f.ToMicroseconds
	if over == nil {
		over = f.FromMicroseconds
	}
	for i := range later {
		g := &later[i]
		switch {
		// A fault that was over before f ended does not disturb the recovery from f.
		case g.FromMicroseconds == nil, g.ToMicroseconds != nil && *g.ToMicroseconds <= *over:
		// Two lasting faults with the same start count as one.
		case f.ToMicroseconds == nil && *g.FromMicroseconds/tenth == *over/tenth:
		case *g.FromMicroseconds < *over:
			return 0
		default:
			limit = min(limit, int(*g.FromMicroseconds/tenth))
		}
	}
	return limit
}

// width returns the number of tenths over which a throughput is compared with normal, which is in transactions per
// million seconds. It is at least a second. It is longer if an interval without any commit would otherwise not be
// significantly below the recovered share.
func (t *tenths) width(normal int64) int {
	expected := chanceSigmas / (float64(recovered) / 1e6) // square root of the required number of commits
	return max(perSecond, int(math.Ceil(expected*expected/(float64(normal)/1e6)*perSecond)))
}

// availability computes the figures of a fault that starts in tenth from. The figures cover the time up to tenth limit,
// and the recovery the time up to tenth recoverLimit. normal is in transactions per million seconds. It returns nil if
// too little time was measured.
func (t *tenths) availability(f *Fault, from, limit, recoverLimit int, normal int64) *Availability {
	a := &Availability{NormalPerSecond: ratio(1_000_000, 1, normal)}
	ceil := func(us int64) int { return int((us + tenth - 1) / tenth) }
	// [begin, end) is the time in which the fault was in effect everywhere.
	begin, end := from, min(from+lastingPeriod, limit)
	if f.InjectedMicroseconds != nil {
		begin = ceil(*f.InjectedMicroseconds)
	}
	if begin >= t.len() {
		return nil
	}
	over := end // end of the time in which errors count
	if f.RecoveringMicroseconds != nil {
		end = min(int(*f.RecoveringMicroseconds/tenth), t.len())
	}
	if f.ToMicroseconds != nil {
		over = min(ceil(*f.ToMicroseconds), t.len())
	}
	atOnce := f.RecoveringMicroseconds != nil && end <= begin // the fault was over within a tenth of a second
	if atOnce {
		begin, end = from, min(from+perSecond, limit)
		over = max(over, end)
	}
	// A mean over less than a second is too noisy to be a throughput.
	if (atOnce || f.RecoveringMicroseconds == nil) && end-begin < perSecond {
		return nil
	}
	during := ratio(int64(end-begin), 1, t.committed(begin, end), perSecond, 1_000_000)
	a.FaultPerSecond = ratio(1_000_000, 1, during)
	if f.RecoveringMicroseconds != nil && f.ToMicroseconds != nil {
		// Only whole tenths inside the removal count, hence the rounding up and down.
		if begin, end := max(from, ceil(*f.RecoveringMicroseconds)), min(int(*f.ToMicroseconds/tenth), limit); end-begin >= perSecond {
			mending := ratio(int64(end-begin), 1, t.committed(begin, end), perSecond)
			a.MendingPerSecond = &mending
		}
	}
	if t.sigmas > 0 {
		expected := float64(normal) / 1e6 * float64(end-begin) / perSecond
		// The difference of two Poisson counts has the sum of their variances, hence the factor 2.
		a.WithinChance = math.Abs(float64(t.committed(begin, end))-expected) <= t.sigmas*math.Sqrt(2*expected)
	}
	a.RPPM = 1_000_000 - ratio(normal, 1, max(during-normal, normal-during), 1_000_000)
	for _, x := range t.counts[from:max(from, over)] {
		a.Aborted += x.aborted
		a.Failed += x.failed
	}
	// width is the length, in tenths, of the interval over which a throughput is compared. It is at least a second, and so
	// long that an interval without commits is significant.
	width := t.width(normal)
	// below reports whether the interval of width tenths from i has less than share (in ppm) of the normal throughput.
	// The shortfall must exceed sigmas standard deviations of the expected Poisson count.
	below := func(i int, share int64, sigmas float64) bool {
		expected := float64(normal) / 1e6 * float64(width) / perSecond
		short := expected*float64(share)/1e6 - float64(t.committed(i, i+width))
		return short > 0 && short > sigmas*math.Sqrt(expected)
	}
	// stays reports whether no interval that starts within the next three widths is significantly below three quarters of
	// the normal throughput. The throughput of a real database varies by more than a Poisson count, hence the wide margin.
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
	// A fault with an unknown end has no recovery time, unless it lasts by design.
	back, known := from, f.Lasting
	if f.ToMicroseconds != nil {
		back, known = ceil(*f.ToMicroseconds), true
	}
	// The recovery is decidable only if a full interval fits between the end of the fault and the limit.
	if known && back+width <= recoverLimit {
		t0 := int64(0)
		a.TPPM = &t0
		first := int64(back) * tenth
		if f.Lasting && a.DetectMicroseconds != nil {
			// Start at the dip, so that the second in which the fault started does not count as recovered.
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
	// Stop counting at limit: an outage after it may be the effect of a later fault.
	for _, x := range t.counts[from:limit] {
		if silent++; x.committed > 0 {
			silent = 0
		}
		longest = max(longest, silent)
	}
	a.OutageMicroseconds = int64(longest) * tenth
	return a
}

// faultRows returns the rows of the table of faults; nil if there are none.
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
// its throughput. The region that recovered last, and the region with the longest time without a commit, follow if they
// are worse than the regions before. It returns nil if there is only one region or nothing was measured. Regions whose
// throughput did not differ significantly are considered only if no other region was hit.
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
		// A region that is already listed, or ties with a listed one, adds no information.
		if !slices.ContainsFunc(out, func(o RegionEffect) bool { return x.worse(o, w) <= 0 }) {
			out = append(out, w)
		}
	}
	return out
}

// OutIsNoChance reports whether the longest time without a commit is significant at the normal throughput. With 14 or
// more expected commits, the probability of no commit is below 1e-6 (exp(-14)).
func (a *Availability) OutIsNoChance() bool { return a.NormalPerSecond*a.OutageMicroseconds >= 14e6 }

// kept, recovers and outage compare two availabilities by one figure. The result is negative if a is worse.
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

// cells returns the availability as the cells of a row of the fault table; a may be nil.
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

// instant formats microseconds as seconds with one decimal, or returns never if us is nil.
func instant(us *int64, never string) string {
	if us == nil {
		return never
	}
	return fmt.Sprintf("%.1fs", float64(*us)/1e6)
}

// share formats parts per million as a fraction, such as 0.95.
func share(ppm int64) string { return fmt.Sprintf("%.2f", float64(ppm)/1e6) }

// faultNotes returns the lines below the fault table.
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

// Deviation is a period in a measured window in which a node or link was treated differently from the manifest.
type Deviation struct {
	// Name is the name of the node (region/partition/replica) or of the sidecar's pod.
	Name string `json:"name"`
	// What describes the action in words.
	What string `json:"what"`
	// FromMicroseconds and ToMicroseconds count from the start of measuring.
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
	// Fault is the fault that was late or had the wrong duration; empty for undeclared actions.
	Fault string `json:"fault,omitempty"`
}

// FastLink is a period in which a node's round trips to a region, or to a node in it, were too short. The period is in
// a measured window. The median of ten consecutive round trips was below the minimum of the declared network.
type FastLink struct {
	// From is the node that measured. To is the region or the node.
	From                 string `json:"from"`
	To                   string `json:"to"`
	DeclaredMicroseconds int64  `json:"declaredRTTMicroseconds"`
	// MedianMicroseconds is the smallest of these medians.
	MedianMicroseconds int64 `json:"medianRTTMicroseconds"`
	// FromMicroseconds and ToMicroseconds count from the start of measuring.
	FromMicroseconds int64 `json:"fromMicroseconds"`
	ToMicroseconds   int64 `json:"toMicroseconds"`
}

// maxDeviations is the maximum number of entries of each kind in a document.
const maxDeviations = 100

// trueTimes returns the actual start and end of a fault. A fault that stops processes starts when the processes are
// stopped and ends when they are started again. Any other fault starts when it is in effect everywhere and ends when it
// is completely removed.
func (f *Fault) trueTimes() (begin, end *int64) {
	if len(f.Lost)+len(f.Restarted) > 0 {
		return f.FromMicroseconds, f.RecoveringMicroseconds
	}
	return f.InjectedMicroseconds, f.ToMicroseconds
}

// mistimed describes how a fault deviated from its plan; empty if it was within the tolerance.
func (f *Fault) mistimed() string {
	off := func(what string, planned int64, first, last *int64) string {
		// Injection takes time: neither its first nor its last moment may be outside the tolerance.
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
	// A fault without a duration, or a lasting fault, has no planned end.
	if f.DurationMicroseconds == 0 || f.Lasting {
		return ""
	}
	return off("ended", f.AtMicroseconds+f.DurationMicroseconds, f.RecoveringMicroseconds, end)
}

// moment formats microseconds to the millisecond, such as 31.63s.
func moment(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(time.Millisecond).String()
}

// faultsMistimed returns a reason for each fault that deviated from its plan, because the figures refer to the planned
// times.
func faultsMistimed(d *Document, in *Inputs, _ *Report) (out []Reason) {
	told := map[string]bool{}
	for i := range d.Faults {
		if text := d.Faults[i].mistimed(); text != "" {
			out = append(out, Reason{ReasonFaultMistimed, text})
			told[d.Faults[i].Name] = true
		}
	}
	for _, x := range in.Deviations {
		// One reason per fault is enough, even if several nodes deviated.
		if x.Fault != "" && !told[x.Fault] {
			out = append(out, Reason{ReasonFaultMistimed, fmt.Sprintf("fault %s: %s was %s from %s to %s, which its plan does not have", x.Fault, x.Name, x.What, moment(x.FromMicroseconds), moment(x.ToMicroseconds))})
			told[x.Fault] = true
		}
	}
	return out
}

// undeclared returns a reason for each action that the manifest does not declare, because the figures include the
// effects of this action.
func undeclared(_ *Document, in *Inputs, _ *Report) (out []Reason) {
	for _, x := range in.Deviations {
		if x.Fault == "" {
			out = append(out, Reason{ReasonUndeclaredDisturbance, fmt.Sprintf("%s: %s from %s to %s, which no fault of the manifest declares", x.Name, x.What, moment(x.FromMicroseconds), moment(x.ToMicroseconds))})
		}
	}
	return few(out)
}

// linksTooFast returns a reason for each link that was faster than declared, because the run then measured a different
// network.
func linksTooFast(_ *Document, in *Inputs, _ *Report) (out []Reason) {
	for _, x := range in.FastLinks {
		out = append(out, Reason{ReasonLinkTooFast, fmt.Sprintf("link %s -> %s: round trips took %s (median) from %s to %s; %s is declared, and no fault of the manifest changes it", x.From, x.To,
			time.Duration(x.MedianMicroseconds)*time.Microsecond, moment(x.FromMicroseconds), moment(x.ToMicroseconds), time.Duration(x.DeclaredMicroseconds)*time.Microsecond)})
	}
	return few(out)
}

// few returns at most the first three reasons. If there are more, the third reason states how many are omitted.
func few(reasons []Reason) []Reason {
	const shown = 3
	if more := len(reasons) - shown; more > 0 {
		reasons = reasons[:shown]
		reasons[shown-1].Message += fmt.Sprintf("; and %d more", more)
	}
	return reasons
}

// faultsFailed returns a reason for each fault that was not injected as planned.
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
