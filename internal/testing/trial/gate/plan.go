package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/testing/part"
)

// raceArgsBytesMax is less than what Linux takes as one argument of a program, 128 KB.
const raceArgsBytesMax = 100_000

var (
	// plainEnv is the build that is shipped: see deploy/Containerfile.
	plainEnv = []string{"CGO_ENABLED=0"}
	// The race detector needs cgo. The tag chooses the curve of go-ethereum that is shipped, in Go,
	// over the one in C.
	// A raced program waits at its end for late races, a second unless told otherwise, and the gate runs a
	// hundred of them.
	raceEnv   = []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=100 suppressions=" + raceSuppressions()}
	raceFlags = []string{
		"-race", "-tags=gofuzz",
		// The race detector does not watch the inside of scrypt and of the curve, which read and write
		// nothing but what they made themselves: watched, one passphrase takes seven times as long. No package that
		// uses sync.Map or atomic.Pointer may stand here: the linker keeps one copy of their generic code, and an
		// unwatched one would show races in every package.
		"-gcflags=golang.org/x/crypto/scrypt=-race=false",
		"-gcflags=github.com/decred/dcrd/dcrec/secp256k1/...=-race=false",
	}
	commonFlags = []string{"-vet=off", "-timeout=80m"}
)

// raceSuppressions returns the path of the races of others' code that the race detector keeps silent about. The gate
// runs in the root of the project.
func raceSuppressions() string {
	path, err := filepath.Abs("internal/testing/trial/gate/race-suppressions.txt")
	if err != nil {
		panic(err)
	}
	return path
}

// selection says which tests of a package that shares memory are raced.
type selection struct {
	dir    string
	raced  []string // only these, beside those that start goroutines
	plain  []string // all but these
	reason string
}

// selections are the packages that share memory and whose tests are not all raced. In every package,
// the tests that start goroutines are.
var selections = []selection{
	{
		dir: "internal/cli",
		reason: "One command starts a goroutine, which writes the terminal's lines; its test does too and is raced. " +
			"The service that the other tests run is raced in internal/app and in the packages of its parts.",
	},
	{
		dir: "internal/deposit",
		raced: []string{
			"TestABlockWhoseCreditsCannotBeBookedIsTakenInWithoutThem", "TestADepositShowsThePayersMemo",
			"TestADepositThatCannotBeBookedKeepsNoOtherFromBeingScreened",
			"TestADepositThatCannotBeCreditedHoldsUpNoOther", "TestAFloodOfMemosHoldsUpNoOther",
			"TestReadingBlocksAgainChangesNothing", "TestADepositWithoutARiskAnswerIsInNoBalance",
			"TestWhoSentAFlaggedDepositIsToldFromAContract",
		},
		reason: "Its goroutines check and screen the deposits of one page and read their memos, and the call waits " +
			"for them. The raced tests have pages of several; in most others each page has one.",
	},
	{
		dir: "internal/dispatch",
		reason: "A round steps each wallet in a goroutine and waits for it, and the tests here pay from one wallet. " +
			"Those that make rounds and steps at once are raced; internal/verify races rounds of several wallets.",
	},
	{
		dir: "internal/localworld", raced: []string{"TestTheWorldLeavesNothingBehind"},
		reason: "Its goroutines wait for processes, from the start of a world to its stop, as in the raced test.",
	},
	{
		dir: "internal/chain/evm",
		plain: []string{
			"TestABlockFullOfDataIsReadInLittleMemory", "TestABlockFullOfLogsIsReadInLittleMemory",
			"TestALongTraceIsNotHeld",
			"TestABlockThatIsNotGivenWholeIsReadInParts", "TestABlockOfMoreThanAnAnswerMayHaveIsRead",
			"TestARootIsComputedItemByItem",
		},
		reason: "These read or build blocks of many megabytes. Small blocks are read in the same way.",
	},
	{
		dir: "internal/chain/bitcoin", plain: []string{"TestABlockIsReadAsTheLibraryReadsIt"},
		reason: "It reads generated blocks with pure functions.",
	},
	{
		dir: "internal/chain/solana", plain: []string{"TestSpacesChangeNothing"},
		reason: "It puts spaces into answers by the thousand and reads them one after the other.",
	},
	{
		dir: "internal/signer/local", plain: []string{"TestReplayedJournalIsTheSameIndex"},
		reason: "It replays generated journals one after the other; other replays are raced.",
	},
	{dir: "internal/testing/trial/forks", reason: "It takes the steps of the service one after the other."},
	{dir: "internal/testing/trial/crashes", reason: processReason},
	{dir: "internal/testing/trial/drill", reason: processReason},
	{dir: "internal/testing/trial/roles", reason: processReason},
	{dir: "internal/testing/trial/upgrade", reason: processReason},
}

