-- Why: anybody can have a contract say that its token came to an address of ours, as
-- often as a block has gas for. Only so many deposits of such tokens are recorded. Those
-- that a wallet has are counted before another one is, so the count needs an index. What is
-- left out is a finding of its own kind, and a metric counts the findings of a day.
-- +goose Up

CREATE INDEX deposits_of_unknown_tokens ON deposits (wallet_id, chain) WHERE mint_id IS NULL AND status = 'UNSUPPORTED';

ALTER TABLE scan_findings
    DROP CONSTRAINT scan_findings_kind_known,
    ADD CONSTRAINT scan_findings_kind_known CHECK (kind IN ('UNATTRIBUTED', 'BALANCE_DELTA', 'FINALITY_BROKEN', 'UNSUPPORTED_DROPPED'));
CREATE INDEX scan_findings_by_time ON scan_findings (created_at);
