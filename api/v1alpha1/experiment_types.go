package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ExperimentSpec describes a sweep: every database runs at every combination of the swept values, for the given number
// of repetitions. It also contains claims about the results.
//
// +kubebuilder:validation:XValidation:rule="has(self.databases) || has(self.databaseRefs)",message="databases and databaseRefs are both missing: list at least one database"
// +kubebuilder:validation:XValidation:rule="!has(self.databaseRefs) || !has(self.sweep) || !self.sweep.exists(s, s.path.startsWith('database.') || has(s.with) && s.with.exists(w, w.path.startsWith('database.')))",message="sweep changes databases, but databaseRefs names ones that already exist and cannot be changed: write them as templates in databases",fieldPath=".databaseRefs"
// +kubebuilder:validation:XValidation:rule="!has(self.gate) || has(self.claims) && size(self.claims) > 0",message="gate is Claims, but nothing is claimed: list claims, or leave gate out",fieldPath=".gate"
// +kubebuilder:validation:XValidation:rule="!has(self.databaseRefs) || !has(self.databases) || !self.databaseRefs.exists(r, self.databases.exists(d, d.name == r.name))",message="databaseRefs and databases share a name: claims and plots tell databases apart by their names",fieldPath=".databaseRefs"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || self.run.spec.load.arrival != 'Closed'",message="search looks for a rate, but arrival Closed has none: set arrival to Constant or Poisson, and ratePerSecond to the least rate to try",fieldPath=".run.spec.load.arrival"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || self.run.spec.load.arrival == 'Closed' || self.search.maxRatePerSecond > self.run.spec.load.ratePerSecond",messageExpression="'maxRatePerSecond %d is not more than ratePerSecond of the run (%d), the least rate to try'.format([self.search.maxRatePerSecond, self.run.spec.load.ratePerSecond])",fieldPath=".search.maxRatePerSecond"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || self.search.committedPercent > 0 || has(self.run.spec.objectives) && size(self.run.spec.objectives) > 0",message="committedPercent is 0 and the run has no objectives, so every rate would do: list objectives in run.spec, or make committedPercent at least 1",fieldPath=".search.committedPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || !has(self.run.spec.objectives) || self.run.spec.objectives.all(o, !has(o.min))",message="an objective has a min, which low rates may miss and higher ones meet: search finds the highest rate that keeps what all lower rates keep, so give every objective a max, and set search.committedPercent for throughput",fieldPath=".run.spec.objectives"
// +kubebuilder:validation:XValidation:rule="!has(self.search) || !has(self.sweep) || !self.sweep.exists(s, s.path in ['spec.load.ratePerSecond', 'spec.load.arrival', 'spec.seed'] || has(s.with) && s.with.exists(w, w.path in ['spec.load.ratePerSecond', 'spec.load.arrival', 'spec.seed']))",message="sweep changes spec.load.ratePerSecond, spec.load.arrival or spec.seed, which search chooses: sweep another field, or leave search out",fieldPath=".sweep"
type ExperimentSpec struct {
	// Databases are templates of the databases to compare. Claims refer to them by name.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Databases []ExperimentDatabase `json:"databases,omitempty"`

	// DatabaseRefs names existing GeoDatabases in the same namespace to compare. The experiment does not change them.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	DatabaseRefs []LocalReference `json:"databaseRefs,omitempty"`

	// Run is the template of each BenchmarkRun.
	// +required
	Run RunTemplate `json:"run"`

	// Sweep lists the fields that change from point to point, and their values. Several entries form a cross product, in
	// which the last entry varies fastest. Without entries there is one point per database.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Sweep []SweepParameter `json:"sweep,omitempty"`

	// Search finds, for each database at each combination of the swept values, the highest rate at which runs meet their
	// objectives: the peak. The points then run at the given percentages of the peak. Without search, the points run at
	// the rate in the run template.
	// +optional
	Search *RateSearch `json:"search,omitempty"`

	// Repetitions of each point, each with a different seed: seed, seed + 1, and so on. Claims use the medians.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Repetitions int32 `json:"repetitions,omitempty"`

	// Concurrency is the maximum number of databases that exist on a cluster for this experiment at the same time. Each
	// database runs one point after another. Runs that share machines disturb each other. Simulations do not, so they
	// ignore this field.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	Concurrency int32 `json:"concurrency,omitempty"`

	// Suspend, when true, starts no further run on a cluster. A run in progress finishes first. Then the operator deletes
	// the databases that the experiment created, and creates them again when the experiment resumes. Results are kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Claims about the results.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Claims []Claim `json:"claims,omitempty"`

	// Tables of figures, with one row for each database.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Tables []Table `json:"tables,omitempty"`

	// AllowInvalid lists reasons, for example DriverBound, with which an Invalid result still counts. A claim that needs
	// a result that is Invalid for another reason cannot be judged, and the experiment fails. Each claim shows which of
	// its results count only because of this list.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	AllowInvalid []string `json:"allowInvalid,omitempty"`

	// Gate adds conditions for the success of an experiment on a cluster. By default, an experiment succeeds if its
	// runs have results and its claims can be judged. A claim that does not hold is then a finding, not a failure.
	// With Claims, the experiment fails if a claim does not hold.
	// +optional
	Gate Gate `json:"gate,omitempty"`
}

