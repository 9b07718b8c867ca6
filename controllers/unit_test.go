package controllers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/identity"
	"github.com/geobench/geobench/internal/identity/identitytest"
	"github.com/geobench/geobench/internal/rtt"
)

func TestNothingInjectedIsExplained(t *testing.T) {
	v := verifyNetwork([]rtt.Link{{Declared: 100 * time.Millisecond, P50: time.Millisecond, Samples: rtt.MinSamples}}, v1alpha1.EmulationNone)
	if v.Verified || !strings.Contains(v.Message, "must declare") {
		t.Errorf("%+v", v)
	}
}

func TestShownLinksStayWhileTheyAreSimilar(t *testing.T) {
	shown := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 100 * time.Millisecond, P99: 101 * time.Millisecond, Samples: 40}}, nil)
	same := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 101 * time.Millisecond, P99: 104 * time.Millisecond, Samples: 50}}, shown)
	if !cmp.Equal(shown, same) {
		t.Errorf("a small move shows: %s", cmp.Diff(shown, same))
	}
	moved := linkStatuses([]rtt.Link{{From: "a", To: "b", Declared: 100 * time.Millisecond, P50: 110 * time.Millisecond, P99: 111 * time.Millisecond, Samples: 50}}, shown)
	if moved[0].MeasuredRTTMicroseconds.P50 != 110_000 {
		t.Errorf("a big move does not show: %+v", moved)
	}
}

func TestNames(t *testing.T) {
	db := func(name string) *v1alpha1.GeoDatabase {
		return &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("r", 32), UID: "uid"}}
	long := strings.Repeat("x", 24)
	for _, name := range []string{
		regionName(db("d"), "us-west-2"), regionName(db(strings.Repeat("d", 27)), long), regionName(db("9.lives"), "eu"),
		workerName(run, long), reportName(run, long, 63), podName(db(strings.Repeat("d", 27)), long, 575),
	} {
		if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if got := regionName(db("d"), "us-west-2"); got != "d-us-west-2" {
		t.Errorf("a short name became %s", got)
	}
	if a, b := joinName(20, "aaaaaaaaaaaaaaaaaaaaaaaa", "b"), joinName(20, "aaaaaaaaaaaaaaaaaaaaaaaa", "c"); a == b || len(a) > 20 {
		t.Errorf("long names %s and %s", a, b)
	}
	again := run.DeepCopy()
	again.Status.RunID = "2"
	if workerName(run, "a") == workerName(again, "a") {
		t.Error("two attempts share a Job")
	}
}

// What programs take of the machine follows from the manifest, not from the machine.
func TestProcessorsAndMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		resources string
		want      []corev1.EnvVar
	}{
		"by default":     {`{}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}}},
		"a fraction":     {`{requests: {cpu: 100m}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}}},
		"a request":      {`{requests: {cpu: "2"}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "2"}}},
		"a limit counts": {`{requests: {cpu: "2"}, limits: {cpu: 2500m}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "3"}}},
		"memory":         {`{limits: {memory: 1Gi}}`, []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "1"}, {Name: "GOMEMLIMIT", Value: "966367638"}}},
	} {
		var r corev1.ResourceRequirements
		if err := yaml.Unmarshal([]byte(tt.resources), &r); err != nil {
			t.Fatal(err)
		}
		if got := goRuntime(r); !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "us-west-2"}}}}
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	if env := nodePodSpec(db, &db.Spec.Regions[0], "i", "image").Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "GOMAXPROCS", Value: "4"}) {
		t.Errorf("%v, want GOMAXPROCS 4", env)
	}
}

// What workers take of the machine follows from the run's manifest, not from the database's.
func TestProcessorsOfWorkers(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{Regions: []v1alpha1.Region{{Name: "us-west-2"}}}}
	db.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	run.Spec.Load.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	job := buildJob(run, db, &db.Spec.Regions[0], 1, "image", time.Minute, metav1.ObjectMeta{Name: "w"})
	if env := job.Spec.Template.Spec.Containers[0].Env; !slices.Contains(env, corev1.EnvVar{Name: "GOMAXPROCS", Value: "2"}) {
		t.Errorf("%v, want GOMAXPROCS 2", env)
	}
}

