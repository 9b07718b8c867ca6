//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
)

// authority signs the certificates of a mesh.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func sign(t *testing.T, by *authority, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: by == nil,
	}
	parent, signer := template, key
	if by != nil {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func newAuthority(t *testing.T) *authority {
	cert, key := sign(t, nil, "a mesh of tests")
	return &authority{key, cert}
}

// certificates returns the Secret for the proxies of a region. trusts is the authority whose certificates the proxies
// trust, and by is the authority that signs their own certificates.
func certificates(t *testing.T, namespace, region string, trusts, by *authority) *corev1.Secret {
	t.Helper()
	cert, key := sign(t, by, region)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mesh-" + region, Namespace: namespace}, Data: map[string][]byte{
		"ca.crt": block("CERTIFICATE", trusts.cert.Raw), "tls.crt": block("CERTIFICATE", cert.Raw), "tls.key": block("EC PRIVATE KEY", der),
	}}
}

// startMesh makes the cluster inject a proxy into those pods of the namespace that request one.
func (c *cluster) startMesh(t *testing.T, image string) {
	t.Helper()
	c.privileged(t) // a proxy needs NET_ADMIN to redirect connections
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"geobench.dev/mesh-of-tests":""}}}`))
	if err := c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, patch); err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile("../../images/istio-proxy/inject.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := func(verb string, arguments ...string) {
		command := exec.Command("kubectl", append([]string{verb, "-f", "-"}, arguments...)...)
		command.Stdin = strings.NewReader(strings.ReplaceAll(string(policy), "IMAGE", image))
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("kubectl %s: %v\n%s", verb, err, out)
		}
	}
	kubectl("apply")
	t.Cleanup(func() { kubectl("delete", "--ignore-not-found") })
}

// awaitInjection waits until the API server applies the injection policy, which means that it adds a proxy to a pod in
// a dry run.
func (c *cluster) awaitInjection(t *testing.T, region string) {
	t.Helper()
	ctx := within(t, time.Minute)
	c.eventually(t, ctx, "proxies are injected", func() (bool, error) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "asked", Namespace: c.namespace, Labels: map[string]string{"sidecar.istio.io/inject": "true", kube.LabelRegion: region},
				Annotations: map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": "7001"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none"}}, Volumes: []corev1.Volume{{Name: "v"}}},
		}
		err := c.Create(ctx, pod, client.DryRunAll)
		return err == nil && len(pod.Spec.InitContainers) == 2, err
	})
}

// meshed returns a GeoDatabase in a mesh.
func meshed(name string, m v1alpha1.Mesh) string {
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: %s}
spec:
  engine: {name: calvin}
  regions: [{name: us-west-2}, {name: ap-northeast-1}]
  network: {profileRef: {name: smallbank-two-regions}, mesh: %s}
`, name, m)
}

// updates returns a BenchmarkRun whose transactions each write a kilobyte.
func updates(database, name string, clients int, duration string) string {
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: %s}
spec:
  databaseRef: {name: %s}
  workload: {ycsb: {mix: {update: 100}, records: 10000, fieldCount: 1, fieldBytes: 1000}}
  load: {clientsPerRegion: %d, warmup: 2s, duration: %s, requestTimeout: 5s}
