package admission

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/apiservertest"
	"github.com/geobench/geobench/internal/ops/deploy/netpol"
)

const (
	// lab is a namespace with databases.
	lab = "lab"
	// hash is the suffix of the names of an attempt's objects.
	hash = "-0a1b2c3d"
)

var managed = map[string]string{"app.kubernetes.io/managed-by": "geobench"}

// cluster is a real API server with two clients: one is the administrator, the other the operator with the roles of
// config/rbac.
type cluster struct {
	admin, operator client.Client
	// as returns the client of another user.
	as func(user string) client.Client
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	config := apiservertest.New(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) client.Client {
		c := rest.CopyConfig(config)
		if user != "" {
			c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		}
		out, err := client.New(c, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	return &cluster{admin: as(""), operator: as(Operator), as: as}
}

func (c *cluster) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.admin.Create(t.Context(), o); err != nil {
			t.Fatalf("%T %s: %v", o, o.GetName(), err)
		}
	}
}

// operatorsRights returns the roles in config/rbac and their bindings.
func operatorsRights(t *testing.T) []client.Object {
	t.Helper()
	roles := documents(t, filepath.Join("..", "rbac", "role.yaml"))
	if len(roles) != 2 {
		t.Fatalf("config/rbac/role.yaml holds %d documents, want a ClusterRole and a Role", len(roles))
	}
	out := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "geobench-system"}}, roles[0], roles[1]}
	for _, b := range documents(t, filepath.Join("..", "rbac", "role_binding.yaml")) {
		out = append(out, b)
	}
	return out
}

func documents(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// enforce applies the policies, and grants alice and bob rights on Geobench's kinds. The API server learns of changes
// through a watch, so enforce waits until all changes are in effect.
func (c *cluster) enforce(t *testing.T) {
	t.Helper()
	policies, bindings, err := Policies()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		c.create(t, p)
	}
	for _, b := range bindings {
		c.create(t, b)
	}
	// marks has a request for each policy that only this policy refuses.
	marks := map[string]client.Object{
		"geobench-operator-namespaces": configMap("kube-public", "mark", managed),
		"geobench-operator-objects":    configMap(lab, "mark", nil),
		"geobench-operator-pods":       privileged(job("mark" + hash)),
		"geobench-operator-rights":     role("mark"+hash, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}),
		"geobench-namespaces":          database("kube-public"),
		"geobench-references":          withEnv(database(lab), "any"),
	}
	editor := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "editor"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"geobench.dev"}, Resources: []string{"geodatabases", "experiments"}, Verbs: []string{"create", "get", "patch"},
	}}}
	c.create(t, editor, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editor"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: editor.Name},
		Subjects: []rbacv1.Subject{user("alice"), user("bob"), user("carol"), user("dave")},
	})
	for _, p := range policies {
		mark := marks[p.Name]
		if mark == nil {
			t.Fatalf("policy %s is waited for by no request", p.Name)
		}
		who := c.operator
		switch p.Name {
		case "geobench-namespaces":
			who = c.admin
		case "geobench-references":
			who = c.as("alice")
		}
		var last error
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			last = who.Create(ctx, mark.DeepCopyObject().(client.Object), client.DryRunAll)
			return last != nil && strings.Contains(last.Error(), "'"+p.Name+"'"), nil
		})
		if err != nil {
			t.Fatalf("policy %s is not in force: %v (the last answer: %v)", p.Name, err, last)
		}
	}
}

// change is a modification of a correct pod.
type change func(*corev1.PodSpec)

func container(c func(*corev1.Container)) change {
	return func(p *corev1.PodSpec) { c(&p.Containers[0]) }
}

func security(c func(*corev1.SecurityContext)) change {
	return func(p *corev1.PodSpec) { c(p.Containers[0].SecurityContext) }
}

