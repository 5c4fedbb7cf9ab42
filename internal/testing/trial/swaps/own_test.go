package swaps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/swaptest"
	"github.com/cofferpay/coffer/internal/testing/trial/harness"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// Entries of the whitelist of ownEnv.
const (
	vault   = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	onBase  = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABD" // on another chain
	product = "CHECKOUT"
)

// vaultAddress is the address of the vault.
var vaultAddress = sim.Address("vault")

// whitelist is a whitelist as an operator would keep it. Its entries may be removed.
type whitelist struct {
	mu      sync.Mutex
	entries map[string]withdrawal.WhitelistEntry
}

func (l *whitelist) Usable(
	_ context.Context, _ pg.Tx, _, listedID string,
) (withdrawal.WhitelistEntry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry, isListed := l.entries[listedID]; isListed {
		return entry, nil
	}
	return withdrawal.WhitelistEntry{}, fault.New(
		fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, "It is not on the list.",
	)
}

func (l *whitelist) remove(listedID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, listedID)
}

// forSwaps is the same whitelist for swaps.
type forSwaps struct{ *whitelist }

func (l forSwaps) Usable(ctx context.Context, tx pg.Tx, org, listedID string) (swap.WhitelistEntry, error) {
	entry, err := l.whitelist.Usable(ctx, tx, org, listedID)
	return swap.WhitelistEntry(entry), err
}

// ownEnv is an organization whose product has a thousand dollars in the treasury, with its people.
type ownEnv struct {
	*testEnv
	list                     *whitelist
	owner, finance, ben, cyd member.Member // the owner may request and decide, ben and cyd only decide
}

func newOwnEnv(t *testing.T) *ownEnv {
	t.Helper()
	return newOwnEnvOf(t, newUnfunded(t, noSwaps))
}

// newOwnEnvOf makes the organization of an environment one with people, a whitelist and a balance of its own.
func newOwnEnvOf(t *testing.T, e *testEnv) *ownEnv {
	t.Helper()
	o := &ownEnv{testEnv: e, list: &whitelist{entries: map[string]withdrawal.WhitelistEntry{
		vault:  {Chain: chain.Ethereum, Address: vaultAddress},
		onBase: {Chain: chain.Base, Address: vaultAddress},
	}}}
	o.connect()
	o.setting("customerSwapsEnabled", "false")
	o.setting("organizationSwapsEnabled", "true")
	endorsement := signer.Endorsement{
		OrgID: o.org, ID: vault, Chain: chain.Ethereum, Address: vaultAddress, LabelHash: signer.HashLabel("vault"),
		NotBefore: signer.FormatMicros(time.Unix(1, 0)),
	}
	endorsement.MAC = o.grants.EndorsementMAC(endorsement)
	_, err := o.signer.EndorseAddress(o.ctx, endorsement)
	o.must(err)
	o.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
		add := func(name string, role identity.Role) (m member.Member) {
			if err == nil {
				m, err = member.Add(ctx, tx, audit.Operator("op"), o.org, name+"@example.com", name, role)
			}
			return m
		}
		o.owner, o.finance = add("ann", identity.Owner), add("fin", identity.Finance)
		o.ben, o.cyd = add("ben", identity.Approver), add("cyd", identity.Approver)
		return err
	})
	o.fundProduct(product, funded)
	return o
}

// connect gives the service of the environment its whitelist.
func (o *ownEnv) connect() {
	o.Swaps.Whitelist, o.Withdrawals.Whitelist = forSwaps{o.list}, o.list
}

// screen builds the service again, with a provider of risk.
func (o *ownEnv) screen(by *watchman) {
	o.Harness = harness.New(harness.Config{
		DB: o.db, Chain: o.net.ToChain(), Signer: o.signer, AttestKey: o.attest, Grants: o.grants, Prices: o.prices,
		RiskPolicy: risk.Policy{Providers: by, UnknownAs: risk.TreatUnknownAsHold, Grace: risk.GraceDefault},
		Swaps:      o.conf, SwapProviders: []provider.Member{{Provider: o.desk}}, Log: slog.New(slog.DiscardHandler),
	})
	o.connect()
}

// fundProduct deposits dollars for a product, and sweeps them into the treasury.
func (o *ownEnv) fundProduct(name string, units uint64) {
	o.Helper()
	w, err := o.Wallets.Address(o.ctx, signer.WalletRef{
		OrgID: o.org, Family: chain.EVM, Purpose: wallet.OrganizationDeposit, Subject: name,
	})
	o.must(err)
	treasury, err := o.Wallets.Treasury(o.ctx, o.org, chain.EVM)
	o.must(err)
	o.quick = true
	o.net.Pay(solver, w.Address, signertest.Token, units)
	for range 20 {
		o.pass(1)
		if !o.net.Balance(treasury.Address, signertest.Token).Less(money.Units(units)) {
			break
		}
	}
	o.pass(2)
	o.quick = false
	o.look("the funding")
}

// ownRequest is the usual request of the finance person: three hundred dollars for euros.
func (o *ownEnv) ownRequest(key string) swap.OrganizationRequest {
	person := o.finance
	return swap.OrganizationRequest{
		IdempotencyKey: key, Product: product, FromMintID: dollars, ToMintID: euros, AmountIn: fmt.Sprint(amountIn),
		WhitelistedAddressID: vault, Person: &person,
	}
}

func (o *ownEnv) requestOwn(r swap.OrganizationRequest) swap.Swap {
	o.Helper()
	w, isReplayed, err := o.Swaps.RequestOrganization(o.ctx, o.org, r)
	o.must(err)
	if isReplayed {
		o.Fatalf("a new swap is replayed")
	}
	o.look("the request")
	return w
}

func (o *ownEnv) own(swapID string) swap.Swap {
	o.Helper()
	w, err := o.Swaps.OrganizationByID(o.ctx, o.org, swapID)
	o.must(err)
	return w
}

// payOwn lets the payment of a swap become final.
func (o *ownEnv) payOwn(swapID string) swap.Swap {
	o.Helper()
	o.quick = true
	for range 12 {
		o.pass(1)
		if o.own(swapID).PaidAt != nil {
			break
		}
	}
	o.quick = false
	o.turn()
	o.look("the payment")
	w := o.own(swapID)
	if w.PaidAt == nil {
		o.Fatalf("the payment of a swap is not final: it is %s, its order %v", w.Status, o.texts(
			`SELECT status || ' ' || coalesce(waiting_for, '') || ' ' || coalesce(last_error, '')
				FROM dispatch_orders WHERE order_id = $1`, swapID))
	}
	return w
}

// endOwn lets every part work until a swap has ended.
func (o *ownEnv) endOwn(swapID string) swap.Swap {
	o.Helper()
	for range 40 {
		if o.own(swapID).Status == swap.Completed || o.own(swapID).Status == swap.FailedStatus {
			break
		}
		o.pass(1)
	}
	o.turn()
	o.look("the end")
	return o.own(swapID)
}

