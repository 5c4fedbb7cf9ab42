package drill

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// playEmptyMachine plays the loss of everything but the seed's backup and the paper with the
// organization's id and the customers' ids.
func playEmptyMachine(ctx context.Context, h *drillEnv) error {
	backup, secret := filepath.Join(h.dir, "seed.age"), filepath.Join(h.dir, "passphrase")
	fresh := filepath.Join(h.dir, "fresh")
	conf, list := filepath.Join(h.dir, "fresh.toml"), filepath.Join(h.dir, "customers")
	safe := common.BytesToAddress(crypto.Keccak256([]byte(h.dir + "safe")))
	var walletAddresses, output string
	var cid string
	left := new(big.Int).Sub(h.wholeUnits(5_000+300+60+70), h.wholeUnits(100))
	addresses := map[string]bool{}
	command := func(extra ...string) []string {
		return append(
			[]string{"rescue", "--config", conf, "--org", h.world.Info.OrganizationID, "--customers", list}, extra...,
		)
	}
	rescue := func(code int, extra ...string) (err error) {
		output, err = h.runCommand(ctx, code, command(extra...)...)
		return err
	}
	return h.playSteps(
		"the seed is backed up before any money arrives", func() error {
			if err := os.WriteFile(secret, []byte("correct horse battery staple\n"), 0o600); err != nil {
				return err
			}
			_, err := h.runCommand(
				ctx, 0, "keys", "backup", filepath.Dir(h.conf.Signer.Seed), "--to", backup, "--passphrase-file", secret,
			)
			return err
		},
		"customers pay in, are swept and paid", func() error {
			return errors.Join(
				h.payIn(ctx, "ann", h.wholeUnits(5_000)), h.payIn(ctx, "bob", h.wholeUnits(300)),
				h.payIn(ctx, orgProduct, h.wholeUnits(60)), h.payAndWait(ctx, "early", "ann", h.wholeUnits(100)),
				h.waitDrained(ctx),
			)
		},
		"what is on paper: the organization and its customers", func() (err error) {
			if cid, err = h.depositAddress(ctx, "cid"); err != nil {
				return err
			}
			return errors.Join(
				os.WriteFile(list, []byte("ann\nbob\ncid\n"), 0o600),
				h.queryRow(ctx, `SELECT string_agg(lower(address), ' ') FROM wallets`, nil, &walletAddresses))
		},
		"everything else is lost: service, database, journal, keys", func() error {
			return errors.Join(
				h.world.StopService(), h.world.DatabaseCluster().Stop(), os.RemoveAll(h.dataDir()),
				os.RemoveAll(filepath.Dir(h.conf.Signer.Seed)),
			)
		},
		"a customer pays in all the same", func() error {
			_, err := h.world.Info.PayAddress(ctx, h.mint, cid, h.wholeUnits(70))
			return err
		},
		"coffer keys restore on an empty folder", func() error {
			_, err := h.runCommand(ctx, 0, "keys", "restore", fresh, "--from", backup, "--passphrase-file", secret)
			if err != nil {
				return err
			}
			c := h.conf
			c.Keys, c.Signer = app.KeyFiles(fresh)
			return errors.Join(
				os.WriteFile(c.Signer.Policy, []byte(rescuePolicy), 0o600), app.WriteConfig(conf, c))
		},
		"no service starts with that seed", func() error {
			_, err := h.runCommand(ctx, 1, "serve", "--config", conf)
			return err
		},
		"coffer rescue finds the addresses that were, and what they hold", func() error {
			if err := rescue(1); err != nil {
				return err
			}
			for _, a := range strings.Fields(walletAddresses) {
				addresses[a] = true
				if !strings.Contains(toLower(output), a) {
					return fmt.Errorf("%s is not found:\n%s", a, output)
				}
			}
			return nil
		},
		"coffer rescue is killed while its first transaction waits in the pool", func() error {
			h.mining.Store(false)
			defer h.mining.Store(true)
			if err := h.killCommand(ctx, 2*time.Second, command("--to", safe.Hex(), "--yes")...); err != nil {
				return err
			}
			journal, err := os.ReadFile(filepath.Join(fresh, "journal.rescue"))
			if err == nil && !strings.Contains(string(journal), `"SIGN"`) {
				err = errors.New("nothing was signed yet")
			}
			return err
		},
		"coffer rescue goes on and moves all of it", func() error { return rescue(0, "--to", safe.Hex(), "--yes") },
		"and again, when the blocks are final: nothing is left to move", func() error {
			if err := rescue(0, "--to", safe.Hex(), "--yes"); err != nil {
				return err
			}
			if strings.Contains(output, " from 0x") {
				return fmt.Errorf("something was moved again:\n%s", output)
			}
			return nil
		},
		"the oracle: the safe has everything, our addresses nothing, the payment was made once", func() error {
			height, err := h.oracle.Walk(ctx)
			if err != nil {
				return err
			}
			if err := h.checkPaidOnce(ctx); err != nil {
				return err
			}
			got := new(big.Int)
			for _, m := range h.oracle.ReceivedBy(h.assetID(), toLower(safe.Hex())) {
				got.Add(got, m.Amount)
			}
			if got.Cmp(left) != 0 {
				return fmt.Errorf("the safe has %s, want %s, all that was paid in less what was paid out", got, left)
			}
			for a := range addresses {
				units, err := h.oracle.Holds(ctx, h.assetID(), a, height)
				if err != nil {
					return err
				}
				if units.Sign() != 0 {
					return fmt.Errorf("%s still holds %s", a, units)
				}
			}
			p := h.payments[0]
			wrong := h.oracle.Judge([]oracle.Claim{
				{ID: p.key, Asset: h.assetID(), To: p.recipient, Amount: p.units, Paid: true, Tx: p.tx},
			}, addresses)
			for _, w := range wrong {
				if !strings.Contains(w, toLower(safe.Hex())) {
					return errors.New("oracle: " + w)
				}
			}
			return nil
		},
	)
}

// rescuePolicy is written anew: the old policy is lost with everything else.
const rescuePolicy = `{"chains": {"ETHEREUM": {
  "signerId": "31337", "feeMax": "1000000000000000000", "gasMax": "1000000000000000000", "unlimited": true
}}}
`
