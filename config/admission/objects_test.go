package admission

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
)

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: name, Labels: managed}, Rules: rules}
}

func database(namespace string) *v1alpha1.GeoDatabase {
	d := v1alpha1.DurationOf(100 * time.Millisecond)
	return &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Engine: v1alpha1.Engine{Name: "calvin"}, Regions: []v1alpha1.Region{{Name: "us"}, {Name: "eu"}}, PartitionsPerRegion: 1, ReplicasPerPartition: 1,
			Placement: v1alpha1.PlacementAnywhere,
			Network:   v1alpha1.Network{Emulation: v1alpha1.EmulationAuto, Profile: &v1alpha1.NetworkProfileSpec{Links: []v1alpha1.Link{{From: "us", To: "eu", RTT: d}}}},
		},
	}
}

// expiring returns a user's run with a retention time.
func expiring() *v1alpha1.BenchmarkRun {
	second := v1alpha1.DurationOf(time.Second)
	return &v1alpha1.BenchmarkRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "expires"},
		Spec: v1alpha1.BenchmarkRunSpec{
			DatabaseRef: v1alpha1.LocalReference{Name: "d"}, TTLSecondsAfterFinished: &v1alpha1.TTLSecondsAfterFinished{Passed: ptr.To[int32](60)},
			Workload: v1alpha1.Workload{SmallBank: &v1alpha1.SmallBank{
				Customers: 100, Mix: v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5},
			}},
			Load: v1alpha1.Load{
				ClientsPerRegion: 1, WorkersPerRegion: 1, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
				Warmup: second, Duration: v1alpha1.DurationOf(2 * time.Second), RequestTimeout: second,
			},
		},
	}
}

// withEnv makes the nodes run a program with an environment variable from a Secret.
func withEnv(db *v1alpha1.GeoDatabase, secret string) *v1alpha1.GeoDatabase {
	db.Spec.Engine.Name = "postgres"
	db.Spec.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{
		Image: "postgres", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}},
		Env: []v1alpha1.PodEnv{{Name: "PASSWORD", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: "k"}}},
	}}
	return db
}

// withRole gives the database two roles, of which the second reads a Secret.
func withRole(db *v1alpha1.GeoDatabase, secret string) *v1alpha1.GeoDatabase {
	p := withEnv(db, secret).Spec.Pods.Program
	plain := p
	plain.Env, db.Spec.Pods = nil, nil
	db.Spec.Roles = []v1alpha1.Role{{Name: "meta", Program: plain, PerRegion: 1, FirstRegions: ptr.To[int32](1)}, {Name: "data", Program: p, PerRegion: 2}}
	return db
}

// withSecrets gives the database two roles with one environment variable per Secret. The variables alternate between
// the roles.
func withSecrets(db *v1alpha1.GeoDatabase, secrets ...string) *v1alpha1.GeoDatabase {
	db = withRole(db, "")
	for i := range db.Spec.Roles {
		db.Spec.Roles[i].Env = nil
	}
	for i, secret := range secrets {
		r := &db.Spec.Roles[i%2]
		r.Env = append(r.Env, v1alpha1.PodEnv{Name: fmt.Sprintf("V%d", i), SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secret, Key: "k"}})
	}
	return db
}

// withRoleVolume is like withRole, but the second role has a volume instead of the environment variable.
func withRoleVolume(db *v1alpha1.GeoDatabase, v v1alpha1.PodVolume) *v1alpha1.GeoDatabase {
	db = withRole(db, "")
	v.Name, v.MountPath = "v", "/v"
	db.Spec.Roles[1].Env, db.Spec.Roles[1].Volumes = nil, []v1alpha1.PodVolume{v}
	return db
}

// withRoleClient is like withRole, but the second role has clients instead of the environment variable. The clients'
// Secret is optional.
func withRoleClient(db *v1alpha1.GeoDatabase, secret string) *v1alpha1.GeoDatabase {
	db = withRole(db, "")
	db.Spec.Roles[1].Env, db.Spec.Roles[1].Client = nil, &v1alpha1.RoleClient{}
	if secret != "" {
		db.Spec.Roles[1].Client.SecretRef = &v1alpha1.LocalReference{Name: secret}
	}
	return db
}

func withVolume(db *v1alpha1.GeoDatabase, v v1alpha1.PodVolume) *v1alpha1.GeoDatabase {
	db = withEnv(db, "")
	v.Name, v.MountPath = "v", "/v"
	db.Spec.Pods.Env, db.Spec.Pods.Volumes = nil, []v1alpha1.PodVolume{v}
	return db
}

func withClient(db *v1alpha1.GeoDatabase, secret string) *v1alpha1.GeoDatabase {
	db = withEnv(db, "")
	db.Spec.Pods.Env, db.Spec.Pods.Client = nil, &v1alpha1.PodsClient{SecretRef: v1alpha1.LocalReference{Name: secret}}
	return db
}

func withExternal(db *v1alpha1.GeoDatabase, secret string) *v1alpha1.GeoDatabase {
	db.Spec.External = &v1alpha1.External{
		Endpoints: []v1alpha1.ExternalEndpoint{{Region: "us", Address: "us:1"}, {Region: "eu", Address: "eu:1"}}, SecretRef: &v1alpha1.LocalReference{Name: secret},
	}
	return db
}

// experiment returns an experiment with one database.
func experiment(db *v1alpha1.GeoDatabase, swept string) *v1alpha1.Experiment {
	e := &v1alpha1.Experiment{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "e"},
		Spec: v1alpha1.ExperimentSpec{
			Databases: []v1alpha1.ExperimentDatabase{{Name: "d", Template: v1alpha1.DatabaseTemplate{Spec: db.Spec}}},
			Run: v1alpha1.RunTemplate{Spec: v1alpha1.RunTemplateSpec{
				Workload: v1alpha1.Workload{SmallBank: &v1alpha1.SmallBank{
					Customers: 100, Mix: v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5},
				}},
				Load: v1alpha1.Load{ClientsPerRegion: 1, WorkersPerRegion: 1, Duration: v1alpha1.DurationOf(time.Second), Warmup: v1alpha1.DurationOf(0), RequestTimeout: v1alpha1.DurationOf(time.Second)},
			}},
		},
	}
	if swept != "" {
		e.Spec.Sweep = []v1alpha1.SweepParameter{{Path: swept, Values: []v1alpha1.SweepValue{intstr.FromString("a"), intstr.FromString("b")}}}
	}
	return e
}

// podSpec returns a pod spec that no policy refuses.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		RestartPolicy:                corev1.RestartPolicyNever,
		SecurityContext:              &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](65532)},
		Containers: []corev1.Container{{
			Name: "worker", Image: "localhost/geobench:dev",
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
				Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		}},
	}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: managed}, Spec: podSpec()}
}

func job(name string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: name, Labels: managed},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: managed}, Spec: podSpec()}},
	}
}

func statefulSet() *appsv1.StatefulSet {
	spec := podSpec()
	spec.RestartPolicy = corev1.RestartPolicyAlways
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab, Name: "s", Labels: managed},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: managed},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: managed}, Spec: spec},
		},
	}
}

func privileged(j *batchv1.Job) *batchv1.Job {
	j.Spec.Template.Spec.Containers[0].SecurityContext.Privileged = ptr.To(true)
	j.Spec.Template.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	return j
}
