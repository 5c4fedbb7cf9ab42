package local_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
)

// in moves a request to another slot.
func (v *solanaEnv) in(r signer.SignRequest, at chain.Address, value, proof string, price uint64) signer.SignRequest {
	v.t.Helper()
	tx, err := solanatx.Decode(r.Payload)
	if err != nil {
		v.t.Fatal(err)
	}
	tx.NonceAccount, tx.NonceValue, tx.Price = at, value, price
	if r.Payload, err = tx.Payload(); err != nil {
		v.t.Fatal(err)
	}
	r.Slot.Key, r.Proof = tx.SlotKey(), proof
	return r
}

// A validator treats a transaction that names a recent blockhash as an ordinary one, even if it
// advances a nonce. So it would run each variant of it: decision 0070.
func TestNothingIsSignedInASlotThatIsNotProven(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	own := func(treasury chain.Address, n uint32) chain.Address {
		at, err := solanatx.NonceAccount(treasury, n)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	first, last := own(v.treasury.Address, 0), own(v.treasury.Address, solanatx.NonceAccountsMax-1)
	pay, token, sweep := v.payment("wd_1", ""), v.payment("wd_2", solUSDC), v.sweep("sw_1")
	give := v.payment("res_1", "")
	give.Purpose, give.From, give.Payer, give.CustomerID = signer.Return, v.deposit.WalletRef, &v.treasury.WalletRef, ""
	shut := v.sweep("cl_1")
	shut.Purpose, shut.Amount, shut.WalletBalance = signer.CloseTokenAccount, money.Units(solanatx.TokenAccountRent),
		nil
	other := v.sweep("sw_2")
	other.Contract = ""
	for _, i := range []signer.Intent{pay, token, sweep, give, shut, other} {
		v.admit(i)
	}
	cancel := v.request(pay, 0, nonceA, func(tx *solanatx.Tx) { tx.Moves = nil })
	cancel.Act = signer.Cancel
	with := v.request(sweep, 0, nonceA, func(tx *solanatx.Tx) {
		tx.Moves = append(tx.Moves, solanatx.Move{
			From: v.deposit.Address, To: v.treasury.Address,
			Amount: other.Amount,
		})
	})
	with.TxMemberIDs = []string{other.ID}
	for what, r := range map[string]signer.SignRequest{
		"a payment": v.request(pay, 0, nonceA, nil), "a payment of a token": v.request(token, 0, nonceA,
			nil), "a sweep": v.request(sweep, 0, nonceA, nil),
		"a return": v.request(give, 0, nonceA, nil), "several": with, "a cancel": cancel,
		"a close": v.request(shut, 0, nonceA, func(tx *solanatx.Tx) {
			c, err := solanatx.NewClose(chain.Payment{From: v.deposit.Address, Contract: solUSDC}, solTokens)
			if err != nil {
				t.Fatal(err)
			}
			tx.Moves, tx.Closes = nil, []solanatx.Close{c}
		}),
	} {
		for why, bad := range map[string]signer.SignRequest{
			"in a recent block":                 v.in(r, first, blockA, "", 1000),
			"in a recent block, which it names": v.in(r, first, blockA, blockA, 1001),
			"with the block of another value":   v.in(r, first, nonceA, blockB, 1002),
			"with the value for its block":      v.in(r, first, nonceA, nonceA, 1003),
			"without a proof":                   v.in(r, first, nonceA, "", 1004),
			"with a proof that is none":         v.in(r, first, nonceA, "block", 1005),
			"in a customer's nonce account":     v.in(r, own(v.deposit.Address, 0), nonceA, blockA, 1006),
			"in a nonce account that is not found": v.in(r, own(v.treasury.Address, solanatx.NonceAccountsMax), nonceA,
				blockA, 1007),
			"in somebody's nonce account": v.in(r, "8tGZbrjcVRTfRzBVkbF9KvxP85AtSiHaoh6EsRQ8WPfd", nonceA,
				blockA, 1008),
		} {
			v.refuses(what+" "+why, bad, signer.RefusedPayload)
		}
	}
	// The first five are variants of one payment: none is signed, so no slot is taken either.
	v.signs(v.in(v.request(pay, 0, nonceA, nil), last, nonceB, blockB, 2000))
	v.refuses("in a second slot", v.request(pay, 0, nonceA, nil), signer.RefusedSlot)
	again := v.in(v.request(pay, 0, nonceA, nil), last, nonceB, "", 2000)
	v.signs(again)
	again.Proof = blockA
	v.signs(again) // the same bytes, with any other fields of the request
	v.refuses("a replacement without", v.in(v.request(pay, 0, nonceA, nil), last, nonceB, "", 3000),
		signer.RefusedPayload)

	made := v.place("place_0", 0)
	v.admit(made)
	creation := v.made(made, 1, solanatx.NonceCreation{Treasury: v.treasury.Address, Blockhash: blockA})
	creation.Proof = blockA
	v.refuses("a creation with a proof of nothing", creation, signer.RefusedPayload)
	creation.Proof = strings.Repeat("1", 4096)
	v.refuses("a proof that is too long", creation, signer.RefusedMalformed)
}

// A journal from before the rule replays. A new signature in its slots needs a proof like every
// other.
func TestASlotOfAnOldJournalIsProvenWhenItIsSignedInAgain(t *testing.T) {
	t.Parallel()
	v := newSolanaEnv(t)
	i := v.payment("wd_1", "")
	v.admit(i)
	r := v.request(i, 0, nonceA, nil)
	signed := v.signs(r)
	var rec signer.Record
	if err := json.Unmarshal(signed.Entry.Body, &rec); err != nil || rec.Sign.Proof != blockA {
		t.Fatalf("got %+v, %v, want the proof in the journal", rec.Sign, err)
	}
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.rewrite(`,"proof":"`+blockA+`"`, "") // as an older signer wrote it
	v.open()
	bare := r
	bare.Proof = ""
	if got := v.signs(bare); string(got.Raw) != string(signed.Raw) {
		t.Error("got other bytes, want those of before")
	}
	dearer := v.in(r, accountOf(t, r), nonceA, "", 2000)
	v.refuses("dearer, without a proof", dearer, signer.RefusedPayload)
	dearer.Proof = blockA
	v.signs(dearer)
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.open()
	if err := v.s.Close(); err != nil {
		t.Fatal(err)
	}
	v.rewrite(`"proof":"`+blockA, `"proof":"`+blockB) // no signer wrote such an entry
	if s, err := local.Open(v.conf, v.seed); err == nil {
		_ = s.Close()
		t.Error("a false proof in the journal: got it opened, want an error")
	}
}

// rewrite replaces text in a closed journal and computes its hashes anew, as a forger would.
func (v *solanaEnv) rewrite(old, replacement string) {
	v.t.Helper()
	was, err := os.ReadFile(v.conf.Journal)
	if err == nil {
		err = os.WriteFile(v.conf.Journal, rewritten(v.t, was, old, replacement), 0o600)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

func accountOf(t *testing.T, r signer.SignRequest) chain.Address {
	t.Helper()
	tx, err := solanatx.Decode(r.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return tx.NonceAccount
}