const processReason = "The service runs in processes of their own, as it is shipped. This code starts, stops " +
	"and asks them."

// racedWhole are small packages of which some tests start goroutines. All of their tests are raced: to link
// and start a second program for the others takes longer than the race detector does.
var racedWhole = []string{
	"internal/control/freeze", "internal/control/whitelist", "internal/fee", "internal/identity/memberchange",
	"internal/identity/operator", "internal/journal", "internal/platform/freeport", "internal/testing/trial/trials",
	"internal/webhooks/event",
}

// turns are packages that play the whole service over local chains for minutes. One list runs a day, in UTC, and
// COFFER_PARTS=all runs both. What the trials play together is tested in the packages of its parts every day.
var turns = [][]string{
	{
		"internal/testing/trial/swaps", "internal/testing/trial/payers", "internal/testing/trial/flagged",
		"internal/testing/trial/integrate",
	},
	{
		"internal/testing/trial/refunds", "internal/testing/trial/checkouts", "internal/testing/trial/nonceaccounts",
		"internal/testing/trial/tokens", "internal/testing/trial/stories", "internal/testing/trial/payouts",
	},
}

// leftForAnotherDay returns the folders that have another day than today.
func leftForAnotherDay() (dirs []string) {
	today, isAll := part.Today(len(turns))
	for day, list := range turns {
		if !isAll && day != today {
			dirs = append(dirs, list...)
		}
	}
	return dirs
}

// longFirst are the folders of the packages whose tests take longest. They begin first in each run, so that no
// long one is left when the others have ended.
var longFirst = []string{
	"internal/http/surfacetest", "internal/testing/trial/swaps", "internal/cli", "internal/testing/trial/crashes",
	"internal/verify", "internal/testing/trial/drill", "internal/testing/trial/soak", "internal/service",
	"internal/http/payerpages", "internal/localworld", "internal/http/dashboard", "internal/dispatch",
	"internal/testing/trial/payers", "internal/testing/trial/integrate", "internal/testing/trial/nonceaccounts",
	"internal/deposit", "internal/testing/trial/stories", "internal/testing/trial/flagged",
	"internal/testing/trial/tokens", "internal/testing/trial/checkouts", "internal/http/console",
	"internal/withdrawal", "internal/testing/trial/utxo", "internal/testing/trial/refunds",
	"internal/webhooks/delivery", "internal/testing/trial/upgrade", "internal/platform/pg", "internal/signer/remote",
	"internal/chain/evm", "internal/chain/solana", "internal/chain/bitcoin", "internal/ledger",
	"internal/http/signinpages", "internal/app", "internal/testing/trial/race", "internal/testing/trial/forks",
	"internal/testing/trial/roles",
}

