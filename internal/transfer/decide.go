package transfer

import (
	"maps"
	"time"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/policy"
	"github.com/cofferpay/coffer/internal/request"
)

// Facts hold everything that decides about one transfer.
type Facts struct {
	parsed
	payee        ledger.Account
	reference    *string
	existing     *knownTransfer // the transfer that has the request's key, or nil
	limitErr     error          // why the caller may not send a new request now, or nil
	parseErr     error          // why the request cannot be a transfer, or nil
	activeFreeze *freeze.Freeze // of the payer, the organization, the chain or everything
	payeeExists  bool           // the payee has an account
	spendable    money.Amount   // the payer's balance, less the debt for restored payments
}

// knownTransfer is the transfer of a known key.
type knownTransfer struct {
	request.Accepted
	transfer Transfer
	isNew    bool // an earlier request of the same group makes it
}

// Plan says what is written for a request.
type Plan struct {
	Existing *knownTransfer // the transfer that has the request's key: nothing is written
	Amount   money.Amount   // what is posted otherwise
}

// Rejection says why nothing is written.
type Rejection struct {
	Err error // a fault, or the error of the request's limit
}

// Decide decides about a transfer. It is pure: it reads the facts and nothing else. Refusals are
// checked in this order: the key, the limit, freezes, the request itself, suspensions, the balance.
// Rules TR-6, TR-7 and TR-8.
func Decide(f Facts) (Plan, *Rejection) {
	if f.existing != nil {
		// A request that cannot be parsed is another transfer.
		if f.parseErr != nil || !f.existing.IsRepeatedBy(f.digest, f.reference) {
			return Plan{}, &Rejection{newConflict(f.existing.ID)}
		}
		return Plan{Existing: f.existing}, nil
	}
	for _, check := range []func(Facts) error{
		checkLimit, checkFrozen, checkParsed, checkNewPayee, checkSuspended, checkBalance,
	} {
		if err := check(f); err != nil {
			return Plan{}, &Rejection{err}
		}
	}
	return Plan{Amount: f.amount}, nil
}

func newConflict(transferID string) *fault.Fault {
	return fault.New(fault.Conflict, fault.IdempotencyConflict, fault.NothingWritten,
		"This idempotencyKey belongs to %s, a transfer with other parameters.", transferID).
		WithAdvice("Repeat the original request to see that transfer, or use a new key for a new one.").
		WithParam("idempotencyKey").WithExtra("existingId", transferID)
}

func checkLimit(f Facts) error { return f.limitErr }

func checkFrozen(f Facts) error {
	if refusal := policy.CheckFrozen(f.activeFreeze, "from.customerId", fault.NothingWritten); refusal != nil {
		return refusal
	}
	return nil
}

func checkParsed(f Facts) error { return f.parseErr }

// checkNewPayee refuses a payee that this transfer would create under an id that no new customer
// may have. An older customer with such an id has an account, if it ever had money.
func checkNewPayee(f Facts) error {
	if f.payeeExists || f.payee.Kind != ledger.Customer {
		return nil
	}
	if invalid := fault.Find(customer.CheckNewID(f.payee.Subject)); invalid != nil {
		return invalid.WithParam("to.customerId")
	}
	return nil
}

func checkSuspended(f Facts) error {
	switch {
	case f.mint.Quarantined:
		return policy.NewSuspended(policy.Quarantined, fault.NothingWritten)
	case policy.IsStopped(f.activeFreeze):
		return policy.NewSuspended("Payments from balances of this mint are stopped now.", fault.NothingWritten)
	}
	return nil
}

// checkBalance gives one answer to too small a balance. It is the same whether the payer is
// unknown, has no balance or spent it in a concurrent request. Rule TR-4.
func checkBalance(f Facts) error {
	if !f.spendable.Less(f.amount) {
		return nil
	}
	return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingWritten,
		"The available balance of %s on %s is smaller than the amount.", f.mint.Symbol, f.mint.Chain).
		WithAdvice("Look at the balances and move less, or wait for a deposit.").WithParam("amount")
}

