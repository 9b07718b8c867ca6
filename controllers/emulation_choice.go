package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/emulation"
)

// asked is the reason of a backend that the user named.
const asked = "asked for by spec.network.emulation"

// emulationChoice picks the backend that emulates a database's network.
type emulationChoice struct {
	client client.Client
	image  string
}

// choose picks the backend and says why that one. What Auto has picked stays until the spec asks for another backend by
// name: a database is not deployed anew because something was installed beside it.
func (e *emulationChoice) choose(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error) {
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
			return "", "", refuse("EmulationUnsupported", "spec.network.emulation: Sidecar needs pods with the capability NET_ADMIN, and this cluster refuses them: %s; %s", why, wayOut(db))
		}
		return b, asked, nil
	default:
		return "", "", refuse("EmulationUnsupported", "spec.network.emulation: %s is not available in this version; use Auto, Sidecar, BuiltIn or None", b)
	}
}

// wayOut says what to do where sidecars are not allowed.
func wayOut(db *v1alpha1.GeoDatabase) string {
	way := fmt.Sprintf("label namespace %s pod-security.kubernetes.io/enforce=privileged", db.Namespace)
	if db.Spec.Pods == nil {
		way += ", or choose BuiltIn, which needs no privileges"
	}
	return way
}

func (e *emulationChoice) auto(ctx context.Context, db *v1alpha1.GeoDatabase) (v1alpha1.Emulation, string, error) {
	if db.Spec.Pods == nil {
		return v1alpha1.EmulationBuiltIn, "Auto: the engine is a native one, whose connections delay what they send themselves", nil
	}
	if st := &db.Status; st.Emulation != "" && strings.HasPrefix(st.EmulationReason, "Auto:") {
		return st.Emulation, st.EmulationReason, nil
	}
	why, err := e.sidecarRefused(ctx, db)
	if err != nil {
		return "", "", err
	}
	if why == "" {
		return v1alpha1.EmulationSidecar, "Auto: pods of this namespace may have the capability NET_ADMIN, which is all that a sidecar needs", nil
	}
	return v1alpha1.EmulationNone, fmt.Sprintf("Auto: no backend works here: a sidecar is refused: %s; %s", why, wayOut(db)), nil
}

// sidecarRefused says why the API server would not take a pod with a sidecar; empty when it would. It asks without making
// the pod.
func (e *emulationChoice) sidecarRefused(ctx context.Context, db *v1alpha1.GeoDatabase) (string, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "geobench-probe-", Namespace: db.Namespace, Labels: databaseLabels(db, RoleNetwork)},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			RestartPolicy:                corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: emulation.SidecarName, Image: e.image, SecurityContext: emulation.SidecarSecurity(),
				Resources: withDefaultRequests(corev1.ResourceRequirements{}, "10m", "16Mi"),
			}},
		},
	}
	err := e.client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return err.Error(), nil
	}
	return "", err
}
