// Package healthtest evaluates the status of objects in tests as GitOps and CI tools do, with the evaluators of these
// tools. Flux and Helm use kstatus, Flux's health checks use CEL, Argo CD uses Lua, and Argo Workflows uses label
// selectors over JSON paths. The functions also reproduce the steps that each tool takes before and after the
// evaluation.
package healthtest

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/tidwall/gjson"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Verdict is a tool's verdict on an object, in the terms of the tool, with the message that the tool shows.
type Verdict struct{ Status, Message string }

// KStatus evaluates u as Flux's wait and Helm's waiter would. The status is Current, InProgress, Failed or Terminating.
func KStatus(u *unstructured.Unstructured) (Verdict, error) {
	r, err := status.Compute(u)
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{string(r.Status), r.Message}, nil
}

// ArgoCD evaluates u as Argo CD would with script as its health.lua.
func ArgoCD(script string, u *unstructured.Unstructured) (Verdict, error) {
	// Argo CD does not run the script for an object that is being deleted; it always reports Progressing.
	if u.GetDeletionTimestamp() != nil {
		return Verdict{"Progressing", "Pending deletion"}, nil
	}
	value, err := Lua(script, u)
	if err != nil {
		return Verdict{}, err
	}
	answer, ok := value.(map[string]any)
	if !ok {
		return Verdict{}, fmt.Errorf("the script returned %v, not a table", value)
	}
	v := Verdict{fmt.Sprint(answer["status"]), fmt.Sprint(answer["message"])}
	if !slices.Contains([]string{"Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"}, v.Status) {
		return v, fmt.Errorf("%q is no health status of Argo CD", v.Status)
	}
	return v, nil
}

// Lua runs a script of Argo CD with the object as the global obj, and returns the script's result in the types of
// decoded JSON. It opens the standard libraries that Argo CD opens for scripts in its ConfigMap: basic functions,
// tables and packages.
func Lua(script string, u *unstructured.Unstructured) (any, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return nil, err
		}
	}
	l.SetGlobal("obj", toLua(l, u.Object))
	if err := l.DoString(script); err != nil {
		return nil, err
	}
	return fromLua(l.Get(-1)), nil
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		t := l.CreateTable(len(v), 0)
		for _, item := range v {
			t.Append(toLua(l, item))
		}
		return t
	case map[string]any:
		t := l.CreateTable(0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			t.RawSetString(key, toLua(l, v[key]))
		}
		return t
	}
	return lua.LNil
}

// fromLua converts a Lua value to the types of decoded JSON. A table with elements 1 to n becomes a list, and any other
// table a map. Integers become int64.
func fromLua(value lua.LValue) any {
	switch v := value.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LString:
		return string(v)
	case lua.LNumber:
		// JSON distinguishes integers from other numbers; Lua does not.
		if f := float64(v); f != float64(int64(f)) {
			return f
		}
		return int64(v)
	case *lua.LTable:
		// Lua does not distinguish an empty list from an empty map, so convert both to a map.
		if n := v.Len(); n > 0 {
			list := make([]any, 0, n)
			for i := 1; i <= n; i++ {
				list = append(list, fromLua(v.RawGetInt(i)))
			}
			return list
		}
		m := map[string]any{}
		v.ForEach(func(key, item lua.LValue) { m[key.String()] = fromLua(item) })
		return m
	}
	return nil
}

// Expressions are the expressions of a health check in Flux. InProgress and Failed may be empty.
type Expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress,omitempty"`
	Failed     string `json:"failed,omitempty"`
	Current    string `json:"current"`
}

// Flux evaluates u as kustomize-controller would with healthCheckExprs. An object with another observed generation is
// InProgress, regardless of the expressions. Flux returns an error if an expression cannot be evaluated;
// kustomize-controller would then keep waiting.
func Flux(e Expressions, u *unstructured.Unstructured) (Verdict, error) {
	// Flux checks the generation before it evaluates any expression.
	if observed, ok, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); err != nil {
		return Verdict{}, err
	} else if ok && observed != u.GetGeneration() {
		return Verdict{Status: "InProgress"}, nil
	}
	env, err := cel.NewEnv(cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders())
	if err != nil {
		return Verdict{}, err
	}
	// Flux evaluates the expressions in this order; the first true expression decides.
	for _, x := range []struct{ text, status string }{{e.InProgress, "InProgress"}, {e.Failed, "Failed"}, {e.Current, "Current"}} {
		if x.text == "" {
			continue
		}
		parsed, issues := env.Parse(x.text)
		if issues != nil && issues.Err() != nil {
			return Verdict{}, issues.Err()
		}
		program, err := env.Program(parsed)
		if err != nil {
			return Verdict{}, err
		}
		value, _, err := program.Eval(u.Object)
		if err != nil {
			return Verdict{}, err
		}
		is, ok := value.Value().(bool)
		if !ok {
			return Verdict{}, fmt.Errorf("%s is %v, neither true nor false", x.text, value.Value())
		}
		if is {
			return Verdict{Status: x.status}, nil
		}
	}
	return Verdict{Status: "InProgress"}, nil
}

// Workflow evaluates u as a resource template of Argo Workflows would. It checks the failure condition first, and
// returns Running if neither condition is true. Both conditions are label selectors whose keys are paths into the
// object.
func Workflow(success, failure string, u *unstructured.Unstructured) (Verdict, error) {
	text, err := u.MarshalJSON()
	if err != nil {
		return Verdict{}, err
	}
	for _, x := range []struct{ selector, status string }{{failure, "Failed"}, {success, "Succeeded"}} {
		selector, err := labels.Parse(x.selector)
		if err != nil {
			return Verdict{}, err
		}
		requirements, _ := selector.Requirements()
		holds := true
		for _, r := range requirements {
			holds = holds && r.Matches(jsonLabels{text})
		}
		if holds {
			return Verdict{Status: x.status}, nil
		}
	}
	return Verdict{Status: "Running"}, nil
}

// jsonLabels presents an object's fields as labels.
type jsonLabels struct{ text []byte }

func (j jsonLabels) Has(path string) bool   { return gjson.GetBytes(j.text, path).Exists() }
func (j jsonLabels) Get(path string) string { return gjson.GetBytes(j.text, path).String() }
func (j jsonLabels) Lookup(path string) (string, bool) {
	return j.Get(path), j.Has(path)
}
