//go:build full && !linux

package wan

import (
	"context"
	"errors"
	"log/slog"

	"github.com/geobench/geobench/internal/ops/identity"
)

// Options of a sidecar, as on Linux.
type Options struct {
	ConfigPath, Pod string
	Credentials     identity.Folder
	Log             *slog.Logger
}

var errLinux = errors.New("the sidecar needs Linux: it emulates with the kernel's packet queues")

// Run fails: there is no packet queue.
func Run(context.Context, Options) error { return errLinux }

// Cleanup fails: there is nothing to remove.
func Cleanup() (bool, error) { return false, errLinux }
