package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// Load sets the number of clients in each region, the arrival of their transactions, and the duration.
//
// +kubebuilder:validation:XValidation:rule="self.duration > self.warmup",messageExpression="'duration %s is not longer than warmup (%s): measure for longer than the warm-up'.format([self.duration, self.warmup])",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.ratePerSecond > 0",messageExpression="'ratePerSecond is 0, but arrival %s is an open loop: say how many transactions arrive per second in each region'.format([self.arrival])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival != 'Closed' || self.ratePerSecond == 0",messageExpression="'ratePerSecond is %d, but arrival Closed has no rate: set arrival to Constant or Poisson, or leave ratePerSecond 0'.format([self.ratePerSecond])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.thinkTime == duration('0s')",messageExpression="'thinkTime is %s, but arrival %s has no think time: set arrival to Closed, or leave thinkTime 0s'.format([self.thinkTime, self.arrival])",fieldPath=".thinkTime"
// +kubebuilder:validation:XValidation:rule="!has(self.curve) || self.arrival != 'Closed' || !has(self.curve.stepsPercent) || self.curve.stepsPercent.exists(p, p * self.clientsPerRegion >= 50)",messageExpression="'stepsPercent of clientsPerRegion %d is less than half a client in every step, so that nothing would be sent: take more clients, or higher steps'.format([self.clientsPerRegion])",fieldPath=".curve.stepsPercent"
// +kubebuilder:validation:XValidation:rule="self.workersPerRegion <= self.clientsPerRegion",messageExpression="'workersPerRegion %d is more than clientsPerRegion (%d): each worker needs a client'.format([self.workersPerRegion, self.clientsPerRegion])",fieldPath=".workersPerRegion"
// +kubebuilder:validation:XValidation:rule="!has(self.retry) || self.retry.backoff < self.requestTimeout",messageExpression="'backoff %s is not shorter than requestTimeout (%s), which covers all attempts: there would be no time for a second one'.format([self.retry.backoff, self.requestTimeout])",fieldPath=".retry.backoff"
type Load struct {
	// ClientsPerRegion is the number of concurrent clients in each region. In an open loop, it is the largest number of
	// transactions in flight.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=100
	// +optional
	ClientsPerRegion int32 `json:"clientsPerRegion,omitempty"`
	// WorkersPerRegion is the number of worker pods that share the clients of a region.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	WorkersPerRegion int32 `json:"workersPerRegion,omitempty"`
	// Coordinator selects the node of a client's region to which the client sends a transaction. FirstKey, the default,
	// selects a node of the partition that stores the first key. RoundRobin uses each node in turn regardless of the keys,
	// like clients that do not know the partitions. The field is only for Geobench's own engines. With RoundRobin, engines
	// whose nodes look up the homes of rows on other nodes (parameter masters) have the latency of these lookups.
	// +optional
	Coordinator Coordinator `json:"coordinator,omitempty"`
	// Arrival is Closed, Constant or Poisson. With Closed, a client sends its next transaction after the answer to the
	// previous transaction and a think time. With Constant and Poisson, transactions arrive at ratePerSecond, regardless
	// of the database's progress, and latency counts from the planned start.
	// +kubebuilder:default=Closed
	// +optional
	Arrival Arrival `json:"arrival,omitempty"`
	// RatePerSecond is the number of transactions that arrive per second in each region. It applies only to an open loop.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=0
	// +optional
	RatePerSecond int64 `json:"ratePerSecond"`
	// Curve varies the load during the measured time of each repetition. By default, the load is constant.
	// +optional
	Curve *LoadCurve `json:"curve,omitempty"`
	// ThinkTime is the mean pause between an answer and the client's next transaction in a closed loop. As in TPC-C,
	// pauses are exponentially distributed and at most ten times the mean.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h"
	// +kubebuilder:default="0s"
	// +optional
	ThinkTime Duration `json:"thinkTime"`
	// RequestTimeout is the time after which an unanswered transaction counts as timed out. It starts when the
	// transaction is first sent, and covers all attempts and the pauses between them.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('1h')",message="must be longer than 0s and at most 1h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	RequestTimeout Duration `json:"requestTimeout,omitzero"`
	// Retry configures which transactions are retried, and how often. By default, none are: a transaction that did not
	// commit is counted, and its client continues with a new transaction.
	// +optional
	Retry *Retry `json:"retry,omitempty"`
	// Warmup is the time for which the load runs before each repetition without being measured.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('168h')",message="must be 0s to 168h, for example 10s"
	// +kubebuilder:default="10s"
	// +optional
	Warmup Duration `json:"warmup"`
	// Duration of one measured repetition.
	// +kubebuilder:validation:XValidation:rule="self <= duration('168h')",message="must be at most 168h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	Duration Duration `json:"duration,omitzero"`
	// Repetitions of the warm-up and the measured window, on the same data.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Repetitions int32 `json:"repetitions,omitempty"`
	// Resources of one worker pod. The clients in the pod share as many processors as its CPU limit allows (or its
	// request, without a limit), and one by default. The default memory limit is 8Gi. A run is Invalid if a worker uses
	// more than 80% of its CPU.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// LoadCurve scales the load over the measured window: ratePerSecond in an open loop, clientsPerRegion in a closed loop.
// Every repetition starts at the beginning of the curve, and its warm-up has the load of that point.
//
// +kubebuilder:validation:XValidation:rule="(self.shape == 'Steps') == has(self.stepsPercent)",messageExpression="self.shape == 'Steps' ? 'stepsPercent is missing, but shape is Steps: say how much of the load there is in each of the equal parts of the measured time, for example [100, 20, 60]' : 'stepsPercent is set, but shape %s has no steps: set shape to Steps, or leave stepsPercent out'.format([self.shape])",fieldPath=".stepsPercent"
// +kubebuilder:validation:XValidation:rule="self.shape == 'Gaussian' || !has(self.peakAtPercent)",messageExpression="'peakAtPercent is %d, but shape %s has no peak: set shape to Gaussian, or leave peakAtPercent out'.format([self.peakAtPercent, self.shape])",fieldPath=".peakAtPercent"
// +kubebuilder:validation:XValidation:rule="self.shape == 'Gaussian' || !has(self.deviationPercent)",messageExpression="'deviationPercent is %d, but shape %s has no deviation: set shape to Gaussian, or leave deviationPercent out'.format([self.deviationPercent, self.shape])",fieldPath=".deviationPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.stepsPercent) || self.stepsPercent.exists(p, p > 0)",message="stepsPercent has no step above 0, so that nothing would be sent: make one at least 1",fieldPath=".stepsPercent"
type LoadCurve struct {
	// Shape is Uniform, Gaussian or Steps. A Uniform load is constant, as without a curve. A Gaussian load rises to its
	// peak and falls again, as in Dike's dynamic load. With Steps, the load changes in steps.
	// +required
	Shape LoadShape `json:"shape"`
	// PeakAtPercent is the time of the peak of a Gaussian load, in percent of the measured time; the default is 50.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	PeakAtPercent *int32 `json:"peakAtPercent,omitempty"`
	// DeviationPercent is the standard deviation of a Gaussian load, in percent of the measured time; the default is 15.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	DeviationPercent *int32 `json:"deviationPercent,omitempty"`
	// StepsPercent lists the loads of equal parts of the measured time, in percent of the full load.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=100
	// +optional
	StepsPercent []int32 `json:"stepsPercent,omitempty"`
}

// LoadShape is the shape of a LoadCurve.
// +kubebuilder:validation:Enum=Uniform;Gaussian;Steps
type LoadShape string

const (
	// LoadUniform is a constant load.
	LoadUniform LoadShape = "Uniform"
	// LoadGaussian rises and falls like the density of a normal distribution.
	LoadGaussian LoadShape = "Gaussian"
	// LoadSteps has a different load in each of several equal parts of the measured time.
	LoadSteps LoadShape = "Steps"
)

// Coordinator selects the node of a client's region to which the client sends a transaction.
// +kubebuilder:validation:Enum=FirstKey;RoundRobin
type Coordinator string

const (
	// CoordinatorFirstKey selects a node of the partition that stores the transaction's first key.
	CoordinatorFirstKey Coordinator = "FirstKey"
	// CoordinatorRoundRobin selects each node of the region in turn.
	CoordinatorRoundRobin Coordinator = "RoundRobin"
)

// Arrival is the arrival process of transactions.
// +kubebuilder:validation:Enum=Closed;Constant;Poisson
type Arrival string

const (
	// ArrivalClosed is a closed loop: each client has one transaction in flight.
	ArrivalClosed Arrival = "Closed"
	// ArrivalConstant is an open loop with equal intervals between arrivals.
	ArrivalConstant Arrival = "Constant"
	// ArrivalPoisson is an open loop with exponentially distributed intervals between arrivals.
	ArrivalPoisson Arrival = "Poisson"
)

// Retry configures the retries of transactions. Only transactions without an effect are retried: aborted or refused
// transactions. A transaction with an unknown outcome may have committed and is never retried. A transaction that the
// procedure itself aborts is not retried either, because the outcome would be the same. For the database, each attempt
// is a separate transaction. Latency counts from the time at which the first attempt was due.
//
// +kubebuilder:validation:XValidation:rule="has(self.attempts) && self.attempts >= 1",messageExpression="!has(self.attempts) ? 'attempts is missing, and a retry needs a bound: say how often a transaction is sent at most, the first attempt included, for example 3' : 'attempts %d is no bound: make it 1 to 100, the first attempt included'.format([self.attempts])",fieldPath=".attempts"
// +kubebuilder:validation:XValidation:rule="self.maxBackoff >= self.backoff",messageExpression="'maxBackoff %s is shorter than backoff (%s): make it at least that'.format([self.maxBackoff, self.backoff])",fieldPath=".maxBackoff"
type Retry struct {
	// Attempts is the maximum number of times that a transaction is sent, including the first attempt: 1 to 100. With 1,
	// nothing is retried, which is useful as the first value of a sweep. There is no default.
	// +kubebuilder:validation:Maximum=100
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// Backoff is the pause between the first answer and the second attempt. Each further pause is twice as long. No
	// attempt starts after requestTimeout.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h, for example 10ms"
	// +kubebuilder:default="10ms"
	// +optional
	Backoff Duration `json:"backoff"`
	// MaxBackoff is the maximum length of a pause, before jitter.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h, for example 1s"
	// +kubebuilder:default="1s"
	// +optional
	MaxBackoff Duration `json:"maxBackoff"`
	// Jitter is the random variation of a pause, in percent: with 50, a pause is half to one and a half times as long.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=50
	// +optional
	Jitter int32 `json:"jitter"`
	// Causes lists the causes of failure that are retried. Conflict means that the concurrency control aborted the
	// transaction. Node means that a node refused the transaction or could not be reached.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:default={Conflict}
	// +optional
	Causes []RetryCause `json:"causes,omitempty"`
}

// RetryCause is a cause for which a transaction did not commit and may succeed on a retry.
// +kubebuilder:validation:Enum=Conflict;Node
type RetryCause string

const (
	// RetryConflict means that the concurrency control aborted the transaction in favor of other transactions.
	RetryConflict RetryCause = "Conflict"
	// RetryNode means that a node refused the transaction because it was overloaded or not ready, or that the node was
	// unreachable.
	RetryNode RetryCause = "Node"
)
