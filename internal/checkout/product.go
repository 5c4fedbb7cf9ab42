package checkout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// idPrefix begins the ids of products.
const idPrefix = "prod"

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Request is a product as the caller asks for it.
type Request struct {
	Draft

	IdempotencyKey *string // nil: each call makes another product
	Actor          audit.Actor
}

// Differs reports whether a request has other parameters than the one that made the product. Metadata is none.
func (p Product) Differs(r Request) bool { return string(p.digest) != string(r.digest()) }

// FindByKey returns the product of an idempotency key as it is now. Rule PROD-1.
func (s *Service) FindByKey(ctx context.Context, orgID, key string) (p Product, isKnown bool, err error) {
	if !request.IsKey(key) {
		return p, false, nil
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p, isKnown, err = findByKey(ctx, tx, orgID, key)
		return err
	})
	return p, isKnown, err
}

func findByKey(ctx context.Context, tx pg.Tx, orgID, key string) (p Product, isKnown bool, err error) {
	rows, err := tx.Query(ctx, selectProducts+` WHERE p.org_id = $1 AND `+pg.ByKey("p.key_hash", "$2"), orgID,
		keyHash(key))
	if err != nil {
		return p, false, fmt.Errorf("look up a product by its key: %w", err)
	}
	p, err = pgx.CollectExactlyOneRow(rows, scanProduct)
	if errors.Is(err, pgx.ErrNoRows) {
		return Product{}, false, nil
	}
	if err != nil {
		return Product{}, false, fmt.Errorf("look up a product by its key: %w", err)
	}
	return p, true, nil
}

// Create makes a product. isReplayed is true when the key was known; p is then the product as it is now. After a fault
// no product was written. After any other error it may exist or not, and the same request resolves that if it has a
// key. Errors: faults INVALID_REQUEST, INVALID_AMOUNT, MINT_NOT_FOUND. Rules PROD-1 to PROD-7.
func (s *Service) Create(ctx context.Context, orgID string, r Request) (p Product, isReplayed bool, err error) {
	if r.IdempotencyKey != nil {
		if !request.IsKey(*r.IdempotencyKey) {
			return p, false, refuse("idempotencyKey",
				"idempotencyKey has to be 1 to %d printable ASCII characters without a space.", request.KeyBytesMax).
				WithAdvice("Send one key for each product that you intend.")
		}
		if p, isReplayed, err = s.FindByKey(ctx, orgID, *r.IdempotencyKey); err != nil || isReplayed {
			return p, isReplayed, err
		}
	}
	mints, err := s.loadMints(ctx, orgID)
	if err != nil {
		return p, false, err
	}
	terms, err := checkDraft(r.Draft, nil, mints, s.IsLocal)
	if err != nil {
		return p, false, err
	}
	fetched, err := s.fetchIfNamed(ctx, orgID, terms.ImageURL)
	if err != nil {
		return p, false, err
	}
	productID := id.New(idPrefix, s.DB.Clock()())
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p, isReplayed, err = insertProduct(ctx, tx, orgID, productID, r, terms, fetched)
		return err
	})
	if err != nil {
		return Product{}, false, fmt.Errorf("create product %s: %w", productID, err)
	}
	return p, isReplayed, nil
}

func (s *Service) loadMints(ctx context.Context, orgID string) (mints mint.Catalogue, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	return mints, err
}

// fetchIfNamed fetches an image, and nothing without an address.
func (s *Service) fetchIfNamed(ctx context.Context, orgID string, url *string) (*encodedImage, error) {
	if url == nil {
		return nil, nil
	}
	fetched, err := s.fetchImage(ctx, *url, orgID)
	if err != nil {
		return nil, err
	}
	return &fetched, nil
}

// insertProduct writes a product, or finds the one that another request with the key made meanwhile.
func insertProduct(
	ctx context.Context, tx pg.Tx, orgID, productID string, r Request, t Terms, fetched *encodedImage,
) (p Product, isReplayed bool, err error) {
	var imageID, hash *string
	if fetched != nil {
		if err := insertImage(ctx, tx, orgID, *fetched); err != nil {
			return p, false, err
		}
		imageID = &fetched.id
	}
	if r.IdempotencyKey != nil {
		hash = new(keyHash(*r.IdempotencyKey))
	}
	added, err := tx.Exec(ctx, `
		INSERT INTO products (product_id, org_id, version, status, name, description, image_url, image_id, price_type,
			currency, price, min_price, max_price, accepted_mint_ids, settlement_mint_id, max_quantity, under_bps,
			over_policy, late_policy, success_url, cancel_url, one_per_reference, metadata, idempotency_key, key_hash,
			request_digest, created_at, updated_at)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26, $26)
		ON CONFLICT ON CONSTRAINT products_key_unique DO NOTHING`,
		productID, orgID, Active, t.Name, t.Description, t.ImageURL, imageID, t.PriceType, t.Currency, t.Price,
		t.MinPrice, t.MaxPrice, t.AcceptedMintIDs, t.SettlementMintID, t.MaxQuantity, t.UnderpaymentToleranceBps,
		t.OverpaymentPolicy, t.LatePaymentPolicy, t.SuccessURL, t.CancelURL, t.OnePerReference,
		nonNil(t.Metadata), r.IdempotencyKey, hash, r.digest(), tx.Now)
	if err != nil {
		return p, false, fmt.Errorf("insert product %s: %w", productID, err)
	}
	if added.RowsAffected() == 0 {
		p, isReplayed, err = findByKey(ctx, tx, orgID, *r.IdempotencyKey)
		if err == nil && !isReplayed {
			err = fmt.Errorf("product %s was not inserted, and no product has its key", productID)
		}
		return p, isReplayed, err
	}
	if p, err = load(ctx, tx, orgID, productID); err != nil {
		return p, false, err
	}
	return p, false, audit.Record(ctx, tx, newEntry(p, r.Actor, "created", p.Terms.auditDetail()))
}