func volume(source corev1.VolumeSource) change {
	return func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
		p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

// attempt is one request of a compromised operator. All requests are dry runs, which pass the same admission as real
// requests.
type attempt struct {
	do func(ctx context.Context, c client.Client) error
	// refusal is a substring of the expected error; empty if the request must be accepted.
	refusal string
}

func create(o client.Object, refusal string) attempt {
	return attempt{func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}, refusal}
}

func remove(o client.Object, refusal string) attempt {
	return attempt{func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll)
	}, refusal}
}

func patch(o client.Object, body, refusal string) attempt {
	return attempt{func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(body)), client.DryRunAll)
	}, refusal}
}

// podAttempts adds requests that create a pod directly, through a StatefulSet and through a Job.
func podAttempts(all map[string]attempt, what string, c change, refusal string) {
	p, s, j := pod(lab), statefulSet(), job("j"+hash)
	c(&p.Spec)
	c(&s.Spec.Template.Spec)
	c(&j.Spec.Template.Spec)
	all["a pod "+what], all["a StatefulSet of pods "+what], all["a Job of pods "+what] = create(p, refusal), create(s, refusal), create(j, refusal)
}

// theirs returns objects that users have created, not the operator.
func theirs() []client.Object {
	meta := metav1.ObjectMeta{Namespace: lab, Name: "theirs"}
	d := database(lab)
	d.Finalizers = []string{"geobench.dev/cleanup"}
	s := statefulSet()
	s.ObjectMeta = meta
	p := pod(lab)
	p.ObjectMeta = meta
	return []client.Object{
		configMap("kube-system", "coredns", nil), configMap("kube-system", "ours", managed), configMap(lab, "theirs", nil), d, s, p,
		&corev1.Secret{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
		&rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "theirs"}},
	}
}

