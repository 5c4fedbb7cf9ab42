package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// transferCall is the selector of transfer(address,uint256).
var transferCall = []byte{0xa9, 0x05, 0x9c, 0xbb}

// unsigned is the payload that is signed for an EIP-1559 transaction.
type unsigned struct {
	ChainID    *big.Int
	Nonce      uint64
	GasTipCap  *big.Int
	GasFeeCap  *big.Int
	Gas        uint64
	To         *common.Address
	Value      *big.Int
	Data       []byte
	AccessList types.AccessList
}

// encode is the unsigned transaction of a payment, or of a cancel.
func encode(chainID uint64, from chain.Address, p *chain.Payment, nonce uint64, f chain.Fees) ([]byte, error) {
	to, value, data := common.HexToAddress(string(from)), new(big.Int), []byte(nil)
	if p != nil {
		if p.From != from {
			return nil, errors.New("the payment is another account's")
		}
		to, value = common.HexToAddress(string(p.To)), p.Amount.Big()
		if p.Contract != "" {
			data = append(bytes.Clone(transferCall), common.LeftPadBytes(to.Bytes(), 32)...)
			data = append(data, common.LeftPadBytes(value.Bytes(), 32)...)
			to, value = common.HexToAddress(string(p.Contract)), new(big.Int)
		}
	}
	body, err := rlp.EncodeToBytes(&unsigned{
		ChainID: new(big.Int).SetUint64(chainID), Nonce: nonce, GasTipCap: f.TipCap.Big(), GasFeeCap: f.FeeCap.Big(),
		Gas: f.GasLimit, To: &to, Value: value, Data: data, AccessList: types.AccessList{},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the transaction in nonce %d of %s: %w", nonce, from, err)
	}
	return append([]byte{types.DynamicFeeTxType}, body...), nil
}

// decode reads signed bytes and finds out who signed them.
func decode(chainID uint64, raw []byte) (*tx, error) {
	var signed types.Transaction
	if err := signed.UnmarshalBinary(raw); err != nil {
		return nil, fmt.Errorf("not a transaction: %w", err)
	}
	if signed.Type() != types.DynamicFeeTxType || signed.To() == nil {
		return nil, errors.New("not a transaction of this chain")
	}
	sender, err := types.Sender(types.LatestSignerForChainID(new(big.Int).SetUint64(chainID)), &signed)
	if err != nil {
		return nil, fmt.Errorf("invalid sender: %w", err)
	}
	t := &tx{
		hash: chain.TxHash(signed.Hash().Hex()), from: chain.Address(sender.Hex()),
		nonce: signed.Nonce(), gasLimit: signed.Gas(),
	}
	if t.tip, err = money.FromBig(signed.GasTipCap()); err != nil {
		return nil, err
	}
	if t.cap, err = money.FromBig(signed.GasFeeCap()); err != nil {
		return nil, err
	}
	value, err := money.FromBig(signed.Value())
	if err != nil {
		return nil, err
	}
	to, data := chain.Address(signed.To().Hex()), signed.Data()
	switch {
	case len(data) == 0:
		t.moves = []Move{{Kind: chain.Native, From: t.from, To: to, Amount: value}}
	case len(data) == 68 && bytes.HasPrefix(data, transferCall) && value.IsZero():
		amount, err := money.FromBig(new(big.Int).SetBytes(data[36:]))
		if err != nil {
			return nil, err
		}
		receiver := common.BytesToAddress(data[4:36])
		t.moves = []Move{{Kind: chain.Token, Contract: to, From: t.from, To: chain.Address(receiver.Hex()), Amount: amount}}
	default:
		return nil, errors.New("no contract here knows this call")
	}
	return t, nil
}

// grammar reads the addresses of the family as far as scripts need it.
type grammar struct{ chainID uint64 }

// Grammar reads this chain's addresses.
func (c *Chain) Grammar() chain.Grammar { return grammar{c.conf.ChainID} }

// Parse implements chain.Grammar.
func (grammar) Parse(s string) (chain.Address, error) {
	if len(s) != 42 || s[:2] != "0x" || !common.IsHexAddress(s) {
		return "", errors.New("an address is 0x and 40 hexadecimal digits")
	}
	a := chain.Address(common.HexToAddress(s).Hex())
	if string(a) != s {
		return "", errors.New("the address's checksum does not fit its digits")
	}
	return a, nil
}

// Burns implements chain.Grammar.
func (grammar) Burns(a chain.Address) bool {
	return common.HexToAddress(string(a)).Big().BitLen() <= 16
}

// PaymentURI implements chain.Grammar.
func (g grammar) PaymentURI(a, contract chain.Address) string {
	if contract == "" {
		return fmt.Sprintf("ethereum:%s@%d", a, g.chainID)
	}
	return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s", contract, g.chainID, a)
}
