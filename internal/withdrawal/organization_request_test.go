package withdrawal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// fakeWhitelist is a whitelist as an operator would keep it.
type fakeWhitelist map[string]WhitelistEntry

func (e fakeWhitelist) Usable(_ context.Context, _ pg.Tx, _, listedID string) (WhitelistEntry, error) {
	l, ok := e[listedID]
	if !ok {
		return WhitelistEntry{}, newUnlisted()
	}
	return l, nil
}

// Entries of the whitelist of orgEnv.
const (
	vault = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC" // usable
	other = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABD" // on another chain
	twin  = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABF" // the same address under another name
)

// orgEnv is a testEnv with an organization that has a balance of its own and a whitelist.
type orgEnv struct {
	*testEnv
	sim    *sim.Chain
	signer signer.Signer
	list   fakeWhitelist
	ann    member.Member
}

func newOrgEnv(t *testing.T) *orgEnv {
	t.Helper()
	key, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	h, s := newTestEnvWith(t, key)
	net := sim.New(sim.Config{})
	ch := net.ToChain()
	h.Chains = chain.Chains{ch.Name: ch}
	h.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	o := &orgEnv{testEnv: h, sim: net, signer: s, list: fakeWhitelist{
		vault: {Chain: chain.Ethereum, Address: stranger}, other: {Chain: chain.Base, Address: stranger},
		twin: {Chain: chain.Ethereum, Address: stranger},
	}}
	h.Whitelist = o.list
	for _, listedID := range []string{vault, twin} {
		e := signer.Endorsement{
			OrgID: h.org, ID: listedID, Chain: o.list[listedID].Chain, Address: stranger,
			LabelHash: signer.HashLabel("vault"), NotBefore: signer.FormatMicros(time.Unix(1, 0)),
		}
		e.MAC = key.EndorsementMAC(e)
		if _, err := s.EndorseAddress(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	h.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
		o.ann, err = member.Add(ctx, tx, audit.Operator("op"), h.org, "ann@example.com", "Ann", identity.Finance)
		return err
	})
	return o
}