func nonNil(metadata map[string]string) map[string]string {
	if metadata == nil {
		return map[string]string{}
	}
	return metadata
}

// Patch changes what a change names, and returns the product. A change that changes nothing writes nothing. Errors:
// faults NOT_FOUND, INVALID_REQUEST, INVALID_AMOUNT, MINT_NOT_FOUND; INVALID_STATE if a later version than the seen
// one is the present one. Rules PROD-2, PROD-7, PROD-8 and PROD-9.
func (s *Service) Patch(
	ctx context.Context, orgID, productID string, requester audit.Actor, ch Change,
) (after Product, err error) {
	// A change that is refused in any case fetches nothing.
	before, err := s.ByID(ctx, orgID, productID)
	if err != nil {
		return Product{}, asWritten(err)
	}
	mints, err := s.loadMints(ctx, orgID)
	if err != nil {
		return Product{}, err
	}
	if _, err := ch.result(before, mints, s.IsLocal); err != nil {
		return Product{}, err
	}
	if !ch.ImageURL.IsNamed {
		ch.ImageURL.Value = nil
	}
	fetched, err := s.fetchIfNamed(ctx, orgID, ch.ImageURL.Value)
	if err != nil {
		return Product{}, err
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		// The image comes before the product in the order of locks.
		if fetched != nil {
			if err := insertImage(ctx, tx, orgID, *fetched); err != nil {
				return err
			}
		}
		before, err := lockProduct(ctx, tx, orgID, productID)
		if err != nil {
			return err
		}
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		terms, err := ch.result(before, mints, s.IsLocal)
		if err != nil {
			return err
		}
		after, err = writeTerms(ctx, tx, before, terms, ch, fetched, requester)
		return err
	})
	if err != nil {
		return Product{}, fmt.Errorf("change product %s: %w", productID, err)
	}
	return after, nil
}

// result returns the terms of a product after the change. Errors: those of checkDraft; INVALID_STATE.
func (ch Change) result(before Product, mints mint.Catalogue, isLocal bool) (Terms, error) {
	if ch.SeenVersion != nil && *ch.SeenVersion != before.Version {
		return Terms{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"This product was changed since you opened it.").
			WithAdvice("Look at its present state and make your change again.")
	}
	return checkDraft(ch.applyTo(before.Draft()), before.AcceptedMintIDs, mints, isLocal)
}

// lockProduct returns a product that no other transaction changes until this one ends.
func lockProduct(ctx context.Context, tx pg.Tx, orgID, productID string) (Product, error) {
	if id.IsValid(idPrefix, productID) {
		_, err := tx.Exec(ctx, `SELECT FROM products WHERE org_id = $1 AND product_id = $2 FOR NO KEY UPDATE`,
			orgID, productID)
		if err != nil {
			return Product{}, fmt.Errorf("lock product %s: %w", productID, err)
		}
	}
	p, err := load(ctx, tx, orgID, productID)
	return p, asWritten(err)
}

