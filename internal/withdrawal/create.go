package withdrawal

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/failpoint"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/webhook"
)

// createWithdrawal decides and writes. The decision that counts is made on what the writing
// transaction sees. Before an organization's first payment, and where screening is configured, a
// decision without writing comes first. So no refused request creates the treasury's wallet.
func (s *Service) createWithdrawal(ctx context.Context, org string, r Request, p parsed) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	f := p.requestFacts(r)
	paidBefore, err := s.loadExternalFacts(ctx, org, &f, f.deductsFee || f.feeMax != nil)
	if err != nil {
		return empty, err
	}
	mayPay := true // a prediction until the row is written
	if !paidBefore || s.Risk.Configured() {
		d, err := s.evaluateWithScreening(ctx, org, &f)
		if err != nil {
			return empty, err
		}
		if mayPay = d.Status != Blocked; mayPay && d.refusal != nil {
			return empty, d.refusal
		}
	}
	var treasury wallet.Wallet
	if mayPay {
		if treasury, err = s.loadTreasury(ctx, org, p.mint.Chain); err != nil {
			return empty, err
		}
	}

	failpoint.Hit("W02")
	withdrawalID := id.New("wd", s.DB.Clock()())
	var created webhook.Withdrawal
	err = s.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if created, err = s.insertWithdrawal(ctx, tx, org, withdrawalID, r, p, f, treasury); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("W03")
		return nil
	})
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return empty, newInsufficient(f.owner, p.mint)
	// Rule IDEM-7.
	case errors.Is(err, pg.ErrCommitUnknown):
		// The row exists or it does not. Coffer chose its id, so a read tells.
		if found, lookErr := s.loadAnswer(ctx, org, withdrawalID); lookErr == nil ||
			fault.HasCode(lookErr, fault.WithdrawalRiskBlocked) {
			return found, lookErr
		}
		return empty, fmt.Errorf("withdrawal %s: %w", withdrawalID, err)
	case err != nil:
		return empty, err
	}
	failpoint.Hit("W03")
	failpoint.Hit("W04")
	if created.Status == string(Blocked) {
		return s.loadAnswer(ctx, org, withdrawalID)
	}
	return created, nil
}

// requestFacts returns the facts that the request itself states.
func (p parsed) requestFacts(r Request) facts {
	return facts{
		owner: r.payer(), isMax: p.isMax, mint: p.mint, amount: p.amount, chainRuns: p.chainRuns, destination: p.to,
		requireApproval: r.RequireApproval, keyGiven: r.IdempotencyKey != nil,
		deductsFee: p.deductsFee, feeMax: p.feeMax,
	}
}

// evaluateRequest decides about a request, for Request and for Preview alike: it loads the
// organization's own rows as this transaction sees them and runs the gates.
func (s *Service) evaluateRequest(ctx context.Context, tx pg.Tx, org string, f facts) (facts, Decision, error) {
	if err := s.loadFacts(ctx, tx, org, &f); err != nil {
		return f, Decision{}, err
	}
	return f, runGates(f), nil
}

// evaluateWithScreening decides without writing. It screens the destination when no other gate
// refuses the request, and stores the providers' answer in f. No transaction is open during the
// screening.
func (s *Service) evaluateWithScreening(ctx context.Context, org string, f *facts) (d Decision, err error) {
	evaluated := *f
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		evaluated, d, err = s.evaluateRequest(ctx, tx, org, *f)
		return err
	})
	if err != nil || d.refusal != nil || evaluated.screening.Decision.Outcome != risk.ScreenDestination {
		return d, err
	}
	f.screening.Case.Answer = s.Risk.ScreenProviders(ctx, f.screening.Case.Subject)
	evaluated.screening.Case.Answer = f.screening.Case.Answer
	evaluated.screening.Decision = risk.DecideWithdrawal(evaluated.screening.Case)
	return runGates(evaluated), nil
}

func (s *Service) loadTreasury(ctx context.Context, org string, name chain.Name) (wallet.Wallet, error) {
	w, err := s.Wallets.Address(ctx, signer.WalletRef{OrgID: org, Family: name.Family(), Purpose: wallet.Treasury})
	if err != nil {
		return w, fmt.Errorf("treasury of %s on %s: %w", org, name, err)
	}
	return w, nil
}

