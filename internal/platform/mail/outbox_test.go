package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// world is a database with an outbox and a sender, on a clock of its own.
type world struct {
	t        *testing.T
	database pgtest.Database
	db       *pg.DB
	keys     *seal.Keyset
	outbox   *Outbox
	sender   *Sender
	log      *logText
	offset   atomic.Int64
	began    time.Time
}

// logText is a log that a test reads while senders write it.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T, transport Transport) *world {
	t.Helper()
	w := &world{t: t, database: pgtest.NewDatabase(t), log: &logText{}, began: time.Now()}
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.keys, err = seal.OpenKeyset(path); err != nil {
		t.Fatal(err)
	}
	w.outbox = &Outbox{Seal: w.keys}
	w.sender = w.process(transport)
	w.db = w.sender.DB
	return w
}

// process returns a sender with connections of its own, as another process has.
func (w *world) process(transport Transport) *Sender {
	return &Sender{
		DB:   pgtest.Open(w.t, w.database, func() time.Time { return w.began.Add(time.Duration(w.offset.Load())) }),
		Seal: w.keys, Transport: transport, Address: sender(), Log: slog.New(slog.NewTextHandler(w.log, nil)),
	}
}

func (w *world) wait(d time.Duration) { w.offset.Add(int64(d)) }

// insertMail begins a statement that writes a mail.
const insertMail = `INSERT INTO mails (mail_id, kind, to_address, sealed, created_at, attempt_after`

// message is a mail to an address.
func message(to string) Message {
	return Message{
		Kind: "INVITATION", To: to, Subject: "Your invitation",
		Text: "Open https://pay.example.com/join?t=" + token + "\n",
	}
}

