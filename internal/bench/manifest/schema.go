package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/geobench/geobench/config/crd"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// kindSchema validates the objects of a kind like the API server.
type kindSchema struct {
	kind       string
	plural     string
	structural *schema.Structural
	openapi    validation.SchemaValidator
	rules      *cel.Validator
}

// schemas returns the compiled CRDs by kind. They are compiled only once.
var schemas = sync.OnceValues(func() (map[string]*kindSchema, error) {
	defs, err := crd.Definitions()
	if err != nil {
		return nil, err
	}
	out := make(map[string]*kindSchema, len(defs))
	for _, d := range defs {
		s, err := newKindSchema(d)
		if err != nil {
			return nil, fmt.Errorf("the definition of %s: %w", d.Spec.Names.Kind, err)
		}
		out[s.kind] = s
	}
	return out, nil
})

func newKindSchema(d *apiextensionsv1.CustomResourceDefinition) (*kindSchema, error) {
	if len(d.Spec.Versions) != 1 || d.Spec.Versions[0].Schema == nil {
		return nil, errors.New("it must have exactly one version, with a schema")
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(d.Spec.Versions[0].Schema, &internal, nil); err != nil {
		return nil, err
	}
	s := &kindSchema{kind: d.Spec.Names.Kind, plural: d.Spec.Names.Plural}
	var err error
	if s.structural, err = schema.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if s.openapi, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s, nil
}

// admit processes an object like a create request with strict field validation. It refuses unknown fields, fills in
// defaults, and checks types, bounds, lists, metadata and CEL rules. It drops the status.
func (s *kindSchema) admit(u map[string]any) check.Problems {
	unknown := pruning.PruneWithOptions(u, s.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	merr, metaUnknown := objectmeta.CoerceWithOptions(nil, u, s.structural, true, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if merr != nil {
		p := s.problem(u, merr)
		if m := wrongMetadata.FindStringSubmatch(merr.Error()); m != nil {
			p.Field, p.Value, p.Message = "metadata."+m[2], "", mustBe(m[3], m[1])
		}
		return check.Problems{p}
	}
	var ps check.Problems
	for _, path := range append(unknown, metaUnknown...) {
		ps = append(ps, s.unknownField(path, u))
	}
	delete(u, "status")
	defaulting.PruneNonNullableNullsWithoutDefaults(u, s.structural)
	defaulting.Default(u, s.structural)

	o := &unstructured.Unstructured{Object: u}
	// The validation of metadata requires a namespace, which files usually omit.
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
		defer o.SetNamespace("")
	}
	// Require a name. The API server would generate the name of an object that has only generateName. Without the API
	// server, other objects could not refer to such an object.
	errs := metavalidation.ValidateObjectMetaAccessor(o, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, u, s.openapi)...)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u, s.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, u)...)
	// Like the API server, do not evaluate rules on values that may have the wrong type or size.
	if !slices.ContainsFunc(errs, blocksRules) {
		celErrs, _ := s.rules.Validate(context.Background(), nil, s.structural, u, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	// If a value must be an integer or a string and is neither, the OpenAPI validator reports three errors. One error
	// names both types, one names one of the types, and one has no path.
	either := map[string]bool{}
	for _, e := range errs {
		either[e.Field] = either[e.Field] || strings.Contains(e.Detail, integerOrString)
	}
	for _, e := range errs {
		p := s.problem(u, e)
		path, _ := strings.CutSuffix(e.Detail, " must validate at least one schema (anyOf)")
		if either[strings.Trim(path, `"`)] || either[e.Field] && !strings.Contains(e.Detail, integerOrString) {
			continue
		}
		// The OpenAPI validator reports a number of the wrong format twice, once without a path.
		if e.Field == "<nil>" && len(errs) > 1 && strings.HasPrefix(e.Detail, "Checked value must be of type") {
			continue
		}
		ps = append(ps, p)
	}
	return ps
}

// integerOrString is part of the OpenAPI validator's message about values that may be integers or strings.
const integerOrString = "must be of type integer,string"

var wrongMetadata = regexp.MustCompile(`cannot unmarshal (\w+) into Go struct field ObjectMeta\.(\w+) of type (\S+)`)

// blocksRules reports whether the API server skips CEL rules after an error of this type, because the rules could fail
// or be too expensive.
func blocksRules(e *field.Error) bool {
	switch e.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}

// unknownField returns a problem for an unknown field, with the most similar known field.
func (s *kindSchema) unknownField(path string, object map[string]any) check.Problem {
	p := check.Problem{Field: path, Message: "unknown field"}
	parent, name := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	if strings.HasPrefix(path, "metadata") && strings.Contains(path, ".") {
		known := []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "generateName"}
		if n, ok := check.Nearest(name, known); ok {
			p.Message += fmt.Sprintf("; did you mean %s?", n)
		}
		return p
	}
	known := s.fields(parent)
	if n, ok := check.Nearest(name, known); ok {
		p.Message += fmt.Sprintf("; did you mean %s?", n)
	} else if elsewhere := find(s.structural, name, "", object); elsewhere != "" {
		p.Message += fmt.Sprintf("; did you mean %s?", elsewhere)
	}
	if len(known) > 0 {
		where := parent
		if where == "" {
			where = "a " + s.kind
		}
		p.Message += fmt.Sprintf(" (the fields of %s are %s)", where, strings.Join(known, ", "))
	}
	return p
}

