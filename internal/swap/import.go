package swap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/wallet"
)

// restoreActor is the actor of rows that a restore makes.
var restoreActor = audit.System("restore")

// OnRestored implements dispatch.RestoreListener. It makes the rows and holds of swaps whose payment the
// signer's journal has and the database lacks. The hold is always whole; what the restored balance of its
// customer or product lacks for it is a debt, which deposits pay once they are found again. A payment that was never
// signed is recalled: its swap fails, with its amount.
func (s *Service) OnRestored(ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder) ([]ledger.Posting, error) {
	balances := map[ledger.Account]money.Amount{}
	var postings []ledger.Posting
	for _, o := range orders {
		added, err := s.restoreOne(ctx, tx, o, balances)
		if err != nil {
			return nil, fmt.Errorf("restore swap %s: %w", o.ID, err)
		}
		postings = append(postings, added...)
	}
	return postings, nil
}

func (s *Service) restoreOne(
	ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder, balances map[ledger.Account]money.Amount,
) (postings []ledger.Posting, err error) {
	if o.Swap == nil {
		return nil, errors.New("the journal does not say what it buys")
	}
	w, err := lock(ctx, tx, o.ID)
	switch {
	case isGone(err) && !o.IsNew:
		return nil, errors.New("the database has its order and not its row")
	case isGone(err):
		if postings, err = s.insertRestored(ctx, tx, o, balances); err != nil {
			return nil, err
		}
		if w, err = lock(ctx, tx, o.ID); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !w.hasOffer():
		if w, err = s.adoptJournaled(ctx, tx, o, w); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Voided || !o.Signed && w.Status == Pending && o.Status == dispatch.Recalled:
		ended, err := s.endVoided(ctx, tx, w)
		return append(postings, ended...), err
	case !o.Signed && w.Status == Pending && o.Status != dispatch.Recalled:
		err := s.markEnding(ctx, tx, o.ID, OriginTxFailed, "The payment was admitted and never signed before the "+
			"database was restored.")
		if err != nil {
			return nil, err
		}
		if isRecalled, err := dispatch.Recall(ctx, tx, o.ID); err != nil || !isRecalled {
			return nil, errors.Join(err, errors.New("its payment cannot be recalled"))
		}
	case o.Signed && w.Status == Pending && (o.Status == dispatch.Broadcast || o.Status == dispatch.Stuck):
		return postings, setStatus(ctx, tx, o.ID, Pending, Depositing, "look_at = $4")
	}
	return postings, nil
}

// endVoided ends a swap whose payment was recalled. Where the journal has the void, nothing else ends it: the
// Voider only waits for voids that the journal lacks.
func (s *Service) endVoided(ctx context.Context, tx pg.Tx, w Swap) ([]ledger.Posting, error) {
	if err := s.markEnding(ctx, tx, w.ID, OriginTxFailed, dispatch.VoidedAfterBackup); err != nil {
		return nil, err
	}
	state, err := dispatch.LoadVoidState(ctx, tx, w.ID)
	if err != nil || state != dispatch.Voided || !w.Status.isOpen() {
		return nil, err
	}
	return s.failUnpaid(ctx, tx, w, OriginTxFailed, dispatch.VoidedAfterBackup)
}

