package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: cluster COMMAND

  up [-node-label KEY=VALUE]...     start the cluster, or what is missing of it
  down                              end and remove everything but the cache of binaries
  status                            say which components run (exit status 1 unless all are well)
  kubeconfig                        print the path of the kubeconfig
  load IMAGE.tar...                 give docker-archives to the node
  image -name NAME -binary PATH -o OUT.tar [-entrypoint PROGRAM,ARG...] [-user UID[:GID]] [-workdir DIR] [-env K=V]...
                                    write a one-layer image of a static program
  image -name NAME -root DIR -o OUT.tar -entrypoint PROGRAM,ARG... [-user ...] [-workdir ...] [-env K=V]...
                                    write a one-layer image of all that a folder holds
  oci -name NAME -o OUT.tar PROGRAM...
                                    write an OCI image layout with an image for each program's architecture
  build [COMPONENT...]              build to the cache only, and print the folders (etcd, kubernetes, containerd,
                                    coredns, pause; envtest is a folder for KUBEBUILDER_ASSETS)
  logs [-n LINES] COMPONENT         print a component's log
  restart COMPONENT                 stop a component and start it again

Components that run: ` + "%s" + `
Environment: GEOBENCH_CACHE (built binaries, default ~/.cache/geobench),
             GEOBENCH_STATE (everything else, default /var/lib/geobench-cluster)
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := execute(ctx, os.Args[1:])
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	stop()
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

// execute runs one command.
func execute(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprintf(os.Stderr, usage, strings.Join(componentNames, ", "))
		return flag.ErrHelp
	}
	c, err := openCluster()
	if err != nil {
		return err
	}
	commands := map[string]func(context.Context, *Cluster, []string) error{
		"up": cmdUp, "down": cmdDown, "status": cmdStatus, "kubeconfig": cmdKubeconfig, "load": cmdLoad,
		"image": cmdImage, "oci": cmdOCI, "build": cmdBuild, "logs": cmdLogs, "restart": cmdRestart,
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q; `help` lists them", args[0])
	}
	return command(ctx, c, args[1:])
}

// progress prints messages to standard error, with the seconds since the start. Standard output contains only results.
type progress struct{ start time.Time }

func newProgress() *progress { return &progress{time.Now()} }

func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// lockPath is outside the state folder, because the command down deletes that folder.
const lockPath = "/run/lock/geobench-cluster"

// exclusive waits until no other invocation changes the cluster. It returns a function that releases the lock.
func exclusive() (release func(), err error) {
	if err := requireRoot(); err != nil {
		return nil, err
	}
	return lock(lockPath)
}

func cmdUp(ctx context.Context, c *Cluster, args []string) error {
	labels := map[string]string{}
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.Func("node-label", "label `KEY=VALUE` of the node; may be repeated", func(s string) error {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return errors.New("want KEY=VALUE")
		}
		labels[key] = value
		return nil
	})
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	release, err := exclusive()
	if err != nil {
		return err
	}
	defer release()
	p := newProgress()
	if err := c.up(ctx, p, labels); err != nil {
		c.explain(err)
		return err
	}
	p.say("the cluster is up; use it with")
	// kubectl's cache must not outlive the cluster, because the next cluster at this address may serve other resources.
	fmt.Printf("export KUBECONFIG=%s\nexport KUBECACHEDIR=%s\nexport PATH=%s:$PATH\n",
		c.kubeconfig(), c.kubectlCache(), filepath.Dir(c.binary("kubernetes", "kubectl")))
	return nil
}

// explain prints the end of the log of the component that caused an error.
func (c *Cluster) explain(err error) {
	var blamed *componentError
	if !errors.As(err, &blamed) {
		return
	}
	if tail, err := c.logTail(blamed.component, 20); err == nil {
		fmt.Fprintf(os.Stderr, "%s failed; the end of %s:\n%s\n", blamed.component, c.logPath(blamed.component), tail)
	}
}

func cmdDown(_ context.Context, c *Cluster, args []string) error {
	if err := parse(flag.NewFlagSet("down", flag.ContinueOnError), args, 0, 0); err != nil {
		return err
	}
	release, err := exclusive()
	if err != nil {
		return err
	}
	defer release()
	if err := c.down(newProgress()); err != nil {
		return err
	}
	return os.Remove(lockPath)
}

func cmdStatus(ctx context.Context, c *Cluster, args []string) error {
	if err := parse(flag.NewFlagSet("status", flag.ContinueOnError), args, 0, 0); err != nil {
		return err
	}
	if !c.exists() {
		return errNotUp
	}
	return c.status(ctx, os.Stdout)
}

