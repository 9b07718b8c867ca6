package database

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/emulation/kernel"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// asked is the reason for a backend that the spec names.
const asked = "asked for by spec.network.emulation"

// emulationChoice selects the backend that emulates a database's network.
type emulationChoice struct {
	client client.Client
	live   client.Reader
	image  string
	kernel *kernelProbes
}

// NewEmulationChoice returns an emulationChoice that has not probed the cluster yet. live reads from the API server.
// The pods that probe the kernels run image.
func NewEmulationChoice(c client.Client, live client.Reader, image string, clock clock.PassiveClock) *emulationChoice {
	return &emulationChoice{c, live, image, &kernelProbes{client: c, live: live, image: image, clock: clock}}
}

// Choose returns the backend and the reason for it. The choice of Auto is kept until the spec names another backend, so
// a database is not redeployed because some component was installed later.
func (e *emulationChoice) Choose(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error) {
	if db.Spec.External != nil {
		return v1alpha1.EmulationNone, "the database runs elsewhere, over links that nobody delays", nil
	}
	switch b := db.Spec.Network.Emulation; b {
	case v1alpha1.EmulationAuto, "":
		return e.auto(ctx, db)
	case v1alpha1.EmulationNone:
		return b, asked + ": nothing is injected, round trips are measured all the same", nil
	case v1alpha1.EmulationBuiltIn:
		return b, asked, nil
	case v1alpha1.EmulationSidecar:
		why, err := e.sidecarRefused(ctx, db)
		if err != nil {
			return "", "", err
		}
		if why != "" {
			return "", "", kube.Refuse("EmulationUnsupported", "spec.network.emulation: Sidecar needs pods with the capability NET_ADMIN, and this cluster refuses them: %s; %s", why, wayOut(db))
		}
		return b, asked, nil
	default: // ChaosMesh
		if db.Status.Emulation == b {
			return b, asked, nil // a backend that has worked is not checked again
		}
		why, err := e.chaosMeshUnfit(ctx, db)
		if err != nil {
			return "", "", err
		}
		if why != "" {
			return "", "", kube.Refuse("EmulationUnsupported", "spec.network.emulation: ChaosMesh does not work here: %s; choose Sidecar, or Auto", why)
		}
		return b, asked, nil
	}
}

// wayOut suggests an alternative in a cluster that does not allow sidecars.
func wayOut(db *v1alpha1.GeoDatabase) string {
	way := fmt.Sprintf("label namespace %s pod-security.kubernetes.io/enforce=privileged", db.Namespace)
	if !db.Spec.RunsPrograms() {
		way += ", or choose BuiltIn, which needs no privileges"
	}
	return way
}

func (e *emulationChoice) auto(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error) {
	// Nodes of Geobench's own engines delay their messages themselves, which needs no privileges.
	if !db.Spec.RunsPrograms() {
		return v1alpha1.EmulationBuiltIn, "Auto: the engine is a native one, whose connections delay what they send themselves", nil
	}
	if st := &db.Status; st.Emulation != "" && strings.HasPrefix(st.EmulationReason, "Auto:") && (st.Emulation != v1alpha1.EmulationChaosMesh || behindServices(db) == "") {
		return st.Emulation, st.EmulationReason, nil
	}
	unfit, err := e.chaosMeshUnfit(ctx, db)
	if err != nil {
		return "", "", err
	}
	if unfit == "" {
		return v1alpha1.EmulationChaosMesh, "Auto: Chaos Mesh is installed, and the kernel of every node can delay packets", nil
	}
	why, err := e.sidecarRefused(ctx, db)
	if err != nil {
		return "", "", err
	}
	if why == "" {
		return v1alpha1.EmulationSidecar, fmt.Sprintf("Auto: not ChaosMesh, because %s; pods may have the capability NET_ADMIN, which is all that a sidecar needs", unfit), nil
	}
	return v1alpha1.EmulationNone, fmt.Sprintf("Auto: not ChaosMesh, because %s; not Sidecar, because the cluster refuses its pods: %s; %s", unfit, why, wayOut(db)), nil
}

// chaosMeshUnfit returns the reason why Chaos Mesh cannot emulate the network, or "" if it can. It returns a
// *PendingError while this is unknown.
func (e *emulationChoice) chaosMeshUnfit(ctx context.Context, db *v1alpha1.GeoDatabase) (string, error) {
	if why := behindServices(db); why != "" {
		return why, nil
	}
	return e.ChaosUnfit(ctx, db, chaosmesh.NetworkChaos, kernel.Delay)
}

// behindServices returns the reason why Chaos Mesh could not match the packets between a database's pods, or "" if it
// can.
func behindServices(db *v1alpha1.GeoDatabase) string {
	for i := range db.Spec.Roles {
		if role := &db.Spec.Roles[i]; role.ServicePerPod {
			return "it delays packets to the addresses of pods, and those of role " + role.Name + " are reached by Services (servicePerPod)"
		}
	}
	return ""
}

// sidecarRefused returns the reason why the API server would refuse a pod with a sidecar, or "" if it would accept the
// pod. It uses a dry run. It returns a *PendingError if the namespace accepts no pod at all.
func (e *emulationChoice) sidecarRefused(ctx context.Context, db *v1alpha1.GeoDatabase) (string, error) {
	pod := probePod(db, e.image, deploy.JoinName(63, db.Name, "sidecar-probe"))
	return refusal(ctx, e.client, pod, e.client.Create(ctx, pod.DeepCopy(), client.DryRunAll))
}

// refusal returns the reason why the API server refused a pod that has the right to change its network, or "" if err is
// nil. If the namespace also refuses the pod without that right, for example because of an exhausted quota, the refusal
// says nothing about the right. refusal then returns a *PendingError.
func refusal(ctx context.Context, c client.Client, pod *corev1.Pod, err error) (string, error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return "", err
	}
	plain := pod.DeepCopy()
	plain.Spec.SecurityContext = podSecurity()
	for i := range plain.Spec.Containers {
		plain.Spec.Containers[i].SecurityContext = containerSecurity()
	}
	if without := c.Create(ctx, plain, client.DryRunAll); apierrors.IsForbidden(without) || apierrors.IsInvalid(without) {
		return "", &PendingError{fmt.Sprintf("namespace %s takes no pod, whatever it may do: %s", pod.Namespace, without)}
	}
	return err.Error(), nil
}

// ChaosUnfit returns the reason why Chaos Mesh cannot inject objects of a kind into the pods of a database, or "" if it
// can. qdiscs lists the queueing disciplines that the objects need.
func (e *emulationChoice) ChaosUnfit(ctx context.Context, db *v1alpha1.GeoDatabase, kind string, qdiscs []string) (string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind + "List"))
	err := e.live.List(ctx, list, client.InNamespace(db.Namespace), client.Limit(1))
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "it is not installed", nil
	case apierrors.IsForbidden(err):
		return "the operator may not use it: " + err.Error(), nil
	case err != nil || len(qdiscs) == 0:
		return "", err
	}
	return e.kernel.lacks(ctx, db, qdiscs)
}
