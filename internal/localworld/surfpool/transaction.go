package surfpool

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

const (
	budgetProgram chain.Address = "ComputeBudget111111111111111111111111111111"
	lookupProgram chain.Address = "AddressLookupTab1e1111111111111111111111111"
	// computeUnits is the compute limit of a transaction. A higher limit makes a transaction differ
	// from the one before.
	computeUnits = 400_000
)

// Meta is an account as an instruction names it.
type Meta struct {
	Address          chain.Address
	Signer, Writable bool
}

// Instruction is a call of a program.
type Instruction struct {
	Program  chain.Address
	Accounts []Meta
	Data     []byte
}

// Transaction is any transaction. The first of Keys pays the fee.
type Transaction struct {
	Keys         []ed25519.PrivateKey
	Instructions []Instruction
	// Price is in micro-lamports per compute unit.
	Price uint64
	// LookupTable names a lookup table (see PlaceLookupTable), and TableAddresses its contents. The
	// transaction then has version 0 and reads accounts that do not sign from the table.
	LookupTable    chain.Address
	TableAddresses []chain.Address
}

// SendTx sends a transaction and returns its signature as soon as the chain has run it, whether or
// not it succeeded. The next block contains it.
func (n *Node) SendTx(ctx context.Context, tx Transaction) (chain.TxHash, error) {
	raw, _, err := n.SignTx(ctx, tx)
	if err != nil {
		return "", err
	}
	return n.SendRaw(ctx, raw)
}

// SignTx signs a transaction for SendRaw. A caller that stores the bytes first can send them again.
func (n *Node) SignTx(ctx context.Context, tx Transaction) (raw []byte, hash chain.TxHash, err error) {
	recent, err := n.latestBlockhash(ctx)
	if err != nil {
		return nil, "", err
	}
	budget := []Instruction{computeLimit(computeUnits + uint32(n.sent.Add(1)%1_000_000))}
	if tx.Price > 0 {
		budget = append(budget, computePrice(tx.Price))
	}
	tx.Instructions = append(budget, tx.Instructions...)
	if raw, err = tx.encodeSigned(recent); err != nil {
		return nil, "", err
	}
	// The first signature is the hash. One byte before it has their number.
	return raw, chain.TxHash(base58.Encode(raw[1 : 1+ed25519.SignatureSize])), nil
}

// SendRaw is SendTx for the bytes of a signed transaction.
func (n *Node) SendRaw(ctx context.Context, raw []byte) (chain.TxHash, error) {
	var signature chain.TxHash
	err := n.callRPC(ctx, &signature, "sendTransaction", base64.StdEncoding.EncodeToString(raw),
		map[string]any{"encoding": "base64", "skipPreflight": true})
	return signature, err
}

// SendAndCheck is SendTx, and returns an error if the transaction failed.
func (n *Node) SendAndCheck(ctx context.Context, tx Transaction) (chain.TxHash, error) {
	signature, err := n.SendTx(ctx, tx)
	if err != nil {
		return "", err
	}
	// The chain reports the status only after the next block.
	var ran *struct {
		Meta struct {
			Err any `json:"err"`
		} `json:"meta"`
	}
	if err := n.callRPC(ctx, &ran, "getTransaction", signature, map[string]any{
		"commitment": "processed", "maxSupportedTransactionVersion": 1, "encoding": "json",
	}); err != nil {
		return "", err
	}
	if ran == nil || ran.Meta.Err != nil {
		return signature, fmt.Errorf("transaction %s has failed: %+v", signature, ran)
	}
	return signature, nil
}

