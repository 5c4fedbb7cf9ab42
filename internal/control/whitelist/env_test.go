package whitelist_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/whitelist"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

const org, other = "org_1", "org_2"

var op = operator.Key{ID: "opk_1", Name: "ann"}

// testEnv is a database, a signer with its files, and the whitelist service between them.
type testEnv struct {
	db     *pg.DB
	owner  *pgxpool.Pool
	seed   keys.Seed
	files  local.Config
	signer *local.Signer
	attest ed25519.PublicKey
	wallet *wallet.Service
	book   *whitelist.Service
	said   logBuffer

	mu  sync.Mutex
	now time.Time
}

// logBuffer collects the log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *logBuffer) contains(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.b.Bytes(), []byte(words))
}

func (h *testEnv) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *testEnv) advanceClock(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// newTestEnv returns an environment whose installation has a cooling-off of an hour.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	h := &testEnv{now: time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC)}
	h.db = pgtest.NewWithClock(t, h.clock)
	h.owner = pgtest.OwnerPool(t, h.db)
	var err error
	if h.seed, err = keys.NewSeed(); err != nil {
		t.Fatal(err)
	}
	grants, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	h.files = local.Config{
		Journal: filepath.Join(t.TempDir(), "journal"), Policy: signertest.NewPolicy(), Grants: grants,
		Clock: h.clock,
	}
	if err := local.CreateJournal(h.files, h.seed); err != nil {
		t.Fatal(err)
	}
	h.attest = h.seed.AttestKey().PublicKey()
	h.reopen(t)
	t.Cleanup(func() { h.signer.Close() })
	h.exec(
		t, `INSERT INTO organizations (org_id, name, created_at) VALUES ($1, 'one', now()), ($2, 'two', now())`,
		org, other,
	)
	h.exec(t, `
		INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, deposit_enabled, withdraw_enabled,
			min_deposit, min_withdraw, confirmations_required, finality)
		VALUES (1, 'ETHEREUM', 'LOCAL', 'NATIVE', '', 'ETH', 'Ether', 18, true, true, 1, 1, 1, 'FINALIZED'),
			(2, 'ETHEREUM', 'LOCAL', 'TOKEN', $1, 'USDC', 'Dollar', 6, true, true, 1, 1, 1, 'FINALIZED')`,
		signertest.Token)
	if err := mirror.ImportJournal(t.Context(), h.db, h.signer, h.wallet); err != nil {
		t.Fatal(err)
	}
	return h
}

// reopen opens the signer on its files again, and the service on it.
func (h *testEnv) reopen(t *testing.T) {
	t.Helper()
	s, err := local.Open(h.files, h.seed)
	if err != nil {
		t.Fatal(err)
	}
	h.signer, h.wallet = s, wallet.New(h.db, s, h.attest)
	h.book = h.serviceWith(s)
}

func (h *testEnv) serviceWith(s signer.Signer) *whitelist.Service {
	return whitelist.New(h.db, s, whitelist.Config{
		AttestKey: h.attest, GrantKey: h.files.Grants, CoolingOff: time.Hour,
		Chains: chain.Chains{
			chain.Ethereum: {Name: chain.Ethereum, Network: chain.Local, AddressCodec: evmtx.AddressCodec{
				ChainID: signertest.ChainID,
			}},
		},
	}, slog.New(slog.NewTextHandler(&h.said, nil)))
}

// exec writes past every right and trigger, as the owner of the database can.
func (h *testEnv) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	tx, err := h.owner.Begin(t.Context())
	if err == nil {
		defer tx.Rollback(context.Background())
		if _, err = tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err == nil {
			_, err = tx.Exec(t.Context(), sql, args...)
		}
	}
	if err == nil {
		err = tx.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (h *testEnv) inSystem(t *testing.T, f func(ctx context.Context, tx pg.Tx) error) error {
	t.Helper()
	return h.db.InSystem(t.Context(), f)
}

func newEntryRequest() whitelist.EntryRequest {
	return whitelist.EntryRequest{Chain: "ETHEREUM", Address: string(signertest.Stranger), Label: "our exchange"}
}

// requestEntry calls RequestEntry in a transaction of its own.
func (h *testEnv) requestEntry(
	t *testing.T, by operator.Key, orgID string, w whitelist.EntryRequest, eyes bool,
) (out whitelist.Outcome, err error) {
	t.Helper()
	err = h.inSystem(t, func(ctx context.Context, tx pg.Tx) (err error) {
		out, err = h.book.RequestEntry(ctx, tx, by, changerequest.Rule{Enabled: eyes}, orgID, w)
		return err
	})
	return out, err
}

// addEntry returns an entry that is requested and endorsed.
func (h *testEnv) addEntry(t *testing.T, orgID string, w whitelist.EntryRequest) string {
	t.Helper()
	out, err := h.requestEntry(t, op, orgID, w, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.book.FinishEntry(t.Context(), out.Entry.ID); err != nil {
		t.Fatal(err)
	}
	return out.Entry.ID
}

func (h *testEnv) removeEntry(t *testing.T, orgID, name string) error {
	t.Helper()
	return h.inSystem(t, func(ctx context.Context, tx pg.Tx) error {
		_, err := h.book.Remove(ctx, tx, op, orgID, name)
		return err
	})
}

func (h *testEnv) loadEntry(t *testing.T, name string) (e whitelist.Entry) {
	t.Helper()
	err := h.inSystem(t, func(ctx context.Context, tx pg.Tx) error {
		found, err := h.book.List(ctx, tx, org, pagination.Page{Limit: pagination.LimitMax})
		for _, one := range found.Items {
			if one.ID == name {
				e = one
			}
		}
		return err
	})
	if err != nil || e.ID == "" {
		t.Fatalf("got %v %v, want %s in the list", e, err, name)
	}
	return e
}

// loadUsable returns what Usable answers to an organization that chooses an entry.
func (h *testEnv) loadUsable(t *testing.T, orgID, name string) (e whitelist.Entry, err error) {
	t.Helper()
	err = h.db.InOrg(t.Context(), orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		e, err = h.book.Usable(ctx, tx, orgID, name)
		return err
	})
	return e, err
}

func (h *testEnv) entryStatus(t *testing.T, name string) whitelist.Status {
	t.Helper()
	return h.loadEntry(t, name).Status(h.clock())
}

func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}
