package deposit_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

// The swap of the tests gives 1000 USDC of alice for at least 90 wei.
const (
	swapID      = "cs_00000000000000000000000001"
	swapIn      = 1000
	swapMinOut  = 90
	swapFee     = 5
	swapFeeBps  = 50
	deliveryID  = "adr_delivery"
	refundID    = "adr_refund"
	swapAtVenue = "ONE_CLICK"
)

var (
	deliveryAt = sim.Address("where the swap is delivered")
	refundAt   = sim.Address("where the swap is refunded")
	venueAt    = sim.Address("deposit address of the provider")
)

// swapSettler settles by the rows of swaps as the feature does: what is expected is delivered or refunded,
// parts wait, and everything else is a stray.
type swapSettler struct{ deposit.ArrivalOwner }

type swapRow struct {
	OrgID, CustomerID, Provider, Status string
	FromMint, ToMint                    int
	In, MinOut, Refunded, Fee           money.Amount
}

func (swapSettler) SettleArrivals(
	ctx context.Context, tx pg.Tx, w wallet.Wallet, waiting []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	var s deposit.Settlement
	rows, err := tx.Query(ctx, `
		SELECT org_id, customer_id, provider, status, from_mint_id, to_mint_id, amount_in, min_out, refunded, fee_amount
		FROM swaps WHERE swap_id = $1 FOR UPDATE`, w.Subject)
	if err != nil {
		return s, err
	}
	swap, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[swapRow])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s, err
	}
	settle := func(a deposit.WaitingArrival, role deposit.ArrivalRole, reason string, credit ledger.Account) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at)
			VALUES ($1, $2, $3, $4, $5, $6)`,
			a.DepositID, w.OrgID, w.Subject, string(role), reason, tx.Now)
		s.Arrivals = append(s.Arrivals, deposit.SettledArrival{
			DepositID: a.DepositID, Role: role, CustomerID: swap.CustomerID, Credit: credit,
		})
		return err
	}
	var delivered []deposit.WaitingArrival
	sum := money.Zero
	for _, a := range waiting {
		var err error
		isOpen := swap.Status == "PENDING" || swap.Status == "PROCESSING"
		switch {
		case w.Purpose == wallet.SwapDelivery && isOpen && a.MintID == swap.ToMint:
			delivered = append(delivered, a)
			sum, err = sum.Add(a.Amount)
		case w.Purpose == wallet.SwapRefund && isOpen && a.MintID == swap.FromMint:
			err = settle(a, deposit.Refund, "", ledger.Account{Kind: ledger.AtProvider, Subject: swap.Provider})
			if err == nil {
				const count = `UPDATE swaps SET refunded = refunded + $2 WHERE swap_id = $1`
				_, err = tx.Exec(ctx, count, w.Subject, a.Amount)
			}
		default:
			err = settle(a, deposit.Stray, "NOT_EXPECTED", ledger.Account{Kind: ledger.Suspense})
		}
		if err != nil {
			return s, err
		}
	}
	if len(delivered) == 0 || sum.Less(swap.MinOut) {
		return s, nil
	}
	ofCustomer := ledger.Account{Kind: ledger.Customer, Subject: swap.CustomerID}
	for _, a := range delivered {
		if err := settle(a, deposit.Delivery, "", ofCustomer); err != nil {
			return s, err
		}
	}
	last := len(s.Arrivals) - 1
	s.Arrivals[last].Completes = true
	for _, sql := range []string{
		`UPDATE swaps SET status = 'PROCESSING' WHERE swap_id = $1 AND status = 'PENDING'`,
		`UPDATE swaps SET status = 'COMPLETED', amount_out = ` + sum.String() + `, origin_tx_hash = 'origin',
			destination_tx_hash = 'destination', completed_at = created_at WHERE swap_id = $1`,
		`INSERT INTO fee_lines (
			fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at)
		SELECT 'fee_' || swap_id, org_id, 'SWAP_FEE', 'SWAP', swap_id, from_mint_id, fee_amount, fee_bps, completed_at
		FROM swaps WHERE swap_id = $1`,
	} {
		if _, err := tx.Exec(ctx, sql, w.Subject); err != nil {
			return s, err
		}
	}
	account := func(kind ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: w.OrgID, MintID: swap.FromMint, Kind: kind, Subject: subject}
	}
	post := func(cause ledger.CauseKind, debit, credit ledger.Account, amount money.Amount) {
		s.Postings = append(s.Postings, ledger.Posting{
			Cause: ledger.Cause{Kind: cause, ID: w.Subject},
			Legs:  []ledger.Leg{{Debit: debit, Credit: credit, Amount: amount}},
		})
	}
	post(ledger.SwapEnd, account(ledger.InSwap, swap.CustomerID), account(ledger.AtProvider, swap.Provider), swap.In)
	post(ledger.SwapFee, account(ledger.SwapFeesDue, ""), account(ledger.SwapFeesBilled, ""), swap.Fee)
	return s, nil
}

// addSwapWallets adds the two wallets of a swap.
func (w *testEnv) addSwapWallets(t *testing.T, family chain.Family) {
	t.Helper()
	for _, a := range []struct {
		id, purpose string
		address     chain.Address
	}{
		{deliveryID, wallet.SwapDelivery, deliveryAt},
		{refundID, wallet.SwapRefund, refundAt},
	} {
		ref := signer.WalletRef{OrgID: w.org, Family: family, Purpose: a.purpose, Subject: swapID}
		if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, $3, $4, $5, 'm/1', $6, $7, now())`,
			a.id, w.org, string(family), a.purpose, swapID, a.address,
			ed25519.Sign(w.attest, signer.AttestedBytes(ref, "m/1", a.address))); err != nil {
			t.Fatalf("insert a wallet: %v", err)
		}
	}
}