func (w *world) queue(messages ...Message) {
	w.t.Helper()
	err := w.db.InSystem(w.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for _, m := range messages {
			if err := w.outbox.Queue(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) step() int {
	w.t.Helper()
	n, err := w.sender.Step(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// count counts rows by a condition.
func (w *world) count(condition string) (n int) {
	w.t.Helper()
	if err := pgtest.OwnerPool(w.t, w.db).QueryRow(
		w.t.Context(), `SELECT count(*) FROM mails WHERE `+condition,
	).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// rows returns the table as text, with the bytes of what is sealed.
func (w *world) rows() string {
	w.t.Helper()
	var text string
	if err := pgtest.OwnerPool(w.t, w.db).QueryRow(w.t.Context(), `
		SELECT coalesce(string_agg(to_jsonb(m)::text || ' ' || encode(coalesce(sealed, ''), 'escape'), chr(10)
			ORDER BY mail_id), '')
		FROM mails m`).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return text
}

// Rule MAIL-1.
func TestAMailIsOfItsTransaction(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	undone := errors.New("undone")
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return errors.Join(w.outbox.Queue(ctx, tx, message("ann@example.com")), undone)
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if n := w.step(); n != 0 || w.count("true") != 0 {
		t.Errorf("rolled back: got %d attempts and %d mails, want none", n, w.count("true"))
	}
	w.queue(message("ann@example.com"))
	if n := w.step(); n != 1 || len(s.texts()) != 1 {
		t.Fatalf("committed: got %d attempts and %d mails, want one", n, len(s.texts()))
	}
	if n := w.count("status = 'SENT' AND attempts = 1 AND ended_at IS NOT NULL AND sealed IS NULL"); n != 1 {
		t.Errorf("got %s, want it sent", w.rows())
	}
	w.wait(24 * time.Hour)
	if n := w.step(); n != 0 {
		t.Errorf("later: got %d attempts, want none", n)
	}
}

// A transaction of an organization queues mails and reads none.
func TestAnOrganizationQueuesMailsAndReadsNone(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	const org = "org_01J0000000000000000000000"
	if err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		return w.outbox.Queue(ctx, tx, message("ann@example.com"))
	}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`SELECT count(*) FROM mails`, `UPDATE mails SET status = 'SENT'`, `DELETE FROM mails`,
		insertMail + `, attempts) VALUES ('mail_x', 'A', 'a@b', 'x', now(), now(), 1)`,
	} {
		err := w.db.InOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: got %v, want no permission", sql, err)
		}
	}
	if n := w.step(); n != 1 || len(s.texts()) != 1 {
		t.Errorf("got %d attempts and %d mails, want one", n, len(s.texts()))
	}
}

// Rule MAIL-1.
func TestTwoProcessesSendEachMailOnce(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	const mails = 60
	for i := range mails {
		w.queue(message(fmt.Sprintf("person%d@example.com", i)))
	}
	running, stop := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	for _, p := range []*Sender{w.sender, w.process(s.local())} {
		processes.Go(func() {
			if err := p.Run(running); err != nil {
				t.Error(err)
			}
		})
	}
	pgtest.Eventually(t, func() bool { return w.count("status = 'SENT'") == mails }, "the mails are not sent")
	stop()
	processes.Wait()
	seen := map[string]bool{}
	for _, text := range s.texts() {
		header, _, _ := read(t, text)
		seen[header.Get("To")] = true
	}
	if len(s.texts()) != mails || len(seen) != mails {
		t.Errorf("got %d mails to %d people, want %d, one for each", len(s.texts()), len(seen), mails)
	}
}

// A process ends after the mail server has accepted a mail and before that is recorded. The mail is
// sent again when its lease ends, with the same bytes. Rule MAIL-1.
func TestACrashBehindTheAcceptanceSendsTheSameMailAgain(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	w.queue(message("ann@example.com"))
	crashing := w.process(nil)
	crashing.Transport = after{s.local(), crashing.DB.Close}
	if n, err := crashing.Step(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n := w.step(); n != 0 || len(s.texts()) != 1 || w.count("status = 'QUEUED'") != 1 {
		t.Fatalf("within the lease: got %d attempts and %d mails, want one that is not recorded", n, len(s.texts()))
	}
	w.wait(leaseLength)
	if n := w.step(); n != 1 || w.count("status = 'SENT' AND attempts = 2") != 1 {
		t.Fatalf("got %d attempts and %s, want it sent", n, w.rows())
	}
	if got := s.texts(); len(got) != 2 || got[0] != got[1] || !strings.Contains(got[0], "Message-ID: <mail_") {
		t.Errorf("got %q, want the same mail twice", got)
	}
}

// after is a transport behind which something happens to the process.
type after struct {
	Transport
	then func()
}

func (a after) Send(ctx context.Context, m Mail) error {
	err := a.Transport.Send(ctx, m)
	a.then()
	return err
}

// A process that was away for longer than its lease changes nothing of what another one did
// meanwhile. Rule MAIL-3.
func TestALateProcessChangesNothing(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	w.queue(message("ann@example.com"))
	refusing := (&server{reply: answer("rcpt", "550 no")}).start(t)
	late := w.process(nil)
	late.Transport = after{refusing.local(), func() {
		w.wait(leaseLength)
		if n := w.step(); n != 1 {
			t.Errorf("the other process: got %d attempts, want one", n)
		}
	}}
	if n, err := late.Step(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if w.count("status = 'SENT' AND attempts = 2 AND last_error IS NULL") != 1 {
		t.Errorf("got %s, want what the other process wrote", w.rows())
	}
}

// Rule MAIL-3.
func TestAMailIsRepeatedForThreeDaysAndThenGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply        string
		attempts     int
		lastAttempts [2]time.Duration // when the last attempt comes, from the first
	}{
		"not now":        {"451 later", 11, [2]time.Duration{71 * time.Hour, 86 * time.Hour}},
		"a wrong sender": {"550 no", 5, [2]time.Duration{81 * time.Minute, 98 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&server{reply: answer("rcpt", c.reply)}).start(t)
			w := newWorld(t, s.local())
			w.queue(message("ann@example.com"))
			var first, last time.Duration
			attempts := 0
			for elapsed := time.Duration(0); elapsed < 5*24*time.Hour; elapsed += 30 * time.Second {
				w.offset.Store(int64(elapsed))
				due := w.count(fmt.Sprintf("status = 'QUEUED' AND attempt_after <= '%s'",
					w.began.Add(elapsed).UTC().Format(time.RFC3339Nano)))
				if due == 0 {
					if w.count("status = 'QUEUED'") == 0 {
						break
					}
					var next time.Time
					if err := pgtest.OwnerPool(t, w.db).QueryRow(
						t.Context(), `SELECT attempt_after FROM mails`,
					).Scan(&next); err != nil {
						t.Fatal(err)
					}
					if n := w.step(); n != 0 {
						t.Fatalf("before its time: got %d attempts, want none", n)
					}
					elapsed = max(elapsed, next.Sub(w.began)-30*time.Second)
					continue
				}
				if n := w.step(); n != 1 {
					t.Fatalf("got %d attempts, want one", n)
				}
				if attempts++; attempts == 1 {
					first = elapsed
				}
				last = elapsed
			}
			if took := last - first; attempts != c.attempts || took < c.lastAttempts[0] || took > c.lastAttempts[1] {
				t.Errorf("got %d attempts in %v, want %d in %v", attempts, took, c.attempts, c.lastAttempts)
			}
			if w.count("status = 'GIVEN_UP' AND sealed IS NULL AND last_error LIKE 'SMTP % to the recipient'") != 1 {
				t.Errorf("got %s, want it given up", w.rows())
			}
			if log := w.log.String(); strings.Count(log, "level=ERROR") != 1 ||
				!strings.Contains(log, "a mail was given up and not sent") ||
				strings.Count(log, "a mail could not be sent and is tried again") != c.attempts-1 ||
				strings.Contains(log, "ann@example.com") {
				t.Errorf("got the log %s, want each attempt, the end, and no address", log)
			}
		})
	}
}

// A mail whose process ended in its last attempt is given up, and so is one that no process can
// finish. Rule MAIL-3.
func TestAnInterruptedLastAttemptIsTheLast(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	w.queue(message("ann@example.com"))
	stopped, stop := context.WithCancel(t.Context())
	interrupted := w.process(nil)
	interrupted.Transport = after{(&server{reply: answer("rcpt", "451 later")}).start(t).local(), stop}
	for i := range attemptsMax {
		stopped, stop = context.WithCancel(t.Context())
		interrupted.Transport = after{interrupted.Transport.(after).Transport, stop}
		if n, err := interrupted.Step(stopped); n != 1 || err != nil {
			t.Fatalf("attempt %d: got %d %v, want one", i+1, n, err)
		}
		if n := w.step(); n != 0 {
			t.Fatalf("attempt %d: got %d more within the lease, want none", i+1, n)
		}
		w.wait(leaseLength)
	}
	if n := w.step(); n != 0 || w.count("status = 'GIVEN_UP' AND attempts = 11") != 1 || len(s.texts()) != 0 {
		t.Errorf("got %d attempts and %s, want it given up", n, w.rows())
	}
	if !strings.Contains(w.log.String(), "level=ERROR") {
		t.Errorf("got the log %s, want the end in it", w.log)
	}
	stop()
}

// Rule MAIL-2.
func TestNoMailboxIsFlooded(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	drain := func() {
		for w.step() > 0 || w.count("status = 'QUEUED'") > 0 {
		}
	}
	for range 30 {
		w.queue(message("ann@example.com"), message("Ann@Example.com"))
	}
	drain()
	suppressed := w.count("status = 'SUPPRESSED' AND sealed IS NULL")
	if got := len(s.texts()); got != sentHourMax || suppressed != 60-sentHourMax {
		t.Errorf("one kind: got %d mails and %s, want %d", got, w.rows(), sentHourMax)
	}
	if log := w.log.String(); strings.Count(log, "its address got too many") != 60-sentHourMax ||
		strings.Contains(log, "nn@") {
		t.Errorf("got the log %s, want each of them, and no address", log)
	}
	other := message("ann@example.com")
	other.Kind = "NEW_DEVICE"
	w.queue(other, message("bob@example.com"))
	drain()
	if got := len(s.texts()); got != sentHourMax+2 {
		t.Errorf("another kind and another address: got %d mails, want %d", got, sentHourMax+2)
	}
	for hour := range 30 {
		w.wait(time.Hour)
		for range 10 {
			w.queue(message("ann@example.com"))
		}
		drain()
		// Within the first day every hour has five, until the day has twenty.
		want := 2 + min(sentDayMax, sentHourMax*(hour+2))
		if hour < 23 && len(s.texts()) != want {
			t.Fatalf("hour %d: got %d mails, want %d", hour+1, len(s.texts()), want)
		}
	}
	if got := len(s.texts()); got != 2+sentDayMax+4*sentHourMax {
		t.Errorf("after the day: got %d mails, want %d", got, 2+sentDayMax+4*sentHourMax)
	}
}

// The table keeps the limit, the erased text and the end of a mail against every writer.
// Rules MAIL-2, MAIL-4 and MAIL-5.
func TestTheTableKeepsWhatTheProgramKeeps(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	for range sentHourMax {
		w.queue(message("ann@example.com"))
	}
	w.step()
	w.queue(message("ann@example.com"), message("bob@example.com"))
	owner := pgtest.OwnerPool(t, w.db)
	const begin = `attempts = 1, first_attempt_at = created_at`
	for _, c := range []struct{ sql, constraint string }{
		{`UPDATE mails SET ` + begin + ` WHERE status = 'QUEUED' AND to_address LIKE 'ann%'`, "mails_limit"},
		{
			`UPDATE mails SET status = 'QUEUED', ended_at = NULL, sealed = 'x' WHERE status = 'SENT'`,
			"mails_written_once",
		},
		{`UPDATE mails SET last_error = 'x' WHERE status = 'SENT'`, "mails_written_once"},
		{`UPDATE mails SET sealed = 'x' WHERE status = 'QUEUED'`, "mails_sealed_once"},
		{`UPDATE mails SET sealed = NULL WHERE status = 'QUEUED'`, "mails_sealed_while_queued"},
		{`UPDATE mails SET status = 'GIVEN_UP', ended_at = now(), attempts = 1, first_attempt_at = now()
			WHERE to_address LIKE 'bob%'`, "mails_sealed_while_queued"},
		{
			`UPDATE mails SET status = 'GIVEN_UP', ended_at = now(), sealed = NULL WHERE to_address LIKE 'bob%'`,
			"mails_end_known",
		},
		{`UPDATE mails SET attempts = 2, first_attempt_at = now() WHERE to_address LIKE 'bob%'`, "mails_forward"},
		{`UPDATE mails SET attempts = 1 WHERE to_address LIKE 'bob%'`, "mails_attempted_whole"},
		{`UPDATE mails SET to_address = 'eve@example.com' WHERE status = 'QUEUED'`, "mails_append_only"},
		{`DELETE FROM mails`, "mails_queued_stay"},
		{`TRUNCATE mails`, "mails_append_only"},
		{insertMail + `) VALUES ('x', 'A', 'a@b', 'x', now(), now())`, "mails_id_form"},
		{insertMail + `) VALUES ('mail_x', 'a', 'a@b', 'x', now(), now())`, "mails_kind_form"},
		{insertMail + `) VALUES ('mail_x', 'A', 'a@b', NULL, now(), now())`, "mails_sealed_while_queued"},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.sql, err, c.constraint)
		}
	}
}

