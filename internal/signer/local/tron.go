package local

import (
	"encoding/hex"
	"errors"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// once are the families where a slot keeps nothing off the chain: of each intent one
// transaction is signed, whatever becomes of it, and no cancel.
var once = map[chain.Family]bool{chain.TronFamily: true}

// tronWords are those of package trontx.
type tronWords struct{}

func (tronWords) read(payload []byte) (deed, error) {
	tx, err := trontx.Decode(payload)
	if err != nil {
		return deed{}, err
	}
	return deed{
		slot: signer.Slot{Lease: tx.Lease()}, payer: tx.Owner, costs: tx.MaxCost(), pays: one(tx.Pays),
		cancels: func(chain.Address) error {
			return errors.New("a transaction of TRON cannot be cancelled: it ends when it expires")
		},
	}, nil
}

func (tronWords) sign(payload []byte, by ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	if len(by) != 1 {
		return nil, "", errors.New("a transaction of this family has one signature")
	}
	signature := by[0].SignHash(trontx.Digest(payload))
	return trontx.Attach(payload, signature[:])
}

func (tronWords) canonical(a chain.Address) bool {
	_, err := trontx.Bytes(a)
	return err == nil
}

func (tronWords) othersPay() bool { return false }

func (tronWords) places(lease string) []string { return []string{lease} }

// network is the end of the identifier of the first block, as CAIP-2 has it. No payload
// has it: what a transaction says of the block it refers to is of one network alone.
func (tronWords) network(signerID string) error {
	const prefix, bytes = "0x", 4
	if len(signerID) > len(prefix) {
		if b, err := hex.DecodeString(signerID[len(prefix):]); err == nil && len(b) == bytes && signerID == prefix+hex.EncodeToString(b) {
			return nil
		}
	}
	return errors.New("want the last four bytes of the first block's identifier, such as 0x2b6653dc")
}
