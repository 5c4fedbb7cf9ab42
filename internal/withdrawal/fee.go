package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// quoteMax is how long the chain may take to say what it would charge.
const quoteMax = 5 * time.Second

// quoted is what a payment would cost as the chain stands.
type quoted struct {
	most *money.Amount // the most; nil: the chain does not say
	rent money.Amount  // of that, what stays in an account that is made for the payee
	// account is the same, or where it is unknown whether the payee has an account,
	// what one would take; nil: unknown.
	account *money.Amount
}

// fee asks what a payment would cost as the chain stands. From may be unknown, and To for an
// estimate: then it is what a usual token's transfer takes, which is more than a coin's.
func (s *Service) fee(ctx context.Context, p chain.Payment, on chain.Name) (q quoted) {
	sender, accounts := s.Chains[on].Sender, s.Chains[on].Accounts
	if sender == nil {
		return q
	}
	if p.Contract == "" || accounts == nil {
		q.account = &q.rent // nothing
	} else if rent, err := accounts.Rent(p.Contract); err == nil {
		q.account = &rent
	}
	ctx, cancel := context.WithTimeout(ctx, quoteMax)
	defer cancel()
	if p.Contract == "" && p.From != "" {
		if p.To == "" {
			p.To = p.From
		}
		// Of nothing: the treasury may get the amount only when it has to pay it.
		p.Amount = money.Zero
	}
	fees, err := chain.Fees{}, error(nil)
	if p.From != "" && p.To != "" {
		fees, err = sender.Quote(ctx, p)
	}
	if err != nil || fees.GasLimit == 0 {
		if fees, err = sender.TransferFees(ctx); err != nil {
			return q
		}
	} else {
		q.account = &fees.Rent
	}
	if most, err := fees.Max(); err == nil {
		q.most, q.rent = &most, fees.Rent
	}
	return q
}

// least is the smallest payment that reaches a destination as the chain stands, nil when
// it does not say. Nothing is refused for that: dispatch asks before anything is signed.
func (s *Service) least(ctx context.Context, m mint.Mint, to chain.Address) *money.Amount {
	on, runs := s.Chains[m.Chain]
	if !runs || to == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, quoteMax)
	defer cancel()
	least, err := on.Minimum(ctx, m.Contract, to)
	if err != nil {
		return nil
	}
	return &least
}

// estimateFor is how long an estimate is worth looking at.
const estimateFor = time.Minute

// Estimate is what a withdrawal would cost and how much could be asked for.
type Estimate struct {
	NetworkFee       money.Amount            // the most, in atomic units of the chain's own coin
	NetworkFeeMintID *int                    // the chain's own coin, nil when it is not in the catalogue
	NetworkFeeUSD    *money.USD              // nil without a fresh price
	MaxAmount        *money.Amount           // what the customer may ask for; nil when none was named
	CustomerCharge   *webhook.CustomerCharge // what the customer may be charged beside the amount; nil: nothing
	ExpiresAt        time.Time
}

// Estimation is what is known of a withdrawal that somebody thinks of; all but the
// mint may be nil.
type Estimation struct {
	MintID     int
	CustomerID *string
	Amount     *string
	UseDecimal bool
	ToAddress  *string
	FeeMode    string // "" means ORGANIZATION

	own *owner // a product in place of a customer
}

