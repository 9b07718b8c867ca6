//go:build pinned

package coredns

import (
	_ "github.com/coredns/coredns"
)
