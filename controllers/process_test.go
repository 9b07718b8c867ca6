package controllers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/bench/fault"
)

// operatorLimit is the memory limit of the operator's container in bytes, as in the chart.
const operatorLimit = 512 << 20

// operatorProcess is the released operator in a separate process, with the flags and the memory limit of the chart. It
// is restarted whenever it exits, as by a kubelet.
type operatorProcess struct {
	t       *testing.T
	metrics string // address of its metrics
	log     *lockedBuffer

	mu       sync.Mutex
	process  *os.Process
	restarts int
	peak     int64 // over all its processes
}

// startOperator starts the operator with a namespace for its objects. The operator stops with the test.
func startOperator(t *testing.T, namespace string) *operatorProcess {
	t.Helper()
	o := &operatorProcess{t: t, metrics: freeAddress(t), log: &lockedBuffer{}}
	start := func(kubeconfig string) (*exec.Cmd, error) {
		cmd := exec.Command(os.Getenv(worldtest.OperatorVariable), "operator", "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address="+o.metrics,
			"--metrics-secure=false", "--leader-elect=true", "--leader-election-namespace="+namespace, "--credentials-namespace="+namespace, "--node-image="+worldtest.TestImage)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, fmt.Sprintf("GOMEMLIMIT=%d", operatorLimit))
		cmd.Stdout, cmd.Stderr = o.log, o.log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that panics runs no cleanup
		o.mu.Lock()
		defer o.mu.Unlock()
		defer func() { o.process = cmd.Process }()
		return cmd, cmd.Start()
	}
	config := kubeconfig(t)
	cmd, err := start(config)
	if err != nil {
		t.Fatal(err)
	}
	stopping, ended := make(chan struct{}), make(chan error, 1)
	go o.holdToLimit(stopping)
	go func() {
		for {
			err := cmd.Wait()
			fmt.Fprintf(o.log, "the operator has ended: %v\n", err)
			o.mu.Lock()
			o.restarts++
			o.mu.Unlock()
			select {
			case <-stopping:
				ended <- nil
				return
			case <-time.After(time.Second): // a kubelet waits longer
			}
			if cmd, err = start(config); err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stopping)
		o.mu.Lock()
		_ = o.process.Signal(syscall.SIGTERM)
		o.mu.Unlock()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the operator's last words: %s", o.log.tail(8<<10))
		}
	})
	return o
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // no client has connected
	return l.Addr().String()
}

// kubeconfig writes a kubeconfig file for the tests' API server and returns its path.
func kubeconfig(t *testing.T) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: worldtest.APIServer.Host, CertificateAuthorityData: worldtest.APIServer.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: worldtest.APIServer.CertData, ClientKeyData: worldtest.APIServer.KeyData}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// lockedBuffer collects the output of a process.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.b.Bytes()
	return string(text[max(0, len(text)-n):])
}

// holdToLimit kills an operator that exceeds the memory limit of its container, as the kernel would. It records the
// peak while the process is running. After the exit of a process, the kernel's figure includes the memory of its parent
// at the time of the fork.
func (o *operatorProcess) holdToLimit(stopping chan struct{}) {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		select {
		case <-stopping:
			return
		case <-tick.C:
		}
		o.mu.Lock()
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.process.Pid)); err == nil {
			if m := residentSet.FindSubmatch(status); m != nil && kilobytes(m[1]) > operatorLimit {
				fmt.Fprintf(o.log, "the operator is out of memory: %s\n", m[0])
				_ = o.process.Kill()
			}
			if m := largestSet.FindSubmatch(status); m != nil {
				o.peak = max(o.peak, kilobytes(m[1]))
			}
		}
		o.mu.Unlock()
	}
}

