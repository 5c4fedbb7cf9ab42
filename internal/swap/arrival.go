package swap

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// StrayReason says why an arrival is one that no open swap expects.
type StrayReason string

// The reasons.
const (
	NoSwap      StrayReason = "NO_SWAP"      // this database has no swap of the wallet
	OtherAsset  StrayReason = "OTHER_ASSET"  // another mint or chain than expected
	TooMuch     StrayReason = "TOO_MUCH"     // far above the offer, or more than was paid
	AfterEnd    StrayReason = "AFTER_END"    // the swap had ended
	WithoutPaid StrayReason = "WITHOUT_PAID" // a refund of a payment that was never made
	TooSmall    StrayReason = "TOO_SMALL"    // far too little to be a refund
)

// ArrivalRole is what an arrival is for its swap.
type ArrivalRole string

// The roles.
const (
	Delivery ArrivalRole = "DELIVERY" // the customer is credited
	Refund   ArrivalRole = "REFUND"   // the claim on the provider shrinks
	Stray    ArrivalRole = "STRAY"    // in suspense until a person decides
)

// WaitingArrival is a final arrival at a wallet of a swap that is not settled.
type WaitingArrival struct {
	DepositID   string
	Chain       chain.Name
	MintID      int
	Amount      money.Amount
	Tx          chain.TxHash
	ConfirmedAt time.Time // when its block became final here
}

// Settlement is what becomes of the arrivals at one wallet.
type Settlement struct {
	Arrivals []SettledArrival // the others wait on
	Postings []ledger.Posting // in addition to those of the credits
	Events   []event.Event
	Audit    []audit.Entry
}

// SettledArrival is an arrival that is credited now.
type SettledArrival struct {
	DepositID  string
	Role       ArrivalRole
	CustomerID string // "" if the swap is a product's, or unknown
	Product    string // of an organization's swap
	Completes  bool   // it completes its swap
	Credit     ledger.Account
}

// SettleArrivals decides about all final arrivals at one wallet of a swap that are not settled, in the
// system transaction that credits them. The rows of the deposits are locked. Only final blocks lead here, so what it
// decides rests on no word of the provider but one: that a delivery below the minimum is all that there will be. Rules
// SWAP-10, SWAP-11, SWAP-12 and SWAP-13.
func (s *Service) SettleArrivals(
	ctx context.Context, tx pg.Tx, receiver wallet.Wallet, waiting []WaitingArrival,
) (Settlement, error) {
	// The first that became final comes first.
	waiting = slices.SortedFunc(slices.Values(waiting), func(a, b WaitingArrival) int {
		if order := a.ConfirmedAt.Compare(b.ConfirmedAt); order != 0 {
			return order
		}
		return strings.Compare(a.DepositID, b.DepositID)
	})
	w, err := lock(ctx, tx, receiver.Subject)
	if isGone(err) {
		t := settlement{receiver: receiver}
		err := t.addStrays(ctx, tx, waiting, NoSwap)
		return t.Settlement, err
	}
	if err != nil {
		return Settlement{}, err
	}
	switch {
	case !w.hasOffer():
		// No provider knows the wallets yet.
		t := settlement{receiver: receiver, swap: w}
		err := t.addStrays(ctx, tx, waiting, WithoutPaid)
		return t.Settlement, err
	case receiver.ID == w.DeliveryWalletID:
		return s.settleDeliveries(ctx, tx, receiver, w, waiting)
	case receiver.ID == w.RefundWalletID:
		return s.settleRefunds(ctx, tx, receiver, w, waiting)
	}
	t := settlement{receiver: receiver, swap: w}
	err = t.addStrays(ctx, tx, waiting, OtherAsset)
	return t.Settlement, err
}

// settlement collects what becomes of the arrivals at one wallet.
type settlement struct {
	Settlement
	receiver wallet.Wallet
	swap     Swap
}

