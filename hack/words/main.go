// Command words checks whether the documentation, comments and the changelog follow docs/dev/style.md.
//
//	words check                       counts findings, and fails if a number is above or far below its budget
//	words lower                       lowers the budget to the current numbers (make words)
//	words list [-rule R] [PATH...]    prints the findings in files and folders
//
// Vale finds words and long sentences with the rules in styles/Geobench. It reads plain text. So words extracts the
// prose of Markdown files and the comments of Go files, and omits code, directives and generated files. The rule
// LineLength finds lines of Go files with more than 120 columns and does not use Vale.
//
// The text is older than the rules, so budget.txt allows a number of findings for each rule and part of the tree. These
// numbers may only decrease.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// folder is the folder of this program and its rules, relative to the repository.
	folder     = "hack/words"
	budgetFile = folder + "/budget.txt"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || !slices.Contains([]string{"check", "lower", "list"}, args[0]) {
		return fmt.Errorf("unknown command %q: use check, lower or list", strings.Join(args, " "))
	}
	f := flag.NewFlagSet("words "+args[0], flag.ContinueOnError)
	root := f.String("root", ".", "the `folder` of the repository")
	program := f.String("vale", os.Getenv("GEOBENCH_VALE"), "the `program` Vale; by default hack/tools builds it")
	rule := f.String("rule", "", "list only findings of this `rule`")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] != "list" && (f.NArg() > 0 || *rule != "") {
		return fmt.Errorf("words %s takes neither paths nor -rule: it counts the whole tree", args[0])
	}
	rules, err := readRules(filepath.Join(*root, folder, "styles", style))
	if err != nil {
		return err
	}
	if _, known := rules[*rule]; *rule != "" && !known {
		return fmt.Errorf("-rule %s: no such rule; there are %s", *rule, strings.Join(rules.names(), ", "))
	}
	findings, err := survey(ctx, *root, vale{program: *program, root: *root})
	if err != nil {
		return err
	}
	switch args[0] {
	case "list":
		return list(out, findings, *rule, f.Args())
	case "lower":
		return lower(ctx, *root, count(findings, rules), findings)
	default:
		return check(ctx, out, *root, count(findings, rules), findings)
	}
}

// check compares the current numbers with the budget, and the budget with its earlier versions.
func check(ctx context.Context, out io.Writer, root string, now budget, findings []finding) error {
	allowed, err := readBudget(filepath.Join(root, budgetFile))
	if err != nil {
		return err
	}
	git := repository{root}
	problems := now.over(allowed)
	explain(problems, findings, git.added(ctx, budgetFile))
	problems = append(problems, now.under(allowed)...)
	problems = append(problems, allowed.raised(git.versions(ctx, budgetFile))...)
	if len(problems) == 0 {
		fmt.Fprintf(out, "%d findings are within the budget of %d\n", now.sum(), allowed.sum())
	}
	return join(problems)
}

// lower writes the current numbers to the budget, unless a number exceeds the budget.
func lower(ctx context.Context, root string, now budget, findings []finding) error {
	file := filepath.Join(root, budgetFile)
	allowed, err := readBudget(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if problems := now.over(allowed); len(problems) > 0 {
		explain(problems, findings, repository{root}.added(ctx, budgetFile))
		return join(problems)
	}
	return now.write(file)
}

// list prints the findings in the given files and folders, or in the whole tree if there are none. If rule is not "",
// it prints only the findings of this rule.
func list(out io.Writer, findings []finding, rule string, paths []string) error {
	for i, p := range paths {
		paths[i] = filepath.ToSlash(filepath.Clean(p))
	}
	inside := func(file string) bool {
		return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
			return p == "." || file == p || strings.HasPrefix(file, p+"/")
		})
	}
	n := 0
	for _, f := range findings {
		if (rule == "" || f.Rule == rule) && inside(f.File) {
			n++
			fmt.Fprintln(out, f)
		}
	}
	_, err := fmt.Fprintf(out, "%d findings\n", n)
	return err
}