// memory returns the operator's resident memory in bytes, including pages of its binary: the current size and the peak.
func (o *operatorProcess) memory() (now, peak int64) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.process.Pid))
	if err != nil {
		o.t.Fatal(err)
	}
	resident, most := residentSet.FindSubmatch(status), largestSet.FindSubmatch(status)
	if resident == nil || most == nil { // the process has just exited
		return 0, o.peak
	}
	return kilobytes(resident[1]), max(o.peak, kilobytes(most[1]))
}

// Memory sizes in /proc/PID/status.
var (
	residentSet = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
	largestSet  = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)
)

// kilobytes converts a number of kilobytes to bytes.
func kilobytes(digits []byte) int64 {
	n, _ := strconv.ParseInt(string(digits), 10, 64) // the regular expressions match only digits
	return n << 10
}

// restarted returns the number of restarts of the operator.
func (o *operatorProcess) restarted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.restarts
}

// metric returns the samples of one of the operator's metrics by their label text.
func (o *operatorProcess) metric(name string) map[string]float64 {
	o.t.Helper()
	resp, err := http.Get("http://" + o.metrics + "/metrics")
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read completely
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		sample, value, _ := strings.Cut(lines.Text(), " ")
		labels, ok := strings.CutPrefix(sample, name)
		if ok && (labels == "" || labels[0] == '{') {
			if out[labels], err = strconv.ParseFloat(value, 64); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		o.t.Fatal(err)
	}
	return out
}

// heap returns the size of the operator's heap in bytes.
func (o *operatorProcess) heap() int64 { return int64(o.metric("go_memstats_heap_inuse_bytes")[""]) }

// newWorldOfProcess returns a simulated cluster for an operator in a separate process: see OnLoopback.
func newWorldOfProcess(t *testing.T, answer func(*corev1.Pod, http.Handler) http.Handler) *worldtest.World {
	t.Helper()
	if os.Getenv(worldtest.OperatorVariable) == "" {
		t.Skipf("%s is not set: make hostile runs this test", worldtest.OperatorVariable)
	}
	w := worldtest.NewWorld(t)
	w.OnLoopback(answer)
	return w
}

// restartAPIServer stops the tests' API server with a signal, and starts it again on the same port and data. It returns
// the time for which the API server was unavailable.
func restartAPIServer(t *testing.T, signal syscall.Signal) time.Duration {
	t.Helper()
	pid, argv := apiServerProcess(t)
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	began := time.Now()
	until := func(what string, done func(context.Context) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { return done(ctx), nil }); err != nil {
			t.Fatalf("the API server %s: %v\n%s", what, err, log.tail(8<<10))
		}
	}
	until("does not end", func(context.Context) bool { return syscall.Kill(pid, 0) != nil })
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // serves later tests, but ends with this process
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	asking, err := rest.HTTPClientFor(worldtest.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	until("does not come back", func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(worldtest.APIServer.Host, "/")+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := asking.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return time.Since(began)
}

// apiServerProcess finds the API server among the child processes of this process.
func apiServerProcess(t *testing.T) (pid int, argv []string) {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has exited
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(text)) {
			line, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if err != nil {
				t.Fatal(err)
			}
			argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
			if filepath.Base(argv[0]) != "kube-apiserver" {
				continue
			}
			if pid, err = strconv.Atoi(child); err != nil {
				t.Fatal(err)
			}
			return pid, argv
		}
	}
	t.Fatal("the API server is no process of this test's")
	return 0, nil
}

// TestTwentyRunsOfAProcess: twenty runs measure at the same time, controlled by the released operator in a separate
// process. In the second round, the API server is killed and later terminated, and restarted each time. Nothing is lost
// or done twice, and the operator stays below 150 MB. GEOBENCH_OPERATOR names its binary (make hostile).
func TestTwentyRunsOfAProcess(t *testing.T) {
	for name, signals := range map[string][]syscall.Signal{"API server stays": nil, "API server restarts": {syscall.SIGKILL, syscall.SIGTERM}} {
		t.Run(name, func(t *testing.T) { twentyRuns(t, signals) })
	}
}

