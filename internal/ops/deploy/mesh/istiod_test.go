package mesh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/apiservertest"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// istiodIP is the address of istiod's Service, in the API server's range for Services. hack/istiod.sh assigns this
// address and a host name to the network namespace of the test.
const istiodIP = "10.0.0.43"

// program returns the path of a program that hack/istiod.sh has built. If the environment variable for the path is not
// set, it skips the test.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("%s is not set: make test-istiod runs this test", variable)
	}
	return path
}

// start runs a program in a folder until the end of the test. It shows the program's output if the test fails.
func start(t *testing.T, folder string, environment []string, name string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, name, arguments...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	said := &bytes.Buffer{}
	command.Dir, command.Env, command.Stdout, command.Stderr = folder, append(os.Environ(), environment...), said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
		if t.Failed() {
			lines := strings.Split(said.String(), "\n")
			t.Logf("%s:\n%s", filepath.Base(name), strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
}

// until calls is repeatedly until it returns nil.
func until(t *testing.T, what string, is func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(what)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// get returns the content of a URL.
func get(url string) (string, error) {
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// total returns the sum of the values in the lines that start with name and contain holds, and the number of these
// lines.
func total(page, name, holds string) (sum float64, lines int) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, name) && strings.Contains(line, holds) {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]), 64)
			sum, lines = sum+v, lines+1
		}
	}
	return sum, lines
}

// TestIstiod runs a real istiod with a real API server, but without machines. istiod treats Geobench's pods as it would
// in a cluster: its webhook injects proxies, and its authority signs certificates. A real Envoy under Istio's agent
// receives the configuration of a node, with the chart's policies in effect.
func TestIstiod(t *testing.T) {
	istiod, agent, envoy := program(t, "GEOBENCH_ISTIOD"), program(t, "GEOBENCH_PILOT_AGENT"), program(t, "GEOBENCH_ENVOY")
	module, helm := program(t, "GEOBENCH_ISTIO_MODULE"), program(t, "GEOBENCH_HELM")
	config := apiservertest.New(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	kubectl := func(text string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", kubeconfig}, arguments...)...)
		command.Stdin = strings.NewReader(text)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", arguments, err, out)
		}
	}
	render := func(arguments ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), helm, append([]string{"template"}, arguments...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}

	// Install Istio's charts, with istiod's Service at an address of this network namespace. Without a kubelet, istiod's
	// Deployment has no pods, so istiod runs as a process.
	for _, name := range []string{"istio-system", "lab"} {
		kubectl("", "create", "namespace", name)
		kubectl("", "create", "serviceaccount", "default", "-n", name)
	}
	charts := filepath.Join(module, "manifests", "charts")
	kubectl("", "apply", "--server-side", "-f", filepath.Join(charts, "base", "files", "crd-all.gen.yaml"))
	kubectl("", "wait", "--for", "condition=Established", "--timeout", "1m", "crd", "--all")
	kubectl("apiVersion: v1\nkind: Service\nmetadata: {name: istiod, namespace: istio-system}\nspec: {clusterIP: "+istiodIP+", ports: [{name: https-webhook, port: 443}, {name: https-dns, port: 15012}]}\n", "apply", "-f", "-")
	var ours []string
	for _, document := range strings.Split(render("istiod", filepath.Join(charts, "istio-control", "istio-discovery"), "--namespace", "istio-system", "-f", "../../../../images/istio/values.yaml"), "\n---\n") {
		if strings.Contains(document, "\nkind: ConfigMap\n") || strings.Contains(document, "\nkind: MutatingWebhookConfiguration\n") {
			ours = append(ours, document)
		}
	}
	kubectl(strings.Join(ours, "\n---\n"), "apply", "-f", "-")
	environment := []string{"POD_NAME=istiod", "POD_NAMESPACE=istio-system", "CLUSTER_ID=Kubernetes", "REVISION=default", "PILOT_CERT_PROVIDER=istiod", "JWT_POLICY=third-party-jwt"}
	// images/istio/values.yaml contains the same settings.
	for _, filter := range []string{"METADATA_EXCHANGE", "ALPN_FILTER", "TELEMETRY_LABEL"} {
		environment = append(environment, "PILOT_ENABLE_"+filter+"=false")
	}
	start(t, t.TempDir(), environment, istiod, "discovery", "--kubeconfig", kubeconfig, "--httpsAddr", istiodIP+":443", "--namespace", "istio-system")
	until(t, "istiod has put its certificate into its webhook", func() error {
		c, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "istio-sidecar-injector", metav1.GetOptions{})
		if err == nil && len(c.Webhooks[0].ClientConfig.CABundle) == 0 {
			err = fmt.Errorf("it has none")
		}
		return err
	})

	// Create pods in two regions as the operator does, with their Services.
	labels, annotations := mesh.Wanted(v1alpha1.MeshSidecar, 7001, 7003, 7004, 7005)
	ips := map[string]string{"us-west-2": "127.0.0.2", "ap-northeast-1": "127.0.0.3"}
	pods := map[string]*corev1.Pod{}
	for region, ip := range ips {
		name := "d-" + region
		of := map[string]string{"geobench.dev/database": "d", "geobench.dev/region": region, "geobench.dev/role": "node"}
		kubectl(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: lab}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {geobench.dev/database: d, geobench.dev/region: %[2]s, geobench.dev/role: node}
  ports: [{name: geobench, port: 7000, appProtocol: tcp}, {name: admin, port: 7004, appProtocol: https}, {name: probe, port: 7002, appProtocol: tcp}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: lab, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [%[3]s], targetRef: {kind: Pod, name: %[1]s-0, namespace: lab}, conditions: {ready: true}}]
