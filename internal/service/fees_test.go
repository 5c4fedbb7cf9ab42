package service

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// The maximum cost in a signed journal entry is read back, on every chain that pays.
func TestTheFeesOfASignedTransactionAreReadBack(t *testing.T) {
	t.Parallel()
	const treasury, payee chain.Address = "FPP21sbqhr2LPjSnJkw5NBetPubeFG4PsQFBxHj8noTq",
		"GwCXyJ8AesaucFMTUSZmiFVMhVngpeBxaBC7mQJiZct3"
	account, err := solanatx.NonceAccount(treasury, 3)
	if err != nil {
		t.Fatal(err)
	}
	coin := solanatx.Tx{
		Payer: treasury, NonceAccount: account, NonceValue: string(payee), Limit: 30_000, Price: 20_000,
		Moves: []solanatx.Move{{From: treasury, To: payee, Amount: money.Units(5)}},
	}
	lamports, err := coin.Payload()
	if err != nil {
		t.Fatal(err)
	}
	creation := solanatx.NonceCreation{Treasury: treasury, N: 3, Blockhash: string(payee)}
	nonceCreation, err := creation.Payload()
	if err != nil {
		t.Fatal(err)
	}
	ether, err := evmtx.Tx{
		ChainID: 1, Nonce: 7, To: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", Value: money.Units(5), Gas: 21_000,
		TipCap: money.Units(1), FeeCap: money.Units(9),
	}.Payload()
	if err != nil {
		t.Fatal(err)
	}
	const holder, receiver chain.Address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080",
		"bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6"
	slotKey, err := bitcointx.NewSlotKey(
		chain.Local,
		[]chain.Output{{Outpoint: strings.Repeat("ab", 32) + ":1", Owner: holder, Amount: money.Units(100_000)}},
		holder,
	)
	if err != nil {
		t.Fatal(err)
	}
	spends, err := bitcointx.Build(
		chain.Local, slotKey, []chain.Payment{{From: holder, To: receiver, Amount: money.Units(60_000)}},
		chain.Fees{TipCap: money.Units(2_000), NonGas: money.Units(400)},
	)
	if err != nil {
		t.Fatal(err)
	}
	satoshi, err := spends.Payload()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		on      chain.Name
		payload []byte
		want    chain.Fees
		most    money.Amount
	}{
		{
			chain.Ethereum, ether,
			chain.Fees{GasLimit: 21_000, TipCap: money.Units(1), FeeCap: money.Units(9)},
			money.Units(189_000),
		},
		{
			chain.Solana, lamports,
			chain.Fees{GasLimit: 30_000, TipCap: money.Units(20_000), NonGas: coin.MaxCost()},
			money.Units(5_600),
		},
		{chain.Bitcoin, satoshi, chain.Fees{
			GasLimit: spends.VirtualSize(), TipCap: money.Units(400_000 / spends.VirtualSize()),
			NonGas: money.Units(400),
		}, money.Units(400)},
		{
			chain.Solana, nonceCreation,
			chain.Fees{NonGas: creation.MaxCost()},
			money.Units(solanatx.NonceRent + solanatx.SignatureFee),
		},
	} {
		got, err := ReadFees(c.on, c.payload)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.on, got, err, c.want)
		}
		if most, err := got.Max(); err != nil || most != c.most {
			t.Errorf("%s: got at most %v, %v, want %v", c.on, most, err, c.most)
		}
		if got, err := ReadFees(c.on, c.payload[1:]); err == nil {
			t.Errorf("%s, torn: got %+v, want an error", c.on, got)
		}
	}
	if got, err := ReadFees(chain.Tron, lamports); err == nil {
		t.Errorf("a chain that nothing is paid on: got %+v, want an error", got)
	}
}