// fundProduct transfers an amount from a customer to a product.
func (o *orgEnv) fundProduct(product string, mintID int, n uint64) {
	o.t.Helper()
	o.creditDeposit("payer", mintID, n)
	transferID := id.New("tr", o.DB.Clock()())
	err := o.DB.InOrg(o.t.Context(), o.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer, to_product, created_at)
			VALUES ($1, $2, $1, '', $3, $4, 'payer', $5, $6)`,
			transferID, o.org, mintID, money.Units(n), product, tx.Now)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Transfer, ID: transferID},
			Legs: []ledger.Leg{{
				Debit:  ledger.CustomerOwner("payer").SpendingAccount(o.org, mintID),
				Credit: ledger.ProductOwner(product).SpendingAccount(o.org, mintID), Amount: money.Units(n),
			}},
		})
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// newOrgRequest returns a request that passes every gate once CHECKOUT has a balance.
func newOrgRequest() OrganizationRequest {
	return OrganizationRequest{Product: "CHECKOUT", MintID: usdc, WhitelistedAddressID: vault, Amount: "1000"}
}

func (o *orgEnv) mustRequestOrg(r OrganizationRequest) Withdrawal {
	o.t.Helper()
	w, _, err := o.RequestOrganization(o.t.Context(), o.ann, r)
	if err != nil {
		o.t.Fatal(err)
	}
	return w
}

// wantProduct checks the available and held balances of a product, and what customers have.
func (o *orgEnv) wantProduct(mintID int, product, available, held string) {
	o.t.Helper()
	of := ledger.ProductOwner(product)
	for _, c := range []struct {
		account ledger.Account
		want    string
	}{{of.SpendingAccount(o.org, mintID), available}, {of.HeldAccount(o.org, mintID), held}} {
		if got := o.accountBalance(mintID, c.account.Kind, c.account.Subject); got.String() != c.want {
			o.t.Errorf("%v: got %v, want %v", c.account, got, c.want)
		}
	}
}

// ownFacts returns facts of a request for the organization's own money that pass every gate.
func ownFacts() Facts {
	f := passingFacts()
	f.owner, f.listedID = ledger.ProductOwner("CHECKOUT"), vault
	f.entry = WhitelistEntry{Chain: f.mint.Chain, Address: f.destination}
	return f
}

// Rules OW-1, OW-2, OW-3, OW-4.
func TestGatesOfAnOrganizationsOwnMoney(t *testing.T) {
	t.Parallel()
	above, most := money.MustParseUSD("100.000000000000000001"),
		money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	native := func(fee uint64) func(*Facts) {
		return func(f *Facts) { f.deductsFee, f.fee = true, amountPointer(fee) }
	}
	for _, c := range []struct {
		name    string
		change  func(*Facts)
		refusal fault.Code
		status  Status
		reasons []Reason
	}{
		{"nothing against it", func(*Facts) {}, "", Processing, nil},
		{"no threshold set", func(f *Facts) { f.threshold, f.usdValue = nil, nil }, "", Processing, nil},
		{"a key is demanded of programs", func(f *Facts) { f.keyRequired = true }, "", Processing, nil},
		{"at the threshold", func(f *Facts) { f.usdValue = f.threshold }, "", Processing, nil},
		{
			"above the threshold by the least", func(f *Facts) { f.usdValue = &above }, "", AwaitingApproval,
			[]Reason{ReasonUSDThreshold},
		},
		{
			"no price where a threshold is set", func(f *Facts) { f.usdValue = nil }, "", AwaitingApproval,
			[]Reason{ReasonPriceUnavailable},
		},
		{
			"not enough to pay with now", func(f *Facts) { f.liquid = money.Units(99) }, "", AwaitingApproval,
			[]Reason{ReasonLowLiquidity},
		},
		{
			"no provider answers for it", func(f *Facts) { f.screening = severityRecord("") }, "",
			AwaitingApproval,
			[]Reason{ReasonRiskReview},
		},
		{
			"looks like a known destination", func(f *Facts) { f.lookalike = stranger }, "", AwaitingApproval,
			[]Reason{ReasonDestinationAddress},
		},
		{
			"holds add up", func(f *Facts) { f.usdValue, f.liquid, f.screening = nil, money.Zero, severityRecord("") },
			"", AwaitingApproval,
			[]Reason{ReasonRiskReview, ReasonPriceUnavailable, ReasonLowLiquidity},
		},
		{
			"the customers' flag and list are not asked",
			func(f *Facts) {
				f.request.RequireApproval, f.isAllowlisted, f.usdValue = true, false, nil
				f.threshold = nil
			},
			"", Processing, nil,
		},
		{
			"destination above the severity", func(f *Facts) { f.screening = severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, Blocked, nil,
		},

		{"all of the balance of a token", func(f *Facts) { f.balance = f.amount }, "", Processing, nil},
		{"one unit short", func(f *Facts) { f.balance = money.Units(99) }, fault.InsufficientBalance, "", nil},
		{
			"a coin and its fee, all of the balance",
			func(f *Facts) { native(7)(f); f.balance = money.Units(107) }, "", Processing, nil,
		},
		{
			"a coin and its fee, one unit short", func(f *Facts) { native(7)(f); f.balance = money.Units(106) },
			fault.InsufficientBalance, "", nil,
		},
		{
			"a fee above the amount comes on top all the same",
			func(f *Facts) { native(500)(f); f.balance = money.Units(600) }, "", Processing, nil,
		},
		{"a coin with an unknown fee", func(f *Facts) { f.deductsFee = true }, fault.CodeUnavailable, "", nil},
		{
			"a fee beyond every amount", func(f *Facts) { f.deductsFee, f.fee, f.balance = true, &most, most },
			fault.InsufficientBalance, "", nil,
		},
		{
			"the maximum of nothing", func(f *Facts) { f.amount, f.mint.MinWithdraw = money.Zero, money.Zero },
			fault.InsufficientBalance, "", nil,
		},

		{
			"not on the list", func(f *Facts) { f.entry, f.entryRefusal = WhitelistEntry{}, newUnlisted() },
			fault.AddressNotWhitelisted, "", nil,
		},
		{"the list was not asked", func(f *Facts) { f.entry = WhitelistEntry{} }, fault.AddressNotWhitelisted, "", nil},
		{
			"another address than the entry's", func(f *Facts) { f.entry.Address = usdcAddress },
			fault.AddressNotWhitelisted, "", nil,
		},
		{
			"an entry of another chain", func(f *Facts) { f.entry.Chain = chain.Base },
			fault.AddressNotWhitelisted, "", nil,
		},
		{
			"no address at all",
			func(f *Facts) { f.entry, f.destination = WhitelistEntry{Chain: chain.Ethereum}, "" },
			fault.AddressNotWhitelisted, "", nil,
		},
		{"listed, and ours", func(f *Facts) { f.isOwnAddress = true }, fault.DestinationNotAllowed, "", nil},
		{
			"listed, and a token's contract", func(f *Facts) { f.isTokenContract = true },
			fault.DestinationNotAllowed, "", nil,
		},
		{"listed, and unspendable", func(f *Facts) { f.isUnspendable = true }, fault.DestinationNotAllowed, "", nil},

		{
			"organization frozen",
			func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeOrganization} },
			fault.OrganizationFrozen, "", nil,
		},
		{
			"chain frozen", func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeChain} },
			fault.WithdrawalsSuspended, "", nil,
		},
		{
			"everything frozen", func(f *Facts) { f.activeFreeze = &freeze.Freeze{Scope: freeze.ScopeAll} },
			fault.WithdrawalsSuspended, "", nil,
		},
		{"quarantined", func(f *Facts) { f.mint.Quarantined = true }, fault.WithdrawalsSuspended, "", nil},
		{"below the minimum", func(f *Facts) { f.amount = money.Units(9) }, fault.AmountBelowMinimum, "", nil},
		{
			"the list before the balance",
			func(f *Facts) { f.entryRefusal, f.balance = newUnlisted(), money.Zero },
			fault.AddressNotWhitelisted, "", nil,
		},
		{
			"the address before the balance", func(f *Facts) { f.isOwnAddress, f.balance = true, money.Zero },
			fault.DestinationNotAllowed, "", nil,
		},
		{
			"the balance before risk",
			func(f *Facts) { f.balance, f.screening = money.Zero, severityRecord(risk.Severe) },
			fault.InsufficientBalance, "", nil,
		},
		{
			"risk before the holds",
			func(f *Facts) { f.usdValue, f.screening = &above, severityRecord(risk.Severe) },
			fault.WithdrawalRiskBlocked, Blocked, nil,
		},
	} {
		f := ownFacts()
		c.change(&f)
		d, refusal := decideAll(f)
		if c.refusal != "" {
			if refusal == nil || refusal.Code != c.refusal || d.Status != c.status {
				t.Errorf("%s: got %v and status %q, want %v", c.name, refusal, d.Status, c.refusal)
			}
			continue
		}
		if refusal != nil || d.Status != c.status || !slices.Equal(d.Reasons, c.reasons) {
			t.Errorf("%s: got %v %s %v, want %s %v", c.name, refusal, d.Status, d.Reasons, c.status, c.reasons)
		}
		if len(d.Gates) != 11 {
			t.Errorf("%s: got a record of %d gates, want all 11", c.name, len(d.Gates))
		}
	}
	for name, change := range map[string]func(*Facts){
		"taken from the list": func(f *Facts) { f.entry, f.entryRefusal = WhitelistEntry{}, newUnlisted() },
		"another address":     func(f *Facts) { f.entry.Address = usdcAddress },
	} {
		f := ownFacts()
		change(&f)
		if _, got := decideAll(awaitApproval(f)); got == nil || got.Code != fault.ApprovalRefused {
			t.Errorf("an approval, %s: got %v, want %v", name, got, fault.ApprovalRefused)
		}
	}
}

// Rules OW-1, OW-3, OW-7.
func TestAnOrganizationsOwnTokensGoToItsListAndNowhereElse(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 1_500)
	o.fundProduct("CUSTODIAL", usdc, 90_000)
	before := o.dumpRows()
	for _, c := range []struct {
		name   string
		change func(*OrganizationRequest)
		want   fault.Code
	}{
		{
			"nowhere on the list",
			func(r *OrganizationRequest) { r.WhitelistedAddressID = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABE" },
			fault.AddressNotWhitelisted,
		},
		{
			"an address in place of an entry",
			func(r *OrganizationRequest) { r.WhitelistedAddressID = stranger }, fault.AddressNotWhitelisted,
		},
		{
			"of another chain", func(r *OrganizationRequest) { r.WhitelistedAddressID = other },
			fault.AddressNotWhitelisted,
		},
		{"more than this product has", func(r *OrganizationRequest) { r.Amount = "1501" }, fault.InsufficientBalance},
		{
			"of a product that has nothing", func(r *OrganizationRequest) { r.Product = "BATCH_PAYOUT" },
			fault.InsufficientBalance,
		},
		{"of no product", func(r *OrganizationRequest) { r.Product = "alice" }, fault.InvalidRequest},
		{"an amount and all", func(r *OrganizationRequest) { r.Max = true }, fault.InvalidAmount},
		{"no amount", func(r *OrganizationRequest) { r.Amount = "" }, fault.InvalidAmount},
		{"no such mint", func(r *OrganizationRequest) { r.MintID = 99 }, fault.MintNotFound},
	} {
		r := newOrgRequest()
		c.change(&r)
		if _, _, err := o.RequestOrganization(t.Context(), o.ann, r); !fault.HasCode(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	for _, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		p := o.ann
		p.Roles = []identity.Role{role}
		if _, _, err := o.RequestOrganization(
			t.Context(), p, newOrgRequest(),
		); !fault.HasCode(err, fault.ScopeMissing) {
			t.Errorf("%s: got %v, want %v", role, err, fault.ScopeMissing)
		}
	}
	if got := o.dumpRows(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}

	seen, err := o.PreviewOrganization(t.Context(), o.ann, newOrgRequest())
	if err != nil || seen.WouldBe != Processing {
		t.Errorf("preview: got %+v %v, want PROCESSING", seen, err)
	}
	if got := o.dumpRows(); got != before {
		t.Errorf("rows after a preview: got %v, want %v", got, before)
	}
	w := o.mustRequestOrg(newOrgRequest())
	if w.Owner != ledger.ProductOwner("CHECKOUT") ||
		*w.WhitelistedAddressID != vault ||
		w.Amount.String() != "1000" || w.ToAddress != stranger || w.Status != "PROCESSING" ||
		w.FeeMode != "ORGANIZATION" || w.NetworkFee != nil {
		t.Errorf("got %+v, want the organization's own", w)
	}
	o.wantProduct(usdc, "CHECKOUT", "500", "1000")
	o.wantProduct(usdc, "CUSTODIAL", "90000", "0")
	o.wantBalances("1000000", "0")
	if pays, kept := o.orderAmounts(w); pays.String() != "1000" || !kept.IsZero() {
		t.Errorf("the order pays %v and keeps %v, want 1000 and nothing", pays, kept)
	}
	order := o.loadOrder(w)
	o.setOrderStatus(order.ID, "BROADCAST")
	o.inSystem(func(ctx context.Context, tx pg.Tx) error { return o.OnBroadcast(ctx, tx, order, "0xaa") })
	if err := o.endOrder(order, dispatch.End{Paid: true, Hash: "0xaa", Fee: money.Units(21000)}); err != nil {
		t.Fatal(err)
	}
	o.wantProduct(usdc, "CHECKOUT", "500", "0")
	o.wantEvents(w.ID, "ORGANIZATION_WITHDRAW BROADCAST", "ORGANIZATION_WITHDRAW_COMPLETED COMPLETED")

	all := newOrgRequest()
	all.Amount, all.Max = "", true
	rest := o.mustRequestOrg(all)
	if rest.Amount.String() != "500" {
		t.Errorf("all of a token: got %v, want 500", rest.Amount)
	}
	o.wantProduct(usdc, "CHECKOUT", "0", "500")
	if err := o.endOrder(o.loadOrder(rest), dispatch.End{Hash: "0xbb", Fee: money.Units(9)}); err != nil {
		t.Fatal(err)
	}
	o.wantProduct(usdc, "CHECKOUT", "500", "0")
	o.wantEvents(rest.ID, "ORGANIZATION_WITHDRAW_FAILED FAILED")
	for kind, want := range map[string]int{"": 2, "CUSTOMER": 0, "ORGANIZATION": 2} {
		n := 0
		err := o.ForEach(
			t.Context(), o.org, Filter{Type: kind}, false, func(Withdrawal) error { n++; return nil },
		)
		if err != nil || n != want {
			t.Errorf("list of %q: got %d %v, want %d", kind, n, err, want)
		}
	}
}

// Rule OW-4.
func TestTheFeeOfAnOrganizationsOwnCoinComesFromTheSameBalance(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	const has = 1_000_000 * gwei
	for _, c := range []struct {
		name string
		end  dispatch.End
	}{
		{"paid, and the network took less", dispatch.End{Paid: true, Hash: "0xaa", Fee: money.Units(1)}},
		{"failed", dispatch.End{Hash: "0xcc", Fee: money.Units(7)}},
	} {
		o.fundProduct("BATCH_PAYOUT", eth, has)
		e, err := o.EstimateOrganization(t.Context(), o.ann, "BATCH_PAYOUT", eth, vault)
		if err != nil {
			t.Fatal(err)
		}
		gas := o.accountBalance(eth, ledger.Gas, "")
		w := o.mustRequestOrg(OrganizationRequest{
			Product: "BATCH_PAYOUT", MintID: eth, WhitelistedAddressID: vault, Max: true,
		})
		if sum, err := w.Amount.Add(*w.NetworkFee); err != nil ||
			sum != money.Units(has) || w.Amount.String() != e.MaxAmount.String() {
			t.Errorf(
				"%s: got %s and a fee of %s, want all of %d, of which %v goes out", c.name, w.Amount,
				*w.NetworkFee, uint64(has), e.MaxAmount,
			)
		}
		o.wantProduct(eth, "BATCH_PAYOUT", "0", money.Units(has).String())
		pays, kept := o.orderAmounts(w)
		if pays.String() != w.Amount.String() || kept.String() != w.NetworkFee.String() {
			t.Errorf("%s: the order pays %v and keeps %v, want %s and %s", c.name, pays, kept, w.Amount, *w.NetworkFee)
		}
		if err := o.endOrder(o.loadOrder(w), c.end); err != nil {
			t.Fatal(err)
		}
		if !c.end.Paid {
			o.wantProduct(eth, "BATCH_PAYOUT", money.Units(has).String(), "0")
			continue
		}
		o.wantProduct(eth, "BATCH_PAYOUT", "0", "0")
		if now := o.accountBalance(eth, ledger.Gas, ""); money.SubOrZero(now, gas) != kept {
			t.Errorf("%s: the operator's gas was %v and is %v, want %v more", c.name, gas, now, kept)
		}
		var due string
		o.inSystem(func(ctx context.Context, tx pg.Tx) error {
			sum, err := ledger.Sum(ctx, tx, ledger.Account{OrgID: o.org, MintID: eth, Kind: ledger.FeesDue})
			due = sum.String()
			return err
		})
		if due != kept.String() {
			t.Errorf("%s: %s is taken off the bill, want %v", c.name, due, kept)
		}
	}
}

// Rules OW-5, OW-7, WD-35.
func TestAnOrganizationsOwnMoneyAboveTheThresholdWaitsForOthersThanWhoAsked(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 10_000_000)
	o.setSetting("twoFactorUsdThreshold", `"5"`)
	o.setSetting("customerWithdrawUsdThreshold", `"0"`)
	o.setSetting("approvalQuorum", "2")
	r := newOrgRequest()
	r.Amount = "5000000"
	if w := o.mustRequestOrg(r); w.Status != "PROCESSING" {
		t.Errorf("at the threshold: got %s %v, want it to go", w.Status, w.ApprovalReasons)
	}
	r.Amount = "5000001"
	o.fundProduct("CHECKOUT", usdc, 10_000_000)
	w := o.mustRequestOrg(r)
	if got := approvalCount(w); got != "AWAITING_APPROVAL 0 of 2" ||
		!slices.Equal(reasonTexts(w.ApprovalReasons), []string{"USD_THRESHOLD"}) {
		t.Fatalf("above it: got %s %v, want it to wait for two", got, w.ApprovalReasons)
	}
	_, err := o.Approve(t.Context(), o.org, w.ID, o.ann.Actor())
	wantFault(t, err, fault.ApprovalRefused)
	o.requestApproved(w.ID, userActor(1))
	_, err = o.Approve(t.Context(), o.org, w.ID, userActor(1))
	wantFault(t, err, fault.InvalidState)
	delete(o.list, vault)
	_, err = o.Approve(t.Context(), o.org, w.ID, userActor(2))
	wantFault(t, err, fault.ApprovalRefused)
	if got := o.orderStatus(w.ID); got != "none" {
		t.Errorf("order: got %v, want none", got)
	}
	o.list[vault] = WhitelistEntry{Chain: chain.Ethereum, Address: stranger}
	if got := approvalCount(o.requestApproved(w.ID, userActor(2))); got != "PROCESSING 2 of 2" {
		t.Errorf("got %s, want it to go", got)
	}
	o.wantEvents(
		w.ID, "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL",
		"ORGANIZATION_WITHDRAW_APPROVED PROCESSING",
	)
}

// Rule OW-5.
func TestOfApprovalRemovalAndCancellationOfAnOrganizationsOwnMoneyOneWins(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 10_000)
	o.setSetting("twoFactorUsdThreshold", `"0"`)
	for range 3 {
		had := o.accountBalance(usdc, ledger.Product, "CHECKOUT")
		w := o.mustRequestOrg(newOrgRequest())
		var won [3]bool
		runParallel(3, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = o.Approve(t.Context(), o.org, w.ID, userActor(1))
			case 1:
				_, err = o.Remove(t.Context(), o.org, w.ID, userActor(2), "no")
			default:
				_, err = o.Cancel(t.Context(), o.org, w.ID, audit.APIKey(o.org))
			}
			if won[i] = err == nil; err != nil && !fault.HasCode(err, fault.InvalidState) {
				t.Errorf("%d: got %v, want %v", i, err, fault.InvalidState)
			}
		})
		now, err := o.ByID(t.Context(), o.org, w.ID)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{"PROCESSING": 0, "REJECTED": 1, "CANCELLED": 2}[string(now.Status)]
		if want := [3]bool{at == 0, at == 1, at == 2}; won != want {
			t.Errorf("%s: got the winners %v, want %v", now.Status, won, want)
		}
		if at == 0 {
			had = money.SubOrZero(had, money.Units(1000))
		}
		if got := o.accountBalance(usdc, ledger.Product, "CHECKOUT"); got != had {
			t.Errorf("%s: CHECKOUT has %v, want %v", now.Status, got, had)
		}
	}
}

// Rules OW-1, WD-3.
func TestAKeyOfOneKindOfWithdrawalMakesNoneOfTheOther(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 10_000)
	key := "one"
	r := newOrgRequest()
	r.IdempotencyKey = &key
	w := o.mustRequestOrg(r)
	if again, known, err := o.RequestOrganization(t.Context(), o.ann, r); err != nil || !known ||
		again.ID != w.ID {
		t.Errorf("again: got %v %v %v, want the same", again.ID, known, err)
	}
	delete(o.list, vault) // the whitelist entry may be gone by now
	if again, known, err := o.RequestOrganization(t.Context(), o.ann, r); err != nil || !known ||
		again.ID != w.ID {
		t.Errorf("again, off the list: got %v %v %v, want the same", again.ID, known, err)
	}
	for name, change := range map[string]func(*OrganizationRequest){
		"another product": func(r *OrganizationRequest) { r.Product = "CUSTODIAL" },
		"another entry":   func(r *OrganizationRequest) { r.WhitelistedAddressID = other },
		"all of it":       func(r *OrganizationRequest) { r.Amount, r.Max = "", true },
	} {
		now := r
		change(&now)
		if _, _, err := o.RequestOrganization(t.Context(), o.ann, now); !fault.HasCode(err, fault.IdempotencyConflict) {
			t.Errorf("%s: got %v, want %v", name, err, fault.IdempotencyConflict)
		}
	}
	of := o.newRequest()
	of.IdempotencyKey = &key
	_, _, err := o.Request(t.Context(), o.org, of)
	wantFault(t, err, fault.IdempotencyConflict)
	o.wantProduct(usdc, "CHECKOUT", "9000", "1000")
	o.wantBalances("1000000", "0")
}

// A customer may have the name of a product, and neither pays for the other. Rule OW-3.
func TestACustomerWithTheNameOfAProductIsACustomer(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 10_000)
	o.creditDeposit("CHECKOUT", usdc, 3_000)
	of := o.newRequest()
	of.CustomerID, of.RequireApproval = "CHECKOUT", true
	customers := o.mustRequest(of)
	own := o.mustRequestOrg(newOrgRequest())
	if customers.Owner.IsOrganization() || !own.Owner.IsOrganization() {
		t.Errorf("got %v and %v, want one of each", customers.Owner, own.Owner)
	}
	o.wantProduct(usdc, "CHECKOUT", "9000", "1000")
	for kind, want := range map[ledger.Kind]string{ledger.Customer: "2000", ledger.Withdrawing: "1000"} {
		if got := o.accountBalance(usdc, kind, "CHECKOUT"); got.String() != want {
			t.Errorf("%s of the customer: got %v, want %v", kind, got, want)
		}
	}
	if _, err := o.Remove(t.Context(), o.org, customers.ID, person, ""); err != nil {
		t.Fatal(err)
	}
	o.wantProduct(usdc, "CHECKOUT", "9000", "1000")
}

// The owner of the database cannot redirect an approved payment to another payee or another
// balance. Rule OW-6.
func TestAnOrganizationsWithdrawalThatWasTamperedWithIsNotPaid(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 100_000)
	o.fundProduct("CUSTODIAL", usdc, 100_000)
	o.setSetting("twoFactorUsdThreshold", `"0"`)
	const thief = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	for name, set := range map[string]string{
		"another destination": `to_address = '` + thief + `'`,
		"another entry":       `whitelisted_address_id = '` + twin + `'`,
		"another product":     `product = 'CUSTODIAL'`,
		"another amount":      `amount = 2000`,
	} {
		held := o.mustRequestOrg(newOrgRequest())
		// Before the approval: the approval refuses.
		o.execAsOwner(`UPDATE withdrawals SET ` + set + ` WHERE withdrawal_id = '` + held.ID + `'`)
		_, err := o.Approve(t.Context(), o.org, held.ID, userActor(1))
		if !fault.HasCode(err, fault.ApprovalRefused) {
			t.Errorf("%s, before the approval: got %v, want %v", name, err, fault.ApprovalRefused)
		}
		// After the approval: the signer refuses.
		w := o.mustRequestOrg(newOrgRequest())
		o.requestApproved(w.ID, userActor(1))
		if _, err := o.signer.AdmitIntent(t.Context(), o.newIntent(w.ID)); err != nil {
			t.Fatalf("as it was let go: got %v, want it admitted", err)
		}
		again := o.mustRequestOrg(newOrgRequest())
		o.requestApproved(again.ID, userActor(1))
		o.execAsOwner(`UPDATE dispatch_orders SET `+set+` WHERE order_id = '`+again.ID+`'`,
			`UPDATE withdrawals SET `+set+` WHERE withdrawal_id = '`+again.ID+`'`)
		_, err = o.signer.AdmitIntent(t.Context(), o.newIntent(again.ID))
		if no := (*signer.Refusal)(nil); !errors.As(err, &no) || no.Code != signer.RefusedGrant {
			t.Errorf("%s, after the approval: got %v, want the signer to refuse", name, err)
		}
	}
}

// No role of the program and not the owner can make another payment of it. Rule OW-6.
func TestTheTablesKeepWhoseAWithdrawalIs(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 10_000)
	o.setSetting("twoFactorUsdThreshold", `"0"`)
	w, of := o.mustRequestOrg(newOrgRequest()), o.requestHeld()
	owner := pgtest.OwnerPool(t, o.DB)
	for name, c := range map[string]struct{ id, set, constraint string }{
		"another product": {w.ID, `product = 'CUSTODIAL'`, "withdrawals_payment_fixed"},
		"another entry":   {w.ID, `whitelisted_address_id = 'wla_2'`, "withdrawals_payment_fixed"},
		"a customer's": {
			w.ID, `product = NULL, whitelisted_address_id = NULL, customer_id = 'alice'`,
			"withdrawals_payment_fixed",
		},
		"the organization's": {
			of.ID, `product = 'CUSTODIAL', whitelisted_address_id = 'wla_1', customer_id = NULL`,
			"withdrawals_payment_fixed",
		},
		"without an approval": {w.ID, `status = 'PROCESSING', approved_at = now()`, "withdrawals_as_ordered"},
	} {
		if _, err := owner.Exec(
			t.Context(), `UPDATE withdrawals SET `+c.set+` WHERE withdrawal_id = $1`, c.id,
		); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	for name, c := range map[string]struct{ columns, values, constraint string }{
		"of no owner": {``, ``, "withdrawals_of_one"},
		"a customer's and a product's": {
			`, customer_id, product, whitelisted_address_id`, `, 'alice', 'CHECKOUT', 'wla_1'`, "withdrawals_of_one",
		},
		"a product's to anywhere": {`, product`, `, 'CHECKOUT'`, "withdrawals_of_one"},
		"a customer's on the list": {
			`, customer_id, whitelisted_address_id`, `, 'alice', 'wla_1'`, "withdrawals_of_one",
		},
		"of an unknown product": {
			`, product, whitelisted_address_id`, `, 'alice', 'wla_1'`, "withdrawals_product_known",
		},
	} {
		err := o.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO withdrawals (withdrawal_id, org_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, created_at`+c.columns+`)
				VALUES ('wd_x', $1, 1, 'ETHEREUM', 1, 'x', '', 'BLOCKED', false, '{}', now()`+c.values+`)`, o.org)
			return err
		})
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
}

