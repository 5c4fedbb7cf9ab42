package evm

import (
	"fmt"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

var (
	transferTopic = crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))
	// nativeLogAddress is the address from which chains with EIP-7708 report
	// movements of the native coin in the words of a token. They are found as
	// what they are; as tokens they would count twice.
	nativeLogAddress = common.HexToAddress("0xfffffffffffffffffffffffffffffffffffffffe")
)

func txHash(h common.Hash) chain.TxHash { return chain.TxHash(h.Hex()) }

// chainContents is all that a block itself says has moved in it.
func (s *verifiedBlock) chainContents(traced bool, providers int) (chain.Contents, error) {
	c := chain.Contents{Block: s.chainBlock(), Traced: traced, Providers: providers, Verified: verified}
	payers := map[common.Address]int{}
	for i, tx := range s.txs {
		fee, err := s.txFee(i)
		if err != nil {
			return chain.Contents{}, fmt.Errorf("block %d: fee: %w", c.Height, err)
		}
		from := tx.from
		index, exists := payers[from]
		if !exists {
			index = len(c.Fees)
			payers[from] = index
			c.Fees = append(c.Fees, chain.Fee{Payer: evmtx.Canonical(from)})
		}
		if c.Fees[index].Amount, err = c.Fees[index].Amount.Add(fee); err != nil {
			return chain.Contents{}, fmt.Errorf("block %d: fees of %s: %w", c.Height, from, err)
		}
		if s.receipts[i].Status != types.ReceiptStatusSuccessful {
			continue // a failed transaction moves nothing but its fee
		}
		native, err := s.nativeTransfer(i)
		if err != nil {
			return chain.Contents{}, fmt.Errorf("block %d: %w", c.Height, err)
		}
		if !native.Amount.IsZero() && native.To != "" {
			c.Transfers = append(c.Transfers, native)
		}
		hash := txHash(tx.hash)
		for _, l := range s.receipts[i].transfers {
			if !s.repeatsNative(l) {
				c.Transfers = append(c.Transfers, l.chainTransfer(hash, s.receipts[i].firstLog))
			}
		}
	}
	return c, nil
}

// nativeTransfer is the i-th transaction's own value, which may be zero. It has no receiver
// where the chain itself made a contract, which nobody of ours is.
func (s *verifiedBlock) nativeTransfer(i int) (chain.Transfer, error) {
	tx := s.txs[i]
	amount, err := money.FromBig(tx.value)
	if err != nil {
		return chain.Transfer{}, fmt.Errorf("value of %s: %w", tx.hash, err)
	}
	tr := chain.Transfer{Tx: txHash(tx.hash), Kind: chain.Native, From: evmtx.Canonical(tx.from), Amount: amount}
	switch {
	case tx.to != nil:
		tr.To = evmtx.Canonical(*tx.to)
	case tx.signed != nil:
		tr.To = evmtx.Canonical(crypto.CreateAddress(tx.from, tx.nonce))
	}
	return tr, nil
}

// borNativeToken is the contract by which Polygon tells of its native coin in the words of a
// token.
var borNativeToken = common.HexToAddress("0x0000000000000000000000000000000000001010")

// repeatsNative tells whether a log repeats a movement of the native coin.
func (s *verifiedBlock) repeatsNative(l tokenLog) bool {
	return s.stack == bor && l.contract == borNativeToken
}

// A tokenLog is a log that is the standard event of a token. It is all that is kept of the
// logs of a block, of which there may be hundreds of thousands.
type tokenLog struct {
	contract, from, to common.Address
	amount             uint256.Int
	position           uint // among the logs of its receipt
}

// tokenTransfer reads a log as the standard event of a token. Anything that
// differs from it, and a transfer of nothing, is not one.
func tokenTransfer(l *types.Log) (t tokenLog, ok bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != common.HashLength ||
		l.Address == nativeLogAddress {
		return tokenLog{}, false
	}
	t.contract, t.from, t.to = l.Address, common.BytesToAddress(l.Topics[1][:]), common.BytesToAddress(l.Topics[2][:])
	t.amount.SetBytes(l.Data)
	isAddress := common.BytesToHash(t.from[:]) == l.Topics[1] && common.BytesToHash(t.to[:]) == l.Topics[2]
	return t, isAddress && !t.amount.IsZero()
}

// chainTransfer is what the log says. firstLog is the index in the block of the first log of
// its receipt.
func (l *tokenLog) chainTransfer(tx chain.TxHash, firstLog uint64) chain.Transfer {
	return chain.Transfer{
		Tx: tx, Kind: chain.Token, Position: strconv.FormatUint(uint64(l.position),
			10), Contract: evmtx.Canonical(l.contract),
		From: evmtx.Canonical(l.from), To: evmtx.Canonical(l.to), Amount: money.FromUint256(&l.amount),
		LogIndex: firstLog + uint64(l.position),
	}
}
