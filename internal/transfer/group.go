package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const resourceKind = "TRANSFER"

// triesMax is how often a group is decided because another writer was quicker, before it is split.
const triesMax = 3

// serveGroup processes a group for the writer of an organization. It waits for one of the slots.
func (s *Service) serveGroup(
	ctx context.Context, w *orgWriter, requests []*pendingRequest,
) []groupcommit.Answer[Outcome] {
	select {
	case s.slots <- struct{}{}:
		if written, err := s.writeAtOnce(ctx, w, requests); err != nil {
			s.settleUnknownCommit(ctx, w.org, requests, err)
		} else if !written {
			s.runGroup(ctx, w.org, requests)
		}
		<-s.slots
	case <-ctx.Done():
		for _, a := range requests {
			a.err = fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
				"All workers are busy with transfers of other organizations.").
				WithStep(fault.RepeatWithSameKey)
		}
	}
	answers := make([]groupcommit.Answer[Outcome], len(requests))
	for i, a := range requests {
		answers[i] = groupcommit.Answer[Outcome]{Value: a.outcome, Err: a.err}
	}
	return answers
}

// runGroup answers every request of a group. When the database refuses the whole group, runGroup
// splits it in halves until the request at fault stands alone. Rule TR-9.
func (s *Service) runGroup(ctx context.Context, org string, requests []*pendingRequest) {
	for try := 1; ; try++ {
		err := s.writeGroup(ctx, org, requests)
		// Another writer took a key, or a balance that was there at the look-up. The next try sees
		// the result.
		isOvertaken := errors.Is(err, ledger.ErrOverdraft) || pg.ViolatesConstraint(err, "transfers_key_unique")
		switch {
		case err == nil:
			return
		case isOvertaken && try < triesMax:
			continue
		case len(requests) > 1 && ctx.Err() == nil && (isOvertaken || isRequestError(err)):
			half := len(requests) / 2
			s.runGroup(ctx, org, requests[:half])
			s.runGroup(ctx, org, requests[half:])
			return
		case errors.Is(err, pg.ErrCommitUnknown):
			s.settleUnknownCommit(ctx, org, requests, err)
			return
		}
		for _, a := range requests {
			a.outcome, a.err = Outcome{}, mapRequestError(a, err)
		}
		return
	}
}

// isRequestError reports whether one request of a group may have caused an error for all: a value
// that the server refused, or that could not be sent. It may be wrong about an error without a
// refusal; then the halves fail like the group.
func isRequestError(err error) bool {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "23")
	}
	_, isUnconnected := errors.AsType[*pgconn.ConnectError](err)
	return !isUnconnected && !errors.Is(err, pg.ErrCommitUnknown)
}

// mapRequestError returns the answer for an error that one request caused.
func mapRequestError(a *pendingRequest, err error) error {
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingWritten,
			"The available balance that pays became smaller than the amount during the transfer.").
			WithAdvice("Look at the balances and move less, or wait for a deposit.").
			WithParam("amount")
	case pg.ViolatesConstraint(err, "ledger_balances_bounded"):
		return fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten,
			"The receiving balance would be larger than the largest possible amount.").
			WithAdvice("Send a smaller amount.").
			WithParam("amount")
	}
	return fmt.Errorf("transfer of key %q: %w", a.IdempotencyKey, err)
}

// settleUnknownCommit answers a group whose COMMIT got no answer. The group was committed whole or
// not at all. Coffer chose the ids, so the rows tell. Without rows the commit may still arrive, so
// no request is told that nothing happened. Rules IDEM-7 and TR-9.
func (s *Service) settleUnknownCommit(ctx context.Context, org string, requests []*pendingRequest, commitErr error) {
	var ids []string
	for _, a := range requests {
		if a.transferID != "" {
			ids = append(ids, a.transferID)
		}
	}
	found := map[string]bool{}
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(
			ctx, `SELECT transfer_id FROM transfers WHERE org_id = $1 AND transfer_id = ANY ($2)`, org, ids,
		)
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
	for _, a := range requests {
		if a.transferID != "" && (err != nil || !found[a.transferID]) {
			a.outcome, a.err = Outcome{}, fmt.Errorf("transfer %s: %w", a.transferID, errors.Join(commitErr, err))
		}
	}
}

