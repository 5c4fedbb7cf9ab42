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
	// nativeLogAddress is the address from which chains with EIP-7708 report native transfers in
	// the form of token logs. The adapter finds those transfers themselves; as tokens they would
	// count twice.
	nativeLogAddress = common.HexToAddress("0xfffffffffffffffffffffffffffffffffffffffe")
)

func txHash(h common.Hash) chain.TxHash { return chain.TxHash(h.Hex()) }

// chainContents returns all transfers that a block itself shows.
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

// nativeTransfer returns the i-th transaction's own value, which may be zero. It has no receiver if
// the chain itself created a contract; such an address is never one of Coffer's.
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

// borNativeToken is the contract by which Polygon reports its native coin in the form of a token.
var borNativeToken = common.HexToAddress("0x0000000000000000000000000000000000001010")

// repeatsNative reports whether a log repeats a native transfer.
func (s *verifiedBlock) repeatsNative(l tokenLog) bool {
	return s.stack == bor && l.contract == borNativeToken
}

// tokenLog is a log that is the standard event of a token. Only these are kept of a block's logs,
// of which there may be hundreds of thousands.
type tokenLog struct {
	contract, from, to common.Address
	amount             uint256.Int
	position           uint // index among the logs of its receipt
}

// tokenTransfer decodes a log as the standard event of a token. ok is false for every other form,
// and for a transfer of zero.
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

// chainTransfer returns the transfer of the log. firstLog is the index in the block of the first
// log of its receipt.
func (l *tokenLog) chainTransfer(tx chain.TxHash, firstLog uint64) chain.Transfer {
	return chain.Transfer{
		Tx: tx, Kind: chain.Token, Position: strconv.FormatUint(uint64(l.position), 10),
		Contract: evmtx.Canonical(l.contract),
		From:     evmtx.Canonical(l.from), To: evmtx.Canonical(l.to), Amount: money.FromUint256(&l.amount),
		LogIndex: firstLog + uint64(l.position),
	}
}
