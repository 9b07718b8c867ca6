package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRules checks phrases with the real Vale, which make lint builds.
func TestRules(t *testing.T) {
	program := os.Getenv("GEOBENCH_VALE")
	if program == "" {
		t.Skip("GEOBENCH_VALE names no Vale: make lint runs this test with one")
	}
	long := strings.Repeat("word ", 24)
	phrases := map[string][]string{
		"WhatClause": {
			"It sends what has come.", "What is owed is sent.", "it keeps what the replicas know",
			"This is what clients see.", "It sends what\nis missing.", "Why? It is what it is.",
		},
		"BareThose": {
			"They are those of the leader.", "It is that of the leader.", "Those that wait are sent.", "those\nof the leader",
		},
		"SentenceLength": {
			long + "and end.", "Short. And " + strings.ReplaceAll(long, "word word", "word\nword") + "end", "A `code` " + long,
		},
		"Words": {
			"A node is told of it.", "The status tells it.", "Nobody waits.", "a node who waits", "It has come.",
			"It comes first.", "Replies are owed.", "The entry behind the mark.", "Beside the leader.", "It begins anew.",
			"It is lost for good.", "After so many entries.", "It goes on.", "The field is left out.", "As the paper has it.",
			"It lost its memory.", "The law says so.", "a quiet database", "The least world.", "a source of chance",
			"Take chance from it.", "It comes back.", "The node is there again.", "A broken engine.", "The process ends.",
			"An engine with a mistake.", "a node\nwho waits",
		},
		"": {
			"What is it? What does a replica do?", "It knows what to do, and what kind of thing.", "It shows what happens.",
			long + "end.", long + "end. And " + long, "Replicas that lag behind.", "The replica is behind.",
			"It runs behind a proxy.", "It happens by chance, with a chance of 10%.", "The name begins with a letter.",
			"The real world.", "It comes from the log.", "The node knows that, of course.", "so that of two one waits",
			"| what it is |\n|---|", "# What it measures", "`what is` it", "```\nwhat is told\n```",
			"- " + long + "\n- " + long, "| a |\n|-|\n| " + long + "|\n|" + long + "|",
		},
	}
	rules, err := readRules("styles/" + style)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]text{}
	for rule, list := range phrases {
		for i, phrase := range list {
			texts[fmt.Sprintf("%s/%d.md", rule, i)] = markdown(phrase)
		}
		if _, known := rules[rule]; rule != "" && !known {
			t.Errorf("no rule %s", rule)
		}
	}
	for _, rule := range rules.names() {
		if rule != lineLength && len(phrases[rule]) == 0 {
			t.Errorf("rule %s has no phrases here", rule)
		}
	}
	findings, err := vale{program: program, root: "../.."}.lint(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for rule, list := range phrases {
		for i, phrase := range list {
			var broken []string
			for _, f := range findings {
				if f.File == fmt.Sprintf("%s/%d.md", rule, i) {
					broken = append(broken, f.Rule)
				}
			}
			if rule == "" && len(broken) > 0 {
				t.Errorf("%q breaks %v, but is right", phrase, broken)
			}
			if rule != "" && !slices.Contains(broken, rule) {
				t.Errorf("%q breaks %v, want %s", phrase, broken, rule)
			}
		}
	}
}

// TestGlossary checks the table in docs/dev/glossary.md: the terms must be sorted, and each must have a meaning and a
// source.
func TestGlossary(t *testing.T) {
	body, err := os.ReadFile("../../docs/dev/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(body), "|---|---|---|---|\n")
	if !found {
		t.Fatal("the glossary has no table of four columns")
	}
	last := ""
	for row := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(row), "|")
		if len(cells) != 6 {
			t.Errorf("%q has %d cells, want a term, a meaning, a source and the old word", row, len(cells)-2)
			continue
		}
		term := strings.ToLower(strings.TrimSpace(cells[1]))
		if term <= last {
			t.Errorf("%q is not after %q in the alphabet", term, last)
		}
		last = term
		meaning, source := strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])
		if !strings.HasSuffix(meaning, ".") || source == "" {
			t.Errorf("%s: want a meaning with a full stop, and a source", term)
		}
	}
}
