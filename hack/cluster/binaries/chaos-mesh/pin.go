//go:build pinned

package chaosmesh

import (
	_ "github.com/chaos-mesh/chaos-mesh/cmd/chaos-controller-manager"
	_ "github.com/chaos-mesh/chaos-mesh/cmd/chaos-daemon"
)