var index = regexp.MustCompile(`\[[^]]*\]`)

// fields returns the sorted names of the known fields at a path.
func (s *kindSchema) fields(path string) []string {
	at := s.structural
	for _, step := range strings.Split(index.ReplaceAllString(path, ""), ".") {
		if step == "" {
			continue
		}
		next, ok := at.Properties[step]
		switch {
		case ok:
			at = &next
		case at.AdditionalProperties != nil && at.AdditionalProperties.Structural != nil:
			at = at.AdditionalProperties.Structural
		default:
			return nil
		}
		for at.Items != nil {
			at = at.Items
		}
	}
	var names []string
	for name := range at.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// find returns the shortest path to a field with this name in the spec below s. Most unknown fields are known fields
// with the wrong indentation, so this path is a useful hint. Among paths of equal length, find prefers a path below
// existing fields of the object.
func find(s *schema.Structural, name, path string, object any) string {
	best, bestIsThere := "", false
	fields, _ := object.(map[string]any)
	for _, child := range slices.Sorted(maps.Keys(s.Properties)) {
		if path == "" && child != "spec" {
			continue
		}
		at := strings.TrimPrefix(path+"."+child, ".")
		next := s.Properties[child]
		found := at
		if child != name {
			for next.Items != nil {
				next, at = *next.Items, at+"[]"
			}
			found = find(&next, name, at, fields[child])
		}
		if found == "" {
			continue
		}
		_, isThere := fields[child]
		if d := strings.Count(found, ".") - strings.Count(best, "."); best == "" || d < 0 || d == 0 && isThere && !bestIsThere {
			best, bestIsThere = found, isThere
		}
	}
	return best
}

// problem converts an error of the API server into a problem with the actual value and a correct value.
func (s *kindSchema) problem(u map[string]any, e *field.Error) check.Problem {
	p := check.Problem{Field: e.Field, Value: valueAt(u, e.Field), Message: e.Detail}
	if e.Field == "<nil>" {
		// The path is missing for rules on a whole object. All such rules of Geobench are about the object's name.
		p.Field = "metadata.name"
	}
	switch e.Type {
	case field.ErrorTypeRequired:
		p.Value = ""
		p.Message = "is required"
		if e.Detail != "" {
			p.Message += ": " + e.Detail
		}
	case field.ErrorTypeDuplicate:
		p.Value = short(e.BadValue)
		p.Message = fmt.Sprintf("%s is listed twice: each entry must be unique", p.Value)
	case field.ErrorTypeNotSupported:
		p.Message = fmt.Sprintf("%s is not supported: %s", p.Value, e.Detail)
		if valid := strings.TrimPrefix(e.Detail, "supported values: "); valid != e.Detail {
			words := strings.Split(strings.ReplaceAll(valid, `"`, ""), ", ")
			p.Message = fmt.Sprintf("%s is not one of %s", p.Value, strings.Join(words, ", "))
			if n, ok := check.Nearest(p.Value, words); ok {
				p.Message += fmt.Sprintf(" (did you mean %s?)", n)
			}
		}
	case field.ErrorTypeTooLong, field.ErrorTypeTooMany:
		p.Message = e.Detail
	case field.ErrorTypeTypeInvalid, field.ErrorTypeInvalid:
		p.Message = reword(e.Field, e.Detail)
	}
	return p
}

// reword removes the field's name from a message of the OpenAPI validator, and explains patterns in words.
func reword(path, detail string) string {
	name := path
	if _, rest, ok := strings.Cut(detail, " in body "); ok && strings.HasPrefix(detail, name) {
		detail = rest
	}
	if want, got, ok := strings.Cut(strings.TrimPrefix(detail, "must be of type "), ": \""); ok && strings.HasPrefix(detail, "must be of type ") {
		return mustBe(want, strings.TrimSuffix(got, `"`))
	}
	if strings.HasPrefix(detail, "should match '") {
		switch {
		case strings.Contains(detail, "ns|us|"):
			return "is not a duration: write for example 400us, 5ms, 30s or 1m30s"
		case strings.Contains(detail, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`):
			return "must be lower-case letters, digits and dashes, for example us-west-2"
		case strings.Contains(detail, "[KMGTPE]i"):
			return "is no quantity: write for example 500m, 2 or 1Gi"
		}
	}
	// If a rule cannot be evaluated, the rule's own message is at the end.
	if _, rule, ok := strings.Cut(detail, " evaluating rule: "); ok {
		return rule
	}
	return strings.Replace(strings.Replace(detail, "should be", "must be", 1), "should have", "must have", 1)
}

// mustBe describes the required type. If a string is required, the value usually lacks quotes: YAML parses no, on and 5
// as booleans and numbers.
func mustBe(want, got string) string {
	m := "must be " + article(want) + ", not " + article(got)
	switch got {
	case "bool", "boolean":
		if strings.HasSuffix(want, "string") {
			m += ": put it in quotes"
		}
	case "int64", "float64", "number", "integer":
		if want == "string" {
			m += ": put it in quotes"
		}
	}
	return m
}

// article returns a description of a JSON or Go type, with an article.
func article(jsonType string) string {
	switch jsonType {
	case "integer,string":
		return "a whole number or a string"
	case "string":
		return "a string"
	case "duration":
		return "a duration such as 5ms"
	case "integer", "int32", "int64":
		return "a whole number"
	case "number", "float64":
		return "a fraction"
	case "boolean", "bool":
		return "true or false"
	case "object", "map", "map[string]interface {}", "": // the schema has no name for an object in a list
		return "an object"
	case "array", "slice", "[]interface {}":
		return "a list"
	case "null", "nil":
		return "null"
	}
	return jsonType
}

var step = regexp.MustCompile(`([^.\[\]]+)|\[([^]]*)\]`)

// valueAt returns the object's value at a path, shortened. It returns "" if the value does not exist or is not a
// scalar.
func valueAt(u map[string]any, path string) string {
	var at any = u
	for _, m := range step.FindAllStringSubmatch(path, -1) {
		switch v := at.(type) {
		case map[string]any:
			key := m[1]
			if key == "" {
				key = m[2]
			}
			at = v[key]
		case []any:
			i, err := strconv.Atoi(m[2])
			if err != nil || i < 0 || i >= len(v) {
				return ""
			}
			at = v[i]
		default:
			return ""
		}
	}
	switch at.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return short(at)
}

func short(v any) string {
	s, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		s = string(b)
	}
	const most = 64
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return s
}
