package sim

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
)

// decodeTx decodes a signed transaction and recovers its signer.
func decodeTx(chainID uint64, raw []byte) (*tx, error) {
	signed, from, hash, err := evmtx.DecodeSigned(raw)
	if err != nil {
		return nil, fmt.Errorf("not a transaction: %w", err)
	}
	if signed.ChainID != chainID {
		return nil, fmt.Errorf("transaction of chain %d", signed.ChainID)
	}
	contract, to, amount, err := evmtx.ParsePayee(signed)
	if err != nil {
		return nil, fmt.Errorf("no contract here knows this call: %w", err)
	}
	m := Move{Kind: chain.Native, From: from, To: to, Contract: contract, Amount: amount}
	if contract != "" {
		m.Kind = chain.Token
	}
	return &tx{
		hash: hash, from: from, nonce: signed.Nonce, gasLimit: signed.Gas, tip: signed.TipCap, feeCap: signed.FeeCap,
		moves: []Move{m},
	}, nil
}

// AddressCodec returns the codec of this chain's addresses.
func (c *Chain) AddressCodec() chain.AddressCodec { return evmtx.AddressCodec{ChainID: c.conf.ChainID} }

// Build implements chain.Sender. The bytes are those of the real chain family, so that the real
// signer signs them.
func (c *Chain) Build(from chain.Address, s chain.Slot, f chain.Fees, ps ...chain.Payment) ([]byte, error) {
	if c.isSolana() {
		return c.buildSolana(from, s, f, ps)
	}
	p, err := chain.SinglePayment(ps)
	if err != nil {
		return nil, err
	}
	t, err := evmtx.NewPaymentTx(c.conf.ChainID, from, p, s.Nonce, f)
	if err != nil {
		return nil, err
	}
	return t.Payload()
}
