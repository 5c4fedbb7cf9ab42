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
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

func TestAnAddressIsUsableWhenItHasCooledOffAndUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	out, err := h.requestEntry(t, op, org, newEntryRequest(), false)
	if err != nil {
		t.Fatal(err)
	}
	id := out.Entry.ID
	if got := h.entryStatus(t, id); got != whitelist.StatusWaiting {
		t.Errorf("before the signer was asked: got %s, want %s", got, whitelist.StatusWaiting)
	}
	h.advanceClock(2 * time.Hour)
	_, err = h.loadUsable(t, org, id)
	wantCode(t, "before the signer was asked, after its time", err, fault.AddressNotWhitelisted)
	h.advanceClock(-2 * time.Hour)
	for range 2 {
		if err := h.book.FinishEntry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.entryStatus(t, id); got != whitelist.StatusCoolingOff {
		t.Errorf("endorsed: got %s, want %s", got, whitelist.StatusCoolingOff)
	}
	h.advanceClock(time.Hour - time.Microsecond)
	_, err = h.loadUsable(t, org, id)
	wantCode(t, "a moment too early", err, fault.AddressNotWhitelisted)
	if f := fault.Find(err); f == nil || f.Details["usableFrom"] != "2026-11-21T13:00:00.123456Z" {
		t.Errorf("got %+v, want it to say when", f)
	}
	h.advanceClock(time.Microsecond)
	e, err := h.loadUsable(t, org, id)
	if err != nil || e.Address != signertest.Stranger || e.Chain != chain.Ethereum || e.ID != id ||
		e.Label != "our exchange" {
		t.Errorf("got %+v %v, want the address", e, err)
	}
	_, err = h.loadUsable(t, other, id)
	wantCode(t, "chosen by another organization", err, fault.CodeNotFound)
	for _, name := range []string{
		"", "wla_x", "wla_01jd7z3cxq0000000000000000", "'; DROP TABLE whitelisted_addresses",
	} {
		_, err = h.loadUsable(t, org, name)
		wantCode(t, "chosen "+name, err, fault.CodeNotFound)
	}

	wantCode(t, "removed by another organization", h.removeEntry(t, other, id), fault.CodeNotFound)
	for range 2 {
		if err := h.removeEntry(t, org, id); err != nil {
			t.Fatal(err)
		}
	}
	_, err = h.loadUsable(t, org, id)
	wantCode(t, "removed", err, fault.AddressNotWhitelisted)
	for range 2 {
		if err := h.book.FinishEntry(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	var no *signer.Refusal
	if _, err := h.signer.EndorseAddress(t.Context(), signer.Endorsement{
		OrgID: org, ID: id, Chain: e.Chain, Address: e.Address, LabelHash: signer.HashLabel(e.Label),
		NotBefore: signer.FormatMicros(e.NotBefore),
	}); !errors.As(err, &no) || no.Code != signer.RefusedWhitelist {
		t.Errorf("the signer, asked for what was removed: got %v, want %s", err, signer.RefusedWhitelist)
	}
	// The same address may be added again, as another entry that cools off itself.
	again := h.addEntry(t, org, newEntryRequest())
	if again == id || h.entryStatus(t, again) != whitelist.StatusCoolingOff ||
		h.entryStatus(t, id) != whitelist.StatusRemoved {
		t.Errorf("added again: got %s %s", again, h.entryStatus(t, again))
	}
	var acts []string
	rows, err := h.owner.Query(
		t.Context(), `SELECT action || ' ' || actor_id FROM audit_log WHERE resource_id = $1 ORDER BY audit_id`,
		id,
	)
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
	if got, want := strings.Join(acts, ", "),
		"whitelist.added opk_1, whitelist.endorsed whitelist, whitelist.removed opk_1"; got != want {
		t.Errorf("audit: got %s, want %s", got, want)
	}
}

// Every change of the row by the owner of the database raises an alarm, and the entry is not paid.
func TestAChangedRowIsRefusedAndTold(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for name, change := range map[string]string{
		"address":     `address = '` + string(signertest.LimitedToken) + `'`,
		"chain":       `chain = 'BASE'`,
		"label":       `label = 'another exchange'`,
		"usable from": `not_before = not_before - interval '1 microsecond', usable_from = usable_from - interval '1 microsecond'`,
		"not before":  `not_before = created_at`,
		"proof":       `proof = decode(repeat('00', 64), 'hex')`,
	} {
		id := h.addEntry(t, org, newEntryRequest())
		h.advanceClock(time.Hour)
		if _, err := h.loadUsable(t, org, id); err != nil {
			t.Fatal(err)
		}
		h.exec(t, `UPDATE whitelisted_addresses SET `+change+` WHERE whitelisted_address_id = $1`, id)
		if e, err := h.loadUsable(t, org, id); !errors.Is(err, whitelist.ErrProof) || fault.Find(err) != nil {
			t.Errorf("another %s: got %+v %v, want %v", name, e, err, whitelist.ErrProof)
		}
		if !h.said.contains("the database was changed by hand\" whitelisted=" + id) {
			t.Errorf("another %s: nobody was told", name)
		}
		if got := h.entryStatus(t, id); got != whitelist.StatusRefused {
			t.Errorf("another %s: got %s, want %s", name, got, whitelist.StatusRefused)
		}
		if err := h.removeEntry(t, org, id); err != nil {
			t.Fatal(err)
		}
	}
	// To another organization's whitelist.
	id := h.addEntry(t, org, newEntryRequest())
	h.advanceClock(time.Hour)
	h.exec(t, `UPDATE whitelisted_addresses SET org_id = $2 WHERE whitelisted_address_id = $1`, id, other)
	if _, err := h.loadUsable(t, other, id); !errors.Is(err, whitelist.ErrProof) {
		t.Errorf("another organization: got %v, want %v", err, whitelist.ErrProof)
	}
}

// A row that no operator requested is not endorsed: that needs the server's key.
func TestARowThatNobodyAskedForIsNotEndorsed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.exec(t,
		`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac)
		VALUES ('wla_01jd7z3cxq0000000000000000', $1, 'ETHEREUM', $2, 'mine', $3, 'opk_1', $3, '\x00')`,
		org, signertest.LimitedToken, h.clock())
	before, err := h.signer.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.book.RunPass(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if after, err := h.signer.Head(t.Context()); err != nil || after != before {
		t.Errorf("got %+v %v, want nothing in the journal", after, err)
	}
	_, err = h.loadUsable(t, org, "wla_01jd7z3cxq0000000000000000")
	wantCode(t, "a row of nobody's", err, fault.AddressNotWhitelisted)
	if got := h.entryStatus(t, "wla_01jd7z3cxq0000000000000000"); got != whitelist.StatusRefused ||
		!h.said.contains("the signer refuses a whitelisted address") {
		t.Errorf("got %s, want it refused and told", got)
	}
}

// lossySigner loses answers or requests.
type lossySigner struct {
	signer.Signer
	deaf bool
}

var errLost = errors.New("the answer was lost")

func (l *lossySigner) EndorseAddress(ctx context.Context, e signer.Endorsement) (signer.EndorsedAddress, error) {
	if !l.deaf {
		if _, err := l.Signer.EndorseAddress(ctx, e); err != nil {
			return signer.EndorsedAddress{}, err
		}
	}
	return signer.EndorsedAddress{}, errLost
}

func (l *lossySigner) RevokeEndorsement(ctx context.Context, r signer.Revocation) (signer.Entry, error) {
	if !l.deaf {
		if _, err := l.Signer.RevokeEndorsement(ctx, r); err != nil {
			return signer.Entry{}, err
		}
	}
	return signer.Entry{}, errLost
}

// wrongProofSigner refuses with a long message.
type wrongProofSigner struct {
	signer.Signer
	why string
}

func (w wrongProofSigner) EndorseAddress(context.Context, signer.Endorsement) (signer.EndorsedAddress, error) {
	return signer.EndorsedAddress{}, &signer.Refusal{Code: signer.RefusedWhitelist, Message: w.why}
}

// The message is cut to the length of the column, and not inside a character, which no column
// takes.
func TestALongRefusalIsKept(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	out, err := h.requestEntry(t, op, org, newEntryRequest(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{strings.Repeat("é", 400), "x" + strings.Repeat("é", 400)} {
		if err := h.serviceWith(wrongProofSigner{h.signer, why}).FinishEntry(t.Context(), out.Entry.ID); err != nil {
			t.Errorf("got %v, want the refusal kept", err)
		}
		if got := h.loadEntry(t, out.Entry.ID).Refusal; !strings.Contains(got, why[:100]) {
			t.Errorf("got %q, want it to begin with %q", got, why[:100])
		}
	}
}

func TestWhatIsCutOffBetweenTheRowAndTheSignerIsFinished(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	count := func() uint64 {
		head, err := h.signer.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return head.Seq
	}
	for name, deaf := range map[string]bool{"the question is lost": true, "the answer is lost": false} {
		before := count()
		broken := h.serviceWith(&lossySigner{h.signer, deaf})
		out, err := h.requestEntry(t, op, org, newEntryRequest(), false)
		if err != nil {
			t.Fatal(err)
		}
		id := out.Entry.ID
		if err := broken.FinishEntry(t.Context(), id); !errors.Is(err, errLost) {
			t.Errorf("%s: got %v, want %v", name, err, errLost)
		}
		if got := h.entryStatus(t, id); got != whitelist.StatusWaiting {
			t.Errorf("%s: got %s, want %s", name, got, whitelist.StatusWaiting)
		}
		if err := h.book.RunPass(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if got := h.entryStatus(t, id); got != whitelist.StatusCoolingOff {
			t.Errorf("%s, and asked again: got %s, want %s", name, got, whitelist.StatusCoolingOff)
		}
		if err := h.removeEntry(t, org, id); err != nil {
			t.Fatal(err)
		}
		if err := broken.FinishEntry(t.Context(), id); !errors.Is(err, errLost) {
			t.Errorf("%s: got %v, want %v", name, err, errLost)
		}
		for range 2 {
			if err := h.book.RunPass(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		}
		if got := count() - before; got != 2 {
			t.Errorf("%s: got %d entries, want an endorsement and a revocation", name, got)
		}
	}
	// Removed before the signer was asked: it is never endorsed.
	out, err := h.requestEntry(t, op, org, newEntryRequest(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.removeEntry(t, org, out.Entry.ID); err != nil {
		t.Fatal(err)
	}
	before := count()
	if err := h.book.RunPass(t.Context(), true); err != nil || count()-before != 1 {
		t.Errorf("got %d entries, %v, want a revocation", count()-before, err)
	}
	if err := mirror.ImportJournal(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Errorf("import: got %v", err)
	}
}

// An old database has an entry that was removed later: the signer knows it.
func TestWhatWasRemovedAndCameBackWithABackupIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.addEntry(t, org, newEntryRequest())
	h.advanceClock(time.Hour)
	if _, err := h.loadUsable(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.removeEntry(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.book.FinishEntry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h.exec(
		t,
		`UPDATE whitelisted_addresses SET removed_at = NULL, removed_by = NULL, revoked_seq = NULL WHERE whitelisted_address_id = $1`,
		id,
	)
	signertest.IssueAddress(t, h.signer, signertest.Treasury(org))
	var no *signer.Refusal
	granted := h.files.Grants.MakeGrant(signer.Terms{
		OrgID: org, WithdrawalID: "wd_1", Chain: signertest.Chain, Contract: signertest.Token,
		To: signertest.Stranger, Amount: signertest.PaymentMax, WhitelistedID: id,
	}, money.Zero, 0, 0, nil)
	if _, err := h.signer.AdmitIntent(t.Context(), signer.Intent{
		ID: "wd_1", Purpose: signer.Payment, Chain: signertest.Chain, From: signertest.Treasury(org),
		To: signertest.Stranger, Contract: signertest.Token,
		Amount: signertest.PaymentMax, WhitelistedID: id, Grant: granted,
	}); !errors.As(err, &no) || no.Code != signer.RefusedWhitelist {
		t.Errorf("the signer: got %v, want %s", err, signer.RefusedWhitelist)
	}
	for range 2 {
		if err := h.book.RunPass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.loadUsable(t, org, id)
	wantCode(t, "back from a backup", err, fault.AddressNotWhitelisted)
	if got := h.entryStatus(t, id); got != whitelist.StatusRefused {
		t.Errorf("got %s, want %s", got, whitelist.StatusRefused)
	}
	// It is removed, and added again.
	if err := h.removeEntry(t, org, id); err != nil {
		t.Fatal(err)
	}
	if err := h.book.FinishEntry(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := h.entryStatus(t, h.addEntry(t, org, newEntryRequest())); got != whitelist.StatusCoolingOff {
		t.Errorf("added anew: got %s, want %s", got, whitelist.StatusCoolingOff)
	}
}

// A journal that was rebuilt without its last entries endorses the missing ones again, and they
// cool off again.
func TestWhatALostJournalLacksIsEndorsedAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	first := h.addEntry(t, org, newEntryRequest())
	w := newEntryRequest()
	w.Address = string(signertest.LimitedToken)
	second := h.addEntry(t, org, w)
	if err := mirror.ImportJournal(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Fatal(err)
	}
	was := h.loadEntry(t, second)
	copied, err := mirror.CopiedEntries(t.Context(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.signer.Close(), os.Remove(h.files.Journal)); err != nil {
		t.Fatal(err)
	}
	h.advanceClock(3 * time.Hour)
	// The database has the copy, and this one has lost its last row.
	last := copied[len(copied)-1]
	h.exec(t, `DELETE FROM signer_journal WHERE seq = $1`, int64(last.Seq))
	h.exec(t, `UPDATE signer_identity SET imported_seq = $1, imported_hash = $2`, int64(last.Seq-1), last.Prev)
	if err := local.AdoptJournal(h.files, h.seed, copied[:len(copied)-1], nil); err != nil {
		t.Fatal(err)
	}
	h.reopen(t)
	if err := mirror.ImportJournal(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.book.RunPass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.loadUsable(t, org, first); err != nil {
		t.Errorf("what the copy had: got %v", err)
	}
	e, err := h.loadUsable(t, org, second)
	if err != nil || !e.UsableFrom.After(was.UsableFrom) {
		t.Errorf(
			"what it lacked: got %v %v, want it endorsed anew, from later than %s", e.UsableFrom, err,
			was.UsableFrom,
		)
	}
}

func TestAnAddressThatNoPaymentMayGoToIsNotAdded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	treasury, err := h.wallet.Treasury(t.Context(), org, chain.EVM)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := h.wallet.Address(t.Context(), signertest.Deposit(other, "bob"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*whitelist.EntryRequest)
		code   fault.Code
		param  string
	}{
		"no chain":      {func(w *whitelist.EntryRequest) { w.Chain = "" }, fault.InvalidRequest, "chain"},
		"another chain": {func(w *whitelist.EntryRequest) { w.Chain = "BASE" }, fault.InvalidRequest, "chain"},
		"no address":    {func(w *whitelist.EntryRequest) { w.Address = "" }, fault.InvalidAddress, "address"},
		"a wrong checksum": {
			func(w *whitelist.EntryRequest) { w.Address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD" },
			fault.InvalidAddress, "address",
		},
		"a long one": {
			func(w *whitelist.EntryRequest) { w.Address = strings.Repeat("0x", 100) }, fault.InvalidAddress, "address",
		},
		"nobody's": {
			func(w *whitelist.EntryRequest) { w.Address = "0x0000000000000000000000000000000000000000" },
			fault.DestinationNotAllowed, "address",
		},
		"its own treasury": {
			func(w *whitelist.EntryRequest) { w.Address = string(treasury.Address) }, fault.DestinationNotAllowed,
			"address",
		},
		"another tenant's": {
			func(w *whitelist.EntryRequest) { w.Address = string(theirs.Address) }, fault.DestinationNotAllowed,
			"address",
		},
		"a token": {
			func(w *whitelist.EntryRequest) { w.Address = string(signertest.Token) }, fault.DestinationNotAllowed,
			"address",
		},
		"no label": {func(w *whitelist.EntryRequest) { w.Label = " " }, fault.InvalidRequest, "label"},
		"a long label": {
			func(w *whitelist.EntryRequest) { w.Label = strings.Repeat("é", 101) }, fault.InvalidRequest, "label",
		},
		"a label of a line":  {func(w *whitelist.EntryRequest) { w.Label = "a\nb" }, fault.InvalidRequest, "label"},
		"a label of no text": {func(w *whitelist.EntryRequest) { w.Label = "a\xc3" }, fault.InvalidRequest, "label"},
	} {
		w := newEntryRequest()
		c.change(&w)
		_, err := h.requestEntry(t, op, org, w, false)
		if f := fault.Find(err); f == nil || f.Code != c.code || f.Param != c.param {
			t.Errorf("%s: got %v, want %s of %s", name, err, c.code, c.param)
		}
	}
	_, err = h.requestEntry(t, op, "org_nobody", newEntryRequest(), false)
	wantCode(t, "of nobody", err, fault.CodeNotFound)
	first := h.addEntry(t, org, newEntryRequest())
	lower := newEntryRequest()
	lower.Address = strings.ToLower(lower.Address)
	_, err = h.requestEntry(t, op, org, lower, false)
	if f := fault.Find(err); f == nil || f.Code != fault.InvalidState || f.Details["whitelistedAddressId"] != first {
		t.Errorf("again: got %v, want it to name %s", err, first)
	}
	h.addEntry(t, other, newEntryRequest()) // another organization has its own
}

func TestWhereFourEyesAreWantedAnotherOperatorAgreesToAnAddress(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var people []operator.Key
	for _, name := range []string{"ann", "bert"} {
		k, _, err := operator.CreateKey(t.Context(), h.db, op.Actor(), name)
		if err != nil {
			t.Fatal(err)
		}
		people = append(people, k)
	}
	ann, bert := people[0], people[1]
	out, err := h.requestEntry(t, ann, org, newEntryRequest(), true)
	if err != nil || out.Entry != nil || out.PendingChange == nil ||
		out.PendingChange.Kind != changerequest.WhitelistedAddress {
		t.Fatalf("got %+v %v, want a request that waits", out, err)
	}
	approve := func(by operator.Key, name string) error {
		return h.inSystem(t, func(ctx context.Context, tx pg.Tx) error {
			_, err := changerequest.Approve(
				ctx, tx, by, name,
				map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
					changerequest.WhitelistedAddress: h.book.ApplyApproved(by),
				},
			)
			return err
		})
	}
	wantCode(t, "by who asked", approve(ann, out.PendingChange.ID), fault.ApprovalRefused)
	h.advanceClock(48 * time.Hour)
	if err := approve(bert, out.PendingChange.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "twice", approve(bert, out.PendingChange.ID), fault.InvalidState)
	var id string
	if err := h.inSystem(t, func(ctx context.Context, tx pg.Tx) (err error) {
		id, err = whitelist.EntryOfChange(ctx, tx, out.PendingChange.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// The process that approved ended before it asked the signer.
	if err := h.book.RunPass(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	e := h.loadEntry(t, id)
	if got, want := e.UsableFrom, h.clock().Add(time.Hour); !got.Equal(want) || e.CreatedBy != bert.ID ||
		e.ChangeID != out.PendingChange.ID {
		t.Errorf("got %+v, want it usable from %s: it cools off from when somebody agreed", e, want)
	}
	// A removal needs no second operator. A pending request for the same address is refused now or
	// later.
	second, err := h.requestEntry(
		t, bert, org,
		whitelist.EntryRequest{Chain: "ETHEREUM", Address: string(signertest.LimitedToken), Label: "x"}, true,
	)
	if err != nil {
		t.Fatal(err)
	}
	h.addEntry(t, org, whitelist.EntryRequest{Chain: "ETHEREUM", Address: string(signertest.LimitedToken), Label: "y"})
	wantCode(t, "one that came meanwhile", approve(ann, second.PendingChange.ID), fault.InvalidState)
	if err := h.removeEntry(t, org, id); err != nil {
		t.Fatal(err)
	}
}

// What the table itself refuses, for every role.
func TestTheTableKeepsWhatWasAdded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.addEntry(t, org, newEntryRequest())
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
	if err := h.removeEntry(t, org, id); err != nil {
		t.Fatal(err)
	}
	if _, err := h.owner.Exec(
		t.Context(), `UPDATE whitelisted_addresses SET removed_at = NULL, removed_by = NULL`,
	); err == nil {
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
	h := newTestEnv(t)
	const callers = 16
	got := make([]error, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			var out whitelist.Outcome
			got[n] = h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
				out, err = h.book.RequestEntry(ctx, tx, op, changerequest.Rule{}, org, newEntryRequest())
				return err
			})
			if got[n] == nil {
				got[n] = h.book.FinishEntry(t.Context(), out.Entry.ID)
			} else if fault.HasCode(got[n], fault.InvalidState) {
				got[n] = h.book.RunPass(t.Context(), true)
			}
		})
	}
	all.Wait()
	if err := errors.Join(got...); err != nil {
		t.Error(err)
	}
	var rows, told int
	err := h.owner.QueryRow(
		t.Context(),
		`SELECT count(*), (SELECT count(*) FROM audit_log WHERE action LIKE 'whitelist.%') FROM whitelisted_addresses`,
	).Scan(&rows, &told)
	if err != nil || rows != 1 || told != 2 {
		t.Errorf(
			"got %d rows and %d words in the log %v, want one row that was added and endorsed once", rows, told,
			err,
		)
	}
}

// A removal waits for the transactions that are choosing the entry, and later ones are refused. So
// the removal holds once it is answered.
func TestARemovalWaitsForWhoIsChoosing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.addEntry(t, org, newEntryRequest())
	h.advanceClock(time.Hour)
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
	_, err = h.loadUsable(t, org, id)
	wantCode(t, "after the removal", err, fault.AddressNotWhitelisted)
}
