package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/group"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
)

const resourceKind = "TRANSFER"

// triesMax is how often a group is looked at again because another writer was
// quicker, before it is split.
const triesMax = 3

// serve is the work of an organization's writer.
func (s *Service) serve(ctx context.Context, org string, all []*asked) []group.Answer[Outcome] {
	select {
	case s.room <- struct{}{}:
		s.run(ctx, org, all)
		<-s.room
	case <-ctx.Done():
		for _, a := range all {
			a.err = fault.New(fault.Unavailable, fault.CodeUnavailable,
				"Every writer was busy with transfers of other organizations."+unmoved+" Repeat the request with the same idempotencyKey shortly.")
		}
	}
	answers := make([]group.Answer[Outcome], len(all))
	for i, a := range all {
		answers[i] = group.Answer[Outcome]{Value: a.outcome, Err: a.err}
	}
	return answers
}

// run answers every request of a group. What the database refuses to the whole
// group is asked again of its halves, until the one at fault stands alone.
func (s *Service) run(ctx context.Context, org string, all []*asked) {
	for try := 1; ; try++ {
		err := s.write(ctx, org, all)
		// Another writer took a key, or money that was there when we looked: the
		// next look sees what it left.
		overtaken := errors.Is(err, ledger.ErrOverdraft) || pg.Violates(err, "transfers_key_unique")
		switch {
		case err == nil:
			return
		case overtaken && try < triesMax:
			continue
		case len(all) > 1 && ctx.Err() == nil && (overtaken || ofOne(err)):
			half := len(all) / 2
			s.run(ctx, org, all[:half])
			s.run(ctx, org, all[half:])
			return
		case errors.Is(err, pg.ErrCommitUnknown):
			s.settle(ctx, org, all, err)
			return
		}
		for _, a := range all {
			a.outcome, a.err = Outcome{}, answerTo(a, err)
		}
		return
	}
}

// ofOne tells of an error that one request of a group can cause for all: a value
// that the server refused, or that could not even be sent. It may be wrong of an
// error without a refusal in it; then the halves fail as the group did.
func ofOne(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "23")
	}
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	return !unconnected && !errors.Is(err, pg.ErrCommitUnknown)
}

// answerTo is what a request hears of an error that is its own.
func answerTo(a *asked, err error) error {
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return fault.New(fault.Unprocessable, fault.InsufficientBalance,
			"The available balance that should pay became smaller than the amount while the transfer was made."+unmoved+" Look at the balances and move less, or wait for money to come in.").On("amount")
	case pg.Violates(err, "ledger_balances_bounded"):
		return fault.New(fault.Invalid, fault.InvalidAmount,
			"With this amount the receiving balance would be larger than any amount can be."+unmoved+" Send less.").On("amount")
	}
	return fmt.Errorf("transfer of key %q: %w", a.IdempotencyKey, err)
}

// settle answers a group whose commit got no answer: it is there whole or not at
// all, and the ids are ours, so the rows can tell. When there are none they may
// still come, so nobody is told that nothing happened.
func (s *Service) settle(ctx context.Context, org string, all []*asked, unknown error) {
	var ids []string
	for _, a := range all {
		if a.made != "" {
			ids = append(ids, a.made)
		}
	}
	found := map[string]bool{}
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `SELECT transfer_id FROM transfers WHERE org_id = $1 AND transfer_id = ANY ($2)`, org, ids)
		if err != nil {
			return err
		}
		var id string
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
			found[id] = true
			return nil
		})
		return err
	})
	for _, a := range all {
		if a.made != "" && (err != nil || !found[a.made]) {
			a.outcome, a.err = Outcome{}, fmt.Errorf("transfer %s: %w", a.made, errors.Join(unknown, err))
		}
	}
}

