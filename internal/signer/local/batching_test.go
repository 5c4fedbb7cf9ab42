package local_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// both returns a transaction with the moves of two requests in the slot of the first.
func (v *solanaEnv) both(a, b signer.SignRequest, with []string, change func(*solanatx.Tx)) signer.SignRequest {
	v.t.Helper()
	first, err := solanatx.Decode(a.Payload)
	if err != nil {
		v.t.Fatal(err)
	}
	second, err := solanatx.Decode(b.Payload)
	if err != nil {
		v.t.Fatal(err)
	}
	first.Moves = append(first.Moves, second.Moves...)
	for i := range first.Moves[1:] {
		first.Moves[i+1].Owner = "" // the first move creates the treasury's account for all
	}
	if change != nil {
		change(&first)
	}
	if a.Payload, err = first.Payload(); err != nil {
		v.t.Fatal(err)
	}
	a.TxMemberIDs = with
	return a
}

// Invariant I-16: intents that are signed together stay together permanently, each as it was
// admitted, in one slot and with its owner's key.
func TestSeveralIntentsAreSignedTogetherForEver(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	other, err := v.s.IssueAddress(t.Context(), signer.WalletRef{
		OrgID: "org_1", Family: v.deposit.Family,
		Purpose: "CUSTOMER_DEPOSIT", Subject: "bob",
	})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := v.s.IssueAddress(t.Context(),
		signer.WalletRef{OrgID: "org_2", Family: v.deposit.Family, Purpose: "TREASURY"})
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := v.sweep("sw_1"), v.sweep("sw_2"), v.sweep("sw_3")
	two.From = other.WalletRef
	foreign := v.payment("wd_9", "")
	foreign.From = stranger.WalletRef
	for _, i := range []signer.Intent{one, two, three, foreign} {
		v.admit(i)
	}
	first := v.request(one, 0, nonceA, nil)
	second := v.request(two, 0, nonceA, func(tx *solanatx.Tx) {
		tx.Moves[0].From = other.Address
	})
	third := v.request(three, 0, nonceA, nil)
	turned := v.both(first, second, []string{"sw_2"}, func(tx *solanatx.Tx) {
		tx.Moves[0].From, tx.Moves[1].From = tx.Moves[1].From, tx.Moves[0].From
	})
	for name, c := range map[string]struct {
		r    signer.SignRequest
		want string
	}{
		"one move for two": {v.both(first, second, []string{"sw_2"}, func(tx *solanatx.Tx) {
			tx.Moves = tx.Moves[:1]
		}), signer.RefusedPayload},
		"two moves for one": {v.both(first, second, nil, nil), signer.RefusedPayload},
		"in another order":  {turned, signer.RefusedPayload},
		"another amount of one": {v.both(first, second, []string{"sw_2"}, func(tx *solanatx.Tx) {
			tx.Moves[1].Amount = money.Units(8)
		}), signer.RefusedPayload},
		"the same twice":           {v.both(first, first, []string{"sw_1"}, nil), signer.RefusedIntent},
		"one that nobody admitted": {v.both(first, second, []string{"sw_8"}, nil), signer.RefusedIntent},
		"another organization's":   {v.both(first, second, []string{"wd_9"}, nil), signer.RefusedIntent},
		"a name of nothing":        {v.both(first, second, []string{""}, nil), signer.RefusedMalformed},
	} {
		v.refuses(name, c.r, c.want)
	}
	pays := v.both(first, second, []string{"sw_2"}, nil)
	signed := v.signs(pays)
	signers, err := solanatx.Signers(payloadOf(t, signed.Raw))
	if err != nil || len(signers) != 3 || signers[0] != v.treasury.Address {
		t.Errorf("got it signed by %v (%v), want the treasury and both owners", signers, err)
	}
	dearer := func(tx *solanatx.Tx) { tx.Price++ }
	for n := range uint64(2) {
		if again := v.signs(pays); string(again.Raw) != string(signed.Raw) {
			t.Error("got other bytes, want the same")
		}
		v.refuses("alone", v.request(one, 0, nonceA, dearer), signer.RefusedSlot)
		second.IntentID = "sw_2"
		v.refuses("the other alone", second, signer.RefusedSlot)
		v.refuses("the other alone in a slot of its own", v.request(two, 1, nonceB, func(tx *solanatx.Tx) {
			tx.Moves[0].From = other.Address
		}), signer.RefusedSlot)
		v.refuses("with one more", v.both(v.both(first, second, nil, nil), third, []string{"sw_2", "sw_3"}, nil),
			signer.RefusedSlot)
		v.refuses("with another", v.both(first, third, []string{"sw_3"}, nil), signer.RefusedSlot)
		cancel := v.request(one, 0, nonceA, func(tx *solanatx.Tx) { tx.Moves, tx.Price = nil, 3000+n })
		cancel.Act = signer.Cancel
		v.refuses("a cancel for one of them", cancel, signer.RefusedSlot)
		cancel.TxMemberIDs = pays.TxMemberIDs
		v.signs(cancel)
		v.signs(v.both(first, second, []string{"sw_2"}, dearer))
		if err := v.s.Close(); err != nil {
			t.Fatal(err)
		}
		v.open()
	}
}

