package approvers_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// newPayments returns payments of 100, 101, … of one asset.
func newPayments(n int) []signer.Intent {
	payments := make([]signer.Intent, n)
	for i := range payments {
		payments[i] = payment(100 + uint64(i))
		payments[i].ID = fmt.Sprintf("wd_%d", i+1)
		payments[i].Grant = &signer.Grant{}
	}
	return payments
}

func wordsOf(payments []signer.Intent) []signer.PaymentWords {
	words := make([]signer.PaymentWords, len(payments))
	for i, p := range payments {
		words[i] = signer.PaymentWords{
			Terms: p.Terms(), Purpose: p.Purpose, CustomerID: p.CustomerID, Round: p.Grant.Round, Network: "31337",
		}
	}
	return words
}

func (env *bookEnv) signList(
	t *testing.T, p *signertest.Passkey, payments []signer.Intent, change func(*signer.PaymentList),
) signer.KeySignature {
	t.Helper()
	return p.SignList(t, hex.EncodeToString(env.AttestKey.PublicKey()), env.Now.Add(time.Hour), wordsOf(payments),
		change)
}

// payWith returns the refusal of a payment with signatures of people.
func (env *bookEnv) payWith(intent signer.Intent, by []*signertest.Passkey, of []signer.KeySignature) *signer.Refusal {
	grant := *intent.Grant
	grant.Approvals = nil
	for i := range by {
		grant.Approvals = append(grant.Approvals, signer.Approval{Approver: by[i].Person, Signature: &of[i]})
	}
	intent.Grant = &grant
	_, refusal := env.CheckPayment(intent, env.Situation)
	return refusal
}

// Rule SA-22.
func TestOneSignaturePaysEachPaymentOfItsListAndNoOther(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 2})
	people := []*signertest.Passkey{ann, ben}
	for _, n := range []int{signer.PaymentListMin, signer.PaymentListMax} {
		payments := newPayments(n)
		native := payment(7)
		native.ID, native.Contract, native.Grant = "wd_coin", "", &signer.Grant{Memo: `a " \ ü`}
		payments[1] = native
		byAnn, byBen := env.signList(t, ann, payments, nil), env.signList(t, ben, payments, nil)
		for _, p := range payments {
			if refusal := env.payWith(p, people, []signer.KeySignature{byAnn, byBen}); refusal != nil {
				t.Errorf("payment %s of %d: got %v", p.ID, n, refusal)
			}
			alone := env.sign(t, ben,
				func(c signer.StatementContext) signer.Statement { return p.Statement("31337", nil, c) })
			if refusal := env.payWith(p, people, []signer.KeySignature{byAnn, alone}); refusal != nil {
				t.Errorf("payment %s, signed alone by one: got %v", p.ID, refusal)
			}
		}
		for name, change := range map[string]func(*signer.Intent){
			"another payment":  func(p *signer.Intent) { p.ID = "wd_other" },
			"another amount":   func(p *signer.Intent) { p.Amount = money.Units(99) },
			"another address":  func(p *signer.Intent) { p.To = signertest.Token },
			"another customer": func(p *signer.Intent) { p.CustomerID = "mallory" },
			"another round":    func(p *signer.Intent) { p.Grant = &signer.Grant{Round: 1} },
		} {
			p := payments[0]
			change(&p)
			refusal := env.payWith(p, people, []signer.KeySignature{byAnn, byBen})
			if refusal == nil || refusal.Code != signer.RefusedSignature {
				t.Errorf("%s: got %v, want it refused", name, refusal)
			}
		}
	}
}

