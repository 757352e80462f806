// Package check renders the Helm chart and the base for Kustomize, compares the result with files,
// and checks it by the types of Kubernetes and by zkd's own configuration. Run it by make charts.
package check

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/zkd-project/zkd/internal/container"
	"github.com/zkd-project/zkd/server/config"
)

var (
	rewrite  = flag.Bool("rewrite", false, "write the manifests instead of comparing with them")
	packaged = flag.String("chart", "", "render this file of a release, and compare with nothing")
)

const (
	chartDir = "../../helm/zkd"
	header   = "# Rendered from deploy/helm/zkd by make charts REWRITE=1; do not edit.\n"
)

// TestGolden renders the chart with its default values, which are the plain manifests, and with those of
// testdata.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{""}, files...) {
		golden := "../zkd.yaml"
		if file != "" {
			golden = strings.TrimSuffix(file, ".values.yaml") + ".yaml"
		}
		t.Run(path.Base(golden), func(t *testing.T) {
			got, err := render(readValues(t, file))
			if err != nil {
				t.Fatal(err)
			}
			m := decode(t, got)
			m.check(t)
			if file == "" {
				m.checkConfiguration(t)
			}
			if *packaged == "" {
				compare(t, golden, got)
			}
		})
	}
}

// compare compares a rendering with its file.
func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != got {
		t.Errorf("%s is not what is rendered (%v): make charts REWRITE=1, and read the diff", golden, err)
	}
}

// overlay is a kustomization as a user's, outside of this repository.
const overlay = `namespace: coordination
resources: [%s]
images: [{name: zkd, newName: registry.example.com/zkd, newTag: v0.1.0}]
patches:
  - target: {kind: StatefulSet, name: zkd}
    patch: |
      - {op: replace, path: /spec/volumeClaimTemplates/0/spec/resources/requests/storage, value: 64Gi}
      - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: ZKD_TICKTIME, value: "1000"}}
`

// TestKustomize builds the base and an overlay of it, as kubectl kustomize does.
func TestKustomize(t *testing.T) {
	base, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fromDir, err := filepath.Rel(dir, base)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, overlay, fromDir), 0o666); err != nil {
		t.Fatal(err)
	}
	kustomize(t, base, "default")
	got := kustomize(t, dir, "coordination")
	compare(t, "testdata/overlay.yaml", "# Built from the overlay of check_test.go by make charts REWRITE=1; do not edit.\n"+got)
}

// kustomize builds a kustomization, and checks it.
func kustomize(t *testing.T, dir, namespace string) string {
	t.Helper()
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := objects.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, string(got))
	m.check(t)
	m.checkConfiguration(t)
	servers := m.environment(t).Text
	if !strings.Contains(servers, "\nserver.3=zkd-2.zkd-headless:2888:3888;2181\n") || m.set.Namespace != namespace {
		t.Errorf("namespace %q, want %q, and none in the names of the servers:\n%s", m.set.Namespace, namespace, servers)
	}
	return string(got)
}

func TestLint(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(chartDir, nil, "default", nil).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// TestRefused renders values that make no sense.
func TestRefused(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 0":                   "replicas",
		"replica: 3":                    "replica",
		"tls: {client: {plain: false}}": "no client could connect",
		"edge: {enabled: true}\ntls: {client: {plain: false, secret: x}}": "an edge could not connect",
		"tls: {quorum: {secrets: x}}":                                     "secrets",
		"antiAffinity: very":                                              "antiAffinity",
		"storage: {whenDeleted: Retain, size: 8}":                         "size",
		"image: {name: zkd}":                                              "image",
		"service: {type: External}":                                       "service",
		"resources: {request: {cpu: 1}}":                                  "request",
		"config: {tickTime: [1]}":                                         "tickTime",
		"quorumSecret: A Secret":                                          "quorumSecret",
	} {
		v, err := chartutil.ReadValues([]byte(values))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := render(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", values, err, want)
		}
	}
}

