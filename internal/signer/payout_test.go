package signer_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

func newPayout() signer.SwapPayout {
	return signer.SwapPayout{
		OrgID: "org_1", SwapID: "os_1", Product: "CUSTODIAL", FromMintID: 1, ToMintID: 2, AmountIn: money.Units(1000),
		MinOut: money.Units(980), MaxOut: money.Units(1089), WhitelistedID: "wla_1",
		To:       "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		NotAfter: signer.FormatMicros(time.Date(2026, 6, 25, 19, 0, 0, 123_456_789, time.UTC)),
	}
}

// newPayoutIntent returns the payment of what the swap of newPayout brought.
func newPayoutIntent() signer.Intent {
	p := newPayout()
	return signer.Intent{
		ID: "wd_1", Purpose: signer.Payment, Chain: chain.Base, Amount: money.Units(990), MintID: p.ToMintID, To: p.To,
		From:    signer.WalletRef{OrgID: p.OrgID, Family: chain.EVM, Purpose: signer.TreasuryPurpose},
		Product: p.Product, WhitelistedID: p.WhitelistedID, FeeDeducted: money.Units(5),
	}
}

func newGrantKey(t *testing.T, fill byte) *signer.GrantKey {
	t.Helper()
	key, err := signer.NewGrantKey(bytes.Repeat([]byte{fill}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func termsOf(intent signer.Intent) signer.Terms {
	total, err := intent.Amount.Add(intent.FeeDeducted)
	if err != nil {
		panic(err)
	}
	return signer.Terms{
		OrgID: intent.From.OrgID, WithdrawalID: intent.ID, Chain: intent.Chain, MintID: intent.MintID,
		Contract: intent.Contract, To: intent.To, Amount: total, FeeMax: intent.FeeMax, Product: intent.Product,
		WhitelistedID: intent.WhitelistedID, Swap: intent.Swap, Refund: intent.Refund, Batch: intent.Batch,
	}
}

// Every field of what people approve counts, everywhere: also one that a later version adds.
func TestEveryFieldOfAPayoutCounts(t *testing.T) {
	t.Parallel()
	key, known, p := newGrantKey(t, 7), newPayout(), newPayout()
	requested := key.SwapRequestMAC(known, 2)
	approved := key.MakePayoutApproval(known, "MEMBER mem_1")
	intent := newPayoutIntent()
	intent.Grant = key.MakePayoutGrant(termsOf(intent), known, intent.FeeDeducted, 1, []signer.Approval{approved})
	if refusal := key.CheckGrant(intent); refusal != nil || !p.Equal(&known) ||
		!key.VerifySwapRequest(p, 2, requested) {
		t.Fatalf("got %v, want the payout as it was approved and requested", refusal)
	}
	unapproved := key.MakePayoutGrant(termsOf(intent), known, intent.FeeDeducted, 0, nil)
	fields := 0
	changeLeaves(t, "SwapPayout", reflect.ValueOf(&p).Elem(), func(path string) {
		fields++
		if p.Equal(&known) || p.ComputeDigest() == known.ComputeDigest() {
			t.Errorf("%s was changed, and the payout is the same", path)
		}
		if key.VerifySwapRequest(p, 2, requested) {
			t.Errorf("%s was changed, and the row is as it was requested", path)
		}
		if reflect.DeepEqual(key.MakePayoutApproval(p, "MEMBER mem_1"), approved) {
			t.Errorf("%s was changed, and the approval is the same", path)
		}
		for _, granted := range []*signer.Grant{intent.Grant, unapproved} {
			g, changed := *granted, intent
			g.Payout, changed.Grant = &p, &g
			if refusal := key.CheckGrant(changed); refusal == nil || refusal.Code != signer.RefusedGrant {
				t.Errorf("%s was changed, and the grant of %d approvals is %v", path, g.Required, refusal)
			}
		}
	})
	if want := reflect.TypeFor[signer.SwapPayout]().NumField(); fields != want || !p.Equal(&known) {
		t.Errorf("got %d fields, want %d, and the changes undone", fields, want)
	}
	for required := range 4 {
		if key.VerifySwapRequest(known, required, requested) != (required == 2) {
			t.Errorf("a row with %d approvals: got it verified wrongly", required)
		}
	}
	if newGrantKey(t, 8).VerifySwapRequest(known, 2, requested) {
		t.Error("the row verifies with another key")
	}
	none, same := (*signer.SwapPayout)(nil), newPayout()
	if none.Equal(&same) || same.Equal(nil) || !none.Equal(nil) {
		t.Error("a payout equals none")
	}
}

// A grant is worth what its own people approved: no part of another grant completes it.
func TestAPayoutNeedsTheApprovalsOfItsSwap(t *testing.T) {
	t.Parallel()
	key, p := newGrantKey(t, 7), newPayout()
	other := p
	other.SwapID = "os_2"
	intent := newPayoutIntent()
	terms := termsOf(intent)
	of := func(p signer.SwapPayout, people ...string) (approvals []signer.Approval) {
		for _, person := range people {
			approvals = append(approvals, key.MakePayoutApproval(p, person))
		}
		return approvals
	}
	ordinary := []signer.Approval{key.MakeApproval(terms, 0, "MEMBER a"), key.MakeApproval(terms, 0, "MEMBER b")}
	payout := func(approvals []signer.Approval) *signer.Grant {
		return key.MakePayoutGrant(terms, p, intent.FeeDeducted, 2, approvals)
	}
	change := func(g *signer.Grant, f func(g *signer.Grant)) *signer.Grant {
		f(g)
		return g
	}
	for name, c := range map[string]struct {
		grant  *signer.Grant
		isGood bool
	}{
		"two people":        {payout(of(p, "MEMBER a", "MEMBER b")), true},
		"more than needed":  {payout(of(p, "MEMBER a", "MEMBER b", "MEMBER c")), true},
		"one person":        {payout(of(p, "MEMBER a")), false},
		"none":              {payout(nil), false},
		"one person twice":  {payout(of(p, "MEMBER a", "MEMBER a")), false},
		"another swap's":    {payout(of(other, "MEMBER a", "MEMBER b")), false},
		"one of another":    {payout(append(of(p, "MEMBER a"), of(other, "MEMBER b")...)), false},
		"those of payments": {payout(ordinary), false},
		"another key's": {payout([]signer.Approval{
			newGrantKey(t, 8).MakePayoutApproval(p, "MEMBER a"), newGrantKey(t, 8).MakePayoutApproval(p, "MEMBER b"),
		}), false},
		"another person's": {payout(append(of(p, "MEMBER a"), signer.Approval{
			Approver: "MEMBER b", MAC: of(p, "MEMBER c")[0].MAC,
		})), false},
		"fewer needed": {change(payout(of(p, "MEMBER a")), func(g *signer.Grant) { g.Required = 1 }), false},
		"an ordinary grant that was given a payout": {
			change(key.MakeGrant(terms, intent.FeeDeducted, 0, 2, of(p, "MEMBER a", "MEMBER b")),
				func(g *signer.Grant) { g.Payout = &p }), false,
		},
		"an ordinary grant with the approvals of a swap": {
			key.MakeGrant(terms, intent.FeeDeducted, 0, 2, of(p, "MEMBER a", "MEMBER b")), false,
		},
		"a grant whose payout was taken away": {
			change(payout(ordinary), func(g *signer.Grant) { g.Payout = nil }), false,
		},
		"an ordinary grant":             {key.MakeGrant(terms, intent.FeeDeducted, 0, 2, ordinary), true},
		"the part that the journal has": {payout(of(p, "MEMBER a", "MEMBER b")).Recorded(), false},
	} {
		intent.Grant = c.grant
		refusal := key.CheckGrant(intent)
		if (refusal == nil) != c.isGood || refusal != nil && refusal.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want it granted: %v", name, refusal, c.isGood)
		}
	}
}

// A swap of an organization always says where its output goes. A swap of a customer does not need to.
func TestAnOrganizationsSwapComesWithItsPayout(t *testing.T) {
	t.Parallel()
	key, intent := newGrantKey(t, 7), newSwapIntent()
	intent.Grant = key.MakeGrant(termsOf(intent), money.Zero, 0, 0, nil)
	if refusal := key.CheckGrant(intent); refusal != nil {
		t.Errorf("a customer's: got %v", refusal)
	}
	intent.CustomerID, intent.Product = "", "CUSTODIAL"
	intent.Grant = key.MakeGrant(termsOf(intent), money.Zero, 0, 0, nil)
	if refusal := key.CheckGrant(intent); refusal == nil || refusal.Code != signer.RefusedGrant {
		t.Errorf("an organization's without a payout: got %v, want %s", refusal, signer.RefusedGrant)
	}
	intent.Grant = key.MakePayoutGrant(termsOf(intent), newPayout(), money.Zero, 0, nil)
	if refusal := key.CheckGrant(intent); refusal != nil {
		t.Errorf("an organization's: got %v", refusal)
	}
	var none *signer.GrantKey
	if g := none.MakePayoutGrant(termsOf(intent), newPayout(), money.Zero, 0, nil); g != nil {
		t.Errorf("without a key: got %+v, want no grant", g)
	}
	if !none.VerifySwapRequest(newPayout(), 1, nil) {
		t.Error("without a key: got a row refused")
	}
}

// The journal and the wire keep the approval of a swap, and the journal keeps nothing that grants anything.
func TestAPayoutSurvivesTheJournalAndTheWire(t *testing.T) {
	t.Parallel()
	key, p, intent := newGrantKey(t, 7), newPayout(), newPayoutIntent()
	approvals := []signer.Approval{key.MakePayoutApproval(p, "MEMBER a")}
	intent.Grant = key.MakePayoutGrant(termsOf(intent), p, intent.FeeDeducted, 1, approvals)
	roundTrip := func(intent signer.Intent) (read signer.Intent) {
		text, err := json.Marshal(intent)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		return read
	}
	if read := roundTrip(intent); !reflect.DeepEqual(read, intent) || key.CheckGrant(read) != nil {
		t.Errorf("got %+v, want %+v", read, intent)
	}
	recorded := intent
	recorded.Grant = intent.Grant.Recorded()
	if want := (&signer.Grant{Required: 1, Payout: &p}); !reflect.DeepEqual(recorded.Grant, want) {
		t.Errorf("got %+v, want %+v", recorded.Grant, want)
	}
	if read := roundTrip(recorded); !reflect.DeepEqual(read, recorded) || !read.SwapPayout().Equal(&p) {
		t.Errorf("got %+v, want %+v", read, recorded)
	}
	ordinary := key.MakeGrant(termsOf(intent), intent.FeeDeducted, 0, 0, nil)
	if g := ordinary.Recorded(); g != nil {
		t.Errorf("an ordinary grant: got %+v recorded", g)
	}
	if intent.Grant = nil; intent.SwapPayout() != nil || intent.Grant.Recorded() != nil {
		t.Error("an intent without a grant has a payout")
	}
}
