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
	"github.com/cofferpay/coffer/internal/trial/oracle"
)

const (
	bitcoinDepth = 3       // blocks until what they pay is final
	strangerFee  = 20_000  // satoshi that a stranger's payment costs
	topUpUnits   = 300_000 // what the operator adds for fees
)

// bitcoin is btcd. Payments of one moment share a transaction there, and the coin that is
// paid is the one that pays fees.
type bitcoin struct {
	node   *btcd.Node
	oracle *oracle.Bitcoin
	fuel   *big.Int // what the operator has put in
}

func openBitcoin(w *localworld.World) network {
	b := &bitcoin{node: w.Bitcoin(), fuel: new(big.Int)}
	// What our addresses ever have comes after what the chain began with.
	b.oracle = oracle.OpenBitcoin(b.url(), btcd.Maturity)
	return b
}

func (b *bitcoin) url() string {
	u, err := url.Parse(b.node.URL)
	if err != nil {
		panic("btcd answers at " + b.node.URL)
	}
	u.User = url.UserPassword(btcd.User, b.node.Password)
	return u.String()
}

func (b *bitcoin) mine(ctx context.Context) error { _, err := b.node.Mine(ctx, 1); return err }
func (*bitcoin) every() time.Duration             { return 250 * time.Millisecond }
func (*bitcoin) ahead() uint64                    { return 0 }
func (*bitcoin) sends() string                    { return "sendrawtransaction" }
func (*bitcoin) pool(t *town, waits bool)         { t.mining.Store(!waits) }
func (b *bitcoin) truth() truth                   { return bitcoinTruth{b.oracle} }

func (b *bitcoin) head(ctx context.Context) (height, behind uint64, err error) {
	n, err := b.node.Height(ctx)
	return uint64(n), bitcoinDepth - 1, err
}

func (b *bitcoin) height(ctx context.Context, tx string) (height uint64, err error) {
	err = until(ctx, "the transaction is in a block", sceneMax, func(ctx context.Context) (bool, error) {
		var is struct{ BlockHash string }
		var header struct{ Height uint64 }
		if err := b.node.Call(ctx, &is, "getrawtransaction", tx, 1); err != nil || is.BlockHash == "" {
			return false, err
		}
		err := b.node.Call(ctx, &header, "getblockheader", is.BlockHash, true)
		height = header.Height
		return err == nil, err
	})
	return height, err
}

// readied waits for the coin that the operator put in. From then on payments wait until
// they are let go, so that those of one moment are those that a scene asks for. The trigger
// for that is one that the checker does not know, as if a newer program had made it.
func (b *bitcoin) readied(ctx context.Context, t *town) error {
	err := until(ctx, "the treasury has coins", drainMax, func(ctx context.Context) (bool, error) {
		var n int
		err := t.query(ctx, `SELECT count(*) FROM coins WHERE status = 'FREE'`, nil, &n)
		return n > 0, err
	})
	if err != nil {
		return err
	}
	ours, err := t.ours(ctx)
	if err != nil {
		return err
	}
	if _, err := b.oracle.Walk(ctx); err != nil {
		return err
	}
	all, err := b.oracle.Unspent(ctx, ours)
	if err != nil {
		return err
	}
	for _, is := range all {
		b.fuel.Add(b.fuel, is.Amount)
	}
	return t.query(ctx, `
		INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true);
		CREATE FUNCTION trial_waits() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN NEW.attempt_after := NEW.attempt_after + interval '1 day'; RETURN NEW; END $$;
		CREATE TRIGGER trial_waits BEFORE INSERT ON dispatch_orders FOR EACH ROW
			WHEN (NEW.chain = 'BITCOIN' AND NEW.purpose = 'PAYMENT') EXECUTE FUNCTION trial_waits()`, nil)
}

func (*bitcoin) together() int { return 3 }

func (*bitcoin) letGo(ctx context.Context, t *town) error {
	return until(ctx, "payments are let go", answerMax, func(ctx context.Context) (bool, error) {
		err := t.query(ctx, `UPDATE dispatch_orders SET attempt_after = now() WHERE attempt_after > now() + interval '1 hour'`, nil)
		return err == nil, err
	})
}

func keyOf(seed []byte) *btcec.PrivateKey {
	sum := sha256.Sum256(seed)
	key, _ := btcec.PrivKeyFromBytes(sum[:])
	return key
}

func (*bitcoin) nobody(seed []byte) string { return string(btcd.KeyAddress(keyOf(seed))) }

func (b *bitcoin) holds(ctx context.Context, _, who string) (*big.Int, error) {
	if _, err := b.oracle.Walk(ctx); err != nil {
		return nil, err
	}
	return b.oracle.Holds(ctx, who)
}

func (*bitcoin) refuse(context.Context, string, string) error {
	return errors.New("nothing is refused on Bitcoin")
}

func (b *bitcoin) pay(ctx context.Context, _ *town, to string, units *big.Int) (string, error) {
	tx, err := b.node.Pay(ctx, chain.Address(to), units.Int64())
	if err != nil {
		return "", err
	}
	return tx.TxID(), nil
}

