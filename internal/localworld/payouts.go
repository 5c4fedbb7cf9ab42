package localworld

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
)

// deployPayoutContract deploys the payout contract on Ethereum as an operator does on any chain, unless it stands
// there.
// Rule BP-81.
func (w *World) deployPayoutContract(ctx context.Context) error {
	if !w.opts.PayoutContract {
		return nil
	}
	code, err := w.chain.Eth.CodeAt(ctx, payoutcontract.Address, nil)
	if err != nil {
		return fmt.Errorf("look for the payout contract: %w", err)
	}
	if len(code) == 0 {
		hash, err := w.chain.SendTx(ctx, &payoutcontract.Deployer, nil, payoutcontract.DeploymentData())
		if err != nil {
			return fmt.Errorf("deploy the payout contract: %w", err)
		}
		if err := w.chain.MineBlocks(ctx, 1); err != nil {
			return fmt.Errorf("deploy the payout contract: %w", err)
		}
		receipt, err := w.chain.WaitReceipt(ctx, hash)
		if err != nil {
			return fmt.Errorf("deploy the payout contract: %w", err)
		}
		if receipt.Status != types.ReceiptStatusSuccessful {
			return fmt.Errorf("deploy the payout contract: transaction %v has reverted", hash)
		}
		if code, err = w.chain.Eth.CodeAt(ctx, payoutcontract.Address, nil); err != nil {
			return fmt.Errorf("look for the payout contract: %w", err)
		}
	}
	if !payoutcontract.IsRuntimeCode(code) {
		return fmt.Errorf("%v has other code than the payout contract", payoutcontract.Address)
	}
	w.Info.PayoutContracts = map[string]string{string(chain.Ethereum): payoutcontract.Address.Hex()}
	return nil
}

// templateRows are the rows of the list of payments of a world. The amounts are whole numbers, so that the list can be
// read in whole tokens and in atomic units alike.
var templateRows = []struct {
	chain                    chain.Name
	symbol, reference, whole string
}{
	{chain.Ethereum, "USDC", "salary-01", "25"},
	{chain.Ethereum, "USDC", "salary-02", "40"},
	{chain.Ethereum, "USDT", "salary-03", "15"},
	{chain.Ethereum, "ETH", "salary-04", "1"},
	{chain.Solana, "SOL", "salary-05", "2"},
	{chain.Solana, "USDC", "salary-06", "30"},
	{chain.Bitcoin, "BTC", "salary-07", "1"},
	{chain.Bitcoin, "BTC", "salary-08", "2"},
}

// writePayoutTemplate writes a list of payments on the chains of the world, which can be uploaded as it is.
func (w *World) writePayoutTemplate() error {
	var text strings.Builder
	list := csv.NewWriter(&text)
	_ = list.Write([]string{"reference", "customerId", "mintId", "toAddress", "memo", "amount"})
	for _, row := range templateRows {
		for _, m := range w.Info.Mints {
			if m.Chain == string(row.chain) && m.Symbol == row.symbol {
				_ = list.Write([]string{
					row.reference, "", strconv.Itoa(m.ID), payeeAddress(row.chain, row.reference), "", row.whole,
				})
			}
		}
	}
	list.Flush() // A strings.Builder takes everything.
	path := filepath.Join(w.dir, "payouts.csv")
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write the list of payments: %w", err)
	}
	w.Info.PayoutTemplate = path
	return nil
}

// payeeAddress returns the address of a payee of the list, which is the same in every world.
func payeeAddress(name chain.Name, reference string) string {
	seed := sha256.Sum256([]byte("payee of the local world " + reference))
	switch name {
	case chain.Solana:
		return base58.Encode(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
	case chain.Bitcoin:
		key := [bitcointx.KeyBytes]byte(append([]byte{2}, seed[:]...))
		return string(bitcointx.KeyAddress(&chaincfg.RegressionNetParams, key))
	default:
		return common.BytesToAddress(seed[12:]).Hex()
	}
}
