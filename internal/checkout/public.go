package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Public is a checkout with what its page shows besides. A payer who has its path may see it; nothing of the customer
// may leave the page.
type Public struct {
	Checkout

	ShopName string
	Settings Settings
	// Offers are the accepted mints that are not opened, as they are now; none unless the checkout is open.
	Offers []Offer
	// BlocksMissing is how many blocks a payment that was seen still needs, by the id of its deposit.
	BlocksMissing map[string]int
	// HasRefund says that a refund waits for the address of its payer.
	HasRefund bool
	// AfterText is what the shop tells who has paid through its payment link; "" for nothing, and before the end.
	AfterText string
}

// ownerOf returns the organization of a checkout. Error: fault NOT_FOUND. The path of a page names no organization.
func (s *Service) ownerOf(ctx context.Context, checkoutID string) (orgID string, err error) {
	if !id.IsValid(checkoutPrefix, checkoutID) {
		return "", newCheckoutGone()
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT org_id FROM checkouts WHERE checkout_id = $1`, checkoutID).Scan(&orgID)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", newCheckoutGone()
	}
	if err != nil {
		return "", fmt.Errorf("look for the organization of checkout %s: %w", checkoutID, err)
	}
	return orgID, nil
}

// PublicByID returns what the page of a checkout shows, with quotes of the moment. Error: fault NOT_FOUND.
func (s *Service) PublicByID(ctx context.Context, checkoutID string) (p Public, err error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return p, err
	}
	if p.Checkout, err = s.CheckoutByID(ctx, orgID, checkoutID); err != nil {
		return p, err
	}
	if p.Checkout, err = s.Refresh(ctx, p.Checkout); err != nil {
		return p, err
	}
	p.BlocksMissing = map[string]int{}
	err = s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		queueSettings(b, orgID, &p.Settings)
		b.Queue(`SELECT name FROM organizations WHERE org_id = $1`, orgID).QueryRow(func(row pgx.Row) error {
			return row.Scan(&p.ShopName)
		})
		b.Queue(`
			SELECT EXISTS (SELECT FROM refunds
				WHERE checkout_id = $1 AND status = 'AWAITING_ADDRESS' AND expires_at > $2)`,
			checkoutID, s.DB.Clock()()).QueryRow(func(row pgx.Row) error { return row.Scan(&p.HasRefund) })
		if p.LinkID != nil && p.Status == outcome.Completed {
			b.Queue(`SELECT coalesce(after_text, '') FROM payment_links WHERE org_id = $1 AND link_id = $2`,
				orgID, *p.LinkID).QueryRow(func(row pgx.Row) error { return row.Scan(&p.AfterText) })
		}
		b.Queue(`
			SELECT p.deposit_id, greatest(1, m.confirmations_required - (greatest(d.height,
				(SELECT max(h.height) FROM scan_heads h WHERE h.chain = d.chain),
				(SELECT s.height FROM scan_cursors s WHERE s.chain = d.chain)) - d.height + 1))::integer
			FROM checkout_payments p JOIN deposits d ON d.deposit_id = p.deposit_id
			JOIN mints m ON m.mint_id = p.mint_id
			WHERE p.checkout_id = $1 AND p.status = 'SEEN'`, checkoutID).Query(func(rows pgx.Rows) error {
			var depositID string
			var missing int
			_, err := pgx.ForEachRow(rows, []any{&depositID, &missing}, func() error {
				p.BlocksMissing[depositID] = missing
				return nil
			})
			return err
		})
	})
	if err != nil {
		return p, fmt.Errorf("read what the page of checkout %s shows: %w", checkoutID, err)
	}
	if p.Settings.ShopName != "" {
		p.ShopName = p.Settings.ShopName
	}
	if p.Status != outcome.Open {
		return p, nil
	}
	offers, err := s.OffersFor(ctx, p.Checkout)
	if err != nil {
		return p, err
	}
	p.Offers = offers
	return p, nil
}

// PublicVersions returns, for each of some checkouts that exist, a number that changes with what its page shows, except
// for quotes that ended. It is cheap: the pages ask for all checkouts that are open on them all the time.
func (s *Service) PublicVersions(ctx context.Context, checkoutIDs []string) (versions map[string]int64, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		versions = make(map[string]int64, len(checkoutIDs))
		// A payment that was seen shows how many blocks it still needs, a refund may wait for its address, and wallets
		// are offered when the token account of the shared address exists.
		rows, err := tx.Query(ctx, `
			SELECT c.checkout_id, c.version * 1000000 + coalesce((SELECT sum(r.version) FROM refunds r
				WHERE r.checkout_id = c.checkout_id), 0)::bigint + coalesce((
				SELECT sum(least(1000, greatest(0,
					(SELECT max(h.height) FROM scan_heads h WHERE h.chain = p.chain) - d.height)))
				FROM checkout_payments p JOIN deposits d ON d.deposit_id = p.deposit_id
				WHERE p.checkout_id = c.checkout_id AND p.status = 'SEEN'), 0)::bigint + (
				SELECT count(*) FROM checkout_options o
				JOIN token_accounts a ON a.wallet_id = o.shared_wallet_id AND a.mint_id = o.mint_id
				WHERE o.checkout_id = c.checkout_id)
			FROM checkouts c WHERE c.checkout_id = ANY ($1)`, checkoutIDs)
		if err != nil {
			return err
		}
		var checkoutID string
		var version int64
		_, err = pgx.ForEachRow(rows, []any{&checkoutID, &version}, func() error {
			versions[checkoutID] = version
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of %d checkouts: %w", len(checkoutIDs), err)
	}
	return versions, nil
}

// OpenPublic opens an option of a checkout for its payer. See OpenOption. Error also: fault RATE_LIMITED. Rule CO-123.
func (s *Service) OpenPublic(ctx context.Context, checkoutID string, mintID int) error {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return asWritten(err)
	}
	if s.CountOpening != nil && !s.CountOpening(orgID) {
		return fault.New(fault.Limited, fault.RateLimited, fault.NothingWritten,
			"Too many options of this organization are opened now.")
	}
	_, err = s.OpenOption(ctx, orgID, checkoutID, mintID)
	return err
}

// PublicImage returns an image of an item of a checkout, also after its product has another one. Error: fault
// NOT_FOUND.
func (s *Service) PublicImage(ctx context.Context, checkoutID, imageID string) (found Image, err error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return Image{}, err
	}
	c, err := s.CheckoutByID(ctx, orgID, checkoutID)
	if err != nil {
		return Image{}, err
	}
	if imageID == "" || !slices.ContainsFunc(c.Items, func(item LineItem) bool { return item.ImageID == imageID }) {
		return Image{}, fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such image.")
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT media_type, width, height, content FROM product_images WHERE org_id = $1 AND image_id = $2`,
			orgID, imageID).Scan(&found.MediaType, &found.Width, &found.Height, &found.Content)
	})
	if err != nil {
		return Image{}, fmt.Errorf("read image %s of checkout %s: %w", imageID, checkoutID, err)
	}
	return found, nil
}

