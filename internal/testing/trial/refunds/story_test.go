package refunds

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// A full refund to an address that the organization gives reaches the payer to the last unit. Rules CO-80, CO-84,
// CO-89.
func TestAFullRefundReachesItsPayerToTheLastUnit(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	e.books(dollars, 100*million, 0)
	r, key := e.refund(request(id, to(home)))
	if key != "" || r.Status != checkout.RefundRequested || r.IsClaimable {
		t.Errorf("got %+v with the key %q, want a refund without a key", r, key)
	}
	e.books(dollars, 0, 100*million)
	done := e.until(r.ID, checkout.RefundCompleted)
	if done.Tx == "" || done.CompletedAt == nil || done.WithdrawalID == "" {
		t.Errorf("got %+v, want the payment of a completed refund", done)
	}
	e.has(home, dollars, 100*million)
	e.books(dollars, 0, 0)
	e.exceptions(id, outcome.Refunded)
	if got := e.events(id); !slices.Equal(got, []string{"CHECKOUT_COMPLETED", "CHECKOUT_REFUNDED"}) &&
		!slices.Equal(got, []string{"CHECKOUT_PROCESSING", "CHECKOUT_COMPLETED", "CHECKOUT_REFUNDED"}) {
		t.Errorf("got the events %v, want one of the refund", got)
	}
	e.pass(2) // and nothing more happens
	e.has(home, dollars, 100*million)
}

// The event of a refund has no address that the signer did not attest. Rules CO-29 and CO-89.
func TestTheEventOfARefundHasNoChangedAddress(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	r, _ := e.refund(request(id, to(home)))
	_, err := pgtest.OwnerPool(t, e.db).Exec(e.ctx, `
		BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE wallets SET path = path || '/1' WHERE purpose = 'CHECKOUT' AND subject = '`+id+`';
		COMMIT`)
	e.must(err)
	e.until(r.ID, checkout.RefundCompleted)
	got := e.texts(`
		SELECT DISTINCT coalesce(o ->> 'address', 'none')
		FROM events v, jsonb_array_elements(convert_from(v.data, 'UTF8')::jsonb -> 'paymentOptions') o
		WHERE v.resource_id = $1 AND v.type = 'CHECKOUT_REFUNDED'`, id)
	if !slices.Equal(got, []string{"none"}) {
		t.Errorf("got the addresses %v, want none", got)
	}
}

// The event of a refund has the refund that was paid, also when a newer one waits for its payer. Rules CO-89 and CO-92.
func TestTheEventOfARefundHasTheRefundThatWasPaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(130 * million)
	paid, _ := e.refund(request(id, amount(20*million), to(home)))
	e.advance(time.Second)
	newer, _ := e.refund(request(id)) // all that is left
	e.until(paid.ID, checkout.RefundCompleted)
	e.is(newer.ID, checkout.RefundAwaitingAddress)
	e.exceptions(id, outcome.Overpaid) // Not all of it was given back yet.
	got := e.texts(`
		SELECT concat_ws(' ', f ->> 'refundId', f ->> 'status', f ->> 'amount', f ->> 'claimUrl')
		FROM events v, LATERAL (SELECT convert_from(v.data, 'UTF8')::jsonb -> 'refund' AS f) d
		WHERE v.resource_id = $1 AND v.type = 'CHECKOUT_REFUNDED'`, id)
	if want := []string{paid.ID + " COMPLETED 20000000"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	if c.Refund == nil || c.Refund.ID != newer.ID || len(c.Refund.Parts) != 1 {
		t.Errorf("got %+v, want the newer refund with its part", c.Refund)
	}
}

