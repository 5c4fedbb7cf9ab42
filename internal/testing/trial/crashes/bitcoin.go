package crashes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	btcwire "github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

const (
	bitcoinDepth = 3       // blocks until what they pay is final
	strangerFee  = 20_000  // satoshi that an external payment costs
	topUpUnits   = 300_000 // what the operator adds for fees
)

// bitcoin is btcd. Payments requested together share a transaction there, and the payments' own
// coin pays the fees.
type bitcoin struct {
	node   *btcd.Node
	oracle *oracle.Bitcoin
	fuel   *big.Int // what the operator has put in
}

func openBitcoin(w *localworld.World) network {
	b := &bitcoin{node: w.BitcoinNode(), fuel: new(big.Int)}
	// The oracle opens before our addresses receive anything, and after the chain's own first
	// blocks.
	b.oracle = oracle.OpenBitcoin(b.nodeURL(), btcd.Maturity)
	return b
}

func (b *bitcoin) nodeURL() string {
	u, err := url.Parse(b.node.URL)
	if err != nil {
		panic("btcd answers at " + b.node.URL)
	}
	u.User = url.UserPassword(btcd.User, b.node.Password)
	return u.String()
}

func (b *bitcoin) mineBlock(ctx context.Context) error {
	_, err := b.node.MineBlocks(ctx, 1)
	return err
}
func (*bitcoin) blockInterval() time.Duration     { return 250 * time.Millisecond }
func (*bitcoin) blocksAheadMax() uint64           { return bitcoinDepth + 8 }
func (*bitcoin) stopsAhead() bool                 { return false }
func (*bitcoin) sendMethod() string               { return "sendrawtransaction" }
func (*bitcoin) holdPool(t *scenario, waits bool) { t.mining.Store(!waits) }
func (b *bitcoin) openOracle() truth              { return bitcoinTruth{b.oracle} }

func (b *bitcoin) readHead(ctx context.Context) (height, lag uint64, err error) {
	n, err := b.node.TipHeight(ctx)
	return uint64(n), bitcoinDepth - 1, err
}

func (b *bitcoin) waitHeight(ctx context.Context, tx string) (height uint64, err error) {
	err = waitUntil(ctx, "the transaction is in a block", sceneMax, func(ctx context.Context) (bool, error) {
		var info struct{ BlockHash string }
		var header struct{ Height uint64 }
		if err := b.node.CallRPC(ctx, &info, "getrawtransaction", tx, 1); err != nil || info.BlockHash == "" {
			return false, err
		}
		err := b.node.CallRPC(ctx, &header, "getblockheader", info.BlockHash, true)
		height = header.Height
		return err == nil, err
	})
	return height, err
}

// waitReady waits for the coin that the operator put in. From then on payments wait until they are
// released, so that a scene decides which payments are sent together. The trigger for that is
// unknown to the checker, as if a newer program had created it.
func (b *bitcoin) waitReady(ctx context.Context, t *scenario) error {
	err := waitUntil(ctx, "the treasury has coins", drainMax, func(ctx context.Context) (bool, error) {
		var n int
		err := t.queryRow(ctx, `SELECT count(*) FROM utxos WHERE status = 'FREE'`, nil, &n)
		return n > 0, err
	})
	if err != nil {
		return err
	}
	ownAddresses, err := t.loadOwnAddresses(ctx)
	if err != nil {
		return err
	}
	if _, err := b.oracle.Walk(ctx); err != nil {
		return err
	}
	outputs, err := b.oracle.UnspentOutputs(ctx, ownAddresses)
	if err != nil {
		return err
	}
	for _, output := range outputs {
		b.fuel.Add(b.fuel, output.Amount)
	}
	return t.queryRow(ctx, `
		INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true);
		CREATE FUNCTION trial_waits() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN NEW.attempt_after := NEW.attempt_after + interval '1 day'; RETURN NEW; END $$;
		CREATE TRIGGER trial_waits BEFORE INSERT ON dispatch_orders FOR EACH ROW
			WHEN (NEW.chain = 'BITCOIN' AND NEW.purpose = 'PAYMENT' AND NEW.refund IS NULL)
			EXECUTE FUNCTION trial_waits()`, nil)
}