ports: [{name: geobench, port: 7000, appProtocol: tcp}, {name: admin, port: 7004, appProtocol: https}, {name: probe, port: 7002, appProtocol: tcp}]
`, name, region, "10.1.0."+ip[len(ip)-1:]), "apply", "-f", "-")
		for k, v := range labels {
			of[k] = v
		}
		var pod *corev1.Pod
		until(t, "istiod's webhook answers", func() (err error) {
			pod, err = client.CoreV1().Pods("lab").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name + "-0", Labels: of, Annotations: annotations},
				Spec: corev1.PodSpec{ServiceAccountName: "default", NodeName: "machine", Containers: []corev1.Container{{
					Name: "node", Image: "geobench", Ports: []corev1.ContainerPort{{Name: "geobench", ContainerPort: 7000}},
				}}},
			}, metav1.CreateOptions{})
			return err
		})
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.0." + ip[len(ip)-1:], PodIPs: []corev1.PodIP{{IP: "10.1.0." + ip[len(ip)-1:]}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if pods[region], err = client.CoreV1().Pods("lab").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod := pods["us-west-2"]
	injected(t, pod)

	// Apply the chart's policies, which istiod would reject if they were invalid, and start a proxy under Istio's agent.
	kubectl(render("geobench", "../../../../charts/geobench", "--show-only", "templates/mesh/policies.yaml",
		"--set-json", `mesh.databases=[{"name": "d", "namespace": "lab", "regions": ["us-west-2", "ap-northeast-1"], "runs": ["r"]}]`), "apply", "-f", "-")
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token, err := client.CoreV1().ServiceAccounts("lab").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}, BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write("var/run/secrets/tokens/istio-token", token.Status.Token)
	until(t, "istiod gives its root certificate to the namespace", func() error {
		c, err := client.CoreV1().ConfigMaps("lab").Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		if err == nil {
			write("var/run/secrets/istio/root-cert.pem", c.Data["root-cert.pem"])
		}
		return err
	})
	meta, err := json.Marshal(pod.Labels)
	if err != nil {
		t.Fatal(err)
	}
	write("etc/istio/pod/labels", string(meta))
	bootstrap, err := os.ReadFile(filepath.Join(module, "tools", "packaging", "common", "envoy_bootstrap.json"))
	if err != nil {
		t.Fatal(err)
	}
	write("bootstrap.json", string(bootstrap))
	start(t, folder, []string{
		"POD_NAME=" + pod.Name, "POD_NAMESPACE=lab", "INSTANCE_IP=" + pod.Status.PodIP, "SERVICE_ACCOUNT=default", "HOST_IP=127.0.0.1", "ISTIO_META_CLUSTER_ID=Kubernetes",
		"PILOT_CERT_PROVIDER=istiod", "CA_ADDR=istiod.istio-system.svc:15012", "ISTIO_META_INTERCEPTION_MODE=REDIRECT",
		"ISTIO_METAJSON_LABELS=" + string(meta), "ISTIO_BOOTSTRAP=" + filepath.Join(folder, "bootstrap.json"), `ISTIO_META_POD_PORTS=[{"name":"geobench","containerPort":7000,"protocol":"TCP"}]`,
		fmt.Sprintf(`PROXY_CONFIG={"discoveryAddress":"istiod.istio-system.svc:15012","configPath":"%s/etc/istio/proxy","binaryPath":"%s","proxyStatsMatcher":{"inclusionRegexps":[".*update_.*"]}}`, folder, envoy),
	}, agent, "proxy", "sidecar", "--domain", "lab.svc.cluster.local")

	var stats string
	until(t, "the proxy of a node is configured", func() (err error) {
		if stats, err = get("http://127.0.0.1:15000/stats"); err != nil {
			return err
		}
		for _, what := range []string{"listener_manager.lds.update_success", "cluster_manager.cds.update_success"} {
			if v, lines := total(stats, what, ""); v == 0 {
				return fmt.Errorf("%s is %.0f in %d lines", what, v, lines)
			}
		}
		if live, err := get("http://127.0.0.1:15000/ready"); err != nil || !strings.Contains(live, "LIVE") {
			return fmt.Errorf("it is %q: %w", live, err)
		}
		return nil
	})
	for _, what := range []string{"listener_manager.lds.update_rejected", "cluster_manager.cds.update_rejected"} {
		if v, lines := total(stats, what, ""); v > 0 || lines == 0 {
			t.Errorf("%s is %.0f in %d lines", what, v, lines)
		}
	}
	metrics, err := get("http://127.0.0.1:15014/metrics")
	if err != nil {
		t.Fatal(err)
	}
	refused, _ := total(metrics, "pilot_total_xds_rejects", "")
	pushes, _ := total(metrics, "pilot_xds_pushes", "")
	signed, _ := total(metrics, "citadel_server_success_cert_issuance_count", "")
	if refused > 0 || pushes == 0 || signed == 0 {
		t.Errorf("istiod has pushed %.0f configurations, of which %.0f were refused, and has signed %.0f certificates", pushes, refused, signed)
	}
	t.Logf("istiod has pushed %.0f configurations to the proxy of a node, none was refused, and has signed %.0f certificates", pushes, signed)

	// The proxy's configuration must contain the pod's identity, mutual TLS to and from other nodes, and the region's
	// clients.
	certificates, err := get("http://127.0.0.1:15000/certs")
	if err != nil || !strings.Contains(certificates, "spiffe://cluster.local/ns/lab/sa/default") {
		t.Errorf("the proxy's certificates are %s: %v", certificates, err)
	}
	dump, err := get("http://127.0.0.1:15000/config_dump")
	if err != nil {
		t.Fatal(err)
	}
	for what, holds := range map[string]string{
		"a cluster for the other region's nodes": "outbound|7000||d-ap-northeast-1.lab.svc.cluster.local",
		"one for what is measured through it":    "outbound|7002||d-ap-northeast-1.lab.svc.cluster.local",
		"who its clients are":                    "spiffe://cluster.local/ns/lab/sa/r-us-west-2-",
		"that clients need a certificate":        `"require_client_certificate": true`,
	} {
		if !strings.Contains(dump, holds) {
			t.Errorf("the proxy is not told %s: %q", what, holds)
		}
	}
	if strings.Contains(dump, "sa/r-ap-northeast-1-") {
		t.Error("the proxy of a node is told to let in clients of the other region")
	}
}

// injected checks the changes that istiod's webhook made to a pod with the operator's labels and annotations.
func injected(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	containers := pod.Spec.InitContainers
	proxy := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == mesh.ProxyContainer })
	leads := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "istio-init" })
	if proxy < 0 || leads < 0 || len(pod.Spec.Containers) != 1 {
		t.Fatalf("istiod has injected %d containers and %d others: %v", len(containers), len(pod.Spec.Containers)-1, containers)
	}
	if restart := containers[proxy].RestartPolicy; restart == nil || *restart != corev1.ContainerRestartPolicyAlways {
		t.Error("the proxy is no native sidecar: pods of Jobs would not end")
	}
	if !slices.ContainsFunc(containers[leads].Args, func(a string) bool { return strings.HasPrefix(a, "15090,15021,7001,7003,7004,7005") }) {
		t.Errorf("what leads connections through the proxy has arguments %v, not those ports that whoever is in no mesh calls", containers[leads].Args)
	}
	if containers[proxy].Image != "localhost/geobench-istio/proxyv2:1.31" {
		t.Errorf("the proxy is of image %s", containers[proxy].Image)
	}
	pod = pod.DeepCopy()
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: mesh.ProxyContainer, Image: containers[proxy].Image, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if is := mesh.Of(pod); is != (mesh.Pod{Mode: v1alpha1.MeshSidecar, Version: "1.31"}) {
		t.Errorf("the pod is taken to be %+v", is)
	}
}
