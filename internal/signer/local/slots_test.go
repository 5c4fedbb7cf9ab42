package local_test

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/signer"
)

// A validator takes a transaction that names a recent block for an ordinary one, also when
// it advances a nonce: each variant of it would be mined. See docs/decisions/0070.
func TestNothingIsSignedInABlockhash(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	i := v.payment("wd_1", "")
	v.admit(i)
	at, err := solanatx.NonceAccount(v.treasury.Address, 0)
	if err != nil {
		t.Fatal(err)
	}
	const recent = nonceA
	for n := range uint64(5) {
		r := v.request(i, 0, nonceA, func(tx *solanatx.Tx) { tx.NonceValue, tx.Price = recent, 1000+n })
		r.Slot = signer.Slot{Nonce: 0, Lease: solanatx.Lease(at, recent)}
		v.refuses("a variant", r, signer.RefusedPayload)
	}
}
