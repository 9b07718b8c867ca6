package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func named(rights []right) (out []string) {
	for _, r := range rights {
		out = append(out, r.String())
	}
	return out
}

// operatorUses maps each right of the operator to functions that need it. The caches that SetupWithManager creates list
// and watch objects. ensureCreated reads an object by its name if another client has created it.
var operatorUses = map[string]string{
	"create benchmarkruns.geobench.dev":                "begin",
	"create configmaps":                                "ensureCreated",
	"create events":                                    "manager", // for leader election
	"create events.events.k8s.io":                      "Reconcilers",
	"create geodatabases.geobench.dev":                 "begin",
	"create jobs.batch":                                "createWorkers",
	"create leases.coordination.k8s.io":                "manager",
	"create networkchaos.chaos-mesh.org":               "Ensure",
	"create networkpolicies.networking.k8s.io":         "ensure",
	"create podchaos.chaos-mesh.org":                   "Ensure",
	"create pods":                                      "ask sidecarRefused",
	"create rolebindings.rbac.authorization.k8s.io":    "createWorkers",
	"create roles.rbac.authorization.k8s.io":           "createWorkers",
	"create secrets":                                   "giveCredentials createWorkers look",
	"create serviceaccounts":                           "createWorkers",
	"create services":                                  "ensure",
	"create statefulsets.apps":                         "ensure",
	"create stresschaos.chaos-mesh.org":                "Ensure",
	"create subjectaccessreviews.authorization.k8s.io": "manager",
	"create timechaos.chaos-mesh.org":                  "Ensure",
	"create tokenreviews.authentication.k8s.io":        "manager",
	"delete benchmarkruns.geobench.dev":                "remove",
	"delete configmaps":                                "cleanUp",
	"delete geodatabases.geobench.dev":                 "remove",
	"delete jobs.batch":                                "cleanUp",
	"delete networkchaos.chaos-mesh.org":               "remove",
	"delete podchaos.chaos-mesh.org":                   "remove",
	"delete pods":                                      "cleanUp replacePods ask",
	"delete rolebindings.rbac.authorization.k8s.io":    "cleanUp",
	"delete roles.rbac.authorization.k8s.io":           "cleanUp",
	"delete secrets":                                   "deleteCredentials",
	"delete serviceaccounts":                           "cleanUp",
	"delete services":                                  "sweep",
	"delete statefulsets.apps":                         "sweep",
	"delete stresschaos.chaos-mesh.org":                "remove",
	"delete timechaos.chaos-mesh.org":                  "remove",
	"get benchmarkruns.geobench.dev":                   "Reconcile",
	"get configmaps":                                   "observeWorkers startSnapshot",
	"get experiments.geobench.dev":                     "Reconcile",
	"get geodatabases.geobench.dev":                    "Reconcile",
	"get jobs.batch":                                   "inspectJob",
	"get leases.coordination.k8s.io":                   "manager",
	"get networkchaos.chaos-mesh.org":                  "ensureCreated",
	"get networkpolicies.networking.k8s.io":            "ensure",
	"get networkprofiles.geobench.dev":                 "resolveProfile",
	"get podchaos.chaos-mesh.org":                      "ensureCreated",
	"get pods":                                         "ask",
	"get rolebindings.rbac.authorization.k8s.io":       "ensureCreated",
	"get roles.rbac.authorization.k8s.io":              "ensureCreated",
	"get secrets":                                      "giveCredentials deleteCredentials",
	"get secrets geobench-authority":                   "look",
	"get serviceaccounts":                              "ensureCreated",
	"get services":                                     "ensureCreated",
	"get statefulsets.apps":                            "closeGates",
	"get stresschaos.chaos-mesh.org":                   "ensureCreated",
	"get timechaos.chaos-mesh.org":                     "ensureCreated",
	"list benchmarkruns.geobench.dev":                  "SetupWithManager",
	"list blockchaos.chaos-mesh.org":                   "list",
	"list configmaps":                                  "cleanUp SetupWithManager",
	"list dnschaos.chaos-mesh.org":                     "list",
	"list endpointslices.discovery.k8s.io":             "ledElsewhere",
	"list events":                                      "NoPods",
	"list experiments.geobench.dev":                    "SetupWithManager",
	"list geodatabases.geobench.dev":                   "SetupWithManager",
	"list httpchaos.chaos-mesh.org":                    "list",
	"list iochaos.chaos-mesh.org":                      "list",
	"list jobs.batch":                                  "cleanUp SetupWithManager",
	"list jvmchaos.chaos-mesh.org":                     "list",
	"list kernelchaos.chaos-mesh.org":                  "list",
	"list networkchaos.chaos-mesh.org":                 "List",
	"list networkpolicies.networking.k8s.io":           "SetupWithManager",
	"list networkprofiles.geobench.dev":                "SetupWithManager",
	"list nodes":                                       "nodes",
	"list peerauthentications.security.istio.io":       "mutualTLS",
	"list podchaos.chaos-mesh.org":                     "List",
	"list pods":                                        "cleanUp SetupWithManager",
	"list rolebindings.rbac.authorization.k8s.io":      "cleanUp",
	"list roles.rbac.authorization.k8s.io":             "cleanUp",
	"list serviceaccounts":                             "cleanUp",
	"list services":                                    "SetupWithManager",
	"list statefulsets.apps":                           "SetupWithManager",
	"list stresschaos.chaos-mesh.org":                  "List",
	"list timechaos.chaos-mesh.org":                    "List",
	"patch benchmarkruns.geobench.dev":                 "patchFinalizers tryAgain",
	"patch benchmarkruns/status.geobench.dev":          "conclude",
	"patch configmaps":                                 "storeReport",
	"patch events":                                     "manager",
	"patch events.events.k8s.io":                       "Reconcilers",
	"patch experiments/status.geobench.dev":            "conclude",
	"patch geodatabases.geobench.dev":                  "patchFinalizer",
	"patch geodatabases/status.geobench.dev":           "conclude",
	"patch networkchaos.chaos-mesh.org":                "remove",
	"patch networkpolicies.networking.k8s.io":          "ensure",
	"patch podchaos.chaos-mesh.org":                    "remove",
	"patch pods":                                       "Ensure",
	"patch secrets":                                    "giveCredentials",
	"patch secrets geobench-authority":                 "look",
	"patch services":                                   "ensure",
	"patch statefulsets.apps":                          "ensure closeGates",
	"patch stresschaos.chaos-mesh.org":                 "remove",
	"patch timechaos.chaos-mesh.org":                   "remove",
	// An owner reference that blocks the deletion of the owner requires the right to update the owner's finalizers.
	"update benchmarkruns/finalizers.geobench.dev": "ensureCreated",
	"update experiments/finalizers.geobench.dev":   "ensureCreated",
	"update geodatabases/finalizers.geobench.dev":  "ensureCreated",
	"update leases.coordination.k8s.io":            "manager",
	"watch benchmarkruns.geobench.dev":             "SetupWithManager",
	"watch blockchaos.chaos-mesh.org":              "look",
	"watch configmaps":                             "SetupWithManager",
	"watch dnschaos.chaos-mesh.org":                "look",
	"watch experiments.geobench.dev":               "SetupWithManager",
	"watch geodatabases.geobench.dev":              "SetupWithManager",
	"watch httpchaos.chaos-mesh.org":               "look",
	"watch iochaos.chaos-mesh.org":                 "look",
	"watch jobs.batch":                             "SetupWithManager",
	"watch jvmchaos.chaos-mesh.org":                "look",
	"watch kernelchaos.chaos-mesh.org":             "look",
	"watch networkchaos.chaos-mesh.org":            "look",
	"watch networkpolicies.networking.k8s.io":      "SetupWithManager",
	"watch networkprofiles.geobench.dev":           "SetupWithManager",
	"watch podchaos.chaos-mesh.org":                "look",
	"watch pods":                                   "SetupWithManager",
	"watch services":                               "SetupWithManager",
	"watch statefulsets.apps":                      "SetupWithManager",
	"watch stresschaos.chaos-mesh.org":             "look",
	"watch timechaos.chaos-mesh.org":               "look",
}