func readValues(t *testing.T, file string) chartutil.Values {
	t.Helper()
	if file == "" {
		return chartutil.Values{}
	}
	v, err := chartutil.ReadValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns the manifests, as helm template does.
func render(values chartutil.Values) (string, error) {
	c, err := loader.Load(cmp.Or(*packaged, chartDir))
	if err != nil {
		return "", err
	}
	if err := chartutil.ProcessDependencies(c, values); err != nil {
		return "", err
	}
	release := chartutil.ReleaseOptions{Name: "zkd", Namespace: "default", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	out, err := (engine.Engine{Strict: true}).Render(c, all)
	if err != nil {
		return "", err
	}
	return join(out), nil
}

func join(out map[string]string) string {
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		text := strings.TrimSpace(out[name])
		if path.Ext(name) == ".yaml" && text != "" {
			fmt.Fprintf(&b, "---\n%s\n", text)
		}
	}
	// Helm is not there when kubectl applies them.
	return strings.ReplaceAll(b.String(), "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
}

// manifests are the objects of a rendering.
type manifests struct {
	set      appsv1.StatefulSet
	services []corev1.Service
	budgets  []policyv1.PodDisruptionBudget
	policies []networkingv1.NetworkPolicy
	edges    appsv1.DaemonSet
	configs  []corev1.ConfigMap
}

// decode reads objects. A field that the API does not have is an error.
func decode(t *testing.T, text string) *manifests {
	t.Helper()
	m := new(manifests)
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		var err error
		switch kind.APIVersion + " " + kind.Kind {
		case " ": // the header
		case "apps/v1 StatefulSet":
			err = yaml.UnmarshalStrict([]byte(doc), &m.set)
		case "apps/v1 DaemonSet":
			err = yaml.UnmarshalStrict([]byte(doc), &m.edges)
		case "v1 ConfigMap":
			err = into(&m.configs, doc)
		case "v1 Service":
			err = into(&m.services, doc)
		case "policy/v1 PodDisruptionBudget":
			err = into(&m.budgets, doc)
		case "networking.k8s.io/v1 NetworkPolicy":
			err = into(&m.policies, doc)
		default:
			t.Errorf("an object that nothing checks: %s %s", kind.APIVersion, kind.Kind)
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
	}
	return m
}

func into[T any](list *[]T, doc string) error {
	*list = append(*list, *new(T))
	return yaml.UnmarshalStrict([]byte(doc), &(*list)[len(*list)-1])
}

// check follows the references between the objects.
func (m *manifests) check(t *testing.T) {
	t.Helper()
	pod := m.set.Spec.Template
	selects := func(what string, s labels.Selector) {
		t.Helper()
		if s.Empty() || !s.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s does not select the pods", what)
		}
	}
	selector := func(what string, s *metav1.LabelSelector) {
		t.Helper()
		sel, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		selects(what, sel)
	}
	selector("the StatefulSet", m.set.Spec.Selector)
	for _, b := range m.budgets {
		selector("the budget", b.Spec.Selector)
	}
	c := pod.Spec.Containers[0]
	ports := make(map[string]bool)
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	headless := false
	m.checkEdge(t)
	for _, s := range m.services {
		if s.Name == m.edges.Name {
			continue
		}
		selects("service "+s.Name, labels.SelectorFromSet(s.Spec.Selector))
		headless = headless || s.Name == m.set.Spec.ServiceName && s.Spec.ClusterIP == corev1.ClusterIPNone
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("service %s: no port %s in the container", s.Name, &p.TargetPort)
			}
		}
	}
	if !headless {
		t.Errorf("no headless service %s", m.set.Spec.ServiceName)
	}
	for _, p := range m.policies {
		selector("the network policy", &p.Spec.PodSelector)
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if !ports[port.Port.StrVal] {
					t.Errorf("network policy: no port %s in the container", port.Port)
				}
				delete(ports, port.Port.StrVal)
			}
		}
		if len(ports) > 0 {
			t.Errorf("the network policy closes the ports %v to everybody", slices.Sorted(maps.Keys(ports)))
		}
	}
	volumes := make(map[string]bool)
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range m.set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	for _, mount := range c.VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("no volume %s", mount.Name)
		}
		delete(volumes, mount.Name)
	}
	for v := range volumes {
		t.Errorf("volume %s is mounted nowhere", v)
	}
	if got := m.environment(t); !strings.Contains(got.Text, "\nserver.1=") || got.ID != "1" {
		t.Errorf("id %q of the first pod, and the configuration\n%s", got.ID, got.Text)
	}
}

// checkEdge follows the references of the edges, if there are any, and lets zkd read their file.
func (m *manifests) checkEdge(t *testing.T) {
	t.Helper()
	if len(m.configs) == 0 {
		return
	}
	text := m.configs[0].Data["edge.cfg"]
	cfg, warnings, err := config.Parse(strings.NewReader(text), "edge.cfg")
	if err != nil || len(warnings) > 0 || !cfg.Edge.On {
		t.Fatalf("%v %v:\n%s", err, warnings, text)
	}
	pod, found := m.edges.Spec.Template, false
	for _, s := range m.services {
		found = found || s.Name == m.edges.Name && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels))
	}
	if !found {
		t.Error("no service selects the edges")
	}
	if s, err := metav1.LabelSelectorAsSelector(m.edges.Spec.Selector); err != nil || !s.Matches(labels.Set(pod.Labels)) || s.Matches(labels.Set(m.set.Spec.Template.Labels)) {
		t.Errorf("the DaemonSet does not select its pods alone: %v", err)
	}
	for i, v := range pod.Spec.Volumes {
		if pod.Spec.Containers[0].VolumeMounts[i].Name != v.Name {
			t.Errorf("volume %s is mounted nowhere", v.Name)
		}
	}
}

// TestSidecar reads the example of a pod with an edge.
func TestSidecar(t *testing.T) {
	text, err := os.ReadFile("../edge-sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := yaml.UnmarshalStrict(text, &d); err != nil {
		t.Fatal(err)
	}
	args := d.Spec.Template.Spec.InitContainers[0].Args
	if _, _, err := config.LoadEdge("", config.Override("edge.upstream", args[2])); err != nil || args[0] != "edge" || args[1] != "--upstream" {
		t.Errorf("%q: %v", args, err)
	}
}

// environment returns what zkd makes of the environment of the first pod.
func (m *manifests) environment(t *testing.T) container.Output {
	t.Helper()
	in := container.Input{Host: m.set.Name + "-0", Env: []string{"ZOO_DATA_DIR=" + t.TempDir()}}
	for _, k := range config.Keys() {
		in.Keys = append(in.Keys, k.Name)
	}
	for _, e := range m.set.Spec.Template.Spec.Containers[0].Env {
		in.Env = append(in.Env, e.Name+"="+e.Value)
	}
	out, err := container.Config(in)
	if err != nil || len(out.Remarks) > 0 {
		t.Fatal(err, out.Remarks)
	}
	return out
}

// checkConfiguration lets zkd read the configuration of the first pod.
func (m *manifests) checkConfiguration(t *testing.T) {
	t.Helper()
	out := m.environment(t)
	cfg, warnings, err := config.Parse(bytes.NewBufferString(out.Text), "zoo.cfg", config.Override("zkd.myid", out.ID))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v %v:\n%s", err, warnings, out.Text)
	}
	if cfg.ClientPort != 2181 || len(cfg.Members.Servers) != int(*m.set.Spec.Replicas) {
		t.Errorf("client port %d, servers %v", cfg.ClientPort, cfg.Members.Servers)
	}
}