// writeGroup looks up the facts of a group, decides, and commits the accepted transfers, in one
// transaction of two round trips.
func (s *Service) writeGroup(ctx context.Context, org string, requests []*pendingRequest) error {
	hasRows := false
	var f groupFacts
	err := s.db.InOrgPipelined(ctx, org,
		func(b *pgx.Batch) { f = queueLookups(b, org, requests) },
		func(ctx context.Context, tx pg.Tx, b *pgx.Batch) error {
			s.premises.remember(f)
			rows := decideGroup(f, requests, tx.Now)
			if hasRows = len(rows) > 0; !hasRows {
				return nil
			}
			if err := ensureCustomers(ctx, tx, org, rows, f.accounts); err != nil {
				return err
			}
			err := s.queueInserts(b, tx.Now, org, rows, func(postings []ledger.Posting) error {
				return ledger.QueueKnown(b, tx.Now, f.accounts, postings...)
			})
			if err != nil {
				return err
			}
			failpoint.Hit("T01")
			failpoint.HitBeforeCommit("T02")
			return nil
		})
	if err != nil {
		return fmt.Errorf("write %d transfers of %s: %w", len(requests), org, ledger.MapRefusal(err))
	}
	if hasRows {
		failpoint.Hit("T02")
	}
	return nil
}

