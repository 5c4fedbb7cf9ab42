package dispatch_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// creations is a chain's maker of nonce accounts that no test asks for one.
type creations struct{ chain.NonceAccounts }

// Of an order whose address another account has, the row says so: the address is never tried again.
func TestTheOrderOfANonceAccountSaysThatItsAddressIsTaken(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	ch := b.chain.ToChain()
	ch.NonceAccounts = creations{}
	b.worker = dispatch.New(
		b.db, ch, b.signer, mirror.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.CreateNonceAccount: b.feature}, dispatch.Config{},
		slog.New(slog.DiscardHandler),
	)
	var native int
	o := dispatch.Order{
		ID: "place_1", OrgID: b.org, Purpose: signer.CreateNonceAccount, Chain: b.name, WalletID: b.treasury.ID,
		To: payeeAddress("place_1"), Amount: money.Units(7), Trigger: dispatch.TriggerDemand,
	}
	submit := func(ctx context.Context, tx pg.Tx) error {
		if err := tx.QueryRow(
			ctx, `SELECT mint_id FROM mints WHERE chain = $1 AND contract = ''`, b.name,
		).Scan(&native); err != nil {
			return err
		}
		o.MintID = native
		if err := dispatch.Submit(ctx, tx, o); err != nil {
			return err
		}
		_, err := tx.Exec(
			ctx, `INSERT INTO internal_orders (order_id, org_id, purpose, trigger) VALUES ($1, $2, $3, $4)`,
			o.ID, o.OrgID, o.Purpose, o.Trigger,
		)
		return err
	}
	b.inSystem(submit)
	b.runRounds() // the chain has no nonce account of the treasury there
	b.wantStatus("place_1", dispatch.Refused)
	if got := b.queryText(`SELECT status FROM nonce_accounts`); got != "FAILED" {
		t.Errorf("got %s, want FAILED", got)
	}
	o.ID = "place_2"
	if err := b.db.InSystem(b.ctx, submit); !pg.ViolatesConstraint(err, "nonce_accounts_address_once") {
		t.Errorf("a second order at the address: got %v, want it refused", err)
	}
}