// attempts returns requests of a compromised operator. The operator's roles alone would permit all of them.
func attempts() map[string]attempt {
	const protected, notOurs, noLabel = "is protected", "is not what the operator has made", "bears the label"
	const denied = "denied request" // = one of several policies refuses the request
	secret := func(kind corev1.SecretType, annotations map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "s", Labels: managed, Annotations: annotations}, Type: kind}
	}
	service := func(spec corev1.ServiceSpec) *corev1.Service {
		spec.Ports = []corev1.ServicePort{{Port: 443}}
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "s", Labels: managed}, Spec: spec}
	}
	binding := func(name string, ref rbacv1.RoleRef, subject rbacv1.Subject) *rbacv1.RoleBinding {
		ref.APIGroup = rbacv1.GroupName
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: name, Labels: managed}, RoleRef: ref, Subjects: []rbacv1.Subject{subject}}
	}
	account := func(namespace, name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	rule := func(resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	unlabelled := pod(lab)
	unlabelled.Labels = nil
	hostPath := pod("kube-system")
	volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})(&hostPath.Spec)
	tokenJob := func(name, account string) *batchv1.Job {
		j := job(name)
		j.Spec.Template.Spec.ServiceAccountName, j.Spec.Template.Spec.AutomountServiceAccountToken = account, ptr.To(true)
		return j
	}
	ours := configMap(lab, "ours", managed)
	all := map[string]attempt{
		// These requests are finding F9 of the security review.
		"patch the cluster's DNS":                   patch(configMap("kube-system", "coredns", nil), `{"data":{"Corefile":"."}}`, denied),
		"a hostPath pod in kube-system":             create(hostPath, denied),
		"a pod in kube-system":                      create(pod("kube-system"), protected),
		"its own label on the cluster's DNS":        patch(configMap("kube-system", "coredns", nil), `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"geobench"}}}`, denied),
		"patch what bears its label in kube-system": patch(configMap("kube-system", "ours", managed), `{"data":{"a":"b"}}`, protected),
		"a ConfigMap in kube-public":                create(configMap("kube-public", "c", managed), protected),
		"an event in kube-system":                   create(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": map[string]any{"namespace": "kube-system", "name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "reportingController": "geobench.dev/c", "reportingInstance": "i", "type": "Normal", "regarding": map[string]any{"namespace": "kube-system", "name": "x", "kind": "Pod"}}}, protected),
		"patch a ConfigMap of others":               patch(configMap(lab, "theirs", nil), `{"data":{"a":"b"}}`, notOurs),
		"put its label on a ConfigMap of others":    patch(configMap(lab, "theirs", nil), `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"geobench"}}}`, notOurs),
		"take its label from what it has made":      patch(ours, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`, noLabel),
		"a ConfigMap without its label":             create(configMap(lab, "c", nil), noLabel),
		"a pod without its label":                   create(unlabelled, noLabel),
		"another image in a pod of its own": {func(ctx context.Context, c client.Client) error {
			p := pod(lab)
			p.Name = "ours"
			return c.Patch(ctx, p, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"containers":[{"name":"worker","image":"evil"}]}}`)), client.DryRunAll)
		}, "labels and annotations"},
		"the spec of somebody's database":               patch(database(lab), `{"spec":{"partitionsPerRegion":2}}`, notOurs),
		"a token of another ServiceAccount as a Secret": create(secret(corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "theirs"}), "Opaque"),
		"a Service with an address of others":           create(service(corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}), "headless"),
		"a Service of pods of others":                   create(service(corev1.ServiceSpec{Selector: map[string]string{"app": "theirs", "statefulset.kubernetes.io/pod-name": "theirs-0"}}), "headless or of one pod of its own"),
		"a Service of more than one pod":                create(service(corev1.ServiceSpec{Selector: managed}), "headless or of one pod of its own"),
		"a port of every machine": create(service(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
			Selector: map[string]string{"app.kubernetes.io/managed-by": "geobench", "statefulset.kubernetes.io/pod-name": "d-us-0"}}), "without external addresses"),
		"a load balancer":                             create(service(corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}), "headless"),
		"a name that stands for another one":          create(service(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}), "headless"),
		"a Role for Secrets":                          create(role("r"+hash, rule("secrets", []string{"s"}, "get")), "nothing else"),
		"a Role for all ConfigMaps":                   create(role("r"+hash, rule("configmaps", nil, "get", "patch", "watch")), "nothing else"),
		"a Role for a ConfigMap of others":            create(role("r"+hash, rule("configmaps", []string{"theirs"}, "patch")), "nothing else"),
		"a Role that deletes":                         create(role("r"+hash, rule("configmaps", []string{"r" + hash + "-0"}, "delete")), "nothing else"),
		"its own rights for somebody":                 create(binding("r"+hash, rbacv1.RoleRef{Kind: "ClusterRole", Name: "manager-role"}, account(lab, "r"+hash)), "of its own name"),
		"a worker's rights for somebody":              create(binding("ours"+hash, rbacv1.RoleRef{Kind: "Role", Name: "ours" + hash}, account(lab, "theirs")), "of its own name"),
		"a worker's rights for another namespace":     create(binding("ours"+hash, rbacv1.RoleRef{Kind: "Role", Name: "ours" + hash}, account("default", "ours"+hash)), "of its own name"),
		"a Job as a ServiceAccount of others":         create(tokenJob("j"+hash, "theirs"), "no API token"),
		"a Job named like a ServiceAccount of others": create(tokenJob("theirs", "theirs"), "no API token"),
	}
	for _, o := range theirs() {
		if o.GetName() == "theirs" {
			all["delete what others have made: "+strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")] = remove(o, notOurs)
		}
	}
	for what, selected := range map[string]metav1.LabelSelector{"all pods": {}, "the pods of others": {MatchLabels: map[string]string{"app": "vault"}}} {
		all["a NetworkPolicy for "+what] = create(&networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "n", Labels: managed},
			Spec:       networkingv1.NetworkPolicySpec{PodSelector: selected, Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
		}, "NetworkPolicy")
	}
	all["delete somebody's database"] = remove(database(lab), notOurs)
	d := database(lab)
	d.Name = "another"
	all["a database without its label"] = create(d, noLabel)

	podAttempts(all, "on the machine's network", func(p *corev1.PodSpec) { p.HostNetwork = true }, "share neither")
	podAttempts(all, "among the machine's processes", func(p *corev1.PodSpec) { p.HostPID = true }, "share neither")
	podAttempts(all, "with the machine's shared memory", func(p *corev1.PodSpec) { p.HostIPC = true }, "share neither")
	podAttempts(all, "on a port of the machine", container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}} }), "share neither")
	podAttempts(all, "past the scheduler", func(p *corev1.PodSpec) { p.NodeName = "n1" }, "share neither")
	podAttempts(all, "with the machine's files", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "hostPath")
	podAttempts(all, "with a volume of others", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}), "hostPath")
	podAttempts(all, "with a token by projection", func(p *corev1.PodSpec) {
		p.ServiceAccountName = "default"
		volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}})(p)
	}, "tokens")
	podAttempts(all, "privileged", security(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = ptr.To(true), nil }), "unprivileged")
	podAttempts(all, "that gain privileges", security(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = ptr.To(true) }), "unprivileged")
	podAttempts(all, "without seccomp", security(func(s *corev1.SecurityContext) { s.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined }), "seccomp")
	podAttempts(all, "without AppArmor", security(func(s *corev1.SecurityContext) {
		s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}), "seccomp")
	podAttempts(all, "with SYS_ADMIN", security(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }), "capabilities")
	podAttempts(all, "with NET_ADMIN in a program", security(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"NET_ADMIN"} }), "capabilities")
	podAttempts(all, "with SYS_ADMIN in a sidecar", container(func(c *corev1.Container) {
		c.Name, c.SecurityContext.Capabilities.Add = "geobench-wan", []corev1.Capability{"NET_ADMIN", "SYS_ADMIN"}
	}), "capabilities")
	podAttempts(all, "with the default capabilities", security(func(s *corev1.SecurityContext) { s.Capabilities = nil }), "capabilities")
	podAttempts(all, "with capabilities in an init container", func(p *corev1.PodSpec) {
		init := *p.Containers[0].DeepCopy()
		init.Name, init.SecurityContext.Capabilities.Add = "init", []corev1.Capability{"SYS_PTRACE"}
		p.InitContainers = []corev1.Container{init}
	}, "capabilities")
	podAttempts(all, "as root", security(func(s *corev1.SecurityContext) { s.RunAsNonRoot, s.RunAsUser = nil, ptr.To[int64](0) }), "as root")
	podAttempts(all, "as the image likes", security(func(s *corev1.SecurityContext) { s.RunAsNonRoot = nil }), "as root")
	podAttempts(all, "with a sysctl", func(p *corev1.PodSpec) {
		p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.core.somaxconn", Value: "1"}}
	}, "sysctls")
	podAttempts(all, "that evict those of the system", func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }, "priority")
	podAttempts(all, "with the token of a ServiceAccount of others", func(p *corev1.PodSpec) {
		p.ServiceAccountName, p.AutomountServiceAccountToken = "theirs", ptr.To(true)
	}, "no API token")
	podAttempts(all, "as a ServiceAccount of others", func(p *corev1.PodSpec) { p.ServiceAccountName = "theirs" }, "no API token")
	podAttempts(all, "as the nodes of a database that is not theirs", func(p *corev1.PodSpec) { p.ServiceAccountName = "theirs-nodes" }, "no API token")
	podAttempts(all, "with the namespace's token", func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }, "no API token")
	return all
}

