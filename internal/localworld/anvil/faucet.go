package anvil

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

const (
	gasOfCreation       = 4_000_000 // more than the largest contract uses
	gasOfRefused        = 500_000   // for a call that is expected to revert
	receiptPollInterval = 10 * time.Millisecond
)

var (
	tip    = big.NewInt(params.GWei)
	feeCap = big.NewInt(1000 * params.GWei)
)

// SendTx sends a transaction of the faucet and returns its hash as soon as the chain has accepted
// it. A nil recipient creates a contract. value is in wei and may be nil.
func (n *Node) SendTx(
	ctx context.Context, recipient *common.Address, value *big.Int, data []byte,
) (common.Hash, error) {
	return n.SendTxFrom(ctx, n.faucet, recipient, value, data)
}

// SendTxFrom is SendTx for the account of another key. It also sends a transaction that would
// revert, so that a block contains it.
func (n *Node) SendTxFrom(
	ctx context.Context, key *ecdsa.PrivateKey, recipient *common.Address, value *big.Int, data []byte,
) (common.Hash, error) {
	gas := uint64(gasOfCreation)
	if recipient != nil {
		estimate, err := n.Eth.EstimateGas(ctx, ethereum.CallMsg{
			From: crypto.PubkeyToAddress(key.PublicKey), To: recipient, Value: value, Data: data,
		})
		gas = estimate + estimate/4
		if err != nil {
			gas = gasOfRefused
		}
	}
	return n.sendWithGas(ctx, key, recipient, value, data, gas)
}

func (n *Node) sendWithGas(
	ctx context.Context, key *ecdsa.PrivateKey, recipient *common.Address, value *big.Int, data []byte, gas uint64,
) (common.Hash, error) {
	n.sending.Lock()
	defer n.sending.Unlock()
	nonce, err := n.Eth.PendingNonceAt(ctx, crypto.PubkeyToAddress(key.PublicKey))
	if err != nil {
		return common.Hash{}, fmt.Errorf("ask for the next nonce: %w", err)
	}
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(n.ChainID), &types.DynamicFeeTx{
		ChainID: n.ChainID, Nonce: nonce, GasTipCap: tip, GasFeeCap: feeCap, Gas: gas,
		To: recipient, Value: value, Data: data,
	})
	if err != nil {
		return common.Hash{}, fmt.Errorf("sign for the local chain: %w", err)
	}
	if err := n.Eth.SendTransaction(ctx, tx); err != nil {
		return common.Hash{}, fmt.Errorf("send %v to the local chain: %w", tx.Hash(), err)
	}
	return tx.Hash(), nil
}

// NewKey returns a new key, whose account is empty.
func NewKey() (*ecdsa.PrivateKey, error) { return crypto.GenerateKey() }

