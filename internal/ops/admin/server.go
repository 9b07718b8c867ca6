package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Node is the node that a handler administers.
type Node interface {
	Status(ctx context.Context) (*Status, error)
	// Load fails with ErrBusy while transactions are pending, and with a *BadRequest for an invalid workload.
	Load(ctx context.Context, req *LoadRequest) (*LoadResponse, error)
	// Audit fails with ErrBusy while transactions are pending or before anything was loaded.
	Audit(ctx context.Context) (*Audit, error)
	// Healthy returns an error if the event loop seems to be stuck.
	Healthy() error
	// Ready returns the reason why the node does not accept transactions, or nil if it does.
	Ready() error
}

// Disturbable is a Node that supports fault injection. Other nodes answer POST /disturb and GET /log with 404.
type Disturbable interface {
	// Disturb fails with a *BadRequest for unknown nodes and regions, and for an agenda of another process.
	Disturb(ctx context.Context, a *Agenda) error
	Log() *Log
}

// Joiner is a Node whose process waits until Join assigns its incarnation. Other nodes answer POST /join with 404.
type Joiner interface {
	// Join fails with a *BadRequest if it is addressed to another process, or if the process already has another
	// incarnation. Repeating a request is safe.
	Join(ctx context.Context, j *Join) error
}

// ErrBusy is returned while the node's data is in use or not loaded yet. The request may be retried later.
var ErrBusy = errors.New("the node's data can't be used now")

// BadRequest is an error that the caller has caused.
type BadRequest struct{ Err error }

func (e *BadRequest) Error() string { return e.Err.Error() }
func (e *BadRequest) Unwrap() error { return e.Err }

// maxRequest is the maximum size of a request's body, in bytes.
const maxRequest = 1 << 20

// NewHandler returns the handler of the administration protocol for n.
func NewHandler(n Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.Status(r.Context())
		answer(w, s, err)
	})
	mux.HandleFunc("POST /load", func(w http.ResponseWriter, r *http.Request) {
		if req := (&LoadRequest{}); decode(w, r, "LoadRequest", req) {
			resp, err := n.Load(r.Context(), req)
			answer(w, resp, err)
		}
	})
	if n, ok := n.(Joiner); ok {
		mux.HandleFunc("POST /join", func(w http.ResponseWriter, r *http.Request) {
			if j := (&Join{}); decode(w, r, "Join", j) {
				answer(w, struct{}{}, n.Join(r.Context(), j))
			}
		})
	}
	if n, ok := n.(Disturbable); ok {
		mux.HandleFunc("POST /disturb", func(w http.ResponseWriter, r *http.Request) {
			if a := (&Agenda{}); decode(w, r, "Agenda", a) {
				answer(w, struct{}{}, n.Disturb(r.Context(), a))
			}
		})
		mux.HandleFunc("GET /log", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.Log(), nil) })
	}
	mux.HandleFunc("GET /audit", func(w http.ResponseWriter, r *http.Request) {
		a, err := n.Audit(r.Context())
		answer(w, a, err)
	})
	mux.HandleFunc("GET "+PathClock, ServeClock)
	return mux
}

// NewPublicHandler returns the handler for the endpoints of n that need no authentication. metrics answers GET
// /metrics.
func NewPublicHandler(n Node, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", check(n.Healthy))
	mux.HandleFunc("GET /readyz", check(n.Ready))
	mux.Handle("GET /metrics", metrics)
	return mux
}

func check(f func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := f(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}

// decode reads the body of a request into v. On failure it answers the request with an error and returns false. The
// error contains what, the name of the type of v.
func decode(w http.ResponseWriter, r *http.Request, what string, v any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	// Reject unknown fields: their sender expects something that this version does not support.
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err != nil {
		answer(w, nil, &BadRequest{fmt.Errorf("the body is no %s: %w", what, err)})
	}
	return err == nil
}

func answer(w http.ResponseWriter, v any, err error) {
	var bad *BadRequest
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	case errors.Is(err, ErrBusy):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.As(err, &bad):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// requestTimeout is the time within which the TLS handshake and the header of a request must be complete.
const requestTimeout = 10 * time.Second

// Serve answers requests until ctx is done.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: requestTimeout}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			_ = s.Close()
		}
	})
	err := s.Serve(l)
	// If stop succeeds, Serve failed on its own. Otherwise wait for the shutdown, so that no request is still running when
	// Serve returns.
	if stop() {
		return err
	}
	<-closed
	return nil
}

// EncodeRTT encodes a histogram of microseconds for LinkStatus.RTT. It returns an empty string for nil.
func EncodeRTT(h *hdrhistogram.Histogram) (string, error) {
	if h == nil {
		return "", nil
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return string(b), err
}

// Histogram returns the round trips in microseconds, or nil if there are none.
func (l *LinkStatus) Histogram() (*hdrhistogram.Histogram, error) { return l.decode(l.RTT) }

// MeshHistograms returns the round trips below a mesh and through it, in microseconds. Both are nil without a mesh.
func (l *LinkStatus) MeshHistograms() (below, through *hdrhistogram.Histogram, err error) {
	if l.Mesh == nil {
		return nil, nil, nil
	}
	if below, err = l.decode(l.Mesh.Below); err != nil {
		return nil, nil, err
	}
	through, err = l.decode(l.Mesh.Through)
	return below, through, err
}

func (l *LinkStatus) decode(encoded string) (*hdrhistogram.Histogram, error) {
	if encoded == "" {
		return nil, nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("round trips to %s: %w", l.To, err)
	}
	return h, nil
}