// wantEnd expects how a swap ended.
func (o *ownEnv) wantEnd(swapID string, status swap.Status, reason swap.FailureReason) swap.Swap {
	o.Helper()
	w := o.endOwn(swapID)
	got := swap.FailureReason("")
	if w.FailureReason != nil {
		got = swap.FailureReason(*w.FailureReason)
	}
	if w.Status != status || got != reason {
		o.Fatalf("the swap is %s %q %v with payout %v, want %s %q", w.Status, got, deref(w.FailureMessage),
			deref(w.PayoutID), status, reason)
	}
	return w
}

// wantVault expects what the vault has got.
func (o *ownEnv) wantVault(units uint64) {
	o.Helper()
	if got := o.net.Balance(vaultAddress, signertest.LimitedToken); got != money.Units(units) {
		o.Errorf("the vault got %s euros, want %d", got, units)
	}
}

// awaiting makes the usual swap above the threshold, which needs two people.
func (o *ownEnv) awaiting() swap.Swap {
	o.Helper()
	o.setting("twoFactorUsdThreshold", `"100"`)
	o.setting("approvalQuorum", "2")
	w := o.requestOwn(o.ownRequest("key"))
	if w.Status != swap.AwaitingApproval || w.Provider != "" || w.ApprovalsRequired != 2 {
		o.Fatalf("the swap is %s of %q and needs %d, want AWAITING_APPROVAL without a provider and 2", w.Status,
			w.Provider, w.ApprovalsRequired)
	}
	return w
}

func (o *ownEnv) approve(swapID string, people ...member.Member) swap.Swap {
	o.Helper()
	var w swap.Swap
	for _, person := range people {
		digest, err := o.Swaps.PayoutDigest(o.ctx, o.org, swapID)
		o.must(err)
		w, err = o.Swaps.ApproveOrganization(o.ctx, o.org, swapID, digest, person)
		o.must(err)
	}
	o.look("the approvals")
	return w
}

// The balance of a product is swapped, and its output is paid to the whitelist. The provider's output is in the
// product's balance in between. Rule SWAP-37.
func TestAnOrganizationsSwapIsPaidToItsWhitelist(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.setting("twoFactorUsdThreshold", `"300"`) // not above
	w := o.requestOwn(o.ownRequest("key"))
	if w.Status != swap.Pending || w.Kind != swap.OrganizationSwap || w.Product != product || w.CustomerID != "" ||
		w.FeeBps != 0 || w.PayoutAddress != vaultAddress || w.Requester != o.finance.Actor() {
		t.Fatalf("got %+v", w)
	}
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT_IN_SWAP 1": amountIn})
	o.payOwn(w.ID)
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT_IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn})
	o.deliver(w, amountOut)
	if got := o.own(w.ID); got.Status != swap.Processing || got.DeliveredAt == nil ||
		*got.AmountOut != units(amountOut) {
		t.Errorf("a delivered swap is %s with %v out at %v", got.Status, deref(got.AmountOut), got.DeliveredAt)
	}
	end := o.wantEnd(w.ID, swap.Completed, "")
	o.wantBooks(books{"PRODUCT 1": funded - amountIn})
	o.wantVault(amountOut)
	payout, err := o.Withdrawals.ByID(o.ctx, o.org, *end.PayoutID)
	o.must(err)
	if payout.Status != withdrawal.Completed || payout.ToAddress != vaultAddress || payout.RequiresApproval {
		t.Errorf("the payout is %s to %s, approval %v", payout.Status, payout.ToAddress, payout.RequiresApproval)
	}
	o.wantEvents(w.ID, "ORGANIZATION_DEPOSIT", "ORGANIZATION_SWAP_COMPLETED")
	named := o.texts(`SELECT DISTINCT convert_from(data, 'UTF8')::jsonb ->> 'organizationSwapId' FROM events
		WHERE resource_id = $1`, payout.ID)
	if payout.SwapID != w.ID || !slices.Equal(named, []string{w.ID}) {
		t.Errorf("the payout names the swap %q and its events name %q, want %s", payout.SwapID, named, w.ID)
	}
	o.lookWithChain("the end")
	again, isReplayed, err := o.Swaps.RequestOrganization(o.ctx, o.org, o.ownRequest("key"))
	o.must(err)
	other := o.ownRequest("key")
	other.AmountIn = "1"
	if !isReplayed || again.ID != w.ID || again.Status != swap.Completed ||
		again.DiffersOrganization(o.ownRequest("key")) || !again.DiffersOrganization(other) {
		t.Errorf("the key returns %s %s, replayed %v", again.ID, again.Status, isReplayed)
	}
	if _, err := o.Swaps.ByID(o.ctx, o.org, w.ID); !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("among the swaps of customers: %v, want NOT_FOUND", err)
	}
}

// One approval of as many people as the organization requires covers the swap and the payment of its output.
// Rules SWAP-35 and SWAP-36.
func TestOneApprovalCoversASwapAndItsPayout(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT_IN_SWAP 1": amountIn})
	o.pass(3)
	if o.desk.asked != 0 || o.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWAP'`) != 0 {
		t.Fatal("a swap that waits for approval has asked for an offer, or has an order")
	}
	w = o.approve(w.ID, o.ben)
	if w.Status != swap.AwaitingApproval || w.ApprovalCount != 1 {
		t.Errorf("after one approval it is %s with %d", w.Status, w.ApprovalCount)
	}
	_, err := o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.ben)
	o.wantFault(err, fault.InvalidState)
	_, err = o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "another digest", o.cyd)
	o.wantFault(err, fault.ApprovalRefused)
	_, err = o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.finance)
	o.wantFault(err, fault.ScopeMissing)
	if w = o.approve(w.ID, o.owner); w.Status != swap.Pending || w.Provider != "" {
		t.Fatalf("after the second approval it is %s of %q", w.Status, w.Provider)
	}
	w = o.payOwn(w.ID)
	if w.Provider == "" || w.MinOut != units(minOut) {
		t.Errorf("the offer is of %q with at least %s", w.Provider, w.MinOut)
	}
	o.deliver(w, amountOut)
	end := o.wantEnd(w.ID, swap.Completed, "")
	payout, err := o.Withdrawals.ByID(o.ctx, o.org, *end.PayoutID)
	o.must(err)
	if payout.RequiresApproval {
		t.Errorf("the payout waited for people, for %v", payout.ApprovalReasons)
	}
	if n := o.number(`SELECT count(*) FROM dispatch_orders WHERE order_id = $1
		AND jsonb_array_length(authority -> 'approvals') = 2 AND authority ? 'swapPayout'`, *end.PayoutID); n != 1 {
		t.Error("the grant of the payout has not both approvals")
	}
	o.wantVault(amountOut)
	o.wantBooks(books{"PRODUCT 1": funded - amountIn})
}

// The person who requested a swap does not approve it, whatever roles it has. Rule SWAP-35.
func TestTheRequesterDoesNotApprove(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.setting("twoFactorUsdThreshold", `"100"`)
	r := o.ownRequest("key")
	r.Person = &o.owner
	w := o.requestOwn(r)
	_, err := o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.owner)
	o.wantFault(err, fault.ApprovalRefused)
	if got := o.own(w.ID); got.Status != swap.AwaitingApproval || got.ApprovalCount != 0 {
		t.Errorf("it is %s with %d approvals", got.Status, got.ApprovalCount)
	}
}

