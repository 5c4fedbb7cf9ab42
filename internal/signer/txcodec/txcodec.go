// Package txcodec decodes the unsigned transactions of each family of chains, for the signer that
// decides about them, and attaches the signatures.
//
// It decides nothing, and it never signs with another key than those that it is given. An effect
// that it cannot express is an error.
package txcodec

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
	"github.com/cofferpay/coffer/internal/signer/window"
)

// Codec decodes and signs the transactions of one family, and checks its addresses. Codecs are
// pure.
type Codec interface {
	// Decode returns what a payload does once it is mined. Anything that Effect cannot express is
	// an error.
	Decode(payload []byte) (Effect, error)
	// Sign makes the bytes to broadcast, with the keys of those who have to sign. The key of
	// the wallet that owns the slot is first.
	Sign(payload []byte, signKeys ...keys.WalletKey) (raw []byte, hash chain.TxHash, err error)
	// IsCanonical reports whether an address or contract is in the family's canonical form.
	IsCanonical(a chain.Address) bool
	// SeparateFeePayer reports whether a wallet other than the one that pays the amount may pay the
	// fee.
	SeparateFeePayer() bool
	// CheckSignerID returns what is wrong with a policy's signerId.
	CheckSignerID(signerID string) error
	// SlotResources returns what a slot key takes on the chain: no other slot key may ever take one
	// of them. A key that cannot be decoded takes nothing, and no payload contains it either.
	SlotResources(slotKey string) []string
}

// Find returns the codec of a family, or nil for one that this signer has no keys for.
func Find(family chain.Family) Codec { return codecs[family] }

var codecs = map[chain.Family]Codec{
	chain.EVM:           evmCodec{},
	chain.SolanaFamily:  solanaCodec{},
	chain.BitcoinFamily: bitcoinCodec{},
}

// NonceAccounts is implemented by the codec of a family with nonce accounts.
type NonceAccounts interface {
	// NonceAccountCost returns the minimum balance and the whole cost of a treasury's nonce account
	// at an address. ok is false if the address is none of that treasury's nonce accounts.
	NonceAccountCost(treasury, address chain.Address) (minBalance, costs money.Amount, ok bool)
}

// TokenAccounts is implemented by the codec of a family that holds tokens in accounts.
type TokenAccounts interface {
	// TokenAccountCost returns the least that a transaction costs which creates a token account.
	TokenAccountCost() money.Amount
}

// PayoutContract is implemented by the codec of a family on whose chains a contract makes several payments in one
// transaction.
type PayoutContract interface {
	// PayoutContract returns the address of the contract, which follows from its code.
	PayoutContract() chain.Address
}

// Effect is what the bytes of a payload do: all that the rules compare.
type Effect struct {
	NetworkID   string        // the signerId inside; "" where a slot is of one network alone
	Slot        signer.Slot   // the slot inside; with a Key it has no Nonce, which is not on the chain
	Payer       chain.Address // pays the fee; "" where only the signature shows it
	MaxCost     money.Amount  // at most, in native units
	VirtualSize uint64        // virtual bytes, on the chains that charge for those; else 0
	// CheckPayments returns nil if the transaction makes exactly these payments in this order and
	// does nothing else, and otherwise what differs. Where only the signature shows the payer,
	// Sign compares whose key signs.
	CheckPayments func(...chain.Payment) error
	// CheckCancel returns why the transaction is no cancel of an account.
	CheckCancel func(account chain.Address) error
	// checkProof returns why a proof does not show that the chain mines at most one transaction of
	// the slot; it is nil where no proof is needed.
	checkProof func(proof string) error
	// Inputs holds the owners of the spent outputs and the change address, on chains where funds
	// are outputs. It is nil where the intent's own wallets sign.
	Inputs *Inputs
}

// Inputs holds the addresses of the outputs that a payload spends, one for each signature, and
// the address of the change.
type Inputs struct {
	Owners []chain.Address
	Change chain.Address
}

// TakesSlot reports whether the transaction takes exactly this slot.
func (d Effect) TakesSlot(slot signer.Slot) bool {
	if d.Slot.Key != "" {
		return d.Slot.Key == slot.Key
	}
	return d.Slot == slot
}

// VerifyProof returns an error unless the slot is proven, where a proof is needed.
func (d Effect) VerifyProof(proof string) error {
	switch {
	case d.checkProof != nil:
		return d.checkProof(proof)
	case proof != "":
		return errors.New("there is a proof, and nothing for it to prove")
	}
	return nil
}