// Gate is a condition for the success of an experiment.
// +kubebuilder:validation:Enum=Claims
type Gate string

// GateClaims fails an experiment if a claim does not hold.
const GateClaims Gate = "Claims"

// ExperimentDatabase is a database that an experiment creates.
type ExperimentDatabase struct {
	// Name of the database in claims, tables and plots, for example the name of its engine.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=27
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Template of the GeoDatabase.
	// +required
	Template DatabaseTemplate `json:"template"`
}

// DatabaseTemplate is the template for the GeoDatabases of an experiment.
type DatabaseTemplate struct {
	// Spec of the GeoDatabase.
	// +required
	Spec GeoDatabaseSpec `json:"spec"`
}

// RunTemplate is the template for the BenchmarkRuns of an experiment.
type RunTemplate struct {
	// Spec of the BenchmarkRun.
	// +required
	Spec RunTemplateSpec `json:"spec"`
}

// RunTemplateSpec is the spec of a BenchmarkRun without the reference to its database, which the experiment fills in.
type RunTemplateSpec struct {
	// Seed of the first repetition.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Seed int64 `json:"seed"`
	// Workload defines the transactions that clients send, and the initial data.
	// +required
	Workload Workload `json:"workload"`
	// Load sets the number of clients, the arrival of their transactions and the duration.
	// +required
	Load Load `json:"load"`
	// Faults is the timeline of faults. Its times are relative to the start of the measured window.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []Fault `json:"faults,omitempty"`
	// Objectives that each run must meet for the verdict Passed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []Objective `json:"objectives,omitempty"`
	// Verify lists the checks that validate the answers and the data after each run.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`
	// Deadline of each run.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('8760h')",message="must be longer than 0s and at most 8760h, for example 15m"
	// +optional
	Deadline *Duration `json:"deadline,omitempty"`
}

// SweepParameter is a swept field with its values, and the fields that change in step with it.
//
// +kubebuilder:validation:XValidation:rule="size(self.values) > 0",message="values is empty, and so is the cross product: list at least one value",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.path.startsWith('spec.') || self.path.startsWith('database.spec.')",messageExpression="'path ' + self.path + ' names no field: begin with spec. for a field of the run, for example spec.load.clientsPerRegion, or with database.spec. for one of the database'",fieldPath=".path"
// +kubebuilder:validation:XValidation:rule="!has(self.with) || self.with.all(w, size(w.values) == size(self.values))",message="a field of with has another number of values than the field that it changes in step with: list one value for each of its values",fieldPath=".with"
type SweepParameter struct {
	// Path of the field: spec. followed by a field of the run, or database.spec. followed by a field of the database. List
	// indexes start from 0, for example database.spec.network.profile.links[0].rtt.
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=253
	// +required
	Path string `json:"path"`
	// Values of the field, in plot order: numbers or strings. Quote true and false if the field is a string that has these
	// words as values.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +required
	Values []SweepValue `json:"values"`
	// With lists fields that change in step with this field. At the n-th value of this field, each field of with
	// has its own n-th value. An example is a rate that depends on the share of multi-home transactions. Fields of
	// with add no points and do not appear in plots and claims.
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=8
	// +optional
	With []SweepCompanion `json:"with,omitempty"`
}

