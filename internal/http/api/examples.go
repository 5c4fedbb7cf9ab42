package api

import (
	"github.com/cofferpay/coffer/internal/http/resource"
	"github.com/cofferpay/coffer/webhook"
)

var (
	exampleMint = Mint{
		ID: 1, Decimals: 6, Symbol: "USDC", Name: "USD Coin", Chain: "ETHEREUM", CAIP2: new("eip155:1"),
		ContractAddress: &resource.ExampleContract, Kind: "TOKEN", Network: "MAINNET", DepositEnabled: true,
		WithdrawEnabled:  true,
		MinDepositAmount: "1000000", MinWithdrawAmount: "1000000", ConfirmationsRequired: 64, Finality: "FINALIZED",
		USDPrice: new("0.9998"), USDPriceAt: &resource.ExampleAt,
	}

	exampleAddress = DepositAddress{
		CustomerID: "user_42", Chain: "ETHEREUM", Address: resource.ExampleHolder, MintID: 1,
		MinDepositAmount: "1000000",
		PaymentURI:       "ethereum:" + resource.ExampleContract + "@1/transfer?address=" + resource.ExampleHolder,
	}

	exampleProductAddress = ProductAddress{
		Product: "CHECKOUT", Chain: "ETHEREUM", Address: resource.ExampleHolder, MintID: 1, MinDepositAmount: "1000000",
		PaymentURI: "ethereum:" + resource.ExampleContract + "@1/transfer?address=" + resource.ExampleHolder,
	}

	exampleCancelled = func() webhook.Withdrawal {
		w := resource.ExampleWithdrawal
		w.Status = "CANCELLED"
		return w
	}()

	exampleEstimate = Estimate{
		NetworkFee: "5000", NetworkFeeMintID: new(7), NetworkFeeUSD: new("0.0125"),
		MaxAmount: new("5000000"), ExpiresAt: resource.ExampleAt,
	}

	exampleHold = GateResult{
		Gate: "USD_THRESHOLD", Result: "HOLD", Reason: "USD_THRESHOLD", USDValue: "12000.00", Threshold: "10000.00",
		Price: "0.9998", PriceAt: "2026-01-31T11:59:48Z", PriceAgeSeconds: "12", PriceSource: "fixed",
	}

	examplePreview = Preview{
		WouldBe: "AWAITING_APPROVAL", ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"},
		Gates: webhook.List[GateResult]{
			{Gate: "ADDRESS", Result: "PASS"},
			{Gate: "RISK", Result: "NOT_CONFIGURED"},
			exampleHold,
			{Gate: "LIQUIDITY", Result: "PASS", Liquid: "900000000"},
		},
		NetworkFee: new("5000"), NetworkFeeMintID: new(7),
	}

	exampleDecision = Decision{
		DecidedAt: resource.ExampleAt, Act: "REQUESTED",
		Actor: &webhook.Actor{Type: "API_KEY", ID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC"}, Status: "AWAITING_APPROVAL",
		ApprovalReasons: webhook.List[string]{"USD_THRESHOLD"}, Gates: examplePreview.Gates,
	}

	exampleTransfer = webhook.Transfer{
		TransferID: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", IdempotencyKey: "charge-991", MintID: 1,
		Mint:   resource.ExampleEmbeddedMint,
		Amount: "5000000", AmountDecimal: "5", From: webhook.Party{CustomerID: new("user_42")},
		To:        webhook.Party{Product: new("CUSTODIAL")},
		Reference: new("order-77"), CreatedAt: resource.ExampleAt,
	}

	exampleSwapQuote = SwapQuote{
		EstimatedAmountOut: "149250000", MinAmountOut: "147757500", EstimatedTimeSeconds: new(22),
		FeeAmount: "2500000", FeeBps: 25, USDValue: new("149.80"), QuotedAt: resource.ExampleAt, Provider: "ONE_CLICK",
		Rate: "149.25", PriceImpactBps: new(37),
	}

	exampleRestoredSwap = func() webhook.CustomerSwap {
		w := resource.ExampleSwap
		w.Status, w.FailureReason = "FAILED", new("PROVIDER_REFUNDED")
		w.OriginTxHash, w.RefundTxHash = new(resource.ExampleHash), new(resource.ExampleHash)
		w.RefundStatus, w.RefundedAmount, w.RestoredAt = "RESTORED", new("998500000"), &resource.ExampleAt
		return w
	}()

	exampleProductBalance = ProductBalance{
		Product: "CUSTODIAL", MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Available: "5000000", Pending: "0",
		PendingDeposit: "0", Total: "5000000",
		USDValue: new("5.00"), OwedToCustomers: new("6000000"),
	}

	exampleEntry = Entry{
		EntryID: "le_4711_c", Account: webhook.Party{Product: new("CUSTODIAL")}, Balance: "AVAILABLE", MintID: 1,
		Symbol: "USDC", Chain: "ETHEREUM",
		Direction: "CREDIT", Amount: "5000000", AmountDecimal: "5", Cause: "TRANSFER",
		ResourceID: "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", CreatedAt: resource.ExampleAt,
	}

	exampleCustomer = Customer{
		CustomerID: "user_42", CustomerEmail: new("a@example.com"), Status: "ACTIVE",
		Metadata: webhook.Metadata{"tier": "gold"}, CreatedAt: resource.ExampleAt, UpdatedAt: resource.ExampleAt,
	}

	exampleFrozen = func() Customer {
		frozen := exampleCustomer
		frozen.Status = "FROZEN"
		return frozen
	}()

	exampleBalance = Balance{
		MintID: 1, Symbol: "USDC", Chain: "ETHEREUM", Available: "5000000", PendingDeposit: "0",
		PendingWithdraw: "1000000",
		InSwap:          "0", Held: "0", Total: "6000000", USDValue: new("6.00"),
	}

	exampleEndpoint = Endpoint{
		EndpointID: "we_01J9ZW3M8Q4S5T6V7W8X9YZABC", URL: "https://example.com/hooks/coffer", Events: []string{},
		Description: "production", Status: "ENABLED", APIVersion: "2026-01-31", CreatedAt: resource.ExampleAt,
		UpdatedAt: resource.ExampleAt,
	}

	exampleRotated = RotatedSecret{
		Endpoint: exampleEndpoint, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		FormerSecretUntil: webhook.At(resource.ExampleAt.AddDate(0, 0, 1)),
	}

	exampleAttempt = DeliveryAttempt{
		EventID: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: "CUSTOMER_DEPOSIT", Attempt: 2, Status: "FAILED",
		DeliveryStatus: "PENDING", NextAttemptAt: &resource.ExampleAt,
		Request: DeliveryRequest{
			URL:  "https://example.com/hooks/coffer",
			Body: new(`{"id":"evt_01J9ZW3M8Q4S5T6V7W8X9YZABC","type":"CUSTOMER_DEPOSIT"}`),
			Headers: map[string]string{
				"webhook-id":        "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC",
				"webhook-timestamp": "1769860805", "webhook-attempt": "2",
			},
		},
		Response:   &DeliveryResponse{StatusCode: 502, Body: "upstream is down"},
		Error:      new("the receiver answered 502 bad gateway: only 2xx is success"),
		DurationMs: 41, CreatedAt: resource.ExampleAt,
	}

	exampleJob = WebhookJob{
		JobID: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC", Kind: "RECOVER", Status: "RUNNING",
		EndpointID: new("we_01J9ZW3M8Q4S5T6V7W8X9YZABC"),
		Since:      &resource.ExampleAt, OnlyFailed: true, Examined: 1200, Queued: 311, Pending: 290, Delivered: 21,
		CreatedAt: resource.ExampleAt,
	}

	exampleResend = WebhookJob{
		JobID: "wj_01J9ZW3M8Q4S5T6V7W8X9YZABC", Kind: "RESEND", Status: "RUNNING",
		EventID: new("evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"), CreatedAt: resource.ExampleAt,
	}

	exampleEndpointSecret = EndpointWithSecret{
		Endpoint: exampleEndpoint, Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}

	exampleEnvelope = webhook.Envelope{
		ID: "evt_01J9ZW3M8Q4S5T6V7W8X9YZABC", Type: webhook.CustomerDeposit, Timestamp: resource.ExampleAt,
		APIVersion:  "2026-01-31",
		Environment: webhook.Live, OrganizationID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC", Sequence: 10422,
		Data: resource.MustJSON(resource.ExampleDeposit),
	}
)