// add settles an arrival and stores what it is for the swap. reason is "" but for a stray.
func (t *settlement) add(
	ctx context.Context, tx pg.Tx, a WaitingArrival, role ArrivalRole, reason StrayReason,
	credit ledger.Account, completes bool,
) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		a.DepositID, t.receiver.OrgID, t.receiver.Subject, string(role), string(reason), tx.Now)
	if err != nil {
		return fmt.Errorf("store arrival %s of swap %s: %w", a.DepositID, t.receiver.Subject, err)
	}
	t.Arrivals = append(t.Arrivals, SettledArrival{
		DepositID: a.DepositID, Role: role, CustomerID: t.swap.CustomerID, Product: t.swap.Product,
		Completes: completes, Credit: credit,
	})
	return nil
}

// addStrays keeps arrivals in suspense until a person decides. The organization gets no event of them.
func (t *settlement) addStrays(
	ctx context.Context, tx pg.Tx, strays []WaitingArrival, reason StrayReason,
) error {
	for _, a := range strays {
		suspense := ledger.Account{OrgID: t.receiver.OrgID, MintID: a.MintID, Kind: ledger.Suspense}
		if err := t.add(ctx, tx, a, Stray, reason, suspense, false); err != nil {
			return err
		}
		t.Audit = append(t.Audit, audit.Entry{
			OrgID: t.receiver.OrgID, Actor: actor, Action: "swap.stray_arrival", ResourceKind: resourceKind,
			ResourceID: t.receiver.Subject,
			Detail: map[string]any{
				"deposit": a.DepositID, "reason": reason, "mint": a.MintID, "amount": a.Amount, "txHash": a.Tx,
			},
		})
	}
	return nil
}

// settleDeliveries credits the output of an open swap once final arrivals reach its minimum, all parts
// together. Arrivals that the swap does not expect are strays. Rules SWAP-10 and SWAP-11.
func (s *Service) settleDeliveries(
	ctx context.Context, tx pg.Tx, receiver wallet.Wallet, w Swap, waiting []WaitingArrival,
) (Settlement, error) {
	t := settlement{receiver: receiver, swap: w}
	var parts, unexpected []WaitingArrival
	for _, a := range waiting {
		if a.MintID == w.To.ID && a.Chain == w.To.Chain {
			parts = append(parts, a)
		} else {
			unexpected = append(unexpected, a)
		}
	}
	if err := t.addStrays(ctx, tx, unexpected, OtherAsset); err != nil {
		return t.Settlement, err
	}
	if len(parts) == 0 {
		return t.Settlement, nil
	}
	if !w.isUnderway() {
		err := t.addStrays(ctx, tx, parts, AfterEnd)
		return t.Settlement, err
	}
	largest, err := w.EstimatedOut.Bps(overDeliveryBps)
	if err != nil {
		return t.Settlement, fmt.Errorf("bound of the delivery of swap %s: %w", w.ID, err)
	}
	sum := money.Zero
	var taken []WaitingArrival
	for i, a := range parts {
		total, err := sum.Add(a.Amount)
		if err != nil {
			return t.Settlement, fmt.Errorf("sum of the deliveries of swap %s: %w", w.ID, err)
		}
		if largest.Less(total) {
			// The part that exceeds the bound waits for a person, as a whole: a deposit has one owner.
			if err := t.addStrays(ctx, tx, parts[i:i+1], TooMuch); err != nil {
				return t.Settlement, err
			}
			continue
		}
		sum, taken = total, append(taken, a)
		if !sum.Less(w.MinOut) {
			return s.complete(ctx, tx, &t, w, taken, parts[i+1:], sum)
		}
	}
	if len(taken) == 0 {
		return t.Settlement, nil
	}
	if isAll, err := isPartialFinal(ctx, tx, w, taken); err != nil {
		return t.Settlement, err
	} else if isAll {
		cause := "it delivered less than the minimum for swap " + w.ID
		if err := suspend(ctx, tx, w.Provider, cause, actor); err != nil {
			return t.Settlement, err
		}
		return s.complete(ctx, tx, &t, w, taken, nil, sum)
	}
	return t.Settlement, markDelivering(ctx, tx, w)
}