func TestDefaultRequests(t *testing.T) {
	got := withDefaultRequests(corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}, "100m", "128Mi")
	if got.Requests.Cpu().String() != "2" || got.Requests.Memory().String() != "1Gi" || len(got.Limits) != 1 {
		t.Errorf("resources are %+v", got)
	}
}

func TestLossBackoff(t *testing.T) {
	now := time.Now()
	i := &incarnation{born: now}
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}
	for n, d := range want {
		if i.lossDelay() != d {
			t.Errorf("after %d losses: %s, want %s", n, i.lossDelay(), d)
		}
		i.losses = i.lossesAt(now.Add(time.Minute))
	}
	i.losses = 1000
	if i.lossDelay() != lossBackoffMax {
		t.Errorf("after many losses: %s", i.lossDelay())
	}
	if n := i.lossesAt(now.Add(time.Hour)); n != 0 {
		t.Errorf("%d losses are remembered for ever", n)
	}
}

func TestHTTPNodeClient(t *testing.T) {
	credentials, folder := unitCredentials(t, "uid")
	server := identitytest.Serve(t, folder, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET/status":
			fmt.Fprint(w, `{"node": "a/0/0", "pod": "p", "ready": true}`)
		case "GET/log":
			fmt.Fprint(w, `{"process": "p", "now": "2026-01-01T00:00:00Z"}`)
		case "GET/clock":
			http.Redirect(w, r, "/status", http.StatusFound)
		case "POST/load":
			fmt.Fprint(w, `{"rows": 7}`)
		default:
			http.Error(w, "3 transactions are pending", http.StatusConflict)
		}
	})
	pods := newPodClients(credentials)
	addr, c := server, pods.Nodes("uid")
	if s, err := c.Status(t.Context(), addr); err != nil || s.Node != "a/0/0" || !s.Ready {
		t.Errorf("status is %+v, %v", s, err)
	}
	if r, err := c.Load(t.Context(), addr, &admin.LoadRequest{Dataset: "d"}); err != nil || r.Rows != 7 {
		t.Errorf("load is %+v, %v", r, err)
	}
	if _, err := c.Audit(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "409 Conflict: 3 transactions are pending") {
		t.Errorf("audit says %v", err)
	}
	if _, err := c.Clock(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("a redirection is followed: %v", err)
	}
	if s, err := pods.Sidecars("uid").Status(t.Context(), addr); err != nil || s.Pod != "p" {
		t.Errorf("the sidecar's status is %+v, %v", s, err)
	}
	if l, ahead, within, err := pods.Sidecars("uid").Log(t.Context(), addr); err != nil || l.Process != "p" || ahead.Abs() < time.Hour || within <= 0 {
		t.Errorf("the sidecar's log is %+v, %s ahead within %s, %v", l, ahead, within, err)
	}
	if _, err := pods.Nodes("other").Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "not other.database.geobench.dev") {
		t.Errorf("another database's pod is believed: %v", err)
	}
	stranger, _ := unitCredentials(t, "uid")
	if _, err := newPodClients(stranger).Nodes("uid").Status(t.Context(), addr); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("whoever has the address is believed: %v", err)
	}
}

