package solanatx_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// Sweeps of several deposit addresses share what each transaction costs once: the treasury's
// signature and the compute units of the nonce and the budget.
func TestSeveralSweepsInATransactionCostLessEach(t *testing.T) {
	t.Parallel()
	key := func(name string) chain.Address {
		seed := sha256.Sum256([]byte(name))
		return solanatx.Canonical([32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)))
	}
	treasury, mint := key("treasury"), key("mint")
	account, err := solanatx.NonceAccount(treasury, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, contract := range map[string]chain.Address{"a token": mint, "SOL": ""} {
		tx := solanatx.Tx{Payer: treasury, NonceAccount: account, NonceValue: string(key("value")), Price: 10_000}
		var each []money.Amount
		for n := range 20 {
			program, decimals, units := chain.Address(""), uint8(0), uint32(300)
			if contract != "" {
				program, decimals, units = solanatx.TokenProgram, 6, 7_000
			}
			m, err := solanatx.NewMove(chain.Payment{
				From: key(fmt.Sprint("deposit ", n)), To: treasury,
				Contract: contract, Amount: money.Units(1),
			}, program, decimals, false)
			if err != nil {
				t.Fatal(err)
			}
			tx.Moves = append(tx.Moves, m)
			tx.Limit = 5_000 + units*uint32(len(tx.Moves))
			payload, err := tx.Payload()
			if err != nil {
				break // a packet has no more room
			}
			read, err := solanatx.Decode(payload)
			if err != nil || len(read.Moves) != n+1 {
				t.Fatalf("%d sweeps of %s: got %d moves, %v", n+1, name, len(read.Moves), err)
			}
			part, _ := tx.MaxFee().Split(uint64(n + 1))
			each = append(each, part)
		}
		first, last := each[0], each[len(each)-1]
		t.Logf("a sweep of %s costs %v lamports alone, and %v when %d go together, the most that fit", name, first,
			last, len(each))
		if len(each) < 3 || !last.Less(first) {
			t.Errorf("%s: got %d together at %v each, want more than two for less than %v", name, len(each), last,
				first)
		}
	}
}
