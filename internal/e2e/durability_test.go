//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/geobench/geobench/api/v1alpha1"
)

// processOf returns the process ID of a pod's first container on this machine. It searches the control groups of all
// processes for the ID of the container. The name of the pod would not suffice, because another or an earlier cluster
// on this machine may have a pod with this name.
func processOf(pod *corev1.Pod) (int, error) {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0, fmt.Errorf("pod %s has no container yet", pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	if id == "" {
		return 0, fmt.Errorf("the container of pod %s has no id", pod.Name)
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, group := range groups {
		if text, err := os.ReadFile(group); err == nil && bytes.Contains(text, []byte(id)) {
			return strconv.Atoi(filepath.Base(filepath.Dir(group)))
		}
	}
	return 0, fmt.Errorf("no process on this machine is of container %s of pod %s", id, pod.Name)
}

// TestJournalOutlivesKills kills node processes of a database with journals between two runs, like a crash. The
// database continues as the same incarnation with its data, and its next run passes.
func TestJournalOutlivesKills(t *testing.T) {
	c := newCluster(t)
	c.apply(t, strings.Replace(database("slog"), "  engine:", "  durability: Journal\n  engine:", 1)+separator+checkedRun("slog", "before"))
	c.mustPass(t, c.awaitEnd(t, "before", 4*time.Minute))
	db, err := c.database(t.Context(), "slog")
	if err != nil {
		t.Fatal(err)
	}
	was := db.Status.Incarnation
	pods := []string{"slog-us-west-2-0", "slog-ap-northeast-1-1"}
	for _, name := range pods {
		pod := &corev1.Pod{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		pid, err := processOf(pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	killed := time.Now()
	for _, name := range pods {
		c.eventually(t, within(t, time.Minute), "the container of "+name+" is started again", func() (bool, error) {
			pod := &corev1.Pod{}
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: name}, pod); err != nil {
				return false, err
			}
			s := pod.Status.ContainerStatuses[0]
			return s.RestartCount == 1 && s.Ready, fmt.Errorf("%+v", s)
		})
	}
	c.eventually(t, within(t, time.Minute), "the database serves", func() (bool, error) {
		if db, err = c.database(t.Context(), "slog"); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionNodesReady)
		return ready != nil && ready.Status == metav1.ConditionTrue, fmt.Errorf("%+v", ready)
	})
	t.Logf("two killed nodes serve again after %v", time.Since(killed).Round(100*time.Millisecond))
	if db.Status.Incarnation != was {
		t.Errorf("incarnation %s, and it was %s: the database was made anew", db.Status.Incarnation, was)
	}
	c.apply(t, checkedRun("slog", "after"))
	c.mustPass(t, c.awaitEnd(t, "after", 4*time.Minute))
}

// checkedRun returns a short run that also checks whether copies are equal.
func checkedRun(engine, name string) string {
	return strings.Replace(runOn(engine, name, 10, "1s", "3s"), "verify: [Invariants]", "verify: [Invariants, Convergence]", 1)
}