// A row that was changed behind the service is not approved, and gets no offer. Rule SWAP-36.
func TestATamperedSwapIsNotApproved(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	tamper := func(sql string) {
		tx := pgtest.BeginOwner(t, o.db)
		o.must(swaptest.DisableTriggers(o.ctx, tx))
		_, err := tx.Exec(o.ctx, sql, w.ID)
		o.must(err)
		o.must(tx.Commit(o.ctx))
	}
	tamper(`UPDATE swaps SET payout_max = payout_max + 1 WHERE swap_id = $1`)
	_, err := o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.ben)
	o.wantFault(err, fault.ApprovalRefused)
	tamper(`UPDATE swaps SET payout_max = payout_max - 1 WHERE swap_id = $1`)
	o.approve(w.ID, o.ben, o.cyd)
	tamper(`UPDATE swaps SET min_out = 1 WHERE swap_id = $1`)
	o.must(o.Swaps.Look(o.ctx, w.ID))
	if got := o.own(w.ID); got.Provider != "" || o.desk.asked != 0 {
		t.Errorf("a changed swap got an offer of %q after %d questions", got.Provider, o.desk.asked)
	}
}

// Without an offer in time an approved swap fails, and its amount is available again. Rule SWAP-35.
func TestAnApprovedSwapWithoutAnOfferGivesItsAmountBack(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	o.desk.set(func() { o.desk.firm = func(provider.Ask) error { return errDeskDown } })
	o.approve(w.ID, o.ben, o.cyd)
	o.turn()
	if got := o.own(w.ID); got.Status != swap.Pending || got.LookAt == nil {
		t.Fatalf("it is %s, and looked at %v", got.Status, got.LookAt)
	}
	o.wait(31 * time.Minute)
	end := o.wantEnd(w.ID, swap.FailedStatus, swap.NoLiquidity)
	if end.RefundStatus() != swap.RefundRestored {
		t.Errorf("its refund is %s", end.RefundStatus())
	}
	o.wantBooks(books{"PRODUCT 1": funded})
	o.wantEvents(w.ID, "ORGANIZATION_SWAP_FAILED")
}

// A swap that waits is rejected or cancelled once, and gives its amount back. Rule SWAP-35.
func TestASwapThatWaitsIsRejectedOrCancelled(t *testing.T) {
	t.Parallel()
	for status, act := range map[swap.Status]func(o *ownEnv, swapID string) (swap.Swap, error){
		swap.Rejected: func(o *ownEnv, swapID string) (swap.Swap, error) {
			return o.Swaps.RejectOrganization(o.ctx, o.org, swapID, "not this month", o.ben)
		},
		swap.CancelledStatus: func(o *ownEnv, swapID string) (swap.Swap, error) {
			return o.Swaps.CancelOrganization(o.ctx, o.org, swapID, o.finance)
		},
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			o := newOwnEnv(t)
			w := o.awaiting()
			o.approve(w.ID, o.ben)
			ended, err := act(o, w.ID)
			o.must(err)
			if ended.Status != status || (ended.RejectedNote != nil) != (status == swap.Rejected) {
				t.Errorf("it is %s with the note %v", ended.Status, deref(ended.RejectedNote))
			}
			o.look("the end")
			o.wantBooks(books{"PRODUCT 1": funded})
			_, err = act(o, w.ID)
			o.wantFault(err, fault.InvalidState)
			_, err = o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.cyd)
			o.wantFault(err, fault.InvalidState)
			o.pass(2)
			o.wantEvents(w.ID)
		})
	}
}

// A swap is approved within a day. Rule SWAP-35.
func TestAnOldSwapIsNotApproved(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	o.wait(24 * time.Hour)
	_, err := o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", o.ben)
	o.wantFault(err, fault.InvalidState)
	_, err = o.Swaps.CancelOrganization(o.ctx, o.org, w.ID, o.finance)
	o.must(err)
	o.wantBooks(books{"PRODUCT 1": funded})
}

// The dry offer of a provider that promises far too much does not decide what people approve: the swap would wait for
// an offer that no provider makes. Rule SWAP-8.
func TestAPromiseThatIsTooGoodIsNotWhatPeopleApprove(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.others = append(o.others, &desk{
		t: t, name: "LIAR", clock: o.clock, lifetime: 24 * time.Hour,
		price: func(ask provider.Ask) uint64 {
			if ask.IsFirm {
				return amountOut
			}
			return 2 * amountOut
		},
	})
	o.Harness = o.open(o.db)
	o.connect()
	w := o.awaiting()
	if w.MinOut != units(minOut) || w.EstimatedOut != units(amountOut) {
		t.Errorf("people approve at least %s of %s, want %d of %d", w.MinOut, w.EstimatedOut, minOut, amountOut)
	}
	o.approve(w.ID, o.ben, o.cyd)
	o.turn()
	if got := o.own(w.ID); got.Provider != o.desk.name {
		t.Errorf("the approved swap is with %q, want %s", got.Provider, o.desk.name)
	}
	o.look("the offer")
}

// A payout that people did not approve with the swap waits for people, like any withdrawal. One that they remove
// leaves the output in the product. Rules SWAP-36, SWAP-37 and SWAP-38.
func TestAPayoutOutsideTheApprovalWaitsForPeople(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *ownEnv)
		out    uint64
		decide func(o *ownEnv, payoutID string)
		status swap.Status
		reason swap.FailureReason
		books  books
	}{
		"more than was approved, and approved again": {
			func(o *ownEnv) {
				o.desk.set(func() { o.desk.price = func(provider.Ask) uint64 { return 340 * million } })
				o.prices.set(euros, &price.Quote{Price: money.MustParseUSD("0.88"), Source: "fixed"})
			},
			340 * million, func(o *ownEnv, payoutID string) {
				for _, person := range []member.Member{o.ben, o.cyd} {
					_, err := o.Withdrawals.Approve(o.ctx, o.org, payoutID, person.Actor())
					o.must(err)
				}
			}, swap.Completed, "",
			books{"PRODUCT 1": funded - amountIn},
		},
		"a greater quorum, and removed": {
			func(o *ownEnv) { o.setting("approvalQuorum", "3") }, amountOut, func(o *ownEnv, payoutID string) {
				_, err := o.Withdrawals.Remove(o.ctx, o.org, payoutID, o.ben.Actor(), "no")
				o.must(err)
			}, swap.FailedStatus, swap.DestinationUnavailable,
			books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnEnv(t)
			w := o.awaiting()
			o.approve(w.ID, o.ben, o.cyd)
			c.change(o)
			w = o.payOwn(w.ID)
			o.deliver(w, c.out)
			o.pass(4)
			w = o.own(w.ID)
			if w.PayoutID == nil {
				t.Fatalf("the swap is %s without a payout", w.Status)
			}
			payout, err := o.Withdrawals.ByID(o.ctx, o.org, *w.PayoutID)
			o.must(err)
			if payout.Status != withdrawal.AwaitingApproval ||
				!slices.Contains(payout.ApprovalReasons, withdrawal.ReasonUSDThreshold) {
				t.Fatalf("the payout is %s for %v, want it to wait", payout.Status, payout.ApprovalReasons)
			}
			c.decide(o, *w.PayoutID)
			o.wantEnd(w.ID, c.status, c.reason)
			o.wantBooks(c.books)
		})
	}
}