// TestOperatorUses checks that operatorUses contains every right of the operator, and that the functions exist.
func TestOperatorUses(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := operatorRules(root)
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)`)
	for _, folder := range []string{"controllers", "cmd/geobench", "internal/net/emulation"} {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, m := range function.FindAllSubmatch(text, -1) {
				// Ignore case, because a function may be exported or unexported when it moves between packages.
				functions[strings.ToLower(string(m[1]))] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	granted := map[string]bool{}
	for _, r := range rightsOf(rules) {
		granted[r.String()] = true
		uses := strings.Fields(operatorUses[r.String()])
		if len(uses) == 0 {
			t.Errorf("no code is named that needs the right to %s", r)
		}
		for _, name := range uses {
			if !functions[strings.ToLower(name)] {
				t.Errorf("%s is said to need the right to %s, and there is no such function", name, r)
			}
		}
	}
	for right := range operatorUses {
		if !granted[right] {
			t.Errorf("the right to %s is used by %s, and %s does not grant it", right, operatorUses[right], rbacSource)
		}
	}
}

// TestOtherRights checks that the list below contains all other roles of the chart, with the reason for their rights.
func TestOtherRights(t *testing.T) {
	c := newChart(t)
	// Each entry lists the rights of a role, a file that needs them, and text in this file that shows why.
	uses := map[string]struct{ rights, file, text string }{
		"geobench-prometheus": {
			"get list watch pods services endpointslices.discovery.k8s.io /metrics", "templates/prometheus/prometheus.yaml", "kubernetes_sd_configs: [{role: endpointslice",
		},
		"geobench-test":           {"get create deployments.apps benchmarkruns.geobench.dev", "templates/tests/selftest.yaml", "- selftest"},
		"geobench-ztunnels":       {"list pods", "templates/mesh/ztunnels.yaml", ".Values.mesh.readZtunnels"},
		"geobench-metrics-reader": {"get /metrics", "templates/metrics/reader.yaml", ".Values.metrics.readers"},
		"geobench-edit": {
			"create update patch delete deletecollection networkprofiles.geobench.dev geodatabases.geobench.dev benchmarkruns.geobench.dev experiments.geobench.dev",
			"templates/users/clusterroles.yaml", "aggregate-to-edit",
		},
		"geobench-view": {
			"get list watch networkprofiles.geobench.dev geodatabases.geobench.dev benchmarkruns.geobench.dev experiments.geobench.dev",
			"templates/users/clusterroles.yaml", "aggregate-to-view",
		},
	}
	seen := 0
	for _, o := range c.objects(t, allOn...) {
		var rules []rbacv1.PolicyRule
		var role string
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			rules, role = o.Rules, o.Name
		case *rbacv1.Role:
			rules, role = o.Rules, o.Name
		default:
			continue
		}
		if strings.HasPrefix(role, "geobench-operator") {
			continue // TestRights and TestOperatorUses cover this role
		}
		use, ok := uses[role]
		if !ok {
			t.Errorf("nobody says what %s is for", name(t, o))
			continue
		}
		seen++
		text, err := os.ReadFile(filepath.Join(c.dir(), filepath.FromSlash(use.file)))
		if err != nil || !strings.Contains(string(text), use.text) {
			t.Errorf("%s is for %q of %s, which is not there: %v", role, use.text, use.file, err)
		}
		words := map[string]bool{}
		for _, r := range rightsOf(rules) {
			words[r.verb], words[r.object()] = true, true
		}
		for _, word := range strings.Fields(use.rights) {
			if !words[word] {
				t.Errorf("%s does not have %s", role, word)
			}
			delete(words, word)
		}
		for word := range words {
			t.Errorf("nobody says what %s needs %s for", role, word)
		}
	}
	if seen != len(uses) {
		t.Errorf("%d roles besides the operator's, want %d", seen, len(uses))
	}
}

// TestRightsUsed checks which rights the requests in an audit log need.
func TestRightsUsed(t *testing.T) {
	granted := []right{
		{"get", "", "secrets", []string{"geobench-authority"}}, {"get", "", "secrets", nil}, {"patch", "geobench.dev", "geodatabases/status", nil}, {"watch", "", "pods", nil},
	}
	log := `{"verb":"get","requestURI":"/apis","responseStatus":{"code":200}}
{"verb":"get","objectRef":{"resource":"secrets","namespace":"lab","name":"x","apiVersion":"v1"},"responseStatus":{"code":200}}
{"verb":"get","objectRef":{"resource":"secrets","namespace":"geobench-system","name":"geobench-authority","apiVersion":"v1"},"responseStatus":{"code":404}}
{"verb":"patch","objectRef":{"resource":"geodatabases","subresource":"status","apiGroup":"geobench.dev","name":"d"},"responseStatus":{"code":200}}
{"verb":"list","objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"code":403}}
`
	used, forbidden, err := rightsUsed(granted, strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	for right, want := range map[string]int{"get secrets": 2, "get secrets geobench-authority": 1, "patch geodatabases/status.geobench.dev": 1, "watch pods": 0} {
		if used[right] != want {
			t.Errorf("%s was used %d times, want %d", right, used[right], want)
		}
	}
	if len(forbidden) != 1 || forbidden["list nodes"] != 1 {
		t.Errorf("forbidden: %v", forbidden)
	}
	if _, _, err := rightsUsed(granted, strings.NewReader("no JSON")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a log that is none: %v", err)
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(log), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := reportRights(root, &out, []string{file}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"       2  get secrets\n", "    none  watch pods\n", "       1  list nodes: forbidden", "3 of "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if err := reportRights(root, &out, []string{file + ".none"}); err == nil {
		t.Error("a missing log is accepted")
	}
}

// TestNamedTests checks that all tests to which SECURITY.md and docs/security.md refer exist.
func TestNamedTests(t *testing.T) {
	root, err := repositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range function.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"SECURITY.md", "docs/security.md"} {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(text, -1)
		if len(named) < 10 {
			t.Errorf("%s names %d tests", page, len(named))
		}
		for _, m := range named {
			if !tests[string(m[1])] {
				t.Errorf("%s gives %s as proof, and there is no such test", page, m[1])
			}
		}
	}
}
