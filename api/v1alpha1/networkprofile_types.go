package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkProfileSpec declares a wide-area network as a list of links between regions, each with a round-trip time.
//
// The regions of a profile are the regions in its links. A link is symmetric unless the opposite direction is listed
// too.
type NetworkProfileSpec struct {
	// IntraRegion is the link between two nodes of the same region. A listed link from a region to itself overrides it
	// for that region.
	// +optional
	IntraRegion IntraRegion `json:"intraRegion,omitzero"`

	// Links between regions. Each pair of regions that a database uses needs a link in at least one direction.
	// +listType=map
	// +listMapKey=from
	// +listMapKey=to
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +required
	Links []Link `json:"links"`

	// Prices determine the cost of a run from its nodes, time and bytes. Without prices, results have no cost.
	// +optional
	Prices *Prices `json:"prices,omitempty"`
}

// IntraRegion is the network inside a region.
//
// +kubebuilder:validation:XValidation:rule="self.jitter <= self.rtt || self.rtt < duration('0s')",messageExpression="'jitter %s is longer than rtt (%s): it must be at most the rtt'.format([self.jitter, self.rtt])",fieldPath=".jitter"
type IntraRegion struct {
	// RTT is the round-trip time between two nodes of a region. Half of it is injected in each direction.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('60s')",message="must be 0s to 60s, for example 400us"
	// +kubebuilder:default="0s"
	// +optional
	RTT Duration `json:"rtt"`
	// Jitter is the standard deviation of the round-trip time.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('60s')",message="must be 0s to 60s, for example 1ms"
	// +kubebuilder:default="0s"
	// +optional
	Jitter Duration `json:"jitter"`
}

// Link describes the network between two regions.
//
// +kubebuilder:validation:XValidation:rule="self.jitter <= self.rtt || self.rtt < duration('0s')",messageExpression="'jitter %s is longer than rtt (%s): it must be at most the rtt'.format([self.jitter, self.rtt])",fieldPath=".jitter"
type Link struct {
	// From is the sending region.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	From string `json:"from"`
	// To is the receiving region.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	To string `json:"to"`
	// RTT is the round-trip time. Half of it is injected in each direction. If the opposite direction is listed too, each
	// direction has half of the round-trip time of its own entry.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('60s')",message="must be 0s to 60s, for example 100ms"
	// +required
	RTT Duration `json:"rtt"`
	// Jitter is the standard deviation of the round-trip time.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('60s')",message="must be 0s to 60s, for example 1ms"
	// +kubebuilder:default="0s"
	// +optional
	Jitter Duration `json:"jitter"`
	// LossPPM is the share of packets lost in each direction, in parts per million.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	LossPPM int32 `json:"lossPPM"`
	// BandwidthMbps is the bandwidth in each direction between two nodes, in megabits per second; 0 is unlimited.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=0
	// +optional
	BandwidthMbps int32 `json:"bandwidthMbps"`
}

// Prices sets the prices of a run, in millionths of a currency unit.
type Prices struct {
	// Currency is the ISO 4217 code of the prices.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:default=USD
	// +optional
	Currency string `json:"currency,omitempty"`
	// NodePerHourMicros is the price of one node for one hour, in millionths of the currency unit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	// +kubebuilder:default=0
	// +optional
	NodePerHourMicros int64 `json:"nodePerHourMicros"`
	// Transfer lists the prices of data sent from one region to another. Data inside a region, and data between regions
	// that no entry matches, is free.
	// +listType=map
	// +listMapKey=from
	// +listMapKey=to
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Transfer []TransferPrice `json:"transfer,omitempty"`
}

// TransferPrice is the price of data sent from a region.
type TransferPrice struct {
	// From is the sending region, which pays.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	From string `json:"from"`
	// To is the receiving region; "*" matches every region without a separate entry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`
	// +kubebuilder:default="*"
	// +optional
	To string `json:"to,omitempty"`
	// PerGBMicros is the price of 10^9 bytes, in millionths of the currency unit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	// +required
	PerGBMicros int64 `json:"perGBMicros"`
}

// NetworkProfileStatus has no measurements; they are in the status of each GeoDatabase.
type NetworkProfileStatus struct {
	// ObservedGeneration is the generation that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the profile.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkProfile declares the round-trip times between regions. GeoDatabases refer to it by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=netprofile;np,categories=geobench
// +kubebuilder:printcolumn:name="Intra-region",type=string,JSONPath=`.spec.intraRegion.rtt`
// +kubebuilder:printcolumn:name="First-link",type=string,JSONPath=`.spec.links[0].rtt`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkProfile struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec declares the network.
	// +required
	Spec NetworkProfileSpec `json:"spec"`
	// Status of the profile.
	// +optional
	Status NetworkProfileStatus `json:"status,omitzero"`
}

// NetworkProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type NetworkProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []NetworkProfile `json:"items"`
}
