package payout_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
)

// scriptedContract is a payout contract of which providers say what a test scripts.
type scriptedContract struct {
	chain.PayoutContract
	isDeployed bool
	err        error
	isSilent   bool
}

// IsDeployed implements chain.PayoutContract.
func (c scriptedContract) IsDeployed(ctx context.Context) (bool, error) {
	if c.isSilent {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return c.isDeployed, c.err
}

// payeeAccounts is of a chain whose transactions make several payments by themselves.
type payeeAccounts struct{ chain.PayeeAccounts }

// Rows that share transactions cost what the first of each and the further ones cost, rounded up to a
// thousandth of the first. A single row, the
// coin of an EVM chain and a token without the payout contract share none. Rule BP-91.
func TestRowsTogetherCostLessThanAlone(t *testing.T) {
	t.Parallel()
	bitcoin := sim.New(sim.Config{Name: chain.Bitcoin, UTXO: true}).ToChain()
	ethereum := sim.New(sim.Config{}).ToChain()
	deployed, absent, unread, silent, none := ethereum, ethereum, ethereum, ethereum, ethereum
	deployed.PayoutContract = scriptedContract{isDeployed: true}
	absent.PayoutContract = scriptedContract{}
	unread.PayoutContract = scriptedContract{isDeployed: true, err: errors.New("no quorum")}
	silent.PayoutContract = scriptedContract{isSilent: true}
	solana := chain.Chain{PayeeAccounts: payeeAccounts{}}
	token := mint.Mint{Chain: chain.Ethereum, Kind: mint.Token, Contract: "0x1"}
	coin := mint.Mint{Chain: chain.Ethereum, Kind: mint.Native}
	btc := mint.Mint{Chain: chain.Bitcoin, Kind: mint.Native}
	huge := money.MustParse("1" + strings.Repeat("0", 75))
	sol := mint.Mint{Chain: chain.Solana, Kind: mint.Native}
	solToken := mint.Mint{Chain: chain.Solana, Kind: mint.Token, Contract: "mint"}
	for _, c := range []struct {
		what  string
		mint  mint.Mint
		chain chain.Chain
		alone money.Amount
		rows  int
		want  string // "" for no transaction that rows share
	}{
		{"a token, the most rows of a transaction", token, deployed, money.Units(51_460_000), 24, "665892400"},
		{"a token, one row more", token, deployed, money.Units(51_460_000), 25, "717352400"},
		{"a token, a fee that leaves a remainder", token, deployed, money.Units(1000), 2, "1520"},
		{"a token, a single row", token, deployed, money.Units(51_460), 1, ""},
		{"a token, a fee that no amount holds", token, deployed, huge, 24, ""},
		{"a token, no contract deployed", token, absent, money.Units(51_460), 24, ""},
		{"a token, providers that do not agree", token, unread, money.Units(51_460), 24, ""},
		{"a token, providers that do not answer", token, silent, money.Units(51_460), 24, ""},
		{"a token of a chain without the contract", token, none, money.Units(51_460), 24, ""},
		{"the coin of an EVM chain", coin, deployed, money.Units(21_000), 24, ""},
		{"bitcoin", btc, bitcoin, money.Units(2090), 100, "33771"},
		{"SOL, the most rows of a transaction", sol, solana, money.Units(10_057), 19, "10057"},
		{"SOL, one row more", sol, solana, money.Units(10_057), 20, "20114"},
		{"a token on Solana", solToken, solana, money.Units(10_057), 35, "30171"},
		{"SOL, a single row", sol, solana, money.Units(10_057), 1, ""},
		{"bitcoin, a single row", btc, bitcoin, money.Units(2090), 1, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &payout.Service{Chains: chain.Chains{c.mint.Chain: c.chain}}
			fee, canShare := s.SharedFee(t.Context(), c.mint, c.alone, c.rows)
			if got := fee.String(); canShare != (c.want != "") || canShare && got != c.want {
				t.Errorf("%s: got %s, %v, want %q", c.what, got, canShare, c.want)
			}
		})
	}
}