func (*bitcoin) paymentsPerTx() int { return 3 }

func (*bitcoin) releasePayments(ctx context.Context, t *scenario) error {
	return waitUntil(ctx, "payments are let go", answerMax, func(ctx context.Context) (bool, error) {
		err := t.queryRow(
			ctx, `UPDATE dispatch_orders SET attempt_after = now() WHERE attempt_after > now() + interval '1 hour'`,
			nil,
		)
		return err == nil, err
	})
}

func (*bitcoin) prepareGroups(context.Context, *scenario) error { return nil }

func (*bitcoin) preparePayees(context.Context, string, []string) error { return nil }

func keyOf(seed []byte) *btcec.PrivateKey {
	sum := sha256.Sum256(seed)
	key, _ := btcec.PrivKeyFromBytes(sum[:])
	return key
}

func (*bitcoin) unusedAddress(seed []byte) string { return string(btcd.KeyAddress(keyOf(seed))) }

func (b *bitcoin) readBalance(ctx context.Context, _, account string) (*big.Int, error) {
	if _, err := b.oracle.Walk(ctx); err != nil {
		return nil, err
	}
	return b.oracle.Holds(ctx, account)
}

func (*bitcoin) refuseRecipient(context.Context, string, string) error {
	return errors.New("nothing is refused on Bitcoin")
}

func (b *bitcoin) payUnits(ctx context.Context, _ *scenario, recipient string, units *big.Int) (string, error) {
	tx, err := b.node.PayAddress(ctx, chain.Address(recipient), units.Int64())
	if err != nil {
		return "", err
	}
	return tx.TxID(), nil
}

func (b *bitcoin) newStranger(ctx context.Context, _ string, units *big.Int) (externalAccount, error) {
	key, err := btcec.NewPrivateKey()
	if err != nil {
		return externalAccount{}, err
	}
	address := btcd.KeyAddress(key)
	funding, err := b.node.PayAddress(ctx, address, units.Int64()+strangerFee)
	if err != nil {
		return externalAccount{}, err
	}
	if _, err := b.waitHeight(ctx, funding.TxID()); err != nil {
		return externalAccount{}, err
	}
	coin := btcd.Output{OutPoint: btcwire.OutPoint{Hash: funding.TxHash()}, TxOut: *funding.TxOut[0]}
	return externalAccount{string(address), func(ctx context.Context, _, recipient string, units *big.Int) (
		string, error,
	) {
		output, err := btcd.NewOutput(chain.Address(recipient), units.Int64())
		if err != nil {
			return "", err
		}
		tx, err := b.node.BuildSpend(key, []btcd.Output{coin}, strangerFee, output)
		if err != nil {
			return "", err
		}
		return tx.TxID(), b.node.SendTx(ctx, tx)
	}}, nil
}

// mineInstead mines the transaction instead of those in the mempool.
func (b *bitcoin) mineInstead(ctx context.Context, raw []byte, _ string) error {
	tx := new(btcwire.MsgTx)
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return err
	}
	_, err := b.node.MineOnly(ctx, tx)
	return err
}

// forkBlock leaves the transactions of the removed block in the mempool. The transactions of the
// new block come after a payment of an external account, so their position differs.
func (b *bitcoin) forkBlock(ctx context.Context, rawTxs ...[]byte) error {
	height, err := b.node.TipHeight(ctx)
	if err != nil {
		return err
	}
	newest, err := b.node.BlockHash(ctx, height)
	if err != nil {
		return err
	}
	if err := b.node.InvalidateBlock(ctx, newest); err != nil {
		return err
	}
	var txs []*btcwire.MsgTx
	if len(rawTxs) > 0 {
		faucetTx, err := b.node.PayAddress(ctx, btcd.FaucetAddress(), strangerFee)
		if err != nil {
			return err
		}
		txs = append(txs, faucetTx)
	}
	for _, raw := range rawTxs {
		tx := new(btcwire.MsgTx)
		if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
			return err
		}
		txs = append(txs, tx)
	}
	_, err = b.node.MineOnly(ctx, txs...)
	return err
}