// writeTerms writes the terms of a product unless they are what they were.
func writeTerms(
	ctx context.Context, tx pg.Tx, before Product, t Terms, ch Change, fetched *encodedImage, requester audit.Actor,
) (Product, error) {
	imageID := before.ImageID
	if ch.ImageURL.IsNamed {
		imageID = ""
	}
	if fetched != nil {
		imageID = fetched.id
	}
	from, to := before.Terms.auditDetail(), t.auditDetail()
	from["imageId"], to["imageId"] = before.ImageID, imageID
	maps.DeleteFunc(from, func(name string, value any) bool { return reflect.DeepEqual(value, to[name]) })
	maps.DeleteFunc(to, func(name string, _ any) bool { _, isChanged := from[name]; return !isChanged })
	if len(to) == 0 {
		return before, nil
	}
	changed, err := tx.Exec(ctx, `
		UPDATE products SET version = version + 1, name = $4, description = $5, image_url = $6,
			image_id = nullif($7, ''), price_type = $8, currency = $9, price = $10, min_price = $11, max_price = $12,
			accepted_mint_ids = $13, settlement_mint_id = $14, max_quantity = $15, under_bps = $16, over_policy = $17,
			late_policy = $18, success_url = $19, cancel_url = $20, one_per_reference = $21, metadata = $22,
			updated_at = greatest($23, updated_at)
		WHERE org_id = $1 AND product_id = $2 AND version = $3`,
		before.OrgID, before.ID, before.Version, t.Name, t.Description, t.ImageURL, imageID, t.PriceType, t.Currency,
		t.Price, t.MinPrice, t.MaxPrice, t.AcceptedMintIDs, t.SettlementMintID, t.MaxQuantity,
		t.UnderpaymentToleranceBps, t.OverpaymentPolicy, t.LatePaymentPolicy, t.SuccessURL, t.CancelURL,
		t.OnePerReference, nonNil(t.Metadata), tx.Now)
	switch {
	case err != nil:
		return Product{}, fmt.Errorf("update product %s: %w", before.ID, err)
	case changed.RowsAffected() != 1:
		return Product{}, fmt.Errorf("product %s is not at version %d", before.ID, before.Version)
	}
	after, err := load(ctx, tx, before.OrgID, before.ID)
	if err != nil {
		return Product{}, err
	}
	return after, audit.Record(ctx, tx, newEntry(after, requester, "changed", map[string]any{
		"version": after.Version, "from": from, "to": to,
	}))
}

// auditDetail returns the terms for the audit log, each as JSON can hold it.
func (t Terms) auditDetail() map[string]any {
	d := t.Draft()
	text := func(s *string) any {
		if s == nil {
			return nil
		}
		return *s
	}
	var settlement any
	if d.SettlementMintID != nil {
		settlement = *d.SettlementMintID
	}
	return map[string]any{
		"name": d.Name, "description": text(d.Description), "imageUrl": text(d.ImageURL), "priceType": d.PriceType,
		"currency": d.Currency, "price": text(d.Price), "minPrice": text(d.MinPrice), "maxPrice": text(d.MaxPrice),
		"acceptedMintIds": slices.Clone(d.AcceptedMintIDs), "settlementMintId": settlement,
		"maxQuantity": d.MaxQuantity, "underpaymentToleranceBps": d.UnderpaymentToleranceBps,
		"overpaymentPolicy": d.OverpaymentPolicy, "latePaymentPolicy": d.LatePaymentPolicy,
		"successUrl": text(d.SuccessURL), "cancelUrl": text(d.CancelURL), "onePerReference": d.OnePerReference,
		"metadata": nonNil(d.Metadata),
	}
}

// Archive takes a product off sale. An archived one stays as it is. Error: fault NOT_FOUND. Rule PROD-8.
func (s *Service) Archive(ctx context.Context, orgID, productID string, requester audit.Actor) (Product, error) {
	return s.setStatus(ctx, orgID, productID, requester, Archived)
}

// Unarchive puts a product on sale again. An active one stays as it is. Error: fault NOT_FOUND. Rule PROD-8.
func (s *Service) Unarchive(ctx context.Context, orgID, productID string, requester audit.Actor) (Product, error) {
	return s.setStatus(ctx, orgID, productID, requester, Active)
}

func (s *Service) setStatus(
	ctx context.Context, orgID, productID string, requester audit.Actor, wanted Status,
) (p Product, err error) {
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		before, err := lockProduct(ctx, tx, orgID, productID)
		if err != nil {
			return err
		}
		if p = before; before.Status == wanted {
			return nil
		}
		verb := "unarchived"
		var archivedAt *time.Time
		if wanted == Archived {
			verb, archivedAt = "archived", &tx.Now
		}
		changed, err := tx.Exec(ctx, `
			UPDATE products SET version = version + 1, status = $4, archived_at = $5,
				updated_at = greatest($6, updated_at)
			WHERE org_id = $1 AND product_id = $2 AND version = $3`,
			orgID, productID, before.Version, wanted, archivedAt, tx.Now)
		switch {
		case err != nil:
			return fmt.Errorf("update product %s: %w", productID, err)
		case changed.RowsAffected() != 1:
			return fmt.Errorf("product %s is not at version %d", productID, before.Version)
		}
		if p, err = load(ctx, tx, orgID, productID); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(p, requester, verb, map[string]any{"version": p.Version}))
	})
	if err != nil {
		return Product{}, err
	}
	return p, nil
}

// asWritten says of a refusal that a call which writes has written nothing.
func asWritten(err error) error {
	if f := fault.Find(err); f != nil && f.Effect == fault.ReadOnly {
		f.Effect = fault.NothingWritten
	}
	return err
}
