package webhook

import "time"

// Sample is the data of a realistic event of that type, as POST
// /webhook-endpoints/{id}/test sends it: an object of this package with invented names
// and amounts, about nothing that happened. ok is false for a type that this version does
// not know. Use it to try a receiver without a service.
func Sample(t Type) (data any, ok bool) {
	switch t {
	case CustomerDeposit:
		return sampleDeposit(), true
	case CustomerDepositApproved:
		d := sampleDeposit()
		d.IsFlagged, d.RiskOfFunds, d.FlagReason = true, text("HIGH"), sampleReason()
		d.Resolution = sampleResolution("APPROVED", nil, nil)
		return d, true
	case CustomerDepositRejected:
		d := sampleDeposit()
		d.Status, d.CreditedAt, d.IsFlagged, d.RiskOfFunds, d.FlagReason = "REJECTED", nil, true, text("SEVERE"), sampleReason()
		d.Resolution = sampleResolution("REJECTED", text(sampleStranger), text(sampleReturn))
		return d, true
	case CustomerDepositRedirected:
		d := sampleDeposit()
		d.Status, d.CreditedAt, d.IsFlagged, d.RiskOfFunds, d.FlagReason = "REDIRECTED", nil, true, text("SEVERE"), sampleReason()
		d.Resolution = sampleResolution("REDIRECTED", text(sampleStranger), text(sampleReturn))
		d.Resolution.DecidedBy.Type = "OPERATOR"
		return d, true
	case CustomerDepositReversed:
		d := sampleDeposit()
		d.Status, d.ChainStatus = "REVERSED", "REORGED"
		d.Reversal = &Reversal{ReversedAt: later(3600), TakenBack: "4000000", Loss: "1000000"}
		return d, true
	case CustomerDepositSeen:
		d := sampleDeposit()
		d.Status, d.ChainStatus, d.Confirmations, d.ConfirmedAt, d.CreditedAt = "CONFIRMING", "INCLUDED", 1, nil, nil
		d.Screening = Screening{Status: "PENDING"}
		return d, true
	case OrganizationDeposit:
		return ownDeposit(sampleDeposit()), true
	case OrganizationDepositReversed:
		d := ownDeposit(sampleDeposit())
		d.Status, d.ChainStatus = "REVERSED", "REORGED"
		d.Reversal = &Reversal{ReversedAt: later(3600), TakenBack: "5000000", Loss: "0"}
		return d, true
	case CustomerWithdrawAwaitingApproval:
		return sampleWithdrawal("AWAITING_APPROVAL"), true
	case CustomerWithdrawBlocked:
		w := sampleWithdrawal("BLOCKED")
		w.Screening = WithdrawalScreening{Status: "BLOCKED", Severity: text("SEVERE"), Provider: text("TRM")}
		return w, true
	case CustomerWithdrawApproved:
		return sampleWithdrawal("PROCESSING"), true
	case CustomerWithdrawRejected:
		w := sampleWithdrawal("REJECTED")
		w.RejectedReason = text("The customer asked for another address.")
		return w, true
	case CustomerWithdrawCancelled:
		return sampleWithdrawal("CANCELLED"), true
	case CustomerWithdraw:
		return sampleWithdrawal("BROADCAST"), true
	case CustomerWithdrawFailed:
		w := sampleWithdrawal("FAILED")
		w.FailureReason = text("REVERTED")
		return w, true
	case CustomerWithdrawCompleted:
		return sampleWithdrawal("COMPLETED"), true
	case OrganizationWithdraw, OrganizationWithdrawAwaitingApproval, OrganizationWithdrawBlocked, OrganizationWithdrawApproved,
		OrganizationWithdrawRejected, OrganizationWithdrawCancelled, OrganizationWithdrawFailed, OrganizationWithdrawCompleted:
		of, _ := Sample("CUSTOMER" + t[len(OfOrganization):])
		w := of.(Withdrawal)
		w.Type, w.CustomerID, w.Product, w.WhitelistedAddressID = OfOrganization, nil, text("CUSTODIAL"), text("wla_01J9ZW3M8Q4S5T6V7W8X9YZABC")
		return w, true
	case CustomerSwapFailed:
		return sampleSwap(), true
	case CustomerSwapRefunded:
		refunded := sampleSwap()
		refunded.RefundedAmount = text("998500000000000")
		return refunded, true
	case CustomerSwapDelayed:
		failed := sampleSwap()
		return SwapDelayed{CustomerID: failed.CustomerID, Swap: failed.Swap}, true
	case OrganizationSwapCompleted:
		return sampleOrganizationSwap(), true
	case OrganizationSwapFailed:
		w := sampleOrganizationSwap()
		w.Status, w.WithdrawalID, w.CompletedAt = "FAILED", nil, nil
		w.FailureReason = text("DESTINATION_UNAVAILABLE")
		w.FailureMessage = text("The whitelist no longer has the address.")
		return w, true
	case TransferCompleted:
		return Transfer{
			TransferID: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", IdempotencyKey: "charge-991", MintID: 1, Mint: sampleUSDC(),
			Amount: "5000000", AmountDecimal: "5", From: Party{CustomerID: text("user_42")}, To: Party{Product: text("CUSTODIAL")},
			Reference: text("order-77"), Metadata: Metadata{"plan": "yearly"}, CreatedAt: later(0),
		}, true
	case CheckoutProcessing:
		c := sampleCheckout()
		c.Status, c.AmountPaid, c.AmountPaidUSD, c.CompletedAt = "PROCESSING", "0.00", text("0.00"), nil
		c.Payments[0].Status = "SEEN"
		return c, true
	case CheckoutCompleted:
		return sampleCheckout(), true
	case CheckoutExpired:
		c := sampleCheckout()
		c.Status, c.AmountPaid, c.AmountPaidUSD, c.AmountRemaining = "EXPIRED", "0.00", text("0.00"), "49.99"
		c.CompletedAt, c.UpdatedAt, c.Payments = nil, later(1802), nil
		return c, true
	case CheckoutException:
		c := sampleCheckout()
		c.Exception, c.Details.Exceptions = "OVERPAID", List[string]{"OVERPAID"}
		c.AmountPaid, c.AmountPaidUSD, c.AmountOverpaid = "60.00", text("60.00"), "10.01"
		p := &c.Payments[0]
		p.Amount, p.Value, p.USDValue = "60000000", text("60.00"), text("60.00")
		return c, true
	case CheckoutRefunded:
		c := sampleCheckout()
		c.Exception, c.Details.Exceptions = "REFUNDED", List[string]{"REFUNDED"}
		c.Refund, c.UpdatedAt = sampleRefund(), later(90000)
		return c, true
	case BatchPayoutAwaitingApproval, BatchPayoutProcessing, BatchPayoutCompleted, BatchPayoutRejected, BatchPayoutFailed:
		return sampleBatchPayout(t), true
	case InvoiceIssued:
		return sampleInvoice(), true
	case CreditNoteIssued:
		return sampleCreditNote(), true
	}
	return nil, false
}

