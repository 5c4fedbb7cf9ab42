package signin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/account"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

// Limits bound failures. Zero fields have their defaults.
type Limits struct {
	Window         time.Duration // 15 minutes: how long a failure of a network or a device counts
	AccountNetwork int           // 10 failures for one e-mail from one network (IPv4 /24, IPv6 /48)
	Network        int           // 100 failures from one network
	Account        int           // 30 failures for one e-mail from all unknown devices in a day
	Device         int           // 10 failures of a known device, which nothing else uses up
	Links          int           // 20 mailed links that one network asks for
	Codes          int           // 5 wrong codes, after which the session ends
}

const (
	// DeviceLasts is how long a device stays known after its last sign-in.
	DeviceLasts = 180 * 24 * time.Hour

	accountWindow = 24 * time.Hour
	linkLasts     = 30 * time.Minute
	linkInterval  = 5 * time.Minute // between two links of an account
)

func (l Limits) withDefaults() Limits {
	if l.Window == 0 {
		l.Window = 15 * time.Minute
	}
	for _, limit := range []struct {
		value    *int
		standard int
	}{
		{&l.AccountNetwork, 10}, {&l.Network, 100}, {&l.Account, 30}, {&l.Device, 10}, {&l.Links, 20}, {&l.Codes, 5},
	} {
		if *limit.value == 0 {
			*limit.value = limit.standard
		}
	}
	return l
}

// networkOf returns the network that an address is counted with.
func networkOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := 24
	if addr.Is6() {
		bits = 48
	}
	prefix, _ := addr.Prefix(bits) // the zero prefix for an invalid address, which counts together
	return prefix
}

// budget is one count of failures.
type budget struct {
	key    []byte
	limit  int
	window time.Duration
}

func (s *Service) budgetOf(kind string, limit int, window time.Duration, parts ...string) budget {
	h := sha256.New()
	for _, part := range append([]string{string(s.conf.Side), kind}, parts...) {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return budget{h.Sum(nil), limit, window}
}

// budgets are those of an unknown device, in the order of their keys. They exist whether the e-mail
// has an account or not.
func (s *Service) budgets(c Client, email string) []budget {
	l, network := s.conf.Limits, networkOf(c.Addr).String()
	all := []budget{
		s.budgetOf("account and network", l.AccountNetwork, l.Window, email, network),
		s.budgetOf("network", l.Network, l.Window, network),
		s.budgetOf("account", l.Account, accountWindow, email),
	}
	slices.SortFunc(all, func(a, b budget) int { return bytes.Compare(a.key, b.key) })
	return all
}

var errOverBudget = errors.New("the budget of failures is used up")

// chargeAttempt counts an attempt before its password is looked at, so that attempts at the same time
// cannot pass together. A known device has its own budget, which nothing else uses up. Completing the
// sign-in takes the attempt back. Error: RATE_LIMITED (NeedsLink). Rule SIGN-9.
func (s *Service) chargeAttempt(ctx context.Context, c Client, email string) error {
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		isCharged, err := s.chargeDevice(ctx, tx, c, email, s.conf.Limits.Device)
		if err != nil || isCharged {
			return err
		}
		return chargeBudgets(ctx, tx, s.budgets(c, email))
	})
	if errors.Is(err, errOverBudget) {
		return linkNeeded()
	}
	return err
}

// chargeWrongCode counts a wrong code like a wrong password, and refuses nothing.
func (s *Service) chargeWrongCode(ctx context.Context, tx pg.Tx, c Client, email string) error {
	const unlimited = 1 << 30
	isCharged, err := s.chargeDevice(ctx, tx, c, email, unlimited)
	if err != nil || isCharged {
		return err
	}
	all := s.budgets(c, email)
	for i := range all {
		all[i].limit = unlimited
	}
	return chargeBudgets(ctx, tx, all)
}

