// Package wrong is a collection of wrong manifests, each with one error, and the expected messages. It tests `geobench
// validate`, a real API server and the operator's Preflight with the same expectations.
package wrong

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Refuser is the component that refuses a manifest in a cluster. Without a cluster, package manifest refuses all of
// them.
type Refuser string

const (
	// APIServer refuses the object, which is then never stored.
	APIServer Refuser = "APIServer"
	// Preflight refuses: the API server accepts the object, and the operator deploys nothing and gives the reason.
	Preflight Refuser = "Preflight"
)

// Case is a set of manifests with one error.
type Case struct {
	// Name describes the error.
	Name string
	// YAML holds a NetworkProfile, a GeoDatabase and a BenchmarkRun, in this order.
	YAML string
	// Kind of the object with the mistake.
	Kind string
	// Field that must be named.
	Field string
	// Want is part of the message: the value or what would be right.
	Want string
	// Server is the API server's message, if its wording differs; otherwise the message is Want.
	Server string
	// RefusedBy is the component that refuses it in a cluster.
	RefusedBy Refuser
}

// Valid is the manifests that the cases spoil.
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

// region has a name of 24 characters, as many as it can have.
func region(number int) string { return fmt.Sprintf("a-region-of-a-far-shr-%02d", number) }

// regions and links are as many regions for a patch, and all links between them.
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