// Located says where a transaction is, as far as it concerns a checkout.
type Located struct {
	Chain chain.Name // where it was found; "" if it was not
	// Payment is set if the transaction is known as a payment of the checkout.
	Payment *Payment
	// IsComing says that it pays an address of the checkout, and its block is not walked yet.
	IsComing bool
	// IsUnclear says that some chain could not be asked.
	IsUnclear bool
}

// LocatePayment looks for a transaction whose hash a payer gives: among the payments of the checkout, and then on the
// chains of its addresses. It answers about this checkout only, and assigns nothing. Errors: faults NOT_FOUND, and
// INVALID_REQUEST for a text that is no hash. Rule CO-18.
func (s *Service) LocatePayment(ctx context.Context, checkoutID, hash string) (found Located, err error) {
	orgID, err := s.ownerOf(ctx, checkoutID)
	if err != nil {
		return found, err
	}
	c, err := s.CheckoutByID(ctx, orgID, checkoutID)
	if err != nil {
		return found, err
	}
	if !isHash(hash) {
		return found, fault.New(fault.Invalid, fault.InvalidRequest, fault.ReadOnly,
			"This is not the hash of a transaction.").WithParam("hash")
	}
	for i, p := range c.Payments {
		if strings.EqualFold(string(p.Tx), hash) && (p.Chain.Family() != chain.SolanaFamily || string(p.Tx) == hash) {
			return Located{Chain: p.Chain, Payment: &c.Payments[i]}, nil
		}
	}
	for name, ch := range s.Chains {
		address, isIssued := c.addressOn(name.Family())
		locator, canLocate := ch.Reader.(chain.TxLocator)
		if !isIssued || !canLocate {
			continue
		}
		height, isFound, err := locator.LocateTx(ctx, chain.TxHash(hash))
		if err != nil {
			found.IsUnclear = true
			continue
		}
		if !isFound {
			continue
		}
		found.Chain = name
		contents, err := ch.Reader.Recent(ctx, height)
		if err != nil {
			found.IsUnclear = true
			continue
		}
		found.IsComing = slices.ContainsFunc(contents.Transfers, func(t chain.Transfer) bool {
			return strings.EqualFold(string(t.Tx), hash) &&
				(t.To == address || c.isNamedBy(t, contents.Mentioned[t.Tx].Addresses()))
		})
		if found.IsComing {
			return found, nil
		}
	}
	return found, nil
}

// isNamedBy reports whether a transfer pays the address that checkouts share, and its transaction names this checkout.
func (c Checkout) isNamedBy(t chain.Transfer, accounts []chain.Address) bool {
	return slices.ContainsFunc(c.Options, func(o Option) bool {
		return o.Shared != nil && o.Shared.Address == t.To &&
			slices.Contains(accounts, chain.Address(payuri.ReferenceText([32]byte(o.Ref))))
	})
}

// addressOn returns the address that belongs to a checkout alone on the chains of a family.
func (c Checkout) addressOn(f chain.Family) (address chain.Address, isIssued bool) {
	i := slices.IndexFunc(c.Options, func(o Option) bool { return o.Wallet.Family == f })
	if i < 0 {
		return "", false
	}
	return c.Options[i].Wallet.Address, true
}

const hashCharsLeast, hashCharsMost = 40, 100

// isHash reports whether a text looks like the hash of a transaction on some chain.
func isHash(s string) bool {
	return len(s) >= hashCharsLeast && len(s) <= hashCharsMost && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
