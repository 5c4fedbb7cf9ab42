package local

import (
	"errors"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
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
	// othersPay tells whether a transaction's fee may be paid by another wallet than the
	// one that pays its amount.
	othersPay() bool
	// network says what is wrong with a policy's signerId, in words.
	network(signerID string) error
	// places are what a lease takes on the chain: no other lease may ever take one of
	// them. A lease that cannot be read takes nothing, and is in no payload either.
	places(lease string) []string
}

// families are those that this signer has keys for.
var families = map[chain.Family]words{
	chain.EVM:           evmWords{},
	chain.SolanaFamily:  solanaWords{},
	chain.BitcoinFamily: bitcoinWords{},
	chain.TronFamily:    tronWords{},
}

// leasing are the words of a family that leases places.
type leasing interface {
	// place tells what a place at this address costs a treasury: what has to stay there,
	// and all of it. ok is false where it is none of that treasury's.
	place(treasury, at chain.Address) (stays, costs money.Amount, ok bool)
}

// A deed is what the bytes of a payload do: all that the rules compare.
type deed struct {
	network string        // the signerId of the network inside; "" where a slot is of one network alone
	slot    signer.Slot   // the place inside; a Lease goes without its Nonce, which is not on the chain
	payer   chain.Address // pays the fee; "" where only the signature tells
	costs   money.Amount  // at most, in native units
	size    uint64        // virtual bytes, on the chains that charge for those; else 0
	// pays says in which way it makes other payments, and nil when it makes just these in
	// this order and does nothing else. Whose key has to sign is for sign to compare, where
	// only that tells.
	pays func(...chain.Payment) error
	// cancels says in which way it is no cancel of an account.
	cancels func(account chain.Address) error
	// proves says in which way a proof does not show that the chain mines one transaction of
	// the slot at most; nil where that needs none.
	proves func(proof string) error
	// coins says whose coins it spends and where the rest of them goes, where accounts are
	// coins; nil where the intent's own wallets sign.
	coins *spends
}

// spends are the addresses that hold what a payload spends, one for each signature, and
// the one that gets what is left.
type spends struct {
	holders []chain.Address
	change  chain.Address
}

// in tells whether the deed takes just this slot.
func (d deed) in(s signer.Slot) bool {
	if d.slot.Lease != "" {
		return d.slot.Lease == s.Lease
	}
	return d.slot == s
}

// proven is an error unless the slot is shown to be one, where that needs a proof.
func (d deed) proven(proof string) error {
	switch {
	case d.proves != nil:
		return d.proves(proof)
	case proof != "":
		return errors.New("there is a proof, and nothing that it could be of")
	}
	return nil
}

// one is what pays is where a transaction makes one payment.
func one(pays func(chain.Payment) error) func(...chain.Payment) error {
	return func(ps ...chain.Payment) error {
		if len(ps) != 1 {
			return fmt.Errorf("a transaction of this family makes one payment, not %d", len(ps))
		}
		return pays(ps[0])
	}
}

// evmWords are those of package evmtx.
type evmWords struct{}