// queueLookups queues the look-ups of the facts. The facts are set once the batch was sent.
func queueLookups(b *pgx.Batch, org string, requests []*pendingRequest) groupFacts {
	var keys, payers, products []string
	var mints []int
	var paying, paid []ledger.Account
	for _, a := range requests {
		keys = append(keys, a.IdempotencyKey)
		if a.parseErr != nil {
			continue
		}
		mints, paying, paid = append(mints, a.MintID), append(paying, a.from), append(paid, a.to)
		if a.from.Kind == ledger.Customer {
			payers = append(payers, a.from.Subject)
		} else {
			products = append(products, a.from.Subject)
		}
	}
	f := groupFacts{stored: map[string]knownTransfer{}, owed: map[ledger.Account]money.Amount{}}
	f.freezes = freeze.QueueActive(b, org, sortedUnique(payers))
	f.fingerprints = mint.QueueFingerprints(b, sortedUnique(mints))
	f.mints = mint.QueueCatalogue(b, sortedUnique(mints))
	f.accounts = ledger.QueueLookup(b, paying, paid)
	if len(payers) > 0 {
		// The debt for payments that a restored backup lacked comes before any transfer.
		b.Queue(`
			SELECT customer_id, mint_id, sum(owed) FROM withdrawals
			WHERE org_id = $1 AND customer_id = ANY ($2) AND owed > 0 GROUP BY customer_id, mint_id`,
			org, sortedUnique(payers)).Query(func(rows pgx.Rows) error {
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
			WHERE org_id = $1 AND product = ANY ($2) AND owed > 0 GROUP BY product, mint_id`,
			org, sortedUnique(products)).Query(func(rows pgx.Rows) error {
			var owed money.Amount
			a := ledger.Account{OrgID: org, Kind: ledger.Product}
			_, err := pgx.ForEachRow(rows, []any{&a.Subject, &a.MintID, &owed}, func() error {
				f.owed[a] = owed
				return nil
			})
			return err
		})
	}
	// Keys come last, because each statement sees what was committed before it. A transfer of the same
	// key that another writer commits in between is then found as a replay, and never takes the balance
	// from under a request that is not known to be one. Rule TR-9.
	//
	// A session keeps plans that it made for small tables. On empty tables any index that begins
	// with the organization looks as good as the key's. Such a plan would read all transfers of the
	// organization for each group. Only the key's index provides this order.
	b.Queue(`SELECT `+columns+`
		FROM unnest($2::text[]) AS k (idempotency_key)
		CROSS JOIN LATERAL (
			SELECT * FROM transfers t WHERE t.org_id = $1 AND t.idempotency_key >= k.idempotency_key
			ORDER BY t.idempotency_key LIMIT 1) t
		JOIN mints m ON m.mint_id = t.mint_id
		WHERE t.idempotency_key = k.idempotency_key`, org, sortedUnique(keys)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanTransfer)
		for _, t := range found {
			f.stored[t.IdempotencyKey] = knownTransfer{
				Accepted: request.Accepted{ID: t.ID, Digest: t.digest, Reference: t.Reference},
				transfer: t.Transfer,
			}
		}
		return err
	})
	return f
}

func sortedUnique[T string | int](values []T) []T {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// ensureCustomers inserts missing customers, in a round trip of its own. Only payees without an account in the mint can
// be missing, because an account of a customer requires the customer. Rule TR-2.
func ensureCustomers(
	ctx context.Context, tx pg.Tx, org string, rows []newTransfer, found ledger.KnownAccounts,
) error {
	newCustomers := map[string]audit.Actor{}
	for _, r := range rows {
		if _, exists := found[r.to]; !exists && r.to.Kind == ledger.Customer {
			newCustomers[r.to.Subject] = r.Actor
		}
	}
	if len(newCustomers) == 0 {
		return nil
	}
	return customer.EnsureAllBy(ctx, tx, org, newCustomers)
}

// queueInserts queues the rows of the transfers with everything that belongs to them, in the order
// of locks: customers, keys, rows that no transaction waits for, accounts, balances, the counter of
// events. Customers exist. post queues the postings.
func (s *Service) queueInserts(
	b *pgx.Batch, now time.Time, org string, rows []newTransfer, post func([]ledger.Posting) error,
) error {
	// Sorted, so that two writers with the same keys do not deadlock.
	slices.SortFunc(rows, func(a, b newTransfer) int { return strings.Compare(a.IdempotencyKey, b.IdempotencyKey) })
	n := len(rows)
	var (
		ids, keys                                            = make([]string, n), make([]string, n)
		digests                                              = make([][]byte, n)
		mints                                                = make([]int, n)
		amounts                                              = make([]money.Amount, n)
		fromCustomers, fromProducts, toCustomers, toProducts = make([]*string, n), make([]*string, n),
			make([]*string, n), make([]*string, n)
		references = make([]*string, n)
		metadata   = make([]string, n)
		postings   = make([]ledger.Posting, n)
		events     = make([]event.Event, n)
		entries    = make([]audit.Entry, n)
	)
	for i, r := range rows {
		metadataJSON, err := json.Marshal(r.transfer.Metadata)
		if err != nil {
			return fmt.Errorf("write the metadata of transfer %s: %w", r.transferID, err)
		}
		ids[i], keys[i], digests[i], mints[i], amounts[i] = r.transferID, r.IdempotencyKey, r.digest, r.mint.ID,
			r.amount
		fromCustomers[i], fromProducts[i], toCustomers[i], toProducts[i] = r.From.CustomerID, r.From.Product,
			r.To.CustomerID, r.To.Product
		references[i], metadata[i] = r.Reference, string(metadataJSON)
		postings[i] = ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Transfer, ID: r.transferID},
			Legs:  []ledger.Leg{{Debit: r.from, Credit: r.to, Amount: r.amount}},
		}
		events[i] = event.Event{
			OrgID: org, Type: event.TransferCompleted, ResourceKind: resourceKind, ResourceID: r.transferID,
			CustomerID: eventCustomer(r), Chain: string(r.mint.Chain), Data: r.transfer,
		}
		entries[i] = audit.Entry{
			OrgID: org, Actor: r.Actor, Action: "transfer.made", ResourceKind: resourceKind,
			ResourceID: r.transferID,
		}
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
		org, now, ids, keys, digests, mints, amounts, fromCustomers, fromProducts, toCustomers, toProducts,
		references, metadata)
	// No transaction waits for the rows of the audit log, so the posting comes behind them: others that move the same
	// balances wait from the posting to the COMMIT. The events come last, since they lock the counter of the
	// organization, for which every other group of it waits.
	err := audit.QueueEntries(b, now, entries...)
	if err == nil {
		err = post(postings)
	}
	if err == nil {
		err = s.events.QueueNumberedFirst(b, now, org, events...)
	}
	return err
}

// eventCustomer returns the customer of the event: the payer, or else the payee.
func eventCustomer(r newTransfer) string {
	for _, a := range []ledger.Account{r.from, r.to} {
		if a.Kind == ledger.Customer {
			return a.Subject
		}
	}
	return ""
}