// groupFacts hold what one transaction has read about a group.
type groupFacts struct {
	stored  map[string]knownTransfer // rows of known keys, by key
	freezes *freeze.ActiveSet
	mints   *mint.Catalogue
	// fingerprints of the rows of the mints, by id
	fingerprints map[int]string
	accounts     ledger.KnownAccounts            // the existing accounts of both sides; payers with balances
	owed         map[ledger.Account]money.Amount // the part of the balances that is owed for restored payments
}

// newTransfer is a transfer to be written.
type newTransfer struct {
	*pendingRequest
	parsed
	transfer Transfer
}

// decideGroup answers every request of a group in the order of arrival and returns the transfers to
// write. Each request sees the keys and the balances that the ones before it leave. A request's
// limit is asked once its key is known to be new. Rule TR-9.
func decideGroup(g groupFacts, group []*pendingRequest, now time.Time) []newTransfer {
	var rows []newTransfer
	transfers := maps.Clone(g.stored)
	balances := make(map[ledger.Account]money.Amount, len(g.accounts))
	for a, found := range g.accounts {
		balances[a] = found.Balance
	}
	for _, a := range group {
		a.outcome, a.err, a.transferID = Outcome{}, nil, ""
		f := g.factsOf(a, balances)
		if k, isKnown := transfers[a.IdempotencyKey]; isKnown {
			f.existing = &k
			a.returnLimit()
		} else {
			f.limitErr = a.askLimit()
		}
		plan, rejection := Decide(f)
		switch {
		case rejection != nil:
			a.err = rejection.Err
			continue
		case plan.Existing != nil:
			a.outcome = Outcome{Transfer: plan.Existing.transfer, Replayed: true}
			if plan.Existing.isNew {
				a.transferID = plan.Existing.ID
			}
			continue
		}
		a.transferID = id.New("tr", now)
		r := newTransfer{pendingRequest: a, parsed: f.parsed, transfer: buildTransfer(a, f.parsed, now)}
		a.outcome = Outcome{Transfer: r.transfer}
		transfers[a.IdempotencyKey] = knownTransfer{
			Accepted: request.Accepted{ID: a.transferID, Digest: f.digest, Reference: a.Reference},
			transfer: r.transfer, isNew: true,
		}
		balances[a.from] = money.SubOrZero(balances[a.from], plan.Amount)
		if sum, err := balances[a.to].Add(plan.Amount); err == nil { // else the ledger refuses it
			balances[a.to] = sum
		}
		rows = append(rows, r)
	}
	return rows
}

// factsOf returns the facts about a request of the group, with the balances that are left for it.
func (g groupFacts) factsOf(a *pendingRequest, balances map[ledger.Account]money.Amount) Facts {
	f := Facts{payee: a.to, reference: a.Reference}
	f.parsed, f.parseErr = resolveRequest(a, g.mints)
	scope := freeze.Target{OrgID: a.from.OrgID, Chain: f.mint.Chain}
	if a.from.Kind == ledger.Customer {
		scope.CustomerID = a.from.Subject
	}
	f.activeFreeze = g.freezes.FindFor(scope)
	_, f.payeeExists = g.accounts[a.to]
	f.spendable = money.SubOrZero(balances[a.from], g.owed[a.from])
	return f
}

func buildTransfer(a *pendingRequest, p parsed, now time.Time) Transfer {
	t := Transfer{
		ID: a.transferID, IdempotencyKey: a.IdempotencyKey, Mint: p.mint, Amount: p.amount, From: a.From, To: a.To,
		Reference: a.Reference, Metadata: a.Metadata, CreatedAt: now,
	}
	if t.Metadata == nil {
		t.Metadata = map[string]string{}
	}
	return t
}
