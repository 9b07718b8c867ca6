// Command subjects checks whether the subjects of commits follow rule 7 of the style guide in docs/dev. A subject has
// at most 72 characters, starts with the package, is in the imperative, and does not end with a full stop.
//
//	subjects         checks the new commits of the repository in this folder
//	subjects FILE    checks the message in a file, for git's hook commit-msg
//
// New commits are the commits after the merge base with origin/main. Without origin/main, or if it equals HEAD as in a
// fresh clone, subjects checks the last 50 commits. It does not check merge commits, nor commits that are older than
// this program.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"
)

const (
	longest = 72
	recent  = 50
	// self is this file. The rule applies to commits after the commit that added this file.
	self = "hack/subjects/main.go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, ".", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "subjects:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, dir string, args []string, out io.Writer) error {
	if len(args) > 1 {
		return fmt.Errorf("%d arguments: name one file with a commit message, or none", len(args))
	}
	if len(args) == 1 {
		message, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		return check(subject(string(message)))
	}
	commits, from, err := newCommits(ctx, dir)
	if err != nil {
		// The source may be an archive without history.
		fmt.Fprintf(out, "no commit subjects to check: %v\n", err)
		return nil
	}
	var errs []error
	for _, c := range commits {
		if err := check(c.subject); err != nil {
			errs = append(errs, fmt.Errorf("%.12s: %w", c.id, err))
		}
	}
	if len(errs) == 0 {
		fmt.Fprintf(out, "%d commit subjects %s are right\n", len(commits), from)
	}
	return errors.Join(errs...)
}

// subject returns the first line of a message that is not empty and not a comment of git.
func subject(message string) string {
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

type commit struct{ id, subject string }

// newCommits returns the commits to check, and describes which commits these are.
func newCommits(ctx context.Context, dir string) (commits []commit, from string, err error) {
	head, err := git(ctx, dir, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return nil, "", errors.New("there is no git history here")
	}
	args := []string{"log", "--no-merges", "--format=%H%x00%s", "-z"}
	base, err := git(ctx, dir, "merge-base", "HEAD", "refs/remotes/origin/main")
	if err == nil && base != head {
		args, from = append(args, base+"..HEAD"), fmt.Sprintf("after %.12s", base)
	} else {
		args, from = append(args, "-n", fmt.Sprint(recent), "HEAD"), "at the end of the history"
	}
	// Exclude commits that are older than the rule, because their subjects can no longer be changed.
	first, err := git(ctx, dir, "log", "--diff-filter=A", "--format=%H", "-n", "1", "--", self)
	if err == nil && first != "" {
		args = append(args, "^"+first)
	}
	text, err := git(ctx, dir, args...)
	if err != nil {
		return nil, "", err
	}
	fields := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		commits = append(commits, commit{fields[i], fields[i+1]})
	}
	return commits, from, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

var form = regexp.MustCompile(`^[a-z0-9.][a-zA-Z0-9_./-]*(?:, [a-z0-9.][a-zA-Z0-9_./-]*)*: (.+)$`)

// check returns an error that describes the problem of a subject and shows a correct subject. It returns nil if the
// subject is correct.
func check(subject string) error {
	var wrong []string
	if n := utf8.RuneCountInString(subject); n > longest {
		wrong = append(wrong, fmt.Sprintf("%d characters, at most %d are shown everywhere", n, longest))
	}
	if m := form.FindStringSubmatch(subject); m == nil {
		wrong = append(wrong, "no package and colon in front")
	} else if reason := notImperative(strings.Fields(m[1])[0]); reason != "" {
		wrong = append(wrong, reason)
	}
	if strings.HasSuffix(subject, ".") || strings.HasSuffix(subject, "…") || strings.HasSuffix(subject, "!") {
		wrong = append(wrong, "punctuation at the end")
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%q: %s; write it like %q", subject, strings.Join(wrong, "; "),
		"spanner: keep locks of the predecessor apart")
}

// notImperative returns the reason why a word cannot be a verb in the imperative, or "" if it may be one. It considers
// only endings and frequent words, so that it accepts all technical verbs.
func notImperative(word string) string {
	word = strings.TrimRight(word, ",:;")
	switch {
	case strings.ToLower(word) != word:
		return fmt.Sprintf("%q is in upper case, where a verb in lower case comes first", word)
	case small[word]:
		return fmt.Sprintf("%q is no verb in the imperative", word)
	case verbs[word]:
		return ""
	case strings.HasSuffix(word, "ing"), strings.HasSuffix(word, "ed"):
		return fmt.Sprintf("%q is no imperative: %q rather than %q or %q", word, "fix", "fixed", "fixing")
	case strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss"):
		return fmt.Sprintf("%q is no imperative: %q rather than %q", word, "fix", "fixes")
	}
	return ""
}

// verbs contains imperatives whose endings look like the endings of other verb forms.
var verbs = set(`bed bleed breed embed exceed feed heed need proceed seed shed shred speed succeed wed weed
	bring cling fling ping ring sing sling spring sting string swing wring
	alias bias canvas focus`)

// small contains frequent words that are not verbs in the imperative.
var small = set(`a an the this that these those no not all each every some any both few many most more less fewer
	several it its they their we our i you your he she one two three nobody everybody somebody
	and but or if so as at by for from in into of off on onto over to under up with without when where while why how
	what who which whether after before because since until than then there here now only also again always never still
	is are was were be been has have had can could may might must shall should will would does did
	new old other another same own different better`)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}
