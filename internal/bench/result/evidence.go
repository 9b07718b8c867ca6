package result

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Evidence is an observation that a run must show to pass. The absence of complaints is not enough: a witness must have
// observed each item.
type Evidence struct {
	// Name is the name of the item: see EvidenceItems.
	Name  string        `json:"name"`
	State EvidenceState `json:"state"`
	// Witness names the component that observed the item. Figure is the observation, or the reason why there is none.
	Witness string `json:"witness,omitempty"`
	Figure  string `json:"figure"`
}

// EvidenceState is the state of an item of evidence.
type EvidenceState string

const (
	// EvidenceShown means that the witness observed that the rule holds.
	EvidenceShown EvidenceState = "Shown"
	// EvidenceContradicted means that the witness observed a violation; a reason of the verdict describes it.
	EvidenceContradicted EvidenceState = "Contradicted"
	// EvidenceMissing means that no witness observed the item. The run is Invalid.
	EvidenceMissing EvidenceState = "Missing"
	// EvidenceNotWitnessed means that no witness can observe the item for this kind of manifest, for example the nodes of
	// a database that runs elsewhere.
	EvidenceNotWitnessed EvidenceState = "NotWitnessed"
)

// ReasonEvidenceMissing is the reason if an item of evidence is missing.
const ReasonEvidenceMissing = "EvidenceMissing"

// EvidenceItem is a row of the table of evidence.
type EvidenceItem struct {
	Name string
	// Rule is the condition that must have been observed.
	Rule string
	// Reasons are the reasons of a verdict that contradict the item.
	Reasons []string

	observe func(d *Document, in *Inputs, r *Report) Evidence
}

// EvidenceItems is the table of evidence, in the order of results. The verdict, the document and docs/security.md
// derive from this table, and TestEvidence falsifies the evidence of each item.
var EvidenceItems = []EvidenceItem{
	{"transactions", "every transaction that was due in a window is in exactly one bin, and the bins of each region add up to what was due",
		nil, accounted},
	{"windows", "the load generators of every region measured every window from its start to its end",
		[]string{ReasonStartMissed, ReasonCancelled}, measuredThroughout},
	{"load", "every region had all of its clients, and each load generator handed in one report",
		[]string{ReasonWorkerLost, ReasonReportForged, ReasonConnectionLost, ReasonPodDiffers}, loadComplete},
	{"nodes", "every node of the database was seen before the first warm-up and after the last answer, and was the same process unless a fault of the manifest ended it",
		[]string{ReasonNodeRestarted, ReasonPodDiffers, ReasonTargetFailed}, nodesThroughout},
	{"cpu", "every load generator and node was on time for what was due",
		[]string{ReasonDriverBound, ReasonNodeStarved}, cpuHad},
	{"clocks", "every clock that figures depend on was within its bound",
		[]string{ReasonClocksApart}, clocksWithin},
	{"network", "every link between regions, and between the nodes of a region, was measured, and was the declared one",
		[]string{ReasonNetworkNotVerified, ReasonLinkTooFast, ReasonLossDiffers, ReasonMeshChanged, ReasonNetworkEdited, ReasonTooManyGaps}, linksMeasured},
	{"faults", "every fault of the manifest started and ended as planned, and nothing else was done",
		[]string{ReasonFaultFailed, ReasonFaultMistimed, ReasonUndeclaredDisturbance}, faultsPlayed},
	{"rows", "the rows at the end are those that were loaded and what committed",
		[]string{ReasonNotAudited, ReasonNotQuiet, ReasonCheckFailed}, rowsAudited},
	{"execution", "the result is of this execution of the run",
		[]string{ReasonResultForged, ReasonSnapshotForged, ReasonManifestEdited}, ofThisExecution},
}

