package workersync

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/geobench/geobench/internal/ops/deploy"
)

func newPlace(t *testing.T, data map[string]string) (*Place, *fake.Clientset) {
	t.Helper()
	c := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "ns"}, Data: data})
	return &Place{ConfigMaps: c.CoreV1().ConfigMaps("ns"), Name: "w", Poll: time.Millisecond}, c
}

func TestWorkerMeetsOperator(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)
	p, c := newPlace(t, map[string]string{deploy.KeyStartAt: at.Format(time.RFC3339Nano)})
	if err := p.Ready(ctx, "pod-a"); err != nil {
		t.Fatal(err)
	}
	got, err := p.AwaitStart(ctx)
	if err != nil || !got.Equal(at) {
		t.Fatalf("AwaitStart = %v, %v; want %v", got, err, at)
	}
	if err := p.Done(ctx, &deploy.HandIn{History: "{}", Report: []byte{1, 2, 3}}, "sealed"); err != nil {
		t.Fatal(err)
	}
	cm, err := c.CoreV1().ConfigMaps("ns").Get(ctx, "w", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Data[deploy.KeyState] != deploy.StateDone || len(cm.BinaryData[deploy.KeyReport]) != 3 || cm.Data[deploy.KeySeal] != "sealed" || cm.Data[deploy.KeyHistory] != "{}" {
		t.Errorf("the operator sees %v, %v", cm.Data, cm.BinaryData)
	}
	if cm.Data[deploy.KeyStartAt] == "" {
		t.Error("a patch by the worker removed the operator's start")
	}
}

func TestReplacedWorkerIsTurnedAway(t *testing.T) {
	p, _ := newPlace(t, map[string]string{deploy.KeyPod: "pod-a", deploy.KeyState: deploy.StateRunning})
	if err := p.Ready(context.Background(), "pod-b"); !errors.Is(err, ErrUsed) {
		t.Errorf("Ready = %v, want ErrUsed", err)
	}
}

func TestAPIServerAway(t *testing.T) {
	tests := map[string]struct {
		err  error
		want bool
	}{
		"away for a while":   {errors.New("connection refused"), true},
		"too large for etcd": {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), false},
		"not allowed":        {apierrors.NewForbidden(corev1.Resource("configmaps"), "w", errors.New("no")), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			p, c := newPlace(t, nil)
			failures := 3
			c.PrependReactor("patch", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
				failures--
				return failures >= 0, nil, tc.err
			})
			err := p.Failed(ctx, "no reason")
			if (err == nil) != tc.want {
				t.Errorf("Failed = %v, want success %v", err, tc.want)
			}
		})
	}
}
