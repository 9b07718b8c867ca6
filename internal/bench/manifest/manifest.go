// Package manifest reads manifests without a cluster and processes them like the API server. It compiles the OpenAPI
// schemas and CEL rules of the CRDs that a cluster installs (config/crd). It refuses unknown fields, fills in defaults,
// and validates. It also resolves references between objects, and runs the rules of package check, as the operator's
// Preflight does. A manifest is valid here if and only if a cluster accepts it.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/ops/presets"
)

// Problem is a single error in a manifest. Problems is a list of problems that is also an error.
type (
	Problem  = check.Problem
	Problems = check.Problems
)

// Document is an object in the form in which it was read.
type Document struct {
	// Source is "file:line" of its first line.
	Source string
	// Object is the object, as decoded JSON.
	Object map[string]any
}

func (d *Document) text(key string) string { s, _ := d.Object[key].(string); return s }

func (d *Document) name() string {
	m, _ := d.Object["metadata"].(map[string]any)
	s, _ := m["name"].(string)
	return s
}

// Bundle is a set of valid objects that belong together, as typed values with defaults. The maps are keyed by name.
type Bundle struct {
	Profiles  map[string]*v1alpha1.NetworkProfile
	Databases map[string]*v1alpha1.GeoDatabase
	// Runs are in the order of the files.
	Runs []*v1alpha1.BenchmarkRun
	// Experiments are in the order of the files. Package experiment expands them into points and checks each point.
	Experiments []*v1alpha1.Experiment
	// Place describes the origin of the objects for messages; empty means "the files".
	Place string
	// Ignored lists the objects of other API groups, such as "v1 Namespace demo", which have a meaning only in a cluster.
	Ignored []string

	sources map[string]string // by "Kind name"
}

// maxBytes is the maximum size of an input. It is far above the size of any manifest, and small compared with the
// memory of a machine.
const maxBytes = 16 << 20

// Read reads files, directories (their *.yaml, *.yml and *.json files, not recursively) and standard input ("-"), and
// returns the documents in order. A YAML file may contain several documents. A List is replaced by its items.
func Read(stdin io.Reader, paths ...string) ([]Document, error) {
	var docs []Document
	var ps Problems
	for _, path := range paths {
		files := []string{path}
		if path != "-" {
			info, err := os.Stat(path)
			if err != nil {
				return nil, readError(path, err)
			}
			if info.IsDir() {
				if files, err = manifestsIn(path); err != nil {
					return nil, readError(path, err)
				}
			}
		}
		for _, file := range files {
			data, err := readFile(stdin, file)
			if err != nil {
				return nil, readError(file, err)
			}
			d, problems := Split(file, data)
			docs, ps = append(docs, d...), append(ps, problems...)
		}
	}
	return docs, ps.Err()
}

// readError returns a problem for a file that could not be read. The message does not repeat the name of the file.
func readError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return Problems{{Source: path, Field: "(file)", Message: err.Error() + ": name a manifest file, a folder of them, or - for standard input"}}
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	} else if stdin == nil {
		return nil, errors.New("there is no standard input")
	}
	// The additional byte distinguishes a file that is too large from a file of exactly the maximum size.
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("larger than %d MiB", maxBytes>>20)
	}
	return data, err
}

func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no *.yaml, *.yml or *.json file in it")
	}
	return files, nil
}

