package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// schema is the part of a CRD's OpenAPI schema that the conventions concern.
type schema struct {
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Description          string             `json:"description"`
	Enum                 []any              `json:"enum"`
	MaxLength            *int64             `json:"maxLength"`
	MaxItems             *int64             `json:"maxItems"`
	MaxProperties        *int64             `json:"maxProperties"`
	Items                *schema            `json:"items"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Required             []string           `json:"required"`
	ListType             string             `json:"x-kubernetes-list-type"`
	ListMapKeys          []string           `json:"x-kubernetes-list-map-keys"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	PreserveUnknown      bool               `json:"x-kubernetes-preserve-unknown-fields"`
}

type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Versions []struct {
			Name    string `json:"name"`
			Columns []struct {
				Name string `json:"name"`
			} `json:"additionalPrinterColumns"`
			Subresources struct {
				Status *struct{} `json:"status"`
			} `json:"subresources"`
			Schema struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// kubernetesTypes are fields whose types are defined by Kubernetes. They may be unbounded.
var kubernetesTypes = []string{"metadata", "resources", "tolerations"}

// lintCRDs checks that the CRDs follow the conventions of this API. Every kind has printer columns, and a status with
// conditions and an observedGeneration. Every field has a description. Lists declare how they are merged. Lists, maps
// and strings are bounded, which also bounds the cost of CEL rules. A set of enumeration values has room for all of
// them. There are no floating-point numbers and no undeclared fields.
func lintCRDs(root string) error {
	files, err := filepath.Glob(filepath.Join(root, crdSources, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s holds no CRDs: generate them first", crdSources)
	}
	var findings []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var c crd
		if err := yaml.Unmarshal(text, &c); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, finding := range lintCRD(&c) {
			findings = append(findings, fmt.Errorf("%s/%s: %w", crdSources, filepath.Base(file), finding))
		}
	}
	if len(findings) == 0 {
		fmt.Printf("%d CRDs follow the conventions\n", len(files))
	}
	return errors.Join(findings...)
}

func lintCRD(c *crd) (findings []error) {
	say := func(where, format string, args ...any) {
		findings = append(findings, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
	}
	for _, v := range c.Spec.Versions {
		root := &v.Schema.Root
		if v.Subresources.Status == nil {
			say(v.Name, "no status subresource: add +kubebuilder:subresource:status")
		}
		if len(v.Columns) == 0 {
			say(v.Name, "no printer columns: add +kubebuilder:printcolumn")
		}
		if !slices.Contains(root.Required, "spec") {
			say(v.Name, "spec is not required: mark it +required")
		}
		status := root.Properties["status"]
		if status == nil || status.Properties["observedGeneration"] == nil {
			say("status", "no observedGeneration")
		}
		if status != nil {
			conditions := status.Properties["conditions"]
			if conditions == nil || conditions.ListType != "map" || !slices.Equal(conditions.ListMapKeys, []string{"type"}) {
				say("status.conditions", "want []metav1.Condition with +listType=map and +listMapKey=type")
			}
		}
		for _, name := range sortedKeys(root.Properties) {
			if name == "apiVersion" || name == "kind" || name == "metadata" {
				continue
			}
			lintSchema(name, root.Properties[name], say)
		}
	}
	return findings
}

func lintSchema(path string, s *schema, say func(where, format string, args ...any)) {
	if s.PreserveUnknown && s.Properties == nil && s.Type == "object" {
		say(path, "preserves unknown fields: declare them")
	}
	switch s.Type {
	case "number":
		say(path, "is a floating-point number: use an integer with the unit in its name")
	case "string":
		if s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time" {
			say(path, "is a string without bound: add +kubebuilder:validation:MaxLength or Enum")
		}
	case "array":
		if s.MaxItems == nil {
			say(path, "is a list without bound: add +kubebuilder:validation:MaxItems")
		}
		if s.ListType == "set" && s.MaxItems != nil && *s.MaxItems < int64(len(s.Items.Enum)) {
			say(path, "is a set of at most %d of %d values: raise +kubebuilder:validation:MaxItems", *s.MaxItems, len(s.Items.Enum))
		}
		switch s.ListType {
		case "map", "set", "atomic":
		default:
			say(path, "is a list that does not say how it merges: add +listType=map, set or atomic")
		}
	}
	if s.AdditionalProperties != nil && s.MaxProperties == nil {
		say(path, "is a map without bound: add +kubebuilder:validation:MaxProperties")
	}
	for _, name := range sortedKeys(s.Properties) {
		field, at := s.Properties[name], path+"."+name
		if strings.TrimSpace(field.Description) == "" {
			say(at, "is not described: write a comment above the field")
		}
		if slices.Contains(kubernetesTypes, name) {
			continue
		}
		lintSchema(at, field, say)
	}
	if s.Items != nil {
		lintSchema(path+"[]", s.Items, say)
	}
}
