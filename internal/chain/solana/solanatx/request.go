package solanatx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Request is a payment by the wallet of a stranger: a page hands it over without signatures, and the stranger signs it
// or not. The signer of the service never sees one. It names a recent block, so it expires after about a minute, and
// it does not say what the payer offers for compute units: wallets add that themselves.
type Request struct {
	// Payer has the value, pays the fee and signs alone.
	Payer chain.Address
	// Payee is the wallet that is paid. A token goes to its associated account, which has to exist: its rent is no part
	// of a price.
	Payee        chain.Address
	Mint         chain.Address // "" for the native coin, like TokenProgram
	TokenProgram chain.Address
	Decimals     uint8        // of the mint; the chain compares it
	Amount       money.Amount // atomic units, 1 to 2^64-1
	// Reference is an account key that the transfer names besides its own, read only and without a signature. The
	// programs ignore it, and the payment is found by it, as in Solana Pay.
	Reference [keyBytes]byte
	Blockhash string // of a recent block, base58
}

// toInstructions returns the one instruction of a request.
func (r Request) toInstructions() (payer, blockhash [keyBytes]byte, ins []instruction, err error) {
	fail := func(act string, err error) ([keyBytes]byte, [keyBytes]byte, []instruction, error) {
		return payer, blockhash, nil, fmt.Errorf("%s: %w", act, err)
	}
	if payer, err = signerAccount(r.Payer); err != nil {
		return fail("payer", err)
	}
	if blockhash, err = decodeHash(r.Blockhash); err != nil {
		return fail("block", err)
	}
	if r.Payee == r.Payer {
		return fail("receiver", errors.New("it is the payer"))
	}
	move, err := NewMove(chain.Payment{From: r.Payer, To: r.Payee, Contract: r.Mint, Amount: r.Amount}, r.TokenProgram,
		r.Decimals, false)
	if err != nil {
		return fail("receiver", err)
	}
	if ins, err = move.toInstructions(payer); err != nil {
		return fail("transfer", err)
	}
	transfer := &ins[0]
	// An account that is named twice has the rights of both.
	for _, m := range append([]meta{readOnly(transfer.program)}, transfer.accounts...) {
		if m.key == r.Reference {
			return fail("reference", errors.New("it is an account of the transfer"))
		}
	}
	transfer.accounts = append(transfer.accounts, readOnly(r.Reference))
	return payer, blockhash, ins, nil
}

// Payload encodes the message that the payer signs.
func (r Request) Payload() ([]byte, error) {
	payer, blockhash, ins, err := r.toInstructions()
	if err != nil {
		return nil, err
	}
	return compileMessage(payer, blockhash, ins)
}

// Unsigned encodes the transaction as wallets take it: the message behind an empty signature.
func (r Request) Unsigned() ([]byte, error) {
	payload, err := r.Payload()
	if err != nil {
		return nil, err
	}
	return append(append([]byte{1}, make([]byte, signatureBytes)...), payload...), nil
}

// unitsBytes is the size of an amount in an instruction.
const unitsBytes = 8

// DecodeRequest decodes what Unsigned writes, and nothing else. Payee is the account that receives, which for a token
// is the associated account.
func DecodeRequest(raw []byte) (r Request, err error) {
	head := append([]byte{1}, make([]byte, signatureBytes)...)
	payload, isUnsigned := bytes.CutPrefix(raw, head)
	if !isUnsigned {
		return r, errors.New("it has another number of signatures than one empty one")
	}
	m, err := parseMessage(payload)
	if err != nil {
		return r, err
	}
	if len(m.ins) != 1 || m.signers != 1 {
		return r, fmt.Errorf("it has %d instructions and %d signers, not one of each", len(m.ins), m.signers)
	}
	transfer := m.ins[0]
	r.Payer, r.Blockhash = Canonical(m.keys[0]), string(Canonical(m.hash))
	var units []byte
	if transfer.program == system {
		const accounts = 3
		if transfer, err = transfer.expect(system, transferData, accounts, unitsBytes); err != nil {
			return Request{}, err
		}
		r.Payee, r.Reference, units = Canonical(transfer.accounts[1]), transfer.accounts[2], transfer.args
		if transfer.accounts[0] != m.keys[0] {
			return Request{}, errors.New("it moves the coin of another account than its payer")
		}
	} else {
		const accounts = 5
		if transfer, err = transfer.expect(transfer.program, transferChecked, accounts, unitsBytes+1); err != nil {
			return Request{}, err
		}
		r.TokenProgram, r.Mint = Canonical(transfer.program), Canonical(transfer.accounts[1])
		r.Payee, r.Reference = Canonical(transfer.accounts[2]), transfer.accounts[4]
		units, r.Decimals = transfer.args[:unitsBytes], transfer.args[unitsBytes]
		source, err := AssociatedAccount(r.Payer, r.Mint, r.TokenProgram)
		if err != nil {
			return Request{}, err
		}
		if Canonical(transfer.accounts[0]) != source || transfer.accounts[3] != m.keys[0] {
			return Request{}, errors.New("it moves the token of another account than that of its payer")
		}
	}
	r.Amount = money.Units(binary.LittleEndian.Uint64(units))
	return r, nil
}
