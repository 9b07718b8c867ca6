package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// cniPlugins is the folder into which Debian's containernetworking-plugins are installed.
const cniPlugins = "/usr/lib/cni"

// packages lists the required distribution packages. Each has a program that exists if the package is installed.
var packages = []struct{ name, program string }{
	{"runc", "runc"},
	{"containernetworking-plugins", cniPlugins + "/ptp"},
	{"iptables", "iptables"},
	{"nftables", "nft"}, // kube-proxy writes its rules with it
	{"ipset", "ipset"},
	{"conntrack", "conntrack"},
	{"socat", "socat"},
	{"ethtool", "ethtool"},
	{"iproute2", "ip"},
	{"procps", "sysctl"},
	{"util-linux", "nsenter"},
}

// ensurePackages installs those required packages that are missing.
func ensurePackages(ctx context.Context, p *progress) error {
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("these packages are missing and there is no apt-get to install them: %s", names)
	}
	p.say("installing %s", names)
	if err := os.Setenv("DEBIAN_FRONTEND", "noninteractive"); err != nil {
		return err
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if _, err := run(ctx, "apt-get", install...); err != nil {
		// Usually the package lists are missing or outdated, so update them and try again.
		if _, err := run(ctx, "apt-get", "update"); err != nil {
			return err
		}
		if _, err := run(ctx, "apt-get", install...); err != nil {
			return err
		}
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("installed, yet their programs are not found: %s", strings.Join(missing, " "))
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	for _, pkg := range packages {
		if _, err := exec.LookPath(pkg.program); err != nil {
			missing = append(missing, pkg.name)
		}
	}
	return missing
}
