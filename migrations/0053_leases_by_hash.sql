-- Why: the lease of a slot on Bitcoin names all its coins, and the text may be longer than
-- an index takes.
--
-- Not one transaction: the index is built beside its writers, so every step may be run
-- again. The new one is there before the old one goes.
-- +goose NO TRANSACTION
-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS dispatch_slots_leased_once;
CREATE UNIQUE INDEX CONCURRENTLY dispatch_slots_leased_once ON dispatch_slots (chain, md5(lease)) WHERE lease <> '';
DROP INDEX CONCURRENTLY IF EXISTS dispatch_slots_lease_once;
ALTER INDEX dispatch_slots_leased_once RENAME TO dispatch_slots_lease_once;