// An entry that was removed in the meantime is not paid. The output stays in the product's balance. Rule SWAP-38.
func TestARemovedEntryIsNotPaid(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.requestOwn(o.ownRequest("key"))
	w = o.payOwn(w.ID)
	o.list.remove(vault)
	o.deliver(w, amountOut)
	end := o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
	if end.AmountOut == nil || *end.AmountOut != units(amountOut) || end.PayoutID != nil {
		t.Errorf("it has %v out and payout %v", deref(end.AmountOut), deref(end.PayoutID))
	}
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut})
	o.wantEvents(w.ID, "ORGANIZATION_DEPOSIT", "ORGANIZATION_SWAP_FAILED")
	o.wantVault(0)
	// What arrives later belongs to no one until a person decides, and then to the product.
	o.deliver(w, 7)
	o.wantStrays("AFTER_END")
	stray := o.texts(`SELECT deposit_id FROM swap_arrivals WHERE role = 'STRAY'`)[0]
	_, err := o.Swaps.DecideArrival(o.ctx, stray, swap.CreditArrival, "ours", audit.Operator("op"))
	o.must(err)
	o.turn()
	o.look("the decision")
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut + 7})
}

// An output whose payment is blocked, removed by its organization or reverted on the chain stays in the product's
// balance, and the swap says so. Rule SWAP-38.
func TestAnOutputThatCannotBePaidStaysInTheProduct(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(o *ownEnv)
		after  func(o *ownEnv, payoutID string)
		status withdrawal.Status
	}{
		"blocked": {
			before: func(o *ownEnv) {
				o.screen(&watchman{flagged: map[chain.Address]bool{vaultAddress: true}})
			},
			status: withdrawal.Blocked,
		},
		"cancelled": {
			before: func(o *ownEnv) { o.setting("twoFactorUsdThreshold", `"100"`) },
			after: func(o *ownEnv, payoutID string) {
				_, err := o.Withdrawals.Cancel(o.ctx, o.org, payoutID, o.finance.Actor())
				o.must(err)
			},
			status: withdrawal.Cancelled,
		},
		"reverted": {
			after: func(o *ownEnv, payoutID string) {
				isSent := func() bool {
					payout, err := o.Withdrawals.ByID(o.ctx, o.org, payoutID)
					o.must(err)
					return payout.Status == withdrawal.Broadcast
				}
				for range 20 { // the output has to be in the treasury first
					if o.turn(); isSent() {
						break
					}
					o.net.Mine(1)
					o.setClock(o.clock().Add(5 * time.Second))
				}
				if !isSent() {
					o.Fatal("the payout was not sent")
				}
				o.net.RefuseTransfers(signertest.LimitedToken, vaultAddress, "the contract refuses it")
			},
			status: withdrawal.Failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnEnv(t)
			w := o.requestOwn(o.ownRequest("key"))
			w = o.payOwn(w.ID)
			if c.before != nil {
				c.before(o)
			}
			o.deliver(w, amountOut)
			o.turn()
			payoutID := o.own(w.ID).PayoutID
			if payoutID == nil {
				t.Fatal("no payout was requested")
			}
			if c.after != nil {
				c.after(o, *payoutID)
			}
			end := o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
			payout, err := o.Withdrawals.ByID(o.ctx, o.org, *payoutID)
			o.must(err)
			if payout.Status != c.status || end.AmountOut == nil || *end.AmountOut != units(amountOut) ||
				deref(end.FailureMessage) == nil {
				t.Errorf("the payout is %s, and the swap has %v out with %v", payout.Status, deref(end.AmountOut),
					deref(end.FailureMessage))
			}
			o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut})
			o.wantEvents(w.ID, "ORGANIZATION_DEPOSIT", "ORGANIZATION_SWAP_FAILED")
			o.wantVault(0)
		})
	}
}

// The network fee of a native coin comes out of the output: the entry receives the rest, and the product keeps
// nothing and owes nothing. The approvals of the swap cover the amount together with its fee. Rules SWAP-36 and
// SWAP-37.
func TestTheFeeOfANativeCoinComesOutOfTheOutput(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(o *ownEnv, r swap.OrganizationRequest) swap.Swap{
		"without approvals": func(o *ownEnv, r swap.OrganizationRequest) swap.Swap { return o.requestOwn(r) },
		"approved": func(o *ownEnv, r swap.OrganizationRequest) swap.Swap {
			o.setting("twoFactorUsdThreshold", `"100"`)
			o.setting("approvalQuorum", "2")
			w := o.requestOwn(r)
			return o.approve(w.ID, o.ben, o.cyd)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const etherOut = coin / 10_000 * 995 // for 300 dollars
			o := newOwnEnv(t)
			o.desk.set(func() { o.desk.price = func(provider.Ask) uint64 { return etherOut } })
			r := o.ownRequest("key")
			r.ToMintID = ether
			w := begin(o, r)
			w = o.payOwn(w.ID)
			o.arrive(w.DeliveryWalletID, ether, etherOut)
			end := o.wantEnd(w.ID, swap.Completed, "")
			payout, err := o.Withdrawals.ByID(o.ctx, o.org, *end.PayoutID)
			o.must(err)
			if payout.RequiresApproval || payout.NetworkFee == nil || payout.NetworkFee.IsZero() {
				t.Fatalf("the payout waited for people: %v, and its fee is %v", payout.RequiresApproval,
					deref(payout.NetworkFee))
			}
			received := o.net.Balance(vaultAddress, "")
			sum, err := received.Add(*payout.NetworkFee)
			o.must(err)
			if *end.AmountOut != units(etherOut) || sum != *end.AmountOut || received != payout.Amount {
				t.Errorf("of %s the vault received %s of %s, and the fee is %s", *end.AmountOut, received,
					payout.Amount, *payout.NetworkFee)
			}
			o.wantBooks(books{"PRODUCT 1": funded - amountIn})
			left := o.texts(`SELECT a.kind || ' ' || b.balance FROM ledger_accounts a
				JOIN ledger_balances b USING (account_id)
				WHERE a.subject = $1 AND a.mint_id = $2 AND b.balance <> 0`, product, ether)
			if len(left) > 0 {
				t.Errorf("the product keeps or owes %v", left)
			}
			o.wantEvents(w.ID, "ORGANIZATION_DEPOSIT", "ORGANIZATION_SWAP_COMPLETED")
			o.lookWithChain("the end")
		})
	}
}

