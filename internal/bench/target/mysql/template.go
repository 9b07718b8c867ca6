package mysql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// template is a statement of a form in the form in which it is sent: texts, with parameters between them as literals.
type template struct {
	parts []part
	// selects is the number of its statements that return rows, each with a separate result.
	selects int
}

// part is a text, followed by a parameter or by a repetition for each element of arrays.
type part struct {
	text string
	// parameter counts from 1; 0 is none.
	parameter int
	repeated  *repetition
}

// repetition is repeated for each element of arrays; between separates two elements.
type repetition struct {
	template
	between string
	arrays  []int // the parameters that may be arrays, from 1
}

// verbs are the beginnings of statements.
var verbs = regexp.MustCompile(`(^|; |<; >)(select|insert|update|delete)\b`)

// newTemplate parses the text of sqlform.Statement.MySQLText. said is a comment that each of its statements gets,
// because the server shows one of them at a time.
func newTemplate(text, said string) (*template, error) {
	t := &template{}
	rest, err := t.parse(verbs.ReplaceAllString(text, "${1}${2}"+strings.ReplaceAll(said, "$", "$$")), false)
	if err == nil && rest != "" {
		err = fmt.Errorf("nothing opens the bracket that is closed before %q", rest)
	}
	return t, err
}

// parse parses up to the end of the text or, within a repetition, to its bracket, and returns the remaining text.
func (t *template) parse(text string, within bool) (rest string, err error) {
	begins := !within // whether the following text starts a statement
	literal := func(s string) {
		if begins && strings.HasPrefix(s, "select") {
			t.selects++
		}
		t.selects += strings.Count(s, "; select")
		if s != "" {
			begins = false
		}
	}
	for {
		at := strings.IndexAny(text, "$[]")
		if at < 0 {
			literal(text)
			t.parts = append(t.parts, part{text: text})
			if within {
				return "", fmt.Errorf("nothing closes a bracket before %q", text)
			}
			return "", nil
		}
		literal(text[:at])
		p := part{text: text[:at]}
		switch text[at] {
		case ']':
			t.parts = append(t.parts, p)
			if !within {
				return text[at:], nil
			}
			return text[at+1:], nil
		case '$':
			text = text[at+1:]
			for len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
				p.parameter, text = 10*p.parameter+int(text[0]-'0'), text[1:]
			}
			if p.parameter == 0 {
				return "", fmt.Errorf("no number is behind the $ before %q", text)
			}
		default:
			p.repeated = &repetition{between: ", "}
			text = text[at+1:]
			if strings.HasPrefix(text, "<") {
				p.repeated.between, text, _ = strings.Cut(text[1:], ">")
			}
			if text, err = p.repeated.parse(text, true); err != nil {
				return "", err
			}
			if p.repeated.between == "; " && strings.HasPrefix(p.repeated.parts[0].text, "select") {
				p.repeated.selects++
			}
			for i := range p.repeated.parts {
				if n := p.repeated.parts[i].parameter; n > 0 {
					p.repeated.arrays = append(p.repeated.arrays, n)
				}
			}
		}
		t.parts = append(t.parts, p)
	}
}

// append appends the statements with these parameters, and returns how many results their rows come in.
func (t *template) append(b []byte, args []sqlform.Arg) (text []byte, results int) {
	results = t.selects
	for i := range t.parts {
		p := &t.parts[i]
		b = append(b, p.text...)
		switch {
		case p.parameter > 0:
			b = args[p.parameter-1].AppendLiteral(b)
		case p.repeated != nil:
			var n int
			b, n = p.repeated.append(b, args)
			results += n
		}
	}
	return b, results
}

func (r *repetition) append(b []byte, args []sqlform.Arg) (text []byte, results int) {
	n := 0
	for _, a := range r.arrays {
		n = max(n, args[a-1].Len())
	}
	for element := range n {
		if element > 0 {
			b = append(b, r.between...)
		}
		for i := range r.parts {
			p := &r.parts[i]
			b = append(b, p.text...)
			if p.parameter == 0 {
				continue
			}
			if a := &args[p.parameter-1]; a.Len() >= 0 {
				b = a.AppendElement(b, element)
			} else {
				b = a.AppendLiteral(b)
			}
		}
	}
	return b, n * r.selects
}
