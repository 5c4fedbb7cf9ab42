package local

import (
	"encoding/hex"
	"errors"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
)

// singleTxFamilies are the families whose slots prevent nothing on the chain. Of each intent one
// transaction is signed, in every case, and no cancel.
var singleTxFamilies = map[chain.Family]bool{chain.TronFamily: true}

// tronCodec is the codec of package trontx.
type tronCodec struct{}

func (tronCodec) decode(payload []byte) (txEffect, error) {
	tx, err := trontx.Decode(payload)
	if err != nil {
		return txEffect{}, err
	}
	return txEffect{
		slot: signer.Slot{Key: tx.SlotKey()}, payer: tx.Owner, maxCost: tx.MaxCost(),
		checkPayments: singlePayment(tx.CheckPayment),
		checkCancel: func(chain.Address) error {
			return errors.New("a transaction of TRON cannot be cancelled: it ends when it expires")
		},
	}, nil
}

func (tronCodec) signPayload(payload []byte, signKeys ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	if len(signKeys) != 1 {
		return nil, "", errors.New("a transaction of this family has one signature")
	}
	signature := signKeys[0].SignHash(trontx.Digest(payload))
	return trontx.AttachSignature(payload, signature[:])
}

func (tronCodec) isCanonical(a chain.Address) bool {
	_, err := trontx.Bytes(a)
	return err == nil
}

func (tronCodec) separateFeePayer() bool { return false }

func (tronCodec) slotResources(slotKey string) []string { return []string{slotKey} }

// checkSignerID accepts the end of the identifier of the first block, as CAIP-2 defines it. No
// payload contains it: a transaction's reference to a block is of one network alone.
func (tronCodec) checkSignerID(signerID string) error {
	const prefix, bytes = "0x", 4
	if len(signerID) > len(prefix) {
		if b, err := hex.DecodeString(signerID[len(prefix):]); err == nil && len(b) == bytes &&
			signerID == prefix+hex.EncodeToString(b) {
			return nil
		}
	}
	return errors.New("want the last four bytes of the first block's identifier, such as 0x2b6653dc")
}
