package controllers_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/results"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// TestHostileNamespace: with the memory limit of the chart, the released operator survives all objects that the editors
// of a namespace can make it read. These are answers, histories, reports and results far larger than real ones, and
// experiments and objects of maximum size. Meanwhile, a run in another namespace passes. Once all these objects are
// deleted, the operator releases the memory. GEOBENCH_OPERATOR names its binary (make hostile).
func TestHostileNamespace(t *testing.T) {
	w := newWorldOfProcess(t, nil)
	enemy := newEnemy(t)
	operator := startOperator(t, w.Namespace)
	w.Create(worldtest.MakeDatabase("d").Obj())
	runs := func(name string) {
		t.Helper()
		w.Create(worldtest.MakeRun(name).Database("d").Duration(time.Minute).Faults(`[
			{name: busy, at: 5s, duration: 10s, cpuStress: {target: {}, workers: 1}},
			{name: cut, at: 20s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}}}]`).Obj())
	}
	passes := func(name string) {
		t.Helper()
		w.Play("run "+name+" is over", func() bool { enemy.act(); return kube.Over(w.GetRun(name)) })
		if st := w.GetRun(name).Status; st.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s: %s", name, st.Verdict, st.Reason, st.Message)
		}
	}
	runs("before")
	passes("before")
	// The first experiment allocates objects that stay in memory permanently.
	own := experimentOf("own", w.Namespace, "[{path: spec.seed, values: [1, 2]}]", "[]")
	w.Must(w.Client.Create(w.Ctx, own))
	w.Play("an experiment was looked at", func() bool {
		w.Must(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(own), own))
		return own.Status.ObservedGeneration > 0
	})
	// settles returns the minimum memory of the operator within the given number of minutes. The operator releases unused
	// memory every minute.
	settles := func(minutes int) int64 {
		t.Helper()
		least, begun := int64(math.MaxInt64), time.Now()
		w.Play("minutes are over", func() bool {
			enemy.act()
			if now, _ := operator.memory(); now > 0 { // 0 means that the operator is restarting, which fails the test below
				least = min(least, now)
			}
			return time.Since(begun) > time.Duration(minutes)*time.Minute
		})
		return least
	}
	before, heap := settles(2), operator.heap()

	enemy.attack()
	runs("meanwhile")
	passes("meanwhile")
	w.Play("the operator has seen all of it", func() bool { enemy.act(); return enemy.spent() })
	_, peak := operator.memory()
	t.Logf("the operator takes at most %d MiB of %d; before, it took %d, and its heap %d", peak>>20, operatorLimit>>20, before>>20, heap>>20)
	if peak > operatorLimit {
		t.Errorf("the operator took %d MiB, want at most %d", peak>>20, operatorLimit>>20)
	}

	enemy.retreat()
	after := settles(5)
	t.Logf("five minutes after, the operator takes %d MiB at least, and its heap %d", after>>20, operator.heap()>>20)
	if limit := before * (100 + leftOverPercent) / 100; after > limit {
		t.Errorf("the operator takes %d MiB five minutes after all is gone, and before %d; want at most %d", after>>20, before>>20, limit>>20)
	}
	if n := operator.restarted(); n > 0 {
		t.Errorf("the operator was started again %d times", n)
	}
}

// enemy is a tenant that sends the operator everything that an editor of a namespace can send. The tenant's cluster is
// simulated, except for the answers of its pods.
type enemy struct {
	*worldtest.World
	// bulk is a namespace whose objects are not simulated.
	bulk   string
	served sync.Map // number of times that each hostile answer was given: *atomic.Int64 by name
	// attacks is set between attack and retreat. bombed is set once the baseline's result is a gzip bomb.
	attacks, bombed bool
}

const (
	// leftOverPercent is the additional memory, in percent, that the operator may still use once all objects are
	// deleted. Small live objects keep fragments of the heap in use.
	leftOverPercent  = 20
	hostileDatabases = 3
	// hostileAnswer is the size of a hostile answer in bytes.
	hostileAnswer = 16 << 20
)

