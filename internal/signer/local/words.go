package local

import (
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// words take apart and sign the transactions of one family, and read its addresses.
// They are pure.
type words interface {
	// read says what a payload does when it is mined. What cannot be said in a deed is
	// an error.
	read(payload []byte) (deed, error)
	// sign makes the bytes to send with the keys of those who have to sign, the one whose
	// slot it is first.
	sign(payload []byte, by ...keys.WalletKey) (raw []byte, hash chain.TxHash, err error)
	// canonical tells whether an address or contract is written as the family writes it.
	canonical(a chain.Address) bool
	// network says what is wrong with a policy's signerId, in words.
	network(signerID string) error
}

// families are those that this signer has keys for.
var families = map[chain.Family]words{
	chain.EVM: evmWords{},
}

// A deed is what the bytes of a payload do: all that the rules compare.
type deed struct {
	network string      // the signerId of the network inside; "" where a slot is of one network alone
	slot    signer.Slot // the place inside; a Lease goes without its Nonce, which is not on the chain
	// payer pays the fee and from the amount; "" where only the signature tells.
	payer, from chain.Address
	to          chain.Address
	contract    chain.Address
	amount      money.Amount
	nothing     bool         // it moves nothing to to, and does nothing else
	costs       money.Amount // at most, in native units
}

// in tells whether the deed takes just this slot.
func (d deed) in(s signer.Slot) bool {
	if d.slot.Lease != "" {
		return d.slot.Lease == s.Lease
	}
	return d.slot == s
}

// evmWords are those of package evmtx.
type evmWords struct{}

func (evmWords) read(payload []byte) (deed, error) {
	tx, err := evmtx.Decode(payload)
	if err != nil {
		return deed{}, err
	}
	d := deed{
		network: fmt.Sprint(tx.ChainID), slot: signer.Slot{Nonce: tx.Nonce}, to: tx.To,
		nothing: tx.Value.IsZero() && len(tx.Data) == 0, costs: worst(chain.Fees{GasLimit: tx.Gas, TipCap: tx.TipCap, FeeCap: tx.FeeCap}),
	}
	if !d.nothing {
		d.contract, d.to, d.amount, err = evmtx.PayeeOf(tx)
	}
	return d, err
}

func (evmWords) sign(payload []byte, by ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	if len(by) != 1 {
		return nil, "", errors.New("a transaction of this family has one signature")
	}
	signature := by[0].SignHash(evmtx.Digest(payload))
	return evmtx.Attach(payload, signature[:], by[0].Address())
}

func (evmWords) canonical(a chain.Address) bool {
	_, err := evmtx.Bytes(a)
	return err == nil
}

func (evmWords) network(signerID string) error {
	if n, err := money.Parse(signerID); err != nil || n.IsZero() {
		return errors.New("want the chain id in decimal")
	}
	return nil
}

// worst is the most that a transaction can cost.
func worst(f chain.Fees) money.Amount {
	fee, err := f.Max()
	if err != nil {
		return amountMax
	}
	return fee
}
