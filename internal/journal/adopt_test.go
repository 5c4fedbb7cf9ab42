package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/adopt"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
)

// limitedPayment returns a payment of the token that has limits.
func limitedPayment(id string, units uint64) signer.Intent {
	return signer.Intent{
		ID: id, Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
		To:       signertest.Stranger,
		Contract: signertest.LimitedToken, Amount: money.Units(units), CustomerID: "alice",
		IdempotencyKeyHash: signertest.KeyHash(id),
	}
}

func (h *mirrorEnv) sign(t *testing.T, i signer.Intent, nonce uint64) (signer.SignedTx, error) {
	t.Helper()
	from := signertest.IssueAddress(t, h.s, i.From)
	return h.s.Sign(t.Context(), signer.SignRequest{
		IntentID: i.ID, Slot: signer.Slot{Nonce: nonce}, Act: signer.Pay,
		Payload: signertest.IntentPayload(t, i, from, nonce, signertest.UsualFees()),
	})
}

func (h *mirrorEnv) lose(t *testing.T) []byte {
	t.Helper()
	lost := h.swap(t, nil)
	if err := errors.Join(h.s.Close(), os.Remove(h.conf.Journal)); err != nil {
		t.Fatal(err)
	}
	return lost
}

func TestLostJournalIsRebuiltFromItsCopy(t *testing.T) {
	t.Parallel()
	h := newMirrorEnv(t)
	b := h.newDatabase(t, org)
	b.mustImport(t)
	alice, err := b.book.Address(t.Context(), signertest.Deposit(org, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
		b.order(t, id)
	}
	first, second, third := limitedPayment("wd_1", 100), limitedPayment("wd_2", 100), limitedPayment("wd_3", 50)
	b.slot(t, first, 0)
	b.slot(t, second, 1)
	for _, i := range []signer.Intent{first, second} {
		if _, err := h.s.AdmitIntent(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	paid, err := h.sign(t, first, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.mustImport(t)
	// The last entries of the lost journal: one that was copied with its change, after one that was
	// not copied.
	if _, err := h.s.AdmitIntent(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	signed, err := h.sign(t, second, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.record(t, signed.Entry); err != nil {
		t.Fatal(err)
	}
	lost := h.lose(t)

	copied, err := journal.CopiedEntries(t.Context(), b.db)
	if err != nil {
		t.Fatal(err)
	}
	treasury := signertest.Treasury(org)
	at := func(next uint64) []adopt.ChainNonce {
		return []adopt.ChainNonce{{Wallet: treasury, Chain: signertest.Chain, NextNonce: next}}
	}
	other := newMirrorEnv(t)
	for name, try := range map[string]func() error{
		"an empty copy":             func() error { return local.AdoptJournal(h.conf, h.seed, nil, at(1)) },
		"a chain that nobody asked": func() error { return local.AdoptJournal(h.conf, h.seed, copied, nil) },
		"a chain that knows more":   func() error { return local.AdoptJournal(h.conf, h.seed, copied, at(3)) },
		"a payer that the copy lacks": func() error {
			return local.AdoptJournal(h.conf, h.seed, copied, append(at(1),
				adopt.ChainNonce{Wallet: signertest.Treasury("org_9"), Chain: signertest.Chain, NextNonce: 1}))
		},
		"another seed":      func() error { return local.AdoptJournal(h.conf, other.seed, copied, at(1)) },
		"a file in the way": func() error { return local.AdoptJournal(other.conf, h.seed, copied, at(1)) },
		"a policy without the chain": func() error {
			c := h.conf
			c.Policy = signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{chain.Base: c.Policy.Chains[signertest.Chain]}}
			return local.AdoptJournal(c, h.seed, copied, at(1))
		},
		"a copy without an admission": func() error {
			return local.AdoptJournal(h.conf, h.seed, slices.DeleteFunc(slices.Clone(copied),
				func(e signer.Entry) bool {
					return bytes.Contains(e.Body, []byte(`"ADMIT"`))
				}), at(1))
		},
		"an entry twice": func() error {
			return local.AdoptJournal(h.conf, h.seed, append(slices.Clone(copied), copied[2]), at(1))
		},
		"an entry that was changed": func() error {
			return local.AdoptJournal(h.conf, h.seed, forge(t, copied, false, `"amount":"100"`, `"amount":"999"`),
				at(1))
		},
		"a forged address": func() error {
			return local.AdoptJournal(h.conf, h.seed,
				forge(t, copied, true, string(alice.Address), string(signertest.Token)), at(1))
		},
		"a forged payee": func() error {
			return local.AdoptJournal(h.conf, h.seed,
				forge(t, copied, true, `"to":"`+string(signertest.Stranger), `"to":"`+string(signertest.Token)), at(1))
		},
		"a forged transaction": func() error {
			return local.AdoptJournal(h.conf, h.seed, forge(t, copied, true, string(paid.Hash), "0x00"), at(1))
		},
		"a payee of ours": func() error {
			return local.AdoptJournal(h.conf, h.seed,
				forge(t, copied, true, `"to":"`+string(signertest.Stranger), `"to":"`+string(alice.Address)), at(1))
		},
		"a journal with an older time": func() error {
			return local.AdoptJournal(h.conf, h.seed,
				forge(t, copied, true, `"kind":"SIGN","at":"2`, `"kind":"SIGN","at":"1`), at(1))
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if _, err := os.Stat(h.conf.Journal); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: got a journal", name)
		}
	}

	if err := local.AdoptJournal(h.conf, h.seed, copied, at(1)); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	b.book = wallet.New(b.db, h.s, h.seed.AttestKey().PublicKey())
	b.importAdopted(t)
	if got, err := h.sign(t, first, 0); err != nil || !bytes.Equal(got.Raw, paid.Raw) {
		t.Errorf("got %x, %v, want %x again", got.Raw, err, paid.Raw)
	}
	if got, err := h.sign(t, second, 1); err != nil || !bytes.Equal(got.Raw, signed.Raw) {
		t.Errorf("got %x, %v, want %x again", got.Raw, err, signed.Raw)
	}
	var no *signer.Refusal
	if _, err := h.sign(t, first, 2); !errors.As(err, &no) || no.Code != signer.RefusedSlot {
		t.Errorf("a second slot: got %v, want a refusal %s", err, signer.RefusedSlot)
	}
	// 200 of 250 stay used; an entry that was not copied is admitted anew.
	if _, err := h.s.AdmitIntent(t.Context(), limitedPayment("wd_4", 51)); !errors.As(err, &no) ||
		no.Code != signer.PolicyLimit {
		t.Errorf("past the limit: got %v, want a refusal %s", err, signer.PolicyLimit)
	}
	if _, err := h.s.AdmitIntent(t.Context(), third); err != nil {
		t.Error(err)
	}
	if got, err := b.book.Address(t.Context(), signertest.Deposit(org, "alice")); err != nil ||
		got.Address != alice.Address {
		t.Errorf("got %v, %v, want %s", got.Address, err, alice.Address)
	}
	b.importAdopted(t)

	// The lost journal is not accepted again.
	h.swap(t, lost)
	if err := b.importing(t); !errors.Is(err, journal.ErrForeign) {
		t.Errorf("the lost journal: got %v, want ErrForeign", err)
	}
}

// importAdopted is mustImport for a database that also has the copy of the lost journal.
func (b database) importAdopted(t *testing.T) {
	t.Helper()
	if err := b.importing(t); err != nil {
		t.Fatal(err)
	}
	head, err := b.h.s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got signer.Head
	var seq int64
	if err := b.owner.QueryRow(t.Context(),
		`SELECT journal_id, imported_seq, imported_hash FROM signer_identity`).Scan(&got.JournalID, &seq,
		&got.Hash); err != nil {
		t.Fatal(err)
	}
	if got.Seq = uint64(seq); got != head {
		t.Errorf("imported: got %+v, want %+v", got, head)
	}
}

// forge changes the bodies of a copy, and optionally computes the hashes anew.
func forge(t *testing.T, copied []signer.Entry, rehash bool, old, replacement string) []signer.Entry {
	t.Helper()
	out := slices.Clone(copied)
	changed := false
	for n := range out {
		body := strings.ReplaceAll(string(out[n].Body), old, replacement)
		changed = changed || body != string(out[n].Body)
		out[n].Body = json.RawMessage(body)
		if !rehash {
			continue
		}
		if n > 0 && out[n].Seq == out[n-1].Seq+1 {
			out[n].Prev = out[n-1].Hash
		}
		out[n].Hash = out[n].ComputeHash()
	}
	if !changed {
		t.Fatalf("the copy has no %q", old)
	}
	return out
}
