package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/rescue"
)

// A journal knows what was paid, and money that is moved past it is missing in its books. So the
// rescue refuses a seed that has a journal. The drill of the seed plays everything else.
func TestARescueIsRefusedWhereAJournalMayBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := app.DefaultConfig()
	conf.Keys, conf.Signer = app.KeyFiles(filepath.Join(dir, "keys"))
	if err := app.CreateKeys(conf.Keys, conf.Signer); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf.Signer.Policy, []byte(`{"chains": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare := func() error {
		_, closeSigner, err := app.PrepareRescue(t.Context(), conf, rescue.Order{Org: "org_1", Chain: "ETHEREUM"})
		if err == nil {
			_ = closeSigner()
		}
		return err
	}
	if err := prepare(); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("with the journal: got %v, want a refusal", err)
	}
	if _, err := os.Stat(conf.Signer.Journal + ".rescue"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a refusal: got %v, want no journal of a rescue", err)
	}
	conf.Signer.Socket = filepath.Join(dir, "signer.sock")
	if err := prepare(); err == nil || !strings.Contains(err.Error(), "another signer") {
		t.Errorf("with a signer elsewhere: got %v, want a refusal", err)
	}
}

// A seed whose money was moved has signed: no service starts with it.
func TestARescuedSeedGetsNoNewJournal(t *testing.T) {
	t.Parallel()
	keys, sign := app.KeyFiles(filepath.Join(t.TempDir(), "keys"))
	if err := app.CreateKeys(keys, sign); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(sign.Journal, sign.Journal+".rescue"); err != nil {
		t.Fatal(err)
	}
	if err := app.CreateJournal(keys, sign); err == nil || !strings.Contains(err.Error(), "new seed") {
		t.Errorf("got %v, want a refusal that asks for a new seed", err)
	}
}
