package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// status prints a line for each component and for the node. It returns an error if any of them is not healthy.
func (c *Cluster) status(ctx context.Context, w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tPID\tMEMORY\tHEALTH")
	well := true
	line := func(name, pid, memory string, err error) {
		health := "well"
		if err != nil {
			well = false
			health = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", name, pid, memory, health)
	}
	check := func(healthy func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return healthy(ctx)
	}
	for _, name := range componentNames {
		comp, err := c.component(name)
		if err != nil {
			return err
		}
		p, err := c.process(name)
		if err != nil {
			return err
		}
		if !p.Alive() {
			line(name, "-", "-", errors.New("does not run"))
			continue
		}
		line(name, strconv.Itoa(p.PID), residentMemory(p.PID), check(comp.Healthy))
	}
	line("node", "-", "-", check(c.nodeReady))
	line("dns", "-", "-", check(c.resolves))
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "kubeconfig: %s\nlogs: %s\n", c.kubeconfig(), c.path("logs"))
	if !well {
		return errors.New("not everything is well: `up` starts what is missing, `logs COMPONENT` says more")
	}
	return nil
}

// residentMemory returns the resident memory of a process as text.
func residentMemory(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return "-"
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return "-"
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB", pages*os.Getpagesize()>>20)
}