// longTests are left out of a short run beside those that need a chain and those of trials: each takes
// more than ten seconds on a busy machine.
var longTests = []struct{ dir, name string }{
	{"internal/http/surfacetest", "TestACallWhoseCommitIsUnknownNeverSaysThatNothingHappened"},
	{"internal/http/surfacetest", "TestAKeyMakesTheCallsOfItsScopeAndNoOthers"},
	{"internal/http/surfacetest", "TestCustomersWithIdsAlikeShareNothing"},
	{"internal/http/surfacetest", "TestNoReadGrowsWithTheNumberOfCustomers"},
	{"internal/service", "TestABackupFromBeforeAPaymentWasTakenBackPaysItNever"},
	{"internal/service", "TestARestoredBackupPaysNothingTwice"},
	{"internal/service", "TestTwoLostPaymentsThatTogetherExceedTheRestoredBalanceAreBothHeld"},
	{"internal/customer", "TestTheDatabaseKnowsThePlainEmails"},
	{"internal/deposit", "TestABreakTakesNoCustomerForAnotherWithAnIdAlike"},
	{"internal/ledger", "TestAHotAccountEndsWithTheRightSum"},
	{"internal/ledger", "TestManySpendersOfOneBalanceNeitherOverdrawNorLoseAHold"},
	{"internal/ledger", "TestOppositePostingsNeverDeadlock"},
	{"internal/ledger", "TestTheBooksAreWhatAPlainModelSays"},
	{"internal/platform/pg", "TestAMigrationThatHasToWaitStandsAsideAndComesBack"},
	{"internal/platform/pg", "TestEveryStepTakesAConnectionOfThePool"},
	{"internal/platform/pg", "TestMigrateMayRunAnywhereAtOnce"},
	{"internal/verify", "TestAPaymentDoesNotWaitForASweepThatWouldRevert"},
	{"internal/verify", "TestASweepIsGivenGasOnce"},
	{"internal/verify", "TestATopUpThatFailedRests"},
	{"internal/verify", "TestAWorkingHouseIsSoundAtEveryStep"},
	{"internal/verify", "TestAnAddressThatIsNotProvenHoldsUpNoOtherSweep"},
	{"internal/verify", "TestEachFreezeStopsAtOnceWhatItNames"},
	{"internal/verify", "TestEveryColumnChangesOnlyWhereTheListSaysSo"},
	{"internal/verify", "TestEveryTamperingIsSeen"},
	{"internal/verify", "TestEveryTamperingWithTheSchemaIsSeen"},
	{"internal/verify", "TestManyAtOnceLeaveTheBooksSound"},
	{"internal/withdrawal", "TestAHashFindsItsPaymentAmongMany"},
	{"internal/withdrawal", "TestARestoreTakesNoCustomerForAnotherWithAnIdAlike"},
	{"internal/withdrawal", "TestPeopleEndAWithdrawalWhateverItWaitsFor"},
	{"internal/withdrawal", "TestTheCostsOfCustomersWithIdsAlikeAreCountedApart"},
	{"migrations", "TestTheSchemaFilesAreWhatTheMigrationsMake"},
}

// isTrial reports whether a package of internal/testing/trial plays the service. Two there look at the
// repository itself.
func isTrial(dir string) bool {
	return strings.HasPrefix(dir, "internal/testing/trial/") && dir != "internal/testing/trial/gate" &&
		dir != "internal/testing/trial/mutants"
}

// testRun is one go test.
type testRun struct {
	race     bool
	packages []string // import paths
	flags    []string
	env      []string
}

// plan is what runs: the lanes at the same time, the runs of a lane one after the other.
type plan struct {
	lanes [][]testRun
	// tests are the names of the tests that have to run, by import path.
	tests map[string][]string
}

// options choose what a plan runs. The folders of packages are under the root of the module.
type options struct {
	short                 bool
	onlyDirs, leftOutDirs []string
}

