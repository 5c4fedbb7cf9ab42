package banktest_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/banktest"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// treasury is a wallet with a nonce account on a bank.
type treasury struct {
	*testing.T
	bank    *banktest.Bank
	key     ed25519.PrivateKey
	address chain.Address
	nonce   chain.Address
	payee   chain.Address
}

func newTreasury(t *testing.T) *treasury {
	t.Helper()
	w := &treasury{T: t, bank: banktest.Start(t)}
	w.key, w.address = newKey(t)
	_, w.payee = newKey(t)
	w.bank.SetAccount(w.address, surfpool.LamportsPerSOL, solanatx.SystemProgram, nil)
	made := solanatx.NonceCreation{Treasury: w.address, Blockhash: w.bank.LatestBlockhash()}
	w.nonce = chain.Address(made.SlotKey())
	payload, err := made.Payload()
	if err != nil {
		t.Fatal(err)
	}
	w.runs("the creation of a nonce account", payload)
	w.bank.ProofBlock(w.value()) // it follows from the newest block
	w.bank.NextBlock()
	return w
}

func newKey(t *testing.T) (ed25519.PrivateKey, chain.Address) {
	t.Helper()
	k, err := surfpool.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, surfpool.AddressOf(k)
}

// value returns the current value of the nonce account.
func (w *treasury) value() string {
	w.Helper()
	a := w.bank.GetAccount(w.nonce)
	if a == nil {
		w.Fatal("got no nonce account, want one")
	}
	_, value, _, err := solanatx.ParseNonce(a.Data)
	if err != nil {
		w.Fatal(err)
	}
	return value
}

func (w *treasury) sent(payload []byte) (ran bool, why string) {
	w.Helper()
	raw, _, err := solanatx.AttachSignatures(payload, [ed25519.SignatureSize]byte(ed25519.Sign(w.key, payload)))
	if err != nil {
		w.Fatal(err)
	}
	return w.bank.SendRaw(raw)
}

func (w *treasury) runs(what string, payload []byte) {
	w.Helper()
	if ran, why := w.sent(payload); !ran || why != "" {
		w.Fatalf("%s: got it run %v, %q, want it to succeed", what, ran, why)
	}
}

// pays returns a payment of 5,000,000 lamports.
func (w *treasury) pays(value string, price uint64) []byte {
	w.Helper()
	payload, err := solanatx.Tx{
		Payer: w.address, NonceAccount: w.nonce, NonceValue: value, Limit: 10_000, Price: price,
		Moves: []solanatx.Move{{From: w.address, To: w.payee, Amount: money.Units(5_000_000)}},
	}.Payload()
	if err != nil {
		w.Fatal(err)
	}
	return payload
}

// The signer must never sign such a transaction: decision 0070.
func TestOneSlotIsMinedManyTimesWhenItsValueIsARecentBlock(t *testing.T) {
	t.Parallel()
	w := newTreasury(t)
	recent := w.bank.LatestBlockhash()
	if w.value() == recent {
		t.Fatal("got the newest block for the value of the account, want another")
	}
	for n := range uint64(5) {
		w.bank.NextBlock() // a nonce is advanced once in a block
		w.runs("a variant", w.pays(recent, 1000+n))
	}
	if got := w.bank.LamportsAt(w.payee); got != 25_000_000 {
		t.Errorf("got %d lamports paid, want 25000000: each of the five variants", got)
	}
}

func TestOneSlotIsMinedOnceWhenItsValueIsANonces(t *testing.T) {
	t.Parallel()
	w := newTreasury(t)
	value := w.value()
	for n := range uint64(5) {
		ran, why := w.sent(w.pays(value, 1000+n))
		if ran != (n == 0) || (why == "") != ran {
			t.Errorf("variant %d: got it run %v, %q, want the first run and the others refused", n, ran, why)
		}
		w.bank.ProofBlock(w.value()) // the value follows from the newest block, whatever the transaction contains
		w.bank.NextBlock()
	}
	if got := w.bank.LamportsAt(w.payee); got != 5_000_000 {
		t.Errorf("got %d lamports paid, want 5000000", got)
	}
	// A failed transaction has used its slot and paid its fee.
	value = w.value()
	has := w.bank.LamportsAt(w.address)
	much := solanatx.Tx{
		Payer: w.address, NonceAccount: w.nonce, NonceValue: value, Limit: 10_000, Price: 1000,
		Moves: []solanatx.Move{{From: w.address, To: w.payee, Amount: money.Units(1 << 50)}},
	}
	payload, err := much.Payload()
	if err != nil {
		t.Fatal(err)
	}
	if ran, why := w.sent(payload); !ran || why == "" || w.value() == value ||
		money.Units(has-w.bank.LamportsAt(w.address)) != much.MaxFee() {
		t.Errorf(
			"got it run %v, %q at a cost of %d, want it failed, its nonce advanced, at %v", ran, why,
			has-w.bank.LamportsAt(w.address), much.MaxFee(),
		)
	}
	w.bank.NextBlock()
	if ran, why := w.sent(w.pays(value, 1)); ran {
		t.Errorf("another one in the slot of what failed: got it run, %q, want it refused", why)
	}
}

// A nonce account is created with a recent blockhash, so every transaction that creates it may run.
func TestANonceAccountIsCreatedOnceAndPaidForOnce(t *testing.T) {
	t.Parallel()
	w := newTreasury(t)
	has, value := w.bank.LamportsAt(w.address), w.value()
	for n := range uint64(3) {
		payload, err := solanatx.NonceCreation{Treasury: w.address, Blockhash: w.bank.LatestBlockhash()}.Payload()
		if err != nil {
			t.Fatal(err)
		}
		if ran, why := w.sent(payload); !ran || why == "" {
			t.Errorf("made again: got it run %v, %q, want it failed", ran, why)
		}
		if got := has - w.bank.LamportsAt(w.address); got != (n+1)*solanatx.SignatureFee || w.value() != value {
			t.Errorf("got %d lamports gone and value %s, want the fees and %s", got, w.value(), value)
		}
		w.bank.NextBlock()
	}
}