// TestPolicies checks the policies with a real API server. The roles of config/rbac alone would permit harmful actions.
// The policies must refuse these actions and accept the operator's real objects.
func TestPolicies(t *testing.T) {
	c := startCluster(t)
	c.create(t, operatorsRights(t)...)
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lab}}, configMap(lab, "ours", managed), role("ours"+hash))
	ours := pod(lab)
	ours.Name = "ours"
	mine := database(lab)
	mine.Name, mine.Labels = "point", managed
	c.create(t, ours, mine, expiring())
	c.create(t, theirs()...)

	all := attempts()
	for what, a := range all {
		if err := a.do(t.Context(), c.operator); err != nil {
			t.Errorf("before: %s: %v; an attempt that fails anyway shows nothing", what, err)
		}
	}
	if t.Failed() {
		return
	}
	c.enforce(t)
	for what, a := range all {
		if err := a.do(t.Context(), c.operator); err == nil {
			t.Errorf("%s: let through", what)
		} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), a.refusal) {
			t.Errorf("%s: refused with %q, want Forbidden and %q", what, err, a.refusal)
		}
	}
	t.Logf("%d attempts succeeded before, and are refused now", len(all))

	for what, a := range rightful() {
		if err := a.do(t.Context(), c.operator); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	pods := func(role string) map[string]string {
		return map[string]string{"app.kubernetes.io/managed-by": "geobench", "geobench.dev/database": "d", "geobench.dev/role": role}
	}
	for _, p := range netpol.Policies(
		&netpol.Database{Name: "d", Namespace: lab, Labels: managed, Nodes: pods("node"), Workers: pods("worker")},
		&netpol.Cluster{OperatorNamespace: "geobench-system", Operator: map[string]string{"app": "x"}, APIServerPorts: []int32{443}},
	) {
		if err := c.operator.Create(t.Context(), p, client.DryRunAll); err != nil {
			t.Errorf("NetworkPolicy %s: %v", p.Name, err)
		}
	}
	// Create the objects that the operator's builders produce, as recorded by the tests of package controllers.
	for _, o := range documents(t, filepath.Join("testdata", "made.yaml")) {
		o.SetNamespace(lab)
		options := []client.CreateOption{client.DryRunAll}
		if o.GetKind() == "Role" { // = create the Role, because the RoleBinding needs it
			options = nil
		}
		if err := c.operator.Create(t.Context(), o, options...); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	// Other users are not restricted, except for databases in namespaces where the operator may not write.
	if err := create(privileged(job("theirs")), "").do(t.Context(), c.admin); err != nil {
		t.Errorf("a Job of an administrator: %v", err)
	}
	if err := create(database("kube-system"), "").do(t.Context(), c.admin); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "choose another namespace") {
		t.Errorf("a database in kube-system: %v, want it refused with a way out", err)
	}
	if err := create(database("default"), "").do(t.Context(), c.admin); err != nil {
		t.Errorf("a database elsewhere: %v", err)
	}
}

