package deposit_test

import (
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/id/idtest"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// Rules DEP-20, DEP-23, IDEM-1. A break of finality freezes the customers whose credits are in
// question. What it takes back, then and later, it takes from them and from no customer with a
// similar id.
func TestABreakTakesNoCustomerForAnotherWithAnIdAlike(t *testing.T) {
	t.Parallel()
	w := newReorgEnv(t)
	address := func(i int) chain.Address { return sim.Address(fmt.Sprint("alike ", i)) }
	for i, customerID := range idtest.Alike {
		ref := signer.WalletRef{OrgID: w.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: customerID}
		_, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'EVM', $3, $4, 'm/1', $5, $6, now())`,
			fmt.Sprint("adr_alike_", i), w.org, wallet.CustomerDeposit, customerID, address(i), ed25519.Sign(
				w.attest, signer.AttestedBytes(ref, "m/1", address(i)),
			))
		if err != nil {
			t.Fatal(err)
		}
	}
	// Every second deposit is in a block that the fork removes.
	pay := func(rest int) (txs []chain.TxHash) {
		for i := range idtest.Alike {
			if i%2 == rest {
				txs = append(txs, w.c.Pay(payer, address(i), usdcAt, 50))
			}
		}
		return txs
	}
	pay(1)
	w.c.Mine(9)
	w.walkBlocks(t)
	gone := pay(0)
	w.c.Mine(5)
	w.walkBlocks(t)
	frozen := []string{"FINALITY CHAIN ETHEREUM"}
	for i, customerID := range idtest.Alike {
		if got := w.loadBalance(t, ledger.Customer, customerID, usdc); got.String() != "50" {
			t.Fatalf("%q: got %v, want 50", customerID, got)
		}
		if i%2 == 0 {
			frozen = append(frozen, "FINALITY CUSTOMER "+customerID)
			w.postOf(
				t, customerID, ledger.WithdrawalHold, fmt.Sprint("wd_", i), ledger.Customer, ledger.Withdrawing,
				usdc, 50,
			)
		}
	}
	w.c.Fork(7, gone...)
	w.c.MineEmpty(10)
	w.partChain(t)
	w.wantFrozen(t, frozen...)
	w.repointChain(t)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.c.MineEmpty(10)
	w.walkFinal(t)
	w.settleReorgs(t)
	w.wantLoss(t, usdc, int64(50*len(gone)))

	// Every second customer whose deposit is gone gets a hold back, and owes it.
	back := 0
	for i, customerID := range idtest.Alike {
		if i%4 == 0 {
			back++
			w.postOf(
				t, customerID, ledger.WithdrawalEnd, fmt.Sprint("wd_", i), ledger.Withdrawing, ledger.Customer,
				usdc, 50,
			)
		}
	}
	w.settleReorgs(t)
	w.settleReorgs(t)
	w.wantLoss(t, usdc, int64(50*(len(gone)-back)))
	for i, customerID := range idtest.Alike {
		want, status, taken := "0", "REVERSED", "50"
		switch {
		case i%2 == 1:
			want, status, taken = "50", "CREDITED", ""
		case i%4 == 2:
			taken = "0"
		}
		if got := w.loadBalance(t, ledger.Customer, customerID, usdc); got.String() != want {
			t.Errorf("%q: got a balance of %v, want %s", customerID, got, want)
		}
		if n := w.queryCount(t,
			`SELECT count(*) FROM deposits WHERE wallet_id = $1 AND customer_id = $2 AND status = $3 AND coalesce(taken_back::text, '') = $4`,
			fmt.Sprint("adr_alike_", i), customerID, status, taken); n != 1 {
			t.Errorf("%q: got %d deposits that are %s with %q taken back, want one", customerID, n, status, taken)
		}
	}
}
