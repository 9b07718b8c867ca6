// Package admission contains the ValidatingAdmissionPolicies that restrict the operator further than its roles. Tests
// try the actions of a compromised operator, and create the operator's real objects. The chart contains a copy of
// policies.yaml.
package admission

import (
	"bytes"
	_ "embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

//go:embed policies.yaml
var file []byte

// Operator is the user that the policies restrict: the operator's ServiceAccount, as installed by config/default.
const Operator = "system:serviceaccount:geobench-system:geobench-operator"

// Policies returns the policies and their bindings.
func Policies() (policies []*admissionregistrationv1.ValidatingAdmissionPolicy, bindings []*admissionregistrationv1.ValidatingAdmissionPolicyBinding, err error) {
	for i, document := range bytes.Split(file, []byte("\n---\n")) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(document, &meta); err != nil {
			return nil, nil, fmt.Errorf("config/admission/policies.yaml, document %d: %w", i, err)
		}
		var into any
		switch meta.Kind {
		case "ValidatingAdmissionPolicy":
			p := &admissionregistrationv1.ValidatingAdmissionPolicy{}
			policies, into = append(policies, p), p
		case "ValidatingAdmissionPolicyBinding":
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
			bindings, into = append(bindings, b), b
		default:
			return nil, nil, fmt.Errorf("config/admission/policies.yaml, document %d: kind %q is neither a policy nor a binding", i, meta.Kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			return nil, nil, fmt.Errorf("config/admission/policies.yaml, document %d: %w", i, err)
		}
	}
	return policies, bindings, nil
}