// Estimate tells what a withdrawal would cost now. It holds nothing and writes nothing.
// Errors: the faults of Request for what is malformed,
// WITHDRAWALS_SUSPENDED for a chain that is not running, UNAVAILABLE when the chain
// does not say what it would charge.
func (s *Service) Estimate(ctx context.Context, org string, r Estimation) (Estimate, error) {
	var none Estimate
	var mints mint.Catalogue
	var from chain.Address
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if err := loadMints(ctx, tx, &mints); err != nil {
			return err
		}
		if m, ok := mints.ByID(r.MintID); ok {
			from, err = payer(ctx, tx, org, m.Chain)
		}
		return err
	})
	if err != nil {
		return none, err
	}
	p, err := parseSome(r, mints, s.Chains)
	if err != nil {
		return none, err
	}
	if _, refusal := suspended(facts{mint: mint.Mint{WithdrawEnabled: true}, chainRuns: p.runs}); refusal != nil {
		return none, refusal
	}
	q := s.fee(ctx, chain.Payment{From: from, To: p.to, Contract: p.mint.Contract, Amount: p.amount}, p.mint.Chain)
	fee := q.most
	if fee == nil {
		return none, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"The chain does not say at the moment what it would charge. Nothing was held and nothing was sent. Ask again shortly.")
	}
	e := Estimate{NetworkFee: *fee, ExpiresAt: s.DB.Clock()().Add(estimateFor)}
	native, ok := mints.Native(p.mint.Chain)
	if ok {
		e.NetworkFeeMintID = &native.ID
		if q := s.quote(ctx, native.ID); q != nil && fresh(*q, s.DB.Clock()(), s.priceAge(native.ID)) {
			if v, err := money.ValueOf(*fee, native.Decimals, q.Price); err == nil {
				e.NetworkFeeUSD = &v
			}
		}
	}
	if r.own != nil {
		err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
			balance, err := spendable(ctx, tx, org, *r.own, p.mint.ID)
			all := most(balance, p.mint, *fee)
			e.MaxAmount = &all
			return err
		})
		return e, err
	}
	held, err := s.estimateCharge(ctx, org, p, q, &e)
	if err != nil || r.CustomerID == nil {
		return e, err
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		most, err := spendable(ctx, tx, org, owner{customerID: *r.CustomerID}, p.mint.ID)
		most = less(most, held)
		e.MaxAmount = &most
		return err
	})
	return e, err
}

// estimateCharge tells what a customer may be charged for a withdrawal, and how much of that
// is held beside the amount. Error: the fault of a request whose charge cannot be computed.
func (s *Service) estimateCharge(ctx context.Context, orgID string, p parsed, q quoted, e *Estimate) (held money.Amount, err error) {
	f := facts{owner: owner{customerID: "anybody"}, mint: p.mint, amount: p.amount}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		settings, err := org.SettingsOf(ctx, tx, orgID)
		f.charging.costs = settings.ChargeCustomerCosts
		if err != nil {
			return err
		}
		return s.chargeAsked(ctx, tx, orgID, &f)
	})
	if err != nil {
		return held, fmt.Errorf("what %s charges its customers: %w", orgID, err)
	}
	s.chargePrices(ctx, &f, q)
	f.charging.uncapped = p.any
	f.weigh()
	if f.charging.why != "" {
		return held, uncharged(f.charging.why)
	}
	e.CustomerCharge = shownCharge(f.charging.setting(), p.mint.ID, f.charging.charge)
	return f.charging.held, nil
}

// parseSome is parse of what is given.
func parseSome(r Estimation, mints mint.Catalogue, chains chain.Chains) (p parsed, err error) {
	if r.CustomerID != nil {
		if err := customer.CheckID(*r.CustomerID); err != nil {
			return p, err
		}
	}
	if p.mint, err = parseMint(r.MintID, mints); err != nil {
		return p, err
	}
	p.amount, p.any = money.Units(1), true // what a token's transfer takes does not depend on it
	if r.Amount != nil {
		p.any = false
		if p.amount, err = parseAmount(*r.Amount, r.UseDecimal, p.mint); err != nil {
			return p, err
		}
	}
	if p.deducts, err = parseFeeMode(r.FeeMode, p.mint); err != nil {
		return p, err
	}
	_, p.runs = chains[p.mint.Chain]
	if r.ToAddress != nil {
		p.to, p.runs, err = parseAddress(*r.ToAddress, p.mint, chains)
	}
	return p, err
}

// spendable is what a customer or a product may withdraw of a mint: what is available,
// less what is owed for restored payments. It locks nothing.
func spendable(ctx context.Context, tx pg.Tx, org string, o owner, mintID int) (money.Amount, error) {
	balance, err := ledger.Balance(ctx, tx, o.spends(org, mintID))
	if err != nil {
		return balance, err
	}
	owed, err := owedBy(ctx, tx, org, o, mintID)
	return less(balance, owed), err
}