// A swap whose output is a native coin and whose destination screening refuses ends like any other: the record of the
// blocked payout has the whole output, which stays in the product's balance.
func TestABlockedPayoutOfANativeCoinEndsItsSwap(t *testing.T) {
	t.Parallel()
	const etherOut = coin / 10_000 * 995 // for 300 dollars
	o := newOwnEnv(t)
	o.desk.set(func() { o.desk.price = func(provider.Ask) uint64 { return etherOut } })
	r := o.ownRequest("key")
	r.ToMintID = ether
	w := o.requestOwn(r)
	w = o.payOwn(w.ID)
	o.setting("withdrawSeverityThreshold", `"LOW"`)
	o.screen(&watchman{flagged: map[chain.Address]bool{vaultAddress: true}})
	o.arrive(w.DeliveryWalletID, ether, etherOut)
	end := o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
	if end.PayoutID == nil {
		t.Fatal("the swap does not name the blocked withdrawal")
	}
	if n := o.number(`SELECT count(*) FROM withdrawals WHERE withdrawal_id = $1 AND status = 'BLOCKED' AND amount = $2`,
		*end.PayoutID, units(etherOut)); n != 1 {
		t.Errorf("the record is not BLOCKED of %d", uint64(etherOut))
	}
	if got := o.net.Balance(vaultAddress, ""); !got.IsZero() {
		t.Errorf("the vault received %s", got)
	}
	o.lookWithChain("the end")
}

// An entry that was removed before the payment to the provider ends an approved swap, with its amount.
func TestARemovedEntryEndsAnApprovedSwap(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	o.approve(w.ID, o.ben, o.cyd)
	o.list.remove(vault)
	o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
	o.wantBooks(books{"PRODUCT 1": funded})
}

// What comes back of an organization's swap is in the product's balance at once, whatever the setting for
// customers says. The organization is told once.
func TestARefundOfAnOrganizationIsRestoredAtOnce(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.requestOwn(o.ownRequest("key"))
	w = o.payOwn(w.ID)
	o.desk.says(provider.Failed, provider.RefundPending)
	o.wait(time.Minute)
	o.wait(10 * time.Minute)
	end := o.wantEnd(w.ID, swap.FailedStatus, swap.ProviderFailed)
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT_IN_SWAP 1": amountIn, "AT_PROVIDER 1": amountIn})
	o.refund(end, 200*million)
	o.wantBooks(books{
		"PRODUCT 1": funded - 100*million, "PRODUCT_IN_SWAP 1": 100 * million, "AT_PROVIDER 1": 100 * million,
	})
	o.refund(end, 100*million)
	o.wantBooks(books{"PRODUCT 1": funded})
	if got := o.own(w.ID); got.RefundStatus() != swap.RefundRestored || got.RestoredAt == nil {
		t.Errorf("the refund is %s", got.RefundStatus())
	}
	o.wantEvents(w.ID, "ORGANIZATION_SWAP_FAILED")
}

// losesAnswers requests payouts whose answers are lost.
type losesAnswers struct {
	swap.Payouts
	lost int
}

func (l *losesAnswers) RequestPayout(ctx context.Context, p swap.Payout) (string, error) {
	payoutID, err := l.Payouts.RequestPayout(ctx, p)
	if err == nil && l.lost < 3 {
		l.lost++
		return "", errors.New("the answer is lost")
	}
	return payoutID, err
}

// A crash between the delivery and the payment's request, or after it, pays the output once. Rule SWAP-37.
func TestACrashAroundThePayoutPaysOnce(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	payouts := &losesAnswers{Payouts: o.Swaps.Payouts}
	o.Swaps.Payouts = payouts
	for range 3 {
		if err := o.Swaps.Look(o.ctx, w.ID); err == nil {
			t.Error("the lost answer is no error")
		}
	}
	o.must(o.Swaps.Look(o.ctx, w.ID))
	o.wantEnd(w.ID, swap.Completed, "")
	if n := o.number(`SELECT count(*) FROM withdrawals`); n != 1 || payouts.lost != 3 {
		t.Errorf("%d withdrawals after %d lost answers, want 1 after 3", n, payouts.lost)
	}
	o.wantVault(amountOut)
}

// delivered makes the usual swap and lets its output arrive. Its payout is not requested yet.
func (o *ownEnv) delivered() swap.Swap {
	o.Helper()
	w := o.requestOwn(o.ownRequest("key"))
	w = o.payOwn(w.ID)
	o.net.Pay(solver, o.address(w.DeliveryWalletID), signertest.LimitedToken, amountOut)
	o.net.Mine(2)
	o.runSteps("dispatch")
	if w = o.own(w.ID); w.DeliveredAt == nil || w.PayoutID != nil {
		o.Fatalf("the swap is delivered at %v, its payout %v", w.DeliveredAt, deref(w.PayoutID))
	}
	return w
}

// another returns a process with a whitelist of its own, which has the vault.
func (o *ownEnv) another() (*harness.Harness, *whitelist) {
	o.Helper()
	h, list := o.open(o.db), &whitelist{entries: map[string]withdrawal.WhitelistEntry{
		vault: {Chain: chain.Ethereum, Address: vaultAddress},
	}}
	h.Swaps.Whitelist, h.Withdrawals.Whitelist = forSwaps{list}, list
	return h, list
}

// A process whose payout is refused, while another process is committing it, follows the payout: the swap is not failed
// while its output is paid.
func TestARefusedPayoutThatAnotherProcessRequestedIsFollowed(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	paying, full := o.another()
	o.list.remove(vault)
	owner := pgtest.OwnerPool(t, o.db)
	holder, err := owner.Begin(o.ctx)
	o.must(err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(o.ctx)) }()
	// The withdrawal is inserted before its hold waits for the balance.
	_, err = holder.Exec(o.ctx, `SELECT FROM ledger_balances FOR UPDATE`)
	o.must(err)
	paid, refused := make(chan error, 1), make(chan error, 1)
	awaitWaiting := func(count int) {
		pgtest.Eventually(t, func() bool {
			var n int
			o.must(owner.QueryRow(o.ctx, `
				SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
					AND wait_event IN ('transactionid', 'tuple')`).Scan(&n))
			return n >= count || len(paid)+len(refused) > 0
		}, "%d processes wait", count)
	}
	go func() { paid <- paying.Swaps.Look(o.ctx, w.ID) }()
	awaitWaiting(1)
	go func() { refused <- o.Swaps.Look(o.ctx, w.ID) }()
	awaitWaiting(2)
	o.must(holder.Rollback(o.ctx))
	o.must(<-paid)
	o.must(<-refused)
	if got := o.own(w.ID); got.Status != swap.Processing || got.PayoutID == nil {
		t.Fatalf("the swap is %s with payout %v, want PROCESSING with one", got.Status, deref(got.PayoutID))
	}
	o.list = full
	o.connect()
	o.wantEnd(w.ID, swap.Completed, "")
	o.wantVault(amountOut)
	o.wantEvents(w.ID, "ORGANIZATION_DEPOSIT", "ORGANIZATION_SWAP_COMPLETED")
}

// committedButRefused requests payouts, and answers that they are refused.
type committedButRefused struct{ swap.Payouts }

func (c committedButRefused) RequestPayout(ctx context.Context, p swap.Payout) (string, error) {
	if _, err := c.Payouts.RequestPayout(ctx, p); err != nil {
		return "", err
	}
	return "", fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld, "It is not on the list.")
}