// singlePayment makes a CheckPayments for a family whose transactions make one payment.
func singlePayment(pays func(chain.Payment) error) func(...chain.Payment) error {
	return func(ps ...chain.Payment) error {
		if len(ps) != 1 {
			return fmt.Errorf("a transaction of this family makes one payment, not %d", len(ps))
		}
		return pays(ps[0])
	}
}

// evmCodec is the codec of package evmtx.
type evmCodec struct{}

func (evmCodec) Decode(payload []byte) (Effect, error) {
	tx, err := evmtx.Decode(payload)
	if err != nil {
		return Effect{}, err
	}
	return Effect{
		NetworkID: fmt.Sprint(tx.ChainID), Slot: signer.Slot{Nonce: tx.Nonce},
		MaxCost:       maxFee(chain.Fees{GasLimit: tx.Gas, TipCap: tx.TipCap, FeeCap: tx.FeeCap}),
		CheckPayments: func(ps ...chain.Payment) error { return evmtx.CheckPayments(tx, ps) },
		CheckCancel: func(account chain.Address) error {
			if tx.To != account || !tx.Value.IsZero() || len(tx.Data) != 0 {
				return fmt.Errorf("it does more than send zero from %s to itself", account)
			}
			return nil
		},
	}, nil
}

func (evmCodec) Sign(payload []byte, signKeys ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	if len(signKeys) != 1 {
		return nil, "", errors.New("a transaction of this family has one signature")
	}
	signature := signKeys[0].SignHash(evmtx.Digest(payload))
	return evmtx.AttachSignature(payload, signature[:], signKeys[0].Address())
}

func (evmCodec) IsCanonical(a chain.Address) bool {
	_, err := evmtx.Bytes(a)
	return err == nil
}

func (evmCodec) SeparateFeePayer() bool { return false }

func (evmCodec) PayoutContract() chain.Address { return evmtx.PayoutContract }

func (evmCodec) SlotResources(string) []string { return nil }

func (evmCodec) CheckSignerID(signerID string) error {
	if n, err := money.Parse(signerID); err != nil || n.IsZero() {
		return errors.New("want the chain id in decimal")
	}
	return nil
}

// solanaCodec is the codec of package solanatx.
type solanaCodec struct{}

func (solanaCodec) Decode(payload []byte) (Effect, error) {
	tx, err := solanatx.Decode(payload)
	if err != nil {
		// A creation names a recent block, so every signed one may be mined. The chain creates the
		// account once, and the fees of the others are counted: see the signer's addedCost.
		creation, creationErr := solanatx.DecodeNonceCreation(payload)
		if creationErr != nil {
			return Effect{}, fmt.Errorf("%w; and it creates no nonce account: %w", err, creationErr)
		}
		return Effect{
			Slot: signer.Slot{Key: creation.SlotKey()}, Payer: creation.Treasury, MaxCost: creation.MaxCost(),
			CheckPayments: singlePayment(creation.CheckPayment),
			CheckCancel:   func(chain.Address) error { return errors.New("it creates a nonce account") },
		}, nil
	}
	return Effect{
		Slot: signer.Slot{Key: tx.SlotKey()}, Payer: tx.Payer, MaxCost: tx.MaxCost(), CheckPayments: tx.CheckPayments,
		checkProof: tx.CheckProof,
		CheckCancel: func(account chain.Address) error {
			if tx.Payer != account || len(tx.Moves) != 0 || len(tx.Closes) != 0 || tx.Creation != nil {
				return fmt.Errorf("it does more than advance the nonce of %s", account)
			}
			return nil
		},
	}, nil
}

func (solanaCodec) Sign(payload []byte, signKeys ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	signers, err := solanatx.Signers(payload)
	if err != nil {
		return nil, "", err
	}
	if len(signers) != len(signKeys) {
		return nil, "", fmt.Errorf("the transaction has %d signatures and needs %d", len(signers),
			len(signKeys))
	}
	if len(signKeys) > 0 && signers[0] != signKeys[0].Address() {
		return nil, "", fmt.Errorf("signature 1 of the transaction is that of %s, not of %s", signers[0],
			signKeys[0].Address())
	}
	signatures := make([][64]byte, len(signKeys))
	for i, address := range signers {
		position := slices.IndexFunc(signKeys, func(key keys.WalletKey) bool { return key.Address() == address })
		if position < 0 {
			return nil, "", fmt.Errorf("signature %d of the transaction is that of %s, which does not have to sign",
				i+1, address)
		}
		signatures[i] = signKeys[position].SignMessage(payload)
	}
	return solanatx.AttachSignatures(payload, signatures...)
}

func (solanaCodec) IsCanonical(a chain.Address) bool {
	_, err := solanatx.Bytes(a)
	return err == nil
}