// rightful returns the operator's regular actions on existing objects.
func rightful() map[string]attempt {
	return map[string]attempt{
		"write what it has made":                patch(configMap(lab, "ours", managed), `{"data":{"a":"b"}}`, ""),
		"delete what it has made":               remove(configMap(lab, "ours", managed), ""),
		"annotate a pod of its own":             patch(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "ours"}}, `{"metadata":{"annotations":{"geobench.dev/network-generation":"2"}}}`, ""),
		"delete a pod of its own":               remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "ours"}}, ""),
		"the finalizers of somebody's database": patch(database(lab), `{"metadata":{"finalizers":["geobench.dev/cleanup","a.example/b"]}}`, ""),
		"the spec of an experiment's database":  patch(&v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "point"}}, `{"spec":{"partitionsPerRegion":2}}`, ""),
		"delete an experiment's database":       remove(&v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "point"}}, ""),
		"delete somebody's run that expires":    remove(expiring(), ""),
		"a Service of one of its pods": create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "d-us-data-0", Labels: managed}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 5433}}, Selector: map[string]string{"app.kubernetes.io/managed-by": "geobench", "statefulset.kubernetes.io/pod-name": "d-us-data-0"},
		}}, ""),
		"the status of somebody's database": {func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, database(lab), client.RawPatch(types.MergePatchType, []byte(`{"status":{"incarnation":"x"}}`)), client.DryRunAll)
		}, ""},
	}
}