// Rule SA-22.
func TestAListThatNoPageMakesIsRefused(t *testing.T) {
	t.Parallel()
	ann, _, ben := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann, ben)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 1})
	payments := newPayments(3)
	paid := payments[0]
	unit := " units on " + string(paid.Chain) + ", contract " + string(paid.Contract)
	for name, c := range map[string]struct {
		change func(*signer.PaymentList)
		want   string
	}{
		"without the payment": {
			func(l *signer.PaymentList) { l.Challenges = l.Challenges[1:] }, "does not have this payment",
		},
		"one payment": {func(l *signer.PaymentList) { l.Challenges = l.Challenges[:1] }, "is of 1 payments"},
		"twice": {
			func(l *signer.PaymentList) { l.Challenges = append(l.Challenges, l.Challenges[0]) }, "a payment twice",
		},
		"too many": {func(l *signer.PaymentList) {
			for n := range 18 {
				l.Challenges = append(l.Challenges, fmt.Sprintf("%064x", n))
			}
		}, "is of 21 payments"},
		"upper case": {
			func(l *signer.PaymentList) { l.Challenges[1] = strings.Repeat("A", 64) }, "is not the hash of a payment",
		},
		"a short hash": {func(l *signer.PaymentList) { l.Challenges[1] = "ab" }, "is not the hash of a payment"},
		"no total":     {func(l *signer.PaymentList) { l.Totals = nil }, "0 totals"},
		"a smaller total": {
			func(l *signer.PaymentList) { l.Totals = []string{"99" + unit} }, "less than this payment",
		},
		"a part as total": {
			func(l *signer.PaymentList) { l.Totals = []string{"99.9" + unit} }, "less than this payment",
		},
		"a power as total": {func(l *signer.PaymentList) { l.Totals = []string{"9e9" + unit} }, "is no total"},
		"a fraction":       {func(l *signer.PaymentList) { l.Totals = []string{"1000/3" + unit} }, "is no total"},
		"the total of another asset": {
			func(l *signer.PaymentList) { l.Totals = []string{"303 units on " + string(paid.Chain)} },
			"no total of the asset",
		},
		"the total of another chain": {
			func(l *signer.PaymentList) {
				l.Totals = []string{"303 units on solana, contract " + string(paid.Contract)}
			},
			"no total of the asset",
		},
		"a second total": {
			func(l *signer.PaymentList) { l.Totals = append(l.Totals, l.Totals[0]) }, "not in their order",
		},
		"an unprintable total": {
			func(l *signer.PaymentList) { l.Totals = []string{"303" + unit + "\u202e"} }, "is no total",
		},
	} {
		refusal := env.payWith(paid, []*signertest.Passkey{ann}, []signer.KeySignature{
			env.signList(t, ann, payments, c.change),
		})
		if refusal == nil || refusal.Code != signer.RefusedSignature || !strings.Contains(refusal.Message, c.want) {
			t.Errorf("%s: got %v, want a refusal with %q", name, refusal, c.want)
		}
	}
	signed := env.signList(t, ann, payments, nil)
	for name, change := range map[string]func(*signer.KeySignature, *signer.PaymentList){
		"without its list": func(s *signer.KeySignature, _ *signer.PaymentList) { s.List = nil },
		"another total":    func(_ *signer.KeySignature, l *signer.PaymentList) { l.Totals = []string{"304" + unit} },
		"another order":    func(_ *signer.KeySignature, l *signer.PaymentList) { slices.Reverse(l.Challenges) },
		"one fewer":        func(_ *signer.KeySignature, l *signer.PaymentList) { l.Challenges = l.Challenges[:2] },
		"another end": func(s *signer.KeySignature, _ *signer.PaymentList) {
			s.NotAfter = signer.FormatMicros(noon.Add(time.Minute))
		},
		"another signature": func(s *signer.KeySignature, _ *signer.PaymentList) {
			s.Assertion.Signature = ann.Assert(t, [32]byte{}).Signature
		},
	} {
		s, list := signed, *signed.List
		list.Challenges = slices.Clone(list.Challenges)
		s.List = &list
		change(&s, &list)
		if refusal := env.payWith(paid, []*signertest.Passkey{ann}, []signer.KeySignature{s}); refusal == nil {
			t.Errorf("%s, changed after the signature: was not refused", name)
		}
		if s.Hash() == signed.Hash() {
			t.Errorf("%s: the changed signature has the hash of the signature", name)
		}
	}
	ofBen := env.signList(t, ben, payments, nil)
	ofBen.KeyID = ann.ID
	for name, refusal := range map[string]*signer.Refusal{
		"of another person":   env.payWith(paid, []*signertest.Passkey{ann}, []signer.KeySignature{ofBen}),
		"as another person's": env.payWith(paid, []*signertest.Passkey{ben}, []signer.KeySignature{signed}),
	} {
		if refusal == nil {
			t.Errorf("%s: was not refused", name)
		}
	}
	env.record(t, signer.Record{Retire: &signer.Retirement{OrgID: testOrg, ID: ann.ID}}, noon)
	if refusal := env.payWith(paid, []*signertest.Passkey{ann}, []signer.KeySignature{signed}); refusal == nil ||
		!strings.Contains(refusal.Message, "was retired") {
		t.Errorf("a retired passkey: got %v", refusal)
	}
}

