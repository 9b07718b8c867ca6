// Package wrong is a collection of wrong manifests, each with one error and the expected message. The same expectations
// test `geobench validate`, a real API server and the operator's Preflight.
package wrong

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Refuser is the component of a cluster that refuses a manifest. Without a cluster, package manifest refuses all wrong
// manifests.
type Refuser string

const (
	// APIServer means that the API server refuses the object and never stores it.
	APIServer Refuser = "APIServer"
	// Preflight means that the API server accepts the object, but the operator deploys nothing and reports the reason.
	Preflight Refuser = "Preflight"
)

// Case is a set of manifests with one error.
type Case struct {
	// Name describes the error.
	Name string
	// YAML contains a NetworkProfile, a GeoDatabase and a BenchmarkRun, in this order.
	YAML string
	// Kind is the kind of the object with the error.
	Kind string
	// Field is the field that the message must name.
	Field string
	// Want is a required substring of the message: the value, or a correct value.
	Want string
	// Server is a required substring of the API server's message, or "" if Want applies to this message, too.
	Server string
	// RefusedBy is the component that refuses the manifest in a cluster.
	RefusedBy Refuser
}

// Valid contains valid manifests, which the cases modify.
const Valid = `apiVersion: geobench.dev/v1alpha1
kind: NetworkProfile
metadata: {name: two}
spec:
  intraRegion: {rtt: 400us}
  links:
  - {from: us-west-2, to: ap-northeast-1, rtt: 100ms}
---
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine:
    name: calvin
    parameters: {batch: 5ms}
  regions:
  - name: us-west-2
  - name: ap-northeast-1
  partitionsPerRegion: 2
  network:
    profileRef: {name: two}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: run}
spec:
  databaseRef: {name: db}
  workload:
    smallbank: {customers: 10000}
  load: {clientsPerRegion: 10, warmup: 1s, duration: 5s}
`

// mistake is a JSON merge patch on one of the documents of Valid.
type mistake struct {
	name, kind, patch, field, want, server string
	by                                     Refuser
}

// region returns a region name with 24 characters, which is the maximum.
func region(number int) string { return fmt.Sprintf("a-region-of-a-far-shr-%02d", number) }

// regions returns the given number of regions in the syntax of a patch, and links returns the links between all of
// them.
func regions(count int) string {
	var out []string
	for i := range count {
		out = append(out, fmt.Sprintf("{name: %s}", region(i)))
	}
	return strings.Join(out, ", ")
}

func links(count int) string {
	var out []string
	for i := range count {
		for j := range i {
			out = append(out, fmt.Sprintf("{from: %s, to: %s, rtt: 100ms}", region(j), region(i)))
		}
	}
	return strings.Join(out, ", ")
}

// Cases returns all cases.
func Cases() ([]Case, error) {
	out := make([]Case, 0, len(mistakes))
	for _, m := range mistakes {
		var patch map[string]any
		if err := yaml.Unmarshal([]byte(m.patch), &patch); err != nil {
			return nil, fmt.Errorf("case %q: %w", m.name, err)
		}
		var docs [][]byte
		patched := false
		for _, text := range bytes.Split([]byte(Valid), []byte("---\n")) {
			var doc map[string]any
			if err := yaml.Unmarshal(text, &doc); err != nil {
				return nil, err
			}
			if doc["kind"] == m.kind {
				merge(doc, patch)
				patched = true
			}
			text, err := yaml.Marshal(doc)
			if err != nil {
				return nil, fmt.Errorf("case %q: %w", m.name, err)
			}
			docs = append(docs, text)
		}
		if !patched {
			return nil, fmt.Errorf("case %q: there is no kind %s", m.name, m.kind)
		}
		c := Case{Name: m.name, YAML: string(bytes.Join(docs, []byte("---\n"))), Kind: m.kind, Field: m.field, Want: m.want, Server: m.server, RefusedBy: m.by}
		if c.Server == "" {
			c.Server = c.Want
		}
		out = append(out, c)
	}
	return out, nil
}

// merge applies a JSON merge patch (RFC 7396).
func merge(doc, patch map[string]any) {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(doc, k)
		case map[string]any:
			child, ok := doc[k].(map[string]any)
			if !ok {
				child = map[string]any{}
				doc[k] = child
			}
			merge(child, v)
		default:
			doc[k] = v
		}
	}
}