func (s *Service) chargeDevice(ctx context.Context, tx pg.Tx, c Client, email string, limit int) (bool, error) {
	if c.Device.IsEmpty() {
		return false, nil
	}
	start := tx.Now.Add(-s.conf.Limits.Window)
	tag, err := tx.Exec(ctx, `
		UPDATE known_devices SET failures = CASE WHEN window_at <= $4 THEN 1 ELSE failures + 1 END,
			window_at = CASE WHEN window_at <= $4 THEN $5 ELSE window_at END
		WHERE hash = $1 AND account_id = (SELECT account_id FROM accounts WHERE side = $2 AND email = $3)
			AND last_used_at > $6 AND (window_at <= $4 OR failures < $7)`,
		account.HashToken(c.Device), s.conf.Side, email, start, tx.Now, tx.Now.Add(-DeviceLasts), limit)
	if err != nil {
		return false, fmt.Errorf("count an attempt of a device: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// chargeBudgets counts one failure in each budget, or in none if one of them is used up.
func chargeBudgets(ctx context.Context, tx pg.Tx, all []budget) error {
	keys, starts := make([][]byte, len(all)), make([]time.Time, len(all))
	limits := map[string]int{}
	for i, b := range all {
		keys[i], starts[i], limits[string(b.key)] = b.key, tx.Now.Add(-b.window), b.limit
	}
	rows, err := tx.Query(ctx, `
		WITH charged AS (SELECT * FROM unnest($1::bytea[], $2::timestamptz[]) AS c (key, start) ORDER BY key)
		INSERT INTO sign_in_failures AS f (key, window_at, failures) SELECT key, $3, 1 FROM charged ORDER BY key
		ON CONFLICT ON CONSTRAINT sign_in_failures_pkey DO UPDATE SET
			failures = CASE WHEN f.window_at <= (SELECT start FROM charged c WHERE c.key = f.key) THEN 1 ELSE f.failures + 1 END,
			window_at = CASE WHEN f.window_at <= (SELECT start FROM charged c WHERE c.key = f.key) THEN $3 ELSE f.window_at END
		RETURNING key, failures`, keys, starts, tx.Now)
	if err != nil {
		return fmt.Errorf("count an attempt: %w", err)
	}
	var key []byte
	var failures int
	isOver := false
	if _, err := pgx.ForEachRow(rows, []any{&key, &failures}, func() error {
		isOver = isOver || failures > limits[string(key)]
		return nil
	}); err != nil {
		return fmt.Errorf("count an attempt: %w", err)
	}
	if isOver {
		return errOverBudget
	}
	return nil
}

// refundAttempt takes an attempt back whose password was not looked at.
func (s *Service) refundAttempt(ctx context.Context, tx pg.Tx, c Client, email string) error {
	if !c.Device.IsEmpty() {
		tag, err := tx.Exec(ctx, `
			UPDATE known_devices SET failures = greatest(failures - 1, 0)
			WHERE hash = $1 AND account_id = (SELECT account_id FROM accounts WHERE side = $2 AND email = $3)`,
			account.HashToken(c.Device), s.conf.Side, email)
		if err != nil {
			return fmt.Errorf("take an attempt of a device back: %w", err)
		}
		if tag.RowsAffected() == 1 {
			return nil
		}
	}
	return s.refundBudgets(ctx, tx, c, email)
}

func (s *Service) refundBudgets(ctx context.Context, tx pg.Tx, c Client, email string) error {
	var keys [][]byte
	for _, b := range s.budgets(c, email) {
		keys = append(keys, b.key)
	}
	if _, err := tx.Exec(ctx, `
		UPDATE sign_in_failures SET failures = failures - 1 WHERE failures > 0 AND key IN (
			SELECT key FROM sign_in_failures WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE)`, keys); err != nil {
		return fmt.Errorf("take an attempt back: %w", err)
	}
	return nil
}

// completeAttempt takes an attempt back that ended in an open session, and keeps the device.
func (s *Service) completeAttempt(ctx context.Context, tx pg.Tx, c Client, a account.Account) (seal.Secret, error) {
	token, wasCharged, err := s.keepDevice(ctx, tx, c, a.ID, 1)
	if err == nil && !wasCharged {
		err = s.refundBudgets(ctx, tx, c, a.Email)
	}
	return token, err
}

// keepDevice makes the browser a known device of the account, under a new token, and takes attempts of
// the device back. The other accounts of the browser move to that token. A value that was planted in a
// cookie is worth nothing afterwards. wasKnown says that the account knew the device.
func (s *Service) keepDevice(
	ctx context.Context, tx pg.Tx, c Client, accountID string, refund int,
) (token seal.Secret, wasKnown bool, err error) {
	token, hash := account.NewToken()
	if !c.Device.IsEmpty() {
		rows, err := tx.Query(ctx, `
			UPDATE known_devices SET hash = $2,
				failures = CASE WHEN account_id = $3 THEN greatest(failures - $4, 0) ELSE failures END
			WHERE hash = $1 RETURNING account_id`, account.HashToken(c.Device), hash, accountID, refund)
		if err != nil {
			return seal.Secret{}, false, fmt.Errorf("move a device: %w", err)
		}
		moved, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return seal.Secret{}, false, fmt.Errorf("move a device: %w", err)
		}
		wasKnown = slices.Contains(moved, accountID)
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO known_devices (hash, account_id, created_at, last_used_at, window_at) VALUES ($1, $2, $3, $3, $3)
		ON CONFLICT ON CONSTRAINT known_devices_pkey DO UPDATE SET last_used_at = EXCLUDED.last_used_at`,
		hash, accountID, tx.Now); err != nil {
		return seal.Secret{}, false, fmt.Errorf("remember a device of %s: %w", accountID, err)
	}
	return token, wasKnown, nil
}

// SendDeviceLink mails a link that makes the browser which opens it a known device. It answers the
// same whether the e-mail has an account. Error: RATE_LIMITED.
func (s *Service) SendDeviceLink(ctx context.Context, c Client, email string) error {
	folded := foldTyped(email)
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		a, exists, err := account.LoadByEmail(ctx, tx, s.conf.Side, folded)
		if err != nil {
			return err
		}
		token, hash := account.NewToken()
		tag, err := tx.Exec(ctx, `
			INSERT INTO device_links (hash, account_id, created_at, expires_at)
			SELECT $1, account_id, $3, $4 FROM accounts WHERE account_id = $2
				AND NOT EXISTS (SELECT FROM device_links l WHERE l.account_id = $2 AND l.created_at > $5)`,
			hash, a.ID, tx.Now, tx.Now.Add(linkLasts), tx.Now.Add(-linkInterval))
		if err != nil {
			return fmt.Errorf("make a link of %s: %w", a.ID, err)
		}
		links := s.budgetOf("links", s.conf.Limits.Links, s.conf.Limits.Window, networkOf(c.Addr).String())
		if err := chargeBudgets(ctx, tx, []budget{links}); err != nil || !exists || tag.RowsAffected() == 0 {
			return err
		}
		if err := s.mail(ctx, tx, a.Email, "Confirm a device", fmt.Sprintf(
			"A sign-in with your e-mail needs to be confirmed, because too many have failed before it.\n\n"+
				"If it was you, open this link within 30 minutes, on the device with which you want to sign in:\n\n%s\n\n"+
				"If it was not you, do nothing. Your account is not locked.\n", s.conf.DeviceURL+token.Reveal())); err != nil {
			return err
		}
		return s.record(ctx, tx, a.Account, "device_link.sent", nil)
	})
	if errors.Is(err, errOverBudget) {
		return fault.New(fault.Limited, fault.RateLimited, fault.NothingWritten,
			"Too many links were asked for from this network.").WithAdvice("Try again in 15 minutes, or use a passkey.")
	}
	return err
}

// ConfirmDevice consumes a mailed link, by POST alone. The result has the device cookie and no
// session; the person then signs in with the password. Error: NOT_FOUND for a link that is unknown,
// used or older than 30 minutes.
func (s *Service) ConfirmDevice(ctx context.Context, c Client, link seal.Secret) (Result, error) {
	var made Result
	err := s.conf.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		var accountID string
		err := tx.QueryRow(ctx, `
			DELETE FROM device_links l USING accounts a
			WHERE l.hash = $1 AND l.expires_at > $2 AND a.account_id = l.account_id AND a.side = $3
			RETURNING l.account_id`, account.HashToken(link), tx.Now, s.conf.Side).Scan(&accountID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, fault.CodeNotFound, fault.NothingWritten,
				"The link was used, or it is older than 30 minutes.").WithAdvice("Ask for a new one.")
		}
		if err != nil {
			return fmt.Errorf("use up a link: %w", err)
		}
		if made.Device, _, err = s.keepDevice(ctx, tx, c, accountID, s.conf.Limits.Device); err != nil {
			return err
		}
		a, err := account.LoadByID(ctx, tx, accountID)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, a.Account, "device.confirmed", map[string]any{"network": networkOf(c.Addr).String()})
	})
	if err != nil {
		return Result{}, err
	}
	return made, nil
}

// record writes an act of an account into the audit log.
func (s *Service) record(ctx context.Context, tx pg.Tx, a account.Account, action string, detail map[string]any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Actor: a.Actor(), Action: action, ResourceKind: "ACCOUNT", ResourceID: a.ID, Detail: detail,
	})
}

func (s *Service) mail(ctx context.Context, tx pg.Tx, to, subject, text string) error {
	if err := s.conf.Mailer.Queue(ctx, tx, Message{To: to, Subject: s.conf.Issuer + ": " + subject, Text: text}); err != nil {
		return fmt.Errorf("queue the mail %q: %w", subject, err)
	}
	return nil
}