// SweepCompanion is a field that changes in step with a swept field.
//
// +kubebuilder:validation:XValidation:rule="self.path.startsWith('spec.') || self.path.startsWith('database.spec.')",messageExpression="'path ' + self.path + ' names no field: begin with spec. for a field of the run, for example spec.load.ratePerSecond, or with database.spec. for one of the database'",fieldPath=".path"
type SweepCompanion struct {
	// Path of the field, in the same form as the path of a swept field.
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=253
	// +required
	Path string `json:"path"`
	// Values of the field, one for each value of the swept field. Values may repeat.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +required
	Values []SweepValue `json:"values"`
}

// SweepValue is a number or a string.
//
// +kubebuilder:validation:XIntOrString
type SweepValue = intstr.IntOrString

// RateSearch configures the search for the highest rate at which runs meet their objectives. A probe is a run at one
// rate. The candidate rates lie between run.spec.load.ratePerSecond and maxRatePerSecond, each tolerancePercent above
// the previous rate. The search is binary. A probe succeeds if its verdict is Passed and it commits committedPercent of
// the offered rate.
type RateSearch struct {
	// MaxRatePerSecond is the highest rate to try, in transactions per second and region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100000000
	// +required
	MaxRatePerSecond int64 `json:"maxRatePerSecond"`
	// CommittedPercent is the minimum throughput of a successful probe, in percent of the offered rate; 0 disables the
	// check. The total over all regions must reach it, and each region must reach it within three standard deviations.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=95
	// +optional
	CommittedPercent int32 `json:"committedPercent"`
	// TolerancePercent is the precision of the search: the distance between the highest rate that succeeded and the
	// lowest rate that failed, in percent.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=5
	// +optional
	TolerancePercent int32 `json:"tolerancePercent,omitempty"`
	// BestOf is the number of probes, each with a different seed. They decide by majority about the highest rate
	// that succeeded and the lowest rate that failed. Probes that could no longer change the majority are omitted.
	// With 1, each probe decides alone.
	// +kubebuilder:validation:Enum=1;3;5
	// +kubebuilder:default=3
	// +optional
	BestOf int32 `json:"bestOf,omitempty"`
	// MaxProbes is the maximum number of probes for each database at each combination of the swept values. A search that
	// reaches it ends with the highest rate that succeeded.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=30
	// +optional
	MaxProbes int32 `json:"maxProbes,omitempty"`
	// PeakPercents are the rates of the points, in percent of the peak. Claims refer to them as peakPercent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=100
	// +kubebuilder:default={100}
	// +optional
	PeakPercents []int32 `json:"peakPercents,omitempty"`
	// SharedBy lists the paths of swept parameters whose values share a peak. The search runs at the first value of each
	// parameter. Points at the remaining values run at percentages of the same peak, so that all points are compared
	// under equal load.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	SharedBy []string `json:"sharedBy,omitempty"`
}

// Claim is a statement about the results of an experiment, with an expression that checks it.
type Claim struct {
	// ID of the claim, for example sb-1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +required
	ID string `json:"id"`
	// Source is the origin of the claim, for example "SmallBank on Detock, 5.1".
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Source string `json:"source,omitempty"`
	// Says is the claim in words.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Says string `json:"says"`
	// Expression over the results, in the Common Expression Language. The claim holds if it evaluates to true.
	// docs/experiments.md lists the functions.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Expression string `json:"expression"`
	// Measured is an expression for the numbers to show. By default, these are the operands of the comparisons in
	// expression.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Measured string `json:"measured,omitempty"`
}

// Table is a table of figures, with one row for each database.
type Table struct {
	// Name of the table, used in file names.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Title of the table.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Title string `json:"title,omitempty"`
	// Columns of the table, after the first column, which contains the names of the databases.
	// +listType=map
	// +listMapKey=title
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	// +required
	Columns []TableColumn `json:"columns"`
}

