-- Why: a restored withdrawal makes a balance that its customer owes, and the role of an organization could
-- insert one. It keeps the right to insert what a request has.

-- +goose Up
-- +goose StatementBegin
-- The grant comes second: a REVOKE on a table takes the rights on its columns as well.
REVOKE INSERT ON withdrawals FROM coffer_app;
GRANT INSERT (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, idempotency_key, request_digest,
    reference, metadata, status, requires_approval, approval_reasons, usd_value, created_at, fee_mode, fee_deducted,
    max_network_fee, travel_rule, screening, approvals_required, request_mac, product, whitelisted_address_id,
    cost_max, cost_rent, cost_price, charge_costs, charge_rent, charge_held, charge_failure_max, charge_coin_price,
    charge_mint_price) ON withdrawals TO coffer_app;
-- +goose StatementEnd