// unitCredentials are an operator's, and what the pods of one of its databases find.
func unitCredentials(t *testing.T, database types.UID) (*Credentials, identity.Folder) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(Scheme()).Build()
	credentials := &Credentials{Client: c, Live: c, Namespace: "geobench-system", Clock: clock.RealClock{}}
	a, err := credentials.Authority(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(identity.ServerName(string(database)), false, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for file, b := range map[string][]byte{identity.FileCert: cert.Cert, identity.FileKey: cert.Key, identity.FileSigners: a.Signers()} {
		if err := os.WriteFile(filepath.Join(folder, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return credentials, identity.Folder(folder)
}

func TestMetrics(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-ago)} }
	db := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: "d"}, Spec: v1alpha1.GeoDatabaseSpec{
		Engine: v1alpha1.Engine{Name: "calvin"}, Network: v1alpha1.Network{Profile: &v1alpha1.NetworkProfileSpec{}},
	}}
	run := func(name, database string) *v1alpha1.BenchmarkRun {
		return &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name},
			Spec: v1alpha1.BenchmarkRunSpec{DatabaseRef: v1alpha1.LocalReference{Name: database}}}
	}
	db.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionNetworkVerified, Status: metav1.ConditionTrue}}
	passed := run("a", "d")
	passed.Status.Stage, passed.Status.Verdict, passed.Status.CompletionTime = v1alpha1.StageCompleted, v1alpha1.VerdictPassed, ended(time.Minute)
	old := run("c", "d")
	old.Status.Stage, old.Status.Verdict, old.Status.CompletionTime = v1alpha1.StageCompleted, v1alpha1.VerdictPassed, ended(time.Hour)
	waiting := run("b", "gone")
	waiting.Status.Stage, waiting.Status.StageStartTime = v1alpha1.StageLoad, ended(10*time.Second)
	limit, rate := intstr.FromString("250ms"), intstr.FromInt32(1000)
	waiting.Spec.Objectives = []v1alpha1.Objective{
		{Metric: v1alpha1.MetricLatencyP99, Region: "eu", Max: &limit}, {Metric: v1alpha1.MetricThroughput, Min: &rate},
	}
	reader := fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(db, passed, waiting, old).Build()
	c := NewCollector(reader, clocktesting.NewFakePassiveClock(now))
	expected := fmt.Sprintf(`
# HELP geobench_database_network_verified 1 when the measured network of a database is the declared one, else 0.
# TYPE geobench_database_network_verified gauge
geobench_database_network_verified{database="d",namespace="test"} 1
# HELP geobench_databases GeoDatabases by engine, and by whether they are ready (true, false).
# TYPE geobench_databases gauge
geobench_databases{engine="calvin",ready="false"} 1
# HELP geobench_run_objective_latency_seconds Limit of an objective on a latency; percentile is p50, p90, p95 or p99, bound is min or max, an empty region or transaction stands for all.
# TYPE geobench_run_objective_latency_seconds gauge
geobench_run_objective_latency_seconds{bound="max",database="gone",namespace="test",percentile="p99",region="eu",run="b",transaction=""} 0.25
# HELP geobench_run_objective_throughput Limit of an objective on committed transactions per second; bound is min or max, an empty region or transaction stands for all.
# TYPE geobench_run_objective_throughput gauge
geobench_run_objective_throughput{bound="min",database="gone",namespace="test",region="",run="b",transaction=""} 1000
# HELP geobench_run_stage 1 for the stage that a run is in. Dashboards draw their bands from it.
# TYPE geobench_run_stage gauge
geobench_run_stage{database="d",namespace="test",run="a",stage="Completed"} 1
geobench_run_stage{database="gone",namespace="test",run="b",stage="Load"} 1
# HELP geobench_run_stage_deadline_timestamp_seconds When the operator gives up on the stage that a run is in, in Unix time.
# TYPE geobench_run_stage_deadline_timestamp_seconds gauge
geobench_run_stage_deadline_timestamp_seconds{database="gone",namespace="test",run="b",stage="Load"} %d
# HELP geobench_runs BenchmarkRuns by stage and verdict; the verdict is empty until a run is over.
# TYPE geobench_runs gauge
geobench_runs{stage="Completed",verdict="Passed"} 2
geobench_runs{stage="Load",verdict=""} 1
`, now.Add(-10*time.Second+loadDeadline).Unix())
	if err := testutil.CollectAndCompare(c, strings.NewReader(expected), "geobench_database_network_verified", "geobench_databases",
		"geobench_run_objective_latency_seconds", "geobench_run_objective_throughput", "geobench_run_stage",
		"geobench_run_stage_deadline_timestamp_seconds", "geobench_runs"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
	if problems, err := testutil.GatherAndLint(metrics.Registry, "geobench_run_stage_duration_seconds"); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v %v", problems, err)
	}
}

