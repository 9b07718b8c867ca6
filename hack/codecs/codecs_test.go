package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// generated returns the generated file of a package with one source file.
func generated(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "messages.go"), []byte("package p\n"+source), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir); err != nil {
		return "", err
	}
	code, err := os.ReadFile(filepath.Join(dir, output))
	if os.IsNotExist(err) {
		return "", nil
	}
	return string(code), err
}

// A new field of a message costs one line.
func TestNewField(t *testing.T) {
	const before = "const kindAck = 1\ntype Ack struct {\n\tTerm uint64\n"
	for _, tc := range []struct {
		field string
		lines []string
	}{
		{"Last uint64", []string{
			"return codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Last)", "return codec.AppendUvarint(b, m.Last)", "m.Last = r.Uvarint()",
		}},
		{"Last uint64 `codec:\"min=1,max=maxLast\"`", []string{"m.Last = r.UvarintIn(1, maxLast)"}},
		{"Node geo.NodeID", []string{"b = codec.AppendUvarint(b, m.Term)", "m.Node = geo.NodeID(r.UvarintMax(math.MaxUint16))"}},
		{"Hash uint64 `codec:\"fixed\"`", []string{"return 8 + codec.SizeUvarint(m.Term)", "m.Hash = r.Uint64()"}},
		{"Hashes []uint64 `codec:\"fixed\"`", []string{"8*len(m.Hashes)", "if n := r.Count(8); n > 0 {"}},
		{"Late bool", []string{"return 1 + codec.SizeUvarint(m.Term)", "m.Late = r.Flag()"}},
		{"A, B bool `codec:\"packed\"`", []string{"codec.Flags(m.A, m.B)", "m.A, m.B = r.Flags()"}},
		{"Known bool\nAt uint64 `codec:\"if=Known\"`", []string{"if m.Known {\n\t\tn += codec.SizeUvarint(m.At)\n", "if m.Known {\n\t\tm.At = r.Uvarint()\n"}},
		{"Color Color `codec:\"enum=Red..Blue\"`\n}\ntype Color uint8\ntype other struct {", []string{"m.Color = codec.ReadEnum[Color](r, Red, Blue)"}},
		{"T *txn.Transaction `codec:\"optional\"`", []string{"if m.T != nil {\n\t\tn += codec.SizeTransaction(m.T)\n", "v.read(&r, codec.NewTxnArena(procs))"}},
		{"Pairs []Pair\n}\ntype Pair struct {\nKey txn.Key\nIDs []txn.ID", []string{
			"if n := r.Count(3); n > 0 {\n\t\tm.Pairs = make([]Pair, n)", "func (m *Pair) read(r *codec.Reader) {", "m.Key = r.Key()",
		}},
		{"Rows rows `codec:\"as=rows\"`\n}\nfunc sizeRows(r rows) int\nfunc appendRows(b []byte, r rows) []byte\nfunc readRows(r *codec.Reader) rows\ntype rows struct {", []string{"sizeRows(m.Rows)", "m.Rows = readRows(r)"}},
		{"Of raftgroup.Name", []string{"m.Of.Size()", "m.Of = raftgroup.ReadName(r)"}},
		{"cache int `codec:\"-\"`", []string{"return codec.SizeUvarint(m.Term)\n"}},
		{"Late bool\n}\nfunc (m *Ack) check() error\ntype other struct {", []string{"if err := m.check(); err != nil {"}},
	} {
		code, err := generated(t, before+"\t"+tc.field+"\n}\n")
		if err != nil {
			t.Errorf("%s: %v", tc.field, err)
		}
		for _, line := range tc.lines {
			if !strings.Contains(code, line) {
				t.Errorf("%s: the generated file lacks %q:\n%s", tc.field, line, code)
			}
		}
	}
}

// A field that is not 0 gives the message another kind and precedes the other fields.
func TestVariant(t *testing.T) {
	code, err := generated(t, "const kindAck, kindAckSince = 1, 2\ntype Ack struct {\n\tSince uint64 `codec:\"kind=kindAckSince\"`\n\tTerm uint64\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"if m.Since != 0 {\n\t\treturn kindAckSince\n\t}\n\treturn kindAck\n", "case kindAck:\n\t\tv := &Ack{}\n\t\tv.read(&r)\n",
		"case kindAckSince:\n\t\tv := &Ack{}\n\t\tv.Since = r.UvarintIn(1, math.MaxUint64)\n\t\tv.read(&r)\n",
	} {
		if !strings.Contains(code, want) {
			t.Errorf("the generated file lacks %q:\n%s", want, code)
		}
	}
}

// A message with a hand-written Size is decoded, and gets no methods.
func TestHandWritten(t *testing.T) {
	code, err := generated(t, "const kindAck = 1\ntype Ack struct{ weird map[int]int }\nfunc (m *Ack) Size() int\nfunc (m *Ack) read(r *codec.Reader)\n")
	if err != nil || !strings.Contains(code, "v := &Ack{}") || strings.Contains(code, "func (m *Ack)") {
		t.Errorf("%v\n%s", err, code)
	}
}

func TestErrors(t *testing.T) {
	const ack = "const kindAck = 1\ntype Ack struct {\n\t"
	for source, want := range map[string]string{
		ack + "N int\n}":                               "field Ack.N: type int: want a tag max=LIMIT",
		ack + "N Color\n}\ntype Color uint8":           "field Ack.N: type Color: want a tag enum=FIRST..LAST",
		ack + "N Color\n}":                             "field Ack.N: type Color is not declared in the package",
		ack + "N map[int]int\n}":                       "type map[int]int cannot be encoded: want a tag as=NAME",
		ack + "N uint64 `codec:\"limit=3\"`\n}":        `tag codec:"limit=3": want`,
		ack + "N bool `codec:\"packed\"`\n}":           "want it on two flags in a row",
		ack + "N bool\nM uint64 `codec:\"kind=k\"`\n}": "want it on the first field",
		ack + "N []E\n}\ntype E struct{}":              "elements of type E may be empty",
		ack + "N []int `codec:\"as=list\"`\n}":         "want functions sizeList, appendList and readList in the package",
		"//codec:message\ntype A struct{}":             `directive "//codec:message": want //codec:part`,
		"//codec:part\ntype A map[int]int":             "type A can be a part only if it is a struct or a slice",
		"//codec:part\ntype A []int":                   "type int: want a tag max=LIMIT",
		"//codec:part limit=3\ntype A []int":           `tag codec:"limit=3": want`,
	} {
		if _, err := generated(t, source+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
	if code, err := generated(t, "type Plain struct{ N int }\n"); code != "" || err != nil {
		t.Errorf("a package without messages: %v\n%s", err, code)
	}
}

// The generated files in the repository are up to date.
func TestUpToDate(t *testing.T) {
	err := filepath.WalkDir("../../internal/engine", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		p, err := parse(path)
		if err != nil {
			return err
		}
		want, err := emit(p)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(path, output))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if string(got) != string(want) {
			t.Errorf("%s is out of date: run make generate", filepath.Join(path, output))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