// A payout that another process committed before the refusal is found by its key.
func TestARefusedPayoutLooksItsKeyUp(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	o.Swaps.Payouts = committedButRefused{o.Swaps.Payouts}
	o.must(o.Swaps.Look(o.ctx, w.ID))
	o.wantEnd(w.ID, swap.Completed, "")
	o.wantVault(amountOut)
}

// A process that requests the payout of a swap that another one has failed meanwhile is refused by the database: the
// output stays in the product.
func TestAFailedSwapIsNotPaidOut(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	paying, full := o.another()
	o.list.remove(vault)
	var once sync.Once
	paying.Withdrawals.Whitelist = lookFirst{full, func() {
		once.Do(func() { o.must(o.Swaps.Look(o.ctx, w.ID)) })
	}}
	err := paying.Swaps.Look(o.ctx, w.ID)
	if !pg.ViolatesConstraint(err, "withdrawals_pay_out") {
		t.Errorf("got %v, want a refusal by withdrawals_pay_out", err)
	}
	o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
	o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut})
	if n := o.number(`SELECT count(*) FROM withdrawals`); n != 0 {
		t.Errorf("%d withdrawals pay the output of a failed swap", n)
	}
	o.look("the refusal")
}

// lookFirst is a whitelist before which something happens.
type lookFirst struct {
	*whitelist
	first func()
}

func (l lookFirst) Usable(
	ctx context.Context, tx pg.Tx, org, listedID string,
) (withdrawal.WhitelistEntry, error) {
	l.first()
	return l.whitelist.Usable(ctx, tx, org, listedID)
}

// The database fails no delivered swap whose output a withdrawal pays.
func TestADeliveredSwapWithAPayoutIsNotFailed(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	o.Swaps.Payouts = &losesAnswers{Payouts: o.Swaps.Payouts, lost: 2} // one more
	if err := o.Swaps.Look(o.ctx, w.ID); err == nil {
		t.Error("the lost answer is no error")
	}
	fail := o.statements(w.ID, `UPDATE swaps SET status = 'FAILED', failed_at = now(),
		failure_reason = 'DESTINATION_UNAVAILABLE' WHERE swap_id = $swap`)
	if got := o.attack(true, fail); got != "swaps_fail_unpaid" {
		t.Errorf("refused by %s, want swaps_fail_unpaid", got)
	}
	o.wantEnd(w.ID, swap.Completed, "")
}

// lacksBalance refuses payouts for want of a balance.
type lacksBalance struct{ swap.Payouts }

func (lacksBalance) RequestPayout(context.Context, swap.Payout) (string, error) {
	return "", fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld, "The balance is too low.")
}

// A payout that the balance does not cover waits for the balance until the time of the payout is over. Rule SWAP-38.
func TestAPayoutWaitsForItsBalance(t *testing.T) {
	t.Parallel()
	for name, isLate := range map[string]bool{"the balance comes back": false, "it comes back too late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnEnv(t)
			w := o.delivered()
			payouts := o.Swaps.Payouts
			o.Swaps.Payouts = lacksBalance{payouts}
			o.must(o.Swaps.Look(o.ctx, w.ID))
			if got := o.own(w.ID); got.Status != swap.Processing || got.PayoutID != nil {
				t.Fatalf("the swap is %s with payout %v, want it to wait", got.Status, deref(got.PayoutID))
			}
			if isLate {
				o.setClock(*w.PayoutUntil)
				o.wait(time.Second)
				o.wantEnd(w.ID, swap.FailedStatus, swap.DestinationUnavailable)
				o.wantBooks(books{"PRODUCT 1": funded - amountIn, "PRODUCT 3": amountOut})
				return
			}
			o.Swaps.Payouts = payouts
			o.wait(time.Minute)
			o.wantEnd(w.ID, swap.Completed, "")
			o.wantVault(amountOut)
		})
	}
}

// The database fails no swap whose output is paid, also while the swap does not know its withdrawal.
func TestASwapWhoseOutputIsPaidIsNotFailed(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.delivered()
	payouts := o.Swaps.Payouts
	o.Swaps.Payouts = &losesAnswers{Payouts: payouts, lost: 2} // one more
	if err := o.Swaps.Look(o.ctx, w.ID); err == nil {
		t.Error("the lost answer is no error")
	}
	o.Swaps.Payouts = nil // no one looks at the withdrawal
	const completed = `SELECT count(*) FROM withdrawals WHERE status = 'COMPLETED'`
	for range 20 {
		if o.number(completed) == 1 {
			break
		}
		o.pass(1)
	}
	if got := o.own(w.ID); o.number(completed) != 1 || got.Status != swap.Processing || got.PayoutID != nil {
		t.Fatalf("the swap is %s with payout %v, want PROCESSING without one, and its output paid", got.Status,
			deref(got.PayoutID))
	}
	fail := o.statements(w.ID, `UPDATE swaps SET status = 'FAILED', failed_at = now(),
		failure_reason = 'DESTINATION_UNAVAILABLE' WHERE swap_id = $swap`)
	if got := o.attack(true, fail); got != "swaps_fail_unpaid" {
		t.Errorf("refused by %s, want swaps_fail_unpaid", got)
	}
	o.Swaps.Payouts = payouts
	o.wait(time.Minute)
	o.wantEnd(w.ID, swap.Completed, "")
}

// The key of a payout pays the output of a delivered swap of its organization, and nothing else.
func TestThePayoutOfASwapIsThatOfItsOutput(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	home := o.org
	other, _, err := org.Create(o.ctx, o.db, "Other")
	o.must(err)
	o.org = other.ID
	treasury, err := o.Wallets.Treasury(o.ctx, o.org, chain.EVM)
	o.must(err)
	o.net.Pay(solver, treasury.Address, "", coin)
	o.fundProduct(product, 10*million)
	o.org = home
	pays := func(orgID, swapID, key string) error {
		_, err := o.Withdrawals.RequestSwapPayout(o.ctx, orgID, withdrawal.SwapPayoutRequest{
			SwapID: swapID, Product: product, MintID: dollars, Total: units(million), WhitelistedID: vault, Key: key,
		})
		return err
	}
	w := o.payOwn(o.requestOwn(o.ownRequest("key")).ID)
	if err := pays(home, w.ID, "swap "+w.ID); !pg.ViolatesConstraint(err, "withdrawals_pay_out") {
		t.Errorf("before the delivery: got %v, want a refusal by withdrawals_pay_out", err)
	}
	o.net.Pay(solver, o.address(w.DeliveryWalletID), signertest.LimitedToken, amountOut)
	o.net.Mine(2)
	o.runSteps("dispatch")
	if err := pays(other.ID, w.ID, "swap "+w.ID); !pg.ViolatesConstraint(err, "withdrawals_pay_out") {
		t.Errorf("of another organization: got %v, want a refusal by withdrawals_pay_out", err)
	}
	if err := pays(home, "os_another", "swap "+w.ID); err == nil || fault.Find(err) != nil {
		t.Errorf("with the key of another swap: got %v, want an error that is no refusal", err)
	}
	if n := o.number(`SELECT count(*) FROM withdrawals`); n != 0 {
		t.Errorf("%d withdrawals are written", n)
	}
	o.wantEnd(w.ID, swap.Completed, "")
	o.wantVault(amountOut)
}

