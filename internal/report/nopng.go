//go:build !full

package report

// CanDrawPNG tells whether this build writes PNG files.
const CanDrawPNG = false

func (s *scene) png() ([]byte, error) { return nil, nil }
