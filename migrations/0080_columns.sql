-- Why: the list of the columns that may change (internal/verify/testdata/columns.txt) shows
-- some that no part of the program writes after their row is inserted, or after it has ended,
-- and that the program's roles could change all the same: whose a row is, when it was made,
-- what an ended payment cost, what an order's proof says.
--
-- Where a trigger guards the other columns of a table, a trigger guards these too: it stops
-- the owner of the tables as well. Tables without one lose the right to what is not written.
-- +goose Up

-- A change of one row that its table refuses. The trigger's name says which.
-- +goose StatementBegin
CREATE FUNCTION refuse_row_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a row of % keeps what was written in it once', TG_TABLE_NAME
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$;
-- +goose StatementEnd

-- What a row has from its insertion and keeps.
CREATE TRIGGER address_funds_as_inserted BEFORE UPDATE OF wallet_id, mint_id, org_id ON address_funds FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER api_key_uses_as_inserted BEFORE UPDATE OF hash, org_id ON api_key_uses FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER closes_as_inserted BEFORE UPDATE OF created_at ON closes FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER coins_as_inserted BEFORE UPDATE OF created_at ON coins FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER deliveries_as_inserted BEFORE UPDATE OF delivery_id, org_id, endpoint_id, event_id, resource_id, resource_seq, created_at ON deliveries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER delivery_attempts_as_inserted BEFORE UPDATE ON delivery_attempts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER deposits_as_inserted BEFORE UPDATE OF created_at ON deposits FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_attempts_as_inserted
    BEFORE UPDATE OF order_id, version, org_id, gas_limit, fee_cap, tip_cap, made_for, beside, created_at ON dispatch_attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_orders_as_inserted BEFORE UPDATE OF created_at ON dispatch_orders FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER dispatch_slots_as_inserted BEFORE UPDATE OF created_at ON dispatch_slots FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_gaps_as_inserted BEFORE UPDATE ON event_gaps FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_sequences_as_inserted BEFORE UPDATE OF org_id ON event_sequences FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_as_inserted BEFORE UPDATE OF chain, created_at, customer_id, resource_kind ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER gas_top_ups_as_inserted BEFORE UPDATE OF restored, created_at ON gas_top_ups FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_balances_as_inserted BEFORE UPDATE OF account_id, org_id, mint_id ON ledger_balances FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER local_risk_as_inserted BEFORE UPDATE OF address_key, created_at ON local_risk FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER merges_as_inserted BEFORE UPDATE OF created_at ON merges FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER organization_settings_as_inserted BEFORE UPDATE OF org_id ON organization_settings FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER organizations_as_inserted BEFORE UPDATE OF created_at ON organizations FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER people_as_inserted BEFORE UPDATE OF user_id, org_id, created_at ON people FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER places_as_inserted BEFORE UPDATE OF created_at ON places FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER scan_cursors_as_inserted BEFORE UPDATE OF chain ON scan_cursors FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER scan_findings_as_inserted BEFORE UPDATE ON scan_findings FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER scan_heads_as_inserted BEFORE UPDATE ON scan_heads FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER sender_watch_as_inserted BEFORE UPDATE OF org_id, chain, address ON sender_watch FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER sweeps_as_inserted BEFORE UPDATE OF trigger, created_at ON sweeps FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER unknown_token_counts_as_inserted BEFORE UPDATE OF wallet_id, chain ON unknown_token_counts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER wallets_as_inserted BEFORE UPDATE OF created_at ON wallets FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER webhook_endpoints_as_inserted BEFORE UPDATE OF endpoint_id, org_id, api_version, created_at ON webhook_endpoints
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER webhook_jobs_as_inserted
    BEFORE UPDATE OF job_id, org_id, kind, endpoint_id, event_id, only_failed, since, until, through, created_at ON webhook_jobs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER webhook_secrets_as_inserted BEFORE UPDATE OF endpoint_id, org_id, version, created_at ON webhook_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER webhook_tests_as_inserted BEFORE UPDATE ON webhook_tests FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER withdrawals_as_inserted BEFORE UPDATE OF metadata, reference, usd_value, created_at ON withdrawals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What the program's roles never write in tables that no trigger guarded until now.
