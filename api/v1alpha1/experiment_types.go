package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ExperimentSpec describes a sweep: every database runs at every combination of the swept values, for the given number
// of repetitions. It also holds the claims about the results.
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
	// Databases that are compared, as templates. Claims call them by their names.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Databases []ExperimentDatabase `json:"databases,omitempty"`

	// DatabaseRefs names existing GeoDatabases of the same namespace to compare, without changes.
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

	// Search finds, for each database at each combination of the swept values, the highest rate at which runs keep
	// their objectives: the peak. Points are then runs at shares of it. Without search, points are at the rate that the
	// run has.
	// +optional
	Search *RateSearch `json:"search,omitempty"`

	// Repetitions of each point, each with a different seed: seed, seed + 1 and so on. Claims use the medians.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Repetitions int32 `json:"repetitions,omitempty"`

	// Concurrency is the number of databases that exist on a cluster for this experiment at the same time. Each database
	// runs one point after another. Runs that share machines disturb each other; simulations do not, and ignore this
	// field.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	Concurrency int32 `json:"concurrency,omitempty"`

	// Suspend, when true, starts no further run on a cluster. A run in progress finishes first; then the operator deletes
	// the databases that the experiment made, and creates them again on resumption. Results are kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Claims about the results.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Claims []Claim `json:"claims,omitempty"`

	// Tables put figures of all databases side by side.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Tables []Table `json:"tables,omitempty"`

	// AllowInvalid names reasons for which a result may be Invalid and count all the same, for example DriverBound. A claim over a result that is
	// Invalid for another reason has none, and an experiment with such a point has failed. What counts by this list is shown with each claim.
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +optional
	AllowInvalid []string `json:"allowInvalid,omitempty"`

	// Gate adds conditions for the success of an experiment on a cluster. By default an experiment succeeds if its runs
	// work and its claims can be judged: a claim that does not hold is a finding, not a failure. With Claims, the
	// experiment fails if a claim does not hold.
	// +optional
	Gate Gate `json:"gate,omitempty"`
}

// Gate is what an experiment is held to.
// +kubebuilder:validation:Enum=Claims
type Gate string

// GateClaims makes an experiment fail when a claim does not hold.
const GateClaims Gate = "Claims"

