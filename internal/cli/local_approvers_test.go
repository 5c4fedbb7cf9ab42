package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/cli"
	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/console"
	"github.com/cofferpay/coffer/internal/http/dashboard"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

// A passkey of a page of the local world is founded with one command, and may sign without a cooling-off.
func TestALocalPasskeyIsFoundedWithOneCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := localworld.Start(t.Context(), localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: dir, WithoutSwaps: true, Calm: true,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	found := func() string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), []string{"local", "approvers", "--dir", dir}, &out, &errs); code != 0 {
			t.Fatalf("got %d %s%s", code, out.String(), errs.String())
		}
		return out.String()
	}
	if got := found(); !strings.Contains(got, "No passkey waits") {
		t.Errorf("without a passkey: got %q", got)
	}

	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := app.OpenTools(t.Context(), conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	var passkeys []*signertest.Passkey
	var want []string
	for page, right := range map[string]signer.Right{
		strings.TrimSuffix(w.Info.DashboardURL, dashboard.Prefix): signer.RightApprove,
		strings.TrimSuffix(w.Info.ConsoleURL, console.Prefix):     signer.RightEnrol,
	} {
		p := signertest.NewPasskey(t, w.Info.OrganizationID, "ann", right)
		p.ID, p.Person, p.RPID, p.Origin = approver.NewKeyID(time.Now()), "USER usr_ann", "localhost", page
		request := p.Request(t, tools.Approvers.Installation(), time.Now().Add(time.Hour))
		err := tools.DB().InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tools.Approvers.Enrol(ctx, tx, audit.User("usr_ann"), request)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		passkeys = append(passkeys, p)
		want = append(want, strings.Join(
			[]string{p.Email, string(right), request.Fingerprint(tools.Approvers.Installation())}, "  "))
	}
	got := found()
	for _, line := range want {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("got %q, want the line %q", got, line)
		}
	}
	found() // A passkey that was founded already is not founded again, whether or not it is enrolled by now.
	orders, err := app.ApproverOrders(conf)
	if err != nil || len(orders) != len(passkeys) {
		t.Errorf("got the decisions %+v and %v, want one of each passkey", orders, err)
	}
	for _, p := range passkeys {
		until(t, "the service enrols the passkey of "+p.Origin, func() bool {
			var k approver.Key
			err := tools.DB().ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
				k, err = tools.Approvers.ByID(ctx, tx, p.OrgID, p.ID)
				return err
			})
			if err != nil || k.Refusal != "" {
				t.Fatalf("got %s and %v", k.Refusal, err)
			}
			return k.Status(time.Now()) == approver.StatusUsable
		})
	}
}

// People sign amounts as the mints write them.
func TestTheLocalSignerWritesAmountsAsTheMintsDo(t *testing.T) {
	t.Parallel()
	w, err := localworld.Start(t.Context(), localworld.Options{
		PrepareDatabase: pgtest.FillDataDir, Dir: t.TempDir(), WithoutSwaps: true, WithoutService: true,
		Chains: []chain.Name{chain.Ethereum, chain.Bitcoin}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(conf.Signer.Policy)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := signpolicy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Info.Mints {
		var contract chain.Address
		if m.ContractAddress != nil {
			contract = chain.Address(*m.ContractAddress)
		}
		got := policy.Chains[chain.Name(m.Chain)].Token(contract)
		if got == nil || *got != (signer.Token{Symbol: m.Symbol, Decimals: m.Decimals}) {
			t.Errorf("%s on %s: got %+v, want %d decimals", m.Symbol, m.Chain, got, m.Decimals)
		}
	}
}

func TestAPasskeyIsFoundedWithoutItsFingerprintOnALocalNetworkAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sample, err := app.SampleConfig(chain.Testnet, chain.Ethereum)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "coffer.toml")
	for file, text := range map[string]string{
		conf: string(sample), filepath.Join(dir, "secrets/ethereum"): "https://one.example\nhttps://two.example\n",
		filepath.Join(dir, "secrets/database-url"): "postgres://coffer@db.example/coffer\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err = localworld.Info{Config: conf}.FoundApprovers(t.Context())
	if err == nil || !strings.Contains(err.Error(), "TESTNET") ||
		!strings.Contains(err.Error(), "Nothing was founded") {
		t.Errorf("got %v, want it refused", err)
	}
}
