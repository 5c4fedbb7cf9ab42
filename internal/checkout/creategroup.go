package checkout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	creationsMax        = 64               // checkouts that one transaction makes
	creationsBeside     = 16               // waiting requests that start a second transaction in parallel
	creationsWaitingMax = 1024             // waiting requests of one organization
	creationTimeout     = 30 * time.Second // for a group with its repetitions
)

// creation is a request for a checkout on its way through a group.
type creation struct {
	request    CheckoutRequest
	expiresIn  time.Duration
	checkoutID string

	link     linkUse
	checkout Checkout // what was made
	knownID  string   // the checkout that the key has made before; "" for none
	err      error
}

// creationWriter serves the requests of one organization that arrive together.
type creationWriter = groupcommit.Writer[*creation, *creation]

// submit makes a checkout together with those that are requested at the same moment: their rows are written by one
// transaction. A request through a payment link has a transaction of its own, because it locks the link.
func (s *Service) submit(ctx context.Context, orgID string, r *creation) (*creation, error) {
	if r.request.link != nil {
		s.runGroup(ctx, orgID, []*creation{r})
		return r, r.err
	}
	_, err := s.creationWriterOf(orgID).SubmitAndWait(ctx, r)
	if errors.Is(err, groupcommit.ErrFull) || errors.Is(err, groupcommit.ErrAbandoned) {
		err = fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"More checkouts of your organization are requested than the service can make, and this one waited too "+
				"long.").WithStep(fault.RepeatWithSameKey)
	}
	return r, err
}

// creationWriterOf returns the writer of an organization. A transaction acts for one organization.
func (s *Service) creationWriterOf(orgID string) *creationWriter {
	s.creating.Lock()
	defer s.creating.Unlock()
	if s.creators == nil {
		s.creators = map[string]*creationWriter{}
	}
	w := s.creators[orgID]
	if w == nil {
		w = &creationWriter{
			GroupMax: creationsMax, SecondGroupMin: creationsBeside, WaitingMax: creationsWaitingMax,
			WorkMax: creationTimeout,
			ProcessGroup: func(ctx context.Context, group []*creation) []groupcommit.Answer[*creation] {
				s.runGroup(ctx, orgID, group)
				answers := make([]groupcommit.Answer[*creation], len(group))
				for i, r := range group {
					answers[i] = groupcommit.Answer[*creation]{Value: r, Err: r.err}
				}
				return answers
			},
		}
		s.creators[orgID] = w
	}
	return w
}

// runGroup answers every request of a group. What the database refuses because of one of them, a key or a reference
// that another has, is split in halves until that one stands alone.
func (s *Service) runGroup(ctx context.Context, orgID string, group []*creation) {
	err := s.writeGroup(ctx, orgID, group)
	if err == nil {
		return
	}
	refused, isRefused := errors.AsType[*pgconn.PgError](err)
	isOfOne := isRefused && (strings.HasPrefix(refused.Code, "22") || strings.HasPrefix(refused.Code, "23"))
	if isOfOne && len(group) > 1 && ctx.Err() == nil {
		half := len(group) / 2
		s.runGroup(ctx, orgID, group[:half])
		s.runGroup(ctx, orgID, group[half:])
		return
	}
	for _, r := range group {
		r.err = fmt.Errorf("create checkout %s: %w", r.checkoutID, err)
	}
}

