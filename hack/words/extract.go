package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
)

// text is the prose of a file, divided into paragraphs. Source contains the line number in the file of each element of
// Lines.
type text struct {
	Lines  []string
	Source []int
}

// add appends a line to the current paragraph.
func (t *text) add(line string, source int) {
	t.Lines, t.Source = append(t.Lines, line), append(t.Source, source)
}

// end closes the current paragraph with an additional sentence, which is an exclamation mark. Otherwise Vale could join
// two paragraphs. It does so if the first does not end with a full stop, or if the second starts with an unexported
// name in lower case.
func (t *text) end() {
	if n := len(t.Lines); n > 0 && t.Lines[n-1] != "!" {
		t.add("!", t.Source[n-1])
	}
}

// title adds a heading as a question, because the rules accept questions such as `What is measured`.
func (t *text) title(line string, source int) {
	t.end()
	t.add(line+"?", source)
	t.end()
}

// chunkSize is the number of bytes after which a text is split. The time that Vale takes to locate a finding is
// proportional to the size of the file.
const chunkSize = 4000

// chunks splits the text into chunks of about size bytes. It splits only between paragraphs.
func (t *text) chunks(size int) []text {
	var of []text
	begin, bytes := 0, 0
	for i, line := range t.Lines {
		bytes += len(line) + 1
		if i == len(t.Lines)-1 || bytes >= size && line == "!" {
			of = append(of, text{t.Lines[begin : i+1], t.Source[begin : i+1]})
			begin, bytes = i+1, 0
		}
	}
	return of
}

// paragraphEnd returns the number, in the file, of the last line of the paragraph that contains line i of the text.
func (t *text) paragraphEnd(i int) int {
	for i+1 < len(t.Lines) && t.Lines[i+1] != "!" {
		i++
	}
	return t.Source[i]
}

var (
	fence     = regexp.MustCompile("^\\s*(?:>\\s*)?(?:[-*+]\\s+|\\d+[.)]\\s+)?(```+|~~~+)")
	remark    = regexp.MustCompile(`(?s)<!--.*?-->`)
	codeSpan  = regexp.MustCompile("``[^\n]+?``|`[^`\n]+(?:\n[^`\n]+)?`")
	image     = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)`)
	target    = regexp.MustCompile(`\]\([^)\s]*(?:\s"[^"]*")?\)`)
	tag       = regexp.MustCompile(`</?[a-zA-Z][^>\n]*>`)
	emphasis  = regexp.MustCompile(`\*+|[\[\]]`)
	heading   = regexp.MustCompile(`^#{1,6}\s+`)
	listItem  = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+`)
	rule      = regexp.MustCompile(`^\s*(?:-{3,}|={3,}|\*{3,})\s*$`)
	separator = regexp.MustCompile(`^\s*\|[-:| ]+$`)
)

// hide replaces code with a word of the same length, so that the code counts as one word.
func hide(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return 'x'
	}, s)
}

// blank replaces a match with its line breaks.
func blank(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) }

// markdown returns the prose of a Markdown file. Each list item and each cell of a table is a paragraph.
func markdown(body string) text {
	lines := strings.Split(body, "\n")
	open := ""
	for i, line := range lines {
		m := fence.FindStringSubmatch(line)
		if open == "" && m == nil {
			continue
		}
		lines[i] = ""
		if open == "" {
			open = m[1]
		} else if m != nil && strings.HasPrefix(m[1], open) {
			open = ""
		}
	}
	body = remark.ReplaceAllStringFunc(strings.Join(lines, "\n"), blank)
	body = codeSpan.ReplaceAllStringFunc(body, hide)
	body = image.ReplaceAllStringFunc(body, blank)
	body = target.ReplaceAllStringFunc(body, blank)
	body = tag.ReplaceAllStringFunc(body, blank)

	var t text
	table := false
	for i, line := range strings.Split(body, "\n") {
		n := i + 1
		line = strings.TrimPrefix(strings.TrimSpace(line), "> ")
		row := strings.HasPrefix(line, "|")
		switch {
		case line == "" || separator.MatchString(line) || rule.MatchString(line):
			t.end()
		case heading.MatchString(line):
			t.title(emphasis.ReplaceAllString(heading.ReplaceAllString(line, ""), ""), n)
		case row:
			for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, " "), "|") {
				cell = strings.TrimSpace(emphasis.ReplaceAllString(cell, ""))
				if cell != "" && !table {
					t.title(cell, n)
				} else if cell != "" {
					t.end()
					t.add(cell, n)
				}
			}
			t.end()
		default:
			if marker := listItem.FindString(line); marker != "" {
				t.end()
				line = line[len(marker):]
			}
			t.add(emphasis.ReplaceAllString(line, ""), n)
		}
		table = row
	}
	t.end()
	return t
}

var (
	generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	directiveLine = regexp.MustCompile(`^//(?:\s?\+\w|[a-z]+:\S|nolint\b)`)
	output        = regexp.MustCompile(`^(?:Unordered output|Output):`)
)

// generated reports whether a Go file states that it is generated.
func generated(body []byte) bool { return generatedLine.Match(body[:min(len(body), 1000)]) }

// directive reports whether a trimmed line of a Go file is a directive for the compiler or a tool. Examples are build
// constraints, nolint comments and markers of kubebuilder.
func directive(line string) bool { return directiveLine.MatchString(line) }

// goComments returns the comments of a Go file.
func goComments(name string, body []byte) text {
	var t text
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(body))
	var s scanner.Scanner
	// Ignore syntax errors, because the compiler reports them.
	s.Init(file, body, func(token.Position, string) {}, scanner.ScanComments)
	var g group
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.COMMENT {
			continue
		}
		line := file.Line(pos)
		begin := file.Offset(file.LineStart(line))
		alone := len(bytes.TrimSpace(body[begin:file.Offset(pos)])) == 0
		if !alone || line != g.next {
			t.end()
			g = group{}
		}
		g.add(&t, literal, line)
		g.next = line + strings.Count(literal, "\n") + 1
		if !alone {
			g.next = 0
		}
	}
	t.end()
	return t
}

// group is the state of reading a comment that may extend over several lines.
type group struct {
	next  int  // the line on which the comment would continue; 0 for none
	list  bool // the current line belongs to a list item because of its indentation
	ended bool // the remaining lines are the expected output of an example
}

func (g *group) add(t *text, literal string, line int) {
	if directive(literal) {
		return
	}
	literal = strings.TrimPrefix(literal, "//")
	if block, ok := strings.CutPrefix(literal, "/*"); ok {
		literal = strings.TrimSuffix(block, "*/")
	}
	for i, l := range strings.Split(literal, "\n") {
		g.line(t, strings.TrimPrefix(l, " "), line+i)
	}
}

// line adds a line of a comment. As in gofmt, indented lines are code unless they belong to a list.
func (g *group) line(t *text, line string, source int) {
	indented := line != strings.TrimLeft(line, " \t")
	prose := codeSpan.ReplaceAllStringFunc(strings.TrimSpace(line), hide)
	marker := listItem.FindString(prose)
	g.ended = g.ended || output.MatchString(prose)
	switch {
	case g.ended || prose == "":
		t.end()
	case heading.MatchString(prose):
		t.title(heading.ReplaceAllString(prose, ""), source)
	case marker != "":
		t.end()
		g.list = true
		t.add(prose[len(marker):], source)
	case indented && !g.list:
		t.end()
	default:
		g.list = g.list && indented
		t.add(prose, source)
	}
}