func (b *bitcoin) stranger(ctx context.Context, _ string, units *big.Int) (stranger, error) {
	key, err := btcec.NewPrivateKey()
	if err != nil {
		return stranger{}, err
	}
	at := btcd.KeyAddress(key)
	has, err := b.node.Pay(ctx, at, units.Int64()+strangerFee)
	if err != nil {
		return stranger{}, err
	}
	if _, err := b.height(ctx, has.TxID()); err != nil {
		return stranger{}, err
	}
	coin := btcd.Coin{OutPoint: btcwire.OutPoint{Hash: has.TxHash()}, TxOut: *has.TxOut[0]}
	return stranger{string(at), func(ctx context.Context, _, to string, units *big.Int) (string, error) {
		out, err := btcd.To(chain.Address(to), units.Int64())
		if err != nil {
			return "", err
		}
		tx, err := b.node.Spend(key, []btcd.Coin{coin}, strangerFee, out)
		if err != nil {
			return "", err
		}
		return tx.TxID(), b.node.Send(ctx, tx)
	}}, nil
}

// instead mines it past what waits in the pool.
func (b *bitcoin) instead(ctx context.Context, raw []byte, _ string) error {
	tx := new(btcwire.MsgTx)
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return err
	}
	_, err := b.node.MineOnly(ctx, tx)
	return err
}

// fork leaves what it takes away waiting. What the new block has comes behind a payment of
// somebody else, so that it is at another place.
func (b *bitcoin) fork(ctx context.Context, with ...[]byte) error {
	height, err := b.node.Height(ctx)
	if err != nil {
		return err
	}
	newest, err := b.node.Hash(ctx, height)
	if err != nil {
		return err
	}
	if err := b.node.Invalidate(ctx, newest); err != nil {
		return err
	}
	var txs []*btcwire.MsgTx
	if len(with) > 0 {
		other, err := b.node.Pay(ctx, btcd.FaucetAddress(), strangerFee)
		if err != nil {
			return err
		}
		txs = append(txs, other)
	}
	for _, raw := range with {
		tx := new(btcwire.MsgTx)
		if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
			return err
		}
		txs = append(txs, tx)
	}
	_, err = b.node.MineOnly(ctx, txs...)
	return err
}

func (b *bitcoin) raw(ctx context.Context, tx string) ([]byte, error) {
	var text string
	if err := b.node.Call(ctx, &text, "getrawtransaction", tx); err != nil {
		return nil, err
	}
	return hex.DecodeString(text)
}

func (b *bitcoin) again(ctx context.Context, raw []byte) error {
	err := b.node.Call(ctx, nil, b.sends(), hex.EncodeToString(raw))
	if err != nil && !strings.Contains(err.Error(), "already") {
		return err
	}
	return nil
}

func (*bitcoin) id(text string) (string, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return "", err
	}
	hash, err := bitcointx.HashOf(raw)
	return string(hash), err
}

func (*bitcoin) ran(context.Context, string) error { return nil }

// spoil has the bytes of a block in which the script of the address is.
func (*bitcoin) spoil(method string, answer []byte, address string) (json.RawMessage, bool) {
	script, err := bitcointx.Script(chain.Local, chain.Address(address))
	return json.RawMessage(`"00"`), err == nil && method == "getblock" && bytes.Contains(answer, []byte(hex.EncodeToString(script)))
}

// topUp adds coin for fees to a treasury that has been paying with it, and waits until it
// is in the books.
func (b *bitcoin) topUp(ctx context.Context, t *town) error {
	var treasury string
	if err := t.query(ctx, `SELECT address FROM wallets WHERE family = $1 AND purpose = 'TREASURY'`, []any{t.site.chain.Family()}, &treasury); err != nil {
		return err
	}
	tx, err := b.node.Pay(ctx, chain.Address(treasury), topUpUnits)
	if err != nil {
		return err
	}
	b.fuel.Add(b.fuel, big.NewInt(topUpUnits))
	return until(ctx, "the operator's coin is in the books", drainMax, func(ctx context.Context) (bool, error) {
		var n int
		err := t.query(ctx, `SELECT count(*) FROM deposits WHERE tx_hash = $1 AND status = 'CREDITED'`, []any{tx.TxID()}, &n)
		return n == 1, err
	})
}

// beside is what the operator put in, less what every transaction of ours has cost.
func (b *bitcoin) beside(ours map[string]bool) *big.Int {
	left := new(big.Int).Set(b.fuel)
	for _, s := range b.oracle.Sent(ours) {
		left.Sub(left, s.Fee)
	}
	return left
}

// agrees compares the coins of the database with the outputs that nobody has spent.
func (b *bitcoin) agrees(ctx context.Context, t *town, ours map[string]bool) error {
	all, err := b.oracle.Unspent(ctx, ours)
	if err != nil {
		return err
	}
	var there []string
	for _, is := range all {
		there = append(there, fmt.Sprintf("%s %s %s", is.Outpoint, is.Address, is.Amount))
	}
	var kept []string
	err = t.query(ctx, `
		SELECT coalesce(array_agg(c.outpoint || ' ' || w.address || ' ' || c.amount), '{}')
		FROM coins c JOIN wallets w USING (wallet_id) WHERE c.status IN ('HELD', 'FREE', 'RESERVED')`, nil, &kept)
	if err != nil {
		return err
	}
	slices.Sort(there)
	slices.Sort(kept)
	if !slices.Equal(there, kept) {
		return fmt.Errorf("oracle: the outputs that are ours are\n%s\nand the coins are\n%s", strings.Join(there, "\n"), strings.Join(kept, "\n"))
	}
	return nil
}

// bitcoinTruth knows no past balances: nothing moves while it is asked.
type bitcoinTruth struct{ *oracle.Bitcoin }

// Holds is what an address has now.
func (t bitcoinTruth) Holds(ctx context.Context, _, holder string, _ uint64) (*big.Int, error) {
	return t.Bitcoin.Holds(ctx, holder)
}
