package transfer

import (
	"bytes"
	"time"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/webhook"
)

// facts hold everything that decides about a group, as one transaction has read it.
type facts struct {
	stored   map[string]storedTransfer // rows of known keys, by key
	freezes  *freeze.ActiveSet
	mints    *mint.Catalogue
	accounts ledger.KnownAccounts            // the existing accounts of both sides; payers with balances
	owed     map[ledger.Account]money.Amount // the part of the balances that is owed for restored payments
}

// storedTransfer holds a transfer and the digest of its request.
type storedTransfer struct {
	transfer webhook.Transfer
	digest   []byte
}

// newTransfer is a transfer to be written.
type newTransfer struct {
	*pendingRequest
	parsed
	transfer webhook.Transfer
}

// decideGroup answers every request of a group in the order of arrival and returns the transfers to
// write. Each request sees the balances that the ones before it leave. Refusals are checked in this
// order: the key, the rate, freezes, the request itself, suspensions, the balance.
// Rules TR-6 and TR-9.
func decideGroup(f facts, group []*pendingRequest, now time.Time) []newTransfer {
	var rows []newTransfer
	rowByKey := map[string]int{} // index in rows, by key
	balances := make(map[ledger.Account]money.Amount, len(f.accounts))
	for a, found := range f.accounts {
		balances[a] = found.Balance
	}
	for _, a := range group {
		a.outcome, a.err, a.transferID = Outcome{}, nil, ""
		p, parseErr := resolveRequest(a, f.mints)
		if k, isStored := f.stored[a.IdempotencyKey]; isStored {
			a.outcome, a.err = answerReplay(k, a, p, parseErr)
			continue
		}
		if i, isRepeated := rowByKey[a.IdempotencyKey]; isRepeated {
			if a.outcome, a.err = answerReplay(
				storedTransfer{rows[i].transfer, rows[i].digest}, a, p, parseErr,
			); a.err == nil {
				a.transferID = rows[i].transferID
			}
			continue
		}
		if !a.isLimitAsked && a.Limit != nil {
			a.isLimitAsked, a.limitErr = true, a.Limit()
		}
		if a.limitErr != nil {
			a.err = a.limitErr
			continue
		}
		if a.err = checkRefusal(f, balances, a, p, parseErr); a.err != nil {
			continue
		}
		applySpend(balances, a, p)
		a.transferID = id.New("tr", now)
		r := newTransfer{pendingRequest: a, parsed: p, transfer: newObject(a, p, now)}
		a.outcome = Outcome{Transfer: r.transfer}
		rowByKey[a.IdempotencyKey] = len(rows)
		rows = append(rows, r)
	}
	return rows
}

// answerReplay answers a known key, or returns a conflict when the request means another transfer.
// A request that cannot be parsed is another transfer. The reference is the caller's id of the
// order. It is compared with the row's column and is not part of the digest, because the digests of
// rows of earlier versions lack it. Rules TR-6 and TR-7.
func answerReplay(k storedTransfer, a *pendingRequest, p parsed, parseErr error) (Outcome, error) {
	reference := k.transfer.Reference
	sameReference := a.Reference == reference || a.Reference != nil && reference != nil && *a.Reference == *reference
	if parseErr != nil || !bytes.Equal(k.digest, p.digest) || !sameReference {
		return Outcome{}, fault.New(fault.Conflict, fault.IdempotencyConflict,
			"This idempotencyKey belongs to %s, a transfer with other parameters. This request moved nothing. Repeat "+
				"the original request to see that transfer, or use a new key for a new one.", k.transfer.TransferID).
			WithParam("idempotencyKey").WithExtra("existingId", k.transfer.TransferID)
	}
	return Outcome{Transfer: k.transfer, Replayed: true}, nil
}

// Rule TR-8.
func checkRefusal(
	f facts, balances map[ledger.Account]money.Amount, a *pendingRequest, p parsed, parseErr error,
) error {
	scope := freeze.Target{OrgID: a.from.OrgID, Chain: p.mint.Chain}
	if a.from.Kind == ledger.Customer {
		scope.CustomerID = a.from.Subject
	}
	active := f.freezes.FindFor(scope)
	switch {
	case active != nil && active.Scope == freeze.ScopeCustomer:
		return fault.New(fault.Forbidden, fault.CustomerFrozen,
			"This customer is frozen, so no money can leave the balance."+unmoved+" The party that froze the customer "+
				"has to lift the freeze first.").
			WithParam("from.customerId")
	case active != nil && active.Scope == freeze.ScopeOrganization:
		return fault.New(fault.Forbidden, fault.OrganizationFrozen,
			"Your organization is frozen, so no money can leave its "+
				"balances."+unmoved+" Ask the operator of this service.")
	case parseErr != nil:
		return parseErr
	case checkNewID(f, a) != nil:
		return checkNewID(f, a)
	case p.mint.Quarantined:
		return newSuspended("The balances of this token contradict its transfers, so it is quarantined.")
	case active != nil:
		return newSuspended("Payments from balances of this mint are stopped now.")
	}
	remaining := subOrZero(balances[a.from], f.owed[a.from])
	if remaining.Less(p.amount) {
		return newInsufficient(p.mint)
	}
	return nil
}

// checkNewID refuses a payee that this transfer would create under an id that no new customer may
// have. An older customer with such an id has an account, if it ever had money.
func checkNewID(f facts, a *pendingRequest) error {
	if _, exists := f.accounts[a.to]; exists || a.to.Kind != ledger.Customer {
		return nil
	}
	if invalid := fault.Find(customer.CheckNewID(a.to.Subject)); invalid != nil {
		return invalid.WithParam("to.customerId")
	}
	return nil
}

func newSuspended(reason string) error {
	return fault.New(fault.Unprocessable, fault.WithdrawalsSuspended,
		"%s"+unmoved+" Try again later with the same idempotencyKey, or ask the operator of this service.", reason).
		WithParam("mintId")
}

// newInsufficient returns the one answer to too small a balance. It is the same whether the payer
// is unknown, has no balance or spent it in a concurrent request. Rule TR-4.
func newInsufficient(m mint.Mint) error {
	return fault.New(fault.Unprocessable, fault.InsufficientBalance,
		"The available balance of %s on %s is smaller than the amount."+unmoved+" Look at the "+
			"balances and move less, or wait for a deposit.",
		m.Symbol, m.Chain).WithParam("amount")
}

// applySpend updates the balances that the later requests of the group see.
func applySpend(balances map[ledger.Account]money.Amount, a *pendingRequest, p parsed) {
	balances[a.from] = subOrZero(balances[a.from], p.amount)
	if sum, err := balances[a.to].Add(p.amount); err == nil { // else the ledger refuses it
		balances[a.to] = sum
	}
}

// subOrZero returns a-b, or zero where b is greater.
func subOrZero(a, b money.Amount) money.Amount {
	difference, err := a.Sub(b)
	if err != nil {
		return money.Zero
	}
	return difference
}

func newObject(a *pendingRequest, p parsed, now time.Time) webhook.Transfer {
	return webhook.Transfer{
		TransferID: a.transferID, IdempotencyKey: a.IdempotencyKey, MintID: p.mint.ID, Mint: p.mint.Object(),
		Amount: p.amount.String(), AmountDecimal: p.amount.Decimal(p.mint.Decimals),
		From: webhook.Party(a.From), To: webhook.Party(a.To), Reference: a.Reference, Metadata: a.Metadata,
		CreatedAt: webhook.At(now),
	}
}