// Without an address the payer claims the refund with a key that is given out once and stored nowhere. Rules CO-81,
// CO-87 and CO-88.
func TestAPayerClaimsARefundWithItsKey(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(130 * million)
	r, key := e.refund(request(id, overpaid))
	if r.Status != checkout.RefundAwaitingAddress || len(key) != 22 || r.Amount != money.Units(30*million) ||
		!r.IsClaimable {
		t.Fatalf("got %+v with the key %q, want a claimable refund of 30 dollars", r, key)
	}
	found := e.texts(`SELECT 'found' FROM refunds WHERE to_jsonb(refunds)::text LIKE '%' || $1 || '%'`, key)
	if len(found) > 0 {
		t.Error("the key is stored")
	}
	e.pass(2)
	e.is(r.ID, checkout.RefundAwaitingAddress)
	for name, c := range map[string]checkout.RefundClaim{
		"a wrong key":         {RefundID: r.ID, Key: "AAAAAAAAAAAAAAAAAAAAAA", Address: string(home)},
		"no key":              {RefundID: r.ID, Address: string(home)},
		"an absent refund":    {RefundID: "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC", Key: key, Address: string(home)},
		"no id of any refund": {RefundID: "x", Key: key, Address: string(home)},
	} {
		_, err := e.Checkouts.ClaimRefund(e.ctx, c)
		f := e.wantFault(err, fault.CodeNotFound)
		if f.Reason != "There is no refund with this key." {
			t.Errorf("%s: got %q, want the one answer", name, f.Reason)
		}
	}
	_, err := e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: key, Address: "0x12"})
	e.wantFault(err, fault.InvalidAddress)
	claim := checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(home), IsAddressProven: true}
	claimed, err := e.Checkouts.ClaimRefund(e.ctx, claim)
	e.must(err)
	if claimed.Status != checkout.RefundRequested || claimed.ToAddress != home || !claimed.IsAddressProven {
		t.Errorf("got %+v, want the claimed refund", claimed)
	}
	_, err = e.Checkouts.ClaimRefund(e.ctx, claim) // the answer was lost
	e.must(err)
	claim.Address = string(second)
	_, err = e.Checkouts.ClaimRefund(e.ctx, claim)
	e.wantFault(err, fault.InvalidState)
	e.until(r.ID, checkout.RefundCompleted)
	e.has(home, dollars, 30*million)
	e.has(second, dollars, 0)
	e.books(dollars, 100*million, 0)
	e.exceptions(id, outcome.Overpaid)
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id, overpaid))
	e.wantFault(err, fault.RefundExceedsPayment)
}

// A key that was replaced opens nothing. Rule CO-87.
func TestAReplacedKeyIsWorthNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, old := e.refund(request(e.paid(100 * million)))
	_, present, err := e.Checkouts.ReissueRefundKey(e.ctx, e.org, r.ID, audit.User("ann"))
	e.must(err)
	_, err = e.Checkouts.ClaimableRefund(e.ctx, r.ID, old)
	e.wantFault(err, fault.CodeNotFound)
	_, err = e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: old, Address: string(home)})
	e.wantFault(err, fault.CodeNotFound)
	shown, err := e.Checkouts.ClaimableRefund(e.ctx, r.ID, present)
	e.must(err)
	if shown.ID != r.ID {
		t.Errorf("got %+v, want the refund", shown)
	}
	_, err = e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: present, Address: string(home)})
	e.must(err)
	_, _, err = e.Checkouts.ReissueRefundKey(e.ctx, e.org, r.ID, audit.User("ann"))
	e.wantFault(err, fault.InvalidState)
}

// A refund is in the coin of the payment, and an amount is given back to the last unit. Rule CO-80.
func TestAmountsAreRefundedInTheCoinThatWasPaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.newCheckout()
	e.pay(id, dollars, 60*million)
	e.pay(id, ether, 20*milliCoin)
	_, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, to(home)))
	if f := e.wantFault(err, fault.InvalidRequest); f.Param != "mintId" {
		t.Errorf("got %+v, want a fault of mintId", f)
	}
	one, _ := e.refund(request(id, to(home), amount(1_234_567), inMint(dollars)))
	two, _ := e.refund(request(id, to(home), amount(7*milliCoin+1), inMint(ether)))
	three, _ := e.refund(request(id, to(second), amount(10*milliCoin), inMint(ether), deducted))
	for _, r := range []checkout.Refund{one, two, three} {
		e.until(r.ID, checkout.RefundCompleted)
	}
	e.has(home, dollars, 1_234_567)
	e.has(home, ether, 7*milliCoin+1)
	if got := e.net.Balance(second, ""); !got.Less(money.Units(10*milliCoin)) || got.Less(money.Units(9*milliCoin)) {
		t.Errorf("got %s, want the amount less the fee of the network", got)
	}
	e.books(dollars, 60*million-1_234_567, 0)
	e.books(ether, 20*milliCoin-7*milliCoin-1-10*milliCoin, 0)
	e.exceptions(id)
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id, amount(1), inMint(dollars), deducted))
	e.wantFault(err, fault.InvalidRequest)
	full, _ := e.refund(request(id, to(home), inMint(dollars)))
	e.until(full.ID, checkout.RefundCompleted)
	e.has(home, dollars, 60*million)
}