// newPlan decides which tests are run with the race detector. A test is, if it starts goroutines, if its
// package is in racedWhole, or if its package shares memory between goroutines and selections does not say
// otherwise.
func newPlan(packages []packageFacts, opts options) (plan, error) {
	p := plan{tests: map[string][]string{}}
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b packageFacts) int { return startOrder(a.dir) - startOrder(b.dir) })
	for _, dir := range slices.Concat(opts.leftOutDirs, opts.onlyDirs) {
		if !slices.ContainsFunc(packages, func(f packageFacts) bool { return f.dir == dir }) {
			return p, fmt.Errorf("there is no package %s", dir)
		}
	}
	packages = slices.DeleteFunc(packages, func(f packageFacts) bool {
		return len(f.tests) == 0 && !f.hasTestFiles || slices.Contains(opts.leftOutDirs, f.dir) ||
			len(opts.onlyDirs) > 0 && !slices.Contains(opts.onlyDirs, f.dir)
	})
	if opts.short {
		return shortPlan(packages)
	}
	racedTests := map[string]bool{}
	for _, f := range packages {
		raced := racedOf(f)
		if len(raced) < len(f.tests) {
			maps.Copy(racedTests, raced)
		}
	}
	var wholeNames, racedPartly, plain, plainAlike []string
	for _, f := range packages {
		name := modulePath + f.dir
		raced := racedOf(f)
		p.tests[name] = slices.Sorted(maps.Keys(f.tests))
		switch {
		case len(raced) > 0 && len(raced) == len(f.tests):
			wholeNames = append(wholeNames, name)
		case len(raced) > 0:
			// A name that is raced elsewhere is raced here too: one list serves all these packages.
			racedPartly, plain = append(racedPartly, name), append(plain, name)
		case sharesName(f, racedTests):
			plainAlike = append(plainAlike, name)
		default:
			plain = append(plain, name)
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(racedTests)), "|")
	if len(names) > raceArgsBytesMax {
		return p, fmt.Errorf("the names of the raced tests have %d bytes; an argument may not", len(names))
	}
	// A world waits for its chains part of the time, so more packages run at once than there are processors. More
	// than these let the worlds of a slow machine fall behind their chains, and each polls while it waits.
	// One run has all packages without the race detector but a few, so that none waits for a place while
	// another is free. The raced runs follow each other, because at the same time both would compile the
	// same packages.
	p.lanes = [][]testRun{
		{newRun(false, plain, "-p=3", "-skip=^("+names+")$")},
		{
			newRun(true, wholeNames, "-p=1"), newRun(true, racedPartly, "-p=1", "-run=^("+names+")$"),
			newRun(false, plainAlike, "-p=1"),
		},
	}
	return p, nil
}

// sharesName reports whether a package has a test whose name is raced in another one. It cannot be in a run
// that leaves those names out.
func sharesName(f packageFacts, racedTests map[string]bool) bool {
	for name := range f.tests {
		if racedTests[name] {
			return true
		}
	}
	return false
}

func newRun(race bool, packages []string, flags ...string) testRun {
	run := testRun{race: race, packages: packages, flags: slices.Concat(commonFlags, flags), env: plainEnv}
	if race {
		run.flags, run.env = slices.Concat(raceFlags, run.flags), raceEnv
	}
	return run
}

// racedOf returns the tests of a package that are raced. All of them are in the packages of racedWhole.
func racedOf(f packageFacts) map[string]bool {
	index := slices.IndexFunc(selections, func(s selection) bool { return s.dir == f.dir })
	chosen := func(test string) bool {
		if index < 0 {
			return f.sharesMemory
		}
		s := selections[index]
		return slices.Contains(s.raced, test) || len(s.plain) > 0 && !slices.Contains(s.plain, test)
	}
	raced, isWhole := map[string]bool{}, slices.Contains(racedWhole, f.dir)
	for name, facts := range f.tests {
		if isWhole || facts.startsGoroutines || chosen(name) {
			raced[name] = true
		}
	}
	return raced
}

// startOrder returns the place of a package in longFirst, or one after all of them.
func startOrder(dir string) int {
	if index := slices.Index(longFirst, dir); index >= 0 {
		return index
	}
	return len(longFirst)
}

// shortPlan leaves out the tests that need a chain, the trials, and longTests.
func shortPlan(packages []packageFacts) (plan, error) {
	p := plan{tests: map[string][]string{}}
	packages = slices.DeleteFunc(packages, func(f packageFacts) bool { return isTrial(f.dir) })
	skipped := map[string]bool{}
	for _, l := range longTests {
		skipped[l.name] = true
	}
	for _, f := range packages {
		for name, facts := range f.tests {
			if facts.needsChain {
				skipped[name] = true
			}
		}
	}
	var names []string
	for _, f := range packages {
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(f.tests)), func(test string) bool { return skipped[test] })
		if len(left) > 0 {
			names = append(names, modulePath+f.dir)
			p.tests[modulePath+f.dir] = left
		}
	}
	pattern := "-skip=^(" + strings.Join(slices.Sorted(maps.Keys(skipped)), "|") + ")$"
	if len(pattern) > raceArgsBytesMax {
		return p, fmt.Errorf("the names of the skipped tests have %d bytes; an argument may not", len(pattern))
	}
	p.lanes = [][]testRun{{newRun(false, names, pattern)}}
	return p, nil
}