REVOKE UPDATE ON people, scan_heads FROM coffer_system;
REVOKE UPDATE ON deliveries, webhook_jobs, webhook_endpoints, scan_cursors FROM coffer_system;
REVOKE UPDATE ON webhook_endpoints FROM coffer_app;
GRANT UPDATE (status, attempts, attempt_after, first_attempt_at, schedule_base, job_id, lease, leased_until, ended_at) ON deliveries TO coffer_system;
GRANT UPDATE (status, place, examined, queued, updated_at, ended_at) ON webhook_jobs TO coffer_system;
GRANT UPDATE (height, hash, parted_above, updated_at) ON scan_cursors TO coffer_system;
GRANT UPDATE (status, failing_since, failed_at, restart_at, restart_after, restart_id, updated_at) ON webhook_endpoints TO coffer_system;
GRANT UPDATE (url, description, events, filter_customer_id, filter_chain, status, failing_since, failed_at,
    restart_at, restart_after, restart_id, updated_at, deleted_at) ON webhook_endpoints TO coffer_app;

-- What is written once, or together with the status.
CREATE TRIGGER closes_written_once BEFORE UPDATE ON closes FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER gas_top_ups_written_once BEFORE UPDATE ON gas_top_ups FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER merges_written_once BEFORE UPDATE ON merges FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER places_written_once BEFORE UPDATE ON places FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER sweeps_written_once BEFORE UPDATE ON sweeps FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.ended_at IS DISTINCT FROM OLD.ended_at
        OR OLD.status <> 'OPEN' AND NEW.tx_hash IS DISTINCT FROM OLD.tx_hash) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER coins_written_once BEFORE UPDATE ON coins FOR EACH ROW
    WHEN (NEW.status = OLD.status AND NEW.spent_by IS DISTINCT FROM OLD.spent_by) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER deposit_resolutions_written_once BEFORE UPDATE ON deposit_resolutions FOR EACH ROW
    WHEN (NEW.decided_by_name IS DISTINCT FROM OLD.decided_by_name) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER dispatch_attempts_written_once BEFORE UPDATE ON dispatch_attempts FOR EACH ROW
    WHEN (OLD.signed_at IS NOT NULL AND NEW.signed_at IS DISTINCT FROM OLD.signed_at
        OR OLD.sent_at IS NOT NULL AND NEW.sent_at IS DISTINCT FROM OLD.sent_at
        OR OLD.good_until IS NOT NULL AND NEW.good_until IS DISTINCT FROM OLD.good_until) EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER event_sequences_forward BEFORE UPDATE ON event_sequences FOR EACH ROW
    WHEN (NEW.last < OLD.last OR NEW.expired < OLD.expired) EXECUTE FUNCTION refuse_row_change();
-- A delivery that ended changes when it is due again; a job that is through does not change.
CREATE TRIGGER deliveries_written_once BEFORE UPDATE ON deliveries FOR EACH ROW
    WHEN (OLD.status <> 'PENDING' AND NEW.status <> 'PENDING') EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER webhook_jobs_written_once BEFORE UPDATE ON webhook_jobs FOR EACH ROW
    WHEN (OLD.status = 'COMPLETED') EXECUTE FUNCTION refuse_row_change();
CREATE TRIGGER whitelisted_addresses_written_once BEFORE UPDATE ON whitelisted_addresses FOR EACH ROW
    WHEN (OLD.removed_at IS NOT NULL AND (NEW.usable_from, NEW.proof, NEW.journal_id, NEW.journal_seq, NEW.refusal)
        IS DISTINCT FROM (OLD.usable_from, OLD.proof, OLD.journal_id, OLD.journal_seq, OLD.refusal)) EXECUTE FUNCTION refuse_row_change();

-- What an order cost and when, and by what authority it is paid, is written when its status
-- moves. Its fee and proof alone change after the end, when another block proves it.
CREATE TRIGGER dispatch_orders_written_once BEFORE UPDATE ON dispatch_orders FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.tx_hash, NEW.rent, NEW.payee_failed, NEW.broadcast_at, NEW.ended_at, NEW.authority)
            IS DISTINCT FROM (OLD.tx_hash, OLD.rent, OLD.payee_failed, OLD.broadcast_at, OLD.ended_at, OLD.authority)
        OR OLD.status NOT IN ('PAID', 'FAILED') AND (NEW.fee, NEW.proof_id) IS DISTINCT FROM (OLD.fee, OLD.proof_id)
        OR OLD.status IN ('PAID', 'FAILED') AND (NEW.short_by, NEW.funds_pending) IS DISTINCT FROM (OLD.short_by, OLD.funds_pending)
        OR OLD.status = 'WITHDRAWN' AND NEW IS DISTINCT FROM OLD)) EXECUTE FUNCTION refuse_row_change();

