package localworld

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
)

// SendFromFaucet sends an amount of a mint, in atomic units, from the local chain's faucet account,
// as an external payer does. It returns when the chain has accepted the transaction.
func (i Info) SendFromFaucet(
	ctx context.Context, m Mint, recipient common.Address, amount *big.Int,
) (common.Hash, error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(i.Chains[m.Chain].FaucetKey, "0x"))
	if err != nil {
		return common.Hash{}, fmt.Errorf("read the faucet's key: %w", err)
	}
	return i.payWithKey(ctx, key, m, recipient, amount)
}

// PayAddress is SendFromFaucet for any chain of the world, with an address as people write it. It
// refuses a mistyped address before it sends anything.
func (i Info) PayAddress(ctx context.Context, m Mint, recipient string, amount *big.Int) (hash string, err error) {
	endpoint, ok := i.Chains[m.Chain]
	if !ok {
		return "", fmt.Errorf("this world has no chain %s", m.Chain)
	}
	switch name := chain.Name(m.Chain); name.Family() {
	case chain.EVM:
		a, err := evmtx.Parse(recipient)
		if err != nil {
			return "", err
		}
		h, err := i.SendFromFaucet(ctx, m, common.HexToAddress(string(a)), amount)
		return h.Hex(), err
	case chain.SolanaFamily:
		a, err := solanatx.Parse(recipient)
		if err != nil {
			return "", err
		}
		if !amount.IsUint64() {
			return "", fmt.Errorf("no amount on %s has more than 64 bits", name)
		}
		node, err := surfpool.Dial(ctx, endpoint.RPCURL)
		if err != nil {
			return "", err
		}
		defer node.CloseClient()
		var sent chain.TxHash
		if m.ContractAddress == nil {
			sent, err = node.PayLamports(ctx, a, amount.Uint64())
		} else {
			sent, err = node.PayToken(ctx, chain.Address(*m.ContractAddress), a, amount.Uint64())
		}
		return string(sent), err
	case chain.BitcoinFamily:
		a, err := bitcointx.Parse(chain.Local, recipient)
		if err != nil {
			return "", err
		}
		if !amount.IsInt64() {
			return "", fmt.Errorf("no amount on %s has more than 63 bits", name)
		}
		tx, err := btcd.Dial(endpoint.RPCURL, endpoint.Password).PayAddress(ctx, a, amount.Int64())
		if err != nil {
			return "", err
		}
		return tx.TxID(), nil
	}
	return "", fmt.Errorf("the faucet does not know %s", m.Chain)
}

// ExternalAccount is an account on a local chain that the installation does not know.
type ExternalAccount struct{ key *ecdsa.PrivateKey }

// NewExternalAccount makes an account that has nothing.
func NewExternalAccount() (ExternalAccount, error) {
	key, err := crypto.GenerateKey()
	if err != nil {
		return ExternalAccount{}, fmt.Errorf("make an account: %w", err)
	}
	return ExternalAccount{key}, nil
}

// Address returns the account's address.
func (s ExternalAccount) Address() common.Address { return crypto.PubkeyToAddress(s.key.PublicKey) }

// String hides the key.
func (s ExternalAccount) String() string { return s.Address().Hex() }

// PayFrom is SendFromFaucet from an external account, which has to have the amount and the fee.
func (i Info) PayFrom(
	ctx context.Context, s ExternalAccount, m Mint, recipient common.Address, amount *big.Int,
) (common.Hash, error) {
	return i.payWithKey(ctx, s.key, m, recipient, amount)
}

func (i Info) payWithKey(
	ctx context.Context, key *ecdsa.PrivateKey, m Mint, recipient common.Address, amount *big.Int,
) (common.Hash, error) {
	endpoint, ok := i.Chains[m.Chain]
	if !ok {
		return common.Hash{}, fmt.Errorf("this world has no chain %s", m.Chain)
	}
	eth, err := ethclient.DialContext(ctx, endpoint.RPCURL)
	if err != nil {
		return common.Hash{}, fmt.Errorf("reach the chain: %w", err)
	}
	defer eth.Close()
	tx, err := sendPayment(ctx, eth, key, m, recipient, amount)
	if err != nil {
		return common.Hash{}, err
	}
	return tx.Hash(), nil
}

func sendPayment(
	ctx context.Context, eth *ethclient.Client, key *ecdsa.PrivateKey, m Mint, recipient common.Address,
	amount *big.Int,
) (*types.Transaction, error) {
	sender := crypto.PubkeyToAddress(key.PublicKey)
	target, value, data := recipient, amount, []byte(nil)
	if m.ContractAddress != nil {
		target, value, data = common.HexToAddress(*m.ContractAddress), new(big.Int), evmtoken.Token.CallData(
			"transfer", recipient, amount,
		)
	}
	id, err := eth.ChainID(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the chain for its id: %w", err)
	}
	nonce, err := eth.PendingNonceAt(ctx, sender)
	if err != nil {
		return nil, fmt.Errorf("ask for the account's nonce: %w", err)
	}
	head, err := eth.HeaderByNumber(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for the latest block: %w", err)
	}
	gas, err := eth.EstimateGas(ctx, ethereum.CallMsg{From: sender, To: &target, Value: value, Data: data})
	if err != nil {
		return nil, fmt.Errorf("the chain says that the payment would fail: %w", err)
	}
	tip := big.NewInt(1e9)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: tip,
		GasFeeCap: new(big.Int).Add(tip, new(big.Int).Mul(head.BaseFee, big.NewInt(2))),
		Gas:       gas + gas/5, To: &target, Value: value, Data: data,
	})
	if err != nil {
		return nil, fmt.Errorf("sign the payment: %w", err)
	}
	if err := eth.SendTransaction(ctx, tx); err != nil {
		return nil, fmt.Errorf("send the payment: %w", err)
	}
	return tx, nil
}