func (solanaCodec) SeparateFeePayer() bool { return true }

func (solanaCodec) SlotResources(slotKey string) []string { return []string{slotKey} }

// NonceAccountCost accepts only as many nonce accounts as a recovery searches for: the rent of one
// that is never found again would be lost.
func (solanaCodec) NonceAccountCost(treasury, address chain.Address) (minBalance, cost money.Amount, ok bool) {
	for n := range uint32(solanatx.NonceAccountsMax) {
		c := solanatx.NonceCreation{Treasury: treasury, N: n}
		if c.SlotKey() == string(address) {
			return money.Units(solanatx.NonceRent), c.MaxCost(), true
		}
	}
	return money.Zero, money.Zero, false
}

// TokenAccountCost contains the greater rent of both token programs.
func (solanaCodec) TokenAccountCost() money.Amount { return solanatx.CreationCostMin() }

// CheckSignerID accepts the hash of the first block. No payload contains it: a nonce's value is of
// one network alone.
func (solanaCodec) CheckSignerID(signerID string) error {
	if _, err := solanatx.Bytes(chain.Address(signerID)); err != nil {
		return errors.New("want the hash of the network's first block in base58")
	}
	return nil
}

// bitcoinCodec is the codec of package bitcointx.
type bitcoinCodec struct{}

func (bitcoinCodec) Decode(payload []byte) (Effect, error) {
	tx, err := bitcointx.Decode(payload)
	if err != nil {
		return Effect{}, err
	}
	inputs := &Inputs{Change: tx.SlotKey.Change}
	for _, c := range tx.SlotKey.Inputs {
		inputs.Owners = append(inputs.Owners, c.Owner)
	}
	return Effect{
		Slot: signer.Slot{Key: tx.SlotKey.String()}, MaxCost: tx.Fee(), VirtualSize: tx.VirtualSize(), Inputs: inputs,
		CheckPayments: func(ps ...chain.Payment) error { return tx.CheckPayments(ps) },
		CheckCancel:   func(chain.Address) error { return tx.CheckCancel() },
	}, nil
}

func (bitcoinCodec) Sign(payload []byte, signKeys ...keys.WalletKey) ([]byte, chain.TxHash, error) {
	expected, err := bitcointx.SigningInputs(payload)
	if err != nil {
		return nil, "", err
	}
	if len(expected) != len(signKeys) {
		return nil, "", fmt.Errorf("the transaction has %d signatures and needs %d", len(expected),
			len(signKeys))
	}
	signatures := make([][]byte, len(signKeys))
	for i, key := range signKeys {
		if expected[i].Owner != key.Address() {
			return nil, "", fmt.Errorf("signature %d of the transaction is that of %s, not of %s", i+1,
				expected[i].Owner, key.Address())
		}
		signatures[i] = key.SignInput(expected[i].Hash)
	}
	return bitcointx.AttachSignatures(payload, signatures...)
}

// bitcoinNetworks are tried in order: an address shows its network.
var bitcoinNetworks = []chain.Network{chain.Mainnet, chain.Testnet, chain.Local}

func (bitcoinCodec) IsCanonical(a chain.Address) bool {
	for _, n := range bitcoinNetworks {
		if _, err := bitcointx.Script(n, a); err == nil {
			return true
		}
	}
	return false
}

// SeparateFeePayer returns true: outputs of the treasury pay the fee of a return from another
// address.
func (bitcoinCodec) SeparateFeePayer() bool { return true }

// CheckSignerID accepts the hash of the first block. No payload contains it: an output is of one
// network alone.
func (bitcoinCodec) CheckSignerID(signerID string) error {
	if h, err := chainhash.NewHashFromStr(signerID); err != nil || h.String() != signerID {
		return errors.New("want the hash of the network's first block in hexadecimal")
	}
	return nil
}

// SlotResources returns each spent output, because two transactions that share one could not both
// be mined. It also returns the change address, so that an address receives the change of one slot
// only: the owner of that change is then never in doubt.
func (bitcoinCodec) SlotResources(slotKey string) []string {
	for _, n := range bitcoinNetworks {
		if l, err := bitcointx.ParseSlotKey(n, slotKey); err == nil {
			resources := make([]string, len(l.Inputs), len(l.Inputs)+1)
			for i, c := range l.Inputs {
				resources[i] = c.Outpoint
			}
			return append(resources, string(l.Change))
		}
	}
	return nil
}

// maxFee returns the most that a transaction can cost.
func maxFee(f chain.Fees) money.Amount {
	fee, err := f.Max()
	if err != nil {
		return window.AmountMax
	}
	return fee
}