func (b *bitcoin) rawTransaction(ctx context.Context, tx string) ([]byte, error) {
	var text string
	if err := b.node.CallRPC(ctx, &text, "getrawtransaction", tx); err != nil {
		return nil, err
	}
	return hex.DecodeString(text)
}

func (b *bitcoin) resendTransaction(ctx context.Context, raw []byte) error {
	err := b.node.CallRPC(ctx, nil, b.sendMethod(), hex.EncodeToString(raw))
	if err != nil && !strings.Contains(err.Error(), "already") {
		return err
	}
	return nil
}

func (*bitcoin) transactionID(text string) (string, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return "", err
	}
	hash, err := bitcointx.HashOf(raw)
	return string(hash), err
}

func (*bitcoin) settleRun(context.Context, string) error { return nil }

// corruptAnswer corrupts the bytes of a block that has the script of the address.
func (*bitcoin) corruptAnswer(method string, answer []byte, address string) (json.RawMessage, bool) {
	script, err := bitcointx.Script(chain.Local, chain.Address(address))
	return json.RawMessage(`"00"`), err == nil && method == "getblock" &&
		bytes.Contains(answer, []byte(hex.EncodeToString(script)))
}

// topUpFees adds coin for fees to a treasury that has paid with it, and waits until the books have
// it.
func (b *bitcoin) topUpFees(ctx context.Context, t *scenario) error {
	var treasury string
	if err := t.queryRow(
		ctx, `SELECT address FROM wallets WHERE family = $1 AND purpose = 'TREASURY'`, []any{t.site.chain.Family()},
		&treasury,
	); err != nil {
		return err
	}
	tx, err := b.node.PayAddress(ctx, chain.Address(treasury), topUpUnits)
	if err != nil {
		return err
	}
	b.fuel.Add(b.fuel, big.NewInt(topUpUnits))
	return waitUntil(ctx, "the operator's coin is in the books", drainMax, func(ctx context.Context) (bool, error) {
		var n int
		err := t.queryRow(
			ctx, `SELECT count(*) FROM deposits WHERE tx_hash = $1 AND status = 'CREDITED'`, []any{tx.TxID()}, &n,
		)
		return n == 1, err
	})
}

// operatorFunds returns what the operator put in, less the cost of every transaction of ours.
func (b *bitcoin) operatorFunds(ownAddresses map[string]bool) *big.Int {
	left := new(big.Int).Set(b.fuel)
	for _, s := range b.oracle.SentBy(ownAddresses) {
		left.Sub(left, s.Fee)
	}
	return left
}

// compareOutputs compares the outputs in the database with the unspent outputs on the chain.
func (b *bitcoin) compareOutputs(ctx context.Context, t *scenario, ownAddresses map[string]bool) error {
	outputs, err := b.oracle.UnspentOutputs(ctx, ownAddresses)
	if err != nil {
		return err
	}
	var onChain []string
	for _, output := range outputs {
		onChain = append(onChain, fmt.Sprintf("%s %s %s", output.Outpoint, output.Address, output.Amount))
	}
	var inBooks []string
	err = t.queryRow(ctx, `
		SELECT coalesce(array_agg(c.outpoint || ' ' || w.address || ' ' || c.amount), '{}')
		FROM utxos c JOIN wallets w USING (wallet_id) WHERE c.status IN ('HELD', 'FREE', 'RESERVED')`, nil, &inBooks)
	if err != nil {
		return err
	}
	slices.Sort(onChain)
	slices.Sort(inBooks)
	if !slices.Equal(onChain, inBooks) {
		return fmt.Errorf(
			"oracle: the outputs that are ours are\n%s\nand the coins are\n%s", strings.Join(onChain, "\n"),
			strings.Join(inBooks, "\n"),
		)
	}
	return nil
}

// bitcoinTruth knows no past balances: nothing moves while a scene reads it.
type bitcoinTruth struct{ *oracle.Bitcoin }

// Holds returns the present balance of an address.
func (t bitcoinTruth) Holds(ctx context.Context, _, holder string, _ uint64) (*big.Int, error) {
	return t.Bitcoin.Holds(ctx, holder)
}