// TestReferences checks that a user cannot read an object through a database if the user may not read the object
// directly. Alice has only rights on Geobench's kinds. Bob may also get the Secret and the ConfigMap with the name
// known.
func TestReferences(t *testing.T) {
	c := startCluster(t)
	c.create(t, operatorsRights(t)...)
	c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lab}})
	c.create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "known"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, ResourceNames: []string{"known"}, Verbs: []string{"get"}},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "known"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "known"},
		Subjects: []rbacv1.Subject{user("bob")},
	})
	c.create(t, granted("carol", "")...)
	c.enforce(t)
	theirs := withEnv(database(lab), "known")
	theirs.Name = "theirs"
	c.create(t, theirs)

	ref := func(name string) *v1alpha1.LocalReference { return &v1alpha1.LocalReference{Name: name} }
	const secret, configMap, sweep = "a Secret that", "a ConfigMap that", "a sweep over"
	for what, a := range map[string]struct {
		attempt
		// alice and bob are set if this user's request must be refused.
		alice, bob bool
	}{
		"no reference":                         {create(database(lab), ""), false, false},
		"a Secret in the environment":          {create(withEnv(database(lab), "known"), secret), true, false},
		"another Secret in the environment":    {create(withEnv(database(lab), "d-credentials"), secret), true, true},
		"a Secret as a volume":                 {create(withVolume(database(lab), v1alpha1.PodVolume{SecretRef: ref("known")}), secret), true, false},
		"another Secret as a volume":           {create(withVolume(database(lab), v1alpha1.PodVolume{SecretRef: ref("other")}), secret), true, true},
		"a ConfigMap as a volume":              {create(withVolume(database(lab), v1alpha1.PodVolume{ConfigMapRef: ref("known")}), configMap), true, false},
		"another ConfigMap as a volume":        {create(withVolume(database(lab), v1alpha1.PodVolume{ConfigMapRef: ref("other")}), configMap), true, true},
		"an empty folder":                      {create(withVolume(database(lab), v1alpha1.PodVolume{}), ""), false, false},
		"the Secret of an external database":   {create(withExternal(database(lab), "known"), secret), true, false},
		"the Secret of a program's clients":    {create(withClient(database(lab), "known"), secret), true, false},
		"another Secret of its clients":        {create(withClient(database(lab), "d-credentials"), secret), true, true},
		"a Secret in a role's environment":     {create(withRole(database(lab), "known"), secret), true, false},
		"another Secret of a role":             {create(withRole(database(lab), "d-credentials"), secret), true, true},
		"a Secret named by many":               {create(withSecrets(database(lab), slices.Repeat([]string{"known"}, 12)...), secret), true, false},
		"many Secrets":                         {create(withSecrets(database(lab), "known", "s1", "s2", "s3", "s4", "s5", "s6", "s7"), secret), true, true},
		"the last of many Secrets":             {create(withSecrets(database(lab), "known", "known", "known", "known", "other"), secret), true, true},
		"a Secret as a role's volume":          {create(withRoleVolume(database(lab), v1alpha1.PodVolume{SecretRef: ref("other")}), secret), true, true},
		"a ConfigMap as a role's volume":       {create(withRoleVolume(database(lab), v1alpha1.PodVolume{ConfigMapRef: ref("known")}), configMap), true, false},
		"another ConfigMap of a role":          {create(withRoleVolume(database(lab), v1alpha1.PodVolume{ConfigMapRef: ref("other")}), configMap), true, true},
		"a Secret of a role's clients":         {create(withRoleClient(database(lab), "known"), secret), true, false},
		"another Secret of a role's clients":   {create(withRoleClient(database(lab), "d-credentials"), secret), true, true},
		"clients of a role without a Secret":   {create(withRoleClient(database(lab), ""), ""), false, false},
		"a Secret of a role in an experiment":  {create(experiment(withRole(database(lab), "other"), ""), secret), true, true},
		"an experiment that sweeps roles":      {create(experiment(withRoleVolume(database(lab), v1alpha1.PodVolume{}), "database.spec.roles[0].env"), sweep), true, true},
		"a Secret in an experiment":            {create(experiment(withEnv(database(lab), "known"), ""), secret), true, false},
		"another Secret in an experiment":      {create(experiment(withEnv(database(lab), "other"), ""), secret), true, true},
		"an experiment that sweeps Secrets":    {create(experiment(withVolume(database(lab), v1alpha1.PodVolume{}), "database.spec.pods.volumes[0].secretRef.name"), sweep), true, true},
		"an experiment that sweeps parameters": {create(experiment(database(lab), "database.spec.engine.parameters.epoch"), ""), false, false},
		"another image for somebody's Secret":  {patch(theirs, `{"spec":{"pods":{"image":"evil"}}}`, secret), true, false},
		"a label of somebody's database":       {patch(theirs, `{"metadata":{"labels":{"a":"b"}}}`, ""), false, false},
	} {
		for user, refused := range map[string]bool{"alice": a.alice, "bob": a.bob} {
			err := a.do(t.Context(), c.as(user))
			if (err != nil) != refused || err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), a.refusal)) {
				t.Errorf("%s by %s: %v; want it refused with %q: %v", what, user, err, a.refusal, refused)
			}
		}
	}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("s%d", i)
	}
	// The policy checks only a bounded number of names for a user, unless the user may get all Secrets.
	if err := create(withSecrets(database(lab), many...), "").do(t.Context(), c.as("carol")); err != nil {
		t.Errorf("carol may get all Secrets: %v", err)
	}
	for _, name := range many[:9] {
		c.create(t, granted("dave", name)...)
	}
	if err := create(withSecrets(database(lab), many[:8]...), "").do(t.Context(), c.as("dave")); err != nil {
		t.Errorf("dave may get eight Secrets: %v", err)
	}
	if err := create(withSecrets(database(lab), many[:9]...), "").do(t.Context(), c.as("dave")); err == nil || !strings.Contains(err.Error(), "that can be asked of 8 at the most") {
		t.Errorf("dave names nine Secrets: %v", err)
	}
}

