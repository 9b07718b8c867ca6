package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// right is a single permission: a verb on a URL or on a resource. names restricts it to objects with these names, if
// there are any.
type right struct {
	verb, group, resource string
	names                 []string
}

func (r right) String() string {
	return strings.Join(append([]string{r.verb, r.object()}, r.names...), " ")
}

// object returns the resource or URL of the right as text, such as pods or jobs.batch.
func (r right) object() string {
	if r.group == "" {
		return r.resource
	}
	return r.resource + "." + r.group
}

// rightsOf splits rules into single rights. It sorts them and removes duplicates.
func rightsOf(rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					out = append(out, right{verb, group, resource, r.ResourceNames})
				}
			}
			for _, url := range r.NonResourceURLs {
				out = append(out, right{verb: verb, resource: url})
			}
		}
	}
	slices.SortFunc(out, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(out, func(a, b right) bool { return a.String() == b.String() })
}

// operatorRules returns the rules of the roles in config/rbac.
func operatorRules(root string) ([]rbacv1.PolicyRule, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(rbacSource)))
	if err != nil {
		return nil, err
	}
	var out []rbacv1.PolicyRule
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rbacSource, err)
		}
		var r rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", rbacSource, err)
		}
		out = append(out, r.Rules...)
	}
}

// request is the part of an audit log's entry (audit.k8s.io/v1) that determines which right the request needs.
type request struct {
	Verb      string `json:"verb"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// allows reports whether a right permits the request.
func (r right) allows(q *request) bool {
	resource := q.ObjectRef.Resource
	if q.ObjectRef.Subresource != "" {
		resource += "/" + q.ObjectRef.Subresource
	}
	return r.verb == q.Verb && r.group == q.ObjectRef.APIGroup && r.resource == resource && (len(r.names) == 0 || slices.Contains(r.names, q.ObjectRef.Name))
}

// rightsUsed counts the requests in an audit log. used maps each right to the number of requests that needed it, and
// forbidden contains the numbers of forbidden requests.
func rightsUsed(granted []right, log io.Reader) (used, forbidden map[string]int, err error) {
	used, forbidden = map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		if q.ObjectRef == nil {
			continue // API discovery
		}
		if q.ResponseStatus.Code == http.StatusForbidden {
			forbidden[right{q.Verb, q.ObjectRef.APIGroup, q.ObjectRef.Resource, nil}.String()]++
			continue
		}
		for _, r := range granted {
			if r.allows(&q) {
				used[r.String()]++
			}
		}
	}
	return used, forbidden, lines.Err()
}

// reportRights prints which of the operator's rights the requests in audit logs needed, and which rights they never
// needed.
func reportRights(root string, out io.Writer, logs []string) error {
	rules, err := operatorRules(root)
	if err != nil {
		return err
	}
	granted := rightsOf(rules)
	used, forbidden := map[string]int{}, map[string]int{}
	read := 0
	for _, file := range logs {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		u, n, err := rightsUsed(granted, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		read++
		for right, times := range u {
			used[right] += times
		}
		for right, times := range n {
			forbidden[right] += times
		}
	}
	if read == 0 {
		return fmt.Errorf("%s: there is no such log: hack/cluster has its API server write one from its next start on", strings.Join(logs, ", "))
	}
	var unused []string
	fmt.Fprintf(out, "%8s  right\n", "requests")
	for _, r := range granted {
		if times := used[r.String()]; times > 0 {
			fmt.Fprintf(out, "%8d  %s\n", times, r)
		} else {
			unused = append(unused, r.String())
		}
	}
	for _, right := range unused {
		fmt.Fprintf(out, "%8s  %s\n", "none", right)
	}
	for _, right := range sortedKeys(forbidden) {
		fmt.Fprintf(out, "%8d  %s: forbidden, for want of a right, or by admission\n", forbidden[right], right)
	}
	fmt.Fprintf(out, "%d of %d rights were used\n", len(granted)-len(unused), len(granted))
	return nil
}
