package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/geobench/geobench/api/v1alpha1"
)

// Scheme returns a scheme with Geobench's kinds and the Kubernetes kinds that the operator uses.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s)) // cannot fail, because the types are fixed
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}
