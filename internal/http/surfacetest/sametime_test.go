package surfacetest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// statementLog notes the statements of a database, those of batches too.
type statementLog struct {
	mu   sync.Mutex
	seen []string
}

func (s *statementLog) note(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.Join(strings.Fields(sql), " "))
}

// take returns what was noted since the last call.
func (s *statementLog) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statementLog) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	s.note(data.SQL)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statementLog) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (s *statementLog) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData,
) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		s.note(q.SQL)
	}
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*statementLog) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*statementLog) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// What takes the same statements takes the same time, whatever a clock on a busy machine says: each call of checkouts
// asks the database the same about another organization's id and an absent one. Rules PROD-10, CO-27, CO-66, CO-90 and
// CO-100.
func TestAForeignIdTakesTheStatementsOfAnAbsentOne(t *testing.T) {
	t.Parallel()
	noted := &statementLog{}
	h := newHouseOn(t, pgtest.OpenTraced(t, pgtest.NewDatabase(t), time.Now, noted))
	for _, who := range []tenant{h.one, h.two} {
		h.allowKeys(who, true)
	}
	paid := h.paidCheckout(h.one, "paid", 60_000_000)
	ids := map[string]string{
		"productId": h.makeProduct(h.one, "gold"), "linkId": h.makeLink(h.one, "link"), "checkoutId": paid,
		"refundId":      h.makeRefund(h.one, paid, "refund", "amount", "1000").text("refundId"),
		"depositId":     h.strayPayment(h.one, "stray", 70_000_000),
		"batchPayoutId": h.makeBatch(h.one, "batch").text("batchPayoutId"),
	}
	compared := 0
	for _, r := range organizations.Routes {
		section, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		names := placeholder.FindAllStringSubmatch(r.Path, -1)
		isOfCheckouts := slices.Contains(
			[]string{
				"products", "payment-links", "checkouts", "refunds", "unmatched-payments", "batch-payouts",
			}, section,
		)
		if !isOfCheckouts || len(names) != 1 {
			continue
		}
		var body any
		if r.Method != http.MethodGet && r.Method != http.MethodDelete {
			body = r.RequestExample()
		}
		id := ids[names[0][1]]
		ask := func(id string) (reply, []string) {
			noted.take()
			got := h.call(h.two, r.Method, strings.Replace(r.Path, names[0][0], id, 1), body)
			return got, noted.take()
		}
		ask(absentID(id)) // what is read once by a process
		foreign, ofForeign := ask(id)
		absent, ofAbsent := ask(absentID(id))
		if foreign.status != 404 || absent.status != 404 {
			t.Errorf("%s %s: got %d and %d, want 404", r.Method, r.Path, foreign.status, absent.status)
		}
		if !slices.Equal(ofForeign, ofAbsent) {
			t.Errorf("%s %s: a foreign id takes\n%s\nand an absent one\n%s", r.Method, r.Path,
				strings.Join(ofForeign, "\n"), strings.Join(ofAbsent, "\n"))
		}
		compared += min(len(ofForeign), 1)
	}
	if compared < 25 {
		t.Errorf("got %d calls that ask the database, want every one with an id of checkouts", compared)
	}
}

// A key of a refund that was guessed, replaced or is another refund's takes the statements of an absent refund, and has
// its answer. Rule CO-87.
func TestAWrongClaimKeyTakesTheStatementsOfAnAbsentRefund(t *testing.T) {
	t.Parallel()
	noted := &statementLog{}
	h := newHouseOn(t, pgtest.OpenTraced(t, pgtest.NewDatabase(t), time.Now, noted))
	h.allowKeys(h.one, true)
	paid := h.paidCheckout(h.one, "paid", 60_000_000)
	keyOf := func(r reply) string {
		_, key, _ := strings.Cut(r.text("claimUrl"), "#k=")
		return key
	}
	first := h.makeRefund(h.one, paid, "first", "amount", "1000")
	second := h.makeRefund(h.one, paid, "second", "amount", "1000")
	refundID, old := first.text("refundId"), keyOf(first)
	_, present, err := h.conf.Checkouts.ReissueRefundKey(t.Context(), h.one.id, refundID, audit.User("ann"))
	if err != nil || old == "" || present == old || keyOf(second) == "" {
		t.Fatalf("got the keys %q, %q and %q, %v", old, present, keyOf(second), err)
	}
	ask := func(refundID, key string) (string, []string) {
		noted.take()
		_, err := h.conf.Checkouts.PublicRefund(t.Context(), refundID, key)
		if err == nil {
			return "", noted.take()
		}
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("got %v, want %s", err, fault.CodeNotFound)
		}
		return fmt.Sprintf("%+v", *fault.Find(err)), noted.take()
	}
	answer, taken := ask(absentID(refundID), present)
	if answer == "" || len(taken) == 0 {
		t.Fatalf("got %q after %v for an absent refund", answer, taken)
	}
	guess := base64.RawURLEncoding.EncodeToString(make([]byte, 16))
	for name, key := range map[string]string{
		"guessed": guess, "replaced": old, "of another refund": keyOf(second), "empty": "", "longer": present + "A",
		"in capitals": strings.ToUpper(present),
	} {
		if got, asked := ask(refundID, key); got != answer || !slices.Equal(asked, taken) {
			t.Errorf("%s: got %q after %q, want %q after %q", name, got, asked, answer, taken)
		}
	}
	if got, _ := ask(refundID, present); got != "" {
		t.Errorf("the present key: got %q, want the refund", got)
	}
}
