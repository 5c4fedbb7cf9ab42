package local_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/banktest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
)

// Everything that is signed for one payment goes to the bank of a validator, which runs one
// transaction. So the payment costs at most the highest fee, and the fee limit counts that one.
func TestOfAllThatIsSignedForAPaymentABankRunsOne(t *testing.T) {
	t.Parallel()
	v, bank := newSolanaEnv(t), banktest.Start(t)
	const has = 1_000_000_000
	bank.SetAccount(v.treasury.Address, has, solanatx.SystemProgram, nil)
	place := v.place("place_0", 0)
	v.admit(place)
	made := v.signs(v.made(place, 0, solanatx.NonceCreation{
		Treasury:  v.treasury.Address,
		Blockhash: bank.LatestBlockhash(),
	}))
	if ran, why := bank.SendRaw(made.Raw); !ran || why != "" {
		t.Fatalf("the place: got it run %v, %q, want it made", ran, why)
	}
	cost := uint64(solanatx.NonceRent + solanatx.SignatureFee)
	value := func() string {
		t.Helper()
		a := bank.GetAccount(place.To)
		if a == nil {
			t.Fatal("got no nonce account, want one")
		}
		_, value, _, err := solanatx.ParseNonce(a.Data)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	i := v.payment("wd_1", "")
	v.admit(i)
	r := v.request(i, 1, nonceA, nil)
	at := value()
	block, recent := bank.ProofBlock(at), bank.LatestBlockhash()
	for n := range uint64(5) {
		v.refuses("in a recent block", v.in(r, place.To, recent, block, 1000+n), signer.RefusedPayload)
	}
	var dearest money.Amount
	var raws [][]byte
	for n := range uint64(5) {
		r := v.in(r, place.To, at, block, 1_000_000*(n+1))
		tx, err := solanatx.Decode(r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		dearest = tx.MaxCost()
		raws = append(raws, v.signs(r).Raw)
	}
	ran := 0
	for range 2 { // again, with each transaction in its own block
		for _, raw := range raws {
			bank.NextBlock()
			if did, _ := bank.SendRaw(raw); did {
				ran++
			}
		}
	}
	if got := bank.LamportsAt(solPayee); ran != 1 || got != 5_000_000 {
		t.Errorf("got %d of five run and %d lamports paid, want one and 5000000", ran, got)
	}
	spent := money.Units(has - cost - 5_000_000 - bank.LamportsAt(v.treasury.Address))
	if dearest.Less(spent) {
		t.Errorf("got a fee of %v, want at most that of the dearest, %v", spent, dearest)
	}
}
