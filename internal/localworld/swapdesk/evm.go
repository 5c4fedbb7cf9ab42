package swapdesk

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	evmGas    = 150_000 // more than the transfer of any token of the local world uses
	evmTip    = params.GWei
	evmFeeCap = 1000 * params.GWei
)

// evmTransfer is the event of a token's transfer.
var evmTransfer = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))

// evmChain is an EVM chain. It finds native coin in transactions that pay an address directly; a payment by a
// contract is not found.
type evmChain struct {
	name   chain.Name
	seed   Seed
	client *ethclient.Client
	id     *big.Int
	key    *ecdsa.PrivateKey // of the paying wallet
}

// DialEVM connects to an EVM chain with wallets from a seed.
func DialEVM(ctx context.Context, name chain.Name, url string, seed Seed) (Chain, error) {
	client, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	c := &evmChain{name: name, seed: seed, client: client}
	c.key = c.walletKey(payingWallet)
	if c.id, err = client.ChainID(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("chain id of %s: %w", name, err)
	}
	return c, nil
}

func (c *evmChain) walletKey(n uint32) *ecdsa.PrivateKey {
	secret := c.seed.walletSecret("evm", n)
	key, err := crypto.ToECDSA(secret[:])
	if err != nil {
		panic("swapdesk: a hash that is no key: " + err.Error())
	}
	return key
}

func (c *evmChain) Name() chain.Name { return c.name }
func (c *evmChain) CloseClient()     { c.client.Close() }

func (c *evmChain) WalletAddress(n uint32) string {
	return crypto.PubkeyToAddress(c.walletKey(n).PublicKey).Hex()
}

func (c *evmChain) CheckAddress(text string) error {
	_, err := evmtx.Parse(text)
	return err
}

func (c *evmChain) FinalHeight(ctx context.Context) (uint64, error) {
	header, err := c.client.HeaderByNumber(ctx, big.NewInt(int64(rpc.FinalizedBlockNumber)))
	if err != nil {
		return 0, err
	}
	return header.Number.Uint64(), nil
}

// evmWatch is a Watch as blocks have it. The zero contract is the native coin.
type evmWatch struct{ address, contract common.Address }

func (c *evmChain) Arrivals(ctx context.Context, after, end uint64, watches []Watch) ([]Arrival, error) {
	texts := map[evmWatch]string{}
	for _, w := range watches {
		texts[evmWatch{common.HexToAddress(w.Address), common.HexToAddress(w.Contract)}] = w.Address
	}
	var found []Arrival
	for height := after + 1; height <= end; height++ {
		arrivals, err := c.blockArrivals(ctx, height, texts)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", height, err)
		}
		found = append(found, arrivals...)
	}
	return found, nil
}

