package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/package-url/packageurl-go"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

// repositoryURL is the URL of the source repository.
const repositoryURL = "https://github.com/geobench/geobench"

// describe writes two SBOMs (SPDX 2.3) and a provenance statement (in-toto, SLSA v1) of a program and an image. The
// output depends only on the two files, so every build of the same commit yields the same bytes.
func describe(root string, args []string) error {
	flags := flag.NewFlagSet("sbom", flag.ContinueOnError)
	binary := flags.String("binary", filepath.Join(root, "bin", "geobench"), "the program")
	archive := flags.String("image", filepath.Join(root, "out", "geobench.tar"), "the image that holds it, as make image writes it")
	builder := flags.String("builder", repositoryURL+"/blob/main/Makefile", "`URI` of who builds, for the provenance")
	out := flags.String("o", filepath.Join(root, "out"), "folder to write into")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usageError("sbom: unexpected argument " + flags.Arg(0))
	}
	p, err := readProgram(*binary)
	if err != nil {
		return err
	}
	i, err := readImage(*archive)
	if err != nil {
		return err
	}
	if err := i.holds(p); err != nil {
		return err
	}
	at, err := sourceDate(p)
	if err != nil {
		return err
	}
	statement, err := provenance(p, i, *builder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content func() ([]byte, error)
	}{
		{"geobench.spdx.json", func() ([]byte, error) { return writeSPDX(programSBOM(p, at)) }},
		{"geobench-image.spdx.json", func() ([]byte, error) { return writeSPDX(imageSBOM(p, i, at)) }},
		{"geobench.intoto.json", func() ([]byte, error) { return statement, nil }},
	} {
		content, err := file.content()
		if err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		name := filepath.Join(*out, file.name)
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

// sourceDate returns SOURCE_DATE_EPOCH (reproducible-builds.org) if it is set, and otherwise the time of the commit.
func sourceDate(p *program) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return p.committed.UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func writeSPDX(doc *spdx.Document) ([]byte, error) {
	var b bytes.Buffer
	err := spdxjson.Write(doc, &b, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
	return b.Bytes(), err
}

// programSBOM returns the SBOM of a program. It lists the modules that the linker recorded in the program, which may
// differ from the modules in go.mod.
func programSBOM(p *program, at time.Time) *spdx.Document {
	doc := document(p.artifact, at)
	addProgram(doc, p)
	relate(doc, "DOCUMENT", common.TypeRelationshipDescribe, programID)
	return doc
}

// imageSBOM returns the SBOM of an image. It lists the program in the image and the modules of the program.
func imageSBOM(p *program, i *image, at time.Time) *spdx.Document {
	const id = common.ElementID("Image")
	doc := document(i.artifact, at)
	colon := strings.LastIndexByte(i.tag, ':') // the last colon, because the name of the registry may contain a port
	whole := newPackage(id, i.tag[:colon], i.tag[colon+1:], "CONTAINER")
	whole.PackageFileName, whole.PackageChecksums = i.name, sha256Of(i.sha256)
	whole.PackageLicenseDeclared = "Apache-2.0"
	whole.PackageComment = "sha256:" + i.id + " is the digest of the image's configuration, which names it wherever it is loaded."
	doc.Packages = append(doc.Packages, whole)
	addProgram(doc, p)
	relate(doc, "DOCUMENT", common.TypeRelationshipDescribe, id)
	relate(doc, id, common.TypeRelationshipContains, programID)
	return doc
}

// archiveSBOM returns the SBOM of an archive. It lists the program in the archive and the modules of the program.
func archiveSBOM(p *program, a artifact, at time.Time) *spdx.Document {
	const id = common.ElementID("Archive")
	doc := document(a, at)
	whole := newPackage(id, a.name, p.commit, "ARCHIVE")
	whole.PackageFileName, whole.PackageChecksums = a.name, sha256Of(a.sha256)
	whole.PackageLicenseDeclared = "Apache-2.0"
	doc.Packages = append(doc.Packages, whole)
	addProgram(doc, p)
	relate(doc, "DOCUMENT", common.TypeRelationshipDescribe, id)
	relate(doc, id, common.TypeRelationshipContains, programID)
	return doc
}

const programID = common.ElementID("Program")

func document(a artifact, at time.Time) *spdx.Document {
	return &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: a.name,
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s", repositoryURL, a.name, a.sha256),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "geobench-hack-tools-sbom"}, {CreatorType: "Organization", Creator: "Geobench"}},
			Created:  at.Format(time.RFC3339),
		},
	}
}

