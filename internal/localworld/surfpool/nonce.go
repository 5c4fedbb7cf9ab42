package surfpool

import (
	"context"
	"crypto/sha256"
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
	if err != nil || now != value {
		return err
	}
	// As a chain derives it, from the newest block.
	newest, err := n.blockhash(ctx)
	if err != nil {
		return err
	}
	hash, err := base58.Decode(newest)
	if err != nil {
		return fmt.Errorf("the newest block is %q: %w", newest, err)
	}
	next := sha256.Sum256(append([]byte("DURABLE_NONCE"), hash...))
	copy(data[nonceValueByte:], next[:])
	return n.SetAccount(ctx, at, account.Value.Lamports, account.Value.Owner, data)
}
