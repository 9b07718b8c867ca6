package controllers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/worldtest"
)

var (
	gitRepositories = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "GitRepository"}
	kustomizations  = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
)

// fluxController is the process of a real kustomize-controller, with the administrator rights that Flux installs.
type fluxController struct {
	t          *testing.T
	program    string
	kubeconfig string
	log        string
	process    *exec.Cmd
}

func newFluxController(t *testing.T) *fluxController {
	t.Helper()
	c := &fluxController{t: t, program: os.Getenv(worldtest.FluxVariable), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), log: filepath.Join(t.TempDir(), "log")}
	const name = "envtest"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: worldtest.APIServer.Host, CertificateAuthorityData: worldtest.APIServer.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: worldtest.APIServer.CertData, ClientKeyData: worldtest.APIServer.KeyData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			text, err := os.ReadFile(c.log)
			for line := range strings.Lines(string(text)) {
				if !strings.Contains(line, "Dependencies do not meet ready condition") { // logged every second
					t.Log(strings.TrimSpace(line))
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// start starts the controller with its defaults, except for the interval at which it checks a dependency again (30 s by
// default).
func (c *fluxController) start(flags ...string) {
	c.t.Helper()
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	c.process = exec.Command(c.program, append([]string{"--metrics-addr=0", "--health-addr=0", "--requeue-dependency=1s"}, flags...)...)
	c.process.Env = []string{"KUBECONFIG=" + c.kubeconfig, "RUNTIME_NAMESPACE=" + worldtest.FluxNamespace, "TMPDIR=" + c.t.TempDir()}
	c.process.Stdout, c.process.Stderr = log, log
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that panics runs no cleanup
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// stop stops the controller like the kubelet: it sends a signal, and kills the process if it takes too long.
func (c *fluxController) stop() {
	if c.process == nil {
		return
	}
	kill := time.AfterFunc(30*time.Second, func() { _ = c.process.Process.Kill() })
	defer kill.Stop()
	_ = c.process.Process.Signal(syscall.SIGTERM)
	_ = c.process.Wait() // a signalled process always exits with an error
	c.process = nil
}

// gitSource simulates source-controller: it serves the artifacts of a repository over HTTP, and announces them in the
// status of a GitRepository.
type gitSource struct {
	w     *worldtest.World
	files map[string]string
	url   string

	mu       sync.Mutex
	archives map[string][]byte
}

// newGitSource returns a source with a copy of the example repository.
func newGitSource(w *worldtest.World, dir string) *gitSource {
	w.T.Helper()
	s := &gitSource{w: w, files: map[string]string{}, archives: map[string][]byte{}}
	w.Must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		s.files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		s.mu.Lock()
		archive, ok := s.archives[in.URL.Path]
		s.mu.Unlock()
		if !ok {
			http.NotFound(out, in)
			return
		}
		_, _ = out.Write(archive)
	}))
	w.T.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// replace changes a file, which must contain the old text exactly once.
func (s *gitSource) replace(file, old, by string) {
	s.w.T.Helper()
	if n := strings.Count(s.files[file], old); n != 1 {
		s.w.T.Fatalf("%s has %q %d times:\n%s", file, old, n, s.files[file])
	}
	s.files[file] = strings.Replace(s.files[file], old, by, 1)
}

// commit publishes the current files to Flux and returns their revision.
func (s *gitSource) commit() string {
	s.w.T.Helper()
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	files := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		s.w.Must(files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(s.files[name])), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(files, s.files[name])
		s.w.Must(err)
	}
	s.w.Must(files.Close())
	s.w.Must(zip.Close())
	hash := fmt.Sprintf("%x", sha1.Sum(archive.Bytes()))
	path, revision := "/"+hash+".tar.gz", "main@sha1:"+hash
	s.mu.Lock()
	s.archives[path] = archive.Bytes()
	s.mu.Unlock()

	repository := s.w.FluxObject(gitRepositories, "experiments")
	now := time.Now().UTC().Format(time.RFC3339)
	repository.Object["status"] = map[string]any{
		"observedGeneration": repository.GetGeneration(),
		"artifact": map[string]any{
			"path": path[1:], "url": s.url + path, "revision": revision, "lastUpdateTime": now, "size": int64(archive.Len()),
			"digest": fmt.Sprintf("sha256:%x", sha256.Sum256(archive.Bytes())),
		},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact for revision " + revision,
			"lastTransitionTime": now, "observedGeneration": repository.GetGeneration()}},
	}
	s.w.Must(s.w.Client.Status().Update(s.w.Ctx, repository))
	return revision
}

// versions records all versions of the objects of some kinds, as watches received them.
type versions struct {
	w       *worldtest.World
	mu      sync.Mutex
	seen    map[string][]*unstructured.Unstructured
	changed chan struct{}
}

// watch records all versions of objects of the given kinds from now on.
func watch(w *worldtest.World, kinds ...schema.GroupVersionKind) *versions {
	w.T.Helper()
	v := &versions{w: w, seen: map[string][]*unstructured.Unstructured{}, changed: make(chan struct{}, 1)}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		watcher, err := w.Client.(client.WithWatch).Watch(w.Ctx, list)
		w.Must(err)
		w.T.Cleanup(watcher.Stop)
		go func() {
			for event := range watcher.ResultChan() {
				if u, ok := event.Object.(*unstructured.Unstructured); ok {
					v.add(u)
				}
			}
		}()
	}
	return v
}

func (v *versions) add(u *unstructured.Unstructured) {
	v.mu.Lock()
	key := u.GetKind() + "/" + u.GetName()
	v.seen[key] = append(v.seen[key], u)
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// of returns the versions of an object so far.
func (v *versions) of(kind, name string) []*unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.seen[kind+"/"+name])
}

// await waits until the condition holds, without advancing the simulated cluster. It evaluates the condition after each
// change.
func (v *versions) await(what string, done func() bool) {
	v.w.T.Helper()
	late := time.NewTimer(worldtest.FluxPatience)
	defer late.Stop()
	for !done() {
		select {
		case <-v.changed:
		case <-late.C:
			v.w.T.Fatalf("gave up after %s of waiting until %s\n%s", worldtest.FluxPatience, what, v.describe())
		}
	}
}

// describe returns the conditions of the Kustomizations as text.
func (v *versions) describe() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for key, all := range v.seen {
		if last := all[len(all)-1]; last.GetKind() == kustomizations.Kind {
			fmt.Fprintf(&b, "%s: %v\n", key, last.Object["status"])
		}
	}
	return b.String()
}

// resourceVersion returns the position of obj in the order of all writes to the API server, which stores all kinds in
// one etcd.
func resourceVersion(w *worldtest.World, obj client.Object) uint64 {
	w.T.Helper()
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	w.Must(err)
	return n
}
