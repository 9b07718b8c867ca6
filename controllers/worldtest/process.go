package worldtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

// OperatorVariable is the environment variable with the path of the released binary, for tests that start it (make
// hostile).
const OperatorVariable = "GEOBENCH_OPERATOR"

// loopbacks counts the simulated clusters with pods on loopback addresses, so that each has its own addresses.
var loopbacks atomic.Int32

// OnLoopback gives the pods of the simulated cluster loopback addresses of this machine, where they answer the operator
// over the network. It also makes the simulated clock follow real time. Requests are answered by the simulated nodes,
// unless answer returns a different handler.
func (w *World) OnLoopback(answer func(pod *corev1.Pod, played http.Handler) http.Handler) {
	w.T.Helper()
	w.realTime()
	served := &loopback{w: w, prefix: fmt.Sprintf("127.%d.", 65+loopbacks.Add(1)), answer: answer, folders: map[string]identity.Folder{}}
	w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			if pod, ok := obj.(*corev1.Pod); ok {
				if err := served.start(ctx, pod); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Update(ctx, obj, opts...)
		},
	})
}

// loopback is the network of the pods of a simulated cluster.
type loopback struct {
	w       *World
	prefix  string // replaces "10.0." in the addresses of pods
	answer  func(*corev1.Pod, http.Handler) http.Handler
	folders map[string]identity.Folder // credentials of the pods, by database
}

// start changes the address of a pod to a loopback address, and serves its administration there.
func (l *loopback) start(ctx context.Context, pod *corev1.Pod) error {
	rest, ok := strings.CutPrefix(pod.Status.PodIP, "10.0.")
	if !ok {
		return nil
	}
	played := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ports.Admin))
	pod.Status.PodIP = l.prefix + rest
	pod.Status.PodIPs[0].IP = pod.Status.PodIP
	folder, err := l.folder(ctx, pod.Labels[kube.LabelDatabase])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ports.Admin)))
	if err != nil {
		return err
	}
	var h http.Handler = l.w.workerHandler(pod)
	if pod.Labels[kube.LabelRole] == kube.RoleNode {
		h = l.w.nodeHandler(played)
	}
	if l.answer != nil {
		h = l.answer(pod, h)
	}
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- admin.Serve(serving, folder.Listener(listener, func(net.Addr, error) {}), h) }()
	l.w.T.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			l.w.T.Error(err)
		}
	})
	return nil
}

// folder returns the mounted credentials of the pods of a database.
func (l *loopback) folder(ctx context.Context, database string) (identity.Folder, error) {
	if f, ok := l.folders[database]; ok {
		return f, nil
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: l.w.Namespace, Name: kube.CredentialsName(MakeDatabase(database).Obj())}
	if err := l.w.Client.Get(ctx, key, secret); err != nil {
		return "", err
	}
	folder := l.w.T.TempDir()
	for file, b := range secret.Data {
		if err := os.WriteFile(filepath.Join(folder, file), b, 0o600); err != nil {
			return "", err
		}
	}
	l.folders[database] = identity.Folder(folder)
	return l.folders[database], nil
}

// nodeHandler serves the administration of the simulated node at addr.
func (w *World) nodeHandler(addr string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", admin.NewHandler(&playedNode{w, addr}))
	mux.HandleFunc("GET "+admin.PathClock, func(out http.ResponseWriter, r *http.Request) {
		n, err := w.node(addr)
		if err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		now := time.Now()
		_ = json.NewEncoder(out).Encode(admin.Reading{Wall: now.UnixNano(), Monotonic: now.Sub(n.Zero)})
	})
	return mux
}

// workerHandler serves the administration of the simulated worker in a pod.
func (w *World) workerHandler(pod *corev1.Pod) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+admin.PathClock, admin.ServeClock)
	mux.HandleFunc("GET "+deploy.PathHistory, func(out http.ResponseWriter, r *http.Request) {
		file, err := w.History(r.Context(), net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ports.Admin)))
		if err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.Copy(out, file)
	})
	return mux
}

// playedNode adapts a simulated node to the interface of an administration server.
type playedNode struct {
	w    *World
	addr string
}

func (n *playedNode) Status(ctx context.Context) (*admin.Status, error) {
	return n.w.Status(ctx, n.addr)
}

func (n *playedNode) Load(ctx context.Context, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	return n.w.Load(ctx, n.addr, req)
}

func (n *playedNode) Audit(ctx context.Context) (*admin.Audit, error) { return n.w.Audit(ctx, n.addr) }

func (n *playedNode) Disturb(ctx context.Context, a *admin.Agenda) error {
	return n.w.Disturb(ctx, n.addr, a)
}

func (n *playedNode) Log() *admin.Log {
	log, err := n.w.Log(context.Background(), n.addr)
	if err != nil {
		return &admin.Log{}
	}
	return log
}

func (n *playedNode) Healthy() error { return nil }

func (n *playedNode) Ready() error { return nil }