// What is asked for beyond the rest is refused, and nothing is written. Rule CO-80.
func TestNoMoreIsRefundedThanWasPaid(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	first, _ := e.refund(request(id, amount(60*million)))
	_, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, amount(40*million+1)))
	if f := e.wantFault(err, fault.RefundExceedsPayment); f.Details["available"] != "40000000" {
		t.Errorf("got the details %v, want what is left", f.Details)
	}
	for name, c := range map[string]struct {
		change func(*checkout.RefundRequest)
		code   fault.Code
	}{
		"nothing":            {amount(0), fault.InvalidAmount},
		"below the minimum":  {amount(9), fault.AmountBelowMinimum},
		"both":               {func(r *checkout.RefundRequest) { r.Amount = new("5") }, fault.InvalidRequest},
		"neither":            {func(r *checkout.RefundRequest) { r.Kind = "" }, fault.InvalidRequest},
		"another kind":       {func(r *checkout.RefundRequest) { r.Kind = "HALF" }, fault.InvalidRequest},
		"another fee":        {func(r *checkout.RefundRequest) { r.FeeMode = "PAYER" }, fault.InvalidRequest},
		"a coin not paid":    {inMint(ether), fault.InvalidRequest},
		"an address of Mars": {to("mars"), fault.InvalidAddress},
		"a key with a space": {
			func(r *checkout.RefundRequest) { r.IdempotencyKey = new("a b") }, fault.InvalidRequest,
		},
		"nothing is overpaid": {overpaid, fault.RefundExceedsPayment},
		"another checkout": {
			func(r *checkout.RefundRequest) { r.CheckoutID = "co_01J9ZW3M8Q4S5T6V7W8X9YZABC" }, fault.CodeNotFound,
		},
	} {
		_, _, _, err := e.Checkouts.RequestRefund(e.ctx, e.org, request(id, c.change))
		if !fault.HasCode(err, c.code) {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	e.books(dollars, 40*million, 60*million)
	if _, err := e.Checkouts.CancelRefund(e.ctx, e.org, first.ID, audit.User("ann")); err != nil {
		t.Fatal(err)
	}
	e.books(dollars, 100*million, 0)
	e.refund(request(id))
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id))
	e.wantFault(err, fault.RefundExceedsPayment)
}

// A key makes one refund, and a repetition returns it without the claim key. Rule CO-82.
func TestAKeyMakesOneRefund(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	r := request(id, amount(10*million))
	r.IdempotencyKey = new("refund-1")
	made, key := e.refund(r)
	again, claimKey, isReplayed, err := e.Checkouts.RequestRefund(e.ctx, e.org, r)
	if err != nil || !isReplayed || again.ID != made.ID || claimKey != "" || key == "" || again.Differs(r) {
		t.Errorf("got %+v, the key %q, replayed %v, %v, want the first refund", again, claimKey, isReplayed, err)
	}
	other := request(id, amount(11*million))
	if !again.Differs(other) {
		t.Error("another amount is the same refund")
	}
	e.books(dollars, 90*million, 10*million)
	filter := checkout.RefundFilter{CheckoutID: id, Status: "AWAITING_ADDRESS"}
	page, err := e.Checkouts.ListRefunds(e.ctx, e.org, filter, pagination.Page{Limit: 10})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != made.ID || len(page.Items[0].Parts) != 1 {
		t.Errorf("got %+v %v, want the refund", page, err)
	}
}

