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

// facts are everything that decides about a group, as one transaction has read
// them.
type facts struct {
	kept     map[string]kept // rows that have a key, by key
	board    *freeze.Board
	mints    *mint.Catalogue
	accounts ledger.Found                    // that there are, of both sides; with balances those that would pay
	owed     map[ledger.Account]money.Amount // of the balances, what restored payments still take
}

// kept is a transfer with what its request meant.
type kept struct {
	transfer webhook.Transfer
	digest   []byte
}

// row is a transfer that is to be written.
type row struct {
	*asked
	parsed
	transfer webhook.Transfer
}

// decide answers every request of a group in the order of arrival and returns
// the ones to write; each sees the balances that the ones before it leave. The
// order of its questions is the order of refusals: the key, the rate, freezes,
// the request itself, what is suspended, the balance.
func decide(f facts, group []*asked, now time.Time) []row {
	var rows []row
	twins := map[string]int{} // index in rows, by key
	holds := make(map[ledger.Account]money.Amount, len(f.accounts))
	for a, found := range f.accounts {
		holds[a] = found.Balance
	}
	for _, a := range group {
		a.outcome, a.err, a.made = Outcome{}, nil, ""
		p, wrong := parse(a, f.mints)
		if k, known := f.kept[a.IdempotencyKey]; known {
			a.outcome, a.err = replay(k, a, p, wrong)
			continue
		}
		if i, twin := twins[a.IdempotencyKey]; twin {
			if a.outcome, a.err = replay(kept{rows[i].transfer, rows[i].digest}, a, p, wrong); a.err == nil {
				a.made = rows[i].made
			}
			continue
		}
		if !a.limited && a.Limit != nil {
			a.limited, a.limit = true, a.Limit()
		}
		if a.limit != nil {
			a.err = a.limit
			continue
		}
		if a.err = refuse(f, holds, a, p, wrong); a.err != nil {
			continue
		}
		spend(holds, a, p)
		a.made = id.New("tr", now)
		r := row{asked: a, parsed: p, transfer: object(a, p, now)}
		a.outcome = Outcome{Transfer: r.transfer}
		twins[a.IdempotencyKey] = len(rows)
		rows = append(rows, r)
	}
	return rows
}

// replay answers a known key, or a conflict when the request means another
// transfer. A request that cannot even be read is another. The reference names the
// caller's order and is compared as the row has it, not as part of the digest: the rows
// of earlier versions have digests without it.
func replay(k kept, a *asked, p parsed, wrong error) (Outcome, error) {
	first := k.transfer.Reference
	sameReference := a.Reference == first || a.Reference != nil && first != nil && *a.Reference == *first
	if wrong != nil || !bytes.Equal(k.digest, p.digest) || !sameReference {
		return Outcome{}, fault.New(fault.Conflict, fault.IdempotencyConflict,
			"This idempotencyKey belongs to %s, a transfer with other parameters. Nothing was moved by this request. Repeat the original request to see that transfer, or use a new key for a new one.", k.transfer.TransferID).
			On("idempotencyKey").Beside("existingId", k.transfer.TransferID)
	}
	return Outcome{Transfer: k.transfer, Replayed: true}, nil
}

func refuse(f facts, holds map[ledger.Account]money.Amount, a *asked, p parsed, wrong error) error {
	of := freeze.Of{OrgID: a.from.OrgID, Chain: p.mint.Chain}
	if a.from.Kind == ledger.Customer {
		of.CustomerID = a.from.Subject
	}
	stop := f.board.Of(of)
	switch {
	case stop != nil && stop.Scope == freeze.Customer:
		return fault.New(fault.Forbidden, fault.CustomerFrozen,
			"This customer is frozen, so nothing may leave the balance."+unmoved+" Whoever froze the customer has to lift it first.").On("from.customerId")
	case stop != nil && stop.Scope == freeze.Organization:
		return fault.New(fault.Forbidden, fault.OrganizationFrozen,
			"Your organization is frozen, so nothing may leave its balances."+unmoved+" Ask the operator of this service.")
	case wrong != nil:
		return wrong
	case newID(f, a) != nil:
		return newID(f, a)
	case p.mint.Quarantined:
		return suspended("That token behaved against its own rules and is in quarantine.")
	case stop != nil:
		return suspended("What leaves a balance of that mint is stopped at the moment.")
	}
	left := less(holds[a.from], f.owed[a.from])
	if left.Less(p.amount) {
		return insufficient(p.mint)
	}
	return nil
}

// newID refuses a payee that would be made by this transfer under an id that no new
// customer may have. One from before that rule has an account, if it ever had money.
func newID(f facts, a *asked) error {
	if _, known := f.accounts[a.to]; known || a.to.Kind != ledger.Customer {
		return nil
	}
	if refused := fault.Of(customer.CheckNewID(a.to.Subject)); refused != nil {
		return refused.On("to.customerId")
	}
	return nil
}

func suspended(why string) error {
	return fault.New(fault.Unprocessable, fault.WithdrawalsSuspended,
		"%s"+unmoved+" Try again later with the same idempotencyKey, or ask the operator of this service.", why).On("mintId")
}

// insufficient is the one answer to too little money, whether the payer is
// unknown, has nothing, or was quicker elsewhere.
func insufficient(m mint.Mint) error {
	return fault.New(fault.Unprocessable, fault.InsufficientBalance,
		"The available balance of %s on %s that should pay is smaller than the amount."+unmoved+" Look at the balances and move less, or wait for money to come in.",
		m.Symbol, m.Chain).On("amount")
}

// spend lets the requests after this one see what it leaves.
func spend(holds map[ledger.Account]money.Amount, a *asked, p parsed) {
	holds[a.from] = less(holds[a.from], p.amount)
	if sum, err := holds[a.to].Add(p.amount); err == nil { // else the books will refuse it
		holds[a.to] = sum
	}
}

// less is a-b, and nothing where b is more.
func less(a, b money.Amount) money.Amount {
	left, err := a.Sub(b)
	if err != nil {
		return money.Zero
	}
	return left
}

func object(a *asked, p parsed, now time.Time) webhook.Transfer {
	return webhook.Transfer{
		TransferID: a.made, IdempotencyKey: a.IdempotencyKey, MintID: p.mint.ID, Mint: p.mint.Object(),
		Amount: p.amount.String(), AmountDecimal: p.amount.Decimal(p.mint.Decimals),
		From: webhook.Party(a.From), To: webhook.Party(a.To), Reference: a.Reference, Metadata: a.Metadata,
		CreatedAt: webhook.At(now),
	}
}