func newEnemy(t *testing.T) *enemy {
	e := &enemy{}
	e.World = newWorldOfProcess(t, e.answer)
	_, e.bulk = worldtest.NewNamespace(t)
	inner := e.Client.(client.WithWatch)
	e.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if cm, ok := obj.(*corev1.ConfigMap); ok && cm.BinaryData[deploy.KeyReport] != nil && strings.HasPrefix(cm.Labels[kube.LabelRun], "report") {
				e.forge(cm)
			}
			return client.IgnoreNotFound(c.Patch(ctx, obj, patch, opts...)) // the run may have ended
		},
	})
	return e
}

// filled is an answer of hostileAnswer bytes: a beginning, a repeated element, and an end.
type filled struct{ begin, element, end string }

// WriteTo writes the answer until it is complete or the reader stops.
func (f filled) WriteTo(to io.Writer) (n int64, err error) {
	text := f.begin + f.element
	part := strings.Repeat(","+f.element, 10_000)
	for {
		written, err := io.WriteString(to, text)
		if n += int64(written); err != nil {
			return n, err
		}
		switch {
		case n+int64(len(part)+len(f.end)) <= hostileAnswer:
			text = part
		case text == f.end:
			return n, nil
		default:
			text = f.end
		}
	}
}

// answer returns a handler that sends the hostile response of the pod's database, and passes all other requests to
// played.
func (e *enemy) answer(pod *corev1.Pod, played http.Handler) http.Handler {
	incarnation := pod.Labels[kube.LabelIncarnation]
	hostile := map[string]map[string]func(http.ResponseWriter){
		"links":   {"/status": e.sends("links", filled{`{"incarnation":"` + incarnation + `","ready":true,"links":[`, `{}`, `]}`})},
		"roles":   {"/status": e.sends("roles", filled{`{"incarnation":"` + incarnation + `","ready":true,"roles":[`, `""`, `]}`})},
		"log":     {"/log": e.sends("log", filled{`{"entries":[`, `{}`, `]}`})},
		"audit":   {"/audit": e.sends("audit", filled{`{"shards":[`, `{}`, `]}`})},
		"history": {deploy.PathHistory: e.endless},
	}
	kind, _, _ := strings.Cut(pod.Labels[kube.LabelDatabase], "-")
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if send := hostile[kind][r.URL.Path]; send != nil {
			send(out)
			return
		}
		played.ServeHTTP(out, r)
	})
}

// count records that a hostile answer was served.
func (e *enemy) count(name string) {
	n, _ := e.served.LoadOrStore(name, &atomic.Int64{})
	n.(*atomic.Int64).Add(1)
}

func (e *enemy) sends(name string, f filled) func(http.ResponseWriter) {
	return func(out http.ResponseWriter) {
		e.count(name)
		_, _ = f.WriteTo(out)
	}
}

// endless sends a history that never ends.
func (e *enemy) endless(out http.ResponseWriter) {
	e.count("history")
	to := &untilError{to: out}
	h := history.NewWriter(to, history.Header{Region: "us-west-2"})
	for i := uint64(1); to.err == nil; i++ {
		x := history.Txn{ID: txn.MakeID(1, i), Status: txn.Committed}
		for k := range 100 {
			x.Ops = append(x.Ops, history.Op{Key: txn.Key(fmt.Sprintf("\x80%d-%d", i, k))})
		}
		h.Add(&x)
	}
}

// untilError is a writer that records when the reader has closed the connection.
type untilError struct {
	to  io.Writer
	err error
}

func (u *untilError) Write(b []byte) (int, error) {
	n, err := u.to.Write(b)
	u.err = cmp.Or(u.err, err)
	return n, err
}

