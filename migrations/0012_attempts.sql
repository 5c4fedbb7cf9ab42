-- Why: a person who looks at a slot wants to know why it has more than one
-- transaction, and the feature whose payment ended by a cancel has to say
-- whether somebody wanted that or the signer's policy did.
-- +goose Up

ALTER TABLE dispatch_attempts
    ADD COLUMN made_for text, -- NULL for the first transaction of a slot, and for those that a restore made again
    ADD CONSTRAINT dispatch_attempts_made_for_known CHECK (made_for IN ('FEE', 'OPERATOR', 'REFUSAL'));