// insertWithdrawal writes a request: row, hold, order, event and decision record in one
// transaction. Rule WD-2.
func (s *Service) insertWithdrawal(
	ctx context.Context, tx pg.Tx, org, withdrawalID string, r Request, p parsed, f facts,
	treasury wallet.Wallet,
) (webhook.Withdrawal, error) {
	var empty webhook.Withdrawal
	f, d, err := s.evaluateRequest(ctx, tx, org, f)
	if err != nil {
		return empty, err
	}
	switch {
	case d.refusal != nil && d.Status != Blocked:
		return empty, d.refusal
	case d.Status == Processing && treasury.ID == "":
		// Screening refused the destination a moment ago, and the organization's threshold has
		// changed since.
		return empty, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"The organization's settings changed while the service decided about this withdrawal. Nothing was held "+
				"and nothing was sent. Repeat the request with the same idempotencyKey.")
	}
	if r.Metadata == nil {
		r.Metadata = map[string]string{}
	}
	// A customer's fee is fixed when the order is submitted: an approval may come days later, at
	// another fee. What an organization holds for the fee on top of its amount is fixed now.
	var deducted *money.Amount
	amount, charge := f.amount, f.charging.charge
	if d.Status == Blocked {
		charge.rent, charge.held, charge.failureMax = money.Zero, money.Zero, nil
	}
	switch {
	case d.Status == Processing && r.orgRequest == nil:
		deducted = f.deductedFee()
	case d.Status != Blocked && r.orgRequest != nil:
		deducted = f.deductedFee()
		if amount, err = f.debitAmount(); err != nil {
			return empty, fmt.Errorf("what withdrawal %s takes: %w", withdrawalID, err)
		}
	}
	quorum := 0
	if d.Status == AwaitingApproval {
		quorum = f.quorum
	}
	inserted := Withdrawal{
		id: withdrawalID, owner: f.owner, mintID: p.mint.ID, chain: p.mint.Chain, amount: amount, toAddress: p.to,
		key: r.IdempotencyKey, deductsFee: p.deductsFee, deductedFee: deducted, feeMax: p.feeMax,
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
			idempotency_key, request_digest, reference, metadata, status, requires_approval, approval_reasons,
			usd_value, created_at, fee_mode, fee_deducted, max_network_fee, travel_rule, screening, approvals_required, request_mac,
			product, whitelisted_address_id, cost_max, cost_rent, cost_price,
			charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price, charge_mint_price)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, nullif($24, ''), nullif($25, ''), $26, $27, $28,
			$29, $30, $31, $32, $33, $34)`,
		withdrawalID, org, f.owner.customerID, p.mint.ID, p.mint.Chain, amount, p.to,
		r.IdempotencyKey, p.digest, r.Reference, r.Metadata, d.Status, d.Status == AwaitingApproval, d.Reasons,
		f.usdValue, tx.Now, p.feeMode(), deducted, p.feeMax, p.travelRule, screeningObject(f.screening.Decision),
		quorum, s.GrantKey.RequestMAC(inserted.signedTerms(org, p.mint), quorum),
		f.owner.product, f.owner.listedID, f.costs.costMax, f.costs.recordedRent(), f.costs.recordedPrice(),
		f.charging.chargedCosts(), charge.rent, charge.held, charge.failureMax, charge.coinPrice, charge.mintPrice)
	if err != nil {
		return empty, fmt.Errorf("insert withdrawal %s: %w", withdrawalID, err)
	}
	// The row with the key comes before the balance. A request that waits for a key may wait for a
	// transaction that has that row and wants the balance, as endWithdrawal does.
	if d.Status != Blocked {
		held, err := amount.Add(charge.held)
		if err != nil {
			return empty, fmt.Errorf("what withdrawal %s takes: %w", withdrawalID, err)
		}
		if err := ledger.Post(ctx, tx, newHoldPosting(org, withdrawalID, f.owner, p.mint.ID, held)); err != nil {
			return empty, fmt.Errorf("hold for %s: %w", withdrawalID, err)
		}
	}
	if d.Status == Processing {
		if err := dispatch.Submit(ctx, tx, s.newOrder(org, inserted, p.mint, treasury, 0, nil)); err != nil {
			return empty, err
		}
	}
	w, err := LoadObject(ctx, tx, org, withdrawalID)
	if err != nil {
		return empty, err
	}
	if err := publishEvent(ctx, tx, org, findTransition("", d.Status), w); err != nil {
		return empty, err
	}
	action := "withdrawal.requested"
	if d.Status == Blocked {
		action = "withdrawal.blocked"
	}
	return w, recordDecision(ctx, tx, org, DecisionRecord{
		withdrawalID: withdrawalID, Act: ActRequested, Status: d.Status, Reasons: d.Reasons, Gates: d.Gates,
		Actor: r.Actor, Risk: &f.screening,
	}, action, d)
}

func newHoldPosting(org, withdrawalID string, payer owner, mintID int, amount money.Amount) ledger.Posting {
	return ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.WithdrawalHold, ID: withdrawalID},
		Legs: []ledger.Leg{
			{Debit: payer.spendingAccount(org, mintID), Credit: payer.heldAccount(org, mintID), Amount: amount},
		},
	}
}