func cmdKubeconfig(_ context.Context, c *Cluster, args []string) error {
	if err := parse(flag.NewFlagSet("kubeconfig", flag.ContinueOnError), args, 0, 0); err != nil {
		return err
	}
	if _, err := os.Stat(c.kubeconfig()); err != nil {
		return errNotUp
	}
	fmt.Println(c.kubeconfig())
	return nil
}

func cmdLoad(ctx context.Context, c *Cluster, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	if err := parse(flags, args, 1, -1); err != nil {
		return err
	}
	if err := requireRoot(); err != nil {
		return err
	}
	for _, archive := range flags.Args() {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		tags, err := c.load(ctx, archive)
		cancel()
		if err != nil {
			return err
		}
		for _, tag := range tags {
			fmt.Println(tag)
		}
	}
	return nil
}

func cmdImage(_ context.Context, _ *Cluster, args []string) error {
	var spec imageSpec
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&spec.name, "name", "", "repository and `tag`, for example localhost/geobench:dev")
	flags.StringVar(&spec.binary, "binary", "", "`path` of the static program")
	flags.StringVar(&spec.root, "root", "", "`folder` that holds the whole file system, in place of a static program")
	flags.Func("env", "`NAME=VALUE` of the environment; may be repeated (default: PATH=/)", func(s string) error {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return errors.New("want NAME=VALUE")
		}
		spec.env = append(spec.env, s)
		return nil
	})
	flags.StringVar(&spec.user, "user", nonroot, "`UID[:GID]` to run as; numeric, so that runAsNonRoot can be checked")
	flags.StringVar(&spec.workdir, "workdir", "/", "working `folder`")
	entrypoint := flags.String("entrypoint", "", "`program,arguments` separated by commas (default: the program)")
	out := flags.String("o", "", "docker-archive to write")
	if err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	for name, value := range map[string]string{"-name": spec.name, "-o": *out} {
		if value == "" {
			return fmt.Errorf("image: %s is missing", name)
		}
	}
	if (spec.binary == "") == (spec.root == "") {
		return fmt.Errorf("image: needs either -binary or -root, has %q and %q", spec.binary, spec.root)
	}
	if spec.root != "" && *entrypoint == "" {
		return errors.New("image: -entrypoint is missing: a folder does not say which program to run")
	}
	if *entrypoint != "" {
		spec.entrypoint = strings.Split(*entrypoint, ",")
	}
	return writeImage(spec, *out)
}

func cmdBuild(ctx context.Context, c *Cluster, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	if err := parse(flags, args, 0, -1); err != nil {
		return err
	}
	names := flags.Args()
	if len(names) == 0 {
		for _, s := range sources {
			names = append(names, s.name)
		}
	}
	p := newProgress()
	for _, name := range names {
		if name == "envtest" {
			dir, err := c.buildEnvtest(ctx, p)
			if err != nil {
				return err
			}
			fmt.Println(dir)
			continue
		}
		s, err := sourceNamed(name)
		if err != nil {
			return err
		}
		if err := c.build(ctx, p, s); err != nil {
			return err
		}
		fmt.Println(c.binDir(s))
	}
	return nil
}

func cmdLogs(_ context.Context, c *Cluster, args []string) error {
	flags := flag.NewFlagSet("logs", flag.ContinueOnError)
	lines := flags.Int("n", 200, "`lines` at most")
	if err := parse(flags, args, 1, 1); err != nil {
		return err
	}
	if _, err := c.component(flags.Arg(0)); err != nil {
		return err
	}
	tail, err := c.logTail(flags.Arg(0), *lines)
	if err != nil {
		return err
	}
	fmt.Println(tail)
	return nil
}

func cmdRestart(ctx context.Context, c *Cluster, args []string) error {
	flags := flag.NewFlagSet("restart", flag.ContinueOnError)
	if err := parse(flags, args, 1, 1); err != nil {
		return err
	}
	release, err := exclusive()
	if err != nil {
		return err
	}
	defer release()
	if err := c.restart(ctx, newProgress(), flags.Arg(0)); err != nil {
		c.explain(err)
		return err
	}
	return nil
}

// parse parses the flags and checks the number of the remaining arguments. A negative most permits any number.
func parse(flags *flag.FlagSet, args []string, least, most int) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch n := flags.NArg(); {
	case n < least:
		return fmt.Errorf("%s: an argument is missing; `help` shows the usage", flags.Name())
	case most >= 0 && n > most:
		return fmt.Errorf("%s: unexpected argument %q; `help` shows the usage", flags.Name(), flags.Arg(most))
	}
	return nil
}