// A cancelled refund returns its amount, and its key opens nothing. Rule CO-83.
func TestACancelledRefundReturnsItsAmount(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, key := e.refund(request(e.paid(100 * million)))
	cancelled, err := e.Checkouts.CancelRefund(e.ctx, e.org, r.ID, audit.User("ann"))
	if err != nil || cancelled.Status != checkout.RefundCancelled {
		t.Fatalf("got %+v %v, want it cancelled", cancelled, err)
	}
	if _, err := e.Checkouts.CancelRefund(e.ctx, e.org, r.ID, audit.User("ann")); err != nil {
		t.Errorf("a second time: got %v, want nothing", err)
	}
	_, err = e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(home)})
	e.wantFault(err, fault.InvalidState)
	e.books(dollars, 100*million, 0)
	e.pass(2)
	e.has(home, dollars, 0)
}

// A refund that no one claims ends after thirty days. Rule CO-83.
func TestARefundExpires(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, key := e.refund(request(e.paid(100 * million)))
	e.wait(30*24*time.Hour - 10*time.Minute)
	e.is(r.ID, checkout.RefundAwaitingAddress)
	e.advance(20 * time.Minute)
	// Its time is over before the worker looks.
	_, err := e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(home)})
	e.wantFault(err, fault.InvalidState)
	e.pass(1)
	e.is(r.ID, checkout.RefundExpired)
	e.books(dollars, 100*million, 0)
}

// A payment that reverts is owed again, and the key gives another address. Rule CO-85.
func TestAFailedPaymentIsOwedAgain(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, key := e.refund(request(e.paid(100 * million)))
	_, err := e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(home)})
	e.must(err)
	for range 20 {
		e.turn()
		statuses := e.texts(`SELECT status FROM withdrawals WHERE refund_id = $1`, r.ID)
		if slices.Contains(statuses, "BROADCAST") {
			break
		}
		e.net.Mine(1)
		e.advance(blockTime)
	}
	e.net.RefuseTransfers(signertest.Token, home, "the contract refuses it")
	back := e.until(r.ID, checkout.RefundAwaitingAddress)
	if back.Problem != "The payment failed on the chain." || back.ToAddress != "" || back.Attempt != 1 {
		t.Errorf("got %+v, want a refund that waits for another address", back)
	}
	e.books(dollars, 0, 100*million)
	_, err = e.Checkouts.ClaimRefund(e.ctx, checkout.RefundClaim{RefundID: r.ID, Key: key, Address: string(second)})
	e.must(err)
	e.until(r.ID, checkout.RefundCompleted)
	e.has(second, dollars, 100*million)
	e.has(home, dollars, 0)
	got := e.texts(`SELECT status FROM withdrawals WHERE refund_id = $1 ORDER BY created_at`, r.ID)
	if !slices.Equal(got, []string{"FAILED", "COMPLETED"}) {
		t.Errorf("got the withdrawals %v, want one that failed and one that paid", got)
	}
}

// What screening blocks, and what is no payer's, is not paid; the refund waits for another address and says why.
// Rules CO-84, CO-85 and CO-99.
func TestARefusedAddressIsNotPaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address func(e *testEnv) chain.Address
		problem string
		kind    checkout.ProblemKind
	}{
		"sanctioned": {func(*testEnv) chain.Address { return thief }, checkout.RiskRefuses, checkout.RiskProblem},
		"a treasury": {func(e *testEnv) chain.Address {
			w, err := e.Wallets.Treasury(e.ctx, e.org, chain.EVM)
			e.must(err)
			return w.Address
		}, "Refunds to this address are not allowed", checkout.AddressProblem},
		"a token's contract": {
			func(*testEnv) chain.Address { return signertest.Token }, "Refunds to this address are not allowed",
			checkout.AddressProblem,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			e.setting("withdrawSeverityThreshold", `"MEDIUM"`)
			address := c.address(e)
			held := e.net.Balance(address, signertest.Token)
			r, key := e.refund(request(e.paid(100*million), amount(50*million)))
			e.must(e.claim(r.ID, key, address))
			back := e.until(r.ID, checkout.RefundAwaitingAddress)
			if !strings.HasPrefix(back.Problem, c.problem) || back.Attempt != 1 || back.ProblemKind() != c.kind {
				t.Errorf("got %+v, want a refund that waits and says %q", back, c.problem)
			}
			e.books(dollars, 50*million, 50*million)
			if name == "sanctioned" && e.net.Balance(address, signertest.Token) != held {
				t.Error("the address was paid")
			}
			_, err := e.Checkouts.GiveRefundAddress(e.ctx, e.org, r.ID, string(home), audit.User("ann"))
			e.must(err)
			e.until(r.ID, checkout.RefundCompleted)
			e.has(home, dollars, 50*million)
		})
	}
}