// ExperimentDatabase is a database that an experiment makes.
type ExperimentDatabase struct {
	// Name of the database, for example the engine's.
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

// RunTemplateSpec is the spec of a BenchmarkRun but for its database, which the experiment fills in.
type RunTemplateSpec struct {
	// Seed of the first repetition.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Seed int64 `json:"seed"`
	// Workload is what clients do.
	// +required
	Workload Workload `json:"workload"`
	// Load sets the number of clients, the arrival of their transactions and the duration.
	// +required
	Load Load `json:"load"`
	// Faults is a timeline, relative to the start of measuring.
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
	// Verify lists the checks of the answers and the data at the end of each run.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`
	// Deadline of each run.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('8760h')",message="must be longer than 0s and at most 8760h, for example 15m"
	// +optional
	Deadline *Duration `json:"deadline,omitempty"`
}

// SweepParameter is a field and the values that it takes, and the fields that change in step with it.
//
// +kubebuilder:validation:XValidation:rule="size(self.values) > 0",message="values is empty, and so is the cross product: list at least one value",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.path.startsWith('spec.') || self.path.startsWith('database.spec.')",messageExpression="'path ' + self.path + ' names no field: begin with spec. for a field of the run, for example spec.load.clientsPerRegion, or with database.spec. for one of the database'",fieldPath=".path"
// +kubebuilder:validation:XValidation:rule="!has(self.with) || self.with.all(w, size(w.values) == size(self.values))",message="a field of with has another number of values than the field that it changes in step with: list one value for each of its values",fieldPath=".with"
type SweepParameter struct {
	// Path of the field: spec. and a field of the run, or database.spec. and a field of the database. Elements of lists
	// are counted from 0: database.spec.network.profile.links[0].rtt.
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=253
	// +required
	Path string `json:"path"`
	// Values of the field, in the order of the plots: numbers or strings. For a field that takes the strings "true" and
	// "false", write them with quotes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +required
	Values []SweepValue `json:"values"`
	// With lists fields that change in step with this field: at the point of the n-th value, each of them has its n-th
	// value. An example is the rate that suits a share of multi-home transactions. These fields add no points, and plots
	// and claims do not name them.
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
// rate. The candidate rates lie between run.spec.load.ratePerSecond and maxRatePerSecond. Each rate is tolerancePercent
// above the previous rate, and the search is binary. A probe succeeds if its verdict is Passed and it commits
// committedPercent of the offered rate.
type RateSearch struct {
	// MaxRatePerSecond is the highest rate to try, per second in each region.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100000000
	// +required
	MaxRatePerSecond int64 `json:"maxRatePerSecond"`
	// CommittedPercent is the least throughput, in percent of the offered rate; 0 disables the check. The sum of all
	// regions must reach it. Each region must reach it, too, within three standard deviations.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=95
	// +optional
	CommittedPercent int32 `json:"committedPercent"`
	// TolerancePercent is by how much the lowest rate that was found to fail is above the highest that was found to
	// hold.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=5
	// +optional
	TolerancePercent int32 `json:"tolerancePercent,omitempty"`
	// BestOf is the number of probes, each with a different seed, that decide by majority about each of the two rates that
	// tolerancePercent compares. No more probes run than the majority needs. With 1, each probe decides alone.
	// +kubebuilder:validation:Enum=1;3;5
	// +kubebuilder:default=3
	// +optional
	BestOf int32 `json:"bestOf,omitempty"`
	// MaxProbes bounds the probes of each database at each combination of the swept values. A search that runs out of
	// them ends with the highest rate that it has found to hold.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=30
	// +optional
	MaxProbes int32 `json:"maxProbes,omitempty"`
	// PeakPercents are the rates of the points, in percent of the peak. Claims call them peakPercent.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=100
	// +kubebuilder:default={100}
	// +optional
	PeakPercents []int32 `json:"peakPercents,omitempty"`
	// SharedBy lists paths of swept parameters whose values share a peak. The search runs at the first value of each
	// parameter. Points at the remaining values use shares of the same peak, so that all points are compared under equal
	// load.
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +optional
	SharedBy []string `json:"sharedBy,omitempty"`
}

// Claim is something that the results of an experiment are said to show.
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
	// Expression over the results, in the Common Expression Language, that is true when the claim holds.
	// docs/experiments.md lists the functions.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Expression string `json:"expression"`
	// Measured is an expression for the numbers to show; unset, they are the sides of expression's comparisons.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Measured string `json:"measured,omitempty"`
}

// Table has a row for each database.
type Table struct {
	// Name of the table, for files.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`
	// Title of the table.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Title string `json:"title,omitempty"`
	// Columns after the column with the databases' names.
	// +listType=map
	// +listMapKey=title
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	// +required
	Columns []TableColumn `json:"columns"`
}

// TableColumn is a figure, or words, of each database.
type TableColumn struct {
	// Title of the column, with the unit.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Title string `json:"title"`
	// Value is an expression in the language of claims, in which system is the name of the row's database.
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
	// ConditionFailed is true when the experiment cannot be carried out, and, once it is over, when a point failed or a
	// claim has no answer. A claim that differs is a finding, not a failure, unless spec.gate says otherwise.
	ConditionFailed = "Failed"
)

// ExperimentStatus reports the progress and the results of an experiment.
type ExperimentStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Accepted, Progressing, Completed, Failed; and Ready, Reconciling, Stalled, Succeeded, by which other tools judge the
	// experiment.
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
	// Points is the number of runs: databases x swept values x repetitions. With a search, it is the number known so far.
	// +optional
	Points int32 `json:"points"`
	// Completed is the number of points that have a result whose answers were not found wrong.
	// +optional
	Completed int32 `json:"completed"`
	// Failed points could not run, or gave wrong answers.
	// +optional
	Failed int32 `json:"failed"`
	// Active points are running.
	// +listType=map
	// +listMapKey=run
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Active []PointStatus `json:"active,omitempty"`
	// Results of points that have ended, in the order of the sweep: the first 100. The ConfigMap of reportRef has all.
	// +listType=map
	// +listMapKey=run
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Results []PointStatus `json:"results,omitempty"`
	// Searches reports the progress of the first 100 searches, in the order of the sweep. The ConfigMap of reportRef has
	// all searches, with their probes.
	// +listType=map
	// +listMapKey=point
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Searches []SearchStatus `json:"searches,omitempty"`
	// Claims and whether they hold.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Claims []ClaimStatus `json:"claims,omitempty"`
	// ClaimsHold is the number of claims that hold, for kubectl's column, for example 12/15.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ClaimsHold string `json:"claimsHold,omitempty"`
	// ReportRef names the ConfigMap with the figures of all points and the claims: report.json and report.txt.
	// +optional
	ReportRef *LocalReference `json:"reportRef,omitempty"`
	// Checks are the works on this experiment that an operator may not survive.
	// +listType=map
	// +listMapKey=work
	// +kubebuilder:validation:MaxItems=2
	// +optional
	Checks []ExperimentCheck `json:"checks,omitempty"`
}

