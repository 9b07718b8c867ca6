package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	crdSources    = "config/crd/bases"
	rbacSource    = "config/rbac/role.yaml"
	policySource  = "config/admission/policies.yaml"
	tenantSource  = "config/admission/tenants.yaml"
	presetSources = "internal/ops/presets"
	chartDir      = "charts/geobench"
	crdCopies     = chartDir + "/templates/crds"
	rbacCopy      = chartDir + "/templates/operator/_rules.tpl"
	policyCopy    = chartDir + "/templates/admission/operator.yaml"
	tenantCopy    = chartDir + "/templates/admission/tenants.yaml"
	presetCopies  = chartDir + "/presets"
	boardSources  = "dashboards"
	boardCopies   = chartDir + "/dashboards"
	valuesFile    = chartDir + "/values.yaml"
	readmeFile    = chartDir + "/README.md"
)

// syncChart updates the generated parts of the chart:
//
//   - the rules of the operator and the policies that restrict it;
//   - a template for each CRD;
//   - the network profiles;
//   - the dashboards and their rules;
//   - the table of values in the README.
//
// If check is set, syncChart changes nothing, and returns an error that lists the outdated files.
func syncChart(root string, check bool) error {
	want, err := chartFiles(root)
	if err != nil {
		return err
	}
	var have []string
	for _, pattern := range []string{crdCopies + "/*.yaml", presetCopies + "/*.yaml", boardCopies + "/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		have = append(have, files...)
	}

	var differ []string
	for _, file := range have {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if _, ok := want[filepath.ToSlash(rel)]; ok {
			continue
		}
		differ = append(differ, rel+" (its source is gone)")
		if !check {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	for _, rel := range sortedKeys(want) {
		file := filepath.Join(root, rel)
		old, err := os.ReadFile(file)
		if err == nil && bytes.Equal(old, want[rel]) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		differ = append(differ, rel)
		if check {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, want[rel], 0o644); err != nil {
			return err
		}
	}
	switch {
	case len(differ) == 0:
		fmt.Println("the chart agrees with its sources")
	case check:
		return fmt.Errorf("the chart differs from its sources in %s: run go run -C hack/tools . sync-chart", strings.Join(differ, ", "))
	default:
		fmt.Println("updated", strings.Join(differ, ", "))
	}
	return nil
}

// chartFiles returns the current contents of the chart's generated files, by path from the root of the repository.
func chartFiles(root string) (map[string][]byte, error) {
	out := map[string][]byte{}
	crds, err := filepath.Glob(filepath.Join(root, crdSources, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(crds) == 0 {
		return nil, fmt.Errorf("%s holds no CRDs: generate them first", crdSources)
	}
	for _, file := range crds {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		made, err := crdTemplate(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", crdSources, filepath.Base(file), err)
		}
		out[crdCopies+"/"+filepath.Base(file)] = []byte(made)
	}
	text, err := os.ReadFile(filepath.Join(root, rbacSource))
	if err != nil {
		return nil, fmt.Errorf("the operator's rules, by controller-gen: %w", err)
	}
	rules, err := rulesTemplate(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", rbacSource, err)
	}
	out[rbacCopy] = []byte(rules)
	for _, c := range []struct{ source, copy, when string }{
		{policySource, policyCopy, "{{- if .Values.admission.enabled }}\n{{- include \"geobench.admission.check\" . }}\n"},
		{tenantSource, tenantCopy, "{{- if .Values.tenants }}\n"},
	} {
		if text, err = os.ReadFile(filepath.Join(root, c.source)); err != nil {
			return nil, err
		}
		out[c.copy] = []byte(fmt.Sprintf(generated, c.source) + c.when + policyTemplate(string(text)) + "{{- end }}\n")
	}

	for _, c := range []struct{ pattern, copies string }{
		{presetSources + "/*.yaml", presetCopies}, {boardSources + "/*.json", boardCopies}, {boardSources + "/rules.yaml", boardCopies},
	} {
		files, err := filepath.Glob(filepath.Join(root, c.pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			out[c.copies+"/"+filepath.Base(file)] = text
		}
	}

	values, err := os.ReadFile(filepath.Join(root, valuesFile))
	if err != nil {
		return nil, err
	}
	table, err := valuesTable(string(values))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", valuesFile, err)
	}
	readme, err := os.ReadFile(filepath.Join(root, readmeFile))
	if err != nil {
		return nil, err
	}
	if text, err = insertTable(readme, table); err != nil {
		return nil, fmt.Errorf("%s: %w", readmeFile, err)
	}
	out[readmeFile] = text
	return out, nil
}

const generated = "{{- /* Generated by hack/tools sync-chart from %s. */ -}}\n"

// crdTemplate returns the template for a CRD from controller-gen. The template installs the CRD unless crds.enabled is
// false, keeps it on uninstall if crds.keep is true, and adds the labels of the chart.
func crdTemplate(crd string) (string, error) {
	const from = "metadata:\n  annotations:\n"
	crd = strings.TrimPrefix(crd, "---\n")
	if strings.Count(crd, "\n"+from) != 1 {
		return "", errors.New("want one CRD with metadata.annotations, as controller-gen writes it")
	}
	crd = strings.ReplaceAll(crd, "{{", `{{ "{{" }}`)
	crd = strings.Replace(crd, from, `metadata:
  labels:
    {{- include "geobench.labels" . | nindent 4 }}
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    {{- with .Values.crds.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
`, 1)
	return fmt.Sprintf(generated, crdSources) + "{{- if .Values.crds.enabled }}\n" + crd + "{{- end }}\n", nil
}

// policyTemplate returns the template for admission policies. It inserts the service account and the name of the
// release, and the namespaces from the values.
func policyTemplate(policies string) string {
	return strings.NewReplacer(
		"'system:serviceaccount:geobench-system:geobench-operator'", `'system:serviceaccount:{{ .Release.Namespace }}:{{ include "geobench.operator.serviceAccount" . }}'`,
		"values: [kube-system, kube-public, kube-node-lease]", "values: {{ .Values.admission.protectedNamespaces | toJson }}",
		"policyName: geobench-", `policyName: {{ include "geobench.fullname" . }}-`,
		"metadata:\n  name: geobench-", "metadata:\n  labels:\n    {{- include \"geobench.labels\" . | nindent 4 }}\n"+
			"    app.kubernetes.io/component: operator\n  name: {{ include \"geobench.fullname\" . }}-",
	).Replace(policies)
}

// policyRule is a PolicyRule of rbac/v1.
type policyRule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	Verbs           []string `json:"verbs,omitempty"`
}

// clusterScoped are the cluster-scoped resources that an operator may use. A Role cannot grant rights on them.
var clusterScoped = []string{
	"customresourcedefinitions", "namespaces", "nodes", "persistentvolumes", "priorityclasses", "storageclasses",
	"subjectaccessreviews", "tokenreviews",
}

// role is a ClusterRole or a Role.
type role struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Rules []policyRule `json:"rules"`
}

// rulesTemplate splits the rules in the operator's roles into four lists:
//
//   - cluster: rules that apply to the whole cluster;
//   - metrics: rules for serving metrics, which requires asking the API server for the identity and the rights of a
//     client;
//   - namespaced: rules for namespaced resources, which a Role can grant if the operator watches one namespace;
//   - release: rules for the namespace of the operator, which it needs for leader election. In the source, they are in
//     a Role.
func rulesTemplate(text []byte) (string, error) {
	var cluster, metrics, namespaced, release []policyRule
	for _, document := range bytes.Split(text, []byte("\n---")) {
		document = bytes.TrimPrefix(document, []byte("---\n"))
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		var r role
		if err := yaml.Unmarshal(document, &r); err != nil {
			return "", err
		}
		for _, rule := range r.Rules {
			if slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
				return "", fmt.Errorf("rule %v: name its groups, resources and verbs instead of *", rule)
			}
		}
		switch {
		case r.Kind == "Role" && r.Metadata.Namespace != "":
			release = append(release, r.Rules...)
		case r.Kind == "ClusterRole":
			for _, rule := range r.Rules {
				inCluster, inNamespace := splitRule(rule)
				switch {
				case inCluster == nil:
				case slices.ContainsFunc(rule.APIGroups, isReview):
					metrics = append(metrics, *inCluster)
				default:
					cluster = append(cluster, *inCluster)
				}
				if inNamespace != nil {
					namespaced = append(namespaced, *inNamespace)
				}
			}
		default:
			return "", fmt.Errorf("kind %q in namespace %q: want ClusterRoles, and Roles of a namespace", r.Kind, r.Metadata.Namespace)
		}
	}
	out := fmt.Sprintf(generated, rbacSource)
	for _, part := range []struct {
		name  string
		rules []policyRule
	}{{"cluster", cluster}, {"metrics", metrics}, {"namespaced", namespaced}, {"release", release}} {
		out += fmt.Sprintf("{{- define \"geobench.rules.%s\" -}}\n", part.name)
		if len(part.rules) > 0 {
			made, err := yaml.Marshal(part.rules)
			if err != nil {
				return "", err
			}
			out += strings.ReplaceAll(string(made), "{{", `{{ "{{" }}`)
		}
		out += "{{- end }}\n"
	}
	return out, nil
}

func isReview(group string) bool {
	return group == "authentication.k8s.io" || group == "authorization.k8s.io"
}

// splitRule splits a rule into the part that only a ClusterRole can grant, and the remaining part. A part without
// resources and URLs is nil.
func splitRule(rule policyRule) (inCluster, inNamespace *policyRule) {
	c, n := rule, rule
	c.Resources, n.Resources = nil, nil
	for _, r := range rule.Resources {
		if base, _, _ := strings.Cut(r, "/"); slices.Contains(clusterScoped, base) {
			c.Resources = append(c.Resources, r)
		} else {
			n.Resources = append(n.Resources, r)
		}
	}
	if len(c.Resources) > 0 || len(rule.NonResourceURLs) > 0 {
		inCluster = &c
	}
	if len(n.Resources) > 0 {
		inNamespace = &n
	}
	return inCluster, inNamespace
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