// Above the organization's threshold other people approve the payment. Rule CO-84.
func TestARefundAboveTheThresholdIsApproved(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setting("twoFactorUsdThreshold", `"50"`)
	small, _ := e.refund(request(e.paid(100*million), to(home), amount(50*million)))
	e.until(small.ID, checkout.RefundCompleted)
	r := request(e.paid(100*million), to(home))
	r.Actor = audit.User("ann")
	large, _ := e.refund(r)
	sent := e.until(large.ID, checkout.RefundSent)
	e.pass(2)
	w, err := e.Withdrawals.ByID(e.ctx, e.org, sent.WithdrawalID)
	e.must(err)
	if w.Status != withdrawal.AwaitingApproval || w.RefundID != large.ID || w.IdempotencyKey != nil ||
		w.Owner != ledger.RefundOwner() || len(w.ApprovalReasons) != 1 ||
		w.ApprovalReasons[0] != withdrawal.ReasonUSDThreshold {
		t.Fatalf("got %+v, want a payment that waits for people", w)
	}
	_, err = e.Checkouts.CancelRefund(e.ctx, e.org, large.ID, audit.User("ann"))
	e.wantFault(err, fault.InvalidState)
	_, err = e.Withdrawals.Approve(e.ctx, e.org, w.ID, audit.User("ann"))
	e.wantFault(err, fault.ApprovalRefused)
	_, err = e.Withdrawals.Approve(e.ctx, e.org, w.ID, audit.User("bob"))
	e.must(err)
	e.until(large.ID, checkout.RefundCompleted)
	e.has(home, dollars, 150*million)

	r = request(e.paid(100*million), to(home))
	rejected, _ := e.refund(r)
	sent = e.until(rejected.ID, checkout.RefundSent)
	_, err = e.Withdrawals.Remove(e.ctx, e.org, sent.WithdrawalID, audit.User("bob"), "not this one")
	e.must(err)
	if back := e.until(rejected.ID, checkout.RefundAwaitingAddress); back.Problem != "A person ended the payment." {
		t.Errorf("got %+v, want a refund that waits", back)
	}
	_, err = e.Checkouts.CancelRefund(e.ctx, e.org, rejected.ID, audit.User("bob"))
	e.must(err)
}

// The product may have spent what it was paid. Rule CO-80.
func TestARefundNeedsTheBalanceOfTheProduct(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	e.must(e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, e.org, "carl", "")
		return err
	}))
	_, err := e.Transfers.Request(e.ctx, e.org, transfer.Request{
		MintID: dollars, Amount: "70000000", From: transfer.Party{Product: new("CHECKOUT")},
		To: transfer.Party{CustomerID: new("carl")}, IdempotencyKey: "t", Actor: audit.APIKey(e.org),
	})
	e.must(err)
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id))
	e.wantFault(err, fault.InsufficientBalance)
	e.books(dollars, 30*million, 0)
	r, _ := e.refund(request(id, to(home), amount(30*million)))
	e.until(r.ID, checkout.RefundCompleted)
}