// write looks at a group, decides, and commits what holds, in one transaction of two
// round trips.
func (s *Service) write(ctx context.Context, org string, all []*asked) error {
	wrote := false
	var f facts
	err := s.db.InOrgTwice(ctx, org,
		func(b *pgx.Batch) { f = read(b, org, all) },
		func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			rows := decide(f, all, tx.Now)
			if wrote = len(rows) > 0; !wrote {
				return nil
			}
			if err := insert(ctx, tx, b, org, rows, f.accounts); err != nil {
				return err
			}
			crash.Point("T01")
			crash.Committing("T02")
			return nil
		})
	if err != nil {
		return fmt.Errorf("write %d transfers of %s: %w", len(all), org, ledger.Refusal(err))
	}
	if wrote {
		crash.Point("T02")
	}
	return nil
}

// read queues the look-ups of the facts, which are there when the batch was sent.
func read(b *pgx.Batch, org string, all []*asked) facts {
	var keys, payers, products []string
	var mints []int
	var paying, paid []ledger.Account
	for _, a := range all {
		keys = append(keys, a.IdempotencyKey)
		if a.wrong != nil {
			continue
		}
		mints, paying, paid = append(mints, a.MintID), append(paying, a.from), append(paid, a.to)
		if a.from.Kind == ledger.Customer {
			payers = append(payers, a.from.Subject)
		} else {
			products = append(products, a.from.Subject)
		}
	}
	f := facts{kept: map[string]kept{}, owed: map[ledger.Account]money.Amount{}}
	// A session keeps the plans that it made when there was little, and on empty
	// tables any index that begins with the organization looks as good as the key's:
	// it would read all transfers of the organization for each group. The order can
	// be had from the key's index alone.
	b.Queue(`SELECT `+columns+`
		FROM unnest($2::text[]) AS k (idempotency_key)
		CROSS JOIN LATERAL (
			SELECT * FROM transfers t WHERE t.org_id = $1 AND t.idempotency_key >= k.idempotency_key
			ORDER BY t.idempotency_key LIMIT 1) t
		JOIN mints m ON m.mint_id = t.mint_id
		WHERE t.idempotency_key = k.idempotency_key`, org, distinct(keys)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, render)
		for _, l := range found {
			f.kept[l.object.IdempotencyKey] = kept{l.object, l.digest}
		}
		return err
	})
	f.board = freeze.Standings(b, org, distinct(payers))
	f.mints = mint.Some(b, distinct(mints))
	f.accounts = ledger.Find(b, paying, paid)
	if len(payers) > 0 {
		// What a restored backup forgot is taken from the customer before anything else.
		b.Queue(`
			SELECT customer_id, mint_id, sum(owed) FROM withdrawals
			WHERE org_id = $1 AND customer_id = ANY ($2) AND owed > 0 GROUP BY customer_id, mint_id`, org, distinct(payers)).Query(func(rows pgx.Rows) error {
			var owed money.Amount
			a := ledger.Account{OrgID: org, Kind: ledger.Customer}
			_, err := pgx.ForEachRow(rows, []any{&a.Subject, &a.MintID, &owed}, func() error {
				f.owed[a] = owed
				return nil
			})
			return err
		})
	}
	if len(products) > 0 {
		b.Queue(`
			SELECT product, mint_id, sum(owed) FROM withdrawals
			WHERE org_id = $1 AND product = ANY ($2) AND owed > 0 GROUP BY product, mint_id`, org, distinct(products)).Query(func(rows pgx.Rows) error {
			var owed money.Amount
			a := ledger.Account{OrgID: org, Kind: ledger.Product}
			_, err := pgx.ForEachRow(rows, []any{&a.Subject, &a.MintID, &owed}, func() error {
				f.owed[a] = owed
				return nil
			})
			return err
		})
	}
	return f
}