// addSwap creates the swap with its hold and its order, as the feature does.
func (w *testEnv) addSwap(t *testing.T) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for _, sql := range []string{
			`INSERT INTO swaps (
				swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
				from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
				delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status,
				created_at, updated_at)
			SELECT $1, $2, 'alice', 'key-1', encode(sha256('key-1'), 'hex'), '\x00', 2, 1,
				'ETHEREUM', 'ETHEREUM', 1000, 100, 90, 'ONE_CLICK', $3,
				'adr_delivery', 'adr_refund', $4::timestamptz + '1 hour', $4::timestamptz + '2 hours', 50, 5, 'PENDING',
				$4, $4`,
			`INSERT INTO dispatch_orders (
				order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, customer_id,
				status, attempt_after, created_at, pay_by, swap)
			SELECT $1, $2, 'SWAP', 'ETHEREUM', 'adr_treasury', $3, 2, (SELECT contract FROM mints WHERE mint_id = 2),
				1000, 'alice', 'QUEUED', $4::timestamptz, $4, $4::timestamptz + '1 hour', '{}'`,
		} {
			if _, err := tx.Exec(ctx, sql, swapID, w.org, string(venueAt), tx.Now); err != nil {
				return err
			}
		}
		account := func(kind ledger.Kind) ledger.Account {
			return ledger.Account{OrgID: w.org, MintID: usdc, Kind: kind, Subject: "alice"}
		}
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.SwapHold, ID: swapID},
			Legs: []ledger.Leg{{
				Debit: account(ledger.Customer), Credit: account(ledger.InSwap), Amount: money.Units(swapIn),
			}},
		})
	})
	if err != nil {
		t.Fatalf("create a swap: %v", err)
	}
}

// newSwapEnv returns an environment in which a swap of alice is under way.
func newSwapEnv(t *testing.T) *testEnv {
	t.Helper()
	w := newReorgEnv(t)
	w.addSwapWallets(t, chain.EVM)
	w.c.Pay(payer, alice, usdcAt, swapIn)
	w.c.Mine(4)
	w.walkBlocks(t)
	w.addSwap(t)
	return w
}

func (w *testEnv) settleArrivals(t *testing.T) int {
	t.Helper()
	n, err := w.service.SettleArrivals(t.Context())
	if err != nil {
		t.Fatalf("SettleArrivals: %v", err)
	}
	return n
}

// payFinal pays in a block that becomes final, and walks it.
func (w *testEnv) payFinal(t *testing.T, to, token chain.Address, units uint64) {
	t.Helper()
	w.c.Pay(payer, to, token, units)
	w.c.Mine(4)
	w.walkBlocks(t)
}

// describeArrivals returns what the rows of arrivals for swaps say, in order.
func (w *testEnv) describeArrivals(t *testing.T) []string {
	t.Helper()
	rows, err := pgtest.OwnerPool(t, w.db).Query(t.Context(), `
		SELECT concat_ws(' ', amount, status, arrival_role, customer_id, CASE WHEN completes_swap THEN 'completes' END,
			CASE WHEN is_hidden THEN 'hidden' END, screening->>'status', screening->>'reference')
		FROM deposits WHERE swap_id IS NOT NULL ORDER BY amount`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (w *testEnv) wantArrivals(t *testing.T, want ...string) {
	t.Helper()
	if got := w.describeArrivals(t); !slices.Equal(got, want) {
		t.Errorf("arrivals: got %q, want %q", got, want)
	}
}

// wantSum checks the sum of an account without a floor.
func (w *testEnv) wantSum(t *testing.T, kind ledger.Kind, subject string, mintID int, want int64) {
	t.Helper()
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Sum(ctx, tx, ledger.Account{OrgID: w.org, MintID: mintID, Kind: kind, Subject: subject})
		if err == nil && got.Int64() != want {
			t.Errorf("%s %s in mint %d: got %v, want %d", kind, subject, mintID, got, want)
		}
		return err
	})
}