// WaitReceipt waits until a block contains the transaction, whether or not it succeeded. With
// Config.Manual the caller has to make the blocks meanwhile.
func (n *Node) WaitReceipt(ctx context.Context, hash common.Hash) (*types.Receipt, error) {
	tick := time.NewTicker(receiptPollInterval)
	defer tick.Stop()
	for {
		receipt, err := n.Eth.TransactionReceipt(ctx, hash)
		if err == nil {
			return receipt, nil
		}
		if !errors.Is(err, ethereum.NotFound) {
			return nil, fmt.Errorf("read the receipt of %v: %w", hash, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the receipt of %v: %w", hash, context.Cause(ctx))
		case <-n.ended:
			return nil, fmt.Errorf("wait for the receipt of %v: the chain has ended", hash)
		case <-tick.C:
		}
	}
}

// PayCoin sends native coin from the faucet and waits until a block contains the payment.
func (n *Node) PayCoin(ctx context.Context, recipient common.Address, wei *big.Int) (*types.Receipt, error) {
	return n.SendAndWait(ctx, recipient, wei, nil)
}

// PayToken sends units of a token from the faucet and waits until a block contains the payment.
func (n *Node) PayToken(ctx context.Context, token, recipient common.Address, units *big.Int) (*types.Receipt, error) {
	return n.SendAndWait(ctx, token, nil, evmtoken.Token.CallData("transfer", recipient, units))
}

// SendAndWait calls SendTx and WaitReceipt. It returns an error if the transaction reverted.
func (n *Node) SendAndWait(
	ctx context.Context, recipient common.Address, value *big.Int, data []byte,
) (*types.Receipt, error) {
	hash, err := n.SendTx(ctx, &recipient, value, data)
	if err != nil {
		return nil, err
	}
	receipt, err := n.WaitReceipt(ctx, hash)
	if err != nil {
		return nil, err
	}
	if receipt.Status != types.ReceiptStatusSuccessful {
		return receipt, fmt.Errorf("transaction %v of the faucet has reverted", hash)
	}
	return receipt, nil
}

// CallContract calls a method of a contract on the latest block, without a transaction, and returns
// its answer.
func (n *Node) CallContract(
	ctx context.Context, contract common.Address, c evmtoken.Contract, method string, args ...any,
) ([]any, error) {
	data, err := n.Eth.CallContract(ctx, ethereum.CallMsg{
		From: n.FaucetAddress(), To: &contract, Data: c.CallData(method, args...),
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %v for %s: %w", contract, method, err)
	}
	return c.DecodeAnswer(method, data)
}

// TokenBalance returns how many units of a token an account has in the latest block.
func (n *Node) TokenBalance(ctx context.Context, token, account common.Address) (*big.Int, error) {
	values, err := n.CallContract(ctx, token, evmtoken.Token, "balanceOf", account)
	if err != nil {
		return nil, err
	}
	return values[0].(*big.Int), nil
}

// DeployContract creates a contract from the faucet and mines a block for it, whatever Config says
// about blocks.
func (n *Node) DeployContract(ctx context.Context, c evmtoken.Contract, args ...any) (common.Address, error) {
	hash, err := n.SendTx(ctx, nil, nil, c.CreationData(args...))
	if err != nil {
		return common.Address{}, fmt.Errorf("deploy %s: %w", c, err)
	}
	if err := n.MineBlocks(ctx, 1); err != nil {
		return common.Address{}, fmt.Errorf("deploy %s: %w", c, err)
	}
	receipt, err := n.WaitReceipt(ctx, hash)
	if err != nil {
		return common.Address{}, fmt.Errorf("deploy %s: %w", c, err)
	}
	if receipt.Status != types.ReceiptStatusSuccessful {
		return common.Address{}, fmt.Errorf("deploy %s: the constructor has reverted", c)
	}
	return receipt.ContractAddress, nil
}

// Token is a token of the local world.
type Token struct {
	Symbol, Name string
	Decimals     uint8
	Address      common.Address
	Contract     evmtoken.Contract // the interface of the contract
}

// Tokens are the tokens of the local world. The faucet owns them: it may mint and, where the
// contract allows it, blacklist, pause and upgrade.
type Tokens struct{ USDC, USDT, DAI Token }

// List returns the tokens, always in the same order.
func (t Tokens) List() []Token { return []Token{t.USDC, t.USDT, t.DAI} }

// tokensMinted is what the faucet receives of each token, in whole tokens.
const tokensMinted = 1_000_000_000

// DeployTokens creates the tokens in one block and mints a thousand million of each to the faucet.
// On a new chain their addresses are always the same.
func (n *Node) DeployTokens(ctx context.Context) (Tokens, error) {
	t := Tokens{
		USDC: Token{Symbol: "USDC", Name: "USD Coin", Decimals: 6, Contract: evmtoken.FiatToken},
		USDT: Token{Symbol: "USDT", Name: "Tether USD", Decimals: 6, Contract: evmtoken.Tether},
		DAI:  Token{Symbol: "DAI", Name: "Dai Stablecoin", Decimals: 18, Contract: evmtoken.Token},
	}
	faucet := n.FaucetAddress()
	nonce, err := n.Eth.PendingNonceAt(ctx, faucet)
	if err != nil {
		return Tokens{}, fmt.Errorf("deploy the tokens: %w", err)
	}
	// The transactions need each other's addresses, so these are computed beforehand and all
	// transactions wait for the same block.
	implementation := crypto.CreateAddress(faucet, nonce)
	t.USDC.Address = crypto.CreateAddress(faucet, nonce+1)
	t.USDT.Address = crypto.CreateAddress(faucet, nonce+2)
	t.DAI.Address = crypto.CreateAddress(faucet, nonce+3)
	initialize := evmtoken.FiatToken.CallData("initialize", t.USDC.Name, t.USDC.Symbol, t.USDC.Decimals, faucet)

	steps := []deployment{
		{nil, evmtoken.FiatToken.CreationData()},
		{nil, evmtoken.Proxy.CreationData(implementation, faucet, initialize)},
		{nil, t.USDT.Contract.CreationData(t.USDT.Name, t.USDT.Symbol, t.USDT.Decimals)},
		{nil, t.DAI.Contract.CreationData(t.DAI.Name, t.DAI.Symbol, t.DAI.Decimals)},
	}
	for _, token := range t.List() {
		steps = append(steps, token.mintToFaucet(faucet))
	}
	if err := n.deployInOneBlock(ctx, steps); err != nil {
		return Tokens{}, fmt.Errorf("deploy the tokens: %w", err)
	}
	return t, nil
}

// DeployToken creates one more token in a block of its own and mints a thousand million to the faucet. It
// returns the token with its address. The contract takes (name, symbol string, decimals uint8).
func (n *Node) DeployToken(ctx context.Context, t Token) (Token, error) {
	faucet := n.FaucetAddress()
	nonce, err := n.Eth.PendingNonceAt(ctx, faucet)
	if err != nil {
		return Token{}, fmt.Errorf("deploy %s: %w", t.Symbol, err)
	}
	t.Address = crypto.CreateAddress(faucet, nonce)
	if err := n.deployInOneBlock(ctx, []deployment{
		{nil, t.Contract.CreationData(t.Name, t.Symbol, t.Decimals)}, t.mintToFaucet(faucet),
	}); err != nil {
		return Token{}, fmt.Errorf("deploy %s: %w", t.Symbol, err)
	}
	return t, nil
}

// deployment is a transaction of the faucet that creates or prepares a contract.
type deployment struct {
	recipient *common.Address // nil creates a contract
	data      []byte
}

// mintToFaucet returns the transaction that gives the faucet its tokens.
func (t Token) mintToFaucet(faucet common.Address) deployment {
	return deployment{&t.Address, t.Contract.CallData("mint", faucet, t.AtomicUnits(tokensMinted))}
}

// deployInOneBlock sends transactions of the faucet in their order and mines one block for them.
func (n *Node) deployInOneBlock(ctx context.Context, steps []deployment) error {
	var hashes []common.Hash
	for _, s := range steps {
		hash, err := n.sendWithGas(ctx, n.faucet, s.recipient, nil, s.data, gasOfCreation)
		if err != nil {
			return err
		}
		hashes = append(hashes, hash)
	}
	if err := n.MineBlocks(ctx, 1); err != nil {
		return err
	}
	for i, hash := range hashes {
		receipt, err := n.WaitReceipt(ctx, hash)
		if err != nil {
			return err
		}
		if receipt.Status != types.ReceiptStatusSuccessful {
			return fmt.Errorf("step %d has reverted", i)
		}
	}
	return nil
}

// AtomicUnits returns an amount of whole tokens in the token's smallest unit.
func (t Token) AtomicUnits(whole int64) *big.Int {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(t.Decimals)), nil)
	return unit.Mul(unit, big.NewInt(whole))
}