// A payment that the chain takes back cannot be refunded any more. A refund that was promised before is still owed: the
// loss is the organization's. Rule CO-80.
func TestAReversedPaymentCannotBeRefunded(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.net.Mine(5)
	id := e.newCheckout()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	hash := e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 100*million)
	for range 3 { // credited, and not swept
		e.net.Mine(1)
		e.advance(blockTime)
		e.walk()
	}
	promised, _ := e.refund(request(id, amount(10*million)))
	e.net.Fork(6, hash)
	e.net.MineEmpty(12)
	for range 50 {
		if _, err := e.Walker.StepFinal(e.ctx); errors.Is(err, scan.ErrFinalityBroken) {
			break
		}
	}
	fork, err := e.Walker.FindFork(e.ctx)
	e.must(err)
	_, err = e.Walker.Repoint(e.ctx, fork, 2, audit.Operator("op"))
	e.must(err)
	e.walk()
	e.net.MineEmpty(10)
	e.walk()
	e.must(e.Deposits.SettleReorgs(e.ctx))
	e.walk()
	e.exceptions(id, outcome.Reversed)
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id, inMint(dollars)))
	e.wantFault(err, fault.OrganizationFrozen)
	e.liftFreezes()
	_, _, _, err = e.Checkouts.RequestRefund(e.ctx, e.org, request(id, inMint(dollars)))
	e.wantFault(err, fault.RefundExceedsPayment)
	e.books(dollars, 0, 10*million)
	_, err = e.Checkouts.CancelRefund(e.ctx, e.org, promised.ID, audit.User("ann"))
	e.must(err)
	e.books(dollars, 10*million, 0)
}

// What was given back pays for nothing: a checkout is completed by what the shop keeps. A refund that is taken back
// counts again. Rule CO-135.
func TestWhatWasGivenBackPaysForNothing(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(50 * million)
	r, key := e.refund(request(id))
	e.pay(id, dollars, 50*million)
	e.kept(id, outcome.Open, "50")
	_, err := e.Checkouts.CancelRefund(e.ctx, e.org, r.ID, audit.User("ann"))
	e.must(err)
	e.turn()
	e.kept(id, outcome.Completed, "0")

	id = e.paid(50 * million)
	r, key = e.refund(request(id))
	e.must(e.claim(r.ID, key, home))
	e.until(r.ID, checkout.RefundCompleted)
	e.pay(id, dollars, 50*million)
	c := e.kept(id, outcome.Open, "50")
	if !slices.Contains(c.Exceptions, outcome.Underpaid) {
		t.Errorf("got the exceptions %v, want UNDERPAID", c.Exceptions)
	}
	e.pay(id, dollars, 50*million)
	e.kept(id, outcome.Completed, "0")
}

// kept expects the status of a checkout and how many dollars of it are still due.
func (e *testEnv) kept(checkoutID string, status outcome.Status, missing string) checkout.Checkout {
	e.Helper()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, checkoutID)
	e.must(err)
	if c.Status != status || c.Missing().Text() != missing {
		e.Fatalf("got %s with %s missing, want %s with %s", c.Status, c.Missing().Text(), status, missing)
	}
	return c
}

// heldPayouts are payments whose requests wait for a provider that does not answer.
type heldPayouts struct {
	checkout.RefundPayouts
	asked chan<- string
}

// RequestPayout implements checkout.RefundPayouts.
func (p heldPayouts) RequestPayout(ctx context.Context, r checkout.RefundPayout) (string, error) {
	p.asked <- r.RefundID
	<-ctx.Done()
	return "", ctx.Err()
}

// A refund that waits for a slow provider keeps no sale open. Rule CO-14.
func TestASlowRefundKeepsNoSaleOpen(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	r, _ := e.refund(request(e.paid(100*million), to(home)))
	asked := make(chan string)
	ctx, stop := context.WithCancel(e.ctx)
	e.Checkouts.Payouts = heldPayouts{e.Checkouts.Payouts, asked}
	done := make(chan error)
	go func() { done <- e.Checkouts.Run(ctx) }()
	if got := <-asked; got != r.ID {
		t.Fatalf("got a payment of %s, want one of %s", got, r.ID)
	}
	id := e.newCheckout()
	c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
	e.must(err)
	e.net.Pay(payer, c.Options[0].Wallet.Address, signertest.Token, 100*million)
	e.net.Mine(3)
	for range 50 {
		moved, err := e.Walker.StepFinal(e.ctx)
		if e.must(err); !moved {
			break
		}
	}
	_, err = e.Deposits.CreditWaiting(e.ctx)
	e.must(err)
	pgtest.Eventually(t, func() bool {
		c, err := e.Checkouts.CheckoutByID(e.ctx, e.org, id)
		return err == nil && c.Status == outcome.Completed
	}, "the checkout is completed")
	stop()
	e.must(<-done)
}
