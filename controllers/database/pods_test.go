package database_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
)

// TestPodsAreRestricted checks the requirements of the Pod Security Standard "restricted", and more.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	w := worldtest.NewWorld(t)
	db, run := worldtest.MakeDatabase("d"), worldtest.MakeRun("r").Database("d").Workers(2).Deadline(time.Hour).Verify(v1alpha1.VerifySerializable)
	db.Spec.Regions[0].NodeSelector, db.Spec.Regions[0].Tolerations = map[string]string{"disk": "fast"}, []corev1.Toleration{{Key: "db"}}
	w.Create(db.Obj(), run.Obj())
	w.UntilStage("r", v1alpha1.StageMeasure)
	job := w.Get(kube.WorkerName(w.GetRun("r"), "us-west-2"), &batchv1.Job{}).(*batchv1.Job)
	if left := *job.Spec.ActiveDeadlineSeconds; *job.Spec.BackoffLimit != 0 || job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || left < 3600 || left > 5400 {
		t.Errorf("the job may start workers again: %+v", job.Spec)
	}
	set := w.Get(kube.RegionName(w.GetDatabase("d"), "us-west-2"), &appsv1.StatefulSet{}).(*appsv1.StatefulSet)
	if *set.Spec.Template.Spec.AutomountServiceAccountToken {
		t.Error("nodes get a token")
	}
	for what, template := range map[string]corev1.PodTemplateSpec{"node": set.Spec.Template, "worker": job.Spec.Template} {
		if template.Labels[kube.LabelRegion] != "us-west-2" || template.Labels[kube.LabelDatabase] == "" {
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