// encodeSigned encodes a transaction. Its accounts are ordered: signers that are written, other
// signers, other accounts that are written, the remaining ones.
func (tx Transaction) encodeSigned(recent string) ([]byte, error) {
	if len(tx.Keys) == 0 {
		return nil, errors.New("the transaction has no fee payer")
	}
	metas := []Meta{{AddressOf(tx.Keys[0]), true, true}}
	addMeta := func(m Meta) {
		i := slices.IndexFunc(metas, func(o Meta) bool { return o.Address == m.Address })
		if i < 0 {
			metas = append(metas, m)
			return
		}
		metas[i].Signer = metas[i].Signer || m.Signer
		metas[i].Writable = metas[i].Writable || m.Writable
	}
	var programs []chain.Address
	for _, ins := range tx.Instructions {
		for _, m := range ins.Accounts {
			addMeta(m)
		}
		addMeta(Meta{Address: ins.Program})
		programs = append(programs, ins.Program)
	}
	rank := func(m Meta) int {
		switch {
		case tx.looksUp(m, programs) && m.Writable:
			return 4
		case tx.looksUp(m, programs):
			return 5
		case m.Signer && m.Writable:
			return 0
		case m.Signer:
			return 1
		case m.Writable:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(metas, func(a, b Meta) int { return rank(a) - rank(b) })
	var count [6]int
	for _, m := range metas {
		count[rank(m)]++
	}
	index := map[chain.Address]byte{}
	for i, m := range metas {
		index[m.Address] = byte(i)
	}
	static := metas[:len(metas)-count[4]-count[5]]
	if len(metas) > 256 {
		return nil, fmt.Errorf("%d accounts are too many", len(metas))
	}

	var msg []byte
	if tx.LookupTable != "" {
		msg = append(msg, 0x80) // version 0
	}
	msg = append(msg, byte(count[0]+count[1]), byte(count[1]), byte(count[3]))
	msg = appendLength(msg, len(static))
	var err error
	for _, m := range static {
		if msg, err = appendAddress(msg, m.Address); err != nil {
			return nil, err
		}
	}
	if msg, err = appendAddress(msg, chain.Address(recent)); err != nil {
		return nil, fmt.Errorf("recent blockhash: %w", err)
	}
	msg = appendLength(msg, len(tx.Instructions))
	for _, ins := range tx.Instructions {
		msg = append(msg, index[ins.Program])
		msg = appendLength(msg, len(ins.Accounts))
		for _, m := range ins.Accounts {
			msg = append(msg, index[m.Address])
		}
		msg = appendLength(msg, len(ins.Data))
		msg = append(msg, ins.Data...)
	}
	if tx.LookupTable != "" {
		msg = appendLength(msg, 1)
		if msg, err = appendAddress(msg, tx.LookupTable); err != nil {
			return nil, err
		}
		lookedUp := metas[len(static):]
		for _, part := range [][]Meta{lookedUp[:count[4]], lookedUp[count[4]:]} {
			msg = appendLength(msg, len(part))
			for _, m := range part {
				msg = append(msg, byte(slices.Index(tx.TableAddresses, m.Address)))
			}
		}
	}

	raw := appendLength(nil, count[0]+count[1])
	for _, m := range metas[:count[0]+count[1]] {
		i := slices.IndexFunc(tx.Keys, func(k ed25519.PrivateKey) bool { return AddressOf(k) == m.Address })
		if i < 0 {
			return nil, fmt.Errorf("there is no key for %s", m.Address)
		}
		raw = append(raw, ed25519.Sign(tx.Keys[i], msg)...)
	}
	return append(raw, msg...), nil
}

// looksUp reports whether an account is read from the table. Programs never are.
func (tx Transaction) looksUp(m Meta, programs []chain.Address) bool {
	return tx.LookupTable != "" && !m.Signer && slices.Contains(tx.TableAddresses, m.Address) &&
		!slices.Contains(programs, m.Address)
}

func appendAddress(b []byte, a chain.Address) ([]byte, error) {
	raw, err := solanatx.Bytes(a)
	return append(b, raw[:]...), err
}

// appendLength appends a length in the chain's short form, seven bits per byte.
func appendLength(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func computeLimit(units uint32) Instruction {
	return Instruction{Program: budgetProgram, Data: binary.LittleEndian.AppendUint32([]byte{2}, units)}
}

func computePrice(microLamports uint64) Instruction {
	return Instruction{Program: budgetProgram, Data: binary.LittleEndian.AppendUint64([]byte{3}, microLamports)}
}

// PlaceLookupTable sets up a lookup table at an address, as old as the chain.
func (n *Node) PlaceLookupTable(ctx context.Context, address chain.Address, addresses ...chain.Address) error {
	data := binary.LittleEndian.AppendUint32(nil, 1)          // a table
	data = binary.LittleEndian.AppendUint64(data, ^uint64(0)) // never deactivated
	data = binary.LittleEndian.AppendUint64(data, 0)          // last extended in slot
	data = append(append(data, 0, 0), make([]byte, 32+2)...)  // from index, no authority, padding
	var err error
	for _, a := range addresses {
		if data, err = appendAddress(data, a); err != nil {
			return err
		}
	}
	return n.SetAccount(ctx, address, LamportsPerSOL, lookupProgram, data)
}

// NewKey returns a new key, whose account is empty.
func NewKey() (ed25519.PrivateKey, error) {
	_, k, err := ed25519.GenerateKey(nil)
	return k, err
}

// EncodeKey returns a key as wallets and local.json write it.
func EncodeKey(k ed25519.PrivateKey) string { return base58.Encode(k) }
