package surfpool

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// nonceValueByte is the offset of the value in a nonce account.
const (
	nonceValueByte = 40
	// Instructions of the system program.
	advanceNonce       = 4
	initializeNonce    = 6
	statusPollInterval = 5 * time.Millisecond
)

// AdvanceFailedNonce does what a real chain does and surfpool does not: after a transaction that
// ran and failed, it advances the nonce account. surfpool reverts the instruction that advances it
// with all the others. It would then run another transaction with the same value, which no real
// chain does.
//
// It does not touch a nonce account if the transaction succeeded, uses no nonce account, or if the
// account has moved on. It waits until the transaction has run; the node must have accepted it.
func (n *Node) AdvanceFailedNonce(ctx context.Context, tx chain.TxHash, slotKey string) error {
	nonceAccount, value, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		return err
	}
	var result *struct{ Meta struct{ Err any } }
	tick := time.NewTicker(statusPollInterval)
	defer tick.Stop()
	for result == nil {
		err := n.callRPC(ctx, &result, "getTransaction", tx, map[string]any{
			"commitment": "processed", "maxSupportedTransactionVersion": 1, "encoding": "json",
		})
		if err != nil {
			return err
		}
		if result != nil {
			break
		}
		select { // it may answer before it has run the transaction
		case <-ctx.Done():
			return fmt.Errorf("transaction %s was not run: %w", tx, context.Cause(ctx))
		case <-tick.C:
		}
	}
	if result.Meta.Err == nil {
		return nil
	}
	return n.advanceNonceAccount(ctx, nonceAccount, value, "")
}

// advanceNonceAccount sets a nonce account to the value that follows from a block, "" for the
// newest one, unless its value is not the expected one.
func (n *Node) advanceNonceAccount(ctx context.Context, nonceAccount chain.Address, expected, block string) error {
	var account struct {
		Value struct {
			Data     []string
			Lamports uint64
			Owner    chain.Address
		}
	}
	if err := n.callRPC(ctx, &account, "getAccountInfo", nonceAccount, map[string]string{
		"encoding": "base64", "commitment": "processed",
	}); err != nil {
		return err
	}
	if len(account.Value.Data) == 0 {
		return errors.New("its nonce account does not exist")
	}
	data, err := base64.StdEncoding.DecodeString(account.Value.Data[0])
	if err != nil {
		return err
	}
	_, current, _, err := solanatx.ParseNonce(data)
	if err != nil || current != expected {
		return err
	}
	if block == "" {
		if block, err = n.latestBlockhash(ctx); err != nil {
			return err
		}
	}
	nextValue, err := solanatx.NonceValueAfter(block)
	if err != nil {
		return fmt.Errorf("the block before is %q: %w", block, err)
	}
	value, err := base58.Decode(nextValue)
	if err != nil {
		return err
	}
	copy(data[nonceValueByte:], value)
	return n.SetAccount(ctx, nonceAccount, account.Value.Lamports, account.Value.Owner, data)
}

// deriveNonces sets the nonce accounts that a block created or advanced to the values that a real
// chain derives from the hash of the block before. surfpool uses the blockhash of the transaction
// instead. No transaction depends on surfpool's own value, since no earlier block contains it.
func (n *Node) deriveNonces(ctx context.Context, slot uint64) error {
	var block *struct {
		Previous     string `json:"previousBlockhash"`
		Transactions []struct {
			Meta        struct{ Err any }
			Transaction struct {
				Message struct {
					Keys         []chain.Address `json:"accountKeys"`
					Recent       string          `json:"recentBlockhash"`
					Instructions []struct {
						Program  int    `json:"programIdIndex"`
						Accounts []int  `json:"accounts"`
						Data     string `json:"data"`
					}
				}
			}
		}
	}
	err := n.callRPC(ctx, &block, "getBlock", slot, map[string]any{
		"commitment": "confirmed", "maxSupportedTransactionVersion": 1, "rewards": false, "encoding": "json",
	})
	if err != nil || block == nil {
		return err
	}
	if len(block.Transactions) > 0 {
		n.busySlot = slot
	}
	for _, tx := range block.Transactions {
		m := tx.Transaction.Message
		if tx.Meta.Err != nil || len(m.Instructions) == 0 {
			continue
		}
		value, err := solanatx.NonceValueAfter(m.Recent)
		if err != nil {
			return err
		}
		for _, i := range m.Instructions {
			if len(i.Accounts) == 0 || i.Program >= len(m.Keys) || m.Keys[i.Program] != solanatx.SystemProgram ||
				!givesNonce(i.Data) {
				continue
			}
			nonceAccount := m.Keys[i.Accounts[0]]
			if err := n.advanceNonceAccount(ctx, nonceAccount, value, block.Previous); err != nil {
				return fmt.Errorf("nonce account %s: %w", nonceAccount, err)
			}
		}
	}
	return nil
}

// givesNonce reports whether an instruction of the system program, in base58, gives a nonce account
// a value.
func givesNonce(data string) bool {
	b, err := base58.Decode(data)
	if err != nil || len(b) < 4 {
		return false
	}
	kind := binary.LittleEndian.Uint32(b)
	return kind == advanceNonce || kind == initializeNonce
}