`, name, database, clients, duration)
}

// proxyStat reads a counter of a pod's Envoy.
func (c *cluster) proxyStat(ctx context.Context, pod, name string) (float64, error) {
	out, err := exec.CommandContext(ctx, "kubectl", "-n", c.namespace, "exec", pod, "-c", "istio-proxy", "--",
		"busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:15000/stats?filter=^"+name+"$").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s of pod %s: %w: %s", name, pod, err, out)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(string(out)), ": ")
	return strconv.ParseFloat(value, 64)
}

// sent returns the number of bytes that a node has sent to other nodes, as reported by the node.
func sent(t *testing.T, pod *corev1.Pod) (bytes float64) {
	t.Helper()
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://%s:7001/metrics", pod.Status.PodIP))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "geobench_network_sent_bytes_total{") {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				t.Fatal(err)
			}
			bytes += v
		}
	}
	return bytes
}

// TestMesh executes the same run without a mesh and in a mesh. In the mesh, nodes and workers run behind real Envoys,
// two on each path, with mutual TLS that rejects every client without a certificate. In later runs a proxy stops in the
// middle of a run, and one region gets certificates that the second region does not trust.
func TestMesh(t *testing.T) {
	image := needsImage(t, "GEOBENCH_ISTIO_PROXY")
	c := newCluster(t)
	c.startMesh(t, image)
	ours := newAuthority(t)
	for _, region := range []string{"us-west-2", "ap-northeast-1"} {
		if err := c.Create(t.Context(), certificates(t, c.namespace, region, ours, ours)); err != nil {
			t.Fatal(err)
		}
	}
	c.awaitInjection(t, "us-west-2")
	ctx := within(t, time.Minute)
	c.eventually(t, ctx, "what the mesh asks for is said", func() (bool, error) {
		strict := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": map[string]any{"name": "strict", "namespace": c.namespace},
			"spec": map[string]any{"mtls": map[string]any{"mode": "STRICT"}},
		}}
		err := c.Create(ctx, strict)
		return err == nil, err // retry, because the kind was installed only moments ago
	})

	documents := map[v1alpha1.Mesh]*result.Document{}
	for _, m := range []v1alpha1.Mesh{v1alpha1.MeshNone, v1alpha1.MeshSidecar} {
		name := strings.ToLower(string(m))
		c.apply(t, meshed(name, m)+separator+updates(name, name, 300, "15s"))
		r := c.awaitEnd(t, name, 4*time.Minute)
		c.mustPass(t, r)
		documents[m] = c.document(t, r)
		if m == v1alpha1.MeshSidecar {
			c.bytesOfWitnesses(t, documents[m])
		}
		c.deleteRun(t, name) // its Jobs have completed although each worker has a proxy in its pod
		if m == v1alpha1.MeshNone {
			if err := c.Delete(t.Context(), &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	is := documents[v1alpha1.MeshSidecar].Mesh
	if is == nil || is.Mode != v1alpha1.MeshSidecar || is.MutualTLS != v1alpha1.MutualTLSStrict || !strings.HasSuffix(image, ":"+is.Version) || documents[v1alpha1.MeshNone].Mesh != nil {
		t.Errorf("the results say %+v and %+v", is, documents[v1alpha1.MeshNone].Mesh)
	}
	for _, m := range []v1alpha1.Mesh{v1alpha1.MeshNone, v1alpha1.MeshSidecar} {
		d := documents[m]
		t.Logf("%-8s %d txn/s, p50 %.2f and %.2f ms, p99 %.2f ms, node CPU %.0f us per transaction", m, d.Summary.ThroughputPerSecond, float64(d.Regions[0].LatencyMicroseconds.P50.Least())/1000,
			float64(d.Regions[1].LatencyMicroseconds.P50.Least())/1000, float64(d.Summary.LatencyMicroseconds.P99.Least())/1000, nodeCPU(d))
	}

	// If a proxy stops, its connections break.
	c.apply(t, updates("sidecar", "broken", 10, "20s"))
	c.awaitStage(t, "broken", 4*time.Minute, v1alpha1.StageMeasure)
	c.exec(t, time.Minute, "sidecar-us-west-2-0", "istio-proxy", "busybox", "kill", "1")
	r := c.awaitEnd(t, "broken", 4*time.Minute)
	if r.Status.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(r.Status.Message, "proxy") || !strings.Contains(r.Status.Message, "sidecar-us-west-2-0") {
		t.Errorf("a run whose proxy has ended is %s: %s", r.Status.Verdict, r.Status.Message)
	}
	c.deleteRun(t, "broken")

	// A client whose certificate is not trusted cannot send a single byte.
	strange := certificates(t, c.namespace, "ap-northeast-1", ours, newAuthority(t))
	if err := c.Update(t.Context(), strange); err != nil {
		t.Fatal(err)
	}
	c.apply(t, meshed("strange", v1alpha1.MeshSidecar))
	var refused float64
	ctx = within(t, 3*time.Minute)
	c.eventually(t, ctx, "the mesh refuses the other region", func() (bool, error) {
		var err error
		refused, err = c.proxyStat(ctx, "strange-us-west-2-0", "listener.0.0.0.0_15006.ssl.fail_verify_error")
		return refused > 0, err
	})
	through, err := c.proxyStat(ctx, "strange-us-west-2-0", "cluster.inbound.upstream_cx_tx_bytes_total")
	if err != nil || through > 0 {
		t.Errorf("%.0f bytes came through: %v", through, err)
	}
	var message string
	c.eventually(t, ctx, "the database says why", func() (bool, error) {
		db, err := c.database(ctx, "strange")
		if err != nil {
			return false, err
		}
		for _, x := range db.Status.Conditions {
			if x.Type == v1alpha1.ConditionNodesReady && x.Status == metav1.ConditionFalse {
				message = x.Message
			}
		}
		return strings.Contains(message, "what it refuses is in the log of its proxies") && !strings.Contains(message, "Pending"), fmt.Errorf("it says %q", message)
	})
	t.Logf("a region that is not trusted: %.0f connections refused, %.0f bytes came through; the database says %q", refused, through, message)
}

// bytesOfWitnesses compares the bytes that nodes report as sent with the bytes that the Envoys next to them carried. It
// compares the figures in the result, and the totals since the start of the nodes.
func (c *cluster) bytesOfWitnesses(t *testing.T, d *result.Document) {
	t.Helper()
	if len(d.Witnesses) != 2 || strings.Contains(strings.Join(d.Notes, "\n"), "disagree") {
		t.Fatalf("the result has the witnesses %+v, and notes %q", d.Witnesses, d.Notes)
	}
	own, proxied := d.Witnesses[0], d.Witnesses[1]
	t.Logf("the result: nodes %s; mesh %s", own.Say(), proxied.Say())
	switch {
	case own.Name != result.WitnessNodes || own.Bytes == nil || *own.Bytes < 100e6:
		t.Errorf("nodes have sent at least 10^8 bytes to each other: %s", own.Say())
	case proxied.Name != result.WitnessMesh || proxied.Bytes == nil || math.Abs(float64(*proxied.Bytes)/float64(*own.Bytes)-1) > 0.01 || proxied.OffPPM == nil:
		t.Errorf("the Envoys have carried as much, within 1%%: %s", proxied.Say())
	}
	var nodes, proxies, seconds float64
	for _, pod := range c.nodes(t) {
		nodes += sent(t, &pod)
		for _, name := range []string{"tx", "rx"} {
			carried, err := c.proxyStat(t.Context(), pod.Name, "cluster[.]outbound.7000..nodes[.]upstream_cx_"+name+"_bytes_total")
			if err != nil {
				t.Fatal(err)
			}
			proxies += carried
		}
		// Fields 14 and 15 of the stat file are utime and stime, in hundredths of a second. They are at indexes
		// 11 and 12 after the name in parentheses.
		stat := c.exec(t, time.Minute, pod.Name, "istio-proxy", "cat", "/proc/1/stat")
		fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			seconds += ticks / 100
		}
	}
	t.Logf("since they began, nodes have sent %.2f MB to each other, and their Envoys have carried %.2f MB: %.2f%% off; the Envoys have used %.2f s of CPU, %.1f us for each transaction that was measured (loading and warm-up included)",
		nodes/1e6, proxies/1e6, 100*math.Abs(proxies/nodes-1), seconds, 1e6*seconds/float64(d.Summary.Committed))
	if math.Abs(proxies/nodes-1) > 0.01 || nodes < 100e6 {
		t.Errorf("nodes have sent %.0f bytes to each other, at least 10^8 were to be, and their Envoys have carried %.0f", nodes, proxies)
	}
}

// nodeCPU returns the CPU time of all nodes per transaction, in microseconds.
func nodeCPU(d *result.Document) (us float64) {
	for _, n := range d.Nodes {
		us += float64(n.CPUMilliseconds) * 1000
	}
	return us / float64(max(d.Summary.Committed, 1))
}
