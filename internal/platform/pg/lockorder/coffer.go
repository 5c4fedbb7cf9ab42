package lockorder

// Coffer is the lock order of the service.
var Coffer = mustIndex(&Order{
	Levels: []Level{
		{"keys lock of an organization", []Lock{{Name: "gate API keys of "}}},
		{"change request row", []Lock{
			{Name: "change_requests", Strong: true, Fresh: "its id is new"},
			{Name: "member_changes", Strong: true, Fresh: "its id is new"},
		}},
		{"settings lock of an organization", []Lock{
			{Name: "gate settings of "},
			{Name: "organization_settings", Strong: true},
			{Name: "coffer/org/keys/"},
			{Name: "api_keys"},
			{Name: "additional_api_keys"},
			{Name: "api_key_uses"},
		}},
		{"whitelist lock of an organization", []Lock{{Name: "gate whitelist of "}, {Name: "whitelisted_addresses"}}},
		{"costs lock of a customer", []Lock{{Name: "gate costs of "}}},
		{"freeze lock", []Lock{{Name: "gate freezes"}}},
		{"cursor of a chain", []Lock{
			{Name: "scan_cursors", Strong: true},
			{Name: "scan_untraced", Fresh: "its proof is new"},
			{Name: "scan_heads", Strong: true},
			{Name: "scan_head_times"},
			{Name: "finality_breaks"},
			{Name: "finality_proofs"},
		}},
		{"mints", []Lock{{Name: "mints"}}},
		{"orders", []Lock{
			{Name: "gate claims on "},
			{Name: "swap_turns", Strong: true},
			{Name: "dispatch_orders", Strong: true, Fresh: "its id is new"},
			{Name: "dispatch_voids", Fresh: "its order is locked"},
			{Name: "internal_orders", Fresh: "its order is new"},
		}},
		{"rows of features", []Lock{
			{Name: "withdrawals", Strong: true},
			{Name: "withdrawal_decisions", Fresh: "its withdrawal is locked"},
			{Name: "withdrawal_approvals"},
			{Name: "deposits", Strong: true},
			{Name: "deposit_decisions", Fresh: "its deposit is locked"},
			{Name: "deposit_resolutions", Strong: true},
			{Name: "freezes", Strong: true, Fresh: "the freeze lock is held exclusively"},
			{Name: "unknown_token_counts"},
			{Name: "customers"},
			{Name: "transfers"},
			{Name: "payout_batches"},
			{Name: "payout_items", Fresh: "its batch is new or locked"},
			{Name: "payout_approvals", Fresh: "its batch is locked"},
			{Name: "swaps", Strong: true},
			{Name: "swap_approvals", Fresh: "its swap is locked"},
			{Name: "swap_offers", Fresh: "its swap is new or locked"},
			{Name: "swap_reports", Fresh: "its swap is locked"},
			{Name: "swap_arrivals", Fresh: "its deposit is locked"},
			{Name: "price_marks", Fresh: "its id is new"},
			{Name: "fee_lines", Fresh: "its swap is locked"},
			{Name: "swap_providers"},
			{Name: "deposit_swaps"},
			{Name: "product_images"},
			{Name: "products"},
			{Name: "payment_links"},
			{Name: "checkout_settings"},
			{Name: "checkouts"},
			{Name: "checkout_options", Fresh: "its checkout is locked"},
			{Name: "checkout_quotes", Fresh: "its checkout is locked"},
			{Name: "refunds", Fresh: "its id is new"},
			{Name: "refund_parts", Fresh: "its refund is new"},
			{Name: "checkout_payments"},
			{Name: "checkout_unmatched", Fresh: "its deposit is new or locked"},
			{Name: "refund_turns"},
			{Name: "automatic_refunds", Fresh: "its refund is new"},
			{Name: "transaction_memos"},
			{Name: "token_accounts"},
		}},
		{"nonce counter", []Lock{{Name: "dispatch_accounts"}}},
		{"UTXOs", []Lock{{Name: "utxos", Strong: true}}},
		{"address funds", []Lock{{Name: "address_funds"}}},
		{"slots and attempts", []Lock{
			{Name: "dispatch_slots"},
			{Name: "dispatch_attempts"},
		}},
		{"ledger accounts", []Lock{{Name: "ledger_accounts"}, {Name: "ledger_transfers"}}},
		{"balances", []Lock{{Name: "ledger_balances", Fresh: "its account is new"}}},
		{"signer journal", []Lock{{Name: "signer_identity"}, {Name: "signer_journal"}, {Name: "wallets"}}},
	},
	Groups: []Group{
		{"events", []Lock{
			{Name: "coffer/event/sequencer"},
			{Name: "event_sequences", Strong: true},
			{Name: "coffer/delivery/endpoints/"},
			{Name: "coffer/delivery/jobs/"},
			{Name: "webhook_tests", Strong: true},
			{Name: "webhook_jobs", Strong: true},
			{Name: "webhook_endpoints"},
			{Name: "webhook_secrets", Strong: true},
			{Name: "delivery_attempts", Fresh: "its delivery is locked", Strong: true},
			{Name: "deliveries", Fresh: "its event got its number in this transaction", Strong: true},
			{Name: "events", Fresh: "its id is new", Strong: true},
			{Name: "event_gaps"},
		}},
		{"audit chain", []Lock{
			{Name: "coffer/audit/sealer"},
			{Name: "audit_chain"},
			{Name: "audit_seal"},
			{Name: "audit_anchors"},
		}},
		{"answers of risk providers", []Lock{
			{Name: "risk_answers_pruned", Strong: true},
			{Name: "risk_answers", Fresh: "its id is new", Strong: true},
		}},
		{"senders that are asked about again", []Lock{
			{Name: "sender_watch_lease"},
			{Name: "sender_watch", Strong: true},
			{Name: "sender_verdicts", Fresh: "its id is new"},
		}},
		{"mails", []Lock{
			{Name: "coffer/mail/claim"},
			{Name: "mails", Fresh: "its id is new", Strong: true},
		}},
		{"sign-in", []Lock{
			{Name: "device_links", Fresh: "its token is random", Strong: true},
			{Name: "accounts"},
			{Name: "passkey_challenges", Fresh: "its challenge is random", Strong: true},
			{Name: "account_totps", Strong: true},
			{Name: "account_recovery_codes", Fresh: "its codes are random", Strong: true},
			{Name: "account_passkeys", Strong: true},
			{Name: "operators"},
			{Name: "people"},
			{Name: "invitations"},
			{Name: "known_devices", Strong: true},
			{Name: "sign_in_failures", Strong: true},
			{Name: "sessions", Fresh: "its token is random", Strong: true},
		}},
		{"single rows", []Lock{
			{Name: "operator_keys"},
			{Name: "local_risk", Strong: true},
			{Name: "sanctions_lists"},
			{Name: "river_job", Fresh: "its id is new", Strong: true},
		}},
		{"totals", []Lock{
			{Name: "organization_total_changes", Fresh: "its id is new", Strong: true},
			{Name: "organization_totals"},
		}},
	},
	Unlocked: []Lock{
		{Name: "audit_log", Fresh: "its id is new"},
		{Name: "organizations", Fresh: "its id is new"},
		{Name: "risk_answer_uses", Fresh: "it has no unique key"},
		{Name: "scan_findings", Fresh: "the cursor of its chain is locked, or no other row"},
	},
	Exceptions: []Exception{
		{Number: 1, Taken: []string{"gate settings of "}, Function: "deposit.lockUnchangedSettings"},
		{
			Number: 2, Taken: []string{"dispatch_orders"}, Function: "withdrawal.Service.writeApproval",
			Held: []string{"withdrawals", "withdrawal_approvals"},
		},
		{
			Number: 2, Taken: []string{"dispatch_orders"}, Function: "withdrawal.Service.endWaiting",
			Held: []string{"withdrawals"},
		},
		{
			Number: 4, Taken: []string{"dispatch_orders"}, Function: "dispatch.Submit",
			Held: []string{
				"withdrawals", "deposits", "deposit_resolutions", "payout_batches", "swaps", "refunds",
				"checkout_payments", "address_funds", "utxos", "ledger_accounts", "ledger_transfers", "ledger_balances",
			},
		},
		{
			Number: 5, Function: "deposit.Service.OnFinal", Held: []string{"utxos", "deposits", "checkout_payments"},
			Taken: []string{"deposits", "dispatch_orders"},
		},
		{
			Number: 6, Function: "dispatch.Voider.tryFinishVoid", Held: []string{"signer_journal"},
			Taken: []string{
				"dispatch_voids", "withdrawals", "swaps", "ledger_accounts", "ledger_transfers", "ledger_balances",
			},
		},
		{
			Number: 7, Function: "deposit.Service.claimLoss", Held: []string{"deposits", "freezes"},
			Taken: []string{"scan_cursors"},
		},
		{Number: 9, Function: "journal.RestoreDatabase"},
	},
})

func mustIndex(o *Order) *Order {
	if err := o.index(); err != nil {
		panic(err)
	}
	return o
}