// Rule SA-22.
func TestOnlyPaymentsOfCustomersAreSignedTogether(t *testing.T) {
	t.Parallel()
	ann, _, _ := newPasskeys(t, signer.RightApprove)
	env := newBook(t, ann)
	env.hold(t, signer.ApprovalRule{OrgID: testOrg, Version: 1, Quorum: 1, Returns: true, OwnPayments: true})
	for name, change := range map[string]func(*signer.Intent){
		"a return": func(p *signer.Intent) { p.Purpose = signer.Return },
		"an own payment": func(p *signer.Intent) {
			p.CustomerID, p.Product, p.WhitelistedID = "", "CUSTODIAL", "wla_1"
		},
		"a refund": func(p *signer.Intent) {
			p.CustomerID, p.Product, p.Refund = "", "CHECKOUT", &signer.RefundOf{RefundID: "rf_1", CheckoutID: "co_1"}
		},
		"a payment with a maker": func(p *signer.Intent) { p.Grant = &signer.Grant{MadeBy: "PERSON cay"} },
		"no customer":            func(p *signer.Intent) { p.CustomerID = "" },
	} {
		payments := newPayments(2)
		change(&payments[0])
		signed := env.signList(t, ann, payments, nil)
		refusal := env.payWith(payments[0], []*signertest.Passkey{ann}, []signer.KeySignature{signed})
		if refusal == nil || !strings.Contains(refusal.Message, "only payments of customers") {
			t.Errorf("%s: got %v, want it refused", name, refusal)
		}
	}
	batch := newPayments(1)[0]
	batch.CustomerID, batch.Batch = "", &signer.BatchRow{BatchID: "pb_1"}
	batch.Grant = &signer.Grant{Batch: &signer.BatchGrant{}}
	signed := env.signList(t, ann, append(newPayments(2), batch), nil)
	refusal := env.payWith(batch, []*signertest.Passkey{ann}, []signer.KeySignature{signed})
	if refusal == nil || !strings.Contains(refusal.Message, "only payments of customers") {
		t.Errorf("a row of a batch: got %v, want it refused", refusal)
	}
	// No list admits people or changes a rule.
	enroller := signertest.NewPasskey(t, testOrg, "cay", signer.RightEnrol)
	for name, s := range map[string]signer.Statement{
		"a rule":       signer.RuleStatement(signer.ApprovalRule{OrgID: testOrg}, signer.StatementContext{}),
		"a retirement": signer.RetireStatement(signer.Retirement{OrgID: testOrg, ID: "a"}, signer.StatementContext{}),
	} {
		challenge := s.Challenge()
		list := signer.PaymentList{
			Totals:     []string{"1 units on ethereum"},
			Challenges: []string{hex.EncodeToString(challenge[:]), strings.Repeat("0", 64)},
		}
		k := signer.KeySignature{Assertion: enroller.Assert(t, list.Statement(s).Challenge()), List: &list}
		if err := k.Verify(enroller.Passkey(), s); err == nil {
			t.Errorf("%s was signed in a list", name)
		}
	}
}

// Rule SA-22: the totals are those of the assets, written as the payments write their amounts.
func TestTotalsAreWrittenAsThePaymentsWriteAmounts(t *testing.T) {
	t.Parallel()
	usdc := &signer.Token{Symbol: "USDC", Decimals: 6}
	pay := func(name chain.Name, contract chain.Address, amount uint64, token *signer.Token) signer.PaymentWords {
		return signer.PaymentWords{
			Terms:   signer.Terms{Chain: name, Contract: contract, Amount: money.Units(amount)},
			Purpose: signer.Payment, CustomerID: "eve", Token: token,
		}
	}
	list, err := signer.NewPaymentList([]signer.PaymentWords{
		pay("ethereum", "0xA", 1_500_000, usdc), pay("base", "0xB", 1_000_000, usdc),
		pay("ethereum", "0xA", 2_000_001, usdc),
		pay("ethereum", "", 7, nil),
	}, signer.StatementContext{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 USDC on base, contract 0xB", "3.500001 USDC on ethereum, contract 0xA", "7 units on ethereum",
	}
	if !slices.Equal(list.Totals, want) {
		t.Errorf("got %q, want %q", list.Totals, want)
	}
	if err := list.CheckForm(); err != nil {
		t.Error(err)
	}
}

// A signature of one payment has the hash that it had before lists.
func TestTheHashOfASignatureOfOnePaymentIsFixed(t *testing.T) {
	t.Parallel()
	got := signer.KeySignature{KeyID: "apk_1", NotAfter: "2026-11-30T12:00:00.000000Z"}.Hash()
	if want := "0134eb823e14c3bd22c8edbcd849725ebd50cdf93681932376db71cbbb83cc7c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