// Rule MAIL-5.
func TestAMailGoesToOneAddressAndHasNoOtherHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	queue := func(m Message) error {
		return w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return w.outbox.Queue(ctx, tx, m)
		})
	}
	long := strings.Repeat("a", 64) + "@" + strings.Repeat("b.", 94) + "c"
	for _, to := range []string{
		"", "ann", "@example.com", "ann@", "ann@example.com,bob@example.com", "ann@example.com bob@example.com",
		"Ann <ann@example.com>", "<ann@example.com>", "ann@example.com\r\nBcc: eve@example.com", "ann@example.com\n",
		"ann\r@example.com", "ann@exam\u2028ple.com", "ann@example.com\u0085", "ann\x00@example.com",
		" ann@example.com",
		"\"ann\"@example.com", "ann(x)@example.com", "ann@[127.0.0.1]", "a:b@example.com;", "ann@b@example.com",
		"ann\u200d@example.com", "ann@example.com\u202e", "\xff@example.com", long + "c",
	} {
		m := message(to)
		if err := queue(m); !fault.HasCode(err, fault.InvalidRequest) || fault.Find(err).Param != "email" {
			t.Errorf("%q: got %v, want a refusal", to, err)
		}
		if _, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(), insertMail+`) VALUES ('mail_x', 'A', $1, 'x', now(), now())`, strings.ToValidUTF8(to, ""),
		); err == nil && strings.ContainsAny(to, "\r\n <>,;:\"") {
			t.Errorf("%q: the table takes it, want a refusal", to)
		}
	}
	for _, to := range []string{"ann@example.com", "ann.o'brien+x@sub.example.com", "zoë@exämple.com", long} {
		if err := queue(message(to)); err != nil {
			t.Errorf("%q: got %v, want it queued", to, err)
		}
	}
	for name, change := range map[string]func(*Message){
		"two lines":      func(m *Message) { m.Subject = "Hello\r\nBcc: eve@example.com" },
		"a line end":     func(m *Message) { m.Subject = "Hello\n" },
		"a separator":    func(m *Message) { m.Subject = "Hello\u2028" },
		"no subject":     func(m *Message) { m.Subject = "" },
		"a long subject": func(m *Message) { m.Subject = strings.Repeat("x", subjectBytesMax+1) },
		"no text":        func(m *Message) { m.Text = "" },
		"a long text":    func(m *Message) { m.Text = strings.Repeat("x", textBytesMax+1) },
		"a zero":         func(m *Message) { m.Text = "a\x00b" },
		"a return":       func(m *Message) { m.Text = "a\rb" },
		"not UTF-8":      func(m *Message) { m.Text = "\xff" },
		"no kind":        func(m *Message) { m.Kind = "" },
		"a small kind":   func(m *Message) { m.Kind = "invitation" },
		"a long kind":    func(m *Message) { m.Kind = strings.Repeat("A", kindBytesMax+1) },
	} {
		m := message("ann@example.com")
		change(&m)
		if err := queue(m); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: got %v, want a refusal without the text", name, err)
		}
	}
	whole := message("ann@example.com")
	whole.Kind, whole.Subject = strings.Repeat("A", kindBytesMax), strings.Repeat("x", subjectBytesMax)
	whole.Text = strings.Repeat("x", textBytesMax)
	if err := queue(whole); err != nil {
		t.Errorf("at the limits: got %v, want it queued", err)
	}
	if got := fmt.Sprintf("%v %+v %s %#v %v", whole, whole, whole, whole, []any{&whole}); strings.Contains(got, "xxx") {
		t.Errorf("got %s, want no text of the mail", got)
	}
}