// writeGroup makes the checkouts of a group in one transaction. A request that is refused by what was read has its
// fault, and the others are made. Any error means that none was made, or that the COMMIT has no answer.
func (s *Service) writeGroup(ctx context.Context, orgID string, group []*creation) error {
	var products []Product
	var mints *mint.Catalogue
	var settings Settings
	idsByKey := map[string]string{} // of checkouts that exist, by the hash of the key
	return s.DB.InOrgPipelined(ctx, orgID,
		func(b *pgx.Batch) {
			products = nil
			clear(idsByKey)
			mints = mint.QueueAll(b)
			queueSettings(b, orgID, &settings)
			var productIDs, hashes []string
			for _, r := range group {
				productIDs = append(productIDs, r.request.productIDs()...)
				if r.request.IdempotencyKey != nil {
					hashes = append(hashes, keyHash(*r.request.IdempotencyKey))
				}
				r.link = linkUse{}
				queueLinkUse(b, orgID, r.request.link, s.LinkCheckoutsMax, &r.link)
			}
			queueProducts(b, orgID, productIDs, &products)
			queueKnownKeys(b, orgID, hashes, idsByKey)
		},
		func(_ context.Context, tx pg.Tx, b *pgx.Batch) error {
			var entries []audit.Entry
			for _, r := range group {
				r.checkout, r.knownID, r.err = Checkout{}, "", nil
				if r.request.IdempotencyKey != nil {
					r.knownID = idsByKey[keyHash(*r.request.IdempotencyKey)]
				}
				if r.knownID != "" {
					continue
				}
				entry, err := s.decideCreation(b, orgID, r, products, *mints, settings, tx.Now)
				if err != nil {
					r.err = err
					continue
				}
				entries = append(entries, entry)
			}
			if len(entries) == 0 {
				return nil
			}
			failpoint.HitBeforeCommit("C01")
			return audit.QueueEntries(b, tx.Now, entries...)
		})
}

// decideCreation fixes the terms of a checkout and queues its row, or refuses it and queues nothing.
func (s *Service) decideCreation(
	b *pgx.Batch, orgID string, r *creation, products []Product, mints mint.Catalogue, settings Settings, now time.Time,
) (audit.Entry, error) {
	asked := r.request
	if asked.link != nil {
		if err := r.link.check(now); err != nil {
			return audit.Entry{}, err
		}
	}
	sale, onePerReference, err := s.newSale(asked, products, mints, settings)
	if err != nil {
		return audit.Entry{}, err
	}
	c := Checkout{
		Sale: sale, ID: r.checkoutID, OrgID: orgID, Version: 1, Status: outcome.Open, CustomerID: asked.CustomerID,
		CustomerEmail: asked.CustomerEmail, Reference: asked.Reference, OnePerReference: onePerReference,
		Metadata: nonNil(asked.Metadata), CreatedAt: now, UpdatedAt: now, ExpiresAt: now.Add(r.expiresIn),
		digest: asked.digest(),
	}
	if asked.IdempotencyKey != nil {
		c.IdempotencyKey = *asked.IdempotencyKey
	}
	if asked.link != nil {
		c.LinkID = &asked.link.ID
	}
	if err := queueInsert(b, c); err != nil {
		return audit.Entry{}, err
	}
	r.checkout = c
	detail := map[string]any{"due": sale.AmountDue.Text(), "currency": sale.Currency, "reference": asked.Reference}
	if asked.link != nil {
		detail["linkId"] = asked.link.ID
	}
	return newCheckoutEntry(c, asked.Actor, "created", detail), nil
}

// queueKnownKeys looks which keys have made checkouts, in the transaction that would use them.
func queueKnownKeys(b *pgx.Batch, orgID string, hashes []string, idsByKey map[string]string) {
	if len(hashes) == 0 {
		return
	}
	b.Queue(`
		SELECT c.key_hash, c.checkout_id FROM unnest($2::text[]) AS k (hash)
		CROSS JOIN LATERAL (SELECT key_hash, checkout_id FROM checkouts WHERE org_id = $1 AND `+
		pg.ByKey("key_hash", "k.hash")+`) c`, orgID, hashes).
		Query(func(rows pgx.Rows) error {
			var hash, checkoutID string
			_, err := pgx.ForEachRow(rows, []any{&hash, &checkoutID}, func() error {
				idsByKey[hash] = checkoutID
				return nil
			})
			return err
		})
}
