package surfpool

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// Mints of every local chain, at their addresses of the main network.
const (
	USDC chain.Address = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
	USDT chain.Address = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"
)

// WrappedSOL is the mint of SOL in a token account.
const WrappedSOL chain.Address = "So11111111111111111111111111111111111111112"

const (
	// RentOfTokenAccount is the rent-exempt minimum of a token account without extensions.
	RentOfTokenAccount = 2_039_280

	mintBytes         = 82
	tokenAccountBytes = 165
	mintType          = 1 // after tokenAccountBytes, where a mint has extensions
	rentOfMint        = 10_000_000
	tokensMinted      = 1_000_000_000 // to the faucet, in whole tokens
)

// Mint is a token that PlaceMint sets up.
type Mint struct {
	Address    chain.Address
	Program    chain.Address // solanatx.TokenProgram or solanatx.Token2022Program
	Decimals   byte
	Extensions []Extension // of Token-2022 only
}

// Extension is an extension of a Token-2022 mint.
type Extension struct {
	Type uint16
	Data []byte
}

// TransferFee takes a part of each transfer, in basis points, at most feeMax units.
func TransferFee(basisPoints uint16, feeMax uint64) Extension {
	data := make([]byte, 32+32) // no authority may change the fee or withdraw what it withheld
	data = binary.LittleEndian.AppendUint64(data, 0)
	for range 2 { // before and after a change, which never happens
		data = binary.LittleEndian.AppendUint64(data, 0)
		data = binary.LittleEndian.AppendUint64(data, feeMax)
		data = binary.LittleEndian.AppendUint16(data, basisPoints)
	}
	return Extension{Type: 1, Data: data}
}

// PermanentDelegate may move the tokens of every owner.
func PermanentDelegate(delegate chain.Address) Extension {
	data, err := appendAddress(nil, delegate)
	if err != nil {
		panic("a permanent delegate without an address: " + err.Error())
	}
	return Extension{Type: 12, Data: data}
}

// placeTokens sets up USDC and USDT and gives the faucet plenty of them.
func (n *Node) placeTokens(ctx context.Context) error {
	for _, mint := range []chain.Address{USDC, USDT} {
		m := Mint{Address: mint, Program: solanatx.TokenProgram, Decimals: 6}
		if err := n.PlaceMint(ctx, m); err != nil {
			return err
		}
		if err := n.MintTo(ctx, m, n.FaucetAddress(), tokensMinted*1_000_000); err != nil {
			return err
		}
	}
	return nil
}

// PlaceMint sets up a mint at its address. The faucet may mint and freeze.
func (n *Node) PlaceMint(ctx context.Context, m Mint) error {
	faucet, err := solanatx.Bytes(n.FaucetAddress())
	if err != nil {
		return err
	}
	data := append(binary.LittleEndian.AppendUint32(nil, 1), faucet[:]...) // may mint
	data = binary.LittleEndian.AppendUint64(data, 0)                       // supply
	data = append(data, m.Decimals, 1)                                     // initialized
	data = append(binary.LittleEndian.AppendUint32(data, 1), faucet[:]...) // may freeze
	if len(m.Extensions) > 0 {
		data = append(data, make([]byte, tokenAccountBytes-mintBytes)...)
		data = append(data, mintType)
		for _, e := range m.Extensions {
			data = binary.LittleEndian.AppendUint16(data, e.Type)
			data = binary.LittleEndian.AppendUint16(data, uint16(len(e.Data)))
			data = append(data, e.Data...)
		}
	}
	if err := n.SetAccount(ctx, m.Address, rentOfMint, m.Program, data); err != nil {
		return fmt.Errorf("place the mint %s: %w", m.Address, err)
	}
	return nil
}

// SetAccount sets an account without a transaction: no block contains it.
func (n *Node) SetAccount(
	ctx context.Context, address chain.Address, lamports uint64, owner chain.Address, data []byte,
) error {
	return n.callRPC(ctx, nil, "surfnet_setAccount", address, map[string]any{
		"lamports": lamports, "owner": owner, "data": hex.EncodeToString(data),
	})
}

// SetLamports sets the lamports of an account without a transaction.
func (n *Node) SetLamports(ctx context.Context, address chain.Address, lamports uint64) error {
	return n.callRPC(ctx, nil, "surfnet_setAccount", address, map[string]any{"lamports": lamports})
}

// PayLamports sends lamports from the faucet.
func (n *Node) PayLamports(ctx context.Context, recipient chain.Address, lamports uint64) (chain.TxHash, error) {
	return n.SendAndCheck(ctx, n.faucetTx(TransferLamports(n.FaucetAddress(), recipient, lamports)))
}

// PayToken sends units of a token of the Token program from the faucet to the associated account of
// an owner. It creates that account if there is none.
func (n *Node) PayToken(ctx context.Context, mint, recipient chain.Address, units uint64) (chain.TxHash, error) {
	m := Mint{Address: mint, Program: solanatx.TokenProgram, Decimals: 6}
	return n.SendAndCheck(ctx, n.faucetTx(m.CreateAccount(n.FaucetAddress(), recipient),
		m.TransferTokens(
			m.AssociatedAccount(n.FaucetAddress()), m.AssociatedAccount(recipient), n.FaucetAddress(), units)))
}

// MintTo mints units of a token to the associated account of an owner. It creates that account if
// there is none.
func (n *Node) MintTo(ctx context.Context, m Mint, owner chain.Address, units uint64) error {
	_, err := n.SendAndCheck(
		ctx,
		n.faucetTx(
			m.CreateAccount(n.FaucetAddress(), owner), m.MintTo(m.AssociatedAccount(owner), n.FaucetAddress(), units),
		),
	)
	if err != nil {
		return fmt.Errorf("mint %s to %s: %w", m.Address, owner, err)
	}
	return nil
}

func (n *Node) faucetTx(ins ...Instruction) Transaction {
	return Transaction{Keys: keyList(n.faucet), Instructions: ins}
}