// The text of a mail is in no column and no log: before, between and after the attempts, also where
// the server quotes it. Rule MAIL-4.
func TestTheLinkOfAMailIsInNoColumnAndNoLog(t *testing.T) {
	t.Parallel()
	refusing := atomic.Bool{}
	refusing.Store(true)
	s := (&server{reply: func(step, line string) string {
		if step == "text" && refusing.Load() {
			return "451 4.7.1 not with " + token
		}
		return ""
	}}).start(t)
	w := newWorld(t, s.local())
	clean := func(moment string) {
		t.Helper()
		rows := w.rows()
		for _, canary := range []string{token, fmt.Sprintf("%x", token), "invitation", "pay.example.com/join"} {
			if strings.Contains(rows, canary) || strings.Contains(w.log.String(), canary) {
				t.Errorf("%s: got %s in %s or in the log %s", moment, canary, rows, w.log)
			}
		}
	}
	w.queue(message("ann@example.com"))
	clean("queued")
	if n := w.step(); n != 1 || w.count("status = 'QUEUED' AND last_error = 'SMTP 451 in answer to the text'") != 1 {
		t.Fatalf("got %s, want it refused", w.rows())
	}
	clean("refused")
	refusing.Store(false)
	w.wait(2 * time.Minute)
	if n := w.step(); n != 1 || w.count("status = 'SENT' AND sealed IS NULL") != 1 {
		t.Fatalf("got %s, want it sent", w.rows())
	}
	clean("sent")
	if _, _, body := read(t, s.texts()[0]); !strings.Contains(body, token) {
		t.Errorf("got %s, want the link", body)
	}
	// Another key opens nothing, and says so.
	path := filepath.Join(t.TempDir(), "seal.key")
	if err := seal.CreateKeyset(path); err != nil {
		t.Fatal(err)
	}
	w.queue(message("bob@example.com"))
	var err error
	if w.sender.Seal, err = seal.OpenKeyset(path); err != nil {
		t.Fatal(err)
	}
	if n := w.step(); n != 1 || w.count("status = 'QUEUED' AND last_error LIKE '%keys.seal'") != 1 ||
		len(s.texts()) != 1 {
		t.Errorf("another key: got %s, want it not sent, and why", w.rows())
	}
	clean("another key")
}

func TestOldMailsAreDeleted(t *testing.T) {
	t.Parallel()
	s := (&server{}).start(t)
	w := newWorld(t, s.local())
	w.queue(message("ann@example.com"))
	w.step()
	prune := func() {
		t.Helper()
		if err := Prune(t.Context(), w.db); err != nil {
			t.Fatal(err)
		}
	}
	w.wait(endedKept - time.Hour)
	w.queue(message("bob@example.com"))
	if prune(); w.count("true") != 2 {
		t.Errorf("before its time: got %d mails, want 2", w.count("true"))
	}
	w.wait(2 * time.Hour)
	if prune(); w.count("status = 'QUEUED'") != 1 || w.count("true") != 1 {
		t.Errorf("after its time: got %s, want the queued one alone", w.rows())
	}
	w.wait(2 * endedKept)
	if prune(); w.count("status = 'QUEUED'") != 1 {
		t.Error("a queued mail is deleted, want it kept")
	}
}