func distinct[T string | int](values []T) []T {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// insert queues the rows with all that belongs to them, in the order of locks:
// customers, keys, what nobody waits for, accounts, balances. Customers may have
// to be made before, which takes a round trip of its own: only of those who have no
// account in the mint yet, for an account of a customer is of one that there is.
func insert(ctx context.Context, tx pg.Tx, b *pgx.Batch, org string, rows []row, found ledger.Found) error {
	strangers := map[string]audit.Actor{}
	for _, r := range rows {
		if _, known := found[r.to]; !known && r.to.Kind == ledger.Customer {
			strangers[r.to.Subject] = r.Actor
		}
	}
	if len(strangers) > 0 {
		if err := customer.MakeBy(ctx, tx, org, strangers); err != nil {
			return err
		}
	}
	// Sorted, so that two writers who have the same keys do not wait for each other.
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.IdempotencyKey, b.IdempotencyKey) })
	n := len(rows)
	var (
		ids, keys                                            = make([]string, n), make([]string, n)
		digests                                              = make([][]byte, n)
		mints                                                = make([]int, n)
		amounts                                              = make([]money.Amount, n)
		fromCustomers, fromProducts, toCustomers, toProducts = make([]*string, n), make([]*string, n), make([]*string, n), make([]*string, n)
		references                                           = make([]*string, n)
		metadata                                             = make([]string, n)
		postings                                             = make([]ledger.Posting, n)
		events                                               = make([]event.Event, n)
		entries                                              = make([]audit.Entry, n)
	)
	for i, r := range rows {
		given, err := json.Marshal(r.transfer.Metadata)
		if err != nil {
			return fmt.Errorf("write the metadata of transfer %s: %w", r.made, err)
		}
		ids[i], keys[i], digests[i], mints[i], amounts[i] = r.made, r.IdempotencyKey, r.digest, r.mint.ID, r.amount
		fromCustomers[i], fromProducts[i], toCustomers[i], toProducts[i] = r.From.CustomerID, r.From.Product, r.To.CustomerID, r.To.Product
		references[i], metadata[i] = r.Reference, string(given)
		postings[i] = ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Transfer, ID: r.made},
			Legs:  []ledger.Leg{{Debit: r.from, Credit: r.to, Amount: r.amount}},
		}
		events[i] = event.Event{
			OrgID: org, Type: event.TransferCompleted, ResourceKind: resourceKind, ResourceID: r.made,
			CustomerID: concerns(r), Chain: string(r.mint.Chain), Data: r.transfer,
		}
		entries[i] = audit.Entry{OrgID: org, Actor: r.Actor, Action: "transfer.made", ResourceKind: resourceKind, ResourceID: r.made}
	}
	b.Queue(`
		INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount,
			from_customer, from_product, to_customer, to_product, reference, metadata, created_at)
		SELECT t.transfer_id, $1, t.idempotency_key, t.request_digest, t.mint_id, t.amount,
			t.from_customer, t.from_product, t.to_customer, t.to_product, t.reference, t.metadata::jsonb, $2
		FROM unnest($3::text[], $4::text[], $5::bytea[], $6::int[], $7::numeric[],
			$8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[]) WITH ORDINALITY
			AS t (transfer_id, idempotency_key, request_digest, mint_id, amount,
				from_customer, from_product, to_customer, to_product, reference, metadata, nth)
		ORDER BY t.nth`,
		org, tx.Now, ids, keys, digests, mints, amounts, fromCustomers, fromProducts, toCustomers, toProducts, references, metadata)
	// Nobody waits for the rows of events and of the audit log, so the posting comes last:
	// from the balances to the COMMIT is what others wait for who move one of them.
	err := event.QueueFirst(b, tx.Now, events...)
	if err == nil {
		err = audit.Queue(b, tx.Now, entries...)
	}
	if err == nil {
		err = ledger.QueueFound(b, tx.Now, found, postings...)
	}
	return err
}

// concerns is the customer whose event this is: the one who pays, else the one
// who receives.
func concerns(r row) string {
	for _, a := range []ledger.Account{r.from, r.to} {
		if a.Kind == ledger.Customer {
			return a.Subject
		}
	}
	return ""
}