// forge replaces a worker's report with a report of many small parts. The report has a valid seal, because any user who
// may create pods can obtain the worker's key.
func (e *enemy) forge(cm *corev1.ConfigMap) {
	e.count("report")
	var report bytes.Buffer
	_, err := filled{fmt.Sprintf(`{"kind":%q,"version":%d,"durationMicroseconds":1,"repetitions":1,"windows":[`, result.ReportKind, result.ReportVersion), `{}`, `]}`}.WriteTo(&report)
	e.Must(err)
	packed, err := compress.Text(report.Bytes())
	e.Must(err)
	var sealed struct{ Config, StartAt string }
	e.Must(json.Unmarshal([]byte(cm.Data[deploy.KeySeal]), &sealed))
	pod := e.Get(cm.Data[deploy.KeyPod], &corev1.Pod{}).(*corev1.Pod)
	h := &deploy.HandIn{Run: string(metav1.GetControllerOf(cm).UID), Region: cm.Labels[kube.LabelRegion], Config: sealed.Config, StartAt: sealed.StartAt, Report: packed}
	cm.BinaryData[deploy.KeyReport] = packed
	cm.Data[deploy.KeySeal], err = h.Seal(e.ReportKey(pod))
	e.Must(err)
}

// attack starts all attacks.
func (e *enemy) attack() {
	e.attacks = true
	for i := range hostileDatabases {
		for _, kind := range []string{"links", "roles"} {
			e.Create(worldtest.MakeDatabase(fmt.Sprintf("%s-%d", kind, i)).Partitions(2).Obj())
		}
		for _, kind := range []string{"log", "audit", "history", "report"} {
			name := fmt.Sprintf("%s-%d", kind, i)
			run := worldtest.MakeRun(name).Database(name)
			if kind == "history" {
				run = run.Verify(v1alpha1.VerifyInvariants, v1alpha1.VerifyIsolation)
			}
			e.Create(worldtest.MakeDatabase(name).Obj(), run.Obj())
		}
	}
	e.Create(worldtest.MakeDatabase("base").Obj(), worldtest.MakeRun("base").Database("base").Obj())
	e.hoard()
}

// act advances the enemy's cluster, and replaces the baseline's result with a gzip bomb once the result exists.
func (e *enemy) act() {
	e.PlayCluster()
	if !e.attacks || e.bombed || e.GetRun("base").Status.ReportRef == nil {
		return
	}
	e.bombed = true
	cm := e.Get(e.GetRun("base").Status.ReportRef.Name, &corev1.ConfigMap{}).(*corev1.ConfigMap)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	e.Must(err)
	zeros := make([]byte, 1<<20)
	for b.Len() < 900_000 {
		_, err := z.Write(zeros)
		e.Must(err)
		e.Must(z.Flush())
	}
	e.Must(z.Close())
	e.Must(e.Client.Delete(e.Ctx, cm))
	forged := &corev1.ConfigMap{BinaryData: map[string][]byte{results.KeyGzip: b.Bytes()}}
	forged.Name = cm.Name
	e.Create(forged)
	for i := range hostileDatabases {
		run := worldtest.MakeRun(fmt.Sprintf("compared-%d", i)).Database("base")
		run.Spec.BaselineRef = &v1alpha1.LocalReference{Name: "base"}
		e.Create(run.Obj())
	}
}