-- A withdrawal that ended keeps all but what a person is owed after a restore and, of a payment
-- that the chain had, the network fee, which another block can prove to be another. Before that
-- each column changes in the states that its work belongs to, or with the status alone.
CREATE TRIGGER withdrawals_written_once BEFORE UPDATE ON withdrawals FOR EACH ROW
    WHEN (NEW.status = OLD.status AND (
        (NEW.requires_approval, NEW.approval_round, NEW.approved_at, NEW.rejected_reason, NEW.cost_price,
            NEW.broadcast_at, NEW.completed_at, NEW.failure_reason, NEW.charged, NEW.charge_cost)
            IS DISTINCT FROM (OLD.requires_approval, OLD.approval_round, OLD.approved_at, OLD.rejected_reason, OLD.cost_price,
                OLD.broadcast_at, OLD.completed_at, OLD.failure_reason, OLD.charged, OLD.charge_cost)
        OR OLD.status <> 'AWAITING_APPROVAL' AND (NEW.approval_reasons, NEW.approvals_required, NEW.screening, NEW.fee_deducted)
            IS DISTINCT FROM (OLD.approval_reasons, OLD.approvals_required, OLD.screening, OLD.fee_deducted)
        OR OLD.status NOT IN ('AWAITING_APPROVAL', 'PROCESSING') AND (NEW.ends_as, NEW.ends_note, NEW.ends_by_kind, NEW.ends_by)
            IS DISTINCT FROM (OLD.ends_as, OLD.ends_note, OLD.ends_by_kind, OLD.ends_by)
        OR OLD.status <> 'BROADCAST' AND (NEW.tx_hash, NEW.chain_status, NEW.replaced_tx_hashes)
            IS DISTINCT FROM (OLD.tx_hash, OLD.chain_status, OLD.replaced_tx_hashes)
        OR OLD.status NOT IN ('COMPLETED', 'FAILED') AND NEW.network_fee IS DISTINCT FROM OLD.network_fee)
        OR (NEW.charge_rent, NEW.charge_held, NEW.charge_failure_max, NEW.charge_coin_price, NEW.charge_mint_price, NEW.request_mac)
            IS DISTINCT FROM (OLD.charge_rent, OLD.charge_held, OLD.charge_failure_max, OLD.charge_coin_price, OLD.charge_mint_price, OLD.request_mac)
        OR OLD.restored_at IS NULL AND (NEW.owed, NEW.takings) IS DISTINCT FROM (OLD.owed, OLD.takings)
        OR NEW.takings < OLD.takings) EXECUTE FUNCTION refuse_row_change();

-- What a deposit's proof says of it changes with the proof. What was found out about its sender
-- and its value is written when it is decided, and not after that.
CREATE TRIGGER deposits_written_once BEFORE UPDATE ON deposits FOR EACH ROW
    WHEN (NEW.purpose <> OLD.purpose
        OR OLD.proof_id IS NOT NULL AND NEW.proof_id = OLD.proof_id
            AND (NEW.from_address, NEW.senders, NEW.log_index, NEW.confirmed_at)
                IS DISTINCT FROM (OLD.from_address, OLD.senders, OLD.log_index, OLD.confirmed_at)
        OR NEW.status = OLD.status AND (NEW.credited_at, NEW.reversed_at) IS DISTINCT FROM (OLD.credited_at, OLD.reversed_at)
        OR OLD.status <> 'REVERSED' AND NEW.claims <> OLD.claims
        OR OLD.status NOT IN ('DETECTED', 'CONFIRMING', 'ORPHANED', 'SCREENING')
            AND (NEW.usd_value, NEW.screening, NEW.screen_after, NEW.screen_tries, NEW.reason, NEW.depth_required,
                NEW.risk_of_funds, NEW.flag_reason, NEW.flagged_at, NEW.return_to, NEW.return_risk, NEW.return_mac)
                IS DISTINCT FROM (OLD.usd_value, OLD.screening, OLD.screen_after, OLD.screen_tries, OLD.reason, OLD.depth_required,
                    OLD.risk_of_funds, OLD.flag_reason, OLD.flagged_at, OLD.return_to, OLD.return_risk, OLD.return_mac))
    EXECUTE FUNCTION refuse_row_change();