// twentyRuns sends the signals to the API server while all runs are measuring.
func twentyRuns(t *testing.T, signals []syscall.Signal) {
	const runs, most = 20, 150_000_000
	w := newWorldOfProcess(t, nil)
	operator := startOperator(t, w.Namespace)
	for i := range runs {
		name := fmt.Sprintf("d%02d", i)
		w.Create(worldtest.MakeDatabase(name).Obj(), worldtest.MakeRun(name).Database(name).Duration(90*time.Second).Faults(`[
			{name: busy, at: 5s, duration: 10s, cpuStress: {target: {}, workers: 1}},
			{name: cut, at: 20s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}}}]`).Obj())
	}
	all := func(is func(*v1alpha1.BenchmarkRun) bool) func() bool {
		return func() bool {
			for i := range runs {
				if !is(w.GetRun(fmt.Sprintf("d%02d", i))) {
					return false
				}
			}
			return true
		}
	}
	w.Play("all runs measure", all(func(r *v1alpha1.BenchmarkRun) bool { return r.Status.Stage == v1alpha1.StageMeasure }))
	for i, signal := range signals {
		t.Logf("the API server got signal %q, and was away for %v", signal, restartAPIServer(t, signal).Round(100*time.Millisecond))
		w.Play(fmt.Sprintf("%d faults of each run are over", i+1), all(func(r *v1alpha1.BenchmarkRun) bool {
			return len(r.Status.Faults) > i && r.Status.Faults[i].State == string(fault.Done)
		}))
	}
	w.Play("all runs are over", all(func(r *v1alpha1.BenchmarkRun) bool { return kube.Over(r) && len(r.Finalizers) == 0 }))

	for i := range runs {
		r := w.GetRun(fmt.Sprintf("d%02d", i))
		if r.Status.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("run %s ended %s: %s: %s", r.Name, r.Status.Verdict, r.Status.Reason, r.Status.Message)
		}
		if db := w.GetDatabase(r.Name); db.Status.ActiveRun != "" || db.Status.Incarnation == "" {
			t.Errorf("database %s is with %q, in incarnation %q", db.Name, db.Status.ActiveRun, db.Status.Incarnation)
		}
		for _, f := range r.Status.Faults {
			if f.State != string(fault.Done) {
				t.Errorf("run %s: fault %s is %s: %s", r.Name, f.Name, f.State, f.Message)
			}
		}
		w.Play("run "+r.Name+" has left its result alone", func() bool {
			return slices.Equal(w.Leftovers(r.Name), []string{"ConfigMap " + kube.ResultName(r)})
		})
	}
	// Each node has loaded one data set, and each worker has started once. A Job of the simulated cluster may recreate a
	// pod while the operator deletes both.
	w.StartedOnce()
	if len(w.Starts) != runs || w.Loads != 2*runs || len(w.JobsRun) != 2*runs {
		t.Errorf("%d runs were started, %d data sets loaded and %d workers made; want %d, %d and %d", len(w.Starts), w.Loads, len(w.JobsRun), runs, 2*runs, 2*runs)
	}
	for uid, starts := range w.Starts {
		if len(starts) != 2 {
			t.Errorf("the workers of run %s were started %d times, want 2", uid, len(starts))
		}
	}
	now, peak := operator.memory()
	t.Logf("the operator takes %d MB, and took at most %d MB; it was started again %d times", now/1e6, peak/1e6, operator.restarted())
	if peak > most {
		t.Errorf("the operator took %d MB, want at most %d", peak/1e6, most/1_000_000)
	}
	if operator.restarted() > 0 { // a restart resets its counters
		return
	}
	total := 0.0
	requests := operator.metric("rest_client_requests_total")
	for _, labels := range slices.Sorted(maps.Keys(requests)) {
		t.Logf("requests per run: %6.1f %s", requests[labels]/runs, labels)
		total += requests[labels]
	}
	t.Logf("requests per run: %6.1f", total/runs)
}
