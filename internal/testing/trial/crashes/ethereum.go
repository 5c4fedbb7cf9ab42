package crashes

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// ethereumLag is how far the final block is behind the newest one.
const ethereumLag = 4

// ethereum is anvil.
type ethereum struct {
	simpleNetwork
	node *anvil.Node
}

func openEthereum(w *localworld.World) network { return ethereum{node: w.EthereumNode()} }

func (e ethereum) nodeURL() string                          { return e.node.URL }
func (e ethereum) mineBlock(ctx context.Context) error      { return e.node.MineBlocks(ctx, 1) }
func (ethereum) blockInterval() time.Duration               { return 200 * time.Millisecond }
func (ethereum) waitReady(context.Context, *scenario) error { return nil }
func (ethereum) blocksAheadMax() uint64                     { return ethereumLag + 8 }
func (ethereum) stopsAhead() bool                           { return false }
func (ethereum) sendMethod() string                         { return "eth_sendRawTransaction" }
func (ethereum) holdPool(t *scenario, waits bool)           { t.mining.Store(!waits) }
func (e ethereum) openOracle() truth                        { return oracle.Open(e.node.URL) }
func (ethereum) unusedAddress(seed []byte) string {
	return common.BytesToAddress(crypto.Keccak256(seed)).Hex()
}

// prepareGroups deploys the payout contract and allows it the token of the treasury, once in a scenario.
func (e ethereum) prepareGroups(ctx context.Context, t *scenario) error {
	code, err := e.node.Eth.CodeAt(ctx, payoutcontract.Address, nil)
	if err != nil || payoutcontract.IsRuntimeCode(code) {
		return err
	}
	if _, err := e.node.SendAndWait(ctx, payoutcontract.Deployer, nil, payoutcontract.DeploymentData()); err != nil {
		return fmt.Errorf("deploy the payout contract: %w", err)
	}
	if err := t.runCommand("allowances", "grant", t.world.Info.OrganizationID, strconv.Itoa(t.mint.ID)); err != nil {
		return err
	}
	return waitUntil(ctx, "the contract is allowed the token", sceneMax, func(ctx context.Context) (bool, error) {
		var n int
		err := t.queryRow(ctx, `SELECT count(*) FROM payout_allowances WHERE is_granted AND status = 'DONE'`, nil, &n)
		return n > 0, err
	})
}

func (e ethereum) readHead(ctx context.Context) (height, lag uint64, err error) {
	height, err = e.node.Eth.BlockNumber(ctx)
	return height, ethereumLag, err
}

func (e ethereum) waitHeight(ctx context.Context, tx string) (uint64, error) {
	r, err := e.node.WaitReceipt(ctx, common.HexToHash(tx))
	if err != nil {
		return 0, err
	}
	return r.BlockNumber.Uint64(), nil
}

func (e ethereum) readBalance(ctx context.Context, token, account string) (*big.Int, error) {
	return e.node.TokenBalance(ctx, common.HexToAddress(token), common.HexToAddress(account))
}

func (e ethereum) refuseRecipient(ctx context.Context, token, account string) error {
	_, err := e.node.SendAndWait(
		ctx, common.HexToAddress(token), nil, evmtoken.FiatToken.CallData("blacklist", common.HexToAddress(account)),
	)
	return err
}

func (e ethereum) newStranger(ctx context.Context, token string, units *big.Int) (externalAccount, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return externalAccount{}, err
	}
	address := crypto.PubkeyToAddress(key.PublicKey)
	if err := e.node.SetBalance(ctx, address, big.NewInt(params.Ether)); err != nil {
		return externalAccount{}, err
	}
	_, err = e.node.PayToken(ctx, common.HexToAddress(token), address, units)
	return externalAccount{address.Hex(), func(ctx context.Context, token, recipient string, units *big.Int) (
		string, error,
	) {
		tx, err := e.node.SendTxFrom(
			ctx, key, pointerTo(common.HexToAddress(token)), nil,
			evmtoken.Token.CallData("transfer", common.HexToAddress(recipient), units),
		)
		return tx.Hex(), err
	}}, err
}

func (e ethereum) mineInstead(ctx context.Context, raw []byte, replacedHash string) error {
	if err := e.node.DropTransaction(ctx, common.HexToHash(replacedHash)); err != nil {
		return err
	}
	var got common.Hash
	if err := e.node.RPC.CallContext(ctx, &got, e.sendMethod(), hexutil.Bytes(raw)); err != nil {
		return err
	}
	return e.mineBlock(ctx)
}

func (ethereum) transactionID(text string) (string, error) {
	raw, err := hexutil.Decode(text)
	if err != nil {
		return "", err
	}
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		return "", err
	}
	return tx.Hash().Hex(), nil
}

// corruptAnswer corrupts the receipts of a block, which the service reads where there are
// movements.
func (ethereum) corruptAnswer(method string, _ []byte, _ string) (json.RawMessage, bool) {
	return json.RawMessage(`[{"logs": "none"}]`), method == "eth_getBlockReceipts"
}

func (e ethereum) forkBlock(ctx context.Context, rawTxs ...[]byte) error {
	var txs []anvil.ReorgTx
	for _, raw := range rawTxs {
		txs = append(txs, anvil.ReorgTx{Raw: raw})
	}
	return e.node.ReplaceBlocks(ctx, 1, txs...)
}

func (e ethereum) rawTransaction(ctx context.Context, tx string) ([]byte, error) {
	return e.node.RawTransaction(ctx, common.HexToHash(tx))
}

func (e ethereum) resendTransaction(ctx context.Context, raw []byte) error {
	var hash common.Hash
	err := e.node.RPC.CallContext(ctx, &hash, e.sendMethod(), hexutil.Bytes(raw))
	if err != nil && !strings.Contains(err.Error(), "already") {
		return err
	}
	return nil
}
