package main

import (
	"fmt"
	"strings"
)

// A suite is one of the long trials: a command that ends with a line "trial: ..." about its work
// and exits with 0 when it passed. It prints that line only when it has done all of its work.
type suite struct {
	name    string
	command []string
	seed    string // the first seed that it draws from; empty when it draws none
	isWhole bool   // no choice of the options can do more
}

// options choose suites and their amount of work.
type options struct {
	selection string // names of suites, separated by commas; empty: all
	sample    int    // planted defects to draw
	mutants   string // "all": every planted defect
	length    string // of race, and of each fuzz target; empty: 10m and 30s
	runs      int    // of soak
	seed      uint64 // of soak and of the sample; 0: from the commit
	rerun     bool   // also suites that have a result
}

const allMutants = "all"

// suiteNames are the rows of the table, in this order.
var suiteNames = []string{"crash", "drill", "soak", "race", "fuzz", "pages", "mutants"}

// listSuites returns the suites as the options have them.
func listSuites(o options) []suite {
	seed := fmt.Sprint(o.seed)
	race, fuzz := "10m", "30s"
	if o.length != "" {
		race, fuzz = o.length, o.length
	}
	mutants := suite{
		name: "mutants", seed: seed,
		command: []string{"make", "mutants", fmt.Sprintf("SAMPLE=%d", o.sample), "SEED=" + seed},
	}
	if o.mutants == allMutants {
		mutants = suite{name: "mutants", command: []string{"make", "mutants"}, isWhole: true}
	}
	return []suite{
		{name: "crash", command: []string{"make", "crash"}, isWhole: true},
		{name: "drill", command: []string{"make", "drill"}, isWhole: true},
		{name: "soak", command: []string{"make", "soak", "SEED=" + seed, fmt.Sprintf("RUNS=%d", o.runs)}, seed: seed},
		{name: "race", command: []string{"make", "race", "FOR=" + race}},
		{name: "fuzz", command: []string{"make", "fuzz", "FUZZTIME=" + fuzz}},
		{name: "pages", command: []string{"make", "pages"}, isWhole: true},
		mutants,
	}
}

// variables are those of the make targets. The runner's own environment may have them for other
// purposes, and a suite that ran a part of its work would pass for the whole.
var variables = []string{
	"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "POINTS", "FAULTS", "CHAINS", "WORLDS", "DRILL", "SEED",
	"RUNS", "STEPS", "FOR", "FUZZTIME", "ONLY", "IN", "MUTANTS", "SAMPLE", "JOBS", "AGAIN", "PG",
}

// cleanEnvironment returns the environment without the variables of the make targets.
func cleanEnvironment(environ []string) []string {
	var environment []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		isVariable := false
		for _, v := range variables {
			isVariable = isVariable || v == name
		}
		if !isVariable {
			environment = append(environment, entry)
		}
	}
	return environment
}
