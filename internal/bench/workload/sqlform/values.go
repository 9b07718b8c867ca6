package sqlform

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Values are encoded as text, in a format that COPY, parameters and results share in every database.

// Numbers of decimal places: of amounts of money, and of taxes and discounts.
const (
	moneyDigits = 2
	shareDigits = 4
)

// appendFixed appends n / 10^digits.
func appendFixed(b []byte, n int64, digits int) []byte {
	u := uint64(n)
	if n < 0 {
		b, u = append(b, '-'), -u
	}
	scale := uint64(1)
	for range digits {
		scale *= 10
	}
	b = append(strconv.AppendUint(b, u/scale, 10), '.')
	at := len(b)
	for u %= scale; digits > 0; digits-- {
		b, u = append(b, byte('0'+u%10)), u/10
	}
	for i, j := at, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

const dateLayout = "2006-01-02 15:04:05.999999"

// appendDate appends a time in microseconds since 1970, in UTC.
func appendDate(b []byte, us uint64) []byte {
	return time.UnixMicro(int64(us)).UTC().AppendFormat(b, dateLayout)
}

// Columns encodes rows in the text format of COPY.
type Columns struct {
	// Bytes are the encoded rows so far.
	Bytes []byte
	begun bool
}

// Begin starts the next row.
func (c *Columns) Begin() { c.begun = false }

// End ends the row.
func (c *Columns) End() { c.Bytes = append(c.Bytes, '\n') }

func (c *Columns) next() {
	if c.begun {
		c.Bytes = append(c.Bytes, '\t')
	}
	c.begun = true
}

// Int appends an integer.
func (c *Columns) Int(n int64) {
	c.next()
	c.Bytes = strconv.AppendInt(c.Bytes, n, 10)
}

// Money appends an amount in cents.
func (c *Columns) Money(cents int64) {
	c.next()
	c.Bytes = appendFixed(c.Bytes, cents, moneyDigits)
}

// Share appends a tax or a discount in 1/10,000.
func (c *Columns) Share(n int64) {
	c.next()
	c.Bytes = appendFixed(c.Bytes, n, shareDigits)
}

// Date appends a time, given in microseconds since 1970.
func (c *Columns) Date(us uint64) {
	c.next()
	c.Bytes = appendDate(c.Bytes, us)
}

// Null appends NULL.
func (c *Columns) Null() {
	c.next()
	c.Bytes = append(c.Bytes, '\\', 'N')
}

// Text appends a text.
func (c *Columns) Text(text []byte) {
	c.next()
	for _, x := range text {
		switch x {
		case '\\':
			c.Bytes = append(c.Bytes, '\\', '\\')
		case '\t':
			c.Bytes = append(c.Bytes, '\\', 't')
		case '\n':
			c.Bytes = append(c.Bytes, '\\', 'n')
		case '\r':
			c.Bytes = append(c.Bytes, '\\', 'r')
		default:
			c.Bytes = append(c.Bytes, x)
		}
	}
}

// Arg is a parameter of a statement.
type Arg struct {
	kind  argKind
	n     int64
	text  []byte
	array []int64
}

type argKind uint8

const (
	argInt argKind = iota
	argMoney
	argDate
	argText
	argInts
	argMonies
)

// Int returns an integer parameter, Money an amount in cents, and Date a time in microseconds since 1970.
func Int[N ~int | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](n N) Arg {
	return Arg{kind: argInt, n: int64(n)}
}
func Money(cents int64) Arg { return Arg{kind: argMoney, n: cents} }
func Date(us uint64) Arg    { return Arg{kind: argDate, n: int64(us)} }

// Text returns a text parameter. The statement must be queued before text changes.
func Text(text []byte) Arg { return Arg{kind: argText, text: text} }

// Ints returns an array of integers, and Monies an array of amounts in cents.
func Ints(n []int64) Arg       { return Arg{kind: argInts, array: n} }
func Monies(cents []int64) Arg { return Arg{kind: argMonies, array: cents} }

// Append appends the parameter as text, with arrays in PostgreSQL's format.
func (a *Arg) Append(b []byte) []byte {
	switch a.kind {
	case argInt:
		return strconv.AppendInt(b, a.n, 10)
	case argMoney:
		return appendFixed(b, a.n, moneyDigits)
	case argDate:
		return appendDate(b, uint64(a.n))
	case argText:
		return append(b, a.text...)
	}
	b = append(b, '{')
	for i := range a.array {
		if i > 0 {
			b = append(b, ',')
		}
		b = a.AppendElement(b, i)
	}
	return append(b, '}')
}

// Len returns the number of elements of an array, or -1 for any other parameter.
func (a *Arg) Len() int {
	if a.kind == argInts || a.kind == argMonies {
		return len(a.array)
	}
	return -1
}

// AppendElement appends element i of an array as a number.
func (a *Arg) AppendElement(b []byte, i int) []byte {
	if a.kind == argMonies {
		return appendFixed(b, a.array[i], moneyDigits)
	}
	return strconv.AppendInt(b, a.array[i], 10)
}

// AppendLiteral appends the parameter as an SQL literal. The parameter must not be an array. Strings use backslash
// escapes, as in MySQL.
func (a *Arg) AppendLiteral(b []byte) []byte {
	switch a.kind {
	case argInt, argMoney:
		return a.Append(b)
	case argDate:
		return append(a.Append(append(b, '\'')), '\'')
	}
	b = append(b, '\'')
	for _, x := range a.text {
		switch x {
		case '\'', '\\':
			b = append(b, '\\', x)
		case 0:
			b = append(b, '\\', '0')
		default:
			b = append(b, x)
		}
	}
	return append(b, '\'')
}

// Row is a row that a statement returns. Each call of its methods returns the next column. Columns are valid until the
// function that received the row returns. A column of an unexpected type makes the statement fail.
type Row struct {
	values [][]byte
	at     int
	err    error
}

// NewRow returns a row with these values; nil stands for NULL.
func NewRow(values [][]byte) Row { return Row{values: values} }

// Err returns the first error of the columns read so far.
func (r *Row) Err() error { return r.err }

// Text returns the next column as a text; nil is NULL.
func (r *Row) Text() []byte {
	if r.at >= len(r.values) {
		r.fail("the row has %d columns, and another one was asked for", len(r.values))
		return nil
	}
	r.at++
	return r.values[r.at-1]
}

func (r *Row) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("column %d: "+format, append([]any{r.at}, args...)...)
	}
}

// Int returns the next column: an integer, an amount in cents, or a tax or discount in 1/10,000. NULL is 0.
func (r *Row) Int() (n int64) {
	text := r.Text()
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	for _, d := range digits {
		if d == '.' {
			continue
		}
		if d < '0' || d > '9' {
			r.fail("%q is no number", text)
			return 0
		}
		n = n*10 + int64(d-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n
}

// Date returns the next column, a time, in microseconds since 1970. NULL is 0.
func (r *Row) Date() uint64 {
	text := r.Text()
	if text == nil {
		return 0
	}
	t, err := time.Parse(dateLayout, string(text))
	if err != nil {
		r.fail("%v", err)
	}
	return uint64(t.UnixMicro())
}

// Contains reports whether the next column, a text, contains the given text.
func (r *Row) Contains(text []byte) bool { return bytes.Contains(r.Text(), text) }

// Skip skips n columns.
func (r *Row) Skip(n int) {
	for range n {
		_ = r.Text()
	}
}