// TableColumn is a column of numbers or texts.
type TableColumn struct {
	// Title of the column, with the unit.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Title string `json:"title"`
	// Value is an expression in the language of claims; in it, the variable system is the name of the row's database.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Value string `json:"value"`
}

// Conditions of an Experiment, in addition to ConditionAccepted and ConditionCompleted.
const (
	// ConditionProgressing of an experiment is True while there are runs or claims left to process and nothing blocks
	// them. For a GeoDatabase it is True while the database is being changed. It is False, with a reason, while a
	// requested change has to wait or is impossible.
	ConditionProgressing = "Progressing"
	// ConditionFailed is true if the experiment cannot be carried out. Once the experiment is over, it is also true if a
	// point failed or a claim could not be judged. A claim that does not hold is a finding, not a failure, unless
	// spec.gate is Claims.
	ConditionFailed = "Failed"
)

// ExperimentStatus reports the progress and the results of an experiment.
type ExperimentStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the experiment: Accepted, Progressing, Completed and Failed. Ready, Reconciling, Stalled and
	// Succeeded are for generic tools such as Flux and Helm.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// StartTime is the start of the first point.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is the time at which all points had finished and the claims were judged.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Points is the number of runs: databases x swept values x repetitions. With a search, it is the number of runs known
	// so far.
	// +optional
	Points int32 `json:"points"`
	// Completed is the number of points that have a result and did not fail a check.
	// +optional
	Completed int32 `json:"completed"`
	// Failed is the number of points that could not run or that gave wrong answers.
	// +optional
	Failed int32 `json:"failed"`
	// Active lists the points that are running.
	// +listType=map
	// +listMapKey=run
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Active []PointStatus `json:"active,omitempty"`
	// Results lists the first 100 finished points, in the order of the sweep. The ConfigMap that reportRef names contains
	// all of them.
	// +listType=map
	// +listMapKey=run
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Results []PointStatus `json:"results,omitempty"`
	// Searches reports the progress of the first 100 searches, in the order of the sweep. The ConfigMap that reportRef
	// names contains all searches, with their probes.
	// +listType=map
	// +listMapKey=point
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Searches []SearchStatus `json:"searches,omitempty"`
	// Claims reports whether each claim holds.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Claims []ClaimStatus `json:"claims,omitempty"`
	// ClaimsHold is the number of claims that hold and the number of all claims, for example 12/15. kubectl get shows it.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ClaimsHold string `json:"claimsHold,omitempty"`
	// ReportRef names the ConfigMap with the figures of all points and the claims: report.json and report.txt.
	// +optional
	ReportRef *LocalReference `json:"reportRef,omitempty"`
	// Checks records expensive work on this experiment that may crash the operator, for example by exhausting its memory.
	// +listType=map
	// +listMapKey=work
	// +kubebuilder:validation:MaxItems=2
	// +optional
	Checks []ExperimentCheck `json:"checks,omitempty"`
}

// ExperimentCheck records that an operator has started expensive work. If the operator exits during the work, the
// record remains.
type ExperimentCheck struct {
	// Work is Expand, which generates all points of the spec and tries its claims, or Judge, which judges the claims.
	// +required
	Work ExperimentWork `json:"work"`
	// Of is a digest of the inputs of the work.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Of string `json:"of,omitempty"`
	// Attempts is the number of operators that started the work without finishing it, including the current operator; 0
	// once the work is done. If an operator exits during the work, the next operator repeats the work with no other
	// expensive work in progress. After two attempts the operator refuses the work until the spec changes.
	// +optional
	Attempts int32 `json:"attempts"`
	// Operator identifies the operator process that last started the work.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Operator string `json:"operator,omitempty"`
}

// ExperimentWork is a kind of expensive work on an experiment.
// +kubebuilder:validation:Enum=Expand;Judge
type ExperimentWork string

const (
	// WorkExpand generates all points of the spec and tries its claims.
	WorkExpand ExperimentWork = "Expand"
	// WorkJudge evaluates the claims over the results.
	WorkJudge ExperimentWork = "Judge"
)