// A threshold that falls while the provider makes its offer holds for the swap. Rule SWAP-35.
func TestAThresholdThatFallsDuringTheOfferNeedsPeople(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.setting("twoFactorUsdThreshold", `"1000"`)
	o.desk.beforeFirm(func() error {
		return o.db.InSystem(o.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), o.org,
				org.Changes{"twoFactorUsdThreshold": []byte(`"100"`)})
			return err
		})
	})
	w := o.requestOwn(o.ownRequest("key"))
	if w.Status != swap.AwaitingApproval || w.Provider != "" || o.desk.asked != 1 {
		t.Errorf("the swap is %s of %q after %d firm quotes, want AWAITING_APPROVAL of no provider after 1", w.Status,
			w.Provider, o.desk.asked)
	}
	if n := o.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'SWAP'`); n != 0 {
		t.Errorf("%d orders pay the swap", n)
	}
}

// A request that is refused leaves nothing, and holds nothing.
func TestARefusedSwapOfAnOrganizationLeavesNothing(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	usual := o.ownRequest("key")
	type request = swap.OrganizationRequest
	for name, c := range map[string]struct {
		change func(*request)
		before func()
		after  func()
		code   fault.Code
	}{
		"switched off": {
			code: fault.OrgSwapsDisabled, before: func() { o.setting("organizationSwapsEnabled", "false") },
			after: func() { o.setting("organizationSwapsEnabled", "true") },
		},
		"no role":         {code: fault.ScopeMissing, change: func(r *request) { r.Person = &o.ben }},
		"no such product": {code: fault.InvalidRequest, change: func(r *request) { r.Product = "OTHER" }},
		"another balance": {
			code: fault.InsufficientBalance, change: func(r *request) { r.Product = "CUSTODIAL" },
		},
		"no product": {code: fault.InsufficientBalance, change: func(r *request) { r.Product = "" }},
		"too much": {
			code: fault.InsufficientBalance, change: func(r *request) { r.AmountIn = "1000000001" },
		},
		"the same mint": {code: fault.InvalidPair, change: func(r *request) { r.ToMintID = dollars }},
		"no entry": {
			code: fault.AddressNotWhitelisted, change: func(r *request) { r.WhitelistedAddressID = "x" },
		},
		"an unknown entry": {
			code: fault.AddressNotWhitelisted, change: func(r *request) { r.WhitelistedAddressID = vault[:29] + "Z" },
		},
		"on another chain": {
			code: fault.AddressNotWhitelisted, change: func(r *request) { r.WhitelistedAddressID = onBase },
		},
		"too high a minimum": {
			code: fault.QuoteRejected, change: func(r *request) { r.MinAmountOut = new("299000000") },
		},
		"no offer": {
			code: fault.QuoteRejected,
			before: func() {
				o.desk.set(func() { o.desk.firm = func(provider.Ask) error { return &provider.RefusedError{} } })
			},
			after: func() { o.desk.set(func() { o.desk.firm = nil }) },
		},
	} {
		r := usual
		if c.change != nil {
			c.change(&r)
		}
		if c.before != nil {
			c.before()
		}
		_, _, err := o.Swaps.RequestOrganization(o.ctx, o.org, r)
		if f := fault.Find(err); f == nil || f.Code != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
		if c.after != nil {
			c.after()
		}
	}
	o.wantNothing()
	o.wantBooks(books{"PRODUCT 1": funded})
	if _, err := o.Swaps.QuoteOrganization(o.ctx, o.org, swap.OrganizationQuoteRequest{
		FromMintID: dollars, ToMintID: euros, AmountIn: fmt.Sprint(amountIn),
	}); err != nil {
		t.Errorf("a quote: %v", err)
	}
}

// A backup lacks an approved swap: the journal brings back its terms and its payment. It has no approvals, so
// people decide about the payout. The output is paid once.
func TestAnOrganizationsSwapThatABackupLacksIsRestored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(o *ownEnv) swap.Swap // before the backup; the zero swap: nothing
		lost   func(o *ownEnv, w swap.Swap) swap.Swap
	}{
		"the whole swap": {nil, func(o *ownEnv, _ swap.Swap) swap.Swap {
			w := o.awaiting()
			o.approve(w.ID, o.ben, o.cyd)
			return o.payOwn(w.ID)
		}},
		"its approvals and its offer": {
			func(o *ownEnv) swap.Swap { return o.awaiting() },
			func(o *ownEnv, w swap.Swap) swap.Swap {
				o.approve(w.ID, o.ben, o.cyd)
				return o.payOwn(w.ID)
			},
		},
		"its payout": {nil, func(o *ownEnv, _ swap.Swap) swap.Swap {
			w := o.awaiting()
			o.approve(w.ID, o.ben, o.cyd)
			w = o.payOwn(w.ID)
			o.deliver(w, amountOut)
			return o.wantEnd(w.ID, swap.Completed, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOwnEnv(t)
			o.setting("twoFactorUsdThreshold", `"100"`)
			o.setting("approvalQuorum", "2")
			var w swap.Swap
			if c.before != nil {
				w = c.before(o)
			}
			backup := pgtest.CopyDatabase(t, o.database)
			w = c.lost(o, w)
			r := &ownEnv{
				testEnv: o.on(backup), list: o.list, owner: o.owner, finance: o.finance, ben: o.ben, cyd: o.cyd,
			}
			r.connect()
			restored := r.own(w.ID)
			if restored.AmountIn != w.AmountIn || restored.MinOut != w.MinOut ||
				restored.PayoutAddress != vaultAddress || restored.WhitelistedID != vault ||
				restored.Product != product || restored.ApprovalsRequired != 2 || *restored.PayoutMax != *w.PayoutMax ||
				!restored.PayoutUntil.Equal(*w.PayoutUntil) {
				t.Errorf("restored %+v, want the terms of %+v", restored, w)
			}
			again, isReplayed, err := r.Swaps.RequestOrganization(r.ctx, r.org, r.ownRequest("key"))
			if err != nil || !isReplayed || again.ID != w.ID {
				t.Errorf("the key returns %s replayed %v %v, want %s", again.ID, isReplayed, err, w.ID)
			}
			r.pass(8)
			if r.own(w.ID).AmountOut == nil {
				r.deliver(restored, amountOut)
				r.pass(3)
				payoutID := *r.own(w.ID).PayoutID
				for _, person := range []member.Member{r.ben, r.cyd} {
					_, err := r.Withdrawals.Approve(r.ctx, r.org, payoutID, person.Actor())
					r.must(err)
				}
			}
			r.wantEnd(w.ID, swap.Completed, "")
			_, err = r.Withdrawals.CollectOwed(r.ctx) // of a payout that was restored before its delivery
			r.must(err)
			r.look("the debts")
			payout, err := r.Withdrawals.ByID(r.ctx, r.org, *r.own(w.ID).PayoutID)
			r.must(err)
			if payout.SwapID != w.ID {
				t.Errorf("the payout names the swap %q, want %s", payout.SwapID, w.ID)
			}
			r.wantVault(amountOut)
			r.wantBooks(books{"PRODUCT 1": funded - amountIn})
		})
	}
}

// Another organization neither sees a swap nor decides about it.
func TestAnotherOrganizationHasNoPartInASwap(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	made, _, err := org.Create(o.ctx, o.db, "Other")
	o.must(err)
	var stranger member.Member
	o.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
		stranger, err = member.Add(ctx, tx, audit.Operator("op"), made.ID, "eve@example.com", "Eve", identity.Owner)
		return err
	})
	for name, act := range map[string]func() error{
		"read":   func() error { _, err := o.Swaps.OrganizationByID(o.ctx, made.ID, w.ID); return err },
		"digest": func() error { _, err := o.Swaps.PayoutDigest(o.ctx, made.ID, w.ID); return err },
		"approve": func() error {
			_, err := o.Swaps.ApproveOrganization(o.ctx, made.ID, w.ID, "", stranger)
			return err
		},
		"reject": func() error {
			_, err := o.Swaps.RejectOrganization(o.ctx, made.ID, w.ID, "no", stranger)
			return err
		},
		"cancel": func() error { _, err := o.Swaps.CancelOrganization(o.ctx, made.ID, w.ID, stranger); return err },
	} {
		if err := act(); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%s: got %v, want NOT_FOUND", name, err)
		}
	}
	_, err = o.Swaps.ApproveOrganization(o.ctx, o.org, w.ID, "", stranger)
	o.wantFault(err, fault.ScopeMissing)
	page := pagination.Page{Limit: 10}
	others, err := o.Swaps.ListOrganization(o.ctx, made.ID, swap.OrganizationFilter{}, page)
	o.must(err)
	own, err := o.Swaps.ListOrganization(o.ctx, o.org, swap.OrganizationFilter{AwaitingApproval: true}, page)
	o.must(err)
	all, err := o.Swaps.ListAll(o.ctx, swap.OperatorFilter{Kind: swap.OrganizationSwap}, page)
	o.must(err)
	if len(others.Items) != 0 || len(own.Items) != 1 || len(all.Items) != 1 || all.Items[0].ID != w.ID {
		t.Errorf("the lists have %d, %d and %d swaps, want 0, 1 and 1",
			len(others.Items), len(own.Items), len(all.Items))
	}
}

// The database refuses by itself what no code of the service does with an organization's swap.
func TestTheDatabaseKeepsTheSwapsOfOrganizations(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	direct := o.ownRequest("direct")
	direct.AmountIn = "50000000"
	done := o.requestOwn(direct)
	done = o.payOwn(done.ID)
	o.deliver(done, 49_750_000)
	o.wantEnd(done.ID, swap.Completed, "")
	const app, system = false, true
	approval := func(kind, actorID string) string {
		return fmt.Sprintf(`INSERT INTO swap_approvals (org_id, swap_id, approver_kind, approver_id, at, digest, mac)
			SELECT org_id, swap_id, '%s', '%s', now(), '', '' FROM swaps WHERE swap_id = $swap`, kind, actorID)
	}
	set := func(columns string) string { return "UPDATE swaps SET " + columns + " WHERE swap_id = $swap" }
	release := set("status = 'PENDING', approved_at = now()")
	approveOnce := approval("USER", o.ben.ID)
	for name, c := range map[string]struct {
		asSystem bool
		id       string
		sql      string
		want     string
	}{
		"let go by the app":         {app, w.ID, set("status = 'PENDING'"), denied},
		"approved by the app":       {app, w.ID, approveOnce, denied},
		"an address by the app":     {app, w.ID, set("payout_address = 'x'"), denied},
		"a payout by the app":       {app, w.ID, set("payout_id = 'x'"), denied},
		"restored by the app":       {app, w.ID, set("restored = 1, restore_count = 1"), "swaps_awaits"},
		"let go without approvals":  {system, w.ID, release, "swaps_approved_by_enough"},
		"let go with one of two":    {system, w.ID, approveOnce + ";" + release, "swaps_approved_by_enough"},
		"let go without a time":     {system, w.ID, set("status = 'PENDING'"), "swaps_written_once"},
		"approved by the requester": {system, w.ID, approval("USER", o.finance.ID), "swap_approvals_not_by_maker"},
		"approved by a program":     {system, w.ID, approval("API_KEY", "key"), "swap_approvals_by_people"},
		"approved afterwards":       {system, done.ID, approveOnce, "swap_approvals_waited_for"},
		"fewer approvals":           {system, w.ID, set("approvals_required = 0"), "swaps_terms_fixed"},
		"another address":           {system, w.ID, set("payout_address = 'x'"), "swaps_terms_fixed"},
		"another entry":             {system, w.ID, set("whitelisted_address_id = 'x'"), "swaps_terms_fixed"},
		"a later end":               {system, w.ID, set("payout_until = payout_until + '1 day'"), "swaps_terms_fixed"},
		"a payout while it waits":   {system, w.ID, set("payout_id = 'x'"), "swaps_written_once"},
		"an offer while it waits":   {system, w.ID, set("provider = 'X'"), "swaps_terms_fixed"},
		"ended with its hold": {
			system, w.ID, set("status = 'CANCELLED', refunded = amount_in"), "swaps_released",
		},
		"ended without a refund": {system, w.ID, set("status = 'CANCELLED'"), "swaps_awaits"},
		"another payout":         {system, done.ID, set("payout_id = NULL"), "swaps_written_once"},
		"another output":         {system, done.ID, set("amount_out = 1"), "swaps_written_once"},
		"of a customer":          {system, w.ID, set("kind = 'CUSTOMER'"), "swaps_terms_fixed"},
		"an approval taken back": {system, w.ID, `DELETE FROM swap_approvals WHERE swap_id = $swap`, denied},
	} {
		if got := o.attack(c.asSystem, o.statements(c.id, c.sql)); got != c.want {
			t.Errorf("%s: refused by %s, want %s", name, got, c.want)
		}
	}
	// Nothing becomes of a swap that waits for people.
	for _, outcome := range []string{
		"amount_out = 1, delivered_at = now(), origin_tx_hash = 'x', destination_tx_hash = 'x'",
		"amount_out = 1", "delivered_at = now()", "paid_at = now()", "origin_tx_hash = 'x'",
		"destination_tx_hash = 'x'", "refund_tx_hash = 'x'", "refunded = 1", "refunded = amount_in",
		"short = 1, short_count = 1", "refund_report = 'PENDING'", "end_reason = 'ORIGIN_TX_FAILED'",
		"failure_message = 'x'", "failure_said_at = now()", "success_said_at = now()", "delayed_at = now()", "owed = 1",
		"collections = 1", "status = 'REJECTED', rejected_note = 'x', refunded = 1",
		"status = 'PENDING', approved_at = now(), destination_tx_hash = 'x'",
		"status = 'PENDING', approved_at = now(), refunded = amount_in",
	} {
		if got := o.attack(system, o.statements(w.ID, set(outcome))); got != "swaps_awaits" {
			t.Errorf("%s: refused by %s, want swaps_awaits", outcome, got)
		}
	}
	o.look("the attacks")
}
