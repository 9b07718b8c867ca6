package run_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// cpuOf returns a function that sets a CPU limit on the first container of pods with the given role.
func cpuOf(role, limit string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels[kube.LabelRole] == role {
			c := &pod.Spec.Containers[0]
			c.Resources.Limits = c.Resources.Limits.DeepCopy()
			c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
			if c.Resources.Requests.Cpu().Cmp(resource.MustParse(limit)) > 0 {
				c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(limit)
			}
		}
	}
}

// If the cluster changes pods at creation in a way that no manifest declares, the deployed database is not the declared
// database.
func TestPodsDiffer(t *testing.T) {
	limitRange := func(limits, requests corev1.ResourceList) *corev1.LimitRange {
		return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: requests}}}}
	}
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	small := func(db *v1alpha1.GeoDatabase) {
		db.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	}
	container := func(role string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			if pod.Labels[kube.LabelRole] == role {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "agent", Image: "agent:1"})
			}
		}
	}
	for name, tt := range map[string]struct {
		database func(*v1alpha1.GeoDatabase)
		objects  []client.Object
		mutate   func(*corev1.Pod)
		says     []string // empty: the run passes
	}{
		"nothing": {},
		"a LimitRange with 30m": {database: small, objects: []client.Object{limitRange(cpu("30m"), cpu("10m"))},
			says: []string{"pod d-ap-northeast-1-0", "container node", "limits.cpu is 30m, wanted was none"}},
		"a LimitRange that the manifest answers": {
			database: func(db *v1alpha1.GeoDatabase) {
				small(db)
				db.Spec.Resources.Limits = cpu("30m")
			},
			objects: []client.Object{limitRange(cpu("30m"), cpu("10m"))}},
		"a webhook that limits nodes to 200m":   {mutate: cpuOf(kube.RoleNode, "200m"), says: []string{"pod d-", "container node", "limits.cpu is 200m, wanted was none"}},
		"a webhook that limits load generators": {mutate: cpuOf(kube.RoleWorker, "200m"), says: []string{"pod r-", "limits.cpu is 200m"}},
		"a container beside nodes":              {mutate: container(kube.RoleNode), says: []string{"pod d-", "container agent (image agent:1) is in it"}},
		"a container beside load generators":    {mutate: container(kube.RoleWorker), says: []string{"pod r-", "container agent"}},
		"another image":                         {mutate: func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other:1" }, says: []string{"image is other:1, wanted was"}},
		"a label and a volume": {mutate: func(pod *corev1.Pod) {
			pod.Labels = kube.WithLabel(pod.Labels, "team", "a")
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "x"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			w.Mutate = tt.mutate
			db := worldtest.MakeDatabase("d").Obj()
			if tt.database != nil {
				tt.database(db)
			}
			run := worldtest.MakeRun("r").Database("d").Obj()
			run.Spec.Load.Resources = db.Spec.Resources
			w.Create(append(tt.objects, db, run)...)
			over := w.UntilOver("r")
			if tt.says != nil {
				invalid(t, over, "PodDiffers", tt.says...)
				return
			}
			passed(t, over)
			shown := map[string]string{}
			for _, p := range w.Document("r").Pods {
				for _, c := range p.Containers {
					shown[p.Role] += strings.Join(p.Names, ",") + " " + c.Name + " " + c.Image + " " + c.Limits["memory"] + "; "
				}
			}
			if !strings.Contains(shown["node"], "d-ap-northeast-1-0,d-us-west-2-0 node "+worldtest.TestImage+" 8Gi") || !strings.Contains(shown["worker"], worldtest.TestImage) {
				t.Errorf("the result shows %q", shown)
			}
		})
	}
}