const (
	sampleCustomer = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"
	sampleStranger = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	sampleHash     = "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"
	sampleReturn   = "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"
)

func text(s string) *string { return &s }

// later returns the time so many seconds after the sample began.
func later(seconds int) Time {
	return At(time.Date(2026, time.January, 31, 12, 0, seconds, 0, time.UTC))
}

func moment(seconds int) *Time {
	t := later(seconds)
	return &t
}

func sampleUSDC() Mint {
	return Mint{ID: 1, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", Decimals: 6, ContractAddress: text("0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")}
}

func sampleDeposit() Deposit {
	mint, mintID, index, block, score := sampleUSDC(), 1, int64(3), int64(24356789), 12
	return Deposit{
		DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", CustomerID: text("user_42"), CustomerEmail: text("a@example.com"),
		MintID: &mintID, Mint: &mint, Chain: "ETHEREUM", Amount: "5000000", AmountDecimal: text("5"), USDValue: text("5.00"),
		Address: sampleCustomer, FromAddresses: List[string]{sampleStranger}, TxHash: sampleHash, LogIndex: &index, BlockNumber: &block,
		Confirmations: 66, ConfirmationsRequired: 64, Source: "EXTERNAL", Status: "CREDITED", ChainStatus: "FINALIZED",
		Screening:  Screening{Status: "PASSED", Provider: text("CHAINALYSIS"), Severity: text("LOW"), Score: &score, ScreenedAt: moment(901)},
		DetectedAt: moment(0), ConfirmedAt: moment(900), CreditedAt: moment(902), CreatedAt: later(0),
	}
}

func sampleCheckout() Checkout {
	mintID := 1
	return Checkout{
		CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		URL:        text("https://pay.example.com/c/co_01J9ZW3M8Q4S5T6V7W8X9YZABC#k=3q2-7w"),
		Status:     "COMPLETED", Exception: "NONE",
		LineItems: List[LineItem]{{
			ProductID: text("prod_01J9ZW3M8Q4S5T6V7W8X9YZABC"), Name: "Gold plan", UnitPrice: "49.99", Quantity: 1,
		}},
		Currency: "USD", AmountDue: "49.99", AmountPaid: "49.99", AmountPaidUSD: text("49.99"), AmountRemaining: "0.00",
		AmountOverpaid: "0.00", AcceptedMintIDs: List[int]{1},
		PaymentOptions: List[PaymentOption]{{
			MintID: 1, Address: text(sampleCustomer), Amount: text("49990000"), Rate: text("1.00"),
			RateExpiresAt: moment(1800),
			AddressProof: &AddressProof{
				Family: "EVM", Purpose: CheckoutPurpose, Path: "m/44'/60'/1'/4/9",
				Signature: "cq9pMNrGRyUWvtCVCNWJ93AjDzKTDSzdz8Uxjmj9q2IvtLiKTTn3gY6JaKsEQnWTDBJOZJrHBI7vCR0nTdaBAQ==",
			},
		}},
		Payments: List[CheckoutPayment]{{
			DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", MintID: &mintID, Chain: "ETHEREUM", Amount: "49990000",
			Value: text("49.99"), USDValue: text("49.99"), Price: text("1"),
			PriceSource: text("fixed"), PricedAt: moment(0),
			TxHash: sampleHash, Status: "CREDITED", Counts: true, PaidAt: later(240),
		}},
		CustomerID: text("user_42"), Reference: text("order-77"), Metadata: Metadata{"plan": "yearly"},
		IdempotencyKey: text("checkout-77"), SuccessURL: text("https://shop.example.com/thanks"),
		CancelURL: text("https://shop.example.com/cart"), ExpiresAt: later(1800), CompletedAt: moment(902),
		CreatedAt: later(0), UpdatedAt: later(902),
	}
}

func sampleRefund() *Refund {
	return &Refund{
		RefundID: "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC", CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC", Status: "COMPLETED",
		Kind: "FULL", MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Amount: "49990000", FeeMode: "ORGANIZATION",
		Reason: text("The parcel came back."), ToAddress: text(sampleStranger), AddressProven: true, Attempt: 1,
		WithdrawalID: text("wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"), TxHash: text(sampleReturn),
		Parts:          List[RefundPart]{{DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", Amount: "49990000"}},
		IdempotencyKey: text("refund-77"), CreatedAt: later(86400), UpdatedAt: later(90000),
		ExpiresAt: later(86400 + 30*86400), CompletedAt: moment(90000),
	}
}

func sampleBatchPayout(t Type) BatchPayout {
	b := BatchPayout{
		BatchPayoutID: "bp_01J9ZW3M8Q4S5T6V7W8X9YZABC", Status: "AWAITING_APPROVAL", Mode: "STRICT",
		ContentHash: "sha256:9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b", ItemCount: 120,
		ValidCount: 120, Counts: BatchPayoutCounts{Waiting: 120},
		Totals:    List[BatchPayoutTotal]{{MintID: 1, Amount: "600000000"}},
		Approvals: Approvals{Required: 2}, IdempotencyKey: text("salaries-2026-01"), CreatedAt: later(0),
		SubmittedAt: moment(60),
	}
	switch t {
	case BatchPayoutProcessing:
		b.Status, b.Approvals.Received, b.ApprovedAt = "PROCESSING", 2, moment(900)
	case BatchPayoutCompleted:
		b.Status, b.Approvals.Received, b.ApprovedAt = "PARTIALLY_COMPLETED", 2, moment(900)
		b.Counts, b.EndedAt = BatchPayoutCounts{Paid: 119, Unpaid: 1}, moment(3600)
	case BatchPayoutRejected:
		b.Status, b.Problem, b.EndedAt = "REJECTED", text("The list is of last month."), moment(900)
	case BatchPayoutFailed:
		b.Status, b.Problem, b.EndedAt = "INVALID", text("Row 7: Risk screening refuses the address."), moment(70)
	}
	return b
}

// ownDeposit makes a customer's deposit one of the organization's own.
func ownDeposit(d Deposit) Deposit {
	d.CustomerID, d.CustomerEmail, d.Product = nil, nil, text("CUSTODIAL")
	return d
}

func sampleReason() *FlagReason {
	score := 98
	return &FlagReason{Code: "SEVERITY_ABOVE_THRESHOLD", Score: &score, Severity: text("SEVERE"), Entity: text("a mixer"), Categories: List[string]{"MIXING"}, Provider: text("TRM")}
}

func sampleResolution(decision string, to, hash *string) *Resolution {
	r := &Resolution{
		Decision: decision, Note: text("Looked at by two people."), DecidedAt: later(5000), ToAddress: to, TxHash: hash, Amount: text("5000000"),
		DecidedBy: Actor{Type: "USER", ID: "usr_01J9ZW3M8Q4S5T6V7W8X9YZABC", Name: text("Ada")},
	}
	if hash != nil {
		r.NetworkFee = text("64702087361451")
	}
	return r
}

func sampleWithdrawal(status string) Withdrawal {
	native := 7
	w := Withdrawal{
		WithdrawalID: "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: OfCustomer, IdempotencyKey: text("payout-991"), CustomerID: text("user_42"), MintID: 1, Mint: sampleUSDC(),
		Amount: "5000000", AmountDecimal: "5", USDValue: text("5.00"), ToAddress: sampleStranger, NetworkFeeMintID: &native, FeeMode: "ORGANIZATION",
		Status: status, ChainStatus: "NONE", RequiresApproval: true, ApprovalReasons: List[string]{"USD_THRESHOLD"}, Approvals: Approvals{Required: 1},
		Screening: WithdrawalScreening{Status: "NOT_CONFIGURED"}, Reference: text("order-77"), Metadata: Metadata{"run": "2026-01"}, CreatedAt: later(0),
	}
	switch status {
	case "PROCESSING":
		w.Approvals.Received, w.ApprovedAt = 1, moment(60)
	case "BROADCAST":
		w.Approvals.Received, w.ApprovedAt, w.BroadcastAt, w.TxHash, w.ChainStatus = 1, moment(60), moment(62), text(sampleHash), "PENDING"
	case "COMPLETED", "FAILED":
		w.Approvals.Received, w.ApprovedAt, w.BroadcastAt, w.TxHash, w.ChainStatus = 1, moment(60), moment(62), text(sampleHash), "FINALIZED"
		w.CompletedAt, w.NetworkFee = moment(960), text("64702087361451")
	}
	if status == "FAILED" {
		w.ChainStatus = "REVERTED"
	}
	return w
}

func sampleOrganizationSwap() OrganizationSwap {
	return OrganizationSwap{
		SwapID: "os_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: OfOrganization, IdempotencyKey: "rebalance-12",
		Product: "CUSTODIAL", FromMintID: 7, ToMintID: 1,
		AmountIn: "1000000000000000", EstimatedAmountOut: "3149250", MinAmountOut: "3117757",
		WhitelistedAddressID: "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC", ToAddress: sampleStranger, AmountOut: text("3149250"),
		OriginTxHash: text(sampleHash), DestinationTxHash: text(sampleReturn),
		WithdrawalID: text("wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"),
		Status:       "COMPLETED", USDValue: text("3.15"), RefundStatus: "NONE", Provider: text("ONE_CLICK"),
		CreatedAt: later(0), UpdatedAt: later(1200), DeliveredAt: moment(600), CompletedAt: moment(1200),
	}
}

func sampleSwap() SwapFailed {
	from := Mint{ID: 7, Symbol: "ETH", Name: "Ether", Chain: "ETHEREUM", Decimals: 18}
	return SwapFailed{
		CustomerID: "user_42",
		Swap: SwapSummary{
			CustomerSwapID: "cs_01J9ZW3M8Q4S5T6V7W8X9YZABC", IdempotencyKey: "swap-7781", FromMint: from, ToMint: sampleUSDC(),
			AmountIn: "1000000000000000", EstimatedAmountOut: "3149250", OriginTxHash: text(sampleHash), CreatedAt: later(0),
		},
	}
}
