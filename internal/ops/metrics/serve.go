package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewRegistry returns a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves a registry in the format that the scraper requests. Native histograms require protobuf; exemplars
// require OpenMetrics or protobuf.
func Handler(r prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Server serves metrics under /metrics, and detects scrapes.
type Server struct {
	listener net.Listener
	server   *http.Server
	scrapes  atomic.Int64
	scraped  chan struct{} // receives a token after each scrape
}

// Serve serves a registry on an address until Close.
func Serve(address string, r prometheus.Gatherer) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Server{listener: listener, scraped: make(chan struct{}, 1)}
	h := Handler(r)
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, req *http.Request) {
		h.ServeHTTP(w, req)
		// Count a scrape only once it is served, so that Linger waits for complete responses.
		s.scrapes.Add(1)
		select {
		case s.scraped <- struct{}{}:
		default:
		}
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go s.server.Serve(listener) //nolint:errcheck // ends with Close
	return s, nil
}

// Address returns the address at which the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Linger waits for another scrape, so that the final figures are collected, or until ctx is done. If there has never
// been a scrape, it returns immediately.
func (s *Server) Linger(ctx context.Context) {
	if s.scrapes.Load() == 0 {
		return
	}
	select { // drop the token of an earlier scrape
	case <-s.scraped:
	default:
	}
	select {
	case <-s.scraped:
	case <-ctx.Done():
	}
}

// Close stops serving.
func (s *Server) Close() error {
	if err := s.server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
