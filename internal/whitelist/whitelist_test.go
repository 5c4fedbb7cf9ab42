package whitelist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/foureyes"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/operator"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/whitelist"
)

func TestAnAddressIsUsableWhenItHasCooledOffAndUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	h := build(t)
	out, err := h.ask(t, op, org, wanted(), false)
	if err != nil {
		t.Fatal(err)
	}
	id := out.Address.ID
	if got := h.status(t, id); got != whitelist.Waiting {
		t.Errorf("before the signer was asked: got %s, want %s", got, whitelist.Waiting)
	}
	h.pass(2 * time.Hour)
	_, err = h.usable(t, org, id)
	wantCode(t, "before the signer was asked, after its time", err, fault.AddressNotWhitelisted)
	h.pass(-2 * time.Hour)
	for range 2 {
		if err := h.book.Finish(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.status(t, id); got != whitelist.Cooling {
		t.Errorf("endorsed: got %s, want %s", got, whitelist.Cooling)
	}
	h.pass(time.Hour - time.Microsecond)
	_, err = h.usable(t, org, id)
	wantCode(t, "a moment too early", err, fault.AddressNotWhitelisted)
	if f := fault.Of(err); f == nil || f.Details["usableFrom"] != "2026-11-21T13:00:00.123456Z" {
		t.Errorf("got %+v, want it to say when", f)
	}
	h.pass(time.Microsecond)
	a, err := h.usable(t, org, id)
	if err != nil || a.Address != signertest.Stranger || a.Chain != chain.Ethereum || a.ID != id || a.Label != "our exchange" {
		t.Errorf("got %+v %v, want the address", a, err)
	}
	_, err = h.usable(t, other, id)
	wantCode(t, "chosen by another organization", err, fault.CodeNotFound)
	for _, name := range []string{"", "wla_x", "wla_01jd7z3cxq0000000000000000", "'; DROP TABLE whitelisted_addresses"} {
		_, err = h.usable(t, org, name)
		wantCode(t, "chosen "+name, err, fault.CodeNotFound)
	}

	wantCode(t, "removed by another organization", h.remove(t, other, id), fault.CodeNotFound)
	for range 2 {
		if err := h.remove(t, org, id); err != nil {
			t.Fatal(err)
		}
	}
	_, err = h.usable(t, org, id)
	wantCode(t, "removed", err, fault.AddressNotWhitelisted)
	for range 2 {
		if err := h.book.Finish(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	var no *signer.Refusal
	if _, err := h.signer.Endorse(t.Context(), signer.Endorsement{
		OrgID: org, ID: id, Chain: a.Chain, Address: a.Address, LabelHash: signer.LabelHash(a.Label), NotBefore: signer.Moment(a.NotBefore),
	}); !errors.As(err, &no) || no.Code != signer.RefusedWhitelist {
		t.Errorf("the signer, asked for what was removed: got %v, want %s", err, signer.RefusedWhitelist)
	}
	// The same address may come again, as another one that cools off itself.
	again := h.add(t, org, wanted())
	if again == id || h.status(t, again) != whitelist.Cooling || h.status(t, id) != whitelist.Removed {
		t.Errorf("added again: got %s %s", again, h.status(t, again))
	}
	var acts []string
	rows, err := h.owner.Query(t.Context(), `SELECT action || ' ' || actor_id FROM audit_log WHERE resource_id = $1 ORDER BY audit_id`, id)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var act string
		if err := rows.Scan(&act); err != nil {
			t.Fatal(err)
		}
		acts = append(acts, act)
	}
	if got, want := strings.Join(acts, ", "), "whitelist.added opk_1, whitelist.endorsed whitelist, whitelist.removed opk_1"; got != want {
		t.Errorf("audit: got %s, want %s", got, want)
	}
}

// Whatever who owns the database writes into the row: it is an alarm, and nothing is
// paid to it.
func TestAChangedRowIsRefusedAndTold(t *testing.T) {
	t.Parallel()
	h := build(t)
	for name, change := range map[string]string{
		"address":     `address = '` + string(signertest.Limited) + `'`,
		"chain":       `chain = 'BASE'`,
		"label":       `label = 'another exchange'`,
		"usable from": `not_before = not_before - interval '1 microsecond', usable_from = usable_from - interval '1 microsecond'`,
		"not before":  `not_before = created_at`,
		"proof":       `proof = decode(repeat('00', 64), 'hex')`,
	} {
		id := h.add(t, org, wanted())
		h.pass(time.Hour)
		if _, err := h.usable(t, org, id); err != nil {
			t.Fatal(err)
		}
		h.exec(t, `UPDATE whitelisted_addresses SET `+change+` WHERE whitelisted_address_id = $1`, id)
		if a, err := h.usable(t, org, id); !errors.Is(err, whitelist.ErrProof) || fault.Of(err) != nil {
			t.Errorf("another %s: got %+v %v, want %v", name, a, err, whitelist.ErrProof)
		}
		if !h.said.has("somebody changed its row\" whitelisted=" + id) {
			t.Errorf("another %s: nobody was told", name)
		}
		if got := h.status(t, id); got != whitelist.RefusedHere {
			t.Errorf("another %s: got %s, want %s", name, got, whitelist.RefusedHere)
		}
		if err := h.remove(t, org, id); err != nil {
			t.Fatal(err)
		}
	}
	// To another organization's whitelist.
	id := h.add(t, org, wanted())
	h.pass(time.Hour)
	h.exec(t, `UPDATE whitelisted_addresses SET org_id = $2 WHERE whitelisted_address_id = $1`, id, other)
	if _, err := h.usable(t, other, id); !errors.Is(err, whitelist.ErrProof) {
		t.Errorf("another organization: got %v, want %v", err, whitelist.ErrProof)
	}
}

// A row that nobody asked for is endorsed by no one: it needs the server's key.
func TestARowThatNobodyAskedForIsNotEndorsed(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.exec(t, `INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac)
		VALUES ('wla_01jd7z3cxq0000000000000000', $1, 'ETHEREUM', $2, 'mine', $3, 'opk_1', $3, '\x00')`, org, signertest.Limited, h.clock())
	before, err := h.signer.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.book.Pass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if after, err := h.signer.Head(t.Context()); err != nil || after != before {
		t.Errorf("got %+v %v, want nothing in the journal", after, err)
	}
	_, err = h.usable(t, org, "wla_01jd7z3cxq0000000000000000")
	wantCode(t, "a row of nobody's", err, fault.AddressNotWhitelisted)
	if got := h.status(t, "wla_01jd7z3cxq0000000000000000"); got != whitelist.RefusedHere || !h.said.has("the signer refuses a whitelisted address") {
		t.Errorf("got %s, want it refused and told", got)
	}
}

// lossy loses answers, or does not get through.
type lossy struct {
	signer.Signer
	deaf bool
}

var errLost = errors.New("the answer was lost")

func (l *lossy) Endorse(ctx context.Context, e signer.Endorsement) (signer.Endorsed, error) {
	if !l.deaf {
		if _, err := l.Signer.Endorse(ctx, e); err != nil {
			return signer.Endorsed{}, err
		}
	}
	return signer.Endorsed{}, errLost
}

func (l *lossy) Revoke(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	if !l.deaf {
		if _, err := l.Signer.Revoke(ctx, r); err != nil {
			return signer.Entry{}, err
		}
	}
	return signer.Entry{}, errLost
}

// wordy refuses at length.
type wordy struct {
	signer.Signer
	why string
}

func (w wordy) Endorse(context.Context, signer.Endorsement) (signer.Endorsed, error) {
	return signer.Endorsed{}, &signer.Refusal{Code: signer.RefusedWhitelist, Message: w.why}
}

// The words are cut to what the row takes, and not through a character, which no row takes.
func TestALongRefusalIsKept(t *testing.T) {
	t.Parallel()
	h := build(t)
	out, err := h.ask(t, op, org, wanted(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{strings.Repeat("é", 400), "x" + strings.Repeat("é", 400)} {
		if err := h.bookOf(wordy{h.signer, why}).Finish(t.Context(), out.Address.ID); err != nil {
			t.Errorf("got %v, want the refusal kept", err)
		}
		if got := h.row(t, out.Address.ID).Refusal; !strings.Contains(got, why[:100]) {
			t.Errorf("got %q, want it to begin with %q", got, why[:100])
		}
	}
}

func TestWhatIsCutOffBetweenTheRowAndTheSignerIsFinished(t *testing.T) {
	t.Parallel()
	h := build(t)
	count := func() uint64 {
		head, err := h.signer.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return head.Seq
	}
	for name, deaf := range map[string]bool{"the question is lost": true, "the answer is lost": false} {
		before := count()
		broken := h.bookOf(&lossy{h.signer, deaf})
		out, err := h.ask(t, op, org, wanted(), false)
		if err != nil {
			t.Fatal(err)
		}
		id := out.Address.ID
		if err := broken.Finish(t.Context(), id); !errors.Is(err, errLost) {
			t.Errorf("%s: got %v, want %v", name, err, errLost)
		}
		if got := h.status(t, id); got != whitelist.Waiting {
			t.Errorf("%s: got %s, want %s", name, got, whitelist.Waiting)
		}
		if err := h.book.Pass(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := h.status(t, id); got != whitelist.Cooling {
			t.Errorf("%s, and asked again: got %s, want %s", name, got, whitelist.Cooling)
		}
		if err := h.remove(t, org, id); err != nil {
			t.Fatal(err)
		}
		if err := broken.Finish(t.Context(), id); !errors.Is(err, errLost) {
			t.Errorf("%s: got %v, want %v", name, err, errLost)
		}
		for range 2 {
			if err := h.book.Pass(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		if got := count() - before; got != 2 {
			t.Errorf("%s: got %d entries, want an endorsement and a revocation", name, got)
		}
	}
	// Removed before the signer ever heard of it: it is never endorsed.
	out, err := h.ask(t, op, org, wanted(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.remove(t, org, out.Address.ID); err != nil {
		t.Fatal(err)
	}
	before := count()
	if err := h.book.Pass(t.Context(), true); err != nil || count()-before != 1 {
		t.Errorf("got %d entries, %v, want a revocation", count()-before, err)
	}
	if err := mirror.Import(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Errorf("import: got %v", err)
	}
}

// An old database has an address that was removed since: the signer knows better.
func TestWhatWasRemovedAndCameBackWithABackupIsRefused(t *testing.T) {
	t.Parallel()
	h := build(t)
	id := h.add(t, org, wanted())
	h.pass(time.Hour)
	if _, err := h.usable(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.remove(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.book.Finish(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.exec(t, `UPDATE whitelisted_addresses SET removed_at = NULL, removed_by = NULL, revoked_seq = NULL WHERE whitelisted_address_id = $1`, id)
	signertest.Issue(t, h.signer, signertest.Treasury(org))
	var no *signer.Refusal
	granted := h.files.Grants.Grant(signer.Terms{
		OrgID: org, WithdrawalID: "wd_1", Chain: signertest.Chain, Contract: signertest.Token, To: signertest.Stranger, Amount: signertest.PaymentMax, WhitelistedID: id,
	}, money.Zero, 0, 0, nil)
	if _, err := h.signer.Admit(t.Context(), signer.Intent{
		ID: "wd_1", Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org), To: signertest.Stranger, Contract: signertest.Token,
		Amount: signertest.PaymentMax, WhitelistedID: id, Grant: granted,
	}); !errors.As(err, &no) || no.Code != signer.RefusedWhitelist {
		t.Errorf("the signer: got %v, want %s", err, signer.RefusedWhitelist)
	}
	for range 2 {
		if err := h.book.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.usable(t, org, id)
	wantCode(t, "back from a backup", err, fault.AddressNotWhitelisted)
	if got := h.status(t, id); got != whitelist.RefusedHere {
		t.Errorf("got %s, want %s", got, whitelist.RefusedHere)
	}
	// It is removed, and added anew.
	if err := h.remove(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.book.Finish(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := h.status(t, h.add(t, org, wanted())); got != whitelist.Cooling {
		t.Errorf("added anew: got %s, want %s", got, whitelist.Cooling)
	}
}

// A journal that was rebuilt without its last entries endorses again what it lacks, and
// that cools off again.
func TestWhatALostJournalLacksIsEndorsedAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	first := h.add(t, org, wanted())
	w := wanted()
	w.Address = string(signertest.Limited)
	second := h.add(t, org, w)
	if err := mirror.Import(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Fatal(err)
	}
	was := h.row(t, second)
	copied, err := mirror.Copied(t.Context(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.signer.Close(), os.Remove(h.files.Journal)); err != nil {
		t.Fatal(err)
	}
	h.pass(3 * time.Hour)
	// The copy is the database's, and this one has lost its last row.
	last := copied[len(copied)-1]
	h.exec(t, `DELETE FROM signer_journal WHERE seq = $1`, int64(last.Seq))
	h.exec(t, `UPDATE signer_identity SET imported_seq = $1, imported_hash = $2`, int64(last.Seq-1), last.Prev)
	if err := local.Adopt(h.files, h.seed, copied[:len(copied)-1], nil); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	if err := mirror.Import(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.book.Pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.usable(t, org, first); err != nil {
		t.Errorf("what the copy had: got %v", err)
	}
	a, err := h.usable(t, org, second)
	if err != nil || !a.UsableFrom.After(was.UsableFrom) {
		t.Errorf("what it lacked: got %v %v, want it endorsed anew, from later than %s", a.UsableFrom, err, was.UsableFrom)
	}
}

func TestAnAddressThatNoPaymentMayGoToIsNotAdded(t *testing.T) {
	t.Parallel()
	h := build(t)
	treasury, err := h.wallet.Treasury(t.Context(), org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := h.wallet.Address(t.Context(), signertest.Deposit(other, "bob"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*whitelist.Wanted)
		code   fault.Code
		param  string
	}{
		"no chain":           {func(w *whitelist.Wanted) { w.Chain = "" }, fault.InvalidRequest, "chain"},
		"another chain":      {func(w *whitelist.Wanted) { w.Chain = "BASE" }, fault.InvalidRequest, "chain"},
		"no address":         {func(w *whitelist.Wanted) { w.Address = "" }, fault.InvalidAddress, "address"},
		"a wrong checksum":   {func(w *whitelist.Wanted) { w.Address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD" }, fault.InvalidAddress, "address"},
		"a long one":         {func(w *whitelist.Wanted) { w.Address = strings.Repeat("0x", 100) }, fault.InvalidAddress, "address"},
		"nobody's":           {func(w *whitelist.Wanted) { w.Address = "0x0000000000000000000000000000000000000000" }, fault.DestinationNotAllowed, "address"},
		"its own treasury":   {func(w *whitelist.Wanted) { w.Address = string(treasury.Address) }, fault.DestinationNotAllowed, "address"},
		"another tenant's":   {func(w *whitelist.Wanted) { w.Address = string(theirs.Address) }, fault.DestinationNotAllowed, "address"},
		"a token":            {func(w *whitelist.Wanted) { w.Address = string(signertest.Token) }, fault.DestinationNotAllowed, "address"},
		"no label":           {func(w *whitelist.Wanted) { w.Label = " " }, fault.InvalidRequest, "label"},
		"a long label":       {func(w *whitelist.Wanted) { w.Label = strings.Repeat("é", 101) }, fault.InvalidRequest, "label"},
		"a label of a line":  {func(w *whitelist.Wanted) { w.Label = "a\nb" }, fault.InvalidRequest, "label"},
		"a label of no text": {func(w *whitelist.Wanted) { w.Label = "a\xc3" }, fault.InvalidRequest, "label"},
	} {
		w := wanted()
		c.change(&w)
		_, err := h.ask(t, op, org, w, false)
		if f := fault.Of(err); f == nil || f.Code != c.code || f.Param != c.param {
			t.Errorf("%s: got %v, want %s of %s", name, err, c.code, c.param)
		}
	}
	_, err = h.ask(t, op, "org_nobody", wanted(), false)
	wantCode(t, "of nobody", err, fault.CodeNotFound)
	first := h.add(t, org, wanted())
	lower := wanted()
	lower.Address = strings.ToLower(lower.Address)
	_, err = h.ask(t, op, org, lower, false)
	if f := fault.Of(err); f == nil || f.Code != fault.InvalidState || f.Details["whitelistedAddressId"] != first {
		t.Errorf("again: got %v, want it to name %s", err, first)
	}
	h.add(t, other, wanted()) // another organization has its own
}

func TestWhereFourEyesAreWantedAnotherOperatorAgreesToAnAddress(t *testing.T) {
	t.Parallel()
	h := build(t)
	var people []operator.Key
	for _, name := range []string{"ann", "bert"} {
		k, _, err := operator.Create(t.Context(), h.db, op.Actor(), name)
		if err != nil {
			t.Fatal(err)
		}
		people = append(people, k)
	}
	ann, bert := people[0], people[1]
	out, err := h.ask(t, ann, org, wanted(), true)
	if err != nil || out.Address != nil || out.Waits == nil || out.Waits.Kind != foureyes.WhitelistedAddress {
		t.Fatalf("got %+v %v, want a request that waits", out, err)
	}
	approve := func(by operator.Key, name string) error {
		return h.system(t, func(ctx context.Context, tx pg.Tx) error {
			_, err := foureyes.Approve(ctx, tx, by, name, map[foureyes.Kind]func(context.Context, pg.Tx, foureyes.Request) error{foureyes.WhitelistedAddress: h.book.Agree(by)})
			return err
		})
	}
	wantCode(t, "by who asked", approve(ann, out.Waits.ID), fault.ApprovalRefused)
	h.pass(48 * time.Hour)
	if err := approve(bert, out.Waits.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "twice", approve(bert, out.Waits.ID), fault.InvalidState)
	var id string
	if err := h.system(t, func(ctx context.Context, tx pg.Tx) (err error) {
		id, err = whitelist.Added(ctx, tx, out.Waits.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The process that agreed died before it asked the signer.
	if err := h.book.Pass(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	a := h.row(t, id)
	if got, want := a.UsableFrom, h.clock().Add(time.Hour); !got.Equal(want) || a.CreatedBy != bert.ID || a.ChangeID != out.Waits.ID {
		t.Errorf("got %+v, want it usable from %s: it cools off from when somebody agreed", a, want)
	}
	// Removing needs nobody else, and what waits for the same address is refused then or now.
	second, err := h.ask(t, bert, org, whitelist.Wanted{Chain: "ETHEREUM", Address: string(signertest.Limited), Label: "x"}, true)
	if err != nil {
		t.Fatal(err)
	}
	h.add(t, org, whitelist.Wanted{Chain: "ETHEREUM", Address: string(signertest.Limited), Label: "y"})
	wantCode(t, "one that came meanwhile", approve(ann, second.Waits.ID), fault.InvalidState)
	if err := h.remove(t, org, id); err != nil {
		t.Fatal(err)
	}
}

// What the table itself refuses, whoever asks.
func TestTheTableKeepsWhatWasAdded(t *testing.T) {
	t.Parallel()
	h := build(t)
	id := h.add(t, org, wanted())
	for name, sql := range map[string]string{
		"another address":      `UPDATE whitelisted_addresses SET address = 'x'`,
		"another label":        `UPDATE whitelisted_addresses SET label = 'x'`,
		"another organization": `UPDATE whitelisted_addresses SET org_id = 'org_2'`,
		"earlier":              `UPDATE whitelisted_addresses SET usable_from = usable_from - interval '1 second', not_before = not_before`,
		"earlier by far":       `UPDATE whitelisted_addresses SET not_before = created_at`,
		"no proof any more":    `UPDATE whitelisted_addresses SET usable_from = NULL, proof = NULL, journal_id = NULL, journal_seq = NULL`,
		"half removed":         `UPDATE whitelisted_addresses SET removed_at = now()`,
		"revoked and there":    `UPDATE whitelisted_addresses SET revoked_seq = 1`,
		"gone":                 `DELETE FROM whitelisted_addresses`,
		"all gone":             `TRUNCATE whitelisted_addresses`,
		"the same twice": `INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac)
			SELECT 'wla_2', org_id, chain, address, label, created_at, created_by, not_before, request_mac FROM whitelisted_addresses`,
		"usable at once": `INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac)
			SELECT 'wla_2', org_id, chain, 'x', label, created_at, created_by, created_at - interval '1 second', request_mac FROM whitelisted_addresses`,
	} {
		if _, err := h.owner.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: got no error, want it refused", name)
		}
	}
	if err := h.remove(t, org, id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.owner.Exec(t.Context(), `UPDATE whitelisted_addresses SET removed_at = NULL, removed_by = NULL`); err == nil {
		t.Error("back again: got no error, want it refused")
	}
	err := h.db.InOrg(t.Context(), other, func(ctx context.Context, tx pg.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM whitelisted_addresses`).Scan(&n); err != nil || n != 0 {
			return fmt.Errorf("another organization sees %d: %w", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = h.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE whitelisted_addresses SET refusal = NULL`)
		return err
	})
	if err == nil {
		t.Error("written by an organization: got no error, want it refused")
	}
}

func TestManyWhoAddOneAddressAddItOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	const callers = 16
	got := make([]error, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			var out whitelist.Outcome
			got[n] = h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
				out, err = h.book.Ask(ctx, tx, op, foureyes.Rule{}, org, wanted())
				return err
			})
			if got[n] == nil {
				got[n] = h.book.Finish(t.Context(), out.Address.ID)
			} else if fault.Is(got[n], fault.InvalidState) {
				got[n] = h.book.Pass(t.Context(), true)
			}
		})
	}
	all.Wait()
	if err := errors.Join(got...); err != nil {
		t.Error(err)
	}
	var rows, told int
	err := h.owner.QueryRow(t.Context(), `SELECT count(*), (SELECT count(*) FROM audit_log WHERE action LIKE 'whitelist.%') FROM whitelisted_addresses`).Scan(&rows, &told)
	if err != nil || rows != 1 || told != 2 {
		t.Errorf("got %d rows and %d words in the log %v, want one row that was added and endorsed once", rows, told, err)
	}
}

// Whoever removes an address waits for those who are choosing it, and whoever chooses it
// afterwards is refused: the answer to the removal comes when it holds.
func TestARemovalWaitsForWhoIsChoosing(t *testing.T) {
	t.Parallel()
	h := build(t)
	id := h.add(t, org, wanted())
	h.pass(time.Hour)
	removed := make(chan error, 1)
	err := h.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		if _, err := h.book.Usable(ctx, tx, org, id); err != nil {
			return err
		}
		go func() {
			removed <- h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				_, err := h.book.Remove(ctx, tx, op, org, id)
				return err
			})
		}()
		pgtest.Eventually(t, func() bool {
			var waits bool
			err := h.owner.QueryRow(ctx, `
				SELECT EXISTS (SELECT FROM pg_locks
				WHERE locktype = 'advisory' AND NOT granted
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
			return err == nil && waits
		}, "the removal waits")
		_, err := h.book.Usable(ctx, tx, org, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	_, err = h.usable(t, org, id)
	wantCode(t, "after the removal", err, fault.AddressNotWhitelisted)
}
