package surfpool

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// nonceValueByte is where the value of a nonce account begins.
const (
	nonceValueByte = 40
	advanceNonce   = "6vx8P" // the instruction's data in base58
	askEvery       = 5 * time.Millisecond
)

// AfterFailure does what a chain does and surfpool does not: when a transaction that was
// sent and run has failed, its nonce account gets the next value. surfpool takes the
// instruction that advances it back with all the others, and would run another
// transaction of the same value, which no chain does. What succeeded is left alone, and so
// is what is in no nonce, or in one that has moved on. It waits until the transaction has
// run, which has to be one that the node took.
func (n *Node) AfterFailure(ctx context.Context, tx chain.TxHash, lease string) error {
	at, value, err := solanatx.ParseLease(lease)
	if err != nil {
		return err
	}
	var ran *struct{ Meta struct{ Err any } }
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for ran == nil {
		err := n.call(ctx, &ran, "getTransaction", tx, map[string]any{
			"commitment": "processed", "maxSupportedTransactionVersion": 1, "encoding": "json",
		})
		if err != nil {
			return err
		}
		if ran != nil {
			break
		}
		select { // it may answer before it has run what it was sent
		case <-ctx.Done():
			return fmt.Errorf("transaction %s was not run: %w", tx, context.Cause(ctx))
		case <-tick.C:
		}
	}
	if ran.Meta.Err == nil {
		return nil
	}
	return n.advance(ctx, at, value, "")
}

// advance gives a nonce account the value that follows from a block, "" for the newest one,
// unless it has another than the one that is to go.
func (n *Node) advance(ctx context.Context, at chain.Address, gone, block string) error {
	var account struct {
		Value struct {
			Data     []string
			Lamports uint64
			Owner    chain.Address
		}
	}
	if err := n.call(ctx, &account, "getAccountInfo", at, map[string]string{"encoding": "base64", "commitment": "processed"}); err != nil {
		return err
	}
	if len(account.Value.Data) == 0 {
		return errors.New("its nonce account is not there")
	}
	data, err := base64.StdEncoding.DecodeString(account.Value.Data[0])
	if err != nil {
		return err
	}
	_, now, _, err := solanatx.ParseNonce(data)
	if err != nil || now != gone {
		return err
	}
	if block == "" {
		if block, err = n.blockhash(ctx); err != nil {
			return err
		}
	}
	next, err := solanatx.Durable(block)
	if err != nil {
		return fmt.Errorf("the block before is %q: %w", block, err)
	}
	value, err := base58.Decode(next)
	if err != nil {
		return err
	}
	copy(data[nonceValueByte:], value)
	return n.SetAccount(ctx, at, account.Value.Lamports, account.Value.Owner, data)
}

// derive gives the nonce accounts that were advanced in a block the values that a chain
// derives: from the hash of the block before. surfpool takes what the transaction carries in
// place of that. Nothing is built on its own value, since that is in no block before this.
func (n *Node) derive(ctx context.Context, slot uint64) error {
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
	err := n.call(ctx, &block, "getBlock", slot, map[string]any{
		"commitment": "confirmed", "maxSupportedTransactionVersion": 1, "rewards": false, "encoding": "json",
	})
	if err != nil || block == nil {
		return err
	}
	for _, tx := range block.Transactions {
		m := tx.Transaction.Message
		if tx.Meta.Err != nil || len(m.Instructions) == 0 {
			continue
		}
		first := m.Instructions[0]
		if first.Data != advanceNonce || len(first.Accounts) == 0 || first.Program >= len(m.Keys) || m.Keys[first.Program] != solanatx.SystemProgram {
			continue
		}
		its, err := solanatx.Durable(m.Recent)
		if err != nil {
			return err
		}
		if err := n.advance(ctx, m.Keys[first.Accounts[0]], its, block.Previous); err != nil {
			return fmt.Errorf("nonce account %s: %w", m.Keys[first.Accounts[0]], err)
		}
	}
	return nil
}