// hoard creates objects of maximum size with the operator's label, and experiments with the maximum number of points
// and expensive claims.
func (e *enemy) hoard() {
	large := strings.Repeat("x", 120_000)
	for i := range hoarded {
		meta := metav1.ObjectMeta{Namespace: e.bulk, Name: fmt.Sprintf("large-%d", i), Labels: map[string]string{kube.LabelManagedBy: kube.ManagedBy},
			Annotations: map[string]string{"a": large, "b": large}}
		pod := &corev1.Pod{ObjectMeta: *meta.DeepCopy(), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		job := &batchv1.Job{ObjectMeta: *meta.DeepCopy(), Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}}
		for k := range 8 {
			v := corev1.EnvVar{Name: fmt.Sprintf("V%d", k), Value: large}
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, v)
			job.Spec.Template.Spec.Containers[0].Env = append(job.Spec.Template.Spec.Containers[0].Env, v)
		}
		cm := &corev1.ConfigMap{ObjectMeta: *meta.DeepCopy(), Data: map[string]string{deploy.KeyState: strings.Repeat("x", 700_000)}}
		for _, obj := range []client.Object{pod, job, cm} {
			e.Must(e.Client.Create(e.Ctx, obj))
		}
	}
	claims := "[]"
	sweep := `[{path: spec.load.clientsPerRegion, values: [` + numbers(1, 100) + `]}, {path: spec.seed, values: [` + numbers(1, 100) + `]}]`
	for i := range hostileExperiments {
		if i == hostileExperiments/2 { // the second half has few points but slow claims
			sweep = `[{path: spec.load.clientsPerRegion, values: [` + numbers(1, 1000) + `]}]`
			var list []string
			for k := range 64 {
				list = append(list, fmt.Sprintf("{id: c%d, says: something, expression: %q}", k,
					"values('clientsPerRegion').map(x, values('clientsPerRegion').map(y, values('clientsPerRegion').map(z, x * y * z).size()).size()).size() > 0"))
			}
			claims = "[" + strings.Join(list, ", ") + "]"
		}
		x := experimentOf(fmt.Sprintf("many-%d", i), e.bulk, sweep, claims)
		e.Must(e.Client.Create(e.Ctx, x))
	}
}

// experimentOf returns a suspended experiment with a sweep and claims in YAML.
func experimentOf(name, namespace, sweep, claims string) *v1alpha1.Experiment {
	x := &v1alpha1.Experiment{}
	if err := yaml.Unmarshal([]byte(`{spec: {suspend: true, sweep: `+sweep+`, claims: `+claims+`,
		run: {spec: {workload: {smallBank: {customers: 100}}, load: {clientsPerRegion: 1, warmup: 1s, duration: 2s}}}}}`), x); err != nil {
		panic(err)
	}
	x.Name, x.Namespace = name, namespace
	x.Spec.Databases = []v1alpha1.ExperimentDatabase{{Name: "d", Template: v1alpha1.DatabaseTemplate{Spec: worldtest.MakeDatabase("d").Obj().Spec}}}
	return x
}

const (
	// hoarded is the number of pods, of Jobs and of ConfigMaps, each of about 1 MB.
	hoarded            = 100
	hostileExperiments = 50
)

// numbers returns the integers between from and to, both included, separated by commas.
func numbers(from, to int) string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return strings.Join(out, ", ")
}

// spent reports whether the operator has received every hostile answer.
func (e *enemy) spent() bool {
	for _, kind := range []string{"links", "roles", "log", "audit", "history", "report"} {
		if n, ok := e.served.Load(kind); !ok || n.(*atomic.Int64).Load() < 2*hostileDatabases {
			return false
		}
	}
	if !e.bombed {
		return false
	}
	for i := range hostileDatabases {
		if !kube.Over(e.GetRun(fmt.Sprintf("compared-%d", i))) {
			return false
		}
	}
	list := &v1alpha1.ExperimentList{}
	e.Must(e.Client.List(e.Ctx, list, client.InNamespace(e.bulk)))
	return !slices.ContainsFunc(list.Items, func(x v1alpha1.Experiment) bool { return x.Status.ObservedGeneration == 0 })
}

// retreat stops all attacks and deletes their objects.
func (e *enemy) retreat() {
	e.attacks = false
	for _, namespace := range []string{e.Namespace, e.bulk} {
		for _, obj := range []client.Object{&v1alpha1.Experiment{}, &v1alpha1.BenchmarkRun{}, &v1alpha1.GeoDatabase{}, &batchv1.Job{}, &corev1.ConfigMap{}, &appsv1.StatefulSet{}, &corev1.Pod{}} {
			e.Must(e.Client.DeleteAllOf(e.Ctx, obj, client.InNamespace(namespace), client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
	}
}