// granted returns the objects that allow a user to get a Secret.
func granted(who, name string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: lab, Name: who + "-" + name}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	return []client.Object{&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{user(who)},
	}}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// TestEveryRightIsHeldBack checks that a policy covers every write permission of the operator.
func TestEveryRightIsHeldBack(t *testing.T) {
	policies, bindings, err := Policies()
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, b := range bindings {
		bound = append(bound, b.Spec.PolicyName)
	}
	matches := func(policy, group, resource, operation string) bool {
		i := slices.IndexFunc(policies, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == policy })
		if i < 0 || !slices.Contains(bound, policy) {
			t.Fatalf("policy %s is not there, or not bound", policy)
		}
		return slices.ContainsFunc(policies[i].Spec.MatchConstraints.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
			return slices.Contains(r.APIGroups, group) && slices.Contains(r.Operations, admissionregistrationv1.OperationType(operation)) &&
				(slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, "*/*") || slices.Contains(r.Resources, "*") && !strings.Contains(resource, "/"))
		})
	}
	operations := map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
	checked := 0
	for _, u := range documents(t, filepath.Join("..", "rbac", "role.yaml")) {
		var r rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &r); err != nil {
			t.Fatal(err)
		}
		for _, rule := range r.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						operation, writes := operations[verb]
						if !writes || strings.HasSuffix(resource, "reviews") {
							continue
						}
						checked++
						if !matches("geobench-operator-namespaces", group, resource, operation) {
							t.Errorf("%s %s.%s: geobench-operator-namespaces does not keep it out of kube-system", verb, resource, group)
						}
						// Statuses, events and the lease have no label.
						if strings.Contains(resource, "/") || resource == "events" || resource == "leases" {
							continue
						}
						if !matches("geobench-operator-objects", group, resource, operation) {
							t.Errorf("%s %s.%s: geobench-operator-objects does not ask for the label", verb, resource, group)
						}
					}
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("checked %d rights to write, want those of config/rbac/role.yaml", checked)
	}
}
