package withdrawal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// Every order that this package makes pays a third party, and the rule covers it. A refund and the row of a batch count
// by their amount, like a customer's payment. Rule SA-1.
func TestTheRuleCoversEveryKindOfPayment(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	signature := func(lasts time.Duration) *signer.KeySignature {
		return &signer.KeySignature{KeyID: "apk_1", NotAfter: signer.FormatMicros(now.Add(lasts))}
	}
	approval := func(person string, s *signer.KeySignature) signer.Approval {
		return signer.Approval{Approver: "USER " + person, Signature: s}
	}
	payout := func(maxOut uint64, approvals ...signer.Approval) Request {
		return Request{payout: &SwapPayoutRequest{SwapID: "osw_1", Approved: &SwapApprovals{
			Terms: signer.SwapPayout{
				Product: "CHECKOUT", ToMintID: usdc, MinOut: money.Units(1), MaxOut: money.Units(maxOut),
				WhitelistedID: vault, To: stranger, NotAfter: signer.FormatMicros(now.Add(time.Hour)),
			},
			Approvals: approvals, Required: 2,
		}}}
	}
	own := ledger.ProductOwner("CHECKOUT")
	for name, c := range map[string]struct {
		owner  ledger.Owner
		r      Request
		signed int // who signed the batch
		amount uint64
		want   Result
	}{
		"a customer's, below":        {owner: ledger.OwnerOf("alice", ""), amount: 499, want: ResultPass},
		"a customer's, at the limit": {owner: ledger.OwnerOf("alice", ""), amount: 500, want: ResultHold},
		"an own payment of one unit": {owner: own, amount: 1, want: ResultHold},
		"a refund, below":            {owner: ledger.RefundOwner(), amount: 499, want: ResultPass},
		"a refund, at the limit":     {owner: ledger.RefundOwner(), amount: 500, want: ResultHold},
		"a row of a batch, below":    {owner: ledger.BatchOwner(), amount: 499, want: ResultPass},
		"a row of a batch, unsigned": {owner: ledger.BatchOwner(), amount: 500, signed: 1, want: ResultHold},
		"a row of a batch, signed":   {owner: ledger.BatchOwner(), amount: 500, signed: 2, want: ResultSkipped},
		"of a swap that needed no one": {
			owner: own, r: Request{payout: &SwapPayoutRequest{}}, amount: 500, want: ResultHold,
		},
		"of a swap, approved, unsigned": {
			owner: own, amount: 500, want: ResultHold, r: payout(500, approval("1", nil), approval("2", nil)),
		},
		"of a swap, signed by one": {
			owner: own, amount: 500, want: ResultHold,
			r: payout(500, approval("1", signature(time.Hour)), approval("2", nil)),
		},
		"of a swap, signed by one twice": {
			owner: own, amount: 500, want: ResultHold,
			r: payout(500, approval("1", signature(time.Hour)), approval("1", signature(time.Hour)),
				approval("2", nil)),
		},
		"of a swap, signatures about to end": {
			owner: own, amount: 500, want: ResultHold,
			r: payout(500, approval("1", signature(time.Minute)), approval("2", signature(time.Hour))),
		},
		"of a swap, above its bounds": {
			owner: own, amount: 501, want: ResultHold,
			r: payout(500, approval("1", signature(time.Hour)), approval("2", signature(time.Hour))),
		},
		"of a swap, signed": {
			owner: own, amount: 500, want: ResultSkipped,
			r: payout(500, approval("1", signature(time.Hour)), approval("2", signature(time.Hour))),
		},
	} {
		f := Facts{request: c.r}
		f.owner, f.amount, f.destination, f.listedID = c.owner, money.Units(c.amount), stranger, vault
		f.mint = mint.Mint{ID: usdc, Chain: chain.Ethereum, Contract: usdcAddress, Kind: mint.Token}
		f.screening.Case.Now = now
		f.rule = &signer.ApprovalRule{Quorum: 2, OwnPayments: true, Assets: []signer.AssetRule{{
			Chain: chain.Ethereum, Contract: usdcAddress, Threshold: money.Units(500), DayMax: money.Units(10_000),
		}}}
		f.batchSigned = c.signed
		got, refusal := checkRule(f)
		if refusal != nil || got.Result != c.want || (got.Reason == ReasonApprovalRule) != (c.want == ResultHold) {
			t.Errorf("%s: got %s %s, %v, want %s", name, got.Result, got.Reason, refusal, c.want)
		}
		f.rule = nil
		if got, refusal := checkRule(f); got.Gate != "" || refusal != nil {
			t.Errorf("%s, without a rule: got %v, %v, want no trace", name, got, refusal)
		}
	}
}

