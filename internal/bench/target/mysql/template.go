package mysql

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/geobench/geobench/internal/bench/workload/sqlform"
)

// template is a parsed statement of a form: texts that alternate with parameters. Parameters are sent as literals.
type template struct {
	parts []part
	// selects is the number of statements in the template that return rows. Each of them has a separate result.
	selects int
}

// part is a text, followed by a parameter or by a repetition.
type part struct {
	text string
	// parameter is the number of the parameter after the text, counted from 1, or 0 if there is none.
	parameter int
	repeated  *repetition
}

// repetition is a template that is repeated for each element of its array parameters. between separates two elements.
type repetition struct {
	template
	between string
	arrays  []int // numbers of the parameters that may be arrays, from 1
}

// verbs matches the start of each statement.
var verbs = regexp.MustCompile(`(^|; |<; >)(select|insert|update|delete)\b`)

// newTemplate parses the text of sqlform.Statement.MySQLText. It adds the comment said to each statement, because the
// server reports only the statement that it is executing.
func newTemplate(text, said string) (*template, error) {
	t := &template{}
	rest, err := t.parse(verbs.ReplaceAllString(text, "${1}${2}"+strings.ReplaceAll(said, "$", "$$")), false)
	if err == nil && rest != "" {
		err = fmt.Errorf("nothing opens the bracket that is closed before %q", rest)
	}
	return t, err
}

// parse parses text to its end or, within a repetition, to the closing bracket. It returns the remaining text.
func (t *template) parse(text string, within bool) (rest string, err error) {
	begins := !within // whether the next text starts a statement
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
			// If statements are repeated, each repetition of a SELECT returns a separate result.
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

// append appends the statements with these parameters to b. It also returns the number of results that return rows.
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
	// Len is negative for a parameter that is no array, so such a parameter does not determine the number of repetitions.
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