// H-78. The present policy is asked about each of several payments, whichever leads.
func TestEachPaymentOfATransactionNeedsThePresentPolicy(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	small, alike, large := v.row("pb_1", 1, ""), v.row("pb_1", 2, ""), v.row("pb_1", 3, "")
	small.Amount, alike.Amount, large.Amount = money.Units(5_000_000), money.Units(5_000_000), money.Units(5_000_001)
	for _, i := range []signer.Intent{small, alike, large} {
		v.admit(i)
	}
	p := v.conf.Policy.Chains[chain.Solana]
	p.Unlimited, p.Assets = false, map[chain.Address]signpolicy.Limit{"": {
		PaymentMax: small.Amount, OrganizationMax: money.Units(50_000_000), OverallMax: money.Units(50_000_000),
	}}
	v.restart(p)
	request := func(i signer.Intent) signer.SignRequest { return v.request(i, 0, nonceA, nil) }
	led, with := v.both(request(large), request(small), []string{small.ID}, nil),
		v.both(request(small), request(large), []string{large.ID}, nil)
	v.refuses("led by the large one", led, signer.PolicyLimit)
	v.refuses("with the large one", with, signer.PolicyLimit)
	v.signs(v.both(request(small), request(alike), []string{alike.ID}, nil))
}

// row returns the intent of a row of a batch.
func (v *solanaEnv) row(batchID string, n int, contract chain.Address) signer.Intent {
	seed := sha256.Sum256(fmt.Append(nil, batchID, n))
	i := v.payment(signer.BatchWithdrawalID("org_1", batchID, n), contract)
	i.To = solanatx.Canonical([32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)))
	i.CustomerID, i.Product, i.Batch = "", signer.BatchProduct, &signer.BatchRow{BatchID: batchID, Row: n}
	i.IdempotencyKeyHash, i.Amount = signertest.KeyHash(i.ID), money.Units(uint64(5_000_000+n))
	return i
}

// Rows of one approved batch are signed together, each exactly as it was admitted and to an account that exists. A
// customer's payment, a sweep, and a row of another batch, or of another content of it, share no transaction with them.
// Rule BP-43.
func TestOnSolanaOnlyRowsOfOneBatchAreSignedTogether(t *testing.T) {
	t.Parallel()
	for _, contract := range []chain.Address{"", solUSDC} {
		v := newSolanaEnv(t)
		together := func(intents []signer.Intent, change func(*solanatx.Tx)) signer.SignRequest {
			t.Helper()
			r := v.request(intents[0], 0, nonceA, func(tx *solanatx.Tx) {
				tx.Moves[0].Owner = ""
				for _, i := range intents[1:] {
					other, err := solanatx.Decode(v.request(i, 0, nonceA, nil).Payload)
					if err != nil {
						t.Fatal(err)
					}
					tx.Moves = append(tx.Moves, other.Moves[0])
					tx.Moves[len(tx.Moves)-1].Owner = ""
				}
				if change != nil {
					change(tx)
				}
			})
			for _, i := range intents[1:] {
				r.TxMemberIDs = append(r.TxMemberIDs, i.ID)
			}
			return r
		}
		rows := []signer.Intent{v.row("pb_1", 1, contract), v.row("pb_1", 2, contract), v.row("pb_1", 3, contract)}
		otherBatch, otherContent := v.row("pb_2", 1, contract), v.row("pb_1", 4, contract)
		otherContent.Batch.ContentHash = contenthash.Hash{1}
		dear := v.row("pb_1", 5, contract)
		dear.FeeMax = money.Units(1)
		customers, alsoCustomers, swept := v.payment("wd_1", contract), v.payment("wd_2", contract), v.sweep("sw_1")
		for _, i := range append(slices.Clone(rows), otherBatch, otherContent, dear, customers, alsoCustomers, swept) {
			v.admit(i)
		}
		unknown := v.row("pb_1", 6, contract)
		for name, c := range map[string]struct {
			with   []signer.Intent
			change func(*solanatx.Tx)
			want   string
		}{
			"another amount": {rows, func(tx *solanatx.Tx) {
				tx.Moves[1].Amount = money.Units(9_000_000)
			}, signer.RefusedPayload},
			"another payee": {rows, func(tx *solanatx.Tx) {
				tx.Moves[2].To = tx.Moves[1].To
			}, signer.RefusedPayload},
			"another order": {rows, func(tx *solanatx.Tx) {
				tx.Moves[0], tx.Moves[1] = tx.Moves[1], tx.Moves[0]
			}, signer.RefusedPayload},
			"one less": {rows, func(tx *solanatx.Tx) { tx.Moves = tx.Moves[:2] }, signer.RefusedPayload},
			"one more": {rows, func(tx *solanatx.Tx) {
				tx.Moves = append(tx.Moves, tx.Moves[0])
			}, signer.RefusedPayload},
			"of another batch":          {[]signer.Intent{rows[0], otherBatch}, nil, signer.RefusedIntent},
			"of another content":        {[]signer.Intent{rows[0], otherContent}, nil, signer.RefusedIntent},
			"of a customer":             {[]signer.Intent{rows[0], customers}, nil, signer.RefusedIntent},
			"of a customer first":       {[]signer.Intent{customers, rows[0]}, nil, signer.RefusedIntent},
			"of customers":              {[]signer.Intent{customers, alsoCustomers}, nil, signer.RefusedIntent},
			"with a sweep":              {[]signer.Intent{rows[0], swept}, nil, signer.RefusedIntent},
			"one that was not admitted": {[]signer.Intent{rows[0], unknown}, nil, signer.RefusedIntent},
			"a share above its limit":   {[]signer.Intent{rows[0], dear}, nil, signer.RefusedFee},
		} {
			v.refuses(string(contract)+": "+name, together(c.with, c.change), c.want)
		}
		if contract != "" {
			v.refuses("an account that it creates", together(rows, func(tx *solanatx.Tx) {
				tx.Moves[1].Owner = rows[1].To
			}), signer.RefusedPayload)
		}
		v.signs(together(rows, nil))
		v.refuses(string(contract)+": one of them alone", v.request(rows[1], 1, nonceB, nil), signer.RefusedSlot)
	}
}
