package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "geobench.dev", Version: "v1alpha1"}

var (
	// SchemeBuilder collects the functions that register this package's kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers this package's kinds with a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&NetworkProfile{}, &NetworkProfileList{},
		&GeoDatabase{}, &GeoDatabaseList{},
		&BenchmarkRun{}, &BenchmarkRunList{},
		&Experiment{}, &ExperimentList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
