package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
)

// bind returns a binding that applies limits to a namespace, as the chart does for a tenant.
func bind(name, namespace string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "geobench-tenants",
			ParamRef:   &admissionregistrationv1.ParamRef{Name: name, Namespace: "geobench-system", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction)},
			MatchResources: &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
			}},
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// runOf returns a run with two repetitions of 10 s warm-up and 50 s measurement, and one worker per region.
func runOf(change func(*v1alpha1.Load)) *v1alpha1.BenchmarkRun {
	e := experiment(database(lab), "")
	r := &v1alpha1.BenchmarkRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "r"},
		Spec: v1alpha1.BenchmarkRunSpec{
			DatabaseRef: v1alpha1.LocalReference{Name: "d"}, Workload: e.Spec.Run.Spec.Workload, Load: e.Spec.Run.Spec.Load,
		},
	}
	r.Spec.Load.Repetitions, r.Spec.Load.Warmup, r.Spec.Load.Duration = 2, v1alpha1.DurationOf(10*time.Second), v1alpha1.DurationOf(50*time.Second)
	change(&r.Spec.Load)
	return r
}

// TestTenants checks the limits of a tenant's manifests: three regions, six pods, two workers per region, and two
// minutes. Images must come from two repositories, and only certain endpoints of external databases are allowed.
func TestTenants(t *testing.T) {
	c := startCluster(t)
	c.create(t, operatorsRights(t)...)
	limits := configMap("geobench-system", "limits", nil)
	limits.Data = map[string]string{
		"regions": "3", "podsPerDatabase": "6", "workersPerRegion": "2", "duration": "2m", "images": "registry.example/lab\npostgres",
		"endpoints": "us:1\neu\n*.Lab.example:5432\n*.any.example\n[fd00::7]:5432",
	}
	// The limits of namespace open restrict nothing. The limits of namespace lost do not exist. Namespace free has no
	// limits.
	namespaces := []string{lab, "open", "lost", "free"}
	for _, n := range namespaces {
		c.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	c.create(t, limits, configMap("geobench-system", "open", nil), documents(t, "tenants.yaml")[0], bind("limits", lab), bind("open", "open"), bind("lost", "lost"))
	for _, n := range []string{lab, "lost"} {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			d := database(n)
			d.Spec.PartitionsPerRegion = 64
			return c.admin.Create(ctx, d, client.DryRunAll) != nil, nil
		})
		if err != nil {
			t.Fatalf("the limits of %s are not in force: %v", n, err)
		}
	}

	db := func(change func(*v1alpha1.GeoDatabaseSpec)) *v1alpha1.GeoDatabase {
		d := database(lab)
		change(&d.Spec)
		return d
	}
	image := func(name string) *v1alpha1.GeoDatabase {
		d := withVolume(database(lab), v1alpha1.PodVolume{})
		d.Spec.Pods.Image = name
		return d
	}
	at := func(addresses ...string) *v1alpha1.GeoDatabase {
		return db(func(s *v1alpha1.GeoDatabaseSpec) {
			*s = withExternal(&v1alpha1.GeoDatabase{Spec: *s}, "s").Spec
			s.External.Endpoints = nil
			for i, address := range addresses {
				s.External.Endpoints = append(s.External.Endpoints, v1alpha1.ExternalEndpoint{Region: s.Regions[i].Name, Address: address})
			}
		})
	}
	regions := func(names ...string) func(*v1alpha1.GeoDatabaseSpec) {
		return func(s *v1alpha1.GeoDatabaseSpec) {
			s.Regions = nil
			for _, name := range names {
				s.Regions = append(s.Regions, v1alpha1.Region{Name: name})
			}
		}
	}
	load := func(warmup, duration time.Duration, repetitions int32) *v1alpha1.BenchmarkRun {
		return runOf(func(l *v1alpha1.Load) {
			l.Warmup, l.Duration, l.Repetitions = v1alpha1.DurationOf(warmup), v1alpha1.DurationOf(duration), repetitions
		})
	}
	workers := func(n int32) *v1alpha1.BenchmarkRun {
		return runOf(func(l *v1alpha1.Load) { l.WorkersPerRegion, l.ClientsPerRegion = n, 10 })
	}
	experimentOf := func(r *v1alpha1.BenchmarkRun) *v1alpha1.Experiment {
		e := experiment(database(lab), "")
		e.Spec.Run.Spec.Load = r.Spec.Load
		return e
	}
	cases := map[string]struct {
		object  client.Object
		refusal string
	}{
		"two regions":      {database(lab), ""},
		"three regions":    {db(regions("a", "b", "c")), ""},
		"four regions":     {db(regions("a", "b", "c", "d")), "spec.regions: 4 regions, and this tenant may have 3"},
		"six pods":         {db(func(s *v1alpha1.GeoDatabaseSpec) { s.PartitionsPerRegion = 3 }), ""},
		"eight pods":       {db(func(s *v1alpha1.GeoDatabaseSpec) { s.PartitionsPerRegion = 4 }), "are 8 pods, and a database of this tenant may have 6"},
		"pods of replicas": {db(func(s *v1alpha1.GeoDatabaseSpec) { s.PartitionsPerRegion, s.ReplicasPerPartition = 2, 3 }), "are 12 pods"},
		"pods of roles":    {withRole(database(lab), "s"), ""},
		"more pods of roles": {db(func(s *v1alpha1.GeoDatabaseSpec) {
			*s = withRole(&v1alpha1.GeoDatabase{Spec: *s}, "s").Spec
			s.Roles[1].PerRegion = 3
		}), "are 7 pods, and a database of this tenant may have 6"},
		"an image of a role": {db(func(s *v1alpha1.GeoDatabaseSpec) {
			*s = withRole(&v1alpha1.GeoDatabase{Spec: *s}, "s").Spec
			s.Roles[1].Image = "evil"
		}), "spec.roles: one of the images is none of those"},
		"an image by a parameter": {db(func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"image": "evil"}}
		}), "spec.engine.parameters.image: it is none of the images"},
		"an image of one kind of servers": {db(func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine = v1alpha1.Engine{Name: "tidb", Parameters: map[string]string{"image.tikv": "evil"}}
		}), "spec.engine.parameters.image: it is none of the images"},
		"an external database": {db(func(s *v1alpha1.GeoDatabaseSpec) {
			*s = withExternal(&v1alpha1.GeoDatabase{Spec: *s}, "s").Spec
			s.PartitionsPerRegion = 4
		}), ""},
		"an endpoint":                          {at("us:1"), ""},
		"another port of it":                   {at("us:2"), "spec.external.endpoints.address: us:2 is none of the endpoints that databases of this tenant may name: us:1, eu, *.lab.example:5432, *.any.example, [fd00::7]:5432"},
		"a machine whose ports are all open":   {at("eu:65000"), ""},
		"a machine whose name begins like one": {at("europe:1"), "europe:1 is none"},
		"a machine below a domain":             {at("DB.lab.example:5432"), ""},
		"another port there":                   {at("db.lab.example:5433"), "db.lab.example:5433 is none"},
		"the domain itself":                    {at("lab.example:5432"), "lab.example:5432 is none"},
		"a domain whose name ends like it":     {at("db.evillab.example:5432"), "db.evillab.example:5432 is none"},
		"any port below a domain":              {at("a.b.any.example:9"), ""},
		"a machine named after a domain":       {at("any.example.evil.example:9"), "any.example.evil.example:9 is none"},
		"an address":                           {at("[fd00::7]:5432"), ""},
		"another address":                      {at("[fd00::8]:5432"), "[fd00::8]:5432 is none"},
		"the second endpoint":                  {at("us:1", "169.254.169.254:80"), "169.254.169.254:80 is none"},
		"an experiment elsewhere":              {experiment(at("us:1"), ""), ""},
		"an experiment at another endpoint":    {experiment(at("evil.example:1"), ""), "evil.example:1 is none"},
		"an image":                             {image("postgres:18"), ""},
		"an image by digest":                   {image("postgres@sha256:" + strings.Repeat("0", 64)), ""},
		"an image of a path":                   {image("registry.example/lab/db:1"), ""},
		"an image whose name begins like one": {image("registry.example/lab-of-others/db:1"),
			"spec.pods.image: registry.example/lab-of-others/db:1 is none of the images that this tenant may run: registry.example/lab, postgres"},
		"an image of others":            {image("evil.example/postgres:18"), "spec.pods.image"},
		"two minutes":                   {runOf(func(*v1alpha1.Load) {}), ""},
		"longer":                        {load(10*time.Second, 51*time.Second, 2), "are 122 s, and a run of this tenant may take 2m"},
		"more often":                    {load(10*time.Second, 50*time.Second, 3), "are 180 s"},
		"two workers":                   {workers(2), ""},
		"three workers":                 {workers(3), "spec.load.workersPerRegion: 3, and a run of this tenant may have 2"},
		"an experiment":                 {experimentOf(runOf(func(*v1alpha1.Load) {})), ""},
		"a long experiment":             {experimentOf(load(10*time.Second, time.Hour, 1)), "may take 2m"},
		"an experiment of many regions": {experiment(db(regions("a", "b", "c", "d")), ""), "spec.regions: 4"},
		"an experiment with an image":   {experiment(image("evil.example/db"), ""), "spec.pods.image: evil.example/db"},
	}
	for what, tc := range cases {
		err := create(tc.object, "").do(t.Context(), c.admin)
		if tc.refusal == "" && err != nil || tc.refusal != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refusal)) {
			t.Errorf("%s: %v, want %q", what, err, tc.refusal)
		}
		for _, n := range []string{"open", "free"} {
			o := tc.object.DeepCopyObject().(client.Object)
			o.SetNamespace(n)
			if err := create(o, "").do(t.Context(), c.admin); err != nil {
				t.Errorf("%s in namespace %s, which has no limits: %v", what, n, err)
			}
		}
		o := tc.object.DeepCopyObject().(client.Object)
		o.SetNamespace("lost")
		if err := create(o, "").do(t.Context(), c.admin); err == nil {
			t.Errorf("%s of a tenant whose limits are lost is let through", what)
		}
	}

	// Limits also apply to a database that an experiment's sweep creates. A database that is older than stricter limits
	// cannot be changed, but the operator can still set its finalizers.
	child := db(regions("a", "b", "c", "d"))
	child.Labels = managed
	if err := create(child, "").do(t.Context(), c.operator); !apierrors.IsForbidden(err) {
		t.Errorf("a database of an experiment beyond the limits: %v", err)
	}
	small := database(lab)
	small.Labels = managed
	if err := c.operator.Create(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	limits.Data["regions"] = "1"
	if err := c.admin.Update(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		d := database(lab)
		d.Name = "another"
		return c.admin.Create(ctx, d, client.DryRunAll) != nil, nil
	}); err != nil {
		t.Fatalf("new limits are not in force: %v", err)
	}
	if err := patch(small, `{"metadata":{"finalizers":["geobench.dev/cleanup"]}}`, "").do(t.Context(), c.operator); err != nil {
		t.Errorf("a finalizer of a database that is beyond new limits: %v", err)
	}
	if err := patch(small, `{"spec":{"partitionsPerRegion":2}}`, "").do(t.Context(), c.admin); !apierrors.IsForbidden(err) {
		t.Errorf("a change of a database that is beyond new limits: %v", err)
	}
	// A tenant with all rights in its namespace cannot change its limits.
	c.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "carol"}},
	})
	if err := patch(limits, `{"data":{"regions":"32"}}`, "").do(t.Context(), c.as("carol")); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant changes its limits: %v", err)
	}
}