func (w *testEnv) swapDeposits(t *testing.T) []webhook.Deposit {
	t.Helper()
	return slices.DeleteFunc(w.listDeposits(t, deposit.Filter{}), func(d webhook.Deposit) bool {
		return d.Address == string(alice)
	})
}

func TestAFinalDeliveryCompletesItsSwapWithOneCreditAndOneEvent(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	before := w.countEvents(t, "CUSTOMER_DEPOSIT")
	w.c.Pay(payer, deliveryAt, "", 95)
	w.c.Mine(1)
	w.walkBlocks(t)
	w.wantArrivals(t) // not shown before it is final
	w.c.Mine(3)
	w.walkBlocks(t)
	w.wantArrivals(t, "95 SCREENING hidden PENDING")
	if n := w.creditAll(t); n != 0 {
		t.Errorf("screening credited %d of it, want none", n)
	}
	if n := w.settleArrivals(t); n != 1 {
		t.Fatalf("settled %d, want 1", n)
	}
	w.wantArrivals(t, "95 CREDITED DELIVERY alice completes SKIPPED INTERNAL_SWAP_CREDIT")
	if got := w.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(95) {
		t.Errorf("balance: got %v, want 95", got)
	}
	if got := w.loadBalance(t, ledger.InSwap, "alice", usdc); !got.IsZero() {
		t.Errorf("in swap: got %v, want none", got)
	}
	w.wantSum(t, ledger.AtProvider, swapAtVenue, usdc, swapIn) // we owe the provider until we have paid
	w.wantSum(t, ledger.SwapFeesDue, "", usdc, -swapFee)
	if got := w.loadFunds(t, deliveryID, eth).Credited; got != money.Units(95) {
		t.Errorf("on the address: got %v, want 95", got)
	}
	if n := w.countEvents(t, "CUSTOMER_DEPOSIT") - before; n != 1 {
		t.Errorf("got %d events, want 1", n)
	}
	shown := w.swapDeposits(t)
	if len(shown) != 1 || shown[0].Source != "CUSTOMER_SWAP" || shown[0].Swap == nil {
		t.Fatalf("got %+v, want one deposit with its swap", shown)
	}
	got := *shown[0].Swap
	if got.CustomerSwapID != swapID || got.IdempotencyKey != "key-1" ||
		got.FromMint.ID != usdc || got.ToMint.ID != eth ||
		got.AmountIn != "1000" || got.EstimatedAmountOut != "100" || *got.AmountOut != "95" ||
		*got.OriginTxHash != "origin" || *got.DestinationTxHash != "destination" || got.CreatedAt.IsZero() {
		t.Errorf("got swap %+v", got)
	}
	if w.queryCount(t, `SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'deposit.credited'`,
		shown[0].DepositID) != 1 {
		t.Error("got no audit entry of the credit")
	}
	if n := w.settleArrivals(t); n != 0 {
		t.Errorf("again: settled %d, want none", n)
	}
	w.checkBooks(t)
}

// Only the last part has the swap, and no part is credited before they are enough.
func TestPartsOfADeliveryWaitAndAreCreditedTogether(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 4) // below the minimum of the mint
	w.payFinal(t, deliveryAt, "", 50)
	if n := w.settleArrivals(t); n != 0 {
		t.Errorf("settled %d of a part, want none", n)
	}
	w.wantArrivals(t, "4 SCREENING hidden PENDING", "50 SCREENING hidden PENDING")
	w.payFinal(t, deliveryAt, "", 60)
	if n := w.settleArrivals(t); n != 3 {
		t.Errorf("settled %d, want 3", n)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(114) {
		t.Errorf("balance: got %v, want 114", got)
	}
	shown := w.swapDeposits(t)
	completing := 0
	for _, d := range shown {
		if d.Swap != nil {
			completing++
			if *d.Swap.AmountOut != "114" {
				t.Errorf("amount out: got %s, want the sum of the parts", *d.Swap.AmountOut)
			}
		}
		if d.Source != "CUSTOMER_SWAP" {
			t.Errorf("source of %s: got %s, want CUSTOMER_SWAP", d.Amount, d.Source)
		}
	}
	if len(shown) != 3 || completing != 1 {
		t.Errorf("got %d deposits, %d of them complete the swap, want 3 and 1", len(shown), completing)
	}
	w.checkBooks(t)
}