func (c *evmChain) blockArrivals(
	ctx context.Context, height uint64, texts map[evmWatch]string,
) (found []Arrival, err error) {
	block, err := c.client.BlockByNumber(ctx, new(big.Int).SetUint64(height))
	if err != nil || len(block.Transactions()) == 0 {
		return nil, err
	}
	receipts, err := c.client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithNumber(rpc.BlockNumber(height)))
	if err != nil {
		return nil, err
	}
	add := func(w evmWatch, hash common.Hash, index int, units *big.Int) error {
		text, isWatched := texts[w]
		if !isWatched || units.Sign() == 0 {
			return nil
		}
		amount, err := money.FromBig(units)
		found = append(found, Arrival{
			Address: text, Hash: hash.Hex(), Index: index, Amount: amount, Time: timeOf(int64(block.Time())),
		})
		return err
	}
	values := map[common.Hash]*types.Transaction{}
	for _, tx := range block.Transactions() {
		values[tx.Hash()] = tx
	}
	for _, receipt := range receipts {
		if receipt.Status != types.ReceiptStatusSuccessful {
			continue
		}
		if tx := values[receipt.TxHash]; tx != nil && tx.To() != nil {
			if err := add(evmWatch{address: *tx.To()}, receipt.TxHash, 0, tx.Value()); err != nil {
				return nil, err
			}
		}
		for _, event := range receipt.Logs {
			if len(event.Topics) != 3 || event.Topics[0] != evmTransfer {
				continue
			}
			w := evmWatch{common.BytesToAddress(event.Topics[2][:]), event.Address}
			if err := add(w, receipt.TxHash, 1+int(event.Index), new(big.Int).SetBytes(event.Data)); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

func (c *evmChain) FeeReserve() money.Amount       { return money.Units(params.Ether) }
func (c *evmChain) MinPayment(string) money.Amount { return money.Units(1) }

func (c *evmChain) Balance(ctx context.Context, contract string, pending []Signed) (money.Amount, error) {
	owner := crypto.PubkeyToAddress(c.key.PublicKey)
	balance, err := c.latestBalance(ctx, owner, contract)
	if err != nil {
		return money.Zero, err
	}
	nonce, err := c.client.NonceAt(ctx, owner, nil)
	if err != nil {
		return money.Zero, err
	}
	for _, s := range pending {
		if s.Slot < nonce {
			continue // the balance has it already
		}
		tx := new(types.Transaction)
		if err := tx.UnmarshalBinary(s.Raw); err != nil {
			return money.Zero, err
		}
		switch {
		case contract == "":
			balance.Sub(balance, tx.Cost())
		case *tx.To() == common.HexToAddress(contract):
			balance.Sub(balance, new(big.Int).SetBytes(tx.Data()[len(tx.Data())-common.HashLength:]))
		}
	}
	if balance.Sign() < 0 {
		return money.Zero, nil
	}
	return money.FromBig(balance)
}

func (c *evmChain) latestBalance(ctx context.Context, owner common.Address, contract string) (*big.Int, error) {
	if contract == "" {
		return c.client.BalanceAt(ctx, owner, nil)
	}
	token := common.HexToAddress(contract)
	data, err := c.client.CallContract(ctx, ethereum.CallMsg{
		To: &token, Data: evmtoken.Token.CallData("balanceOf", owner),
	}, nil)
	return new(big.Int).SetBytes(data), err
}

func (c *evmChain) SignPayment(ctx context.Context, p Payment, pending []Signed) (Signed, error) {
	nonce, err := c.client.NonceAt(ctx, crypto.PubkeyToAddress(c.key.PublicKey), nil)
	if err != nil {
		return Signed{}, err
	}
	for _, s := range pending {
		nonce = max(nonce, s.Slot+1)
	}
	recipient := common.HexToAddress(p.Recipient)
	target, value, data := recipient, p.Amount.Big(), []byte(nil)
	if p.Contract != "" {
		target, value = common.HexToAddress(p.Contract), new(big.Int)
		data = evmtoken.Token.CallData("transfer", recipient, p.Amount.Big())
	}
	tx, err := types.SignNewTx(c.key, types.LatestSignerForChainID(c.id), &types.DynamicFeeTx{
		ChainID: c.id, Nonce: nonce, GasTipCap: big.NewInt(evmTip), GasFeeCap: big.NewInt(evmFeeCap), Gas: evmGas,
		To: &target, Value: value, Data: data,
	})
	if err != nil {
		return Signed{}, err
	}
	raw, err := tx.MarshalBinary()
	return Signed{Hash: tx.Hash().Hex(), Raw: raw, Slot: nonce}, err
}

func (c *evmChain) SendPayment(ctx context.Context, s Signed) error {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(s.Raw); err != nil {
		return err
	}
	err := c.client.SendTransaction(ctx, tx)
	if err == nil {
		return nil
	}
	if _, _, unknown := c.client.TransactionByHash(ctx, tx.Hash()); unknown == nil {
		return nil // the node refused it because it has it
	}
	return err
}

func (c *evmChain) ReadOutcome(ctx context.Context, s Signed) (Outcome, error) {
	final, err := c.FinalHeight(ctx)
	if err != nil {
		return Waiting, err
	}
	receipt, err := c.client.TransactionReceipt(ctx, common.HexToHash(s.Hash))
	switch {
	case errors.Is(err, ethereum.NotFound):
		return Waiting, nil
	case err != nil:
		return Waiting, err
	case receipt.BlockNumber.Uint64() > final:
		return Waiting, nil
	case receipt.Status != types.ReceiptStatusSuccessful:
		return Reverted, nil
	}
	return Paid, nil
}
