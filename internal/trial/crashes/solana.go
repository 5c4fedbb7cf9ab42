package crashes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

// solana is surfpool. It runs what it is sent at once, so what waits there waits at the
// provider, as on a network that is too full for it.
type solana struct {
	plain
	node *surfpool.Node
}

func openSolana(w *localworld.World) network { return solana{node: w.Solana()} }

func (s solana) url() string                    { return s.node.URL }
func (s solana) mine(ctx context.Context) error { return s.node.Mine(ctx, 1) }
func (solana) every() time.Duration             { return 40 * time.Millisecond } // 31 blocks until one is final

// ahead is more than the walk is behind at any time, and less than what the state of a
// block is kept for: blocks this quick are more than a busy machine can walk.
func (solana) ahead() uint64 { return 4 * surfpool.Finality }

func (solana) sends() string            { return "sendTransaction" }
func (solana) pool(t *town, waits bool) { t.provider.forget(waits) }
func (s solana) truth() truth           { return solanaTruth{oracle.OpenSolana(s.node.URL, s.node.Slot()-1)} }

func (s solana) head(context.Context) (height, behind uint64, err error) {
	return s.node.Slot() - 1, surfpool.Finality, nil
}

func (s solana) height(ctx context.Context, tx string) (slot uint64, err error) {
	err = until(ctx, "the transaction is in a block", sceneMax, func(ctx context.Context) (bool, error) {
		var answer struct{ Value []*struct{ Slot uint64 } }
		err := s.node.RPC.CallContext(ctx, &answer, "getSignatureStatuses", []string{tx})
		if err != nil || len(answer.Value) != 1 || answer.Value[0] == nil {
			return false, err
		}
		slot = answer.Value[0].Slot
		return true, nil
	})
	return slot, err
}

// readied waits for the treasury's places.
func (solana) readied(ctx context.Context, t *town) error {
	return until(ctx, "the treasury has its places", drainMax, func(ctx context.Context) (bool, error) {
		var is string
		err := t.query(ctx, `SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'DONE'), count(*) FILTER (WHERE status = 'OPEN')) FROM places`, nil, &is)
		if err == nil && (is == "0 0" || is[len(is)-2:] != " 0") {
			err = errors.New("done and open: " + is)
		}
		return err == nil, err
	})
}

func (solana) nobody(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(surfpool.AddressOf(ed25519.NewKeyFromSeed(sum[:])))
}

func (s solana) holds(ctx context.Context, token, who string) (*big.Int, error) {
	return oracle.OpenSolana(s.node.URL, 0).Holds(ctx, token, who)
}

func token(mint string) surfpool.Mint {
	return surfpool.Mint{Address: chain.Address(mint), Program: solanatx.TokenProgram, Decimals: 6}
}

// refuse freezes the token account, which is made where there is none.
func (s solana) refuse(ctx context.Context, mint, who string) error {
	m, faucet, owner := token(mint), s.node.FaucetAddress(), chain.Address(who)
	_, err := s.node.Do(ctx, surfpool.Transaction{
		Keys:         []ed25519.PrivateKey{s.node.Faucet()},
		Instructions: []surfpool.Instruction{m.Create(faucet, owner), m.Freeze(m.Account(owner), faucet)},
	})
	return err
}

func (s solana) stranger(ctx context.Context, mint string, units *big.Int) (stranger, error) {
	key, err := surfpool.NewKey()
	if err != nil {
		return stranger{}, err
	}
	m, from := token(mint), surfpool.AddressOf(key)
	if _, err := s.node.Pay(ctx, from, surfpool.LamportsPerSOL); err != nil {
		return stranger{}, err
	}
	_, err = s.node.PayToken(ctx, m.Address, from, units.Uint64())
	return stranger{string(from), func(ctx context.Context, _, to string, units *big.Int) (string, error) {
		owner := chain.Address(to)
		tx, err := s.node.Do(ctx, surfpool.Transaction{
			Keys:         []ed25519.PrivateKey{key},
			Instructions: []surfpool.Instruction{m.Create(from, owner), m.Transfer(m.Account(from), m.Account(owner), from, units.Uint64())},
		})
		return string(tx), err
	}}, err
}

// instead needs to do nothing about the other: it reached nobody.
func (s solana) instead(ctx context.Context, raw []byte, _ string) error {
	if _, err := s.node.SendRaw(ctx, raw); err != nil {
		return err
	}
	return s.mine(ctx)
}

var errNoForks = errors.New("surfpool has no forks")

func (solana) fork(context.Context, ...[]byte) error       { return errNoForks }
func (solana) raw(context.Context, string) ([]byte, error) { return nil, errNoForks }
func (solana) again(context.Context, []byte) error         { return errNoForks }
func (solana) id(text string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", err
	}
	_, hash, err := solanatx.Open(raw)
	return string(hash), err
}

// ran gives what failed the next nonce. Later would be too late: surfpool would run what
// replaces it in the same place as well, and charge for both.
func (s solana) ran(ctx context.Context, text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	tx, hash, err := solanatx.DecodeSigned(raw)
	if err != nil {
		return nil // it makes a place and is in none
	}
	return s.node.AfterFailure(ctx, hash, solanatx.Lease(tx.NonceAccount, tx.NonceValue))
}

func (solana) spoil(method string, answer []byte, address string) (json.RawMessage, bool) {
	return json.RawMessage(`{"transactions": "none"}`), method == "getBlock" && bytes.Contains(answer, []byte(address))
}

// solanaTruth knows no past balances: nothing moves while it is asked.
type solanaTruth struct{ *oracle.Solana }

// Holds is what an address has now.
func (t solanaTruth) Holds(ctx context.Context, asset, holder string, _ uint64) (*big.Int, error) {
	got, err := t.Solana.Holds(ctx, asset, holder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", holder, err)
	}
	return got, nil
}
