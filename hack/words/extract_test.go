package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// show formats a text with one line for each paragraph, such as "12,13 words of line 12 | words of line 13".
func show(t text) string {
	var out strings.Builder
	var words, sources []string
	for i, line := range t.Lines {
		if line == "!" {
			fmt.Fprintf(&out, "%s %s\n", strings.Join(sources, ","), strings.Join(words, " | "))
			words, sources = nil, nil
			continue
		}
		words, sources = append(words, line), append(sources, fmt.Sprint(t.Source[i]))
	}
	if len(words) > 0 {
		out.WriteString("open paragraph: " + strings.Join(words, " | "))
	}
	return out.String()
}

func TestMarkdown(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"paragraphs":      {"one\ntwo\n\nthree\n", "1,2 one | two\n4 three\n"},
		"no newline":      {"one", "1 one\n"},
		"empty":           {"", ""},
		"headings":        {"# What is it\ntext\n## More\n", "1 What is it?\n2 text\n3 More?\n"},
		"fences":          {"a\n```sh\nb\n\nc\n```\nd\n~~~~\n```\ne\n~~~~\nf\n", "1 a\n7 d\n12 f\n"},
		"fence in a list": {"- a\n  ```\n  b\n  ```\n  c\n", "1 a\n5 c\n"},
		"open fence":      {"a\n```\nb\n", "1 a\n"},
		"code":            {"a `b c` d ``e ` f`` g", "1 a xxxxx d xxxxxxxxx g\n"},
		"code over lines": {"a `b\nc` d\n", "1,2 a xx | xx d\n"},
		"lone backticks":  {"a ` b\n\nc ` d", "1 a ` b\n3 c ` d\n"},
		"lists":           {"- a\n  b\n- c\n1. d\n2) e\n* f\n+ g\n", "1,2 a | b\n3 c\n4 d\n5 e\n6 f\n7 g\n"},
		"emphasis":        {"**Bold.** *it* a_b", "1 Bold. it a_b\n"},
		"links":           {"[what](a/what.md) and ![what](x.png \"what\") [b][c]", "1 what and  bc\n"},
		"tables":          {"| what it is | b |\n|---|:-:|\n| `c` | d e |\n\nf", "1 what it is?\n1 b?\n3 xxx\n3 d e\n5 f\n"},
		"escaped pipe":    {"|a|\n|-|\n|b \\| c|\n", "1 a?\n3 b   c\n"},
		"remarks":         {"a\n<!-- what\nis -->\nb <br> c", "1 a\n4 b  c\n"},
		"quotes":          {"> a\n> b", "1,2 a | b\n"},
		"rules":           {"a\n---\nb", "1 a\n3 b\n"},
		"comparisons":     {"a < b > c", "1 a < b > c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(test.want, show(markdown(test.body))); d != "" {
				t.Errorf("prose (-want +got):\n%s", d)
			}
		})
	}
}

func TestGoComments(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"doc":        {"// Package a is\n// one.\npackage a\n", "1,2 Package a is | one.\n"},
		"paragraphs": {"// a\n//\n// b\npackage a\n", "1 a\n3 b\n"},
		"neighbours": {"package a\n\n// a\n\n// b\nvar x int\n", "3 a\n5 b\n"},
		"trailing":   {"package a\n\nvar (\n\tx int // a\n\ty int // b\n\t// c\n\tz int\n)\n", "4 a\n5 b\n6 c\n"},
		"code":       {"// a\n//\n//\tx := what(is)\n//\n// b\npackage a\n", "1 a\n5 b\n"},
		"lists":      {"// a:\n//   - b\n//     c\n//   - d\n//\n// e\npackage a\n", "1 a:\n2,3 b | c\n4 d\n6 e\n"},
		"heading":    {"// # What it does\n//\n// a\npackage a\n", "1 What it does?\n3 a\n"},
		"directives": {"//go:build linux\n\n// +kubebuilder:object:root=true\n//+x\n//lint:ignore U1000 what\n//nolint\n" +
			"// a\npackage a\n", "7 a\n"},
		"block":       {"/* a\n   b\n*/\npackage a\n", "1 a\n"},
		"strings":     {"package a\n\nvar x = `\n// what is\n` + \"// b\"\n", ""},
		"output":      {"package a\n\nfunc Example() {\n\t// Output:\n\t// what is\n}\n// a\n", "7 a\n"},
		"ended by }":  {"package a\n\nfunc f() {\n\t// a\n}\n\n// b\nvar x int\n", "4 a\n7 b\n"},
		"code spans":  {"// a `b c` d\npackage a\n", "1 a xxxxx d\n"},
		"not a mark":  {"// a +b\n// http://x\npackage a\n", "1,2 a +b | http://x\n"},
		"broken code": {"package a\n\n// a\nfunc {\"\n// b\n", "3 a\n5 b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(test.want, show(goComments("a.go", []byte(test.body)))); d != "" {
				t.Errorf("comments (-want +got):\n%s", d)
			}
		})
	}
}

func TestChunks(t *testing.T) {
	whole := markdown("a\nb\n\nccc\n\nd\n")
	for size, want := range map[int]string{
		1: "[a b !] [ccc !] [d !]", 8: "[a b ! ccc !] [d !]", 100: "[a b ! ccc ! d !]",
	} {
		var got []string
		n := 0
		for _, c := range whole.chunks(size) {
			got = append(got, fmt.Sprint(c.Lines))
			if d := cmp.Diff(whole.Source[n:n+len(c.Lines)], c.Source); d != "" {
				t.Errorf("size %d: sources (-want +got):\n%s", size, d)
			}
			n += len(c.Lines)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("size %d: got %s, want %s", size, s, want)
		}
	}
	if empty := markdown(""); len(empty.chunks(10)) != 0 {
		t.Error("an empty file has chunks, want none")
	}
}

func TestLongLines(t *testing.T) {
	wide := strings.Repeat("ä", 120)
	body := wide + "\n\t" + wide + "\n// +kubebuilder:validation:XValidation:rule=" + wide +
		"\n\t//go:generate " + wide + "\n// " + wide + "\r\n"
	var got []string
	for _, f := range longLines("a.go", body) {
		got = append(got, f.String())
	}
	want := []string{
		"a.go:2: LineLength: 121 columns, 1 more than 120",
		"a.go:5: LineLength: 123 columns, 3 more than 120",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("long lines (-want +got):\n%s", d)
	}
}
