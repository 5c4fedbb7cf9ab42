package verify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
)

// deployedContract is a payout contract that is deployed, or of which that is not known.
type deployedContract struct {
	isDeployed bool
	err        error
}

func (deployedContract) Address() chain.Address { return sim.Address("payouts") }

func (d deployedContract) IsDeployed(context.Context) (bool, error) { return d.isDeployed, d.err }

func (deployedContract) Allowance(context.Context, chain.Address, chain.Address) (money.Amount, error) {
	return money.Zero, errors.New("the checker asks for no allowance")
}

// What the payout contract holds is a remark: of the coin, and of each token. It stops no payment, because anyone can
// send it something. Without an answer nothing is said to hold. Rule BP-54.
func TestWhatThePayoutContractHoldsIsARemarkAndStopsNoPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	net := sim.New(sim.Config{})
	token, contract := sim.Address("token"), deployedContract{isDeployed: true}
	h.exec(`ALTER TABLE mints DISABLE TRIGGER USER`)
	h.exec(`UPDATE mints SET contract = $1 WHERE mint_id = 1`, string(token))
	net.MineEmpty(20)
	// settle has the books take the newest final block for the one that was walked last.
	settle := func() {
		t.Helper()
		heads, err := net.Heads(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.exec(`UPDATE scan_cursors SET height = $1, hash = $2 WHERE chain = 'ETHEREUM'`, heads.Final.Height,
			heads.Final.Hash)
	}
	settle()
	examine := func() (Outcome, []Breach, error) {
		t.Helper()
		c := net.ToChain()
		c.PayoutContract = contract
		r, err := CompareWithChains(t.Context(), h.db, chain.Chains{chain.Ethereum: c})
		i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.ID == "I-89-ETHEREUM" })
		if i < 0 {
			t.Fatalf("got %+v, want an outcome of I-89-ETHEREUM", r.Outcomes)
		}
		if slices.ContainsFunc(r.Breaches, func(b Breach) bool { return strings.HasPrefix(b.Check, "I-89") }) {
			t.Errorf("got %+v, want no breach of I-89", r.Breaches)
		}
		return r.Outcomes[i], r.Remarks, err
	}
	want := func(name string, holds ...string) {
		t.Helper()
		o, remarks, err := examine()
		if err != nil || o.NotChecked || o.Remarks != len(holds) || len(remarks) != len(holds) {
			t.Fatalf("%s: got %+v, %+v, %v, want %d remarks", name, o, remarks, err, len(holds))
		}
		for i, part := range holds {
			if !strings.Contains(remarks[i].Detail, part) ||
				!strings.Contains(remarks[i].Subject, string(contract.Address())) {
				t.Errorf("%s: got %+v, want %q in it", name, remarks[i], part)
			}
		}
	}
	want("nothing")
	net.Mint(contract.Address(), token, money.Units(3))
	net.MineEmpty(20)
	settle()
	want("a token", "holds 3 of mint 1")
	net.Mint(contract.Address(), "", money.Units(5))
	net.MineEmpty(20)
	settle()
	want("coin and a token", "holds 5 of the coin", "holds 3 of mint 1")

	var log bytes.Buffer
	c := net.ToChain()
	c.PayoutContract = contract
	logger := slog.New(slog.NewTextHandler(&log, nil))
	r, err := CheckAndFreeze(t.Context(), h.db, chain.Chains{chain.Ethereum: c}, logger)
	if err != nil || len(r.Remarks) != 2 || !strings.Contains(log.String(), "level=WARN") ||
		!strings.Contains(log.String(), "check=I-89-ETHEREUM") {
		t.Errorf("got %+v, %v and the log %q, want two remarks that are logged", r.Remarks, err, log.String())
	}
	var reason string
	err = h.owner.QueryRow(t.Context(), `SELECT coalesce(string_agg(reason, ' '), '') FROM freezes
		WHERE lifted_at IS NULL AND source = 'VERIFY'`).Scan(&reason)
	if err != nil || strings.Contains(reason, "I-89") {
		t.Errorf("got the freeze %q, %v, want none because of I-89", reason, err)
	}

	net.SilenceBalance(token, true)
	o, remarks, err := examine()
	if err != nil || len(remarks) != 1 || !strings.Contains(o.Note, "not checked, because the token gives no balance") {
		t.Errorf("a silent token: got %+v, %+v, %v, want the coin alone and the token not checked", o, remarks, err)
	}
	net.SilenceBalance(token, false)

	down := errors.New("no provider answers")
	wantUnknown := func(name string, isError bool) {
		t.Helper()
		o, remarks, err := examine()
		if !o.NotChecked || !strings.Contains(o.Note, "not checked") || len(remarks) != 0 || (err != nil) != isError {
			t.Errorf("%s: got %+v, %+v, %v, want it not checked", name, o, remarks, err)
		}
		var b bytes.Buffer
		report := Report{Outcomes: []Outcome{o}}
		if _, err := report.WriteTo(&b); err != nil || !strings.Contains(b.String(), "UNKNOWN I-89-ETHEREUM") ||
			strings.Contains(b.String(), "all 1 checks hold") {
			t.Errorf("%s: got %v and\n%s\nwant that it is unknown", name, err, b.String())
		}
	}
	contract = deployedContract{err: down}
	wantUnknown("no answer about the code", true)
	contract = deployedContract{isDeployed: true}
	net.Provider(0).SetDown(down)
	wantUnknown("no answer about balances", true)
	net.Provider(0).SetDown(nil)
	h.exec(`DELETE FROM finality_proofs WHERE chain = 'ETHEREUM'`)
	h.exec(`DELETE FROM scan_cursors WHERE chain = 'ETHEREUM'`)
	wantUnknown("no block", false)

	contract = deployedContract{}
	if o, _, err := examine(); err != nil || o.NotChecked || !strings.Contains(o.Note, "not deployed") {
		t.Errorf("without the contract: got %+v, %v", o, err)
	}
}
