-- Why: people read the audit log of their organization on a page: all of it, the acts of one kind, or
-- their own acts. Each is read in the order of time. Acts of people are few, so their index is small.

-- +goose NO TRANSACTION
-- +goose Up
-- An index that an interrupted run left behind is not valid, and is built again.
DROP INDEX CONCURRENTLY IF EXISTS audit_log_of_organization;
CREATE INDEX CONCURRENTLY audit_log_of_organization ON audit_log (org_id, at, audit_id);
DROP INDEX CONCURRENTLY IF EXISTS audit_log_of_action;
CREATE INDEX CONCURRENTLY audit_log_of_action ON audit_log (org_id, action, at, audit_id);
DROP INDEX CONCURRENTLY IF EXISTS audit_log_of_person;
CREATE INDEX CONCURRENTLY audit_log_of_person ON audit_log (org_id, actor_id, at, audit_id) WHERE actor_kind = 'USER';
