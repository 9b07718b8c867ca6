package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// PathError reports that a path does not name a field with a single value.
type PathError struct{ Message string }

func (e *PathError) Error() string { return e.Message }

func pathError(format string, args ...any) error { return &PathError{fmt.Sprintf(format, args...)} }

// Set sets the field of an object that path names, such as spec.load.clientsPerRegion or spec.links[0].rtt, to a number
// or a string. It creates missing objects on the path, but list elements must exist. If the schema of the kind requires
// a string, Set converts a number to a string. If it requires a number or a boolean, Set parses a string. Set reports
// only wrong paths; validation reports all other errors.
func Set(kind string, object map[string]any, path string, value any) error {
	all, err := schemas()
	if err != nil {
		return err
	}
	s, ok := all[kind]
	if !ok {
		return fmt.Errorf("kind %s is none of %s", kind, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	steps, err := pathSteps(path)
	if err != nil {
		return err
	}
	c := &cursor{kind: s, at: s.structural, root: object, value: object, path: path}
	for i, st := range steps {
		if err := c.enter(st, i == len(steps)-1, value); err != nil {
			return err
		}
	}
	return nil
}

// pathStep is the name of a field or the index of a list element.
type pathStep struct {
	name  string
	index int // -1 for a name
}

func pathSteps(path string) ([]pathStep, error) {
	var steps []pathStep
	for part := range strings.SplitSeq(path, ".") {
		name, rest, indexed := strings.Cut(part, "[")
		if name == "" {
			return nil, pathError("%s has an empty name between its dots", path)
		}
		steps = append(steps, pathStep{name, -1})
		for indexed {
			var digits string
			var closed bool
			if digits, rest, closed = strings.Cut(rest, "]"); !closed {
				return nil, pathError("%s has a [ without its ]: elements of lists are written as links[0]", path)
			}
			n, err := strconv.Atoi(digits)
			if err != nil || n < 0 {
				return nil, pathError("%s has the index %q: elements of lists are counted from 0, as links[0]", path, digits)
			}
			steps = append(steps, pathStep{"", n})
			if rest != "" && rest[0] != '[' {
				return nil, pathError("%s has %q after an index: continue with a dot", path, rest)
			}
			rest, indexed = strings.CutPrefix(rest, "[")
		}
	}
	return steps, nil
}

// cursor descends through a schema and an object in parallel.
type cursor struct {
	kind  *kindSchema
	root  map[string]any
	at    *schema.Structural
	value any // map[string]any or []any
	done  string
	path  string
}

func (c *cursor) enter(st pathStep, last bool, leaf any) error {
	next, err := c.child(st)
	if err != nil {
		return err
	}
	if last {
		if leaf, err = c.leaf(next, leaf); err != nil {
			return err
		}
	}
	switch v := c.value.(type) {
	case map[string]any:
		if last {
			v[st.name] = leaf
			break
		}
		if v[st.name] == nil {
			// Only the author of the template knows how many elements the list should have.
			if next.Items != nil {
				return pathError("%s: the template has no %s: write the list there, and sweep its elements", c.path, c.join(st))
			}
			v[st.name] = map[string]any{}
		}
		c.value = v[st.name]
	case []any:
		if st.index >= len(v) {
			return pathError("%s: the template's %s has %d elements, counted from 0", c.path, c.done, len(v))
		}
		if last {
			v[st.index] = leaf
			break
		}
		c.value = v[st.index]
	default:
		return pathError("%s: %s holds a single value and has no fields", c.path, c.done)
	}
	c.at, c.done = next, c.join(st)
	return nil
}

func (c *cursor) join(st pathStep) string {
	switch {
	case st.index >= 0:
		return fmt.Sprintf("%s[%d]", c.done, st.index)
	case c.done == "":
		return st.name
	}
	return c.done + "." + st.name
}

// child returns the schema of a field or list element.
func (c *cursor) child(st pathStep) (*schema.Structural, error) {
	if st.index >= 0 {
		if c.at.Items == nil {
			return nil, pathError("%s: %s is no list", c.path, c.done)
		}
		return c.at.Items, nil
	}
	if c.at.Items != nil {
		return nil, pathError("%s: %s is a list: name one of its elements, as %s[0].%s", c.path, c.done, c.done, st.name)
	}
	if next, ok := c.at.Properties[st.name]; ok {
		return &next, nil
	}
	// The keys of a map, such as the engine's parameters, are not part of the schema.
	if c.at.AdditionalProperties != nil && c.at.AdditionalProperties.Structural != nil {
		return c.at.AdditionalProperties.Structural, nil
	}
	known := slices.Sorted(maps.Keys(c.at.Properties))
	where := c.done
	if len(known) == 0 {
		return nil, pathError("%s: %s holds a single value and has no fields", c.path, where)
	}
	m := fmt.Sprintf("%s: %s has no field %s", c.path, where, st.name)
	if n, ok := check.Nearest(st.name, known); ok {
		m += fmt.Sprintf("; did you mean %s?", n)
	} else if elsewhere := find(c.kind.structural, st.name, "", c.root); elsewhere != "" {
		m += fmt.Sprintf("; did you mean %s?", elsewhere)
	}
	return nil, &PathError{fmt.Sprintf("%s (the fields of %s are %s)", m, where, strings.Join(known, ", "))}
}

// leaf converts a value to the type of the schema if the conversion is unambiguous.
func (c *cursor) leaf(s *schema.Structural, v any) (any, error) {
	switch {
	case s.Items != nil || s.Type == "array":
		return nil, pathError("%s is a list: name one of its elements, as %s[0]", c.path, c.path)
	// Both types are valid, so return the value unchanged.
	case s.XIntOrString:
		return v, nil
	case s.Type == "object":
		m := c.path + " is an object: name one of its fields"
		if known := slices.Sorted(maps.Keys(s.Properties)); len(known) > 0 {
			m += ", which are " + strings.Join(known, ", ")
		}
		return nil, &PathError{m}
	}
	text, isText := v.(string)
	number, isNumber := v.(int64)
	switch {
	case s.Type == "string" && isNumber:
		// A number without a unit is no duration, so leave it unchanged for validation to refuse.
		if s.ValueValidation == nil || s.ValueValidation.Format != "duration" {
			return strconv.FormatInt(number, 10), nil
		}
	case s.Type == "integer" && isText:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	case s.Type == "boolean" && isText:
		if b, err := strconv.ParseBool(text); err == nil {
			return b, nil
		}
	}
	return v, nil
}
