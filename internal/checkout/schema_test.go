package checkout_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// fixChecksum makes the checksum of the header of a PNG right.
func fixChecksum(content []byte) {
	binary.BigEndian.PutUint32(content[29:33], crc32.ChecksumIEEE(content[12:29]))
}

// webpOfOnePoint is a lossless WebP of one transparent point.
var webpOfOnePoint = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00" +
	"\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")

// The tables refuse what the program does not try, also to the owner. Rules PROD-2, PROD-7, PROD-8 and PROD-9.
func TestTheTablesKeepTheRulesOfProducts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	p := e.mustCreate(validDraft(func(d *checkout.Draft) { d.ImageURL = new("https://a.example/gold.png") }))
	owner := pgtest.OwnerPool(t, e.db)
	const next = `version = version + 1, `
	const copied = `INSERT INTO products SELECT (jsonb_populate_record(p, `
	for _, c := range []struct{ name, constraint, sql string }{
		{"another id", "products_identity_fixed", `UPDATE products SET ` + next + `product_id = 'prod_x'`},
		{"another organization", "products_identity_fixed", `UPDATE products SET ` + next + `org_id = '` + e.two + `'`},
		{"another key", "products_identity_fixed", `UPDATE products SET ` + next + `idempotency_key = 'k'`},
		{"another digest", "products_identity_fixed", `UPDATE products SET ` + next + `request_digest = ''`},
		{"another day", "products_identity_fixed", `UPDATE products SET ` + next + `created_at = now()`},
		{"a change that does not count", "products_version_forward", `UPDATE products SET name = 'x'`},
		{"two versions at once", "products_version_forward", `UPDATE products SET version = version + 2`},
		{"a version back", "products_version_forward", `UPDATE products SET version = version - 1`},
		{
			"an earlier change", "products_version_forward",
			`UPDATE products SET ` + next + `updated_at = updated_at - interval '1 s'`,
		},
		{"deleting", "products_append_only", `DELETE FROM products`},
		{"emptying", "products_append_only", `TRUNCATE products`},
		{"FIXED without a price", "products_priced", `UPDATE products SET ` + next + `price = NULL`},
		{"FIXED with a bound", "products_priced", `UPDATE products SET ` + next + `min_price = 1`},
		{"price 0", "products_priced", `UPDATE products SET ` + next + `price = 0`},
		{
			"OPEN with a price", "products_priced",
			`UPDATE products SET ` + next + `price_type = 'OPEN', min_price = 1, max_price = 2`,
		},
		{
			"bounds the wrong way round", "products_priced",
			`UPDATE products SET ` + next + `price_type = 'OPEN', price = NULL, min_price = 2, max_price = 1`,
		},
		{"OPEN without bounds", "products_priced", `UPDATE products SET ` + next + `price_type = 'OPEN', price = NULL`},
		{"another price type", "products_price_type_known", `UPDATE products SET ` + next + `price_type = 'FREE'`},
		{"no mint", "products_mints_bounded", `UPDATE products SET ` + next + `accepted_mint_ids = '{}'`},
		{"a mint twice", "products_mints_known", `UPDATE products SET ` + next + `accepted_mint_ids = '{1,1}'`},
		{"an unknown mint", "products_mints_known", `UPDATE products SET ` + next + `accepted_mint_ids = '{1,99}'`},
		{"no mint at all", "products_mints_known", `UPDATE products SET ` + next + `accepted_mint_ids = '{NULL}'`},
		{
			"settlement in another mint", "products_settlement_accepted",
			`UPDATE products SET ` + next + `settlement_mint_id = 2`,
		},
		{"quantity 0", "products_quantity_bounded", `UPDATE products SET ` + next + `max_quantity = 0`},
		{"a tolerance of 1001", "products_tolerance_bounded", `UPDATE products SET ` + next + `under_bps = 1001`},
		{"another policy", "products_over_policy_known", `UPDATE products SET ` + next + `over_policy = 'KEEP'`},
		{"another late policy", "products_late_policy_known", `UPDATE products SET ` + next + `late_policy = 'DROP'`},
		{"archived without a moment", "products_archived", `UPDATE products SET ` + next + `status = 'ARCHIVED'`},
		{"a moment without being archived", "products_archived", `UPDATE products SET ` + next + `archived_at = now()`},
		{"another status", "products_status_known", `UPDATE products SET ` + next + `status = 'GONE'`},
		{"no name", "products_named", `UPDATE products SET ` + next + `name = ''`},
		{"script as a URL", "products_urls_web", `UPDATE products SET ` + next + `success_url = 'javascript:alert(1)'`},
		{"a line break in a URL", "products_urls_web", `UPDATE products SET ` + next + `cancel_url = E'https://a/\n'`},
		{
			"a long URL", "products_urls_bounded",
			`UPDATE products SET ` + next + `cancel_url = 'https://a/' || repeat('a', 2048)`,
		},
		{"an image without an address", "products_image_fetched", `UPDATE products SET ` + next + `image_url = NULL`},
		{"an absent image", "products_image", `UPDATE products SET ` + next + `image_id = 'img_x'`},
		{"metadata that is a list", "products_metadata_object", `UPDATE products SET ` + next + `metadata = '[]'`},
		{
			"a product that begins archived", "products_begin",
			copied + `'{"product_id": "prod_y", "status": "ARCHIVED"}')).* FROM products p`,
		},
		{
			"a product that begins at another version", "products_begin",
			copied + `'{"product_id": "prod_y", "version": 2}')).* FROM products p`,
		},
		{
			"a key without its hash", "products_key_hashed",
			copied + `'{"product_id": "prod_y", "idempotency_key": "k"}')).* FROM products p`,
		},
		{"another image", "product_images_append_only", `UPDATE product_images SET width = 3`},
		{"no image", "product_images_append_only", `DELETE FROM product_images`},
		{
			"an image that is another one", "product_images_hashed",
			`INSERT INTO product_images SELECT 'img_y', org_id, media_type, width, height, hash, 'x', created_at
			FROM product_images`,
		},
		{
			"markup as an image", "product_images_media_known",
			`INSERT INTO product_images
			SELECT 'img_y', org_id, 'image/svg+xml', width, height, hash, content, created_at FROM product_images`,
		},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	// The role of the service writes no column that only an insert writes, and sees no other organization.
	for name, sql := range map[string]string{
		"the organization": `UPDATE products SET org_id = org_id`,
		"the key":          `UPDATE products SET key_hash = key_hash`,
		"an image":         `UPDATE product_images SET content = content`,
	} {
		err := e.db.InOrg(t.Context(), e.one, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("%s: got no refusal", name)
		}
	}
	err := e.db.InOrg(t.Context(), e.two, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE products SET version = version + 1, name = 'theirs'`)
		if err == nil && tag.RowsAffected() != 0 {
			t.Errorf("got %d products of another organization changed, want none", tag.RowsAffected())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.service.ByID(t.Context(), e.one, p.ID); err != nil || got.Version != 1 || got.Name != "Gold plan" {
		t.Errorf("got %+v %v, want the product as it was", got, err)
	}
}