// isPartialFinal reports whether a delivery below the minimum is all that will come: the provider has
// reported success, and the time for the rest is over.
func isPartialFinal(ctx context.Context, tx pg.Tx, w Swap, parts []WaitingArrival) (bool, error) {
	var successSaidAt *time.Time
	err := tx.QueryRow(ctx, `SELECT success_said_at FROM swaps WHERE swap_id = $1`, w.ID).Scan(&successSaidAt)
	if err != nil {
		return false, fmt.Errorf("read when swap %s was reported delivered: %w", w.ID, err)
	}
	if successSaidAt == nil || tx.Now.Before(successSaidAt.Add(partialWait)) {
		return false, nil
	}
	ids := make([]string, 0, len(parts))
	for _, part := range parts {
		ids = append(ids, part.DepositID)
	}
	var isMoreComing bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (
		SELECT FROM deposits WHERE swap_id = $1 AND wallet_id = $2 AND mint_id = $3
			AND status IN ('DETECTED', 'CONFIRMING', 'SCREENING') AND deposit_id <> ALL ($4))`,
		w.ID, w.DeliveryWalletID, w.To.ID, ids).Scan(&isMoreComing)
	if err != nil {
		return false, fmt.Errorf("look for more that arrives for swap %s: %w", w.ID, err)
	}
	if isMoreComing {
		return false, nil
	}
	return !tx.Now.Before(parts[len(parts)-1].ConfirmedAt.Add(partialWait)), nil
}

// markDelivering moves a swap to PROCESSING because a part of its output arrived.
func markDelivering(ctx context.Context, tx pg.Tx, w Swap) error {
	if w.Status == Processing {
		return nil
	}
	if w.Status == Pending {
		// No provider of the chain has said yet that our payment is on its way, and the provider has
		// paid: the statement of the order follows.
		return setStatus(ctx, tx, w.ID, Pending, Processing, "look_at = $4")
	}
	return setStatus(ctx, tx, w.ID, Depositing, Processing, "look_at = $4")
}

// complete credits the parts of a delivery and ends the claim on the provider. It ends a customer's swap, with
// its fee; the output of an organization's swap is paid out next. later arrived too and are more than the
// swap expects. While nothing of our payment is signed, the delivery waits: the order may
// still end without one.
func (s *Service) complete(
	ctx context.Context, tx pg.Tx, t *settlement, w Swap, parts, later []WaitingArrival, sum money.Amount,
) (Settlement, error) {
	originTx, err := findOrigin(ctx, tx, w)
	if err != nil || originTx == "" {
		return t.Settlement, err
	}
	if err := markDelivering(ctx, tx, w); err != nil {
		return t.Settlement, err
	}
	last := parts[len(parts)-1]
	if w.isOfOrganization() {
		err = markDelivered(ctx, tx, w, sum, last.Tx, originTx)
	} else {
		err = setStatus(ctx, tx, w.ID, Processing, Completed, `amount_out = $5, destination_tx_hash = $6,
			completed_at = $4, origin_tx_hash = $7, look_at = NULL`, sum, last.Tx, originTx)
	}
	if err != nil {
		return t.Settlement, err
	}
	credit := w.owner().SpendingAccount(w.OrgID, w.To.ID)
	for i, a := range parts {
		if err := t.add(ctx, tx, a, Delivery, "", credit, i == len(parts)-1); err != nil {
			return t.Settlement, err
		}
	}
	if err := t.addStrays(ctx, tx, later, AfterEnd); err != nil {
		return t.Settlement, err
	}
	t.Postings = append(t.Postings, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.SwapEnd, ID: w.ID},
		Legs:  []ledger.Leg{{Debit: w.inSwap(), Credit: w.atProvider(), Amount: w.AmountIn}},
	})
	verb := "delivered"
	if !w.isOfOrganization() {
		verb = "completed"
		postings, err := s.chargeFee(ctx, tx, w)
		if err != nil {
			return t.Settlement, err
		}
		t.Postings = append(t.Postings, postings...)
	}
	t.Audit = append(t.Audit, newEntry(w, actor, verb, map[string]any{
		"amountOut": sum, "destinationTxHash": last.Tx, "deposit": last.DepositID,
	}))
	return t.Settlement, nil
}

// findOrigin returns the hash of our payment. A delivery may be final before any provider of the chain
// said that it took the payment; its order has the hash then. It is "" while nothing is signed.
func findOrigin(ctx context.Context, tx pg.Tx, w Swap) (chain.TxHash, error) {
	if w.OriginTxHash != nil {
		return *w.OriginTxHash, nil
	}
	var hash *chain.TxHash
	err := tx.QueryRow(ctx, `
		SELECT max(tx_hash) FROM dispatch_attempts WHERE order_id = $1 AND act = 'PAY'
			AND tx_hash IS NOT NULL`, w.ID).Scan(&hash)
	if err != nil {
		return "", fmt.Errorf("read the payment of swap %s: %w", w.ID, err)
	}
	if hash == nil {
		return "", nil
	}
	return *hash, nil
}

// chargeFee writes the fee line of a completed swap. The platform's fee is never taken from a balance.
// Rule SWAP-14.
func (s *Service) chargeFee(ctx context.Context, tx pg.Tx, w Swap) ([]ledger.Posting, error) {
	err := fee.AddLine(ctx, tx, fee.Line{
		OrgID: w.OrgID, Kind: fee.SwapFee, SourceKind: fee.OfSwap, SourceID: w.ID, MintID: w.From.ID,
		Amount: w.FeeAmount, FeeBps: w.FeeBps, IncurredAt: tx.Now,
	})
	if err != nil || w.FeeAmount.IsZero() {
		return nil, err
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.SwapFee, ID: w.ID},
		Legs: []ledger.Leg{{
			Debit: w.account(ledger.SwapFeesDue, ""), Credit: w.account(ledger.SwapFeesBilled, ""), Amount: w.FeeAmount,
		}},
	}}, nil
}

// settleRefunds counts what came back at the refund wallet against what the provider has of ours. What
// arrives before our payment is final waits for it: if the payment is not made, it is no refund. Rules
// SWAP-12 and SWAP-20.
func (s *Service) settleRefunds(
	ctx context.Context, tx pg.Tx, receiver wallet.Wallet, w Swap, waiting []WaitingArrival,
) (Settlement, error) {
	t := settlement{receiver: receiver, swap: w}
	refunded := w.Refunded
	var last *chain.TxHash
	open, err := w.AmountIn.Sub(w.Short)
	if err != nil {
		return t.Settlement, fmt.Errorf("claim of swap %s: %w", w.ID, err)
	}
	amountMin, err := w.AmountIn.Bps(refundLeastBps)
	if err != nil {
		return t.Settlement, fmt.Errorf("least refund of swap %s: %w", w.ID, err)
	}
	for _, a := range waiting {
		sum, err := refunded.Add(a.Amount)
		reason := StrayReason("")
		switch {
		case a.MintID != w.From.ID || a.Chain != w.From.Chain:
			reason = OtherAsset
		case w.isDelivered():
			reason = AfterEnd
		case w.Status == FailedStatus && w.PaidAt == nil:
			reason = WithoutPaid
		case w.PaidAt == nil:
			continue
		case err != nil || open.Less(sum):
			reason = TooMuch
		case a.Amount.Less(amountMin) && w.RefundFee().Less(money.SubOrZero(open, sum)):
			// Taken as a refund, it would make the whole refund one that is too much.
			reason = TooSmall
		}
		if reason != "" {
			if err := t.addStrays(ctx, tx, []WaitingArrival{a}, reason); err != nil {
				return t.Settlement, err
			}
			continue
		}
		if err := t.add(ctx, tx, a, Refund, "", w.atProvider(), false); err != nil {
			return t.Settlement, err
		}
		refunded, last = sum, &a.Tx
	}
	if last == nil {
		return t.Settlement, nil
	}
	postings, err := s.countRefund(ctx, tx, &t, w, refunded, *last)
	t.Postings = append(t.Postings, postings...)
	return t.Settlement, err
}

// countRefund stores what has come back. It fails an open swap once the amount is back but for the fee
// that the provider signed; that fee is short at once.
func (s *Service) countRefund(
	ctx context.Context, tx pg.Tx, t *settlement, w Swap, refunded money.Amount, hash chain.TxHash,
) ([]ledger.Posting, error) {
	missing := money.SubOrZero(money.SubOrZero(w.AmountIn, w.Short), refunded)
	isWhole := !w.RefundFee().Less(missing)
	switch {
	case w.Status == FailedStatus:
		tag, err := tx.Exec(ctx, `
			UPDATE swaps SET refunded = $2, refund_tx_hash = $3, updated_at = $4,
				look_at = CASE WHEN $5 THEN NULL ELSE look_at END
			WHERE swap_id = $1 AND status = 'FAILED' AND refunded = $6`,
			w.ID, refunded, hash, tx.Now, isWhole, w.Refunded)
		if err != nil {
			return nil, fmt.Errorf("count the refund of swap %s: %w", w.ID, err)
		}
		if tag.RowsAffected() != 1 {
			return nil, fmt.Errorf("count the refund of swap %s: %w", w.ID, errLostRace)
		}
		var postings []ledger.Posting
		if isWhole {
			if postings, err = s.keepShort(ctx, tx, w.ID, missing); err != nil {
				return nil, err
			}
		}
		restored, err := s.afterRefund(ctx, tx, w.ID)
		return append(postings, restored...), err
	case !isWhole:
		_, err := tx.Exec(ctx, `
			UPDATE swaps SET refunded = $2, refund_tx_hash = $3, updated_at = $4, look_at = $4 WHERE swap_id = $1
				AND refunded = $5`,
			w.ID, refunded, hash, tx.Now, w.Refunded)
		if err != nil {
			return nil, fmt.Errorf("count the refund of swap %s: %w", w.ID, err)
		}
		t.Audit = append(t.Audit, newEntry(w, actor, "refunded", map[string]any{"refunded": refunded}))
		return nil, nil
	}
	if err := markDelivering(ctx, tx, w); err != nil { // a refund says that the provider had the payment
		return nil, err
	}
	w.Status = Processing
	return s.fail(ctx, tx, w, failure{
		reason: ProviderRefunded, message: "The provider sent the amount back.", refunded: refunded, refundTx: &hash,
		refundReport: provider.RefundPending, short: missing,
	})
}

// keepShort writes off what the provider keeps of a refund by the fee that it signed.
func (s *Service) keepShort(
	ctx context.Context, tx pg.Tx, swapID string, amount money.Amount,
) ([]ledger.Posting, error) {
	if amount.IsZero() {
		return nil, nil
	}
	w, err := loadAny(ctx, tx, swapID)
	if err != nil {
		return nil, err
	}
	var count int
	err = tx.QueryRow(ctx, `
		UPDATE swaps SET short = short + $2, short_count = short_count + 1, updated_at = $3, look_at = NULL
		WHERE swap_id = $1 AND status = 'FAILED' AND short = $4 RETURNING short_count`,
		swapID, amount, tx.Now, w.Short).Scan(&count)
	if err != nil {
		return nil, fmt.Errorf("write off what the provider keeps of swap %s: %w", swapID, err)
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.SwapShort, ID: fmt.Sprintf("%s/%d", swapID, count)},
		Legs:  []ledger.Leg{{Debit: w.inSwap(), Credit: w.atProvider(), Amount: amount}},
	}}, nil
}
