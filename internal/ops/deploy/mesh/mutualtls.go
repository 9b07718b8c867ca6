package mesh

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// RootNamespace is the namespace of PeerAuthentications for the whole mesh, unless its administrator sets
// meshConfig.rootNamespace.
const RootNamespace = "istio-system"

// PeerAuthentication contains the relevant fields of an object of that kind (security.istio.io/v1).
type PeerAuthentication struct {
	Namespace string
	Created   time.Time
	// Selector selects the pods. An empty selector selects all pods of the namespace, or of the mesh if the namespace is
	// RootNamespace.
	Selector map[string]string
	// Mode is STRICT, PERMISSIVE, DISABLE, UNSET or empty. Ports contains the modes of individual ports.
	Mode  string
	Ports map[string]string
}

// MutualTLS returns the mode that PeerAuthentications require for connections to a port of a pod with these labels. The
// most specific mode applies, in the order port, pod, namespace, mesh. Of several policies at the same level, the
// oldest applies. Without any policy, the mode is Permissive.
// https://istio.io/latest/docs/reference/config/security/peer_authentication/
func MutualTLS(policies []PeerAuthentication, namespace string, labels map[string]string, port int32) v1alpha1.MutualTLS {
	var ofPod, ofNamespace, ofMesh *PeerAuthentication
	older := func(at **PeerAuthentication, p *PeerAuthentication) {
		if *at == nil || p.Created.Before((*at).Created) {
			*at = p
		}
	}
	for i := range policies {
		p := &policies[i]
		switch {
		case p.Namespace == namespace && len(p.Selector) > 0:
			if selects(p.Selector, labels) {
				older(&ofPod, p)
			}
		case len(p.Selector) > 0:
		case p.Namespace == RootNamespace:
			older(&ofMesh, p)
		case p.Namespace == namespace:
			older(&ofNamespace, p)
		}
	}
	var said []string
	if ofPod != nil {
		said = append(said, ofPod.Ports[strconv.Itoa(int(port))], ofPod.Mode)
	}
	for _, p := range []*PeerAuthentication{ofNamespace, ofMesh} {
		if p != nil {
			said = append(said, p.Mode)
		}
	}
	// If the mode is empty or UNSET, the next level determines the mode.
	for _, mode := range said {
		switch strings.ToUpper(mode) {
		case "STRICT":
			return v1alpha1.MutualTLSStrict
		case "PERMISSIVE":
			return v1alpha1.MutualTLSPermissive
		case "DISABLE":
			return v1alpha1.MutualTLSDisabled
		}
	}
	return v1alpha1.MutualTLSPermissive
}

// selects reports whether labels include all entries of the selector.
func selects(selector, labels map[string]string) bool {
	both := maps.Clone(labels)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, selector)
	return maps.Equal(both, labels)
}