// A payment that the signer's journal has and a restored database lacks is restored to the product,
// with its key. What the product lacks for it is collected before anything else. Rules OW-3, OW-4.
func TestARestoredWithdrawalOfAProductIsThatProducts(t *testing.T) {
	t.Parallel()
	o := newOrgEnv(t)
	o.fundProduct("CHECKOUT", usdc, 500)
	o.fundProduct("CHECKOUT", eth, 100)
	o.creditDeposit("CHECKOUT", usdc, 5_000) // a customer of that name owes nothing
	key := "restored"
	order := func(mintID int, contract chain.Address, amount, deducted uint64) dispatch.RestoredOrder {
		w := id.New("wd", o.DB.Clock()())
		return dispatch.RestoredOrder{IsNew: true, Order: dispatch.Order{
			ID: w, OrgID: o.org, Purpose: signer.Payment, Chain: chain.Ethereum, To: stranger, MintID: mintID,
			Contract: contract,
			Amount:   money.Units(amount), FeeDeducted: money.Units(deducted), Product: "CHECKOUT",
			WhitelistedID: vault, CreatedAt: o.DB.Clock()(),
		}}
	}
	token, coin := order(usdc, usdcAddress, 700, 0), order(eth, "", 80, 20)
	token.KeyHash = keyHash(&key)
	o.inSystem(func(ctx context.Context, tx pg.Tx) error {
		postings, err := o.OnRestored(ctx, tx, []dispatch.RestoredOrder{token, coin})
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
	o.wantProduct(usdc, "CHECKOUT", "0", "700")
	o.wantProduct(eth, "CHECKOUT", "0", "100")
	for w, want := range map[string]string{token.ID: "700", coin.ID: "80"} {
		got, err := o.ByID(t.Context(), o.org, w)
		if err != nil || !got.Owner.IsOrganization() || *got.WhitelistedAddressID != vault ||
			got.Amount.String() != want || got.Status != "AWAITING_APPROVAL" {
			t.Errorf("got %+v %v, want %s of CHECKOUT that waits", got, err, want)
		}
	}
	r := newOrgRequest()
	r.Amount, r.IdempotencyKey = "700", &key
	if again, known, err := o.RequestOrganization(t.Context(), o.ann, r); err != nil || !known ||
		again.ID != token.ID {
		t.Errorf("its key: got %v %v %v, want %s", again.ID, known, err, token.ID)
	}

	o.fundProduct("CHECKOUT", usdc, 300) // of which 200 are owed
	r.IdempotencyKey, r.Amount = nil, "101"
	_, _, err := o.RequestOrganization(t.Context(), o.ann, r)
	wantFault(t, err, fault.InsufficientBalance)
	if n, err := o.CollectOwed(t.Context()); err != nil || n != 1 {
		t.Errorf("collect: got %d %v, want one", n, err)
	}
	o.wantProduct(usdc, "CHECKOUT", "100", "700")
	if got := o.accountBalance(usdc, ledger.Customer, "CHECKOUT"); got.String() != "5000" {
		t.Errorf("the customer has %v, want 5000", got)
	}
	if _, err := o.Remove(t.Context(), o.org, coin.ID, person, ""); err != nil {
		t.Fatal(err)
	}
	o.wantProduct(eth, "CHECKOUT", "100", "0")
}