// fillEvidence adds the evidence of the run to the document. It returns a reason for each missing item.
func (d *Document) fillEvidence(in *Inputs, r *Report) (missing []Reason) {
	for _, item := range EvidenceItems {
		e := item.observe(d, in, r)
		e.Name = item.Name
		// The verdict's reasons outrank the observation: an item with a known violation is never Shown or Missing.
		if slices.ContainsFunc(d.Reasons, func(x Reason) bool { return slices.Contains(item.Reasons, x.Reason) }) {
			e.State = EvidenceContradicted
		}
		if e.State == EvidenceMissing {
			missing = append(missing, Reason{ReasonEvidenceMissing, fmt.Sprintf("%s: %s; a run passes only where %s", e.Name, e.Figure, item.Rule)})
		}
		d.Evidence = append(d.Evidence, e)
	}
	return missing
}

// shown, absent and notWitnessed return evidence in the states Shown, Missing and NotWitnessed. The formatted text is
// the figure of the evidence.
func shown(witness, format string, args ...any) Evidence {
	return Evidence{State: EvidenceShown, Witness: witness, Figure: fmt.Sprintf(format, args...)}
}

func absent(format string, args ...any) Evidence {
	return Evidence{State: EvidenceMissing, Figure: fmt.Sprintf(format, args...)}
}

func notWitnessed(format string, args ...any) Evidence {
	return Evidence{State: EvidenceNotWitnessed, Figure: fmt.Sprintf(format, args...)}
}

// cluster reports whether the run took place on a cluster, not in a simulator or in a single process.
func (in *Inputs) cluster() bool { return !in.Simulated && !in.SharedProcess && in.Driver == nil }

func accounted(d *Document, _ *Inputs, _ *Report) Evidence {
	for i := range d.Regions {
		r := &d.Regions[i]
		// Due counts a transaction when it becomes due, and one of the other counts includes it later.
		// A difference means that a transaction was lost or counted twice.
		if binned := r.Ended() + r.Unfinished + r.Unsent(); r.Due != binned {
			return absent("%s: %d transactions were due and %d are accounted for: %d committed, %d aborted, %d refused, %d unknown, %d unfinished, %d never sent",
				r.Name, r.Due, binned, r.Committed, r.Aborted, r.Refused, r.Unknown, r.Unfinished, r.Unsent())
		}
	}
	s := &d.Summary
	return shown("load generators", "%d due = %d committed + %d aborted + %d refused + %d unknown + %d unfinished + %d never sent",
		s.Due, s.Committed, s.Aborted, s.Refused, s.Unknown, s.Unfinished, s.Unsent())
}

func measuredThroughout(d *Document, _ *Inputs, r *Report) Evidence {
	for i := range d.Regions {
		for repetition := 1; repetition <= r.Repetitions; repetition++ {
			at := slices.IndexFunc(r.Windows, func(w Window) bool { return w.Region == d.Regions[i].Name && w.Repetition == repetition })
			if at < 0 {
				return absent("nothing tells of window %d in %s", repetition, d.Regions[i].Name)
			}
			// A worker that stopped early, or joined late, measured less than the whole window.
			if w := &r.Windows[at]; w.MeasuredMicroseconds < r.DurationMicroseconds {
				return absent("clients in %s measured %s of the %s of window %d", w.Region, formatMicroseconds(w.MeasuredMicroseconds), formatMicroseconds(r.DurationMicroseconds), repetition)
			}
		}
	}
	return shown("load generators", "%d x %s in each of %d regions", r.Repetitions, formatMicroseconds(r.DurationMicroseconds), len(d.Regions))
}

func loadComplete(d *Document, in *Inputs, r *Report) Evidence {
	clients := map[string]int64{}
	for _, w := range r.Workers {
		clients[w.Region] += int64(w.Clients)
	}
	for i := range d.Regions {
		name := d.Regions[i].Name
		if want := int64(in.Load.ClientsPerRegion); want > 0 && clients[name] != want {
			return absent("%d of the %d clients of %s have reported", clients[name], want, name)
		}
	}
	return shown("reports of load generators", "%d load generators, %d clients in each of %d regions", len(r.Workers), in.Load.ClientsPerRegion, len(d.Regions))
}

