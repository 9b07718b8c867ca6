//go:build full

package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/geobench/geobench/internal/base/version"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages",
		Long: `Man writes one manual page per command into DIR, as geobench.1, geobench-run.1 and so on. 'make install' puts them where
man finds them. The same build writes the same bytes.`,
		Example: "  geobench man ~/.local/share/man/man1 && man geobench-run",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, folders []string) error {
			if err := os.MkdirAll(folders[0], 0o755); err != nil {
				return usageError("%w", err)
			}
			root := cmd.Root()
			// The generated tag contains the current date, and the same build must write the same bytes.
			root.DisableAutoGenTag = true
			// Cobra adds its completion command only when a command executes.
			root.InitDefaultCompletionCmd()
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Manual: "Geobench", Source: "geobench " + version.String(), Date: builtFrom()}, folders[0])
		},
	}
}

// builtFrom returns the time of the commit that this binary was built from, or the Unix epoch if it is unknown.
func builtFrom() *time.Time {
	at := time.Unix(0, 0).UTC()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				at = t
			}
		}
	}
	return &at
}
