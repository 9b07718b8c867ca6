package main

import (
	"bytes"
	"encoding/json"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// buildType refers to the section of docs/security.md that defines the parameters below.
	buildType = repositoryURL + "/blob/main/docs/security.md#what-was-built-from-what"
	// predicateType is the type of SLSA provenance, version 1 (slsa.dev/spec/v1.0/provenance).
	predicateType = "https://slsa.dev/provenance/v1"
)

// provenance returns the statement of how the program and the image were built.
func provenance(p *program, i *image, builder string) ([]byte, error) {
	made := []artifact{p.artifact, i.artifact, {i.tag, i.id}}
	return provenanceOf(p, made, map[string]any{"targets": []any{"bin/geobench", "image"}, "image": i.tag}, builder)
}

// provenanceOf returns a statement of the commit, the Go version and the modules from which the files in made were
// built. The build information comes from program p, which the files contain. parameters are the parameters of the
// build. The statement is not signed.
func provenanceOf(p *program, made []artifact, parameters map[string]any, builder string) ([]byte, error) {
	parameters["repository"], parameters["commit"] = repositoryURL, p.commit
	external, err := structpb.NewStruct(parameters)
	if err != nil {
		return nil, err
	}
	settings := map[string]any{"go": p.info.GoVersion}
	for _, key := range []string{"-tags", "-trimpath", "CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64"} {
		if v := p.setting(key); v != "" {
			settings[key] = v
		}
	}
	internal, err := structpb.NewStruct(settings)
	if err != nil {
		return nil, err
	}
	sources := []*intoto.ResourceDescriptor{{Uri: "git+" + repositoryURL + "@" + p.commit, Digest: map[string]string{"gitCommit": p.commit}}}
	for _, d := range p.info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		sources = append(sources, &intoto.ResourceDescriptor{Uri: purl(d.Path, d.Version)[0].Locator})
	}
	predicate := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{BuildType: buildType, ExternalParameters: external, InternalParameters: internal, ResolvedDependencies: sources},
		RunDetails:      &slsa.RunDetails{Builder: &slsa.Builder{Id: builder}},
	}
	if err := predicate.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	fields := &structpb.Struct{}
	if err := protojson.Unmarshal(text, fields); err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicateType, Predicate: fields}
	for _, a := range made {
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: a.name, Digest: map[string]string{"sha256": a.sha256}})
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if text, err = protojson.Marshal(s); err != nil {
		return nil, err
	}
	// Format the output again, because protojson varies its white space on purpose.
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
