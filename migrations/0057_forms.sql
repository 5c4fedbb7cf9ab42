-- Why: a deposit address of Bitcoin is of one of two kinds, and each has keys of its own.
-- See decision 0062.
-- +goose Up

-- '' is the usual kind of its family, which every wallet of before has.
ALTER TABLE wallets ADD COLUMN form text NOT NULL DEFAULT '';
ALTER TABLE wallets ADD CONSTRAINT wallets_form_known CHECK (
    form = '' OR (form = 'TAPROOT' AND family = 'BITCOIN' AND purpose IN ('CUSTOMER_DEPOSIT', 'ORGANIZATION_DEPOSIT'))) NOT VALID;
ALTER TABLE wallets VALIDATE CONSTRAINT wallets_form_known;
