// Tools builds and runs the tools with which Geobench is developed. Geobench itself does not need them.
//
// Each tool is pinned by its own module in pins/, because the requirements of different tools conflict. The go command
// builds each version of a tool once, into $GEOBENCH_CACHE/bin (by default ~/.cache/geobench/bin):
//
//	go run -C hack/tools . install [TOOL...]   build missing tools and print their paths (by default all tools)
//	go run -C hack/tools . path TOOL           print the path of an installed tool
//
// The other commands work on the repository:
//
//	go run -C hack/tools . sync-chart [--check]   copy CRDs, RBAC rules and presets into charts/geobench
//	go run -C hack/tools . lint-crds              check config/crd/bases against the API conventions
//	go run -C hack/tools . sbom                   write SBOMs and provenance of bin/geobench and its image
//	go run -C hack/tools . release -version V     write all files of a version into dist
//	go run -C hack/tools . rights LOG...           print which of the operator's rights were used
//	go run -C hack/tools . chart-test             test the chart in all its variants, and these tools
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

const usage = `usage: go run -C hack/tools . COMMAND

  install [TOOL...]      build pinned tools that the cache lacks and print their paths
  path TOOL              print the path of an installed tool
  sync-chart [--check]   copy CRDs, RBAC rules and presets into charts/geobench; --check only says what differs
  lint-crds              hold config/crd/bases to the API conventions
  sbom [FLAG...]         write the SBOMs (SPDX) and the provenance (SLSA) of bin/geobench and out/geobench.tar into out
  release -version V     write all files of a version into dist: archives, image layout, chart, manifests, SBOMs
  rights LOG...          say which of the operator's rights the requests in audit logs needed
  chart-test             render charts/geobench in all its variants and check what comes out (builds helm if need be)
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		var bad usageError
		if errors.As(err, &bad) {
			fmt.Fprint(os.Stderr, "\n", usage)
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// usageError is the error of an invalid command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usageError("no command given")
	}
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	name, args := args[0], args[1:]
	switch name {
	case "install":
		return install(ctx, root, args)
	case "path":
		if len(args) != 1 {
			return usageError(fmt.Sprintf("path takes one tool, got %d", len(args)))
		}
		return printPath(root, args[0])
	case "sync-chart":
		check := len(args) == 1 && args[0] == "--check"
		if len(args) > 0 && !check {
			return usageError("sync-chart takes --check or nothing, got " + strings.Join(args, " "))
		}
		return syncChart(root, check)
	case "lint-crds":
		return lintCRDs(root)
	case "sbom":
		return describe(root, args)
	case "release":
		return release(ctx, root, args)
	case "rights":
		if len(args) == 0 {
			return usageError("rights takes audit logs, got none")
		}
		return reportRights(root, os.Stdout, args)
	case "chart-test":
		return chartTest(ctx, root)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return usageError(fmt.Sprintf("unknown command %q", name))
}

// repositoryRoot returns the root of the repository that contains the working folder. go run -C sets the working folder
// to hack/tools.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "hack", "tools", "pins")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside the repository: run this as go run -C hack/tools . COMMAND", dir)
		}
	}
}

// chartTest runs the tests of this module, which include the tests of the chart.
func chartTest(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "./...")
	cmd.Dir = filepath.Join(root, "hack", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the chart's tests: %w", err)
	}
	return nil
}

// run executes a program and returns its standard output. If the program fails, the error contains the error output.
func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		said := strings.TrimSpace(string(out))
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			said = strings.TrimSpace(string(exit.Stderr) + "\n" + said)
		}
		return out, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, said)
	}
	return out, nil
}