// foreign returns the evidence for an item that cannot be observed because the database is not Geobench's own.
func foreign(what string) Evidence {
	return notWitnessed("%s of a database that is not Geobench's own", what)
}

func nodesThroughout(_ *Document, in *Inputs, _ *Report) Evidence {
	if in.Target != nil && len(in.Before) == 0 {
		return foreign("the processes")
	}
	seen := func(all []admin.Status) map[string]bool {
		names := map[string]bool{}
		for i := range all {
			names[all[i].Node] = true
		}
		return names
	}
	before, after := seen(in.Before), seen(in.After)
	for n := range before {
		// A node that a declared fault killed permanently cannot report after the run.
		if !after[n] && !lostOnPurpose(in, n) {
			return absent("%s was not seen after the run", n)
		}
	}
	// For a target, Before holds reports of probes, not of the nodes of the topology.
	if want := in.Topology.Nodes(); in.Target == nil && len(before) != want {
		return absent("%d of %d nodes were seen before the run", len(before), want)
	}
	// Pods come from Kubernetes, a witness that is independent of the nodes' own reports.
	if in.cluster() && in.Target == nil && !slices.ContainsFunc(in.Pods, func(p Pods) bool { return p.Role == "node" }) {
		return absent("nothing tells how the pods of the nodes ran")
	}
	return shown("nodes, before and after", "%d nodes", len(before))
}

// hit reports whether a fault of the manifest acted on the node.
func hit(in *Inputs, node string) bool {
	return slices.ContainsFunc(in.Faults, func(f Fault) bool {
		return slices.Contains(slices.Concat(f.Targets, f.Lost, f.Restarted, f.Replaced), node)
	})
}

// lostOnPurpose reports whether a declared fault stopped the node permanently.
func lostOnPurpose(in *Inputs, node string) bool {
	return slices.ContainsFunc(in.Faults, func(f Fault) bool { return slices.Contains(f.Lost, node) })
}

func cpuHad(d *Document, in *Inputs, r *Report) Evidence {
	if in.Simulated {
		return shown("simulator", "virtual time: CPU is modelled")
	}
	var latest int64
	for i := range d.Workers {
		w := &d.Workers[i]
		if w.LateMicroseconds == nil {
			return absent("nothing tells how late worker %d in %s was for what was due", w.Index, w.Region)
		}
		latest = max(latest, w.LateMicroseconds.P99)
	}
	if len(d.Workers) == 0 {
		return absent("no load generator has reported")
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if in.Target != nil {
			continue
		}
		if n.LateMicroseconds == nil {
			if hit(in, n.Name) { // a fault may have stopped its process or taken all of its CPU
				continue
			}
			return absent("nothing tells how late node %s was for what was due", n.Name)
		}
		latest = max(latest, n.LateMicroseconds.P99)
	}
	return shown("every process of its own", "at most %s late (99th percentile)", formatMicroseconds(latest))
}

func clocksWithin(_ *Document, in *Inputs, r *Report) Evidence {
	switch {
	case in.Simulated:
		return shown("simulator", "virtual time")
	case !in.cluster():
		return shown("one process", "one clock")
	}
	// On a cluster, workers start their windows according to the clocks of different machines.
	for _, w := range r.Workers {
		if clockOf(in.Clocks, w.Region, w.Index) == nil {
			return absent("the clock of worker %d in %s was not measured", w.Index, w.Region)
		}
	}
	return shown("operator", "%d load generators within %s", len(r.Workers), MaxClockOffset)
}