// Split parses the documents of a file. source is the name of the file in problems.
func Split(source string, data []byte) ([]Document, Problems) {
	var docs []Document
	var ps Problems
	for _, part := range splitYAML(data) {
		at := fmt.Sprintf("%s:%d", source, part.line)
		asJSON, err := yaml.YAMLToJSONStrict(part.text)
		if err != nil {
			ps = append(ps, Problem{Source: at, Field: "(document)", Message: "is no valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")})
			continue
		}
		if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
			continue // the document contains only comments
		}
		var value any
		if err := utiljson.Unmarshal(asJSON, &value); err != nil {
			ps = append(ps, Problem{Source: at, Field: "(document)", Message: "cannot be read: " + err.Error()})
			continue
		}
		object, ok := value.(map[string]any)
		if !ok {
			ps = append(ps, Problem{Source: at, Field: "(document)", Message: "is no object: a manifest has apiVersion, kind, metadata and spec"})
			continue
		}
		d := Document{Source: at, Object: object}
		if items, ok := object["items"].([]any); ok && d.text("apiVersion") == "v1" && d.text("kind") == "List" {
			for i, item := range items {
				o, ok := item.(map[string]any)
				if !ok {
					ps = append(ps, Problem{Source: at, Field: fmt.Sprintf("items[%d]", i), Message: "is no object"})
					continue
				}
				docs = append(docs, Document{Source: at, Object: o})
			}
			continue
		}
		docs = append(docs, d)
	}
	return docs, ps
}

type yamlPart struct {
	line int // number of the part's first non-empty line, from 1
	text []byte
}

// splitYAML splits a stream at document markers. Block scalars are indented, so a line that starts with "---" is always
// a marker.
func splitYAML(data []byte) []yamlPart {
	var parts []yamlPart
	cur := yamlPart{line: 1}
	flush := func() {
		if len(bytes.TrimSpace(cur.text)) > 0 {
			parts = append(parts, cur)
		}
	}
	line := 0
	for l := range bytes.Lines(data) {
		line++
		if rest, ok := bytes.CutPrefix(l, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			flush()
			cur = yamlPart{line: line + 1}
			// Content may follow the marker on the same line.
			if t := bytes.TrimSpace(rest); len(t) > 0 && t[0] != '#' {
				cur = yamlPart{line: line, text: append(slices.Clone(t), '\n')}
			}
			continue
		}
		// Leading empty lines are skipped, so that problems name the first line with content.
		if len(bytes.TrimSpace(l)) == 0 && len(cur.text) == 0 {
			cur.line = line + 1
			continue
		}
		cur.text = append(cur.text, l...)
	}
	flush()
	return parts
}

// Default fills in the defaults of an object like the API server, and returns everything that the API server would
// refuse. It modifies the document's object.
func Default(d Document) Problems {
	all, err := schemas()
	if err != nil {
		return Problems{{Source: d.Source, Field: "(schema)", Message: err.Error()}}
	}
	// Another version of Geobench's API is an error, but objects of other APIs are accepted.
	s, ok := all[d.text("kind")]
	if !ok || d.text("apiVersion") != v1alpha1.GroupVersion.String() {
		return kindProblem(d, all)
	}
	ps := s.admit(d.Object)
	for i := range ps {
		ps[i].Source, ps[i].Object = d.Source, strings.TrimSpace(s.kind+" "+d.name())
	}
	ps.Sort()
	return ps
}

// kindProblem explains why a document is not of one of Geobench's kinds. It returns nil if the document belongs to
// another API group.
func kindProblem(d Document, all map[string]*kindSchema) Problems {
	kinds := slices.Sorted(maps.Keys(all))
	apiVersion, kind := d.text("apiVersion"), d.text("kind")
	p := Problem{Source: d.Source, Object: strings.TrimSpace(kind + " " + d.name())}
	group, _, _ := strings.Cut(apiVersion, "/")
	_, ours := all[kind]
	switch {
	case apiVersion == "":
		p.Field, p.Message = "apiVersion", "is required: write "+v1alpha1.GroupVersion.String()
	case kind == "":
		p.Field, p.Message = "kind", "is required: one of "+strings.Join(kinds, ", ")
	case ours:
		p.Field, p.Value, p.Message = "apiVersion", apiVersion, fmt.Sprintf("%s is not known for kind %s: write %s", apiVersion, kind, v1alpha1.GroupVersion)
	case group == v1alpha1.GroupVersion.Group:
		p.Field, p.Value, p.Message = "kind", kind, fmt.Sprintf("%s is not one of %s", kind, strings.Join(kinds, ", "))
		if n, ok := check.Nearest(kind, kinds); ok {
			p.Message += fmt.Sprintf(" (did you mean %s?)", n)
		}
	default:
		return nil
	}
	return Problems{p}
}

