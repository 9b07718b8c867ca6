package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"text/template"
)

// clusterDomain is the DNS suffix of all services.
const clusterDomain = "cluster.local"

// configFile is a configuration file in the subfolder conf of the state folder.
type configFile struct {
	name    string
	content []byte
}

// renderConfigs returns the configuration files of all components, except for kubeconfigs, which contain keys.
func renderConfigs(c *Cluster) ([]configFile, error) {
	network, err := renderCNI(c)
	if err != nil {
		return nil, err
	}
	files := []configFile{{filepath.Join("cni", "10-geobench.conflist"), network}}
	for _, t := range configTemplates.Templates() {
		var out bytes.Buffer
		data := struct {
			*Cluster
			NodeName, CgroupName, Domain, PauseImage, CNIPlugins string
		}{c, nodeName, cgroupName, clusterDomain, pauseImage, cniPlugins}
		if err := t.Execute(&out, data); err != nil {
			return nil, err
		}
		files = append(files, configFile{t.Name(), out.Bytes()})
	}
	return files, nil
}

// renderCNI returns the configuration of the pod network, which has a routed link for each pod. With a bridge, traffic
// between two pods would bypass the node's IP layer. Answers of services could then be translated back only with the
// kernel's bridge netfilter.
func renderCNI(c *Cluster) ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       netnsName,
		"plugins": []object{
			{
				"type":   "ptp",
				"ipMasq": false,
				"ipam": object{
					"type":    "host-local",
					"dataDir": c.path("cni"),
					"ranges":  [][]object{{{"subnet": c.Subnets.Pods}}},
					"routes":  []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
}

var configTemplates = func() *template.Template {
	all := template.New("")
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig,
		"kubelet.yaml":    kubeletConfig,
		"kube-proxy.yaml": kubeProxyConfig,
		"audit.yaml":      auditPolicy,
	} {
		template.Must(all.New(name).Option("missingkey=error").Parse(text))
	}
	return all
}()

// containerdConfig is the template of containerd's configuration. The disabled plugins are optional and would write
// outside the state folder.
const containerdConfig = `version = 3
root = "{{.State}}/containerd"
state = "{{.State}}/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]

[grpc]
  address = "{{.State}}/run/containerd.sock"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{{.PauseImage}}"

[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE no process may be made less likely to be killed than its parent.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{{.CNIPlugins}}"]
  conf_dir = "{{.State}}/conf/cni"
  use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
  Root = "{{.State}}/run/runc"
`

// kubeletConfig is the template of the kubelet's configuration. Images come from archives and cannot be pulled again.
// So garbage collection must not remove images, and disk pressure must not evict pods.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Subnets.Node}}
tlsCertFile: {{.State}}/pki/node.crt
tlsPrivateKeyFile: {{.State}}/pki/node.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.State}}/pki/ca.crt}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://{{.State}}/run/containerd.sock
clusterDomain: {{.Domain}}
clusterDNS: [{{.Subnets.DNSService}}]
resolvConf: ""
podLogsDir: {{.State}}/pod-logs
volumePluginDir: {{.State}}/volume-plugins
cgroupDriver: cgroupfs
cgroupRoot: /{{.CgroupName}}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
systemReserved: {cpu: 50m, memory: 64Mi}
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard:
  memory.available: "0%"
  nodefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.available: "0%"
  imagefs.inodesFree: "0%"
evictionPressureTransitionPeriod: 0s
oomScoreAdj: 0
makeIPTablesUtilChains: false
maxPods: 110
featureGates:
  # Forgives a missing CAP_SYS_RESOURCE; changes nothing for a root that has it.
  KubeletInUserNamespace: true
`

const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: {{.NodeName}}
clusterCIDR: {{.Subnets.Pods}}
healthzBindAddress: {{.Subnets.Node}}:10256
metricsBindAddress: {{.Subnets.Node}}:10249
clientConnection:
  kubeconfig: {{.State}}/conf/kube-proxy.kubeconfig
# Zero leaves the kernel's connection tracking limits, which belong to the host, as they are.
conntrack: {maxPerCore: 0, min: 0}
oomScoreAdj: 0
`

// auditPolicy logs only the requests of the operator, which `hack/tools rights` compares with the operator's rights.
// hack/lib.sh installs the operator with this namespace and service account.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: Metadata
  users: ["system:serviceaccount:geobench-system:geobench-operator"]
- level: None
`
