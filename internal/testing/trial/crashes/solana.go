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
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// solana is surfpool. It executes every transaction at once, so transactions wait at the provider
// proxy instead, as on a network that is too full for them.
type solana struct {
	simpleNetwork
	node *surfpool.Node
}

func openSolana(w *localworld.World) network { return solana{node: w.SolanaNode()} }

func (s solana) nodeURL() string                     { return s.node.URL }
func (s solana) mineBlock(ctx context.Context) error { return s.node.MineBlocks(ctx, 1) }
func (solana) blockInterval() time.Duration          { return 40 * time.Millisecond } // 31 blocks until one is final

// blocksAheadMax is more than the walk is ever behind, and less than how long the state of a block
// is available: a busy machine cannot walk blocks at this rate.
func (solana) blocksAheadMax() uint64 { return 4 * surfpool.Finality }

func (solana) stopsAhead() bool { return true }

func (solana) sendMethod() string               { return "sendTransaction" }
func (solana) holdPool(t *scenario, waits bool) { t.provider.setForgetting(waits) }
func (s solana) openOracle() truth {
	return solanaTruth{oracle.OpenSolana(s.node.URL, s.node.CurrentSlot()-1)}
}

func (s solana) readHead(context.Context) (height, lag uint64, err error) {
	return s.node.CurrentSlot() - 1, surfpool.Finality, nil
}

func (s solana) waitHeight(ctx context.Context, tx string) (slot uint64, err error) {
	err = waitUntil(ctx, "the transaction is in a block", sceneMax, func(ctx context.Context) (bool, error) {
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

// waitReady waits for the treasury's nonce accounts.
func (solana) waitReady(ctx context.Context, t *scenario) error {
	return waitUntil(ctx, "the treasury has its places", drainMax, func(ctx context.Context) (bool, error) {
		var counts string
		err := t.queryRow(
			ctx,
			`SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'DONE'), count(*) FILTER (WHERE status = 'OPEN')) FROM nonce_accounts`,
			nil, &counts,
		)
		if err == nil && (counts == "0 0" || counts[len(counts)-2:] != " 0") {
			err = errors.New("done and open: " + counts)
		}
		return err == nil, err
	})
}

func (solana) unusedAddress(seed []byte) string {
	sum := sha256.Sum256(seed)
	return string(surfpool.AddressOf(ed25519.NewKeyFromSeed(sum[:])))
}

func (s solana) readBalance(ctx context.Context, token, account string) (*big.Int, error) {
	return oracle.OpenSolana(s.node.URL, 0).Holds(ctx, token, account)
}

func tokenMint(mint string) surfpool.Mint {
	return surfpool.Mint{Address: chain.Address(mint), Program: solanatx.TokenProgram, Decimals: 6}
}

// preparePayees creates the token accounts of payees: a row to one without an account is alone.
func (s solana) preparePayees(ctx context.Context, mint string, payees []string) error {
	m, faucet := tokenMint(mint), s.node.FaucetAddress()
	const accountsPerTx = 7
	for part := range slices.Chunk(payees, accountsPerTx) {
		var creations []surfpool.Instruction
		for _, payee := range part {
			creations = append(creations, m.CreateAccount(faucet, chain.Address(payee)))
		}
		_, err := s.node.SendAndCheck(ctx, surfpool.Transaction{
			Keys: []ed25519.PrivateKey{s.node.FaucetPrivateKey()}, Instructions: creations,
		})
		if err != nil {
			return fmt.Errorf("create the token accounts of payees: %w", err)
		}
	}
	return nil
}

// refuseRecipient freezes the token account, and creates it if there is none.
func (s solana) refuseRecipient(ctx context.Context, mint, account string) error {
	m, faucet, owner := tokenMint(mint), s.node.FaucetAddress(), chain.Address(account)
	_, err := s.node.SendAndCheck(ctx, surfpool.Transaction{
		Keys: []ed25519.PrivateKey{s.node.FaucetPrivateKey()},
		Instructions: []surfpool.Instruction{
			m.CreateAccount(faucet, owner), m.FreezeAccount(m.AssociatedAccount(owner), faucet),
		},
	})
	return err
}

func (s solana) newStranger(ctx context.Context, mint string, units *big.Int) (externalAccount, error) {
	key, err := surfpool.NewKey()
	if err != nil {
		return externalAccount{}, err
	}
	m, sender := tokenMint(mint), surfpool.AddressOf(key)
	if _, err := s.node.PayLamports(ctx, sender, surfpool.LamportsPerSOL); err != nil {
		return externalAccount{}, err
	}
	_, err = s.node.PayToken(ctx, m.Address, sender, units.Uint64())
	return externalAccount{string(sender), func(ctx context.Context, _, recipient string, units *big.Int) (
		string, error,
	) {
		owner := chain.Address(recipient)
		tx, err := s.node.SendAndCheck(ctx, surfpool.Transaction{
			Keys: []ed25519.PrivateKey{key},
			Instructions: []surfpool.Instruction{
				m.CreateAccount(sender, owner),
				m.TransferTokens(m.AssociatedAccount(sender), m.AssociatedAccount(owner), sender, units.Uint64()),
			},
		})
		return string(tx), err
	}}, err
}

// mineInstead can ignore the other transaction: the proxy never passed it on.
func (s solana) mineInstead(ctx context.Context, raw []byte, _ string) error {
	if _, err := s.node.SendRaw(ctx, raw); err != nil {
		return err
	}
	return s.mineBlock(ctx)
}

var errNoForks = errors.New("surfpool has no forks")

func (solana) forkBlock(context.Context, ...[]byte) error             { return errNoForks }
func (solana) rawTransaction(context.Context, string) ([]byte, error) { return nil, errNoForks }
func (solana) resendTransaction(context.Context, []byte) error        { return errNoForks }
func (solana) transactionID(text string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", err
	}
	_, hash, err := solanatx.VerifySigned(raw)
	return string(hash), err
}

// settleRun advances the nonce of a failed transaction. Later would be too late: surfpool would
// execute its replacement with the same nonce as well, and charge for both.
func (s solana) settleRun(ctx context.Context, text string) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}
	tx, hash, err := solanatx.DecodeSigned(raw)
	if err != nil {
		return nil // it creates a nonce account and uses none
	}
	return s.node.AdvanceFailedNonce(ctx, hash, solanatx.SlotKey(tx.NonceAccount, tx.NonceValue))
}

func (solana) corruptAnswer(method string, answer []byte, address string) (json.RawMessage, bool) {
	return json.RawMessage(`{"transactions": "none"}`), method == "getBlock" && bytes.Contains(answer, []byte(address))
}

// solanaTruth knows no past balances: nothing moves while a scene reads it.
type solanaTruth struct{ *oracle.Solana }

// Holds returns the present balance of an address.
func (t solanaTruth) Holds(ctx context.Context, asset, holder string, _ uint64) (*big.Int, error) {
	got, err := t.Solana.Holds(ctx, asset, holder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", holder, err)
	}
	return got, nil
}