func TestAFinalRefundShrinksTheClaimAndIsHidden(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	before := w.queryCount(t, `SELECT count(*) FROM events`)
	w.payFinal(t, refundAt, usdcAt, 400)
	if n := w.settleArrivals(t); n != 1 {
		t.Fatalf("settled %d, want 1", n)
	}
	w.wantArrivals(t, "400 CREDITED REFUND alice hidden SKIPPED INTERNAL_SWAP_CREDIT")
	w.wantSum(t, ledger.AtProvider, swapAtVenue, usdc, 400)
	if got := w.loadBalance(t, ledger.InSwap, "alice", usdc); got != money.Units(swapIn) {
		t.Errorf("in swap: got %v, want it all until it is restored", got)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM events`) - before; n != 0 {
		t.Errorf("got %d events, want none", n)
	}
	w.checkBooks(t)
}

func TestWhatNoSwapExpectsIsHeldInSuspense(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, usdcAt, 21) // the mint that was given
	w.payFinal(t, refundAt, "", 22)       // the mint that was bought
	w.payFinal(t, deliveryAt, "", 95)
	if n := w.settleArrivals(t); n != 3 {
		t.Fatalf("settled %d, want 3", n)
	}
	w.payFinal(t, deliveryAt, "", 96)       // once more
	w.payFinal(t, refundAt, usdcAt, swapIn) // after the completion
	if n := w.settleArrivals(t); n != 2 {
		t.Fatalf("settled %d, want 2", n)
	}
	w.wantArrivals(t,
		"21 CREDITED STRAY alice hidden SKIPPED INTERNAL_SWAP_CREDIT",
		"22 CREDITED STRAY alice hidden SKIPPED INTERNAL_SWAP_CREDIT",
		"95 CREDITED DELIVERY alice completes SKIPPED INTERNAL_SWAP_CREDIT",
		"96 CREDITED STRAY alice hidden SKIPPED INTERNAL_SWAP_CREDIT",
		"1000 CREDITED STRAY alice hidden SKIPPED INTERNAL_SWAP_CREDIT")
	for mintID, want := range map[int]uint64{usdc: 21 + swapIn, eth: 22 + 96} {
		if got := w.loadBalance(t, ledger.Suspense, "", mintID); got != money.Units(want) {
			t.Errorf("suspense of mint %d: got %v, want %d", mintID, got, want)
		}
	}
	w.checkBooks(t)
}

// A wallet whose swap this database does not have, as after the restore of an old backup.
func TestAnArrivalForAnUnknownSwapIsAStrayOfNoCustomer(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	w.addSwapWallets(t, chain.EVM)
	w.payFinal(t, deliveryAt, "", 95)
	if n := w.settleArrivals(t); n != 1 {
		t.Fatalf("settled %d, want 1", n)
	}
	w.wantArrivals(t, "95 CREDITED STRAY hidden SKIPPED INTERNAL_SWAP_CREDIT")
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := w.service.CreditStray(ctx, tx, w.arrivalID(t, 95), audit.Operator("op"))
		return err
	})
	if !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("credit it to no customer: got %v, want %s", err, fault.InvalidState)
	}
	w.checkBooks(t)
}

func (w *testEnv) arrivalID(t *testing.T, units uint64) (depositID string) {
	t.Helper()
	err := pgtest.OwnerPool(t, w.db).QueryRow(
		t.Context(), `SELECT deposit_id FROM deposits WHERE swap_id IS NOT NULL AND amount = $1`, money.Units(units),
	).Scan(&depositID)
	if err != nil {
		t.Fatal(err)
	}
	return depositID
}

func TestTwoProcessesSettleAWalletOnce(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 95)
	services := []*deposit.Service{w.service, w.newService(w.service.Risk, w.service.Prices)}
	counts := make([]int, len(services))
	errs := make([]error, len(services))
	var all sync.WaitGroup
	for i, s := range services {
		all.Go(func() { counts[i], errs[i] = s.SettleArrivals(t.Context()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil || counts[0]+counts[1] != 1 {
		t.Errorf("got %v and %v, want one settled arrival", counts, err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", eth); got != money.Units(95) {
		t.Errorf("balance: got %v, want 95", got)
	}
	w.checkBooks(t)
}

// A wallet that fails does not stop the others, and what its transaction wrote is gone.
func TestASettlementThatFailsLeavesNothingAndStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	owner := pgtest.OwnerPool(t, w.db)
	exec := func(sql string) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`ALTER TABLE events ADD CONSTRAINT events_full CHECK (false) NOT VALID`)
	w.payFinal(t, deliveryAt, "", 95)
	w.payFinal(t, refundAt, "", 22)
	n, err := w.service.SettleArrivals(t.Context())
	if n != 1 || err == nil {
		t.Errorf("got %d settled and %v, want the stray alone and the reason", n, err)
	}
	w.wantArrivals(t,
		"22 CREDITED STRAY alice hidden SKIPPED INTERNAL_SWAP_CREDIT", "95 SCREENING hidden PENDING")
	if got := w.loadBalance(t, ledger.InSwap, "alice", usdc); got != money.Units(swapIn) {
		t.Errorf("in swap: got %v, want it all", got)
	}
	exec(`ALTER TABLE events DROP CONSTRAINT events_full`)
	if n := w.settleArrivals(t); n != 1 {
		t.Errorf("settled %d once events can be written, want 1", n)
	}
	w.checkBooks(t)
}

// Rule DEP-2 holds for arrivals for swaps, too.
func TestNothingIsSettledAtAWalletWhoseProofDoesNotHold(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 95)
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE wallets SET proof = decode(repeat('00', 64), 'hex') WHERE wallet_id = $1`, deliveryID,
	); err != nil {
		t.Fatal(err)
	}
	if n, err := w.service.SettleArrivals(t.Context()); n != 0 || !errors.Is(err, wallet.ErrProof) {
		t.Errorf("got %d and %v, want none and %v", n, err, wallet.ErrProof)
	}
	w.wantArrivals(t, "95 SCREENING hidden PENDING")
}