// PointStatus reports one repetition of a point of a sweep.
type PointStatus struct {
	// Run is the name of the BenchmarkRun.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Run string `json:"run"`
	// Point names the database and the swept values, for example "calvin multiHomePercent=50".
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Point string `json:"point,omitempty"`
	// Attempt counts from 1. A run that is Invalid for a reason outside the database is repeated.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Verdict of the run, once it is over.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`
	// Reason is the reason for the verdict in CamelCase.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`
	// ThroughputPerSecond is the number of committed transactions per second. It is unset if there is no result, as are
	// the fields below.
	// +optional
	ThroughputPerSecond *int64 `json:"throughputPerSecond,omitempty"`
	// P50Microseconds is the median latency in microseconds.
	// +optional
	P50Microseconds *Quantile `json:"p50Microseconds,omitempty"`
	// P99Microseconds is the 99th percentile of the latency in microseconds.
	// +optional
	P99Microseconds *Quantile `json:"p99Microseconds,omitempty"`
	// AbortPPM is the share of all transactions that aborted, in parts per million.
	// +optional
	AbortPPM *int64 `json:"abortPPM,omitempty"`
}

// SearchReason is the outcome of a search, or Searching while it runs.
// +kubebuilder:validation:Enum=Searching;Found;AllKeep;NoneKeeps;ProbesExhausted;ProbeUnusable
type SearchReason string

const (
	// SearchGoesOn means that the search is still running.
	SearchGoesOn SearchReason = "Searching"
	// SearchFound means that the peak is known to within the search's tolerance.
	SearchFound SearchReason = "Found"
	// SearchAllKeep means that even the highest rate meets the objectives: the peak may be higher.
	SearchAllKeep SearchReason = "AllKeep"
	// SearchNoneKeeps means that even the lowest rate misses the objectives: there is no peak.
	SearchNoneKeeps SearchReason = "NoneKeeps"
	// SearchProbesExhausted means that the search has used maxProbes probes: the peak may be higher, or there is none.
	SearchProbesExhausted SearchReason = "ProbesExhausted"
	// SearchProbeUnusable means that a probe failed a check or is Invalid, so it gives no information about its rate:
	// there is no peak.
	SearchProbeUnusable SearchReason = "ProbeUnusable"
)

// SearchStatus reports the search for one database at one combination of the swept values.
type SearchStatus struct {
	// Point names the database and the swept values, for example "calvin multiHomePercent=50".
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Point string `json:"point"`
	// Reason is Searching, or the outcome of the search.
	// +optional
	Reason SearchReason `json:"reason,omitempty"`
	// PeakRatePerSecond is the highest rate that meets the objectives, in transactions per second and region; omitted if
	// there is none.
	// +optional
	PeakRatePerSecond int64 `json:"peakRatePerSecond,omitempty"`
	// Probes is the number of finished probes.
	// +optional
	Probes int32 `json:"probes"`
	// Message lists the probes and the outcome.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// ClaimStatus reports whether a claim holds.
type ClaimStatus struct {
	// ID of the claim.
	// +kubebuilder:validation:MaxLength=63
	// +required
	ID string `json:"id"`
	// Holds is true if the expression evaluates to true.
	// +optional
	Holds bool `json:"holds"`
	// Message contains the numbers that were compared, or the reason why there are none.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// Experiment is a sweep of runs over databases and parameters, with claims about the results.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=exp,categories=geobench
// +kubebuilder:printcolumn:name="Points",type=integer,JSONPath=`.status.points`
// +kubebuilder:printcolumn:name="Completed",type=integer,JSONPath=`.status.completed`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Running",type=string,JSONPath=`.status.active[0].point`
// +kubebuilder:printcolumn:name="Claims",type=string,JSONPath=`.status.claimsHold`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 23 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",messageExpression="'metadata.name ' + self.metadata.name + ' names the runs together with 8 digits: it must be at most 23 lower-case letters, digits and dashes, and start with a letter'"
type Experiment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec defines the sweep and the claims.
	// +required
	Spec ExperimentSpec `json:"spec"`
	// Status reports the progress and the results of the experiment. observedGeneration is -1 until the operator has
	// processed the experiment for the first time.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status ExperimentStatus `json:"status,omitzero"`
}

// ExperimentList is a list of experiments.
//
// +kubebuilder:object:root=true
type ExperimentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Experiment `json:"items"`
}
