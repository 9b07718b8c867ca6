//go:build full && !linux

package wan

import (
	"context"
	"errors"
	"log/slog"

	"github.com/geobench/geobench/internal/ops/identity"
)

// Options configures a sidecar, as on Linux.
type Options struct {
	ConfigPath, Pod string
	Credentials     identity.Folder
	Log             *slog.Logger
}

var errLinux = errors.New("the sidecar needs Linux: it emulates with the kernel's packet queues")

// Run returns an error: the sidecar needs Linux.
func Run(context.Context, Options) error { return errLinux }

// Cleanup returns an error: the sidecar needs Linux.
func Cleanup() (bool, error) { return false, errLinux }