// addProgram adds the program, its modules, and the standard library of Go to an SBOM.
func addProgram(doc *spdx.Document, p *program) {
	main := newPackage(programID, p.info.Main.Path, p.info.Main.Version, "APPLICATION")
	main.PackageFileName, main.PackageChecksums = p.name, sha256Of(p.sha256)
	main.PackageDownloadLocation = "git+" + repositoryURL + "@" + p.commit
	main.PackageLicenseDeclared = "Apache-2.0"
	main.PackageExternalReferences = purl(p.info.Main.Path, p.commit)
	main.PackageSourceInfo = fmt.Sprintf("built from commit %s with %s", p.commit, p.info.GoVersion)
	doc.Packages = append(doc.Packages, main)
	library := newPackage("Module-stdlib", "stdlib", strings.TrimPrefix(p.info.GoVersion, "go"), "LIBRARY")
	library.PackageLicenseDeclared, library.PackageDownloadLocation = "BSD-3-Clause", "https://go.dev/dl/"+p.info.GoVersion+".src.tar.gz"
	library.PackageExternalReferences = purl("stdlib", library.PackageVersion)
	doc.Packages = append(doc.Packages, library)
	relate(doc, programID, common.TypeRelationshipDependsOn, library.PackageSPDXIdentifier)
	for _, d := range p.info.Deps {
		m := addModule(doc, d)
		relate(doc, programID, common.TypeRelationshipDependsOn, m.PackageSPDXIdentifier)
	}
}

// notInID matches characters that are not allowed in an SPDX identifier.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func addModule(doc *spdx.Document, d *debug.Module) *spdx.Package {
	if d.Replace != nil {
		d = d.Replace
	}
	m := newPackage(common.ElementID("Module-"+notInID.ReplaceAllString(d.Path, "-")+"-"+notInID.ReplaceAllString(d.Version, "-")), d.Path, d.Version, "LIBRARY")
	m.PackageDownloadLocation = fmt.Sprintf("https://proxy.golang.org/%s/@v/%s.zip", escapeUpper(d.Path), escapeUpper(d.Version))
	m.PackageExternalReferences = purl(d.Path, d.Version)
	m.PackageSourceInfo = "go.sum " + cmp.Or(d.Sum, "has no sum of it")
	doc.Packages = append(doc.Packages, m)
	return m
}

// escapeUpper returns the path or version of a module in the form that the module proxy expects. Each upper-case letter
// is replaced by an exclamation mark and the lower-case letter.
func escapeUpper(s string) string {
	var b strings.Builder
	for _, r := range s {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func newPackage(id common.ElementID, name, version, purpose string) *spdx.Package {
	const unknown = "NOASSERTION"
	return &spdx.Package{
		PackageSPDXIdentifier: id, PackageName: name, PackageVersion: version, PrimaryPackagePurpose: purpose, PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		PackageSupplier: &common.Supplier{Supplier: unknown},
	}
}

func purl(module, version string) []*spdx.PackageExternalReference {
	namespace, name := "", module
	if i := strings.LastIndexByte(module, '/'); i >= 0 {
		namespace, name = module[:i], module[i+1:]
	}
	return []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, version, nil, "").String(),
	}}
}

func sha256Of(digest string) []common.Checksum {
	return []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
}

func relate(doc *spdx.Document, from common.ElementID, how string, to common.ElementID) {
	doc.Relationships = append(doc.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), RefB: common.MakeDocElementID("", string(to)), Relationship: how,
	})
}