func (evmWords) read(payload []byte) (deed, error) {
	tx, err := evmtx.Decode(payload)
	if err != nil {
		return deed{}, err
	}
	return deed{
		network: fmt.Sprint(tx.ChainID), slot: signer.Slot{Nonce: tx.Nonce},
		costs: worst(chain.Fees{GasLimit: tx.Gas, TipCap: tx.TipCap, FeeCap: tx.FeeCap}),
		pays: one(func(p chain.Payment) error {
			contract, to, amount, err := evmtx.PayeeOf(tx)
			if err == nil && (contract != p.Contract || to != p.To || amount != p.Amount) {
				err = fmt.Errorf("it pays %v of %q to %s", amount, contract, to)
			}
			return err
		}),
		cancels: func(account chain.Address) error {
			if tx.To != account || !tx.Value.IsZero() || len(tx.Data) != 0 {
				return fmt.Errorf("it does more than send nothing from %s to itself", account)
			}
			return nil
		},
	}, nil
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

func (evmWords) othersPay() bool { return false }

func (evmWords) places(string) []string { return nil }

func (evmWords) network(signerID string) error {
	if n, err := money.Parse(signerID); err != nil || n.IsZero() {
		return errors.New("want the chain id in decimal")
	}
	return nil
}

// solanaWords are those of package solanatx.
type solanaWords struct{}

func (solanaWords) read(payload []byte) (deed, error) {
	tx, err := solanatx.Decode(payload)
	if err != nil {
		// It names a recent block, so each that is signed may be mined. The chain makes the
		// account once, and the fees of the others are counted: see intent.adds.
		made, no := solanatx.DecodeNonceCreation(payload)
		if no != nil {
			return deed{}, fmt.Errorf("%w; and it makes no nonce account: %w", err, no)
		}
		return deed{
			slot: signer.Slot{Lease: made.Lease()}, payer: made.Treasury, costs: made.MaxCost(), pays: one(made.Pays),
			cancels: func(chain.Address) error { return errors.New("it makes a nonce account") },
		}, nil
	}
	return deed{
		slot: signer.Slot{Lease: tx.Lease()}, payer: tx.Payer, costs: tx.MaxCost(), pays: tx.Pays, proves: tx.Proves,
		cancels: func(account chain.Address) error {
			if tx.Payer != account || len(tx.Moves) != 0 || len(tx.Closes) != 0 {
				return fmt.Errorf("it does more than advance the nonce of %s", account)
			}
			return nil
		},
	}, nil
}

func (solanaWords) sign(payload []byte, by ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	wanted, err := solanatx.Signers(payload)
	if err != nil {
		return nil, "", err
	}
	if len(wanted) != len(by) {
		return nil, "", fmt.Errorf("the transaction has %d signatures, and %d keys are for it", len(wanted), len(by))
	}
	if len(by) > 0 && wanted[0] != by[0].Address() {
		return nil, "", fmt.Errorf("signature 1 of the transaction is that of %s, not of %s", wanted[0], by[0].Address())
	}
	signatures := make([][64]byte, len(by))
	for i, address := range wanted {
		at := slices.IndexFunc(by, func(key keys.WalletKey) bool { return key.Address() == address })
		if at < 0 {
			return nil, "", fmt.Errorf("signature %d of the transaction is that of %s, which takes no part", i+1, address)
		}
		signatures[i] = by[at].SignMessage(payload)
	}
	return solanatx.Attach(payload, signatures...)
}

func (solanaWords) canonical(a chain.Address) bool {
	_, err := solanatx.Bytes(a)
	return err == nil
}

func (solanaWords) othersPay() bool { return true }

func (solanaWords) places(lease string) []string { return []string{lease} }

// place knows as many nonce accounts as anybody looks for: one that nobody finds again
// would be money lost.
func (solanaWords) place(treasury, at chain.Address) (stays, costs money.Amount, ok bool) {
	for n := range uint32(solanatx.NonceAccountsMax) {
		c := solanatx.NonceCreation{Treasury: treasury, N: n}
		if c.Lease() == string(at) {
			return money.Units(solanatx.NonceRent), c.MaxCost(), true
		}
	}
	return money.Zero, money.Zero, false
}

// network is the hash of the first block. No payload has it: a nonce's value is of one
// network alone.
func (solanaWords) network(signerID string) error {
	if _, err := solanatx.Bytes(chain.Address(signerID)); err != nil {
		return errors.New("want the hash of the network's first block in base58")
	}
	return nil
}

// bitcoinWords are those of package bitcointx.
type bitcoinWords struct{}

func (bitcoinWords) read(payload []byte) (deed, error) {
	tx, err := bitcointx.Decode(payload)
	if err != nil {
		return deed{}, err
	}
	coins := &spends{change: tx.Lease.Change}
	for _, c := range tx.Lease.Coins {
		coins.holders = append(coins.holders, c.Holder)
	}
	return deed{
		slot: signer.Slot{Lease: tx.Lease.String()}, costs: tx.Fee(), size: tx.Size(), coins: coins,
		pays:    func(ps ...chain.Payment) error { return tx.DoesPay(ps) },
		cancels: func(chain.Address) error { return tx.DoesCancel() },
	}, nil
}

func (bitcoinWords) sign(payload []byte, by ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	wanted, err := bitcointx.Spends(payload)
	if err != nil {
		return nil, "", err
	}
	if len(wanted) != len(by) {
		return nil, "", fmt.Errorf("the transaction has %d signatures, and %d keys are for it", len(wanted), len(by))
	}
	signatures := make([][]byte, len(by))
	for i, key := range by {
		if wanted[i].Holder != key.Address() {
			return nil, "", fmt.Errorf("signature %d of the transaction is that of %s, not of %s", i+1, wanted[i].Holder, key.Address())
		}
		signatures[i] = key.SignCoin(wanted[i].Hash)
	}
	return bitcointx.Attach(payload, signatures...)
}

// bitcoinNetworks are tried one after the other: an address tells its own.
var bitcoinNetworks = []chain.Network{chain.Mainnet, chain.Testnet, chain.Local}

func (bitcoinWords) canonical(a chain.Address) bool {
	for _, n := range bitcoinNetworks {
		if _, err := bitcointx.Script(n, a); err == nil {
			return true
		}
	}
	return false
}

// othersPay: coins of the treasury pay the fee of what goes back from another address.
func (bitcoinWords) othersPay() bool { return true }

// network is the hash of the first block. No payload has it: an output is of one network
// alone.
func (bitcoinWords) network(signerID string) error {
	if h, err := chainhash.NewHashFromStr(signerID); err != nil || h.String() != signerID {
		return errors.New("want the hash of the network's first block in hexadecimal")
	}
	return nil
}

// places are the outputs that are spent, each by itself: two sets that share one could not
// both be mined. And where the rest goes, so that an address gets the rest of one slot: whose
// it is that came there is never in question.
func (bitcoinWords) places(lease string) []string {
	for _, n := range bitcoinNetworks {
		if l, err := bitcointx.ParseLease(n, lease); err == nil {
			out := make([]string, len(l.Coins), len(l.Coins)+1)
			for i, c := range l.Coins {
				out[i] = c.Outpoint
			}
			return append(out, string(l.Change))
		}
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
