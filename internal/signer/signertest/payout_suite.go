package signertest

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// PayoutChanges has a change of each field of a payout, by the name of the field. What is changed is still well
// formed.
func PayoutChanges() map[string]func(p *signer.SwapPayout) {
	return map[string]func(p *signer.SwapPayout){
		"OrgID":         func(p *signer.SwapPayout) { p.OrgID = otherOrg },
		"SwapID":        func(p *signer.SwapPayout) { p.SwapID += "x" },
		"Product":       func(p *signer.SwapPayout) { p.Product = "CHECKOUT" },
		"FromMintID":    func(p *signer.SwapPayout) { p.FromMintID++ },
		"ToMintID":      func(p *signer.SwapPayout) { p.ToMintID++ },
		"AmountIn":      func(p *signer.SwapPayout) { p.AmountIn = money.Units(1001) },
		"MinOut":        func(p *signer.SwapPayout) { p.MinOut = money.Units(979) },
		"MaxOut":        func(p *signer.SwapPayout) { p.MaxOut = money.Units(1101) },
		"WhitelistedID": func(p *signer.SwapPayout) { p.WhitelistedID = "wla_other" },
		"To":            func(p *signer.SwapPayout) { p.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" },
		"NotAfter": func(p *signer.SwapPayout) {
			p.NotAfter = signer.FormatMicros(time.Now().Add(1000 * time.Hour))
		},
	}
}

// paysPayouts: what an organization's swap brought is paid once, within what people approved of the swap.
func paysPayouts(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	now := time.Now()
	issueWallets(t, s)
	EndorseAddress(t, s, org, "wla_1", Stranger)
	EndorseAddress(t, s, org, "wla_other", Stranger)
	swap, payout := NewOrganizationSwap(t, s, org, "os_1", Token, "wla_1", now)
	signed := swap.SignQuote(t)
	unknown := GrantPayout(nil, NewPayout(signed, payout, "wd_1", 990), payout, 2)
	_, err := s.AdmitIntent(t.Context(), unknown)
	wantRefusal(t, "a payout of a swap that the journal does not have", err, signer.RefusedGrant)

	entry := admitIntent(t, s, GrantPayout(nil, signed, payout, 2))
	var r signer.Record
	if err := json.Unmarshal(entry.Body, &r); err != nil || !r.Admit.SwapPayout().Equal(&payout) ||
		r.Admit.Grant.Required != 2 || r.Admit.Grant.MAC != nil || r.Admit.Grant.Approvals != nil {
		t.Errorf("got %s, %v, want the approval of the swap without a MAC", entry.Body, err)
	}
	for name, intent := range map[string]signer.Intent{
		"with its grant": GrantPayout(nil, signed, payout, 2), "without": signed,
	} {
		if repeated := admitIntent(t, s, intent); repeated.Hash != entry.Hash {
			t.Errorf("the swap again %s: got entry %d, want %d", name, repeated.Seq, entry.Seq)
		}
	}
	before := readHead(t, s)
	for name, change := range PayoutChanges() {
		changed := payout
		change(&changed)
		_, err := s.AdmitIntent(t.Context(), GrantPayout(nil, signed, changed, 2))
		wantRefusal(t, "the known swap with another "+name, err, signer.RefusedIntent)
		_, err = s.AdmitIntent(t.Context(), GrantPayout(nil, NewPayout(signed, payout, "wd_1", 990), changed, 2))
		wantRefusal(t, "a payout with another "+name+" in its grant", err, signer.RefusedGrant)
		if name == "OrgID" || name == "To" { // the payment would be refused for other reasons
			continue
		}
		_, err = s.AdmitIntent(t.Context(), GrantPayout(nil, NewPayout(signed, changed, "wd_1", 990), changed, 2))
		wantRefusal(t, "a payout as another "+name+" was approved", err, signer.RefusedGrant)
	}
	for name, change := range map[string]func(intent *signer.Intent){
		"of less":               func(i *signer.Intent) { i.Amount = money.Units(979) },
		"of more":               func(i *signer.Intent) { i.Amount = money.Units(1101) },
		"of more with the fee":  func(i *signer.Intent) { i.FeeDeducted = money.Units(111) },
		"of another mint":       func(i *signer.Intent) { i.MintID++ },
		"of another product":    func(i *signer.Intent) { i.Product = "CHECKOUT" },
		"to another entry":      func(i *signer.Intent) { i.WhitelistedID = "wla_other" },
		"to another address":    func(i *signer.Intent) { i.To = "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb" },
		"of another's treasury": func(i *signer.Intent) { i.From.OrgID = otherOrg },
		"of a customer": func(i *signer.Intent) {
			i.CustomerID, i.Product, i.WhitelistedID = "alice", "", ""
		},
		"that is a return": func(i *signer.Intent) {
			i.Purpose, i.From, i.Product, i.WhitelistedID = signer.Return, Deposit(org, "alice"), "", ""
		},
	} {
		intent := NewPayout(signed, payout, "wd_1", 990)
		change(&intent)
		_, err := s.AdmitIntent(t.Context(), GrantPayout(nil, intent, payout, 2))
		wantRefusal(t, "a payout "+name, err, signer.RefusedGrant)
	}
	_, err = s.AdmitIntent(t.Context(), GrantPayout(nil, NewPayout(signed, payout, "wd_1", 990), payout, 2))
	wantRefusal(t, "a payout before the payment of its swap is signed", err, signer.RefusedGrant)
	if after := readHead(t, s); after != before {
		t.Errorf("head: got %+v, want %+v: a refusal is not journaled", after, before)
	}

	SignPayment(t, s, signed, 0)
	paid := GrantPayout(nil, NewPayout(signed, payout, "wd_1", 990), payout, 2)
	first := admitIntent(t, s, paid)
	if repeated := admitIntent(t, s, paid); repeated.Hash != first.Hash {
		t.Errorf("the payout again: got entry %d, want %d", repeated.Seq, first.Seq)
	}
	second := GrantPayout(nil, NewPayout(signed, payout, "wd_2", 990), payout, 2)
	_, err = s.AdmitIntent(t.Context(), second)
	wantRefusal(t, "a second payout of the swap", err, signer.RefusedGrant)
	if _, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: "wd_1"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.AdmitIntent(t.Context(), second)
	wantRefusal(t, "a second payout after the first was taken back", err, signer.RefusedGrant)
	second.Grant = nil
	admitIntent(t, s, second) // as people approve it by itself
}

// keepsPayoutBounds: the bounds belong to what may be paid, and the deducted fee counts.
func keepsPayoutBounds(t *testing.T, s signer.Signer, _ ed25519.PublicKey) {
	now := time.Now()
	issueWallets(t, s)
	EndorseAddress(t, s, org, "wla_1", Stranger)
	nonce := uint64(0)
	for id, amounts := range map[string][2]uint64{
		"least": {980, 0}, "most": {1100, 0}, "fee": {970, 10}, "all": {1000, 100},
	} {
		swap, payout := NewOrganizationSwap(t, s, org, "os_"+id, Token, "wla_1", now)
		signed := swap.SignQuote(t)
		admitIntent(t, s, GrantPayout(nil, signed, payout, 0))
		SignPayment(t, s, signed, nonce)
		nonce++
		intent := NewPayout(signed, payout, "wd_"+id, amounts[0])
		intent.FeeDeducted = money.Units(amounts[1])
		admitIntent(t, s, GrantPayout(nil, intent, payout, 0))
	}
	for name, change := range map[string]func(w *SwapPayment, p *signer.SwapPayout){
		"of another swap":    func(_ *SwapPayment, p *signer.SwapPayout) { p.SwapID = "os_2" },
		"of another product": func(_ *SwapPayment, p *signer.SwapPayout) { p.Product = "CHECKOUT" },
		"of another organization": func(_ *SwapPayment, p *signer.SwapPayout) {
			p.OrgID = otherOrg
		},
		"of another mint":        func(_ *SwapPayment, p *signer.SwapPayout) { p.FromMintID++ },
		"of another amount":      func(_ *SwapPayment, p *signer.SwapPayout) { p.AmountIn = money.Units(999) },
		"of another mint to buy": func(_ *SwapPayment, p *signer.SwapPayout) { p.ToMintID++ },
		"of a higher minimum":    func(_ *SwapPayment, p *signer.SwapPayout) { p.MinOut = money.Units(981) },
		"without room":           func(_ *SwapPayment, p *signer.SwapPayout) { p.MaxOut = money.Units(979) },
		"of a customer's swap": func(w *SwapPayment, _ *signer.SwapPayout) {
			w.Intent.CustomerID, w.Intent.Product = "alice", ""
		},
	} {
		swap, payout := NewOrganizationSwap(t, s, org, "os_1", Token, "wla_1", now)
		change(&swap, &payout)
		_, err := s.AdmitIntent(t.Context(), GrantPayout(nil, swap.SignQuote(t), payout, 0))
		wantRefusal(t, "a swap with an approval "+name, err, signer.RefusedGrant)
	}
	for name, change := range map[string]func(p *signer.SwapPayout){
		"without a swap":    func(p *signer.SwapPayout) { p.SwapID = "" },
		"without an entry":  func(p *signer.SwapPayout) { p.WhitelistedID = "" },
		"without a product": func(p *signer.SwapPayout) { p.Product = "" },
		"to no address":     func(p *signer.SwapPayout) { p.To = "" },
		"of no time":        func(p *signer.SwapPayout) { p.NotAfter = "soon" },
		"of another zone":   func(p *signer.SwapPayout) { p.NotAfter = "2126-06-25T19:00:00.000000+02:00" },
	} {
		swap, payout := NewOrganizationSwap(t, s, org, "os_1", Token, "wla_1", now)
		change(&payout)
		_, err := s.AdmitIntent(t.Context(), GrantPayout(nil, swap.SignQuote(t), payout, 0))
		wantRefusal(t, "a swap with an approval "+name, err, signer.RefusedMalformed)
	}

	// A swap that was taken back brings nothing, and one of no approval has none to pay by.
	taken, payout := NewOrganizationSwap(t, s, org, "os_taken", Token, "wla_1", now)
	signed := taken.SignQuote(t)
	admitIntent(t, s, GrantPayout(nil, signed, payout, 0))
	if _, err := s.VoidIntent(t.Context(), signer.Void{OrgID: org, ID: "os_taken"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.AdmitIntent(t.Context(), GrantPayout(nil, NewPayout(signed, payout, "wd_taken", 990), payout, 0))
	wantRefusal(t, "a payout of a swap that was taken back", err, signer.RefusedGrant)
	bare, payout := NewOrganizationSwap(t, s, org, "os_bare", Token, "wla_1", now)
	signed = bare.SignQuote(t)
	admitIntent(t, s, signed)
	SignPayment(t, s, signed, nonce)
	_, err = s.AdmitIntent(t.Context(), GrantPayout(nil, NewPayout(signed, payout, "wd_bare", 990), payout, 0))
	wantRefusal(t, "a payout of a swap without an approval", err, signer.RefusedGrant)

	fields := slices.Sorted(maps.Keys(PayoutChanges()))
	if want := reflect.TypeFor[signer.SwapPayout]().NumField(); len(fields) != want {
		t.Errorf("got changes of %v, want one of each of the %d fields", fields, want)
	}
}