// Build converts documents into a bundle. It sets the defaults of each object and validates it, without following
// references. It returns all problems, and a bundle of the valid objects.
func Build(docs []Document) (*Bundle, Problems) {
	b := &Bundle{
		Profiles:  map[string]*v1alpha1.NetworkProfile{},
		Databases: map[string]*v1alpha1.GeoDatabase{},
		sources:   map[string]string{},
	}
	var ps Problems
	for _, d := range docs {
		if problems := Default(d); len(problems) > 0 {
			ps = append(ps, problems...)
			continue
		}
		if d.text("apiVersion") != v1alpha1.GroupVersion.String() {
			b.Ignored = append(b.Ignored, strings.TrimSpace(d.text("apiVersion")+" "+d.text("kind")+" "+d.name()))
			continue
		}
		id := d.text("kind") + " " + d.name()
		// A cluster would replace the first object with the second without a warning.
		if first, ok := b.sources[id]; ok {
			ps = append(ps, Problem{Source: d.Source, Object: id, Field: "metadata.name", Value: d.name(),
				Message: fmt.Sprintf("%s is used twice: %s has the same kind and name", d.name(), first)})
			continue
		}
		b.sources[id] = d.Source
		if err := b.add(d); err != nil {
			ps = append(ps, Problem{Source: d.Source, Object: id, Field: "spec", Message: err.Error()})
		}
	}
	return b, ps
}

func (b *Bundle) add(d Document) error {
	data, err := json.Marshal(d.Object)
	if err != nil {
		return err
	}
	switch d.text("kind") {
	case "NetworkProfile":
		o := &v1alpha1.NetworkProfile{}
		b.Profiles[d.name()] = o
		return json.Unmarshal(data, o)
	case "GeoDatabase":
		o := &v1alpha1.GeoDatabase{}
		b.Databases[d.name()] = o
		return json.Unmarshal(data, o)
	case "BenchmarkRun":
		o := &v1alpha1.BenchmarkRun{}
		b.Runs = append(b.Runs, o)
		return json.Unmarshal(data, o)
	case "Experiment":
		o := &v1alpha1.Experiment{}
		b.Experiments = append(b.Experiments, o)
		return json.Unmarshal(data, o)
	}
	return fmt.Errorf("kind %s is in no bundle", d.text("kind"))
}

// Source returns the "file:line" at which an object starts, or "" if the object is not from a file.
func (b *Bundle) Source(kind, name string) string { return b.sources[kind+" "+name] }

// Load reads objects, sets their defaults and validates them. It checks each object against its CRD, resolves
// references, and applies the rules of package check. A validation error is of type Problems.
func Load(stdin io.Reader, a check.Abilities, paths ...string) (*Bundle, error) {
	docs, err := Read(stdin, paths...)
	var ps Problems
	if err != nil {
		var ok bool
		if ps, ok = check.As(err); !ok {
			return nil, err
		}
	}
	b, problems := Build(docs)
	ps = append(ps, problems...)
	// A reference to an invalid object must not be reported again as a missing object.
	broken := map[string]bool{}
	for _, p := range ps {
		broken[p.Object] = true
	}
	ps = append(ps, b.check(a, broken)...)
	if len(ps) == 0 && len(b.Profiles)+len(b.Databases)+len(b.Runs)+len(b.Experiments) == 0 {
		ps = append(ps, Problem{Source: strings.Join(paths, ", "), Field: "(files)",
			Message: "no NetworkProfile, GeoDatabase, BenchmarkRun or Experiment of " + v1alpha1.GroupVersion.String() + " is in them"})
	}
	return b, ps.Err()
}

// Check resolves references and runs the rules of package check on all objects.
func (b *Bundle) Check(a check.Abilities) Problems { return b.check(a, nil) }