// insertRestored makes the row of a swap from the terms in the journal. The fee is that of today's
// setting: the journal does not have the one of the creation.
func (s *Service) insertRestored(
	ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder, balances map[ledger.Account]money.Amount,
) ([]ledger.Posting, error) {
	terms, owner := o.Swap, ledger.OwnerOf(o.CustomerID, o.Product)
	var payout signer.SwapPayout
	switch {
	case !owner.IsOrganization():
		if _, _, err := customer.Ensure(ctx, tx, o.OrgID, o.CustomerID, ""); err != nil {
			return nil, err
		}
	case o.Grant == nil || o.Grant.Payout == nil:
		return nil, errors.New("the journal does not say where its output is paid")
	default:
		payout = *o.Grant.Payout
	}
	delivery, err := wallet.ByRef(ctx, tx, terms.Delivery)
	if err != nil {
		return nil, fmt.Errorf("its delivery wallet: %w", err)
	}
	refund, err := wallet.ByRef(ctx, tx, terms.Refund)
	if err != nil {
		return nil, fmt.Errorf("its refund wallet: %w", err)
	}
	settings, err := org.SettingsOf(ctx, tx, o.OrgID)
	if err != nil {
		return nil, err
	}
	feeBps := settings.SwapFeeBps
	if owner.IsOrganization() {
		feeBps = 0
	}
	fee, err := o.Amount.Bps(uint64(feeBps))
	if err != nil {
		return nil, err
	}
	account := owner.SpendingAccount(o.OrgID, o.MintID)
	if _, isLoaded := balances[account]; !isLoaded {
		if balances[account], err = ledger.Balance(ctx, tx, account); err != nil {
			return nil, err
		}
	}
	owed := money.SubOrZero(o.Amount, balances[account])
	balances[account] = money.SubOrZero(balances[account], o.Amount)
	quote := readJournaled(o)
	columns, err := s.organizationColumns(o, payout)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO swaps (swap_id, org_id, customer_id, key_hash, from_mint_id, to_mint_id, from_chain, to_chain,
			amount_in, estimated_out, min_out, provider, deposit_address, delivery_wallet_id, refund_wallet_id,
			refund_fee, pay_by, expires_at, estimated_seconds, fee_bps, fee_amount, status, owed, created_at,
			updated_at, imported_at, kind, product, whitelisted_address_id, payout_address, payout_max, payout_until,
			approvals_required, request_mac)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
			$21, $22, $23, $24, $25, $25, $26, nullif($27, ''), $28, $29, $30, $31, $32, $33)`,
		o.ID, o.OrgID, o.CustomerID, o.KeyHash, o.MintID, terms.ToMintID, o.Chain, terms.ToChain, o.Amount,
		terms.EstimatedOut, terms.MinOut, terms.Provider, o.To, delivery.ID, refund.ID, quote.RefundFee, o.PayBy,
		quote.Deadline, estimatedSeconds(quote.Estimate), feeBps, fee, Pending, owed, o.CreatedAt, tx.Now,
		columns.kind, o.Product, columns.whitelistedID, columns.address, columns.max, columns.payoutUntil,
		columns.required, columns.mac)
	if err != nil {
		return nil, err
	}
	if err := insertJournaledOffer(ctx, tx, o, quote); err != nil {
		return nil, err
	}
	var postings []ledger.Posting
	if !owed.IsZero() {
		debt := owner.DebtAccount(o.OrgID, o.MintID)
		postings = append(postings, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Restore, ID: o.ID},
			Legs:  []ledger.Leg{{Debit: debt, Credit: account, Amount: owed}},
		})
	}
	w, err := loadAny(ctx, tx, o.ID)
	if err != nil {
		return nil, err
	}
	err = audit.Record(ctx, tx, newEntry(w, restoreActor, "requested", map[string]any{
		"restored": true, "signed": o.Signed, "owed": owed,
	}))
	return append(postings, newHoldPosting(o.OrgID, o.ID, owner, o.MintID, o.Amount)), err
}

// organizationColumns are the columns of an organization's swap alone, as the journal has them.
type organizationColumns struct {
	kind          Kind
	whitelistedID *string
	address       *chain.Address
	max           *money.Amount
	payoutUntil   *time.Time
	required      int
	mac           []byte
}

func (s *Service) organizationColumns(
	o dispatch.RestoredOrder, payout signer.SwapPayout,
) (c organizationColumns, err error) {
	if o.Product == "" {
		return organizationColumns{kind: CustomerSwap}, nil
	}
	end, err := time.Parse(time.RFC3339Nano, payout.NotAfter)
	if err != nil {
		return c, fmt.Errorf("until when its output may be paid: %w", err)
	}
	return organizationColumns{
		OrganizationSwap, &payout.WhitelistedID, &payout.To, &payout.MaxOut, &end, o.Grant.Required,
		s.GrantKey.SwapRequestMAC(payout, o.Grant.Required),
	}, nil
}

// adoptJournaled gives a swap of the backup the offer that it got afterwards. The signer checked the approvals
// that it had by then, and its journal has none of them: the payout of the swap waits for people.
func (s *Service) adoptJournaled(
	ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder, w Swap,
) (Swap, error) {
	payout := w.payout()
	if o.Grant == nil || !o.Grant.Payout.Equal(&payout) || w.Status != AwaitingApproval && w.Status != Pending {
		return w, fmt.Errorf("it is %s here, and the journal has it with other terms or an offer", w.Status)
	}
	if w.Status == AwaitingApproval {
		if err := setStatus(ctx, tx, w.ID, AwaitingApproval, Pending, "approved_at = $4"); err != nil {
			return w, err
		}
		entry := newEntry(w, restoreActor, "approved", map[string]any{"restored": true})
		if err := audit.Record(ctx, tx, entry); err != nil {
			return w, err
		}
	}
	quote := readJournaled(o)
	_, err := tx.Exec(ctx, `
		UPDATE swaps SET provider = $2, deposit_address = $3, refund_fee = $4, pay_by = $5, expires_at = $6,
			estimated_seconds = $7, estimated_out = $8, look_at = NULL, adopted_at = $9, updated_at = $9
		WHERE swap_id = $1 AND status = 'PENDING' AND provider IS NULL`,
		w.ID, o.Swap.Provider, o.To, quote.RefundFee, o.PayBy, quote.Deadline, estimatedSeconds(quote.Estimate),
		o.Swap.EstimatedOut, tx.Now)
	if err != nil {
		return w, fmt.Errorf("its offer: %w", err)
	}
	if err := insertJournaledOffer(ctx, tx, o, quote); err != nil {
		return w, err
	}
	entry := newEntry(w, restoreActor, "offered", map[string]any{"restored": true})
	if err := audit.Record(ctx, tx, entry); err != nil {
		return w, err
	}
	return lock(ctx, tx, w.ID)
}

func insertJournaledOffer(ctx context.Context, tx pg.Tx, o dispatch.RestoredOrder, quote signedquote.Quote) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, created_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		o.ID, o.OrgID, string(o.Swap.Scheme), quote.DepositAddress, o.Swap.SignedQuote, tx.Now)
	if err != nil {
		return fmt.Errorf("its offer: %w", err)
	}
	return nil
}

// readJournaled returns what the signed quote of a journaled swap says besides its terms: the fee of a refund,
// the end, the estimate, and the deposit address as the provider writes it, which names the swap to it. The
// signer verified the quote before it journaled it. A quote that cannot be read here stops no restore: its
// swap has the end of its payment and no fee of a refund.
func readJournaled(o dispatch.RestoredOrder) signedquote.Quote {
	usual := signedquote.Quote{DepositAddress: string(o.To), Deadline: o.PayBy.Add(askDeadline)}
	if o.Swap.Scheme != signedquote.OneClickV0 {
		return usual
	}
	quote, err := signedquote.ReadOneClick(o.Swap.SignedQuote)
	if err != nil {
		return usual
	}
	return quote
}

const (
	collectBatchMax = 500
	collectPause    = time.Second
)

// RunCollectOwed runs CollectOwed until ctx ends. Any number of processes may run it. It returns nil.
func (s *Service) RunCollectOwed(ctx context.Context, log *slog.Logger) error {
	for {
		if _, err := s.CollectOwed(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "swap: cannot collect debts of restored swaps", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectPause):
		}
	}
}

// CollectOwed takes from customers and products what they owe for restored swaps, as far as their balances suffice.
// It returns how many debts it reduced. Without a restore it finds nothing.
func (s *Service) CollectOwed(ctx context.Context) (reduced int, err error) {
	var ids []string
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT swap_id FROM swaps s WHERE owed > 0 AND EXISTS (
				SELECT FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
				WHERE a.org_id = s.org_id AND a.mint_id = s.from_mint_id AND b.balance > 0
					AND (a.kind, a.subject) = (CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END,
						coalesce(s.product, s.customer_id)))
			ORDER BY created_at, swap_id LIMIT $1`, collectBatchMax)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for debts of swaps: %w", err)
	}
	for _, swapID := range ids {
		isCollected := false
		err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			isCollected, err = collectOwed(ctx, tx, swapID)
			return err
		})
		if errors.Is(err, ledger.ErrOverdraft) {
			continue // a concurrent payment spent the balance; the next run tries again
		}
		if err != nil {
			return reduced, fmt.Errorf("collect for swap %s: %w", swapID, err)
		}
		if isCollected {
			reduced++
		}
	}
	return reduced, nil
}

