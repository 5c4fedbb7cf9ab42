package fault

import (
	"slices"
	"strings"
)

// Effect is what a refused call did to data and money.
type Effect int

// Effects of refused calls.
const (
	NothingWritten  Effect = iota + 1 // no row was written and no money moved
	NothingHeld                       // a payment was refused before anything was held or sent
	StillHeld                         // a withdrawal waits as before, and its amount stays held
	Undecided                         // a flagged deposit waits as before
	ReadOnly                          // the call reads
	Unprocessed                       // the call was not looked at, which says nothing about earlier ones
	AttemptRecorded                   // as Undecided, and the attempt is on record
	TransactionKept                   // an order's transaction stays as it was sent, and can be mined
	StillStuck                        // a stuck order stays so, and its amount stays held
	Unknown                           // an error hides whether the call took effect
	Stated                            // the reason itself says it
	effectsEnd
)

// Step is what a caller can do next, where the words depend on the surface: a call of the interface,
// a command of the terminal, a page.
type Step int

// Steps that a refusal can name. NoStep leaves it to the advice.
const (
	NoStep Step = iota
	SendKey
	SendOperatorKey
	ImportShrunk
	ListMints
	ListDeposits
	ListFlaggedDeposits
	RedirectDeposit
	ListWithdrawals
	ShowWithdrawal
	LookAtBalances
	LookAtCustomerBalances
	CreateCustomer
	RepeatWithSameKey
	RepeatLaterWithSameKey
	ListEndpoints
	SetOrDeleteEndpoint
	EnableEndpoint
	ChangeEndpointFilters
	ListEvents
	ListEventTypes
	ShowSubjectOfEvent
	ListLocalRisk
	ListOrganizations
	ListFreezes
	ListChangeRequests
	ListOrders
	ShowOrder        // about an order
	ResolveOrder     // about an order
	CancelOrderAgain // about an order
	ListWallets
	stepsEnd
)

// Words are the sentences of one surface. A sentence about a Subject contains %s.
type Words struct {
	Effects map[Effect]string
	Steps   map[Step]string
	// Codes say what to do about a refusal that gives neither advice nor a step.
	Codes map[Code]string
}

// Missing returns what the words of a surface lack: effects and steps by their numbers, and codes.
func (w Words) Missing() (effects []Effect, steps []Step, codes []Code) {
	for e := NothingWritten; e < effectsEnd; e++ {
		if _, ok := w.Effects[e]; !ok {
			effects = append(effects, e)
		}
	}
	for s := NoStep; s < stepsEnd; s++ {
		if _, ok := w.Steps[s]; !ok {
			steps = append(steps, s)
		}
	}
	for _, c := range Codes {
		if w.Codes[c] == "" {
			codes = append(codes, c)
		}
	}
	return effects, steps, codes
}

// Sentences returns the text of a refusal in the words of a surface: why, what happened to the money,
// what to do.
func (w Words) Sentences(f *Fault) string {
	advice := f.Advice
	if f.Advice == "" && f.Step == NoStep && f.Effect != Stated {
		advice = w.Codes[f.Code]
	}
	parts := []string{f.Reason, w.Effects[f.Effect], strings.ReplaceAll(w.Steps[f.Step], "%s", f.Subject), advice}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}