// Rule DEP-15 holds for arrivals for swaps, too.
func TestAnArrivalOfAQuarantinedMintIsNotSettled(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 95)
	owner := pgtest.OwnerPool(t, w.db)
	if _, err := owner.Exec(
		t.Context(), `UPDATE mints SET quarantined_at = now(), quarantine_reason = 'test' WHERE mint_id = 1`,
	); err != nil {
		t.Fatal(err)
	}
	if n := w.settleArrivals(t); n != 0 {
		t.Errorf("settled %d, want none", n)
	}
	if _, err := owner.Exec(
		t.Context(), `UPDATE mints SET quarantined_at = NULL, quarantine_reason = NULL WHERE mint_id = 1`,
	); err != nil {
		t.Fatal(err)
	}
	if n := w.settleArrivals(t); n != 1 {
		t.Errorf("settled %d after the release, want 1", n)
	}
}

// The loop hears of a final block and settles it.
func TestTheLoopSettlesWhatABlockBrings(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.service.RunArrivals(ctx) }()
	w.payFinal(t, deliveryAt, "", 95)
	for w.queryCount(t, `SELECT count(*) FROM swaps WHERE status = 'COMPLETED'`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the loop settled nothing")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("RunArrivals: %v", err)
	}
}

func TestAnOrganizationSeesNoHiddenArrivalAndTheOperatorSeesAll(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, refundAt, usdcAt, 400)
	w.payFinal(t, deliveryAt, usdcAt, 21)
	w.settleArrivals(t)
	w.payFinal(t, deliveryAt, "", 50) // waits
	if shown := w.swapDeposits(t); len(shown) != 0 {
		t.Errorf("listed: got %+v, want none", shown)
	}
	for _, units := range []uint64{400, 21, 50} {
		depositID := w.arrivalID(t, units)
		err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := deposit.Load(ctx, tx, w.org, depositID)
			return err
		})
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("read %d: got %v, want %s", units, err, fault.CodeNotFound)
		}
		for _, actor := range []deposit.Actor{{OrgID: w.org, Actor: audit.APIKey(w.org)}} {
			_, err := w.service.Approve(t.Context(), depositID, actor, "")
			if !fault.HasCode(err, fault.CodeNotFound) {
				t.Errorf("approve %d: got %v, want %s", units, err, fault.CodeNotFound)
			}
		}
	}
	err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
		exported := 0
		err := deposit.ForEach(ctx, tx, w.org, deposit.Filter{}, false, func(deposit.Deposit) error {
			exported++
			return nil
		})
		if err != nil {
			return err
		}
		if exported != 1 {
			t.Errorf("exported: got %d, want alice's first deposit alone", exported)
		}
		sums, err := deposit.UncreditedByMint(ctx, tx, w.org, "alice")
		if _, hasETH := sums[eth]; hasETH || !sums[usdc].Pending.IsZero() {
			t.Errorf("uncredited: got %+v, want nothing of the swap", sums)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
		found, err := deposit.ListAcrossOrgs(ctx, tx, "", deposit.Filter{}, pagination.Page{})
		if len(found.Items) != 4 {
			t.Errorf("the operator's list: got %d, want 4", len(found.Items))
		}
		return err
	})
}