// ExperimentCheck records that the operator has started expensive work. An operator that exits during the work leaves the record.
type ExperimentCheck struct {
	// Work is Expand, which makes all points of the spec and tries its claims, or Judge.
	// +required
	Work ExperimentWork `json:"work"`
	// Of is a digest of the inputs of the work.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Of string `json:"of,omitempty"`
	// Attempts is the number of operators that started the work without finishing it, including the current operator; 0
	// once the work is done. If an operator exits during the work, the next operator repeats it with no other such work in
	// progress. After two attempts the work is refused until the spec changes.
	// +optional
	Attempts int32 `json:"attempts"`
	// Operator identifies the process that started the work last.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Operator string `json:"operator,omitempty"`
}

// ExperimentWork is what an operator does with an experiment.
// +kubebuilder:validation:Enum=Expand;Judge
type ExperimentWork string

const (
	// WorkExpand makes all points of the spec and tries its claims.
	WorkExpand ExperimentWork = "Expand"
	// WorkJudge judges the claims over the results.
	WorkJudge ExperimentWork = "Judge"
)

// PointStatus reports one point of a sweep, or one repetition of it.
type PointStatus struct {
	// Run is the BenchmarkRun's name.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Run string `json:"run"`
	// Point is the database and the swept values, for example "calvin multiHomePercent=50".
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Point string `json:"point,omitempty"`
	// Attempt counts from 1; a run that was Invalid for a reason outside of the database is tried again.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Verdict of the run, once it is over.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`
	// Reason is a CamelCase word for the verdict.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`
	// ThroughputPerSecond is committed transactions per second; this and the next three are set when there is a result.
	// +optional
	ThroughputPerSecond *int64 `json:"throughputPerSecond,omitempty"`
	// P50Microseconds is the median latency.
	// +optional
	P50Microseconds *Quantile `json:"p50Microseconds,omitempty"`
	// P99Microseconds is the 99th percentile of it.
	// +optional
	P99Microseconds *Quantile `json:"p99Microseconds,omitempty"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM *int64 `json:"abortPPM,omitempty"`
}

// SearchReason is the outcome of a search, or Searching while it runs.
// +kubebuilder:validation:Enum=Searching;Found;AllKeep;NoneKeeps;ProbesExhausted;ProbeUnusable
type SearchReason string

const (
	// SearchGoesOn is a search that has not ended.
	SearchGoesOn SearchReason = "Searching"
	// SearchFound means that the peak is known to within the search's tolerance.
	SearchFound SearchReason = "Found"
	// SearchAllKeep means that the highest rate meets the objectives: the peak may be higher.
	SearchAllKeep SearchReason = "AllKeep"
	// SearchNoneKeeps means that the lowest rate misses the objectives already: there is no peak.
	SearchNoneKeeps SearchReason = "NoneKeeps"
	// SearchProbesExhausted means that the search has used maxProbes probes: the peak may be higher, or there is none.
	SearchProbesExhausted SearchReason = "ProbesExhausted"
	// SearchProbeUnusable means that a probe was wrong or Invalid and gives no information about its rate: there is no
	// peak.
	SearchProbeUnusable SearchReason = "ProbeUnusable"
)

// SearchStatus reports the search of a database at one combination of the swept values.
type SearchStatus struct {
	// Point is the database and the swept values, for example "calvin multiHomePercent=50".
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Point string `json:"point"`
	// Reason is Searching, or how the search has ended.
	// +optional
	Reason SearchReason `json:"reason,omitempty"`
	// PeakRatePerSecond is the highest rate in each region that meets the objectives; omitted if there is none.
	// +optional
	PeakRatePerSecond int64 `json:"peakRatePerSecond,omitempty"`
	// Probes that have ended.
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
	// Holds is true when the expression is.
	// +optional
	Holds bool `json:"holds"`
	// Message holds the numbers that were compared, or why there are none.
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
	// Status reports the progress and the results of the experiment. Until the operator has seen the experiment,
	// observedGeneration is -1.
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