// newSignedOrgEnv returns a signedEnv whose organization has a balance of its own, a whitelist and ann, who asks for
// payments and has a passkey, too.
func newSignedOrgEnv(t *testing.T) (*signedEnv, *orgEnv, *signertest.Passkey) {
	t.Helper()
	e := newSignedEnv(t)
	ch := sim.New(sim.Config{}).ToChain()
	e.Chains = chain.Chains{ch.Name: ch}
	e.Prices = price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1"), eth: money.MustParseUSD("3000")}}
	o := &orgEnv{testEnv: e.testEnv, signer: e.signer, list: fakeWhitelist{
		vault: {Chain: chain.Ethereum, Address: stranger},
	}}
	e.Whitelist = o.list
	endorsement := signer.Endorsement{
		OrgID: e.org, ID: vault, Chain: chain.Ethereum, Address: stranger, LabelHash: signer.HashLabel("vault"),
		NotBefore: signer.FormatMicros(time.Unix(1, 0)),
	}
	endorsement.MAC = e.GrantKey.EndorsementMAC(endorsement)
	if _, err := e.signer.EndorseAddress(t.Context(), endorsement); err != nil {
		t.Fatal(err)
	}
	e.inSystem(func(ctx context.Context, tx pg.Tx) (err error) {
		o.ann, err = member.Add(ctx, tx, audit.Operator("op"), e.org, "ann@example.com", "Ann", identity.Finance,
			identity.Approver)
		return err
	})
	p := signertest.NewPasskey(t, e.org, "ann", signer.RightApprove)
	p.Person = "USER " + o.ann.ID
	e.mirror.keys[p.ID] = p
	o.fundProduct("CHECKOUT", usdc, 10_000)
	return e, o, p
}

// An own payment waits for two people other than its maker, at any amount. Rule SA-1.
func TestAnOwnPaymentUnderTheRuleIsSignedByTwoOthers(t *testing.T) {
	t.Parallel()
	e, o, anns := newSignedOrgEnv(t)
	r := newOrgRequest()
	r.Amount = "20" // below the amount of the rule
	w := o.mustRequestOrg(r)
	e.wantReasons(w, "APPROVAL_RULE")
	if got := approvalCount(w); got != "AWAITING_APPROVAL 0 of 2" {
		t.Errorf("got %s", got)
	}
	if got := e.words(w.ID)(signer.StatementContext{}).Find("madeBy"); got != "USER "+o.ann.ID {
		t.Errorf("the words name %q as the maker, want ann", got)
	}
	_, err := e.Approve(t.Context(), e.org, w.ID, userActor(1))
	wantFault(t, err, fault.ApprovalRefused)
	_, err = e.ApproveSigned(t.Context(), e.org, w.ID, o.ann.Actor(), "", e.sign(anns, w.ID))
	wantFault(t, err, fault.ApprovalRefused)
	if got := approvalCount(e.mustSign(w.ID, 1, 2)); got != "PROCESSING 2 of 2" {
		t.Errorf("got %s", got)
	}
	intent := e.newIntent(w.ID)
	intent.IdempotencyKeyHash = signertest.KeyHash(w.ID)
	unsigned := intent
	grant := *intent.Grant
	second := grant.Approvals[1]
	second.Signature = nil
	grant.Approvals = []signer.Approval{grant.Approvals[0], second}
	unsigned.Grant = &grant
	var refusal *signer.Refusal
	if _, err := e.signer.AdmitIntent(t.Context(), unsigned); !errors.As(err, &refusal) ||
		refusal.Code != signer.RefusedSignature {
		t.Errorf("with one signature: got %v, want it refused", err)
	}
	if _, err := e.signer.AdmitIntent(t.Context(), intent); err != nil {
		t.Errorf("with two signatures: got %v", err)
	}
}