func linksMeasured(d *Document, in *Inputs, _ *Report) Evidence {
	if in.Target != nil && len(in.Before) == 0 {
		return foreign("the network between regions")
	}
	between, inside := 0, 0
	for _, l := range d.Links {
		// Links inside a region are optional evidence: they exist only if the region has several nodes.
		switch own := l.From == l.To; {
		case l.Samples > 0 && own:
			inside++
		case l.Samples > 0:
			between++
		case !own:
			return absent("the link from %s to %s was not measured", l.From, l.To)
		case in.Target == nil && nodesIn(in, l.From) > 1: // a single node has no link to itself
			return absent("the links between the %d nodes in %s were not measured", nodesIn(in, l.From), l.From)
		}
	}
	regions := len(in.Topology.Regions)
	// Links are directed, so every ordered pair of regions must be present.
	if want := regions * (regions - 1); between != want {
		return absent("%d of %d links between regions were measured", between, want)
	}
	switch {
	case regions > 1:
		return shown("probes of nodes", "%d links between regions within their tolerance", between)
	case inside > 0:
		return shown("probes of nodes", "one region: the links between its nodes within their tolerance")
	}
	return shown("the topology", "one region with one node: there is no link to measure")
}

// nodesIn returns the number of nodes in a region that reported before the load.
func nodesIn(in *Inputs, region string) (n int) {
	for i := range in.Before {
		if id := in.Before[i].ID; id >= 0 && id < in.Topology.Nodes() &&
			in.Topology.Regions[in.Topology.RegionOf(geo.NodeID(id))] == region {
			n++
		}
	}
	return n
}

func faultsPlayed(d *Document, in *Inputs, _ *Report) Evidence {
	declared := 0
	if in.Manifests != nil && in.Manifests.Run != nil {
		declared = len(in.Manifests.Run.Faults)
	}
	// A fault without a record in the result may never have been injected.
	if declared != len(d.Faults) {
		return absent("the manifest declares %d faults and the result tells of %d", declared, len(d.Faults))
	}
	return shown("logs of nodes and injectors", "%d faults as planned, nothing else", declared)
}

func rowsAudited(d *Document, in *Inputs, _ *Report) Evidence {
	// Without manifests, it is unknown whether the run requests the audit, so the audit is required.
	asked := in.Manifests == nil || in.Manifests.Run == nil || slices.Contains(in.Manifests.Run.Verify, v1alpha1.VerifyInvariants)
	switch {
	case !asked:
		return notWitnessed("spec.verify does not ask for Invariants")
	case len(d.Checks) == 0:
		return absent("spec.verify asks for Invariants, and nothing was checked")
	}
	var names []string
	for _, c := range d.Checks {
		names = append(names, c.Name)
	}
	return shown("audit of all rows", "%s", strings.Join(names, ", "))
}

func ofThisExecution(d *Document, in *Inputs, r *Report) Evidence {
	switch e := in.Execution; {
	case in.Simulated:
		return shown("simulator", "seed %d and the manifests give these bytes again", d.Seed)
	// Without the times of its windows, the result could belong to an earlier execution of the same run.
	case e == nil || len(e.Windows) < r.Repetitions:
		return absent("the result does not say when its windows were open")
	case in.cluster() && e.ID == "":
		return absent("the result does not say of which execution it is")
	case in.cluster():
		return shown("operator", "execution %s, first window opened %s", e.ID, e.Windows[0].Opened.UTC().Format("2006-01-02T15:04:05.000Z"))
	default:
		return shown("this process", "first window opened %s", e.Windows[0].Opened.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
}

// tableEvidence writes the evidence to a table: a line that counts the shown items, and then the items in other states.
// If wide is set, it writes every item.
func (d *Document) tableEvidence(b *strings.Builder, wide bool) {
	if len(d.Evidence) == 0 {
		return
	}
	n := 0
	for i := range d.Evidence {
		if d.Evidence[i].State == EvidenceShown {
			n++
		}
	}
	line(b, "")
	line(b, "evidence: %d of %d items shown", n, len(d.Evidence))
	for i := range d.Evidence {
		e := &d.Evidence[i]
		if !wide && e.State == EvidenceShown {
			continue
		}
		text := fmt.Sprintf("%s: %s", e.State, e.Figure)
		if e.Witness != "" {
			text += " (" + e.Witness + ")"
		}
		wrapped(b, "  "+e.Name+": ", text)
	}
}
