-- Why: the link of every checkout exists, and the checkouts of a link are found by index.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE checkouts VALIDATE CONSTRAINT checkouts_link;
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS checkouts_of_link;
CREATE INDEX CONCURRENTLY checkouts_of_link ON checkouts (link_id, created_at, checkout_id) WHERE link_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS checkouts_sold_by_link;
CREATE INDEX CONCURRENTLY checkouts_sold_by_link ON checkouts (link_id) WHERE link_id IS NOT NULL AND status IN ('PROCESSING', 'COMPLETED');
DROP INDEX CONCURRENTLY IF EXISTS checkouts_unpaid_of_links;
CREATE INDEX CONCURRENTLY checkouts_unpaid_of_links ON checkouts (org_id) WHERE link_id IS NOT NULL AND status = 'OPEN' AND seen = 0;
