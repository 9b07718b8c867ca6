// Package workersync is the worker's side of the communication with the operator. The operator creates a ConfigMap for
// each worker, which the worker may get and patch. Package deploy defines the keys.
package workersync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/geobench/geobench/internal/ops/deploy"
)

// Place is the ConfigMap of a worker. Its methods tolerate an unavailable API server: they retry until their context is
// done.
type Place struct {
	// ConfigMaps accesses the ConfigMaps of the run's namespace.
	ConfigMaps typedcorev1.ConfigMapInterface
	// Name is the name of the ConfigMap.
	Name string
	// Poll is the interval between reads, and the pause before a retry.
	Poll time.Duration
}

// ErrUsed means that another worker process has already used the ConfigMap. This process is a replacement of that
// process and must not take part in the run.
var ErrUsed = errors.New("another worker process has been ready here before: a worker that was replaced can't take part")

// Ready reports that the worker's clients are connected and that the worker is ready to start. It fails with ErrUsed if
// another process has already reported this.
func (p *Place) Ready(ctx context.Context, pod string) error {
	cm, err := p.get(ctx)
	if err != nil {
		return err
	}
	if was := cm.Data[deploy.KeyPod]; was != "" && was != pod {
		return fmt.Errorf("%w (it was %s)", ErrUsed, was)
	}
	return p.patch(ctx, map[string]string{deploy.KeyState: deploy.StateReady, deploy.KeyPod: pod}, nil)
}

// AwaitStart waits until the operator sets the start time of the first warm-up, and returns that time.
func (p *Place) AwaitStart(ctx context.Context) (time.Time, error) {
	var at time.Time
	err := wait.PollUntilContextCancel(ctx, p.Poll, true, func(ctx context.Context) (bool, error) {
		cm, err := p.get(ctx)
		if err != nil {
			return false, err
		}
		s := cm.Data[deploy.KeyStartAt]
		if s == "" {
			return false, nil
		}
		at, err = time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return false, fmt.Errorf("config map %s: %s: %w", p.Name, deploy.KeyStartAt, err)
		}
		return true, nil
	})
	if err != nil {
		return at, fmt.Errorf("waiting for the start: %w", err)
	}
	return at, p.patch(ctx, map[string]string{deploy.KeyState: deploy.StateRunning}, nil)
}

// Progress reports the worker's progress. It does not retry, because the next report supersedes this one.
func (p *Place) Progress(ctx context.Context, progress deploy.Progress) error {
	b, err := json.Marshal(progress)
	if err != nil {
		return err
	}
	return p.patchOnce(ctx, map[string]string{deploy.KeyProgress: string(b)}, nil)
}

// Done submits the gzipped report, the description of the worker's history if there is one, and the seal over both.
func (p *Place) Done(ctx context.Context, h *deploy.HandIn, seal string) error {
	data := map[string]string{deploy.KeyState: deploy.StateDone, deploy.KeySeal: seal}
	if h.History != "" {
		data[deploy.KeyHistory] = h.History
	}
	// A single patch sets the state together with the report, so the operator never sees StateDone without a report.
	return p.patch(ctx, data, map[string][]byte{deploy.KeyReport: h.Report})
}

// Failed reports that the worker gave up, with the reason.
func (p *Place) Failed(ctx context.Context, message string) error {
	return p.patch(ctx, map[string]string{deploy.KeyState: deploy.StateFailed, deploy.KeyMessage: message}, nil)
}

func (p *Place) get(ctx context.Context) (cm *corev1.ConfigMap, err error) {
	err = p.again(ctx, func() error {
		cm, err = p.ConfigMaps.Get(ctx, p.Name, metav1.GetOptions{})
		return err
	})
	return cm, err
}

func (p *Place) patch(ctx context.Context, data map[string]string, binary map[string][]byte) error {
	return p.again(ctx, func() error { return p.patchOnce(ctx, data, binary) })
}

func (p *Place) patchOnce(ctx context.Context, data map[string]string, binary map[string][]byte) error {
	b, err := json.Marshal(struct {
		Data       map[string]string `json:"data,omitempty"`
		BinaryData map[string][]byte `json:"binaryData,omitempty"`
	}{data, binary})
	if err != nil {
		return err
	}
	_, err = p.ConfigMaps.Patch(ctx, p.Name, types.MergePatchType, b, metav1.PatchOptions{})
	return err
}

// again calls f until it succeeds, fails permanently or ctx is done.
func (p *Place) again(ctx context.Context, f func() error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, p.Poll, true, func(context.Context) (bool, error) {
		last = f()
		if last == nil {
			return true, nil
		}
		// A retry cannot fix these errors. Any other error may be due to an unavailable API server.
		if apierrors.IsNotFound(last) || apierrors.IsForbidden(last) || apierrors.IsInvalid(last) || apierrors.IsRequestEntityTooLargeError(last) {
			return false, last
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("config map %s: %w", p.Name, last)
	}
	return err
}