func TestTruncate(t *testing.T) {
	if got := truncate(strings.Repeat("µ", 100), 50); len(got) > 50 || !regexp.MustCompile(`^µ+\.\.\.$`).MatchString(got) {
		t.Errorf("got %q", got)
	}
}

// However long its texts are, the API server takes a run's status.
func TestStatusFits(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	st := v1alpha1.BenchmarkRunStatus{
		Checks:     []v1alpha1.CheckStatus{{Name: long, Message: long}},
		Objectives: []v1alpha1.ObjectiveStatus{{Name: long, Measured: "231ms, 1000000 s with gaps in the emulated network left out " + long}},
	}
	fit(&st)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	text, err := os.ReadFile("../../config/crd/bases/geobench.dev_benchmarkruns.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, crd)
	}
	if err != nil {
		t.Fatal(err)
	}
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	limit := func(list, field string) int {
		f := status.Properties[list].Items.Schema.Properties[field]
		if f.MaxLength == nil {
			t.Fatalf("status.%s[].%s has no limit", list, field)
		}
		return int(*f.MaxLength)
	}
	for field, got := range map[[2]string]string{
		{"checks", "name"}: st.Checks[0].Name, {"checks", "message"}: st.Checks[0].Message,
		{"objectives", "name"}: st.Objectives[0].Name, {"objectives", "measured"}: st.Objectives[0].Measured,
	} {
		if most := limit(field[0], field[1]); len(got) != most {
			t.Errorf("status.%s[].%s has %d bytes, want as many as may be, %d", field[0], field[1], len(got), most)
		}
	}
}

// TestPodsAreRestricted checks what the Pod Security Standard "restricted" asks for, and more.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, run := makeDatabase("d"), makeRun("r").database("d").workers(2).deadline(time.Hour).verify(v1alpha1.VerifySerializable)
	db.Spec.Regions[0].NodeSelector, db.Spec.Regions[0].Tolerations = map[string]string{"disk": "fast"}, []corev1.Toleration{{Key: "db"}}
	w.create(db.obj(), run.obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	job := w.get(workerName(w.getRun("r"), "us-west-2"), &batchv1.Job{}).(*batchv1.Job)
	if left := *job.Spec.ActiveDeadlineSeconds; *job.Spec.BackoffLimit != 0 || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || left < 3000 || left > 3600 {
		t.Errorf("the job may start workers again: %+v", job.Spec)
	}
	set := w.get(regionName(w.getDatabase("d"), "us-west-2"), &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
	if *set.Spec.Template.Spec.AutomountServiceAccountToken {
		t.Error("nodes get a token")
	}
	for what, template := range map[string]corev1.PodTemplateSpec{"node": set.Spec.Template, "worker": job.Spec.Template} {
		if template.Labels[LabelRegion] != "us-west-2" || template.Labels[LabelDatabase] == "" {
			t.Errorf("%s: labels are %v", what, template.Labels)
		}
		spec := template.Spec
		if spec.HostNetwork || spec.HostPID || spec.HostIPC || !*spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod security is %+v", what, spec.SecurityContext)
		}
		if spec.NodeSelector["disk"] != "fast" || len(spec.Tolerations) != 1 || spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution == nil {
			t.Errorf("%s: it goes to %v %v %v", what, spec.NodeSelector, spec.Tolerations, spec.Affinity)
		}
		for _, c := range spec.Containers {
			sc := c.SecurityContext
			if *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || !*sc.RunAsNonRoot || fmt.Sprint(sc.Capabilities.Drop) != "[ALL]" || len(sc.Capabilities.Add) > 0 {
				t.Errorf("%s: container security is %+v", what, sc)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s: it requests nothing", what)
			}
		}
		for _, v := range spec.Volumes {
			if v.ConfigMap == nil && v.Secret == nil && v.Projected == nil && (v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil) {
				t.Errorf("%s: volume %s is neither a ConfigMap, nor a Secret, nor a bounded folder", what, v.Name)
			}
		}
	}
}