// check is Check without the problems that only follow from broken objects. The keys of broken are "Kind name".
func (b *Bundle) check(a check.Abilities, broken map[string]bool) Problems {
	var ps Problems
	for _, name := range slices.Sorted(maps.Keys(b.Profiles)) {
		ps = append(ps, check.Profile(b.Profiles[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Databases)) {
		db := b.Databases[name]
		if ref := db.Spec.Network.ProfileRef; ref != nil && broken["NetworkProfile "+ref.Name] {
			continue
		}
		profile, p := b.profile(db)
		if p != nil {
			ps = append(ps, *p)
		}
		ps = append(ps, check.Database(db, profile, a)...)
	}
	for _, run := range b.Runs {
		if broken["GeoDatabase "+run.Spec.DatabaseRef.Name] {
			continue
		}
		db, p := b.database(run)
		if p != nil {
			ps = append(ps, *p)
			continue
		}
		ps = append(ps, check.Run(run, db, a)...)
	}
	for i := range ps {
		ps[i].Source = b.sources[ps[i].Object]
	}
	return ps
}

// Resolve returns the database of a run and the network profile of the database: inline, from the bundle, or built in.
func (b *Bundle) Resolve(run *v1alpha1.BenchmarkRun) (*v1alpha1.GeoDatabase, *v1alpha1.NetworkProfileSpec, error) {
	db, p := b.database(run)
	if p != nil {
		return nil, nil, Problems{*p}
	}
	profile, p := b.profile(db)
	if p != nil {
		return nil, nil, Problems{*p}
	}
	return db, profile, nil
}

func (b *Bundle) database(run *v1alpha1.BenchmarkRun) (*v1alpha1.GeoDatabase, *Problem) {
	name := run.Spec.DatabaseRef.Name
	if db, ok := b.Databases[name]; ok {
		return db, nil
	}
	return nil, b.missing("BenchmarkRun "+run.Name, "spec.databaseRef.name", "GeoDatabase", name, slices.Sorted(maps.Keys(b.Databases)), nil)
}

func (b *Bundle) profile(db *v1alpha1.GeoDatabase) (*v1alpha1.NetworkProfileSpec, *Problem) {
	n := &db.Spec.Network
	if n.Profile != nil {
		return n.Profile, nil
	}
	// A database that runs outside the cluster has real links and needs no profile.
	if n.ProfileRef == nil && db.Spec.External != nil {
		return &v1alpha1.NetworkProfileSpec{}, nil
	}
	if n.ProfileRef == nil {
		return nil, &Problem{Object: "GeoDatabase " + db.Name, Field: "spec.network", Message: "neither profile nor profileRef is set"}
	}
	// A profile of the bundle takes precedence over a built-in profile of the same name.
	if p, ok := b.Profiles[n.ProfileRef.Name]; ok {
		return &p.Spec, nil
	}
	if p, ok := presets.Lookup(n.ProfileRef.Name); ok {
		return &p.Spec, nil
	}
	return nil, b.missing("GeoDatabase "+db.Name, "spec.network.profileRef.name", "NetworkProfile", n.ProfileRef.Name,
		slices.Sorted(maps.Keys(b.Profiles)), presets.Names())
}

func (b *Bundle) place() string { return cmp.Or(b.Place, "the files") }

// missing returns a problem for a reference to an object that does not exist, with the existing names.
func (b *Bundle) missing(object, path, kind, name string, have, builtIn []string) *Problem {
	p := &Problem{Object: object, Field: path, Value: name, NotFound: true}
	p.Message = fmt.Sprintf("there is no %s %s in %s", kind, name, b.place())
	if n, ok := check.Nearest(name, append(slices.Clone(have), builtIn...)); ok {
		p.Message += fmt.Sprintf(" (did you mean %s?)", n)
	}
	if len(have) > 0 {
		p.Message += "; they have " + strings.Join(have, ", ")
	}
	if len(builtIn) > 0 {
		p.Message += "; built in are " + strings.Join(builtIn, ", ")
	}
	return p
}