// decideStray credits a stray as the operator's verb does.
func (w *testEnv) decideStray(t *testing.T, depositID string) error {
	t.Helper()
	return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		credited, err := w.service.CreditStray(ctx, tx, depositID, audit.Operator("op"))
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE swap_arrivals SET decision = 'CREDITED', note = 'asked', decided_by = 'OPERATOR op', decided_at = $2
			WHERE deposit_id = $1`, depositID, tx.Now); err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, credited.Posting); err != nil {
			return err
		}
		if err := wire.NewRecorder().RecordMany(ctx, tx, credited.Event); err != nil {
			return err
		}
		return audit.Record(ctx, tx, credited.Audit)
	})
}

func TestAStrayThatAPersonCreditsIsTheCustomersOnce(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, usdcAt, 21)
	w.settleArrivals(t)
	before := w.countEvents(t, "CUSTOMER_DEPOSIT")
	depositID := w.arrivalID(t, 21)
	if err := w.decideStray(t, depositID); err != nil {
		t.Fatalf("credit a stray: %v", err)
	}
	if err := w.decideStray(t, depositID); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("again: got %v, want %s", err, fault.InvalidState)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(21) {
		t.Errorf("balance: got %v, want 21", got)
	}
	if got := w.loadBalance(t, ledger.Suspense, "", usdc); !got.IsZero() {
		t.Errorf("suspense: got %v, want none", got)
	}
	shown := w.swapDeposits(t)
	if len(shown) != 1 || shown[0].Source != "INTERNAL" || shown[0].Swap != nil || *shown[0].CustomerID != "alice" {
		t.Errorf("got %+v, want an internal deposit without a swap", shown)
	}
	if n := w.countEvents(t, "CUSTOMER_DEPOSIT") - before; n != 1 {
		t.Errorf("got %d events, want 1", n)
	}
	w.checkBooks(t)
}

// The statement of a customer shows the moves of its swaps with the id of the swap.
func TestTheStatementOfACustomerShowsItsSwaps(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 95)
	w.settleArrivals(t)
	err := w.db.ReadOrg(t.Context(), w.org, func(ctx context.Context, tx pg.Tx) error {
		found, err := ledger.ListEntries(ctx, tx, w.org, ledger.Filter{
			Kinds: []ledger.Kind{ledger.Customer, ledger.Withdrawing, ledger.InSwap}, Subject: "alice",
		}, pagination.Page{})
		var got []string
		for _, e := range found.Items {
			if e.Cause.ID == swapID {
				got = append(got, fmt.Sprint(e.Cause.Kind, " ", e.Account.Kind, " ", e.Credit))
			}
		}
		want := []string{"SWAP_HOLD CUSTOMER false", "SWAP_HOLD IN_SWAP true", "SWAP_END IN_SWAP false"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// removeArrivals removes the blocks of the last arrivals, and settles what is left.
func (w *testEnv) removeArrivals(t *testing.T, depth int) {
	t.Helper()
	w.c.Fork(depth)
	w.c.MineEmpty(depth + 1)
	w.partChain(t)
	b := w.repointChain(t)
	w.c.MineEmpty(int(b.SettleHeight))
	w.walkFinal(t)
	w.settleReorgs(t)
}

func TestAReversedArrivalLeavesTheAccountThatItCredited(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		to, token chain.Address
		units     uint64
		isDecided bool
		want      func(t *testing.T, w *testEnv)
	}{
		{"delivery", deliveryAt, "", 95, false, func(t *testing.T, w *testEnv) {
			t.Helper()
			if got := w.loadBalance(t, ledger.Customer, "alice", eth); !got.IsZero() {
				t.Errorf("delivery: got %v, want none", got)
			}
			if w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED") != 1 {
				t.Error("delivery: got no event of the reversal")
			}
		}},
		{"refund", refundAt, usdcAt, 400, false, func(t *testing.T, w *testEnv) {
			t.Helper()
			w.wantSum(t, ledger.AtProvider, swapAtVenue, usdc, 0)
			if w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED") != 0 {
				t.Error("refund: got an event of the reversal, want none")
			}
		}},
		{"stray", deliveryAt, usdcAt, 21, false, func(t *testing.T, w *testEnv) {
			t.Helper()
			if got := w.loadBalance(t, ledger.Suspense, "", usdc); !got.IsZero() {
				t.Errorf("stray: got %v, want none", got)
			}
			w.wantFrozen(t, "FINALITY CHAIN ETHEREUM") // its customer has nothing of it
		}},
		{"stray of a customer", deliveryAt, usdcAt, 21, true, func(t *testing.T, w *testEnv) {
			t.Helper()
			if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
				t.Errorf("credited stray: got %v, want none", got)
			}
			if w.countEvents(t, "CUSTOMER_DEPOSIT_REVERSED") != 1 {
				t.Error("credited stray: got no event of the reversal")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newSwapEnv(t)
			w.payFinal(t, c.to, c.token, c.units)
			if n := w.settleArrivals(t); n != 1 {
				t.Fatalf("settled %d, want 1", n)
			}
			if c.isDecided {
				if err := w.decideStray(t, w.arrivalID(t, c.units)); err != nil {
					t.Fatal(err)
				}
			}
			w.removeArrivals(t, 4)
			n := w.queryCount(t, `SELECT count(*) FROM deposits WHERE swap_id IS NOT NULL AND status = 'REVERSED'`)
			if n != 1 {
				t.Errorf("got %d reversed, want 1: %q", n, w.describeArrivals(t))
			}
			c.want(t, w)
			w.checkBooks(t)
		})
	}
}

// What waits is orphaned like any other deposit, and settled when the new fork has it.
func TestAWaitingArrivalIsOrphanedAndFoundAgain(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 50)
	w.settleArrivals(t)
	w.wantArrivals(t, "50 SCREENING hidden PENDING")
	w.c.Fork(4)
	w.c.MineEmpty(2)
	w.c.Mine(5) // the payment again
	w.partChain(t)
	w.repointChain(t)
	w.wantArrivals(t, "50 ORPHANED hidden PENDING")
	w.walkFinal(t)
	w.wantArrivals(t, "50 SCREENING hidden PENDING")
}

// A role that writes rows cannot make another thing of an arrival.
func TestTheTableRefusesACreditOfAnotherRoleOrAmount(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 50) // below what the swap accepts
	w.payFinal(t, refundAt, usdcAt, 400)
	delivery, refund := w.arrivalID(t, 50), w.arrivalID(t, 400)
	credit := func(
		depositID, role, customerID string, mintID int, account ledger.Account, units uint64, sql ...string,
	) error {
		return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			if _, err := tx.Exec(ctx, `
				INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at)
				VALUES ($1, $2, $3, $4, CASE $4 WHEN 'STRAY' THEN 'x' ELSE '' END, $5)`,
				depositID, w.org, swapID, role, tx.Now); err != nil {
				return err
			}
			for _, s := range sql {
				if _, err := tx.Exec(ctx, s); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(ctx, `
				UPDATE deposits SET status = 'CREDITED', credited_at = $4, arrival_role = $2,
					customer_id = nullif($3, ''), is_hidden = $2 <> 'DELIVERY'
				WHERE deposit_id = $1`, depositID, role, customerID, tx.Now); err != nil {
				return err
			}
			account.OrgID, account.MintID = w.org, mintID
			return ledger.Post(ctx, tx, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: depositID},
				Legs: []ledger.Leg{{
					Debit:  ledger.Account{OrgID: w.org, MintID: mintID, Kind: ledger.Custody},
					Credit: account, Amount: money.Units(units),
				}},
			})
		})
	}
	ofAlice := ledger.Account{Kind: ledger.Customer, Subject: "alice"}
	ofProvider := ledger.Account{Kind: ledger.AtProvider, Subject: swapAtVenue}
	suspense := ledger.Account{Kind: ledger.Suspense}
	for _, c := range []struct {
		name, constraint string
		err              error
	}{
		{
			"a delivery of a swap that is not completed", "deposits_of_swap",
			credit(delivery, "DELIVERY", "alice", eth, ofAlice, 50),
		},
		{
			"a delivery of another customer", "deposits_of_swap",
			credit(delivery, "DELIVERY", "bob", eth, ledger.Account{Kind: ledger.Customer, Subject: "bob"}, 50),
		},
		{"a stray to the customer", "ledger_transfers_of_cause", credit(delivery, "STRAY", "alice", eth, ofAlice, 50)},
		{"more than arrived", "ledger_transfers_of_cause", credit(delivery, "STRAY", "alice", eth, suspense, 51)},
		{"a stray of another customer", "deposits_of_swap", credit(delivery, "STRAY", "bob", eth, suspense, 50)},
		{
			"a refund at the delivery wallet", "deposits_arrival",
			credit(delivery, "REFUND", "alice", eth, ofProvider, 50),
		},
		{
			"a refund to the customer", "ledger_transfers_of_cause",
			credit(refund, "REFUND", "alice", usdc, ofAlice, 400),
		},
		{
			"a refund of another provider", "ledger_transfers_of_cause",
			credit(refund, "REFUND", "alice", usdc, ledger.Account{Kind: ledger.AtProvider, Subject: "RELAY"}, 400),
		},
		{
			"a refund that counts for more", "swaps_refunds",
			credit(
				refund, "REFUND", "alice", usdc, ofProvider, 400,
				`UPDATE swaps SET refunded = 500 WHERE swap_id = '`+swapID+`'`,
			),
		},
	} {
		if !pg.ViolatesConstraint(c.err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", c.name, c.err, c.constraint)
		}
	}
	w.wantArrivals(t, "50 SCREENING hidden PENDING", "400 SCREENING hidden PENDING")
	// Afterwards nothing changes what it is.
	w.payFinal(t, deliveryAt, "", 60)
	w.settleArrivals(t)
	for _, set := range []string{
		`arrival_role = 'STRAY'`, `completes_swap = NOT completes_swap`, `is_hidden = true`, `customer_id = 'bob'`,
		`swap_id = 'cs_2'`,
	} {
		err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE deposits SET `+set+` WHERE deposit_id = $1`, delivery)
			return err
		})
		if !pg.ViolatesConstraint(err, "deposits_identity_fixed") {
			t.Errorf("%s: got %v, want a violation of deposits_identity_fixed", set, err)
		}
	}
}