func collectOwed(ctx context.Context, tx pg.Tx, swapID string) (bool, error) {
	w, err := lock(ctx, tx, swapID)
	if err != nil {
		return false, err
	}
	var owed money.Amount
	var collections int
	err = tx.QueryRow(ctx, `SELECT owed, collections FROM swaps WHERE swap_id = $1`, swapID).Scan(&owed, &collections)
	if err != nil {
		return false, err
	}
	balance, err := ledger.Balance(ctx, tx, w.spendable())
	if err != nil {
		return false, err
	}
	amount := money.SubOrZero(owed, money.SubOrZero(owed, balance))
	if amount.IsZero() {
		return false, nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET owed = owed - $2, collections = collections + 1 WHERE swap_id = $1 AND owed = $3
			AND collections = $4`,
		swapID, amount, owed, collections)
	if err != nil {
		return false, err
	}
	if tag.RowsAffected() != 1 {
		return false, errLostRace
	}
	debt := w.owner().DebtAccount(w.OrgID, w.From.ID)
	err = ledger.Post(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Restore, ID: fmt.Sprintf("%s/%d", swapID, collections+1)},
		Legs:  []ledger.Leg{{Debit: w.spendable(), Credit: debt, Amount: amount}},
	})
	if err != nil {
		return false, err
	}
	return true, audit.Record(ctx, tx, newEntry(w, restoreActor, "collected", map[string]any{
		"taken": amount, "owed": money.SubOrZero(owed, amount),
	}))
}