// wrongSettler decides what no rows support.
type wrongSettler struct {
	deposit.ArrivalOwner
	settlement func(waiting []deposit.WaitingArrival) []deposit.SettledArrival
}

func (o wrongSettler) SettleArrivals(
	_ context.Context, _ pg.Tx, _ wallet.Wallet, waiting []deposit.WaitingArrival,
) (deposit.Settlement, error) {
	return deposit.Settlement{Arrivals: o.settlement(waiting)}, nil
}

func TestASettlementOfAnotherAccountThanItsRoleIsRefused(t *testing.T) {
	t.Parallel()
	w := newSwapEnv(t)
	w.payFinal(t, deliveryAt, "", 95)
	settled := func(a deposit.SettledArrival) func([]deposit.WaitingArrival) []deposit.SettledArrival {
		return func(waiting []deposit.WaitingArrival) []deposit.SettledArrival {
			if a.DepositID == "" {
				a.DepositID = waiting[0].DepositID
			}
			return []deposit.SettledArrival{a}
		}
	}
	for name, fn := range map[string]func([]deposit.WaitingArrival) []deposit.SettledArrival{
		"a delivery of no customer": settled(deposit.SettledArrival{
			Role: deposit.Delivery, Credit: ledger.Account{Kind: ledger.Customer},
		}),
		"a delivery to suspense": settled(deposit.SettledArrival{
			Role: deposit.Delivery, CustomerID: "alice", Credit: ledger.Account{Kind: ledger.Suspense},
		}),
		"a stray to a customer": settled(deposit.SettledArrival{
			Role: deposit.Stray, CustomerID: "alice", Credit: ledger.Account{Kind: ledger.Customer, Subject: "alice"},
		}),
		"another deposit": settled(deposit.SettledArrival{
			DepositID: "dep_other", Role: deposit.Stray, Credit: ledger.Account{Kind: ledger.Suspense},
		}),
		"one deposit twice": func(waiting []deposit.WaitingArrival) []deposit.SettledArrival {
			a := deposit.SettledArrival{
				DepositID: waiting[0].DepositID, Role: deposit.Stray, Credit: ledger.Account{Kind: ledger.Suspense},
			}
			return []deposit.SettledArrival{a, a}
		},
	} {
		registered := owners()
		registered[wallet.SwapDelivery] = wrongSettler{settlement: fn}
		s := w.newService(w.service.Risk, w.service.Prices)
		s.Owners = deposit.NewOwners(registered)
		if n, err := s.SettleArrivals(t.Context()); n != 0 || err == nil || !strings.Contains(err.Error(), "deposit ") {
			t.Errorf("%s: got %d and %v, want a refusal", name, n, err)
		}
	}
	w.wantArrivals(t, "95 SCREENING hidden PENDING")
}

// On a UTXO chain what is credited counts at the treasury, and its output can be spent from then on.
func TestAnOutputForASwapIsFreeOnceItIsSettled(t *testing.T) {
	t.Parallel()
	w, _ := newUTXOEnv(t)
	w.addSwapWallets(t, chain.BitcoinFamily)
	w.payTo(t, deliveryAt, 95)
	w.wantOutputs(t, "HELD 95 at "+deliveryID)
	if n := w.settleArrivals(t); n != 1 {
		t.Fatalf("settled %d, want 1", n)
	}
	w.wantArrivals(t, "95 CREDITED STRAY hidden SKIPPED INTERNAL_SWAP_CREDIT")
	w.wantOutputs(t, "FREE 95 at "+deliveryID)
	w.wantHoldings(t, 95, 0, 0, 0)
	w.checkBooks(t)
}
